"""Errors in the input of the reference, one type for each kind."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InvalidInput(ValueError):
    """The input is wrong; the message says what, where, and what would be correct."""


class NotRational(InvalidInput):
    """A number is not an exact rational."""


class NotADistribution(InvalidInput):
    """Weights are negative, or do not have the required sum."""


class WrongShape(InvalidInput):
    """A row, a path or a document does not have the required size or keys."""


class MissingContext(InvalidInput):
    """A model has no row at the requested context."""


class TokenOutOfRange(InvalidInput):
    """A token is not in 0..V-1."""


class TooLarge(InvalidInput):
    """A number, a row or an instance is larger than the limit; the message names the limit."""


class Unsupported(InvalidInput):
    """The input is valid, but this algorithm or program does not accept it."""


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return a message for an unknown name, with the likely intended name or all known names."""
    names = sorted(known)
    # Comparing takes time by the length of both.
    near = get_close_matches(name[:100], names, n=1)
    meant = f", did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"
    return f"unknown {kind} {name!r}{meant}"
