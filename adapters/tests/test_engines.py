"""The engines' rows: what they are, what they came to, and that they still come to it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from draftproof.adapters import engines
from draftproof.adapters.engines.packages import PACKAGES
from draftproof.adapters.engines.released import Commit, Unavailable, Wheel
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.matrix import MatrixRow, read_rows
from draftproof.conformance.protocol.adapter import AdapterFailed, program_of
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.requirements.finding import FAIL
from draftproof.conformance.requirements.laws import judge
from draftproof.spec import validate

HOUSE = Path(__file__).parents[2]
MATRIX = HOUSE / "adapters" / "matrix"

ROWS = read_rows((Path(engines.__file__).parent / "rows.toml").read_bytes(), "rows.toml")
SAID: dict[str, Any] = json.loads((MATRIX / "matrix.json").read_text())
LINES: dict[str, dict[str, Any]] = {row["name"]: row for row in SAID["rows"]}


def requirement(line: dict[str, Any], identity: str) -> dict[str, Any]:
    (own,) = (each for each in line["judged"]["requirements"] if each["id"] == identity)
    found: dict[str, Any] = own
    return found


def test_the_matrix_is_of_these_rows() -> None:
    validate(SAID, "matrix")
    assert [*LINES] == [row.name for row in ROWS]
    told = ("engine", "version", "algorithm", "note", "design", "cause", "report")
    for row in ROWS:
        line = LINES[row.name]
        assert [line[name] for name in told] == [getattr(row, name) or None for name in told]
        assert (line["judged"] is None) == (line["reason"] is not None)


def test_every_adapter_of_a_row_is_made_somewhere() -> None:
    for row in ROWS:
        place, _, name = row.adapter.partition(":")
        if place == engines.__name__:
            package, _, method = name.partition("==")[0].partition("/")
            is_pinned = name in engines._MAKERS
            known = engines._MAKERS[name] if is_pinned else PACKAGES[package].methods[method].made
            module, made, *_ = known
            file = Path(engines.__file__).with_name(f"{module}.py")
            classes = {
                each.name
                for each in ast.parse(file.read_text()).body
                if isinstance(each, ast.ClassDef)
            }
            assert made in classes


def test_no_adapter_is_called_as_a_module_is() -> None:
    """Once the module is imported, the package's attribute would be the module."""
    folder = Path(engines.__file__).parent
    assert not {*engines._MAKERS} & {file.stem for file in folder.glob("*.py")}


def test_at_least_twelve_are_decided_without_sampling() -> None:
    decided = [
        line["name"]
        for line in LINES.values()
        if line["judged"] and {*requirement(line, "law.lossless")["lanes"]} & {"exact", "probe"}
    ]
    assert len(decided) >= 12


def test_what_fails_is_shown_and_explained() -> None:
    """By a counterexample, and by a report and a script that uses the engine alone."""
    for line in LINES.values():
        if line["outcome"] == "does not conform":
            assert line["design"] or line["cause"]
            assert line["judged"]["counterexample"] is not None or _is_told(line)
        if line["report"]:
            assert (MATRIX / "reports" / f"{line['report']}.md").is_file()
            assert (MATRIX / "reproductions" / f"{line['report']}.py").is_file()
    told = {line["report"] for line in LINES.values() if line["outcome"] == "does not conform"}
    assert None not in told


def test_no_script_needs_us() -> None:
    for script in (MATRIX / "reproductions").glob("*.py"):
        tree = ast.parse(script.read_text())
        names = [each.module or "" for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
        names += [
            one.name
            for each in ast.walk(tree)
            if isinstance(each, ast.Import)
            for one in each.names
        ]
        assert not [name for name in names if name.startswith("draftproof")]


def test_the_known_fault_is_found_mended_and_found_again() -> None:
    """Of vllm-ascend's block verification, whose mend was another fault."""
    block = {row.version: LINES[row.name] for row in ROWS if row.report == "vllm_ascend_block"}
    verdicts = {
        version: requirement(line, "law.lossless")["verdict"] for version, line in block.items()
    }
    assert verdicts == dict.fromkeys(block, FAIL)
    assert requirement(block["0.19.1rc1"], "law.lossless")["lanes"] == ["exact"]
    distance = {
        version: requirement(line, "law.lossless")["distance"] for version, line in block.items()
    }
    assert distance["0.19.1rc1"] < min(
        far for version, far in distance.items() if version != "0.19.1rc1"
    )


@pytest.mark.filterwarnings("ignore")  # engines are as they are
def test_a_row_that_is_not_asked_all_cases_says_how_many_and_why() -> None:
    for row in ROWS:
        judged = LINES[row.name]["judged"]
        assert bool(row.cases) == bool(row.why), row.name
        if judged is not None and row.cases:
            assert (judged["cases"], judged["why"]) == ([*row.cases], row.why)
            assert 0 < judged["asked"] < judged["planned"]


@pytest.mark.filterwarnings("ignore")  # engines are as they are
@pytest.mark.parametrize("row", [row for row in ROWS if row.adapter], ids=lambda row: row.name)
def test_a_verdict_is_come_to_again(row: MatrixRow, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the case that was the worst, if the exact lane decided it."""
    monkeypatch.setattr(Wheel, "_fetch", _fetched_if_light)
    monkeypatch.setattr(Commit, "_fetch", _not_fetched)
    try:
        adapter = load_adapter(row.adapter)
    except AdapterFailed as error:
        if isinstance(error.__cause__, Unavailable):
            pytest.skip(str(error.__cause__))
        raise
    program = program_of(adapter)
    assert program.declared.algorithm == row.algorithm
    assert program.declared.version.startswith(row.version)
    if LINES[row.name]["judged"] is None:
        pytest.skip(LINES[row.name]["reason"])
    worst = requirement(LINES[row.name], "law.lossless")
    if worst["lanes"] != ["exact"]:
        pytest.skip("no exact lane decided of its rows: draftproof matrix does it again")
    (case,) = (case for case in cases("standard") if case.id == worst["case"])
    found = {each.requirement: each for each in judge(observe(program, case, lane="exact"))}
    now = found["law.lossless"]
    assert now.verdict == worst["verdict"]
    # Another processor may have left the record: each law is off by what is allowed, at most.
    rounding = 2 * float(now.allowed or 0)
    assert float(now.distance or 0) == pytest.approx(worst["distance"], rel=0, abs=rounding)


def _is_told(line: dict[str, Any]) -> bool:
    """Return whether the finding has its counterexample in words, or only draws have found it."""
    text = requirement(line, "text.lossless")
    lanes = {lane for each in line["judged"]["requirements"] for lane in each["lanes"]}
    return text["detail"].startswith("writes [") or "sample" in lanes


_LIGHT = ("medusa-llm", "mlx-lm", "sglang", "tpu-inference")
"""The projects whose wheels, of 40 MB at most, a test fetches."""

_fetch = Wheel._fetch


def _fetched_if_light(wheel: Wheel, place: Path) -> None:
    if wheel.project not in _LIGHT:
        raise Unavailable(f"{wheel.name} was not fetched: draftproof matrix does it")
    _fetch(wheel, place)


def _not_fetched(commit: Commit, _: Path) -> None:
    raise Unavailable(f"{commit.repository} was not fetched: draftproof matrix does it")
