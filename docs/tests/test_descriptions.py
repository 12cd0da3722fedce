"""Descriptions of pages: their first sentences, in the front matter."""

from __future__ import annotations

import pytest
from building.descriptions import MOST, described, description, shortened


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# A\n\nOne. Two.\n\nThree.\n", "One. Two."),
        (
            "# A\n\n*Normative.* A [law](x.md#y) is `p`, and\nso on.\n",
            "Normative. A law is p, and so on.",
        ),
        (
            "# A\n\n<div>x</div>\n\n| a |\n|---|\n\n* a list\n\n[computed](x)\n\nProse { .lead }\n",
            "Prose",
        ),
        ("# A\n\n```sh\ncode, not prose\n```\n\nProse.\n", "Prose."),
        ("No title, and prose.\n", "No title, and prose."),
        ("# A\n\n## B\n", ""),
    ],
)
def test_the_first_prose_below_the_title_describes_a_page(text: str, words: str) -> None:
    assert description(text) == words


def test_a_description_joins_the_front_matter_of_its_page() -> None:
    assert described('# A\n\nIt\'s "B".\n') == (
        '---\ndescription: "It\'s \\"B\\"."\n---\n\n# A\n\nIt\'s "B".\n'
    )
    page = "---\nhide:\n  - toc\n---\n\n# A\n\nB.\n"
    assert described(page) == '---\nhide:\n  - toc\ndescription: "B."\n---\n\n# A\n\nB.\n'
    assert described(described(page)) == described(page)
    assert described("# A\n") == "# A\n"


def test_a_long_paragraph_ends_with_a_sentence_or_an_ellipsis() -> None:
    long = "word " * 40
    assert shortened(f"First. Second one. {long}") == "First. Second one."
    cut = shortened(long.strip())
    assert cut.endswith("word…")
    assert len(cut) <= MOST
