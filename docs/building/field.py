"""The field: known implementations of verification, their rules, and how we know of each."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from building.engines import record
from building.entries import Entry, Facet, form, section, slug
from building.markdown import WIDE
from building.pages import HOUSE
from draftproof.conformance.report.states import told
from draftproof.reference.verifiers import ALGORITHMS

_ADAPTERS = HOUSE / "adapters"

RULES = {
    "agreement": "agreement",
    "greedy": "greedy",
    "lossy": "lossy by design",
    "none": "no verifier",
    "other": "other",
}
"""Names of the rules that are not algorithms of the specification, in words."""

BY = {
    "run": "run here",
    "reading": "source read",
    "thread": "thread read",
    "name": "not read",
}
"""Bases of knowledge about an implementation, in words."""

_FACETS = (
    Facet("rule", "Rule", {name: each.title for name, each in ALGORITHMS.items()} | RULES),
    Facet("known", "Known by", BY),
)


def pages() -> Mapping[str, str]:
    """Return the page of the field."""
    field = tomllib.loads((_ADAPTERS / "matrix" / "field.toml").read_text(encoding="utf-8"))
    every = sorted(field["implementation"], key=lambda each: each["name"].casefold())
    verdicts = _verdicts()
    judged = [each for each in every if _names(each)]
    known = Counter(each["by"] for each in every)
    own = [_entry(each, verdicts) for each in judged]
    others = [_entry(each, verdicts) for each in every if not _names(each)]
    parts = [
        WIDE,
        "# The field",
        f"{len(every)} implementations of verification: all that we know. Draftproof has judged "
        f"{len(judged)} of them, in [the matrix](engines/index.md) or as [whole engines]"
        f"(whole-engines-record.md), and computed their verdicts. For the others, this page "
        f"summarises their sources or threads, which is not a verdict. We ran {known['run']} at "
        f"least in part, read the source of {known['reading']} and a thread about "
        f"{known['thread']}, and know {known['name']} by name only.",
        "*Agreement* samples the target and keeps a drafted token if it is the same. This rule is "
        "lossless. It accepts as much as rejection sampling if the draft is the draft model's most "
        "probable token, and less if the draft is sampled. *Greedy* compares with the most "
        "probable token, and samples nothing.",
        form(_FACETS, [*own, *others]),
        section("Judged", "judged", own),
        section("Not judged", "not-judged", others),
        "The build generates this page from [`field.toml`](repo:adapters/matrix/field.toml). If "
        "your implementation is missing or described incorrectly, please send us a link to its "
        "source.",
    ]
    return {"field.md": "\n\n".join(parts) + "\n"}


def _entry(each: Mapping[str, Any], verdicts: Mapping[str, str]) -> Entry:
    rule = each["rule"]
    reason = f" *Not judged:* {each['unjudged']}" if "unjudged" in each else ""
    facts = [
        *([f"[{ALGORITHMS[rule].title}](#algorithm.{rule})"] if rule in ALGORITHMS else ()),
        *(verdicts[name] for name in _names(each)),
        f"[source]({each['source']}), {each['read']}",
    ]
    return Entry(
        title=each["name"],
        id=rule if rule in ALGORITHMS else RULES[rule],
        standing=BY[each["by"]],
        anchor="field." + re.sub(r"[^\w.-]+", "-", slug(each["name"])).strip("-"),
        text=f"{each['says']}{reason}\n\n{' · '.join(facts)}",
        values={"rule": (rule,), "known": (each["by"],)},
    )


def _names(each: Mapping[str, Any]) -> list[str]:
    return [*each.get("rows", ()), *each.get("whole", ())]


def _verdicts() -> dict[str, str]:
    """Return the outcomes of rows of the matrix and of whole engines in words, by name."""
    whole = json.loads((_ADAPTERS / "whole" / "record.json").read_text(encoding="utf-8"))
    said = {}
    for row in record():
        said[row["name"]] = f"`{row['name']}`: {told(row)}"
    for name, row in whole.items():
        found = dict.fromkeys(each["verdict"] for each in row["checkpoints"].values())
        said[name] = f"`{name}`: {', '.join(found)}"
    return said
