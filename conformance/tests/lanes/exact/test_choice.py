"""Choices that nobody looks at: their rows, exact and in doubles, and the laws made of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, tensor

from draftproof.conformance.lanes.exact import RowLaw, exact_law, row_law
from draftproof.conformance.lanes.exact._choice import (
    Bins,
    Choice,
    Doubles,
    Image,
    Listed,
    coin,
    passed_by_all,
    row_of,
)
from draftproof.conformance.lanes.exact._noise import Noise, Uniform, World
from draftproof.conformance.lanes.exact._steps import (
    AT_LEAST,
    MORE,
    Affine,
    Clamp,
    Log,
    Rounded,
    Step,
)
from draftproof.conformance.lanes.exchange import Asked, columns, request
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.precise import extended
from draftproof.conformance.lanes.unwatched import watched_generator
from draftproof.conformance.protocol.adapter import declaration
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.reference.chance import Chance, enumerate_law, enumerate_rows
from draftproof.reference.drafting import FixedTree
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Row
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, rational, total
from draftproof.reference.verifiers import ALGORITHMS

Rows = Mapping[Hashable, NDArray[numpy.float64]]

exact = settings(derandomize=True, deadline=None, max_examples=200)

eighths = st.integers(-16, 16).map(lambda n: n / 8)
affine = st.builds(
    lambda scale, shift: Affine(exactly(scale), exactly(shift)), eighths.filter(bool), eighths
)
steps: st.SearchStrategy[list[Step]] = st.one_of(
    st.just([]),
    st.lists(affine, min_size=1, max_size=1),
    st.tuples(affine, st.just(Clamp(rational(0), rational("1/2")))).map(list),
    st.tuples(affine, st.just(Rounded(3, -5))).map(list),
    st.just([Log(), Affine(rational(-1), rational(0))]),
)
edges = st.lists(eighths, max_size=6).map(sorted)
limits = st.tuples(st.integers(0, 7), st.integers(1, 8)).map(
    lambda ends: (rational(min(ends)) / 8, rational(max(ends[1], ends[0] + 1)) / 8)
)


def bins_of(chain: list[Step], edges: list[float], relation: str) -> Bins:
    return Bins(Noise(Uniform()).then(*chain), numpy.array(edges, numpy.float64), relation)


def one_by_one(bins: Bins, world: World) -> int:
    """Return the bin, found by comparing with one edge after another."""
    numbered = enumerate(map(extended, bins.edges.tolist()))
    passed = (i for i, e in numbered if not bins.noise.compare(bins.relation, e, world))
    return next(passed, len(bins.edges))


@exact
@given(chain=steps, edges=edges, relation=st.sampled_from([MORE, AT_LEAST]), within=limits)
def test_a_bin_is_what_comparisons_with_all_edges_find(
    chain: list[Step], edges: list[float], relation: str, within: tuple[Rational, Rational]
) -> None:
    bins = bins_of(chain, edges, relation)

    def law(decide: Callable[[World], int]) -> Law[Any]:
        def program(chance: Chance) -> Any:
            world = World(chance)
            world.learn(bins.noise.uniform, within)
            return decide(world), world.known[bins.noise.uniform]

        return enumerate_law(program)

    found = law(bins.decide)
    assert found == law(lambda world: one_by_one(bins, world))
    world = World(None)  # type: ignore[arg-type]  # nothing is asked of it
    world.learn(bins.noise.uniform, within)
    row = bins.row(world)
    shares = dict(zip(row.values, row.shares(), strict=True))
    assert Law(shares) == found.map(lambda each: each[0])


@exact
@given(chain=steps, edges=edges, relation=st.sampled_from([MORE, AT_LEAST]))
def test_what_every_number_passes_is_known_at_once(
    chain: list[Step], edges: list[float], relation: str
) -> None:
    """And only that: what depends on the number is left open."""
    bins = bins_of(chain, edges, relation)
    noise = bins.noise
    values = bins.row(World(None)).values  # type: ignore[arg-type]  # nothing is asked of it
    known = values[0] if len(values) == 1 else None
    assert passed_by_all(noise, bins.edges, relation) == known
    each = [noise.always(relation, extended(edge)) for edge in edges]
    if known is not None:
        assert each == [place < known for place in range(len(edges))]
    elif not any(a == b for a, b in pairwise(edges)):
        assert None in each


def test_what_is_certain_of_noise_is_no_choice() -> None:
    """A batch of a thousand certain rows has one outcome, and nothing to decide."""

    def certain() -> tuple[Tensor, Tensor]:
        coins = torch.rand(1000, dtype=torch.float64)
        return coins < 1, torch.searchsorted(tensor([0.0, 1.0, 1.0]).double(), coins)

    found = exact_law(certain)
    assert (len(found.law), found.runs) == (1, 1)
    assert [*found.law] == [((True,) * 1000, (1,) * 1000)]


@exact
@given(chain=steps, edges=edges, within=limits)
def test_doubles_are_as_near_as_they_say(
    chain: list[Step], edges: list[float], within: tuple[Rational, Rational]
) -> None:
    bins = bins_of(chain, edges, AT_LEAST)
    world = World(None)  # type: ignore[arg-type]  # nothing is asked of it
    world.learn(bins.noise.uniform, within)
    row, found = bins.row(world), bins.doubles(world)
    right = dict(zip(row.values, row.shares(), strict=True))
    off = {value: exactly(share) for value, share in zip(*plain(found), strict=True)}
    distance = total(abs(right.get(v, ZERO) - off.get(v, ZERO)) for v in {*right, *off}) / 2
    assert distance <= exactly(found.error)


def plain(found: Any) -> tuple[list[int], list[float]]:
    return found.values.tolist(), found.shares.tolist()


def test_a_bound_of_doubles_is_needed_and_kept() -> None:
    """Edges in thirds are rounded, a narrow interval makes it worse, and the bound knows."""
    bins = bins_of(
        [Affine(rational(3), rational("1/3"))], [1 / 3 + i / 64 for i in range(64)], MORE
    )
    world = World(None)  # type: ignore[arg-type]  # nothing is asked of it
    world.learn(bins.noise.uniform, (rational("1/64"), rational("1/3")))
    row, found = bins.row(world), bins.doubles(world)
    right = dict(zip(row.values, row.shares(), strict=True))
    distance = sum(abs(right[v] - exactly(s)) for v, s in zip(*plain(found), strict=True)) / 2
    assert 0 < distance <= exactly(found.error) < exactly(1e-12)


TINY, HUGE = rational(10) ** -300, rational(10) ** 300


@pytest.mark.parametrize(
    ("scale", "shift", "edge"),
    [
        (HUGE * HUGE, ZERO, 0.5),
        (TINY * TINY, rational(1), 0.5),
        (TINY * TINY, rational(1), 1.0),
        (TINY * TINY, ZERO, 0.0),
        (TINY, -HUGE * 10**8, 1.0),
        (HUGE * 10**8, -HUGE * 10**7, -1e300),
        (HUGE, ZERO, 5e299),
    ],
)
def test_doubles_of_numbers_that_are_no_doubles(
    scale: Rational, shift: Rational, edge: float
) -> None:
    bins = bins_of([Affine(scale, shift)], [edge], AT_LEAST)
    row, found = bins.row(UNKNOWING), bins.doubles(UNKNOWING)
    assert found.values.tolist() == row.values
    off = zip(row.shares(), found.shares.tolist(), strict=True)
    assert sum(abs(right - exactly(share)) for right, share in off) / 2 <= exactly(found.error)


UNKNOWING = World(None)  # type: ignore[arg-type]  # nothing is asked of it


def test_rows_with_other_bounds_are_not_equal() -> None:
    values, shares = numpy.array([1]), numpy.ones(1)
    assert Doubles(values, shares, 0.0) == Doubles(values.copy(), shares.copy(), 0.0)
    assert Doubles(values, shares, 0.0) != Doubles(values, shares, 1.0)


def test_rows_of_draws() -> None:
    world = World(None)  # type: ignore[arg-type]  # nothing is asked of it
    thirds = Choice.of(Listed((5, 6, 7), (rational(1), rational(0), rational(2))))
    doubled = Choice.of(Image(thirds, lambda values: values * 2))
    assert (row_of(thirds, world).values, row_of(thirds, world).shares()) == (
        [5, 7],
        [rational("1/3"), rational("2/3")],
    )
    assert row_of(doubled, world).values == [10, 14]
    assert row_of(Choice.of(coin(rational("1/4"))), world).values == [1, 0]
    world.learn(thirds, 7)
    assert row_of(doubled, world).values == [14]


# --- whole numbers of choices ------------------------------------------------------------------

WEIGHTS = tensor([1.0, 2.0, 0.0, 5.0])
WHOLE: list[Callable[[Tensor], Tensor]] = [
    lambda x: x + 3,
    lambda x: 3 - x,
    lambda x: -x,
    lambda x: x * 4 + torch.arange(2),
    lambda x: torch.minimum(x, tensor([2])),
    lambda x: torch.maximum(tensor([[1], [3]]), x),
    lambda x: x.clamp(1, 2),
    lambda x: x.clamp(max=tensor([1])),
    lambda x: torch.add(x, 2, alpha=3),
    lambda x: torch.sub(tensor([9]), x, alpha=2),
    lambda x: x.clone().add_(tensor([5])),
    lambda x: torch.full((1,), 7).mul_(x),
    lambda x: (x.int() + 2**31 - 2).long(),
    lambda x: torch.where(tensor([True, False]), x + 1, 9),
]


@pytest.mark.parametrize("whole", WHOLE)
def test_a_whole_number_that_is_computed_from_a_draw_is_a_row(
    whole: Callable[[Tensor], Tensor],
) -> None:
    def unread() -> Tensor:
        return whole(torch.multinomial(WEIGHTS, 1))

    def read() -> Any:
        drawn = torch.multinomial(WEIGHTS, 1)
        assert drawn.tolist() != [9]
        return [whole(drawn).tolist()]

    found, looked_at = exact_law(unread), exact_law(read)
    assert (found.runs, looked_at.runs) == (1, 3)
    assert {(each,): weight for each, weight in found.law.items()} == looked_at.law.weights


LOOKING: list[Callable[[Tensor], Any]] = [
    lambda x: x + x,
    lambda x: x * torch.multinomial(WEIGHTS, 1),
    lambda x: torch.multinomial(WEIGHTS, 2, replacement=True) - x,
    lambda x: x + 0.5,
    lambda x: x.float() + 1,
    lambda x: torch.add(torch.zeros(1, dtype=torch.int32), x),
    lambda x: x // 2,
]


@pytest.mark.parametrize("whole", LOOKING)
def test_what_is_more_than_whole_numbers_of_one_choice_is_looked_at(
    whole: Callable[[Tensor], Any],
) -> None:
    assert exact_law(lambda: whole(torch.multinomial(WEIGHTS, 1))).runs >= 3


def test_torch_says_in_its_own_words_what_does_not_go_together() -> None:
    def program() -> str:
        try:
            (torch.randint(3, (2,)) + torch.ones(3, dtype=torch.int64)).sum()
        except RuntimeError as error:
            return str(error)
        return "it went"

    assert {*exact_law(program).law} == {program()}


# --- laws that are rows ------------------------------------------------------------------------


def two_rows(vocabulary: int) -> Tensor:
    generator = torch.Generator().manual_seed(vocabulary)
    return torch.rand(2, vocabulary, generator=generator, dtype=torch.float64)


def drawn_from(rows: Tensor) -> Callable[[], tuple[Any, Tensor]]:
    """Return what tosses a coin, and draws a token from one of two rows by inverting its sum."""

    def program() -> tuple[Any, Tensor]:
        u = torch.rand(2, dtype=torch.float64)
        is_heads = bool(u[0] < 0.3)
        sums = rows[int(is_heads)].cumsum(0)
        return is_heads, torch.searchsorted(sums, u[1] * sums[-1], right=True)

    return program


def test_a_law_of_rows_is_the_exact_law() -> None:
    program = drawn_from(two_rows(50))
    right, found = exact_law(program).law, row_law(program, 50)
    distance = found.distance(
        {
            heads: numpy.array([float(right[heads, token]) for token in range(50)])
            for heads in (False, True)
        }
    )
    assert found.runs == 2
    assert 0 < found.error < 1e-12
    assert distance <= found.error


def test_a_law_of_rows_is_known_of_many_tokens() -> None:
    rows = two_rows(150_000)
    found = row_law(drawn_from(rows), 150_000)
    heads = exactly(0.3)
    shares = (rows / rows.sum(-1, keepdim=True)).numpy()
    right: Rows = {False: float(1 - heads) * shares[0], True: float(heads) * shares[1]}
    # A running sum of n doubles is off by n roundings of its last.
    assert found.distance(right) <= found.error + 150_000 * 2.0**-53
    assert found.error < 1e-8


@pytest.mark.parametrize(
    "clamped",
    [
        lambda: torch.randint(99_991, (1,)).clamp(max=3),
        lambda: torch.randint(100_000, (1,)).clamp(max=0),
        lambda: torch.multinomial(torch.arange(1.0, 30_000), 1).clamp(max=1),
    ],
)
def test_many_tokens_that_become_one_are_within_the_error(clamped: Callable[[], Tensor]) -> None:
    right = exact_law(clamped).law
    found = row_law(lambda: (0, clamped()), 4)
    off = total(abs(right[(token,)] - exactly(float(found.rows[0][token]))) for token in range(4))
    assert off / 2 <= exactly(found.error) < exactly(1e-14)


def test_the_larger_of_two_errors_counts() -> None:
    """One branch returns a token that is known, the other one that is known up to rounding."""
    edge = tensor([1 + 2.0**-41], dtype=torch.float64)

    def program() -> tuple[int, Tensor]:
        u = torch.rand(2, dtype=torch.float64)
        if u[0] < 0.5:
            return 0, tensor([0])
        return 0, torch.searchsorted(edge, u[1:] * 2.0**-40 + 1.0 + 2.0**-53)

    right = exact_law(lambda: program()[1]).law
    found = row_law(program, 2)
    row = found.rows[0].tolist()
    off = total(abs(right[(token,)] - exactly(row[token])) for token in range(2))
    assert 0 < off / 2 <= exactly(found.error)


def test_rows_of_races_and_of_draws_with_weights() -> None:
    weights = WEIGHTS.double()

    def race() -> tuple[int, Tensor]:
        return 0, (weights / torch.empty(4, dtype=torch.float64).exponential_()).argmax()

    def drawn() -> tuple[int, Tensor]:
        return 0, torch.multinomial(weights, 1)

    for program in (race, drawn):
        found = row_law(program, 4)
        assert found.runs == 1
        assert found.distance({0: numpy.array([0.125, 0.25, 0, 0.625])}) <= found.error


def test_an_outcome_that_is_a_choice_is_made() -> None:
    def program() -> tuple[Tensor, Tensor]:
        first = torch.randint(2, (1,))
        return first, torch.multinomial(WEIGHTS, 1)

    found = row_law(program, 4)
    assert {*found.rows} == {(0,), (1,)}
    assert found.runs == 1


def test_the_token_may_lie_in_tuples_and_lists() -> None:
    found = row_law(lambda: (0, [(torch.randint(4, (1,)),)]), 4)
    assert found.rows[0].tolist() == [0.25] * 4


def test_the_outcome_may_be_the_token() -> None:
    def program() -> tuple[Tensor, Tensor]:
        token = torch.multinomial(WEIGHTS, 1)
        return token, token

    assert {
        outcome: row.nonzero()[0].tolist() for outcome, row in row_law(program, 4).rows.items()
    } == {(0,): [0], (1,): [1], (3,): [3]}


@pytest.mark.parametrize(
    ("program", "size", "error", "said"),
    [
        (lambda: (0, torch.randint(9, (1,))), 8, ValueError, "token 8, which is not in 0..7"),
        (lambda: (0, torch.randint(2, (1,)) - 1), 8, ValueError, "token -1, which is not in"),
        (lambda: (0, 1, 2), 8, TypeError, "must return a pair"),
        (lambda: (0, torch.randint(2, (2,))), 8, TypeError, "a whole number with its outcome"),
        (lambda: (0, 0.5), 8, TypeError, r"got 0\.5"),
        (lambda: (0, "x"), 8, TypeError, "got 'x'"),
        (lambda: (0, torch.rand(1)), 8, OpaqueRandomness, "is continuous"),
    ],
)
def test_what_is_no_outcome_and_token_is_refused(
    program: Callable[[], Any], size: int, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        row_law(program, size)


def counted(vocabulary: int, seed: int, all_of: int = 2**22) -> Row:
    """Return a row of multiples of 2**-22, which floats hold exactly."""
    random = numpy.random.default_rng(seed)
    counts = random.multinomial(all_of, random.dirichlet(numpy.full(vocabulary, 0.3)))
    return tuple(rational(int(count)) / all_of for count in counts)


def rows_of(name: str, asked: Asked) -> RowLaw:
    """Return the law of an adapter on one request, a row for each accepted length."""
    adapter, (instance, _) = load_adapter(name), asked
    declared = declaration(adapter)
    generator = watched_generator(declared.device)

    def program() -> tuple[Tensor, Tensor]:
        given = replace(request([asked], declared), generator=generator)
        accepted, _, token = columns(adapter.verify(given), 1)
        return accepted, token

    return row_law(program, instance.vocabulary)


def reference_rows(name: str, asked: Asked) -> Rows:
    instance, paths = asked
    drafts = FixedTree(paths, instance)

    def program(chance: Chance) -> tuple[tuple[int], int]:
        said = ALGORITHMS[name].verify(drafts, instance, chance)
        return (len(said.accepted),), said.next_token

    found = enumerate_rows(program, instance.vocabulary)
    return {outcome: numpy.array([*map(float, row)]) for outcome, row in found.items()}


@pytest.mark.parametrize("name", ["token", "block"])
def test_verifiers_of_thousands_of_tokens_have_the_law_of_the_reference(name: str) -> None:
    vocabulary = 4099
    target, draft = (
        Model(which, vocabulary, {(): counted(vocabulary, seed)}, context_free=True)
        for seed, which in enumerate(("target", "draft"))
    )
    instance = Instance(target, draft, length=2)
    likely = sorted(range(vocabulary), key=lambda token: draft(())[token], reverse=True)
    asked: Asked = (instance, ((likely[0], likely[3]),))
    found, right = rows_of(f"torch-{name}", asked), reference_rows(name, asked)
    allowed = allowed_distance(declaration(load_adapter(f"torch-{name}")), vocabulary, 2)
    # A weight of the reference is rounded once.
    assert found.distance(right) <= float(allowed) + found.error + 2.0**-53
    assert found.distance(right) < 1e-6
    assert {*found.rows} <= {(0,), (1,), (2,)}


def test_a_row_that_lacks_a_token_is_seen_among_thousands() -> None:
    """A verifier that never says the last token of its row, which is one of 4,099."""
    rows = two_rows(4099)

    def wrong() -> tuple[Any, Tensor]:
        heads, token = drawn_from(rows)()
        return heads, token.clamp(max=4097)

    right, found = row_law(drawn_from(rows), 4099), row_law(wrong, 4099)
    last = rows[:, -1] / rows.sum(-1)
    heads = 0.3
    lost = float((1 - heads) * last[0] + heads * last[1])
    assert abs(found.distance(right.rows) - lost) <= found.error + right.error + 4099 * 2.0**-53
    assert found.runs == right.runs == 2
    assert lost > 1e-6


# --- comparisons that nothing hangs on -----------------------------------------------------------

_ABLE = (3, 5, 6)
"""Tokens that are drawn, each as likely as the others."""


def drawn() -> Tensor:
    weights = torch.zeros(8)
    weights[[*_ABLE]] = 1
    return torch.multinomial(weights, 1)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("other", [-1, 0, 3, 4, 5, 6, 7, 8, float("nan"), 4.5])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_comparison_of_a_choice_has_the_law_of_its_values(
    name: str, other: float, *, is_reversed: bool
) -> None:
    compare = getattr(torch, name)

    def asked(token: Tensor) -> Tensor:
        number = tensor([other, float(-1)])
        found: Tensor = compare(number, token) if is_reversed else compare(token, number)
        return found

    right: dict[Any, Rational] = {}
    for token in _ABLE:
        key = tuple(asked(tensor([token])).tolist())
        right[key] = right.get(key, ZERO) + rational("1/3")
    found = exact_law(lambda: tuple(asked(drawn()).tolist()))
    assert found.law == Law(right)
    # The last token that is able is known, and the first of all; 4.5 lies between them.
    within = {tuple(asked(tensor([token])).tolist()) for token in range(max(_ABLE) + 1)}
    assert found.runs == (1 if len(within) == 1 and other != 4.5 else len(_ABLE))


def test_places_without_a_token_are_counted_and_the_tokens_are_not_looked_at() -> None:
    """Padding of -1, as engines have it: the number of tokens is known before the tokens are."""

    def padded() -> tuple[Any, Any]:
        out = torch.full((2, 3), -1)
        out[0, :1] = torch.multinomial(torch.ones(1000), 1)
        if torch.rand(()) < 0.25:
            out[0, 1:2] = torch.multinomial(torch.ones(1000), 1)
        length = (out != -1).sum(-1) - 1
        return length[0], out.gather(-1, length.clamp(min=0)[:, None])[0, 0]

    found = row_law(padded, 1000)
    assert found.runs == 2
    assert {length: float(row.sum()) for length, row in found.rows.items()} == {
        0: pytest.approx(0.75, abs=found.error),
        1: pytest.approx(0.25, abs=found.error),
    }


def test_two_choices_that_are_compared_are_decided() -> None:
    found = exact_law(lambda: bool(drawn() == drawn()))
    assert found.law == Law({True: rational("1/3"), False: rational("2/3")})


def test_the_ends_of_a_whole_number_are_those_of_its_images() -> None:
    found = exact_law(lambda: bool((drawn() * -(2**53) + 1 < 2) & (drawn() - 8 < 0)))
    assert (found.runs, found.law) == (1, Law({True: ONE}))
