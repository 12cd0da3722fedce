"""The strip of the matrix has every row of the record, in its outcome."""

from __future__ import annotations

import re
from html import unescape

from building import glance
from building.engines import record
from building.glance import BY_DESIGN, OUTCOMES, SOME


def row(outcome: str, *, cases: object = None, design: str | None = None) -> glance.Row:
    return {"outcome": outcome, "judged": {"cases": cases}, "design": design}


def test_outcomes_say_what_was_asked_and_what_is_meant() -> None:
    assert glance.outcome(row("conforms")) == "conforms"
    assert glance.outcome(row("conforms", cases=["generic.*"])) == SOME
    assert glance.outcome(row("does not conform")) == "does not conform"
    assert glance.outcome(row("does not conform", design="https://where.it/says-so")) == BY_DESIGN


def test_every_row_has_an_outcome_that_is_counted() -> None:
    assert sum(glance.counted(record()).values()) == len(record())


def test_the_strip_has_a_cell_for_every_row() -> None:
    strip, legend = glance.strip().split('<div class="strip legend"')
    told = [
        unescape(each) for each in re.findall(r'<i class="cell [\w-]+" title="(.*?)"></i>', strip)
    ]
    assert sorted(told) == sorted(
        f"{each['name']}: {OUTCOMES[glance.outcome(each)]}" for each in record()
    )
    counts = [int(each) for each in re.findall(r": (\d+)</span>", legend)]
    assert sum(counts) == len(record())
