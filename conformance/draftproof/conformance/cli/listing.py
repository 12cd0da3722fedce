"""Command that lists algorithms, adapters, requirements and cases: `list`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from draftproof.conformance.cli.documents import as_json, echo, show
from draftproof.conformance.protocol.modes import MODES
from draftproof.reference.extras import installation
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import requirements

Entry = dict[str, Any]


def _algorithms() -> list[Entry]:
    return [
        {
            "name": a.name,
            "title": a.title,
            "source": a.source,
            "schemes": list(a.schemes) if a.most_drafts != 1 else [],
            "stateful": a.stateful,
            "claims_optimum": a.optimal,
        }
        for a in ALGORITHMS.values()
    ]


def _adapters() -> list[Entry]:
    from draftproof.conformance.protocol.loading import built_in

    return [{"name": name, "place": place} for name, place in built_in().items()]


def _requirements() -> list[Entry]:
    return [
        {"id": r.id, "level": r.level, "title": r.title, "chapter": r.chapter}
        for r in requirements().values()
    ]


def _cases() -> list[Entry]:
    """Return the cases of one instance, then the cases of batches, calls and dtypes."""
    from draftproof.conformance.cases import cases

    found = {
        case.id: {
            "id": case.id,
            "mode": case.mode,
            "vocabulary": case.instance.vocabulary,
            "length": case.instance.length,
            "drafts": case.instance.drafts,
            "reason": case.reason,
        }
        for case in cases("certify")
    }
    for case, mode, judged in _planned():
        sizes = dict.fromkeys(("vocabulary", "length", "drafts"))
        found.setdefault(case, {"id": case, "mode": mode, **sizes, "reason": f"judges {judged}"})
    return [*found.values()]


def _planned() -> Iterator[tuple[str, str, str]]:
    """Yield the cases planned for adapters that declare every capability, with their modes.

    Planning needs torch: without it nothing is yielded, and a note says so.
    """
    try:
        from draftproof.conformance.protocol.adapter import DTYPES, Declaration
        from draftproof.conformance.requirements.plan import plan
    except ImportError:
        echo(
            "Note: cases of batches, calls and dtypes are not listed without torch; "
            f"{installation('torch')}",
            err=True,
        )
        return
    for mode in MODES:
        # Some cases are for logits alone, and some for probabilities alone.
        for algorithm, most, trees, logits in (
            ("token", 1, False, False),
            ("token", 1, False, True),
            ("greedy_block", 1, False, False),
            ("recursive_rejection", 4, True, False),
        ):
            declared = Declaration(
                name="any",
                version="1",
                algorithm=algorithm,
                dtype="float32",
                dtypes=DTYPES,
                device="cpu",
                max_drafts=most,
                scheme="iid",
                batch=True,
                at_once=1,
                ragged=True,
                logits=logits,
                trees=trees,
                drafts=True,
                generates=True,
                generators=True,
            )
            for task in plan(declared, mode):
                yield task.case, mode, ", ".join(task.requirements)


KINDS: dict[str, Callable[[], list[Entry]]] = {
    "algorithms": _algorithms,
    "adapters": _adapters,
    "requirements": _requirements,
    "cases": _cases,
}
"""Function for each kind of entry that can be listed."""


@click.command("list")
@click.argument("kind", required=False, type=click.Choice([*KINDS]), metavar="[KIND]")
@as_json
def list_(kind: str | None, as_json: bool) -> None:
    """List algorithms, adapters, requirements or cases; without a KIND, all four."""
    from draftproof.conformance.report import terminal

    kinds = [kind] if kind else [*KINDS]
    catalogue = {each: KINDS[each]() for each in kinds}
    show(catalogue, "list", terminal.print_catalogue, as_json=as_json)
