"""Combinations of serving dimensions: a length in a batch, a layout without a generator, and so on.

A fault may need two dimensions to show. So each class of each dimension (plain, more, much more) is
combined with every class of every other dimension: all pairs that fit, in a few dozen requests. The
requirement is that of the first dimension that is not plain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from draftproof.conformance.cases.case import Case
from draftproof.conformance.cases.long import refusable, uncertain
from draftproof.conformance.lanes.observe import EXACT, PROBE, observe
from draftproof.conformance.protocol.adapter import CONTIGUOUS, Declaration, Program
from draftproof.conformance.requirements._one_law import judged_law, require_certain
from draftproof.conformance.requirements.finding import FAIL, SKIPPED, Finding
from draftproof.conformance.requirements.settings import (
    PLAIN,
    Setting,
    entries,
    in_setting,
    setting_to_json,
    told_setting,
)
from draftproof.conformance.requirements.task import Task, Terms

_ASKED_BY = {
    "before": "law.long",
    "rows": "batch.large",
    "empty": "batch.large",
    "tokens": "number.tail",
    "layout": "input.layout",
    "calls": "random.calls",
    "generator": "random.default",
    "dtype": "number.dtypes",
}
"""Requirement on each dimension; the first dimension that is not plain decides a setting."""

_MOST_ENTRIES = 2**14
"""Maximum number of entries of the target's rows in one request: a lane has an object for each
random number, and eager verifiers draw for all entries."""

_MOST_PROBED = 2**11
"""Maximum number of entries of a request whose law is probed."""

_Class = tuple[Any, ...]
"""Values of a dimension, used in turn: the plain value, larger values, or much larger ones."""


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on combined dimensions, in mode certify."""
    if mode != "certify":
        return
    for number, setting in enumerate(settings(declared)):
        judged = partial(judge_crossed, number, setting)
        yield Task(f"crossed.{number}", (_asked_by(setting),), (EXACT, PROBE), judged)


def settings(declared: Declaration) -> list[Setting]:
    """Return settings that combine every two classes of the dimensions that the adapter takes."""
    longer = [each for each in declared.dtypes if each == "float64" != declared.dtype]
    others = [each for each in declared.layouts if each != CONTIGUOUS]
    own: dict[str, tuple[_Class, ...]] = {
        "layout": (("",), *((each,) for each in others)),
        "dtype": (("",), *((each,) for each in longer)),
    }
    if declared.noise:
        # Its noise has the shape of what is asked.
        return _settings(own)
    batched: dict[str, tuple[_Class, ...]] = {
        "place": (
            ((1, 0),),
            ((3, 1), (8, 7), (6, 2), (16, 0)),
            ((33, 32), (256, 255), (64, 40), (128, 100), (67, 65)),
        )
    }
    ragged: dict[str, tuple[_Class, ...]] = {"empty": ((False,), (True,))}
    return _settings(
        {
            "before": ((0,), (3, 4, 9, 13, 21), (30, 29)),
            **(batched if declared.batch else {}),
            **(ragged if declared.batch and declared.ragged else {}),
            "tokens": ((0,), (61, 2, 200), (509, 1021, 2045, 4091)),
            "calls": ((0,), (1, 2), (5, 3, 6)),
            "generator": ((True,), (False,)),
            **own,
        }
    )


def _settings(values: Mapping[str, tuple[_Class, ...]]) -> list[Setting]:
    """Return settings that combine all classes, with values of each class in turn."""

    def setting(row: Sequence[Any]) -> Setting:
        given = dict(zip(values, row, strict=True))
        rows, place = given.pop("place", (1, 0))
        return Setting(rows=rows, row=place, **given)

    def fits(row: Sequence[Any]) -> bool:
        asked = setting(row)
        return entries(asked) <= _MOST_ENTRIES and not (asked.empty and asked.rows == 1)

    asked = Counter[Any]()
    found = []
    for classes in covering([*values.values()], lambda row: fits([each[0] for each in row])):
        row = [each[0] for each in classes]
        for place, each in enumerate(classes):
            # What was asked least is next.
            for value in sorted(each, key=lambda value: asked[place, value]):
                if fits([*row[:place], value, *row[place + 1 :]]):
                    row[place] = value
                    break
            asked[place, row[place]] += 1
        found.append(setting(row))
    return [each for each in found if each != PLAIN]


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
    """Return the requirement on the first dimension that is not plain in a setting."""
    own = setting_to_json(setting)
    return next(_ASKED_BY[name] for name in _ASKED_BY if name in own)


def judge_crossed(number: int, setting: Setting, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding on a case in a setting, by the requirement on its first dimension."""
    name = f"crossed.{number}"
    if terms.lane == PROBE and entries(setting) > _MOST_PROBED:
        told = "an interpreted kernel takes minutes for it"
        return [Finding(_asked_by(setting), name, SKIPPED, detail=told)]
    require_certain(program, terms.lane)
    # A kernel that is interpreted takes seconds for every way there is.
    instance = (
        refusable(name, 3, {0, 2})
        if terms.lane == PROBE
        else uncertain(name, 3, {0, 2}, ((0, 1), (0,)))
    )
    case = Case(name, "", "certify", instance)
    seen = observe(in_setting(program, setting), case, lane=terms.lane)
    found = judged_law(_asked_by(setting), seen)
    if found.verdict != FAIL:
        return [found]
    told = f": {found.detail}" if found.detail else ""
    return [replace(found, detail=f"asked {told_setting(setting)}{told}")]
