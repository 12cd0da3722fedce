from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from draftproof.conformance.report import rendered


def test_the_verdict_comes_first_and_the_worst_requirement_next(failing: dict[str, Any]) -> None:
    lines = rendered([failing], "markdown").splitlines()
    assert lines[0] == "## lossy 1.0: does not conform"
    table = [line for line in lines if line.startswith("|")]
    assert table[2].startswith("| law.lossless | **fail** | exact | 2.50e-01 | 1.00e-05 |")
    assert "| number.dtypes | **error** |  | 1.00e-08 | 1.00e-05 |  |" in table[4:]
    assert "- **law.lossless**: fail: it is lossy" in lines
    assert "- **law.lossless**: <https://example.org/issues/1>" in lines
    heads = [line for line in lines if line.startswith("### ")]
    assert heads[:4] == [
        "### Likely cause",
        "### The smallest counterexample found",
        "### Script that reproduces it",
        "### Failed requirements",
    ]
    assert "    should   0 ·" in lines
    assert "drafted: [1]" in lines
    assert "draftproof check-certificate CERTIFICATE.json --rerun --adapter ADAPTER" in lines
    assert "It says nothing about other inputs." in lines


def test_a_should_is_no_failure(conforming: dict[str, Any]) -> None:
    text = rendered([conforming], "markdown")
    assert "| random.boundary | fail (SHOULD) |" in text
    assert "**fail" not in text
    assert "E\\[accepted length\\] is 95.0%" in text


def elements(text: str) -> Iterator[Token]:
    """Yield what a reader of Markdown that allows HTML makes of a text, the inner parts too."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def test_a_hostile_certificate_stays_text(hostile: dict[str, Any]) -> None:
    found = list(elements(rendered([hostile], "markdown")))
    kinds = [each.type for each in found]
    assert not {"html_inline", "html_block", "link_open", "image"} & set(kinds)
    assert "code_inline" not in kinds
    assert kinds.count("tr_open") == 1 + len(hostile["predicate"]["draftproof"]["requirements"])
    assert kinds.count("td_open") == 6 * (kinds.count("tr_open") - 1)
    (name, *_) = (each.content for each in found if each.type == "inline")
    said = "".join(e.content for e in found if e.type.startswith("text") and not e.children)
    assert "<script>alert(1)</script> \"quoted\" 'single' `tick` a|b *c* @\u200bteam" in said
    # GitHub calls whom it finds, wherever that stands outside of code.
    assert "@team" not in name


def test_links_are_links_and_marks_are_seen(failing: dict[str, Any]) -> None:
    found = list(elements(rendered([failing], "markdown")))
    links = [each.attrs["href"] for each in found if each.type == "link_open"]
    assert links == ["https://example.org/issues/1"]


def test_a_counterexample_does_not_end_its_block(hostile: dict[str, Any]) -> None:
    text = rendered([hostile], "markdown")
    block = text.split("\n````text\n")[1].split("\n````\n")[0]
    assert block.splitlines()[-1] == "```"


def test_certificates_follow_each_other(
    conforming: dict[str, Any], failing: dict[str, Any]
) -> None:
    text = rendered([conforming, failing], "markdown")
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    conforms = "conforms (standard): exact, off by at most 1.00e-08 where 1.00e-05 is allowed"
    assert heads == [f"## mine 1.0: {conforms}", "## lossy 1.0: does not conform"]
    assert rendered([], "markdown") == ""
