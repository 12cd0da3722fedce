"""Supervision of a command: a parent process that reports how its child ends.

Programs under test share the process of the command that judges them, and can end it: by
`os._exit`, a segmentation fault, or a lack of memory. A command therefore runs in a child, and its
parent accepts only an exit code that the child has announced. An announced code is final, whatever
programs under test do while the child ends: their exit handlers and threads, and processes that the
child started, have a moment to finish before they are killed.

The child is a fork, which shares standard streams, terminal, folder and process group with the
parent. Only Linux can find processes that left their group, and end a child with its parent;
elsewhere a command is supervised, and the processes that it leaves behind keep running.

No process can handle SIGKILL. On Linux there is a guard process between the two, in a separate
process group: it supervises the child, and ends all processes that the child started when the
parent is gone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from draftproof.conformance.protocol.printable import printable, unobeyed

UNJUDGED = 3
"""Exit code of a command whose process was ended by the code that it ran."""

# What a parent passes on, as if it had been sent to the child.
_PASSED_ON = frozenset(
    (
        *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
        *(signal.SIGUSR1, signal.SIGUSR2),
    )
)
_HEARD = _PASSED_ON | {signal.SIGCHLD}

# The kernel sends these from the terminal, to the whole process group.
_FROM_TERMINAL = 0x80

# How many seconds what is left has to end by itself, as a harness has that is told to stop; then to
# heed SIGTERM; then to be gone.
_GRACE, _TERMINATION, _DEATH = 2.0, 1.0, 2.0

_TICK = 0.01

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


@dataclass(frozen=True)
class _Line:
    """Child's line to its parent, for reports. A fork of the child cannot use it."""

    owner: int
    parent: int
    pipe: int

    def tell(self, word: str, rest: str) -> None:
        if os.getpid() == self.owner:
            # What no longer fits into the pipe is not worth a pause, nor a parent that is gone.
            with suppress(OSError):
                os.write(self.pipe, f"{word} {rest!r}\n".encode())

    def finish(self, code: int) -> None:
        """Report the exit code, and wake the parent to read it."""
        self.tell("done", str(code))
        if os.getpid() == self.owner:
            with suppress(OSError):
                os.kill(self.parent, signal.SIGCHLD)


_line: _Line | None = None


def judging(name: str) -> None:
    """Report to the supervisor, if there is one, which adapter runs from now on."""
    if _line is not None:
        _line.tell("judging", name)


def supervised(work: Callable[[], int]) -> int:
    """Do work in a child process, and return its exit code there; the parent ends with it.

    If the child ends before the work is done, the parent reports how on stderr, and ends with
    `UNJUDGED`; if a signal that the parent received ends the child, the same signal ends the
    parent. The parent ends once neither the child nor any process that the child started runs; none
    of these can change the exit code of finished work. A system without `fork` does the work in
    this process.
    """
    if not hasattr(os, "fork"):
        return work()
    if sys.platform != "linux":
        return _supervised(work)
    us, group = os.getpid(), os.getpgrp()

    def guarded() -> int:
        # The group is gone where all of it was killed, and so is this process in a moment.
        with suppress(OSError):
            os.setpgid(0, group)
        signal.signal(signal.SIGTTOU, writing)
        return work()

    def guard() -> int:
        # A signal to our group spares the guard, which still writes to the terminal.
        os.setpgid(0, 0)
        return _supervised(guarded, guarding=us)

    writing = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    return _supervised(guard, at_our_end=signal.SIGCHLD)


def _supervised(
    work: Callable[[], int],
    *,
    at_our_end: signal.Signals = signal.SIGKILL,
    guarding: int | None = None,
) -> int:
    """Do work in a child process, and return its exit code there; this process ends with it.

    A signal tells the child of this process's end. When the process that this one is `guarding`,
    its parent, ends, the child and all processes that it started end at once.
    """
    spared = _descendants()
    _adopt_orphans()
    # Exits of children would go unnoticed where whoever started this process ignores them.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    _flush()
    told, telling = os.pipe()
    parent, child = os.getpid(), _fork()
    if child == 0:
        os.close(told)
        die_with(parent, at_our_end)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return _announced(work, parent, telling)
    os.close(telling)
    code = _waited(child, told, guarding)
    _end(spared, at_once=_is_gone(guarding))
    if code < 0:
        _end_by(-code)
    if _line is not None:
        _line.finish(code)
    # The child has tidied up for both.
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()


def die_with(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have the system kill this process when the thread of its parent ends that forked it.

    The child calls it, with the parent's id. A signal other than SIGKILL leaves the end to this
    process. Only Linux can do so.
    """
    if _prctl(_SET_PARENT_DEATH_SIGNAL, number) and os.getppid() != parent:
        os._exit(1)


def _fork() -> int:
    # A collection would write to all objects, and so copy the memory that both processes share.
    gc.freeze()
    with warnings.catch_warnings():
        # The only threads so early are those of numpy's BLAS, which knows what to do in a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _announced(work: Callable[[], int], parent: int, telling: int) -> int:
    """Do the work of the child, and report its exit code."""
    global _line  # a process has one supervisor
    os.set_blocking(telling, False)
    _line = _Line(os.getpid(), parent, telling)
    code = work()
    # From now on the parent may end this process at any time.
    _flush()
    _line.finish(code)
    return code


# --- the parent ---------------------------------------------------------------------------------


def _waited(child: int, told: int, guarding: int | None) -> int:
    """Return the exit code of a child, or the code for an end before its work was done.

    The code is -N if signal N, sent to the parent, ended the child. The end of the process that
    this one is `guarding` counts as the child's.
    """
    os.set_blocking(told, False)
    signals: set[int] = set()
    heard: dict[str, str] = {}
    while True:
        if _is_gone(guarding):
            return 128 + signal.SIGKILL
        while (number := _next()) != signal.SIGCHLD:
            signals.add(abs(number))
            if number > 0:
                os.kill(child, number)
        ended = dict(_reaped())
        heard |= _heard(told)
        if "done" in heard:
            return int(heard["done"].strip("'"))
        if child in ended:
            code = os.waitstatus_to_exitcode(ended[child])
            return _cut_short(code, signals | (signal.sigpending() & _PASSED_ON), heard)


def _is_gone(guarding: int | None) -> bool:
    return guarding is not None and os.getppid() != guarding


def _next() -> int:
    """Return the next signal, negative if the child has received it already."""
    if sys.platform != "linux":
        number = signal.sigwait(_HEARD)
        return -number if number == signal.SIGINT else number
    heard = signal.sigwaitinfo(_HEARD)
    is_shared = heard.si_code == _FROM_TERMINAL and heard.si_signo != signal.SIGCHLD
    return -heard.si_signo if is_shared else heard.si_signo


def _reaped() -> Iterable[tuple[int, int]]:
    """Yield ended children, and ended orphans that were adopted, with their statuses."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _heard(told: int) -> dict[str, str]:
    """Return the last report of a child under each word, among those not yet read."""
    text = b""
    with suppress(BlockingIOError):
        while some := os.read(told, 2**16):
            text += some
    lines = text.decode("utf-8", "replace").splitlines()
    return {word: rest for word, _, rest in (line.partition(" ") for line in lines)}


def _cut_short(code: int, signals: set[int], heard: dict[str, str]) -> int:
    """Return the code for a child's end before its work was done, and report it where needed."""
    if -code in signals:
        return code
    how = f"with exit code {code}" if code >= 0 else f"by signal {-code} ({_described(-code)})"
    _say(heard.get("judging"), how)
    return UNJUDGED


def _described(number: int) -> str:
    name = signal.strsignal(number) or "unknown"
    return f"{name}; is there enough memory?" if number == signal.SIGKILL else name


def _say(adapter: str | None, how: str) -> None:
    who = "the command" if adapter is None else adapter[1:-1]
    told = (
        f"{who} could not run: it ended the process {how} before the work was done; code under "
        f"test must return or raise, and not call os._exit or crash"
    )
    with suppress(OSError):
        click.echo(f"Error: {unobeyed(printable(told))}", err=True)


def _end_by(number: int) -> None:
    """End this process by the signal that ended its child, as if without a supervisor."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    # The first process of a container is not ended by a signal.
    os._exit(128 + number)


# --- what the child leaves ----------------------------------------------------------------------


def _end(spared: frozenset[int], *, at_once: bool) -> None:
    """End the child and the processes that it started, sparing those that were there before."""
    for seconds, number in ((_GRACE, signal.SIGTERM), (_TERMINATION, signal.SIGKILL)):
        if not at_once:
            if _are_gone(spared, seconds):
                return
            _signal(_descendants() - spared, number)
    deadline = time.monotonic() + _DEATH
    # Whoever was forked meanwhile is found in another round.
    while not _are_gone(spared, _TICK) and time.monotonic() < deadline:
        _signal(_descendants() - spared, signal.SIGKILL)


def _are_gone(spared: frozenset[int], seconds: float) -> bool:
    """Return True as soon as no descendant is left, False after this many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        for _ in _reaped():
            pass
        # Whose children have all ended has no other descendants, which a system call tells.
        if not _has_children() or not _descendants() - spared:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_TICK)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _signal(processes: Iterable[int], number: int) -> None:
    for each in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, number)


def _descendants() -> frozenset[int]:
    """Return the ids of this process's descendants, empty if the system does not list them."""
    if not _has_children():
        return frozenset()
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name is in parentheses and may contain some; the state and the parent follow.
            parent = place.read_bytes().rpartition(b")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(place.parent.name))
    found: list[int] = []
    unseen = [os.getpid()]
    while unseen:
        own = children.get(unseen.pop(), [])
        found += own
        unseen += own
    return frozenset(found)


# --- the system ---------------------------------------------------------------------------------


def _adopt_orphans() -> None:
    """Become the parent of descendants whose own parents end."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    """Set an attribute of this process; return True if the system has it."""
    if _LIBC is None:
        return False
    return int(_LIBC.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3)) == 0


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
