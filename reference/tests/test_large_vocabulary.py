from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from draftproof.reference.errors import InvalidInput, NotADistribution, Unsupported, WrongShape
from draftproof.reference.optimum.large_vocabulary import acceptance_rate

exact = settings.get_profile("exact")

Row = NDArray[np.floating[Any]]
Counts = Sequence[int]
Law = dict[int, Fraction]

SCHEMES = ("iid", "without_replacement", "hub", "greedy")
LLAMA = 128_256
BOUND = 1e-9
ROUNDING = 1e-13


def law(counts: Counts) -> list[Fraction]:
    whole = sum(counts)
    return [Fraction(count, whole) for count in counts]


def row(counts: Counts) -> Row:
    return np.array([float(share) for share in law(counts)])


# The optimum by its definition: every set of drafts, every set of tokens. A set is an int of bits.


def with_another(sets: Law, q: Sequence[Fraction], *, replaced: bool) -> Law:
    """Draw one more token; sets that hold all that can be drawn stay as they are."""
    further: Law = {}
    for drawn, weight in sets.items():
        allowed = [i for i in range(len(q)) if q[i] and (replaced or not drawn >> i & 1)]
        mass = sum((q[i] for i in allowed), Fraction(0))
        shares = [(drawn | 1 << i, q[i] / mass) for i in allowed]
        for now, share in shares or [(drawn, Fraction(1))]:
            further[now] = further.get(now, Fraction(0)) + weight * share
    return further


def drafted_sets(scheme: str, q: Sequence[Fraction], drafts: int) -> Law:
    """Return the law of the set of drafts."""
    if scheme in ("iid", "without_replacement"):
        sets = {0: Fraction(1)}
        for _ in range(drafts):
            sets = with_another(sets, q, replaced=scheme == "iid")
        return sets
    ranked = sorted((i for i in range(len(q)) if q[i]), key=lambda i: (-q[i], i))
    if scheme == "greedy":
        top = sum(1 << i for i in ranked[: drafts - 1])
        return with_another({top: Fraction(1)}, q, replaced=False)
    hub, pairs = ranked[0], Law()
    for i in ranked[1:]:
        pairs[1 << hub | 1 << i] = q[i] + q[hub] * q[i] / (1 - q[hub])
    return pairs or {1 << hub: Fraction(1)}


def optimum(p: Sequence[Fraction], sets: Law) -> Fraction:
    """Return 1 + min of p(H) - Q(H) over all H."""
    inside = [sets.get(tokens, Fraction(0)) for tokens in range(1 << len(p))]
    for i, tokens in product(range(len(p)), range(1 << len(p))):
        if tokens >> i & 1:
            inside[tokens] += inside[tokens ^ 1 << i]
    masses = reduce(lambda sums, x: sums + [mass + x for mass in sums], p, [Fraction(0)])
    return 1 + min(mass - q for mass, q in zip(masses, inside, strict=True))


shares = st.sampled_from((0, 0, 1, 1, 2, 3, 5, 10**6, 10**12))


@st.composite
def pairs_of_rows(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draw two rows of 1 to 5 counts with zeros, ties, point masses and masses near one."""
    size = draw(st.integers(1, 5))
    counts = st.lists(shares, min_size=size, max_size=size).filter(any)
    return draw(counts), draw(counts)


@exact
@given(rows=pairs_of_rows(), drafts=st.integers(1, 4), scheme=st.sampled_from(SCHEMES))
def test_the_rate_is_the_optimum_over_all_sets(
    rows: tuple[list[int], list[int]], drafts: int, scheme: str
) -> None:
    target, draft = rows
    drafts = 2 if scheme == "hub" else drafts
    value = optimum(law(target), drafted_sets(scheme, law(draft), drafts))
    found = acceptance_rate(row(target), row(draft), scheme=scheme, drafts=drafts)
    assert abs(found - value) < (BOUND if scheme == "without_replacement" else ROUNDING)


DOZENS = {
    "flat": [1] * 12,
    "halving": [2**i for i in range(12)],
    "harmonic": [27720 // i for i in range(1, 13)],
    "one near one": [10**6, *range(1, 12)],
    "three near one": [10**12, 10**6, 10**6, *range(1, 10)],
    "scales apart": [10**15, 10**15, 10**9, 10**9, 10**9, 10**5, 10**5, 1, 1, 1, 1, 1],
    "a support of eight": [0, 0, 10**6, 0, 1, 2, 3, 4, 0, 5, 6, 7],
}


@pytest.mark.parametrize("name", DOZENS)
def test_a_dozen_tokens_without_replacement(name: str) -> None:
    random = Random(name)
    draft, sets = DOZENS[name], {0: Fraction(1)}
    for drafts in range(1, 9):
        sets = with_another(sets, law(draft), replaced=False)
        if drafts not in (3, 8):
            continue
        unlike = [random.choice((0, 1, 2, 5, 30)) for _ in draft]
        alike = [count * random.randrange(1, 6) + random.randrange(2) for count in draft]
        for target in (unlike, alike):
            value = optimum(law(target), sets)
            found = acceptance_rate(
                row(target), row(draft), scheme="without_replacement", drafts=drafts
            )
            assert abs(found - value) < BOUND


# As many tokens as Llama 3 has, in groups of equals: exact, since only counts matter. Within a
# group p(H) is linear in the number of tokens and Q(H) convex, so the best H is a union of groups.

Group = tuple[int, int, int]  # how many tokens, their weight in the draft and in the target


def drawn_of_groups(sizes: Counts, weights: Counts, drafts: int) -> dict[tuple[int, ...], Fraction]:
    """Return the law of how many tokens are drawn without replacement from each group."""
    whole = sum(size * weight for size, weight in zip(sizes, weights, strict=True))
    law = {(0,) * len(sizes): Fraction(1)}
    for _ in range(drafts):
        further: dict[tuple[int, ...], Fraction] = {}
        for drawn, chance in law.items():
            left = whole - sum(n * weight for n, weight in zip(drawn, weights, strict=True))
            for g, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
                now = (*drawn[:g], drawn[g] + 1, *drawn[g + 1 :])
                share = chance * Fraction((size - drawn[g]) * weight, left)
                further[now] = further.get(now, Fraction(0)) + share
        law = further
    return law


def optimum_of_groups(
    sizes: Counts, target: Counts, drawn: dict[tuple[int, ...], Fraction]
) -> Fraction:
    whole = sum(size * weight for size, weight in zip(sizes, target, strict=True))
    values = [Fraction(1)]
    for chosen in product((0, 1), repeat=len(sizes)):
        mass = sum(c * n * weight for c, n, weight in zip(chosen, sizes, target, strict=True))
        inside = (
            chance
            for counts, chance in drawn.items()
            if all(c or n == 0 for n, c in zip(counts, chosen, strict=True))
        )
        values.append(1 + Fraction(mass, whole) - sum(inside, Fraction(0)))
    return min(values)


@pytest.mark.parametrize("drafts", [3, 8])
@pytest.mark.parametrize(
    "weights",
    [
        (10**9, 10**8, 10**6, 10**4, 10**3),
        (10**15, 1, 1, 1, 1),
        (10**20, 10**12, 10**5, 1, 1),
        (3, 1, 1, 1, 1),
        (10**6, 10**6, 1, 10**6, 10),
        (10**40, 10**30, 10**3, 10, 1),
    ],
)
def test_groups_of_equal_tokens_at_full_size(weights: tuple[int, ...], drafts: int) -> None:
    random = Random(str((weights, drafts)))
    sizes = (1, 5, 250, 10_000, 118_000)
    drawn = drawn_of_groups(sizes, weights, drafts)
    for _ in range(2):
        tilts = [random.choice((1, 1, 2, 4, 20)) for _ in sizes]
        target = [weight * tilt for weight, tilt in zip(weights, tilts, strict=True)]
        found = acceptance_rate(
            grouped(sizes, target),
            grouped(sizes, weights),
            scheme="without_replacement",
            drafts=drafts,
        )
        assert abs(found - optimum_of_groups(sizes, target, drawn)) < BOUND


def grouped(sizes: Counts, weights: Counts) -> Row:
    whole = sum(size * weight for size, weight in zip(sizes, weights, strict=True))
    return np.repeat([weight / whole for weight in weights], sizes)


def normalised(weights: Row) -> Row:
    shares: Row = weights / weights.sum()
    return shares


def softmax(seed: int, temperature: float) -> Row:
    """Return a row like a model's; what all seeds share is what the text implies."""
    shared, own = (np.random.default_rng(s).standard_normal(LLAMA) for s in (0, seed))
    return normalised(np.exp((2.5 * shared + own) / temperature))


ZIPF = normalised(1 / np.arange(1, LLAMA + 1))
FLAT = np.full(LLAMA, 1 / LLAMA)
FULL_SIZE = {
    "Zipf": (np.roll(ZIPF, 3), ZIPF),
    "flat target": (FLAT, ZIPF),
    "flat draft": (ZIPF, FLAT),
    "alike": (normalised(ZIPF * np.linspace(0.99, 1.01, LLAMA)), ZIPF),
    "softmax": (softmax(1, 1), softmax(2, 1)),
    "cold softmax": (softmax(1, 0.3), softmax(2, 0.3)),
    "frozen softmax": (softmax(1, 0.05), softmax(2, 0.05)),
}
at_full_size = pytest.mark.parametrize("name", FULL_SIZE)


@at_full_size
def test_two_drafts_without_replacement_have_a_closed_form(name: str) -> None:
    """1 - Q(H) = (1 - q(H)) (1 + sum of q / (1 - q) over H)."""
    target, draft = FULL_SIZE[name]
    order = np.argsort(target / draft)
    p, q = target[order], draft[order]
    outside = np.append(np.cumsum(q[:0:-1])[::-1], 0)
    others = np.where(q < 0.5, 1 - q, math.fsum(draft[draft < 0.5]))  # exact near one
    value = (np.cumsum(p) + outside * (1 + np.cumsum(q / others))).min()
    found = acceptance_rate(target, draft, scheme="without_replacement", drafts=2)
    assert abs(found - min(1, value)) < BOUND


@pytest.mark.parametrize("drafts", [2, 3, 8])
def test_a_flat_draft_without_replacement_deals_cards(drafts: int) -> None:
    p, cards = np.sort(ZIPF), np.arange(1, LLAMA + 1)
    inside = math.prod(np.maximum(cards - i, 0) / (LLAMA - i) for i in range(drafts))
    value = (np.cumsum(p) + 1 - inside).min()
    found = acceptance_rate(p, FLAT, scheme="without_replacement", drafts=drafts)
    assert abs(found - value) < BOUND


@pytest.mark.parametrize(("drafts", "others"), [(16, 20), (64, 100), (64, 4000)])
def test_many_drafts_without_replacement(drafts: int, others: int) -> None:
    """The draft draws the first token at once, and then deals K - 1 cards."""
    q = np.array([1, *[1e-40] * others])
    p = np.arange(1, others + 2) / np.arange(1, others + 2).sum()
    p[0] = 0
    p /= p.sum()
    cards = np.arange(others + 1)
    inside = math.prod(np.maximum(cards - i, 0) / (others - i) for i in range(drafts - 1))
    value = (np.cumsum(p) + 1 - inside).min()
    found = acceptance_rate(p, q, scheme="without_replacement", drafts=drafts)
    assert abs(found - value) < BOUND


# What holds for every pair of rows.


@pytest.mark.parametrize("drafts", [1, 2, 8, 1000])
@at_full_size
def test_independent_drafts_at_full_size(name: str, drafts: int) -> None:
    """With a plain sort, which the implementation avoids."""
    target, draft = FULL_SIZE[name]
    order = np.argsort(target / draft)
    inside = np.cumsum(draft[order]) ** drafts
    value = min(1, 1 + (np.cumsum(target[order]) - inside).min())
    found = acceptance_rate(target, draft, scheme="iid", drafts=drafts)
    assert abs(found - value) < drafts * 1e-11


@exact
@given(rows=pairs_of_rows(), drafts=st.integers(1, 8))
def test_more_drafts_are_never_worse_and_repeated_ones_never_better(
    rows: tuple[list[int], list[int]], drafts: int
) -> None:
    target, draft = map(row, rows)
    for scheme in ("iid", "without_replacement", "greedy"):
        fewer = acceptance_rate(target, draft, scheme=scheme, drafts=drafts)
        more = acceptance_rate(target, draft, scheme=scheme, drafts=drafts + 1)
        assert 0 <= fewer <= more + BOUND
        assert more <= 1
    independent, distinct = (
        acceptance_rate(target, draft, scheme=scheme, drafts=drafts)
        for scheme in ("iid", "without_replacement")
    )
    assert independent <= distinct + ROUNDING


@exact
@given(rows=pairs_of_rows())
def test_one_draft_is_accepted_as_often_as_the_rows_overlap(
    rows: tuple[list[int], list[int]],
) -> None:
    target, draft = map(row, rows)
    overlap = np.minimum(target, draft).sum()
    for scheme in ("iid", "without_replacement", "greedy"):
        found = acceptance_rate(target, draft, scheme=scheme, drafts=1)
        assert abs(found - overlap) < ROUNDING


@at_full_size
def test_the_schemes_in_order_at_full_size(name: str) -> None:
    target, draft = FULL_SIZE[name]
    rates = {
        scheme: [acceptance_rate(target, draft, scheme=scheme, drafts=k) for k in (1, 2, 4)]
        for scheme in ("iid", "without_replacement", "greedy")
    }
    for values in rates.values():
        assert values == sorted(values)
        assert abs(values[0] - np.minimum(target, draft).sum()) < LLAMA * 2**-53
    for independent, distinct in zip(rates["iid"], rates["without_replacement"], strict=True):
        assert independent <= distinct
    hub = acceptance_rate(target, draft, scheme="hub", drafts=2)
    assert hub == rates["greedy"][1]


@at_full_size
def test_drafts_of_the_target_itself_are_always_accepted(name: str) -> None:
    target, _ = FULL_SIZE[name]
    for scheme in ("iid", "without_replacement"):
        assert 1 - BOUND < acceptance_rate(target, target, scheme=scheme, drafts=2) <= 1


# What is special.


def test_of_equally_probable_tokens_the_smallest_is_the_hub() -> None:
    draft = np.array([0.2, 0.3, 0.3, 0.2])
    for token, value in ((1, 1), (2, 3 / 7), (3, 2 / 7)):
        found = acceptance_rate(np.eye(4)[token], draft, scheme="hub", drafts=2)
        assert found == pytest.approx(value, abs=ROUNDING)


def test_a_weight_that_is_larger_by_one_bit_makes_the_hub() -> None:
    for scale in np.linspace(0.9991, 0.9995, 50):  # divided by it, both can round to the same
        draft = scale * np.array([0.2501, 0.2501, 0.2499, 0.2499])
        draft[1] = np.nextafter(draft[1], 1)
        found = acceptance_rate(np.eye(4)[1], draft, scheme="hub", drafts=2)
        assert found == 1


@pytest.mark.parametrize("scheme", ["iid", "without_replacement", "greedy"])
@pytest.mark.parametrize("drafts", [3, 4, 100])
def test_drafts_stop_where_the_support_does(scheme: str, drafts: int) -> None:
    target, draft = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.5, 0.0, 0.25, 0.25])
    found = acceptance_rate(target, draft, scheme=scheme, drafts=drafts)
    if scheme == "iid":
        assert found <= 0.8 + ROUNDING
    else:
        assert found == pytest.approx(0.8, abs=ROUNDING)


def test_the_second_of_two_drafts_can_be_as_improbable_as_one_likes() -> None:
    draft = np.array([1.0, 1e-289, 3e-289])
    target = np.array([0.0, 0.5, 0.5])
    for scheme in ("without_replacement", "greedy", "hub"):
        found = acceptance_rate(target, draft, scheme=scheme, drafts=2)
        assert found == pytest.approx(0.75, abs=BOUND)
    draft[1:] = 1e-300
    assert acceptance_rate(target, draft, scheme="without_replacement", drafts=2) == 0
    assert acceptance_rate(target, draft, scheme="greedy", drafts=2) == pytest.approx(1)


@pytest.mark.parametrize("scheme", ["iid", "without_replacement"])
def test_neither_rounding_nor_what_is_next_to_nothing_matters(scheme: str) -> None:
    for tokens in range(3, 100):
        draft = np.array([1e-30, 1e-310, 5e-324, *[1 / tokens] * tokens])
        target = np.array([-0.0, 1e-300, 5e-324, *[1 / tokens] * tokens])
        found = acceptance_rate(target, draft, scheme=scheme, drafts=2)
        assert 1 - BOUND < found <= 1


def test_extreme_ratios() -> None:
    for draft, value in (([0.5, 0.5], 0.75), ([1e-310, 1.0], 1.0), ([1.0, 1e-310], 0.0)):
        found = acceptance_rate(np.array([-0.0, 1.0]), np.array(draft), scheme="iid", drafts=2)
        assert found == pytest.approx(value, abs=ROUNDING)


def test_small_rates_are_as_exact_as_large_ones() -> None:
    """1 - (1 - x)^3 is 3x - 3x^2 + x^3, of which floats near one know nothing."""
    x = Fraction(1e-20)
    found = acceptance_rate(np.array([0.0, 1.0]), np.array([1.0, 1e-20]), scheme="iid", drafts=3)
    assert found == pytest.approx(float(3 * x - 3 * x**2 + x**3), rel=ROUNDING, abs=0)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_are_read_in_float32_up_to_scale_and_left_alone(scheme: str) -> None:
    target, draft = (x.astype(np.float32) for x in FULL_SIZE["softmax"])
    found = acceptance_rate(target, draft, scheme=scheme, drafts=2)
    wide = [x.astype(np.float64) for x in (target, draft)]
    assert found == acceptance_rate(*wide, scheme=scheme, drafts=2)
    assert np.array_equal(wide, [target, draft])
    scaled = acceptance_rate(wide[0] * 1.0009, wide[1] * 0.9991, scheme=scheme, drafts=2)
    assert found == pytest.approx(scaled, abs=LLAMA * 2**-53)


# What is refused.

EVEN = np.array([0.5, 0.5])


@pytest.mark.parametrize(
    ("target", "draft", "error", "message"),
    [
        (
            np.array([[0.5, 0.5]]),
            EVEN,
            WrongShape,
            "the target must be one row of weights, its shape is (1, 2)",
        ),
        (
            EVEN,
            np.array([]),
            WrongShape,
            "the draft must be one row of weights, its shape is (0,)",
        ),
        (
            EVEN,
            np.array([0.5, 0.25, 0.25]),
            WrongShape,
            "target and draft must share a vocabulary, the target has 2 tokens and the draft 3",
        ),
        (
            np.array([1, 0]),
            EVEN,
            Unsupported,
            "the target's weights must be floats, they are int64",
        ),
        (
            EVEN,
            np.array([1.25, -0.25]),
            NotADistribution,
            "the draft gives token 0 the weight 1.25",
        ),
        (
            EVEN,
            np.array([0.5, 0.75, -0.25]),
            NotADistribution,
            "the draft gives token 2 the weight -0.25",
        ),
        (
            np.array([1, np.nan]),
            EVEN,
            NotADistribution,
            "the target gives token 1 the weight nan",
        ),
        (
            np.array([np.inf, 1]),
            EVEN,
            NotADistribution,
            "the target gives token 0 the weight inf",
        ),
        (
            np.array([0.5, 0.498]),
            EVEN,
            NotADistribution,
            "the target must sum to 1, it sums to 0.998",
        ),
        (
            EVEN,
            np.array([0.75, 0.75]),
            NotADistribution,
            "the draft must sum to 1, it sums to 1.5",
        ),
    ],
)
def test_a_wrong_row_is_named(
    target: Row, draft: Row, error: type[InvalidInput], message: str
) -> None:
    for scheme in SCHEMES:
        with pytest.raises(error) as refusal:
            acceptance_rate(target, draft, scheme=scheme, drafts=2)
        assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("scheme", "drafts", "error", "message"),
    [
        ("iid", 0, WrongShape, "the number of drafts must be at least 1, got 0"),
        ("hub", 1, Unsupported, "the scheme 'hub' has 2 drafts, got 1"),
        ("hub", 3, Unsupported, "the scheme 'hub' has 2 drafts, got 3"),
        (
            "uniform",
            2,
            Unsupported,
            "unknown drafting scheme 'uniform'; known: iid, without_replacement, hub, greedy",
        ),
    ],
)
def test_a_wrong_scheme_is_named(
    scheme: str, drafts: int, error: type[InvalidInput], message: str
) -> None:
    with pytest.raises(error) as refusal:
        acceptance_rate(EVEN, EVEN, scheme=scheme, drafts=drafts)
    assert str(refusal.value) == message


def test_too_many_drafts_without_replacement_are_unsupported_unless_they_are_all_tokens() -> None:
    few, many = np.full(65, 1 / 65), np.full(66, 1 / 66)
    found = acceptance_rate(few, few, scheme="without_replacement", drafts=65)
    assert found == pytest.approx(1, abs=ROUNDING)
    with pytest.raises(Unsupported) as refusal:
        acceptance_rate(many, many, scheme="without_replacement", drafts=65)
    assert str(refusal.value) == "without replacement there can be at most 64 drafts, got 65"
