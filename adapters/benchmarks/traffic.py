"""How much of the rows a verifier reads: the loads of its kernels that are executed.

    TRITON_INTERPRET=1 python adapters/benchmarks/traffic.py [--requests B] [--seed N] [NAME...]

Kernels are interpreted with the tiles of a GPU, and every number is counted that one of their loads
takes from the rows of target and draft. A count is a multiple of the numbers that the rows have: 1
is a verifier that reads every row once. Which rows are read depends on the rows, the drafts and the
noise: the mean is over the requests of a batch, and the worst of them stands beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from statistics import fmean
from typing import Any
from unittest.mock import patch

import click
import numpy as np
import torch
from benchmarks.inputs import Size, request
from torch import Tensor
from triton.runtime.interpreter import InterpreterBuilder

from draftproof.adapters.fast import KERNELS, TEXTS
from draftproof.adapters.fast.engine import verify
from draftproof.adapters.fast.inputs import flattened
from draftproof.adapters.fast.texts import function
from draftproof.conformance.protocol.adapter import Request

DRAFTS = 4
"""K of the verifiers that take several drafts."""


@dataclass(frozen=True)
class Traffic:
    """How many numbers of the rows the requests of a batch read, over how many they have."""

    by_request: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of all requests, which have as many rows each."""
        return fmean(self.by_request)

    @property
    def worst(self) -> float:
        """That of the request that reads most."""
        return max(self.by_request)


def traffic(name: str, given: Request, *, logits: bool) -> Traffic:
    """Return what a verifier's kernels read of given rows, with the noise of their generator."""
    flat = flattened(given)
    function(TEXTS[name], "triton")  # its modules are there before their tiles are those of a GPU
    rows = flat["target_probs"], flat["draft_probs"]
    if logits:
        for model in ("target", "draft"):
            flat[f"{model}_logits"] = flat.pop(f"{model}_probs")
    with _tiles_of_a_gpu(), reads(rows) as counts:
        verify(name, form="triton", **flat)
    requests, vocabulary = len(given.draft_tokens), rows[0].shape[-1]
    of_target, of_draft = (each.reshape(requests, -1) for each in counts)
    numbers = (of_target.shape[1] + of_draft.shape[1]) * vocabulary
    return Traffic(tuple((of_target.sum(1) + of_draft.sum(1)) / numbers))


@contextmanager
def reads(tensors: Sequence[Tensor]) -> Iterator[list[np.ndarray[Any, np.dtype[np.int64]]]]:
    """Count the numbers that interpreted kernels load from the rows [..., V] of tensors.

    There is an array for each tensor, with a count for each of its rows. Raises `ValueError` for
    rows that do not lie one after another.
    """
    if not all(tensor.is_contiguous() for tensor in tensors):
        raise ValueError("rows must lie one after another to be counted")
    counts = [np.zeros(tensor.shape[:-1].numel(), dtype=np.int64) for tensor in tensors]
    load = InterpreterBuilder.create_masked_load

    def counted(self: Any, pointers: Any, mask: Any, *args: Any) -> Any:
        places = pointers.data[mask.data]
        for tensor, count in zip(tensors, counts, strict=True):
            size = tensor.shape[-1] * tensor.element_size()
            row = (places - np.uint64(tensor.data_ptr())) // np.uint64(size)
            # What lies before the tensor wraps around, and is behind it.
            count += np.bincount(row[row < len(count)].astype(np.int64), minlength=len(count))
        return load(self, pointers, mask, *args)

    with patch.object(InterpreterBuilder, "create_masked_load", counted):
        yield counts


@contextmanager
def _tiles_of_a_gpu() -> Iterator[None]:
    """Let kernels have the tiles that they have where they are not interpreted."""
    # A verifier's kernels are imported by its first call, which would have other tiles.
    import_module("draftproof.adapters.fast.kernels.launch")
    modules = [
        module
        for name, module in sys.modules.items()
        if name.startswith("draftproof.adapters.fast.kernels") and hasattr(module, "IS_INTERPRETED")
    ]
    if not all(module.IS_INTERPRETED for module in modules):
        raise RuntimeError("kernels must be interpreted to be counted: set TRITON_INTERPRET=1")
    for module in modules:
        vars(module)["IS_INTERPRETED"] = False
    try:
        yield
    finally:
        for module in modules:
            vars(module)["IS_INTERPRETED"] = True


def drafted(
    size: Size,
    drafts: int,
    *,
    seed: int,
    logits: bool,
    dtype: torch.dtype,
    device: str = "cpu",
) -> Request:
    """Return the benchmark's rows, or those of K paths each, which share what they have in common.

    A path's rows after tokens that another path has, too, are that path's: a context has one row.
    """
    if drafts == 1:
        return request(size, seed=seed, logits=logits, dtype=dtype, device=device)
    many = Size(size.requests * drafts, size.length, size.vocabulary)
    made = request(many, seed=seed, logits=logits, dtype=dtype, device=device)
    tokens, q, p = (
        rows.reshape(size.requests, drafts, *rows.shape[2:])
        for rows in (made.draft_tokens, made.draft_probs, made.target_probs)
    )
    q[:, :, 0], p[:, :, 0] = q[:, :1, 0], p[:, :1, 0]

    def draw(rows: Tensor, count: int) -> Tensor:
        weights = rows.float().softmax(-1) if logits else rows.float()
        return weights.multinomial(count, replacement=True, generator=made.generator)

    tokens[:, :, 0] = draw(q[:, 0, 0], drafts)
    for each, k, depth in product(
        range(size.requests), range(1, drafts), range(1, size.length + 1)
    ):
        twins = (tokens[each, :k, :depth] == tokens[each, k, :depth]).all(1).nonzero()
        if len(twins):
            twin = twins[0, 0]
            p[each, k, depth] = p[each, twin, depth]
            if depth < size.length:
                q[each, k, depth] = q[each, twin, depth]
                tokens[each, k, depth] = draw(q[each, k, depth], 1)[0]
    return Request(tokens, q, p, generator=made.generator)


def measured(
    names: Sequence[str], size: Size, *, seed: int, dtype: torch.dtype
) -> Iterator[Mapping[str, Any]]:
    """Yield what verifiers read of the benchmark's rows, from logits and from probabilities."""
    for name, logits in product(names, (True, False)):
        drafts = min(DRAFTS, TEXTS[name].most_drafts, TEXTS[name].widest)
        given = drafted(size, drafts, seed=seed, logits=logits, dtype=dtype)
        found = traffic(name, given, logits=logits)
        yield {"verifier": name, "logits": logits, "drafts": drafts, "traffic": found}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(KERNELS))
@click.option("--requests", type=click.IntRange(1), default=16, show_default=True)
@click.option("--length", type=click.IntRange(1), default=5, show_default=True)
@click.option("--vocabulary", type=click.IntRange(2), default=32_000, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of rows, drafts, noise.")
def main(*, names: tuple[str, ...], requests: int, length: int, vocabulary: int, seed: int) -> None:
    """Print how many times the kernels of verifiers read their rows."""
    size = Size(requests, length, vocabulary)
    click.echo(f"B {requests}, L {length}, V {vocabulary}, seed {seed}, float32")
    for row in measured(names or KERNELS, size, seed=seed, dtype=torch.float32):
        found = row["traffic"]
        way = "logits" if row["logits"] else "probabilities"
        click.echo(
            f"{row['verifier']:40} K {row['drafts']} from {way:13} "
            f"{found.mean:.3f} times, worst request {found.worst:.3f}"
        )


if __name__ == "__main__":
    main()
