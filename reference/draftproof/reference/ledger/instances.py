"""The instances that claims are examined on: all of the smallest, then seeded larger ones.

The order is by the common denominator of all weights, then lexicographic; so the first
counterexample found is a smallest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from math import lcm
from random import Random
from typing import Any

from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import rational


@cache
def rows(vocabulary: int, denominator: int) -> tuple[Row, ...]:
    """Return every row whose weights are multiples of 1/denominator."""
    return tuple(
        tuple(rational(count) / denominator for count in counts)
        for counts in product(range(denominator + 1), repeat=vocabulary)
        if sum(counts) == denominator
    )


def all_rows(vocabulary: int, count: int, denominator: int) -> Iterator[tuple[Row, ...]]:
    """Yield every choice of `count` rows whose weights have exactly this common denominator."""
    for chosen in product(rows(vocabulary, denominator), repeat=count):
        if lcm(*(int(weight.denominator) for row in chosen for weight in row)) == denominator:
            yield chosen


def up_to(vocabulary: int, count: int, denominators: int) -> Iterator[tuple[Row, ...]]:
    """Yield every choice of `count` rows with a small common denominator, the smallest first."""
    for denominator in range(1, denominators + 1):
        yield from all_rows(vocabulary, count, denominator)


def example(
    target: str, draft: str, *, length: int = 1, drafts: int = 1, scheme: str = "iid"
) -> Instance:
    """Return the context-free instance of two rows, such as "1/2 1/4 1/4"."""
    return _context_free(row(target), row(draft), length=length, drafts=drafts, scheme=scheme)


def row(weights: str) -> Row:
    """Return the row of weights such as "1/2 1/4 1/4"."""
    return tuple(map(rational, weights.split()))


def context_free(
    vocabulary: int,
    denominators: int,
    *,
    length: int = 1,
    drafts: int = 1,
    scheme: str = "iid",
) -> Iterator[Instance]:
    """Yield every instance of one target row and one draft row with small denominators."""
    for p, q in up_to(vocabulary, 2, denominators):
        yield _context_free(p, q, length=length, drafts=drafts, scheme=scheme)


def drafts_alone(
    vocabulary: int, denominators: int, *, drafts: int, scheme: str
) -> Iterator[Instance]:
    """Yield an instance with its draft as its target, for every draft row of small denominators."""
    for (q,) in up_to(vocabulary, 1, denominators):
        yield _context_free(q, q, length=1, drafts=drafts, scheme=scheme)


def every_context(
    vocabulary: int, denominators: int, *, length: int = 2, drafts: int = 1
) -> Iterator[Instance]:
    """Yield every instance with separate rows at every context of fewer than L tokens.

    The target's rows at L tokens, which no accepted length depends on, are uniform.
    """
    contexts = [c for size in range(length) for c in product(range(vocabulary), repeat=size)]
    uniform = tuple(rational(1) / vocabulary for _ in range(vocabulary))
    last = dict.fromkeys(product(range(vocabulary), repeat=length), uniform)
    for chosen in up_to(vocabulary, 2 * len(contexts), denominators):
        target = dict(zip(contexts, chosen, strict=False))
        draft = dict(zip(contexts, chosen[len(contexts) :], strict=True))
        yield _instance({**target, **last}, draft, vocabulary, length=length, drafts=drafts)


def seeded(
    count: int,
    vocabulary: int,
    *,
    length: int = 1,
    drafts: int = 1,
    scheme: str = "iid",
    branching: Sequence[int] = (),
    depth: int | None = None,
) -> Iterator[Instance]:
    """Yield instances with separate rows at every context of at most `depth` (L) tokens.

    The instances are the same in every run. Zeros, ties between ratios, point masses and contexts
    in which the draft agrees with the target are common.
    """
    random = Random(count)  # noqa: S311  # the same in every run, which is the point
    deepest = length if depth is None else depth
    contexts = [c for size in range(deepest + 1) for c in product(range(vocabulary), repeat=size)]
    for _ in range(count):
        target = {context: _row(vocabulary, random) for context in contexts}
        draft = {
            context: row if random.random() < 1 / 4 else _row(vocabulary, random)
            for context, row in target.items()
            if len(context) < max(deepest, length)
        }
        yield _instance(
            target,
            draft,
            vocabulary,
            length=length,
            drafts=drafts,
            scheme=scheme,
            branching=tuple(branching),
        )


def from_rows(
    both: Callable[[Path], tuple[Row, Row]], *, vocabulary: int, length: int, depth: int
) -> Instance:
    """Return an instance with the rows that iterations from contexts of up to `depth` tokens need.

    `both` gives the target's and the draft's row at a context.
    """

    def reachable(which: int, start: Path, size: int) -> Iterator[Path]:
        yield start
        if size > 0:
            for token, weight in enumerate(both(start)[which]):
                if weight != 0:
                    yield from reachable(which, (*start, token), size - 1)

    starts = list(reachable(0, (), depth))
    wanted = {c for start in starts for which in (0, 1) for c in reachable(which, start, length)}
    ordered = sorted(wanted, key=lambda context: (len(context), context))
    target, draft = ({c: both(c)[which] for c in ordered} for which in (0, 1))
    return _instance(target, draft, vocabulary, length=length)


def _instance(
    target: Mapping[Path, Row], draft: Mapping[Path, Row], vocabulary: int, **sizes: Any
) -> Instance:
    return Instance(Model("target", vocabulary, target), Model("draft", vocabulary, draft), **sizes)


def _context_free(p: Row, q: Row, *, length: int, drafts: int, scheme: str) -> Instance:
    target, draft = (
        Model(name, len(row), {(): row}, context_free=True)
        for name, row in (("target", p), ("draft", q))
    )
    return Instance(target, draft, length, drafts, scheme)


def _row(vocabulary: int, random: Random) -> Row:
    counts = random.choices((0, 0, 1, 1, 2, 3), k=vocabulary)
    counts[random.randrange(vocabulary)] += 1
    return tuple(rational(count) / sum(counts) for count in counts)
