from __future__ import annotations

import builtins
import gc
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from queue import Queue
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from joblib import delayed
from joblib.externals.loky.process_executor import _ExecutorManagerThread

from draftproof.conformance.evidence.records import Record
from draftproof.conformance.run.campaign import Campaign, run
from draftproof.conformance.run.workers import Workers, WorkersFailed, keep_apart, working
from draftproof.reference.extras import installation

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="needs distributed")

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"

SOURCE = f"""{RIGHT.read_text(encoding="utf-8")}
import os
from pathlib import Path


class Mine(Batched):
    name, version = "mine", "1.0"

    def __init__(self):
        pass

    def verify(self, request):
        fuse = Path(__file__).with_name("fuse")
        if request.draft_probs.shape[-1] == 3 and fuse.exists():
            fuse.unlink()
            os._exit(1)
        return super().verify(request)
"""

TERMS: dict[str, Any] = {
    "mode": "quick",
    "seed": 5,
    "only": ["law.support"],
    "created": "2026-01-01T12:00:00+00:00",
}


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(SOURCE)
    return f"{tmp_path / 'mine.py'}:Mine"


HERE = Workers()


def left(name: str, workers: Workers = HERE, **terms: Any) -> list[Record]:
    records: list[Record] = []
    run(Campaign(name, **{**TERMS, **terms}), keep=records.append, workers=workers)
    return records


# --- processes of this machine ------------------------------------------------------------


def test_what_is_here_is_done_one_by_one_when_it_is_asked_for() -> None:
    asked = []

    def calls() -> Iterator[Any]:
        for number in range(3):
            asked.append(number)
            yield delayed(pow)(2, number)

    assert Workers().are_here
    assert not Workers(jobs=2).are_here
    assert not Workers(backend="dask").are_here
    with working(Workers()) as over:
        results = over(calls())
        for number in range(3):
            assert (next(results), asked) == (2**number, list(range(number + 1)))


def test_processes_answer_in_order() -> None:
    with working(Workers(jobs=2)) as over:
        assert list(over(delayed(pow)(number, 2) for number in range(6))) == [0, 1, 4, 9, 16, 25]


def test_a_process_that_ends_without_a_word_is_told_and_others_take_its_place() -> None:
    with working(Workers(jobs=2)) as over:
        with pytest.raises(WorkersFailed, match="ended without a word: the program under test"):
            list(over([delayed(pow)(2, 3), delayed(os._exit)(1), delayed(pow)(2, 4)]))
        assert list(over([delayed(pow)(2, 5)])) == [32]


def test_what_ends_early_leaves_nothing_running_and_nothing_said() -> None:
    done = []
    with working(Workers(jobs=2)) as over:
        results = over(delayed(pow)(number, 2) for number in range(100))
        done += [next(results) for _ in range(3)]
    assert done == [0, 1, 4]
    with pytest.raises(StopIteration):
        next(results)


def test_a_call_that_was_dropped_when_workers_were_killed_is_not_taken() -> None:
    waiting: Queue[int] = Queue()
    waiting.put(20)
    manager = SimpleNamespace(
        executor_flags=SimpleNamespace(kill_workers=True),
        call_queue=SimpleNamespace(full=lambda: False),
        work_ids_queue=waiting,
        pending_work_items={},
    )
    _ExecutorManagerThread.add_call_item_to_queue(manager)
    manager.executor_flags.kill_workers = False
    with pytest.raises(KeyError, match="20"):
        _ExecutorManagerThread.add_call_item_to_queue(manager)


THREADED = f"""{RIGHT.read_text(encoding="utf-8")}
import torch


class Threaded(Batched):
    name, version = "threaded", "1.0"

    def __init__(self):
        pass

    def verify(self, request):
        (torch.ones(2**20) * 2).sum()
        return super().verify(request)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_program_whose_threads_a_fork_has_not_is_judged_after_it(tmp_path: Path) -> None:
    (tmp_path / "threaded.py").write_text(THREADED)
    asked = ["certify", "threaded.py:Threaded", "--case", "default.fork", "--mode", "quick"]
    found = subprocess.run(
        [sys.executable, "-c", "from draftproof.conformance.cli import main; main()", *asked],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert "threaded passes 1 of " in found.stdout, found.stdout + found.stderr


def test_what_a_process_raises_is_raised() -> None:
    with working(Workers(jobs=2)) as over, pytest.raises(ZeroDivisionError):
        list(over([delayed(divmod)(1, 0)]))


def test_a_program_that_crashes_once_is_judged_all_the_same(mine: str, tmp_path: Path) -> None:
    whole = left(mine)
    (tmp_path / "fuse").touch()
    assert left(mine, Workers(jobs=2)) == whole
    assert not (tmp_path / "fuse").exists()


# --- a cluster ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (Workers(backend="dask"), "--backend dask needs the --address of its scheduler"),
        (
            Workers(backend="dask", address="nonsense:x"),
            "no Dask scheduler answers at 'nonsense:x'",
        ),
    ],
)
@needs_dask
@pytest.mark.filterwarnings("ignore:Exception ignored in. <function Client.__del__")
def test_a_cluster_that_is_not_there_is_named(workers: Workers, message: str) -> None:
    with pytest.raises(WorkersFailed, match=message), working(workers):
        pass
    gc.collect()


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_package_that_is_missing_is_named(
    backend: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def without(name: str, *arguments: Any) -> ModuleType:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    needed = f"--backend {backend} needs its package: {re.escape(installation(backend))}"
    with (
        pytest.raises(WorkersFailed, match=needed),
        working(Workers(backend=backend, address="tcp://127.0.0.1:1")),
    ):
        pass


def test_threads_of_a_cluster_draw_from_a_generator_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs, ours = ModuleType("distributed.theirs"), ModuleType("ours")
    for module in (theirs, ours):
        module.__dict__.update(random=random, randint=random.randint, seven=7)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    keep_apart()
    before = random.getstate()
    assert 1 <= theirs.randint(1, 6) <= 6
    assert 0 <= theirs.random.random() < 1
    assert theirs.random.choice([3]) == 3
    assert random.getstate() == before
    assert (ours.random, ours.randint, theirs.seven) == (random, random.randint, 7)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler, and two workers without anybody who would start them again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"tcp://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{program}", *arguments]
        with (tmp_path / f"{program}.log").open("ab") as log:
            started.append(
                subprocess.Popen([*command, "--no-dashboard"], cwd=tmp_path, stderr=log, stdout=log)
            )

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", port)
        for _ in range(2):
            start("worker", address, "--nthreads", "1", "--no-nanny")
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


@needs_dask
def test_a_cluster_that_loses_a_worker_leaves_the_same_records(
    mine: str, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    whole = left(mine)
    address, (first, second) = cluster
    wait_for_workers(address, 2)
    records: list[Record] = []

    def keep(record: Record) -> None:
        records.append(record)
        if record["record"] == "result" and record["task"] == 3:
            first.send_signal(signal.SIGKILL)

    run(Campaign(mine, **TERMS), keep=keep, workers=Workers(backend="dask", address=address))
    assert records == whole
    assert (first.wait(), second.poll()) == (-signal.SIGKILL, None)


def wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    deadline = time.monotonic() + 60
    while True:
        try:
            with Client(address, timeout=60, set_as_default=False) as client:
                client.wait_for_workers(count, timeout=60)
            return
        except OSError:
            assert time.monotonic() < deadline
