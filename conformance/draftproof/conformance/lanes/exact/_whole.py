"""Whole numbers: integer arithmetic on choices, with at most one choice for each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._signature import name_of, tensors_in
from draftproof.conformance.lanes.exact._choice import Choice, Image
from draftproof.conformance.lanes.exact._elements import Elements, imaged
from draftproof.conformance.lanes.exact._errors import ran

# Of these a whole number is followed that comes of a choice, whoever else stands beside it.
_WHOLE = {
    *("add", "clamp", "clamp_max", "clamp_min", "maximum", "minimum", "mul", "neg", "rsub", "sub"),
}

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def is_whole(
    elements: Elements, func: OpOverload, args: Any, kwargs: Any, touched: list[Tensor]
) -> bool:
    """Return whether an operator computes whole numbers, each from at most one choice."""
    if name_of(func) not in _WHOLE:
        return False
    given = [*tensors_in(args)]
    kinds = {tensor.dtype for tensor in given}
    if len(kinds) != 1 or kinds.isdisjoint(_INTEGERS) or not all(map(_may_stand, args)):
        return False
    if any(type(each) is not int for each in kwargs.values()):
        return False
    numbers = (each for tensor in touched for each in elements.identities.numbers(tensor))
    if not all(isinstance(each, Choice) and each.draw is not None for each in numbers):
        return False
    try:
        return int(_drawn_in(elements, given).sum(0).max()) == 1
    except RuntimeError:
        # Shapes that do not go together: torch says so in its own words.
        return False


def follow_whole(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Run an operator on whole numbers, and follow the choices among its arguments."""
    given = [*tensors_in(args)]
    # No tensor of the program's is held by what outlives the operator.
    form = [Tensor if isinstance(each, Tensor) else each for each in args]
    random = _drawn_in(elements, given)
    shown = [tensor.expand(random[0].shape).flatten().clone() for tensor in given]
    drawn = random.reshape(len(given), -1)
    ids = sum(elements.ids(tensor) for tensor in given).expand(random[0].shape)

    def image(place: int, identity: int) -> int:
        one = elements.identities.number(identity)
        assert isinstance(one, Choice)

        def images(values: Tensor) -> Tensor:
            mine = iter(
                values.to(own.dtype) if is_it else own[place].expand(len(values))
                for own, is_it in zip(shown, drawn[:, place].tolist(), strict=True)
            )
            # What is written in place is a memory of its own.
            one_by_one = [next(mine).clone() if each is Tensor else each for each in form]
            found: Tensor = func(*one_by_one, **kwargs)
            return found

        return elements.identities.id_of(Choice.of(Image(one, images)))

    images = imaged(ids, image)
    out = ran(func, args, kwargs)
    elements.attach(out, images)
    return out


def _drawn_in(elements: Elements, given: Sequence[Tensor]) -> Tensor:
    """Return a mask [n, ...] of the random elements of n tensors, broadcast to one shape."""
    return torch.stack(torch.broadcast_tensors(*(elements.ids(each) != 0 for each in given)))  # type: ignore[no-untyped-call]  # torch is


def _may_stand(argument: Any) -> bool:
    """Return whether an argument is a whole number, None, or a tensor without gradient."""
    if isinstance(argument, Tensor):
        return not argument.requires_grad
    return argument is None or type(argument) is int
