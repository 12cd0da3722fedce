"""Tail cases: rows as long, as flat and as nearly equal as in serving.

Rows are counts on a grid: their entries, sums and differences are exact in float32, however long a
row and however small a residual. Each row has few *kinds* of tokens, all of one weight, so the
exact law of 262,144 tokens is that of a few thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256

import numpy
from numpy.typing import NDArray

from draftproof.conformance.protocol.modes import modes_up_to
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total

Counts = NDArray[numpy.float64]
"""Whole numbers [V], which doubles hold."""

TILE = 1024
"""Tokens of a tile: kernels split rows at multiples of it."""

SPECIAL = (
    *(0, 1, 2, 3, 7, 50_256, 32_000, 106, 107, 100_257, 100_276),
    *(128_000, 128_001, 128_004, 128_008, 128_009, 151_643, 151_645),
)
"""Ids that begin, end or pad a text: Llama 2 and 3, Mistral, GPT-2 and 4, Qwen, Gemma."""


@dataclass(frozen=True)
class TailRows:
    """Rows of one path: target [L + 1, V], draft [L, V] and the drafted tokens [L]."""

    target: NDArray[numpy.float64]
    draft: NDArray[numpy.float64]
    path: tuple[int, ...]

    @property
    def masses(self) -> tuple[float, ...]:
        """Mass of the residual at each position."""
        pairs = zip(self.target, self.draft, strict=False)
        return tuple(float((p - q).clip(0).sum()) for p, q in pairs)

    @property
    def said(self) -> int:
        """Maximum number of positive probabilities in a row, whose rounding errors add up."""
        return int(max((self.target > 0).sum(1).max(), (self.draft > 0).sum(1).max()))


@dataclass(frozen=True)
class TailCase:
    """Rows of one form at one size."""

    form: str
    vocabulary: int
    mode: str

    @property
    def id(self) -> str:
        """The stable id."""
        return f"tail.{self.form}.v{self.vocabulary}"

    @property
    def is_near(self) -> bool:
        """True if target and draft are so close that only their rows as given distinguish them."""
        return self.form.startswith("near.")

    @property
    def row(self) -> int:
        """The index of the row in its batch of two."""
        return int(self.form in ("special", "zipf", "spread"))

    def rows(self) -> TailRows:
        """Return the rows, the same every time."""
        return _rows(self.form, self.vocabulary)


def tails(mode: str) -> Iterator[TailCase]:
    """Yield the tail cases of a mode."""
    included = modes_up_to(mode)
    yield from (case for case in _CASES if case.mode in included)


_CASES = tuple(
    TailCase(form, vocabulary, mode)
    for mode, chosen in {
        "quick": (
            *(("edges", 8193), ("sure", 8193), ("near.1e-5", 32_000), ("flat", 50_257)),
            *(("buckets", 50_257), ("places", 32_000)),
        ),
        "standard": (
            *(("edges", vocabulary) for vocabulary in (8191, 8192, 32_000, 151_936, 262_144)),
            *(("edges", 50_257), ("zipf", 32_000), ("top", 50_257)),
            *(("edges", 1500), ("edges", 4096), ("special", 50_257), ("special", 128_256)),
        ),
        "certify": (
            *(("sure", 32_000), ("flat", 128_256), ("spread", 262_144)),
            *(("near.1e-3", 50_257), ("near.1e-7", 128_256), ("ranges", 50_257)),
            *(("places", 128_256), ("buckets", 3000), ("special", 32_001), ("special", 100_277)),
            ("special", 151_665),
        ),
    }.items()
    for form, vocabulary in chosen
)


@lru_cache(maxsize=2)
def _rows(form: str, vocabulary: int) -> TailRows:
    name, _, mass = form.partition(".")
    if mass:
        return _near(vocabulary, float(mass))
    return _FORMS[name](vocabulary)


# --- grids -------------------------------------------------------------------------------------


def _grid(vocabulary: int) -> int:
    """Return the number of parts of a row: its usual entry has 22 or 23 bits, float32 has 24."""
    return 1 << (21 + vocabulary.bit_length())


def on_grid(weights: NDArray[numpy.float64], parts: int) -> Counts:
    """Return counts [V] of at most 24 bits that sum to `parts`, nearly proportional to the weights.

    Tokens of few parts absorb the rounding.
    """
    share = (weights / weights.sum()).astype(numpy.float32).astype(numpy.float64)
    counts = numpy.floor(share * parts).astype(numpy.float32).astype(numpy.float64)
    able = numpy.flatnonzero((counts > 1) & (counts < 2**23))
    each, left = divmod(int(parts - counts.sum()), len(able))
    counts[able] += each
    counts[able[:left]] += 1
    found: Counts = counts
    return found


def _path(vocabulary: int) -> tuple[int, int]:
    """Return the drafted tokens: the last token of the first tile, and of the last whole tile."""
    return TILE - 1, vocabulary // TILE * TILE - 1


def _random(form: str, vocabulary: int) -> numpy.random.Generator:
    digest = sha256(f"tail/{form}/{vocabulary}".encode()).digest()
    return numpy.random.default_rng(int.from_bytes(digest[:8], "big"))


PLACES = 1000
"""Maximum number of tokens that are probed."""


def places(vocabulary: int, count: int) -> NDArray[numpy.int64]:
    """Return `count` ids: places at which faults of size show, then random ids.

    First come the ends and beginnings of tiles, of all sizes near the end, the first and the last
    token, and the special ids.
    """
    tiles = [
        first for size in (512, TILE, 2048, 4096) for first in (size, vocabulary // size * size)
    ]
    tiles += range(TILE, vocabulary, TILE * max(vocabulary // TILE * 4 // count, 1))
    chosen = [0, vocabulary - 1, *_path(vocabulary), *SPECIAL, 2**16 - 1, 2**16]
    chosen += [place for first in tiles for place in (first - 1, first)]
    others = _random("places", vocabulary).permutation(vocabulary)[:count].tolist()
    found = [each for each in dict.fromkeys([*chosen, *others]) if each < vocabulary]
    return numpy.array(found[:count], numpy.int64)


# --- forms -------------------------------------------------------------------------------------


def _edges(vocabulary: int) -> TailRows:
    """Return rows of eight tokens in 16ths, which every dtype holds: L = 1."""
    path = _path(vocabulary)[1:]
    ends = [0, vocabulary - 1, TILE, max(vocabulary // 4096 * 4096 - 1, 0)]
    ids = [*dict.fromkeys([*path, *ends, *places(vocabulary, 32).tolist()])][:8]
    target, draft = numpy.zeros((2, vocabulary)), numpy.zeros((1, vocabulary))
    target[0, ids] = numpy.array([4, 3, 3, 2, 1, 1, 1, 1]) / 16
    target[1, ids[::-1]] = numpy.array([2, 3, 3, 3, 2, 1, 1, 1]) / 16
    draft[0, ids] = numpy.array([8, 1, 1, 1, 2, 1, 1, 1]) / 16
    return TailRows(target, draft, path)


def _special(vocabulary: int) -> TailRows:
    """Return rows of special ids in 16ths, the largest two and 2 drafted: L = 3."""
    known = sorted(each for each in SPECIAL if each < vocabulary)
    path = (known[-1], known[-2], 2)
    ids = numpy.array([*dict.fromkeys([*path, vocabulary - 1, *known])][:8])
    target, draft = numpy.zeros((4, vocabulary)), numpy.zeros((3, vocabulary))
    for position, row in enumerate(target):
        row[numpy.roll(ids, 3 * position)] = numpy.array([4, 3, 3, 2, 1, 1, 1, 1]) / 16
    for position, row in enumerate(draft):
        row[numpy.roll(ids, -position)] = numpy.array([5, 2, 2, 2, 2, 1, 1, 1]) / 16
    return TailRows(target, draft, path)


def _flat(vocabulary: int) -> TailRows:
    """Return a flat draft, and a target that halves some of it: L = 2."""
    return _of_kinds("flat", vocabulary, numpy.ones(vocabulary))


def _zipf(vocabulary: int) -> TailRows:
    """Return rows that fall with the rank: L = 2."""
    return _of_kinds("zipf", vocabulary, _by_rank("zipf", vocabulary))


def _by_rank(form: str, vocabulary: int) -> NDArray[numpy.float64]:
    """Return weights that fall with the rank, in steps of a quarter of an octave."""
    ranks = 1 + _random(f"{form}/ranks", vocabulary).permutation(vocabulary)
    # What is drafted is in the tail.
    for place in _path(vocabulary):
        ranks[place] = vocabulary
    weights: NDArray[numpy.float64] = 2.0 ** -(numpy.floor(4 * numpy.log2(ranks)) / 4)
    return weights


def _of_kinds(form: str, vocabulary: int, weights: NDArray[numpy.float64]) -> TailRows:
    """Return rows in which each token has its weight, or three times that, independently by row."""
    kinds, parts = _random(form, vocabulary).integers(8, size=vocabulary), _grid(vocabulary)
    path = _path(vocabulary)
    kinds[[*path]] = 0
    rows = [weights * (1.0 + 2.0 * (kinds >> bit & 1)) for bit in range(3)]
    target = numpy.stack([on_grid(row, parts) for row in rows]) / parts
    draft = numpy.stack([on_grid(weights, parts), on_grid(weights, parts)]) / parts
    return TailRows(target, draft, path)


def _top(vocabulary: int) -> TailRows:
    """Return rows of a thousand tokens each, half of which they share: L = 2.

    All have 1/1024, but for 24 that have twice as much.
    """
    path = _path(vocabulary)
    ids = [each for each in places(vocabulary, 1502).tolist() if each not in path]
    among = numpy.array([*path, *_random("top", vocabulary).permutation(ids).tolist()])

    def row(first: int, twice: slice) -> NDArray[numpy.float64]:
        own = numpy.concatenate([among[:2], among[2 + first : 1000 + first]])
        counts = numpy.zeros(vocabulary)
        counts[own] = 1
        counts[own[twice]] = 2
        return counts / 1024

    target = [row(0, slice(-24, None)), row(250, slice(-24, None)), row(500, slice(-24, None))]
    return TailRows(
        numpy.stack(target), numpy.stack([row(500, slice(24)), row(0, slice(24))]), path
    )


def _sure(vocabulary: int) -> TailRows:
    """Return a draft that is certain of one token, and a target as in `_zipf`: L = 1."""
    place, parts = _path(vocabulary)[0], _grid(vocabulary)
    weights = _by_rank("sure", vocabulary)
    bonus = on_grid(weights, parts)
    weights[place] = 0
    first, draft = on_grid(weights, parts // 2), numpy.zeros((1, vocabulary))
    first[place], draft[0, place] = parts // 2, 1
    return TailRows(numpy.stack([first, bonus]) / parts, draft, (place,))


def _places(vocabulary: int) -> TailRows:
    """Return a draft and a bonus on the `places`, of which the target has 1 to 7 eighths: L = 1.

    The rest of the target's mass is on as many other tokens.
    """
    ids, random = places(vocabulary, PLACES), _random("eighths", vocabulary)
    others = numpy.setdiff1d(random.permutation(vocabulary)[:2048], ids)[:1000]
    q, p, bonus = numpy.zeros((3, vocabulary))
    q[ids] = 8
    q[ids[-24:]] = 16
    bonus[ids[::-1]] = q[ids]
    p[ids] = q[ids] / 8 * random.integers(1, 8, size=len(ids))
    each, left = divmod(int(8192 - p.sum()), len(others))
    p[others] = each
    p[others[:left]] += 1
    return TailRows(numpy.stack([p, bonus]) / 8192, q[None] / 8192, (int(ids[0]),))


_MANY = 10**5
"""Number of tokens over which a residual is spread, if the vocabulary has as many."""


def _spread(vocabulary: int) -> TailRows:
    """Return a target with 10**5 tokens of about 1e-6 each that the draft does not have: L = 1."""
    parts = _grid(vocabulary)
    each = 2 ** int(numpy.log2(1e-6 * parts))
    place = _path(vocabulary)[1]
    weights = _by_rank("spread", vocabulary)
    weights[place] = 0
    common = on_grid(weights, parts - each * _MANY)
    able = numpy.flatnonzero(common < 2**23)
    extra = _random("spread", vocabulary).permutation(able[able != place])[: _MANY - 1]
    p, q = common.copy(), common.copy()
    p[extra] += each
    p[place], q[place] = each, each * _MANY
    return TailRows(
        numpy.stack([p, _certain(vocabulary, parts)]) / parts, q[None] / parts, (place,)
    )


def _certain(vocabulary: int, parts: int) -> Counts:
    """Return the counts of a row that is certain of the last token."""
    counts = numpy.zeros(vocabulary)
    counts[-1] = parts
    return counts


def _near(vocabulary: int, mass: float) -> TailRows:
    """Return a target and a draft at distance `mass`, half the drafted token's weight: L = 1."""
    parts, place = _grid(vocabulary), _path(vocabulary)[1]
    wanted = mass * parts
    each = 2 ** max(int(numpy.floor(numpy.log2(wanted / min(_MANY, vocabulary // 4)))), 0)
    many = round(wanted / each)
    weights = _by_rank("near", vocabulary)
    weights[place] = 0
    q = on_grid(weights, parts - 2 * each * many)
    able = numpy.flatnonzero((q > 0) & (q < 2**22))
    extra = _random("near", vocabulary).permutation(able)[:many]
    p = q.copy()
    p[extra] += each
    p[place], q[place] = each * many, 2 * each * many
    return TailRows(
        numpy.stack([p, _certain(vocabulary, parts)]) / parts, q[None] / parts, (place,)
    )


# --- crowds ------------------------------------------------------------------------------------

BUCKETS = 64
"""Number of kinds of tokens that samples distinguish, beside two that are drafted."""


@dataclass(frozen=True)
class Crowds:
    """Instance of few kinds of tokens, and the kind [V] of each token of a large vocabulary.

    Tokens of a kind have the same part of its weight in every row, so a verifier's law on kinds is
    its law on the instance. Half of the drafted mass is in the tail, half at the ends of tiles.
    """

    instance: Instance
    kinds: NDArray[numpy.int64]


def crowds(form: str, vocabulary: int) -> Crowds:
    """Return buckets by a hash ("buckets"), or by ranges of ids ("ranges")."""
    random = _random(form, vocabulary)
    kinds = 2 + (
        random.integers(BUCKETS, size=vocabulary)
        if form == "buckets"
        else numpy.arange(vocabulary) * BUCKETS // vocabulary
    )
    kinds[random.random(vocabulary) < 1 / 2] = 0
    kinds[TILE - 1 :: TILE] = 1
    some = _shares(random)
    sure = tuple(ONE if kind == 2 else ZERO for kind in range(BUCKETS + 2))
    rows: dict[Path, Row] = {(): (rational("1/4"), rational("1/4"), *(share / 2 for share in some))}
    rows |= {(kind,): sure for kind in range(BUCKETS + 2)}
    draft = (rational("1/2"), rational("1/2"), *[ZERO] * BUCKETS)
    return Crowds(
        Instance(
            Model("target", BUCKETS + 2, rows), Model("draft", BUCKETS + 2, {(): draft}), length=1
        ),
        kinds,
    )


def _shares(random: numpy.random.Generator) -> list[Rational]:
    """Return the shares of the buckets, one to three parts each."""
    counts = [rational(int(count)) for count in random.integers(1, 4, size=BUCKETS)]
    return [count / total(counts) for count in counts]


def _crowded(form: str, vocabulary: int) -> TailRows:
    """Return the rows of crowds at a drafted token of the tail: L = 1."""
    found = crowds(form, vocabulary)
    sizes, instance = numpy.bincount(found.kinds), found.instance

    def wide(row: Row) -> NDArray[numpy.float64]:
        each: NDArray[numpy.float64] = numpy.array([*map(float, row)]) / sizes
        return each.astype(numpy.float32).astype(numpy.float64)[found.kinds]

    place = int(numpy.flatnonzero(found.kinds == 0)[-1])
    target = numpy.stack([wide(instance.target(())), wide(instance.target((0,)))])
    return TailRows(target, wide(instance.draft(()))[None], (place,))


_FORMS: Mapping[str, Callable[[int], TailRows]] = {
    "edges": _edges,
    "special": _special,
    "flat": _flat,
    "zipf": _zipf,
    "top": _top,
    "sure": _sure,
    "places": _places,
    "spread": _spread,
    "buckets": partial(_crowded, "buckets"),
    "ranges": partial(_crowded, "ranges"),
}
