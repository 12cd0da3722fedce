"""What the tests of adapters share: rows on which floats are exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.rational import rational


def rows(vocabulary: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Rows in 8ths, zeros and point masses included."""
    marks = st.lists(st.integers(0, 8), min_size=vocabulary - 1, max_size=vocabulary - 1)
    return marks.map(
        lambda cuts: tuple(
            rational(b - a) / 8 for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 8], strict=True)
        )
    )


@st.composite
def instances(
    draw: st.DrawFn, shapes: st.SearchStrategy[tuple[Any, ...]], *, drafts: int = 1
) -> Instance:
    """Instances of shapes (V, L) or (V, L, branching)."""
    vocabulary, length, *branching = draw(shapes)
    contexts: list[Path] = [()]
    for context in contexts:
        if len(context) < length:
            contexts.extend((*context, token) for token in range(vocabulary))
    return Instance(
        Model("target", vocabulary, {c: draw(rows(vocabulary)) for c in contexts}),
        Model("draft", vocabulary, {c: draw(rows(vocabulary)) for c in contexts}),
        length=length,
        drafts=drafts,
        branching=branching[0] if branching else (),
    )


@pytest.fixture(scope="session")
def drawn() -> Callable[..., st.SearchStrategy[Instance]]:
    """Return the strategy of instances by their shapes and K."""
    return instances
