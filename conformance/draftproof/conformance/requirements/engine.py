"""Accepted length of a whole engine that reports its passes (chapter 16)."""

from __future__ import annotations

from math import log, sqrt

from draftproof.conformance.checkpoint.rows import KnownRows
from draftproof.conformance.lanes.engine.lengths import kept
from draftproof.conformance.lanes.engine.owed import plain_sampling
from draftproof.conformance.lanes.engine.parts import Asked
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding, Lengths
from draftproof.reference.rational import exactly

MOST_PATHS = 10**6
"""Maximum number of paths after one context that are summed."""


def length_finding(
    case: str, own: Asked, rows: KnownRows, budget: Budget, *, draft_length: int | None
) -> Finding:
    """Return the finding on the tokens per pass, skipped if the passes are unknown.

    `draft_length` is L, None for an engine that does not draft with the checkpoint's draft.
    """
    plain = plain_sampling(rows)
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
