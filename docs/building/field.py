"""The field: every known implementation of verification, its rule, and how that is known."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping
from typing import Any

from building.engines import record
from building.markdown import table
from building.pages import HOUSE
from draftproof.reference.verifiers import ALGORITHMS

_ADAPTERS = HOUSE / "adapters"

RULES = {
    "agreement": "agreement",
    "greedy": "greedy",
    "lossy": "lossy by design",
    "none": "no verifier",
    "other": "other",
}
"""The rules that are none of the specification's algorithms, in words."""

BY = {
    "run": "run here",
    "reading": "its source",
    "thread": "a thread",
    "name": "not read",
}
"""How something is known, in words."""


def pages() -> Mapping[str, str]:
    """Return the page of the field."""
    field = tomllib.loads((_ADAPTERS / "matrix" / "field.toml").read_text(encoding="utf-8"))
    every = sorted(field["implementation"], key=lambda each: each["name"].casefold())
    verdicts = _verdicts()
    judged = [each for each in every if _names(each)]
    known = Counter(each["by"] for each in every)
    parts = [
        "# The field",
        f"{len(every)} implementations of verification: all that we know. Draftproof has judged "
        f"{len(judged)} of them, in [the matrix](engines.md) or as [whole engines]"
        f"(whole-engines-record.md), and computed their verdicts. For the others, this page "
        f"summarises their sources or threads, which is not a verdict. We ran {known['run']} at "
        f"least in part, read the source of {known['reading']} and a thread about "
        f"{known['thread']}, and know {known['name']} by name only.",
        "*Agreement* samples the target and keeps a drafted token if it is the same. This rule is "
        "lossless, and accepts less than rejection sampling. *Greedy* compares with the most "
        "probable token, and samples nothing.",
        table(
            ["implementation", "rule", "judged", "what it does", "known by", "read"],
            [
                [
                    f"[{each['name']}]({each['source']})",
                    _rule(each["rule"]),
                    "<br>".join(verdicts[name] for name in _names(each)),
                    each["says"],
                    BY[each["by"]],
                    each["read"],
                ]
                for each in every
            ],
        ),
        "The build generates this page from [`field.toml`](repo:adapters/matrix/field.toml). If "
        "your implementation is missing or described incorrectly, please send us a link to its "
        "source.",
    ]
    return {"field.md": "\n\n".join(parts) + "\n"}


def _names(each: Mapping[str, Any]) -> list[str]:
    return [*each.get("rows", ()), *each.get("whole", ())]


def _rule(name: str) -> str:
    return f"[`{name}`](#algorithm.{name})" if name in ALGORITHMS else RULES[name]


def _verdicts() -> dict[str, str]:
    """Return what rows of the matrix and whole engines came to, in words, by name."""
    whole = json.loads((_ADAPTERS / "whole" / "record.json").read_text(encoding="utf-8"))
    said = {}
    for row in record():
        by_design = row["design"] and row["outcome"] == "does not conform"
        said[row["name"]] = f"`{row['name']}`: {row['outcome']}{', by design' * bool(by_design)}"
    for name, row in whole.items():
        found = dict.fromkeys(each["verdict"] for each in row["checkpoints"].values())
        said[name] = f"`{name}`: {', '.join(found)}"
    return said
