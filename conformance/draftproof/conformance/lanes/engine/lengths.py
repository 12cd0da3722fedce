"""How many tokens a pass of the target may write without loss.

A pass begins in some context and has one drafted path of L tokens. A lossless verifier keeps the
prefix x of a path with a probability of at most q(x), since it must be drafted, and of at most
p(x), since the text begins with it; so it keeps at most

    sum over prefixes x of min(p(x), q(x))

tokens on average, whatever it does, and writes one more. In which context each pass begins, an
engine does not say: the largest sum of all contexts bounds them all.
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
    most, observed = most_kept(rows, draft_length), own.stepped / own.steps - 1
    # A pass keeps 0 to L tokens: Hoeffding's inequality, at the end alone.
    chance = draft_length * sqrt(log(1 / budget.each) / (2 * own.steps))
    is_above = observed > most + chance
    told = f"a pass keeps {observed:.3f} tokens, where a lossless verifier keeps {most:.3f} at most"
    return Finding(
        "engine.length",
        case,
        FAIL if is_above else PASS,
        exactly(max(observed - most - chance, 0.0)),
        exactly(0.0),
        "engine",
        own.steps,
        told if is_above else "",
        lengths=Lengths(observed, most),
    )


def most_kept(rows: Rows, length: int) -> float:
    """Return the largest number of drafted tokens, of all contexts, that can be kept on average."""
    tables = [_table(rows, of) for of in (rows.target, rows.draft)]
    return max(_kept(rows, tables, context, length) for context in rows.target)


def _kept(rows: Rows, tables: list[Floats], context: Context, length: int) -> float:
    """Return the sum over the prefixes of a path behind a context."""
    states = numpy.array([context])
    target = draft = numpy.ones(1)
    kept = 0.0
    for _ in range(length):
        at = tuple(states.T)
        pairs = zip((target, draft), tables, strict=True)
        target, draft = ((weights[:, None] * table[at]).ravel() for weights, table in pairs)
        kept += float(numpy.minimum(target, draft).sum())
        words = len(rows.words)
        followed = numpy.repeat(states, words, axis=0)[:, 1:]
        last = numpy.tile(numpy.arange(1, words + 1), len(states))
        states = numpy.concatenate([followed, last[:, None]], axis=1)
    return kept


def _table(rows: Rows, of: Mapping[Context, Row]) -> Floats:
    """Return the rows [states, ..., states, words] of all contexts."""
    shape = (*[len(rows.words) + 1] * rows.memory, len(rows.words))
    return numpy.array([[float(each) for each in row] for row in of.values()]).reshape(shape)
