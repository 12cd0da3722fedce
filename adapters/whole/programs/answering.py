"""The conversation of a program with Draftproof: a line of requests, a line of answers.

A program prints its engine's version, then answers each line until there is none. All that an
engine prints itself goes to the error stream.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

Request = dict[str, Any]
"""`prompt` and `max_tokens`, `seed` or None, and the settings: None for those that are off."""

Started = tuple[str, Callable[[list[Request]], list[list[int]]]]
"""The engine's version, and what answers requests."""


def answer(start: Callable[[str, str], Started]) -> None:
    """Start the engine with a checkpoint and a speculation, and answer until the input ends."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    version, generate = start(*sys.argv[1:3])
    print(json.dumps({"version": version}), file=told, flush=True)
    for line in sys.stdin:
        print(
            json.dumps({"answers": generate(json.loads(line)["requests"])}), file=told, flush=True
        )
