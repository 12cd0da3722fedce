"""Certificates: what a campaign found, as an in-toto statement that a machine can read.

The envelope is in-toto's test-result predicate; what only we know stands in it under "draftproof".
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Container
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from itertools import chain, count
from pathlib import Path
from typing import Any

from draftproof.conformance.adapter import Adapter, Declaration
from draftproof.conformance.campaign import Decision, Report
from draftproof.conformance.counterexample import BatchCounterexample, Counterexample
from draftproof.conformance.exchange import Failure, Outcome
from draftproof.conformance.finding import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Finding
from draftproof.conformance.search import search_to_json
from draftproof.reference.drafting import Drafts
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, instance_to_json
from draftproof.spec import chapters, validate

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"

CONCLUSIONS = {
    PASS: "conforms",
    FAIL: "does not conform",
    INCONCLUSIVE: "inconclusive",
    ERROR: "could not be judged",
}
"""What the verdict over all MUST requirements is called."""

LIMITS = (
    "The law of this version of this verifier was computed, probed or sampled on the cases named "
    "here, by the lanes named, and compared with what is required. This says nothing about other "
    "inputs, the "
    "model's own numerics, the generator of random numbers, or the engine around the verifier."
)


def statement(
    report: Report, adapter: Adapter, *, created: datetime | None = None
) -> dict[str, Any]:
    """Return the certificate of a report. Raises `MalformedDocument` if it breaks its schema."""
    ids = {
        verdict: [d.requirement.id for d in report.decisions if d.verdict == verdict]
        for verdict in (PASS, SKIPPED)
    }
    missed = [d for d in report.decisions if d.verdict not in ids]
    document = {
        "_type": STATEMENT,
        "subject": [
            {
                "name": f"{report.adapter.name} {report.adapter.version}",
                "digest": {"sha256": _source_digest(adapter)},
            }
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "result": _result(report),
            "configuration": [
                {"name": "specification", "digest": {"sha256": _specification_digest()}},
                {"name": "draftproof", "annotations": {"version": version("draftproof")}},
            ],
            "passedTests": ids[PASS],
            "warnedTests": [d.requirement.id for d in missed if d.requirement.level != "MUST"],
            "failedTests": [d.requirement.id for d in missed if d.requirement.level == "MUST"],
            "draftproof": {
                "verdict": CONCLUSIONS[report.verdict],
                "created": (created or datetime.now(UTC)).isoformat(timespec="seconds"),
                "tier": report.tier,
                "lanes": list(report.lanes),
                "blind": dict(report.blind),
                "seed": report.seed,
                "chance": {"false_alarm": report.false_alarm, "tests": report.tests},
                "adapter": {**_adapter(report.adapter), "place": report.place},
                "environment": _environment(),
                "requirements": [_decision(decision) for decision in report.decisions],
                "search": None if report.search is None else search_to_json(report.search),
                "counterexample": _counterexample(report.counterexample),
                "limits": LIMITS,
            },
        },
    }
    validate(document, "certificate")
    return document


def write(document: dict[str, Any], folder: Path, *, taken: Container[Path] = ()) -> Path:
    """Write the certificate into the folder, which is made if need be, and return its path.

    It is named for the adapter, and numbered if that name is `taken`. The file appears whole or
    not at all. Raises `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = document["predicate"]["draftproof"]["adapter"]["name"]
    kept = "".join(c if c.isalnum() or c in "-._" else "-" for c in name).strip("-.")
    stem = kept[:100] or "adapter"
    numbered = (folder / f"{stem}-{n}.json" for n in count(2))
    path = next(p for p in chain([folder / f"{stem}.json"], numbered) if p not in taken)
    unfinished = path.with_suffix(".json.part")
    unfinished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return path


def _result(report: Report) -> str:
    if report.verdict != PASS:
        return "FAILED"
    ok = all(d.verdict in (PASS, SKIPPED) for d in report.decisions)
    return "PASSED" if ok else "WARNED"


def _adapter(declared: Declaration) -> dict[str, Any]:
    return {
        **vars(declared),
        "dtypes": list(declared.dtypes),
        "noise": {name: list(form) for name, form in declared.noise.items()},
        "undefined": dict(declared.undefined),
    }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "id": decision.requirement.id,
        "level": decision.requirement.level,
        "title": decision.requirement.title,
        "verdict": decision.verdict,
        "runs": decision.runs,
        "worst": _finding(decision.worst),
        "findings": [_finding(finding) for finding in decision.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "case": finding.case,
        "verdict": finding.verdict,
        "distance": None if finding.distance is None else float(finding.distance),
        "allowed": None if finding.allowed is None else float(finding.allowed),
        "lane": finding.lane,
        "runs": finding.runs,
        "detail": finding.detail,
        "sampled": None if finding.sampled is None else vars(finding.sampled),
        "share": None if finding.share is None else float(finding.share),
    }


def _counterexample(found: Counterexample | BatchCounterexample | None) -> dict[str, Any] | None:
    if found is None:
        return None
    told = {
        "requirement": found.requirement,
        "distance": float(found.distance),
        "words": list(found.words),
    }
    if isinstance(found, BatchCounterexample):
        return {
            **told,
            "rows": [_asked(instance, drafts) for instance, drafts in found.rows],
            "observed": _joint_law(found.observed),
            "expected": _joint_law(found.expected),
        }
    return {
        **told,
        **_asked(found.instance, found.drafts),
        "observed": _law(found.observed),
        "expected": None if found.expected is None else _law(found.expected),
    }


def _asked(instance: Instance, drafts: Drafts) -> dict[str, Any]:
    return {"instance": instance_to_json(instance), "draft": [list(path) for path in drafts]}


def _law(law: Law[Outcome]) -> list[dict[str, Any]]:
    return [{**_outcome(outcome), "probability": float(weight)} for outcome, weight in law.items()]


def _joint_law(law: Law[tuple[Outcome, ...]]) -> list[dict[str, Any]]:
    return [
        {"rows": [_outcome(row) for row in rows], "probability": float(weight)}
        for rows, weight in law.items()
    ]


def _outcome(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Failure):
        return {"failure": outcome.what}
    return {
        "path": outcome.path,
        "accepted": list(outcome.accepted),
        "next": outcome.next_token,
    }


def _environment() -> dict[str, str]:
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": str(torch.__version__),
        "sympy": version("sympy"),
    }


def _source_digest(adapter: Adapter) -> str:
    """Return the digest of the file that defines the adapter."""
    file = getattr(sys.modules.get(type(adapter).__module__), "__file__", None)
    source = Path(file).read_bytes() if file else repr(type(adapter)).encode()
    return sha256(source).hexdigest()


def _specification_digest() -> str:
    digest = sha256()
    for chapter in chapters():
        digest.update(chapter.read_bytes())
    return digest.hexdigest()
