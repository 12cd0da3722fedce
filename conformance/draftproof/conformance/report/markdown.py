"""Markdown for pull requests and the summary of a GitHub job, with the verdict first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from draftproof.conformance.report import words
from draftproof.conformance.report.bars import bars, drawn

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
    if cause := [*words.likely_cause(found)]:
        yield "### Likely cause\n"
        yield from (f"- {in_line(sentence)}" for sentence in cause)
        yield ""
    if (shown := found["counterexample"]) is not None:
        yield "### The smallest counterexample found\n"
        yield fenced("\n".join(_counterexample(shown)), "text")
        yield "\n### Script that reproduces it\n"
        yield fenced("draftproof explain CERTIFICATE.json --script reproduce.py", "sh")
        yield ""
    if missed := words.groups(decisions):
        yield f"### {words.groups_title(decisions)}\n"
        yield from (_group(each) for each in missed)
        yield ""
    if found["known_failures"]:
        yield "### Known failures\n"
        for known in found["known_failures"]:
            issue = known["issue"]
            where = f"<{issue}>" if words.is_link(issue) else in_line(issue)
            yield f"- **{in_line(known['id'])}**: {where}"
        yield ""
    yield "### All requirements\n"
    yield row_of(_COLUMNS)
    yield "|---|---|---|--:|--:|---|"
    for decision in words.worst_first(decisions):
        yield row_of(_cells(decision))
    if said := words.reasons(decisions):
        yield ""
        for reason, ids in said.items():
            yield f"- **{in_line(', '.join(ids))}**: {in_line(reason)}"
    if sentences := [*words.sentences(found)]:
        yield "\n### Coverage, speed and chance\n"
        yield from (f"- {in_line(sentence)}" for sentence in sentences)
    yield "\n### What a pass does not guarantee\n"
    yield in_line(found["limits"])
    yield "\n### Judge it again\n"
    yield fenced(words.REPEAT, "sh")
    yield ""


def _counterexample(shown: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outcome that differs most as two bars, and the story."""
    if found := bars(shown):
        yield from (f"{found.outcome}: probability", *drawn(found), "")
    yield from shown["words"]


def _group(group: words.Group) -> str:
    ids = ", ".join(each["id"] for each in group.decisions)
    if len(group.decisions) > 1:
        count = f"{len(group.decisions)} requirements fail for the same reason"
        return f"- {count}, a {group.reason}: **{in_line(ids)}**"
    verdict = words.leveled(group.decisions[0])
    return f"- **{in_line(ids)}**: {verdict}: {in_line(group.reason)}"


def _cells(decision: Mapping[str, Any]) -> tuple[str, ...]:
    worst = decision["worst"]
    verdict = words.leveled(decision)
    bold = words.missed(decision) and not words.warns(decision)
    return (
        in_line(decision["id"]),
        f"**{verdict}**" if bold else verdict,
        words.lane(worst["lane"]),
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
