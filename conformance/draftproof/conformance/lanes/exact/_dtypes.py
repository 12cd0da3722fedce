"""Types of tensors: their effect on noise and on choices."""

from __future__ import annotations

from functools import cache

import torch

from draftproof.conformance.lanes._drawn import DIGITS
from draftproof.conformance.lanes.exact._choice import Choice
from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._noise import Noise
from draftproof.conformance.lanes.exact._steps import Nearly, Rounded
from draftproof.conformance.lanes.precise import is_infinite
from draftproof.reference.rational import Rational, exactly

# How the narrow floats round. Noise of wider ones is taken as ideal: its grid of 2**-24 is below
# every tolerance.
NARROW = {
    torch.float16: Rounded(DIGITS[torch.float16], -24, exactly(torch.finfo(torch.float16).max)),
    torch.bfloat16: Rounded(DIGITS[torch.bfloat16], -133, exactly(torch.finfo(torch.bfloat16).max)),
}

_NEARLY = {torch.float32: Nearly(24, -126), torch.float64: Nearly(53, -1022)}


def held(noise: Noise, dtype: torch.dtype) -> Noise:
    """Return noise as stored in a type: rounded, or unchanged if the type is taken as ideal."""
    if dtype in NARROW:
        return noise.then(NARROW[dtype])
    if dtype not in _NEARLY:
        raise NotUnderstood("makes noise a number of a type whose rounding is not known")
    least, most = _extent(dtype)
    for end in noise.likely:
        # A guarded logarithm may race, which counts what it is below the guard, and nothing else.
        is_infinity = is_infinite(end) and (noise.can_be(end) or noise.can_be_nan)
        if end != 0 and not is_infinity and not least <= abs(end) <= most:
            raise NotUnderstood(f"makes noise too large, or too small, for {dtype}")
    return noise.held(_NEARLY[dtype])


@cache
def _extent(dtype: torch.dtype) -> tuple[Rational, Rational]:
    """Return the smallest and the largest positive number of a type."""
    info = torch.finfo(dtype)
    return exactly(info.smallest_normal) * exactly(info.eps), exactly(info.max)


def is_held(choice: Choice, dtype: torch.dtype) -> bool:
    """Return whether a type represents every possible value of a choice exactly."""
    if dtype is torch.int64:
        return True
    known, within = _whole_numbers(dtype), choice.within
    return known.start <= within.start and within.stop <= known.stop


@cache
def _whole_numbers(dtype: torch.dtype) -> range:
    """Return the longest range around 0 of whole numbers that a type represents."""
    if dtype is torch.bool:
        return range(2)
    if dtype.is_floating_point or dtype.is_complex:
        most = round(2 / torch.finfo(dtype).eps)
        return range(-most, most + 1)
    info = torch.iinfo(dtype)
    return range(info.min, info.max + 1)
