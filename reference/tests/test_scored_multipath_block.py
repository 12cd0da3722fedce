from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, product
from math import prod
from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference import scores as competition
from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.drafting import GrowingTree
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.optimum.acceptance_rate import acceptance_rate
from draftproof.reference.process import expected_accepted, is_lossless
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.scores import (
    UNIFORM,
    Contender,
    ScoreCell,
    Scores,
    ScoreSplit,
    contender,
    smallest,
    split,
)
from draftproof.reference.verifiers import ALGORITHMS, emission_law

exact = settings.get_profile("exact")
few = settings(exact, max_examples=40)

SCORED, BLOCK = ALGORITHMS["scored_multipath_block"], ALGORITHMS["block"]
# Its name in the package is that of the function.
MODULE = sys.modules["draftproof.reference.verifiers.scored_multipath_block"]

# Vocabulary, length and drafts.
ONE_POSITION = [*product((2, 3, 4), (1,), (1, 2, 3))]
SHAPES = [*ONE_POSITION, (2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2), (4, 2, 1), (3, 3, 1)]
SHAPES_OF_TWO = [(2, 2, 2), (2, 2, 3), (3, 2, 2), (3, 2, 3), (4, 2, 2)]

Shaped = Callable[[int, int, int], st.SearchStrategy[Instance]]
Exchange = Callable[[ModuleType, str, object], None]


@dataclass(frozen=True)
class Prefixes:
    """What the recursion says of every drafted prefix: Q', A and the scores."""

    law: dict[Path, Rational]
    accepted: dict[Path, Rational]
    scores: dict[Path, Scores]

    @property
    def expected(self) -> Rational:
        """E[accepted length], the sum of A."""
        return total(self.accepted.values()) - 1


def recursion(instance: Instance) -> Prefixes:
    """Go down all drafted prefixes: A(zy) = min(A(z) p(y|z), Q'(zy))."""
    found = Prefixes({(): ONE}, {(): ONE}, {(): UNIFORM})
    for z in instance.draft.reachable(instance.length - 1):
        p, q = instance.target(z), instance.draft(z)
        accepted = found.accepted[z]
        here = split(found.scores[z], p, q, owed=accepted, drafts=instance.drafts)
        for token in [token for token, x in enumerate(q) if x != 0]:
            zy = (*z, token)
            found.law[zy], found.scores[zy] = here.law[token], here.after(token)
            found.accepted[zy] = min(accepted * p[token], here.law[token])
    return found


def expected_by_block(instance: Instance) -> Rational:
    """E[accepted length] of block verification, by the same recursion against the draft."""

    @cache
    def accepted(z: Path) -> Rational:
        if not z:
            return ONE
        return min(accepted(z[:-1]) * instance.target(z[:-1])[z[-1]], instance.draft.joint(z))

    return total(accepted(z) for z in instance.draft.reachable(instance.length)) - 1


def smallest_by_hand(paths: Sequence[Scores]) -> list[Rational]:
    """P(a path has the smallest score): try all intervals that the scores may lie in.

    Scores that lie in the same interval are alike there: each is the smallest as often.
    """
    edges = sorted({edge for cells in paths for cell in cells for edge in (cell.low, cell.high)})
    places = list(pairwise(edges))

    def share(cells: Scores, low: Rational, high: Rational) -> Rational:
        inside = [c for c in cells if c.low <= low and high <= c.high]
        return total(c.mass / (c.high - c.low) for c in inside) * (high - low)

    shares = [[share(cells, *place) for place in places] for cells in paths]
    chances = [ZERO] * len(paths)
    for where in product(range(len(places)), repeat=len(paths)):
        weight = prod(
            (row[i] / total(row) for row, i in zip(shares, where, strict=True)), start=ONE
        )
        first = [path for path, i in enumerate(where) if i == min(where)]
        for path in first:
            chances[path] += weight / len(first)
    return chances


def selected_by_hand(instance: Instance) -> Law[Path]:
    """The law of the path with the smallest score, by enumeration of all K-tuples of paths."""
    text, scores = instance.draft.text(instance.length), recursion(instance).scores
    masses: dict[Path, Rational] = {}
    for paths in product(text, repeat=instance.drafts):
        weight = prod(map(text.__getitem__, paths), start=ONE)
        chances = smallest_by_hand([scores[path] for path in paths])
        for path, chance in zip(paths, chances, strict=True):
            masses[path] = masses.get(path, ZERO) + weight * chance
    return Law(masses)


def selected_and_rows(instance: Instance) -> Law[tuple[Path, tuple[Row, ...]]]:
    """The law of the path that the verifier verifies, and of the rows it verifies it with."""
    seen: list[tuple[Path, tuple[Row, ...]]] = []

    def keep(
        path: Path, rows: Sequence[Row], instance: Instance, chance: Chance
    ) -> tuple[Path, Sequence[Rational]]:
        seen.append((path, tuple(rows)))
        return path, (ONE,)

    def program(chance: Chance) -> tuple[Path, tuple[Row, ...]]:
        SCORED.verify(GrowingTree(instance, chance), instance, chance)
        return seen.pop()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(MODULE, "keep", keep)
        return enumerate_law(program)


def drawn(data: st.DataObject, shaped: Shaped, shapes: Sequence[tuple[int, int, int]]) -> Instance:
    vocabulary, length, drafts = data.draw(st.sampled_from(shapes))
    return replace(data.draw(shaped(vocabulary, length, length)), drafts=drafts)


# The law of the selected path.


@few
@given(data=st.data())
def test_the_path_with_the_smallest_score_is_selected(
    shaped_instances: Shaped, data: st.DataObject
) -> None:
    instance = drawn(data, shaped_instances, SHAPES)
    selected = selected_and_rows(instance).map(lambda pair: pair[0])
    assert selected == selected_by_hand(instance)


@few
@given(data=st.data())
def test_its_law_is_that_of_its_own_rows(shaped_instances: Shaped, data: st.DataObject) -> None:
    instance = drawn(data, shaped_instances, SHAPES)
    expected = recursion(instance).law
    for (path, rows), weight in selected_and_rows(instance).items():
        assert weight == expected[path]
        assert weight == prod((row[y] for row, y in zip(rows, path, strict=True)), start=ONE)


@exact
@given(seed=st.integers(0, 2**32 - 1))
def test_the_chance_of_the_smallest_score(seed: int) -> None:
    random = Random(seed)

    def cells() -> Scores:
        edges = sorted(random.sample(range(7), random.randint(2, 4)))
        heights = [random.randint(0, 3) for _ in edges[1:]]
        heights[random.randrange(len(heights))] += 1
        return tuple(
            ScoreCell(rational(low) / 6, rational(high) / 6, rational(height) / 5)
            for low, high, height in zip(edges, edges[1:], heights, strict=False)
            if height
        )

    paths = tuple(cells() for _ in range(random.randint(1, 4)))
    assert list(smallest(paths)) == smallest_by_hand(paths)


# What is emitted.


@pytest.mark.requirement("law.lossless", "length.expected")
@few
@given(data=st.data())
def test_every_prefix_is_accepted_as_its_recursion_says_and_the_text_is_the_target_s(
    shaped_instances: Shaped, data: st.DataObject
) -> None:
    instance = drawn(data, shaped_instances, SHAPES)
    emitted, expected = emission_law(SCORED, instance), recursion(instance)
    for z, mass in expected.accepted.items():
        kept = emitted.probability(lambda e, z=z: e.accepted[: len(z)] == z)  # type: ignore[misc]
        assert kept == mass
    assert expected_accepted(emitted) == expected.expected
    assert is_lossless(emitted, instance)


@few
@given(instance=...)
def test_one_path_is_verified_as_a_block(instance: Instance) -> None:
    assert emission_law(SCORED, instance) == emission_law(BLOCK, instance)


@few
@given(data=st.data(), drafts=st.integers(1, 5))
def test_the_first_token_is_accepted_as_often_as_is_possible(
    shaped_instances: Shaped, data: st.DataObject, drafts: int
) -> None:
    """At every length; at one position that is optimal."""
    vocabulary, length = data.draw(st.sampled_from([(2, 1), (3, 1), (4, 1), (2, 2), (3, 2)]))
    instance = replace(data.draw(shaped_instances(vocabulary, length, length)), drafts=drafts)
    accepted = recursion(instance).accepted
    first = total(mass for z, mass in accepted.items() if len(z) == 1)
    assert first == acceptance_rate(replace(instance, length=1)).value


@exact
@given(data=st.data())
def test_at_two_positions_it_is_never_below_block_verification(
    shaped_instances: Shaped, data: st.DataObject
) -> None:
    """Proved. What a token gets beyond its draft's mass, it accepts in full: that is the gain.

    What another one gives up it did not accept, and the last position is worth at most one for one.
    """
    instance = drawn(data, shaped_instances, SHAPES_OF_TWO)
    assert recursion(instance).expected >= expected_by_block(instance)


# By hand: where it is better than others, and where it is not.


def example(vocabulary: int, length: int, target: str, draft: str) -> Instance:
    """Two drafts; rows by context, "01: 1/2 1/2, ..."; elsewhere both models write token 0."""
    sure = (ONE, *(ZERO,) * (vocabulary - 1))

    def model(name: str, text: str) -> Model:
        rows = {z: sure for n in range(length + 1) for z in product(range(vocabulary), repeat=n)}
        for entry in text.split(","):
            context, row = entry.split(":")
            rows[tuple(map(int, context.strip()))] = tuple(map(rational, row.split()))
        return Model(name, vocabulary, rows)

    return Instance(model("target", target), model("draft", draft), length, drafts=2)


@pytest.mark.parametrize(
    ("instance", "values"),
    [
        # Moving mass to the token that is wanted more costs the other one what comes later; the
        # scores save more of it than the number of paths that share a prefix.
        (
            example(
                2,
                3,
                ":17/20 3/20",
                ":4/5 1/5, 1:7/10 3/10, 0:0 1, 00:0 1, 01:0 1, 11:0 1",
            ),
            {"block": "123/100", "mixed_multipath_block": "3067/2500", SCORED.name: "321/250"},
        ),
        # Nothing is gained by giving token 1 more than its draft's mass, and so it gets no more.
        (
            example(3, 2, ":1/3 1/2 1/6", ":0 1/2 1/2, 2:1/3 2/3 0"),
            {"block": "4/3", "traversal": "4/3", SCORED.name: "4/3"},
        ),
        # The whole ranking would be best; the next token alone does not ask for it.
        (
            example(3, 2, ":1/2 1/2 0", ":0 1/2 1/2, 1:1/2 0 1/2"),
            {"block": "3/4", "multipath_block": "15/16", SCORED.name: "7/8"},
        ),
        # Tokens 1 and 2 are wanted alike, so they are tied; the ranking happens to prefer the one
        # whose text is sure.
        (
            example(3, 2, ":0 1/2 1/2, 1:1/2 0 1/2", ":1/2 1/4 1/4"),
            {"multipath_block": "43/32", SCORED.name: "21/16"},
        ),
    ],
)
def test_examples_by_hand(instance: Instance, values: dict[str, str]) -> None:
    for name, value in values.items():
        drafts = ALGORITHMS[name].most_drafts or instance.drafts
        emitted = emission_law(ALGORITHMS[name], replace(instance, drafts=drafts))
        assert expected_accepted(emitted) == rational(value)


@pytest.mark.parametrize(
    ("length", "block", "scored"), [(4, "3/2", "25/16"), (5, "7/4", "7/4"), (6, "2", "31/16")]
)
def test_what_long_texts_pay_back_is_not_seen(length: int, block: str, scored: str) -> None:
    """What token 1 gives up at the first position, it would have kept at every later one."""
    rows = [f"{z}:{p}" for z, p in (("", "3/4 1/4"), ("1", "1 0"))]
    instance = example(2, length, ", ".join(rows), ":1/2 1/2, 1:1/2 1/2, 0:0 1")
    assert expected_by_block(instance) == rational(block)
    assert recursion(instance).expected == rational(scored)


# What is wrong, and must be seen to be wrong.


@pytest.fixture
def exchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exchange]:
    """Exchange a part of a module, and forget the contenders that were made before and after."""

    def exchange(module: ModuleType, part: str, wrong: object) -> None:
        monkeypatch.setattr(module, part, wrong)

    contender.cache_clear()
    yield exchange
    monkeypatch.undo()
    contender.cache_clear()


@dataclass(frozen=True)
class DealtTwice:
    """Every token gets all the scores of the prefix, and so more than its share of paths."""

    law: Row
    scores: Scores

    def after(self, token: int) -> Scores:
        return self.scores


UNEVEN = example(2, 1, ":5/8 3/8", ":1/2 1/2")


def test_the_verifier_itself_is_lossless() -> None:
    assert is_lossless(emission_law(SCORED, UNEVEN), UNEVEN)


def test_scores_dealt_twice_are_not_lossless(exchanged: Exchange) -> None:
    def wrong(scores: Scores, p: Row, q: Row, **sizes: Rational | int) -> DealtTwice:
        return DealtTwice(split(scores, p, q, **sizes).law, scores)  # type: ignore[arg-type]

    exchanged(competition, "split", wrong)
    assert not is_lossless(emission_law(SCORED, UNEVEN), UNEVEN)


def test_scores_of_other_masses_than_the_draft_s_are_not_lossless(exchanged: Exchange) -> None:
    """They add up, but token 0 has the paths of 3/4 where the draft gives it 1/2."""
    skewed = (rational("3/4"), rational("1/4"))

    def wrong(scores: Scores, p: Row, q: Row, **sizes: Rational | int) -> ScoreSplit:
        return split(scores, p, skewed, **sizes)  # type: ignore[arg-type]

    exchanged(competition, "split", wrong)
    assert not is_lossless(emission_law(SCORED, UNEVEN), UNEVEN)


def test_the_first_of_scores_in_one_cell_is_not_the_smallest(exchanged: Exchange) -> None:
    """Scores that are spread over the same interval are unlike, and the later one can be less.

    The fault depends on the order of the paths, so it does not keep the promise of the algorithm.
    """

    def wrong(paths: Sequence[Scores]) -> list[Rational]:
        lows = [min(cell.low for cell in cells) for cells in paths]
        return [ONE if i == lows.index(min(lows)) else ZERO for i in range(len(paths))]

    exchanged(MODULE, "smallest", wrong)
    assert not is_lossless(emission_law(replace(SCORED, promise=None), UNEVEN), UNEVEN)


def test_the_selected_path_has_not_the_draft_s_law(exchanged: Exchange) -> None:
    """A score's mass says how often it is drafted, its worth how often it is selected."""

    def wrong(path: Path, instance: Instance, passed_on: Callable[..., Rational]) -> Contender:
        rows = tuple(instance.draft(path[:i]) for i in range(len(path)))
        return replace(contender(path, instance, passed_on), rows=rows)

    exchanged(MODULE, "contender", wrong)
    assert not is_lossless(emission_law(SCORED, UNEVEN), UNEVEN)
