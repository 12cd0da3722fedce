"""Campaign: every requirement, on every case of a mode, for one adapter.

It leaves a record of every step, in an order that depends only on the subject and the terms: the
same seed gives the same records on one process, on many, or on a cluster; a killed run continues
after its last record; and anyone who doubts a record can repeat it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import count
from math import log
from pathlib import Path
from secrets import randbits
from typing import Any

from draftproof.reference.extras import installation

try:
    import torch
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    # Tests that call `certify` import this first of all, and show what is raised.
    told = f"judging needs PyTorch: {installation('torch')}"
    raise ModuleNotFoundError(told, name="torch") from None

from draftproof.conformance.cases import batches, cases
from draftproof.conformance.evidence.decision import report
from draftproof.conformance.evidence.identity import environment, specification, subject, suite
from draftproof.conformance.evidence.records import (
    NOTHING,
    Evidence,
    Record,
    found_blind,
    require_same,
)
from draftproof.conformance.evidence.traces import untraced
from draftproof.conformance.failure.counterexample import (
    Progress,
    counterexample_to_json,
    explain,
    explain_batch,
    silently,
)
from draftproof.conformance.failure.likeness import Suspect, likeness, likeness_to_json
from draftproof.conformance.failure.search import CASE as SEARCHED
from draftproof.conformance.failure.search import (
    SearchUnavailable,
    failed_instance,
    require_hypothesis,
    search,
    search_findings,
    search_to_json,
)
from draftproof.conformance.lanes import unwatched
from draftproof.conformance.lanes.observe import BLINDNESS, COMPUTING, RUN, SAMPLE, observe
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.protocol.adapter import (
    AdapterFailed,
    AdapterLost,
    Declaration,
    FailsEverywhere,
    InvalidAdapter,
    Program,
)
from draftproof.conformance.protocol.loading import (
    built_in,
    load_program,
    name_from,
    source_digest,
)
from draftproof.conformance.protocol.printable import printable_lines
from draftproof.conformance.protocol.raising import told_of
from draftproof.conformance.requirements.finding import (
    FAIL,
    PASS,
    SKIPPED,
    Finding,
    findings_from_json,
    findings_to_json,
)
from draftproof.conformance.requirements.laws import LAWS
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.settings import PLAIN
from draftproof.conformance.requirements.task import Task, Terms, is_asked
from draftproof.conformance.run.recall import Recall
from draftproof.conformance.run.schedule import Work, files_that_ran, judged
from draftproof.conformance.run.workers import Over, Workers, WorkersFailed, working

LANES = (*COMPUTING, SAMPLE)

FALSE_ALARM = 1e-9
"""Probability that a campaign fails a correct verifier by chance, over all tests together."""


def _now() -> str:
    """Return the time, or that of SOURCE_DATE_EPOCH, for reproducible files."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    # Eleven digits end in the year 5138.
    is_time = epoch.isascii() and epoch.isdecimal() and len(epoch) <= 11
    now = datetime.fromtimestamp(int(epoch), UTC) if is_time else datetime.now(UTC)
    return now.isoformat(timespec="seconds")


UNJUDGED: tuple[type[BaseException], ...] = (
    AdapterFailed,
    AdapterLost,
    InvalidAdapter,
    SearchUnavailable,
    WorkersFailed,
)
"""Errors of `run` for an adapter that cannot be judged; none of them is a verdict."""


class UnknownCase(LookupError):
    """Error of a pattern that matches no case for the adapter: a usage error."""


@dataclass(frozen=True)
class Campaign:
    """The adapter to judge, and the terms of the campaign.

    `name` locates the adapter. The strongest of the `lanes` that can see it decides each
    requirement. Beyond the cases, a search tries `examples` generated instances for the worst rows.
    `known_failures` has the issue of every requirement that is known to fail. `only` names the
    requirements to judge; `cases` are patterns of the cases to judge, such as "generic.*", or
    "!wide.*" for all others. An empty `only` or `cases` selects all.
    """

    name: str
    mode: str = "standard"
    lanes: Sequence[str] = LANES
    seed: int = field(default_factory=lambda: randbits(48))
    false_alarm: float = FALSE_ALARM
    examples: int = 0
    known_failures: Mapping[str, str] = field(default_factory=dict)
    only: Collection[str] = ()
    cases: Collection[str] = ()
    created: str = field(default_factory=_now)


def campaign_of(header: Mapping[str, Any]) -> Campaign:
    """Return the campaign that the header of its evidence describes."""
    terms = header["campaign"]
    return Campaign(
        header["adapter"]["place"],
        mode=terms["mode"],
        lanes=terms["lanes"],
        seed=terms["seed"],
        false_alarm=terms["false_alarm"],
        examples=terms["examples"],
        known_failures={each["id"]: each["issue"] for each in header["known_failures"]},
        only=terms["only"],
        cases=terms.get("cases", ()),
        created=header["created"],
    )


def campaign_in(said: Mapping[str, Any]) -> Campaign:
    """Return the campaign of a certificate, from its part `draftproof`."""
    return Campaign(
        said["adapter"]["place"],
        mode=said["mode"],
        lanes=said["lanes"],
        seed=said["seed"],
        false_alarm=said["chance"]["false_alarm"],
        only=[each["id"] for each in said["requirements"]],
        cases=said.get("cases", ()),
        created=said["created"],
    )


def declared_in(header: Mapping[str, Any]) -> Declaration:
    """Return the adapter's declaration from a header."""
    told = {key: value for key, value in header["adapter"].items() if key != "place"}
    noise = {name: tuple(form) for name, form in told["noise"].items()}
    several = {name: tuple(told[name]) for name in ("dtypes", "layouts") if name in told}
    return Declaration(**{**told, **several, "noise": noise})


def run(
    campaign: Campaign,
    *,
    keep: Callable[[Record], None],
    program: Program | None = None,
    known: Evidence = NOTHING,
    workers: Workers = Workers(),  # noqa: B008  # it is frozen
    progress: Progress = silently,
    recall: Recall | None = None,
    suspects: Callable[[], Sequence[Suspect]] | None = None,
) -> None:
    """Judge an adapter, and `keep` a record of every step that is not `known` already.

    The `program` defaults to that of the name. Findings in the `recall` are not judged again, and
    it receives new findings. A failing adapter is compared with the `suspects`, if any are given.
    Raises what `load_adapter` raises, `FailsEverywhere` if it fails on every case, `StaleEvidence`
    if the known records have a different subject, `StoreDiffers` if the recall is wrong,
    `UnknownCase`, `SearchUnavailable` and `WorkersFailed`.
    """
    program = program or load_program(campaign.name)
    # It calls the program for the first time, which may take long.
    first = map(work_of, [campaign], [program], [workers])
    work: Work
    (work,) = progress(first, 1, f"{program.declared.name}, first call")
    work = replace(work, recall=recall)
    _require_search(campaign, work.blind)

    def kept(record: Record) -> None:
        # Errors and environments say what they like; evidence is read on terminals.
        shown = printable_lines(record)
        records.append(shown)
        keep(shown)

    header = _header(campaign, program, work.blind, tests_of(work.tasks))
    opening = printable_lines([header, *_cases(work.tasks)])
    require_same(known.records, opening)
    records = list(known.records)
    for record in opening[len(records) :]:
        kept(record)
    with working(workers) as over:
        findings = _judged_all(work, records[len(opening) :], kept, over, progress)
        for times in count():
            if len(found_blind(records)) == times:
                if (found := _disagreement(work, records)) is None:
                    break
                kept(found)
            at = found_blind(records)[times]
            work = _without(work, records[at])
            findings = _judged_all(work, records[at + 1 :], kept, over, progress)
        _require_success(findings)
        last = {record["record"] for record in records}
        if "sources" not in last:
            kept(files_that_ran(work, over))
    if "search" not in last and (sought := _search(campaign, work, progress)):
        kept(sought)
    if "counterexample" not in last:
        shown = _counterexample(campaign, program, records, progress)
        kept({**shown, **_likeness(campaign, program, records, suspects, progress)})
    if "footer" not in last:
        kept({"record": "footer", "records": len(records) + 1})


def work_of(campaign: Campaign, program: Program, workers: Workers) -> Work:
    """Return the subject of a campaign, in the form for workers.

    Raises `AdapterFailed` if the adapter's device is missing, and `UnknownCase`.
    """
    _require_device(program.declared)
    _require_cases(campaign, program.declared)
    tasks = tasks_of(campaign, program.declared)
    return Work(
        program=program,
        name=None if workers.are_here else name_from(Path.cwd(), campaign.name),
        subject=source_digest(program.adapter),
        tasks=tasks,
        terms=terms_of(campaign, tasks),
        blind=_blind(program, campaign.lanes),
        sampled=SAMPLE in campaign.lanes,
    )


def _judged_all(
    work: Work,
    known: Sequence[Record],
    keep: Callable[[Record], None],
    over: Over,
    progress: Progress,
) -> list[Finding]:
    """Return the findings of all tasks; results in the `known` records are not judged again."""
    before = known[: next(iter(found_blind(known)), None)]
    done = [record for record in before if record["record"] in ("share", "result")]
    steps, title = judged(work, known=done, keep=keep, over=over), work.program.declared.name
    names = [task.case for task in work.tasks]
    return [f for found in progress(steps, len(names), title, names) for f in found]


# --- laws against real runs -------------------------------------------------------------------


def _without(work: Work, found: Record) -> Work:
    """Return the work without a lane that was found blind.

    If calls of one row showed that it is blind, samples are drawn in calls of one row.
    """
    alone = work.terms.alone or found.get("alone", False)
    blind = {**work.blind, found["lane"]: found["reason"]}
    return replace(work, blind=blind, terms=replace(work.terms, alone=alone))


def _disagreement(work: Work, records: Sequence[Record]) -> Record | None:
    """Return the record of a lane whose laws differ from real runs, None if all lanes agree."""
    if records[-1]["record"] != "result":
        return None  # what comes behind all results was there already: nothing was found
    since = records[max(found_blind(records), default=0) :]
    for lane in COMPUTING:
        counts = [record["unwatched"] for record in since if "unwatched" in record]
        own = [each for each in counts if each["lane"] == lane]
        if (found := _disagreeing(work, lane, own, since)) is not None:
            return {"record": "blind", "lane": lane, **found}
    return None


def _disagreeing(
    work: Work, lane: str, counts: Sequence[Mapping[str, Any]], records: Sequence[Record]
) -> Record | None:
    """Return how a lane's laws differ from real runs, None if they agree.

    A few runs show only gross faults; if their result is unlikely, more runs are made. Rows of one
    call may differ from a row alone because of the adapter itself, which the requirements on
    batches report; if they report no difference, the lane is wrong.
    """
    threshold = Budget(work.terms.false_alarm).threshold
    alone, rows = ([each[kind] for each in counts] for kind in ("alone", "rows"))
    for times in (*_TIMES, None):
        if unwatched.evidence(alone) >= threshold:
            return {"reason": _told(alone), "alone": True}
        if unwatched.evidence(rows) >= threshold and _are_rows_alike(records):
            return {"reason": f"in rows of one call {_told(rows)}", "alone": False}
        odd = max(unwatched.evidence(each) for each in (alone, rows, alone + rows))
        if odd < _ODD or times is None:
            return None
        for task in work.tasks:
            if lane not in task.lanes:
                continue
            seed = work.terms.seed_of(f"{task.case}/real runs {times}")
            with unwatched.holding(seed, times=times) as held, suppress(*BLINDNESS):
                task.judge(work.program, replace(work.terms, lane=lane))
            alone.append(held.alone.tolist())
            rows.append(held.rows.tolist())
            if unwatched.evidence(alone) >= threshold or sum(map(sum, alone)) > _MOST_ALONE:
                break
    return None


_ODD = log(20)
"""Log evidence at which more real runs are made; with correct laws, 1 campaign in 20 reaches it."""

_TIMES = (16, 256, 4096)
"""Factors of the number of real runs, applied in turn while the result stays unlikely."""

_MOST_ALONE = 20_000
"""Maximum number of real runs: they show an error in 1/20 of all outcomes."""


def _are_rows_alike(records: Sequence[Record]) -> bool:
    """Return True if rows of a batch were judged to have the laws of each row alone."""
    found = [f for record in records for f in findings_from_json(record.get("findings", ()))]
    verdicts = {each.verdict for each in found if each.requirement == "batch.invariant"}
    return PASS in verdicts and verdicts <= {PASS, SKIPPED}


def _told(counts: Sequence[Sequence[int]]) -> str:
    together = [sum(each) for each in zip(*counts, strict=True)]
    return (
        f"its laws are not those of {sum(together)} real runs: outcomes are off by "
        f"{unwatched.off_by(together):.2g} in total variation, and {together[-1]} are impossible "
        f"by these laws (log evidence {unwatched.evidence(counts):.1f})"
    )


def _header(campaign: Campaign, program: Program, blind: Mapping[str, str], tests: int) -> Record:
    declared = program.declared
    with untraced():
        by, here = {"specification": specification(), "suite": suite()}, environment()
    return {
        "record": "header",
        "format": 3,
        "created": campaign.created,
        "subject": subject(program),
        **by,
        "environment": here,
        "campaign": {
            "mode": campaign.mode,
            "lanes": list(campaign.lanes),
            "blind": dict(blind),
            "seed": campaign.seed,
            "false_alarm": campaign.false_alarm,
            "tests": tests,
            "examples": campaign.examples,
            "only": sorted(campaign.only),
            **(_asked(campaign, declared) if campaign.cases else {}),
        },
        "adapter": {
            **vars(declared),
            "dtypes": list(declared.dtypes),
            "layouts": list(declared.layouts),
            "noise": {name: list(form) for name, form in declared.noise.items()},
            "undefined": dict(declared.undefined),
            "place": built_in().get(campaign.name, campaign.name),
        },
        "known_failures": [
            {"id": identity, "issue": issue}
            for identity, issue in sorted(campaign.known_failures.items())
        ],
    }


def _asked(campaign: Campaign, declared: Declaration) -> dict[str, Any]:
    """Return the cases to judge, and the number of cases in the mode."""
    every = tasks_of(replace(campaign, cases=()), declared)
    return {"cases": sorted(campaign.cases), "planned": len({task.case for task in every})}


def _cases(tasks: Sequence[Task]) -> Iterator[Record]:
    for index, task in enumerate(tasks):
        yield {
            "record": "case",
            "task": index,
            "case": task.case,
            "requirements": list(task.requirements),
            "lanes": list(task.lanes),
        }


def tasks_of(campaign: Campaign, declared: Declaration) -> list[Task]:
    """Return the tasks with the requested lanes only; single runs are always included."""
    wanted = (*campaign.lanes, RUN)
    return [
        replace(task, lanes=tuple(lane for lane in task.lanes if lane in wanted))
        for task in plan(declared, campaign.mode)
        if not campaign.only or not set(campaign.only).isdisjoint(task.requirements)
        if is_asked(task.case, campaign.cases)
    ]


def terms_of(campaign: Campaign, tasks: Sequence[Task]) -> Terms:
    """Return the terms of a campaign, without a lane."""
    each = campaign.false_alarm / tests_of(tasks)
    return Terms("", campaign.mode, campaign.seed, each, tuple(sorted(campaign.cases)))


def tests_of(tasks: Sequence[Task]) -> int:
    """Return the number of tests that share the budget of false alarms.

    Every requirement of every task has its share, whichever lane decides it, and each lane that
    computes laws has two shares for its own tests against real runs: calls of one row, and rows of
    one call.
    """
    return 2 * len(COMPUTING) + sum(len(task.requirements) for task in tasks)


# --- before and after the cases ---------------------------------------------------------------


def _blind(program: Program, lanes: Sequence[str]) -> dict[str, str]:
    """Return the lanes that cannot see the adapter on the smallest case, each with the reason."""
    blind = {}
    for lane in COMPUTING:
        if lane in lanes:
            try:
                observe(program, cases("quick")[0], lane=lane)
            except BLINDNESS as error:
                blind[lane] = told_of(error)
    return blind


def _require_cases(campaign: Campaign, declared: Declaration) -> None:
    """Raise `UnknownCase` for a pattern that matches no case of the mode."""
    known = {task.case for task in plan(declared, campaign.mode)} if campaign.cases else {}
    for pattern in campaign.cases:
        if not any(is_asked(case, (pattern.removeprefix("!"),)) for case in known):
            near = get_close_matches(pattern.removeprefix("!"), known, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise UnknownCase(
                f"No case in mode {campaign.mode} matches {pattern!r}.{meant} "
                f"Run `draftproof list cases` to see them."
            )


def _require_device(declared: Declaration) -> None:
    try:
        torch.empty(0, device=declared.device)
    except Exception as error:
        raise AdapterFailed(
            f"its device {declared.device!r} is not there: {told_of(error)}"
        ) from error


def _require_success(findings: Iterable[Finding]) -> None:
    """Raise `FailsEverywhere` if no case ever ended in an emission."""
    prefixes = [finding for finding in findings if finding.requirement == "law.prefix"]
    if prefixes and all(finding.distance == 1 for finding in prefixes):
        raise FailsEverywhere(f"it fails on every case: it {prefixes[0].detail}")


def _computing(campaign: Campaign, blind: Mapping[str, str]) -> list[str]:
    """Return the lanes that compute laws and can see the adapter."""
    return [lane for lane in COMPUTING if lane in campaign.lanes and lane not in blind]


def _require_search(campaign: Campaign, blind: Mapping[str, str]) -> None:
    """Raise `SearchUnavailable` before judging if a search was requested and cannot run."""
    if campaign.examples and _computing(campaign, blind):
        require_hypothesis()


def _search(campaign: Campaign, work: Work, progress: Progress) -> Record | None:
    """Return the results of a search; None if none was requested, or no lane computes laws."""
    computing = _computing(campaign, work.blind)
    if not campaign.examples or not computing:
        return None
    seed = work.terms.seed_of(SEARCHED)
    try:
        found = search(
            work.program, examples=campaign.examples, seed=seed, lanes=computing, progress=progress
        )
    except BLINDNESS:
        # The cases have said so already.
        return None
    return {
        "record": "search",
        "search": search_to_json(found),
        "findings": findings_to_json(search_findings(found)),
    }


def _likeness(
    campaign: Campaign,
    program: Program,
    records: Sequence[Record],
    suspects: Callable[[], Sequence[Suspect]] | None,
    progress: Progress,
) -> Record:
    """Return the known faults that a failed verifier resembles, as far as it was compared."""
    decided = report([*records, {"record": "counterexample", "counterexample": None}])
    if suspects is None or decided.verdict != FAIL:
        return {}
    findings = [finding for each in decided.decisions for finding in each.findings]
    searched = None
    if decided.search is not None and decided.search["failed"] is not None:
        searched = failed_instance(decided.search, decided.search["failed"]["requirement"])
    with untraced():
        found = likeness(
            program,
            findings,
            suspects(),
            mode=campaign.mode,
            searched=searched,
            progress=progress,
        )
    return {} if found is None else {"likeness": likeness_to_json(found)}


def _counterexample(
    campaign: Campaign, program: Program, records: Sequence[Record], progress: Progress
) -> Record:
    """Return the smallest counterexample found to the first requirement that fails on a law."""
    nothing: Record = {"record": "counterexample", "counterexample": None}
    decided = report([*records, nothing])
    if decided.verdict != FAIL:
        return nothing
    for decision in decided.decisions:
        worst, identity = decision.worst, decision.requirement.id
        if decision.verdict != FAIL or worst.lane not in COMPUTING:
            continue
        if identity in LAWS:
            if decided.search is not None and worst.case == SEARCHED:
                failed, setting = failed_instance(decided.search, identity)
            else:
                failed = next(c.instance for c in cases(campaign.mode) if c.id == worst.case)
                setting = PLAIN
            found = explain(
                program, identity, failed, setting=setting, lane=worst.lane, progress=progress
            )
            return {**nothing, "counterexample": counterexample_to_json(found)}
        if identity == "batch.invariant":
            batch = next(b for b in batches(campaign.mode) if b.id == worst.case)
            several = explain_batch(program, batch, lane=worst.lane, progress=progress)
            return {**nothing, "counterexample": counterexample_to_json(several)}
    return nothing
