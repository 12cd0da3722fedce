"""Decisions: verdicts of the requirements over all cases, and the report of them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from draftproof.conformance.evidence.records import Record, found_blind
from draftproof.conformance.requirements.finding import (
    ERROR,
    FAIL,
    INCONCLUSIVE,
    PASS,
    SKIPPED,
    Finding,
    findings_from_json,
)
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import Requirement, requirements

_STATEFUL = tuple(a.name for a in ALGORITHMS.values() if a.stateful)

_OF_TEXTS = "text.lossless"

# What failed is known, whatever else could not be judged.
_SEVERITY = (SKIPPED, PASS, INCONCLUSIVE, ERROR, FAIL)


@dataclass(frozen=True)
class Decision:
    """Worst verdict of one requirement over all cases, and the finding behind it."""

    requirement: Requirement
    verdict: str
    worst: Finding
    findings: tuple[Finding, ...]

    @property
    def runs(self) -> int:
        """The runs of the program under test behind all findings."""
        return sum(finding.runs for finding in self.findings)

    @property
    def is_owed(self) -> bool:
        """True if the requirement applies to the adapter and was skipped."""
        return self.verdict == SKIPPED and self.worst.applies


@dataclass(frozen=True)
class Report:
    """Decisions of a campaign; `verdict` is that of its MUST requirements together.

    `header` has the subject and the terms, as in the evidence; `sources`, `search`,
    `counterexample` and `likeness` are as in the certificate. `asked` is the number of cases that
    were judged.
    """

    header: Mapping[str, Any]
    verdict: str
    asked: int
    decisions: tuple[Decision, ...]
    sources: Sequence[Mapping[str, Any]] | None
    search: Mapping[str, Any] | None
    counterexample: Mapping[str, Any] | None
    likeness: Mapping[str, Any] | None

    @property
    def is_partial(self) -> bool:
        """True if fewer cases were judged than planned."""
        planned: int = self.header["campaign"].get("planned", 0)
        return self.asked < planned


def report(records: Sequence[Record]) -> Report:
    """Return the report of a campaign's records, which include the counterexample."""
    plan = records
    header, records = decisive(records)
    findings = [f for record in records for f in findings_from_json(record.get("findings", ()))]
    only = header["campaign"]["only"]
    decided = tuple(
        decision
        for decision in decisions(findings, header["adapter"])
        if not only or decision.requirement.id in only
    )
    by_kind = {record["record"]: record for record in records}
    campaign = header["campaign"]
    return Report(
        header=header,
        verdict=overall(decided, strict=campaign["mode"] == "certify"),
        asked=len({record["case"] for record in plan if record["record"] == "case"}),
        decisions=decided,
        sources=by_kind["sources"]["files"] if "sources" in by_kind else None,
        search=by_kind["search"]["search"] if "search" in by_kind else None,
        counterexample=by_kind["counterexample"]["counterexample"],
        likeness=by_kind["counterexample"].get("likeness"),
    )


def decisive(records: Sequence[Record]) -> tuple[Record, Sequence[Record]]:
    """Return the header, and the records that decide.

    If a lane was found blind after all tasks were judged, they were judged again without it: the
    header says so, and earlier results do not count.
    """
    header = records[0]
    found = found_blind(records)
    if not found:
        return header, records
    campaign = header["campaign"]
    now = {records[at]["lane"]: records[at]["reason"] for at in found}
    header = {**header, "campaign": {**campaign, "blind": {**campaign["blind"], **now}}}
    return header, records[found[-1] :]


def decisions(findings: Sequence[Finding], declared: Mapping[str, Any]) -> tuple[Decision, ...]:
    """Return the decision on every requirement, in the order of the chapters.

    `declared` has the adapter's declaration, which says why some requirements do not apply.
    """
    decided = []
    for requirement in requirements().values():
        if requirement.is_of_engines != is_engine(declared):
            continue
        if requirement.id == _OF_TEXTS and "generates" not in declared:
            # Evidence that does not say whether there is a pipeline says nothing of its texts.
            continue
        own = tuple(f for f in findings if f.requirement == requirement.id)
        own = own or (_not_asked(requirement, declared),)
        worst = max(own, key=_severity)
        decided.append(Decision(requirement, worst.verdict, worst, own))
    return tuple(decided)


def is_engine(declared: Mapping[str, Any]) -> bool:
    """Return True if a whole engine was judged, from the evidence on the adapter."""
    return "engine" in declared


def overall(decided: Iterable[Decision], *, strict: bool) -> str:
    """Return the verdict over all MUST requirements; if `strict`, each owed one is inconclusive."""
    binding = (d for d in decided if d.requirement.level == "MUST")
    return over_binding(((d.verdict, d.is_owed) for d in binding), strict=strict)


def over_binding(binding: Iterable[tuple[str, bool]], *, strict: bool) -> str:
    """Return the verdict over MUST requirements, from each verdict and whether it is owed."""
    verdicts = {INCONCLUSIVE if strict and is_owed else verdict for verdict, is_owed in binding}
    return next((v for v in (FAIL, ERROR, INCONCLUSIVE) if v in verdicts), PASS)


def gravest_verdict(verdicts: Iterable[str]) -> str:
    """Return the most severe of several verdicts."""
    return max(verdicts, key=_SEVERITY.index)


def _severity(finding: Finding) -> tuple[Any, ...]:
    measured = finding.distance is not None and finding.allowed is not None
    distance = finding.distance if measured else -1
    return _SEVERITY.index(finding.verdict), finding.applies, distance


def _not_asked(requirement: Requirement, declared: Mapping[str, Any]) -> Finding:
    """Return the finding that says why no task judges a requirement for this adapter."""
    reason = _inapplicable(requirement, declared)
    told = reason or "no case of this mode asks for it"
    return Finding(requirement.id, "none", SKIPPED, detail=told, applies=not reason)


def _inapplicable(requirement: Requirement, declared: Mapping[str, Any]) -> str:
    """Return the declaration that makes a requirement inapplicable, empty if there is none."""
    if requirement.id.startswith("batch.") and not declared["batch"]:
        return "it takes one row at a time (batch = False)"
    if requirement.id == "batch.ragged":
        return "it takes rows of one length only (ragged = False)"
    if requirement.id == "batch.backends":
        return "it names no other backend to agree with (same_as)"
    if requirement.id == "law.state" and declared["algorithm"] not in _STATEFUL:
        return f"only the algorithms {', '.join(_STATEFUL)} leave a modified target"
    if requirement.id.startswith("draft.") or requirement.id == "random.iterations":
        return "it has no drafter (draft)"
    if requirement.id == _OF_TEXTS:
        return "it has no pipeline (generate)"
    return ""
