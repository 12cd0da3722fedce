"""Two iterations: the optimum against a stranger's program over whole couplings."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from draftproof.reference.errors import MissingContext, Unsupported
from draftproof.reference.ledger.instances import example, seeded
from draftproof.reference.ledger.quantities import expected_tokens
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.two_iterations import two_iterations


def common(one: Path, other: Path) -> int:
    """Return the number of tokens that two texts share."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def by_a_stranger(instance: Instance) -> float:
    """Return the optimum over couplings of draft, emission, second draft and text of V = 2."""
    size = instance.length
    words = [list(product(range(2), repeat=n)) for n in range(2 * size + 2)]
    names = [
        (first, text[: kept + 1], second, text)
        for first in words[size]
        for kept in range(size + 1)
        for text in words[2 * size + 1]
        if text[:kept] == first[:kept]
        for second in words[size]
    ]
    worth = [len(e) + common(second, text[len(e) :]) + 1 for _, e, second, text in names]
    rows, right = [], []
    for first in words[size]:
        rows.append([float(name[0] == first) for name in names])
        right.append(float(instance.draft.joint(first)))
    for text in words[2 * size + 1]:
        rows.append([float(name[3] == text) for name in names])
        right.append(float(instance.target.joint(text)))
    for past in {name[:2] for name in names}:
        after = instance.draft.after(past[1])
        for second in words[size]:
            share = float(after.joint(second))
            rows.append([float(name[:2] == past) * ((name[2] == second) - share) for name in names])
            right.append(0.0)
    return float(-linprog(-np.array(worth), A_eq=np.array(rows), b_eq=right).fun)


@pytest.mark.parametrize(
    "instance",
    [
        example("1/3 2/3", "2/3 1/3"),
        example("1/3 2/3", "2/3 1/3", length=2),
        example("1/4 3/4", "1/2 1/2", length=2),
        *list(seeded(4, 2, depth=3)),
        *list(seeded(2, 2, length=2, depth=5)),
    ],
    ids=str,
)
def test_the_optimum_is_a_strangers(instance: Instance) -> None:
    assert float(two_iterations(instance).value) == pytest.approx(by_a_stranger(instance))


def test_where_draft_and_target_agree_all_is_accepted() -> None:
    same = example("1/3 2/3", "1/3 2/3", length=2)
    assert two_iterations(same).value == 6 == expected_tokens("block", same, 2)


def test_several_paths_and_short_models_are_refused() -> None:
    with pytest.raises(Unsupported, match="for one path, not 2"):
        two_iterations(example("1/3 2/3", "2/3 1/3", drafts=2))
    with pytest.raises(MissingContext):
        two_iterations(next(seeded(1, 2, length=2)))
