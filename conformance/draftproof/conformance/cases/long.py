"""Long cases: drafts as long as in serving, uncertain at two positions.

Enumeration is exponential only in the number of random positions. Elsewhere target and draft are
certain of one token, which depends on the token before. So the law of a path of any length takes a
handful of runs, and pairs of positions at every distance reveal a fault that ties them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from draftproof.conformance.cases.case import BatchCase, Case
from draftproof.conformance.cases.rows import spread
from draftproof.conformance.protocol.modes import modes_up_to
from draftproof.reference.drafting import SCHEMES, Drafts, draft_law
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import ONE, ZERO

LENGTHS = (5, 8, 17, 33)
"""Draft lengths L."""

DISTANCES = (1, 4, 8, 16, 32)
"""Distances between the two uncertain positions; the bonus is the last position, L."""

_SAID = (0, 1)
"""Tokens that a draft can emit at an uncertain position; the target can emit one more."""

_RULER = (0, 7, 8, 11, 13, 23, 32)
"""Positions at all distances from 1 to 8 from one another, and at 10, 12, 16, 24 and 32."""


@dataclass(frozen=True)
class LongCases:
    """Cases of one form that are judged together: pairs of positions at a distance."""

    id: str
    mode: str
    cases: tuple[Case, ...]
    is_held: bool = True
    """True if real runs are compared with the laws; for the many other cases these cost too
    much."""
    has_many_ways: bool = False
    """True if probing every way would take minutes."""


def long(mode: str) -> Iterator[LongCases]:
    """Yield the long cases of a mode."""
    included = modes_up_to(mode)
    yield from (each for each in (*_paths(), *_many(), *_several()) if each.mode in included)


def _paths() -> Iterator[LongCases]:
    """Yield the cases of one path: at every length and distance a few pairs, then all others.

    In the few, the draft is uncertain as well; a fault that ties two positions shows in all.
    """
    for length in LENGTHS:
        for distance in (each for each in DISTANCES if each <= length):
            firsts = range(length - distance + 1)
            few = sorted({0, len(firsts) // 2, len(firsts) - 1})
            others = [first for first in firsts if first not in few]
            name = f"long.l{length}.d{distance}"
            mode = "quick" if (length, distance) in ((5, 1), (8, 4)) else "standard"
            yield LongCases(name, mode, _pairs(name, length, few, distance, made=uncertain))
            if others:
                rest = f"{name}.others"
                pairs = _pairs(name, length, others, distance, made=refusable)
                yield LongCases(rest, "certify", pairs, is_held=False)


def _pairs(
    name: str,
    length: int,
    firsts: Sequence[int],
    distance: int,
    *,
    made: Callable[[str, int, Set[int]], Instance],
) -> tuple[Case, ...]:
    return tuple(
        Case(
            f"{name}.at{first}",
            f"of {length} positions, {first} and {first + distance} are uncertain",
            "certify",
            made(f"{name}.at{first}", length, {first, first + distance}),
        )
        for first in firsts
    )


def _many() -> Iterator[LongCases]:
    """Yield cases with more than two uncertain positions."""
    name, what = "long.l8.three", "of 8 positions, three are uncertain"
    three = uncertain(name, 8, {1, 4, 6}, said=(_SAID,) * 3)
    yield LongCases(name, "certify", (Case(name, what, "certify", three),))
    name, what = "long.l33.ruler", "of 33 positions, seven can be rejected"
    ruler = refusable(name, 33, {*_RULER})
    yield LongCases(name, "certify", (Case(name, what, "certify", ruler),), has_many_ways=True)


def _several() -> Iterator[LongCases]:
    """Yield the cases of several paths of 8 tokens, which branch at the root."""
    for scheme in SCHEMES:
        for drafts, mode in ((2, "standard"), (4, "certify")):
            if (scheme, drafts) == ("hub", 4):
                continue
            name = f"long.{scheme}.k{drafts}.l8"
            # Only i.i.d. siblings can be drawn from fewer tokens than there are paths.
            said = _SAID if scheme == "iid" else tuple(range(drafts))
            yield LongCases(
                name,
                mode,
                tuple(
                    Case(
                        f"{name}.at{last}",
                        f"paths part at the root, and the target is uncertain at {last}",
                        mode,
                        replace(
                            uncertain(f"{name}.at{last}", 8, {0, last}, said=(said, (0,))),
                            drafts=drafts,
                            scheme=scheme,
                        ),
                    )
                    for last in (1, 4, 7, 8)
                ),
            )


def long_batches(mode: str) -> Iterator[BatchCase]:
    """Yield the batches of a mode: two rows of a length, each uncertain at a different position.

    The positions are at a distance of 0, 1 or 8, so a fault that ties two rows shows here.
    """
    included = modes_up_to(mode)
    for length in LENGTHS:
        for distance in (0, 1, 8):
            asked = "quick" if (length, distance) == (5, 0) else "standard"
            first = (length - distance) // 2
            if asked in included and first >= 0:
                name = f"long.l{length}.rows.d{distance}"
                places = (first, first + distance)
                rows = (drafted(uncertain(f"{name}.{at}", length, {at})) for at in places)
                yield BatchCase(name, asked, tuple(rows))


def drafted(instance: Instance) -> tuple[Instance, Drafts]:
    """Return an instance with the last of its drafts."""
    *_, drafts = draft_law(instance)
    return instance, drafts


def uncertain(
    name: str,
    length: int,
    positions: Set[int],
    said: tuple[Sequence[int], ...] = (_SAID, _SAID),
) -> Instance:
    """Return an instance that is certain except at two positions, or at all positions in `said`.

    The draft can emit the tokens in `said`; at first, the target can emit one token more.
    """
    owed = range(len(said[0]) + 1)
    vocabulary = len(owed) + 1
    order = sorted(positions)
    at_draft = dict(zip(order, said, strict=False))
    target = _model(f"{name}/p", "target", vocabulary, length, dict.fromkeys(order, owed))
    return Instance(
        target,
        _model(f"{name}/q", "draft", vocabulary, length - 1, at_draft),
        length=length,
    )


def refusable(name: str, length: int, positions: Set[int]) -> Instance:
    """Return an instance whose draft is certain, and whose target can refuse it at some positions.

    After a refusal, the target continues with one text: each of these positions has two ways.
    """
    vocabulary = 4
    path = tuple((position * position + 1) % vocabulary for position in range(length + 1))
    sure = {path[:position]: _sure(vocabulary, token) for position, token in enumerate(path)}
    rows: dict[Path, Row] = {}
    for position in positions:
        context, token = path[:position], path[position]
        other = (token + 1 + position % 3) % vocabulary
        rows[context] = spread(f"{name}/{position}", vocabulary, (token, other))
    draft = Model("draft", vocabulary, {(): _sure(vocabulary, 0)}, context_free=True)
    target = Model("target", vocabulary, {(): _sure(vocabulary, 2)}, context_free=True)
    return Instance(target.overridden({**sure, **rows}), draft.overridden(sure), length=length)


def _sure(vocabulary: int, token: int) -> Row:
    return tuple(ONE if each == token else ZERO for each in range(vocabulary))


def _model(
    name: str, which: str, vocabulary: int, depth: int, support: Mapping[int, Sequence[int]]
) -> Model:
    """Return the rows at all contexts of at most `depth` tokens that can be written."""
    rows: dict[Path, Row] = {}
    level: list[Path] = [()]
    for position in range(depth + 1):
        after: list[Path] = []
        for context in level:
            # What is certain is another token after every token, so that no place is like another.
            sure = ((context[-1] if context else 0) + position) % vocabulary
            tokens = support.get(position, (sure,))
            rows[context] = spread(f"{name}/{position}/{context[-1:]}", vocabulary, tokens)
            after += [(*context, token) for token in tokens]
        level = after
    return Model(which, vocabulary, rows)
