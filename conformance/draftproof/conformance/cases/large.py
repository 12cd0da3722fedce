"""The large batches: two uncertain rows among many that are certain.

What ties rows together is an index: a neighbour, a kernel's block, a warp, the last row. So two
rows are uncertain at every distance of that kind, and the joint law of all is a handful of runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.conformance.cases.case import BatchCase
from draftproof.conformance.cases.long import drafted, uncertain
from draftproof.conformance.protocol.modes import modes_up_to
from draftproof.reference.drafting import Drafts
from draftproof.reference.model import Instance

ROWS = {"quick": (6, 33), "standard": (9, 17, 65), "certify": (257, 1024)}
"""The numbers of rows B that each mode adds."""

MOST_PROBED = 65
"""The most rows of a batch that is probed, many in a call; samples decide larger ones."""

_LENGTH = 3

Row = tuple[Instance, Drafts]


def large(mode: str) -> Iterator[BatchCase]:
    """Yield the large batches of a mode."""
    for each in modes_up_to(mode):
        for rows in ROWS[each]:
            for name, places in _places(rows):
                yield BatchCase(f"large.b{rows}.{name}", each, _batch(rows, places))
            if rows <= MOST_PROBED:
                yield BatchCase(f"large.b{rows}.equal", each, _equal(rows))


def _places(rows: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the places of the two uncertain rows."""
    yield "ends", (0, rows - 1)
    for distance in (1, 8, 32):
        # Behind the first block, where there are several.
        first = min(rows - 1 - distance, 32)
        if first >= 0 and rows <= 257:
            yield f"d{distance}", (first, first + distance)


def _batch(rows: int, places: tuple[int, int]) -> tuple[Row, ...]:
    certain = drafted(uncertain("large.certain", _LENGTH, set()))
    batch = [certain] * rows
    for name, place in zip(("first", "second"), places, strict=True):
        batch[place] = drafted(uncertain(f"large.{name}", _LENGTH, {0, 2}))
    return tuple(batch)


def _equal(rows: int) -> tuple[Row, ...]:
    """Return rows that draft the same, of which two can say something else."""
    instance = uncertain("large.certain", _LENGTH, set())
    certain = drafted(instance)
    batch = [certain] * rows
    for place in (rows // 2, rows - 1):
        batch[place] = uncertain("large.equal", _LENGTH, {3}), certain[1]
    return tuple(batch)


def alike(batch: BatchCase) -> list[tuple[int, int]]:
    """Return pairs of rows as far apart as the two uncertain ones, no row in two of them.

    Where these are the first and the last, pairs are as far from both ends.
    """
    rows = len(batch.rows)
    first, last = (
        place
        for place, (instance, _) in enumerate(batch.rows)
        if any(max(row) < 1 for row in instance.target.rows.values())
    )
    apart = last - first
    if apart == rows - 1:
        return [(place, rows - 1 - place) for place in range(rows // 2)]
    return [(place, place + apart) for place in range(rows - apart) if place // apart % 2 == 0]
