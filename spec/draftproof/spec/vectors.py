"""Test vectors: the files for authors of verifiers in other languages."""

from __future__ import annotations

from pathlib import Path

from draftproof.spec._files import FOLDER

VECTOR_SIZES = ("tiny", "small", "standard")
"""Sizes of vectors: each includes the smaller sizes before it."""

VECTOR_KINDS = ("laws", "decisions", "values", "errors")
"""The kinds of vectors: every size has a file of each."""


def vector_files(size: str = VECTOR_SIZES[-1]) -> tuple[Path, ...]:
    """Return the files of vectors of a size and of the sizes before it, the smallest size first.

    Raises `KeyError` for an unknown size.
    """
    if size not in VECTOR_SIZES:
        raise KeyError(f"there is no size {size!r}; known: {', '.join(VECTOR_SIZES)}")
    sizes = VECTOR_SIZES[: VECTOR_SIZES.index(size) + 1]
    return tuple(
        FOLDER / "vectors" / each / f"{kind}.json" for each in sizes for kind in VECTOR_KINDS
    )
