"""Plugin for pytest: `pytest --draftproof ADAPTER` runs a test for every requirement.

pytest collects these tests as draftproof::ADAPTER::REQUIREMENT, and selects, reports and
distributes them like all other tests. A process judges a group of requirements once, when the first
of their tests runs. Without a named adapter, the plugin imports and collects nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from draftproof.conformance.protocol.modes import MODES

if TYPE_CHECKING:
    from draftproof.conformance.evidence.certificate import Certificate
    from draftproof.conformance.evidence.decision import Decision
    from draftproof.conformance.requirements.task import Task
    from draftproof.conformance.run.campaign import Campaign

ROOT = "draftproof"
"""First part of the ids of all tests, in place of a file."""


class MissedShould(pytest.PytestWarning):
    """Warning that a SHOULD requirement fails; the message says how."""


# --- what is asked for ---------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the ini settings that can replace them."""
    group = parser.getgroup("draftproof", "verifiers of speculative decoding")
    group.addoption(
        "--draftproof",
        action="append",
        metavar="ADAPTER",
        help="Judge an adapter, with a test for every requirement: a built-in name, "
        "package.module:attribute, ./file.py:attribute or harness:COMMAND. Repeatable.",
    )
    group.addoption(
        "--draftproof-mode",
        choices=MODES,
        help="Cases to judge; certify judges all, without skips or known failures. "
        "[default: standard]",
    )
    group.addoption(
        "--draftproof-seed",
        type=int,
        metavar="SEED",
        help="Seed for sampled tests. [default: random]",
    )
    group.addoption(
        "--draftproof-known-failures",
        metavar="FILE",
        help="File of known failures of every adapter: each line a requirement id and a link to "
        "its issue.",
    )
    parser.addini("draftproof_adapters", "Like --draftproof, one per line.", type="linelist")
    parser.addini("draftproof_mode", "Like --draftproof-mode.", default="standard")
    parser.addini("draftproof_known_failures", "Like --draftproof-known-failures.", default="")


@dataclass(frozen=True)
class _Asked:
    """A requirement to judge for an adapter, given by name.

    `label` is the adapter's name in ids. `false_alarm` is the share of the campaign's probability
    for the requirements judged `together`.
    """

    name: str
    label: str
    requirement: str
    together: tuple[str, ...]
    false_alarm: float

    @property
    def id(self) -> str:
        return f"{ROOT}::{self.label}::{self.requirement}"


@dataclass(frozen=True)
class _Plan:
    """All requests of a session and their terms, made once and sent to every worker."""

    mode: str
    seed: int
    known_failures: Mapping[str, str]
    asked: tuple[_Asked, ...]


_PLAN = pytest.StashKey[_Plan]()
_REPORTS = pytest.StashKey[dict[tuple[str, ...], "Certificate | str"]]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of the tests for `-m`."""
    config.addinivalue_line("markers", "draftproof: a requirement, judged for an adapter.")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Plan the tests before a worker starts. Raises `pytest.UsageError`."""
    config = session.config
    if hasattr(config, "workerinput"):
        if (plan := config.workerinput.get("draftproof")) is not None:
            asked = tuple(_Asked(**each) for each in plan["asked"])
            config.stash[_PLAN] = _selected(config, _Plan(**{**plan, "asked": asked}))
    elif names := _names(config):
        config.stash[_PLAN] = _selected(config, _planned(config, names))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send the plan to a worker of pytest-xdist."""
    if (plan := node.config.stash.get(_PLAN, None)) is not None:
        node.workerinput["draftproof"] = asdict(plan)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the report's header line, with the adapters and the seed."""
    if (plan := config.stash.get(_PLAN, None)) is None:
        return None
    labels = ", ".join(dict.fromkeys(each.label for each in plan.asked))
    return _plain(f"draftproof: {labels}; mode {plan.mode}, seed {plan.seed}")


def _names(config: pytest.Config) -> list[str]:
    """Return the names of the adapters, valid from every folder."""
    given, folder = _given(config, "draftproof", "draftproof_adapters")
    if not given:
        return []
    from draftproof.conformance.protocol.loading import name_from

    return [name_from(folder, name) for name in dict.fromkeys(given)]


def _given(config: pytest.Config, option: str, setting: str) -> tuple[Any, Path]:
    """Return the value of an option or its setting, and the folder that its paths start from."""
    if given := config.getoption(option):
        return given, config.invocation_params.dir
    home = config.rootpath if config.inipath is None else config.inipath.parent
    return config.getini(setting), home


def _planned(config: pytest.Config, names: Sequence[str]) -> _Plan:
    mode = config.getoption("draftproof_mode") or config.getini("draftproof_mode")
    if mode not in MODES:
        raise pytest.UsageError(f"draftproof_mode must be one of {', '.join(MODES)}, got {mode!r}")
    seed = config.getoption("draftproof_seed")
    if seed is not None and seed < 0:
        raise pytest.UsageError(f"--draftproof-seed must not be negative, got {seed}")
    given, folder = _given(config, "draftproof_known_failures", "draftproof_known_failures")
    file = folder / given if given else None
    if mode == "certify" and (file is not None or seed is not None):
        raise pytest.UsageError(
            "mode certify allows no known failures and draws a random seed: remove the option or "
            "setting for known failures, and --draftproof-seed"
        )
    known = {} if file is None else _known_failures(file)
    from draftproof.reference.extras import installation

    try:
        from draftproof.conformance.run.campaign import Campaign
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise pytest.UsageError(f"--draftproof needs PyTorch: {installation('torch')}") from None
    campaigns = [Campaign(name, mode=mode) for name in names]
    # One that is given no seed draws one; all adapters have the same.
    seed = campaigns[0].seed if seed is None else seed
    taken: list[Path] = []
    asked = [each for campaign in campaigns for each in _asked(campaign, taken)]
    # With --runxfail nothing is excused, as pytest has it.
    return _Plan(mode, seed, {} if config.getoption("runxfail") else known, tuple(asked))


def _known_failures(file: Path) -> dict[str, str]:
    from draftproof.conformance.evidence.known_failures import (
        InvalidKnownFailures,
        read_known_failures,
    )

    try:
        return read_known_failures(file)
    except InvalidKnownFailures as error:
        raise pytest.UsageError(str(error)) from None


def _asked(campaign: Campaign, taken: list[Path]) -> Iterator[_Asked]:
    """Yield the requests to an adapter, with a label that is not in `taken`."""
    from draftproof.conformance.evidence.certificate import place_for
    from draftproof.conformance.protocol.adapter import (
        AdapterFailed,
        AdapterLost,
        InvalidAdapter,
        UnknownAdapter,
    )
    from draftproof.conformance.protocol.loading import load_program
    from draftproof.conformance.run.campaign import tasks_of, tests_of

    try:
        declared = load_program(campaign.name).declared
    except (UnknownAdapter, AdapterFailed, InvalidAdapter, AdapterLost) as error:
        raise pytest.UsageError(f"--draftproof {campaign.name}: {error}") from None
    # What is a name of a file is a part of an id.
    taken.append(place_for(declared.name, Path(), taken=taken))
    tasks = tasks_of(campaign, declared)
    groups = _groups(tasks)
    own = [[task for task in tasks if task.requirements[0] in group] for group in groups]
    counts = [tests_of(each) if each else 0 for each in own]
    for requirement in _of_verifiers():
        at = next(at for at, group in enumerate(groups) if requirement in group)
        # All tests of all calls have the same share, and all together the campaign's.
        share = campaign.false_alarm * (counts[at] / sum(counts) if counts[at] else 1)
        yield _Asked(campaign.name, taken[-1].stem, requirement, groups[at], share)


def _groups(tasks: Iterable[Task]) -> list[tuple[str, ...]]:
    """Return the requirements in groups; requirements of the same task share a group."""
    import networkx

    every = _of_verifiers()
    graph: networkx.Graph[str] = networkx.Graph()
    for task in tasks:
        networkx.add_path(graph, task.requirements)
    # What no task judges is answered together.
    networkx.add_path(graph, [each for each in every if each not in graph])
    return [
        tuple(each for each in every if each in group)
        for group in networkx.connected_components(graph)
    ]


def _of_verifiers() -> list[str]:
    """Return the requirements on verifiers, without those on whole engines."""
    from draftproof.spec import requirements

    return [name for name, each in requirements().items() if not each.is_of_engines]


def _selected(config: pytest.Config, plan: _Plan) -> _Plan:
    """Return the part of a plan selected by ids on the command line; hide the ids from pytest."""
    from difflib import get_close_matches

    ids = {argument: _own_id(config, argument) for argument in config.args}
    wanted = {argument: own for argument, own in ids.items() if own}
    if not wanted:
        return plan
    config.args = [argument for argument in config.args if argument not in wanted]
    for argument, own in wanted.items():
        if not any(_leads_to(own, each) for each in plan.asked):
            near = get_close_matches(own, [each.id for each in plan.asked], n=1)
            meant = f", did you mean {near[0]}?" if near else ""
            raise pytest.UsageError(f"not found: {argument}{meant}")
    kept = [each for each in plan.asked if any(_leads_to(own, each) for own in wanted.values())]
    return replace(plan, asked=tuple(kept))


def _own_id(config: pytest.Config, argument: str) -> str | None:
    """Return the id that an argument names, relative to the root; None for other tests."""
    place, separator, rest = argument.partition("::")
    # In other folders than the root, pytest shows it with the way there.
    seen = os.path.normpath(config.invocation_params.dir / place)
    ours = place == ROOT or seen == os.path.normpath(config.rootpath / ROOT)
    return f"{ROOT}::{rest}" if separator and ours else None


def _leads_to(own: str, asked: _Asked) -> bool:
    return asked.id == own or asked.id.startswith(f"{own}::")


# --- the tests -------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Collect the plan's tests after all other tests."""
    report = yield
    plan = collector.config.stash.get(_PLAN, None)
    if plan is not None and isinstance(collector, pytest.Session) and report.passed:
        for label in dict.fromkeys(each.label for each in plan.asked):
            own = AdapterCollector.from_parent(
                collector,
                name=f"{ROOT}::{label}",
                nodeid=f"{ROOT}::{label}",
                asked=[each for each in plan.asked if each.label == label],
            )
            report.result.append(own)
    return report


class AdapterCollector(pytest.Collector):
    """An adapter, with the requirements to judge."""

    def __init__(self, *, asked: Sequence[_Asked], **node: Any) -> None:
        super().__init__(**node)
        self._asked = asked

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for every requirement."""
        for each in self._asked:
            yield RequirementItem.from_parent(self, name=each.requirement, asked=each)


class RequirementItem(pytest.Item):
    """A requirement, judged for an adapter."""

    def __init__(self, *, asked: _Asked, **node: Any) -> None:
        super().__init__(**node)
        self._asked = asked
        self.add_marker("draftproof")
        if self.config.pluginmanager.hasplugin("xdist"):
            self.add_marker(pytest.mark.xdist_group(f"{asked.label}.{asked.together[0]}"))

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return a path in place of a file, no line number, and the heading of a failure."""
        return self.config.rootpath / ROOT, None, f"{self.name} of {self._asked.label}"

    def runtest(self) -> None:
        """Judge the requirement and its group, or recall its verdict."""
        plan = self.config.stash[_PLAN]
        self.user_properties.append(("seed", plan.seed))
        report = _report(self.config, plan, self._asked)
        if isinstance(report, str):
            pytest.fail(f"{self._asked.label} could not run: {report}", pytrace=False)
        decision = next(d for d in report.decisions if d.requirement.id == self.name)
        self.user_properties += _properties(decision)
        self._conclude(plan, report, decision)

    def _conclude(self, plan: _Plan, report: Certificate, decision: Decision) -> None:
        """Fail, skip, warn or pass."""
        from draftproof.conformance.evidence.decision import overall
        from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED

        told = _told(plan, report, decision)
        issue = plan.known_failures.get(self.name)
        if issue and decision.verdict == FAIL:
            pytest.xfail(issue)
        if overall([decision], strict=plan.mode == "certify") != PASS:
            pytest.fail(told, pytrace=False)
        if issue:
            pytest.fail(f"{told}\na known failure that no longer fails: {issue}", pytrace=False)
        if decision.verdict == SKIPPED:
            pytest.skip(_reason(decision))
        if decision.verdict != PASS:
            with suppress(MissedShould):
                # There is no line of a file to point to, as `self.warn` would.
                warnings.warn_explicit(MissedShould(told), None, self.nodeid, 1)
                return
            # The user's filters make it an error.
            pytest.fail(told, pytrace=False)


def _report(config: pytest.Config, plan: _Plan, asked: _Asked) -> Certificate | str:
    """Return the report on a requirement and its group, or why they could not be judged."""
    reports = config.stash.setdefault(_REPORTS, {})
    key = (asked.label, *asked.together)
    if key not in reports:
        reports[key] = _judged(plan, asked)
    return reports[key]


def _judged(plan: _Plan, asked: _Asked) -> Certificate | str:
    # A warning must not become an outcome of the verifier: here the user's filters, which may make
    # it an error, do not hold.
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        from draftproof.conformance.protocol.adapter import UnknownAdapter
        from draftproof.conformance.run.campaign import UNJUDGED
        from draftproof.conformance.run.certify import certify

        try:
            return certify(
                asked.name,
                mode=plan.mode,
                seed=plan.seed,
                false_alarm=asked.false_alarm,
                only=asked.together,
            )
        except UnknownAdapter as error:
            return _plain(str(error))
        except UNJUDGED as error:
            return _plain(str(error))


def _properties(decision: Decision) -> Iterator[tuple[str, str | float]]:
    """Yield the findings for junit and logs, without figures that were not measured."""
    from draftproof.conformance.requirements.finding import finding_to_json

    worst = finding_to_json(decision.worst)
    yield "verdict", _verdict(decision)
    yield "case", worst["case"]
    figures = {"lane": worst["lane"], "observed": worst["distance"], "allowed": worst["allowed"]}
    yield from ((name, value) for name, value in figures.items() if value is not None)
    yield "runs", decision.runs


def _told(plan: _Plan, report: Certificate, decision: Decision) -> str:
    """Return the verdict on a requirement in words: a summary line, then all details."""
    from draftproof.conformance.report import words
    from draftproof.conformance.requirements.finding import FAIL, finding_to_json

    requirement, worst = decision.requirement, decision.worst
    observed, allowed = words.distances(finding_to_json(worst))
    figures = {"observed": observed, "allowed": allowed}
    said = [f"{name} {value}" for name, value in figures.items() if value]
    said += [worst.detail] if worst.detail else []
    lane = [f"{worst.lane} lane", f"{decision.runs} runs"] if worst.lane else []
    lines = [
        f"{requirement.id}: {_verdict(decision)}: {', '.join(said)}",
        f"  what: {requirement.title}, a {requirement.level} of chapter {requirement.chapter}",
        f"  where: {', '.join([f'case {worst.case}', *lane, f'seed {plan.seed}'])}",
    ]
    if decision.verdict == FAIL and report.counterexample is not None:
        lines += ["", "The smallest counterexample found"]
        lines += [f"  {sentence}" for sentence in report.counterexample["words"]]
    return "\n".join(map(_plain, lines))


def _reason(decision: Decision) -> str:
    return _plain(f"{_verdict(decision)}: {decision.worst.detail}")


def _verdict(decision: Decision) -> str:
    from draftproof.conformance.report import words

    return words.verdict(
        {"verdict": decision.verdict, "worst": {"applies": decision.worst.applies}}
    )


def _plain(text: str) -> str:
    from draftproof.conformance.report.plain import plain

    return str(plain(text))
