"""What all tests share: kernels are interpreted, and torch keeps to one thread."""

from __future__ import annotations

import os

# Triton decides when a kernel is defined. TRITON_INTERPRET=0 tests kernels on a GPU that is there.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Every core has a worker of pytest's already, whose tensors are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")
