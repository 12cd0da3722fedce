from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.ledger.scored_greedy import GREEDY, WRITTEN_WELL
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.process import expected_accepted, is_lossless, is_lossless_over_iterations
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.scores import UNIFORM, Scores, smallest, split
from draftproof.reference.verifiers import ALGORITHMS, emission_law

exact = settings.get_profile("exact")
few = settings(exact, max_examples=40)

GREEDILY = ALGORITHMS["scored_greedy_block"]
SHAPES = [(2, 1, 3), (3, 1, 2), (2, 2, 2), (2, 2, 3), (3, 2, 2), (2, 3, 2), (3, 3, 1)]

Shaped = Callable[[int, int, int], st.SearchStrategy[Instance]]
Measure = dict[Path, Rational]


def drawn(data: st.DataObject, shaped: Shaped, *, more: int = 0) -> Instance:
    """Draw an instance, with rows for `more` tokens behind its drafts."""
    vocabulary, length, drafts = data.draw(st.sampled_from(SHAPES))
    instance = data.draw(shaped(vocabulary, length, length + more))
    return replace(instance, drafts=drafts)


def competed(instance: Instance) -> tuple[Measure, dict[Path, Scores]]:
    """Go down all drafted prefixes, p(z) being owed to z: return Q', and the scores."""
    law: Measure = {(): ONE}
    scores: dict[Path, Scores] = {(): UNIFORM}
    for z in instance.draft.reachable(instance.length - 1):
        p, q = instance.target(z), instance.draft(z)
        here = split(scores[z], p, q, owed=instance.target.joint(z), drafts=instance.drafts)
        for y in range(instance.vocabulary):
            if q[y] != 0:
                law[*z, y], scores[*z, y] = here.law[y], here.after(y)
    return law, scores


def selected(instance: Instance, scores: dict[Path, Scores]) -> Measure:
    """P(a path wins), by enumeration of all K-tuples of paths."""
    text = dict(instance.draft.text(instance.length).items())
    masses = dict.fromkeys(text, ZERO)
    for paths in product(text, repeat=instance.drafts):
        weight = prod((text[path] for path in paths), start=ONE)
        for path, chance in zip(paths, smallest(tuple(scores[x] for x in paths)), strict=True):
            masses[path] += weight * chance
    return masses


@few
@given(data=st.data())
def test_the_path_that_wins_has_the_law_of_its_own_rows(
    shaped_instances: Shaped, data: st.DataObject
) -> None:
    instance = drawn(data, shaped_instances)
    law, scores = competed(instance)
    assert selected(instance, scores) == {x: law[x] for x in instance.draft.text(instance.length)}


@pytest.mark.requirement("length.expected")
@few
@given(data=st.data())
def test_of_every_prefix_all_is_kept_that_both_laws_share(
    shaped_instances: Shaped, data: st.DataObject
) -> None:
    instance = drawn(data, shaped_instances)
    emitted, (law, _) = emission_law(GREEDILY, instance), competed(instance)
    for x, mass in law.items():
        kept = emitted.probability(lambda e, x=x: e.accepted[: len(x)] == x)  # type: ignore[misc]
        assert kept == min(instance.target.joint(x), mass)
    assert expected_accepted(emitted) == GREEDY(instance)


@few
@given(data=st.data())
def test_the_rest_is_owed(shaped_instances: Shaped, data: st.DataObject) -> None:
    """The next token and the modified rows are those of (p - Q')+ behind the accepted tokens."""
    instance = drawn(data, shaped_instances)
    law, _ = competed(instance)

    def owed(x: Path) -> Rational:
        return max(instance.target.joint(x) - law.get(x, ZERO), ZERO)

    def row(z: Path) -> Sequence[Rational] | None:
        masses = [owed((*z, y)) for y in range(instance.vocabulary)]
        return [mass / total(masses) for mass in masses] if any(masses) else None

    def inside(start: Path) -> Iterator[tuple[Path, Row]]:
        for size in range(len(start), instance.length):
            for rest in product(range(instance.vocabulary), repeat=size - len(start)):
                z = start + rest
                chain = [row(z[:i]) for i in range(len(start), len(z) + 1)]
                if all(chain) and all(
                    before is not None and before[y] != 0
                    for before, y in zip(chain, rest, strict=False)
                ):
                    yield z[len(start) :], tuple(chain[-1] or ())

    behind: dict[Path, list[Rational]] = {}
    for emission, weight in emission_law(GREEDILY, instance).items():
        here = behind.setdefault(emission.accepted, [ZERO] * instance.vocabulary)
        here[emission.next_token] += weight
        assert dict(emission.modified) == dict(inside(emission.tokens))
    for accepted, weights in behind.items():
        if len(accepted) < instance.length:
            assert [weight / total(weights) for weight in weights] == row(accepted)


@pytest.mark.requirement("law.lossless", "law.state")
@few
@given(data=st.data())
def test_the_text_is_the_target_s(shaped_instances: Shaped, data: st.DataObject) -> None:
    instance = drawn(data, shaped_instances, more=2)
    assert is_lossless(emission_law(GREEDILY, instance), instance)
    horizon, lossless = is_lossless_over_iterations(GREEDILY, instance)
    assert horizon > instance.length
    assert lossless


def test_what_is_owed_must_be_left_behind() -> None:
    """A block alone has its law; it is the next one's target that is not the model's own."""
    instance = WRITTEN_WELL

    def forgotten(*given: object) -> object:
        return replace(GREEDILY.verify(*given), modified=())  # type: ignore[arg-type]

    law = emission_law(replace(GREEDILY, verify=forgotten), instance)  # type: ignore[arg-type]
    assert not is_lossless(law, instance)
    assert is_lossless(emission_law(GREEDILY, instance), instance)


def test_an_example_by_hand(one_row: Callable[..., Instance]) -> None:
    """p = (1/3, 2/3), q = (2/3, 1/3): token 1 wins whenever it is drafted, 5/9 of the time."""
    instance = one_row("1/3 2/3", "2/3 1/3", length=1, drafts=2)
    law, _ = competed(instance)
    assert law == {(): ONE, (0,): rational("4/9"), (1,): rational("5/9")}
    assert expected_accepted(emission_law(GREEDILY, instance)) == rational("8/9")
