"""Modes: how many cases are asked."""

from __future__ import annotations

from draftproof.reference.errors import Unsupported

MODES = ("quick", "standard", "certify")
"""Each mode asks the cases of those before it, too; certify skips nothing."""


def modes_up_to(mode: str) -> tuple[str, ...]:
    """Return a mode and those before it. Raises `Unsupported` for an unknown one."""
    if mode not in MODES:
        raise Unsupported(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    return MODES[: MODES.index(mode) + 1]
