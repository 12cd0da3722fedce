"""Two bars for the outcome of a counterexample that differs most: expected and observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftproof.conformance.report.reproduction import outcomes

_LONGEST = 40
"""Maximum number of cells of a bar of probability 1."""

_SHORTEST = 4

_MARGIN = "    "

_EIGHTHS = "▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Bars:
    """The outcome in words, and its two probabilities."""

    outcome: str
    should: float
    observed: float


def bars(shown: Mapping[str, Any]) -> Bars | None:
    """Return the outcome that differs most; None where no distribution is expected."""
    if shown["expected"] is None or shown["observed"] is None:
        return None
    (worst, *_), _ = outcomes(shown)
    return Bars(f"emits {worst.spoken}", worst.expected or 0.0, worst.observed)


def drawn(found: Bars, *, width: int = 80, ascii_only: bool = False) -> list[str]:
    """Return the two bars as lines of at most `width` columns."""
    figures = {"should": f"{found.should:.4g}", "is": f"{found.observed:.4g}"}
    label, figure = (max(map(len, each)) for each in (figures, figures.values()))
    room = width - len(_MARGIN) - label - figure - 2
    longest = max(_SHORTEST, min(_LONGEST, room))
    values = (found.should, found.observed)
    return [
        f"{_MARGIN}{name:<{label}} {value:>{figure}} {_bar(share, longest, ascii_only=ascii_only)}"
        for (name, value), share in zip(figures.items(), values, strict=True)
    ]


def _bar(share: float, longest: int, *, ascii_only: bool) -> str:
    if ascii_only:
        return "#" * round(share * longest) or "."
    eighths = round(share * longest * 8)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest - 1] if rest else "") or "·"
