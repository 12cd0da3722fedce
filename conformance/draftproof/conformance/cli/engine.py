"""Command that judges a whole engine by its output: `engine`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import randbits
from typing import TYPE_CHECKING, Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import (
    as_json,
    echo,
    nothing_printed,
    print_json,
    print_report,
    stop,
    usage_errors,
)
from draftproof.conformance.report import rendered

if TYPE_CHECKING:
    from draftproof.conformance.checkpoint.rows import KnownRows
    from draftproof.conformance.lanes.engine.parts import Part
    from draftproof.conformance.run.answers import Source
    from draftproof.conformance.run.engines import EngineCampaign


@click.command()
@click.argument("adapter", required=False)
@click.option("--url", metavar="URL", help="Judge an OpenAI-compatible server.")
@click.option("--control-url", metavar="URL", help="The same server without speculation.")
@click.option(
    "--tokens",
    "written_file",
    type=options.NEW_FILE,
    help="Judge an engine's token ids: lines of JSON.",
)
@click.option("--model", help="Name of the server's model. [default: its only model]")
@click.option(
    "--rows", "rows_file", required=True, type=options.NEW_FILE, help="Checkpoint's rows.json."
)
@options.defaulted(
    "--tokens-at-most",
    "tokens",
    type=click.IntRange(min=1),
    default=200_000,
    help="Maximum tokens; a file is read in full.",
)
@click.option(
    "--dtype",
    type=click.Choice(("float32", "bfloat16")),
    help="Dtype of the engine. [default: that of the rows]",
)
@click.option("--draft-length", type=click.IntRange(min=1), help="Tokens drafted per step.")
@options.output_folder(
    default=Path("certificates"), help="Folder for the certificate and its evidence."
)
@options.form(help="Format of the report.")
@options.verbose
@click.option("--resume", is_flag=True, help="Continue an interrupted run.")
@options.seed
@as_json
def engine(
    adapter: str | None,
    url: str | None,
    control_url: str | None,
    written_file: Path | None,
    model: str | None,
    rows_file: Path,
    tokens: int,
    dtype: str | None,
    draft_length: int | None,
    output: Path,
    form: str,
    resume: bool,
    verbose: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Judge a whole engine that has loaded a model written by `draftproof checkpoint`.

    Name a server (--url), a file of tokens that an engine wrote (--tokens), or an ADAPTER:
    package.module:attribute or ./file.py:attribute, where the attribute is an object with `name`,
    `version` and `generate`, or a class that makes such an object from the checkpoint's folder.
    """
    if sum(each is not None for each in (adapter, url, written_file)) != 1:
        raise click.UsageError(
            "name exactly one: an ADAPTER, a server with --url, or a file with --tokens"
        )
    if control_url is not None and url is None:
        raise click.UsageError("--control-url needs --url: an ADAPTER is its own control")
    from draftproof.conformance.checkpoint.rows import UnreadableRows, read_rows
    from draftproof.conformance.lanes.engine.lines import UnreadableTokens
    from draftproof.conformance.lanes.engine.server import EngineFailed, InvalidUrl

    form = "json" if as_json else form
    with usage_errors(UnreadableRows):
        rows = read_rows(rows_file)
    key = os.environ.get("OPENAI_API_KEY")
    try:
        with usage_errors(InvalidUrl, UnreadableTokens), nothing_printed():
            if url is not None:
                subject = _of_server(url, control_url, rows, model=model, key=key)
            elif written_file is not None:
                subject = _of_file(written_file, rows)
            elif adapter is not None:
                subject = _of_program(adapter, rows_file.absolute().parent)
        campaign = _campaign(subject, rows, tokens, seed, dtype, draft_length)
        document, path = _judged(campaign, subject, output, resume=resume)
    except EngineFailed as error:
        stop(str(error), 3)
    from draftproof.conformance.evidence.certificate import exit_code

    code = exit_code(document)
    if form == "json":
        outcome = {"certificates": [document], "errors": [], "exit_code": code}
        print_json(outcome, "certify")
    elif form == "terminal":
        from draftproof.conformance.report import terminal

        terminal.print_certificate(terminal.console(), document, path, verbose=verbose)
    else:
        print_report(rendered([document], form))
    sys.exit(code)


@dataclass(frozen=True)
class _Subject:
    """An engine, the source of its answers, and its declared properties."""

    name: str
    version: str
    source: Source
    kind: str
    place: str
    control: str | None
    digest: str
    vouched: bool = False
    settings: tuple[str, ...] = ()
    streams: bool = False
    draft_length: int | None = None
    written: tuple[Part, ...] = ()
    tokens: int | None = None
    """Number of tokens in a file; None for other sources."""


def _of_server(
    url: str, control_url: str | None, rows: KnownRows, *, model: str | None, key: str | None
) -> _Subject:
    from hashlib import sha256

    from draftproof.conformance.lanes.engine.server import Server
    from draftproof.conformance.run.answers import asked_of

    server = Server(url, rows, model, key)
    control = None if control_url is None else Server(control_url, rows, model, key)
    for each in (server, control):
        if each is not None:
            each.begin()
            each.probe()
    return _Subject(
        *(server.name, server.version, asked_of(server, control), "server", url, control_url),
        sha256(url.encode()).hexdigest(),
        settings=tuple(
            each for each in server.settings if control is None or each in control.settings
        ),
        streams=True,
    )


def _of_file(path: Path, rows: KnownRows) -> _Subject:
    from hashlib import sha256

    from draftproof.conformance.lanes.engine.lines import read_tokens
    from draftproof.conformance.run.answers import read_from

    written = read_tokens(path, rows)
    return _Subject(
        *(path.stem, "unknown", read_from(written), "tokens", str(path)),
        control=str(path) if any(part.has_control for part in written.parts) else None,
        digest=sha256(path.read_bytes()).hexdigest(),
        written=written.parts,
        tokens=written.tokens,
    )


def _of_program(name: str, folder: Path) -> _Subject:
    """Return the engine of this name; a class is called with the folder of the checkpoint."""
    from draftproof.conformance.lanes.engine.asking import SETTINGS, Engine
    from draftproof.conformance.lanes.engine.server import EngineFailed
    from draftproof.conformance.protocol.adapter import AdapterFailed, UnknownAdapter
    from draftproof.conformance.protocol.loading import load_attribute, source_digest
    from draftproof.conformance.run.answers import asked_of

    if not all(name.rpartition(":")):
        raise click.UsageError(
            f"name an engine as package.module:attribute or ./file.py:attribute, got {name!r}"
        )
    try:
        found: Any = load_attribute(name)
        if isinstance(found, type):
            make: Any = found
            found = make(folder)
    except UnknownAdapter as error:
        raise click.UsageError(str(error)) from None
    except AdapterFailed as error:
        raise EngineFailed(str(error)) from error
    except (Exception, SystemExit) as error:
        raise EngineFailed(
            f"{name}({str(folder)!r}) raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, Engine):
        missing = [each for each in ("name", "version", "generate") if not hasattr(found, each)]
        raise click.UsageError(f"{name} is not an engine: it has no {', '.join(missing)}")
    _require_attributes(found, name)
    program: Any = found
    is_switchable = bool(getattr(found, "switchable", True))
    return _Subject(
        *(str(found.name), str(found.version), asked_of(found), "program", name),
        control=name if is_switchable else None,
        digest=source_digest(program),
        vouched=True,
        settings=tuple(getattr(found, "settings", SETTINGS)),
        streams=bool(getattr(found, "streams", False)),
        draft_length=getattr(found, "draft_length", None),
    )


def _require_attributes(found: Any, name: str) -> None:
    """Refuse an engine with attributes that a certificate cannot hold, before any request."""
    from draftproof.conformance.lanes.engine.asking import SETTINGS

    for attribute in ("name", "version"):
        told = getattr(found, attribute)
        if not isinstance(told, str) or not told.isprintable() or not told.strip():
            raise click.UsageError(f"{name}: {attribute} must be a line of text, got {told!r}")
    length = getattr(found, "draft_length", None)
    if length is not None and (type(length) is not int or length < 1):
        raise click.UsageError(f"{name}: draft_length must be None or at least 1, got {length!r}")
    settings = tuple(getattr(found, "settings", SETTINGS))
    if unknown := [each for each in settings if each not in SETTINGS]:
        raise click.UsageError(
            f"{name}: settings must be among {', '.join(SETTINGS)}, got {unknown[0]!r}"
        )


def _campaign(
    subject: _Subject,
    rows: KnownRows,
    tokens: int,
    seed: int | None,
    dtype: str | None,
    draft_length: int | None,
) -> EngineCampaign:
    from draftproof.conformance.run.engines import EngineCampaign, environment

    return EngineCampaign(
        rows=rows,
        place=subject.place,
        name=subject.name,
        version=subject.version,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=randbits(32) if seed is None else seed,
        kind=subject.kind,
        digest=subject.digest,
        vouched=subject.vouched,
        settings=subject.settings,
        streams=subject.streams,
        draft_length=draft_length or subject.draft_length,
        control=subject.control,
        tokens=subject.tokens or tokens,
        written=subject.written,
        dtype=dtype or rows.dtype,
        environment=environment(),
    )


def _judged(
    campaign: EngineCampaign, subject: _Subject, output: Path, *, resume: bool
) -> tuple[dict[str, Any], Path]:
    """Judge an engine, and write evidence, certificate and badge."""
    from dataclasses import replace

    from draftproof.conformance.evidence import certificate
    from draftproof.conformance.evidence import records as evidence
    from draftproof.conformance.report import terminal
    from draftproof.conformance.run import engines

    try:
        output.mkdir(parents=True, exist_ok=True)
        path = certificate.place_for(campaign.name, output)
        file = path.with_suffix(".jsonl")
        known = evidence.NOTHING
        if resume:
            known = evidence.read_unfinished(evidence.unfinished(file))
        if known.records:
            header = known.header
            then = {"created": header["created"], "seed": header["campaign"]["seed"]}
            campaign = replace(campaign, **then)
            echo(f"Continuing after {len(known.records)} records of {file}", err=True)
        with evidence.written(file, known) as sink, nothing_printed():
            engines.run(
                campaign,
                subject.source,
                known=known.records,
                keep=sink.keep,
                progress=terminal.shown_progress,
            )
        finished, digest = evidence.read_finished(file)
        document = certificate.statement(finished.records, evidence=file.name, digest=digest)
        certificate.write(document, path)
    except evidence.EvidenceError as error:
        stop(f"{type(error).__name__}: {error}", 5)
    except OSError as error:
        raise click.UsageError(f"cannot write the certificate: {error}") from None
    return document, path
