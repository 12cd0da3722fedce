"""Commands whose process is ended by what it runs, and what they leave behind."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.evidence import records as evidence

WORK = """
import atexit, ctypes, os, signal, sys, threading, time
from pathlib import Path
from draftproof.conformance.protocol.supervision import judging, supervised

def work():
    judging("mine")
    {body}

sys.exit(supervised(work))
"""

COMMAND = (sys.executable, "-c", "from draftproof.conformance.cli import main; main()")
FEW = ("--mode", "quick", "--case", "zeros.both", "--lane", "sample", "--seed", "1")

SOURCE = """
import os

class Mine:
    name, version, algorithm, batch = "mine", "1", "token", False

    def verify(self, request):
        {body}

class Other(Mine):
    name = "other"
"""


def adapter(folder: Path, body: str) -> str:
    (folder / "mine.py").write_text(SOURCE.format(body=body))
    return "./mine.py:Mine"


def draftproof(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120, **options
    )


def program(body: str) -> list[str]:
    """Return a program whose work is under supervision, as that of a command is."""
    return [sys.executable, "-c", WORK.format(body=body)]


def worked(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(program(body), capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("code", [0, 1, 130])
def test_the_exit_code_is_that_of_the_work(code: int) -> None:
    ran = worked(f"print('done'); return {code}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "done\n", "")


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("os._exit(0)", "with exit code 0"),
        ("os._exit(1)", "with exit code 1"),
        ("ctypes.string_at(0)", "by signal 11 (Segmentation fault)"),
        ("os.abort()", "by signal 6 (Aborted)"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "by signal 15 (Terminated)"),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            "by signal 9 (Killed; is there enough memory?)",
        ),
    ],
)
def test_work_that_ends_the_process_is_told_by_how_it_ended(body: str, how: str) -> None:
    ran = worked(body)
    assert ran.returncode == 3
    assert ran.stderr.endswith(
        f"Error: mine could not run: it ended the process {how} before the work was done; code "
        f"under test must return or raise, and not call os._exit or crash\n"
    )


def test_an_adapter_that_ends_the_process_could_not_run(tmp_path: Path) -> None:
    ran = draftproof("certify", adapter(tmp_path, "os._exit(0)"), *FEW, cwd=tmp_path)
    assert ran.returncode == 3
    assert ran.stdout == ""
    assert "Error: ./mine.py:Mine could not run: it ended the process with exit code" in ran.stderr
    assert not list(tmp_path.glob("certificates/*.json"))


def test_an_import_that_ends_the_process_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import os\nos._exit(0)\n")
    ran = draftproof("certify", "torch-token", "./mine.py:Mine", *FEW, cwd=tmp_path)
    assert ran.returncode == 3
    assert "Error: ./mine.py:Mine could not run: it ended the process with exit" in ran.stderr


def test_an_exit_outside_of_all_lanes_is_no_end_of_the_command(tmp_path: Path) -> None:
    source = SOURCE.format(body="raise RuntimeError") + "    files = property(lambda _: exit(0))\n"
    (tmp_path / "mine.py").write_text(source)
    ran = draftproof("certify", "./mine.py:Other", *FEW, cwd=tmp_path)
    assert ran.returncode == 3
    assert "Error: ./mine.py:Other could not run: it raised SystemExit: 0" in ran.stderr


def test_a_fork_that_an_adapter_makes_does_not_judge(tmp_path: Path) -> None:
    fork = "os.environ.get('MINE') or (os.environ.update(MINE='forked'), os.fork())"
    draws = "raise ValueError('told once')"
    ran = draftproof("certify", adapter(tmp_path, f"{fork}; {draws}"), *FEW, cwd=tmp_path)
    assert ran.returncode == 3
    assert ran.stderr.count("told once") == 1
    (part,) = (tmp_path / "certificates").glob("*.jsonl.part")
    assert evidence.read_unfinished(part).records


@pytest.mark.parametrize(
    "error", ["GeneratorExit", "type('Own', (BaseException,), {})", "MemoryError('x' * 10**7)"]
)
def test_an_adapter_that_always_raises_could_not_run(tmp_path: Path, error: str) -> None:
    ran = draftproof("certify", adapter(tmp_path, f"raise {error}"), *FEW, cwd=tmp_path)
    assert ran.returncode == 3
    assert "Error: ./mine.py:Mine could not run: it " in ran.stderr
    assert " raised " in ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr) < 5_000


def test_every_command_is_supervised(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import os\nos._exit(0)\n")
    (tmp_path / "two.json").write_text(
        '{"vocabulary": 2, "length": 1, "target": ["1/3", "2/3"], "draft": ["2/3", "1/3"]}'
    )
    ran = draftproof("law", "./own.py:verify", "two.json", cwd=tmp_path)
    assert ran.returncode == 3
    assert "Error: the command could not run: it ended the process with exit code 0" in ran.stderr


@pytest.mark.parametrize("code", [0, 1, 6])
@pytest.mark.parametrize(
    "left",
    [
        "atexit.register(os._exit, 0)",
        "atexit.register(os._exit, 7)",
        "atexit.register(os.abort)",
        "atexit.register(time.sleep, 600)",
        "threading.Thread(target=time.sleep, args=(600,)).start()",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); atexit.register(time.sleep, 600)",
    ],
)
def test_the_exit_code_of_work_that_is_done_stands(left: str, code: int) -> None:
    """An exit handler or a thread of a program under test neither replaces it nor holds it up."""
    began = time.monotonic()
    ran = worked(f"{left}; print('done'); return {code}")
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "done\n", "")
    assert time.monotonic() - began < 30


def test_exit_handlers_have_a_moment(tmp_path: Path) -> None:
    ran = worked(f"atexit.register(Path({str(tmp_path / 'tidy')!r}).touch); return 1")
    assert ran.returncode == 1
    assert (tmp_path / "tidy").exists()


def test_a_fork_of_the_command_has_no_say() -> None:
    """A fork that falls through to the end of the program says nothing for it."""
    ran = worked("child = os.fork()\n    if child == 0: return 0\n    os.wait(); os._exit(0)")
    assert ran.returncode == 3
    assert "it ended the process with exit code 0 before the work was done" in ran.stderr


def test_processes_that_were_there_before_are_left_alone(tmp_path: Path) -> None:
    """A shell that calls `exec` leaves its children to the command."""
    ran = subprocess.run(
        ["/bin/bash", "-c", 'sleep 3 & exec "$@"', "bash", *program("print('done'); return 0")],
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, b"done\n")


# --- signals ------------------------------------------------------------------------------------


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Work that sleeps, once it does."""
    process = subprocess.Popen(
        program("Path('ready').touch(); time.sleep(600)"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        # Under nohup it would be ignored, and so by all that is started.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    wait_for(tmp_path / "ready")
    yield process
    process.kill()
    process.communicate()


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_command_that_is_ended_by_a_signal_ends_by_it(
    running: subprocess.Popen[str], number: signal.Signals
) -> None:
    running.send_signal(number)
    _, told = running.communicate(timeout=30)
    assert running.returncode == -number
    assert "Error" not in told


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_command_ends_with_its_supervisor(running: subprocess.Popen[str]) -> None:
    running.kill()
    # The child has the pipes, too, which end with it.
    running.communicate(timeout=30)


def test_an_interruption_from_a_terminal_comes_once() -> None:
    """The terminal sends it to the whole process group."""
    arguments = program(
        "signal.signal(2, lambda *_: os.write(2, b'one interruption ')); "
        "os.write(2, b'ready'); [time.sleep(0.1) for _ in range(5)]; "
        "os.write(2, str((os.isatty(0), os.isatty(1))).encode()); os._exit(5)",
    )
    child, terminal = pty.fork()
    if child == 0:
        os.execv(arguments[0], arguments)
    said = read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    said = read_until(terminal, b"before the work was done", said)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    os.close(terminal)
    assert said.count(b"one interruption") == 1
    assert b"(True, True)" in said


def read_until(terminal: int, text: bytes, said: bytes = b"") -> bytes:
    deadline = time.monotonic() + 60
    while text not in b" ".join(said.split()):
        assert time.monotonic() < deadline, said
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 2**16)
    return said


# --- what is left behind ------------------------------------------------------------------------

HARNESS = """
import os, subprocess, sys, time
if sys.argv[2] == "sleeps":
    child = "import time; file = open({life!r}, 'w'); print(1, file=file, flush=True); "
    child += "time.sleep(600)"
    child = child.format(life=sys.argv[1] + ".child")
    subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
with open(sys.argv[1], "w") as file:
    file.write("harness\\n")
    file.flush()
    time.sleep(600)
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A command, and pipes that are open as long as its harness, and what that left, live."""
    (tmp_path / "sleeping.py").write_text(HARNESS)
    pipes = []
    for name in ("life", "life.child"):
        os.mkfifo(tmp_path / name)
        pipes.append(os.open(tmp_path / name, os.O_RDONLY | os.O_NONBLOCK))
    process = subprocess.Popen(
        [*COMMAND, "certify", "--harness", f"{sys.executable} sleeping.py life sleeps", *FEW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        process_group=0,
    )
    for pipe in pipes:
        assert select.select([pipe], [], [], 60)[0]
    yield process, pipes[0], pipes[1]
    process.kill()
    process.communicate()
    for pipe in pipes:
        os.close(pipe)


def has_ended(pipe: int) -> bool:
    """Return whether nobody writes to a pipe any more."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if select.select([pipe], [], [], 0.1)[0] and os.read(pipe, 2**16) == b"":
            return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a process is")
def test_a_terminated_command_leaves_nothing(
    harness: tuple[subprocess.Popen[str], int, int],
) -> None:
    process, own, child = harness
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM
    assert has_ended(own)
    assert has_ended(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
@pytest.mark.parametrize("kill", [os.kill, os.killpg], ids=["process", "group"])
def test_a_killed_command_leaves_nothing(
    harness: tuple[subprocess.Popen[str], int, int], kill: Callable[[int, int], None]
) -> None:
    """`timeout -s KILL` kills the whole group, which a harness and its child have left."""
    process, own, child = harness
    kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert has_ended(own)
    assert has_ended(child)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a guard")
def test_the_work_is_in_the_group_of_its_command() -> None:
    """So a terminal interrupts and stops it; the guard between the two is spared."""
    body = "print(os.getpgrp() == int(sys.argv[1]), os.getpgid(os.getppid()) == os.getppid())"
    started = "import os, sys; os.execv(sys.argv[1], [*sys.argv[1:], str(os.getpid())])"
    ran = subprocess.run(
        [sys.executable, "-c", started, *program(f"{body}; return 0")],
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, "True True\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a guard")
def test_a_killed_guard_leaves_nothing() -> None:
    ran = worked("os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)")
    assert ran.returncode == 3
    assert "it ended the process by signal 9" in ran.stderr
