"""The command line. Every command takes --json, and prints JSON that follows a schema."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

import click

from draftproof.reference.drafting import draft_law
from draftproof.reference.errors import InvalidInput, WrongShape
from draftproof.reference.model import Instance, Model, context_key, instance_from_json
from draftproof.reference.optimum import StatelessOptimum, stateless
from draftproof.reference.process import continued, expected_accepted
from draftproof.reference.verifiers import ALGORITHMS, algorithm_named, verification_law
from draftproof.spec import MalformedDocument, requirements, validate

EXIT_CODES = {
    0: "every adapter conforms",
    1: "an adapter does not conform",
    2: "usage: an unknown name, an unreadable, unwritable or invalid file",
    3: "an adapter could not run or could not be judged",
    4: "inconclusive: no adapter fails, but not everything could be decided",
    5: "malformed evidence: a certificate that breaks its schema",
    70: "a defect of draftproof itself",
    130: "interrupted",
    141: "the reader of the output went away",
}
"""What the exit codes mean. Of several adapters the gravest counts: 3, then 1, then 4."""

# Minutes of enumeration, not hours: about this many tokens and row entries are visited.
_MOST_WORK = 4_000_000

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

instance_file = click.argument("instance_file", metavar="INSTANCE.json")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + ".",
)
@click.version_option(version("draftproof"), prog_name="draftproof")
def cli() -> None:
    """Certify that a speculative-decoding verifier is lossless and as fast as it claims."""


@cli.command()
@click.argument("adapters", nargs=-1, required=True, metavar="ADAPTER...")
@click.option(
    "--tier",
    type=click.Choice(("quick", "standard", "full")),
    default="standard",
    show_default=True,
    help="How many cases.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("certificates"),
    show_default=True,
    help="The folder for the certificates.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@as_json
def certify(adapters: tuple[str, ...], tier: str, output: Path, jobs: int, as_json: bool) -> None:
    """Judge adapters and write a certificate for each.

    An ADAPTER is a built-in name (see `draftproof list`), package.module:attribute or
    ./file.py:attribute; the attribute is an adapter, or a class that makes one.
    """
    _require_names(adapters)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(output)!r}: {error.strerror}") from None
    judged: list[_Judged] = []
    for name in adapters:
        taken = [each.path for each in judged if each.path]
        judged.append(_judge(name, tier=tier, output=output, jobs=jobs, quiet=as_json, taken=taken))
    code = next((c for c in (5, 3, 1, 4) if c in {each.code for each in judged}), 0)
    if as_json:
        _print_json(
            {
                "certificates": [each.certificate for each in judged if each.certificate],
                "errors": [
                    {"adapter": name, "message": each.error}
                    for name, each in zip(adapters, judged, strict=True)
                    if each.error
                ],
                "exit_code": code,
            },
            "certify",
        )
    sys.exit(code)


@dataclass(frozen=True)
class _Judged:
    code: int
    certificate: dict[str, Any] | None = None
    path: Path | None = None
    error: str | None = None


def _judge(
    name: str, *, tier: str, output: Path, jobs: int, quiet: bool, taken: Sequence[Path]
) -> _Judged:
    """Certify one adapter: print, write, and return what became of it."""
    try:
        from draftproof.conformance import campaign, certificate, loading
        from draftproof.conformance.adapter import InvalidAdapter
        from draftproof.conformance.report import terminal
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _failed(name, "it needs PyTorch: pip install 'draftproof[torch]'")
    try:
        # What an adapter prints must not end up among what we print.
        with redirect_stdout(sys.stderr):
            report = campaign.certify(name, tier=tier, jobs=jobs, progress=terminal.shown_progress)
            document = certificate.statement(report, loading.load_adapter(name))
        path = certificate.write(document, output, taken=taken)
    except loading.UnknownAdapter as error:
        raise click.UsageError(str(error)) from None
    except (loading.AdapterFailed, InvalidAdapter) as error:
        return _failed(name, str(error))
    except MalformedDocument as error:
        click.echo(f"Error: {name}: malformed evidence: {error}", err=True)
        return _Judged(5, error=str(error))
    except OSError as error:
        raise click.UsageError(f"cannot write the certificate: {error}") from None
    if not quiet:
        terminal.print_certificate(terminal.console(), document, path)
    code = {"pass": 0, "fail": 1, "inconclusive": 4}.get(report.verdict, 3)
    return _Judged(code, document, path)


def _require_names(adapters: Sequence[str]) -> None:
    """Refuse a name that leads nowhere before anything is judged."""
    from draftproof.conformance import loading

    for name in adapters:
        try:
            loading.load_adapter(name)
        except loading.UnknownAdapter as error:
            raise click.UsageError(str(error)) from None
        except Exception:  # noqa: S112  # it exists; what is wrong with it is told in its turn
            continue


def _failed(name: str, reason: str) -> _Judged:
    click.echo(f"Error: {name} could not run: {reason}", err=True)
    return _Judged(3, error=reason)


@cli.command()
@click.argument("algorithm")
@instance_file
@as_json
def law(algorithm: str, instance_file: str, as_json: bool) -> None:
    """Print the exact law of what ALGORITHM emits on an instance ("-" reads standard input)."""
    from draftproof.conformance.report import terminal

    instance = _read_instance(instance_file)
    try:
        named, drafts = algorithm_named(algorithm), draft_law(instance)
        steps = terminal.shown_progress(drafts, len(drafts), f"law of {algorithm}")
        verified = {paths: verification_law(named, instance, paths) for paths in steps}
        emitted = drafts.then(verified.__getitem__)
        horizon = instance.length + 1
        text = continued(emitted, instance, horizon)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from None
    document = {
        "algorithm": algorithm,
        "lossless": text == instance.target.text(horizon),
        "expected_accepted": str(expected_accepted(emitted)),
        "law": [
            {
                "path": emission.path,
                "accepted": list(emission.accepted),
                "next": emission.next_token,
                "probability": str(weight),
            }
            for emission, weight in emitted.items()
        ],
    }
    if as_json:
        _print_json(document, "law")
    else:
        terminal.print_law(terminal.console(), document)


@cli.command()
@instance_file
@as_json
def optimum(instance_file: str, as_json: bool) -> None:
    """Print the certified largest E[accepted length] on an instance ("-" reads standard input)."""
    from draftproof.conformance.report import terminal

    instance = _read_instance(instance_file)
    try:
        best = stateless(instance)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        _print_json({"stateless": _optimum_document(best)}, "optimum")
    else:
        terminal.print_optimum(terminal.console(), best)


@cli.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List algorithms, built-in adapters, requirements and cases."""
    from draftproof.conformance.cases import cases
    from draftproof.conformance.loading import BUILT_IN
    from draftproof.conformance.report import terminal

    catalogue: dict[str, list[dict[str, Any]]] = {
        "algorithms": [
            {"name": a.name, "title": a.title, "source": a.source, "claims_optimum": a.optimal}
            for a in ALGORITHMS.values()
        ],
        "adapters": [{"name": name, "place": place} for name, place in BUILT_IN.items()],
        "requirements": [
            {"id": r.id, "level": r.level, "title": r.title, "chapter": r.chapter}
            for r in requirements().values()
        ],
        "cases": [
            {
                "id": case.id,
                "tier": case.tier,
                "vocabulary": case.instance.vocabulary,
                "length": case.instance.length,
                "drafts": case.instance.drafts,
                "reason": case.reason,
            }
            for case in cases("full")
        ],
    }
    if as_json:
        _print_json(catalogue, "list")
    else:
        terminal.print_catalogue(terminal.console(), catalogue)


def main() -> NoReturn:
    """Run the command line and exit with a code of `EXIT_CODES`."""
    try:
        cli(standalone_mode=False)
        code = 0
    except click.exceptions.Exit as request:
        code = request.exit_code
    except click.Abort:
        click.echo("Interrupted.", err=True)
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except BrokenPipeError:
        # Python must not complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        click.echo(f"Error: cannot write the output: {error.strerror}", err=True)
        code = 2
    except Exception:
        traceback.print_exc()
        click.echo("This is a defect of draftproof itself; please report it.", err=True)
        code = 70
    sys.exit(code)


def _read_instance(file: str) -> Instance:
    """Read an instance file. Every way in which it can be wrong is a usage error."""
    if file == "-" and sys.stdin is None:
        raise click.UsageError("cannot read '-': it is closed")
    try:
        bytes_ = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = bytes_.decode("utf-8-sig")
    except OSError as error:
        raise click.UsageError(f"cannot read {file!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {file!r}: it is not UTF-8 text") from None
    try:
        document = json.loads(text, object_pairs_hook=_without_duplicates)
        instance = instance_from_json(document)
        validate(document, "instance")
    except (InvalidInput, MalformedDocument) as error:
        raise click.UsageError(f"{file}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file} is not JSON: {error}") from None
    _require_small(file, instance.draft, instance.length)
    _require_small(file, instance.target, instance.length + 1)
    return instance


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise WrongShape(f"the key {twice!r} appears twice")
    return document


def _require_small(file: str, model: Model, depth: int) -> None:
    """Refuse what would be enumerated for hours: too many prefixes, or too long ones."""
    work = accumulate(model.vocabulary + len(prefix) for prefix in model.reachable(depth))
    if any(done > _MOST_WORK for done in work):
        raise click.UsageError(
            f"{file}: there are too many texts of {depth} tokens of the {model.name} to enumerate"
        )


def _optimum_document(best: StatelessOptimum) -> dict[str, Any]:
    columns = ("budget", "target_price", "draft_price")
    certificate = {
        column: {context_key(prefix): str(x) for prefix, x in getattr(best, column).items()}
        for column in columns
    }
    return {"value": str(best.value), "certificate": certificate}


def _print_json(document: Any, schema: str) -> None:
    validate(document, schema)
    click.echo(json.dumps(document, indent=2))
