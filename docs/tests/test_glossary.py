"""Every term is explained by the sentence of chapter 1 that defines it."""

from __future__ import annotations

import pytest
from building.glossary import TERMS, Undefined, abbreviations, definition


def test_a_term_has_the_sentence_that_defines_it() -> None:
    assert definition("accepted length") == (
        "The accepted length τ does not count the next token; block efficiency is E[τ] + 1."
    )


def test_every_term_is_defined_on_one_line() -> None:
    lines = abbreviations().strip().splitlines()
    assert [line.partition("]: ")[0] for line in lines] == [f"*[{term}" for term in TERMS]


def test_an_undefined_term_is_refused() -> None:
    with pytest.raises(Undefined, match=r"spec/01-notation.md has no sentence with \*nonsense\*"):
        definition("nonsense")
