"""Command that checks certificates against their evidence: `check-certificate`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import (
    as_json,
    echo,
    nothing_printed,
    print_json,
    usage_errors,
)
from draftproof.conformance.cli.working import worked_by
from draftproof.conformance.evidence.certificate import gravest, place_for
from draftproof.conformance.report.plain import plain
from draftproof.conformance.report.words import CONFORMS, conclusion
from draftproof.reference.extras import installation


@click.command("check-certificate")
@options.certificate_files
@click.option("--rerun", is_flag=True, help="Judge again, with the same seeds, and compare.")
@click.option("--adapter", "name", help="Compare or rerun this adapter.")
@click.option(
    "--trust",
    is_flag=True,
    help="Let --rerun run what the certificate names.",
)
@click.option(
    "--evidence",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the evidence. [default: beside each certificate]",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=options.FILE,
    help="Public key to check signatures with.",
)
@click.option(
    "--require",
    "required",
    type=click.Choice((CONFORMS,)),
    help="Exit with 1 on any other verdict.",
)
@worked_by
@as_json
def check_certificate(
    certificates: tuple[Path, ...],
    name: str | None,
    trust: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Check that certificates are unchanged and follow from their evidence.

    The evidence is beside its certificate, or in the folder of --evidence; without evidence, a slim
    certificate is checked as far as possible. A valid certificate may state that its verifier does
    not conform: --require asks for one that conforms.

    With --rerun, Draftproof judges everything again, which runs the verifier: name a verifier that
    is not built in with --adapter, or accept the name in the certificate with --trust. On the same
    platform (processor, system and libraries) all results must be identical, to the bit. Elsewhere
    a distance may move by twice what rounding explains of one distribution, and a verdict only
    together with its distance.

    A certificate is current if its verifier is unchanged and the same code would judge it; it is
    stale if either has changed. Draftproof compares a verifier that is not built in only if
    --adapter names it. Staleness does not change the exit code; only --rerun refuses a stale
    certificate.
    """
    terms = _Terms(name, trusted=trust or name is not None, **asked)
    checked = [_check(path, terms) for path in certificates]
    code = gravest({code for _, code in checked})
    if as_json:
        found = [document for document, _ in checked]
        print_json({"certificates": found, "exit_code": code}, "check")
    else:
        for document, _ in checked:
            _print(document, is_key_named=bool(terms.keys))
        _print_count([document for document, _ in checked])
    sys.exit(code)


@dataclass(frozen=True)
class _Terms:
    """Checks to make on each certificate, from the options of the command."""

    name: str | None
    trusted: bool
    rerun: bool
    folder: Path | None
    keys: Sequence[Path]
    required: str | None
    working: Mapping[str, Any]


def _check(path: Path, terms: _Terms) -> tuple[dict[str, Any], int]:
    """Return the outcome for one certificate, and its exit code."""
    from draftproof.conformance.evidence.records import EvidenceError

    told: dict[str, Any] = {
        "file": str(path),
        "error": None,
        "signed": None,
        "recounted": None,
        "standing": None,
        "rerun": None,
    }
    try:
        return _checked(path, terms, told)
    except EvidenceError as error:
        return {**told, "error": f"{type(error).__name__}: {error}"}, 5
    except _NotRun as error:
        return {**told, "error": str(error)}, 3


def _checked(path: Path, terms: _Terms, told: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Complete the outcome for a certificate, and return it with the exit code.

    Raises `EvidenceError` for a changed certificate, and `_NotRun`.
    """
    from draftproof.conformance.evidence import certificate
    from draftproof.conformance.evidence.decision import is_engine
    from draftproof.conformance.run import staleness

    content, told["signed"] = _opened(path, terms.keys)
    document, evidence = certificate.checked(path, folder=terms.folder, content=content)
    said = document["predicate"]["draftproof"]
    told |= {"verdict": said["verdict"], "conclusion": conclusion(said)}
    named = document["predicate"]["configuration"][2]
    told["evidence"] = {"name": named["name"], **named["digest"]}
    if evidence is not None:
        told["records"] = len(evidence.records)
        told["recounted"] = _recounted(evidence)
    with nothing_printed():
        found = staleness.standing(document, terms.name)
    told["standing"] = staleness.standing_to_json(found)
    if terms.rerun:
        if evidence is None:
            raise _NotRun(f"{path}: its evidence is missing: name its folder with --evidence")
        if is_engine(said["adapter"]):
            raise _NotRun(
                f"{path}: an engine draws different tokens each time, so --rerun cannot repeat "
                f"them; the tokens in the evidence were judged again"
            )
        if not terms.trusted:
            _require_built_in(said["adapter"]["place"])
        told["rerun"] = _repeated(evidence, terms.name, terms.working)
        told["standing"] = staleness.standing_to_json(staleness.judged_again(found))
        if told["rerun"]["different"]:
            return told, 5
    elif terms.name is not None and found.subject.now is None:
        return {**told, "error": f"cannot compare {terms.name}: {found.subject.reason}"}, 3
    signed = told["signed"]
    if terms.keys and not (signed and signed["verified"]):
        who = "unsigned" if signed is None else "signed by other keys"
        return {**told, "error": f"{path}: {who}; no signature matches --key"}, 5
    if terms.required not in (None, told["verdict"]):
        needed = f"{told['conclusion']}, where {terms.required!r} is required"
        return {**told, "error": f"{path}: {needed}"}, 1
    return told, 0


def _require_built_in(place: str) -> None:
    """Refuse to run the verifier that an untrusted certificate names."""
    from draftproof.conformance.protocol.loading import built_in

    if place not in built_in().values():
        raise _NotRun(
            f"--rerun would run {place!r}, which the certificate names: name the verifier "
            f"with --adapter, or trust the certificate with --trust"
        )


def _opened(path: Path, keys: Sequence[Path]) -> tuple[bytes, dict[str, Any] | None]:
    """Return the bytes of a certificate, and its signers, None if it is unsigned."""
    from draftproof.conformance.evidence.envelope import InvalidKey, is_envelope, read_envelope
    from draftproof.conformance.evidence.records import bytes_of

    content = bytes_of(path)
    if not is_envelope(content):
        return content, None
    envelope = read_envelope(path)
    with usage_errors(InvalidKey):
        verified = envelope.signed_by(keys)
    pairs = zip(envelope.signatures, verified, strict=True)
    return envelope.content, {
        "keys": [who or hint or "a key without a name" for (hint, _), who in pairs],
        "verified": [who for who in verified if who is not None],
    }


class _NotRun(Exception):
    """The certificate could not be judged again."""


def _recounted(evidence: Any) -> int | None:
    """Return how many verdicts follow from their counts; None if that cannot be checked."""
    from draftproof.conformance.evidence.decision import is_engine

    if is_engine(evidence.header["adapter"]):
        from draftproof.conformance.run.engines import recounted as followed

        return followed(evidence)
    try:
        from draftproof.conformance.run.rerun import recounted
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return None
    return recounted(evidence)


def _repeated(evidence: Any, name: str | None, working: Mapping[str, Any]) -> dict[str, Any]:
    try:
        from draftproof.conformance.protocol.adapter import UnknownAdapter
        from draftproof.conformance.report import terminal
        from draftproof.conformance.run import campaign
        from draftproof.conformance.run.rerun import repeat
        from draftproof.conformance.run.workers import Workers
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise _NotRun(f"--rerun needs PyTorch: {installation('torch')}") from None
    try:
        with nothing_printed():
            workers, progress = Workers(**working), terminal.shown_progress
            return asdict(repeat(evidence, name=name, workers=workers, progress=progress))
    except UnknownAdapter as error:
        raise _NotRun(f"{error}; name it with --adapter") from None
    except campaign.UNJUDGED as error:
        raise _NotRun(str(error)) from None


def _print(told: Mapping[str, Any], *, is_key_named: bool) -> None:
    if told["standing"] is not None:
        _print_checked(told, is_key_named=is_key_named)
    if told["error"] is not None:
        echo(f"Error: {told['error']}", err=True)


def _print_checked(told: Mapping[str, Any], *, is_key_named: bool) -> None:
    """Print the outcome for a certificate that is unchanged."""
    has_evidence = "records" in told
    as_it_was = f"unchanged{' and consistent with its evidence' if has_evidence else ''}"
    name = plain(told["standing"]["subject"]["then"]["name"])
    # A file may have been given the name of another verifier.
    whose = "" if place_for(name, Path()).stem in Path(told["file"]).stem else f"{name} "
    echo(f"{told['file']}: {whose}{plain(told['conclusion'])}, {as_it_was}")
    for line in _state(told["standing"]):
        echo(f"  {plain(line)}")
    echo(f"  {_signatures(told['signed'], is_key_named=is_key_named)}")
    if has_evidence:
        echo(f"  {told['records']} records, none lost, added or changed")
    else:
        named, digest = plain(told["evidence"]["name"]), told["evidence"]["sha256"][:12]
        echo(f"  slim: its evidence, {named} (SHA-256 {digest}), is not included")
    if told["recounted"]:
        echo(f"  {told['recounted']} verdicts on samples follow from their counts")
    if told["rerun"] is not None:
        _print_rerun(told["rerun"])


def _signatures(signed: Mapping[str, Sequence[str]] | None, *, is_key_named: bool) -> str:
    """Return the signers of a certificate, and whether their signatures were checked."""
    if signed is None:
        return "unsigned"
    unchecked = "matches no --key" if is_key_named else "not checked: name its key with --key"
    told = (
        f"{key[:16]} ({'valid' if key in signed['verified'] else unchecked})"
        for key in map(plain, signed["keys"])
    )
    return f"signed by {', '.join(told)}"


def _state(standing: Mapping[str, Any]) -> Iterator[str]:
    """Yield whether a certificate is current, what has changed, and how to judge again."""
    state, reason = standing["state"], standing["reason"]
    if reason is None:
        yield f"{state}: its verifier is unchanged, and the same code would judge it"
        return
    yield f"{state}: {reason}"
    for name, part in (
        ("verifier", standing["subject"]),
        ("specification", standing["specification"]),
        ("suite", standing["suite"]),
    ):
        if part["now"] is None and state == "stale":
            yield f"  {name}: not compared: {part['reason']}"
        elif part["now"] not in (None, part["then"]):
            yield f"  {name}: was {_identity(part['then'])}, is {_identity(part['now'])}"
    if standing["judged"] and standing["subject"]["now"] == standing["subject"]["then"]:
        yield f"  judged differently now: {', '.join(standing['judged'])}"
    if standing["subject"]["now"] is None and not standing["command"].startswith(
        "draftproof engine"
    ):
        yield "  compare the verifier: --adapter ./FILE.py:ATTRIBUTE"
    if state == "stale":
        yield f"  judge again: {standing['command']}"


def _identity(part: Mapping[str, str]) -> str:
    named = (part[key] for key in ("name", "version") if key in part)
    return f"{' '.join(named)} ({part['sha256'][:12]})"


def _print_count(checked: Sequence[Mapping[str, Any]]) -> None:
    """Print how many of several certificates are in which state."""
    states = Counter(each["standing"]["state"] for each in checked if each["standing"])
    if len(checked) > 1 and states:
        listed = ", ".join(f"{states[state]} {state}" for state in sorted(states))
        echo(f"{states.total()} certificates: {listed}")


def _print_rerun(rerun: Mapping[str, Any]) -> None:
    echo(f"  judged again: {rerun['same']} parts identical, to the bit")
    if rerun["elsewhere"]:
        echo(f"  elsewhere: {'; '.join(rerun['elsewhere'])}")
        echo(f"  {rerun['near']} parts identical up to rounding{_bound(rerun['moved'])}")
    for verdict in rerun["turned"]:
        echo(f"  within rounding: {verdict}")
    for part in rerun["different"]:
        echo(f"  DIFFERENT: {part}")
    if rerun["different"]:
        echo("Error: judging again gave different evidence", err=True)


def _bound(moved: Mapping[str, float] | None) -> str:
    """Describe how far distances moved, by the distance that came nearest to its bound."""
    if moved is None:
        return ""
    return f": a distance moved by {moved['by']:.1e}, the bound is {moved['bound']:.1e}"
