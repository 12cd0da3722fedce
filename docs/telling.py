"""Pages that happen as they are told: what they show is done, and what is printed is compared.

Of the fenced blocks of a page

    console   has commands, each behind "$ ", with what it prints below it
    diff      is an edit of the file that its first line names

and any other that has a title is a file, which is written. The rest is only shown. In what a
command prints, "..." stands for anything, and a figure in the form 1.23e-45 for any such figure;
spaces do not count.

Run as a program, it starts the programs that pages call, as forks of itself.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent


class OtherThanTold(AssertionError):
    """A page tells what does not happen."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its title, empty if it has none, and its text."""

    language: str
    title: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, those inside of tabs and admonitions too."""
    found = re.finditer(r"^( *)```(\w*)(.*)\n((?:.*\n)*?)\1```$", page, re.M)
    for _, language, options, text in (each.groups() for each in found):
        title = re.search(r'title="(.*?)"', options)
        yield Block(language, title[1] if title else "", dedent(text))


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield every command of a console block, with what is shown of its output.

    A command that ends with a backslash goes on in the next line.
    """
    yield from re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", text, re.M)


def happens(page: str, folder: Path, programs: Path, *, timeout: float = 900) -> int:
    """Do what a page tells, in a folder; return the exit code of its last command.

    The `programs` are found before all others. Raises `OtherThanTold`.
    """
    # Where CI is set, pytest says more than to a person.
    environment = {
        **{name: value for name, value in os.environ.items() if name != "CI"},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{
            f"GIT_{who}_{what}": f"me@{what}"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    code = 0
    for block in blocks(page):
        if block.title:
            (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "diff":
            edit(folder, block.text)
        elif block.language == "console":
            for command, shown in commands(block.text):
                ran = subprocess.run(  # noqa: S603  # a page of ours
                    ["/bin/bash", "-c", f"(exit {code})\n{command}"],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=timeout,
                    check=False,
                )
                code = ran.returncode
                if not shows(shown, ran.stdout):
                    raise OtherThanTold(f"$ {command}\n{ran.stdout}\nis shown as\n{shown}")
    return code


def shows(shown: str, printed: str) -> bool:
    """Tell whether an output is what is shown of it, but for spaces."""
    lines = (_squeezed(line) for line in shown.splitlines())
    wanted = "".join("(?:.*\n)*?" if line == "..." else f"{_pattern(line)}\n" for line in lines)
    found = "".join(f"{_squeezed(line)}\n" for line in printed.splitlines())
    return re.fullmatch(wanted, found) is not None


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _pattern(line: str) -> str:
    # What rounding leaves, and what samples come to, is another figure on another machine.
    figures = re.sub(r"\d\\\.\d\de\\-\d\d", r"\\d\\.\\d\\de-\\d\\d", re.escape(line))
    return figures.replace(r"\.\.\.", ".*?")


def edit(folder: Path, diff: str) -> None:
    """Make an edit that is shown as a diff: the name of a file, then lines out and lines in."""
    first, *lines = diff.splitlines(keepends=True)
    file = folder / first.removeprefix("--- ").strip()
    old = "".join(line[1:] for line in lines if line[0] == "-")
    new = "".join(line[1:] for line in lines if line[0] == "+")
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise OtherThanTold(f"{old!r} stands {text.count(old)} times in {file.name}")
    file.write_text(text.replace(old, new), encoding="utf-8")


# --- the programs that pages call --------------------------------------------------------------

# Half of what a short command takes is the import of torch and of scipy. So that a page does not
# pay for it at every command, programs are forks of a process that has imported them already:
# each has its own memory, folder, environment and standard streams, as if it had been started.

_CLIENT = """#!{python} -SE
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
told = json.dumps([{name!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(told).to_bytes(8, "big")], [0, 1, 2])
server.sendall(told)
code = int(server.recv(8) or b"70")
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def _draftproof() -> None:
    from draftproof.conformance.cli import main

    main()


def _pytest() -> None:
    import pytest

    # It rewrites the plugins that it imports, and complains of one that is there already.
    for name in [name for name in sys.modules if name.partition(".")[0] == "draftproof"]:
        del sys.modules[name]
    sys.exit(pytest.main())


def _python() -> None:
    del sys.argv[0]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


def _dask() -> None:
    from dask.cli import run_cli

    run_cli()  # type: ignore[no-untyped-call]  # it has no types


_PROGRAMS: dict[str, Callable[[], None]] = {
    "draftproof": _draftproof,
    "dask": _dask,
    "pytest": _pytest,
    "python": _python,
}


@cache
def programs() -> Path:
    """Return a folder with the programs that pages call, as this Python has them.

    It is there as long as this process runs.
    """
    # The path of a socket has a hundred characters at most.
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    place = folder / "socket"
    for name in _PROGRAMS:
        text = _CLIENT.format(python=sys.executable, place=str(place), name=name)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    server = subprocess.Popen(  # noqa: S603  # this file
        [sys.executable, __file__, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    atexit.register(server.communicate)
    atexit.register(server.kill)
    if server.stdout is None or not server.stdout.readline():
        raise RuntimeError("the programs that pages call could not be started")
    return folder


def _serve(place: str) -> None:
    """Start a program for everyone who asks at a socket, as long as somebody may."""
    del sys.path[0]
    for name in ("draftproof.conformance.run.campaign", "draftproof.conformance.cli.judging"):
        __import__(name)
    __import__("pytest")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # none is waited for
        # The end of this stream is that of whoever started the server.
        while sys.stdin not in select.select([server, sys.stdin], [], [])[0]:
            client, _ = server.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                _start(client)
            client.close()


def _start(client: socket.socket) -> None:
    """Be the program that is asked for, in a process whose exit code is told."""
    length, streams, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as said:
        name, arguments, folder, environment = json.loads(said.read(int.from_bytes(length, "big")))
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    program = os.fork()
    if program:
        _, status = os.waitpid(program, 0)
        client.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    client.close()
    _PROGRAMS[name]()
    sys.exit()


if __name__ == "__main__":
    _serve(sys.argv[1])
