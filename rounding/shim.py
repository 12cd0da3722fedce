"""Round as another processor might: a shim that moves results of float functions by one ulp.

Processors and libraries round exp, log, sums and matrix products differently, so no test may need
the last bit of one. Python loads this by itself (`sitecustomize.py`) where it starts with this
folder on PYTHONPATH, and so do the processes that a test starts. ROUNDING has the seed:

    PYTHONPATH=rounding ROUNDING=1 .venv/bin/pytest

The shim moves the results of torch's operators for the CPU (below every dispatch mode, so the exact
lane sees them as it sees torch's own), of numpy's functions, and of the module `math`. The seed
chooses which results move, and in which direction. The shim keeps what every processor promises:

- The same call gives the same bits. Functions of one number, softmax and running sums depend on
  the number alone, and stay monotone: two neighbouring floats, of which the first has an even last
  bit, both stay, both become the first, or both the second. A sum or a matrix product depends on
  its place in the result too, as its order of summation may. Signs make no difference.
- 0, infinities and NaN stay. So do 1 and -1, except as sums: nothing leaves its range.
- Exact results stay: sums and products without a rounding; powers, logarithms to base 2 or 10, and
  shares of a softmax, where the lower half of their bits is 0.
- Integers and booleans are never touched, nor what IEEE 754 rounds in one way only (+ - * /, sqrt).

Not moved: fused attention, normalisations of layers, methods of numpy's arrays, and results of
`math` whose lower half of bits is 0, for libraries count digits with it. While the shim is loaded,
`torch.backends.cpu.get_cpu_capability()` names it, and so does all evidence.
"""

from __future__ import annotations

import math
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial, update_wrapper
from hashlib import sha256
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

FORMATS = {
    "float16": (10, 0x7C00, 0x3C00),
    "bfloat16": (7, 0x7F80, 0x3F80),
    "float32": (23, 0x7F800000, 0x3F800000),
    "float64": (52, 0x7FF0000000000000, 0x3FF0000000000000),
}
"""By dtype: how many bits of the significand are stored, and the bits of infinity and of 1."""

IRRATIONAL = [
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc",
    "lgamma", "digamma", "rsqrt", "logaddexp", "_logcumsumexp", "xlogy", "softplus", "silu",
    "gelu", "log_sigmoid_forward", "exponential_", "normal_",
]  # fmt: skip
"""Operators of torch whose results are never exact, but for 0 and 1."""

SHORT = ["exp2", "log2", "log10", "pow", "_softmax", "_log_softmax"]
"""Operators of torch whose exact results have few bits."""

RUNNING = ["cumsum", "cumprod"]
SUMS = [
    "sum", "nansum", "mean", "prod", "mm", "addmm", "bmm", "baddbmm", "dot", "addmv",
    "linalg_vector_norm",
]  # fmt: skip

OF_NUMPY = ["exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "logaddexp"]
SHORT_OF_NUMPY = ["exp2", "log2", "log10", "power", "float_power"]
SUMS_OF_NUMPY = ["sum", "mean", "cumsum", "dot", "matmul"]

OF_MATH = [
    "exp", "expm1", "log", "log1p", "log2", "log10", "pow", "sin", "cos", "tan", "tanh", "erf",
    "erfc", "gamma", "lgamma",
]  # fmt: skip

LARGE = 1 << 18
"""Sums over more elements are not computed twice: they stay where the lower half of bits is 0."""

_WORD = (1 << 64) - 1
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of splitmix64."""


def moved(bits: Any, dtype: str, seed: Any, *, keep: Any, short: bool, ones: bool) -> Any:
    """Return the bits of floats, each moved by at most one; those at `keep` are not.

    `bits` [...] is a numpy array of unsigned integers, `seed` one number or one for each of them.
    `short` keeps what has zeros for the lower half of its bits, `ones` keeps 1 and -1.
    """
    import numpy

    stored, infinity, one = FORMATS[dtype]
    word, unit = numpy.uint64, bits.dtype.type(1)
    magnitude = bits & bits.dtype.type((1 << (8 * bits.itemsize - 1)) - 1)
    with numpy.errstate(over="ignore"):
        mixed = ((magnitude >> unit).astype(word) + word(1)) * word(_GOLDEN) + seed
        mixed = (mixed ^ (mixed >> word(30))) * word(_FIRST)
        mixed = (mixed ^ (mixed >> word(27))) * word(_SECOND)
    choice = (mixed >> word(33)) % word(3)
    stays = keep | (choice == 2) | (magnitude <= 1) | (magnitude >= infinity)
    if ones:
        stays = stays | (magnitude == one)
    if short:
        stays = stays | (magnitude & magnitude.dtype.type((1 << (stored + 1) // 2) - 1) == 0)
    return numpy.where(stays, bits, numpy.where(choice == 0, bits & ~unit, bits | unit))


def seeded(seed: int, name: str) -> int:
    """Return the seed of one function."""
    return int.from_bytes(sha256(f"{seed} {name}".encode()).digest()[:8], "big")


# --- torch --------------------------------------------------------------------------------


def of_torch(torch: Any, seed: int) -> None:
    """Replace torch's kernels for the CPU, for as long as the process lives."""
    library = torch.library.Library("aten", "IMPL")
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CPU"):
        operator, _, overload = name.removeprefix("aten::").partition(".")
        base = operator if operator in IRRATIONAL else operator.removesuffix("_")
        if name.startswith("aten::") and base in (*IRRATIONAL, *SHORT, *RUNNING, *SUMS):
            packet = getattr(torch.ops.aten, operator)
            variant = getattr(packet, overload or "default")
            kernel = torch.library.get_kernel(variant, "CPU")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is replaced is meant
                replaced = _kernel(torch, variant, kernel, base, seed)
                library.impl(
                    name.removeprefix("aten::"),
                    replaced,
                    "CPU",
                    with_keyset=True,
                    allow_override=True,
                )
    torch.rounding = library  # it undoes all of this when nobody has it any more
    tell = torch.backends.cpu.get_cpu_capability
    torch.backends.cpu.get_cpu_capability = lambda: f"{tell()}, rounding {seed}"


def _kernel(torch: Any, variant: Any, kernel: Any, base: str, seed: int) -> Callable[..., Any]:
    import numpy

    wants_tensor = [str(each.type) == "Tensor" for each in variant._schema.arguments]
    own = numpy.uint64(seeded(seed, base))
    signed = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    # What a test or a lane puts in their place is not what is meant here.
    detach, view, array = torch.Tensor.detach, torch.Tensor.view, torch.Tensor.numpy
    inside = threading.local()

    def move(found: Any, exact: Any) -> None:
        dtype = str(found.dtype).removeprefix("torch.")
        if dtype not in FORMATS or not found.numel():
            return
        is_sum = base in SUMS or base in RUNNING
        is_short = base in SHORT or (is_sum and exact is None)
        all_bits = view(detach(found), signed[found.itemsize])
        is_exact = exact is not None and (
            array(detach(found).to(torch.float64, copy=True)) == exact
        )
        same = numpy.broadcast_to(is_exact, tuple(found.shape))
        # Piece by piece: the memory of some calls is measured.
        for piece in _pieces(found.shape):
            # A copy, as a tensor that shares its memory with numpy cannot be resized any more.
            part = all_bits[piece]
            bits = array(part.clone()).view(f"u{found.itemsize}")
            seeds: Any = own
            if base in SUMS:
                places = numpy.arange(bits.size, dtype=numpy.uint64).reshape(bits.shape)
                seeds = own + places * numpy.uint64(_SECOND)
            bits = moved(bits, dtype, seeds, keep=same[piece], short=is_short, ones=not is_sum)
            part.copy_(torch.from_numpy(bits.view(f"i{found.itemsize}")))

    def as_given(args: Sequence[Any]) -> list[Any]:
        # A kernel may call another one with a number for a tensor, which Python sees as a number.
        return [
            torch.scalar_tensor(each, dtype=torch.float64)
            if is_wanted and isinstance(each, float)
            else torch.scalar_tensor(each, dtype=torch.int64)
            if is_wanted and isinstance(each, int)
            else each
            for each, is_wanted in zip(args, wants_tensor, strict=False)
        ]

    def replaced(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(as_given(args))
        if getattr(inside, "is_set", False):
            return kernel.call_boxed(keyset, *args, **kwargs)
        inside.is_set = True
        try:
            # Before the call, which may overwrite what it is given.
            exact = _exact(torch, base, args, kwargs) if base in (*SUMS, *RUNNING) else None
            found = kernel.call_boxed(keyset, *args, **kwargs)
            for each in found if isinstance(found, (tuple, list)) else (found,):
                move(each, exact)
        finally:
            inside.is_set = False
        return found

    return replaced


def _pieces(shape: Sequence[int]) -> Iterator[Any]:
    """Yield the places of parts of an array that are small, or cannot be cut."""
    if len(shape) < 2 or math.prod(shape) <= LARGE:
        yield ...
        return
    for index in range(shape[0]):
        for piece in _pieces(shape[1:]):
            yield (index, ...) if piece is ... else (index, *piece)


def _exact(torch: Any, base: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return a sum or product of wider floats, None where there are none."""
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    if sum(each.numel() for each in tensors) > LARGE:
        return None
    if any(each.dtype == torch.float64 for each in tensors):
        return _exact_sum(args, base)
    if any(not each.is_floating_point() for each in tensors):
        return None
    wide = [each.double() if isinstance(each, torch.Tensor) else each for each in args]
    rest = {name: value for name, value in kwargs.items() if name not in ("out", "dtype")}
    return getattr(torch.ops.aten, base)(*wide, **rest).clone().numpy()


def _exact_sum(args: Sequence[Any], base: str) -> Any:
    import numpy

    if base not in ("sum", "mean", "cumsum"):
        return None
    wide = args[0].detach().clone().numpy().astype(numpy.longdouble)
    if base == "cumsum":
        return UNMOVED[numpy.cumsum.__name__](wide, axis=args[1]) if wide.ndim else wide
    axis = tuple(args[1]) if len(args) > 1 and args[1] else None
    keepdims = len(args) > 2 and args[2]
    return numpy.asarray(UNMOVED[base](wide, axis=axis, keepdims=keepdims))


# --- numpy --------------------------------------------------------------------------------

UNMOVED: dict[str, Any] = {}
"""The functions of numpy as they were."""


class Moved:
    """A function of numpy, the results of which are moved."""

    def __init__(self, function: Any, seed: int) -> None:
        self.function, self.seed = function, seeded(seed, function.__name__)
        update_wrapper(self, function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function does, moved."""
        import numpy

        found = self.function(*args, **kwargs)
        if type(found) is not numpy.ndarray and not isinstance(found, numpy.floating):
            return found
        array = numpy.asarray(found)
        if array.dtype.name not in FORMATS:
            return found
        name = self.function.__name__
        is_sum = name in SUMS_OF_NUMPY
        exact = None
        if is_sum and not kwargs.keys() & {"out", "dtype", "where", "initial"}:
            wide = (
                each.astype(numpy.longdouble)
                if isinstance(each, (numpy.ndarray, numpy.floating))
                else each
                for each in args
            )
            exact = numpy.asarray(array == self.function(*wide, **kwargs))
        bits = array.view(f"u{array.itemsize}")
        bits_moved = moved(
            bits,
            array.dtype.name,
            numpy.uint64(self.seed),
            keep=numpy.False_ if exact is None else exact,
            short=name in SHORT_OF_NUMPY or (is_sum and exact is None),
            ones=not is_sum,
        )
        if isinstance(found, numpy.floating):
            return bits_moved.view(array.dtype)[()]
        bits[...] = bits_moved
        return found


def of_numpy(numpy: Any, seed: int) -> None:
    """Replace functions of numpy."""
    for name in (*OF_NUMPY, *SHORT_OF_NUMPY, *SUMS_OF_NUMPY):
        UNMOVED[name] = getattr(numpy, name)
        setattr(numpy, name, Moved(UNMOVED[name], seed))


# --- math ---------------------------------------------------------------------------------


def of_math(seed: int) -> None:
    """Replace functions of the module math."""
    for name in OF_MATH:
        function = getattr(math, name)
        replaced = partial(_moved_number, function, seeded(seed, name))
        setattr(math, name, update_wrapper(replaced, function))


def _moved_number(function: Callable[..., float], seed: int, *args: Any) -> float:
    found = function(*args)
    (bits,) = struct.unpack("<Q", struct.pack("<d", found))
    if bits & 0x3FFFFFF == 0 or not math.isfinite(found):
        return found
    mixed = ((bits >> 1 & _WORD >> 2) + 1) * _GOLDEN + seed & _WORD
    mixed = (mixed ^ mixed >> 30) * _FIRST & _WORD
    mixed = (mixed ^ mixed >> 27) * _SECOND & _WORD
    choice = (mixed >> 33) % 3
    bits = (bits & ~1, bits | 1, bits)[choice]
    (result,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(result)


# --- when they are imported ---------------------------------------------------------------


class Imports(MetaPathFinder):
    """Replaces functions of torch and numpy as soon as these are imported."""

    def __init__(self, seed: int) -> None:
        self.waiting = {"torch": of_torch, "numpy": of_numpy}
        self.seed = seed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the module is, with a loader that replaces functions behind its own."""
        replace = self.waiting.pop(fullname, None)
        spec = replace and PathFinder.find_spec(fullname, path, target)
        if not replace or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            replace(module, self.seed)

        loader: Loader = spec.loader
        loader.exec_module = exec_module  # type: ignore[method-assign]  # of this loader alone
        return spec


def begin(seed: int) -> None:
    """Move results from now on."""
    of_math(seed)
    sys.meta_path.insert(0, Imports(seed))
