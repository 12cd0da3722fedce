"""Harnesses in miniature: what is right is judged, and what is wrong is told from an outcome."""

from __future__ import annotations

import gc
import json
import os
import pickle
import re
import select
import shlex
import subprocess
import sys
import time
from base64 import b64decode
from copy import copy, deepcopy
from operator import methodcaller
from pathlib import Path
from typing import Any

import joblib
import numpy
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from draftproof.conformance.cases import cases
from draftproof.conformance.cli import cli
from draftproof.conformance.lanes.exchange import verified
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.protocol.adapter import (
    AdapterFailed,
    AdapterLost,
    Declaration,
    InvalidAdapter,
    Request,
    UnknownAdapter,
    declaration,
    program_of,
)
from draftproof.conformance.protocol.harness import HarnessAdapter, HarnessError, process
from draftproof.conformance.protocol.harness import adapter as adapters
from draftproof.conformance.protocol.harness.messages import (
    PROTOCOL,
    _is_plain_result,
    largest_answer,
)
from draftproof.conformance.protocol.harness.process import TIMEOUT, Seconds
from draftproof.conformance.protocol.loading import load_adapter, source_digest
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Task
from draftproof.conformance.run import campaign
from draftproof.reference.drafting import draft_law
from draftproof.spec import MalformedDocument, chapters, validate

MINIATURE = Path(__file__).with_name("miniature.py")


def command(name: str, *arguments: str) -> str:
    return f"harness:{shlex.join([sys.executable, str(MINIATURE), name, *arguments])}"


def miniature(name: str, *arguments: str) -> Any:
    return load_adapter(command(name, *arguments))


def request(rows: int = 2, vocabulary: int = 3, **changes: Any) -> Request:
    given: dict[str, Any] = {
        "draft_tokens": torch.zeros(rows, 1, 2, dtype=torch.int64),
        "draft_probs": torch.ones(rows, 1, 2, vocabulary).double() / vocabulary,
        "target_probs": torch.ones(rows, 1, 3, vocabulary).double() / vocabulary,
        "noise": {"coins": torch.zeros(rows, 2).double(), "token": torch.zeros(rows).double()},
    }
    return Request(**{**given, **changes})


@pytest.fixture
def in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second for an answer, as much as a miniature that only starts may need."""
    monkeypatch.setattr(adapters, "seconds_given", lambda: Seconds(30, 1))


# --- what is right -------------------------------------------------------------------------


def test_a_right_harness_is_probed_and_has_its_algorithms_law() -> None:
    adapter = miniature("right")
    assert (adapter.name, adapter.version, adapter.algorithm) == ("miniature", "1.0", "token")
    noise: dict[str, Any] = {"coins": ["uniform", "L"], "token": ["uniform"]}
    assert declaration(adapter).noise == noise
    found = judge(observe(program_of(adapter), cases("quick")[1], lane="probe"))
    assert {each.verdict for each in found} == {PASS, SKIPPED}


def test_a_biased_harness_fails_by_the_law() -> None:
    found = judge(observe(program_of(miniature("biased")), cases("quick")[1], lane="probe"))
    assert {each.requirement for each in found if each.verdict == FAIL} >= {"law.reference"}


@pytest.mark.parametrize("tensors", ["numbers", "base64"])
@pytest.mark.parametrize("noise", [{}, {"coins": ["uniform", "L"]}])
def test_the_exact_lane_says_that_it_is_blind(tmp_path: Path, tensors: str, noise: Any) -> None:
    declared = json.dumps({"tensors": tensors, "noise": noise})
    adapter = miniature("records", str(tmp_path / "log"), declared)
    reason = "takes noise out of torch" if noise else "range too wide to be enumerated"
    with pytest.raises(OpaqueRandomness, match=reason):
        observe(program_of(adapter), cases("quick")[0])
    assert len((tmp_path / "log").read_text().splitlines()) == 1


def test_who_declares_trees_is_told_of_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    adapter = miniature("records", str(log), json.dumps({"trees": True, "max_drafts": 4}))
    declared = declaration(adapter)
    assert declared.trees
    tree = next(case.instance for case in cases("quick") if case.id == "tree.iid.v2.b2x2")
    verified(adapter, [(tree, next(iter(draft_law(tree))))], declared)
    assert json.loads(log.read_text().splitlines()[1])["verify"]["branching"] == [2, 2]
    assert not declaration(miniature("right")).trees


def test_an_error_is_an_outcome_and_the_harness_goes_on() -> None:
    adapter = miniature("refuses")
    for _ in range(2):
        with pytest.raises(HarnessError, match=r"^row 0 is not mine$"):
            adapter.verify(request())
    case = cases("quick")[0]
    rows = [(case.instance, next(iter(draft_law(case.instance))))]
    (outcome,) = verified(adapter, rows, declaration(adapter))
    assert outcome.what == "raised HarnessError: row 0 is not mine"  # type: ignore[union-attr]


def test_numbers_out_of_range_are_an_outcome() -> None:
    adapter = miniature("negative")
    assert adapter.verify(request()).next_token.tolist() == [-1, -1]


def test_stderr_never_holds_it_up() -> None:
    assert miniature("floods_stderr").verify(request()).path.tolist() == [0, 0]


# --- what is asked -------------------------------------------------------------------------

LOW = -torch.inf


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tensors", ["numbers", "base64"])
def test_every_tensor_arrives_to_the_last_bit(tmp_path: Path, tensors: str, dtype: str) -> None:
    log, declared = tmp_path / "log", {"tensors": tensors, "dtype": dtype}
    adapter = miniature("records", str(log), json.dumps(declared))
    torch.manual_seed(0)
    rows = torch.rand(2, 2, 3, 5).to(getattr(torch, dtype))
    rows[0, 0, 0] = torch.nan
    asked = request(
        draft_tokens=torch.tensor([[[0, 4, -1], [1, 2, -1]]] * 2),
        draft_probs=rows,
        target_probs=torch.rand(2, 2, 4, 5).to(getattr(torch, dtype)),
        lengths=torch.tensor([2, 2]),
        draft_logits=rows.log().masked_fill(rows > 0.5, LOW),
        target_logits=torch.rand(2, 2, 4, 5).masked_fill_(rows.isnan().any(), -LOW),
        noise={"coins": torch.rand(2, 3), "token": torch.rand(2)},
        branching=(1, 2, 1),
    )
    adapter.verify(asked)
    adapter.verify(request(noise=None, generator=torch.Generator().manual_seed(1)))
    del adapter
    gc.collect()
    lines = log.read_text().splitlines()
    messages = [json.loads(line, parse_constant=pytest.fail) for line in lines]
    assert [next(iter(message)) for message in messages] == ["start", "verify", "verify", "stop"]
    for message in messages:
        validate(message, "harness")
    body = messages[1]["verify"]
    sides = [body[name] for name in ("sequence", "rows", "drafts", "length", "vocabulary")]
    assert sides == [1, 2, 2, 3, 5]
    assert body["branching"] == [1, 2, 1]
    assert "seed" not in body
    for name, tensor in {**vars(asked), **(asked.noise or {})}.items():
        if isinstance(tensor, Tensor):
            found = read(body.get(name) or body["noise"][name], tensor.dtype)
            assert torch.equal(found.nan_to_num(7), tensor.nan_to_num(7)), name
    assert messages[2]["verify"].keys().isdisjoint({"noise", "branching"})


def read(said: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(said, list):
        numbers = json.loads(re.sub(r'"(NaN|-?Infinity)"', r"\1", json.dumps(said)))
        return torch.tensor(numbers, dtype=dtype)
    assert said["dtype"] == str(dtype).removeprefix("torch.")
    plain = dtype if dtype is not torch.bfloat16 else torch.int16
    little = numpy.dtype(str(plain).removeprefix("torch.")).newbyteorder("<")
    array = numpy.frombuffer(b64decode(said["data"], validate=True), little)
    return torch.tensor(array.astype(little.newbyteorder("="))).view(dtype).reshape(said["shape"])


def test_the_same_state_of_the_generator_gives_the_same_seed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    adapter = miniature("records", str(log), json.dumps({"noise": {}}))
    for seed in (1, 1, 2):
        given = torch.Generator().manual_seed(seed)
        adapter.verify(request(noise=None, generator=given))
    adapter.verify(request(noise=None, generator=given))
    seeds = [json.loads(line)["verify"]["seed"] for line in log.read_text().splitlines()[1:]]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 3
    assert all(0 <= seed < 2**53 for seed in seeds)


# --- what is wrong at the start ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "'' is no command: it is empty; a harness is named like harness:./program or"),
        ("  ", "'  ' is no command: it is empty"),
        ("node 'x.mjs", "is no command: no closing quotation"),
        ("no-such-program x", "there is no program 'no-such-program'; no shell is asked"),
        ("./no-such-program", "there is no program './no-such-program'"),
        ("/", "there is no program '/'"),
        (shlex.quote(str(MINIATURE)), "miniature.py' is not executable: make it so, or"),
    ],
)
def test_a_command_that_leads_nowhere(name: str, message: str) -> None:
    with pytest.raises(UnknownAdapter, match=re.escape(message)):
        load_adapter(f"harness:{name}")


def test_what_the_system_cannot_run(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("neither a binary nor a script")
    program.chmod(0o755)
    with pytest.raises(AdapterFailed, match=r"program' cannot be run: .*Exec format error"):
        load_adapter(f"harness:{program}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "dies_at_start",
            "the harness ended with exit code 3: it must answer until it is told to stop; the last "
            "that it said on stderr: no licence found | for this machine",
        ),
        (
            "steers_at_start",
            "the last that it said on stderr: �[2J�no licence�",
        ),
        ("banner", "says 'Miniature 1.0, all rights reserved'"),
        ("other_protocol", "speaks version 2 of the protocol: it must speak version 1"),
        ("branch", "declares the version 'main', which is a branch: it must be a release or a"),
        (
            "stateful",
            "declares the algorithm 'greedy_block', which leaves a state for the next iteration: "
            "the protocol has no place for one, an adapter in Python has",
        ),
        ("no_name", "schema: harness: declaration: 'name' is a required property"),
        ("odd_noise", "schema: harness: declaration/noise/coins/0: 'gaussian' is not one of"),
        ("result_at_start", "answers with 'result': it must answer with 'declaration'"),
        ("no_such_miniature", "KeyError: 'no_such_miniature'"),
    ],
)
def test_a_harness_that_does_not_start(name: str, message: str) -> None:
    with pytest.raises(AdapterFailed, match=re.escape(message)):
        miniature(name)


def test_a_harness_that_declares_what_no_adapter_may() -> None:
    with pytest.raises(InvalidAdapter, match="an adapter needs 'name', a non-empty printable"):
        miniature("unprintable_name")


def test_a_harness_that_hangs_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "seconds_given", lambda: Seconds(0.2, 30))
    with pytest.raises(AdapterFailed, match=rf"says nothing within 0.2 s of being.*{TIMEOUT} sets"):
        miniature("hangs_at_start")


@pytest.mark.parametrize("given", ["soon", "0", "-1", "nan", "inf", "1e9"])
def test_a_limit_of_time_that_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(TIMEOUT, given)
    message = f"{TIMEOUT} must be seconds, more than 0 and at most a day: '{given}'"
    with pytest.raises(UnknownAdapter, match=re.escape(message)):
        miniature("right")


def test_the_environment_sets_the_limits_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TIMEOUT, raising=False)
    assert process.seconds_given() == Seconds(30, 60)
    monkeypatch.setenv(TIMEOUT, "0.5")
    assert process.seconds_given() == Seconds(0.5, 0.5)


# --- what is wrong at a request ------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "dies",
            "the harness ended with exit code 7: it must answer until it is told to stop; the last "
            "that it said on stderr: out of memory",
        ),
        ("is_killed", "was killed by signal 9 (Killed)"),
        ("dies_in_a_line", "ended with exit code 0"),
        ("closes_stdout", "closed its stdin or stdout: it must read and answer until it is told"),
        ("floods", "floods: it says"),
        ("out_of_order", "answers request 2 where 1 was asked: it must answer every request once"),
        ("too_few", "answers with 0 numbers in 'next_token': it must give one for each of the 2"),
        ("too_many", "answers with 3 numbers in 'path': it must give one for each of the 2 rows"),
        ("words", "schema: harness: result/path/0: '0' is not of type 'integer'"),
        ("booleans", "schema: harness: result/path/0: False is not of type 'integer'"),
        ("nulls", "schema: harness: result/path/0: None is not of type 'integer'"),
        ("nested", "schema: harness: result/path/0: [0] is not of type 'integer'"),
        ("huge", "schema: harness: result/next_token/0: 9223372036854775808 is greater than the"),
        ("floats", "answers with the number 0.0: it must answer with integers, without a point"),
        ("not_a_number", "answers with the number NaN: it must answer with integers"),
        ("missing", "schema: harness: result: 'path' is a required property"),
        ("surplus", "schema: harness: result: Additional properties are not allowed ('certainty'"),
        ("other_kind", "answers with 'declaration': it must answer with 'result' or 'error'"),
        ("unknown_kind", "schema: harness: the document: Additional properties are not allowed"),
        ("not_json", "says 'accepted 2, next token 0', which is not JSON: Expecting value"),
        ("not_an_object", "schema: harness: the document: [1, 2] is not of type 'object'"),
        ("empty_line", "says '', which is not JSON"),
        ("same_key", "answers with the key 'message' twice: it must give every key once"),
        ("deep", "which is not JSON: maximum recursion depth exceeded"),
        ("not_utf8", "which is not UTF-8: invalid start byte"),
        ("utf16", "which is not UTF-8: invalid start byte"),
    ],
)
def test_a_harness_that_cannot_be_asked_any_more(name: str, message: str) -> None:
    adapter = miniature(name)
    running = adapter._conversation._process._popen
    with pytest.raises(AdapterLost, match=re.escape(message)):
        adapter.verify(request())
    assert running.returncode is not None
    # It stays lost, for the same reason, and in all of its copies.
    with pytest.raises(AdapterLost, match=re.escape(message)):
        deepcopy(adapter).verify(request())


@pytest.mark.usefixtures("in_haste")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hangs", f"says nothing within 1 s of being asked; {TIMEOUT} sets the limit, in seconds"),
        ("hangs_in_a_line", "says '{\"result\": ', and no line's end within 1 s"),
        ("never_reads", "does not read: "),
        ("floods_stderr_for_ever", "says nothing within 1 s of being asked"),
        ("answers_unread", "before it has read all of what it is asked"),
    ],
)
def test_a_harness_that_hangs_is_not_waited_for(name: str, message: str) -> None:
    adapter = miniature(name)
    # More than all pipes and buffers on the way hold.
    large = request(rows=64, vocabulary=500)
    begun = time.monotonic()
    with pytest.raises(AdapterLost, match=re.escape(message)):
        adapter.verify(large)
    # A second to answer, and one to die; the rest is for a machine that is busy.
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("name", ["twice", "floods_lines"])
def test_a_harness_that_says_more_than_it_is_asked(name: str) -> None:
    adapter = miniature(name)

    def verify_twice() -> None:
        for _ in range(2):
            adapter.verify(request())

    # Which of them depends on when it is heard.
    message = r"where nothing was asked|and then|answers request 1 where 2 was|floods"
    with pytest.raises(AdapterLost, match=message):
        verify_twice()


def test_a_loss_is_no_exception_that_a_lane_takes_for_an_outcome() -> None:
    assert not issubclass(AdapterLost, Exception)
    adapter = miniature("dies")
    with pytest.raises(AdapterLost, match="exit code 7"):
        observe(program_of(adapter), cases("quick")[0], lane="probe")


def test_what_is_interrupted_is_not_taken_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = miniature("right")

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(process.Process, "_ready", interrupted)
        with pytest.raises(KeyboardInterrupt):
            adapter.verify(request())
    with pytest.raises(AdapterLost, match="was interrupted in the middle of a request"):
        adapter.verify(request())


PLAIN = {"sequence": 1, "accepted_length": [0, 2], "path": [0, 0], "next_token": [2**63 - 1, 0]}


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 0},
        {"sequence": True},
        {"sequence": None},
        {"path": [0, True]},
        {"path": [0, None]},
        {"path": 0},
        {"next_token": [2**63, 0]},
        {"more": 1},
    ],
)
def test_what_is_plain_is_what_the_schema_says(change: dict[str, Any]) -> None:
    assert _is_plain_result({"result": PLAIN})
    validate({"result": PLAIN}, "harness")
    assert not _is_plain_result({"result": {**PLAIN, **change}})
    with pytest.raises(MalformedDocument):
        validate({"result": {**PLAIN, **change}}, "harness")


def test_the_largest_honest_answers_are_within_the_limit() -> None:
    rows = 1000
    longest = dict.fromkeys(("accepted_length", "path", "next_token"), [-(2**63)] * rows)
    result = json.dumps({"result": {"sequence": 2**53, **longest}}, indent=0)
    error = json.dumps({"error": {"sequence": 2**53, "message": "\U0001f600" * 2000}})
    assert len(result) < largest_answer(rows)
    assert len(error) < largest_answer(1)


# --- processes -----------------------------------------------------------------------------


def test_copies_share_a_process_which_ends_with_the_last_of_them() -> None:
    adapter = miniature("right")
    copies = [copy(adapter), deepcopy(adapter)]
    running = adapter._conversation._process._popen
    assert all(each._conversation is adapter._conversation for each in copies)
    assert copies[1].verify(request()).accepted_length.tolist() == [2, 2]
    del adapter, copies[0]
    gc.collect()
    assert running.poll() is None
    copies.clear()
    gc.collect()
    assert running.returncode == 0


def test_a_pickled_one_starts_its_own_process() -> None:
    adapter = miniature("right")
    other = pickle.loads(pickle.dumps(adapter))
    pids = {each._conversation._process._popen.pid for each in (adapter, other)}
    assert len(pids) == 2
    assert other.verify(request()).accepted_length.tolist() == [2, 2]


def test_in_a_worker_it_has_its_own_process_and_a_loss_comes_back() -> None:
    call = joblib.delayed(methodcaller("verify", request()))
    with pytest.raises(AdapterLost, match=r"exit code 7.*out of memory"):
        joblib.Parallel(n_jobs=2)([call(miniature("dies")), call(miniature("dies"))])
    lost = pickle.loads(pickle.dumps(AdapterLost("why")))
    assert (type(lost), str(lost)) == (AdapterLost, "why")


FORKED = """
import os, sys
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.exchange import request, with_noise
from draftproof.conformance.protocol.adapter import declaration
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.reference.drafting import draft_law

adapter = load_adapter(sys.argv[1])
instance = cases("quick")[0].instance
rows = [(instance, next(iter(draft_law(instance))))]
asked = with_noise(request(rows, declaration(adapter)), declaration(adapter))

def verify():
    adapter.verify(asked)
    print(adapter._conversation._process._popen.pid, flush=True)

verify()
child = os.fork()
verify()
if child:
    _, status = os.waitpid(child, 0)
    verify()
    sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_process_has_its_own_and_leaves_its_parents_alone() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, command("right")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    pids = ran.stdout.split()
    assert len(pids) == 4
    assert sorted(map(pids.count, set(pids))) == [1, 3]


def test_a_harness_that_ignores_that_it_is_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE", 0.1)
    monkeypatch.setattr(process, "_TERMINATION", 0.1)
    adapter = miniature("ignores_stop")
    running = adapter._conversation._process._popen
    del adapter
    gc.collect()
    assert running.returncode == -9


@pytest.mark.parametrize("name", ["leaves_a_child", "leaves_a_child_and_dies"])
def test_what_a_harness_starts_ends_with_it(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "life")
    life = os.open(tmp_path / "life", os.O_RDONLY | os.O_NONBLOCK)
    try:
        adapter = miniature(name, str(tmp_path / "life"))
        assert select.select([life], [], [], 30)[0]
        assert os.read(life, 1) == b"\n"
        if name == "leaves_a_child_and_dies":
            with pytest.raises(AdapterLost, match="ended with exit code 7"):
                adapter.verify(request())
        del adapter
        gc.collect()
        # The pipe ends when nobody has it open for writing any more.
        assert select.select([life], [], [], 30)[0]
        assert os.read(life, 1) == b""
    finally:
        os.close(life)


# --- files ---------------------------------------------------------------------------------


def test_what_makes_up_a_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, option = tmp_path / "program", tmp_path / "weights"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {MINIATURE} right")
    program.chmod(0o755)
    option.write_text("1")

    def files(command: str) -> tuple[str, ...]:
        adapter = load_adapter(f"harness:{command}")
        assert isinstance(adapter, HarnessAdapter)
        return adapter.files

    assert files(str(program)) == (str(program),)
    assert files(f"{program} --weights {option}") == (str(program), str(option))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert files(f"program {option}") == (str(option),)
    assert files("program --quiet") == (str(program),)
    before = source_digest(load_adapter(f"harness:{program} {option}"))
    option.write_text("2")
    assert source_digest(load_adapter(f"harness:{program} {option}")) != before


# --- the command line ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        (command("dies"), 3, "the harness ended with exit code 7"),
        (command("dies_at_start"), 3, "the harness ended with exit code 3"),
        (command("words"), 3, "'0' is not of type 'integer'"),
        (command("refuses"), 3, "raised HarnessError: row 0 is not mine"),
        (command("biased"), 1, "miniature does not conform"),
        (command("right"), 0, "miniature conforms"),
        ("harness:no-such-program", 2, "there is no program 'no-such-program'"),
    ],
    ids=["dies", "dies-at-start", "words", "refuses", "biased", "right", "missing"],
)
def test_what_the_command_line_makes_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, code: int, message: str
) -> None:
    def one_case(declared: Declaration, mode: str) -> list[Task]:
        return [task for task in plan(declared, mode) if task.case == cases("quick")[0].id][:1]

    # One case will do: how many more there are makes no difference to this.
    monkeypatch.setattr(campaign, "plan", one_case)
    ran = CliRunner().invoke(cli, ["certify", name, "--output", str(tmp_path)])
    assert ran.exit_code == code, ran.output
    assert message in " ".join(ran.output.split())


def test_the_chapter_shows_messages_as_they_are() -> None:
    text = next(c for c in chapters() if c.stem == "13-harness").read_text(encoding="utf-8")
    shown = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert [next(iter(message)) for message in shown] == [
        "start",
        "declaration",
        "verify",
        "result",
        "stop",
    ]
    for message in shown:
        validate(message, "harness")


def test_the_protocol_that_is_spoken_is_the_schemas() -> None:
    validate({"start": {"protocol": PROTOCOL}}, "harness")
    with pytest.raises(MalformedDocument, match="start/protocol: 1 was expected"):
        validate({"start": {"protocol": PROTOCOL + 1}}, "harness")
