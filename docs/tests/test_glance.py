"""The strip of the matrix has every row of the record, in its state."""

from __future__ import annotations

import re
from html import unescape

from building import glance
from building.engines import feed, is_of_few_cases, record

from draftproof.conformance.report.states import told


def test_every_row_has_a_state_that_is_counted() -> None:
    assert sum(glance.counted(record()).values()) == len(record())


def test_the_strip_has_a_cell_for_every_row() -> None:
    strip, legend = glance.strip().split('<div class="strip legend"')
    titles = [
        unescape(each) for each in re.findall(r'<i class="cell [\w -]+" title="(.*?)"></i>', strip)
    ]
    assert sorted(titles) == sorted(f"{each['name']}: {told(each)}" for each in record())
    counts = [int(each) for each in re.findall(r": (\d+)</span>", legend)]
    few = [each for each in feed(record())["rows"] if is_of_few_cases(each)]
    assert sum(counts) == len(record()) + len(few)


def test_rows_of_few_cases_are_marked() -> None:
    strip, _, legend = glance.strip().partition('<div class="strip legend"')
    few = [each["name"] for each in feed(record())["rows"] if is_of_few_cases(each)]
    assert "vllm-v1@0.33.0" in few
    marked = re.findall(r'few" title="([^:]*):', strip)
    assert sorted(map(unescape, marked)) == sorted(few)
    assert f"of these, on fewer than half of the cases: {len(few)}<" in legend
