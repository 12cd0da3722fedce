from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.errors import (
    InvalidInput,
    MissingContext,
    NotADistribution,
    NotRational,
    TokenOutOfRange,
    Unsupported,
    WrongShape,
)
from draftproof.reference.law import Law
from draftproof.reference.model import (
    Instance,
    Model,
    Path,
    Row,
    context_from_key,
    context_key,
    instance_from_json,
    instance_to_json,
)
from draftproof.reference.rational import Rational, rational

exact = settings.get_profile("exact")
few = settings(exact, max_examples=60)

Drafted = Callable[..., st.SearchStrategy[Instance]]


def refused(kind: type[Exception], message: str, call: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert (type(refusal.value), str(refusal.value)) == (kind, message)


# What a model is.


@exact
@given(instance=...)
def test_the_text_has_the_joint_probabilities(instance: Instance) -> None:
    target, horizon = instance.target, instance.length + 1
    paths = product(range(instance.vocabulary), repeat=horizon)
    assert target.text(horizon) == Law({path: target.joint(path) for path in paths})
    assert target.text(0) == Law.certain(())
    assert target.text(horizon).map(lambda path: path[:-1]) == target.text(instance.length)


@exact
@given(instance=..., data=st.data())
def test_a_model_after_a_prefix_is_its_own_continuation(
    instance: Instance, data: st.DataObject
) -> None:
    target = instance.target
    path = data.draw(st.sampled_from(list(target.reachable(instance.length))))
    for size in range(len(path) + 1):
        prefix, rest = path[:size], path[size:]
        assert target.joint(path) == target.joint(prefix) * target.after(prefix).joint(rest)
        assert target.after(prefix)(rest) == target(path)
        assert target.after(prefix).after(rest) == target.after(path)


@exact
@given(instance=...)
def test_reachable_contexts_are_those_of_positive_probability(instance: Instance) -> None:
    target, vocabulary = instance.target, range(instance.vocabulary)
    assert list(target.reachable(2)) == [
        path
        for size in range(3)
        for path in product(vocabulary, repeat=size)
        if target.joint(path) > 0
    ]


def test_a_context_free_model_has_one_row_everywhere() -> None:
    row = (rational("1/3"), rational("2/3"))
    model = Model("draft", 2, {(): row}, context_free=True)
    assert model(()) == model((1, 0, 1)) == row
    assert model.after((1,)) == model
    assert model.joint((0, 1, 1)) == rational("4/27")


def test_a_row_is_not_asked_for_where_the_path_has_no_probability() -> None:
    assert Model("draft", 2, {(): ONLY_0}).joint((1, 1, 1)) == 0


# What a stateful verifier leaves behind.


@few
@given(instance=..., data=st.data())
def test_a_modified_row_counts_at_its_context_and_nowhere_else(
    instance: Instance, data: st.DataObject
) -> None:
    target = instance.target
    contexts = list(target.rows)
    changed = data.draw(st.sets(st.sampled_from(contexts), min_size=1))
    other = instance.draft(())
    modified = target.overridden(dict.fromkeys(changed, other))
    for context in contexts:
        assert modified(context) == (other if context in changed else target(context))
    assert modified.overridden({c: target(c) for c in changed})(contexts[0]) == target(contexts[0])
    prefix = data.draw(st.sampled_from(contexts))
    for context in contexts:
        if context[: len(prefix)] == prefix:
            assert modified.after(prefix)(context[len(prefix) :]) == modified(context)


def test_a_context_free_model_can_be_modified_at_one_context() -> None:
    free = Model("target", 2, {(): ROW}, context_free=True)
    modified = free.overridden({(0, 1): ONLY_0})
    assert list(modified((0, 1))) == [1, 0]
    assert modified((0, 1)) == modified.after((0,))((1,)) == modified.after((0, 1))(())
    assert modified((0,)) == modified((1, 1)) == modified((0, 1, 0)) == free(())
    assert modified.after((1,)) == modified.after((0, 1, 0)) == free
    assert modified.joint((0, 1, 1)) == 0


def test_the_last_modification_counts() -> None:
    free = Model("target", 2, {(): ROW}, context_free=True)
    assert free.overridden({(1,): ONLY_0}).overridden({(1,): ONLY_1}) == free.overridden(
        {(1,): ONLY_1}
    )
    both = free.overridden({(1,): ONLY_0}).overridden({(0,): ONLY_1})
    assert [list(both((1,))), list(both((0,)))] == [[1, 0], [0, 1]]


def test_equal_models_have_equal_hashes_whatever_the_order_of_their_rows() -> None:
    rows: dict[Path, Row] = {(): ROW, (0,): ONLY_0}
    one, other = Model("target", 2, rows), Model("target", 2, dict(reversed(rows.items())))
    assert (one, hash(one)) == (other, hash(other))
    modified = one.overridden({(0,): ONLY_1})
    assert modified != one
    assert len({one, other, modified, one.overridden({(0,): ONLY_1})}) == 2


def test_what_is_no_modification() -> None:
    free = Model("target", 2, {(): ROW}, context_free=True)
    refused(
        NotADistribution,
        "the target's row at context '1' must sum to 1, it sums to 2",
        lambda: free.overridden({(1,): ("1", "1")}),  # type: ignore[dict-item]
    )
    refused(
        TokenOutOfRange,
        "token 2 of context '2' in the target is not in 0..1",
        lambda: free.overridden({(2,): ROW}),
    )


def test_a_modified_model_has_no_json_form() -> None:
    free = Model("target", 2, {(): ROW}, context_free=True).overridden({(0,): ONLY_0})
    refused(
        Unsupported,
        "the target carries modified rows, which have no JSON form",
        lambda: instance_to_json(Instance(free, FREE, 1)),
    )


# What is no model.


# Rows as they are written, which a model reads and a type checker does not know of.
ROW: Any = ("1/2", "1/2")
ONLY_0: Any = ("1", "0")
ONLY_1: Any = ("0", "1")
ONLY_0_OF_3: Any = ("1", "0", "0")
HINT = "write it as a fraction"


@pytest.mark.parametrize(
    ("vocabulary", "rows", "context_free", "kind", "message"),
    [
        (0, {}, False, WrongShape, "the vocabulary size must be at least 1, got 0"),
        (
            2,
            {(): ROW, (0,): ROW},
            True,
            WrongShape,
            "a context-free target has one row, at the empty context",
        ),
        (2, {}, True, WrongShape, "a context-free target has one row, at the empty context"),
        (
            2,
            {(): ("1/3", "1/3", "1/3")},
            False,
            WrongShape,
            "the target's row at the empty context must have 2 entries, it has 3",
        ),
        (
            2,
            {(0, 1): ("1",)},
            False,
            WrongShape,
            "the target's row at context '0,1' must have 2 entries, it has 1",
        ),
        (
            2,
            {(): ("1/2", "1/3")},
            False,
            NotADistribution,
            "the target's row at the empty context must sum to 1, it sums to 5/6",
        ),
        (
            2,
            {(1,): ("4/3", "-1/3")},
            False,
            NotADistribution,
            "the target's row at context '1' gives token 1 the negative weight -1/3",
        ),
        (
            2,
            {(): (0.5, 0.5)},
            False,
            NotRational,
            "the target's row at the empty context: expected a rational number such as "
            f'"1/10", got the float 0.5: {HINT}',
        ),
        (
            2,
            {(): ("1", math.nan)},
            False,
            NotRational,
            "the target's row at the empty context: expected a rational number such as "
            f'"1/10", got the float nan: {HINT}',
        ),
        (
            2,
            {(): (True, False)},
            False,
            NotRational,
            "the target's row at the empty context: expected a rational number, "
            "got the boolean True",
        ),
        (
            2,
            {(): ("one", "0")},
            False,
            NotRational,
            "the target's row at the empty context: expected a rational number such as "
            "\"11/9\", got the string 'one'",
        ),
        (
            2,
            {(2,): ROW},
            False,
            TokenOutOfRange,
            "token 2 of context '2' in the target is not in 0..1",
        ),
        (
            2,
            {(0, -1): ROW},
            False,
            TokenOutOfRange,
            "token -1 of context '0,-1' in the target is not in 0..1",
        ),
    ],
)
def test_what_is_no_model(
    vocabulary: int,
    rows: dict[Path, Any],
    context_free: bool,
    kind: type[Exception],
    message: str,
) -> None:
    refused(kind, message, lambda: Model("target", vocabulary, rows, context_free))


def test_rows_are_exact_whatever_exact_number_they_were_given_as() -> None:
    model = Model("target", 2, {(): ROW})
    assert all(isinstance(weight, Rational) for weight in model(()))


def test_a_missing_row_is_named_together_with_what_is_there() -> None:
    model = Model("draft", 2, {(): ROW, (0,): ROW})
    known = "it has rows for 2 contexts of at most 1 tokens"
    refused(MissingContext, f"the draft has no row for context '1': {known}", lambda: model((1,)))
    refused(
        MissingContext,
        f"the draft has no row for context '0,1': {known}",
        lambda: model.joint((0, 1, 1)),
    )
    refused(
        MissingContext,
        "the draft has no row for the empty context: "
        "it has rows for 0 contexts of at most 0 tokens",
        lambda: Model("draft", 2, {})(()),
    )


@pytest.mark.parametrize("context_free", [True, False])
def test_a_token_out_of_range_is_no_context(context_free: bool) -> None:
    model = Model("draft", 2, {(): ROW}, context_free)
    message = "token 2 of context '2' in the draft is not in 0..1"
    refused(TokenOutOfRange, message, lambda: model((2,)))
    refused(TokenOutOfRange, message, lambda: model.joint((2,)))


# What an instance is, and is not.

FREE = Model("draft", 2, {(): ROW}, context_free=True)


@pytest.mark.parametrize(
    ("target", "draft", "length", "drafts", "kind", "message"),
    [
        (
            Model("target", 3, {(): ONLY_0_OF_3}, context_free=True),
            FREE,
            1,
            1,
            WrongShape,
            "target and draft must share a vocabulary, the target has 3 tokens and the draft 2",
        ),
        (FREE, FREE, 0, 1, WrongShape, "the draft length must be at least 1, got 0"),
        (FREE, FREE, 1, 0, WrongShape, "the number of drafts must be at least 1, got 0"),
        (
            Model("target", 2, {(): ROW, (0,): ROW}),
            FREE,
            1,
            1,
            MissingContext,
            "the target has no row for context '1': it has rows for 2 contexts of at most 1 tokens",
        ),
        (
            FREE,
            Model("draft", 2, {(): ROW, (0,): ROW}),
            2,
            1,
            MissingContext,
            "the draft has no row for context '1': it has rows for 2 contexts of at most 1 tokens",
        ),
        (
            Model("target", 2, {(): ONLY_1, (1,): ROW}),
            Model("draft", 2, {(): ONLY_0}),
            1,
            1,
            MissingContext,
            "the target has no row for context '0': it has rows for 2 contexts of at most 1 tokens",
        ),
        (
            Model("target", 2, {(): ONLY_1, (0,): ROW}),
            Model("draft", 2, {(): ONLY_0}),
            1,
            1,
            MissingContext,
            "the target has no row for context '1': it has rows for 2 contexts of at most 1 tokens",
        ),
    ],
)
def test_what_is_no_instance(
    target: Model, draft: Model, length: int, drafts: int, kind: type[Exception], message: str
) -> None:
    refused(kind, message, lambda: Instance(target, draft, length, drafts))


@pytest.mark.parametrize(
    ("drafts", "branching", "message"),
    [
        (4, (2,), "branching must have one factor for each of the 2 drafted tokens, got [2]"),
        (
            4,
            (2, 2, 1),
            "branching must have one factor for each of the 2 drafted tokens, got [2, 2, 1]",
        ),
        (1, (0, 2), "a branching factor is at least 1, got [0, 2]"),
        (2, (-1, -2), "a branching factor is at least 1, got [-1, -2]"),
        (3, (2, 2), "branching [2, 2] makes 4 paths, 'drafts' says 3"),
        (1, (2, 1), "branching [2, 1] makes 2 paths, 'drafts' says 1"),
    ],
)
def test_branching_that_does_not_fit(drafts: int, branching: tuple[int, ...], message: str) -> None:
    refused(
        WrongShape, message, lambda: Instance(FREE, FREE, 2, drafts, "iid", branching=branching)
    )


@pytest.mark.parametrize(
    ("drafts", "branching", "widths"),
    [(1, (), (1, 1, 1)), (3, (), (3, 1, 1)), (6, (1, 2, 3), (1, 2, 3)), (3, (3, 1, 1), (3, 1, 1))],
)
def test_without_branching_the_paths_part_at_the_root(
    drafts: int, branching: tuple[int, ...], widths: tuple[int, ...]
) -> None:
    assert Instance(FREE, FREE, 3, drafts, branching=branching).widths == widths


def test_rows_that_no_text_can_reach_may_be_missing() -> None:
    target = Model("target", 2, {(): ONLY_1, (1,): ONLY_1})
    assert Instance(target, Model("draft", 2, {(): ONLY_1}), length=1).vocabulary == 2


def test_an_instance_after_a_text_says_how_far_its_models_reach() -> None:
    instance = Instance(Model("target", 2, {(): ROW, (0,): ROW, (1,): ROW}), FREE, length=1)
    refused(
        MissingContext,
        "after context '1', the target has no row for context '0': "
        "it has rows for 1 contexts of at most 0 tokens",
        lambda: instance.after((1,)),
    )


@exact
@given(instance=..., data=st.data())
def test_an_instance_after_a_text_has_the_models_after_it(
    instance: Instance, data: st.DataObject
) -> None:
    shorter = Instance(instance.target, instance.draft, length=1, drafts=2)
    prefix = data.draw(st.sampled_from(list(instance.target.reachable(instance.length - 1))))
    after = shorter.after(prefix)
    assert (after.target, after.draft) == (
        shorter.target.after(prefix),
        shorter.draft.after(prefix),
    )
    assert (after.length, after.drafts, after.scheme) == (1, 2, "iid")


# JSON.


@exact
@given(instance=...)
def test_json_keeps_everything(instance: Instance) -> None:
    document = json.loads(json.dumps(instance_to_json(instance)))
    assert instance_from_json(document) == instance


def test_json_of_a_context_free_model_is_its_row() -> None:
    document = {
        "vocabulary": 2,
        "length": 3,
        "drafts": 2,
        "scheme": "iid",
        "target": ["1/3", "2/3"],
        "draft": ["1", "0"],
    }
    instance = instance_from_json(document)
    assert instance.target.context_free
    assert instance_to_json(instance) == document


@few
@given(data=st.data())
def test_json_keeps_every_scheme_and_tree(drafted: Drafted, data: st.DataObject) -> None:
    instance = data.draw(drafted())
    document = json.loads(json.dumps(instance_to_json(instance)))
    assert instance_from_json(document) == instance
    assert ("branching" in document) == bool(instance.branching)
    assert (document["scheme"] == "tree") == (instance.scheme == "iid" and bool(instance.branching))


def test_a_tree_is_iid_with_branching_and_its_drafts_may_be_left_out() -> None:
    tree = {**DOCUMENT, "length": 2, "draft": ["1/2", "1/2"], "branching": [2, 3]}
    del tree["drafts"]
    instance = instance_from_json({**tree, "scheme": "tree"})
    assert (instance.scheme, instance.branching, instance.drafts) == ("iid", (2, 3), 6)
    assert instance == instance_from_json({**tree, "scheme": "iid"})
    assert instance == instance_from_json({**tree, "scheme": "tree", "drafts": prod((2, 3))})
    assert instance_to_json(instance)["scheme"] == "tree"
    greedy = instance_from_json({**tree, "scheme": "greedy"})
    assert (greedy.scheme, greedy.drafts) == ("greedy", 6)
    assert instance_to_json(greedy)["scheme"] == "greedy"


def test_drafts_and_scheme_have_defaults_and_weights_may_be_whole_numbers() -> None:
    document = {"vocabulary": 1, "length": 1, "target": [1], "draft": {"": ["1"]}}
    instance = instance_from_json(document)
    assert (instance.drafts, instance.scheme) == (1, "iid")
    assert instance.target(()) == (rational(1),)


@exact
@given(context=st.lists(st.integers(0, 200)).map(tuple))
def test_a_context_has_one_key(context: Path) -> None:
    assert context_from_key(context_key(context)) == context


@pytest.mark.parametrize(
    "key", [",", "0,", ",0", "0 ,1", "00", "+1", "1_0", "a", "0;1", "1.0", "\u0661"]
)
def test_what_is_no_context_key(key: str) -> None:
    refused(
        WrongShape,
        f'a context is tokens joined by commas, such as "0,1", got {key!r}',
        lambda: context_from_key(key),
    )


DOCUMENT: dict[str, Any] = {
    "vocabulary": 2,
    "length": 1,
    "drafts": 1,
    "scheme": "iid",
    "target": ["1/3", "2/3"],
    "draft": {"": ["1/2", "1/2"]},
}


@pytest.mark.parametrize("key", ["vocabulary", "length", "target", "draft"])
def test_json_with_a_missing_key(key: str) -> None:
    document = {name: value for name, value in DOCUMENT.items() if name != key}
    refused(WrongShape, f"the instance has no {key!r}", lambda: instance_from_json(document))


@pytest.mark.parametrize(
    ("document", "type_name"),
    [([], "list"), (None, "NoneType"), (3, "int"), ("{}", "str"), (True, "bool")],
)
def test_json_that_is_no_object(document: object, type_name: str) -> None:
    refused(
        WrongShape,
        f"an instance is a JSON object, got {type_name}",
        lambda: instance_from_json(document),
    )


KNOWN = "an instance has branching, draft, drafts, length, scheme, target, vocabulary"


@pytest.mark.parametrize(
    ("key", "value", "kind", "message"),
    [
        ("seed", 0, WrongShape, f"unknown key 'seed'; {KNOWN}"),
        (0, 0, WrongShape, f"unknown key 0; {KNOWN}"),
        ("vocabulary", True, WrongShape, "'vocabulary' must be a whole number, got True"),
        ("vocabulary", "2", WrongShape, "'vocabulary' must be a whole number, got '2'"),
        ("vocabulary", 0, WrongShape, "the vocabulary size must be at least 1, got 0"),
        (
            "vocabulary",
            3,
            WrongShape,
            "the target's row at the empty context must have 3 entries, it has 2",
        ),
        ("length", True, WrongShape, "'length' must be a whole number, got True"),
        ("length", 1.0, WrongShape, "'length' must be a whole number, got 1.0"),
        ("length", None, WrongShape, "'length' must be a whole number, got None"),
        ("length", -1, WrongShape, "the draft length must be at least 1, got -1"),
        ("drafts", False, WrongShape, "'drafts' must be a whole number, got False"),
        ("drafts", [1], WrongShape, "'drafts' must be a whole number, got [1]"),
        ("drafts", 0, WrongShape, "the number of drafts must be at least 1, got 0"),
        ("scheme", None, WrongShape, "'scheme' must be a string, got None"),
        ("scheme", ["iid"], WrongShape, "'scheme' must be a string, got ['iid']"),
        (
            "scheme",
            "tree",
            WrongShape,
            "the scheme 'tree' needs 'branching', one factor for each drafted token",
        ),
        (
            "branching",
            2,
            WrongShape,
            "'branching' must be a list of whole numbers, got 2",
        ),
        (
            "branching",
            [True],
            WrongShape,
            "'branching' must be a list of whole numbers, got [True]",
        ),
        (
            "branching",
            ["1"],
            WrongShape,
            "'branching' must be a list of whole numbers, got ['1']",
        ),
        (
            "branching",
            None,
            WrongShape,
            "'branching' must be a list of whole numbers, got None",
        ),
        ("branching", [2], WrongShape, "branching [2] makes 2 paths, 'drafts' says 1"),
        ("branching", [0], WrongShape, "a branching factor is at least 1, got [0]"),
        (
            "branching",
            [1, 1],
            WrongShape,
            "branching must have one factor for each of the 1 drafted tokens, got [1, 1]",
        ),
        (
            "target",
            "1/2",
            WrongShape,
            "the target is one row or an object of rows by context, got str",
        ),
        (
            "draft",
            1,
            WrongShape,
            "the draft is one row or an object of rows by context, got int",
        ),
        (
            "draft",
            {"": "01"},
            WrongShape,
            "the draft's row at '' must be a list, got '01'",
        ),
        (
            "draft",
            {"": {"0": "1"}},
            WrongShape,
            "the draft's row at '' must be a list, got {'0': '1'}",
        ),
        ("draft", {0: ["1", "0"]}, WrongShape, "the draft's contexts must be strings, got 0"),
        (
            "draft",
            {"0, 1": ["1", "0"]},
            WrongShape,
            "a context is tokens joined by commas, such as \"0,1\", got '0, 1'",
        ),
        (
            "draft",
            {"2": ["1", "0"]},
            TokenOutOfRange,
            "token 2 of context '2' in the draft is not in 0..1",
        ),
        (
            "draft",
            {"-1": ["1", "0"]},
            TokenOutOfRange,
            "token -1 of context '-1' in the draft is not in 0..1",
        ),
        (
            "draft",
            {},
            MissingContext,
            "the draft has no row for the empty context: "
            "it has rows for 0 contexts of at most 0 tokens",
        ),
        (
            "target",
            {"": ["1", "0"]},
            MissingContext,
            "the target has no row for context '0': it has rows for 1 contexts of at most 0 tokens",
        ),
        (
            "target",
            [],
            WrongShape,
            "the target's row at the empty context must have 2 entries, it has 0",
        ),
        (
            "target",
            [0.5, 0.5],
            NotRational,
            "the target's row at the empty context: expected a rational number such as "
            f'"1/10", got the float 0.5: {HINT}',
        ),
        (
            "target",
            [None, "1"],
            NotRational,
            "the target's row at the empty context: expected a rational number, got NoneType None",
        ),
        (
            "target",
            [["1"], "0"],
            NotRational,
            "the target's row at the empty context: expected a rational number, got list ['1']",
        ),
        (
            "target",
            ["NaN", "1"],
            NotRational,
            "the target's row at the empty context: expected a rational number such as "
            "\"11/9\", got the string 'NaN'",
        ),
        (
            "target",
            ["1/2", "1/3"],
            NotADistribution,
            "the target's row at the empty context must sum to 1, it sums to 5/6",
        ),
    ],
)
def test_json_that_is_no_instance(
    key: object, value: object, kind: type[Exception], message: str
) -> None:
    refused(kind, message, lambda: instance_from_json({**DOCUMENT, key: value}))
