"""The fast verifiers as adapters: what is judged is the call that an engine makes."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.drafting import draft
from draftproof.adapters.fast.engine import verify
from draftproof.adapters.fast.inputs import DTYPES, checked, flattened
from draftproof.adapters.fast.texts import TEXTS, module, name_of, verified
from draftproof.conformance.adapter import (
    INVALID_INPUTS,
    DraftRequest,
    DraftResult,
    Request,
    Result,
)

_DRAFTING = {"torch": (), "triton": (f"{__package__}.kernels.drafting",)}
"""The modules that are imported by name."""


class FastVerifier:
    """An algorithm in one of its `FORMS`, as an adapter.

    It asks `engine.verify`, so that the law that is judged is the one that users get. Input is
    checked before, unless `checked` is False, as in an engine that has made its rows itself.
    """

    version = version("draftproof")
    dtypes = DTYPES
    arithmetic = "float32"
    at_once = 4096
    ragged = True

    def __init__(self, name: str, *, form: str = "torch", checked: bool = True) -> None:
        self._text = TEXTS[name]
        self._form, self._checked = form, checked
        self.name = name_of(self._text, form)
        self.algorithm = self._text.algorithm
        self.scheme = self._text.scheme
        self.max_drafts = self._text.most_drafts
        self.trees = self._text.trees
        if not checked:
            self.undefined = dict.fromkeys(INVALID_INPUTS, "rows are not read to be checked")
        # The lane that sees kernels through their noise follows one generator for all rows.
        self.generators = form == "torch"
        self.device = "cpu"
        if form == "triton":
            self.same_as = name_of(self._text, "torch")
            self.device = (
                "cpu" if import_module(f"{__package__}.kernels").IS_INTERPRETED else "cuda"
            )

    def verify(self, request: Request) -> Result:
        """Verify B rows of K paths. Raises `InvalidRequest`."""
        checked(request, most_drafts=self.max_drafts, rows=self._checked)
        emitted = verify(self._text.name, form=self._form, **flattened(request))
        last = emitted.token_ids.gather(1, emitted.accepted[:, None])[:, 0]
        return Result(emitted.accepted, emitted.path, last.long(), emitted.state)

    def draft(self, request: DraftRequest) -> DraftResult:
        """Draft B rows of K paths by the verifier's scheme. Raises `NotEnoughTokens`."""
        return draft(request, scheme=self.scheme, form=self._form)

    @property
    def files(self) -> list[Path]:
        """The files that it is made of."""
        return files_of(__name__, module(self._text, self._form), *_DRAFTING[self._form])

    def of(self, batch: Batch, noise: Tensor) -> Result:
        """Verify a batch with numbers [B, W] in [0, 1), float64, as many as the algorithm needs.

        Raises `InvalidRequest` for more siblings than the algorithm takes.
        """
        return verified(self._text, self._form, batch, noise)


def files_of(*modules: str) -> list[Path]:
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
