"""Selected paths and their law against exact arithmetic, and both verifiers on hard rows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from draftproof.adapters.fast import TEXTS, FastVerifier, mixture
from draftproof.adapters.fast.batch import Batch, Rows, Softmax
from draftproof.conformance.protocol.adapter import Result
from draftproof.reference import mixture as exact
from draftproof.reference.model import Row
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.verifiers.multipath_block import by_ratio

NAMES = ["multipath_block", "mixed_multipath_block"]
UNIT = 2.0**-53


def rows(vocabulary: int, parts: int) -> st.SearchStrategy[Row]:
    """Rows in equal parts, zeros and point masses included."""
    marks = st.lists(st.integers(0, parts), min_size=vocabulary - 1, max_size=vocabulary - 1)
    return marks.map(
        lambda cuts: tuple(
            rational(b - a) / parts
            for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), parts], strict=True)
        )
    )


def tensor(row: Any, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor([[float(x) for x in row]], dtype=dtype)


@st.composite
def positions(draw: st.DrawFn) -> tuple[Row, Row, Row, Rational]:
    """Rows of target and draft that are floats, the law of how many are alive, and a weight."""
    vocabulary, drafts = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    p, q = (draw(rows(vocabulary, 16)) for _ in range(2))
    return p, q, draw(rows(drafts, 7)), rational(draw(st.integers(0, 12))) / 12


@settings(max_examples=300, deadline=None, derandomize=True)
@given(position=positions())
def test_law_share_and_state_are_those_of_the_reference(
    position: tuple[Row, Row, Row, Rational],
) -> None:
    p, q, counts, weight = position
    alive, ranked = [ZERO, *counts], by_ratio(p, q)
    lower = exact.ranked_below(ranked, q)
    highest = exact.law_of_highest(alive, lower, q)
    share = exact.most_kept_next([weight * x for x in p], highest, q)
    ranking = mixture.ranked(tensor(p, torch.float32), tensor(q, torch.float32), torch.float64)
    tilt = mixture.of_highest(tensor(counts), ranking)
    # Of K terms, each a product of at most K factors that are three roundings each.
    error = 4 * len(counts) ** 2 * UNIT
    assert torch.allclose(tilt * tensor(q), tensor(highest), rtol=error, atol=0)

    found = mixture.most_kept(tensor([weight])[0], ranking.ratio, tensor(q), tilt)
    # A meeting point is a quotient of two differences of numbers of at most K. The denominators are
    # 12 * 16 and 7 * 16**4, so that the lower one is above 2**-19: which loses no more digits.
    assert abs(float(found) - float(share)) <= 2**19 * 2 * len(counts) * error

    for token in ranked:
        after = exact.alive_after(alive, share, q[token], lower[token])
        mine = mixture.alive_after(
            tensor(counts),
            tensor([share])[0],
            ranking.mass[:, token],
            ranking.below[:, token],
        )
        if total(after) > 0:
            expected = tensor([x / total(after) for x in after[1:]])
            assert torch.allclose(mine, expected, rtol=2 * error, atol=0)


def test_of_equally_good_shares_the_smallest_is_taken() -> None:
    """What rises and what falls between the shares 2/15 and 2/5 is equal: 3/16 of either."""
    p, q = tensor([0.225, 0.45, 0.325]), tensor([0.25, 0.5, 0.25])
    ranking = mixture.ranked(p, q, torch.float64)
    tilt = mixture.of_highest(tensor([0, 1]), ranking)
    for error in (0, -UNIT, UNIT, -4 * UNIT, 4 * UNIT):
        off = tilt + tensor([0, 0, error])
        share = mixture.most_kept(tensor([1])[0], ranking.ratio, q, off)
        assert float(share) == pytest.approx(2 / 15, abs=1e-12)


@pytest.mark.parametrize("ranks", [[0] * 16, [0] * 10 + [1, 2] * 3, [2, 1] * 8], ids=str)
def test_a_deep_path_of_many_drafts_keeps_its_digits(ranks: list[int]) -> None:
    """The skewed law by A and m, whose eighth powers are no float64 any more at the lowest path."""
    q, p = (tuple(rational(x) / 1024 for x in row) for row in ((2, 23, 999), (1, 30, 993)))
    ranked = by_ratio(p, q)
    lower = exact.ranked_below(ranked, q)
    ranking = mixture.ranked(tensor(p, torch.float32), tensor(q, torch.float32), torch.float64)
    below, mass = ZERO, ONE
    alive, one = tensor([0] * 7 + [1]), torch.ones(1, dtype=torch.float64)
    for depth, rank in enumerate(ranks):
        edges = [(below + mass * f, below + mass * (f + x)) for f, x in zip(lower, q, strict=True)]
        whole = (below + mass) ** 8 - below**8
        skewed = tensor([(high**8 - low**8) / whole for low, high in edges])
        found = mixture.of_highest(alive, ranking) * tensor(q)
        # Every position multiplies by K factors of three roundings each, K times, and divides.
        assert torch.allclose(found, skewed, rtol=(depth + 1) * 4 * 8**2 * UNIT, atol=0)
        token = ranked[rank]
        below, mass = below + mass * lower[token], mass * q[token]
        alive = mixture.alive_after(alive, one, ranking.mass[:, token], ranking.below[:, token])


def test_ratios_of_float32_that_differ_are_ranked_as_they_are() -> None:
    """Neighbours by one ulp on either side: ratios of float32 would be equal, and rank by id."""
    generator = torch.Generator().manual_seed(0)
    base = 0.5 + torch.rand(1000, 2, generator=generator) / 2
    steps = torch.tensor([0.0, 1.0])
    pairs = [torch.stack([x, torch.nextafter(x, steps.max() * 2)], 1) for x in base.unbind(1)]
    p, q = pairs[0].flip(1), pairs[1].flip(1)
    wide = mixture.ranked(p, q, torch.float64).ratio
    is_lower = p[:, 0].double() * q[:, 1].double() < p[:, 1].double() * q[:, 0].double()
    assert torch.equal(wide[:, 0] < wide[:, 1], is_lower)
    narrow = mixture.ranked(p, q, torch.float32).ratio
    assert (narrow[:, 0] == narrow[:, 1]).any()
    assert not (p[:, 0].double() * q[:, 1].double() == p[:, 1].double() * q[:, 0].double()).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_ratios_of_halves_need_no_more_than_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.rand(1, 500, generator=generator).to(dtype).float() + 2**-8 for _ in range(2))
    p, q = p.to(dtype).float(), q.to(dtype).float()
    narrow, wide = (mixture.ranked(p, q, each).ratio for each in (torch.float32, torch.float64))
    assert torch.equal(narrow.sort(stable=True).indices, wide.sort(stable=True).indices)


def test_a_running_sum_of_262143_equal_masses_does_not_drift() -> None:
    size = 2**18 - 1
    flat = torch.full((2, size), 1 / size)
    ranking = mixture.ranked(flat, flat, torch.float64)
    expected = torch.arange(size, dtype=torch.float64) / size
    assert (ranking.below - expected).abs().max() <= size * UNIT
    alive = torch.zeros(2, 8, dtype=torch.float64)
    alive[:, -1] = 1
    whole = (flat * mixture.of_highest(alive, ranking)).sum(-1)
    assert (whole - 1).abs().max() <= size * UNIT


# --- both verifiers --------------------------------------------------------------------------

CONTEXTS = 97
"""How many rows there are; the last is NaN, for where nothing is drafted."""


def batch(requests: int, drafts: int, length: int, vocabulary: int) -> Batch:
    """Return requests of any length up to this one, of paths that are drafted from their rows.

    A row is that of its context: some have zeros, some are point masses, some are equal in target
    and draft, and most are near.
    """
    generator = torch.Generator().manual_seed(0)
    random = partial(torch.rand, CONTEXTS, vocabulary, generator=generator)
    q = random() ** 2 * (random() < 0.8)
    q[:, -1] += 1e-3
    p = q * (0.5 + random()) + 0.05 * random() * (random() < 0.3)
    p[::5] = q[::5]
    q[1::9], p[2::9] = torch.eye(vocabulary)[0], torch.eye(vocabulary)[-1]
    return drafted(p, q, requests, drafts, length, generator)


def drafted(
    p: Tensor, q: Tensor, requests: int, drafts: int, length: int, generator: torch.Generator
) -> Batch:
    """Return requests of paths that are drafted from these rows, which are made to sum to 1."""
    p, q = (row / row.sum(-1, keepdim=True) for row in (p, q))
    nowhere = len(p) - 1
    p[nowhere], q[nowhere] = torch.nan, torch.nan
    tokens = torch.zeros(requests, drafts, length, dtype=torch.int64)
    lengths = torch.arange(requests) % (length + 1)
    context = (torch.arange(requests) % nowhere)[:, None].expand(-1, drafts)
    at = torch.zeros(requests, drafts, length + 1, dtype=torch.int64)
    for i in range(length + 1):
        at[:, :, i] = torch.where(lengths[:, None] < i, nowhere, context)
        if i < length:
            drawn = torch.multinomial(q[context.flatten()], 1, generator=generator)
            tokens[:, :, i] = torch.where(lengths[:, None] > i, drawn.view_as(context), 0)
            context = (31 * context + 7 * drawn.view_as(context) + i) % nowhere
    inside = torch.arange(length) < lengths[:, None, None]
    return Batch(tokens, lengths, Rows(q, torch.where(inside, at[..., :-1], nowhere)), Rows(p, at))


def indifferent(requests: int) -> Batch:
    """Return requests of one position, where shares between two meetings keep all the same."""
    generator = torch.Generator().manual_seed(0)
    side = 0.1 + 0.15 * torch.rand(CONTEXTS, dtype=torch.float64, generator=generator)
    q = torch.stack([side, 1 - 2 * side, side], 1)
    p = torch.stack([0.88 * side, 0.9 - 1.8 * side, 0.1 + 0.92 * side], 1)
    return drafted(p, q, requests, 2, 1, generator)


def stored(given: Batch, dtype: torch.dtype) -> Batch:
    """Return the batch with rows of another dtype."""
    p, q = (replace(rows, values=rows.values.to(dtype)) for rows in (given.p, given.q))
    return replace(given, p=p, q=q)


def as_logits(given: Batch) -> Batch:
    """Return the batch with logits for its rows, a third of the size that they must have."""

    def logits(rows: Rows) -> Rows:
        values = rows.values.log() / 3
        scale = torch.full((len(values),), 3.0)
        least, last = torch.full_like(scale, -torch.inf), torch.zeros_like(scale).long()
        return replace(
            rows, values=values, softmax=Softmax(scale, values.amax(-1).float(), least, last)
        )

    p, q = map(logits, (given.p, given.q))
    return replace(given, p=p, q=q)


def noise(name: str, given: Batch) -> Tensor:
    width = TEXTS[name].noise(given.drafts, given.length)
    generator = torch.Generator().manual_seed(1)
    return torch.rand(len(given.lengths), width, dtype=torch.float64, generator=generator)


def kept(given: Batch, result: Result) -> Tensor:
    """Return the accepted tokens [B, L] of a result, -1 behind them."""
    own = given.tokens[torch.arange(len(given.lengths)), result.path]
    return own.where(torch.arange(given.length) < result.accepted_length[:, None], -1)


def differing(given: Batch, one: Result, other: Result) -> int:
    """Return how many requests have another result, wherever paths of the same tokens part."""
    is_other = (kept(given, one) != kept(given, other)).any(1)
    return int((is_other | (one.next_token != other.next_token)).sum())


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "given",
    [
        batch(1000, 1, 2, 3),
        batch(1000, 3, 3, 7),
        batch(1000, 8, 2, 3),
        batch(8, 2, 2, 5000),
        batch(8, 2, 1, 1),
        batch(8, 2, 0, 3),
        indifferent(1000),
        stored(batch(1000, 2, 2, 5), torch.float64),
        stored(batch(1000, 2, 2, 5), torch.bfloat16),
        as_logits(batch(1000, 2, 2, 5)),
    ],
    ids=[
        "one",
        "several",
        "eight",
        "large",
        "single",
        "empty",
        "indifferent",
        "float64",
        "bfloat16",
        "logits",
    ],
)
def test_triton_says_what_torch_says(name: str, given: Batch) -> None:
    pytest.importorskip("triton")
    numbers = noise(name, given)
    numbers[::7] = 0
    one, other = (FastVerifier(name, form=form).of(given, numbers) for form in ("torch", "triton"))
    # Sums of float32 move the mark of the next token, those of float64 do not move a coin: of a
    # thousand rows, 1e-3 is decided otherwise.
    assert differing(given, one, other) <= 1
    assert set(one.accepted_length.tolist()) == set(range(given.length + 1)) or len(numbers) == 8


@pytest.mark.parametrize("name", NAMES)
def test_rows_in_pieces_are_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pieces, the last of them short: interpreted, a piece holds 65,536 tokens."""
    launch = pytest.importorskip("draftproof.adapters.fast.kernels.launch")
    given = batch(6, 2, 2, 100)
    numbers = noise(name, given)
    # On a GPU a program holds one tile, and a request is a program.
    monkeypatch.setattr(launch, "IS_INTERPRETED", False)
    monkeypatch.setattr(launch, "_TILE", 32)
    one, other = (FastVerifier(name, form=form).of(given, numbers) for form in ("torch", "triton"))
    assert differing(given, one, other) == 0


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_their_probabilities(name: str) -> None:
    given = batch(1000, 2, 2, 5)
    numbers = noise(name, given)
    one, other = (FastVerifier(name).of(each, numbers) for each in (given, as_logits(given)))
    # Tens of roundings of 2**-24 in some five thresholds of each row; but a rank that rounding
    # decides is another path, in rows whose ratios are equal: every fifth here.
    is_equal = (given.p.values[given.p.at] == given.q.values[given.p.at]).all(-1).any(-1).any(-1)
    is_other = (one.accepted_length != other.accepted_length) | (one.next_token != other.next_token)
    assert int((is_other & ~is_equal).sum()) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_sixteen_positions_of_eight_drafts_emit_what_the_target_says(name: str) -> None:
    """The first token's frequency, in 5,000 requests, is the target's."""
    generator = torch.Generator().manual_seed(0)
    p, q = torch.rand(2, 2, 3, generator=generator).unbind()
    given = drafted(p, q, 5_000, 8, 16, generator)
    result = FastVerifier(name).of(given, noise(name, given))
    first = torch.where(result.accepted_length > 0, kept(given, result)[:, 0], result.next_token)
    found = first.bincount(minlength=3) / len(first)
    # Hoeffding: a frequency is off by more with a probability of 2e-9.
    most = float(numpy.sqrt(numpy.log(1e9) / (2 * len(first))))
    assert (found - given.p.values[0]).abs().max() < most
    assert result.accepted_length.max() == 16


@pytest.mark.parametrize("name", NAMES)
def test_one_token_is_always_kept(name: str) -> None:
    given = batch(9, 8, 16, 1)
    result = FastVerifier(name).of(given, noise(name, given))
    assert torch.equal(result.accepted_length, given.lengths)
    assert not result.next_token.any()


@pytest.mark.requirement("law.support", "random.boundary")
@pytest.mark.parametrize("name", NAMES)
def test_a_draft_that_is_sure_of_what_the_target_never_says(name: str) -> None:
    draft, target = torch.eye(3)[[0, 0]], torch.eye(3)[[2, 2]]
    generator = torch.Generator().manual_seed(0)
    given = drafted(target, draft, 8, 8, 3, generator)
    zeros = torch.zeros_like(noise(name, given))
    for numbers in (zeros, noise(name, given), zeros + 1 - UNIT):
        result = FastVerifier(name).of(given, numbers)
        assert not result.accepted_length.any()
        assert (result.next_token == 2).all()


@pytest.mark.requirement("input.undrafted")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("likely", [0.0, 0.25])
def test_what_the_draft_cannot_have_said_is_kept_if_the_target_says_it(
    name: str, likely: float
) -> None:
    draft, target = torch.eye(3)[[0, 0]], torch.tensor([[1 - likely, likely, 0.0]] * 2)
    given = drafted(target, draft, 8, 2, 3, torch.Generator().manual_seed(0))
    given = replace(given, tokens=torch.where(given.tokens < 3, 1, 0))
    result = FastVerifier(name).of(given, noise(name, given))
    assert torch.equal(result.accepted_length, given.lengths if likely else given.lengths * 0)


def test_equal_rows_refuse_nothing() -> None:
    """The best share is 0 then, and q is verified against itself: to the last bit."""
    generator = torch.Generator().manual_seed(0)
    q = torch.rand(CONTEXTS, 50, generator=generator)
    given = drafted(q, q, 200, 8, 4, generator)
    numbers = noise("mixed_multipath_block", given)
    numbers[:, 1:-1:2] = 1 - UNIT
    result = FastVerifier("mixed_multipath_block").of(given, numbers)
    assert torch.equal(result.accepted_length, given.lengths)


def test_rows_that_differ_by_rounding_refuse_as_little() -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.rand(CONTEXTS, 50, generator=generator)
    given = drafted(q, q, 200, 8, 4, generator)
    values = given.q.values
    nearby = torch.nextafter(values, torch.rand(values.shape, generator=generator).round())
    given = replace(given, p=replace(given.p, values=nearby))
    numbers = noise("mixed_multipath_block", given)
    # Four ratios that are off by two roundings each, and a share that gains no more by its tilt.
    numbers[:, 1:-1:2] = 1 - 4 * 4 * 2.0**-23
    result = FastVerifier("mixed_multipath_block").of(given, numbers)
    assert torch.equal(result.accepted_length, given.lengths)


@pytest.mark.requirement("number.tail")
@pytest.mark.parametrize("name", NAMES)
def test_every_token_of_a_large_flat_vocabulary_is_drawn_in_its_turn(name: str) -> None:
    size = 2**18
    flat, sure = torch.full((2, size), 1 / size), torch.eye(1, size).expand(2, -1)
    generator = torch.Generator().manual_seed(0)
    given = drafted(flat, sure, 8, 2, 1, generator)
    numbers = noise(name, given)
    numbers[:, -2] = 1 - UNIT
    result = FastVerifier(name).of(given, numbers)
    # All of token 0 is drafted: what is owed are the others, each as much as any.
    expected = torch.where(
        given.lengths == 1,
        1 + (numbers[:, -1] * (size - 1)).long(),
        (numbers[:, -1] * size).long(),
    )
    assert torch.equal(result.next_token, expected)
    assert not result.accepted_length.any()
