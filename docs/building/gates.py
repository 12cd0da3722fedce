"""Faults behind gates and the fate of each, as recorded in docs/data/gates.json.

    python -m building.gates

Run in docs, this command judges every fault behind every gate in each mode and replaces the record,
which takes an hour. The page needs only the record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import joblib

from building.markdown import table
from building.pages import HOUSE
from draftproof.conformance.museum.mutants.gates import FAMILY, FAULTS, GATES
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.protocol.modes import MODES
from draftproof.conformance.requirements.finding import ERROR, FAIL, PASS
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Terms
from draftproof.conformance.run.judging import judge

RECORD = HOUSE / "docs/data/gates.json"

KILLED, REFUSED, SURVIVED = "killed", "refused", "survived"
"""Fates: its requirement fails it; no lane can judge it, so it gets no certificate; it passes."""


def main() -> None:
    """Judge all faults behind all gates, and write the record."""
    record = {mode: fates(mode) for mode in MODES}
    RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def fates(mode: str) -> dict[str, dict[str, str]]:
    """Return the fate of each fault behind each gate in a mode."""
    judged = joblib.Parallel(n_jobs=joblib.cpu_count())(
        joblib.delayed(fate)(name, mode) for name in FAMILY
    )
    found: dict[str, dict[str, str]] = {}
    for made, own in zip(FAMILY.values(), judged, strict=True):
        found.setdefault(made.gate.id, {})[made.fault.id] = own
    return found


def fate(name: str, mode: str) -> str:
    """Return the fate of a gated verifier in a campaign, by the requirement that tests its gate."""
    made = FAMILY[name]
    program, asked_by = program_of(made()), made.gate.asked_by
    verdicts: set[str] = set()
    for task in (each for each in plan(program.declared, mode) if asked_by in each.requirements):
        found = judge(program, task, Terms("", mode, 0), blind={}, sampled=True).findings
        verdicts |= {each.verdict for each in found if each.requirement == asked_by}
        if FAIL in verdicts:
            return KILLED
    return REFUSED if ERROR in verdicts or PASS not in verdicts else SURVIVED


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
    return _SHOWN[record[gate][fault]]


def faults_told() -> str:
    """Return the base faults as a table, one per line."""
    return table(["fault", "what it does"], [[f"`{each.id}`", f"{each.what}."] for each in FAULTS])


COMPUTED: Mapping[str, Callable[..., str]] = {"gated": gates, "gatedfaults": faults_told}
"""The forms of this module by name."""


if __name__ == "__main__":
    main()
