"""The record of whole engines: the outcomes of engines judged by their output, with dates."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from building.markdown import WIDE, table, title
from building.pages import HOUSE
from draftproof.conformance.report.states import LOSSY
from draftproof.conformance.requirements.finding import CANNOT_RUN, FAIL

_WHOLE = HOUSE / "adapters/whole"

_ENGINES = {
    "llama_cpp": "llama.cpp",
    "mistral": "mistral.rs",
    "mlx": "MLX LM",
    "openvino": "OpenVINO GenAI",
    "sglang": "SGLang",
    "transformers": "transformers",
    "vllm": "vLLM",
}
"""Names of the engines in the matrix, by the environments of whole engines."""

_COLUMNS = ["speculation", "checkpoint", "version", "verdict", "distance", "settings", "judged"]

_WORST_FIRST = ("does not conform", "not run", "conforms")


@dataclass(frozen=True)
class Speculation:
    """Outcome of one drafting method of a released engine, the worst of its checkpoints."""

    method: str
    state: str
    """State of the matrix."""
    words: str
    reason: str = ""
    """Reason for not running it."""


def speculations() -> dict[str, dict[str, list[Speculation]]]:
    """Return the outcomes of whole engines, by name in the matrix, then by build and version.

    Modified engines, and runs without speculation, are left out.
    """
    record, known = _read()
    found: dict[str, dict[str, list[Speculation]]] = {}
    for name, each in record.items():
        if " replaced" in each["engine"] or each["method"] == "no speculation":
            continue
        worst = min(
            each["checkpoints"].values(), key=lambda one: _WORST_FIRST.index(one["verdict"])
        )
        verdict, version = worst["verdict"], worst.get("version", "")
        if verdict == "not run":
            own = Speculation(each["method"], CANNOT_RUN, verdict, worst["reason"])
        else:
            is_lossy = worst["requirements"]["engine.lossless"] == FAIL
            state = LOSSY if is_lossy else verdict
            own = Speculation(each["method"], state, f"{state}: distance {_distance(worst)}")
        build = f"{each['engine']} {version}".strip()
        builds = found.setdefault(_ENGINES[known[name]["environment"]], {})
        builds.setdefault(build, []).append(own)
    return found


def _read() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the record, and the rows that were requested."""
    record = json.loads((_WHOLE / "record.json").read_text(encoding="utf-8"))
    return record, tomllib.loads((_WHOLE / "rows.toml").read_text(encoding="utf-8"))


def pages() -> Mapping[str, str]:
    """Return the page of the record."""
    record, known = _read()
    engines: dict[str, list[list[str]]] = {}
    for name, each in record.items():
        settings = ", ".join(f"`{setting}`" for setting in known[name]["settings"])
        engines.setdefault(each["engine"], []).extend(
            [
                each["method"],
                kind,
                found.get("version", ""),
                _outcome(found),
                _distance(found),
                settings,
                found.get("judged", ""),
            ]
            for kind, found in each["checkpoints"].items()
        )
    parts = [
        WIDE,
        "# Whole engines on record",
        "These released engines were run on a CPU and judged by the tokens that they returned, one "
        "table for each engine. The results say nothing about other versions, devices or methods.",
        "*Conforms* means that no part of the campaign deviates and that the distance of each part "
        "is bounded; *below* is the bound, at a risk of one in a million. The distance is that of "
        "all tokens with plain sampling from the model's known rows. Each engine received the "
        "requests of [a campaign](how-to/whole-engines.md), alone and together, with the settings "
        "in its table. A campaign ends as soon as it proves a failure, so failing rows have fewer "
        "tokens. Engines with *replaced* in their name are modified: they show that a fix works, "
        "or the output of an engine that would not start otherwise.",
    ]
    for engine, rows in engines.items():
        parts += [f"## {engine}", table(_COLUMNS, rows)]
    parts += [
        "## Failures",
        "Each failure has a report for the maintainers, and a script whose first lines list its "
        "requirements.",
    ]
    parts += [
        f"* [{title(report.read_text(encoding='utf-8'))}]"
        f"(repo:adapters/whole/reports/{report.name}) · "
        f"[the script](repo:adapters/whole/reproductions/{script.name})"
        for script in sorted((_WHOLE / "reproductions").iterdir())
        if (report := _WHOLE / "reports" / f"{script.stem}.md").exists()
    ]
    parts += [
        "## Derive the record again",
        "`make engines` runs all engines again, with packages pinned by hashes.",
    ]
    return {"whole-engines-record.md": "\n\n".join(parts) + "\n"}


def _outcome(found: Mapping[str, Any]) -> str:
    if found["verdict"] == "not run":
        return f"not run: {found['reason']}"
    failed = [
        name
        for name, verdict in found["requirements"].items()
        if verdict not in ("pass", "skipped")
    ]
    return str(found["verdict"]) + (f": {', '.join(f'`{e}`' for e in failed)}" if failed else "")


def _distance(found: Mapping[str, Any]) -> str:
    if "distance" not in found:
        return ""
    if found["verdict"] == "conforms":
        return f"below {found['bound']:.3f}"
    return f"{found['distance']:.2f} ({found['tokens']:,} tokens)"
