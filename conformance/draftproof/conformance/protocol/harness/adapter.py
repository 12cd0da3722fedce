"""Adapter of a harness: its requests as messages, and the answers as results."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from draftproof.conformance.protocol.adapter import (
    AdapterFailed,
    AdapterLost,
    Request,
    Result,
    UnknownAdapter,
)
from draftproof.conformance.protocol.harness import messages
from draftproof.conformance.protocol.harness.messages import COLUMNS, Breach
from draftproof.conformance.protocol.harness.process import Process, Seconds, seconds_given


class HarnessError(RuntimeError):
    """Error of a harness in answer to a request, like an exception of an adapter in Python."""


class HarnessAdapter:
    """Adapter of a program, with the attributes that the program declares.

    Copies share the program's process, which ends with the last copy. An unpickled adapter starts
    its own process, as does an adapter in a forked process. Raises `UnknownAdapter` and
    `AdapterLost`.
    """

    name: str
    version: str
    algorithm: str

    def __init__(self, command: str) -> None:
        arguments = _arguments(command)
        self.files = _files(arguments)
        self._conversation = _Conversation(arguments, seconds_given())
        declared = self._conversation.declared
        vars(self).update({k: v for k, v in declared.items() if k not in ("protocol", "tensors")})

    def verify(self, request: Request) -> Result:
        """Verify B rows. Raises `HarnessError` for an error of the program, and `AdapterLost`."""
        result = self._conversation.verified(request)
        accepted, path, token = (torch.tensor(result[column]) for column in COLUMNS)
        return Result(accepted, path, token)


def started(command: str) -> HarnessAdapter:
    """Return the adapter of a command, run without a shell.

    Raises `UnknownAdapter` if there is no such program, `AdapterFailed` if its start breaks the
    protocol.
    """
    try:
        return HarnessAdapter(command)
    except AdapterLost as lost:
        raise AdapterFailed(str(lost)) from None


def _arguments(command: str) -> tuple[str, ...]:
    """Return the program's path and its arguments. Raises `UnknownAdapter`."""
    try:
        program, *others = shlex.split(command)
    except ValueError as error:
        reason = str(error).lower() if command.strip() else "it is empty"
        raise UnknownAdapter(
            f"{command!r} is no command: {reason}; a harness is named like harness:./program or "
            f"'harness:interpreter file --option'"
        ) from None
    found = shutil.which(program)
    if found is not None:
        return (found, *others)
    if Path(program).is_file():
        raise UnknownAdapter(
            f"the harness {program!r} is not executable: make it so, or name its interpreter first"
        )
    raise UnknownAdapter(
        f"there is no program {program!r}; no shell is asked, to which ~, $ and * mean something"
    )


def _files(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the files of a harness: its program, and every argument that is a file.

    An interpreter on PATH counts only if no argument is a file.
    """
    program, *others = arguments
    named = tuple(each for each in others if Path(each).is_file())
    is_on_path = shutil.which(Path(program).name) == program
    return named if named and is_on_path else (program, *named)


class _Conversation:
    """Conversation with a harness: numbered requests, one after the other, and their answers."""

    def __init__(self, arguments: Sequence[str], seconds: Seconds) -> None:
        self._arguments, self._seconds = arguments, seconds
        self._begin()

    def __deepcopy__(self, _memo: object) -> _Conversation:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _Conversation, (self._arguments, self._seconds)

    def verified(self, request: Request) -> dict[str, Any]:
        """Return the columns of the result. Raises `HarnessError` and `AdapterLost`."""
        if self._owner != os.getpid():
            self._begin()
        if self._lost:
            raise AdapterLost(self._lost)
        asked, rows = messages.asked(request, self.declared["tensors"]), len(request.draft_tokens)
        self._sequence += 1
        line = messages.line("verify", {"sequence": self._sequence, **asked})
        with self._losing():
            heard = self._process.exchange(
                line, limit=messages.largest_answer(rows), seconds=self._seconds.answer
            )
            kind, body = messages.answer(heard, self._sequence, rows)
        if kind == "error":
            raise HarnessError(body["message"])
        return body

    def _begin(self) -> None:
        """Start a separate process: a forked process must not use that of its parent."""
        self._owner, self._lost, self._sequence = os.getpid(), "", 0
        self._process = Process(self._arguments)
        line = messages.line("start", {"protocol": messages.PROTOCOL})
        with self._losing():
            heard = self._process.exchange(
                line, limit=messages.LARGEST_DECLARATION, seconds=self._seconds.start
            )
            self.declared = messages.declaration(heard)

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Kill the harness if it breaks the protocol, or if an exchange is interrupted."""
        try:
            yield
        except Breach as breach:
            self._lost = self._process.lost(str(breach))
            raise AdapterLost(self._lost) from None
        except BaseException:
            self._lost = self._process.lost("was interrupted in the middle of a request")
            raise
