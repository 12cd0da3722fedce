"""Random functions of Python, numpy and the operating system, answered by torch's operators.

While a lane watches, `random.random()` draws by `torch.rand`, and similarly for the others, so that
everything the lane knows about random numbers applies to them. Functions without an answer refuse.
A function is replaced where programs look it up: in the class of its generator, or in a module that
has it by name. A program that stored a function elsewhere calls the real one, which advances its
generator; the lane notices that (`lanes._foreign`).

The numbers of a generator are unknown if it existed before the run, or if the run made it without a
seed, from noise of the operating system. A generator that the program seeds draws fixed numbers.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import random
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from math import prod
from threading import get_ident
from typing import Any, NoReturn
from weakref import WeakSet

import numpy
import torch
from torch import Tensor

from draftproof.conformance.lanes._foreign import is_import
from draftproof.conformance.lanes._streams import Rewound, streams_of_run
from draftproof.conformance.lanes.exact._array import Array, answered, opened, searchsorted
from draftproof.conformance.lanes.exact._dtypes import held
from draftproof.conformance.lanes.exact._noise import SPENT, Noise
from draftproof.conformance.lanes.exact._scalar import (
    Scalar,
    is_in_no_tensor,
    of_operator,
    tensor_of,
)
from draftproof.conformance.lanes.opaque import OpaqueRandomness, program_line
from draftproof.reference.chance import distribution
from draftproof.reference.rational import exactly

_SYSTEMS_NOISE = os.urandom

_MOST_BITS = 16
"""Maximum number of bits of a whole number that is enumerated."""

_INSTEAD = "draw by random(), a range, choices() or shuffle()"


class _Refused(Exception):
    """Error of a draw that the lane does not follow; the message follows the function's name."""


# --- generators ------------------------------------------------------------------------------

_FRESH: WeakSet[random.Random] = WeakSet()
_FRESH_ENTROPY: set[int] = set()


def _note(generator: Any) -> None:
    """Note a draw from a generator. Raises `Rewound`."""
    streams = streams_of_run()
    if streams is None or isinstance(generator, random.SystemRandom):
        return
    if isinstance(generator, random.Random):
        streams.draw_elsewhere(generator, is_fresh=generator in _FRESH)
        return
    bits = _bits_of(generator)
    seed = getattr(bits, "seed_seq", None)
    streams.draw_elsewhere(bits, is_fresh=getattr(seed, "entropy", None) in _FRESH_ENTROPY)


def _entropy(bits: int) -> int:
    """Return noise of the operating system, with which numpy seeds a generator without a seed."""
    found = int.from_bytes(_SYSTEMS_NOISE(-(-bits // 8)), "big") >> (-bits % 8)
    _FRESH_ENTROPY.add(found)
    return found


def _seed(self: random.Random, a: Any = None, version: int = 2) -> None:
    _REAL_SEED(self, a, version)
    if a is None and self is not _PYTHONS:
        _FRESH.add(self)
    else:
        _FRESH.discard(self)


_REAL_SEED = random.Random.seed
_PYTHONS: random.Random = random.random.__self__  # type: ignore[attr-defined]  # of the module
_NUMPYS: Any = numpy.random.mtrand._rand


# --- Python's --------------------------------------------------------------------------------


def _random(_: random.Random) -> Any:
    return _uniform()


def _below(_: random.Random, most: int) -> int:
    if most > 2**_MOST_BITS:
        raise _Refused(f"draws one of {most} whole numbers; {2**_MOST_BITS} are followed")
    return _drawn([1.0] * most) if most else 0


def _bits(_: random.Random, count: int) -> int:
    if count > _MOST_BITS:
        raise _Refused(f"draws {count} bits; {_MOST_BITS} are followed: {_INSTEAD}")
    return _drawn([1.0] * 2**count)


def _uniform() -> Any:
    """Return a uniform number that the program has not looked at."""
    return _run().scalar(_UNIFORM.afresh())


_UNIFORM = held(Noise(SPENT), torch.float64)


def _drawn(weights: Sequence[float]) -> int:
    """Return a decided number, drawn from weights."""
    able = [place for place, weight in enumerate(weights) if weight > 0]
    if len(able) == 1:
        return able[0]
    shares = distribution([exactly(float(weights[place])) for place in able])
    found: int = able[_run().world.chance.draw(shares)]
    return found


def _run() -> Any:
    """Return the single run that draws. Raises `NotTogether` in a walk of several runs."""
    streams = streams_of_run()
    assert streams is not None
    return streams.run.alone("draws elsewhere than from torch")


_PYTHONS_ANSWERS: dict[str, Callable[..., Any]] = {
    "random": _random,
    "getrandbits": _bits,
    "_randbelow": _below,
}

_PYTHONS_REFUSED = (
    *("betavariate", "gammavariate", "gauss", "lognormvariate", "normalvariate", "randbytes"),
    *("triangular", "vonmisesvariate"),
)


# --- numpy's ---------------------------------------------------------------------------------


def _dtype(form: Any) -> torch.dtype:
    return torch.float32 if numpy.asarray(form).dtype == numpy.float32 else torch.float64


def _uniforms(form: Any) -> Any:
    """Return uniform numbers in the form of a result of numpy: a float, or an array."""
    if not isinstance(form, numpy.ndarray) and _dtype(form) is torch.float64:
        return _uniform()
    return answered(torch.rand(numpy.shape(form), dtype=_dtype(form), device="cpu"))


def _clocks(form: Any) -> Any:
    """Return standard exponential numbers in the form of a result of numpy."""
    if not isinstance(form, numpy.ndarray) and _dtype(form) is torch.float64:
        return -of_operator(_uniform(), "log")
    return answered(torch.empty(numpy.shape(form), dtype=_dtype(form)).exponential_())


def _whole(form: Any, drawn: Sequence[int]) -> Any:
    """Return whole numbers in the form of a result of numpy."""
    if isinstance(form, numpy.ndarray):
        return numpy.array(drawn, form.dtype).reshape(form.shape)
    return type(form)(drawn[0])


def _numpys_random(form: Any, *_: Any, out: Any = None, **__: Any) -> Any:
    _require_no_out(out)
    return _uniforms(form)


def _numpys_clock(form: Any, *_: Any, out: Any = None, **__: Any) -> Any:
    _require_no_out(out)
    return _clocks(form)


def _require_no_out(out: Any) -> None:
    if out is not None:
        raise _Refused("writes into an array (`out`), which nobody can follow: take its result")


def _numpys_uniform(form: Any, low: Any = 0.0, high: Any = 1.0, *_: Any, **__: Any) -> Any:
    return _uniforms(form) * (high - numpy.asarray(low)[()]) + low


def _numpys_exponential(form: Any, scale: Any = 1.0, *_: Any, **__: Any) -> Any:
    return _clocks(form) * scale


def _numpys_gumbel(form: Any, loc: Any = 0.0, scale: Any = 1.0, *_: Any, **__: Any) -> Any:
    return loc - numpy.log(_clocks(form)) * scale


def _numpys_choice(
    form: Any,
    a: Any,
    size: Any = None,
    replace: Any = 1,
    p: Any = None,
    axis: int = 0,
    shuffle: Any = 1,
) -> Any:
    among = int(a) if numpy.ndim(a) == 0 else numpy.shape(a)[axis]
    shape = () if size is None else tuple(numpy.atleast_1d(size).tolist())
    count = prod(shape)
    if replace or count == 1:
        weights = [1.0] * among if p is None else numpy.asarray(p, numpy.float64).tolist()
        drawn = [_drawn(weights) for _ in range(count)]
    elif p is not None:
        raise _Refused("draws without replacement from weights: draw by one exponential race")
    elif not shuffle:
        raise _Refused("draws a subset in an order that numpy leaves open: leave `shuffle` out")
    else:
        drawn = _ordered(among)[:count]
    places = numpy.array(drawn, numpy.int64).reshape(shape)
    found = places if numpy.ndim(a) == 0 else numpy.take(a, places, axis)
    return found.astype(form.dtype) if isinstance(form, numpy.ndarray) else type(form)(found[()])


def _ordered(count: int) -> list[int]:
    """Return the numbers 0..count - 1 in a random order."""
    left = list(range(count))
    return [left.pop(_drawn([1.0] * len(left))) for _ in range(count)]


def _numpys_integers(
    form: Any,
    low: Any,
    high: Any = None,
    *_: Any,
    endpoint: Any = 0,
    **__: Any,
) -> Any:
    low, high = (0, low) if high is None else (low, high)
    if numpy.ndim(low) or numpy.ndim(high):
        raise _Refused("draws whole numbers of several ranges at once: draw one range at a time")
    return _whole(form, _among(int(low), int(high) + endpoint, numpy.size(form)))


def _among(low: int, end: int, count: int) -> list[int]:
    return [low + _below(_PYTHONS, end - low) for _ in range(count)]


def _numpys_multinomial(form: Any, n: Any, pvals: Any, *_: Any, **__: Any) -> Any:
    if numpy.ndim(n) or int(n) != 1 or numpy.ndim(pvals) != 1:
        raise _Refused("counts several draws: draw one (n = 1), of one row of weights")
    weights = numpy.array(pvals, numpy.float64)
    # Numpy gives the last what the others leave.
    weights[-1] = max(1 - weights[:-1].sum(), 0)
    count = prod(form.shape[:-1])
    one_hot = numpy.zeros((count, len(weights)), form.dtype)
    one_hot[range(count), [_drawn(weights.tolist()) for _ in range(count)]] = 1
    return one_hot.reshape(form.shape)


def _numpys_binomial(form: Any, n: Any, p: Any, *_: Any, **__: Any) -> Any:
    if numpy.ndim(n) or int(n) != 1:
        raise _Refused("counts several coins: toss one (n = 1)")
    chances = numpy.broadcast_to(numpy.asarray(p, numpy.float64), numpy.shape(form))
    return _whole(form, [int(_uniform() < chance) for chance in chances.ravel().tolist()])


def _numpys_permutation(form: Any, x: Any, axis: int = 0) -> Any:
    order = numpy.array(_ordered(numpy.shape(form)[axis]), numpy.int64)
    return order.astype(form.dtype) if numpy.ndim(x) == 0 else numpy.take(x, order, axis)


def _numpys_shuffle(_: Any, x: Any, axis: int = 0) -> None:
    order = _ordered(numpy.shape(x)[axis])
    x[:] = numpy.take(x, order, axis) if isinstance(x, numpy.ndarray) else [x[i] for i in order]


_OF_BOTH: dict[str, Callable[..., Any]] = {
    "binomial": _numpys_binomial,
    "choice": _numpys_choice,
    "exponential": _numpys_exponential,
    "gumbel": _numpys_gumbel,
    "multinomial": _numpys_multinomial,
    "permutation": _numpys_permutation,
    "random": _numpys_random,
    "shuffle": _numpys_shuffle,
    "standard_exponential": _numpys_clock,
    "uniform": _numpys_uniform,
}

_NUMPYS_ANSWERS: dict[type, dict[str, Callable[..., Any]]] = {
    numpy.random.Generator: {**_OF_BOTH, "integers": _numpys_integers},
    numpy.random.RandomState: {
        **_OF_BOTH,
        "rand": _numpys_random,
        "randint": _numpys_integers,
        "random_sample": _numpys_random,
    },
}

_SCRATCH: dict[type, Any] = {
    kind: kind(numpy.random.PCG64(0)) for kind in (numpy.random.Generator, numpy.random.RandomState)
}
"""Generators that really draw, to determine the form of a result."""

_UNUSED = numpy.random.PCG64(0).state

_OF_FLOATS = {"random", "random_sample", "rand", "uniform"}
"""Methods that return one float if called without arguments."""


def _bits_of(generator: Any) -> Any:
    return getattr(generator, "_bit_generator", None) or generator.bit_generator


# Of a generator's methods these draw nothing, or are told by its state.
_DRAW_NOTHING = {"bit_generator", "get_state", "seed", "set_state", "spawn"}


def _numpys_answer(kind: type, name: str) -> Callable[..., Any]:
    """Return the function that answers, or refuses, a method of a generator of numpy."""
    answer, real = _NUMPYS_ANSWERS[kind].get(name), vars(kind)[name]

    def of_generator(_: Any, *args: Any, **kwargs: Any) -> Any:
        if answer is None:
            known = ", ".join(sorted(_NUMPYS_ANSWERS[kind]))
            raise _Refused(f"is not followed; these are: {known}")
        # Numpy says in its own words what it does not take, and what form a result has.
        copied = [numpy.array(x) if name == "shuffle" else x for x in args[:1]]
        form = 0.0 if name in _OF_FLOATS and not (args or kwargs) else None
        if form is None:
            try:
                form = real(_SCRATCH[kind], *copied, *args[1:], **kwargs)
            finally:
                _bits_of(_SCRATCH[kind]).state = _UNUSED
        return answer(form, *args, **kwargs)

    return of_generator


# --- functions of one number -----------------------------------------------------------------

_OF_NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "sqrt": torch.sqrt,
}


def _of_number(name: str) -> Callable[..., Any]:
    real, ours = vars(math)[name], _OF_NUMBERS[name]

    @wraps(real)
    def called(x: Any, /) -> Any:
        if not isinstance(x, Scalar):
            return real(x)
        return of_operator(x, name) if is_in_no_tensor(x) else ours(tensor_of(x)).item()

    return called


@wraps(math.log)
def _log(x: Any, /, *base: Any) -> Any:
    if not isinstance(x, Scalar):
        return _REAL_LOG(x, *base)
    found = of_operator(x, "log") if is_in_no_tensor(x) else tensor_of(x).log().item()
    return found / _REAL_LOG(*base) if base else found


@wraps(math.pow)
def _pow(x: Any, y: Any, /) -> Any:
    return torch.pow(tensor_of(x), y).item() if isinstance(x, Scalar) else _REAL_POW(x, y)


_REAL_LOG, _REAL_POW = math.log, math.pow


def _from_numpy(array: Any) -> Tensor:
    return opened(array) if isinstance(array, Array) else _REAL_FROM_NUMPY(array)


_REAL_FROM_NUMPY = torch.from_numpy


def _searchsorted(edges: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    is_random = isinstance(v, (Array, Scalar)) and sorter is None
    search: Any = searchsorted if is_random else _REAL_SEARCHSORTED
    return search(edges, v, side, sorter)


_REAL_SEARCHSORTED: Any = numpy.ndarray.searchsorted


# --- where they are met ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Following:
    """Thread in which calls are answered, and the refusals in it."""

    thread: int
    refused: list[OpaqueRandomness] = field(default_factory=list)


_FOLLOWING: list[_Following] = []


@contextmanager
def followed() -> Iterator[None]:
    """Answer random functions by the lane within a block, in the runs of this thread.

    Raises `OpaqueRandomness` at the end for a refusal that the program has caught.
    """
    now = _Following(get_ident())
    _FOLLOWING.append(now)
    try:
        with _replaced():
            yield
    finally:
        _FOLLOWING.remove(now)
        _FRESH_ENTROPY.clear()
    if now.refused:
        raise now.refused[0]


@contextmanager
def _replaced() -> Iterator[None]:
    """Replace the real functions by ours, in classes and in modules."""
    methods = [(kind, name, vars(kind).get(name), ours) for kind, name, ours in _METHODS]
    names = [*_places()]
    for kind, name, _, ours in methods:
        _set(kind, name, ours)
    for module, name, real in names:
        vars(module)[name] = _NAMES[id(real)]
    seeds = vars(numpy.random.bit_generator)
    before, seeds["randbits"] = seeds["randbits"], _entropy
    try:
        yield
    finally:
        seeds["randbits"] = before
        for module, name, real in names:
            vars(module)[name] = real
        for kind, name, real, _ in methods:
            _set(kind, name, real)


def _set(kind: type, name: str, value: Any) -> None:
    """Set an attribute of a class, None to delete it; numpy's classes refuse `setattr`."""
    (attributes,) = (x for x in gc.get_referents(vars(kind)) if isinstance(x, dict))
    if value is None:
        del attributes[name]
    else:
        attributes[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _places() -> Iterator[tuple[Any, str, Any]]:
    """Yield each module that has a real function by name, with the name and the function.

    A module is searched once; the state of a generator reveals functions that it imports later.
    """
    for module_name, module in [*sys.modules.items()]:
        if module_name.startswith(_OURS):
            continue
        if module_name not in _searched:
            held = getattr(module, "__dict__", {})
            _searched[module_name] = [
                (name, value) for name, value in [*held.items()] if id(value) in _NAMES
            ]
        for name, value in _searched[module_name]:
            if vars(module).get(name) is value:
                yield module, name, value


_searched: dict[str, list[tuple[str, Any]]] = {}

_OURS = "draftproof.conformance"


def _watched(where: str, real: Callable[..., Any], answer: Callable[..., Any]) -> Any:
    """Return a method that answers in the program's runs, and calls the real one elsewhere."""

    @wraps(real)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_followed = _FOLLOWING and _FOLLOWING[-1].thread == get_ident() and streams_of_run()
        if not is_followed or any(self is each for each in _SCRATCH.values()) or is_import():
            return real(self, *args, **kwargs)
        try:
            _run()
            _note(self)
            return answer(self, *args, **kwargs)
        except (_Refused, Rewound) as reason:
            refused = OpaqueRandomness(where, str(reason), program_line())
            _FOLLOWING[-1].refused.append(refused)
            raise refused from None

    return called


def _refusal(*_: Any, **__: Any) -> NoReturn:
    raise _Refused(f"is not followed: {_INSTEAD}")


def _methods() -> Iterator[tuple[type, str, Any]]:
    """Yield the methods to replace: the class, the name, and our method."""
    for kind, where in ((random.Random, "random"), (random.SystemRandom, "secrets.SystemRandom")):
        answers = {**_PYTHONS_ANSWERS, **dict.fromkeys(_PYTHONS_REFUSED, _refusal)}
        for name, answer in answers.items():
            if kind is random.Random or name in vars(kind):
                real = getattr(kind, name)
                yield kind, name, _watched(f"{where}.{name.strip('_')}", real, answer)
    for numpys in _NUMPYS_ANSWERS:
        for name, real in vars(numpys).items():
            if not name.startswith("_") and name not in _DRAW_NOTHING and callable(real):
                where = f"numpy.random.{numpys.__name__}.{name}"
                yield numpys, name, _watched(where, real, _numpys_answer(numpys, name))
    yield random.Random, "seed", _seed
    yield numpy.ndarray, "searchsorted", _searchsorted


_METHODS = [*_methods()]


def _names() -> Iterator[tuple[Any, Any]]:
    """Yield the functions that modules have by name: the real function and ours."""
    for kind, module, generator in (
        (random.Random, random, _PYTHONS),
        (numpy.random.RandomState, numpy.random.mtrand, _NUMPYS),
    ):
        for owner, name, ours in _METHODS:
            real = vars(module).get(name)
            if owner is kind and getattr(real, "__self__", None) is generator and name != "seed":
                yield real, ours.__get__(generator)
    system: Any = secrets.randbits
    bits = next(ours for kind, name, ours in _METHODS if (kind, name) == _SYSTEMS_BITS)
    yield system, bits.__get__(system.__self__)
    yield from ((vars(math)[name], _of_number(name)) for name in _OF_NUMBERS)
    yield from ((math.log, _log), (math.pow, _pow), (torch.from_numpy, _from_numpy))


_SYSTEMS_BITS = random.SystemRandom, "getrandbits"

_NAMES = {id(real): ours for real, ours in _names()}
