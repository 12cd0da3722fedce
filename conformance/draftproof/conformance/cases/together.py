"""Batches of rows of different cases, in different places.

Joint laws grow with every random row, so most rows here are short or nearly deterministic. Batches
of trees come for every scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from draftproof.conformance.cases.case import BatchCase
from draftproof.conformance.cases.rows import equal, instance
from draftproof.conformance.cases.single import single
from draftproof.conformance.cases.trees import trees
from draftproof.conformance.protocol.modes import modes_up_to
from draftproof.reference.drafting import SCHEMES, Drafts, draft_law
from draftproof.reference.model import Instance, Model

Row = tuple[Instance, Drafts]


def together() -> Iterator[BatchCase]:
    """Yield the batches of rows of one shape."""
    one, two, three, certain = _generic(), _banked(), _sure(), _certain()
    yield BatchCase("batch.pair", "quick", (one, two))
    yield BatchCase("batch.pair.swapped", "quick", (two, one))
    yield BatchCase("batch.same", "quick", (one, one))
    # No coin decides anything in these two: what is left is which row a token is drawn from.
    yield BatchCase("batch.all-accepted", "quick", tuple(_accepted(n, 2) for n in range(3)))
    yield BatchCase("batch.all-rejected", "quick", tuple(_rejected(n) for n in range(3)))
    yield BatchCase("batch.three", "standard", (one, two, three))
    yield BatchCase("batch.sparse", "standard", (certain, one, certain, certain, two))
    yield BatchCase("batch.short", "standard", tuple(_short(n) for n in range(4)))
    yield from _trees()


def _trees() -> Iterator[BatchCase]:
    known = {case.id: case.instance for case in trees()}

    def drawn(name: str) -> tuple[Row, Row]:
        """Return a case with the first and with the last of its drafts."""
        drafts = tuple(draft_law(known[name]))
        return (known[name], drafts[0]), (known[name], drafts[-1])

    for scheme in SCHEMES:
        one, _ = drawn(f"tree.{scheme}.v3.b1x2")
        _, two = drawn(f"tree.{scheme}.concentrated.b1x2")
        yield BatchCase(f"batch.tree.{scheme}.b1x2", "quick", (one, two))
        one, _ = drawn(f"tree.{scheme}.v2.b2x2")
        three, two = drawn(f"tree.{scheme}.equal.some.b2x2")
        yield BatchCase(f"batch.tree.{scheme}.b2x2", "quick", (one, two))
        yield BatchCase(f"batch.tree.{scheme}.b2x2.three", "standard", (two, one, three))


def reordered(mode: str) -> Iterator[BatchCase]:
    """Yield the batches that the suite also judges in reverse order."""
    chosen = ("batch.pair", "batch.all-accepted", "batch.sparse", "batch.short")
    yield from (batch for batch in _of(mode, together()) if batch.id in chosen)


def mixed(mode: str) -> Iterator[BatchCase]:
    """Yield the batches of rows at temperature zero beside random ones, in both orders."""
    greedy = instance("mixed.greedy", 2, 2, target=lambda _: (1,))
    agrees, parts, differs = ((greedy, (path,)) for path in ((1, 1), (1, 0), (0, 1)))
    one, two = _generic(), _banked()
    yield from _of(
        mode,
        (
            BatchCase("mixed.agrees", "quick", (agrees, one)),
            BatchCase("mixed.agrees.swapped", "quick", (one, agrees)),
            BatchCase("mixed.differs", "quick", (differs, two)),
            BatchCase("mixed.differs.swapped", "quick", (two, differs)),
            BatchCase("mixed.many", "standard", (parts, one, differs, agrees, two)),
        ),
    )


def ragged(mode: str) -> Iterator[BatchCase]:
    """Yield the batches of rows of different lengths."""
    one, two, short = _generic(), _banked(), _short(0)
    yield from _of(
        mode,
        (
            BatchCase("ragged.pair", "quick", (one, short)),
            BatchCase("ragged.pair.swapped", "quick", (short, one)),
            BatchCase("ragged.none", "quick", (one, _none(0))),
            # Everything is accepted: whoever takes padding for a rejection loses the bonus.
            BatchCase("ragged.accepted", "quick", tuple(_accepted(n, n) for n in (1, 3, 2))),
            BatchCase("ragged.first", "standard", (_none(1), two, short)),
            BatchCase("ragged.last", "standard", (short, two, _none(1))),
        ),
    )


def with_padding_rows(mode: str) -> Iterator[BatchCase]:
    """Yield batches that an engine has padded with rows that draft nothing."""
    yield from _of(
        mode,
        (
            BatchCase("padding.behind", "quick", (_banked(), _none(0), _none(1))),
            BatchCase("padding.around", "standard", (_none(0), _generic(), _none(1), _short(1))),
        ),
    )


class Undrafted(Instance):
    """A row that drafts nothing: its length is 0, which an `Instance` by itself cannot have."""

    def __post_init__(self) -> None:
        """Check nothing: only the target's first row matters, and `Model` checks it."""


def _of(mode: str, batches: Iterator[BatchCase] | tuple[BatchCase, ...]) -> Iterator[BatchCase]:
    included = modes_up_to(mode)
    yield from (batch for batch in batches if batch.mode in included)


@cache
def _case(name: str) -> Instance:
    return next(case.instance for case in single() if case.id == name)


def _generic() -> Row:
    return _case("generic.v2.l2"), ((0, 1),)


def _banked() -> Row:
    return _case("banked"), ((1, 0),)


def _sure() -> Row:
    return _case("near-one.both"), ((0, 0),)


def _certain() -> Row:
    return instance("certain", 2, 2, target=lambda _: (1,), draft=lambda _: (1,)), ((1, 1),)


def _short(number: int) -> Row:
    """Return a row of one drafted token."""
    return instance(f"together.short.{number}", 2, 1), ((number % 2,),)


def _accepted(number: int, length: int) -> Row:
    """Return a row with p = q, of which every token is accepted; its bonus is random."""
    path = tuple((number + i) % 2 for i in range(length))
    return equal(f"together.accepted.{number}", 2, length, lambda _: True), (path,)


def _rejected(number: int) -> Row:
    """Return a row whose first token is always rejected; its correction is random."""
    disjoint = instance(
        f"together.rejected.{number}", 4, 2, target=lambda _: (0, 1), draft=lambda _: (2, 3)
    )
    return disjoint, ((2 + number % 2, 3),)


def _none(number: int) -> Row:
    """Return a row that drafts nothing."""
    shorter = instance(f"together.none.{number}", 2, 1)
    first = Model("target", 2, {(): shorter.target(())}, context_free=True)
    return Undrafted(first, shorter.draft, length=0), ((),)
