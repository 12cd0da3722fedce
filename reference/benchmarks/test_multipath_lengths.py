"""How many tokens the verifiers of several i.i.d. paths accept: our own beside the others.

Small vocabularies: by exact laws, as a share of the certified optimum. A vocabulary of 2,000: in
floats, by Monte Carlo. There every verifier is a function of the drafted paths and of the rows
along them, and returns E[accepted length | what it looks at of the drafts]: its coins, the score
draws and the next position's tokens are summed over and not drawn. All verifiers get the same
drafts, so their differences are known better than their values. On small vocabularies the floats
agree with the exact laws.

Tests take a few draws and models; `make bench` sets DRAFTPROOF_DRAWS=60 DRAFTPROOF_MODELS=12, and
more can be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from heapq import heapify, heappop, heappush
from itertools import pairwise, product
from math import comb, prod, sqrt
from os import environ
from random import Random
from statistics import median
from timeit import repeat

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture

from draftproof.reference.ledger.scored import SCORED
from draftproof.reference.ledger.scored_greedy import GREEDY
from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.optimum import stateless
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law

Array = NDArray[np.float64]
Rows = Callable[[Path], tuple[Array, Array]]
Drafts = Sequence[Path]
Verifier = Callable[[Drafts, Rows], float]

VOCABULARY, LENGTH = 2_000, 8
NOISES, DRAFTS = (0.3, 0.7, 1.2, 2.0), (2, 3, 4)
DRAWS = int(environ.get("DRAFTPROOF_DRAWS", "8"))  # per noise, the same paths for every K
MODELS = int(environ.get("DRAFTPROOF_MODELS", "3"))  # per shape


# The tree of the drafted paths.


def prefixes(drafts: Drafts) -> list[Path]:
    """Return the prefixes that can still be extended, shorter ones first."""
    length = len(drafts[0])
    return list(dict.fromkeys(path[:depth] for depth in range(length) for path in drafts))


def siblings(drafts: Drafts, node: Path) -> list[int]:
    """Return the tokens drafted after a prefix, a token drawn twice twice."""
    return [path[len(node)] for path in drafts if path[: len(node)] == node]


def ranking(p: Array, q: Array) -> NDArray[np.intp]:
    """Return the tokens that can be drafted, those that the target wants most first."""
    tokens = np.flatnonzero(q)
    return tokens[np.lexsort((tokens, -p[tokens] / q[tokens]))]


def difference(high: Array, low: Array, power: int) -> Array:
    """Return high^power - low^power without cancellation, high - low left out."""
    return np.asarray(np.add.reduce([high**a * low ** (power - 1 - a) for a in range(power)]))


# The verifiers that choose one path, node by node, and verify it as a block.


def most_kept_next(owed: Array, highest: Array, uniform: Array) -> float:
    """Return the best share of `highest`: where the slope of what is kept turns negative."""

    def kept(share: float) -> float:
        return float(np.minimum(owed, share * highest + (1 - share) * uniform).sum())

    tilt = highest - uniform
    bends = np.flatnonzero(tilt)
    breaks = (owed - uniform)[bends] / tilt[bends]
    inside = (breaks > 0) & (breaks < 1)
    breaks, bends = breaks[inside], bends[inside]
    below = (uniform < owed) | ((uniform == owed) & (tilt < 0))
    order = np.argsort(breaks)
    slope = tilt[below].sum() - np.cumsum(np.abs(tilt[bends[order]]))
    turn = int(np.searchsorted(-slope, 0))
    shares = [0.0, *breaks[order[turn : turn + 1]], 1.0]
    most = max(map(kept, shares))
    return next(float(share) for share in shares if kept(share) >= most - 1e-14)


def mixed_multipath_block(
    drafts: Drafts,
    rows: Rows,
    *,
    mix: Callable[[Array, Array, Array], float] = most_kept_next,
) -> float:
    """The highest-ranked sibling with probability `mix`, else any.

    What is kept of alive[n] = P(the prefix is selected, n paths share it) is relative to its sum.
    """
    expected = 0.0
    reach: dict[Path, float] = {(): 1.0}
    ahead: dict[Path, float] = {(): 1.0}
    alive: dict[Path, Array] = {(): np.eye(len(drafts) + 1)[-1]}
    for z in prefixes(drafts):
        if not reach.get(z):
            continue
        p, q = rows(z)
        order = ranking(p, q)[::-1]
        lower = np.zeros_like(q)
        lower[order[1:]] = np.cumsum(q[order])[:-1]
        here = alive[z]
        numbers = range(1, here.size)
        highest = q * sum(here[n] * difference(lower + q, lower, n) for n in numbers)
        share = mix(ahead[z] * p, highest, q)
        law = share * highest + (1 - share) * q
        expected += reach[z] * np.minimum(ahead[z] * p, law).sum()
        tokens = siblings(drafts, z)
        place = np.empty(q.size)
        place[order] = np.arange(order.size)
        top = max(tokens, key=lambda y: place[y])
        for y in dict.fromkeys(tokens):
            chosen = share * (y == top) + (1 - share) * tokens.count(y) / len(tokens)
            reach[*z, y] = reach[z] * chosen
            ahead[*z, y] = min(1.0, ahead[z] * p[y] / law[y])
            sharing = [0.0] + [
                sum(
                    here[n]
                    * q[y] ** (j - 1)
                    * (
                        share * comb(n, j) * lower[y] ** (n - j)
                        + (1 - share) * comb(n - 1, j - 1) * (1 - q[y]) ** (n - j)
                    )
                    for n in range(j, here.size)
                )
                for j in numbers
            ]
            alive[*z, y] = np.array(sharing) / sum(sharing)
    return expected


# The verifiers that go down the tree as long as a drafted token is accepted.


def descent(
    drafts: Drafts,
    rows: Rows,
    *,
    rule: Callable[[Array, Array, list[int]], tuple[float, list[float]]],
) -> float:
    """The rule returns P(some sibling is accepted) for new siblings, and each one's for these."""
    expected = 0.0
    reach: dict[Path, float] = {(): 1.0}
    for z in prefixes(drafts):
        tokens = siblings(drafts, z)
        accepts, each = rule(*rows(z), tokens)
        expected += reach[z] * accepts
        going = reach[z]
        for token, chance in zip(tokens, each, strict=True):
            reach[*z, token] = reach.get((*z, token), 0.0) + going * chance
            going *= 1 - chance
    return expected


def recursively(p: Array, q: Array, tokens: list[int]) -> tuple[float, list[float]]:
    """After j refusals (p - g q)+ is owed, g growing by the mass of what is owed."""
    each, factor = [], 0.0
    for token in tokens:
        owed = 1 - np.minimum(p, factor * q).sum()
        ratio = max(p[token] / q[token] - factor, 0.0)
        each.append(min(1.0, ratio / owed) if owed > 1e-15 else 1.0)
        factor += owed
    return float(np.minimum(p, factor * q).sum()), each


def by_one_factor(p: Array, q: Array, tokens: list[int]) -> tuple[float, list[float]]:
    """The least valid factor rho, by bisection: 1 - (1 - b)^n <= rho b, b = sum min(p/rho, q)."""
    low, high = 1.0, float(len(tokens))

    def overlap(factor: float) -> float:
        return float(np.minimum(p / factor, q).sum())

    for _ in range(52):
        middle = (low + high) / 2
        each = overlap(middle)
        low, high = (
            (low, middle) if 1 - (1 - each) ** len(tokens) <= middle * each else (middle, high)
        )
    accepts = 1 - (1 - overlap(high)) ** len(tokens)
    return accepts, [min(1.0, p[token] / (high * q[token])) for token in tokens]


def traversal(drafts: Drafts, rows: Rows) -> float:
    """From the leaves to the root; its coins are summed over, its next position is not."""
    expected, going = 0.0, 1.0

    def visit(node: Path, weight: float) -> None:
        nonlocal expected, going
        if len(node) < len(drafts[0]):
            p, q = rows(node)
            for token in dict.fromkeys(siblings(drafts, node)):
                visit((*node, token), min(1.0, weight * p[token] / q[token]))
                owed = np.maximum(weight * p - q, 0.0)
                mass = owed.sum()
                if going < 1e-15 or mass == 0:
                    return
                p, weight = owed / mass, mass / (mass + 1 - weight)
                q = q.copy()
                q[token] = 0
                q /= q.sum() or 1.0
        expected += going * weight * len(node)
        going *= 1 - weight

    visit((), 1.0)
    return expected


# Scores, with cells as arrays, masses relative to the prefix's. See draftproof.reference.scores.


@dataclass(frozen=True)
class Cells:
    """Neighbouring places of scores, and the share of the prefix's paths in each of them."""

    low: Array
    high: Array
    mass: Array

    def worth(self, drafts: int) -> Array:
        """Return what every cell is worth among K paths."""
        return self.mass * difference(1 - self.low, 1 - self.high, drafts)


EVERYWHERE = Cells(np.zeros(1), np.ones(1), np.ones(1))


@dataclass(frozen=True)
class FloatSplit:
    """Q' of every token, and what its scores are made of.

    Tokens and their masses by rank, the cells that were dealt with their ranks, and the time at
    which each edge between two ranks goes.
    """

    law: Array
    tokens: NDArray[np.intp]
    mass: Array
    dealt: Cells
    ranks: NDArray[np.intp]
    gone: Array

    def after(self, token: int) -> Cells:
        """Return the scores after `token`.

        At time t it is tied with the ranks up to the nearest edges that are still there, and has
        its share of all that they were dealt.
        """
        rank = int(np.flatnonzero(self.tokens == token)[0])
        tied = np.concatenate(
            (
                np.maximum.accumulate(self.gone[1 : rank + 1][::-1])[::-1],
                [0.0],
                np.maximum.accumulate(self.gone[rank + 1 : -1]),
            )
        )
        times = np.unique(np.append(tied, 1.0))
        joins = np.bincount(np.searchsorted(times, tied), self.mass, times.size)
        rate = 1 / np.cumsum(joins)[:-1]
        since = np.append(np.cumsum((rate * np.diff(times))[::-1])[::-1], 0.0)
        weight = since[np.searchsorted(times, tied)][self.ranks]
        some = weight > 0
        mass = self.dealt.mass[some] * weight[some]
        return Cells(self.dealt.low[some], self.dealt.high[some], mass / mass.sum())


def split_in_floats(
    scores: Cells, p: Array, q: Array, *, accepted: float, drafts: int
) -> FloatSplit:
    """Share out the scores, in time V log V: a sort by rank, one of the cells, and a heap."""
    tokens = ranking(p, q)
    mass = q[tokens]
    dealt, ranks = deal(scores, mass)
    most = np.bincount(ranks, dealt.worth(drafts), tokens.size).astype(np.float64)
    goal = aim(accepted * p[tokens], mass, most)
    law = np.zeros_like(q)
    law[tokens] = goal
    return FloatSplit(law, tokens, mass, dealt, ranks, times_of_edges(mass, most, goal))


def deal(scores: Cells, mass: Array) -> tuple[Cells, NDArray[np.intp]]:
    """Cut the cells where hands end; return them with the ranks that they are dealt to."""
    ends, hands = np.cumsum(scores.mass), np.cumsum(mass)
    ends, hands = ends / ends[-1], hands / hands[-1]
    edges = np.union1d(ends, hands)
    starts = np.append(0.0, edges[:-1])
    middle = (starts + edges) / 2
    cell = np.searchsorted(ends, middle)
    slope = (scores.high - scores.low)[cell] / scores.mass[cell]
    begin = np.append(0.0, ends[:-1])[cell]
    low = scores.low[cell] + slope * (starts - begin)
    high = np.minimum(scores.low[cell] + slope * (edges - begin), 1.0)
    return Cells(low, high, edges - starts), np.searchsorted(hands, middle)


def aim(owed: Array, mass: Array, most: Array) -> Array:
    """Return the flattest law within reach that keeps most."""
    surplus = np.append(0.0, np.cumsum(most - owed))
    cut = int(np.argmin(surplus > surplus.min() + 1e-14))
    inside = levelled(owed[:cut], mass[:cut], most[:cut], np.less_equal)
    beyond = slice(None, cut - 1 if cut else None, -1)
    flat = levelled(owed[beyond], mass[beyond], most[beyond], np.greater_equal)[::-1]
    return np.append(inside, flat)


def levelled(
    owed: Array, mass: Array, most: Array, fits: Callable[[Array, Array], NDArray[np.bool_]]
) -> Array:
    """Give the last ones what is owed, as many as fit, and the others one level."""
    if not owed.size:
        return owed
    later = np.append(np.cumsum(owed[::-1])[::-1], 0.0)[1:]
    level = (most.sum() - later) / np.cumsum(mass)
    fitting = fits(owed, level * mass)
    fitting[0] = False
    level_ranks = int(np.flatnonzero(~fitting)[-1]) + 1
    return np.append(level[level_ranks - 1] * mass[:level_ranks], owed[level_ranks:])


def times_of_edges(mass: Array, most: Array, goal: Array) -> Array:
    """Return when each edge between ranks goes, 0 for never there, 1 for never gone.

    All edges are there that the goal needs. One whose fall is served goes; its neighbours are
    served faster from then on. A heap has the next one.
    """
    height = goal / mass
    drop = height[:-1] - height[1:]
    marks = np.flatnonzero(drop > 1e-13 * height[:-1]) + 1
    gone = np.zeros(mass.size + 1)
    gone[0] = gone[-1] = gone[marks] = 1.0
    starts = [0, *marks.tolist()]
    size, worth = (np.add.reduceat(x, starts).tolist() for x in (mass, most))
    slope = [x / y for x, y in zip(worth, size, strict=True)]
    count = len(starts)
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    needed, since = [0.0, *drop[marks - 1].tolist()], [0.0] * count
    fall = [0.0, *(a - b for a, b in pairwise(slope))]
    due = [needed[i] / fall[i] if fall[i] > 0 else 1.0 for i in range(count)]
    heap = [(time, i) for i, time in enumerate(due) if time < 1]
    heapify(heap)
    while heap:
        time, i = heappop(heap)
        if time != due[i]:
            continue
        gone[starts[i]], due[i] = time, -1.0
        a, b = before[i], after[i]
        size[a] += size[i]
        worth[a] += worth[i]
        slope[a] = worth[a] / size[a]
        after[a] = b
        if b < count:
            before[b] = a
        for j in (a, b):
            if 0 < j < count:
                needed[j] -= fall[j] * (time - since[j])
                since[j], fall[j] = time, slope[before[j]] - slope[j]
                due[j] = time + needed[j] / fall[j] if fall[j] > 0 else 1.0
                if due[j] < 1:
                    heappush(heap, (due[j], j))
    return gone


def smallest_in_floats(paths: Sequence[Cells]) -> Array:
    """Return the probability with which each of the paths has the smallest score."""
    edges = np.unique(np.concatenate([x for c in paths for x in (c.low, c.high)]))
    at = np.array([distribution(cells, edges) for cells in paths])
    here, beyond = np.diff(at, axis=1), 1 - at[:, 1:]
    # The integral over 0..1 of a product of K - 1 linear functions, exactly.
    nodes, weights = np.polynomial.legendre.leggauss((len(paths) + 1) // 2)
    chances = np.zeros(len(paths))
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        larger = beyond + node * here
        for i in range(len(paths)):
            others = np.prod(np.delete(larger, i, axis=0), axis=0)
            chances[i] += weight * (here[i] * others).sum()
    return chances


def distribution(cells: Cells, edges: Array) -> Array:
    """Return the probability of a score below each of the edges."""
    below = np.append(0.0, np.cumsum(cells.mass))
    places = np.stack((cells.low, cells.high), axis=1).ravel()
    return np.asarray(np.interp(edges, places, np.repeat(below, 2)[1:-1]))


def scored(
    drafts: Drafts, rows: Rows, *, passed_on: Callable[[float, float], float] = min
) -> float:
    """The path with the smallest score; the scores are summed over, too.

    `passed_on(owed, Q')` is owed to a token; all of it, where the path is kept greedily.
    """
    length = len(drafts[0])
    scores: dict[Path, Cells] = {(): EVERYWHERE}
    ahead: dict[Path, float] = {(): 1.0}
    kept: dict[Path, float] = {}
    for z in prefixes(drafts):
        p, q = rows(z)
        here = split_in_floats(scores[z], p, q, accepted=ahead[z], drafts=len(drafts))
        kept[z] = float(np.minimum(ahead[z] * p, here.law).sum() / here.law.sum())
        for y in dict.fromkeys(siblings(drafts, z)):
            scores[*z, y] = here.after(y)
            ahead[*z, y] = passed_on(ahead[z] * p[y], here.law[y]) / q[y]
    chances = smallest_in_floats([scores[path] for path in drafts])
    lengths = [sum(kept[path[:i]] for i in range(length)) for path in drafts]
    return float(chances @ lengths)


# The verifiers that change the target, in their first iteration.


def greedily(drafts: Drafts, rows: Rows, *, hits: int = 1) -> float:
    """Every prefix with p (1 - (1 - min(q/p, 1))^hits), as if so many drafts tried to hit it.

    One hit is greedy block verification, K are SpecTr-GBV; the average is over all paths.
    """

    def along(path: Path) -> float:
        kept, ratio = 0.0, 1.0
        for i, y in enumerate(path):
            p, q = rows(path[:i])
            # Of all tokens, per mass of the draft here: its own p(z) is ratio q(z).
            owed = ratio * p
            share = np.divide(q, owed, out=np.ones_like(q), where=owed > q)
            kept += float((owed * (1 - (1 - share) ** hits)).sum())
            ratio *= p[y] / q[y]
        return kept

    return sum(map(along, drafts)) / len(drafts)


def spectr_gbv(drafts: Drafts, rows: Rows) -> float:
    """As if every one of the paths tried to hit every prefix."""
    return greedily(drafts, rows, hits=len(drafts))


VERIFIERS: Mapping[str, Verifier] = {
    # Of all paths any one is as good, and the average is over all of them.
    "block": partial(mixed_multipath_block, mix=lambda *_: 0.0),
    "multipath_block": partial(mixed_multipath_block, mix=lambda *_: 1.0),
    "mixed_multipath_block": mixed_multipath_block,
    "recursive_rejection": partial(descent, rule=recursively),
    "k_seq": partial(descent, rule=by_one_factor),
    "traversal": traversal,
    "scored_multipath_block": scored,
}
OURS = "scored_multipath_block"

STATEFUL: Mapping[str, Verifier] = {
    "greedy_block": greedily,
    "spectr_gbv": spectr_gbv,
    "scored_greedy_block": partial(scored, passed_on=lambda owed, _: owed),
}
"""Verifiers whose later iterations pay for what the first one accepts."""


# Small vocabularies: the exact laws.


def seeded(vocabulary: int, length: int, drafts: int, number: int) -> Instance:
    """Return an instance of rows with integer weights 0..8."""
    random = Random(f"{vocabulary} {length} {drafts} {number}")  # noqa: S311  # no secret

    def row() -> tuple[Rational, ...]:
        weights = [0]
        while not sum(weights):
            weights = [random.randint(0, 8) for _ in range(vocabulary)]
        return tuple(rational(weight) / sum(weights) for weight in weights)

    def model(name: str) -> Model:
        contexts = (z for n in range(length + 1) for z in product(range(vocabulary), repeat=n))
        return Model(name, vocabulary, {context: row() for context in contexts})

    return Instance(model("target"), model("draft"), length, drafts)


def exactly_expected(name: str, instance: Instance) -> Rational:
    """Return E[accepted length] by the algorithm's law, or by the sum that the ledger has of it."""
    if name == OURS:
        return SCORED(instance)
    if name == "scored_greedy_block":
        return GREEDY(instance)
    drafts = ALGORITHMS[name].most_drafts or instance.drafts
    return expected_accepted(emission_law(ALGORITHMS[name], replace(instance, drafts=drafts)))


def expected_in_floats(verifier: Verifier, instance: Instance) -> float:
    """Return E[accepted length] over all K-tuples of paths."""

    @cache
    def rows(z: Path) -> tuple[Array, Array]:
        p, q = ([float(x) for x in model(z)] for model in (instance.target, instance.draft))
        return np.array(p), np.array(q)

    text = {path: float(weight) for path, weight in instance.draft.text(instance.length).items()}
    return sum(
        prod(text[path] for path in drafts) * verifier(drafts, rows)
        for drafts in product(text, repeat=instance.drafts)
    )


@pytest.mark.parametrize("name", [*VERIFIERS, *STATEFUL])
@pytest.mark.parametrize("shape", [(3, 2, 2), (2, 2, 3), (4, 1, 3)])
def test_the_floats_agree_with_the_exact_laws(
    benchmark: BenchmarkFixture, name: str, shape: tuple[int, int, int]
) -> None:
    instances = [seeded(*shape, number) for number in range(3)]

    def values() -> list[float]:
        verifier = {**VERIFIERS, **STATEFUL}[name]
        return [expected_in_floats(verifier, instance) for instance in instances]

    for value, instance in zip(benchmark.pedantic(values, rounds=1), instances, strict=True):
        assert abs(value - float(exactly_expected(name, instance))) < 1e-12


SHAPES = [*product((2, 3), (1, 2), (2, 3)), (2, 3, 2), (2, 3, 3), (3, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_shares_of_the_optimum_at_small_vocabularies(
    benchmark: BenchmarkFixture,
    shape: tuple[int, int, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Mean E[accepted length] over seeded models, divided by the mean optimum.

    Exact but for K-SEQ, whose factor is irrational: it is in floats.
    """
    instances = [seeded(*shape, number) for number in range(MODELS)]

    def means() -> dict[str, float]:
        optimum = sum(stateless(instance).value for instance in instances)
        floats = (expected_in_floats(VERIFIERS["k_seq"], instance) for instance in instances)
        values = {
            name: sum(exactly_expected(name, instance) for instance in instances)
            for name in VERIFIERS
            if name != "k_seq"
        }
        shares = {name: float(value / optimum) for name, value in values.items()}
        return {**shares, "k_seq": sum(floats) / float(optimum), "optimum": float(optimum) / MODELS}

    shares = benchmark.pedantic(means, rounds=1)

    benchmark.extra_info.update({name: round(share, 4) for name, share in shares.items()})
    assert max(shares[name] for name in VERIFIERS) <= 1 + 1e-12
    with capsys.disabled():
        print("\n", shape, ", ".join(f"{name} {share:.4f}" for name, share in shares.items()))


# A vocabulary of 2,000: Monte Carlo.


def models(noise: float, draw: int) -> Rows:
    """Return the rows of two models, made where they are asked for.

    Target logits -log(rank) + N(0, 1), the draft's are the target's + noise N(0, 1).
    """
    zipf = -np.log(np.arange(1, VOCABULARY + 1))

    @cache
    def rows(z: Path) -> tuple[Array, Array]:
        random = np.random.default_rng([draw, len(z), *z])
        target = zipf + random.standard_normal(VOCABULARY)
        draft = target + noise * random.standard_normal(VOCABULARY)
        p, q = np.exp(target), np.exp(draft)
        return p / p.sum(), q / q.sum()

    return rows


def drawn(rows: Rows, draw: int, drafts: int) -> list[Path]:
    """Return i.i.d. paths of the draft; the first ones are the same for every number."""

    def path(number: int) -> Path:
        text: Path = ()
        for u in np.random.default_rng([draw, VOCABULARY, number]).random(LENGTH):
            edges = np.cumsum(rows(text)[1])
            text = (*text, int(np.searchsorted(edges, u * edges[-1], side="right")))
        return text

    return [path(number) for number in range(drafts)]


def lengths(
    noise: float, drafts: int, verifiers: Mapping[str, Verifier] = VERIFIERS
) -> Iterator[list[float]]:
    """Yield E[accepted length | drafts] of every verifier, draw by draw."""
    for draw in range(DRAWS):
        rows = models(noise, draw)
        paths = drawn(rows, draw, drafts)
        yield [verifier(paths, rows) for verifier in verifiers.values()]


def estimate(samples: Array) -> tuple[float, float]:
    """Return mean and standard error."""
    return float(samples.mean()), float(samples.std(ddof=1)) / sqrt(samples.size)


@pytest.mark.parametrize("drafts", DRAFTS)
@pytest.mark.parametrize("noise", NOISES)
def test_block_efficiency_at_a_large_vocabulary(
    benchmark: BenchmarkFixture,
    noise: float,
    drafts: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """E[accepted length] + 1 over independent pairs of models, seeds 0, 1, ...

    Scored is compared, draw by draw, with the best of the others in the same draws, and may not be
    below by more than three standard errors. Draws are seeded: the same number of them gives the
    same table. Traversal's errors are large because its next position is not averaged over.
    """
    samples = benchmark.pedantic(lambda: np.array(list(lengths(noise, drafts))), rounds=1)

    columns = dict(zip(VERIFIERS, samples.T, strict=True))
    ours = columns.pop(OURS)
    best = max(columns, key=lambda name: columns[name].mean())
    ahead, error = estimate(ours - columns[best])
    shown = {
        name: "{:.3f} ({:.3f})".format(*estimate(column + 1))
        for name, column in {**columns, OURS: ours}.items()
    }
    shown[f"scored - {best}"] = f"{ahead:+.3f} ({error:.3f})"
    benchmark.extra_info.update(shown)
    with capsys.disabled():
        print(f"\n noise {noise}, K {drafts}:", ", ".join(f"{k} {v}" for k, v in shown.items()))
    assert ahead > -3 * error


@pytest.mark.parametrize("drafts", DRAFTS)
@pytest.mark.parametrize("noise", NOISES)
def test_what_a_modified_target_adds_to_the_first_iteration(
    benchmark: BenchmarkFixture,
    noise: float,
    drafts: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """E[accepted length] + 1 in the first iteration, beside scored of the same drafts.

    Scored greedy is compared with the better of scored and SpecTr-GBV, draw by draw, and may not be
    below by more than three standard errors.
    """
    compared = {OURS: VERIFIERS[OURS], **STATEFUL}
    samples = benchmark.pedantic(lambda: np.array(list(lengths(noise, drafts, compared))), rounds=1)

    columns = dict(zip(compared, samples.T, strict=True))
    best = max((OURS, "spectr_gbv"), key=lambda name: columns[name].mean())
    ahead, error = estimate(columns["scored_greedy_block"] - columns[best])
    shown = {
        name: "{:.3f} ({:.3f})".format(*estimate(column + 1)) for name, column in columns.items()
    }
    shown[f"scored greedy - {best}"] = f"{ahead:+.3f} ({error:.3f})"
    benchmark.extra_info.update(shown)
    with capsys.disabled():
        print(f"\n noise {noise}, K {drafts}:", ", ".join(f"{k} {v}" for k, v in shown.items()))
    assert ahead > -3 * error


# What a split costs.


@pytest.mark.parametrize("vocabulary", [128, 256, 2_000])
def test_one_split_beside_one_sort(
    benchmark: BenchmarkFixture, vocabulary: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The split of the second position, and a full sort of the same row."""
    random = np.random.default_rng(vocabulary)
    zipf = -np.log(np.arange(1, vocabulary + 1))
    target = zipf + random.standard_normal((2, vocabulary))
    draft = target + 0.7 * random.standard_normal((2, vocabulary))
    p, q = (x / x.sum(axis=1, keepdims=True) for x in (np.exp(target), np.exp(draft)))
    root = split_in_floats(EVERYWHERE, p[0], q[0], accepted=1.0, drafts=4)
    token = int(np.argmax(q[0]))
    accepted = min(p[0, token], root.law[token]) / q[0, token]
    scores = root.after(token)

    here = benchmark(split_in_floats, scores, p[1], q[1], accepted=accepted, drafts=4)

    assert abs(here.law.sum() - scores.worth(4).sum()) < 1e-12
    for token in np.argsort(-q[1])[:20]:
        worth = q[1, token] * here.after(int(token)).worth(4).sum()
        assert abs(worth - here.law[token]) < 1e-12
    if benchmark.stats is not None:
        sort = median(repeat(lambda: np.argsort(q[1]), number=1, repeat=101))
        seconds = benchmark.stats.stats.median
        benchmark.extra_info["times a full sort"] = round(seconds / sort)
        with capsys.disabled():
            print(f"\n V {vocabulary}: {seconds * 1e6:.0f} us, {seconds / sort:.0f} sorts")
