"""Command lines in a process each, forked from a process that has imported what all of them share.

To import the suite and PyTorch takes longer than to look up a row that was judged before. The
process reads a line of JSON for each command line, and answers with its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

_COMMANDS = "draftproof.conformance.cli"

_SHARED = (
    f"{_COMMANDS}.judging",
    "draftproof.conformance.museum",
    "draftproof.conformance.run.campaign",
)
"""Modules that every command imports; none of them imports code under test."""


@dataclass(frozen=True)
class Ended:
    """How a command line ended; `code` is -N if signal N ended it."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Forks:
    """Processes that fork; `run` waits until one of them is free."""

    environment: Mapping[str, str]
    folder: Path
    free: SimpleQueue[subprocess.Popen[str]]

    def run(self, arguments: Sequence[str]) -> Ended:
        """Run `draftproof` with these arguments, in the folder of this process."""
        process = self.free.get()
        try:
            files = [self.folder / f"{process.pid}.{name}" for name in ("stdout", "stderr")]
            for file in files:
                file.write_bytes(b"")
            code = _answered(process, {"arguments": [*arguments], "files": [*map(str, files)]})
            return Ended(code, *(file.read_text(errors="replace") for file in files))
        finally:
            if process.poll() is not None:
                _close(process)
                process = _started(self.environment)
            self.free.put(process)


@contextmanager
def forks(number: int, environment: Mapping[str, str]) -> Iterator[Forks]:
    """Start processes that fork, with these variables besides those of this process."""
    free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    for _ in range(number):
        free.put(_started(environment))
    try:
        with TemporaryDirectory() as folder:
            yield Forks(environment, Path(folder), free)
    finally:
        while not free.empty():
            _close(free.get())


def _started(environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  # ours
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def _close(process: subprocess.Popen[str]) -> None:
    """End a process: its input ends."""
    with suppress(BrokenPipeError), process:
        pass


def _answered(process: subprocess.Popen[str], asked: Mapping[str, object]) -> int:
    """Return the exit code that a process answers with, its own if it has ended."""
    assert process.stdin is not None  # noqa: S101  # mypy's
    assert process.stdout is not None  # noqa: S101  # mypy's
    with suppress(BrokenPipeError):
        process.stdin.write(f"{json.dumps(asked)}\n")
        process.stdin.flush()
    answer = process.stdout.readline()
    return int(answer) if answer else process.wait()


def serve() -> None:
    """Run a command line for each line on stdin, and print its exit code."""
    for name in _SHARED:
        # Where a package is missing, each command says what to install.
        with suppress(ModuleNotFoundError):
            import_module(name)
    # The terminal interrupts the commands too, which end by themselves.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, interrupted)
            _become(asked["arguments"], asked["files"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(arguments: Sequence[str], files: Sequence[str]) -> None:
    """Run the command line in this process, which ends with it."""
    streams = (os.devnull, os.O_RDONLY), *((file, os.O_WRONLY | os.O_APPEND) for file in files)
    for number, (path, flags) in enumerate(streams):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["draftproof", *arguments]
    import_module(_COMMANDS).main()
