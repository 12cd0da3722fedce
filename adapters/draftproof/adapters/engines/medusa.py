"""Medusa: the typical acceptance of its heads' drafts, as released."""

from __future__ import annotations

from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import OneTree, logits_of, trusting
from draftproof.adapters.engines.released import Wheel, files, imported
from draftproof.conformance.adapter import Request, Result

MEDUSA = Wheel(
    project="medusa-llm",
    version="0.1",
    name="medusa_llm-0.1-py3-none-any.whl",
    digest="e4a0f04dcc1cac018a103d32891dccf7055c92147e87ae051f92c34030da1ab3",
    members=("medusa/model/utils.py",),
)


class MedusaEvaluatePosterior(OneTree):
    """`evaluate_posterior` with the thresholds that are its package's default, at temperature 1.

    It keeps what is typical of the target, and the next token is the target's most probable one,
    with which its candidates begin: it is lossy by design. It takes one request, whose paths are
    the leaves of a tree, and draws no random numbers.
    """

    name = "medusa"
    version = MEDUSA.version
    algorithm = "typical_acceptance"
    scheme = "without_replacement"
    undefined: ClassVar = trusting("its own model", drafter="its own heads")

    def __init__(self) -> None:
        (self._module,) = imported("medusa.model.utils", releases=[MEDUSA], doubles={})
        self.files = files(__file__, MEDUSA)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        target = logits_of(request)[1][0]
        # Candidates begin with the token before the draft, whatever it is.
        best, accepted = self._module.evaluate_posterior(
            target,
            torch.nn.functional.pad(request.draft_tokens[0], (1, 0)),
            temperature=1.0,
            posterior_threshold=0.09,
            posterior_alpha=0.3,
        )
        # Without a head, the candidates of the next iteration are its first token alone.
        following, _ = self._module.generate_candidates(
            medusa_logits=target[:0],
            logits=target[None, best, accepted][None],
            medusa_topk=[],
            tree_indices=torch.zeros(1, dtype=torch.int64),
            temperature=1.0,
        )
        return Result(accepted_length=accepted[None], path=best[None], next_token=following)
