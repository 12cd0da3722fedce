"""Multi-candidate speculative decoding: the rules of its authors' code, in the loop that uses them.

arXiv 2401.06706, https://github.com/NJUNLP/MCSD.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import logits_of
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

MCSD = Commit(
    repository="NJUNLP/MCSD",
    version="8aadd6501a9e987ba5fca6cc8f9ad5949e480ec7",
    digests=(
        (
            "MCSD/inference/strategies.py",
            "31cd5544b49c0776e910ee9590be25760b8a67b77eae91256d67df833638762b",
        ),
    ),
)

RULES = {
    # Of a token that is drafted twice it knows but what was drawn below the copy that it keeps.
    "with-replacement": ("_MCSSwReplacement", "recursive_rejection_of_copies", "iid"),
    "without-replacement": ("_MCSSwoReplacement", "recursive_rejection", "without_replacement"),
}
"""The rules: the function's name, the algorithm that it claims, and how its siblings are drawn."""


class Strategy:
    """`BatchStrategy.verify` with one of its rules, and models that say what the request says.

    It takes one request, whose paths are the leaves of a tree.
    """

    version = MCSD.version[:10]
    batch = False
    logits = True
    trees = True
    max_drafts = 8
    undefined: ClassVar = {
        "nan": "rows come from its own models and are trusted",
        "negative": "it takes logits, which have no negative probabilities",
        "unnormalised": "it takes logits, which need no normalisation",
        "shape": "rows come from its own models and are trusted",
        "token": "drafted tokens come from its own models and are trusted",
    }

    def __init__(self, rule: str) -> None:
        (module,) = imported("MCSD.inference.strategies", releases=[MCSD], doubles={})
        function, self.algorithm, self.scheme = RULES[rule]
        self.name = f"mcsd-{rule}"
        self.files = [Path(__file__), *files(MCSD)]
        self._verify = module.BatchStrategy.verify
        self._check = getattr(module, function)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        paths = request.draft_tokens[0]
        leaves, length = paths.shape
        widths = request.branching or (leaves, *[1] * (length - 1))
        below = [prod(widths[depth + 1 :]) for depth in range(length)]
        strategy = SimpleNamespace(
            acceptance_check=self._check,
            k_config=widths,
            max_draft_len=length,
            reversed_prod_size=below,
            target_model=_McsdSaid(logits_of(request)[1][0]),
            target_model_device="cpu",
            target_model_temp=1,
        )
        # It gives away what it is told of the draft, and changes it.
        rows = [
            request.draft_probs[0, :: below[depth] * widths[depth], depth].clone()
            for depth in range(length)
        ]
        found = self._verify(strategy, paths, None, [], rows)
        emitted = found.sequences[0]
        accepted = found.acceptance_count
        is_here = (paths[:, :accepted] == emitted[:accepted]).all(1)
        is_whole = is_here.any() & (len(emitted) == accepted + 1)
        return Result(
            accepted_length=torch.tensor([accepted if is_whole else -1]),
            path=is_here.long().argmax()[None],
            next_token=emitted[-1:],
        )


class _McsdSaid:
    """A target model that has said its rows [K, L+1, V] already."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows

    def model(self, **_: object) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self._rows, past_key_values=())

    def lm_head(self, rows: Tensor) -> Tensor:
        return rows
