"""The instances that the laws of this room are stated for.

`@exact @given(instance=...)` draws an `Instance` with a vocabulary of 1..3 tokens and a draft of
1..3 tokens. `exact` is `settings.get_profile("exact")`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product

import pytest
from draftproof.reference.model import Instance, Model, Row, instance_from_json
from draftproof.reference.rational import rational
from hypothesis import settings
from hypothesis import strategies as st

Shaped = Callable[[int, int, int], st.SearchStrategy[Instance]]

# A theorem has no unlucky seeds, so every run tries the same instances, and none is too slow.
settings.register_profile("exact", derandomize=True, deadline=None, max_examples=60)


def rows(vocabulary: int) -> st.SearchStrategy[Row]:
    """Draw a row of small denominators: point masses first, zeros and near-one masses included."""
    shares = {
        tuple(rational(f"{count}/{parts}") for count in counts)
        for parts in (1, 2, 3, 4, 6)
        for counts in product(range(parts + 1), repeat=vocabulary)
        if sum(counts) == parts
    }
    if vocabulary > 1:
        nearly_one = ("999999/1000000", "1/1000000", *["0"] * (vocabulary - 2))
        shares |= {tuple(map(rational, row)) for row in permutations(nearly_one)}
    return st.sampled_from(sorted(shares, key=lambda row: (max(w.denominator for w in row), row)))


@st.composite
def shaped(draw: st.DrawFn, vocabulary: int, length: int, depth: int) -> Instance:
    """Draw an instance whose models have rows of their own at every context up to `depth`."""
    contexts = [c for size in range(depth + 1) for c in product(range(vocabulary), repeat=size)]
    target = {context: draw(rows(vocabulary)) for context in contexts}
    # Where both rows agree, ratios of nothing to nothing appear: make that common.
    draft = {context: draw(rows(vocabulary) | st.just(target[context])) for context in contexts}
    return Instance(Model("target", vocabulary, target), Model("draft", vocabulary, draft), length)


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Draw an instance of any small shape."""
    length = draw(st.integers(1, 3))
    instance: Instance = draw(shaped(draw(st.integers(1, 3)), length, length))
    return instance


st.register_type_strategy(Instance, instances())


@pytest.fixture(scope="session")
def shaped_instances() -> Shaped:
    """Return the strategy of instances by vocabulary, length and depth of their models."""
    return shaped


@pytest.fixture(scope="session")
def motivating() -> Instance:
    """Return the example of arXiv 2403.10444: a draft that mirrors its target."""
    return instance_from_json(
        {"vocabulary": 2, "length": 2, "target": ["1/3", "2/3"], "draft": ["2/3", "1/3"]}
    )
