"""Draws: random operators, which return noise and undecided choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import inf, nan
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._drawn import DIGITS, drawn, rounds_uniforms
from draftproof.conformance.lanes._signature import bound
from draftproof.conformance.lanes.exact._choice import Choice, Listed, Weighed, coin
from draftproof.conformance.lanes.exact._dtypes import NARROW, held, is_held
from draftproof.conformance.lanes.exact._elements import Elements
from draftproof.conformance.lanes.exact._errors import NotUnderstood, ran
from draftproof.conformance.lanes.exact._noise import SPENT, Noise
from draftproof.conformance.lanes.exact._races import Ranking
from draftproof.conformance.lanes.exact._steps import Affine, Clamp, Log
from draftproof.reference.chance import distribution
from draftproof.reference.rational import ONE, ZERO, exactly

# The widest range of integers whose draws are enumerated.
_MOST_INTEGERS = 100_000

_MOST_NUMBERS = 2**15
"""Maximum number of draws: each is an object, and a race among all tokens of a large vocabulary
takes minutes."""


def _uniform(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    out = ran(drawn, (func, args, kwargs), {})
    given = bound(func, args, kwargs)
    low, high = float(given.get("from", 0.0)), float(given.get("to", 1.0))
    if not out.dtype.is_floating_point:
        raise NotUnderstood("draws noise that is not real")
    if low >= high:
        raise NotUnderstood("draws noise from an empty interval")
    return _fresh(elements, out, _uniform_number(low, high, out.dtype).afresh)


@cache
def _uniform_number(low: float, high: float, dtype: torch.dtype) -> Noise:
    least, most = exactly(low), exactly(high)
    steps: list[Affine | Clamp] = [Affine(most - least, least)]
    if dtype in NARROW:
        steps = _narrow_uniform(dtype)
        if (least, most) != (ZERO, ONE):
            raise NotUnderstood("draws narrow noise from an interval that is not 0..1")
    return held(Noise(SPENT).then(*steps), dtype)


def _exponential(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    out = ran(drawn, (func, args, kwargs), {})
    rate = exactly(float(bound(func, args, kwargs)["lambd"]))
    number = Noise(SPENT).then(Log(), Affine(-1 / rate, ZERO))
    return _fresh(elements, out, held(number, out.dtype).afresh)


def _bernoulli(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    given = bound(func, args, kwargs)
    chances = given.get("p", args[0])
    elements.require_ordinary([chances])
    # What is drawn may be written where the chances are.
    table = torch.as_tensor(chances, dtype=torch.float64).clone()
    out = ran(drawn, (func, args, kwargs), {})
    table = table.expand(out.shape)
    weights = iter(table.flatten().tolist())
    if not ((table >= 0) & (table <= 1)).all():
        raise NotUnderstood("tosses coins whose chances are no probabilities")

    return _fresh(elements, out, lambda: Choice.of(coin(exactly(next(weights)))))


def _multinomial(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    given = bound(func, args, kwargs)
    weights: Tensor = given["self"]
    elements.require_ordinary([weights])
    before = weights.detach().to(torch.float64, copy=True)
    out = ran(drawn, (func, args, kwargs), {})
    rows = before.reshape(-1, weights.shape[-1])
    count, replaced = given["num_samples"], given["replacement"]
    draws = iter(draw for row in rows for draw in _picks(elements, row, count, replaced=replaced))
    return _fresh(elements, out, lambda: next(draws))


def _picks(elements: Elements, row: Tensor, count: int, *, replaced: bool) -> Iterator[Choice]:
    able = row.nonzero()[:, 0]
    if replaced:
        if not len(able):
            raise NotUnderstood("draws from a row without weight")
        drawn = Weighed(able.numpy(), row[able].numpy())
        return (Choice.of(drawn) for _ in range(count))
    ranked = Ranking(dict(zip(able.tolist(), map(exactly, row[able].tolist()), strict=True)))
    if count > len(ranked.rates):
        raise NotUnderstood("draws more outcomes without replacement than have a weight")
    return (elements.place(ranked, position) for position in range(count))


def _integers(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    given = bound(func, args, kwargs)
    elements.require_ordinary([given["high"]])
    low, high = given.get("low", 0), int(given["high"])
    out = ran(drawn, (func, args, kwargs), {})
    if high - low > _MOST_INTEGERS:
        raise NotUnderstood("draws an integer from a range too wide to be enumerated")
    listed = range(low, high), distribution([ONE] * (high - low))
    return _fresh(elements, out, lambda: Choice.of(Listed(*listed)))


def _permutation(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    ranked = Ranking(dict.fromkeys(range(args[0]), ONE))
    out = ran(drawn, (func, args, kwargs), {})
    places = iter(range(args[0]))
    return _fresh(elements, out, lambda: elements.place(ranked, next(places)))


def _fresh(elements: Elements, out: Tensor, number: Callable[[], Noise | Choice]) -> Tensor:
    """Set every element of `out` to a new random number."""
    if out.numel() > _MOST_NUMBERS:
        raise NotUnderstood(
            f"draws {out.numel()} numbers at once; {_MOST_NUMBERS} are followed one by one"
        )
    # Whoever reads noise in spite of everything shall at least read NaN.
    numbers = [number() for _ in range(out.numel())]
    if not all(is_held(each, out.dtype) for each in numbers if isinstance(each, Choice)):
        raise NotUnderstood("draws whole numbers that its type rounds")
    out.fill_(nan if numbers and isinstance(numbers[0], Noise) else 0)
    ids = [elements.identities.id_of(each) for each in numbers]
    elements.attach(out, torch.tensor(ids, dtype=torch.int64).view(out.shape))
    return out


def _narrow_uniform(dtype: torch.dtype) -> list[Affine | Clamp]:
    """Return the steps from an ideal uniform number to torch's in a narrow type, before rounding.

    Torch rounds a wide number, and replaces a result of 1 by 0. The law is the same if the last
    half step below 1 is moved below 0.
    """
    if not rounds_uniforms(dtype):
        raise NotUnderstood("draws narrow noise, whose law in this release of torch is not known")
    half_step = ONE / 2 ** (DIGITS[dtype] + 1)
    return [Affine(ONE, -half_step), Clamp(ZERO, inf)]


DRAWS: dict[str, Callable[..., Tensor]] = {
    "bernoulli": _bernoulli,
    "exponential": _exponential,
    "multinomial": _multinomial,
    "rand": _uniform,
    "rand_like": _uniform,
    "randint": _integers,
    "randint_like": _integers,
    "randperm": _permutation,
    "uniform": _uniform,
}
