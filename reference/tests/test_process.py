from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, single_path
from draftproof.reference.emission import Emission, emission
from draftproof.reference.errors import MissingContext
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, Row, instance_from_json
from draftproof.reference.process import after, continued, decoded, expected_accepted
from draftproof.reference.rational import (
    ONE,
    Rational,
    positive_part,
    ratio_or_one,
    rational,
    total,
)
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, Verifier, emission_law

exact = settings.get_profile("exact")
few = settings(exact, max_examples=30)
fewer = settings(exact, max_examples=12)

Instances = Callable[..., st.SearchStrategy[Instance]]
OneRow = Callable[..., Instance]

every_algorithm = pytest.mark.parametrize(
    "algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.name
)
STATEFUL = [algorithm for algorithm in ALGORITHMS.values() if algorithm.stateful]
every_stateful = pytest.mark.parametrize("algorithm", STATEFUL, ids=lambda a: a.name)
every_several = pytest.mark.parametrize(
    ("algorithm", "scheme"),
    [
        (algorithm, scheme)
        for algorithm in ALGORITHMS.values()
        if algorithm.most_drafts is None
        for scheme in algorithm.schemes
    ],
    ids=lambda value: value.name if isinstance(value, Algorithm) else value,
)


def is_lossless(algorithm: Algorithm, instance: Instance) -> bool:
    horizon = instance.length + 1
    text = continued(emission_law(algorithm, instance), instance, horizon)
    return text == instance.target.text(horizon)


# What is true of every algorithm.


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize("name", ["token", "block"])
@exact
@given(instance=...)
def test_one_iteration_with_one_draft_is_lossless(name: str, instance: Instance) -> None:
    assert is_lossless(ALGORITHMS[name], instance)


@pytest.mark.requirement("law.lossless")
@every_algorithm
@few
@given(instance=...)
def test_one_draft_is_no_special_case(algorithm: Algorithm, instance: Instance) -> None:
    assert is_lossless(algorithm, replace(instance, scheme=algorithm.schemes[-1]))


@pytest.mark.requirement("law.lossless")
@every_several
@few
@given(data=st.data())
def test_one_iteration_with_several_drafts_is_lossless(
    algorithm: Algorithm, scheme: str, drafted: Instances, data: st.DataObject
) -> None:
    assert is_lossless(algorithm, data.draw(drafted([scheme], trees=algorithm.trees)))


@every_algorithm
@fewer
@given(instance=...)
def test_a_shorter_horizon_is_a_marginal(algorithm: Algorithm, instance: Instance) -> None:
    emitted = emission_law(algorithm, instance)
    whole = continued(emitted, instance, instance.length + 1)
    for horizon in range(instance.length + 1):
        marginal = whole.map(lambda text, horizon=horizon: text[:horizon])  # type: ignore[misc]
        assert continued(emitted, instance, horizon) == marginal


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize(
    ("vocabulary", "length", "horizon"),
    [(1, 3, 6), (2, 1, 4), (3, 1, 3), (2, 2, 4), (3, 2, 3), (2, 3, 4), (2, 3, 5)],
)
@pytest.mark.parametrize("name", ["token", "block", "greedy_block"])
@few
@given(data=st.data())
def test_several_iterations_with_one_draft_are_lossless(
    name: str,
    vocabulary: int,
    length: int,
    horizon: int,
    shaped_instances: Callable[[int, int, int], st.SearchStrategy[Instance]],
    data: st.DataObject,
) -> None:
    instance = data.draw(shaped_instances(vocabulary, length, horizon - 1 + length))
    assert decoded(ALGORITHMS[name], instance, horizon) == instance.target.text(horizon)


SMALL = [(2, (2,)), (3, (2,)), (2, (3,)), (2, (2, 1)), (2, (1, 2))]


@pytest.mark.requirement("law.lossless")
@every_several
@fewer
@given(data=st.data())
def test_several_iterations_with_several_drafts_are_lossless(
    algorithm: Algorithm, scheme: str, drafted: Instances, data: st.DataObject
) -> None:
    """The models end two tokens after the block: the last drafts are shorter, or none."""
    instance = data.draw(drafted([scheme], shapes=SMALL, trees=algorithm.trees, beyond=2))
    for horizon in (instance.length + 1, instance.length + 3):
        assert decoded(algorithm, instance, horizon) == instance.target.text(horizon)


@pytest.mark.requirement("law.lossless", "law.state")
@every_stateful
@pytest.mark.parametrize("beyond", [0, 1, 3])
@few
@given(data=st.data())
def test_modified_targets_nest(
    algorithm: Algorithm, beyond: int, drafted: Instances, data: st.DataObject
) -> None:
    """Blocks of two and three tokens: what one leaves behind is modified again by the next."""
    paths = [(1,), (1, 1), (1, 1, 1)]
    if algorithm.most_drafts is None:
        paths += [(2, 1), (2, 1), (3, 1)]
    shapes = [(2, widths) for widths in paths]
    instance = data.draw(drafted(["iid"], shapes=shapes, beyond=beyond))
    horizon = instance.length + 1 + beyond
    assert decoded(algorithm, instance, horizon) == instance.target.text(horizon)


@every_algorithm
def test_a_horizon_beyond_the_block_is_written_by_the_target(
    algorithm: Algorithm, motivating: Instance
) -> None:
    for horizon in (0, 1, 5):
        text = motivating.target.text(horizon)
        assert continued(emission_law(algorithm, motivating), motivating, horizon) == text
        assert decoded(algorithm, motivating, horizon) == text


def test_block_efficiency_is_one_more_than_what_is_accepted() -> None:
    half = rational("1/2")
    emitted = Law({Emission(0, (), 1): half, Emission(0, (0, 0, 0), 1): half})
    assert expected_accepted(emitted) == rational("3/2")
    assert emitted.expectation(lambda emission: len(emission.tokens)) == rational("5/2")


# What is left where the models end.

EVEN, ONLY_0, ONLY_1 = ["1/2", "1/2"], ["1", "0"], ["0", "1"]


@every_algorithm
def test_where_the_draft_ends_the_target_writes_alone(algorithm: Algorithm) -> None:
    target = dict.fromkeys(("", "0", "1", "0,0", "0,1", "1,0", "1,1"), EVEN)
    instance = instance_from_json(
        {"vocabulary": 2, "length": 1, "target": target, "draft": {"": ["1/3", "2/3"]}}
    )
    assert decoded(algorithm, instance, 3) == instance.target.text(3)


@every_algorithm
def test_a_target_that_ends_before_the_horizon_says_where(algorithm: Algorithm) -> None:
    rows = {"": EVEN, "0": EVEN, "1": ONLY_1}
    instance = instance_from_json(
        {"vocabulary": 2, "length": 1, "target": rows, "draft": ["1", "0"]}
    )
    assert decoded(algorithm, instance, 2) == instance.target.text(2)
    with pytest.raises(MissingContext) as refusal:
        decoded(algorithm, instance, 3)
    assert str(refusal.value) == (
        "the target has no row for the empty context: "
        "it has rows for 0 contexts of at most 0 tokens"
    )


def test_drafts_are_as_long_as_the_models_allow() -> None:
    """A verifier that never accepts sees all of them."""
    seen: list[tuple[int, int, tuple[int, ...]]] = []

    def looks(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        seen.append((instance.length, instance.drafts, instance.branching))
        return emission(drafts, (), chance.draw(instance.target(())))

    rows = {",".join("0" * size): ONLY_0 for size in range(5)}
    instance = instance_from_json(
        {
            "vocabulary": 2,
            "length": 3,
            "scheme": "tree",
            "branching": [2, 1, 3],
            "target": rows,
            "draft": rows,
        }
    )
    looking = Algorithm(name="looks", title="", source="", verify=looks)
    assert decoded(looking, instance, 5) == Law.certain((0,) * 5)
    assert seen == [(3, 6, (2, 1, 3)), (3, 6, (2, 1, 3)), (2, 2, (2, 1)), (1, 2, (2,))]


# What a stateful verifier leaves behind.


def forgetful(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm without the modification of its target."""

    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        return replace(algorithm.verify(drafts, instance, chance), modified=())

    return replace(algorithm, verify=verify)


def leaves_another_target(algorithm: Algorithm, instance: Instance) -> bool:
    """Return whether some emission leaves a row that is not the target's and can be reached."""
    for emitted in emission_law(algorithm, instance):
        target = instance.target.after(emitted.tokens)
        left = after(instance.target, emitted)
        if any(left(context) != target(context) for context, _ in emitted.modified):
            return True
    return False


@pytest.mark.requirement("law.state")
@every_stateful
@few
@given(data=st.data())
def test_a_modification_that_is_dropped_is_seen(
    algorithm: Algorithm, drafted: Instances, data: st.DataObject
) -> None:
    """Wherever a row is another one than the target's, dropping it biases the text.

    For greedy block verification and SpecTr-GBV the row at a context is the same whatever was
    emitted, so nothing cancels at the shallowest changed context.
    """
    drafts = 1 if algorithm.most_drafts else 2
    shapes = [(2, (drafts, 1)), (3, (drafts, 1)), (2, (drafts, 1, 1))]
    instance = data.draw(drafted(["iid"], shapes=shapes))
    changes = leaves_another_target(algorithm, instance)
    assert is_lossless(forgetful(algorithm), instance) == (not changes)


@every_algorithm
def test_a_stateless_verifier_leaves_no_target_behind(
    algorithm: Algorithm, motivating: Instance
) -> None:
    instance = (
        motivating
        if algorithm.most_drafts
        else replace(motivating, drafts=2, scheme=algorithm.schemes[0])
    )
    left = any(emitted.modified for emitted in emission_law(algorithm, instance))
    assert left == algorithm.stateful


# What is wrong, and must be seen to be wrong.


def uneven(context: Path, multiplier: int) -> Row:
    """Return a row of three tokens without zeros or ties, another one in every context."""
    rank = sum((token + 1) * 4**i for i, token in enumerate(context))
    shares = [1 + (multiplier * (rank + 3 * token + 1)) % 11 for token in range(3)]
    return tuple(rational(share) / sum(shares) for share in shares)


CONTEXTS = [context for size in range(3) for context in product(range(3), repeat=size)]
CONTEXTUAL = Instance(
    Model("target", 3, {context: uneven(context, 4) for context in CONTEXTS}),
    Model("draft", 3, {context: uneven(context, 5) for context in CONTEXTS}),
    length=2,
)


def excess(p: Row, q: Row, weight: Rational = ONE) -> list[Rational]:
    return [positive_part(weight * a - b) for a, b in zip(p, q, strict=True)]


def token_with(
    correction: Callable[[Row, Row], list[Rational] | Row] = excess,
    bonus: Callable[[Path, Instance], Row] = lambda path, instance: instance.target(path),
    ratio: Callable[[Rational, Rational], Rational] = lambda p, q: p / q,
) -> Verifier:
    """Return token verification with a part of it exchanged."""

    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        path = single_path(drafts)
        for i, drafted in enumerate(path):
            p, q = instance.target(path[:i]), instance.draft(path[:i])
            if not chance.coin(min(ONE, ratio(p[drafted], q[drafted]))):
                return Emission(0, path[:i], chance.draw(correction(p, q)))
        return Emission(0, path, chance.draw(bonus(path, instance)))

    return verify


def one_hot(token: int, vocabulary: int) -> Row:
    return tuple(rational(int(t == token)) for t in range(vocabulary))


def keeps_emitting(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Replace each rejected token in place, and go on with the rest of the draft."""
    path = single_path(drafts)
    text: Path = ()
    for i, drafted in enumerate(path):
        p, q = instance.target(path[:i]), instance.draft(path[:i])
        is_kept = chance.coin(min(ONE, p[drafted] / q[drafted]))
        text = (*text, drafted if is_kept else chance.draw(excess(p, q)))
    return Emission(0, text, chance.draw(instance.target(path)))


def block_with(
    residual_weight: Callable[[Rational], Rational] = lambda weight: weight,
    clip: Callable[[Rational], Rational] = lambda weight: min(ONE, weight),
    longest: bool = True,
) -> Verifier:
    """Return block verification with a part of it exchanged."""

    def verify(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        path = single_path(drafts)
        rows = [(instance.target(path[:i]), instance.draft(path[:i])) for i in range(len(path))]
        weight = [ONE]
        for (p, q), drafted in zip(rows, path, strict=True):
            weight.append(clip(weight[-1] * p[drafted] / q[drafted]))

        def passes(i: int) -> bool:
            if i == len(path):
                return chance.coin(min(ONE, weight[i]))
            mass = total(excess(*rows[i], weight[i]))
            return chance.coin(min(ONE, ratio_or_one(mass, max(mass, mass + 1 - weight[i]))))

        passed = [i for i in range(1, len(path) + 1) if passes(i)]
        if longest:
            accepted = max(passed, default=0)
        else:
            accepted = next(i for i in range(len(path) + 1) if i + 1 not in passed)
        if accepted == len(path):
            return Emission(0, path, chance.draw(instance.target(path)))
        residual = excess(*rows[accepted], residual_weight(weight[accepted]))
        return Emission(0, path[:accepted], chance.draw(residual))

    return verify


WRONG = {
    "correction from the target": token_with(correction=lambda p, q: p),
    "correction from q - p": token_with(correction=lambda p, q: excess(q, p)),
    "ratio q/p": token_with(ratio=lambda p, q: q / p),
    "accepts everything": token_with(ratio=lambda p, q: ONE),
    "rejects everything": token_with(ratio=lambda p, q: ONE - ONE),
    "bonus from the draft": token_with(bonus=lambda path, instance: instance.draft(path)),
    "bonus from one row too early": token_with(
        bonus=lambda path, instance: instance.target(path[:-1])
    ),
    "bonus repeats the last token": token_with(
        bonus=lambda path, instance: one_hot(path[-1], instance.vocabulary)
    ),
    "keeps emitting after a rejection": keeps_emitting,
    "block with the token residual": block_with(residual_weight=lambda weight: ONE),
    "block without the clip": block_with(clip=lambda weight: weight),
    "block that stops at the first failure": block_with(longest=False),
}


def named(name: str, verify: Verifier) -> Algorithm:
    return Algorithm(name=name, title=name, source="", verify=verify, most_drafts=1)


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_verifier_is_refused(name: str) -> None:
    assert not is_lossless(named(name, WRONG[name]), CONTEXTUAL)


@pytest.mark.parametrize("verify", [token_with(), block_with()], ids=["token", "block"])
def test_the_wrong_verifiers_are_right_but_for_the_part_that_is_wrong(verify: Verifier) -> None:
    assert is_lossless(named("right", verify), CONTEXTUAL)


def test_a_context_free_instance_is_blind_to_emitting_after_a_rejection(
    motivating: Instance,
) -> None:
    assert is_lossless(named("blind", keeps_emitting), motivating)


def test_two_tokens_are_blind_to_the_weight_of_the_residual() -> None:
    """Of two tokens only one can be in excess, so every residual is the same point mass."""
    rows = {key: ["1/4", "3/4"] for key in ("0,0", "0,1", "1,0", "1,1")}
    target = {"": ["1/3", "2/3"], "0": ["1/2", "1/2"], "1": ["1/5", "4/5"], **rows}
    draft = {"": ["2/3", "1/3"], "0": ["1/4", "3/4"], "1": ["3/5", "2/5"]}
    instance = instance_from_json({"vocabulary": 2, "length": 2, "target": target, "draft": draft})
    assert is_lossless(named("blind", WRONG["block with the token residual"]), instance)


def test_a_horizon_without_the_next_token_is_blind_to_a_wrong_bonus() -> None:
    wrong = emission_law(named("blind", WRONG["bonus from the draft"]), CONTEXTUAL)
    horizon = CONTEXTUAL.length
    assert continued(wrong, CONTEXTUAL, horizon) == CONTEXTUAL.target.text(horizon)
