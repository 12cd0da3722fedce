"""The fast verifiers as Triton kernels, one module each, named as their torch forms are."""

from __future__ import annotations

from triton import knobs

IS_INTERPRETED: bool = knobs.runtime.interpret
"""Whether kernels run in Python, on any device: TRITON_INTERPRET=1 was set before the import."""
