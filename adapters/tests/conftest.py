"""What the tests of adapters share: rows on which floats are exact; a count of certificates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Iterator[None]:
    """Print how many certificates are current and how many stale, last of all.

    Tests tell it as a property of theirs, which reaches this process from others.
    """
    yield
    states = Counter(
        str(state)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, state in report.user_properties
        if name == "certificate"
    )
    if states:
        told = sorted({"current", "stale", *states})
        listed = ", ".join(f"{states[state]} {state}" for state in told)
        again = " (`make certificates` judges again)" if set(states) - {"current"} else ""
        terminalreporter.write_line(f"{states.total()} certificates: {listed}{again}")
