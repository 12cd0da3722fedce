"""The glossary: terms of chapter 1, explained on every page by the sentences that define them."""

from __future__ import annotations

import re
from functools import cache

from building.markdown import flat, prose
from building.pages import HOUSE

TERMS = {
    "accepted length": "accepted length",
    "block efficiency": "block efficiency",
    "bonus": "bonus",
    "correction": "correction",
    "draft law": "draft law",
    "siblings": "siblings",
    "stateful": "stateful",
    "stateless": "stateless",
    "total variation": "total variation",
    "TV": "total variation",
}
"""Words that every page explains, each with the term that the chapter defines.

Words of nearly every sentence, such as target and draft, are left out.
"""


class Undefined(LookupError):
    """Error of a term without a defining sentence in the chapter."""


def definition(term: str) -> str:
    """Return the chapter's sentence with the term in italics. Raises `Undefined`."""
    for sentence in _sentences():
        if f"*{term}*" in sentence:
            return re.sub(r"[*`]", "", sentence)
    raise Undefined(f"spec/01-notation.md has no sentence with *{term}*")


@cache
def abbreviations() -> str:
    """Return the Markdown that, at the end of a page, explains the terms on it."""
    lines = (f"*[{shown}]: {definition(term)}" for shown, term in TERMS.items())
    return "\n\n" + "\n".join(lines) + "\n"


@cache
def _sentences() -> tuple[str, ...]:
    text = (HOUSE / "spec/01-notation.md").read_text(encoding="utf-8")
    written = "".join(part for part, is_prose in prose(text) if is_prose)
    return tuple(
        sentence
        for paragraph in written.split("\n\n")
        for sentence in re.split(r"(?<=\.) (?=[A-Z*])", flat(paragraph))
    )
