"""Instances of cases, row by row: dyadic, deterministic, dependent on their context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import product

from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import rational

Support = Callable[[Path], Sequence[int]]


def instance(
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
            context: spread(
                f"{name}/{which}/{context}", vocabulary, support(context) if support else everything
            )
            for context in _contexts(vocabulary, depth)
        }

    return Instance(
        Model("target", vocabulary, rows("p", length, target)),
        Model("draft", vocabulary, rows("q", length - 1, draft)),
        length=length,
    )


def equal(name: str, vocabulary: int, length: int, where: Callable[[Path], bool]) -> Instance:
    """Return an instance with p = q at the contexts in `where`."""
    generic = instance(name, vocabulary, length)
    shared = {c: row for c, row in generic.draft.rows.items() if where(c)}
    target = Model("target", vocabulary, {**generic.target.rows, **shared})
    return Instance(target, generic.draft, length=length)


def fixed(target: str, draft: str, *, length: int) -> Instance:
    """Return a context-free instance from rows in 256ths."""
    return context_free(row(target, 256), row(draft, 256), length=length)


def context_free(p: Row, q: Row, *, length: int) -> Instance:
    """Return the context-free instance of one draft with these rows."""
    return Instance(
        Model("target", len(p), {(): p}, context_free=True),
        Model("draft", len(q), {(): q}, context_free=True),
        length=length,
    )


def by_depth(vocabulary: int, target: Sequence[str], draft: Sequence[str]) -> Instance:
    """Return an instance whose rows, in 256ths, rotate with the last token and differ by depth."""

    def model(name: str, levels: Sequence[str]) -> Model:
        rows = {
            context: _rotated(row(levels[len(context)], 256), context[-1] if context else 0)
            for context in _contexts(vocabulary, len(levels) - 1)
        }
        return Model(name, vocabulary, rows)

    return Instance(model("target", target), model("draft", draft), length=len(draft))


def _rotated(row: Row, places: int) -> Row:
    return (*row[places:], *row[:places])


def _contexts(vocabulary: int, depth: int) -> Iterator[Path]:
    for length in range(depth + 1):
        yield from product(range(vocabulary), repeat=length)


def row(text: str, parts: int = 1) -> Row:
    """Return the row of these numbers, each divided by `parts`."""
    return tuple(rational(weight) / parts for weight in text.split())


def spread(seed: str, vocabulary: int, support: Sequence[int]) -> Row:
    """Return a row in 16ths, positive on `support`, that depends on the seed alone."""
    shares = [1 if token in support else 0 for token in range(vocabulary)]
    for byte in sha256(seed.encode()).digest()[: 16 - len(support)]:
        shares[support[byte % len(support)]] += 1
    return tuple(rational(share) / 16 for share in shares)


def without(context: Path, vocabulary: int, offset: int = 0) -> tuple[int, ...]:
    """Return all tokens but one; the missing token depends on the context."""
    missing = (sum(context) + len(context) + offset) % vocabulary
    return tuple(token for token in range(vocabulary) if token != missing)


def random_support(seed: str, vocabulary: int) -> Support:
    """Return a support that keeps each token with probability 3/4, and at least one."""

    def support(context: Path) -> tuple[int, ...]:
        digest = sha256(f"{seed}/{context}/support".encode()).digest()
        kept = tuple(token for token in range(vocabulary) if digest[token] % 4)
        return kept or (digest[-1] % vocabulary,)

    return support


def full_at_root(later: Support, vocabulary: int) -> Support:
    """Return the support `later` with every token at the root."""
    return lambda context: later(context) if context else tuple(range(vocabulary))
