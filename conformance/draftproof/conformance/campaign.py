"""A campaign: every requirement, on every case of a tier, for one adapter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from secrets import randbits
from typing import Any

import joblib
import torch

from draftproof.conformance.adapter import Adapter, Declaration, InvalidAdapter, declaration
from draftproof.conformance.cases import batches, cases
from draftproof.conformance.counterexample import (
    BatchCounterexample,
    Counterexample,
    Progress,
    explain,
    explain_batch,
)
from draftproof.conformance.finding import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Finding
from draftproof.conformance.lanes.exact import TooManyRuns
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.loading import BUILT_IN, AdapterFailed, load_adapter
from draftproof.conformance.observe import EXACT, PROBE, RUN, SAMPLE, observe
from draftproof.conformance.requirements import plan
from draftproof.conformance.requirements.laws import LAWS
from draftproof.conformance.search import CASE as SEARCHED
from draftproof.conformance.search import Search, failed_instance, search, search_findings
from draftproof.conformance.task import Task, Terms
from draftproof.reference.chance import NondeterministicProgram
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import Requirement, requirements

LANES = (EXACT, PROBE, SAMPLE)

FALSE_ALARM = 1e-9
"""The probability with which a campaign may fail a right verifier by chance, all tests together."""


@dataclass(frozen=True)
class Decision:
    """What one requirement came to over all cases: the worst verdict, and the finding behind it."""

    requirement: Requirement
    verdict: str
    worst: Finding
    findings: tuple[Finding, ...]

    @property
    def runs(self) -> int:
        """The runs of the program under test behind all findings."""
        return sum(finding.runs for finding in self.findings)


@dataclass(frozen=True)
class Report:
    """The outcome of a campaign; `verdict` is that of its MUST requirements together.

    `false_alarm` is the probability with which it may fail a right verifier by chance, `tests` the
    number of statistical tests that share it. `place` is where the adapter lies. `blind` says of
    lanes that could not see it why not.
    """

    adapter: Declaration
    place: str
    tier: str
    lanes: tuple[str, ...]
    blind: Mapping[str, str]
    seed: int
    false_alarm: float
    tests: int
    verdict: str
    decisions: tuple[Decision, ...]
    search: Search | None
    counterexample: Counterexample | BatchCounterexample | None


def certify(
    name: str,
    *,
    tier: str = "standard",
    lanes: Sequence[str] = LANES,
    seed: int | None = None,
    false_alarm: float = FALSE_ALARM,
    examples: int = 0,
    jobs: int = 1,
    progress: Progress,
) -> Report:
    """Judge the adapter of this name on all cases of a tier.

    Every requirement is decided by the strongest of the `lanes` that can see the adapter. `jobs`
    processes share the cases. `seed` is a fresh one unless it is given. Beyond the cases, as many
    `examples` as are asked for are searched for the rows that hurt it most. Raises what
    `load_adapter` raises, `AdapterFailed` if the adapter fails on every case, and
    `SearchUnavailable`.
    """
    adapter = load_adapter(name)
    declared = declaration(adapter)
    _require_device(declared)
    _require_stateless(declared)
    seed = randbits(48) if seed is None else seed
    blind = _blind(adapter, lanes)
    tasks = [_restricted(task, lanes) for task in plan(declared, tier)]
    # Whatever decides it in the end, every requirement of every task has its share of the budget.
    tests = sum(len(task.requirements) for task in tasks)
    terms = Terms(lane="", tier=tier, seed=seed, false_alarm=false_alarm / max(tests, 1))
    # Other processes load the adapter anew, by its name.
    known_as = adapter if jobs == 1 else name
    work = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(_findings)(known_as, task, terms, blind, SAMPLE in lanes) for task in tasks
    )
    findings = [f for found in progress(work, len(tasks), declared.name) for f in found]
    _require_success(findings)
    sought = _sought(adapter, examples, lanes, blind, terms, progress)
    findings += search_findings(sought) if sought else []
    decisions = tuple(_decisions(findings, declared))
    verdict = _overall(decisions)
    found = _counterexample(adapter, tier, decisions, sought, progress) if verdict == FAIL else None
    return Report(
        adapter=declared,
        place=BUILT_IN.get(name, name),
        tier=tier,
        lanes=tuple(lanes),
        blind=blind,
        seed=seed,
        false_alarm=false_alarm,
        tests=tests,
        verdict=verdict,
        decisions=decisions,
        search=sought,
        counterexample=found,
    )


def _sought(
    adapter: Adapter,
    examples: int,
    lanes: Sequence[str],
    blind: Mapping[str, str],
    terms: Terms,
    progress: Progress,
) -> Search | None:
    """Return what a search came to; None where none was asked for, or no lane computes laws."""
    computing = [lane for lane in (EXACT, PROBE) if lane in lanes and lane not in blind]
    if not examples or not computing:
        return None
    seed = terms.seed_of(SEARCHED)
    try:
        return search(adapter, examples=examples, seed=seed, lanes=computing, progress=progress)
    except _BLINDNESS:
        # The cases have said so already.
        return None


def _blind(adapter: Adapter, lanes: Sequence[str]) -> dict[str, str]:
    """Return the lanes that cannot see the adapter on the smallest case, each with the reason."""
    blind = {}
    for lane in (EXACT, PROBE):
        if lane in lanes:
            try:
                observe(adapter, cases("quick")[0], lane=lane)
            except _BLINDNESS as error:
                blind[lane] = f"{type(error).__name__}: {error}"
    return blind


_BLINDNESS = (OpaqueRandomness, NondeterministicProgram, TooManyRuns)


def _restricted(task: Task, lanes: Sequence[str]) -> Task:
    """Return the task with those of its lanes that are wanted; single runs always are."""
    return replace(task, lanes=tuple(lane for lane in task.lanes if lane in (*lanes, RUN)))


def _require_device(declared: Declaration) -> None:
    try:
        torch.empty(0, device=declared.device)
    except Exception as error:
        raise AdapterFailed(f"its device {declared.device!r} is not there: {error}") from error


def _require_stateless(declared: Declaration) -> None:
    algorithm = ALGORITHMS.get(declared.algorithm)
    if algorithm is not None and algorithm.stateful:
        raise InvalidAdapter(
            f"{declared.algorithm} leaves a modified target behind, for which a Result has no "
            f"place: only verifiers of stateless algorithms can be judged"
        )


def _require_success(findings: Iterable[Finding]) -> None:
    """Raise `AdapterFailed` if no case ever ended in an emission."""
    prefixes = [finding for finding in findings if finding.requirement == "law.prefix"]
    if all(finding.distance == 1 for finding in prefixes):
        raise AdapterFailed(f"it fails on every case: it {prefixes[0].detail}")


def _findings(
    known_as: Adapter | str,
    task: Task,
    terms: Terms,
    blind: Mapping[str, str],
    sampled: bool,  # noqa: FBT001  # joblib passes it on
) -> list[Finding]:
    adapter = _loaded(known_as) if isinstance(known_as, str) else known_as
    if not task.lanes:
        return _undecided(task, SKIPPED, "none of the lanes that were asked for can decide it")
    reasons = dict(blind)
    for lane in task.lanes:
        if lane in blind:
            continue
        try:
            return task.judge(adapter, replace(terms, lane=lane))
        except _BLINDNESS as error:
            reasons[lane] = f"{type(error).__name__}: {error}"
    if sampled and SAMPLE not in task.lanes and blind.keys() >= set(task.lanes):
        return _undecided(task, SKIPPED, "samples cannot decide it, and no other lane sees it")
    told = (f"{lane} lane: {reasons[lane]}" for lane in task.lanes)
    return _undecided(task, ERROR, "; ".join(told))


def _undecided(task: Task, verdict: str, reason: str) -> list[Finding]:
    return [
        Finding(requirement, task.case, verdict, detail=reason) for requirement in task.requirements
    ]


@lru_cache(maxsize=1)
def _loaded(name: str) -> Adapter:
    return load_adapter(name)


_SEVERITY = (SKIPPED, PASS, INCONCLUSIVE, FAIL, ERROR)


def _decisions(findings: list[Finding], declared: Declaration) -> Iterator[Decision]:
    for requirement in requirements().values():
        own = tuple(f for f in findings if f.requirement == requirement.id)
        if not own:
            reason = _not_asked(requirement, declared)
            own = (Finding(requirement.id, "none", SKIPPED, detail=reason),)

        def severity(finding: Finding) -> tuple[int, Any]:
            measured = finding.distance is not None and finding.allowed is not None
            return _SEVERITY.index(finding.verdict), finding.distance if measured else -1

        worst = max(own, key=severity)
        yield Decision(requirement, worst.verdict, worst, own)


def _not_asked(requirement: Requirement, declared: Declaration) -> str:
    """Return why no task judges a requirement for this adapter."""
    if requirement.id.startswith("batch.") and not declared.batch:
        return "it takes one row at a time (batch = False)"
    if requirement.id == "batch.ragged":
        return "it takes rows of one length only (ragged = False)"
    if requirement.id == "batch.backends":
        return "it names no other backend to agree with (same_as)"
    if requirement.id.startswith("draft.") or requirement.id == "random.iterations":
        return "it has no drafter (draft)"
    return "no case of this tier asks for it"


def _overall(decisions: Iterable[Decision]) -> str:
    binding = [d.verdict for d in decisions if d.requirement.level == "MUST"]
    return next((v for v in (ERROR, FAIL, INCONCLUSIVE) if v in binding), PASS)


def _counterexample(
    adapter: Adapter,
    tier: str,
    decisions: Iterable[Decision],
    sought: Search | None,
    progress: Progress,
) -> Counterexample | BatchCounterexample | None:
    """Return the smallest counterexample found to the first requirement that fails on a law."""
    for decision in decisions:
        worst = decision.worst
        if decision.verdict != FAIL or worst.lane not in (EXACT, PROBE):
            continue
        if decision.requirement.id in LAWS:
            identity = decision.requirement.id
            if sought is not None and worst.case == SEARCHED:
                failed = failed_instance(sought, identity)
            else:
                failed = next(case.instance for case in cases(tier) if case.id == worst.case)
            return explain(adapter, identity, failed, lane=worst.lane, progress=progress)
        if decision.requirement.id == "batch.invariant":
            batch = next(b for b in batches(tier) if b.id == worst.case)
            return explain_batch(adapter, batch, lane=worst.lane, progress=progress)
    return None
