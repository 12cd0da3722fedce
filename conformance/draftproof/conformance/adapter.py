"""The adapter protocol: what an implementation is asked, and what it answers.

An adapter is any object with a `name`, a `version`, an `algorithm` and a `verify`; nothing of
ours need be imported to write one. These names are public and stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Request:
    """B rows to verify, each with K drafted paths of L tokens over V tokens."""

    draft_tokens: Tensor
    """[B, K, L] int64: the drafted paths."""
    draft_probs: Tensor
    """[B, K, L, V]: the draft's row at each node along each path."""
    target_probs: Tensor
    """[B, K, L+1, V]: the target's rows, the last one for the bonus."""
    generator: torch.Generator | None = None
    """The generator to draw from, None for the global one."""


@dataclass(frozen=True)
class Result:
    """What was emitted for each of the B rows."""

    accepted_length: Tensor
    """[B]: 0..L, the next token not counted."""
    path: Tensor
    """[B]: which of the K paths the accepted prefix lies on."""
    next_token: Tensor
    """[B]: the correction or the bonus."""


@runtime_checkable
class Adapter(Protocol):
    """A verifier under test.

    Optional attributes:

    * `dtype` (default float32): the dtype of the rows that it is given, and of the arithmetic that
      it owes; a torch dtype or its name;
    * `device` (default "cpu");
    * `max_drafts` (default 1): the largest K that it takes;
    * `batch` (default True): False if it takes one row at a time, B = 1;
    * `logits` (default False): True if it turns the rows into logits (their logarithms) first;
    * `undefined` (default none): the kinds of invalid input on which its behaviour is undefined
      ("nan", "negative", "unnormalised", "shape", "token"), each with the reason.
    """

    name: str
    version: str
    algorithm: str

    def verify(self, request: Request) -> Result:
        """Verify B rows of drafts."""


class InvalidAdapter(TypeError):
    """An object does not follow the adapter protocol; the message says in what."""


@dataclass(frozen=True)
class Declaration:
    """What an adapter declares about itself, defaults filled in."""

    name: str
    version: str
    algorithm: str
    dtype: str
    device: str
    max_drafts: int
    batch: bool
    logits: bool
    undefined: Mapping[str, str]


INVALID_INPUTS = ("nan", "negative", "unnormalised", "shape", "token")
"""The kinds of invalid input, in the order in which they are tried."""

DTYPES = ("float64", "float32", "float16", "bfloat16")
"""The dtypes in which rows can be given."""


def declaration(adapter: Any) -> Declaration:
    """Return what the adapter declares. Raises `InvalidAdapter`."""
    for attribute in ("name", "version", "algorithm"):
        value = getattr(adapter, attribute, None)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise InvalidAdapter(
                f"an adapter needs {attribute!r}, a non-empty printable string; "
                f"{type(adapter).__name__}.{attribute} is {value!r}"
            )
    if not callable(getattr(adapter, "verify", None)):
        raise InvalidAdapter(
            f"an adapter needs a method verify(request); {type(adapter).__name__} has none"
        )
    declared = Declaration(
        name=adapter.name,
        version=adapter.version,
        algorithm=adapter.algorithm,
        dtype=str(getattr(adapter, "dtype", "float32")).removeprefix("torch."),
        device=str(getattr(adapter, "device", "cpu")),
        max_drafts=getattr(adapter, "max_drafts", 1),
        batch=getattr(adapter, "batch", True),
        logits=getattr(adapter, "logits", False),
        undefined=_undefined(adapter),
    )
    if declared.dtype not in DTYPES:
        raise InvalidAdapter(f"'dtype' must be one of {', '.join(DTYPES)}, got {declared.dtype!r}")
    if type(declared.max_drafts) is not int or declared.max_drafts < 1:
        raise InvalidAdapter(f"'max_drafts' must be a positive int, got {declared.max_drafts!r}")
    for attribute in ("batch", "logits"):
        if type(getattr(declared, attribute)) is not bool:
            raise InvalidAdapter(f"{attribute!r} must be True or False")
    return declared


def _undefined(adapter: Any) -> Mapping[str, str]:
    declared = getattr(adapter, "undefined", {})
    if not isinstance(declared, Mapping) or set(declared) - set(INVALID_INPUTS):
        raise InvalidAdapter(
            f"'undefined' must map kinds of invalid input ({', '.join(INVALID_INPUTS)}) to "
            f"reasons, got {declared!r}"
        )
    return declared
