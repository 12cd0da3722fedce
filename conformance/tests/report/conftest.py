"""Certificates to be shown, made without judging anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from draftproof.conformance.evidence import certificate as certificate_of
from draftproof.conformance.evidence.extent import extent
from draftproof.conformance.protocol.adapter import LAYOUTS
from draftproof.spec import validate

Make = Callable[..., dict[str, Any]]

DIGEST = "0123456789abcdef" * 4

HOSTILE = (
    "<script>alert(1)</script> \"quoted\" 'single' `tick` a|b *c* @team </table> \x1b[31m\ud800"
)
"""What a name or a reason may hold, to get out of where it stands."""

WORDS = {
    "requirement": "law.lossless",
    "distance": 0.25,
    "instance": {
        "vocabulary": 2,
        "length": 1,
        "drafts": 1,
        "scheme": "iid",
        "target": ["0", "1"],
        "draft": ["1/2", "1/2"],
    },
    "draft": [[1]],
    "observed": [
        {"path": 0, "accepted": [1], "next": 0, "probability": 0.5},
        {"path": 0, "accepted": [1], "next": 1, "probability": 0.5},
    ],
    "expected": [{"path": 0, "accepted": [1], "next": 1, "probability": 1.0}],
    "words": ["law.lossless fails at V=2, L=1, K=1: distance 1/4", "drafted: [1]"],
}
"""A counterexample: half of what should be certain."""


def _finding(**changes: Any) -> dict[str, Any]:
    return {
        "case": "generic.v2.l1",
        "verdict": "pass",
        "distance": 1e-8,
        "allowed": 1e-5,
        "lane": "exact",
        "runs": 40,
        "detail": "",
        "sampled": None,
        "lengths": None,
        "law": None,
        "applies": True,
        **changes,
    }


def _sampled(**changes: Any) -> dict[str, Any]:
    return {
        "false_alarm": 1e-11,
        "log_evidence": 3.0,
        "bound": 0.02,
        "detectable": 0.03,
        "power": 0.9,
        "path": [[256, 0.0], [1024, 1.5], [4096, 3.0]],
        "stream": DIGEST,
        **changes,
    }


def _decision(
    identity: str = "law.lossless",
    *findings: Mapping[str, Any],
    level: str = "MUST",
    title: str = "A title",
    **changes: Any,
) -> dict[str, Any]:
    """Return what a requirement came to: by the findings, the first one the worst, or by one."""
    worst, *others = findings or (_finding(**changes),)
    return {
        "id": identity,
        "level": level,
        "title": title,
        "verdict": worst["verdict"],
        "runs": sum(each["runs"] for each in (worst, *others)),
        "counts": dict(Counter(each["verdict"] for each in (worst, *others))),
        "worst": worst,
        "findings": [worst, *others],
    }


def _certificate(
    *decisions: Mapping[str, Any],
    name: str = "mine",
    verdict: str = "conforms",
    mode: str = "standard",
    counterexample: Mapping[str, Any] | None = None,
    known: Mapping[str, str] | None = None,
    blind: Mapping[str, str] | None = None,
    follows: bool = True,
    **changes: Any,
) -> dict[str, Any]:
    """Return a certificate, which `follows` its schema."""
    requirements: Sequence[Mapping[str, Any]] = decisions or [_decision()]
    of = {
        kind: [each["id"] for each in requirements if each["verdict"] == kind]
        for kind in ("pass", "fail")
    }
    document: dict[str, Any] = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": DIGEST}, "annotations": {"version": "1.0"}}
        ],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": "PASSED" if verdict == "conforms" else "FAILED",
            "configuration": [
                {"name": part, "digest": {"sha256": DIGEST}, "annotations": {"version": "0.1.0"}}
                for part in ("specification", "suite")
            ]
            + [{"name": "e.jsonl", "digest": {"sha256": DIGEST}, "annotations": {"records": 3}}],
            "passedTests": of["pass"],
            "warnedTests": [],
            "failedTests": of["fail"],
            "draftproof": {
                "verdict": verdict,
                "created": "2026-01-01T12:00:00+00:00",
                "mode": mode,
                "lanes": ["exact", "probe", "sample"],
                "blind": dict(blind or {}),
                "seed": 7,
                "chance": {"false_alarm": 1e-9, "tests": 100},
                "adapter": {
                    "name": name,
                    "version": "1.0",
                    "algorithm": "token",
                    "place": "./mine.py:Mine",
                    "dtype": "float32",
                    "dtypes": ["float32"],
                    "device": "cpu",
                    "max_drafts": 1,
                    "scheme": "iid",
                    "batch": True,
                    "ragged": False,
                    "logits": False,
                    "trees": False,
                    "at_once": 1,
                    "drafts": False,
                    "noise": {},
                    "undefined": {},
                },
                "environment": {"python": "3.11"},
                "requirements": list(requirements),
                "search": None,
                "counterexample": counterexample,
                "limits": "It says nothing about other inputs.",
                "known_failures": [{"id": k, "issue": v} for k, v in (known or {}).items()],
                "digest": DIGEST,
                **changes,
            },
        },
    }
    if follows:
        outcome, _ = certificate_of._outcome(document["predicate"]["draftproof"])
        document["predicate"].update(outcome)
        validate(document, "certificate")
    return document


@pytest.fixture(scope="session")
def envelope() -> dict[str, Any]:
    """Return the envelope of a few laws, long ones and large ones apart."""
    adapter = {"batch": True, "max_drafts": 1, "ragged": False, "logits": False, "trees": False}
    plain = {
        "rows": 1,
        "length": 2,
        "drafts": 1,
        "vocabulary": 3,
        "dtype": "float32",
        "layout": "contiguous",
        "generator": "given",
        "call": 1,
        "atoms": 3,
        "laws": 1,
        "ragged": False,
        "logits": False,
        "trees": False,
        "smallest_q": 0.25,
        "distance": 0.5,
    }
    changes: Sequence[tuple[str, dict[str, Any]]] = (
        ("exact", {"length": 33}),
        ("exact", {"rows": 1024, "distance": 0.0}),
        ("exact", {"layout": "strided"}),
        ("sample", {"vocabulary": 262_144, "smallest_q": 1e-7}),
    )
    results = [
        {
            "record": "result",
            "lane": lane,
            "findings": [{"verdict": "pass"}],
            "compared": [{**plain, **own}],
        }
        for lane, own in changes
    ]
    taken = {"dtypes": ["float32"], "layouts": [*LAYOUTS], "generators": True, "device": "cpu"}
    header = {"record": "header", "adapter": {**adapter, **taken}}
    return extent([header, *results])


@pytest.fixture(scope="session")
def finding() -> Make:
    return _finding


@pytest.fixture(scope="session")
def sampled() -> Make:
    return _sampled


@pytest.fixture(scope="session")
def decision() -> Make:
    return _decision


@pytest.fixture(scope="session")
def certificate() -> Make:
    return _certificate


@pytest.fixture(scope="session")
def conforming() -> dict[str, Any]:
    """Return a certificate of every kind of figure, by the exact lane and by samples."""
    law = [
        {"text": [0, 0], "observed": 0.25 + 1e-8, "expected": 0.25},
        {"text": [0, 1], "observed": 0.75 - 1e-8, "expected": 0.75},
    ]
    lengths = [{"observed": 0.9, "optimum": 1.0}, {"observed": 0.5, "optimum": 0.5}]
    return _certificate(
        _decision("law.lossless", _finding(law=law), _finding(case="generic.v3.l2")),
        _decision(
            "length.bounded",
            *(_finding(case=f"case.{n}", lengths=each) for n, each in enumerate(lengths)),
        ),
        _decision("random.calls", lane="sample", sampled=_sampled(), case="calls.same"),
        _decision(
            "random.boundary",
            level="SHOULD",
            verdict="fail",
            distance=None,
            allowed=None,
            detail="it gives 0",
        ),
        _decision(
            "batch.ragged",
            verdict="skipped",
            applies=False,
            case="none",
            lane=None,
            distance=None,
            allowed=None,
            runs=0,
            detail="it takes rows of one length only (ragged = False)",
        ),
    )


@pytest.fixture(scope="session")
def failing() -> dict[str, Any]:
    """Return a certificate of a lossy verifier, some of whose failures are known."""
    law = [
        {"text": [1, 1], "observed": 0.75, "expected": 1.0},
        {"text": [1, 0], "observed": 0.25, "expected": 0.0},
    ]
    forbidden = _sampled(log_evidence=None, detectable=None, path=[[256, 2.0], [512, None]])
    return _certificate(
        _decision("law.prefix"),
        _decision("law.lossless", distance=0.25, verdict="fail", law=law, detail="it is lossy"),
        _decision("law.support", lane="sample", verdict="fail", distance=0.1, sampled=forbidden),
        # As wide as a row can be.
        _decision(
            "random.iterations",
            verdict="inconclusive",
            lane="sample",
            sampled=_sampled(),
            detail="too few runs",
        ),
        _decision("number.dtypes", verdict="error", detail="it raises", lane=None),
        name="lossy",
        verdict="does not conform",
        counterexample=WORDS,
        known={"law.lossless": "https://example.org/issues/1"},
        blind={"probe": "it draws elsewhere"},
    )


@pytest.fixture(scope="session")
def hostile() -> dict[str, Any]:
    """Return a certificate that tries to be more than text wherever a string may stand."""
    return _certificate(
        _decision(
            HOSTILE, verdict="fail", case=HOSTILE, detail=f"{HOSTILE}\nand more", title=HOSTILE
        ),
        _decision("sampled" + "x" * 300, lane="sample", sampled=_sampled(), case="y" * 300),
        name=HOSTILE,
        verdict="does not conform",
        counterexample={**WORDS, "words": [HOSTILE, "```"]},
        known={HOSTILE: "javascript:alert(1)", "law.lossless": 'https://x.org/"onclick="alert(1)'},
        blind={HOSTILE: HOSTILE},
        limits=HOSTILE,
        environment={HOSTILE: HOSTILE},
        # A schema refuses it; forms do not rely on that.
        follows=False,
    )
