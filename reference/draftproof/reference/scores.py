"""Scores: K drafted paths compete, so that the winner's law is known along the winner's own path.

Every drafted path has its own score, uniform on [0, 1], and the path with the smallest score is
selected. The score may depend on the path. At a prefix z the law of the score is a measure: the
probability that a drafted path starts with z and has its score in a given place; here it has a step
function as its density, kept as *cells*. Among K paths a score u is the smallest with probability
(1 - u)^(K-1), so

    Q'(z) = K * integral over the measure at z of (1 - u)^(K-1)

is the law of the selected path: no other path enters. The measures of the children of z may be any
that add up to that of z and have the masses q(zy): then paths are drawn from q and scores are
uniform, as required. Every law of selection arises this way: it is a mixture of rankings, and a
ranking gives each rank an interval of scores.

`split` chooses these measures. It aims at the row Q'(z.) that keeps most of the next token, the sum
of min(owed, Q'), and reaches it by *tie classes*: ranges of tokens get scores, the best scores
going to the tokens to which the target owes most, and scores are independent of the token inside a
range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, total

Rows = dict[int, Rational]


@dataclass(frozen=True)
class ScoreCell:
    """A mass spread evenly over the scores `low`..`high`."""

    low: Rational
    high: Rational
    mass: Rational

    def worth(self, drafts: int) -> Rational:
        """Return the part of the mass that is selected among K paths, a sum of products."""
        x, y = 1 - self.low, 1 - self.high
        return self.mass * total(x**a * y ** (drafts - 1 - a) for a in range(drafts))


Scores = tuple[ScoreCell, ...]

UNIFORM: Scores = (ScoreCell(ZERO, ONE, ONE),)
"""Scores of all paths, at the root."""


@dataclass(frozen=True)
class Contender:
    """Drafted path, or a prefix of a drafted path, with the values that its own rows determine."""

    rows: tuple[Row, ...] = ()
    """Q'(zy) by token y, for each proper prefix z of the path."""
    scores: Scores = UNIFORM
    owed: Rational = ONE
    """Mass of the path that the verification can accept."""


@lru_cache(maxsize=4096)
def contender(
    path: Path, instance: Instance, passed_on: Callable[[Rational, Rational], Rational]
) -> Contender:
    """Return the path as a contender; `passed_on(owed * p, Q')` is owed to the next token."""
    if not path:
        return Contender()
    prefix, token = path[:-1], path[-1]
    before = contender(prefix, instance, passed_on)
    p, q = instance.target(prefix), instance.draft(prefix)
    here = split(before.scores, p, q, owed=before.owed, drafts=instance.drafts)
    owed = passed_on(before.owed * p[token], here.law[token])
    return Contender((*before.rows, here.law), here.after(token), owed)


@lru_cache(maxsize=4096)
def smallest(paths: tuple[Scores, ...]) -> tuple[Rational, ...]:
    """Return the probability that each of the paths has the smallest score.

    Between two neighbouring edges of cells every score is spread evenly: a score there is the
    smallest with probability the integral over s in 0..1 of the product of t + g s over the other
    paths, whose probabilities of a score there and beyond are g and t.
    """
    edges = sorted({edge for cells in paths for cell in cells for edge in (cell.low, cell.high)})
    masses = [total(cell.mass for cell in cells) for cells in paths]
    beyond, chances = [ONE] * len(paths), [ZERO] * len(paths)
    for low, high in pairwise(edges):
        here = [
            total(c.mass / (c.high - c.low) for c in cells if c.low <= low and high <= c.high)
            * (high - low)
            / mass
            for cells, mass in zip(paths, masses, strict=True)
        ]
        beyond = [t - g for t, g in zip(beyond, here, strict=True)]
        for i, own in enumerate(here):
            polynomial = [ONE]
            for j, (t, g) in enumerate(zip(beyond, here, strict=True)):
                if j != i:
                    shifted = zip([*polynomial, ZERO], [ZERO, *polynomial], strict=True)
                    polynomial = [t * a + g * b for a, b in shifted]
            chances[i] += own * total(c / (k + 1) for k, c in enumerate(polynomial))
    return tuple(chances)


@dataclass(frozen=True)
class ScoreSplit:
    """Scores after a prefix: Q' and the scores of every next token."""

    law: Row
    _tokens: Sequence[int]
    _mass: Sequence[Rational]
    _hands: Sequence[Scores]
    _classes: Sequence[tuple[Rational, Sequence[int]]]

    def after(self, token: int) -> Scores:
        """Return the scores of the paths that go on with `token`."""
        rank = self._tokens.index(token)
        weights = [ZERO] * len(self._tokens)
        for share, marks in self._classes:
            first, end = next((i, j) for i, j in pairwise(marks) if i <= rank < j)
            for i in range(first, end):
                weights[i] += share * self._mass[rank] / total(self._mass[first:end])
        return tuple(
            ScoreCell(cell.low, cell.high, cell.mass * weight)
            for weight, hand in zip(weights, self._hands, strict=True)
            for cell in hand
            if weight != 0
        )


def split(scores: Scores, p: Row, q: Row, *, owed: Rational, drafts: int) -> ScoreSplit:
    """Return the scores at a prefix, to which `owed` is owed, divided among the next tokens."""
    # Tokens that the draft cannot write have no path.
    tokens = sorted((t for t, x in enumerate(q) if x != 0), key=lambda t: (-p[t] / q[t], t))
    reach = total(cell.mass for cell in scores)
    mass = [reach * q[token] for token in tokens]
    hands = list(_dealt(scores, mass))
    most = [total(cell.worth(drafts) for cell in hand) for hand in hands]
    aim = _aim([owed * p[token] for token in tokens], mass, most)
    law = [ZERO] * len(q)
    for token, x in zip(tokens, aim, strict=True):
        law[token] = x
    return ScoreSplit(tuple(law), tokens, mass, hands, list(_tie_classes(mass, most, aim)))


def _dealt(scores: Scores, masses: Sequence[Rational]) -> Iterator[Scores]:
    """Cut the scores, the smallest first, into hands of the given masses."""
    stack = sorted(scores, key=lambda cell: cell.low, reverse=True)
    for mass in masses:
        hand, needed = [], mass
        while needed != 0:
            cell = stack.pop()
            taken = min(needed, cell.mass)
            edge = cell.low + (cell.high - cell.low) * taken / cell.mass
            hand.append(ScoreCell(cell.low, edge, taken))
            if taken < cell.mass:
                stack.append(ScoreCell(edge, cell.high, cell.mass - taken))
            needed -= taken
        yield tuple(hand)


def _aim(
    owed: Sequence[Rational], mass: Sequence[Rational], most: Sequence[Rational]
) -> list[Rational]:
    """Return, by rank, the flattest law within reach with the largest sum of min(owed, aim).

    A law is within reach if it gives no set of ranks more than the worth of the smallest scores
    with the set's mass; `most` is the law of the ranks served in order. The prefix of ranks with
    the smallest sum of most - owed binds: inside it nothing need be wasted (aim <= owed), beyond it
    nothing need be missed (aim >= owed). Among such laws the flattest, whose aim/mass varies least,
    leaves later positions the most choice.
    """
    ranks = range(len(owed))
    surplus = [total(most[:k]) - total(owed[:k]) for k in range(len(owed) + 1)]
    cut = surplus.index(min(surplus))
    inside, beyond = list(ranks[:cut]), list(ranks[cut:])
    aim = _levelled(inside, owed, mass, most, lambda a, level: a <= level)
    aim |= _levelled(beyond[::-1], owed, mass, most, lambda a, level: a >= level)
    return [aim[i] for i in ranks]


def _levelled(
    ranks: list[int],
    owed: Sequence[Rational],
    mass: Sequence[Rational],
    most: Sequence[Rational],
    fits: Callable[[Rational, Rational], bool],
) -> Rows:
    """Return, by rank, the owed mass where it fits the level, else the level times the mass."""
    aim: Rows = {}
    rest = list(ranks)
    worth, room = total(most[i] for i in rest), total(mass[i] for i in rest)
    while len(rest) > 1 and fits(owed[rest[-1]] * room, worth * mass[rest[-1]]):
        i = rest.pop()
        aim[i], worth, room = owed[i], worth - owed[i], room - mass[i]
    return aim | {i: worth * mass[i] / room for i in rest}


def _tie_classes(
    mass: Sequence[Rational], most: Sequence[Rational], aim: Sequence[Rational]
) -> Iterator[tuple[Rational, list[int]]]:
    """Yield the aim as a mixture of nested tie classes, each as (share, edges of the classes).

    Each step takes as much as possible of the finest classes that the rest still needs: then the
    fall of aim/mass at some edge is served, and that edge disappears. The rest stays within reach,
    and the last step has one class.
    """

    def height(row: Sequence[Rational], first: int, end: int) -> Rational:
        return total(row[first:end]) / total(mass[first:end])

    size = len(mass)
    needed = {k: height(aim, k - 1, k) - height(aim, k, k + 1) for k in range(1, size)}
    left = ONE
    while left != 0:
        edges = [0, *(k for k in range(1, size) if needed[k] != 0), size]
        falls = {
            k: height(most, i, k) - height(most, k, j)
            for (i, k), (_, j) in pairwise(pairwise(edges))
        }
        share = min([left, *(needed[k] / fall for k, fall in falls.items() if fall != 0)])
        yield share, edges
        left -= share
        for k, fall in falls.items():
            needed[k] -= share * fall
