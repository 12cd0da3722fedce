"""Compile a lean sweep over a row of logits, and the same with faults, for an H100.

A program of its own, as `benchmarks.compiled` is; it prints a document for every kernel, with the
name of the fault that is in it.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict

import torch
import triton
import triton.language as tl
from benchmarks.compiled import compiling

FAULTS = ("none", "constants", "double", "spill", "unaligned")


@triton.jit  # type: ignore[untyped-decorator]  # Triton types kernels when it compiles them
def stats(  # type: ignore[no-untyped-def]
    rows, constants, sums, stride, vocabulary,
    CONSTANTS: tl.constexpr, DOUBLE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Write the sum of exponentials of a row of logits."""
    row = tl.program_id(0).to(tl.int64)
    scale = tl.load(constants + row)
    total = tl.zeros([TILE], tl.float64 if DOUBLE else tl.float32)
    for start in range(0, vocabulary, TILE):
        token = start + tl.arange(0, TILE)
        inside = token < vocabulary
        x = tl.load(rows + row * stride + token, mask=inside, other=-float("inf"))
        if CONSTANTS:
            # A row's constant, once for every token.
            x *= tl.load(constants + row + token * 0, mask=inside, other=0.0)
        else:
            x *= scale
        total += tl.exp2(x).to(total.dtype)
    tl.store(sums + row, tl.sum(total, 0))


def main() -> None:
    """Print the kernels."""
    warnings.simplefilter("ignore")
    rows = torch.empty(64, 128_256, device="meta")
    constants, sums = torch.empty(2, 64, device="meta").unbind()
    for fault in FAULTS:
        stride = 128_257 if fault == "unaligned" else 128_256
        options = {"num_warps": 1, "maxnreg": 32} if fault == "spill" else {}
        with compiling("sm_90") as found:
            stats[(64,)](
                rows, constants, sums, stride, 128_256,
                fault == "constants", fault == "double", 4096, **options,
            )  # fmt: skip
        print(json.dumps({"fault": fault, "kernel": asdict(found[0])}))


if __name__ == "__main__":
    main()
