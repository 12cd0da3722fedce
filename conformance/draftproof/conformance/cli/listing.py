"""The command that says what there is: `list`."""

from __future__ import annotations

from typing import Any

import click

from draftproof.conformance.cli.documents import as_json, show
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import requirements


@click.command("list")
@as_json
def list_(as_json: bool) -> None:
    """List algorithms, built-in adapters, requirements and cases."""
    from draftproof.conformance.cases import cases
    from draftproof.conformance.protocol.loading import built_in
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
        "adapters": [{"name": name, "place": place} for name, place in built_in().items()],
        "requirements": [
            {"id": r.id, "level": r.level, "title": r.title, "chapter": r.chapter}
            for r in requirements().values()
        ],
        "cases": [
            {
                "id": case.id,
                "mode": case.mode,
                "vocabulary": case.instance.vocabulary,
                "length": case.instance.length,
                "drafts": case.instance.drafts,
                "reason": case.reason,
            }
            for case in cases("certify")
        ],
    }
    show(catalogue, "list", terminal.print_catalogue, as_json=as_json)
