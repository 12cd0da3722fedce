"""The instances that the laws of this room are stated for.

`@exact @given(instance=...)` draws an `Instance` with a vocabulary of 1..3 tokens and a draft of
1..3 tokens. `exact` is `settings.get_profile("exact")`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from draftproof.reference.model import Instance, Model, Path, Row, instance_from_json
from draftproof.reference.rational import rational

# Vocabulary and draft length; block and token differ only where both exceed one.
SHAPES = [*product((2, 3), (2, 3)), *product((1, 2, 3), (1, 2, 3))]

Shaped = Callable[[int, int, int], st.SearchStrategy[Instance]]

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


@pytest.fixture(scope="session")
def shaped_instances() -> Shaped:
    """Return the strategy of instances by vocabulary, draft length and depth of the models."""
    return shaped


@pytest.fixture(scope="session")
def motivating() -> Instance:
    """Return the example of arXiv 2403.10444: a draft that mirrors its target."""
    return instance_from_json(
        {"vocabulary": 2, "length": 2, "target": ["1/3", "2/3"], "draft": ["2/3", "1/3"]}
    )
