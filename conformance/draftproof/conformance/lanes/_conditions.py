"""Conditions under which a lane runs a program: one thread, no compilation, some repeats."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: more threads slow such small tensors down a hundredfold."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def uncompiled() -> contextlib.AbstractContextManager[Any]:
    """Run compiled functions uncompiled: lanes cannot follow compiled code."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]  # torch is untyped here


def is_made_again(count: int) -> bool:
    """Return True if the lane repeats the single run of this number: 1, 2, 4, ..."""
    return count & (count - 1) == 0
