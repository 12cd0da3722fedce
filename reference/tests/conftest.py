"""The instances that the laws of this room are stated for, and the law of their drafts.

`@exact @given(instance=...)` draws an `Instance` with a vocabulary of 1..3 tokens and a draft of
1..3 tokens. `exact` is `settings.get_profile("exact")`. The fixture `drafted` has the instances
with several drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations, product
from math import prod
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Path, Row, instance_from_json
from draftproof.reference.rational import ONE, Rational, rational, total

Siblings = tuple[int, ...]
Drafts = tuple[Path, ...]
Shape = tuple[int, Siblings]

# Vocabulary and draft length; block and token differ only where both exceed one.
SHAPES = [*product((2, 3), (2, 3)), *product((1, 2, 3), (1, 2, 3))]

# Vocabulary and widths: one position, paths that part at the root, and trees that branch below it.
ONE_POSITION: list[Shape] = [
    (2, (2,)),
    (3, (2,)),
    (4, (2,)),
    (2, (3,)),
    (3, (3,)),
    (4, (3,)),
    (4, (1,)),
]
PATHS: list[Shape] = [
    (1, (2, 1)),
    (2, (2, 1)),
    (3, (2, 1)),
    (2, (3, 1)),
    (3, (3, 1)),
    (2, (2, 1, 1)),
]
TREES: list[Shape] = [
    (2, (1, 2)),
    (2, (2, 2)),
    (3, (2, 2)),
    (3, (1, 3)),
    (2, (2, 1, 2)),
    (2, (1, 2, 1)),
]

Shaped = Callable[[int, int, int], st.SearchStrategy[Instance]]
Drafted = Callable[..., st.SearchStrategy[Instance]]

# A theorem has no unlucky seeds, so every run may try the same instances.
settings.register_profile("exact", derandomize=True, deadline=None, max_examples=200)


def row(vocabulary: int, random: Random) -> Row:
    """Return a row in which zeros, ties, point masses and masses near one all are common."""
    counts = random.choices((0, 0, 1, 1, 2, 3, 5, 10**6), k=vocabulary)
    counts[random.randrange(vocabulary)] += 1
    return tuple(rational(count) / sum(counts) for count in counts)


@st.composite
def shaped(draw: st.DrawFn, vocabulary: int, length: int, depth: int) -> Instance:
    """Draw an instance whose models have a row of their own for every context of the tree.

    The target's contexts have at most `depth` tokens, the draft's one fewer. The rows come from
    a seed: left to itself, Hypothesis prefers simple rows, and on simple rows all verifiers agree.
    """
    random = Random(draw(st.integers(0, 2**32 - 1)))
    agreement = draw(st.sampled_from([0, 0, 0.3, 1]))
    contexts = [c for size in range(depth + 1) for c in product(range(vocabulary), repeat=size)]
    target = {context: row(vocabulary, random) for context in contexts}

    def drafted(context: Path) -> Row:
        agrees = random.random() < agreement
        return target[context] if agrees else row(vocabulary, random)

    draft = {context: drafted(context) for context in contexts if len(context) < depth}
    return Instance(Model("target", vocabulary, target), Model("draft", vocabulary, draft), length)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Draw an instance of any small shape."""
    vocabulary, length = draw(st.sampled_from(SHAPES))
    instance: Instance = draw(shaped(vocabulary, length, depth=length))
    return instance


st.register_type_strategy(Instance, instances())


@st.composite
def several(
    draw: st.DrawFn,
    schemes: Iterable[str] = ("iid", "without_replacement", "hub", "greedy"),
    *,
    shapes: Iterable[Shape] = (*ONE_POSITION, *PATHS, *TREES),
    trees: bool = True,
    longest: int = 3,
    beyond: int = 0,
) -> Instance:
    """Draw an instance with several drafts whose models reach `beyond` tokens past the block."""
    scheme = draw(st.sampled_from(sorted(schemes)))
    fitting = [
        (vocabulary, widths)
        for vocabulary, widths in shapes
        if len(widths) <= longest
        and (trees or max(widths[1:], default=1) == 1)
        and (scheme != "hub" or max(widths) <= 2)
    ]
    vocabulary, widths = draw(st.sampled_from(fitting))
    one = draw(shaped(vocabulary, len(widths), depth=len(widths) + beyond))
    branches = max(widths[1:], default=1) > 1
    return Instance(
        one.target,
        one.draft,
        length=len(widths),
        drafts=prod(widths),
        scheme=scheme,
        branching=widths if branches or draw(st.booleans()) else (),
    )


def siblings_by_formula(scheme: str, q: Row, width: int) -> Law[Siblings]:
    """Return the joint law of the tokens after one context, from the formulas of the papers."""
    tokens = range(len(q))
    ranked = sorted((t for t in tokens if q[t]), key=lambda t: (-q[t], t))
    if scheme == "iid" or width == 1:
        return Law({x: prod((q[t] for t in x), start=ONE) for x in product(tokens, repeat=width)})
    if scheme == "without_replacement":
        drawn = permutations(ranked, min(width, len(ranked)))
        return Law(
            {
                x: prod(
                    (q[t] / (1 - total(q[s] for s in x[:i])) for i, t in enumerate(x)), start=ONE
                )
                for x in drawn
            }
        )
    fixed = tuple(ranked[: width - 1])
    others = ranked[width - 1 :]
    left = 1 - total(q[t] for t in fixed)
    if not others:
        return Law.certain(fixed)
    if scheme == "greedy":
        return Law({(*fixed, t): q[t] / left for t in others})
    (hub,) = fixed
    first: dict[Siblings, Rational] = {(t, hub): q[t] for t in others}
    return Law(first | {(hub, t): q[hub] * q[t] / left for t in others})


def paths_by_formula(instance: Instance) -> Law[Drafts]:
    """Return the joint law of the paths: siblings by formula, independent given their contexts."""

    def below(node: Path) -> Law[Drafts]:
        if len(node) == instance.length:
            return Law.certain((node,))
        width = instance.widths[len(node)]
        return siblings_by_formula(instance.scheme, instance.draft(node), width).then(
            lambda siblings: together([below((*node, token)) for token in siblings])
        )

    def together(laws: list[Law[Drafts]]) -> Law[Drafts]:
        if not laws:
            return Law.certain(())
        first, *rest = laws
        others = together(rest)
        return first.then(lambda left: others.map(lambda right: left + right))

    return below(())


@pytest.fixture(scope="session")
def shaped_instances() -> Shaped:
    """Return the strategy of instances by vocabulary, draft length and depth of the models."""
    return shaped


@pytest.fixture(scope="session")
def drafted() -> Drafted:
    """Return the strategy of instances with several drafts by scheme, shape and reach."""
    return several


@pytest.fixture(scope="session")
def one_position() -> list[Shape]:
    """Return the shapes of one position."""
    return ONE_POSITION


@pytest.fixture(scope="session")
def sibling_formula() -> Callable[[str, Row, int], Law[Siblings]]:
    """Return the joint law of siblings, written without a random program."""
    return siblings_by_formula


@pytest.fixture(scope="session")
def path_formula() -> Callable[[Instance], Law[Drafts]]:
    """Return the joint law of the paths, written without a random program."""
    return paths_by_formula


@pytest.fixture(scope="session")
def motivating() -> Instance:
    """Return the example of arXiv 2403.10444: a draft that mirrors its target."""
    return instance_from_json(
        {"vocabulary": 2, "length": 2, "target": ["1/3", "2/3"], "draft": ["2/3", "1/3"]}
    )


@pytest.fixture(scope="session")
def one_row() -> Callable[..., Instance]:
    """Return the maker of instances whose models have one row everywhere, given in words."""

    def made(target: str, draft: str, **sizes: Any) -> Instance:
        rows = {"target": target.split(), "draft": draft.split()}
        return instance_from_json({"vocabulary": len(rows["target"]), "length": 1, **rows, **sizes})

    return made
