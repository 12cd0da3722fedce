"""A campaign: every requirement, on every case of a tier, for one adapter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import joblib
import torch

from draftproof.conformance.adapter import Adapter, Declaration, InvalidAdapter, declaration
from draftproof.conformance.cases import Batch, Case, batches, cases
from draftproof.conformance.counterexample import Counterexample, Progress, explain, explain_batch
from draftproof.conformance.lanes.exact import TooManyRuns
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.loading import AdapterFailed, load_adapter
from draftproof.conformance.observe import observe, observe_batch, observe_inputs
from draftproof.conformance.requirements import (
    ERROR,
    FAIL,
    INCONCLUSIVE,
    LAWS,
    PASS,
    SKIPPED,
    Finding,
    judge,
    judge_batch,
    judge_inputs,
)
from draftproof.reference.chance import NondeterministicProgram
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import Requirement, requirements


@dataclass(frozen=True)
class Decision:
    """What one requirement came to over all cases: the worst verdict, and the finding behind it."""

    requirement: Requirement
    verdict: str
    worst: Finding
    findings: tuple[Finding, ...]

    @property
    def runs(self) -> int:
        """The runs of the program under test behind all findings."""
        return sum(finding.runs for finding in self.findings)


@dataclass(frozen=True)
class Report:
    """The outcome of a campaign; `verdict` is that of its MUST requirements together."""

    adapter: Declaration
    tier: str
    verdict: str
    decisions: tuple[Decision, ...]
    counterexample: Counterexample | None


def certify(name: str, *, tier: str = "standard", jobs: int = 1, progress: Progress) -> Report:
    """Judge the adapter of this name on all cases of a tier.

    `jobs` processes share the cases. Raises what `load_adapter` raises, and `AdapterFailed`
    if the adapter fails on every case.
    """
    adapter = load_adapter(name)
    declared = declaration(adapter)
    _require_device(declared)
    _require_stateless(declared)
    tasks = [*cases(tier), *(batches(tier) if declared.batch else ())]
    # Other processes load the adapter anew, by its name.
    known_as = adapter if jobs == 1 else name
    work = joblib.Parallel(n_jobs=jobs, return_as="generator")(
        joblib.delayed(_findings)(known_as, task) for task in tasks
    )
    try:
        findings = [f for found in progress(work, len(tasks), declared.name) for f in found]
        findings.append(judge_inputs(observe_inputs(adapter, cases("quick")[1])))
    except (OpaqueRandomness, NondeterministicProgram, TooManyRuns) as error:
        return _blind(declared, tier, error)
    _require_success(findings)
    if not declared.batch:
        reason = "it takes one row at a time (batch = False)"
        findings.append(Finding("batch.invariant", "batches", SKIPPED, detail=reason))
    decisions = tuple(_decisions(findings))
    verdict = _overall(decisions)
    found = _counterexample(adapter, tier, decisions, progress) if verdict == FAIL else None
    return Report(declared, tier, verdict, decisions, found)


def _require_device(declared: Declaration) -> None:
    try:
        torch.empty(0, device=declared.device)
    except Exception as error:
        raise AdapterFailed(f"its device {declared.device!r} is not there: {error}") from error


def _require_stateless(declared: Declaration) -> None:
    algorithm = ALGORITHMS.get(declared.algorithm)
    if algorithm is not None and algorithm.stateful:
        raise InvalidAdapter(
            f"{declared.algorithm} leaves a modified target behind, for which a Result has no "
            f"place: only verifiers of stateless algorithms can be judged"
        )


def _require_success(findings: Iterable[Finding]) -> None:
    """Raise `AdapterFailed` if no case ever ended in an emission."""
    prefixes = [finding for finding in findings if finding.requirement == "law.prefix"]
    if all(finding.distance == 1 for finding in prefixes):
        raise AdapterFailed(f"it fails on every case: it {prefixes[0].detail}")


def _findings(known_as: Adapter | str, task: Case | Batch) -> list[Finding]:
    adapter = _loaded(known_as) if isinstance(known_as, str) else known_as
    if isinstance(task, Batch):
        return [judge_batch(observe_batch(adapter, task.id, task.rows))]
    return judge(observe(adapter, task))


@lru_cache(maxsize=1)
def _loaded(name: str) -> Adapter:
    return load_adapter(name)


_SEVERITY = (SKIPPED, PASS, INCONCLUSIVE, FAIL, ERROR)


def _decisions(findings: list[Finding]) -> Iterator[Decision]:
    for requirement in requirements().values():
        own = tuple(f for f in findings if f.requirement == requirement.id)

        def severity(finding: Finding) -> tuple[int, Any]:
            measured = finding.distance is not None and finding.allowed is not None
            return _SEVERITY.index(finding.verdict), finding.distance if measured else -1

        worst = max(own, key=severity)
        yield Decision(requirement, worst.verdict, worst, own)


def _overall(decisions: Iterable[Decision]) -> str:
    binding = [d.verdict for d in decisions if d.requirement.level == "MUST"]
    return next((v for v in (ERROR, FAIL, INCONCLUSIVE) if v in binding), PASS)


def _blind(declared: Declaration, tier: str, error: Exception) -> Report:
    """Return the report of a program that the exact lane cannot see through."""
    detail = f"{type(error).__name__}: {error}"
    findings = [
        Finding(requirement, "every case", ERROR, detail=detail) for requirement in requirements()
    ]
    return Report(declared, tier, ERROR, tuple(_decisions(findings)), None)


def _counterexample(
    adapter: Adapter, tier: str, decisions: Iterable[Decision], progress: Progress
) -> Counterexample | None:
    """Return the smallest counterexample found to the first requirement that fails."""
    for decision in decisions:
        if decision.verdict == FAIL and decision.requirement.id in LAWS:
            instances = {case.id: case.instance for case in cases(tier)}
            failed = instances[decision.worst.case]
            return explain(adapter, decision.requirement.id, failed, progress=progress)
        if decision.verdict == FAIL and decision.requirement.id == "batch.invariant":
            batch = next(b for b in batches(tier) if b.id == decision.worst.case)
            return explain_batch(adapter, batch)
    return None
