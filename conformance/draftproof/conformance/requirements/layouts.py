"""Requirement on the memory layout of a verifier's input.

Id, level and wording are those of the specification's chapter 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes.exchange import Asked, request
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    RUN,
    SAMPLE,
    SERVED,
    observe,
    observe_batch,
)
from draftproof.conformance.protocol.adapter import Declaration, Program, Request
from draftproof.conformance.requirements._one_law import AskedOtherwise, judged_law, sampled_calls
from draftproof.conformance.requirements.batches import (
    emitted,
    judge_batch,
    tensors_of,
    with_tensors,
)
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import draft_law

Layout = Callable[[Tensor], Tensor]
"""Function that returns a tensor of the same numbers with a different memory layout."""


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on layouts: those that the adapter takes, and those that it must refuse."""
    for name in LAID:
        for given in _given(name, declared, mode):
            if mode == "quick" and (name, given.id) not in _QUICK:
                continue
            task = f"layout.{name}.{given.id}"
            if name not in declared.layouts:
                refused = partial(judge_refused, name, task, given)
                yield Task(task, ("input.layout",), (RUN,), refused)
            elif given.case is None:
                together = partial(judge_rows, name, task, given.rows)
                yield Task(task, ("input.layout",), (EXACT, PROBE), together)
            else:
                alone = partial(judge_layout, name, task, given.case)
                yield Task(task, ("input.layout",), (EXACT, PROBE, SAMPLE), alone)
    if mode != "quick":
        yield from _one_sided(declared)


def _one_sided(declared: Declaration) -> Iterator[Task]:
    """Yield the tasks on requests in which only the target's, or the draft's, rows are laid out."""
    case = next(each for each in cases("quick") if each.id == "generic.v2.l2")
    for name in (each for each in LAID if each in declared.layouts and each != _EXPANDED):
        for side in ("target", "draft"):
            task = f"layout.{name}.{side}"
            judged = partial(judge_layout, name, task, case, side=side)
            yield Task(task, ("input.layout",), (EXACT, PROBE), judged)


# --- what is given ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """Rows to lay out: all drafts of a case, each alone, or a batch if there is no case."""

    id: str
    rows: Sequence[Asked]
    case: Case | None = None


def _given(layout: str, declared: Declaration, mode: str) -> Iterator[_Given]:
    """Yield the rows to lay out: one path, several if the adapter takes them, two rows of a batch.

    Expanded rows are equal: along a path in a case without context, alone and beside another row,
    and in a batch of one request twice.
    """
    one = _EQUAL if layout == _EXPANDED else _DIFFERENT
    several = f"several.{declared.scheme}.v3.l1.k2"
    for case in cases(mode):
        if case.id in (one, several) and fits(case, declared):
            rows = [(case.instance, paths) for paths in draft_law(case.instance)]
            yield _Given(case.id, rows, case)
    if declared.batch:
        yield _Given(_PAIR, _pair(layout))
    if declared.batch and layout == _EXPANDED:
        yield _Given("positions", _along())


_DIFFERENT, _EQUAL, _PAIR = "generic.v3.l2", "motivating", "pair"

_QUICK = {("transposed", _DIFFERENT), ("expanded", _EQUAL), ("sliced", _PAIR)}
"""Layouts and rows of mode quick: not contiguous, stored once, and single rows."""


def _pair(layout: str) -> list[Asked]:
    """Return two rows, or one request twice if they are expanded."""
    known = {case.id: case.instance for case in cases("quick")}
    first: Asked = known["generic.v2.l2"], ((0, 1),)
    second: Asked = known["banked"], ((1, 0),)
    return [first, first] if layout == _EXPANDED else [first, second]


def _along() -> list[Asked]:
    """Return two rows, each of which has one target row at all of its positions."""
    first = next(case.instance for case in cases("quick") if case.id == _EQUAL)
    second = replace(first, target=first.draft, draft=first.target)
    return [(instance, next(iter(draft_law(instance)))) for instance in (first, second)]


# --- how it is judged --------------------------------------------------------------------------


def judge_layout(
    layout: str, name: str, case: Case, program: Program, terms: Terms, *, side: str = ""
) -> list[Finding]:
    """Return the finding of `input.layout` on a case whose tensors, or a side's, have a layout."""
    other = _in_layout(program, layout, side)
    if terms.lane == SAMPLE:
        return [sampled_calls("input.layout", name, other, case.instance, terms)]
    return [judged_law("input.layout", observe(other, replace(case, id=name), lane=terms.lane))]


def judge_rows(
    layout: str, name: str, rows: Sequence[Asked], program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of `input.layout` on a batch, its rows alone being contiguous."""
    seen = observe_batch(
        _in_layout(program, layout), name, rows, lane=terms.lane, beside=program, share=SERVED
    )
    return [judge_batch(seen, "input.layout")]


def judge_refused(
    layout: str, name: str, given: _Given, program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of `input.layout` on a layout that the adapter excludes.

    Every request in it must end in an error, whatever its drafts are, with each of four seeds.
    """
    requests = [given.rows] if given.case is None else [[row] for row in given.rows]
    seed, runs = terms.seed_of(name), 0
    for number, rows in enumerate(requests):
        for again in range(_SEEDS):
            asked = laid_out(layout, request(rows, program.declared))
            runs += 1
            if not isinstance(emitted(program.adapter, asked, seed + _SEEDS * number + again), str):
                told = f"excludes the layout {layout!r}, and returns a result of a request in it"
                return [Finding("input.layout", name, FAIL, lane=RUN, runs=runs, detail=told)]
    return [Finding("input.layout", name, PASS, lane=RUN, runs=runs)]


_SEEDS = 4


def _in_layout(program: Program, layout: str, side: str = "") -> Program:
    """Return the program whose requests have a layout."""
    lay = partial(laid_out, layout, side=side)
    return replace(program, adapter=AskedOtherwise(program.adapter, lay))


# --- layouts -----------------------------------------------------------------------------------


def laid_out(layout: str, asked: Request, *, side: str = "") -> Request:
    """Return the request with its tensors, or the rows of one side ("target", "draft"), laid out.

    The numbers are the same.
    """
    lay, given = LAID[layout], dict(tensors_of(asked))
    # No two random numbers are equal, and to compare them is to look at them.
    kept = [name for name in given if name not in vars(asked) and layout == _EXPANDED]
    if side:
        kept = [name for name in given if not name.startswith((f"{side}_probs", f"{side}_logits"))]
    laid = with_tensors(asked, {n: t if n in kept else lay(t) for n, t in given.items()})
    if asked.state is None or side:
        return laid
    return replace(laid, state={name: lay(tensor) for name, tensor in asked.state.items()})


def _transposed(tensor: Tensor) -> Tensor:
    """Reverse the order of the sides in memory: the first side becomes the innermost."""
    sides = [*range(tensor.dim())][::-1]
    return tensor.permute(sides).contiguous().permute(sides)


def _sliced(tensor: Tensor) -> Tensor:
    """Make every row the first part of a longer one, like a padded vocabulary."""
    wide = _filled(tensor, (*tensor.shape[:-1], tensor.shape[-1] + 5))
    wide[..., : tensor.shape[-1]] = tensor
    return wide[..., : tensor.shape[-1]]


def _offset(tensor: Tensor) -> Tensor:
    """Start the tensor at the second entry of its memory."""
    flat = _filled(tensor, (tensor.numel() + 1,))
    flat[1:] = tensor.flatten()
    return flat[1:].view(tensor.shape)


def _stepped(tensor: Tensor) -> Tensor:
    """Leave a gap of one entry between any two entries of the tensor."""
    wide = _filled(tensor, (*tensor.shape, 2))
    wide[..., 0] = tensor
    return wide[..., 0]


def _interleaved(tensor: Tensor) -> Tensor:
    """Interleave other requests and paths with those of the tensor."""
    sides = [2 * size for size in tensor.shape[:-1]] or [2 * size for size in tensor.shape]
    wide = _filled(tensor, [*sides, *tensor.shape[len(sides) :]])
    every = tuple(slice(None, None, 2) for _ in sides)
    wide[every] = tensor
    return wide[every]


def _expanded(tensor: Tensor) -> Tensor:
    """Store equal entries along a side once."""
    for side, size in enumerate(tensor.shape):
        first = tensor.narrow(side, 0, 1)
        if size > 1 and bool((tensor == first).all()):
            tensor = first.expand_as(tensor)
    return tensor


def _filled(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Return memory full of ones, so that a read beside the tensor yields a plausible number."""
    return tensor.new_ones(*shape)


_EXPANDED = "expanded"

LAID: Mapping[str, Layout] = {
    "transposed": _transposed,
    "sliced": _sliced,
    "offset": _offset,
    "stepped": _stepped,
    "interleaved": _interleaved,
    _EXPANDED: _expanded,
}
"""Layouts other than the contiguous one, which all other requests have."""
