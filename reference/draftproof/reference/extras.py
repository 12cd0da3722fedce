"""The commands that install optional dependencies."""

from __future__ import annotations


def installation(extra: str) -> str:
    """Return the command that installs an extra of draftproof, and the folder to run it in.

    Draftproof is on no package index: users install it from a checkout, with the tested versions.
    """
    return (
        f"in a checkout of draftproof, run: pip install --constraint constraints.txt '.[{extra}]'"
    )
