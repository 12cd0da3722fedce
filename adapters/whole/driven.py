"""Released engines as programs in their own environments, for `draftproof engine`.

    draftproof engine adapters/whole/driven.py:openvino_draft --rows tiny/rows.json

judges a row of `rows.toml`, whose environment `make engines` has made. The control is a second
process of the same program, without speculation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from draftproof.conformance.adapter import Answer, Generation

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / ".venv-engines"


def rows() -> Mapping[str, Mapping[str, Any]]:
    """Return the rows by their ids. Raises `ValueError`, also for a row that does not say all."""
    try:
        found = tomllib.loads((HERE / "rows.toml").read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"rows.toml: {error}") from None
    for name, row in found.items():
        if missing := sorted(KEYS - row.keys()):
            raise ValueError(f"rows.toml, [{name}]: {missing[0]} is missing")
    return found


KEYS = {*("engine", "method", "environment", "program", "speculation", "settings", "checkpoints")}
"""The keys of a row."""


class Driven:
    """An engine that runs in other processes, one for each speculation."""

    switchable = True
    draft_length = None

    def __init__(self, name: str, row: Mapping[str, Any], folder: Path) -> None:
        self.name, self.row, self.folder = name.replace("_", "-"), row, folder
        self.settings = tuple(row["settings"])
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._said: dict[str, IO[str]] = {}
        self.version = self._asked("none", None)["version"]

    def generate(self, requests: Sequence[Generation], /) -> list[Answer]:
        """Return the answers; requests without speculation are for another process."""
        found: dict[int, Answer] = {}
        for speculation in {each.speculation for each in requests}:
            places = [n for n, each in enumerate(requests) if each.speculation == speculation]
            asked = {"requests": [_told(requests[place]) for place in places]}
            answers = self._asked(self.row["speculation"] if speculation else "none", asked)
            for place, tokens in zip(places, answers["answers"], strict=True):
                found[place] = Answer(tuple(tokens))
        return [found[place] for place in range(len(requests))]

    def close(self) -> None:
        """End the processes, which read until there is no more."""
        for speculation, process in self._processes.items():
            with process:
                process.communicate()
            self._said[speculation].close()

    def _asked(self, speculation: str, asked: Any) -> dict[str, Any]:
        """Ask a process, after starting it: its first line has the version."""
        if speculation not in self._processes:
            program = HERE / "programs" / f"{self.row['program']}.py"
            place = ENVIRONMENTS / self.row["environment"]
            own = place / "bin" / "python"
            python = own if own.exists() else sys.executable
            said = self._said[speculation] = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  # as long as the process
            self._processes[speculation] = subprocess.Popen(
                [str(python), str(program), str(self.folder), speculation],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env={**os.environ, "ENGINE": str(place)},
            )
            version = self._line(speculation)
            if asked is None:
                return version
        told = _stream(self._processes[speculation].stdin)
        print(json.dumps(asked), file=told, flush=True)
        return self._line(speculation)

    def _line(self, speculation: str) -> dict[str, Any]:
        process = self._processes[speculation]
        line = _stream(process.stdout).readline()
        if not line:
            code, said = process.wait(), self._said[speculation]
            said.seek(0)
            errors = [each.strip() for each in said if "Error" in each]
            raise RuntimeError(
                f"{self.row['program']}.py {speculation} ended with {code}: "
                f"{(errors or ['it said nothing'])[-1][-300:]}"
            )
        found: dict[str, Any] = json.loads(line)
        return found


def _stream(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise RuntimeError("the process has no pipe")
    return stream


def _told(asked: Generation) -> dict[str, Any]:
    sampling = asked.sampling
    return {
        "prompt": asked.prompt,
        "max_tokens": asked.max_tokens,
        "seed": asked.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "logit_bias": dict(sampling.logit_bias),
    }


def __getattr__(name: str) -> type[Driven]:
    """Return the class of a row, which `draftproof engine` makes from a folder."""
    row = None if name.startswith("__") else rows().get(name)
    if row is None:
        raise AttributeError(name)
    return type(
        name, (Driven,), {"__init__": lambda self, folder: Driven.__init__(self, name, row, folder)}
    )
