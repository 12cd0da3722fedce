"""How to install what is optional: the one place that says so."""

from __future__ import annotations


def installation(extra: str) -> str:
    """Return the command that installs an extra of draftproof, and where it is run.

    No package index has draftproof: it is installed from a checkout, with the versions that its
    tests have met.
    """
    return (
        f"in a checkout of draftproof, run: pip install --constraint constraints.txt '.[{extra}]'"
    )
