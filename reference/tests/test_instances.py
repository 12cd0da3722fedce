"""The laws of this room say little if the instances that they are tried on are easy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st

from draftproof.reference.model import Instance, Row
from draftproof.reference.process import expected_accepted
from draftproof.reference.verifiers import ALGORITHMS, emission_law

exact = settings.get_profile("exact")


def rows(instance: Instance) -> list[tuple[Row, Row]]:
    """Return the target's and the draft's row at every context that is drafted at."""
    contexts = instance.draft.reachable(instance.length - 1)
    return [(instance.target(context), instance.draft(context)) for context in contexts]


def accepted(name: str, instance: Instance) -> object:
    return expected_accepted(emission_law(ALGORITHMS[name], instance))


HARD: dict[str, Callable[[Instance], bool]] = {
    "block exceeds token": lambda i: accepted("block", i) != accepted("token", i),
    "largest shape": lambda i: (i.vocabulary, i.length) == (3, 3),
    "one token": lambda i: (i.vocabulary, i.length) == (1, 3),
    "one drafted token": lambda i: (i.vocabulary, i.length) == (3, 1),
    "rows differ by context": lambda i: len(set(rows(i))) > 9,
    "the draft is the target": lambda i: all(p == q for p, q in rows(i)) and i.vocabulary > 1,
    "agrees in some contexts": lambda i: {True, False} <= {p == q for p, q in rows(i)},
    "disjoint supports": lambda i: any(
        all(a * b == 0 for a, b in zip(p, q, strict=True)) for p, q in rows(i)
    ),
    "point masses": lambda i: any(max(p) == 1 < i.vocabulary for p, _ in rows(i)),
    "zeros in both": lambda i: any(
        any(a == b == 0 for a, b in zip(p, q, strict=True)) for p, q in rows(i)
    ),
    "drafted, but impossible": lambda i: any(
        any(a == 0 < b for a, b in zip(p, q, strict=True)) for p, q in rows(i)
    ),
    "possible, but never drafted": lambda i: any(
        any(a > 0 == b for a, b in zip(p, q, strict=True)) for p, q in rows(i)
    ),
    "ties between ratios": lambda i: any(
        p != q and min(q) > 0 and len({a / b for a, b in zip(p, q, strict=True)}) < len(q)
        for p, q in rows(i)
    ),
    "a mass near one": lambda i: any(0 < 10**5 * (1 - max(p)) < 1 for p, _ in rows(i)),
}


@pytest.mark.parametrize("kind", HARD)
def test_hard_instances_are_among_those_drawn(kind: str) -> None:
    drawn = settings(exact, phases=[Phase.generate])
    assert HARD[kind](find(st.from_type(Instance), HARD[kind], settings=drawn))
