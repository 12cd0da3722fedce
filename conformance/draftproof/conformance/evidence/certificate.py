"""Certificates: the findings of a campaign, as an in-toto statement that a machine can read.

The envelope is in-toto's test-result predicate; Draftproof's own fields are under "draftproof". A
certificate follows from its evidence, word for word, and has one canonical form.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, count, groupby
from pathlib import Path
from typing import Any

from draftproof.conformance.evidence import extent
from draftproof.conformance.evidence.decision import (
    Decision,
    Report,
    decisive,
    gravest_verdict,
    is_engine,
    over_binding,
    report,
)
from draftproof.conformance.evidence.grade import contradicts, graded
from draftproof.conformance.evidence.keys import tree_root
from draftproof.conformance.evidence.records import (
    EditedEvidence,
    EmptyEvidence,
    Evidence,
    MalformedEvidence,
    NoCertificate,
    Record,
    bytes_of,
    canonical,
    found_blind,
    read_finished,
    written,
    written_elsewhere,
)
from draftproof.conformance.evidence.whole_file import write_whole
from draftproof.conformance.requirements.finding import (
    ERROR,
    FAIL,
    INCONCLUSIVE,
    OF_MANY_CASES,
    PARTIAL,
    PASS,
    SKIPPED,
    Finding,
    contradiction,
    finding_from_json,
    finding_to_json,
    findings_from_json,
)
from draftproof.spec import FileTooLarge, MalformedDocument, parsed, requirements, validate

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"

CONCLUSIONS = {
    PASS: "conforms",
    PARTIAL: "passes some cases",
    FAIL: "does not conform",
    INCONCLUSIVE: "inconclusive",
    ERROR: "could not be judged",
}
"""Names of the verdict over all MUST requirements."""

LIMITS = (
    "The law of this version of this verifier was computed, probed or sampled on the cases named "
    "here, by the lanes named, and compared with what is required. This says nothing about other "
    "inputs, the "
    "model's own numerics, the generator of random numbers, or the engine around the verifier."
)

LIMITS_OF_ENGINES = (
    "The tokens that this version of this engine wrote with a known checkpoint were compared with "
    "the rows that it owes, for the requests that the evidence names. This says nothing about "
    "other models, other settings, or longer texts."
)


@dataclass(frozen=True)
class Certificate:
    """Result of a campaign, and the records from which it follows."""

    report: Report
    records: tuple[Record, ...]

    def __repr__(self) -> str:
        told = Counter(decision.verdict for decision in self.decisions)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in told.most_common())
        name, mode = self.report.header["adapter"]["name"], self.report.header["campaign"]["mode"]
        return f"<Certificate: {name} {CONCLUSIONS[_verdict(self.report)]} ({mode}): {counts}>"

    @property
    def verdict(self) -> str:
        """Verdict of all MUST requirements together: "pass", "fail", "inconclusive" or "error"."""
        return self.report.verdict

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """Verdict and worst finding of each requirement over all cases."""
        return self.report.decisions

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Verdicts and measured distances of all requirements, one for each of their cases."""
        return tuple(chain.from_iterable(decision.findings for decision in self.decisions))

    @property
    def counterexample(self) -> Mapping[str, Any] | None:
        """The smallest failure that was found, in the form of certificates."""
        return self.report.counterexample

    def write(self, folder: Path | str) -> Path:
        """Write the certificate and its evidence; return the place of the certificate.

        Each file appears whole or not at all. Raises `OSError`.
        """
        path = place_for(self.report.header["adapter"]["name"], Path(folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        evidence = path.with_suffix(".jsonl")
        with written(evidence) as sink:
            sink.keep(*self.records)
        finished, digest = read_finished(evidence)
        write(statement(finished.records, evidence=evidence.name, digest=digest), path)
        return path


def statement(
    records: Sequence[Record], *, evidence: str, digest: str, is_slim: bool = False
) -> dict[str, Any]:
    """Return the certificate that follows from the records of a finished campaign.

    `evidence` is the name of the file that has them, `digest` its SHA-256. A slim certificate
    leaves the findings on each case to the evidence. Raises `MalformedDocument` if the certificate
    breaks its schema.
    """
    found, tasks = report(records), _tasks(records)
    header = found.header
    decided = [_decision(decision, tasks) for decision in found.decisions]
    campaign = header["campaign"]
    told: dict[str, Any] = {
        "created": header["created"],
        **{key: campaign[key] for key in ("mode", "lanes", "blind", "seed")},
        **({"cases": campaign["cases"]} if "cases" in campaign else {}),
        **({"asked": found.asked, "planned": campaign["planned"]} if "planned" in campaign else {}),
        "chance": {key: campaign[key] for key in ("false_alarm", "tests")},
        "adapter": header["adapter"],
        "environment": header["environment"],
        **({"sources": found.sources} if found.sources is not None else {}),
        **({"judged": _judged(records, tasks)} if tasks else {}),
        "grade": graded(decided),
        **_extent(header, records),
        "requirements": [_slim(each) for each in decided] if is_slim else decided,
        "search": found.search,
        "counterexample": found.counterexample,
        **({"likeness": found.likeness} if found.likeness is not None else {}),
        "known_failures": header["known_failures"],
        "limits": LIMITS_OF_ENGINES if is_engine(header["adapter"]) else LIMITS,
    }
    outcome, verdict = _outcome(told)
    document: dict[str, Any] = {
        "_type": STATEMENT,
        "subject": [_descriptor(header["subject"]["name"], header["subject"])],
        "predicateType": PREDICATE,
        "predicate": {
            "result": outcome["result"],
            "configuration": [
                _descriptor("specification", header["specification"]),
                _descriptor("suite", header["suite"]),
                {
                    "name": evidence,
                    "digest": {"sha256": digest},
                    "annotations": {"records": len(records)},
                },
            ],
            **{key: outcome[key] for key in ("passedTests", "warnedTests", "failedTests")},
            "draftproof": {"verdict": verdict, **told},
        },
    }
    return sealed(document)


def _extent(header: Mapping[str, Any], records: Sequence[Record]) -> dict[str, Any]:
    """Return the extent of comparison: a verifier's envelope, or an engine's rows and tokens."""
    if not is_engine(header["adapter"]):
        return {"envelope": extent.extent(records)}
    rows = next(record["rows"] for record in records if record["record"] == "rows")
    answers = (record["tokens"] for record in records if record["record"] == "answers")
    digest = sha256(canonical(rows).encode()).hexdigest()
    return {
        "rows": {"kind": rows["kind"], "vocabulary": rows["vocabulary"], "sha256": digest},
        "tokens": sum(len(tokens) for batch in answers for tokens in batch),
    }


def _outcome(told: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the result, the lists of tests, and the verdict that follow from the requirements."""
    decided = told["requirements"]
    ids = {
        verdict: [each["id"] for each in decided if each["verdict"] == verdict]
        for verdict in (PASS, SKIPPED)
    }
    missed = [each for each in decided if each["verdict"] not in ids]
    binding = [
        (each["verdict"], each["verdict"] == SKIPPED and each["worst"]["applies"])
        for each in decided
        if each["level"] == "MUST"
    ]
    verdict = over_binding(binding, strict=told["mode"] == "certify")
    is_partial = told.get("asked", 0) < told.get("planned", 0)
    result = "FAILED" if verdict != PASS else "WARNED" if is_partial or missed else "PASSED"
    return {
        "result": result,
        "passedTests": ids[PASS],
        "warnedTests": [each["id"] for each in missed if each["level"] != "MUST"],
        "failedTests": [each["id"] for each in missed if each["level"] == "MUST"],
    }, CONCLUSIONS[PARTIAL if verdict == PASS and is_partial else verdict]


def _require_outcome(document: Mapping[str, Any], name: str) -> None:
    """Refuse a certificate whose verdict does not follow from its requirements."""
    predicate = document["predicate"]
    told = predicate["draftproof"]
    outcome, verdict = _outcome(told)
    if told["verdict"] != verdict or {key: predicate[key] for key in outcome} != outcome:
        raise EditedEvidence(f"{name}: its verdict does not follow from its requirements")
    for each in told["requirements"]:
        known = requirements().get(each["id"])
        worst = finding_from_json(each["id"], each["worst"])
        if known is not None and known.level != each["level"]:
            raise EditedEvidence(f"{name}: {each['id']} is a {known.level}")
        counts = each.get("counts", {worst.verdict: 1})
        if not each["verdict"] == worst.verdict == gravest_verdict(counts):
            raise EditedEvidence(f"{name}: the verdict on {each['id']} is not that of its counts")
        if told_of := contradiction(worst):
            raise EditedEvidence(f"{name}: {each['id']} on {worst.case} {told_of}")
    if "envelope" in told and (told_of := extent.contradiction(told)):
        raise EditedEvidence(f"{name}: its envelope {told_of}")
    if "grade" in told and contradicts(told["grade"], told["requirements"]):
        raise EditedEvidence(f"{name}: its grade does not follow from its requirements")


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate with its digest. Raises `MalformedDocument`."""
    whole = _with_digest(document)
    validate(whole, "certificate")
    return whole


def _with_digest(document: dict[str, Any]) -> dict[str, Any]:
    predicate = document["predicate"]
    said = {key: value for key, value in predicate["draftproof"].items() if key != "digest"}
    bare = {**document, "predicate": {**predicate, "draftproof": said}}
    digest = sha256(canonical(bare).encode()).hexdigest()
    return {**bare, "predicate": {**predicate, "draftproof": {**said, "digest": digest}}}


def exit_code(document: Mapping[str, Any]) -> int:
    """Return the exit code for a certificate: 0 conforms, 1 fails, 3 unjudged, 4 inconclusive.

    A failure is final, so it counts before what could not be judged. The code is 6 if no
    requirement fails, and not all cases were judged. A requirement that is known to fail does not
    count, however it fails.
    """
    found = document["predicate"]["draftproof"]
    known = {each["id"] for each in found["known_failures"]}
    verdicts = {
        each["verdict"]
        for each in found["requirements"]
        if each["level"] == "MUST" and not (each["verdict"] == FAIL and each["id"] in known)
    }
    if found["verdict"] == CONCLUSIONS[INCONCLUSIVE]:
        # It may be what was not asked that leaves it open.
        verdicts.add(INCONCLUSIVE)
    if found.get("asked", 0) < found.get("planned", 0):
        verdicts.add(PARTIAL)
    return next((code for verdict, code in _CODES.items() if verdict in verdicts), 0)


_CODES = {FAIL: 1, ERROR: 3, INCONCLUSIVE: 4, PARTIAL: 6}


def gravest(codes: Collection[int]) -> int:
    """Return the exit code of several certificates: 5 before 3, then 1, then 4, then 6."""
    return next((code for code in (5, 3, 1, 4, 6) if code in codes), 0)


def no_longer_known(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the known failures that fail in none of the certificates."""
    said = [document["predicate"]["draftproof"] for document in documents]
    known = {each["id"] for found in said for each in found["known_failures"]}
    failing = {
        each["id"] for found in said for each in found["requirements"] if each["verdict"] == FAIL
    }
    return sorted(known - failing)


def place_for(name: str, folder: Path, *, taken: Container[Path] = ()) -> Path:
    """Return the file for the certificate of an adapter, numbered if its name is `taken`."""
    kept = "".join(c if c.isalnum() or c in "-._" else "-" for c in name).strip("-.")
    stem = kept[:100] or "adapter"
    numbered = (folder / f"{stem}-{n}.json" for n in count(2))
    return next(p for p in chain([folder / f"{stem}.json"], numbered) if p not in taken)


def write(document: dict[str, Any], path: Path) -> None:
    """Write the certificate. The file appears whole or not at all. Raises `OSError`."""
    write_whole(_text(document), path)


def read_certificate(path: Path | str) -> dict[str, Any]:
    """Return the certificate in a file. Raises `EvidenceError` if it was changed."""
    return parsed_certificate(bytes_of(Path(path)), str(path))


def parsed_certificate(content: bytes, name: str) -> dict[str, Any]:
    """Return the certificate in these bytes. Raises `EvidenceError` as `read_certificate` does."""
    if not content.strip():
        raise EmptyEvidence(f"{name}: the file is empty")
    told = f"{name} is no certificate; `draftproof certify ADAPTER` writes one"
    try:
        document: Any = parsed(content)
    except FileTooLarge as error:
        raise MalformedEvidence(f"{name}: {error}") from None
    except ValueError as error:
        if b'"_type"' not in content:
            raise NoCertificate(told) from None
        raise EditedEvidence(f"{name} is not the JSON that was written: {error}") from None
    if not isinstance(document, dict) or not {"_type", "predicate"} & set(document):
        raise NoCertificate(told)
    try:
        validate(document, "certificate")
    except MalformedDocument as error:
        raise MalformedEvidence(f"{name}: {_written_elsewhere(document) or error}") from None
    whole = _with_digest(document)
    if content not in {
        _text(whole, indent=spaces).encode() for spaces in (_INDENT, _INDENTED_FIRST)
    }:
        raise EditedEvidence(f"{name} is not what was written: its digest does not follow from it")
    _require_outcome(document, name)
    return dict(document)


def _written_elsewhere(document: Mapping[str, Any]) -> str:
    """Return the other version of the suite that wrote a certificate, empty for this version."""
    try:
        suite = document["predicate"]["configuration"][1]["annotations"]
    except (IndexError, KeyError, TypeError):
        return ""
    return written_elsewhere(suite)


def checked(
    path: Path, *, folder: Path | None = None, content: bytes | None = None
) -> tuple[dict[str, Any], Evidence | None]:
    """Return a certificate and its evidence, if one follows from the other.

    The `content` defaults to that of the file. The evidence is beside its certificate, or in the
    `folder`. A slim certificate needs no evidence: then None is returned for it. Raises
    `EvidenceError`.
    """
    document = parsed_certificate(bytes_of(path) if content is None else content, str(path))
    named = document["predicate"]["configuration"][2]
    file = (folder or path.parent) / named["name"]
    is_slim = "findings" not in document["predicate"]["draftproof"]["requirements"][0]
    if is_slim and folder is None and not file.exists():
        return document, None
    evidence, digest = read_finished(file)
    if digest != named["digest"]["sha256"]:
        raise EditedEvidence(f"{file} is not the evidence of {path}: its digest is another one")
    try:
        follows = statement(evidence.records, evidence=file.name, digest=digest, is_slim=is_slim)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # No campaign writes what has no report.
        raise MalformedEvidence(f"no certificate follows from {file}: {error}") from error
    if follows != document:
        raise EditedEvidence(f"{path} does not follow from its evidence {file}")
    plan = [record for record in evidence.records if record["record"] == "case"]
    for number, record in enumerate(evidence.records, start=1):
        where = f"{file}, line {number}"
        if record["record"] == "result":
            _require_asked(record, plan[record["task"]], where)
        for finding in findings_from_json(record.get("findings", ())):
            if told := contradiction(finding):
                raise EditedEvidence(f"{where}: {finding.requirement} on {finding.case} {told}")
    return document, evidence


def _require_asked(result: Record, asked: Record, where: str) -> None:
    """Refuse a result that does not have one finding for each requirement of its task."""
    findings = Counter((each["requirement"], each["case"]) for each in result["findings"])
    due = Counter((requirement, asked["case"]) for requirement in asked["requirements"])
    if asked["requirements"] == [OF_MANY_CASES]:
        # How many cases two backends have in common depends on both, and the plan knows of one.
        due = Counter({each: 1 for each in findings if each[0] == OF_MANY_CASES})
    for found, told in ((due - findings, "no finding"), (findings - due, "a finding too many")):
        for requirement, case in found:
            task = f"task {result['task']}, {asked['case']}"
            raise EditedEvidence(f"{where}: {task}, has {told} of {requirement} on {case}")


_INDENT, _INDENTED_FIRST = 1, 2
"""Indentation of certificates, and the indentation in their first versions."""


def _text(document: dict[str, Any], *, indent: int = _INDENT) -> str:
    return json.dumps(document, indent=indent, allow_nan=False) + "\n"


def _verdict(found: Report) -> str:
    return PARTIAL if found.verdict == PASS and found.is_partial else found.verdict


def _descriptor(name: str, identity: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "digest": {"sha256": identity["sha256"]},
        "annotations": {"version": identity["version"]},
    }


def _slim(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Return a decision without its findings, and with a short form of its worst finding."""
    worst = _in_short(finding_from_json(decision["id"], decision["worst"]))
    kept = {key: value for key, value in decision.items() if key != "findings"}
    return {**kept, "worst": finding_to_json(worst)}


def _decision(decision: Decision, tasks: Sequence[_JudgedTask]) -> dict[str, Any]:
    requirement = decision.requirement.id
    keys = [each.key for each in tasks if requirement in each.requirements]
    findings = [finding_to_json(_in_short(finding)) for finding in decision.findings]
    deciding = {finding.lane for finding in decision.findings}
    return {
        "id": requirement,
        "level": decision.requirement.level,
        "title": decision.requirement.title,
        "verdict": decision.verdict,
        "grade": next((lane for lane in _WEAKEST_FIRST if lane in deciding), None),
        "counts": dict(sorted(Counter(each.verdict for each in decision.findings).items())),
        "runs": decision.runs,
        "worst": finding_to_json(decision.worst),
        **({"root": tree_root(keys)} if tasks else {}),
        "findings": findings,
    }


_WEAKEST_FIRST = ("run", "sample", "probe", "exact")


@dataclass(frozen=True)
class _JudgedTask:
    """Requirements that a task judged, the lane that decided them, and its code key."""

    requirements: Sequence[str]
    lane: str | None
    key: str


def _tasks(records: Sequence[Record]) -> list[_JudgedTask]:
    """Return the tasks in their order; empty for evidence from before keys existed."""
    plan = [record for record in records if record["record"] == "case"]
    _, decisive_ones = decisive(records)
    results = [each for each in decisive_ones if each["record"] == "result" and "key" in each]
    if len(results) != len(plan):
        return []
    pairs = zip(plan, results, strict=True)
    return [_JudgedTask(asked["requirements"], r["lane"], r["key"]) for asked, r in pairs]


def _judged(records: Sequence[Record], tasks: Sequence[_JudgedTask]) -> dict[str, Any]:
    """Return the data from which the deciding lanes and the code keys can be derived."""
    runs = [[lane, len([*own])] for lane, own in groupby(each.lane for each in tasks)]
    alone = any(records[at].get("alone", False) for at in found_blind(records))
    return {"lanes": runs, "alone": alone}


def _in_short(finding: Finding) -> Finding:
    """Return a finding without its law, and with only the last point of its path."""
    sampled = finding.sampled and replace(finding.sampled, path=finding.sampled.path[-1:])
    return replace(finding, law=None, sampled=sampled)
