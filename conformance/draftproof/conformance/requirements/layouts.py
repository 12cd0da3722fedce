"""Requirement on the layout of what a verifier is given.

Id, level and wording are those of the specification's chapter 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.cases.rows import fixed
from draftproof.conformance.lanes.observe import EXACT, PROBE, observe, observe_batch
from draftproof.conformance.protocol.adapter import Declaration, Program, Request
from draftproof.conformance.requirements._one_law import AskedOtherwise, judged_law
from draftproof.conformance.requirements.batches import judge_batch
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law

_ONE_PATH, _SEVERAL = "generic.v3.l2", "several.{}.v3.l1.k2"
"""The cases that are given in every layout: one of several paths for verifiers that take them."""


_FLAT = Case(
    "flat.v3.l2",
    "rows are the same at every position",
    "quick",
    fixed("64 144 48", "192 32 32", length=2),
)


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on layouts."""
    chosen = (_ONE_PATH, _SEVERAL.format(declared.scheme))
    for case in cases(mode):
        if case.id in chosen and fits(case, declared):
            for name in LAYOUTS:
                if name in _OF_ROWS and not declared.batch:
                    continue
                # Only equal rows can be one in memory.
                given = _FLAT if name == "expanded" and case.id == _ONE_PATH else case
                judged = partial(judge_layout, name, given)
                yield Task(f"layout.{name}.{given.id}", ("input.layout",), (EXACT, PROBE), judged)


def judge_layout(name: str, case: Case, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `input.layout` on a case whose tensors have a layout."""
    adapter = AskedOtherwise(program.adapter, partial(laid_out, LAYOUTS[name]))
    asked, named = replace(program, adapter=adapter), f"layout.{name}.{case.id}"
    if name in _OF_ROWS:
        first, *_, last = draft_law(case.instance)
        rows = [(case.instance, drafts) for drafts in (first, last)]
        return [judge_batch(observe_batch(asked, named, rows, lane=terms.lane), "input.layout")]
    seen = observe(asked, replace(case, id=named), lane=terms.lane)
    return [judged_law("input.layout", seen)]


def laid_out(layout: Callable[[Tensor], Tensor], request: Request) -> Request:
    """Return the request with the same numbers, and all of its tensors in another layout."""
    changed: dict[str, Any] = {
        name: layout(tensor)
        for name, tensor in vars(request).items()
        if isinstance(tensor, Tensor) and tensor.dim() > 1
    }
    return replace(request, **changed)


# --- layouts ---------------------------------------------------------------------------------


def _transposed(tensor: Tensor) -> Tensor:
    """Let the first side be the one whose entries are neighbours."""
    return tensor.movedim(0, -1).contiguous().movedim(-1, 0)


def _sliced(tensor: Tensor) -> Tensor:
    """Let every row be the first part of a longer one, as where a vocabulary is padded."""
    wide = tensor.new_zeros(*tensor.shape[:-1], tensor.shape[-1] + 5)
    wide[..., : tensor.shape[-1]] = tensor
    return wide[..., : tensor.shape[-1]]


def _offset(tensor: Tensor) -> Tensor:
    """Let the first entry be the second of its memory."""
    flat = tensor.new_zeros(tensor.numel() + 1)
    flat[1:] = tensor.flatten()
    return flat[1:].view(tensor.shape)


def _in_steps(tensor: Tensor) -> Tensor:
    """Let every other entry of the memory be between two of the tensor's."""
    wide = tensor.new_zeros(*tensor.shape, 2)
    wide[..., 0] = tensor
    return wide[..., 0]


def _of_a_larger_batch(tensor: Tensor) -> Tensor:
    """Let every other row of the memory be another request's."""
    wide = tensor.new_zeros(2 * len(tensor), *tensor.shape[1:])
    wide[::2] = tensor
    return wide[::2]


def _expanded(tensor: Tensor) -> Tensor:
    """Let equal entries along a side be one in memory."""
    for side in range(tensor.dim() - 1):
        first = tensor.narrow(side, 0, 1)
        if tensor.shape[side] > 1 and bool((tensor == first).all()):
            return first.expand_as(tensor)
    return tensor


LAYOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "transposed": _transposed,
    "sliced": _sliced,
    "offset": _offset,
    "steps": _in_steps,
    "rows": _of_a_larger_batch,
    "expanded": _expanded,
}
"""The layouts, by name."""

_OF_ROWS = ("transposed", "rows")
"""The layouts that a request of one row cannot have: two rows are given, which are independent."""
