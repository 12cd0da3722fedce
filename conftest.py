"""What all tests share: Triton kernels are interpreted, since there need not be a GPU."""

from __future__ import annotations

import os

# Triton decides when a kernel is defined. TRITON_INTERPRET=0 tests kernels on a GPU that is there.
os.environ.setdefault("TRITON_INTERPRET", "1")
