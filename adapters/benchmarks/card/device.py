"""A GPU, and the CPU that stands for it in a dry run: waits that raise, graphs, clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import torch
from benchmarks.measuring import Call, Clock, clock_of

T = TypeVar("T")

_WARM = 3
"""Calls before a graph is captured: kernels are compiled, and memory is there."""


class Device:
    """The device `name`, a GPU unless it is "cpu"."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_gpu = name != "cpu"

    @property
    def model(self) -> str:
        """Its maker's name for it."""
        return torch.cuda.get_device_name(self.name) if self.is_gpu else "cpu"

    def clock(self) -> Clock:
        """Return a clock of what it does."""
        return clock_of(self.name)

    def synchronize(self) -> None:
        """Wait for it."""
        if self.is_gpu:
            torch.cuda.synchronize(self.name)

    def release(self) -> None:
        """Give memory back that nobody holds."""
        if self.is_gpu:
            torch.cuda.empty_cache()

    @contextmanager
    def without_waits(self) -> Iterator[None]:
        """Let every operator raise that waits for the GPU."""
        if not self.is_gpu:
            yield
            return
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def captured(self, call: Callable[[], T]) -> Callable[[], T]:
        """Return what replays a call from a CUDA graph, into the same memory each time.

        A CPU has no graphs: there it is the call.
        """
        if not self.is_gpu:
            return call
        beside = torch.cuda.Stream(self.name)  # type: ignore[no-untyped-call]  # torch has no types
        beside.wait_stream(torch.cuda.current_stream(self.name))
        with torch.cuda.stream(beside):
            for _ in range(_WARM):
                call()
        torch.cuda.current_stream(self.name).wait_stream(beside)
        graph: Any = torch.cuda.CUDAGraph()
        before = torch.cuda.current_stream(self.name)
        try:
            with torch.cuda.graph(graph):
                result = call()
        except Exception:
            # torch leaves the stream of a capture that failed to the calls that follow.
            torch.cuda.set_stream(before)
            raise

        def replay() -> T:
            graph.replay()
            return result

        return replay

    def host_seconds(self, call: Call, repeats: int) -> float:
        """Return how long the host is busy with a call that nothing waits for."""
        seen = []
        for _ in range(repeats):
            self.synchronize()
            start = perf_counter()
            call()
            seen.append(perf_counter() - start)
        self.synchronize()
        return median(seen)
