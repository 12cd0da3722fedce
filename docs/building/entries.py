"""Lists that a reader can filter: a form, and entries with values to filter by.

The page contains every entry; `assets/entries.js` shows the form and hides entries that do not
match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape


class Unchoosable(ValueError):
    """Error of an entry with a value that its list offers no choice for."""


@dataclass(frozen=True)
class Facet:
    """Property to filter entries by: its name in the address, its label, its values.

    `name` is one lowercase word, and so is every value.
    """

    name: str
    label: str
    values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Entry of a list: a sentence as its title, its id below, and its text in Markdown.

    `standing` is the status of the sentence, such as "refuted" or "MUST". `values` has the values
    of the entry for every facet of its list, by the facet's name.
    """

    title: str
    id: str
    standing: str
    anchor: str
    text: str
    values: Mapping[str, Sequence[str]]


def slug(words: str) -> str:
    """Return words as one lowercase word with hyphens, as in anchors and addresses."""
    return words.lower().replace(" ", "-")


def form(facets: Sequence[Facet], entries: Sequence[Entry]) -> str:
    """Return the form that filters a list; each choice shows the number of its entries.

    Raises `Unchoosable` for a value of an entry that its facet does not have.
    """
    selects = "\n".join(_select(facet, entries) for facet in facets)
    return (
        '<form class="narrowing" role="search" hidden>\n'
        '<label>Text <input type="search" name="text" autocomplete="off"></label>\n'
        f"{selects}\n"
        '<p><output></output> <button type="reset">Show all</button></p>\n'
        "</form>"
    )


def _select(facet: Facet, entries: Sequence[Entry]) -> str:
    counts = dict.fromkeys(facet.values, 0)
    for entry in entries:
        for value in entry.values[facet.name]:
            if value not in counts:
                raise Unchoosable(
                    f"{entry.id} has the {facet.name} {value!r}; known: {', '.join(counts)}"
                )
            counts[value] += 1
    options = "".join(
        f'<option value="{escape(value)}">{escape(facet.values[value])} ({count})</option>'
        for value, count in counts.items()
        if count
    )
    return (
        f'<label>{escape(facet.label)} <select name="{facet.name}">'
        f'<option value="">any</option>{options}</select></label>'
    )


def section(title: str, anchor: str, entries: Sequence[Entry]) -> str:
    """Return entries below a heading, which is hidden if all of them are."""
    return "\n\n".join(
        (
            '<section class="entries" markdown="1">',
            f"## {title} {{ #{anchor} }}",
            *map(_entry, entries),
            "</section>",
        )
    )


def _entry(entry: Entry) -> str:
    data = " ".join(
        f'data-{name}="{escape(" ".join(values))}"' for name, values in entry.values.items()
    )
    return "\n\n".join(
        (
            f'<article class="entry" {data} markdown="1">',
            f"### {entry.title} {{ #{entry.anchor} }}",
            f"*{entry.standing}*{{ .standing .{slug(entry.standing)} }} "
            f"`{entry.id}`{{ .identity }}",
            entry.text,
            "</article>",
        )
    )
