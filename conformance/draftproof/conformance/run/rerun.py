"""Repetition of evidence: judging its counts again, or judging everything again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from draftproof.conformance.cases import Case
from draftproof.conformance.evidence.identity import suite
from draftproof.conformance.evidence.records import (
    EditedEvidence,
    Evidence,
    EvidenceError,
    MalformedEvidence,
    Record,
    StaleEvidence,
    differences,
)
from draftproof.conformance.failure.counterexample import Progress, silently
from draftproof.conformance.failure.search import CASE as SEARCHED
from draftproof.conformance.failure.search import Tried, tried_from_json
from draftproof.conformance.lanes.observe import BLINDNESS, observe
from draftproof.conformance.protocol.adapter import Program
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.protocol.tolerance import DECISIVE
from draftproof.conformance.requirements.batches import NO_CASE, compared
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    OF_MANY_CASES,
    PASS,
    findings_to_json,
)
from draftproof.conformance.requirements.laws import LAWS, judge
from draftproof.conformance.requirements.settings import in_setting
from draftproof.conformance.run.campaign import (
    campaign_of,
    declared_in,
    run,
    tasks_of,
    terms_of,
)
from draftproof.conformance.run.sampling import recount
from draftproof.conformance.run.staleness import has_its_keys, is_of_this_suite
from draftproof.conformance.run.workers import Workers


@dataclass(frozen=True)
class Moved:
    """Change of a distance, and `bound`, the largest change that rounding explains."""

    by: float
    bound: float


@dataclass(frozen=True)
class Repetition:
    """Result of judging again: the number of equal parts, and the differences.

    A part is the plan, a task, the search, or the counterexample. Parts that are `same` are
    identical to the bit. On a different platform, floats may round differently, and random numbers
    may differ: `near` counts the parts whose differences are explained by that.
    """

    same: int
    near: int
    different: tuple[str, ...]
    elsewhere: tuple[str, ...]
    """Differences from the first environment, and the files whose code differs."""
    moved: Moved | None = None
    """The distance in the near parts that came closest to its bound."""
    turned: tuple[str, ...] = ()
    """The verdicts in the near parts that changed, and why they may."""


def recounted(evidence: Evidence) -> int:
    """Return how many verdicts on samples follow from their counts, which are judged again.

    The number is 0 for evidence of a different suite. Raises `EditedEvidence` if a verdict does not
    follow, `MalformedEvidence` if none can.
    """
    if not is_of_this_suite(evidence):
        return 0
    try:
        return _recounted(evidence)
    except EvidenceError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # No campaign writes what its own suite cannot read.
        raise MalformedEvidence(f"it cannot be judged again: {error}") from error


def _recounted(evidence: Evidence) -> int:
    header = evidence.header
    campaign, declared = campaign_of(header), declared_in(header)
    tasks = tasks_of(campaign, declared)
    is_alone = any(record.get("alone", False) for record in evidence.records)
    terms = replace(terms_of(campaign, tasks), alone=is_alone)
    asked = [(task.case, list(task.requirements), list(task.lanes)) for task in tasks]
    cases = [record for record in evidence.records if record["record"] == "case"]
    if asked != [(each["case"], each["requirements"], each["lanes"]) for each in cases]:
        raise EditedEvidence("its cases are not those that its header asks for")
    shares: list[Record] = []
    judged = 0
    for record in evidence.records:
        if record["record"] == "share":
            shares.append(record)
        elif record["record"] == "result":
            index = record["task"]
            if shares:
                _require_counted(record, recount(tasks[index], declared, terms, shares))
            judged += bool(shares)
            shares = []
            if tasks[index].requirements == (OF_MANY_CASES,):
                due = [case.id for case in compared(declared, campaign.mode)]
                _require_cases(record, due, f"task {index}")
        elif record["record"] == "search":
            _require_requirements(record)
    if not has_its_keys(evidence):
        raise EditedEvidence("the keys of its results are not those of its tasks")
    return judged


def _require_counted(result: Record, due: Record) -> None:
    """Refuse a result that does not follow from its counts."""
    task = f"task {result['task']}"
    if result["findings"] != due["findings"]:
        raise EditedEvidence(f"the verdicts on {task} do not follow from its counts")
    if result["compared"] != due["compared"]:
        raise EditedEvidence(f"{task} was asked for in other batches than it says")


def _require_cases(result: Record, due: Sequence[str], task: str) -> None:
    """Refuse a comparison of backends that leaves out required cases."""
    found = [each["case"] for each in result["findings"]]
    if found != [NO_CASE] and found != due:
        missing = next((case for case in due if case not in found), None)
        told = f"has no finding of {OF_MANY_CASES} on {missing}" if missing else "has other cases"
        raise EditedEvidence(f"{task}, backends, {told}")


def _require_requirements(search: Record) -> None:
    """Refuse a search without a result for each requirement on laws."""
    found = [each["requirement"] for each in search["findings"]]
    if found != [*LAWS]:
        missing = next((each for each in LAWS if each not in found), None)
        told = f"no finding of {missing}" if missing else "other findings than those of laws"
        raise EditedEvidence(f"the search has {told}")


def repeat(
    evidence: Evidence,
    *,
    name: str | None = None,
    workers: Workers = Workers(),  # noqa: B008  # it is frozen
    progress: Progress = silently,
) -> Repetition:
    """Judge the subject of evidence again, with the same seeds, and compare.

    `name` locates the adapter, if its place has changed. Raises what `run` raises, and
    `StaleEvidence` if the adapter or the suite differs from that of the evidence.
    """
    then = evidence.header
    campaign = campaign_of(then)
    again: list[Record] = []
    if not is_of_this_suite(evidence):
        raise StaleEvidence(
            f"it was judged by suite {then['suite']['version']} "
            f"({then['suite']['sha256'][:12]}), this is {suite()['version']} "
            f"({suite()['sha256'][:12]}): --rerun takes the same suite, "
            f"`draftproof certify` judges by this one"
        )

    def keep(record: Record) -> None:
        if record["record"] == "header" and record["subject"] != then["subject"]:
            raise StaleEvidence(
                f"the adapter at {record['adapter']['place']} is another one than was judged: "
                f"{'; '.join(_differing(then['subject'], record['subject']))}"
            )
        again.append(record)

    where = replace(campaign, name=name or campaign.name)
    run(where, keep=keep, workers=workers, progress=progress)
    elsewhere = (
        *_elsewhere(then["environment"], again[0]["environment"]),
        *_other_code(evidence.records, again),
    )
    return _compared(evidence.records, again, elsewhere, lambda: load_program(where.name))


def _elsewhere(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Describe the differences of environments; entries that one of them lacks may differ."""
    return tuple(
        f"{name} was {_told(was)}, is {_told(is_now)}"
        for name, was, is_now in differences(then, now)
    )


def _other_code(first: Sequence[Record], again: Sequence[Record]) -> Iterator[str]:
    """Describe the files that ran both times and have changed."""
    then, now = ({each["file"]: each for each in _sources(records)} for records in (first, again))
    for file in sorted(then.keys() & now.keys()):
        was, is_now = then[file], now[file]
        if was["sha256"] != is_now["sha256"]:
            yield f"{file} was {_release(was)}, is {_release(is_now)}"


def _sources(records: Iterable[Record]) -> list[Record]:
    return [file for each in records if each["record"] == "sources" for file in each["files"]]


def _release(source: Record) -> str:
    version = f"{source['version']}, " if source["version"] else ""
    return f"{version}sha256 {source['sha256'][:12]}"


def _told(value: str | None) -> str:
    return "not recorded" if value is None else repr(value)


def _compared(
    first: Sequence[Record],
    again: Sequence[Record],
    elsewhere: tuple[str, ...],
    loaded: Callable[[], Program],
) -> Repetition:
    before, after = _parts(first), _parts(again)
    same, near, different = 0, _Near(), []
    for part in dict.fromkeys((*before, *after)):
        then, now = before.get(part, []), after.get(part, [])
        if then == now:
            same += 1
        elif not elsewhere or not near.takes(then, now, loaded):
            different.append(_difference(part, then, now))
    return Repetition(same, near.parts, tuple(different), elsewhere, near.moved, tuple(near.turned))


def _parts(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of every part; the plan is one part, with the terms."""
    parts: dict[str, list[Record]] = {}
    for record in records:
        kind = record["record"]
        if kind in ("share", "result"):
            parts.setdefault(f"task {record['task']}", []).append(record)
        elif kind == "header":
            parts["the plan"] = [_terms(record)]
        elif kind not in ("sources", "footer"):
            # Which faults are known says nothing of what was judged.
            told = {key: value for key, value in record.items() if key != "likeness"}
            parts.setdefault("the plan" if kind == "case" else f"the {kind}", []).append(told)
    return parts


def _terms(header: Record) -> Record:
    """Return a header without its time, place and reasons of blindness, which name places."""
    adapter = {key: value for key, value in header["adapter"].items() if key != "place"}
    campaign = {**header["campaign"], "blind": list(header["campaign"]["blind"])}
    terms = {key: header[key] for key in header if key not in ("created", "environment")}
    return {**terms, "adapter": adapter, "campaign": campaign}


# --- elsewhere ----------------------------------------------------------------------------


@dataclass
class _Near:
    """Parts so far whose differences rounding explains."""

    parts: int = 0
    moved: Moved | None = None
    turned: list[str] = field(default_factory=list)
    requirements: set[str] = field(default_factory=set)
    """Requirements whose verdict changed in the near parts."""

    def takes(
        self, then: Sequence[Record], now: Sequence[Record], loaded: Callable[[], Program]
    ) -> bool:
        """Add a part, and return True if it is near."""
        kinds = {records[-1]["record"] if records else "nothing" for records in (then, now)}
        if len(kinds) > 1 or kinds == {"case"}:
            return False
        was, is_now = then[-1], now[-1]
        if kinds == {"counterexample"}:
            is_near = self._is_shown(was["counterexample"], is_now["counterexample"])
            self.parts += is_near
            return is_near
        found = _nearness(was, is_now, loaded)
        if found is None:
            return False
        self.parts += 1
        for each in found:
            if each.moved is not None and (self.moved is None or _share(self.moved) < each.share):
                self.moved = each.moved
            if each.turned:
                self.turned.append(each.turned)
                self.requirements.add(each.requirement)
        return True

    def _is_shown(self, was: Record | None, is_now: Record | None) -> bool:
        """Return True if both show the same failure, or a failure whose verdict changed.

        Rounding can decide which rows are the smallest that fail.
        """
        shown = [None if each is None else each["requirement"] for each in (was, is_now)]
        return shown[0] == shown[1] or not self.requirements.isdisjoint(shown)


@dataclass(frozen=True)
class _Pair:
    """Finding of the first run, compared with the finding here."""

    requirement: str
    moved: Moved | None = None
    turned: str = ""

    @property
    def share(self) -> float:
        return 0.0 if self.moved is None else _share(self.moved)


def _share(moved: Moved) -> float:
    return moved.by / moved.bound if moved.bound else 0.0


def _nearness(was: Record, is_now: Record, loaded: Callable[[], Program]) -> list[_Pair] | None:
    """Return the comparisons of all findings of a task or a search; None if any is not near."""
    if len(was["findings"]) != len(is_now["findings"]):
        return None
    pairs = []
    for old, new in zip(was["findings"], is_now["findings"], strict=True):
        pair = _pair(old, new)
        if pair is None and was["record"] == "search":
            pair = _pair_of_search(was, old, is_now, new, loaded)
        if pair is None:
            return None
        pairs.append(pair)
    return pairs


def _pair(was: Mapping[str, Any], is_now: Mapping[str, Any]) -> _Pair | None:
    """Return the comparison of a finding, None if rounding does not explain the difference."""
    requirement = was["requirement"]
    if any(was[key] != is_now[key] for key in ("requirement", "case", "lane", "applies")):
        return None
    has_turned = was["verdict"] != is_now["verdict"]
    told = f"{requirement} on {was['case']} was {was['verdict']}, is {is_now['verdict']}"
    if any(each["distance"] is None or each["allowed"] is None for each in (was, is_now)):
        same = ("verdict", "distance", "allowed")
        is_same = all(was[key] == is_now[key] for key in same)
        return _Pair(requirement) if is_same else None
    if was["sampled"] is not None and is_now["sampled"] is not None:
        # Rounding moves a draw to a neighbour, and another library draws other numbers. What is
        # true of the law is true still: only what too few draws leave open may turn.
        is_open = INCONCLUSIVE in (was["verdict"], is_now["verdict"])
        drawn = f"{told}: other draws, and one of them too few" if has_turned else ""
        return _Pair(requirement, turned=drawn) if is_open or not has_turned else None
    # Each law is off the exact one's by what is allowed, at most; what was allowed is known now.
    moved = Moved(abs(was["distance"] - is_now["distance"]), 2 * is_now["allowed"])
    if moved.by > moved.bound:
        return None
    if not has_turned:
        return _Pair(requirement, moved)
    # So near to each other they lie on both sides of what decides.
    if not all(_may_be(each, is_now["allowed"]) for each in (was, is_now)):
        return None
    edge = _edge(is_now["allowed"])
    distances = f"{was['distance']:.2e} then, {is_now['distance']:.2e} now"
    return _Pair(requirement, moved, f"{told}: {distances}, {edge:.2e} decides")


def _may_be(finding: Mapping[str, Any], allowed: float) -> bool:
    """Return True if a distance can lead to its verdict, whatever the precision of the lane."""
    distance, verdict = finding["distance"], finding["verdict"]
    if verdict == PASS:
        return bool(distance <= _edge(allowed))
    return verdict == INCONCLUSIVE or bool(verdict == FAIL and distance > allowed)


def _edge(allowed: float) -> float:
    return min(allowed, float(DECISIVE))


def _pair_of_search(
    then: Record,
    was: Mapping[str, Any],
    now: Record,
    is_now: Mapping[str, Any],
    loaded: Callable[[], Program],
) -> _Pair | None:
    """Return the comparison of a search's worst rows, judged again; None if they are not near.

    A search follows the last bits of distances, so on a different platform it may end on different
    rows. The rows that it found first must lead to a near result here, and the rows found here must
    have no worse verdict.
    """
    requirement = was["requirement"]
    rows, others = (_worst_rows(each, requirement) for each in (then, now))
    order = (PASS, INCONCLUSIVE, FAIL)
    verdicts = [was["verdict"], is_now["verdict"]]
    if rows is None or rows == others or not {*verdicts} <= {*order}:
        return None
    if order.index(verdicts[1]) > order.index(verdicts[0]):
        return None
    instance, setting = rows
    try:
        program = in_setting(loaded(), setting)
        seen = observe(program, Case(SEARCHED, "", "certify", instance), lane=was["lane"])
    except BLINDNESS:
        return None
    (found,) = (
        each for each in findings_to_json(judge(seen)) if each["requirement"] == requirement
    )
    pair = _pair(was, {**found, "case": was["case"]})
    if pair is None or pair.turned or verdicts[0] == verdicts[1]:
        return pair
    told = f"was {verdicts[0]}, is {verdicts[1]}: on other rows, the first ones come to the same"
    return replace(pair, turned=f"{requirement} in the search {told}")


def _worst_rows(record: Record, requirement: str) -> Tried | None:
    worst = record["search"]["worst"]
    own = (each for each in worst if each["requirement"] == requirement)
    return next(map(tried_from_json, own), None)


# --- what is told -------------------------------------------------------------------------


def _difference(part: str, then: Sequence[Record], now: Sequence[Record]) -> str:
    """Describe the difference of a part."""
    if len(then) != len(now):
        return f"{part}: {len(then)} records then, {len(now)} now"
    was, is_now = next((a, b) for a, b in zip(then, now, strict=True) if a != b)
    told = _differing(was, is_now)
    return f"{part}, {was['record']}: {'; '.join(told[:3])}"


def _differing(then: Any, now: Any) -> tuple[str, ...]:
    return tuple(
        f"{where} was {_short(was)}, is {_short(is_now)}"
        for where, was, is_now in differences(then, now)
    )


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 80 else f"{told[:77]}..."
