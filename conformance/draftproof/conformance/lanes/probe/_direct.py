"""Steps of Triton's interpreter in numpy alone, without the interpreter's overhead.

When a step is repeated, its values have the same types and shapes. So every decision that the
interpreter bases on these is made once, when the step is recorded; the rest is a function of numpy
or of memory. This function is taken from the interpreter's own calls, or is one of a few known by
name; its result must equal the interpreter's, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy

Direct: TypeAlias = Callable[..., Any]
"""Function from the data of a step's values to the data of its result; a store has no result."""


@dataclass(frozen=True)
class Inner:
    """Function of numpy that the interpreter called within a step."""

    function: Callable[..., Any]
    values: tuple[Any, ...]
    made: Any


def direct(
    interpreter: Any, name: str, arguments: Sequence[Any], made: Any, inner: Sequence[Inner]
) -> Direct | None:
    """Return the numpy form of a step, None if it is unknown or its result differs."""
    values = [each for each in arguments if isinstance(each, interpreter.TensorHandle)]
    found = _called(values, made, inner) or _named(interpreter, name, values, made)
    if found is None or made is None:
        return found
    own = found(*(each.data for each in values))
    is_same = own.dtype == made.data.dtype and own.shape == made.data.shape
    return found if is_same and own.tobytes() == made.data.tobytes() else None


def _called(values: Sequence[Any], made: Any, inner: Sequence[Inner]) -> Direct | None:
    """Return the only function called within a step, if it took all values and made the result."""
    if len(inner) != 1 or inner[0].made is not made or len(inner[0].values) != len(values):
        return None
    if any(one is not other for one, other in zip(inner[0].values, values, strict=True)):
        return None
    # Bits that are added go round; numpy's go up to one.
    are_bits = all(each.data.dtype == numpy.bool_ for each in values)
    return None if len(values) == 2 and are_bits else inner[0].function


def _named(interpreter: Any, name: str, values: Sequence[Any], made: Any) -> Direct | None:
    language, memory = interpreter.tl, interpreter._interpreter
    if name == "create_masked_store" and len(values) == 3:
        return lambda pointers, value, mask: memory.store(pointers, value, mask)
    if made is None:
        return None
    kind, shape = made.data.dtype, made.data.shape
    if name == "create_masked_load" and len(values) == 3:
        return lambda pointers, mask, other: memory.load(pointers, mask, other, kind)
    if name == "create_splat" and not isinstance(values[0].dtype, language.block_type):
        return lambda data: numpy.full(shape, data, kind)
    if name == "create_addptr":
        width = max(1, values[0].get_element_ty().primitive_bitwidth // 8)
        return lambda pointers, offset: pointers + width * offset.astype(numpy.uint64)
    if name == "create_expand_dims":
        return lambda data: data.reshape(shape)
    if name == "create_broadcast":
        return lambda data: numpy.broadcast_to(data, shape)
    if name in _CASTS and language.bfloat16 not in (values[0].dtype.scalar, made.dtype.scalar):
        return lambda data: data.astype(kind)
    return None


_CASTS = {
    f"create_{name}"
    for name in ("int_cast", "fp_ext", "fp_trunc", "si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui")
}
