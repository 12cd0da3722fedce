"""Test vectors: the files for those who write verifiers in other languages."""

from __future__ import annotations

from pathlib import Path

from draftproof.spec._files import FOLDER

VECTOR_TIERS = ("tiny", "small", "standard")
"""The tiers of vectors: each is read with those before it."""

VECTOR_KINDS = ("laws", "decisions", "values", "errors")
"""The kinds of vectors: every tier has a file of each."""


def vector_files(tier: str = VECTOR_TIERS[-1]) -> tuple[Path, ...]:
    """Return the files of vectors of a tier and of those before it, the smallest tier first.

    Raises `KeyError` for an unknown tier.
    """
    if tier not in VECTOR_TIERS:
        raise KeyError(f"there is no tier {tier!r}; known: {', '.join(VECTOR_TIERS)}")
    tiers = VECTOR_TIERS[: VECTOR_TIERS.index(tier) + 1]
    return tuple(
        FOLDER / "vectors" / each / f"{kind}.json" for each in tiers for kind in VECTOR_KINDS
    )
