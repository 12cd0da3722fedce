"""Interpreter of PyTorch's operators on random numbers.

It understands four kinds of operators: those that *draw*, that *move* elements, that compute a
monotone function of one random number (*arithmetic*), and that *look* at random numbers
(comparisons, races, bins). Views, and operators that read only shapes, need no interpretation.
Before any other operator runs, the choices among its arguments are decided, which makes them
ordinary numbers; continuous noise cannot be decided, and raises `NotUnderstood`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._drawn import has_generator
from draftproof.conformance.lanes._signature import (
    TORCHS_OWN,
    bound,
    is_random,
    name_of,
    reads_no_values,
    tensors_in,
    written,
)
from draftproof.conformance.lanes._streams import Rewound, Streams
from draftproof.conformance.lanes.exact._arithmetic import ARITHMETIC, compute
from draftproof.conformance.lanes.exact._draws import DRAWS
from draftproof.conformance.lanes.exact._elements import Elements
from draftproof.conformance.lanes.exact._errors import NotUnderstood, ran
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._looks import LOOKS
from draftproof.conformance.lanes.exact._moves import MOVES, follow_masked, is_masked
from draftproof.conformance.lanes.exact._whole import follow_whole, is_whole

_FOLLOWED = MOVES | LOOKS


class Interpreter:
    """Interpreter that runs the operators of a program and follows its random numbers."""

    def __init__(
        self,
        identities: Identities,
        settle: Callable[[Tensor], None],
        *,
        placeholder: int | None = None,
    ) -> None:
        self.elements = Elements(identities, settle, placeholder)
        self.streams = Streams()

    def run(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of `func`. Raises `NotUnderstood`."""
        self.note(func, args, kwargs)
        return self.follow(func, args, kwargs)

    def note(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the generator of an operator that draws. Raises `NotUnderstood`."""
        if func.namespace not in TORCHS_OWN:
            raise NotUnderstood("is none of torch's own operators: it may draw, or read, unseen")
        if name_of(func) in DRAWS:
            if not has_generator(args, kwargs):
                raise NotUnderstood("draws on a device that has no generator")
            try:
                self.streams.draw(bound(func, args, kwargs).get("generator"))
            except Rewound as reason:
                raise NotUnderstood(str(reason)) from None
        elif is_random(func):
            raise NotUnderstood("draws random numbers of a kind that is not known")

    def follow(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of `func`, which has been noted. Raises `NotUnderstood`."""
        if name_of(func) in DRAWS:
            return DRAWS[name_of(func)](self.elements, func, args, kwargs)
        if reads_no_values(func):
            return ran(func, args, kwargs)
        touched = self.elements.identities.among(tensors_in((*args, *kwargs.values())))
        if not touched:
            return ran(func, args, kwargs)
        if written(func, kwargs):
            return self._run_into(func, args, kwargs)
        return self._follow(func, args, kwargs, touched)

    def _run_into(self, func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run an operator with `out=` arguments on fresh tensors, then copy into the given ones."""
        given = {name: kwargs[name] for name in written(func, kwargs)}
        for name, out in given.items():
            others = [other for also, other in given.items() if also != name]
            _require_written_apart(func, out, [*tensors_in(args), *others])
        fresh = {name: out.new_empty(0) for name, out in given.items()}
        rerouted = {**kwargs, **fresh}
        touched = self.elements.identities.among(tensors_in((*args, *rerouted.values())))
        self._follow(func, args, rerouted, touched)
        for name, out in given.items():
            if out.numel() and out.shape != fresh[name].shape:
                raise NotUnderstood("writes to an `out=` of another shape, of which torch warns")
            out.resize_(fresh[name].shape).copy_(fresh[name])
            self.elements.attach(out, self.elements.ids(fresh[name]))
        return tuple(given.values()) if len(given) > 1 else next(iter(given.values()))

    def _follow(
        self, func: OpOverload, args: Any, kwargs: dict[str, Any], touched: list[Tensor]
    ) -> Any:
        """Run an operator; `touched` are the tensors among its arguments with random numbers."""
        name, elements = name_of(func), self.elements
        if name in _FOLLOWED:
            return _FOLLOWED[name](elements, func, args, kwargs)
        for tensor in touched:
            if is_masked(elements, func, args):
                return follow_masked(elements, func, args, kwargs)
            if is_whole(elements, func, args, kwargs, touched):
                return follow_whole(elements, func, args, kwargs)
            elements.settle(tensor)
        if name in ARITHMETIC and any(map(elements.identities.has_noise, touched)):
            return compute(elements, func, args, kwargs)
        for tensor in touched:
            elements.refuse_noise(tensor)
        return ran(func, args, kwargs)


def _require_written_apart(func: OpOverload, out: Tensor, read: Iterable[Tensor]) -> None:
    """Require that an operator can write its result elsewhere, to be copied afterwards.

    Torch refuses only some overlaps. So `out` may not share memory with a tensor that is read,
    except that an elementwise operator may read exactly the same elements.
    """
    is_repeated = any(
        size > 1 and stride == 0 for size, stride in zip(out.shape, out.stride(), strict=True)
    )
    shared = [t for t in read if t.untyped_storage()._cdata == out.untyped_storage()._cdata]
    goes_along = torch.Tag.pointwise in func.tags
    if is_repeated or not all(goes_along and _is_same(tensor, out) for tensor in shared):
        raise NotUnderstood("writes to an `out=` that overlaps with what it reads, or itself")


def _is_same(one: Tensor, other: Tensor) -> bool:
    return (one.dtype, one.shape, one.stride(), one.storage_offset()) == (
        other.dtype,
        other.shape,
        other.stride(),
        other.storage_offset(),
    )
