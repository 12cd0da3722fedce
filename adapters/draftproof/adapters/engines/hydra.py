"""Hydra: the typical acceptance of its heads' drafts.

https://github.com/zankner/Hydra.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import OneTree, logits_of, trusting
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

HYDRA = Commit(
    repository="zankner/Hydra",
    version="3f39fbd2c22552e788b62dfd29a12b07ad63abfe",
    digests={
        "hydra/model/hydra_heads/mlp_head.py": (
            "d64bd733bbdd7dc818901d6de61c65db9f185cbdccfd6fb55be4b79ec33b2b73"
        ),
        "hydra/model/utils.py": (
            "9cebfc05322573cefc266da9687891aee314df973a7a2901d8d1c557de10ef17"
        ),
    },
)


class HydraEvaluatePosterior(OneTree):
    """`evaluate_posterior` with the thresholds that are its model's default, at temperature 1.

    It keeps what is typical of the target. The next token is the first of the candidates that
    `proposal` of the default head makes next, the target's most probable one: it is lossy by
    design. The head embeds nothing and drafts nothing here. It takes one request, whose paths are
    the leaves of a tree, and draws no random numbers.
    """

    name = "hydra"
    version = HYDRA.version[:10]
    algorithm = "typical_acceptance"
    scheme = "without_replacement"
    undefined: ClassVar = trusting("its own model", drafter="its own heads")

    def __init__(self) -> None:
        self._module, heads = imported(
            "hydra.model.utils", "hydra.model.hydra_heads.mlp_head", releases=[HYDRA], doubles={}
        )
        self._head = heads.HydraMLP
        self.files = files(__file__, HYDRA)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        target, paths = logits_of(request)[1][0], request.draft_tokens[0]
        # Candidates begin with the token before the draft, whatever it is.
        best, accepted = self._module.evaluate_posterior(
            target,
            torch.nn.functional.pad(paths, (1, 0)),
            temperature=1.0,
            posterior_threshold=0.09,
            posterior_alpha=0.3,
            # All paths are as long as the tree is deep.
            max_accepts=torch.full(paths.shape[:1], paths.shape[1]),
        )
        kept = slice(int(accepted) + 1)
        following, _ = self._head._grounded_proposal(
            SimpleNamespace(input_embed_fn=lambda tokens: tokens[:, None]),
            target[None, best, kept],
            torch.zeros_like(target[None, best, kept]),
            # Without a head, the candidates of the next iteration are its first token alone.
            {
                "children_per_head": [],
                "children_to_expand_per_head": [],
                "retrieve_indices": torch.zeros(1, dtype=torch.int64),
            },
        )
        return Result(accepted_length=accepted[None], path=best[None], next_token=following)
