"""The cases: small targets and drafts with stable ids, each there for a reason.

A good toy model depends on its context (a context-free one cannot see a verifier that goes on
after a rejection) and has what real rows have: zeros, ties, equal rows, disjoint supports, point
masses, near certainty. Rows are multiples of 1/16 or 1/256, exact in every float dtype, so that an
observed distance is the adapter's own; `motivating` alone is in thirds, as in its paper, and
`near-one.sure` needs more bits than bfloat16 has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import product

from draftproof.reference.drafting import Drafts
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import rational

TIERS = ("quick", "standard", "full")
"""Each tier contains the ones before it."""


@dataclass(frozen=True)
class Case:
    """An instance with a stable id and the reason why it is here."""

    id: str
    reason: str
    tier: str
    instance: Instance


@dataclass(frozen=True)
class Batch:
    """Rows that are verified together: each an instance and the paths drafted from it."""

    id: str
    tier: str
    rows: tuple[tuple[Instance, Drafts], ...]


def cases(tier: str) -> tuple[Case, ...]:
    """Return the cases of a tier. Raises `Unsupported` for an unknown one."""
    if tier not in TIERS:
        raise Unsupported(f"unknown tier {tier!r}; known: {', '.join(TIERS)}")
    included = TIERS[: TIERS.index(tier) + 1]
    return tuple(case for case in _all_cases() if case.tier in included)


@cache
def _all_cases() -> tuple[Case, ...]:
    return tuple(_generated())


def batches(tier: str) -> tuple[Batch, ...]:
    """Return the batches of a tier: rows of different cases, in different places."""
    two_by_two = {case.id: case.instance for case in _all_cases() if case.id in _BATCHED}
    certain = _instance("certain", 2, 2, target=lambda _: (1,), draft=lambda _: (1,))
    one, two, three = (two_by_two[name] for name in _BATCHED)
    rows = ((one, ((0, 1),)), (two, ((1, 0),)), (three, ((0, 0),)), (certain, ((1, 1),)))
    pairs = (
        Batch("batch.pair", "quick", (rows[0], rows[1])),
        Batch("batch.pair.swapped", "quick", (rows[1], rows[0])),
        Batch("batch.same", "quick", (rows[0], rows[0])),
        Batch("batch.three", "standard", (rows[0], rows[1], rows[2])),
        Batch("batch.sparse", "standard", (rows[3], rows[0], rows[3], rows[3], rows[1])),
    )
    return tuple(batch for batch in pairs if batch.tier in TIERS[: TIERS.index(tier) + 1])


_BATCHED = ("generic.v2.l2", "banked", "near-one.both")


def _generated() -> Iterator[Case]:
    for vocabulary, length, tier in (
        (2, 1, "quick"),
        (2, 2, "quick"),
        (3, 2, "quick"),
        (4, 2, "standard"),
        (2, 3, "standard"),
        (3, 3, "standard"),
        (4, 3, "standard"),
    ):
        name = f"generic.v{vocabulary}.l{length}"
        yield Case(name, "rows of every context differ", tier, _instance(name, vocabulary, length))

    yield Case(
        "motivating",
        "Sun et al.'s example: token 10/9, block 11/9",
        "quick",
        Instance(
            Model("target", 2, {(): _row("1/3 2/3")}, context_free=True),
            Model("draft", 2, {(): _row("2/3 1/3")}, context_free=True),
            length=2,
        ),
    )
    yield Case(
        "zeros.target",
        "the target forbids tokens that the draft proposes",
        "standard",
        _instance("zeros.target", 3, 2, target=lambda c: _without(c, 3)),
    )
    yield Case(
        "zeros.draft",
        "the draft never proposes tokens that the target wants",
        "standard",
        _instance("zeros.draft", 3, 2, draft=lambda c: _without(c, 3)),
    )
    yield Case(
        "zeros.both",
        "zeros in both, at the same and at different tokens",
        "quick",
        _instance(
            "zeros.both", 4, 2, target=lambda c: _without(c, 4), draft=lambda c: _without(c, 4, 1)
        ),
    )
    yield Case(
        "disjoint",
        "disjoint supports: everything is rejected",
        "quick",
        _instance("disjoint", 4, 2, target=lambda _: (0, 1), draft=lambda _: (2, 3)),
    )
    yield Case(
        "disjoint.later",
        "disjoint supports after the first token",
        "standard",
        _instance(
            "disjoint.later",
            3,
            2,
            target=lambda c: (0,) if c else (0, 1, 2),
            draft=lambda c: (1, 2) if c else (0, 1, 2),
        ),
    )
    yield Case(
        "equal",
        "p = q: everything is accepted, every residual is 0/0",
        "quick",
        _equal("equal", 3, 2, lambda _: True),
    )
    yield Case(
        "equal.first",
        "p = q at the first position only",
        "quick",
        _equal("equal.first", 3, 2, lambda c: not c),
    )
    yield Case(
        "equal.later",
        "p = q after the first position only",
        "standard",
        _equal("equal.later", 3, 2, lambda c: bool(c)),
    )
    yield Case(
        "near-equal",
        "p and q differ by 1/256: small residuals",
        "standard",
        _fixed("85 86 85", "86 85 85", length=2),
    )
    yield Case(
        "ties",
        "equal probabilities and equal ratios",
        "standard",
        _by_depth(3, ["64 64 128", "128 64 64", "64 128 64"], ["128 128 0", "128 64 64"]),
    )
    yield Case(
        "point.target",
        "the target is certain",
        "standard",
        _instance("point.target", 3, 2, target=lambda c: (sum(c) % 3,)),
    )
    yield Case(
        "point.draft",
        "the draft is certain",
        "standard",
        _instance("point.draft", 3, 2, draft=lambda c: ((1 + sum(c)) % 3,)),
    )
    yield Case(
        "point.both",
        "both are certain: they agree first and differ later",
        "standard",
        _instance("point.both", 3, 2, target=lambda _: (1,), draft=lambda c: (2,) if c else (1,)),
    )
    yield Case(
        "near-one.target",
        "the target is nearly certain",
        "standard",
        _by_depth(3, ["254 1 1", "1 254 1", "1 1 254"], ["128 64 64", "64 64 128"]),
    )
    yield Case(
        "near-one.draft",
        "the draft is nearly certain",
        "standard",
        _by_depth(3, ["128 64 64", "64 64 128", "64 128 64"], ["254 1 1", "1 254 1"]),
    )
    yield Case(
        "near-one.both",
        "both are nearly certain, of the same token",
        "standard",
        _by_depth(2, ["255 1", "254 2", "1 255"], ["254 2", "255 1"]),
    )
    yield Case(
        "near-one.sure",
        "the draft is certain, and the target certain to 1/2048",
        "standard",
        Instance(
            Model("target", 2, {(): _row("2047 1", 2048)}, context_free=True),
            Model("draft", 2, {(): _row("1 0")}, context_free=True),
            length=2,
        ),
    )
    yield Case(
        "banked",
        "a gain at one position pays for a loss at the next",
        "quick",
        _by_depth(2, ["192 64", "64 192", "128 128"], ["64 192", "192 64"]),
    )
    yield Case(
        "lost-then-won",
        "a loss at one position is made good at later ones",
        "standard",
        _by_depth(2, ["64 192", "224 32", "192 64", "32 224"], ["192 64", "64 192", "128 128"]),
    )
    yield Case(
        "single-token", "V = 1: nothing to choose", "standard", _fixed("256", "256", length=2)
    )
    yield Case("single-token.l1", "V = 1 and L = 1", "standard", _fixed("256", "256", length=1))
    for index in range(24):
        vocabulary, length = 2 + index % 3, 1 + index // 3 % 3
        name = f"random.{index:02d}"
        yield Case(
            name,
            "rows and zeros at random",
            "full",
            _instance(
                name,
                vocabulary,
                length,
                target=_random_support(f"{name}/p", vocabulary),
                draft=_random_support(f"{name}/q", vocabulary),
            ),
        )


Support = Callable[[Path], Sequence[int]]


def _instance(
    name: str,
    vocabulary: int,
    length: int,
    *,
    target: Support | None = None,
    draft: Support | None = None,
) -> Instance:
    """Return a context-dependent instance; `target` and `draft` give the support of each row."""
    everything = range(vocabulary)

    def rows(which: str, depth: int, support: Support | None) -> dict[Path, Row]:
        return {
            context: _spread(
                f"{name}/{which}/{context}", vocabulary, support(context) if support else everything
            )
            for context in _contexts(vocabulary, depth)
        }

    return Instance(
        Model("target", vocabulary, rows("p", length, target)),
        Model("draft", vocabulary, rows("q", length - 1, draft)),
        length=length,
    )


def _equal(name: str, vocabulary: int, length: int, where: Callable[[Path], bool]) -> Instance:
    """Return an instance with p = q at the contexts `where`."""
    generic = _instance(name, vocabulary, length)
    shared = {c: row for c, row in generic.draft.rows.items() if where(c)}
    target = Model("target", vocabulary, {**generic.target.rows, **shared})
    return Instance(target, generic.draft, length=length)


def _fixed(target: str, draft: str, *, length: int) -> Instance:
    """Return a context-free instance from rows in 256ths."""
    p, q = _row(target, 256), _row(draft, 256)
    return Instance(
        Model("target", len(p), {(): p}, context_free=True),
        Model("draft", len(q), {(): q}, context_free=True),
        length=length,
    )


def _by_depth(vocabulary: int, target: Sequence[str], draft: Sequence[str]) -> Instance:
    """Return an instance whose rows, in 256ths, rotate with the last token and differ by depth."""

    def model(name: str, levels: Sequence[str]) -> Model:
        rows = {
            context: _rotated(_row(levels[len(context)], 256), context[-1] if context else 0)
            for context in _contexts(vocabulary, len(levels) - 1)
        }
        return Model(name, vocabulary, rows)

    return Instance(model("target", target), model("draft", draft), length=len(draft))


def _rotated(row: Row, places: int) -> Row:
    return (*row[places:], *row[:places])


def _contexts(vocabulary: int, depth: int) -> Iterator[Path]:
    for length in range(depth + 1):
        yield from product(range(vocabulary), repeat=length)


def _row(text: str, parts: int = 1) -> Row:
    return tuple(rational(weight) / parts for weight in text.split())


def _spread(seed: str, vocabulary: int, support: Sequence[int]) -> Row:
    """Return a row in 16ths, positive on `support`, that depends on nothing but the seed."""
    shares = [1 if token in support else 0 for token in range(vocabulary)]
    for byte in sha256(seed.encode()).digest()[: 16 - len(support)]:
        shares[support[byte % len(support)]] += 1
    return tuple(rational(share) / 16 for share in shares)


def _without(context: Path, vocabulary: int, offset: int = 0) -> tuple[int, ...]:
    """Return all tokens but one, which moves with the context."""
    missing = (sum(context) + len(context) + offset) % vocabulary
    return tuple(token for token in range(vocabulary) if token != missing)


def _random_support(seed: str, vocabulary: int) -> Support:
    """Return a support that keeps each token with probability 3/4, and at least one."""

    def support(context: Path) -> tuple[int, ...]:
        digest = sha256(f"{seed}/{context}/support".encode()).digest()
        kept = tuple(token for token in range(vocabulary) if digest[token] % 4)
        return kept or (digest[-1] % vocabulary,)

    return support
