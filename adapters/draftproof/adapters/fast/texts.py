"""The algorithms of this package by name, and the one way in which all of them are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.inputs import InvalidRequest
from draftproof.conformance.adapter import Result

FORMS = ("torch", "triton")
"""Operators of torch, on any device; or kernels of ours."""

_MANY = 8
"""The largest K of algorithms that take any number of drafts."""


@dataclass(frozen=True)
class Text:
    """An algorithm of this package, and the drafts that it takes.

    The module of the algorithm's name has a function called `name`, here and in `kernels`.
    """

    name: str
    algorithm: str
    noise: Callable[[int, int], int]
    """From K and L to the numbers in [0, 1) that a row needs."""
    scheme: str = "iid"
    most_drafts: int = 1
    trees: bool = False
    widest: int = _MANY
    """The most siblings after one context."""


def _coin_and_mark(_: int, length: int) -> int:
    """Count a coin for every drafted token of one path, and the mark of the next token."""
    return length + 1


def _coins_and_mark(drafts: int, length: int) -> int:
    """Count a coin for every drafted token of every path, and the mark of the next token."""
    return drafts * length + 1


def _two_and_mark(_: int, length: int) -> int:
    """Count two numbers for every position, and the mark of the next token."""
    return 2 * length + 1


_TEXTS = (
    Text("token", "token", _coin_and_mark),
    Text("block", "block", _coin_and_mark),
    Text("greedy_block", "greedy_block", _coin_and_mark),
    Text("recursive_rejection", "recursive_rejection", _coins_and_mark, "iid", _MANY, trees=True),
    Text(
        "recursive_rejection_without_replacement",
        "recursive_rejection",
        _coins_and_mark,
        "without_replacement",
        _MANY,
        trees=True,
    ),
    Text("k_seq", "k_seq", _coins_and_mark, "iid", _MANY, trees=True),
    Text("spechub", "spechub", _coins_and_mark, "hub", _MANY, trees=True, widest=2),
    Text("greedy_draft", "greedy_draft", _two_and_mark, "greedy", _MANY, trees=True),
    Text("multipath_block", "multipath_block", _coin_and_mark, "iid", _MANY),
    Text("mixed_multipath_block", "mixed_multipath_block", _two_and_mark, "iid", _MANY),
    Text("traversal", "traversal", _coins_and_mark, "iid", _MANY, trees=True),
    Text(
        "traversal_without_replacement",
        "traversal",
        _coins_and_mark,
        "without_replacement",
        _MANY,
        trees=True,
    ),
    Text("recursive_greedy_block", "recursive_greedy_block", _coins_and_mark, "iid", _MANY),
)

TEXTS = {text.name: text for text in _TEXTS}


def name_of(text: Text, form: str) -> str:
    """Return the name of the adapter of an algorithm in a form."""
    return f"{form}-{text.name.replace('_', '-')}"


def module(text: Text, form: str) -> str:
    """Return the name of the module that has an algorithm in a form."""
    folder = __package__ if form == "torch" else f"{__package__}.kernels"
    return f"{folder}.{text.algorithm}"


def verified(text: Text, form: str, batch: Batch, noise: Tensor) -> Result:
    """Verify a batch with numbers [B, W] in [0, 1), float64, as many as the algorithm needs.

    Raises `InvalidRequest` for more siblings than the algorithm takes.
    """
    widest = max(batch.widths[: batch.length], default=1)
    if widest > text.widest:
        raise InvalidRequest(
            f"{text.name} takes at most {text.widest} siblings after a context, "
            f"got {widest}; more paths must branch later"
        )
    if (text.name, form) not in _FUNCTIONS:
        _FUNCTIONS[text.name, form] = _function(text, form)
    return _FUNCTIONS[text.name, form](batch, noise.contiguous())


def _function(text: Text, form: str) -> Callable[[Batch, Tensor], Result]:
    found: Callable[[Batch, Tensor], Result] = getattr(import_module(module(text, form)), text.name)
    return found


# Operators are there at once: `torch.compile` cannot follow an import.
_FUNCTIONS = {(text.name, "torch"): _function(text, "torch") for text in _TEXTS}
