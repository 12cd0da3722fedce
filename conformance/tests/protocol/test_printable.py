from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftproof.conformance.protocol.printable import printable, printable_lines
from draftproof.spec import MalformedDocument, validate

ROW = {"engine": "e", "version": "1", "algorithm": "token", "missing": "m"}


def rows(name: str) -> object:
    return {"row": [{**ROW, "name": "a", "note": name}]}


def test_what_can_be_printed_stays() -> None:
    assert printable("é × τ ⟨x⟩") == "é × τ ⟨x⟩"
    assert printable("a\tb\r\nc\N{NO-BREAK SPACE}d") == "a b  c d"
    assert printable("\x1b[2J\u202e\ud800") == "�[2J��"
    assert printable_lines({"\x1b": ("a\n\x07b", 1)}) == {"�": ["a\n�b", 1]}


@given(st.text(st.characters()))
def test_schemas_take_all_that_can_be_printed(text: str) -> None:
    validate(rows(printable(text)), "rows")


@pytest.mark.parametrize(
    "odd", ["\n", "\r", "\x1b", "\x9b", "\u2028", "\u202e", "\u200b", "\ud800"]
)
@pytest.mark.parametrize("ahead", ["", "a"])
@pytest.mark.parametrize("behind", ["", "a"])
def test_schemas_refuse_what_cannot(odd: str, ahead: str, behind: str) -> None:
    with pytest.raises(MalformedDocument, match=r"rows: row/0/note: .* does not match"):
        validate(rows(ahead + odd + behind), "rows")
