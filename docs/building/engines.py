"""The matrix of engines: its page's dashboard, its feed, and a badge for every row.

The feed contains all data of the dashboard, and no other data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from building.markdown import headings
from building.pages import HOUSE
from building.whole import speculations
from draftproof.conformance.report.badge import drawn, row_badge
from draftproof.conformance.report.plain import json_text, plain
from draftproof.conformance.report.states import (
    BY_DESIGN,
    CONFORMS,
    FAILS,
    LOSSY,
    ON_SOME,
    STATES,
    SUBOPTIMAL,
    losslessness,
    share,
    state,
    told,
)
from draftproof.conformance.requirements.finding import FAIL, FAILS_EVERYWHERE
from draftproof.spec import validate

_MATRIX = HOUSE / "adapters/matrix"

LANES = ("exact", "probe", "sample")
"""The lanes that decide losslessness, strongest first."""

GOOD = (CONFORMS, ON_SOME, SUBOPTIMAL)
"""The states of a row that conforms."""

BAD = (LOSSY, BY_DESIGN, FAILS, FAILS_EVERYWHERE)
"""The states of a row with a fault."""


def files() -> Mapping[str, bytes]:
    """Return the feed, and the badges of all rows."""
    made = {"engines.json": json_text(feed(record())).encode()}
    for row in plain(record()):
        shown, place = row_badge(row), f"engines/badges/{row['name']}"
        made[f"{place}.json"] = json_text(shown).encode()
        made[f"{place}.svg"] = drawn(shown).encode()
    return made


def dashboard() -> str:
    """Return the dashboard as HTML, for the page of the engines."""
    rows = feed(record())["rows"]
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(here=_from_page, slug=lambda text: text.replace(" ", "-"))
    template = environment.get_template("engines.html.jinja")
    html = template.render(
        rows=rows,
        whole=speculations(),
        states={name: sum(row["state"] == name for row in rows) for name in STATES},
        engines={engine: _by(own, "method") for engine, own in _by(rows, "engine").items()},
        histories={
            method: versions
            for method, versions in _by(rows, "method").items()
            if len(versions) > 1
        },
        algorithms=sorted({row["algorithm"] for row in rows}),
        lanes=[lane for lane in LANES if any(lane in _lanes(row) for row in rows)],
        decided=_lanes,
        is_of_few_cases=is_of_few_cases,
    )
    # What is quoted is neither a link nor code of Markdown, and no blank line ends the block.
    return re.sub(r"\n\s*\n", "\n", html.replace("[", "&#91;").replace("`", "&#96;")).strip()


def is_of_few_cases(row: Mapping[str, Any]) -> bool:
    """Return True if a row of the feed has no fault on fewer than half of the cases."""
    return bool(row["state"] == ON_SOME and 2 * row["asked"] < row["planned"])


def meanings() -> str:
    """Return the states of a row and their meanings, as a definition list in Markdown."""
    return "\n\n".join(f"{name}\n:   {meaning}" for name, meaning in STATES.items())


@cache
def record() -> Sequence[Mapping[str, Any]]:
    """Return the rows of the matrix on record."""
    text = (_MATRIX / "matrix.json").read_text(encoding="utf-8")
    rows: list[Mapping[str, Any]] = json.loads(text)["rows"]
    return rows


def feed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows of a matrix in the form of the feed, which follows the schema "engines"."""
    rows = plain(rows)
    by_method = {name: _changes(own) for name, own in _by(rows, _method).items()}
    document = {
        "record": "source/adapters/matrix/matrix.json",
        "rows": [_row(row, by_method[_method(row)].get(row["name"])) for row in rows],
    }
    validate(document, "engines")
    return document


def _row(row: Mapping[str, Any], change: str | None) -> dict[str, Any]:
    judged = row["judged"] or {}
    decided = losslessness(row) if judged else {}
    return {
        **{name: row[name] for name in ("name", "engine")},
        "method": _method(row),
        **{name: row[name] for name in ("version", "algorithm")},
        "state": state(row),
        "words": told(row),
        "change": change,
        **{name: judged.get(name) for name in ("mode", "asked", "planned")},
        "lossless": {name: decided[name] for name in ("verdict", "distance", "lanes")}
        if judged
        else None,
        "share": share(row),
        "judged": judged.get("created"),
        "notes": {
            heading: text
            for heading, text in (
                ("No verdict", row["reason"]),
                ("Cause", row["cause"]),
                ("Design", row["design"]),
                ("Drafts", row.get("certain")),
                ("Unreachable", row.get("unreachable")),
                ("Not all cases", judged.get("why")),
                ("Stubbed", row["note"]),
            )
            if text
        },
        "counterexample": _counterexample(row),
        "links": _links(row),
    }


def _method(row: Mapping[str, Any]) -> str:
    """Return the verifier of a row, without its version."""
    return str(row["name"]).partition("@")[0]


def _counterexample(row: Mapping[str, Any]) -> list[str]:
    """Return the counterexample in words, empty unless a computed distribution is wrong."""
    if not row["judged"]:
        return []
    if known := row["judged"]["counterexample"]:
        return list(known["words"])
    own = losslessness(row)
    is_computed = own["verdict"] == FAIL and own["lanes"] != ["sample"] and own["detail"]
    return [f"{own['id']} fails on {own['case']}: {own['detail']}"] if is_computed else []


def _links(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the addresses of a row's documents, relative to the root of the site."""
    name, report = row["name"], row["report"]
    badge = f"engines/badges/{name}"
    links = {"row": f"engines/#row.{name}", "badge": f"{badge}.json", "picture": f"{badge}.svg"}
    if report:
        links["report"] = f"trophies/{report}/"
        links["script"] = f"source/adapters/matrix/reproductions/{report}.py/"
        if example := _example(report):
            links["counterexample"] = f"trophies/{report}/#{example}"
    if _counterexample(row):
        links["counterexample"] = f"engines/#counterexample.{name}"
    return links


def _from_page(address: str) -> str:
    """Return an address relative to the page of the engines, which is a folder of the site."""
    own = address.removeprefix("engines/")
    return f"../{address}" if own == address else own


@cache
def _example(report: str) -> str:
    """Return the anchor of a report's example, empty if it has none."""
    text = (_MATRIX / f"reports/{report}.md").read_text(encoding="utf-8")
    titles = (each.title for each in headings(text) if "example" in each.title)
    return next(titles, "").lower().replace(" ", "-")


def _by(rows: Sequence[Mapping[str, Any]], key: Any) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows, in their order, grouped by a key or by the value of a function."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row) if callable(key) else row[key], []).append(row)
    return groups


def _lanes(row: Mapping[str, Any]) -> list[str]:
    """Return the lanes that decided whether a row of the feed is lossless."""
    return list(row["lossless"]["lanes"]) if row["lossless"] else []


def _changes(versions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return how each version of a method differs from the earlier ones, by the name of its row."""
    if len(versions) == 1:
        return {}
    first, *_ = versions
    told = {first["name"]: "first version judged"}
    for number, row in enumerate(versions[1:], 1):
        told[row["name"]] = _change(versions[:number], row)
    return told


def _change(earlier: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> str:
    before = earlier[-1]
    was, now = _fault(before), _fault(row)
    if now == was and {state(row), state(before)} == {LOSSY, BY_DESIGN}:
        documented = "now documented" if state(row) == BY_DESIGN else "not documented any more"
        return f"unchanged since {before['version']}, {documented}"
    if now == was and state(row) == state(before):
        return f"unchanged since {before['version']}"
    if was and state(row) in GOOD:
        return f"fault of {before['version']} fixed"
    if now and (same := [each["version"] for each in earlier if _fault(each) == now]):
        return f"fault of {same[-1]} returns"
    if now and was:
        return f"fault of {before['version']} fixed, a different fault found"
    if now and state(before) in GOOD:
        return f"fault introduced after {before['version']}"
    return f"changed since {before['version']}"


def _fault(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a value that distinguishes faults, documented or not; empty without a fault."""
    if state(row) not in BAD:
        return ()
    known = share(row)
    name = LOSSY if state(row) == BY_DESIGN else state(row)
    distance = losslessness(row)["distance"] if name == LOSSY else None
    return (
        name,
        "" if distance is None else f"{distance:.2g}",
        "" if known is None else f"{known:.3f}",
    )
