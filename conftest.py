"""What all tests share: kernels are interpreted, torch keeps to one thread, skips are counted."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator

import pytest

# Triton decides when a kernel is defined. TRITON_INTERPRET=0 tests kernels on a GPU that is there.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Every core has a worker of pytest's already, whose tensors are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What was asked of this run of pytest is not asked of those that tests start.
os.environ.pop("PYTEST_ADDOPTS", None)


def pytest_collection_finish() -> None:
    """Keep what was collected out of all later searches among live objects: it stays."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter's end find what was kept from it."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    """Say last how many tests of pages were skipped for want of a browser, and how to get it."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum("chromium is not installed" in str(report.longrepr) for report in skipped)
    if count:
        told = f"{count} browser tests skipped: chromium is not installed."
        terminalreporter.write_line(f"{told} On Debian: apt-get install chromium", yellow=True)
