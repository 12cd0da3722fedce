"""Large batches: two uncertain rows among many certain rows.

A fault ties rows together by an index: a neighbour, a kernel's block, a warp, the last row. So two
rows are uncertain at every such distance, and the joint law of all rows takes a handful of runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftproof.conformance.cases.case import BatchCase
from draftproof.conformance.cases.long import drafted, refusable
from draftproof.conformance.cases.together import Undrafted
from draftproof.conformance.protocol.modes import modes_up_to
from draftproof.reference.drafting import Drafts
from draftproof.reference.model import Instance

ROWS = {"quick": (6, 33), "standard": (9, 17, 65), "certify": (257, 1024)}
"""Numbers of rows B that each mode adds."""

MOST_PROBED = 65
"""Maximum number of rows of a probed batch, many in a call; samples decide larger batches."""

_PROBED = 33
"""Number of rows up to which all pairs are probed: a block and one more."""

_LENGTH = 3

Row = tuple[Instance, Drafts]


def large(mode: str) -> Iterator[BatchCase]:
    """Yield the large batches of a mode."""
    for each in modes_up_to(mode):
        for rows in ROWS[each]:
            for name, places in _places(rows):
                yield BatchCase(f"large.b{rows}.{name}", each, _batch(rows, places))
            if rows <= MOST_PROBED:
                yield BatchCase(f"large.b{rows}.equal", each, _equal(rows, position=3))
                yield BatchCase(f"large.b{rows}.drafted", each, _equal(rows, position=0))
    if mode == "certify":
        for name, (rows, ruled) in _RULERS.items():
            yield BatchCase(f"large.b{rows}.{name}", "certify", _ruled(rows, ruled))


def among_empty(mode: str) -> Iterator[BatchCase]:
    """Yield the large batches of a mode whose certain rows draft nothing."""
    empty = _empty()
    for each in modes_up_to(mode):
        for rows in (each for each in ROWS[each] if each <= MOST_PROBED):
            for name, places in _places(rows):
                if name in ("ends", "d8"):
                    batch = _batch(rows, places, certain=empty)
                    yield BatchCase(f"large.b{rows}.{name}.empty", each, batch)


def _places(rows: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the places of the two uncertain rows."""
    yield "ends", (0, rows - 1)
    for distance in (1, 8, 32, 128):
        # Behind the first block, where there are several.
        first = min(rows - 1 - distance, 32)
        if first >= 0 and rows < max(ROWS["certify"]):
            yield f"d{distance}", (first, first + distance)


def _batch(rows: int, places: tuple[int, int], *, certain: Row | None = None) -> tuple[Row, ...]:
    batch = [certain or drafted(refusable("large.certain", _LENGTH, set()))] * rows
    for name, place in zip(("first", "second"), places, strict=True):
        batch[place] = drafted(refusable(f"large.{name}", _LENGTH, {0, 2}))
    return tuple(batch)


def _empty() -> Row:
    """Return a row that drafts nothing and is certain of its next token."""
    certain, drafts = drafted(refusable("large.certain", 1, set()))
    return Undrafted(certain.target, certain.draft, length=0), tuple(() for _ in drafts)


_RULERS = {
    "short": (65, (0, 1, 3, 10, 16, 64)),
    "odd": (65, (4, 16, 24, 29, 48)),
    "far": (257, (0, 4, 36, 132, 256)),
}
"""Numbers of rows, and the uncertain rows among them: at distances 1 to 10, 12, 13, 15, 16, 19, 20,
24, 25, 32, 36, 44, 48, 64, 96, 128, 256 and others from one another."""


def _ruled(rows: int, places: Sequence[int]) -> tuple[Row, ...]:
    """Return a batch that is uncertain in several rows, at the same position."""
    batch = [drafted(refusable("large.certain", _LENGTH, set()))] * rows
    for place in places:
        name = f"large.ruler.{place}"
        batch[place] = drafted(refusable(name, _LENGTH, {1}))
    return tuple(batch)


def _equal(rows: int, *, position: int) -> tuple[Row, ...]:
    """Return rows of which two are equal, and are uncertain at one position only."""
    equal = drafted(refusable("large.equal", _LENGTH, {position}))
    certain = drafted(refusable("large.certain", _LENGTH, set()))
    batch = [certain] * rows
    for place in (rows // 2, rows - 1):
        batch[place] = equal
    return tuple(batch)


def is_probed(batch: BatchCase) -> bool:
    """Return True if a batch is probed: interpreted kernels take seconds for each."""
    rows = len(batch.rows)
    has_all = rows in (6, _PROBED)
    return is_pair(batch) and (has_all or (rows <= MOST_PROBED and batch.id.endswith(".ends")))


def is_pair(batch: BatchCase) -> bool:
    """Return True if exactly two rows of a batch are uncertain."""
    return len(_uncertain(batch)) == 2


def _uncertain(batch: BatchCase) -> list[int]:
    return [
        place
        for place, (instance, _) in enumerate(batch.rows)
        if any(
            max(row) < 1
            for row in (*instance.target.rows.values(), *instance.target.modified.values())
        )
    ]


def alike(batch: BatchCase) -> list[tuple[int, int]]:
    """Return disjoint pairs of rows as far apart as the two uncertain rows.

    If these are the first and the last, each pair is equally far from both ends.
    """
    rows = len(batch.rows)
    first, last = _uncertain(batch)
    apart = last - first
    if apart == rows - 1:
        return [(place, rows - 1 - place) for place in range(rows // 2)]
    return [(place, place + apart) for place in range(rows - apart) if place // apart % 2 == 0]
