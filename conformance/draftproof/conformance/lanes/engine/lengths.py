"""Bounds on the tokens per pass of the target: the most without loss, and the fewest expected.

A pass begins in some context and has one drafted path of L tokens. A lossless verifier keeps the
prefix x of a path with probability at most q(x), since it must be drafted, and at most p(x), since
the text begins with it. So every lossless verifier keeps at most

    sum over prefixes x of min(p(x), q(x))

tokens on average, and writes one more. Token verification, which no other algorithm here falls
below, keeps

    sum over prefixes x of the product over its tokens of min(p, q)

(Leviathan et al., arXiv 2211.17192). An engine does not report the context in which each pass
begins: the largest value of the first sum over all contexts is the upper bound, the smallest value
of the second sum the lower one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy

from draftproof.conformance.checkpoint.rows import Context, KnownRows, Row
from draftproof.conformance.lanes.statistics import Floats


def kept(rows: KnownRows, length: int) -> tuple[float, float]:
    """Return bounds on the number of drafted tokens kept on average, over all contexts.

    The first is the fewest that token verification keeps, the second the most that any lossless
    verifier keeps.
    """
    tables = [_table(rows, of) for of in (rows.target, rows.draft)]
    found = [_kept(tables, context, length) for context in rows.target]
    return min(least for least, _ in found), max(most for _, most in found)


def _kept(tables: list[Floats], context: Context, length: int) -> tuple[float, float]:
    """Return both sums over the prefixes of the paths after a context."""
    states = numpy.array([context])
    words = tables[0].shape[-1]
    target = draft = token = numpy.ones(1)
    least = most = 0.0
    for _ in range(length):
        p, q = (table[tuple(states.T)] for table in tables)
        target, draft, token = (
            (weights[:, None] * row).ravel()
            for weights, row in ((target, p), (draft, q), (token, numpy.minimum(p, q)))
        )
        least += float(token.sum())
        most += float(numpy.minimum(target, draft).sum())
        followed = numpy.repeat(states, words, axis=0)[:, 1:]
        last = numpy.tile(numpy.arange(1, words + 1), len(states))
        states = numpy.concatenate([followed, last[:, None]], axis=1)
    return least, most


def _table(rows: KnownRows, of: Mapping[Context, Row]) -> Floats:
    """Return the rows [states, ..., states, words] of all contexts."""
    shape = (*[len(rows.words) + 1] * rows.memory, len(rows.words))
    return numpy.array([[float(each) for each in row] for row in of.values()]).reshape(shape)
