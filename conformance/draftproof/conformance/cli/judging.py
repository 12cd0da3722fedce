"""Commands that judge adapters: `certify`, and `list`, which says what there is."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.cli.documents import as_json, print_json
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import MalformedDocument, requirements


@click.command()
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
@click.option(
    "--lane",
    "lanes",
    multiple=True,
    type=click.Choice(("exact", "probe", "sample")),
    help="Only the lanes named; the strongest that can see the adapter decides. [default: all]",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Of what is sampled. [default: a fresh one]"
)
@click.option(
    "--search",
    "examples",
    metavar="EXAMPLES",
    type=click.IntRange(min=1),
    help="Also search as many examples for the rows that hurt most; 200 find most faults.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@as_json
def certify(
    adapters: tuple[str, ...],
    tier: str,
    output: Path,
    lanes: tuple[str, ...],
    seed: int | None,
    examples: int | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Judge adapters and write a certificate for each.

    An ADAPTER is a built-in name (see `draftproof list`), package.module:attribute or
    ./file.py:attribute; the attribute is an adapter, or a class that makes one.
    """
    _require_names(adapters)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(output)!r}: {error.strerror}") from None
    campaign: dict[str, Any] = {"tier": tier, "seed": seed, "examples": examples or 0, "jobs": jobs}
    if lanes:
        campaign["lanes"] = lanes
    judged: list[_Judged] = []
    for name in adapters:
        taken = [each.path for each in judged if each.path]
        judged.append(_judge(name, campaign, output=output, quiet=as_json, taken=taken))
    code = next((c for c in (5, 3, 1, 4) if c in {each.code for each in judged}), 0)
    if as_json:
        print_json(
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
    name: str, wanted: Mapping[str, Any], *, output: Path, quiet: bool, taken: Sequence[Path]
) -> _Judged:
    """Certify one adapter as wanted: print, write, and return what became of it."""
    try:
        from draftproof.conformance import campaign, certificate, loading
        from draftproof.conformance.adapter import InvalidAdapter
        from draftproof.conformance.report import terminal
        from draftproof.conformance.search import SearchUnavailable
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _failed(name, "it needs PyTorch: pip install 'draftproof[torch]'")
    try:
        # What an adapter prints must not end up among what we print.
        with redirect_stdout(sys.stderr):
            report = campaign.certify(name, **wanted, progress=terminal.shown_progress)
            document = certificate.statement(report, loading.load_adapter(name))
        path = certificate.write(document, output, taken=taken)
    except loading.UnknownAdapter as error:
        raise click.UsageError(str(error)) from None
    except (loading.AdapterFailed, InvalidAdapter, SearchUnavailable) as error:
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


@click.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List algorithms, built-in adapters, requirements and cases."""
    from draftproof.conformance.cases import cases
    from draftproof.conformance.loading import BUILT_IN
    from draftproof.conformance.report import terminal

    catalogue: dict[str, list[dict[str, Any]]] = {
        "algorithms": [
            {
                "name": a.name,
                "title": a.title,
                "source": a.source,
                "schemes": list(a.schemes) if a.most_drafts != 1 else [],
                "stateful": a.stateful,
                "claims_optimum": a.optimal,
            }
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
        print_json(catalogue, "list")
    else:
        terminal.print_catalogue(terminal.console(), catalogue)
