"""Programs that call an adapter, once or several times, and what is observed of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from draftproof.conformance.adapter import Adapter, Declaration, Request
from draftproof.conformance.exchange import (
    Asked,
    Failure,
    Outcome,
    columns,
    raised,
    request,
    with_noise,
)
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.probe import probed_laws
from draftproof.conformance.observe import PROBE
from draftproof.reference.drafting import Drafts
from draftproof.reference.law import Law
from draftproof.reference.rational import Rational


@dataclass(frozen=True)
class Observed:
    """The law of a program, the runs that it took, and how far the true law may lie from it."""

    law: Law[Any]
    runs: int
    slack: Rational


# Two calls of an eager verifier take some 1,000 runs; this is a minute.
_MOST_RUNS = 20_000


def observed(
    program: Callable[[], Any],
    read: Callable[[Any], Any],
    *,
    vocabulary: int,
    lane: str,
    copies: Callable[[int], Sequence[Any]] | None = None,
) -> Observed:
    """Return the law of what `read` makes of the program's result, on the exact or probe lane.

    `copies(n)`, if there is such a program, does the same n times over in the rows of one batch,
    and spares the probe lane many runs. Raises `OpaqueRandomness`, `TooManyRuns` or
    `NondeterministicProgram` where the lane is blind.
    """
    if lane == PROBE:

        def verify(subjects: Sequence[int]) -> Sequence[Any]:
            if copies is not None:
                return copies(len(subjects))
            return [read(program()) for _ in subjects]

        batched = copies is not None
        (probed,) = probed_laws(verify, 1, batched=batched, vocabulary=vocabulary)
        return Observed(probed.law, probed.runs, probed.resolution)
    found = exact_law(program, most_runs=_MOST_RUNS)
    return Observed(found.law.map(read), found.runs, found.slack)


def seeded_request(
    rows: Sequence[Asked], declared: Declaration, generator: torch.Generator
) -> Request:
    """Return the request for the rows that draws, and whose noise was drawn, from a generator."""
    return with_noise(replace(request(rows, declared), generator=generator), declared)


def answer(adapter: Adapter, asked: Request) -> Any:
    """Return the columns of the adapter's result, or the words of its error."""
    try:
        return columns(adapter.verify(asked), len(asked.draft_tokens))
    except (Exception, SystemExit) as error:
        return raised(error)


def told(drafts: Drafts, outcome: Outcome) -> str:
    """Return what was drafted and what came of it, in words."""
    paths = " and ".join(str(list(path)) for path in drafts)
    return f"drafted {paths}, it {did(outcome)}"


def did(outcome: Outcome) -> str:
    """Return what a verifier did, in words that follow 'it'."""
    if isinstance(outcome, Failure):
        return outcome.what
    return f"accepts {list(outcome.accepted)}, next token {outcome.next_token}"
