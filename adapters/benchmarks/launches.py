"""What a call of a verifier asks a GPU to do: operators of torch, kernels of Triton, and waits.

    python adapters/benchmarks/launches.py [NAME...]

prints how many of each one call of `verify` is. Nothing is launched and no GPU is needed: torch's
`meta` device stands for it (see `unfilled`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from traceback import extract_stack
from typing import Any
from unittest.mock import patch

import click
import torch
from benchmarks.unfilled import Shape, call
from torch import Tensor
from torch._library.custom_ops import OPDEFS
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from draftproof.adapters.fast import TEXTS

_ALLOCATIONS = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "resize_",
}  # fmt: skip

_RENAMINGS = {"_reshape_alias", "_unsafe_view", "alias", "detach", "lift_fresh"}
"""Operators that give a tensor another name, and that torch does not call views."""

_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Tags of operators whose result the host must know before it goes on."""


@dataclass(frozen=True)
class Launches:
    """What a call launches."""

    operators: Mapping[str, int]
    """torch's by name, without those that only allocate or view."""
    kernels: tuple[str, ...]
    """Triton's, in turn."""
    waits: str | None = None
    """The operator and the line at which the host first waits for the device, None for nowhere.
    What would follow is not counted."""

    @property
    def count(self) -> int:
        """The number of launches in all; an operator is one, though some are several."""
        return sum(self.operators.values()) + len(self.kernels)


class _Waits(RuntimeError):
    """The host would wait for the device."""


def launches(run: Callable[[], object]) -> Launches:
    """Return what a call launches whose tensors are on the device `meta`."""
    operators: Counter[str] = Counter()
    kernels: list[str] = []

    def launched(self: Any, *_args: Any, **_options: Any) -> None:
        kernels.append(self.__name__)

    waits = None
    with ExitStack() as stack:
        for kind in (JITFunction, InterpretedFunction):
            stack.enter_context(patch.object(kind, "run", launched))
        stack.enter_context(_Operators(operators))
        stack.enter_context(_Constants())
        try:
            run()
        except _Waits as error:
            waits = str(error)
    return Launches(dict(operators), tuple(kernels), waits)


class _Constants(TorchFunctionMode):
    """Sees lists of Python's that become tensors of the device: they are copied, and waited for."""

    def __torch_function__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        if function in (torch.tensor, torch.as_tensor) and made.is_meta and not _is_there(args):
            raise _Waits(_where(function.__name__))
        return made


class _Operators(TorchDispatchMode):
    """Counts operators of the device, those inside of custom operators too."""

    def __init__(self, seen: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no types
        self._seen = seen
        self._numbers: list[Tensor] = []

    def __torch_dispatch__(
        self,
        operator: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = dict(kwargs or {})
        name = operator.overloadpacket.__name__
        if operator.namespace not in ("aten", "prims", "prim"):
            with self:
                return _inside(operator)(*args, **given)
        if _is_waiting(operator, args, given):
            raise _Waits(_where(name))
        made = operator(*args, **given)
        if _is_work(operator) and (_is_there(args) or _is_there(given) or _is_there(made)):
            self._seen[name] += 1
        if name == "scalar_tensor":
            self._numbers.append(made)
        elif name == "copy_" and any(_is_shared(args[1], number) for number in self._numbers):
            # What `x[i] = number` does on `meta`; on a GPU the number goes with the launch.
            self._seen["scalar_tensor"] -= 1
        return made


def _inside(operator: Any) -> Callable[..., Any]:
    """Return what a custom operator does on a GPU, which on `meta` would only tell its shapes."""
    own = OPDEFS.get(operator.name().partition(".")[0])
    if own is not None:
        found: Callable[..., Any] = own._backend_fns.get("cuda", own._init_fn)
        return found
    if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CUDA"):
        key = torch._C.DispatchKey.CUDA
        return lambda *args, **kwargs: operator._op_dk(key, *args, **kwargs)
    raise TypeError(f"{operator} has no kernel for a GPU: make it by torch.library.custom_op")


def _is_work(operator: Any) -> bool:
    name = operator.overloadpacket.__name__
    return not operator.is_view and name not in _ALLOCATIONS | _RENAMINGS


def _is_waiting(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether the host must wait for an operator's result, or for its input."""
    if not (_is_there(args) or _is_there(kwargs)):
        # What the host has may go to the device.
        return _is_copy(operator, args, kwargs, from_host=True)
    name = operator.overloadpacket.__name__
    if name in ("index", "index_put", "index_put_"):
        # Indices of bool are counted first.
        return any(isinstance(each, Tensor) and each.dtype == torch.bool for each in args[1])
    if name == "repeat_interleave":
        return kwargs.get("output_size") is None
    if _is_copy(operator, args, kwargs, from_host=False):
        return True
    return bool(_WAITING & {*operator.tags})


def _is_copy(
    operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, from_host: bool
) -> bool:
    """Return whether numbers go from the host to the device, or back, and are waited for."""
    name = operator.overloadpacket.__name__
    if name == "_to_copy":
        device = torch.device(kwargs.get("device") or args[0].device)
        return (device.type == "meta") == from_host and not kwargs.get("non_blocking", False)
    if name == "copy_":
        target, source = args[:2]
        # A number, which torch makes a tensor of, goes with the launch.
        return bool(target.is_meta != source.is_meta and source.dim() > 0)
    return False


def _is_there(tree: Any) -> bool:
    """Return whether a tensor of the device is among these."""
    return any(isinstance(each, Tensor) and each.is_meta for each in tree_iter(tree))


def _is_shared(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same memory, or would have."""
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def _where(name: str) -> str:
    """Return an operator's name and the line of Python outside of torch that calls it."""
    outside = [each for each in extract_stack() if "/torch/" not in each.filename]
    frame = next(each for each in reversed(outside) if each.filename != __file__)
    return f"{name} in {frame.filename}:{frame.lineno}: {frame.line}"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(TEXTS)))
def main(*, names: tuple[str, ...]) -> None:
    """Print how many operators and kernels one call of `verify` launches."""
    asked = ((name, form) for name in names or TEXTS for form in TEXTS[name].forms)
    for (name, form), logits in product(asked, (True, False)):
        found = launches(call(name, Shape(vocabulary=128_256, logits=logits), form=form))
        click.echo(
            f"{name:40} {form:6} from {'logits' if logits else 'probabilities':13} "
            f"{sum(found.operators.values()):4} operators, {len(found.kernels):2} kernels"
            f"{f', waits: {found.waits}' if found.waits else ''}"
        )


if __name__ == "__main__":
    main()
