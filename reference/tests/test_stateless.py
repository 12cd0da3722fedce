from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from draftproof.reference.drafting import draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.errors import InvalidInput, Unsupported
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import acceptance_rate, stateful, stateless
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law, require_fit

exact = settings.get_profile("exact")
SEVERAL = [(2, (2,)), (3, (2,)), (2, (2, 1)), (2, (2, 2)), (3, (2, 1)), (2, (3, 1))]


def test_the_motivating_example(motivating: Instance) -> None:
    """Its greedy multi-path verifier is optimal for two drafts, not for three: 1289/729."""
    one, two, three = (stateless(replace(motivating, drafts=drafts)).value for drafts in (1, 2, 3))
    assert (one, two) == (rational("11/9"), rational("131/81"))
    assert three > rational("1289/729")


@pytest.mark.requirement("length.bounded", "length.optimal")
@exact
@given(instance=...)
def test_block_reaches_the_optimum_at_every_prefix_and_token_does_not_exceed_it(
    instance: Instance,
) -> None:
    optimum = stateless(instance)
    block, token = (emission_law(ALGORITHMS[name], instance) for name in ("block", "token"))
    assert expected_accepted(token) <= expected_accepted(block) == optimum.value
    for size in range(1, instance.length + 1):
        kept = block.map(partial(first_accepted, size))
        for prefix, budget in optimum.budget.items():
            assert len(prefix) != size or kept[prefix] == budget


def first_accepted(size: int, emission: Emission) -> Path:
    return emission.accepted[:size]


def fits(name: str, instance: Instance) -> bool:
    try:
        require_fit(ALGORITHMS[name], instance)
    except InvalidInput:
        return False
    return True


@pytest.mark.requirement("length.bounded")
@settings(exact, max_examples=40)
@given(data=st.data())
def test_no_stateless_verifier_exceeds_it(drafted: Any, data: st.DataObject) -> None:
    instance = data.draw(drafted(shapes=SEVERAL))
    best = stateless(instance).value
    for name, algorithm in ALGORITHMS.items():
        if fits(name, instance) and not algorithm.stateful:
            assert expected_accepted(emission_law(algorithm, instance)) <= best, name


@settings(exact, max_examples=80)
@given(data=st.data())
def test_it_is_between_nothing_and_the_stateful_optimum(drafted: Any, data: st.DataObject) -> None:
    instance = data.draw(drafted())
    assert 0 <= stateless(instance).value <= stateful(instance).value <= instance.length


@settings(exact, max_examples=80)
@given(data=st.data())
def test_at_one_position_it_is_the_acceptance_rate(
    drafted: Any, one_position: Any, data: st.DataObject
) -> None:
    instance = data.draw(drafted(shapes=one_position))
    rate = acceptance_rate(instance).value
    assert stateless(instance).value == stateful(instance).value == rate


@settings(exact, max_examples=60)
@given(data=st.data())
def test_more_i_i_d_drafts_never_hurt(shaped_instances: Any, data: st.DataObject) -> None:
    instance = data.draw(shaped_instances(2, 2, 2))
    few, more, most = (replace(instance, drafts=drafts) for drafts in (1, 2, 3))
    for optimum in (stateless, stateful):
        assert optimum(few).value <= optimum(more).value <= optimum(most).value


@settings(exact, max_examples=80)
@given(data=st.data())
def test_at_one_position_replacement_never_helps(
    shaped_instances: Any, data: st.DataObject
) -> None:
    """Without replacement, the drafts are those of the i.i.d. ones that differ, and more."""
    instance = data.draw(shaped_instances(data.draw(st.sampled_from((2, 3, 4))), 1, 1))
    with_it = replace(instance, drafts=2)
    without_it = replace(with_it, scheme="without_replacement")
    assert stateless(with_it).value <= stateless(without_it).value


@pytest.mark.requirement("length.bounded", "length.optimal")
@settings(exact, max_examples=40)
@given(data=st.data())
def test_it_is_the_best_of_all_ways_to_stop(drafted: Any, data: st.DataObject) -> None:
    """The linear program over where to stop on every set of drafts, without any theory of those.

    HiGHS answers in floats, to its tolerance of 1e-7 on every constraint and price; with fewer
    than 100 of either and no value above 3, that is less than 1e-4 in the sum.
    """
    instance = data.draw(drafted(shapes=SEVERAL))
    assert abs(float(stateless(instance).value) - most_stopped(instance)) < 1e-4


def most_stopped(instance: Instance) -> float:
    law = draft_law(instance).map(frozenset)
    stops = [
        (paths, x)
        for paths in law
        for x in {path[:size] for path in paths for size in range(instance.length + 1)}
    ]
    tokens = range(instance.vocabulary)
    above = []
    for size in range(instance.length):
        for x in product(tokens, repeat=size):
            # Prefixes that the target never says have rows of their own, or none.
            for y, p in enumerate(instance.target(x) if instance.target.joint(x) else []):
                xy = (*x, y)
                share = float(p)
                above.append(
                    [
                        float(stop[: len(xy)] == xy) - share * float(stop[:size] == x)
                        for _, stop in stops
                    ]
                )
    each = [[float(paths == drawn) for drawn, _ in stops] for paths in law]
    found = linprog(
        [-len(stop) for _, stop in stops],
        A_ub=above + each,
        b_ub=[0.0] * len(above) + [float(law[paths]) for paths in law],
    )
    return float(-found.fun)


def test_an_unknown_scheme_is_unsupported(motivating: Instance) -> None:
    with pytest.raises(Unsupported, match="unknown drafting scheme 'magic'"):
        stateless(replace(motivating, scheme="magic"))
