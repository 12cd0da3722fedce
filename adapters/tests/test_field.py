"""The field as data: every row is of a known implementation, and every name is of a row."""

from __future__ import annotations

import json
import tomllib
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from draftproof.adapters import engines
from draftproof.conformance.matrix import read_rows
from draftproof.reference.verifiers import ALGORITHMS

HOUSE = Path(__file__).parents[1]
FIELD: list[dict[str, Any]] = tomllib.loads(
    (HOUSE / "matrix" / "field.toml").read_text(encoding="utf-8")
)["implementation"]
ROWS = read_rows((Path(engines.__file__).parent / "rows.toml").read_bytes(), "rows.toml")
WHOLE: dict[str, Any] = json.loads((HOUSE / "whole" / "record.json").read_text(encoding="utf-8"))

OPTIONAL = ("rows", "whole", "unjudged")

RULES = {*ALGORITHMS, "agreement", "greedy", "lossy", "none", "other"}


def test_there_are_fifty_and_more_each_once() -> None:
    names = [each["name"] for each in FIELD]
    assert len(names) >= 50
    assert len({*names}) == len(names)


def test_every_entry_has_a_rule_a_source_a_date_and_a_sentence() -> None:
    for each in FIELD:
        assert {*each} - {*OPTIONAL} == {"name", "source", "rule", "read", "by", "says"}
        assert each["rule"] in RULES, each["name"]
        assert each["by"] in {"run", "reading", "thread", "name"}, each["name"]
        assert urlparse(each["source"]).scheme == "https", each["name"]
        assert date.fromisoformat(each["read"]) > date(2026, 1, 1), each["name"]
        assert each["says"].endswith("."), each["name"]


def test_what_keeps_an_implementation_from_being_judged_is_a_sentence() -> None:
    for each in FIELD:
        if "unjudged" in each:
            assert each["unjudged"].endswith("."), each["name"]
            assert not {"rows", "whole"} & {*each}, each["name"]


def test_every_row_of_the_matrix_is_of_an_implementation_of_the_field() -> None:
    told = [name for each in FIELD for name in each.get("rows", ())]
    assert len(told) == len({*told})
    assert {*told} == {row.name for row in ROWS}


def test_every_whole_engine_that_is_named_is_on_record() -> None:
    told = {name for each in FIELD for name in each.get("whole", ())}
    assert told <= {*WHOLE}


def test_what_is_judged_was_run() -> None:
    judged = {
        row["name"]
        for row in json.loads((HOUSE / "matrix" / "matrix.json").read_text())["rows"]
        if row["judged"]
    }
    for each in FIELD:
        if judged & {*each.get("rows", ())}:
            assert each["by"] == "run", each["name"]
