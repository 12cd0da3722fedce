"""Modes: the cases that a campaign judges."""

from __future__ import annotations

from draftproof.reference.errors import Unsupported

MODES = ("quick", "standard", "certify")
"""Modes in order; each includes the cases of the modes before it, and certify skips nothing."""


def modes_up_to(mode: str) -> tuple[str, ...]:
    """Return a mode and the modes before it. Raises `Unsupported` for an unknown mode."""
    if mode not in MODES:
        raise Unsupported(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    return MODES[: MODES.index(mode) + 1]
