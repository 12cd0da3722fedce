"""A campaign in one call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from draftproof.conformance.evidence.certificate import Certificate
from draftproof.conformance.evidence.decision import report
from draftproof.conformance.evidence.records import Record
from draftproof.conformance.failure.counterexample import Progress, silently
from draftproof.conformance.protocol.adapter import Adapter, program_of
from draftproof.conformance.run.campaign import LANES, Campaign, run
from draftproof.conformance.run.workers import Workers


def certify(
    adapter: Adapter | str,
    *,
    mode: str = "standard",
    seed: int | None = None,
    only: Collection[str] = (),
    cases: Collection[str] = (),
    lanes: Sequence[str] = LANES,
    jobs: int = 1,
    progress: Progress = silently,
    **terms: Any,
) -> Certificate:
    """Judge an adapter, given as an object or by its name, and return its certificate.

    `only` names the requirements to judge, `cases` are patterns of their cases, empty for all;
    `lanes` may decide, strongest first; the `seed` is random by default. Further terms are those of
    a `Campaign`. This process judges an adapter given as an object: `jobs` needs a name. Raises
    what `run` raises, and `ValueError` for more than one job of an adapter without a name.
    """
    terms |= {"mode": mode, "only": only, "cases": cases, "lanes": lanes}
    if seed is not None:
        terms["seed"] = seed
    if not isinstance(adapter, str) and jobs != 1:
        raise ValueError(f"an adapter is judged by the process that has it: jobs is 1, got {jobs}")
    records: list[Record] = []
    campaign = Campaign(adapter if isinstance(adapter, str) else _place(adapter), **terms)
    workers = Workers(jobs=jobs)
    program = None if isinstance(adapter, str) else program_of(adapter)
    run(campaign, program=program, keep=records.append, workers=workers, progress=progress)
    return Certificate(report(records), tuple(records))


def _place(adapter: Adapter) -> str:
    """Return the import path of an adapter's class, which identifies the judged program."""
    kind = type(adapter)
    return f"{kind.__module__}:{kind.__qualname__}"
