"""The pages of the theory show all that is stated and proved, and nothing else as if it were."""

from __future__ import annotations

import html
import re
from textwrap import dedent

import markdown  # type: ignore[import-untyped]  # it ships no types
import pytest
from building import theory
from building.markdown import headings
from theory.checking import files
from theory.sentences import sentences

PAGES = {page.origin: page for page in theory.written()}


@pytest.mark.parametrize("name", files())
def test_a_page_has_every_program_statement_and_proof_of_its_file(name: str) -> None:
    page = PAGES[f"spec/theory/{name}.v"].text
    lines = {line.strip() for line in page.splitlines()}
    settings = ("From", "Set", "Unset", "Import", "Local Open", "Local Arguments", "Arguments")
    for each in sentences(files()[name]):
        if not each.code.startswith((*settings, "Declare", "Delimit")):
            last = each.source.splitlines()[-1].strip()
            assert any(last in line for line in lines), each.code


@pytest.mark.parametrize("name", files())
def test_a_theorem_has_a_heading_and_its_statement_is_not_folded(name: str) -> None:
    page = PAGES[f"spec/theory/{name}.v"].text
    stated = [each for each in sentences(files()[name]) if each.is_result]
    anchors = [heading.anchor for heading in headings(page) if heading.anchor]
    assert anchors == [f"theorem.{name}.{each.name}" for each in stated]
    shown = re.findall(r"^```coq\n(.*?)^```$", page, re.S | re.M)
    folded = [
        dedent(each) for each in re.findall(r"^    ```coq\n(.*?)^    ```$", page, re.S | re.M)
    ]
    for each in stated:
        first = each.source.strip().splitlines()[-1]
        assert any(first in code for code in shown)
    assert not any("Proof" in re.sub(r"\(\*.*?\*\)", "", code, flags=re.S) for code in shown)
    assert all(re.search(r"\b(Proof|Notation|Lemma|Implicit|Canonical)\b", code) for code in folded)


def test_the_page_of_all_says_that_the_correspondence_is_tested_and_not_proved() -> None:
    text = PAGES["spec/theory"].text
    assert "**Tests, not a proof**" in text
    for name in files():
        assert f"[`{name}.v`](theory/{name}.v)" in text


def test_comments_are_shown_as_they_are() -> None:
    said = r"a <b> *c* d_e [f](g) (1 - b)^K | x & y \ `z` ~h~ #1 $2$"
    shown = markdown.markdown(theory._prose(f"{said},\narXiv 2211.17192."))
    link = '<a href="https://arxiv.org/abs/2211.17192">arXiv 2211.17192</a>'
    assert html.unescape(shown) == f"<p>{said}, {link}.</p>"
