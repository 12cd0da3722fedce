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

from draftproof.conformance.adapter import Adapter
from draftproof.conformance.campaign import Decision, Report
from draftproof.conformance.counterexample import Counterexample
from draftproof.conformance.observe import Failure, Outcome
from draftproof.conformance.requirements import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Finding
from draftproof.reference.law import Law
from draftproof.reference.model import instance_to_json
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
    "The law of this version of this verifier was computed on the cases named here, with ideal "
    "noise, and compared with what is required. This says nothing about other inputs, the "
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
                "adapter": {
                    "name": report.adapter.name,
                    "version": report.adapter.version,
                    "algorithm": report.adapter.algorithm,
                    "dtype": report.adapter.dtype,
                    "device": report.adapter.device,
                    "batch": report.adapter.batch,
                    "logits": report.adapter.logits,
                    "undefined": dict(report.adapter.undefined),
                },
                "environment": _environment(),
                "requirements": [_decision(decision) for decision in report.decisions],
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
    }


def _counterexample(found: Counterexample | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "requirement": found.requirement,
        "distance": float(found.distance),
        "instance": instance_to_json(found.instance),
        "draft": [list(path) for path in found.drafts],
        "observed": _law(found.observed),
        "expected": None if found.expected is None else _law(found.expected),
        "words": list(found.words),
    }


def _law(law: Law[Any]) -> list[dict[str, Any]]:
    def entry(outcome: Outcome) -> dict[str, Any]:
        if isinstance(outcome, Failure):
            return {"failure": outcome.what}
        return {
            "path": outcome.path,
            "accepted": list(outcome.accepted),
            "next": outcome.next_token,
        }

    return [{**entry(outcome), "probability": float(weight)} for outcome, weight in law.items()]


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
