"""The strip of the matrix has every row of the record, in its state."""

from __future__ import annotations

import re
from html import unescape

from building import glance
from building.engines import record

from draftproof.conformance.report.states import told


def test_every_row_has_a_state_that_is_counted() -> None:
    assert sum(glance.counted(record()).values()) == len(record())


def test_the_strip_has_a_cell_for_every_row() -> None:
    strip, legend = glance.strip().split('<div class="strip legend"')
    titles = [
        unescape(each) for each in re.findall(r'<i class="cell [\w-]+" title="(.*?)"></i>', strip)
    ]
    assert sorted(titles) == sorted(f"{each['name']}: {told(each)}" for each in record())
    counts = [int(each) for each in re.findall(r": (\d+)</span>", legend)]
    assert sum(counts) == len(record())
