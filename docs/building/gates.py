"""Faults behind gates, and what becomes of each: recorded in docs/data/gates.json.

    python -m building.gates

run in docs, judges every fault behind every gate in each mode and writes the record anew, which
takes an hour; the page is made from the record alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import joblib

from building.markdown import table
from building.pages import HOUSE
from draftproof.conformance.museum.kill_matrix import KillRow, kill_matrix
from draftproof.conformance.museum.mutants.gates import FAULTS, GATED, GATES, INERT
from draftproof.conformance.protocol.modes import MODES

RECORD = HOUSE / "docs/data/gates.json"

KILLED, REFUSED, SURVIVED = "killed", "refused", "survived"
"""Fates: a requirement failed it; no lane would judge it, so it gets no certificate; neither."""


def main() -> None:
    """Judge all and write the record."""
    record = {mode: fates(mode) for mode in MODES}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def fates(mode: str) -> dict[str, dict[str, str]]:
    """Return the fate of each fault behind each gate in a mode."""
    rows = kill_matrix(
        [*GATED.values()],
        lanes=("exact",),
        mode=mode,
        seed=0,
        jobs=joblib.cpu_count(),
        progress=lambda steps, _count, _title: steps,
    )
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        made: Any = row.exhibit.make
        found.setdefault(made.gate.id, {})[made.fault.id] = fate(row)
    return found


def fate(row: KillRow) -> str:
    """Return what becomes of a gated verifier: by the requirement that asks behind its gate."""
    if row.caught:
        return KILLED
    (must,) = row.exhibit.must_fail
    verdicts = {cell.verdict for cell in row.cells if cell.requirement == must}
    return REFUSED if verdicts and verdicts <= {"blind", "undecided"} else SURVIVED


def gates(mode: str) -> str:
    """Return the table of a mode: a row for each gate, a column for each fault."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))[mode]
    rows = [
        [
            gate.what,
            f"[](#{gate.asked_by})",
            *(_cell(fault.id, gate.id, record) for fault in FAULTS),
        ]
        for gate in GATES
    ]
    head = ["the fault acts", "asked by", *(f"`{fault.id}`" for fault in FAULTS)]
    return table(head, rows, align="ll" + "c" * len(FAULTS))


_SHOWN = {KILLED: "✓", REFUSED: "refused", SURVIVED: "**hole**"}


def _cell(fault: str, gate: str, record: Mapping[str, Mapping[str, str]]) -> str:
    return "–" if (fault, gate) in INERT else _SHOWN[record[gate][fault]]


def faults_told() -> str:
    """Return the base faults, one in a line."""
    return table(["fault", "what it does"], [[f"`{each.id}`", f"{each.what}."] for each in FAULTS])


COMPUTED: Mapping[str, Callable[..., str]] = {"gated": gates, "gatedfaults": faults_told}
"""The forms of this module by name."""


if __name__ == "__main__":
    main()
