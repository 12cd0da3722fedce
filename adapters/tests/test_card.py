"""What is run on a GPU, tried on a CPU: steps, what they catch, and what a run leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from benchmarks import gpu, predictions
from benchmarks.card import cases, checks, timing
from benchmarks.card.certifying import certify
from benchmarks.card.device import Device
from benchmarks.card.judging import compared, goals
from benchmarks.card.report import Budget, Cut, Failed, Report
from benchmarks.engines import ENGINES
from benchmarks.inputs import Size, request
from benchmarks.launches import launches
from benchmarks.measuring import Call
from benchmarks.predictions import CARDS, Work, predicted
from benchmarks.unfilled import Shape
from benchmarks.unfilled import call as unfilled
from click.testing import CliRunner, Result

from draftproof.adapters.fast import engine
from draftproof.conformance.protocol.adapter import Request
from draftproof.spec import validate

STEPS = (
    "machine", "bandwidth", "correctness", "offsets", "waits", "graphs", "timings", "predictions",
    "certificates", "goals",
)  # fmt: skip


def run(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(gpu.main, ["--dry-run", "--out", str(folder), *options])


def read(folder: Path) -> Any:
    found = json.loads((folder / "gpu.json").read_text())
    validate(found, "benchmark")
    return found


def outcomes(found: Any) -> dict[str, str]:
    return {step["name"]: step["outcome"] for step in found["steps"]}


# --- the whole run -----------------------------------------------------------------------


def test_a_run_without_a_gpu_says_what_is_missing_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = CliRunner().invoke(gpu.main, ["--out", str(tmp_path / "results")])
    assert done.exit_code == 1
    assert "torch finds no CUDA device" in done.output
    assert "--dry-run" in done.output
    assert not (tmp_path / "results").exists()


def test_a_step_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "speed")
    assert done.exit_code == 2
    assert "no step is called 'speed'" in done.output
    assert "machine, bandwidth, correctness" in " ".join(done.output.split())


def test_a_dry_run_does_all_steps_and_writes_what_its_schema_says(tmp_path: Path) -> None:
    done = run(tmp_path, "--minutes", "20")
    assert done.exit_code == 0, done.output
    found = read(tmp_path)
    expected = dict.fromkeys(STEPS, "passed") | {"predictions": "cut"}
    assert outcomes(found) == expected
    assert tuple(outcomes(found)) == STEPS
    assert found["device"]["interpreted"] is True
    rows = {(row["name"], row["given"], row["mode"]) for row in found["rows"]}
    ours = {
        *product(("triton token", "triton block", "triton multipath_block"), ("logits",)),
        *product(("triton token", "triton block", "triton multipath_block"), ("probabilities",)),
        ("triton token", "mixed"),
    }
    both = {(*own, mode) for own, mode in product(ours, ("eager", "graphed"))}
    both.add(("batched", "logits", "eager"))
    assert {row for row in rows if row[0] not in ENGINES} == both
    for row in found["rows"]:
        assert (row["host"] is None) == (row["mode"] == "graphed")
        # Of two rounds the mean fraction is no less than that of the mean time.
        fraction = row["bytes"] / row["seconds"]["median"] / found["device"]["bandwidth"]
        assert row["fraction"]["median"] >= fraction * (1 - 1e-4)
    told = {each["what"]: each["reason"] for each in found["skipped"]}
    timed = {row["name"] for row in found["rows"]}
    assert told.keys() | timed >= ENGINES.keys()
    assert all(told[name].startswith("absent: ") for name in ENGINES if name in told)
    assert (tmp_path / "gpu.svg").is_file()


def test_a_run_that_is_killed_keeps_the_steps_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu, "offsets", killed)
    monkeypatch.setattr(gpu, "correctness", lambda *_, **__: {})
    done = run(tmp_path)
    assert done.exit_code == 1
    ended = outcomes(read(tmp_path))
    assert ended == {
        "machine": "passed", "bandwidth": "passed", "correctness": "passed", "offsets": "cut",
    }  # fmt: skip


def test_a_step_that_breaks_leaves_the_others_to_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(gpu, "waits", broken)
    done = run(tmp_path, "--only", "waits", "--only", "goals")
    assert done.exit_code == 1
    assert "failed: waits" in done.output
    *_, waits, last = read(tmp_path)["steps"]
    assert waits["told"] == "RuntimeError: an illegal memory access was encountered"
    assert last["name"] == "goals"


# --- what is caught ----------------------------------------------------------------------


def planted(fault: Callable[[engine.Verified], engine.Verified]) -> Callable[..., engine.Verified]:
    """Return `verify`, of which the kernels have a fault."""

    def wrong(name: str, **given: Any) -> engine.Verified:
        found = engine.verify(name, **given)
        return fault(found) if given["form"] == "triton" else found

    return wrong


FAULTS: dict[str, Callable[[engine.Verified], engine.Verified]] = {
    "accepted": lambda found: replace(found, accepted=(found.accepted + 1) % 2),
    "token": lambda found: replace(found, token_ids=found.token_ids.roll(1, 0)),
    "unwritten": lambda found: replace(found, num_sampled=torch.empty_like(found.num_sampled)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_verifier_fails_the_step_of_correctness(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = checks.Check("token", True, torch.float32, Size(3, 2, 64))  # logits
    monkeypatch.setattr(checks, "checks", lambda _: [one])
    assert run(tmp_path / "correct", "--only", "correctness").exit_code == 0
    monkeypatch.setattr(checks, "verify", planted(FAULTS[fault]))
    done = run(tmp_path / "wrong", "--only", "correctness")
    assert done.exit_code == 1
    assert "failed: correctness" in done.output
    step = read(tmp_path / "wrong")["steps"][-1]
    assert step["outcome"] == "failed"
    assert "of 3 requests differ from the torch form" in step["told"]
    assert step["figures"]["wrong"] == ["token from float32 logits, L 2, V 64"]


def test_a_kernel_that_reads_other_rows_fails_the_step_of_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "FIRST", ("token",))
    checks.offsets("cpu", vocabulary=64, past=2**12)

    def wrapped(name: str, **given: Any) -> engine.Verified:
        if given["form"] == "triton" and given["target_rows"] is not None:
            given["target_rows"] = given["target_rows"] % 64
        return engine.verify(name, **given)

    monkeypatch.setattr(checks, "verify", wrapped)
    with pytest.raises(Failed, match="token of numbered rows of the target"):
        checks.offsets("cpu", vocabulary=64, past=2**12)


def test_every_verifier_is_compared_and_the_first_three_before_others() -> None:
    sizes = [Size(64, 5, 1000), Size(64, 3, 50)]
    every = checks.checks(sizes)
    assert len(every) == len(set(every)) == 12 * 4 * 2
    assert [check.name for check in every[:6:2]] == list(checks.FIRST)
    assert len({check.name for check in every[:15]}) == 12


def test_certificates_that_fail_or_take_too_long_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(command: list[str], **options: Any) -> Any:
        assert options["env"]["TRITON_INTERPRET"] == "0"
        if "triton-slow" in command:
            raise subprocess.TimeoutExpired(command, options["timeout"])
        return subprocess.CompletedProcess(command, int("triton-wrong" in command), "told", "")

    monkeypatch.setattr(subprocess, "run", ran)

    def judged(*adapters: str) -> Any:
        options: dict[str, Any] = {"modes": ("quick",), "options": (), "folder": tmp_path}
        return certify(adapters, **options, is_gpu=True, budget=Budget(1))

    assert judged("triton-token")["triton-token quick"]["outcome"] == "passed"
    with pytest.raises(Cut, match="not judged to the end: triton-slow quick") as cut:
        judged("triton-slow", "triton-token")
    assert [each["outcome"] for each in cut.value.figures.values()] == ["cut", "passed"]
    with pytest.raises(Failed, match="not certified: triton-wrong quick"):
        judged("triton-wrong", "triton-slow")


# --- what there is time for --------------------------------------------------------------


def test_cases_come_in_the_order_of_what_they_tell() -> None:
    sizes = {
        "requests": (1, 16, 64), "length": (3, 5), "vocabulary": (9, 99), "dtype": ("float32",),
    }  # fmt: skip
    every = [(case.size.length, case.size.vocabulary, case.size.requests)
             for case in cases.cases(sizes)]  # fmt: skip
    assert every[:3] == [(5, 9, 1), (5, 9, 64), (5, 9, 16)]
    assert {each[:2] for each in every[3:9]} == {(3, 9), (5, 99)}
    assert {each[:2] for each in every[9:]} == {(3, 99)}


def test_cases_without_time_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count(step=10)
    budget = Budget(1.5, now=lambda: next(seconds))
    monkeypatch.setattr(timing, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(timing, "GROUPS", (one_call,))
    sizes = {"requests": (1, 2), "length": (2, 3), "vocabulary": (9,), "dtype": ("float32",)}
    report = Report(tmp_path, budget, seed=0, sizes=sizes)
    report.found["device"] = {"name": "cpu", "interpreted": True, "bandwidth": 1e9}
    figures = timing.timings(report, Device("cpu"), {**sizes, "rounds": 2}, seed=0, budget=budget)
    timed, cut = figures["cases"] - figures["cut"], figures["cut"]
    assert timed > 0
    assert cut > 0
    told = [each for each in read(tmp_path)["skipped"] if each["reason"].startswith("cut: ")]
    assert told == []  # they are told in the end, and written with the step
    assert [each["what"] for each in report.found["skipped"]] == [
        str(case) for case in cases.cases(sizes)[timed:]
    ]


def one_call(case: cases.Case, **_: Any) -> list[cases.Timed]:
    return [cases.Timed("triton token", "token", "logits", lambda: None, 100)]


# --- what is judged ----------------------------------------------------------------------


def row(name: str, seconds: float, **own: Any) -> dict[str, Any]:
    return {
        "size": {"requests": 1, "length": 5, "vocabulary": 9},
        "dtype": "float32",
        "name": name,
        "algorithm": "token",
        "given": "logits",
        "drafts": 1,
        "bytes": 100,
        "mode": "graphed",
        "seconds": {"median": seconds},
        "fraction": {"median": 0.9},
        "predicted": None,
        **own,
    }


def test_goals_are_judged_by_the_worst_case_and_by_peers_of_equal_semantics() -> None:
    large: dict[str, Any] = {"bytes": 10**9, "size": {"requests": 64, "length": 5, "vocabulary": 9}}
    rows = [
        row("triton token", 10e-6),
        row("vllm v2 token", 30e-6),
        row("flashinfer token with softmax", 20e-6),
        # None of these has the same rows, algorithm or way to launch.
        row("flashinfer token", 1e-6, given="probabilities"),
        row("sglang block", 1e-6, algorithm="block"),
        row("sglang token", 1e-6, mode="eager"),
        row("triton token", 100e-6, **large, fraction={"median": 0.7}),
        row("vllm v2 token", 140e-6, **large),
    ]
    share, latency, faster, slower = goals(rows)
    assert (share["worst"], share["reached"], share["missed"]) == (0.7, False, 1)
    assert share["where"] == "triton token from logits, graphed: B 64, L 5, V 9, float32"
    assert (latency["worst"], latency["reached"]) == (10e-6, True)
    assert (faster["worst"], faster["reached"]) == (1.4, False)
    assert (slower["worst"], slower["reached"]) == (2.0, True)
    assert slower["where"].endswith("beside flashinfer token with softmax")
    assert all(goal["reached"] is None for goal in goals([]))


def test_what_was_measured_is_held_beside_what_was_predicted() -> None:
    sizes = [{"requests": n, "length": 5, "vocabulary": 9} for n in (1, 2, 3)]
    rows = [
        row("triton token", seconds, size=size, predicted=10e-6)
        for seconds, size in zip((9e-6, 11e-6, 30e-6), sizes, strict=True)
    ]
    found = compared([*rows, row("vllm v2 token", 1.0)])
    ((name, told),) = found.items()
    assert name == "triton token from logits, graphed"
    assert (told["median"], told["worst"]) == (1.1, 3.0)
    assert "B 3" in told["where"]
    with pytest.raises(Cut, match="no prediction"):
        compared([row("triton token", 1.0)])


def test_predictions_are_those_that_were_written() -> None:
    assert predictions.FILE.read_text() == predictions.written()
    page = Path(__file__).parents[2] / "docs" / "pages" / "fast-verifiers.md"
    assert predictions.table() in page.read_text()


@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("name", predictions.DRAFTS)
def test_predictions_are_of_the_launches_that_are_made(name: str, logits: bool) -> None:
    shape = Shape(128_256, logits=logits)
    work = Work(name, Size(shape.requests, shape.length, shape.vocabulary), "float32", logits)
    made = launches(unfilled(name, shape))
    assert len(predictions.steps(CARDS["H100"], work)) == len(made.kernels)


def test_a_prediction_is_no_faster_than_the_bytes_and_no_slower_for_less() -> None:
    for work in predictions.every():
        one, other = (predicted(CARDS[name], work) for name in ("H100", "H200"))
        assert other["graphed"] <= one["graphed"] <= one["eager"]
        if work.logits:
            assert one["share"] < 1
    assert timing.card_of("NVIDIA H100 80GB HBM3") == CARDS["H100"]
    assert timing.card_of("NVIDIA H100 PCIe") is None


# --- the engines -------------------------------------------------------------------------


def put(monkeypatch: pytest.MonkeyPatch, path: str, function: str) -> list[tuple[Any, Any]]:
    """Put a module where an engine's would be; return what its function is called with."""
    made: list[tuple[Any, Any]] = []
    parts = path.split(".")
    for n in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:n]))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    setattr(module, function, lambda *args, **options: made.append((args, options)))
    return made


ENGINE_PLACES = {
    "vllm v1 token": ("vllm.v1.sample.rejection_sampler", "rejection_sample"),
    "vllm v2 token": (
        "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils",
        "rejection_sample",
    ),
    "flashinfer token": ("flashinfer.sampling", "chain_speculative_sampling"),
    "sglang token": (
        "sglang.kernels.ops.speculative.reject_sampling",
        "chain_speculative_sampling_triton",
    ),
}
# Of two requests that draft three tokens of five: n = 6 positions, 8 rows of the target.
ENGINE_SHAPES = {
    "vllm v1 token": [(6,), (2,), (6, 5), (6, 5), (2, 1)],
    "vllm v2 token": [(8, 5), (2, 3, 5), (8,), (3,), (8,), (2,), (8,), (8,), (2,), (2,)],
    "flashinfer token": [(2, 3, 5), (2, 3), (2, 4, 5)],
    "sglang token": [
        (8,), (2, 4), (2,), (2, 4), (2, 4), (2, 4), (2, 4), (2, 4), (2,), (2, 4, 5), (2, 3, 5),
    ],
}  # fmt: skip


SOFT = " with softmax"


@pytest.mark.parametrize("name", [name for name in ENGINES if "block" not in name])
def test_engines_are_given_what_they_take(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = put(monkeypatch, *ENGINE_PLACES[name.removesuffix(SOFT)])
    given = request(Size(2, 3, 5), seed=0, logits=True)
    skipped: list[tuple[str, str]] = []

    def skip(*told: str) -> None:
        skipped.append((told[0], told[1]))

    (timed,) = cases.theirs(given, skip, {name: ENGINES[name]})
    assert skipped == []
    assert (timed.name, timed.given) == (name, ENGINES[name].given)
    ((args, options),) = made
    shapes = [tuple(each.shape) for each in args if isinstance(each, torch.Tensor)]
    assert shapes == ENGINE_SHAPES[name.removesuffix(SOFT)]
    assert not any(options.values())
    timed.call()
    # Rows of softmaxes that are no part of a call are the same in all.
    rows = [[each for each in args if isinstance(each, torch.Tensor) and each.shape[-1] == 5]
            for args, _ in made]  # fmt: skip
    fresh = [one is not other for one, other in zip(*rows, strict=True)]
    assert any(fresh) == name.endswith(SOFT)


def test_an_engine_that_breaks_or_is_absent_is_told_with_its_reason() -> None:
    def broken(_: Request) -> Call:
        raise TypeError("it wants another argument")

    def absent(_: Request) -> Call:
        raise ModuleNotFoundError("No module named 'it'")

    given = request(Size(2, 2, 3), seed=0, logits=True)
    told: list[tuple[str, str]] = []
    engines = {
        name: replace(ENGINES["vllm v2 token"], make=make)
        for name, make in (("broken", broken), ("absent", absent))
    }
    assert list(cases.theirs(given, lambda *each: told.append(each), engines)) == []
    assert told == [
        ("broken", "TypeError: it wants another argument"),
        ("absent", "absent: ModuleNotFoundError: No module named 'it'"),
    ]
