"""Markdown of the pages: rows as long as the heading of their table, and headings in order."""

from __future__ import annotations

import re

import pytest
from building.markdown import UnevenTable, outlined, table


def test_a_table_has_its_columns_and_sides() -> None:
    made = table(["K", "word"], [["1", "a | b"]], align="r")
    assert made == "| K | word |\n| --: | --- |\n| 1 | a \\| b |"
    assert table(["a | b"], []) == "| a \\| b |\n| --- |"


@pytest.mark.parametrize(
    ("rows", "align", "message"),
    [
        ([], "rrr", "the table of K | L has 2 columns, and 3 sides: 'rrr'"),
        (
            [["1", "2"], ["3"]],
            "",
            "the table of K | L has 2 columns, and 1 cells in row 2: 3",
        ),
        (
            [["1", "2", "3"]],
            "",
            "the table of K | L has 2 columns, and 3 cells in row 1: 1 | 2 | 3",
        ),
    ],
)
def test_an_uneven_table_is_refused(rows: list[list[str]], align: str, message: str) -> None:
    with pytest.raises(UnevenTable, match=f"^{re.escape(message)}$"):
        table(["K", "L"], rows, align=align)


def test_headings_skip_no_level() -> None:
    text = "# A\n\n### B { #b }\n\n```\n### no heading\n```\n\n## C\n\n#### D\n\n### E\n\n## F\n"
    assert outlined(text) == (
        "# A\n\n## B { #b }\n\n```\n### no heading\n```\n\n## C\n\n### D\n\n### E\n\n## F\n"
    )
