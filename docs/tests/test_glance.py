"""The strip and the table of the matrix have every row of the record, in its outcome."""

from __future__ import annotations

import re
from html import unescape

from building import glance
from building.glance import BY_DESIGN, OUTCOMES, SOME


def row(outcome: str, *, cases: object = None, design: str | None = None) -> glance.Row:
    return {"outcome": outcome, "judged": {"cases": cases}, "design": design}


def test_outcomes_say_what_was_asked_and_what_is_meant() -> None:
    assert glance.outcome(row("conforms")) == "conforms"
    assert glance.outcome(row("conforms", cases=["generic.*"])) == SOME
    assert glance.outcome(row("does not conform")) == "does not conform"
    assert glance.outcome(row("does not conform", design="https://where.it/says-so")) == BY_DESIGN


def test_every_row_has_an_outcome_that_is_counted() -> None:
    assert sum(glance.counted(glance.rows()).values()) == len(glance.rows())


def test_the_strip_has_a_cell_for_every_row() -> None:
    strip, legend = glance.strip().split('<div class="strip legend"')
    told = [
        unescape(each) for each in re.findall(r'<i class="cell [\w-]+" title="(.*?)"></i>', strip)
    ]
    assert sorted(told) == sorted(
        f"{each['name']}: {OUTCOMES[glance.outcome(each)]}" for each in glance.rows()
    )
    counts = [int(each) for each in re.findall(r": (\d+)</span>", legend)]
    assert sum(counts) == len(glance.rows())


def test_the_table_has_the_newest_version_of_every_verifier() -> None:
    text = glance.by_engine()
    newest = {each["name"].partition("@")[0]: each for each in glance.rows()}
    for name, each in newest.items():
        judged, some = each["judged"], glance.outcome(each) == SOME
        remark = f" ({judged['asked']} of {judged['planned']})" if some else ""
        assert f"`{name}`{remark}" in text
    few = [each["judged"] for each in glance.rows() if glance.outcome(each) == SOME]
    assert all(0 < each["asked"] < each["planned"] for each in few)
    assert all(each["why"] in text for each in few)
