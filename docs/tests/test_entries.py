"""The ledger and the requirements as lists: what they say, and how the form narrows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from building import ledger
from building.entries import Entry, Facet, Unchoosable, form, section, slug
from building.pages import HOUSE

from draftproof.reference.ledger import CLAIMS, VERDICTS

ASSETS = HOUSE / "docs/theme/assets"
COLOUR = Facet("colour", "Colour", {"red": "deep red", "blue": "blue", "green": "green"})


def entry(name: str, *colours: str) -> Entry:
    return Entry(
        title=f"The {name} is here.",
        id=f"x.{name}",
        standing="not seen",
        anchor=f"claim.x.{name}",
        text=f"*Source:* {name}",
        values={"colour": colours},
    )


ENTRIES = (entry("rose", "red"), entry("flag", "red", "blue"), entry("glass"))


def test_the_form_offers_what_there_is_with_its_number() -> None:
    assert (
        '<label>Colour <select name="colour"><option value="">any</option>'
        '<option value="red">deep red (2)</option><option value="blue">blue (1)</option></select>'
        in form([COLOUR], ENTRIES)
    )


def test_an_entry_that_nobody_could_choose_is_refused() -> None:
    with pytest.raises(Unchoosable, match=r"x\.tree has the colour 'brown'; known: red, blue, gre"):
        form([COLOUR], [entry("tree", "brown")])


def test_an_entry_has_a_sentence_as_its_title_and_its_id_below() -> None:
    assert section("Things", "things", ENTRIES[1:2]) == (
        '<section class="entries" markdown="1">\n\n## Things { #things }\n\n'
        '<article class="entry" data-colour="red blue" markdown="1">\n\n'
        "### The flag is here. { #claim.x.flag }\n\n"
        "*not seen*{ .standing .not-seen } `x.flag`{ .identity }\n\n"
        "*Source:* flag\n\n</article>\n\n</section>"
    )


# --- the ledger -----------------------------------------------------------------------------------


def test_every_claim_is_an_entry_below_its_verdict() -> None:
    page = ledger.pages()["ledger.md"]
    listed = []
    for part in re.split(r"^## ", page, flags=re.M)[1:]:
        anchor = re.match(r".* \{ #([\w-]+) \}", part)
        assert anchor
        for name in re.findall(r"^### .+ \{ #claim\.([\w.]+) \}$", part, re.M):
            assert slug(VERDICTS[name]) == anchor[1]
            listed.append(name)
    assert sorted(listed) == sorted(CLAIMS)


def test_a_claim_can_be_chosen_by_each_of_its_sources() -> None:
    own = {name: ledger.papers_of(claim) for name, claim in CLAIMS.items()}
    assert own["block.optimal"] == ["2403.10444"]
    assert own["greedy_block.iterations"] == ["draftproof", "2403.10444"]
    assert own["block.break"] == ["vllm-project/vllm-ascend"]


# --- the form in a browser ------------------------------------------------------------------------


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A page with three entries, opened as a file."""
    articles = "".join(
        f'<article class="entry" data-colour="{" ".join(each.values["colour"])}">'
        f'<h3 id="{each.anchor}">{each.title}</h3></article>'
        for each in ENTRIES
    )
    (tmp_path / "index.html").write_text(
        f"<style>{(ASSETS / 'entries.css').read_text()}</style>{form([COLOUR], ENTRIES)}"
        f'<section class="entries">{articles}</section><section class="entries" id="empty">'
        f'<article class="entry" data-colour="green"><h3>Grass</h3></article></section>'
        f"<script>{(ASSETS / 'entries.js').read_text()}</script>"
    )
    opened = browser.new_page()
    opened.address = (tmp_path / "index.html").as_uri()
    yield opened
    opened.close()


def shown(page: Any) -> list[str]:
    titles = page.locator(".entry h3").all()
    return [each.text_content() for each in titles if each.is_visible()]


def test_a_choice_hides_the_other_entries_and_is_kept_in_the_address(page: Any) -> None:
    page.goto(page.address)
    assert page.locator("output").text_content() == "4 of 4 shown"
    page.get_by_label("Colour").select_option("red")
    assert shown(page) == ["The rose is here.", "The flag is here."]
    assert page.locator("output").text_content() == "2 of 4 shown"
    assert not page.locator("#empty").is_visible()
    page.get_by_label("Text").fill("FLAG here")
    assert shown(page) == ["The flag is here."]
    assert page.url == f"{page.address}?text=FLAG+here&colour=red"
    page.get_by_role("button", name="Show all").click()
    page.wait_for_function("document.querySelector('output').value === '4 of 4 shown'")
    assert page.url == page.address


def test_the_address_chooses(page: Any) -> None:
    page.goto(f"{page.address}?colour=blue&colour.x=1")
    assert shown(page) == ["The flag is here."]
    page.goto(f"{page.address}?colour=mauve")
    assert len(shown(page)) == 4


def test_a_link_to_a_hidden_entry_shows_it(page: Any) -> None:
    page.goto(f"{page.address}?colour=blue")
    page.evaluate("location.hash = 'claim.x.glass'")
    page.wait_for_function("document.querySelector('output').value === '4 of 4 shown'")
    assert "The glass is here." in shown(page)
    assert page.url == f"{page.address}#claim.x.glass"


def test_without_scripts_every_entry_is_shown_and_no_form(browser: Any, page: Any) -> None:
    page.goto(page.address)
    context = browser.new_context(java_script_enabled=False)
    plain = context.new_page()
    plain.goto(page.address)
    assert len(shown(plain)) == 4
    assert not plain.locator("form").is_visible()
    context.close()
