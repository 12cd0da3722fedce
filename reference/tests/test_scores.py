from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations, pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.model import Row
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.scores import UNIFORM, ScoreCell, Scores, ScoreSplit, split

exact = settings.get_profile("exact")

seeds = st.integers(0, 2**32 - 1)


def row(random: Random, vocabulary: int) -> Row:
    """A row in which zeros, ties and point masses are common."""
    counts = random.choices((0, 0, 1, 1, 2, 3, 5), k=vocabulary)
    counts[random.randrange(vocabulary)] += 1
    return tuple(rational(count) / sum(counts) for count in counts)


def part(random: Random) -> Rational:
    return rational(random.choice(("0", "1/5", "1/2", "9/10", "1")))


class Prefix:
    """A prefix some tokens down a random text, and the rows after it."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.drafts = random.randint(1, 4)
        self.scores, self.selected = UNIFORM, ONE
        vocabulary = random.randint(1, 5)
        for _ in range(random.randint(0, 2)):
            self.accepted = self.selected * part(random)
            p, q = row(random, vocabulary), row(random, vocabulary)
            chosen = random.choice([token for token, x in enumerate(q) if x != 0])
            above = self.split(p, q)
            self.scores, self.selected = above.after(chosen), above.law[chosen]
        self.accepted = self.selected * part(random)
        self.p, self.q = row(random, vocabulary), row(random, vocabulary)
        if random.random() < 0.2:
            self.q = self.p
        self.tokens = [token for token, x in enumerate(self.q) if x != 0]
        self.mass = total(cell.mass for cell in self.scores)

    def split(self, p: Row, q: Row) -> ScoreSplit:
        return split(self.scores, p, q, owed=self.accepted, drafts=self.drafts)

    def worth_of_the_smallest(self, mass: Rational) -> Rational:
        """The worth of the smallest scores of a total mass, by integration of K (1 - u)^(K-1)."""
        edges = sorted({edge for cell in self.scores for edge in (cell.low, cell.high)})
        worth = ZERO
        for low, high in pairwise(edges):
            density = density_at(self.scores, low, high)
            if density == 0:
                continue
            reach = min(high, low + mass / density)
            worth += density * ((1 - low) ** self.drafts - (1 - reach) ** self.drafts)
            mass -= density * (reach - low)
        return worth

    def reaches(self, law: Sequence[Rational]) -> bool:
        """Whether no set of tokens gets more than the smallest scores of its mass are worth."""
        return all(
            total(law[t] for t in inside)
            <= self.worth_of_the_smallest(self.mass * total(self.q[t] for t in inside))
            for inside in subsets(self.tokens)
        )


def density_at(scores: Scores, low: Rational, high: Rational) -> Rational:
    return total(c.mass / (c.high - c.low) for c in scores if c.low <= low and high <= c.high)


def subsets(tokens: Sequence[int]) -> Iterable[tuple[int, ...]]:
    return chain.from_iterable(combinations(tokens, size) for size in range(len(tokens) + 1))


@exact
@given(seed=seeds)
def test_what_a_cell_is_worth_is_an_integral(seed: int) -> None:
    random = Random(seed)
    low, high = sorted(random.sample([rational(i) / 12 for i in range(13)], 2))
    mass, drafts = rational(random.randint(1, 9)) / 10, random.randint(1, 8)
    worth = mass * ((1 - low) ** drafts - (1 - high) ** drafts) / (high - low)
    assert ScoreCell(low, high, mass).worth(drafts) == worth
    assert total(cell.worth(drafts) for cell in UNIFORM) == 1


@exact
@given(seed=seeds)
def test_the_scores_of_the_next_tokens_add_up_and_have_the_draft_s_masses(seed: int) -> None:
    here = Prefix(seed)
    dealt = here.split(here.p, here.q)
    hands = {token: dealt.after(token) for token in here.tokens}
    for token, hand in hands.items():
        assert all(cell.mass > 0 and 0 <= cell.low < cell.high <= 1 for cell in hand)
        assert total(cell.mass for cell in hand) == here.mass * here.q[token]
    cells = tuple(chain.from_iterable(hands.values()))
    edges = sorted({edge for cell in (*cells, *here.scores) for edge in (cell.low, cell.high)})
    for low, high in pairwise(edges):
        assert density_at(cells, low, high) == density_at(here.scores, low, high)


@exact
@given(seed=seeds)
def test_the_law_of_the_selected_path_is_what_its_scores_are_worth(seed: int) -> None:
    here = Prefix(seed)
    dealt = here.split(here.p, here.q)
    for token, x in enumerate(here.q):
        worth = total(cell.worth(here.drafts) for cell in dealt.after(token)) if x else ZERO
        assert dealt.law[token] == worth
    assert total(dealt.law) == here.selected


@exact
@given(seed=seeds)
def test_the_most_that_scores_can_keep_of_the_next_token_is_kept(seed: int) -> None:
    """No law within reach keeps more than what is owed outside a set and what the set can get.

    A set H gets at most the worth of the smallest scores of its mass, whatever the split; one of
    the sets shows that no more was possible.
    """
    here = Prefix(seed)
    owed = [here.accepted * x for x in here.p]
    law = here.split(here.p, here.q).law
    caps = []
    for inside in subsets(here.tokens):
        most = here.worth_of_the_smallest(here.mass * total(here.q[t] for t in inside))
        assert total(law[t] for t in inside) <= most
        caps.append(most + total(owed[t] for t in here.tokens if t not in inside))
    assert total(map(min, law, owed)) == min(caps)


@exact
@given(seed=seeds)
def test_scores_among_many_drafts_go_to_the_tokens_that_are_wanted_most(seed: int) -> None:
    """Q'/q never falls where p/q rises, and equals are treated alike."""
    here = Prefix(seed)
    law = here.split(here.p, here.q).law

    def per_draft(x: Row, token: int) -> Rational:
        return x[token] / here.q[token]

    by_want = sorted(here.tokens, key=lambda token: per_draft(here.p, token))
    for less, more in pairwise(by_want):
        if per_draft(here.p, less) < per_draft(here.p, more):
            assert per_draft(law, less) <= per_draft(law, more)
        else:
            assert per_draft(law, less) == per_draft(law, more)


@exact
@given(seed=seeds)
def test_of_the_laws_that_keep_most_the_flattest_is_chosen(seed: int) -> None:
    """Flat: the sum of Q'^2/q is smallest. It is convex, so no small exchange may lower it.

    An exchange that keeps as much moves mass among tokens that get no more than they are owed, or
    among tokens that get no less, within reach.
    """
    here = Prefix(seed)
    law = here.split(here.p, here.q).law
    step = rational("1/1000")
    for less in here.tokens:
        for more in here.tokens:
            moved = min(law[less], step)
            other = [x - moved * (t == less) + moved * (t == more) for t, x in enumerate(law)]
            owed = [here.accepted * x for x in here.p]
            keeps = total(map(min, other, owed)) == total(map(min, law, owed))
            if keeps and here.reaches(other):
                before, after = (
                    total(x**2 / here.q[t] for t, x in enumerate(row) if here.q[t] != 0)
                    for row in (law, other)
                )
                assert before <= after


@exact
@given(seed=seeds)
def test_one_draft_keeps_its_law(seed: int) -> None:
    here = Prefix(seed)
    if here.drafts == 1:
        law = here.split(here.p, here.q).law
        assert law == tuple(here.mass * x for x in here.q)


def test_two_drafts_of_two_tokens_by_hand() -> None:
    """Three quarters are owed: token 0 gets the smallest scores, which are worth just that."""
    halves = (rational("1/2"), rational("1/2"))
    wanted = (rational("3/4"), rational("1/4"))
    dealt = split(UNIFORM, wanted, halves, owed=ONE, drafts=2)
    assert dealt.law == wanted
    assert dealt.after(0) == (ScoreCell(ZERO, rational("1/2"), rational("1/2")),)
    assert dealt.after(1) == (ScoreCell(rational("1/2"), ONE, rational("1/2")),)


def test_tokens_that_are_not_to_be_told_apart_share_all_scores() -> None:
    """Halfway between the draft's law and the most in reach: half of the time they are tied."""
    halves = (rational("1/2"), rational("1/2"))
    wanted = (rational("5/8"), rational("3/8"))
    dealt = split(UNIFORM, wanted, halves, owed=ONE, drafts=2)
    assert dealt.law == wanted
    low, high = (ZERO, rational("1/2")), (rational("1/2"), ONE)
    assert {(c.low, c.high): c.mass for c in merged(dealt.after(0))} == {
        low: rational("3/8"),
        high: rational("1/8"),
    }


def merged(scores: Scores) -> Scores:
    places = dict.fromkeys((cell.low, cell.high) for cell in scores)
    return tuple(
        ScoreCell(low, high, total(c.mass for c in scores if (c.low, c.high) == (low, high)))
        for low, high in places
    )
