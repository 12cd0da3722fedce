"""Markdown for pull requests and the summary of a GitHub job, with the verdict first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from draftproof.conformance.report import words

_COLUMNS = ("requirement", "verdict", "lane", "observed", "allowed", "worst case")

# What Markdown, the mathematics in it, or HTML gives a meaning.
_MARKS = re.compile(r"([\\`*_{}\[\]<>|~&$#])")


def markdown(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return certificates as GitHub's Markdown, one after the other; every string is `plain`."""
    return "\n".join(line for document in documents for line in _certificate(document))


def _certificate(document: Mapping[str, Any]) -> Iterator[str]:
    found = document["predicate"]["draftproof"]
    decisions = found["requirements"]
    adapter = found["adapter"]
    judged = f"{in_line(adapter['name'])} {in_line(adapter['version'])}"
    yield f"## {judged}: {words.conclusion(found)}\n"
    yield f"{in_line(words.terms(found))}: {words.counted(decisions)}.\n"
    yield row_of(_COLUMNS)
    yield "|---|---|---|--:|--:|---|"
    for decision in words.worst_first(decisions):
        yield row_of(_cells(decision))
    if said := words.reasons(decisions):
        yield "\n### Reasons\n"
        for reason, ids in said.items():
            yield f"- **{in_line(', '.join(ids))}**: {in_line(reason)}"
    if found["counterexample"] is not None:
        yield "\n### The smallest counterexample found\n"
        yield fenced("\n".join(found["counterexample"]["words"]), "text")
    if found["known_failures"]:
        yield "\n### Known failures\n"
        for known in found["known_failures"]:
            issue = known["issue"]
            where = f"<{issue}>" if words.is_link(issue) else in_line(issue)
            yield f"- **{in_line(known['id'])}** fails as is known: {where}"
    if sentences := [*words.sentences(found)]:
        yield "\n### Sight, speed and chance\n"
        yield from (f"- {in_line(sentence)}" for sentence in sentences)
    yield "\n### What this does not say\n"
    yield in_line(found["limits"])
    yield "\n### How to repeat it\n"
    yield fenced(words.REPEAT, "sh")
    yield ""


def _cells(decision: Mapping[str, Any]) -> tuple[str, ...]:
    worst = decision["worst"]
    verdict = words.leveled(decision)
    bold = words.missed(decision) and not words.warns(decision)
    return (
        in_line(decision["id"]),
        f"**{verdict}**" if bold else verdict,
        worst["lane"] or "",
        *map(in_line, words.distances(worst)),
        in_line(worst["case"]) if worst["lane"] else "",
    )


def row_of(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def in_line(text: str) -> str:
    """Return text that Markdown shows unchanged, on one line; a name after @ notifies nobody."""
    return _MARKS.sub(r"\\\1", text).replace("@", "@&#8203;")


def fenced(code: str, language: str) -> str:
    """Return code as a block, in a fence longer than any fence in the code."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", code) or [""]))
    return f"{fence}{language}\n{code}\n{fence}"
