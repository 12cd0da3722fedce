from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.model import Instance, context_key, instance_from_json
from draftproof.reference.optimum import LengthOptimum, pivoting, stateful, stateless

exact = settings.get_profile("exact")

Optimum = Callable[[Instance], LengthOptimum]

either = pytest.mark.parametrize("optimum", [stateless, stateful])


@either
@settings(exact, max_examples=60)
@given(data=st.data())
def test_the_exact_reading_needs_no_proposal(
    drafted: Any, optimum: Optimum, data: st.DataObject
) -> None:
    instance = data.draw(drafted())
    proposed = optimum(instance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pivoting, "_proposal", lambda program, basis: basis)
        assert optimum(instance).value == proposed.value


@either
def test_ties_everywhere_end(optimum: Optimum) -> None:
    """All bounds agree in several ways at once: eps alone decides what leaves."""
    uniform = {"vocabulary": 3, "length": 2, "target": ["1/3"] * 3, "draft": ["1/3"] * 3}
    for drafts in (2, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pivoting, "_proposal", lambda program, basis: basis)
            assert optimum(instance_from_json({**uniform, "drafts": drafts})).value == 2


@either
def test_floats_that_go_wrong_are_only_slower(
    monkeypatch: pytest.MonkeyPatch, optimum: Optimum
) -> None:
    """Probabilities that floats cannot tell from 0 next to ones that they can."""
    small = f"1/{10**400}"
    rest = f"{10**400 - 1}/{10**400}"
    instance = instance_from_json(
        {"vocabulary": 2, "length": 2, "drafts": 2, "target": [small, rest], "draft": [rest, small]}
    )
    found = optimum(instance).value
    monkeypatch.setattr(pivoting, "_proposal", lambda program, basis: basis)
    assert optimum(instance).value == found


@either
def test_the_largest_shape_that_is_promised(optimum: Optimum) -> None:
    random = Random(0)

    def row() -> list[str]:
        counts = [random.randint(0, 6) for _ in range(4)]
        counts[random.randrange(4)] += 1
        return [f"{count}/{sum(counts)}" for count in counts]

    contexts = [context_key(c) for size in range(4) for c in product(range(4), repeat=size)]
    rows = {name: {context: row() for context in contexts} for name in ("target", "draft")}
    best = optimum(instance_from_json({"vocabulary": 4, "length": 3, "drafts": 3, **rows}))
    assert len(best.selection) > 1
