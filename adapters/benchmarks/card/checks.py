"""Whether kernels emit what operators of torch emit, on the same noise, wherever rows are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import click
import torch
from benchmarks.card.device import Device
from benchmarks.card.drafts import Drafts, drafts
from benchmarks.card.report import Budget, Failed, Figures, Report
from benchmarks.inputs import Size
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from draftproof.adapters.fast import KERNELS, TEXTS
from draftproof.adapters.fast.engine import Verified, verify

FIRST = ("token", "block", "multipath_block")
"""The verifiers that are checked, captured and timed before others."""

_ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
_POISON = -2
"""No token, no placeholder, no count."""

_SPARED = 500
"""Requests of which one may differ: noise can fall between two roundings, once in a million."""

_DRAFTS = 4


class _Poison(TorchDispatchMode):
    """Fills memory that is asked for with what nobody may read."""

    def __torch_dispatch__(
        self,
        operator: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = operator(*args, **(kwargs or {}))
        if operator.overloadpacket.__name__ in _ALLOCATIONS:
            tree_map_only(Tensor, poison, made)
        return made


def poison(tensor: Tensor) -> None:
    """Fill a tensor with what no verifier writes."""
    tensor.fill_(float("nan") if tensor.is_floating_point() else _POISON)


@contextmanager
def poisoned() -> Iterator[None]:
    """Let all memory that torch gives out be poisoned, outputs included."""
    with _Poison():  # type: ignore[no-untyped-call]  # torch has no types
        yield


def parts(found: Verified) -> tuple[Tensor, ...]:
    """Return what is compared of B requests."""
    return found.token_ids, found.accepted, found.path, found.num_sampled


def differing(name: str, found: Sequence[Tensor], given: Drafts, **noise: Tensor) -> int:
    """Return how many requests the torch form emits otherwise, from rows as they are and wider."""
    is_same = torch.zeros_like(found[1], dtype=torch.bool)
    for rows in (given.given, given.wide()):
        oracle = parts(verify(name, form="torch", **rows, **noise))
        alike = [(a == b).view(len(a), -1).all(1) for a, b in zip(found, oracle, strict=True)]
        is_same |= torch.stack(alike).all(0)
    return int((~is_same).sum())


def hold(wrong: int, requests: int, what: str, figures: Figures | None = None) -> None:
    """Raise `Failed` if more requests differ than rounding explains."""
    if wrong > requests // _SPARED:
        raise Failed(
            f"{what}: {wrong} of {requests} requests differ from the torch form", figures or {}
        )


@dataclass(frozen=True)
class Check:
    """One comparison of a kernel with operators."""

    name: str
    logits: bool
    dtype: torch.dtype
    size: Size

    def __str__(self) -> str:
        rows = "logits" if self.logits else "probabilities"
        own = f"{str(self.dtype).removeprefix('torch.')} {rows}"
        return f"{self.name} from {own}, L {self.size.length}, V {self.size.vocabulary}"

    def wrong(self, device: str, rounds: int) -> int:
        """Return how many requests differ, over several rounds of noise."""
        options = {"logits": self.logits, "dtype": self.dtype, "device": device}
        given = drafts(TEXTS[self.name], self.size, _DRAFTS, seed=0, **options)  # type: ignore[arg-type]
        count = 0
        for seed in range(rounds):
            noise = given.noise(seed)
            with poisoned():
                found = verify(self.name, form="triton", **given.given, noise=noise)
            count += differing(self.name, parts(found), given, noise=noise)
        return count


def checks(sizes: Sequence[Size]) -> list[Check]:
    """Return all comparisons, the most telling first; few of a single size, a dry run's."""
    names = [*FIRST, *(name for name in KERNELS if name not in FIRST)]
    few, many = names[: len(FIRST)], names[len(FIRST) :]
    kinds = list(product((True, False), (torch.float32, torch.bfloat16)))
    ordered = [
        *product(few, kinds[:1], sizes),
        *product(many, kinds[:1], sizes[:1]),
        *product(few, kinds[1:], sizes),
        *product(many, kinds[1:], sizes[:1]),
        *product(many, kinds, sizes[1:]),
    ]
    is_dry = len(sizes) == 1
    return [
        Check(name, *kind, size)
        for name, kind, size in ordered
        if not is_dry or kind == kinds[0] or (name in few[:1] and kind == kinds[-1])
    ]


def correctness(
    report: Report, device: Device, sizes: Sequence[Size], *, rounds: int, budget: Budget
) -> Figures:
    """Compare all kernels with operators of torch, as many as there is time for."""
    made: list[str] = []
    wrong: dict[str, str] = {}
    for check in checks(sizes):
        if budget.left == 0:
            report.skip(f"correctness of {check}", "cut: the time for this step is over")
            continue
        requests = rounds * check.size.requests
        try:
            hold(check.wrong(device.name, rounds), requests, str(check))
        except Failed as error:
            wrong[str(check)] = str(error)
            click.echo(f"  {error}")
        # A kernel that does not compile or run is wrong, and the others are still to be seen.
        except Exception as error:
            wrong[str(check)] = f"{check}: {type(error).__name__}: {error}"
            click.echo(f"  {wrong[str(check)]}")
        made.append(str(check))
    figures = {"compared": len(made), "requests": rounds * sizes[0].requests, "wrong": [*wrong]}
    if wrong:
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Failed(f"{next(iter(wrong.values()))}{more}", figures)
    return figures


def offsets(device: str, *, vocabulary: int, past: int) -> Figures:
    """Compare rows that begin `past` numbers into their tensor, by number and by stride."""
    rows = -(-past // vocabulary) + 32
    # All other rows draw token 0: unwritten memory may hold the very rows that are to be read.
    line = torch.zeros(rows * vocabulary, dtype=torch.bfloat16, device=device)
    line[::vocabulary] = 1e4
    figures = {"numbers": line.numel(), "past": past}
    for name in FIRST:
        given = drafts(
            TEXTS[name], Size(8, 3, vocabulary), 2,
            logits=True, dtype=torch.bfloat16, device=device, seed=1,
        )  # fmt: skip
        far, first = dict(given.given), rows - 32
        for model in ("target", "draft"):
            behind = line.view(rows, vocabulary)[first:]
            behind.copy_(given.given[f"{model}_logits"])
            far[f"{model}_logits"] = line.view(rows, vocabulary)
            far[f"{model}_rows"] = given.given[f"{model}_rows"] + first
            noise = given.noise(2)
            found = verify(name, form="triton", **{**given.given, **_of(model, far)}, noise=noise)
            wrong = differing(name, parts(found), given, noise=noise)
            hold(wrong, given.requests, f"{name} of numbered rows of the {model}", figures)
    _strided(line, vocabulary, past, figures)
    return figures


def _of(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in (f"{model}_logits", f"{model}_rows")}


def _strided(line: Tensor, vocabulary: int, past: int, figures: Figures) -> None:
    """Compare three rows of the target, the last of them `past` numbers behind the first."""
    given = drafts(
        TEXTS["block"], Size(1, 2, vocabulary), 1,
        logits=True, dtype=line.dtype, device=str(line.device), seed=2,
    ).given  # fmt: skip
    near = {**given, "target_logits": given["target_logits"][:3]}
    near["draft_logits"] = near["draft_logits"][:2]
    near |= {"target_rows": None, "draft_rows": None}
    far = line.as_strided((3, vocabulary), (past // 2, 1))
    far.copy_(near["target_logits"])
    few = Drafts(near, 1, 3)
    noise = few.noise(3)
    found = verify("block", form="triton", **{**near, "target_logits": far}, noise=noise)
    wrong = differing("block", parts(found), few, noise=noise)
    hold(wrong, 1, "block of strided rows of the target", figures)
