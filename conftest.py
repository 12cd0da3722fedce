"""What all tests share: kernels are interpreted, and torch keeps to one thread."""

from __future__ import annotations

import gc
import os

# Triton decides when a kernel is defined. TRITON_INTERPRET=0 tests kernels on a GPU that is there.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Every core has a worker of pytest's already, whose tensors are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """Keep what was collected out of all later searches among live objects: it stays."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter's end find what was kept from it."""
    gc.unfreeze()
