from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.museum.mutants import CONTROLS, EXHIBITS, Mutant
from draftproof.conformance.report import FORMATS, html, rendered
from draftproof.conformance.report.drawing import ReportUnavailable
from draftproof.conformance.report.words import REPEAT
from draftproof.reference.extras import installation
from draftproof.spec import validate

Make = Any

VOID = {"meta", "link", "br", "img", "use", "path", "rect"}

CSS = (Path(html.__file__).parent / "page.css").read_text(encoding="utf-8")

KILL_MATRIX = json.loads((html.FOLDER / "kill_matrix.json").read_text(encoding="utf-8"))


class Elements(HTMLParser):
    """The elements of a page in order, each with its attributes and the text right in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.found) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self.found[self.open.pop()][0] == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.found[self.open[-1]][2].append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(a, " ".join("".join(t).split())) for name, a, t in self.found if name == tag]


@pytest.fixture(scope="module")
def page(conforming: dict[str, Any], failing: dict[str, Any]) -> str:
    return rendered([conforming, failing], "html")


def texts(page: str, tag: str) -> list[str]:
    return [text for _, text in Elements(page).all(tag)]


def test_a_page_is_well_formed_and_in_one_piece(page: str) -> None:
    elements = Elements(page)
    assert not elements.open
    assert page.startswith("<!DOCTYPE html>\n")
    assert elements.all("html")[0][0] == {"lang": "en"}
    assert not elements.all("script")
    policy = next(a for a, _ in elements.all("meta") if a.get("http-equiv"))
    assert policy["content"] == (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    for name, attributes, _ in elements.found:
        assert not [key for key in attributes if key.startswith("on")]
        address = attributes.get("href") or attributes.get("src") or "#"
        if name != "a":
            assert address.startswith(("#", "data:")), (name, address)
    assert "url(http" not in page
    assert "@import" not in page


def test_a_page_can_be_read_aloud(page: str) -> None:
    elements = Elements(page)
    levels = [int(name[1]) for name, _, _ in elements.found if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert {a.get("scope") for a, _ in elements.all("th")} == {"col", "row"}
    ids = [a["id"] for _, a, _ in elements.found if "id" in a]
    assert len(ids) == len(set(ids))
    for _, a, _ in elements.found:
        for name in (a.get("aria-labelledby") or "").split():
            assert name in ids
    for attributes, _ in elements.all("a"):
        address = attributes["href"] or ""
        assert address.startswith("https://") or address[1:] in ids


def test_one_page_holds_several_certificates_with_an_index(page: str) -> None:
    assert texts(page, "h1") == ["2 certificates"]
    assert texts(page, "h2") == ["mine 1.0", "lossy 1.0"]
    assert texts(page, "title")[0] == "2 certificates · draftproof"
    links = [(a["href"], text) for a, text in Elements(page).all("a")]
    assert links[:2] == [("#a1", "mine 1.0"), ("#a2", "lossy 1.0")]
    assert page.count('id="trial"') == 1


def test_one_certificate_is_told_in_order(failing: dict[str, Any]) -> None:
    page = rendered([failing], "html")
    assert texts(page, "h1") == ["lossy 1.0"]
    assert texts(page, "title")[0] == "lossy does not conform · draftproof"
    assert texts(page, "h3") == [
        "Likely cause",
        "The smallest counterexample found",
        "Script that reproduces it",
        "Failed requirements",
        "All requirements",
        "Distances, lengths and chance",
        "Tests of the suite itself",
        "All findings",
        "Configuration of the run",
        "Known failures",
        "What a pass does not guarantee",
        "Judge it again",
    ]
    table = page.split('<table class="requirements">')[1].split("</table>")[0]
    rows = re.findall(r'<th scope="row">([a-z.]+)<', table)
    assert rows == [
        "law.lossless",
        "law.support",
        "number.dtypes",
        "random.iterations",
        "law.prefix",
    ]
    said = texts(page, "dd")
    assert "fail: it is lossy" in said
    assert "the probe lane cannot see this adapter: it draws elsewhere" in said
    items = texts(page, "li")
    assert "law.lossless fails at V=2, L=1, K=1: distance 1/4" in items
    cells = texts(page, "td")
    assert {"0, 1", "1/2, 1/2", "0.5"} <= set(cells)
    assert "[1] then 0" in texts(page, "th")
    links = [a["href"] for a, _ in Elements(page).all("a")]
    assert links == ["https://example.org/issues/1"]
    script = "draftproof explain CERTIFICATE.json --script reproduce.py"
    assert texts(page, "pre") == [script, REPEAT]
    assert "It says nothing about other inputs." in texts(page, "p")


def test_every_finding_is_there(conforming: dict[str, Any]) -> None:
    page = rendered([conforming], "html")
    decisions = conforming["predicate"]["draftproof"]["requirements"]
    assert len(Elements(page).all("details")) == len(decisions)
    named = texts(page, "th")
    for each in decisions:
        for finding in each["findings"]:
            assert finding["case"] in named


def test_a_hostile_certificate_stays_text(hostile: dict[str, Any]) -> None:
    page = rendered([hostile], "html")
    elements = Elements(page)
    assert not elements.open
    assert not elements.all("script")
    assert not elements.all("a")
    assert "javascript:alert(1)" in page
    assert not any(key.startswith("on") for _, a, _ in elements.found for key in a)
    assert "\x1b" not in page
    assert page.encode()
    title = texts(page, "title")[0]
    assert title.startswith("<script>alert(1)</script> \"quoted\" 'single'")


def test_nothing_to_show_is_a_page_too() -> None:
    page = rendered([], "html")
    assert texts(page, "h1") == ["0 certificates"]
    assert "There is nothing to show." in texts(page, "p")
    assert not Elements(page).open


def test_the_same_certificates_give_the_same_bytes(
    page: str, conforming: Any, failing: Any
) -> None:
    assert rendered([conforming, failing], "html") == page


# --- the kill matrix ---------------------------------------------------------------------


def test_the_matrix_that_ships_is_of_these_exhibits() -> None:
    validate(KILL_MATRIX, "mutants")
    shipped = {each["id"]: each for each in KILL_MATRIX["exhibits"]}
    assert set(shipped) == set(EXHIBITS)
    for name, exhibit in EXHIBITS.items():
        mutant = isinstance(exhibit, Mutant)
        must = exhibit.must_fail
        assert shipped[name]["must_fail"] == list(must), name
        assert shipped[name]["kind"] == ("mutant" if mutant else "control")
        assert shipped[name]["what"] == exhibit.what
        assert shipped[name]["as_it_must"], name


def test_the_matrix_is_a_table_of_its_own_box(page: str) -> None:
    (box,) = re.findall(r'<div class="matrix".*?</div>', page, re.S)
    elements = Elements(box)
    assert len(elements.all("tr")) == 1 + len(EXHIBITS)
    named = [text for a, text in elements.all("th") if a["scope"] == "row"]
    assert sum(name.endswith("(control)") for name in named) == len(CONTROLS)
    must = [
        each["id"]
        for each in KILL_MATRIX["exhibits"]
        for cell in {c["requirement"] for c in each["cells"] if c["verdict"] == "killed"}
        if cell in each["must_fail"]
    ]
    marked = [a["aria-label"] or "" for a, text in elements.all("span") if text == "●"]
    assert sum(label.startswith("killed, as required: ") for label in marked) == len(must) > 100
    assert any(
        "The suite's own results, shipped with draftproof" in text for text in texts(page, "p")
    )


def test_a_matrix_can_be_given() -> None:
    given = {**KILL_MATRIX, "exhibits": [{**KILL_MATRIX["exhibits"][0], "as_it_must": False}]}
    page = rendered([], "html", kill_matrix=given)
    (told,) = (text for text in texts(page, "p") if "Results given with --kill-matrix" in text)
    assert f"wrong results: {given['exhibits'][0]['id']}" in told
    empty = rendered([], "html", kill_matrix={**KILL_MATRIX, "exhibits": []})
    assert "No mutant was judged." in texts(empty, "p")


# --- colours -----------------------------------------------------------------------------


def luminance(color: str) -> float:
    """Return the relative luminance of an sRGB colour, as WCAG 2.2 defines it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("name", ["ink", "muted", "accent", "good", "warn", "bad"])
def test_letters_stand_out_in_both_themes(theme: int, name: str) -> None:
    colors = dict(re.findall(r"--(\w+): (#\w{6});", CSS.split(":root {")[1 + theme]))
    dark, light = sorted(luminance(colors[each]) for each in (name, "paper"))
    # WCAG 2.2, 1.4.3: at least 4.5 for text of any size.
    assert (light + 0.05) / (dark + 0.05) >= 4.5


# --- what is missing ---------------------------------------------------------------------


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_without_a_dependency_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, conforming: dict[str, Any], module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ReportUnavailable, match=f"{module}: {re.escape(installation('report'))}"):
        rendered([conforming], "html")
    with pytest.raises(ReportUnavailable, match=f"{module}: in a checkout"):
        rendered([], "html")
    # What needs neither is there all the same.
    for form in ("markdown", "junit", "json"):
        assert rendered([conforming], form)


def test_another_form_is_refused(conforming: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one of markdown, html, junit, json, got 'pdf'"):
        rendered([conforming], "pdf")
    assert FORMATS[0] == "terminal"


def test_the_envelope_is_a_table_of_what_was_covered_together(
    certificate: Make, envelope: Any
) -> None:
    text = rendered([certificate(envelope=envelope)], "html")
    paragraphs = texts(text, "p")
    assert any(told.startswith("Distributions compared at L 2 and 33; B 1") for told in paragraphs)
    assert any(told.startswith("Outside: rows of different lengths") for told in paragraphs)
    table = re.search(r'<div class="matrix together".*?</div>', text, re.DOTALL)
    assert table is not None
    (line,) = re.findall(r"<tr[^>]*><th[^>]*>B 257\+</th>(.*?)</tr>", table[0], re.DOTALL)
    assert re.findall(r"<td>(.?)</td>", line) == ["●", "", "", "", ""]
    assert "matrix together" not in rendered([certificate()], "html")
