"""The algorithms of this package by name, and the one way in which all of them are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.counters import MARK, column
from draftproof.adapters.fast.inputs import InvalidRequest, flat_of
from draftproof.conformance.adapter import Result

FORMS = ("torch", "triton")
"""Operators of torch, on any device; or kernels of ours."""

_MANY = 8
"""The largest K of algorithms that take any number of drafts, and so the most lanes of coins."""


@dataclass(frozen=True)
class Text:
    """An algorithm of this package, and the drafts that it takes.

    A module has a function called `name`, here and in `kernels`.
    """

    name: str
    scheme: str = "iid"
    most_drafts: int = _MANY
    trees: bool = False
    widest: int = _MANY
    """The most siblings after one context."""
    numbers: int | None = None
    """How many random numbers a position needs, None for a coin for every path's token there."""
    draws: int = 0
    """How many numbers a row needs beside them."""
    module: str | None = None
    """The name of the module, None for the algorithm's."""
    is_stateful: bool = False
    """Whether an iteration leaves a state to the next."""
    waits: bool = False
    """Whether it waits for the device: how much is computed depends on the rows.

    Then neither is a call compiled without a break, nor captured in a graph."""
    forms: tuple[str, ...] = FORMS
    """Those of `FORMS` that it has."""

    @property
    def algorithm(self) -> str:
        """The name of the reference's algorithm, which takes siblings of any scheme."""
        return self.name.removesuffix("_without_replacement")

    def columns(self, drafts: int, length: int) -> list[int]:
        """Return the column of each number in [0, 1) that a row needs; see `counters`.

        Coins of a depth stand together; those for every path's token stand path by path. What is
        drawn once is before all of them, and behind them is the mark of the next token.
        """
        depths = range(length)
        if self.numbers is None:
            coins = [column(path, depth) for path in range(drafts) for depth in depths]
        else:
            coins = [column(lane, depth) for depth in depths for lane in range(self.numbers)]
        # Those of a row are of the first position, behind all lanes of coins.
        return [*(column(_MANY + n, 0) for n in range(self.draws)), *coins, MARK]

    def noise(self, drafts: int, length: int) -> int:
        """Return how many numbers in [0, 1) a row needs."""
        return len(self.columns(drafts, length))


_TEXTS = (
    Text("token", most_drafts=1, numbers=1),
    Text("block", most_drafts=1, numbers=1),
    Text("greedy_block", most_drafts=1, numbers=1, is_stateful=True),
    Text("recursive_rejection", trees=True),
    Text("recursive_rejection_without_replacement", "without_replacement", trees=True),
    Text("k_seq", trees=True),
    Text("spechub", "hub", trees=True, widest=2),
    Text("greedy_draft", "greedy", trees=True, numbers=2),
    Text("multipath_block", numbers=1, module="mixture"),
    # Each position needs two sorts of a row before the next one: no kernel is fast at that.
    Text("mixed_multipath_block", numbers=2, module="mixture", forms=("torch",)),
    Text("scored_multipath_block", numbers=1, draws=1, waits=True, forms=("torch",)),
    Text(
        "scored_greedy_block",
        numbers=1,
        draws=1,
        is_stateful=True,
        waits=True,
        forms=("torch",),
    ),
    Text("traversal", trees=True),
    Text("traversal_without_replacement", "without_replacement", trees=True),
    Text("recursive_greedy_block", module="greedy_block", is_stateful=True),
)

TEXTS = {text.name: text for text in _TEXTS}

KERNELS = tuple(text.name for text in _TEXTS if "triton" in text.forms)
"""The names of the algorithms that have kernels."""


def name_of(text: Text, form: str) -> str:
    """Return the name of the adapter of an algorithm in a form."""
    return f"{form}-{text.name.replace('_', '-')}"


def module(text: Text, form: str) -> str:
    """Return the name of the module that has an algorithm in a form."""
    folder = __package__ if form == "torch" else f"{__package__}.kernels"
    return f"{folder}.{text.module or text.algorithm}"


def check_widths(text: Text, widths: tuple[int, ...]) -> None:
    """Check that there are no more siblings than an algorithm takes. Raises `InvalidRequest`."""
    if max(widths, default=1) > text.widest:
        raise InvalidRequest(
            f"{text.name} takes at most {text.widest} siblings after a context, "
            f"got {max(widths)}; more paths must branch later"
        )


def verified(text: Text, form: str, batch: Batch, noise: Tensor) -> Result:
    """Verify a batch with numbers [B, W] in [0, 1), float64, as many as the algorithm needs.

    Raises `InvalidRequest` for more siblings than the algorithm takes.
    """
    check_widths(text, batch.widths[: batch.length])
    if form == "torch":
        found: Result = function(text, form)(batch, noise.contiguous())
        return found
    token_ids, accepted, path, _, *state = function(text, form)(flat_of(batch, noise.contiguous()))
    last = token_ids.gather(1, accepted[:, None])[:, 0].long()
    return Result(accepted, path, last, *state)


def function(text: Text, form: str) -> Callable[..., Any]:
    """Return an algorithm's function: of a `Batch` and noise in torch, of an `EngineBatch` else."""
    if (text.name, form) not in _FUNCTIONS:
        _FUNCTIONS[text.name, form] = _imported(text, form)
    return _FUNCTIONS[text.name, form]


def _imported(text: Text, form: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(module(text, form)), text.name)
    return found


# Operators are there at once: `torch.compile` cannot follow an import.
_FUNCTIONS = {(text.name, "torch"): _imported(text, "torch") for text in _TEXTS}
