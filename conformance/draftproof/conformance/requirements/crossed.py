"""Dimensions of serving that meet: a length in a batch, a layout without a generator, and so on.

A fault may need two of them. So every value of each dimension is asked beside every value of each
other one, all pairs in a few dozen requests: the requirement is that of the first dimension that is
not the plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from draftproof.conformance.cases.case import Case
from draftproof.conformance.cases.long import uncertain
from draftproof.conformance.lanes.observe import EXACT, PROBE, observe
from draftproof.conformance.protocol.adapter import CONTIGUOUS, Declaration, Program
from draftproof.conformance.requirements._one_law import judged_law, require_certain
from draftproof.conformance.requirements.finding import FAIL, Finding
from draftproof.conformance.requirements.settings import (
    Setting,
    in_setting,
    setting_to_json,
    told_setting,
)
from draftproof.conformance.requirements.task import Task, Terms

_ASKED_BY = {
    "before": "law.long",
    "rows": "batch.large",
    "tokens": "number.tail",
    "layout": "input.layout",
    "calls": "random.calls",
    "generator": "random.default",
    "dtype": "number.dtypes",
}
"""The dimensions, and the requirement on each."""

_MOST_ENTRIES = 2**17
"""The most entries of the target's rows in one request: a lane has an object for each number that
is drawn, and eager verifiers draw for all."""


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on dimensions that meet, in mode certify."""
    if mode != "certify":
        return
    for number, setting in enumerate(settings(declared)):
        judged = partial(judge_crossed, number, setting)
        yield Task(f"crossed.{number}", (_asked_by(setting),), (EXACT, PROBE), judged)


def settings(declared: Declaration) -> list[Setting]:
    """Return settings in which every two values of the dimensions that are taken meet."""
    others = [each for each in declared.dtypes if each != declared.dtype]
    values: dict[str, Sequence[Any]] = {
        "before": (0, 3, 30),
        "place": ((1, 0), (3, 1), (8, 7), (33, 32)) if declared.batch else ((1, 0),),
        "tokens": (0, 61, 1021),
        "layout": ("", *(each for each in declared.layouts if each != CONTIGUOUS)),
        "calls": (0, 1, 2, 6),
        "generator": (True, False),
        "dtype": ("", *(each for each in others if each == "float64")),
    }
    if declared.noise:
        # Its noise has the shape of what is asked.
        values = {
            name: each if name in ("layout", "dtype") else each[:1] for name, each in values.items()
        }
    rows = covering([*values.values()], lambda row: _fits(dict(zip(values, row, strict=True))))
    return [_setting(dict(zip(values, row, strict=True))) for row in rows]


def _fits(given: dict[str, Any]) -> bool:
    (rows, _), before, tokens = given["place"], given["before"], given["tokens"]
    return bool(rows * (before + 3) * (tokens + 4) <= _MOST_ENTRIES)


def _setting(given: dict[str, Any]) -> Setting:
    rows, row = given["place"]
    return Setting(rows=rows, row=row, **{n: v for n, v in given.items() if n != "place"})


def covering(
    values: Sequence[Sequence[Any]], fits: Callable[[tuple[Any, ...]], bool]
) -> list[tuple[Any, ...]]:
    """Return rows of one value of each dimension, in which every pair of values that fits meets.

    Each row begins with a pair that has not met, and takes those values that make most others meet.
    """

    def pairs(row: Sequence[Any]) -> set[tuple[tuple[int, Any], tuple[int, Any]]]:
        placed = [(place, value) for place, value in enumerate(row) if value is not None]
        return set(combinations(placed, 2))

    plain = [each[0] for each in values]

    def completed(row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(p if v is None else v for p, v in zip(plain, row, strict=True))

    left = {
        ((i, v), (j, w)): None
        for i, j in combinations(range(len(values)), 2)
        for v in values[i]
        for w in values[j]
    }
    found = []
    while left:
        (i, v), (j, w) = next(iter(left))
        row: list[Any] = [None] * len(values)
        row[i], row[j] = v, w
        if not fits(completed(row)):
            del left[(i, v), (j, w)]
            continue
        for place in (each for each in range(len(values)) if row[each] is None):
            best, most = plain[place], -1
            for value in values[place]:
                trial = [*row[:place], value, *row[place + 1 :]]
                met = sum(pair in left for pair in pairs(trial))
                if met > most and fits(completed(trial)):
                    best, most = value, met
            row[place] = best
        found.append(tuple(row))
        for pair in pairs(row):
            left.pop(pair, None)
    return found


def _asked_by(setting: Setting) -> str:
    """Return the requirement on the first dimension in which a setting is not plain."""
    own = setting_to_json(setting)
    first = next((name for name in _ASKED_BY if name in own), "dtype")
    return _ASKED_BY[first]


def judge_crossed(number: int, setting: Setting, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding on a case in a setting, by the requirement on its first dimension."""
    require_certain(program, terms.lane)
    name = f"crossed.{number}"
    case = Case(name, "", "certify", uncertain(name, 3, {0, 2}))
    seen = observe(in_setting(program, setting), case, lane=terms.lane)
    found = judged_law(_asked_by(setting), seen)
    if found.verdict != FAIL:
        return [found]
    told = f": {found.detail}" if found.detail else ""
    return [Finding(**{**vars(found), "detail": f"asked {told_setting(setting)}{told}"})]
