"""The fast verifiers as adapters: one algorithm, in torch or in Triton, behind one call."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from torch import Tensor

from draftproof.adapters.fast.batch import Batch, uniforms
from draftproof.adapters.fast.drafting import draft
from draftproof.adapters.fast.inputs import DTYPES, InvalidRequest, from_request
from draftproof.conformance.adapter import (
    INVALID_INPUTS,
    DraftRequest,
    DraftResult,
    Request,
    Result,
)

FORMS = ("torch", "triton")
"""Operators of torch, on any device; or kernels of ours."""

_DRAFTING = {"torch": (), "triton": (f"{__package__}.kernels.drafting",)}
"""The modules that are imported by name."""

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


class FastVerifier:
    """An algorithm in one of its `FORMS`, as an adapter.

    Input is checked unless `checked` is False, as in an engine that has made its rows itself.
    """

    version = version("draftproof")
    dtypes = DTYPES
    at_once = 4096
    ragged = True

    def __init__(self, name: str, *, form: str = "torch", checked: bool = True) -> None:
        self._text = TEXTS[name]
        self._form, self._checked = form, checked
        self.name = f"{form}-{name.replace('_', '-')}"
        self.algorithm = self._text.algorithm
        self.scheme = self._text.scheme
        self.max_drafts = self._text.most_drafts
        self.trees = self._text.trees
        self._verify: Callable[[Batch, Tensor], Result] = getattr(import_module(self._module), name)
        if not checked:
            self.undefined = dict.fromkeys(INVALID_INPUTS, "rows are not read to be checked")
        self.device = "cpu"
        if form == "triton":
            self.same_as = f"torch-{name.replace('_', '-')}"
            self.device = (
                "cpu" if import_module(f"{__package__}.kernels").IS_INTERPRETED else "cuda"
            )

    def verify(self, request: Request) -> Result:
        """Verify B rows of K paths. Raises `InvalidRequest`."""
        batch = from_request(request, most_drafts=self.max_drafts, checked=self._checked)
        width = self._text.noise(batch.drafts, batch.length)
        noise = uniforms(len(batch.lengths), width, request.generator, batch.tokens.device)
        return self.of(batch, noise)

    def draft(self, request: DraftRequest) -> DraftResult:
        """Draft B rows of K paths by the verifier's scheme. Raises `NotEnoughTokens`."""
        return draft(request, scheme=self.scheme, form=self._form)

    @property
    def files(self) -> list[Path]:
        """The files that it is made of."""
        return _files(__name__, self._module, *_DRAFTING[self._form])

    @property
    def _module(self) -> str:
        folder = __package__ if self._form == "torch" else f"{__package__}.kernels"
        return f"{folder}.{self._text.algorithm}"

    def of(self, batch: Batch, noise: Tensor) -> Result:
        """Verify a batch with numbers [B, W] in [0, 1), float64, as many as the algorithm needs.

        Raises `InvalidRequest` for more siblings than the algorithm takes.
        """
        widest = max(batch.widths[: batch.length], default=1)
        if widest > self._text.widest:
            raise InvalidRequest(
                f"{self._text.name} takes at most {self._text.widest} siblings after a context, "
                f"got {widest}; more paths must branch later"
            )
        return self._verify(batch, noise)


def _files(*modules: str) -> list[Path]:
    """Return the files of modules of this package, and of all that they import of it."""
    package, found = str(__package__), dict[str, Path]()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        place = Path(__file__).parent.joinpath(*name.removeprefix(package).split("."))
        found[name] = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        imported = ast.walk(ast.parse(found[name].read_text()))
        names = {node.module for node in imported if isinstance(node, ast.ImportFrom)}
        waiting += [each for each in names if each and each.startswith(package)]
        waiting = [each for each in waiting if each not in found]
    return [found[name] for name in sorted(found)]
