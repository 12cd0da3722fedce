"""Process of a harness: its pipes, its time limits, and its end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from textwrap import shorten

from draftproof.conformance.protocol.adapter import AdapterLost, UnknownAdapter
from draftproof.conformance.protocol.harness.messages import Breach, line, quoted
from draftproof.conformance.protocol.printable import printable
from draftproof.conformance.protocol.supervision import die_with

TIMEOUT = "DRAFTPROOF_HARNESS_TIMEOUT"
"""Environment variable with the seconds that a harness has for its start and each answer."""


@dataclass(frozen=True)
class Seconds:
    """Seconds that a harness has for its start, and for each answer."""

    start: float = 30
    answer: float = 60


def seconds_given() -> Seconds:
    """Return the time limits, which the environment can change. Raises `UnknownAdapter`."""
    given = os.environ.get(TIMEOUT)
    if not given:
        return Seconds()
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    # Nobody waits for longer than a day, nor can `poll`.
    if not 0 < seconds <= 86_400:
        raise UnknownAdapter(f"{TIMEOUT} must be seconds, more than 0 and at most a day: {given!r}")
    return Seconds(seconds, seconds)


# After `stop`, before it is terminated; and after that, before it is killed.
_GRACE, _TERMINATION = 2.0, 1.0

# How often it is looked whether the harness still runs, in seconds.
_TICK = 0.1

# The bytes that are moved at once: what a pipe holds.
_CHUNK = 2**16

# How many lines of its stderr are told.
_LAST_LINES = 5


class Process:
    """Program in its own process group, which is told to stop once it is not needed.

    Raises `AdapterLost` if it cannot be run.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self._murmur = b""
        try:
            self._popen = subprocess.Popen(  # noqa: S603  # the user's own command, and no shell
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                # Its children are in its group, and are killed with it.
                start_new_session=True,
                preexec_fn=_bound_to_us(),
            )
        except (OSError, ValueError) as error:
            raise AdapterLost(f"the harness {arguments[0]!r} cannot be run: {error}") from None
        self._end = weakref.finalize(self, _stop, self._popen, os.getpid())
        self._stdin, self._stdout, self._stderr = _pipes(self._popen)
        for pipe in _pipes(self._popen):
            os.set_blocking(pipe, False)

    def exchange(self, message: bytes, *, limit: int, seconds: float) -> bytes:
        """Send a line, and return the line that answers it, without its end.

        A harness that does not read, or does not write, cannot block the exchange, and the exchange
        does not block a harness that writes much to stderr. Raises `Breach`.
        """
        early = _read(self._stdout)
        if early:
            raise Breach(
                f"says {quoted(early)} where nothing was asked: it must answer every message with "
                f"one line, and say nothing else on stdout"
            )
        unsent, heard, deadline = memoryview(message), bytearray(), time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._stdin, select.POLLOUT)
        poll.register(self._stdout, select.POLLIN)
        poll.register(self._stderr, select.POLLIN)
        while b"\n" not in heard[-_CHUNK:]:
            ready = self._ready(poll, deadline)
            if not ready and time.monotonic() > deadline:
                raise Breach(_late(seconds, len(unsent), bytes(heard)))
            if self._stderr in ready and not self._murmured():
                poll.unregister(self._stderr)
            if self._stdin in ready:
                unsent = self._written(unsent)
                if not unsent:
                    poll.unregister(self._stdin)
            if self._stdout in ready:
                heard += self._said()
            if len(heard) > limit:
                raise Breach(
                    f"floods: it says {len(heard)} bytes where {limit} are the most that an answer "
                    f"needs; what is printed for people belongs on stderr"
                )
        return _first_line(bytes(heard), unsent=len(unsent))

    def lost(self, why: str) -> str:
        """Kill the process and return the reason in words, with its last lines on stderr."""
        self._end.detach()
        _kill(self._popen)
        self._murmured()
        _close(self._popen)
        said = self._murmur.decode("utf-8", "replace").splitlines()
        lines = [printable(each).strip() for each in said]
        last = [each for each in lines if each][-_LAST_LINES:]
        told = f"; the last that it said on stderr: {shorten(' | '.join(last), 600)}"
        return f"the harness {why}{told if last else ''}"

    def _ready(self, poll: select.poll, deadline: float) -> list[int]:
        """Return the ready pipes, empty after the deadline. Raises `Breach` on its end."""
        while (left := deadline - time.monotonic()) > 0:
            ready = [pipe for pipe, _ in poll.poll(1000 * min(left, _TICK))]
            if ready:
                return ready
            # A child of a harness that has ended may keep its pipes open for ever.
            if self._popen.poll() is not None:
                raise Breach(self._ending())
        return []

    def _said(self) -> bytes:
        said = _read(self._stdout)
        if said == b"":
            raise Breach(self._ending())
        return said or b""

    def _written(self, unsent: memoryview) -> memoryview:
        """Write as much as the pipe takes, and return the rest."""
        try:
            return unsent[os.write(self._stdin, unsent[:_CHUNK]) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            raise Breach(self._ending()) from None

    def _murmured(self) -> bool:
        """Read from stderr, keeping only its end. Return True if more can come."""
        said = _read(self._stderr)
        self._murmur = (self._murmur + (said or b""))[-_CHUNK:]
        return said != b""

    def _ending(self) -> str:
        """Describe how the process ended, after waiting a moment for its end."""
        try:
            code = self._popen.wait(_TERMINATION)
        except subprocess.TimeoutExpired:
            return "closed its stdin or stdout: it must read and answer until it is told to stop"
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        return f"{how}: it must answer until it is told to stop"


def _read(pipe: int) -> bytes | None:
    """Return the available bytes: empty at the end of the stream, None if there are none yet."""
    try:
        return os.read(pipe, _CHUNK)
    except BlockingIOError:
        return None


def _late(seconds: float, unsent: int, heard: bytes) -> str:
    what = f"says nothing within {seconds:g} s of being asked"
    if heard:
        what = f"says {quoted(heard)}, and no line's end within {seconds:g} s"
    if unsent:
        what = f"does not read: {unsent} bytes of a message are unread after {seconds:g} s"
    return f"{what}; {TIMEOUT} sets the limit, in seconds"


def _first_line(heard: bytes, *, unsent: int) -> bytes:
    """Return the one line of an answer. Raises `Breach` if there is more, or if it came early."""
    first, _, rest = heard.partition(b"\n")
    if unsent:
        raise Breach(f"says {quoted(first)} before it has read all of what it is asked")
    if rest:
        raise Breach(
            f"says {quoted(first)} and then {quoted(rest)}: it must answer every message with one "
            f"line; what is printed for people belongs on stderr"
        )
    return first


def _bound_to_us() -> Callable[[], None] | None:
    """Return a function that binds a child to this process, so that the child ends with it.

    The binding holds even if this process is killed. The system binds a child to the thread that
    starts it; only the main thread lasts as long as the process.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return None
    return partial(die_with, os.getpid())


# --- the end ------------------------------------------------------------------------------------


def _stop(popen: subprocess.Popen[bytes], owner: int) -> None:
    """Make a harness stop, by force if necessary, unless it belongs to a parent process."""
    if os.getpid() != owner:
        return
    with suppress(OSError):
        os.write(_pipes(popen)[0], line("stop", {}))
    _close(popen)
    for seconds in (_GRACE, _TERMINATION):
        try:
            popen.wait(seconds)
            break
        except subprocess.TimeoutExpired:
            _signal(popen, signal.SIGTERM)
    _kill(popen)


def _kill(popen: subprocess.Popen[bytes]) -> None:
    """Kill a harness, and the processes that it started and left in its group."""
    _signal(popen, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        popen.wait(_TERMINATION)


def _signal(popen: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # There may be nobody left in the group, or nobody who can be signalled.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(popen.pid, number)


def _pipes(popen: subprocess.Popen[bytes]) -> tuple[int, int, int]:
    stdin, stdout, stderr = (
        pipe.fileno() for pipe in (popen.stdin, popen.stdout, popen.stderr) if pipe is not None
    )
    return stdin, stdout, stderr


def _close(popen: subprocess.Popen[bytes]) -> None:
    for pipe in (popen.stdin, popen.stdout, popen.stderr):
        if pipe is not None:
            pipe.close()
