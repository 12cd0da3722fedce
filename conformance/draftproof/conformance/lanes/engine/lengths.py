"""How many tokens a pass of the target may write without loss, and how few it should.

A pass begins in some context and has one drafted path of L tokens. A lossless verifier keeps the
prefix x of a path with a probability of at most q(x), since it must be drafted, and of at most
p(x), since the text begins with it; so it keeps at most

    sum over prefixes x of min(p(x), q(x))

tokens on average, whatever it does, and writes one more. Token verification, which no other
algorithm here is below, keeps

    sum over prefixes x of the product over its tokens of min(p, q)

(Leviathan et al., arXiv 2211.17192). In which context each pass begins, an engine does not say: the
largest sum of all contexts bounds the first, the smallest one the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, sqrt

import numpy

from draftproof.conformance.checkpoint.rows import Context, Row, Rows
from draftproof.conformance.lanes.engine.asking import Sampling
from draftproof.conformance.lanes.engine.parts import Asked
from draftproof.conformance.lanes.statistics import Budget, Floats
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding, Lengths
from draftproof.reference.rational import exactly

MOST_PATHS = 10**6
"""The most paths behind one context that are added up."""


def length_finding(
    case: str, own: Asked, rows: Rows, budget: Budget, *, draft_length: int | None
) -> Finding:
    """Return the finding on the tokens of a pass, skipped where they are not known.

    `draft_length` is L, None for an engine that does not draft with the checkpoint's draft.
    """
    plain = Sampling(temperature=float(rows.temperature))
    reason = ""
    if not own.steps:
        reason = "the engine does not say in how many passes it wrote its tokens"
    elif draft_length is None:
        reason = "the engine does not say how many tokens it drafts with the checkpoint's draft"
    elif own.part.samplings != (plain,) or not own.part.speculation:
        reason = "what a lossless verifier keeps is computed for plain sampling"
    elif len(rows.words) ** draft_length > MOST_PATHS:
        reason = f"paths of {draft_length} tokens are too many to be added up"
    if reason or draft_length is None:
        return Finding("engine.length", case, SKIPPED, detail=reason)
    (least, most), observed = kept(rows, draft_length), own.stepped / own.steps - 1
    # A pass keeps 0 to L tokens: Hoeffding's inequality, at the end alone.
    chance = draft_length * sqrt(log(1 / budget.each) / (2 * own.steps))
    # The last pass of an answer may have kept more than were asked for, and the first one has no
    # draft where it reads the prompt.
    cut = 2 * draft_length * own.said / own.steps
    above, below = observed - most - chance, least - observed - chance - cut
    told = f"a pass keeps {observed:.3f} drafted tokens, where"
    if above > 0:
        told = f"{told} no lossless verifier keeps more than {most:.3f}"
    elif below > 0:
        told = f"{told} token verification keeps {least:.3f} at least"
    return Finding(
        "engine.length",
        case,
        FAIL if max(above, below) > 0 else PASS,
        exactly(max(above, below, 0.0)),
        exactly(0.0),
        "engine",
        own.steps,
        told if max(above, below) > 0 else "",
        lengths=Lengths(observed, most),
    )


def kept(rows: Rows, length: int) -> tuple[float, float]:
    """Return the fewest drafted tokens that token verification keeps on average, of all contexts.

    And the most that any lossless verifier keeps.
    """
    tables = [_table(rows, of) for of in (rows.target, rows.draft)]
    found = [_kept(tables, context, length) for context in rows.target]
    return min(least for least, _ in found), max(most for _, most in found)


def _kept(tables: list[Floats], context: Context, length: int) -> tuple[float, float]:
    """Return both sums over the prefixes of the paths behind a context."""
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


def _table(rows: Rows, of: Mapping[Context, Row]) -> Floats:
    """Return the rows [states, ..., states, words] of all contexts."""
    shape = (*[len(rows.words) + 1] * rows.memory, len(rows.words))
    return numpy.array([[float(each) for each in row] for row in of.values()]).reshape(shape)
