"""Repetition: whether evidence is true. Counts are judged again, or everything is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from draftproof.conformance.campaign import (
    campaign_of,
    declared_in,
    run,
    tasks_of,
    terms_of,
)
from draftproof.conformance.counterexample import Progress, silently
from draftproof.conformance.evidence import (
    EditedEvidence,
    Evidence,
    EvidenceError,
    MalformedEvidence,
    Record,
    StaleEvidence,
    differences,
)
from draftproof.conformance.execution import recount
from draftproof.conformance.identity import suite
from draftproof.conformance.workers import Workers


@dataclass(frozen=True)
class Repetition:
    """What judging again came to: how many parts came out alike, and what did not.

    A part is the plan, a task, the search, or the counterexample. Those that are `same` are so to
    the bit. Elsewhere than where it was judged first, floats may be rounded otherwise: `near`
    counts the parts that have the same verdicts, on laws that differ by no more than rounding
    allows.
    """

    same: int
    near: int
    different: tuple[str, ...]
    elsewhere: tuple[str, ...]
    """In what the environment differs from the first one."""


def recounted(evidence: Evidence) -> int:
    """Return how many verdicts on samples follow from their counts, which are judged again.

    None are, where this is not the suite that judged them. Raises `EditedEvidence` where one does
    not follow, `MalformedEvidence` where nothing can.
    """
    if evidence.header["suite"] != suite():
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
    terms = terms_of(campaign, tasks)
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
            if shares and recount(tasks[index], declared, terms, shares) != record["findings"]:
                raise EditedEvidence(f"the verdicts on task {index} do not follow from its counts")
            judged += bool(shares)
            shares = []
    return judged


def repeat(
    evidence: Evidence,
    *,
    name: str | None = None,
    workers: Workers = Workers(),  # noqa: B008  # it is frozen
    progress: Progress = silently,
) -> Repetition:
    """Judge again what the evidence is of, with the same seeds, and compare.

    `name` leads to the adapter, if it does not lie where it did. Raises what `run` raises, and
    `StaleEvidence` if adapter or suite are not those of the evidence.
    """
    then = evidence.header
    campaign = campaign_of(then)
    again: list[Record] = []
    if then["suite"] != suite():
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
    elsewhere = _differing(then["environment"], again[0]["environment"])
    return _compared(evidence.records, again, elsewhere)


def _compared(
    first: Sequence[Record], again: Sequence[Record], elsewhere: tuple[str, ...]
) -> Repetition:
    before, after = _parts(first), _parts(again)
    same, near, different = 0, 0, []
    for part in dict.fromkeys((*before, *after)):
        then, now = before.get(part, []), after.get(part, [])
        if then == now:
            same += 1
        elif elsewhere and _are_near(then, now):
            near += 1
        else:
            different.append(_difference(part, then, now))
    return Repetition(same, near, tuple(different), elsewhere)


def _parts(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Return the records of every part, those of the plan together, with the terms."""
    parts: dict[str, list[Record]] = {}
    for record in records:
        kind = record["record"]
        if kind in ("share", "result"):
            parts.setdefault(f"task {record['task']}", []).append(record)
        elif kind == "header":
            parts["the plan"] = [_terms(record)]
        elif kind != "footer":
            parts.setdefault("the plan" if kind == "case" else f"the {kind}", []).append(record)
    return parts


def _terms(header: Record) -> Record:
    """Return what a header says, but for when and where it was; reasons of blindness say where."""
    adapter = {key: value for key, value in header["adapter"].items() if key != "place"}
    campaign = {**header["campaign"], "blind": list(header["campaign"]["blind"])}
    terms = {key: header[key] for key in header if key not in ("created", "environment")}
    return {**terms, "adapter": adapter, "campaign": campaign}


def _are_near(then: Sequence[Record], now: Sequence[Record]) -> bool:
    """Return whether both have the same verdicts, on laws as near as rounding has them."""
    kinds = {records[-1]["record"] if records else "nothing" for records in (then, now)}
    if len(kinds) > 1 or kinds == {"case"}:
        return False
    if then[-1]["record"] == "counterexample":
        was, is_now = then[-1]["counterexample"], now[-1]["counterexample"]
        return (was is None) == (is_now is None) and (
            was is None or was["requirement"] == is_now["requirement"]
        )
    pairs = zip(then[-1]["findings"], now[-1]["findings"], strict=False)
    return len(then[-1]["findings"]) == len(now[-1]["findings"]) and all(
        _is_near(was, is_now) for was, is_now in pairs
    )


def _is_near(was: Mapping[str, Any], is_now: Mapping[str, Any]) -> bool:
    keys = ("requirement", "case", "verdict", "lane", "applies")
    if any(was[key] != is_now[key] for key in keys):
        return False
    if was["distance"] is None or is_now["distance"] is None:
        return was["distance"] is is_now["distance"]
    # Each law is off the exact one's by what is allowed, at most; what was allowed is known now.
    off = abs(was["distance"] - is_now["distance"])
    return is_now["sampled"] is not None or bool(off <= 2 * (is_now["allowed"] or 0))


def _difference(part: str, then: Sequence[Record], now: Sequence[Record]) -> str:
    """Say where a part came out otherwise."""
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
