"""Compile every kernel that the fast verifiers launch for GPUs that need not be there.

A program of its own, since Triton decides when a kernel is defined whether it is interpreted:
`python compiling.py [--all] NAME...` prints a line for every kernel and target that it compiles; a
NAME is that of a verifier, or "drafting". A line has the NAME, the kernel, the target, and how many
divisions of float32 there are that are rounded as IEEE 754 says, and that are not, where it tells.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.adapters.fast.batch import Batch, Rows, Softmax, uniforms
from draftproof.adapters.fast.drafting import siblings

HOPPER, AMPERE = GPUTarget("cuda", 90, 32), GPUTarget("cuda", 80, 32)
INSTINCT = GPUTarget("hip", "gfx942", 64)

_TYPES = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.int64: "*i64",
    torch.bool: "*i1",
}


def compiled(
    name: str,
    kernel: JITFunction,
    args: tuple[Any, ...],
    target: GPUTarget,
    options: dict[str, Any],
) -> None:
    """Compile a kernel as it would be for a launch with these arguments and options."""
    constants: dict[tuple[int, ...], Any] = {}

    def typed(value: Any, path: tuple[int, ...], *, is_constant: bool = False) -> Any:
        if is_constant or isinstance(value, tl.constexpr):
            constants[path] = value.value if isinstance(value, tl.constexpr) else value
            return "constexpr"
        if isinstance(value, tuple):
            return tuple(typed(each, (*path, i)) for i, each in enumerate(value))
        if isinstance(value, torch.Tensor):
            return _TYPES[value.dtype]
        return "fp32" if isinstance(value, float) else "i32"

    signature = {
        parameter.name: typed(value, (i,), is_constant=parameter.is_constexpr)
        for i, (parameter, value) in enumerate(zip(kernel.params, args, strict=True))
    }
    made = triton.compile(ASTSource(kernel, signature, constants), target=target, options=options)
    divisions = [made.asm.get("ptx", "").count(f"div.{kind}.f32") for kind in ("rn", "full")]
    print(name, kernel.__name__, target.backend, target.arch, *divisions)


def batch(drafts: int, length: int, vocabulary: int, dtype: torch.dtype, *, logits: bool) -> Batch:
    """Return a batch of three requests, whose rows count for their shapes only."""
    count = 3 * drafts * (length + 1)
    rows = torch.full((count, vocabulary), 1 / vocabulary, dtype=dtype)
    at = torch.arange(count).view(3, drafts, length + 1)
    one, none = torch.ones(count), torch.zeros(count)
    soft = Softmax(one, none, least=none, last=none.long())
    return Batch(
        tokens=torch.zeros(3, drafts, length, dtype=torch.int64),
        lengths=torch.full((3,), length),
        q=Rows(rows, at[..., :-1].contiguous(), soft if logits else None),
        p=Rows(rows, at, soft if logits else None),
    )


def verified(name: str, vocabulary: int, dtype: torch.dtype, *, logits: bool) -> None:
    """Launch a verifier's kernels, on paths that branch below the root where it takes trees."""
    text = TEXTS[name]
    drafts = min(2, text.most_drafts)
    given = batch(drafts, 3, vocabulary, dtype, logits=logits)
    if text.trees:
        given = replace(given, branching=(1, 2, 1))
    noise = uniforms(3, text.noise(drafts, 3), None, given.tokens.device)
    FastVerifier(name, form="triton").of(given, noise)


def drafted(vocabulary: int, dtype: torch.dtype, *, logits: bool) -> None:
    """Launch the drafters' kernels: greedy drafting has all of them."""
    rows = batch(1, 3, vocabulary, dtype, logits=logits).p
    marks = torch.zeros(len(rows.values), 2, dtype=torch.float64)
    siblings(rows.values, marks, scheme="greedy", form="triton", softmax=rows.softmax)


def main(names: list[str], *, everything: bool) -> None:
    """Compile what is launched under these names: on each target, with some of the rows."""
    narrow, wide, double = (5, torch.float32), (5000, torch.bfloat16), (5000, torch.float64)
    few = [(HOPPER, *wide, True), (INSTINCT, *narrow, False)]
    more = [(AMPERE, *wide, True), (AMPERE, *double, False), (HOPPER, *narrow, False)]
    for name in names:
        launch = drafted if name == "drafting" else partial(verified, name)
        for target, vocabulary, dtype, logits in (*few, *(more if everything else ())):
            JITFunction.run = (
                lambda self, *args, grid, warmup, _name=name, _target=target, **options: compiled(
                    _name, self, args, _target, options
                )
            )
            launch(vocabulary, dtype, logits=logits)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main([name for name in sys.argv[1:] if name != "--all"], everything="--all" in sys.argv)
