"""Moves: operators that copy elements unchanged, to other places or into another type."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._signature import bound, name_of, tensors_in, written
from draftproof.conformance.lanes.exact._choice import Choice
from draftproof.conformance.lanes.exact._dtypes import held, is_held
from draftproof.conformance.lanes.exact._elements import Elements, imaged
from draftproof.conformance.lanes.exact._errors import NotUnderstood, TorchError, ran
from draftproof.conformance.lanes.exact._looks import rounded_down
from draftproof.conformance.lanes.exact._noise import Noise

# Operators that move elements without changing them: the arguments whose elements move.
# A number among them is an ordinary element; all other arguments say where things go.
_MOVED = {
    "cat": (0,),
    "clone": (0,),
    "constant_pad_nd": (0, 2),
    "diag_embed": (0,),
    "diagonal_scatter": (0, 1),
    "fill": (0, 1),
    "flip": (0,),
    "gather": (0,),
    "index": (0,),
    "index_copy": (0, 3),
    "index_fill": (0, 3),
    "index_put": (0, 2),
    "index_select": (0,),
    "masked_fill": (0, 2),
    "masked_scatter": (0, 2),
    "masked_select": (0,),
    "repeat": (0,),
    "roll": (0,),
    "scatter": (0, 3),
    "select_scatter": (0, 1),
    "slice_scatter": (0, 1),
    "stack": (0,),
    "take": (0,),
    "tril": (0,),
    "triu": (0,),
    "where": (1, 2),
    "zero": (0,),
}

# Integers and floats among which a choice moves as it is, if they hold whatever it can be.
_WIDE = (torch.int32, torch.int64, torch.float32, torch.float64)


def _move(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Any:
    if bound(func, args, kwargs).get("accumulate") or "reduce" in kwargs:
        raise NotUnderstood("accumulates noise")
    moved = _MOVED[name_of(func)]
    elements.require_ordinary(a for i, a in enumerate(args) if i not in moved)
    elements.require_ordinary(kwargs.values())
    id_args = [elements.ids(a) if i in moved else a for i, a in enumerate(args)]
    id_outs = {name: torch.empty(0, dtype=torch.int64) for name in written(func, kwargs)}
    try:
        ids = func(*id_args, **{**kwargs, **id_outs})
    except Exception as failure:
        _fail(elements, func, args, kwargs, id_args[0], failure)
        raise
    out = ran(func, args, kwargs)
    sources = elements.identities.among(tensors_in(args[i] for i in moved if i < len(args)))
    for source in sources:
        if source.dtype is not out.dtype:
            ids = _moved_into(elements, out.dtype, source, ids)
    elements.attach(out, ids)
    return out


def _fail(
    elements: Elements, func: OpOverload, args: Any, kwargs: Any, ids: Any, failure: Exception
) -> None:
    """Raise torch's error for an operator that failed on `ids` in place of its first tensor.

    If torch fails for the same reason, elements that it wrote in place before failing keep their
    ids.
    """
    try:
        ran(func, args, kwargs)
    except TorchError as torchs:
        is_same = (type(torchs.error), str(torchs.error)) == (type(failure), str(failure))
        if func._schema.name.endswith("_"):
            if not is_same:
                raise NotUnderstood("fails, and may have moved noise before") from None
            elements.attach(args[0], ids)
        raise


def _moved_into(elements: Elements, dtype: torch.dtype, source: Tensor, ids: Tensor) -> Tensor:
    """Return the ids of elements, some of which were moved from a tensor of another type."""
    numbers, id_of = [*elements.identities.numbers(source)], elements.identities.id_of
    noises = [each for each in numbers if isinstance(each, Noise)]
    if not _are_followed(numbers, dtype) or (noises and not dtype.is_floating_point):
        raise NotUnderstood("moves random numbers into a narrower type")
    now = {id_of(each): id_of(held(each, dtype)) for each in noises}
    return imaged(ids, lambda _, identity: now.get(identity, identity))


def _cast(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    source, dtype = args[0], kwargs.get("dtype") or args[0].dtype
    if name_of(func) == "copy":
        source, dtype = args[1], args[0].dtype
    identities = elements.identities
    if dtype is not source.dtype and not _are_followed(identities.numbers(source), dtype):
        elements.settle(source)

    def cast(_: int, identity: int) -> int:
        number = identities.number(identity)
        if isinstance(number, Choice) or dtype is source.dtype:
            return identity
        if not dtype.is_floating_point:
            return _cut_off(elements, identity, dtype)
        return identities.id_of(held(number, dtype))

    ids = imaged(elements.ids(source), cast)
    out: Tensor = ran(func, args, kwargs)
    elements.attach(out, ids)
    return out


def _cut_off(elements: Elements, identity: int, dtype: torch.dtype) -> int:
    """Return the id of the whole number to which a type of integers truncates noise."""
    noise = elements.identities.number(identity)
    if dtype not in _WIDE or (isinstance(noise, Noise) and noise.range[0] < 0):
        raise NotUnderstood("makes noise an integer")
    return rounded_down(elements, identity)


def _are_followed(numbers: Iterable[Noise | Choice], dtype: torch.dtype) -> bool:
    """Return whether the lane follows choices into `dtype`, which must not change their values."""
    choices = (each for each in numbers if isinstance(each, Choice))
    return dtype in _WIDE and all(is_held(each, dtype) for each in choices)


# Operators on truth values: the one that decides the result, whatever stands beside it.
_DECIDED_BY = {"bitwise_and": False, "logical_and": False, "bitwise_or": True, "logical_or": True}


def is_masked(elements: Elements, func: OpOverload, args: Any) -> bool:
    """Return whether an operator combines undecided truth values with known ones."""
    return (
        name_of(func) in _DECIDED_BY
        and len(args) == 2
        and all(isinstance(each, Tensor) and each.dtype is torch.bool for each in args)
        and len(elements.identities.among(args)) == 1
    )


def follow_masked(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Run an operator on truth values; choices move, except where they decide nothing."""
    (known,) = (each.clone() for each in args if elements.identities.of(each) is None)
    (ids,) = (elements.ids(each) for each in args if elements.identities.of(each) is not None)
    out = ran(func, args, kwargs)
    elements.attach(out, torch.where(known == _DECIDED_BY[name_of(func)], 0, ids))
    return out


MOVES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_MOVED, _move),
    **dict.fromkeys(("_to_copy", "copy"), _cast),
}
