"""Verifiers that know less: their bounds against programs of a stranger, and against verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.optimize import linprog

from draftproof.reference.ledger import limits
from draftproof.reference.ledger.instances import row, seeded
from draftproof.reference.ledger.scored import SCORED
from draftproof.reference.model import Instance
from draftproof.reference.optimum import stateless
from draftproof.reference.optimum.knowledge import (
    Family,
    along_the_path,
    emitted_from_the_drafts,
    from_the_drafts,
)
from draftproof.reference.rational import ONE, rational


def evenly(worlds: list[Instance]) -> Family:
    return [(ONE / len(worlds), world) for world in worlds]


def test_the_pair_is_bounded_by_laws_of_the_first_token() -> None:
    """By a stranger: unknowns are A and Q' of both tokens, in one law for both models."""
    # The unknowns are Q'(0), Q'(1), A(0), A(1); what is accepted is 3/2 (A(0) + A(1)) on average.
    found = linprog(
        [0, 0, -1.5, -1.5],
        A_ub=[[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [-1, 0, 1, 0], [0, -1, 0, 1]],
        b_ub=[7 / 16, 7 / 16, 3 / 4, 0, 0],
        bounds=[(0, 1), (0, 1), (0, 1 / 2), (0, 1 / 2)],
    )
    assert -found.fun == pytest.approx(9 / 8)
    assert limits.of_the_pair()["largest mean along the path"] == rational("9/8")


def test_a_rule_for_two_models_alone_may_know_which_it_is_in() -> None:
    *pair, none_good = limits.one_or_none(limits.PAIR)
    assert along_the_path(pair).value == rational("19/16")
    assert along_the_path([*pair, none_good]).value == rational("9/8")
    # A verifier that reads all drafted rows sees whether the good token is drafted.
    assert from_the_drafts([*pair, none_good]).value == rational("19/16")


def by_a_stranger(p: list[float], q: list[float], worlds: Sequence[tuple[int, ...]]) -> float:
    """Return the mean of verifiers that see the drafted tokens and the worth of each, K = 2.

    A world is the worth of each token, what its acceptance brings in all; the unknowns are the
    probabilities to accept a token given two and their worths.
    """
    pairs = list(combinations_with_replacement(range(len(p)), 2))
    seen = [((i, j), (world[i], world[j])) for world in worlds for i, j in pairs]
    kept = dict.fromkeys((sight, t) for sight in seen for t in sight[0])
    names = {name: index for index, name in enumerate(kept)}
    worth, above, most = np.zeros(len(names)), [], []
    for world in worlds:
        taken = np.zeros((len(p), len(names)))
        for i, j in pairs:
            mass = q[i] * q[j] * (1 if i == j else 2)
            for t in {i, j}:
                name = names[((i, j), (world[i], world[j])), t]
                taken[t, name] = mass
                worth[name] += mass * world[t] / len(worlds)
        above += list(taken)
        most += p
    for sight in set(seen):
        above.append(np.array([float(name[0] == sight) for name in names]))
        most.append(1.0)
    return float(-linprog(-worth, A_ub=np.array(above), b_ub=most).fun)


def test_the_three_are_bounded_by_a_strangers_program() -> None:
    p, q = [1 / 4, 1 / 2, 1 / 4, 0.0], [1 / 8, 3 / 8, 1 / 8, 3 / 8]
    worlds = [(1, 2, 1, 1), (2, 2, 1, 1), (1, 2, 2, 1)]
    assert by_a_stranger(p, q, worlds) == pytest.approx(143 / 96)
    assert limits.of_the_three()["largest mean from the drafted rows"] == rational("143/96")
    alone = [by_a_stranger(p, q, [world]) for world in worlds]
    assert sum(alone) / 3 == pytest.approx(97 / 64)
    assert alone == pytest.approx([float(stateless(world).value) for world in limits.three(2)])


@pytest.mark.parametrize("tokens", [2, 3])
def test_programs_agree_with_a_stranger_on_what_the_drafts_tell(tokens: int) -> None:
    p, q = row("1/3 1/3 1/3 0"), row("1/5 1/5 1/5 2/5")
    worths = [(*each, *(1,) * (4 - tokens)) for each in product((1, 2), repeat=tokens)]
    worlds = [
        limits.good_after([t for t, worth in enumerate(each) if worth == 2], p, q)
        for each in worths
    ]
    stranger = by_a_stranger([float(x) for x in p], [float(x) for x in q], worths)
    assert float(from_the_drafts(evenly(worlds)).value) == pytest.approx(stranger)


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("drafts", [2, 3])
def test_what_is_emitted_by_drafted_rows_keeps_the_share_of_a_path(
    tokens: int, drafts: int
) -> None:
    """The bound of the ledger, by hand: with T = P(one of the n is drafted), (1 + (L-1)/n) T."""
    mass = limits.masses(tokens, drafts)
    worlds = limits.one_good(tokens, length=2, drafts=drafts, mass=mass)
    drafted = 1 - (1 - tokens * mass) ** drafts
    bound = (1 + ONE / tokens) * drafted
    assert emitted_from_the_drafts(evenly(worlds)).value == bound
    assert from_the_drafts(evenly(worlds)).value > bound


def test_one_world_is_known() -> None:
    for world in seeded(12, 2, length=2, drafts=2):
        optimum = stateless(world).value
        assert along_the_path([(ONE, world)]).value == optimum
        assert from_the_drafts([(ONE, world)]).value == optimum
        assert emitted_from_the_drafts([(ONE, world)]).value == optimum


def test_knowing_less_is_never_better_and_scored_is_a_rule_along_the_path() -> None:
    for root in seeded(5, 2, length=2, drafts=2):
        worlds = limits.worlds_of(root)[:6]
        family = evenly(worlds)
        along, drafted = along_the_path(family).value, from_the_drafts(family).value
        emitted = emitted_from_the_drafts(family).value
        assert sum(map(SCORED, worlds)) / len(worlds) <= along <= emitted <= drafted
        assert drafted <= limits.mean_optimum(family)
