"""The command that judges adapters: `certify`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

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
from draftproof.conformance.cli.storing import (
    Stored,
    asked,
    place_of,
    refused,
    takes_store,
    tell,
    tell_reason,
)
from draftproof.conformance.cli.storing import campaign as known_campaign
from draftproof.conformance.cli.working import interruptible, worked_by
from draftproof.conformance.evidence.certificate import gravest, no_longer_known
from draftproof.conformance.evidence.records import Evidence, Record
from draftproof.conformance.evidence.store import KnownFindings
from draftproof.conformance.evidence.whole_file import write_whole
from draftproof.conformance.protocol.raising import caught, show, told_of, tracebacks_shown
from draftproof.conformance.protocol.supervision import judging
from draftproof.conformance.report import rendered
from draftproof.conformance.report.badge import badge
from draftproof.conformance.report.drawing import ReportUnavailable
from draftproof.conformance.report.markdown import in_line
from draftproof.conformance.report.plain import plain
from draftproof.conformance.requirements.finding import CANNOT_RUN, FAILS_EVERYWHERE, UNFETCHED
from draftproof.reference.extras import installation
from draftproof.spec import MalformedDocument

if TYPE_CHECKING:
    from draftproof.conformance.run.recall import Recall


@click.command()
@click.argument("adapters", nargs=-1, metavar="ADAPTER...")
@click.option(
    "--harness",
    "harnesses",
    multiple=True,
    metavar="COMMAND",
    help="Judge a program over stdin and stdout.",
)
@click.option(
    "--source",
    metavar="PATH",
    default="",
    help="ENGINE's wheel, folder or PATH#COMMIT.",
)
@options.mode(help="Cases to judge; certify judges all and excuses no failure.")
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="PATTERN",
    help="Judge cases like 'generic.*'; '!' excludes. [default: all]",
)
@options.output_folder(
    default=Path("certificates"), help="Folder for certificates and their evidence."
)
@options.form(help="Format of the report.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run.")
@click.option(
    "--known-failures",
    type=options.NEW_FILE,
    metavar="FILE",
    help="File of known failures: lines of ID and LINK.",
)
@options.lanes(help="Use only these lanes, strongest first. [default: all]")
@options.seed
@click.option(
    "--search",
    "examples",
    metavar="N",
    type=click.IntRange(min=1),
    help="Also search N inputs for counterexamples.",
)
@click.option("--plan", "is_planned", is_flag=True, help="Print the time needed; judge nothing.")
@click.option("--traceback", is_flag=True, help="Show the traceback of each adapter error.")
@options.verbose
@takes_store
@worked_by
@as_json
def certify(
    adapters: tuple[str, ...],
    harnesses: tuple[str, ...],
    source: str,
    output: Path,
    form: str,
    resume: bool,
    known_failures: Path | None,
    is_planned: bool,
    traceback: bool,
    verbose: bool,
    as_json: bool,
    stored: Stored,
    working: Mapping[str, Any],
    **asked: Any,
) -> None:
    """Judge adapters; write a certificate, its evidence and a badge for each.

    An ADAPTER is a built-in name (see `draftproof list adapters`), package.module:attribute or
    ./file.py:attribute, where the attribute is an adapter or a class without arguments. An ENGINE
    such as vllm means all methods of the installed package, ENGINE:METHOD one of them; both run on
    the cases of the matrix unless --mode or --case is given.
    """
    form = "json" if as_json else form
    if not adapters and not harnesses:
        raise click.UsageError(
            "name an ADAPTER or a --harness; `draftproof list adapters` prints built-in adapters"
        )
    terms = _terms(known_failures, **asked)
    own = _of_engines(adapters, source)
    own += [(f"harness:{command}", {}) for command in harnesses]
    names = tuple(name for name, _ in own)
    terms_of = {name: terms | changed for name, changed in own}
    _require_form(form)
    if traceback:
        click.get_current_context().with_resource(tracebacks_shown())
    known = (
        {} if is_planned or resume else {n: known_campaign(n, terms_of[n], stored) for n in names}
    )
    if stored.store is not None and not all(known.get(name) for name in names):
        _record_what_is_read(has_workers=working["jobs"] > 1)
    loaded = {name: _loaded(name, known.get(name)) for name in dict.fromkeys(names)}
    if is_planned:
        _foretell([(loaded[name], terms_of[name]) for name in names], form)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(output)!r}: {error.strerror}") from None
    shown = (_IN_FULL if verbose else _FOLDED) if form == "terminal" else None
    judged: list[_Judged] = []
    for name in names:
        request = _Request(terms_of[name], output, resume, stored, working)
        taken = [each.path for each in judged if each.path]
        judged.append(_judge(loaded[name], request, taken, shown=shown))
    code = gravest({each.code for each in judged})
    documents = [each.certificate for each in judged if each.certificate]
    if known_failures is not None and (fixed := no_longer_known(documents)):
        told = f"no longer failing: {', '.join(fixed)}; remove these lines"
        echo(f"Error: {known_failures}: {told}", err=True)
        code = code if code in (5, 3) else 2
    outcome = {"certificates": documents, "errors": _errors(names, judged), "exit_code": code}
    _show(outcome, form)
    sys.exit(code)


def _terms(
    known_failures: Path | None,
    *,
    mode: str,
    cases: Sequence[str],
    lanes: Sequence[str],
    seed: int | None,
    examples: int | None,
) -> dict[str, Any]:
    """Return the terms of a campaign, without those left at their defaults."""
    if mode == "certify" and (cases or lanes or known_failures or seed is not None):
        raise click.UsageError(
            "--mode certify judges every case on every lane with a new seed: it takes no --case, "
            "--lane, --known-failures or --seed"
        )
    terms: dict[str, Any] = {"mode": mode, "examples": examples or 0}
    terms |= {"cases": cases} if cases else {}
    terms |= {"lanes": lanes} if lanes else {}
    terms |= {"seed": seed} if seed is not None else {}
    return terms | ({"known_failures": _known(known_failures)} if known_failures else {})


def _tell_absent(name: str, found: Mapping[str, Any]) -> None:
    """Print which methods of an engine a source does not have, if all of its methods are asked."""
    from draftproof.conformance.protocol.packages import packages

    package = packages().get(name)
    if package is None:
        return
    absent = [
        f"{method} ({known.versions})"
        for method, known in package.methods.items()
        if all(known is not each for each in found.values())
    ]
    if absent:
        echo(f"{name}: not found in this version, and not judged: {', '.join(absent)}", err=True)


def _of_engines(adapters: Sequence[str], source: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the names of adapters with their terms; an engine has one name per method."""
    from draftproof.conformance.protocol.adapter import AdapterFailed, UnknownAdapter
    from draftproof.conformance.protocol.loading import built_in
    from draftproof.conformance.protocol.packages import adapters_of, interpreting, packages

    given = click.get_current_context().get_parameter_source
    is_told = any(given(name) != ParameterSource.DEFAULT for name in ("mode", "cases"))
    names: list[tuple[str, dict[str, Any]]] = []
    is_engine = False
    for name in adapters:
        try:
            found = None if name in built_in() and not source else adapters_of(name, source)
        except UnknownAdapter as error:
            raise click.UsageError(str(error)) from None
        except AdapterFailed as error:
            stop(str(error), 3)
        if found is None:
            names.append((name, {}))
            continue
        is_engine = True
        _tell_absent(name, found)
        for place, method in found.items():
            own: dict[str, Any] = {} if is_told else {"mode": method.mode}
            names.append((place, own))
            if method.note:
                echo(f"{place}: {method.note}", err=True)
            if method.cases and not is_told:
                own["cases"] = method.cases
                echo(
                    f"{place}: judging only the cases {', '.join(method.cases)}: {method.why}; "
                    f"--case '*' judges all",
                    err=True,
                )
    if source and not is_engine:
        near = get_close_matches(adapters[0], packages(), n=1)
        meant = f"did you mean {near[0]}?" if near else f"the engines are {', '.join(packages())}"
        raise click.UsageError(f"--source needs an ENGINE, and {adapters[0]!r} is none: {meant}")
    if is_engine:
        # Triton decides when a kernel is defined.
        os.environ.update({k: v for k, v in interpreting().items() if k not in os.environ})
    return names


def _foretell(adapters: Sequence[tuple[_Loaded, Mapping[str, Any]]], form: str) -> NoReturn:
    """Print how long it takes to judge adapters, and exit."""
    from draftproof.conformance.report.words import duration

    if form not in ("terminal", "json"):
        raise click.UsageError(f"--plan cannot print {form}; use --json")
    if any(terms["examples"] for _, terms in adapters):
        raise click.UsageError("--plan cannot be combined with --search")
    judged = [_foretold(each, terms) for each, terms in adapters]
    forecasts = [each.forecast for each in judged if each.forecast]
    errors = _errors([each.name for each, _ in adapters], judged)
    code = gravest({each.code for each in judged})
    if form == "json":
        outcome = {"certificates": [], "forecasts": forecasts, "errors": errors, "exit_code": code}
        print_json(outcome, "certify")
        sys.exit(code)
    for each in forecasts:
        tasks = f"{each['tasks']} task{'s' if each['tasks'] != 1 else ''}"
        echo(
            f"{each['adapter']}, mode {each['mode']}: {tasks}, "
            f"about {duration(each['seconds'])} in one process "
            f"({each['timed']} of them took {duration(each['spent'])})"
        )
        for lane, reason in each["blind"].items():
            echo(f"  the {lane} lane cannot see this adapter: {reason}")
    sys.exit(code)


def _foretold(loaded: _Loaded, terms: Mapping[str, Any]) -> _Judged:
    """Return how long it takes to judge an adapter, or what prevents it."""

    def foretold() -> _Judged:
        from draftproof.conformance.run import campaign
        from draftproof.conformance.run.forecast import forecast

        asked = campaign.Campaign(loaded.name, **terms)
        found = forecast(asked, program=loaded.program)
        called = loaded.program.declared.name
        told = {"adapter": called, "mode": asked.mode, **vars(found), "blind": dict(found.blind)}
        return _Judged(0, forecast=told)

    return _tried(loaded, foretold)


def _errors(names: Sequence[str], judged: Sequence[_Judged]) -> list[dict[str, Any]]:
    """Return the errors of adapters that could not run."""
    return [
        {"adapter": name, "message": each.error, "state": each.state}
        for name, each in zip(names, judged, strict=True)
        if each.error
    ]


def _show(outcome: Mapping[str, Any], form: str) -> None:
    """Print the outcome of all adapters, except on a terminal, where `_judge` has printed it."""
    if form == "json":
        print_json(outcome, "certify")
    elif form != "terminal" and outcome["certificates"]:
        print_report(rendered(outcome["certificates"], form))
    if form == "markdown":
        for each in outcome["errors"]:
            told = indent(plain(each["message"]), " " * 4)
            echo(f"## {in_line(plain(each['adapter']))} could not run\n\n{told}\n")


@dataclass(frozen=True)
class _Loaded:
    """Outcome of loading a name: a program, or the reason why there is none."""

    name: str
    program: Any = None
    error: str = ""
    state: str = CANNOT_RUN
    known: KnownFindings | None = None
    """Stored evidence of the whole campaign; with it, no program is loaded."""


def _record_what_is_read(*, has_workers: bool) -> None:
    """Record the files that adapters read; stored findings depend on these files."""
    from draftproof.conformance.evidence.traces import recording

    click.get_current_context().with_resource(recording(has_workers=has_workers))


def _loaded(name: str, known: KnownFindings | None) -> _Loaded:
    """Load an adapter. An unknown name is a usage error, raised before anything is judged."""
    if known is not None:
        return _Loaded(name, known=known)
    from draftproof.conformance.evidence.traces import traced
    from draftproof.conformance.protocol.adapter import (
        AdapterFailed,
        AdapterLost,
        InvalidAdapter,
        UnknownAdapter,
    )
    from draftproof.conformance.protocol.loading import load_program

    judging(name)
    try:
        # Code under test may go to another folder; the paths of the user are of this one.
        with nothing_printed(), chdir("."), traced():
            return _Loaded(name, load_program(name))
    except UnknownAdapter as error:
        raise click.UsageError(str(error)) from None
    except (AdapterFailed, InvalidAdapter, AdapterLost) as error:
        show(error.__cause__ or error, str(error))
        return _Loaded(name, error=str(error), state=_state(error))


@dataclass(frozen=True)
class _Request:
    """Terms for every adapter, as the options of the command give them."""

    terms: Mapping[str, Any]
    output: Path
    resume: bool
    stored: Stored
    working: Mapping[str, Any]


@dataclass(frozen=True)
class _Judged:
    code: int
    certificate: dict[str, Any] | None = None
    path: Path | None = None
    error: str | None = None
    state: str | None = None
    """State of an adapter that did not run."""
    forecast: dict[str, Any] | None = None
    """With --plan: the time needed to judge the adapter."""


_FOLDED, _IN_FULL = "folded", "in full"


def _judge(
    loaded: _Loaded, request: _Request, taken: Sequence[Path], *, shown: str | None
) -> _Judged:
    """Certify one adapter, avoiding the places `taken`; print, write and return the outcome."""
    try:
        if loaded.known is not None:
            judged = _known_before(loaded, loaded.known, request, taken)
        else:
            judged = _tried(loaded, lambda: _certified(loaded, request, taken))
    except OSError as error:
        raise click.UsageError(f"cannot write the certificate: {error}") from None
    if shown is not None and judged.certificate and judged.path:
        from draftproof.conformance.report import terminal

        terminal.print_certificate(
            terminal.console(), judged.certificate, judged.path, verbose=shown == _IN_FULL
        )
    return judged


def _tried(loaded: _Loaded, judge: Callable[[], _Judged]) -> _Judged:
    """Return the outcome of judging an adapter, or the reason why it could not be judged."""
    name = loaded.name
    judging(name)
    try:
        from draftproof.conformance.evidence import records as evidence
        from draftproof.conformance.run import campaign
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _failed(name, f"it needs PyTorch: {installation('torch')}")
    if loaded.error:
        return _failed(name, loaded.error, loaded.state)
    try:
        with nothing_printed(), _without_exits():
            return judge()
    except campaign.UNJUDGED as error:
        return _failed(name, str(error), _state(error))
    except campaign.UnknownCase as error:
        raise click.UsageError(str(error)) from None
    except (MalformedDocument, evidence.EvidenceError) as error:
        echo(f"Error: {name}: {type(error).__name__}: {error}", err=True)
        return _Judged(5, error=str(error))


@contextmanager
def _without_exits() -> Iterator[None]:
    """Raise `AdapterFailed` for an exit or similar: Draftproof itself never exits while judging."""
    from draftproof.conformance.protocol.adapter import AdapterFailed

    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        raise AdapterFailed(f"it raised {told_of(caught(error))}") from error


def _known_before(
    loaded: _Loaded, known: KnownFindings, request: _Request, taken: Sequence[Path]
) -> _Judged:
    """Write the evidence of a stored campaign, with its certificate and badge."""
    from draftproof.conformance.evidence import certificate
    from draftproof.conformance.evidence import records as evidence

    name = known.records[0]["adapter"]["name"]
    path = certificate.place_for(name, request.output, taken=taken)
    records = path.with_suffix(".jsonl")
    _tell_of(records, evidence.NOTHING, resume=request.resume)
    with evidence.written(records) as sink:
        sink.keep(*known.records)
    lines, _ = evidence.sealed(known.records)
    count = sum(len(each.get("findings", ())) for each in known.records)
    tell(loaded.name, {known.made: count}, 0)
    if "seed" not in request.terms:
        _tell_of_seed(loaded.name, known.records[0]["campaign"]["seed"])
    return _written(known.records, records.name, sha256(lines).hexdigest(), path)


def _written(records: Sequence[Record], name: str, digest: str, path: Path) -> _Judged:
    """Write the certificate that follows from finished evidence, and its badge."""
    from draftproof.conformance.evidence import certificate

    document = certificate.statement(records, evidence=name, digest=digest)
    certificate.write(document, path)
    _write_badge(document, path)
    return _Judged(certificate.exit_code(document), document, path)


def _certified(loaded: _Loaded, request: _Request, taken: Sequence[Path]) -> _Judged:
    """Judge an adapter, and write evidence, certificate and badge."""
    from draftproof.conformance.evidence import certificate
    from draftproof.conformance.evidence import records as evidence
    from draftproof.conformance.evidence.traces import traced, unheard
    from draftproof.conformance.protocol.loading import source_digest
    from draftproof.conformance.report import terminal
    from draftproof.conformance.run import campaign
    from draftproof.conformance.run.recall import Recall
    from draftproof.conformance.run.workers import Workers

    terms, stored, working = request.terms, request.stored, request.working
    declared = loaded.program.declared
    path = certificate.place_for(declared.name, request.output, taken=taken)
    records = path.with_suffix(".jsonl")
    subject = source_digest(loaded.program.adapter)
    known, then = evidence.NOTHING, _seeded(loaded, terms, stored, subject)
    if request.resume and (known := _kept(records)).records:
        header = known.header
        # A seed that was not given was drawn, as the time was taken, when it began.
        then = {"created": header["created"], "seed": header["campaign"]["seed"]}
    wanted = campaign.Campaign(loaded.name, **{**then, **terms})
    refusal = refused(loaded.name, declared, backend=working["backend"])
    store = None if refusal else stored.store
    recall = None
    if store is not None:
        recall = Recall(
            store,
            place_of(loaded.name),
            wanted.created,
            audited=stored.audited,
            is_ignored=stored.is_fresh,
        )
    _tell_of(records, known, resume=request.resume)
    try:
        with (
            evidence.written(records, known) as sink,
            interruptible() as check,
            chdir("."),
            traced(),
        ):

            def keep(record: dict[str, Any]) -> None:
                check()
                sink.keep(record)

            campaign.run(
                wanted,
                program=loaded.program,
                keep=keep,
                known=known,
                workers=Workers(**working),
                progress=unheard(terminal.shown_progress),
                recall=recall,
                suspects=_suspects,
            )
    except KeyboardInterrupt:
        # Before its first record a run leaves nothing.
        if evidence.unfinished(records).exists():
            echo("The evidence so far is kept; continue with --resume.", err=True)
        raise
    finished, digest = evidence.read_finished(records)
    if stored.store is not None:
        tell_reason(loaded.name, "no stored findings used", refusal)
        _keep(loaded.name, request, finished, subject, recall, is_resumed=bool(known.records))
    return _written(finished.records, records.name, digest, path)


def _suspects() -> Sequence[Any]:
    """Return the mutants and controls, which only a failing run needs to import."""
    from draftproof.conformance.museum.mutants import CONTROLS, MUTANTS

    return *MUTANTS, *CONTROLS


def _keep(
    name: str,
    request: _Request,
    finished: Evidence,
    subject: str,
    recall: Recall | None,
    *,
    is_resumed: bool,
) -> None:
    """Store a campaign and its seed; print how many findings were known and why any are not kept.

    Raises `StoreDiffers`.
    """
    from draftproof.conformance.run.recall import has_failed_sample

    store: Any = request.stored.store
    seed = finished.header["campaign"]["seed"]
    unseeded, seeded = (asked(name, {**request.terms, **each}) for each in ({}, {"seed": seed}))
    ways = [seeded]
    if unseeded != seeded:
        is_failed = has_failed_sample(finished.records)
        ways += [unseeded] * store.keep_seed(unseeded, subject, seed, is_failed=is_failed)
    reason = ""
    if recall is not None:
        tell(name, recall.known, recall.judged)
        # What another run had read nobody has told.
        recall.basis.add(refusal="another run judged a part of it (--resume)" * is_resumed)
        recall.keep_campaign(ways, finished.records)
        reason = recall.basis.refusal
    tell_reason(name, "not kept in the store", reason or store.trouble)


def _seeded(
    loaded: _Loaded, terms: Mapping[str, Any], stored: Stored, subject: str
) -> dict[str, Any]:
    """Return the stored seed of a campaign that is given none, if there is one."""
    from draftproof.conformance.evidence.store import DamagedSeed

    store = stored.store
    if store is None or stored.is_fresh or "seed" in terms:
        return {}
    try:
        seed = store.seed(asked(loaded.name, terms), subject)
    except DamagedSeed as error:
        echo(f"{loaded.name}: {error} is damaged; using a new seed", err=True)
        return {}
    if seed is None:
        return {}
    _tell_of_seed(loaded.name, seed)
    return {"seed": seed}


def _tell_of_seed(name: str, seed: int) -> None:
    echo(f"{name}: using the recorded seed {seed}; --fresh draws a new one", err=True)


def _kept(records: Path) -> Evidence:
    """Return the existing evidence, if there is any."""
    from draftproof.conformance.evidence import records as evidence

    part = evidence.unfinished(records)
    if part.exists():
        return evidence.read_unfinished(part)
    return evidence.read_finished(records)[0] if records.exists() else evidence.NOTHING


def _tell_of(records: Path, known: Evidence, *, resume: bool) -> None:
    """Print whether existing evidence is continued or replaced."""
    from draftproof.conformance.evidence import records as evidence

    if resume and known.records:
        echo(f"Continuing after {len(known.records)} records of {records}", err=True)
    elif resume:
        echo(f"No interrupted run at {records}; starting a new one", err=True)
    elif evidence.unfinished(records).exists():
        echo(
            f"Replacing the evidence of an interrupted run at {evidence.unfinished(records)}; "
            f"use --resume to continue such a run",
            err=True,
        )


def _write_badge(document: Mapping[str, Any], path: Path) -> None:
    """Write the badge of a certificate to the folder badges, apart from the certificates."""
    place = path.parent / "badges" / path.name
    place.parent.mkdir(exist_ok=True)
    write_whole(json.dumps(badge(document), indent=2) + "\n", place)


def _require_form(form: str) -> None:
    """Stop before judging if the report cannot be made in this format."""
    try:
        if form != "terminal":
            rendered([], form)
    except ReportUnavailable as error:
        stop(f"cannot make {form}: {error}", 3)


def _known(path: Path) -> dict[str, str]:
    from draftproof.conformance.evidence.known_failures import (
        InvalidKnownFailures,
        read_known_failures,
    )

    with usage_errors(InvalidKnownFailures):
        return read_known_failures(path)


def _state(error: BaseException) -> str:
    """Return the state of an adapter that did not run, from the cause of its failure."""
    from draftproof.conformance.protocol.adapter import FailsEverywhere, Unfetched

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FailsEverywhere):
            return FAILS_EVERYWHERE
        if isinstance(cause, Unfetched):
            return UNFETCHED
        cause = cause.__cause__
    return CANNOT_RUN


def _failed(name: str, reason: str, state: str = CANNOT_RUN) -> _Judged:
    # An error of loading begins with the name.
    told = reason if reason.startswith(name) else f"{name} could not run: {reason}"
    echo(f"Error: {told}", err=True)
    return _Judged(3, error=reason, state=state)
