"""The two torch modes under which a lane watches a program.

One mode sees all operators of torch. The other guards the functions through which Python reads a
tensor's memory without an operator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, wraps
from threading import get_ident
from types import NoneType
from typing import Any, NoReturn, Self

import numpy
import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from draftproof.conformance.lanes._signature import TORCHS_OWN
from draftproof.conformance.lanes.exact._array import Array, as_array, as_tensor, has_stand_ins
from draftproof.conformance.lanes.exact._errors import NotTogether, NotUnderstood, TorchError
from draftproof.conformance.lanes.exact._scalar import Scalar, begin_own_code, end_own_code
from draftproof.conformance.lanes.opaque import OpaqueRandomness, TooManyRuns, program_line
from draftproof.conformance.protocol.raising import told_of
from draftproof.reference.chance import NondeterministicProgram

STOPS = (NotTogether, TooManyRuns, NondeterministicProgram)
"""Errors that end a run, or a walk, without making the lane blind."""


class Dispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is
    """Mode that passes every operator to `run`."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Dynamo would otherwise be imported, for a second, to be told to keep out of here.
        return False

    def __init__(self, run: Callable[[OpOverload, Any, Any], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch is
        self._run = run
        self.opaque: OpaqueRandomness | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not isinstance(func, OpOverload):
            raise self.blinded(str(func), NotUnderstood("runs a program inside of the program"))
        for kind in types:
            if kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
                raise self.blinded(str(func), _not_watched(kind))
        if _is_composite(func):
            # Inference mode does not take operators apart into the ones that we know.
            with self:
                return func.decompose(*args, **(kwargs or {}))
        written = _written_in_python(func)
        if written is not None:
            with self:
                return written(*args, **(kwargs or {}))
        # Our own code must not meet the guards that are set for the program's.
        noting = begin_own_code()
        with torch._C.DisableTorchFunction():
            try:
                return self._run(func, args, kwargs or {})
            except Exception as error:
                self.tell(str(func), error)
            finally:
                end_own_code(noting)

    def tell(self, operator: str, error: Exception) -> NoReturn:
        """Raise the error for the program to see: torch's own, or the error of a blind lane."""
        if isinstance(error, TorchError):
            raise error.error from None
        if isinstance(error, (OpaqueRandomness, *STOPS)):
            raise error
        if isinstance(error, NotUnderstood):
            raise self.blinded(operator, error) from None
        # Ours to answer for: the program must not be blamed for it.
        ours = NotUnderstood(f"could not be followed: {told_of(error)}")
        raise self.blinded(operator, ours) from error

    def blinded(self, operator: str, reason: NotUnderstood) -> OpaqueRandomness:
        """Return the error with the operator and the program's own line, and remember it."""
        self.opaque = OpaqueRandomness(operator, str(reason), program_line())
        return self.opaque


class Doors(TorchFunctionMode):
    """Mode that guards reads of memory: `look` answers, or returns `PASSED` to permit the read.

    `look` is called with the function and its arguments, while operators are watched. Torch
    disables the mode while a permitted function runs. So tensor methods are guarded separately, for
    reads there by torch's own Python code or by a method of the program that torch calls.
    """

    def __init__(self, dispatch: Dispatch, look: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self._dispatch = dispatch
        self._look = look
        self._owner = get_ident()
        self._lets_through = False

    def __enter__(self) -> Self:
        super().__enter__()  # type: ignore[no-untyped-call]  # torch is
        for name in _METHODS:
            setattr(Tensor, name, self._guarded(getattr(Tensor, name)))
        for kind, called in _SCRIPTS.items():
            setattr(kind, "__call__", self._unscripted(called))  # noqa: B010  # of a class
        return self

    def __exit__(self, *exception: Any) -> None:
        for kind, called in _SCRIPTS.items():
            setattr(kind, "__call__", called)  # noqa: B010  # as above
        for name in _METHODS:
            delattr(Tensor, name)
        super().__exit__(*exception)  # type: ignore[no-untyped-call]  # torch is

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if types in _OF_TENSORS and not kwargs:
            if func in NUMBERS and len(args) == 1:
                return self._number(func, args)
            if func is Tensor.__getitem__ and _is_view(*args):
                # It is many operators, none of which reads an element.
                with torch._C._DisableTorchDispatch():
                    return func(*args)
        if func in _FUNCTIONS and args and has_stand_ins(args[0]):
            # Of numbers `asarray` makes what `tensor` makes of them, without a warning.
            func, args = torch.asarray, (as_tensor(args[0]), *args[1:])
        if func in _LOOKED_AT or not _is_plain(types, args, kwargs):
            try:
                args = tuple(_as_lists(each) for each in args)
                kwargs = {name: _as_lists(each) for name, each in kwargs.items()}
                _require_watchable(func, types, (*args, *kwargs.values()))
                read = _read_at_once(func, args, kwargs)
                answer = PASSED if read is None else self._look(func, read, kwargs)
            except Exception as error:
                self._dispatch.tell(func.__name__, error)
            if answer is not PASSED:
                return answer
        before, self._lets_through = self._lets_through, True
        try:
            return func(*args, **kwargs)
        finally:
            self._lets_through = before

    def _number(self, func: Any, args: Any) -> Any:
        """Return the number to which a function converts a tensor."""
        try:
            answer = self._look(func, args, {})
        except Exception as error:
            self._dispatch.tell(func.__name__, error)
        if answer is not PASSED:
            return answer
        # What was looked at is an ordinary number, and no operator has more to say of it.
        with torch._C._DisableTorchDispatch():
            return func(*args)

    def _guarded(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method of tensors that looks before it reads while the mode is disabled."""

        @wraps(method)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            is_ours = torch._C._is_torch_function_all_disabled()
            if not self._lets_through or is_ours or get_ident() != self._owner:
                return method(*args, **kwargs)
            self._lets_through = False
            try:
                answer = self._look(method, args, kwargs)
            except Exception as error:
                self._dispatch.tell(method.__name__, error)
            finally:
                self._lets_through = True
            return method(*args, **kwargs) if answer is PASSED else answer

        return guarded

    def _unscripted(self, called: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call of TorchScript that refuses to read memory past the dispatcher."""

        @wraps(called)
        def guarded(script: Any, *args: Any, **kwargs: Any) -> Any:
            reads = next((each for each in _SCRIPTED if each in str(script.inlined_graph)), None)
            if reads is not None and get_ident() == self._owner:
                raise self._dispatch.blinded(reads, NotUnderstood("reads tensors in a script"))
            return called(script, *args, **kwargs)

        return guarded


PASSED = object()
"""Marker that permits the program to read by itself."""

TOLIST = Tensor.tolist
"""Original method, as torch calls it; the program finds the guarded one."""

_METHODS = ("data_ptr", "numpy", "tolist", "untyped_storage")
"""Methods of tensors through which all others read memory past the dispatcher."""

_SCRIPTS = {kind: kind.__call__ for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod)}

_SCRIPTED = ("prim::tolist", "prim::Print", "aten::str", "aten::format", "aten::percentFormat")
"""Operators of TorchScript that read memory past the dispatcher."""

_READERS = {
    Tensor.__array__,
    Tensor.__bool__,
    Tensor.__complex__,
    Tensor.__deepcopy__,
    Tensor.__dlpack__,
    Tensor.__float__,
    Tensor.__format__,
    Tensor.__index__,
    Tensor.__int__,
    Tensor.__reduce_ex__,
    Tensor.__repr__,
    Tensor.data_ptr,
    Tensor.item,
    Tensor.numpy,
    Tensor.storage,
    Tensor.tensor_split,
    Tensor.tolist,
    Tensor.untyped_storage,
    as_array,
    torch._pad_packed_sequence,
    torch.gru,
    torch.lstm,
    torch.rnn_relu,
    torch.rnn_tanh,
    torch.save,
    torch.tensor_split,
}

EXPOSING = {Tensor.__dlpack__, Tensor.data_ptr, Tensor.storage, Tensor.untyped_storage}
"""Functions after which others can read or write a tensor's memory at any time, without
operators."""

# These read the tensors in a sequence, but pass a tensor itself on to the dispatcher.
_FUNCTIONS = {torch.as_tensor, torch.asarray, torch.tensor}
_COPIERS = _FUNCTIONS | {Tensor.new, Tensor.new_tensor}

NUMBERS = {Tensor.__bool__, Tensor.__float__, Tensor.__index__, Tensor.__int__, Tensor.item}
"""Functions that convert a tensor of one element to a number."""

_OF_TENSORS = ((), (Tensor,))
"""Types that torch passes for calls with only tensors of its own class, or with no tensors."""

_INDEXERS = {Tensor.__getitem__, Tensor.__setitem__}

# These pass the tensors in a sequence on to the dispatcher; every other function may read them.
_TAKE_SEQUENCES = {
    "_index_put_impl_",
    "_unsafe_index",
    "align_tensors",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_tensors",
    "cartesian_prod",
    "cat",
    "column_stack",
    "concat",
    "concatenate",
    "dstack",
    "einsum",
    "hstack",
    "index_put",
    "index_put_",
    "linalg_multi_dot",
    "meshgrid",
    "pad_sequence",
    "row_stack",
    "stack",
    "vstack",
}

# These call hooks, which are functions of Python's, while no door is guarded.
_CALL_BACK = {Tensor.backward, torch.autograd.backward, torch.autograd.grad}

# These write to what they get by no operator that says so.
_IN_MEMORY = {
    torch._sobol_engine_draw,
    torch._sobol_engine_ff_,
    torch._sobol_engine_initialize_state_,
    torch._sobol_engine_scramble_,
}

_COUNT_WRITES = {Tensor._version.__get__}  # type: ignore[attr-defined]  # which is a property

_NO_SEQUENCES = (
    Tensor,
    bool,
    bytes,
    dict,
    float,
    int,
    numpy.dtype,
    numpy.generic,
    numpy.ndarray,
    range,
    slice,
    str,
    type,
)


_LOOKED_AT = _READERS | _COPIERS | _INDEXERS | _CALL_BACK | _COUNT_WRITES | _IN_MEMORY

_PLAIN = {
    NoneType,
    Tensor,
    bool,
    float,
    int,
    slice,
    str,
    torch.Generator,
    torch.Size,
    torch.device,
    torch.dtype,
    torch.layout,
    torch.memory_format,
}


def _is_plain(types: Any, args: Any, kwargs: Any) -> bool:
    """Return whether all arguments are tensors, numbers, names and similar plain values."""
    for kind in types:
        if kind is not Tensor:
            return False
    for each in args:
        if _TYPE(each) not in _PLAIN:
            return False
    return not kwargs or all(_TYPE(each) in _PLAIN for each in kwargs.values())


def _is_view(tensor: Any, index: Any) -> bool:
    """Return whether an index has only whole numbers and slices, so that the result is a view."""
    if tensor.layout is not torch.strided:
        return False
    for each in index if _TYPE(index) is tuple else (index,):
        if _TYPE(each) is slice:
            if not {_TYPE(each.start), _TYPE(each.stop), _TYPE(each.step)} <= _WHOLE_OR_NONE:
                return False
        elif _TYPE(each) is not int and each is not None and each is not Ellipsis:
            return False
    return True


# The builtin says other things in programs that have numbers of random tensors.
_TYPE = type

_WHOLE_OR_NONE = {int, NoneType}


def _require_watchable(func: Any, types: Any, given: Any) -> None:
    """Require that torch calls no code of the program, which the lane could not watch."""
    if func in _CALL_BACK:
        raise NotUnderstood("calls hooks back, in which a program is not watched")
    if any(callable(each) and not isinstance(each, _TYPE) for each in given):
        raise NotUnderstood("calls a function back, in which a program is not watched")
    if func in _IN_MEMORY:
        raise NotUnderstood("works in memory, past the operators")
    if func in _COUNT_WRITES:
        raise NotUnderstood("counts writes, of which there are others while a program is watched")
    for kind in types:
        if kind not in (Array, Scalar, Tensor) and not _is_torchs_own(kind):
            raise _not_watched(kind)


def _is_torchs_own(kind: type[Tensor]) -> bool:
    """Return whether torch calls no method of a class, as for a parameter."""
    called = kind.__torch_function__
    is_called = getattr(called, "__func__", called) not in _CALLS_NOTHING
    return not is_called and kind.__torch_dispatch__ is Tensor.__torch_dispatch__


_CALLS_NOTHING = {
    Tensor.__torch_function__.__func__,  # type: ignore[attr-defined]
    torch.nn.Parameter.__torch_function__,
}


def _not_watched(kind: type) -> NotUnderstood:
    return NotUnderstood(f"is {kind.__name__}'s own, in which a program is not watched")


def _read_at_once(func: Any, args: Any, kwargs: Any) -> Any:
    """Return the arguments that a function reads past the dispatcher, None if there are none."""
    if func in _READERS:
        return args
    if func in _COPIERS:
        copied = (*(args if func in _FUNCTIONS else args[1:]), *kwargs.values())
        return None if any(isinstance(each, Tensor) for each in copied) else copied
    if func in _INDEXERS:
        # An index that is a sequence of tensors is read; one that is a tensor is an operator's.
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        given = (*index, *args[2:])
    elif isinstance(func, (OpOverload, OpOverloadPacket)) or _takes_sequences(func):
        return None
    else:
        given = (*args, *kwargs.values())
    return [each for each in given if isinstance(each, (list, tuple))] or None


def _takes_sequences(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return name in _TAKE_SEQUENCES or name.startswith("_foreach_")


def _as_lists(value: Any) -> Any:
    """Return the value with lists in place of other kinds of sequences, as torch reads them."""
    if value is None or isinstance(value, _NO_SEQUENCES):
        return value
    if isinstance(value, (list, tuple)):
        members = [_as_lists(each) for each in value]
        is_same = all(one is other for one, other in zip(members, value, strict=True))
        if is_same:
            return value
        return tuple(members) if isinstance(value, tuple) else members
    kind = _TYPE(value)
    if hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not _is_buffer(value):
        return [_as_lists(each) for each in value]
    return value


def _is_buffer(value: Any) -> bool:
    """Return whether torch reads a value as a buffer, which contains numbers and no tensors."""
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


@cache
def _written_in_python(func: OpOverload) -> Callable[..., Any] | None:
    """Return the Python function of an operator of `torch.library.custom_op`.

    Return None if there is not exactly one.
    """
    if func.namespace in TORCHS_OWN or "torch._library.custom_ops" not in sys.modules:
        return None
    made = sys.modules["torch._library.custom_ops"].OPDEFS.get(func._schema.name)
    kernels: dict[str | None, Callable[..., Any]] = getattr(made, "_backend_fns", {})
    # Of several kernels torch takes one by the device.
    return kernels[None] if [*kernels] == [None] else None


@cache
def _is_composite(func: OpOverload) -> bool:
    name = func.name()  # type: ignore[no-untyped-call]  # torch is untyped
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
