"""Descriptions of pages for search engines and for previews of links: their first sentences."""

from __future__ import annotations

import re

from building.markdown import flat, fronted, headings, prose, relinked

MOST = 160
"""Largest number of characters in a description; search engines cut longer ones."""

_MARKS = re.compile(r"\{[^{}]*\}|[*`]|\\(?=[\[\]()*_])")
_NO_PROSE = re.compile(r"#|<|\||\[|!|[-*+] |\d+\. |\?\?\?|===|\$\$|\\\[|>|:")


def described(text: str) -> str:
    """Return a page with its description in the front matter, if it has a paragraph of prose."""
    words = description(text)
    return fronted(text, "description", words) if words else text


def description(text: str) -> str:
    """Return the first paragraph of prose below the title, without marks; empty if there is none.

    It ends with the last sentence that fits, or with an ellipsis.
    """
    title = next(iter(headings(text)), None)
    below = text[title.end :] if title else text
    paragraphs = (
        paragraph
        for part, is_prose in prose(below)
        for paragraph in (part.split("\n\n") if is_prose else ())
    )
    for paragraph in paragraphs:
        words = flat(_MARKS.sub("", relinked(paragraph, lambda link: link.text)))
        if words and not _NO_PROSE.match(paragraph.strip()):
            return shortened(words)
    return ""


def shortened(words: str) -> str:
    """Return as many sentences as fit, or else as many words, with an ellipsis."""
    if len(words) <= MOST:
        return words
    sentences = [each.end(1) for each in re.finditer(r"([.?!]) ", words[: MOST + 1])]
    if sentences:
        return words[: sentences[-1]]
    return words[: MOST - 1].rpartition(" ")[0].rstrip(",;:") + "…"
