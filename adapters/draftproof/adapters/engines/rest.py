"""REST: the rule that verifies what it retrieves, and the next token after it.

https://github.com/FasterDecoding/REST.
"""

from __future__ import annotations

import torch

from draftproof.adapters.engines.layout import OneTree, logits_of
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

REST = Commit(
    repository="FasterDecoding/REST",
    version="50a5fc197382ed8df5b3e946dad2f8337511b541",
    digests={
        "rest/model/utils.py": "4b149fe61f9b729d304b381c954bb645544c51acc864a6e96d85b2d1b2170af1"
    },
)

TOP_P = 1 - 2**-53
"""It takes no top-p of 1: this is the next smaller number, which cuts nothing but rounding."""


class Posterior(OneTree):
    """`evaluate_posterior` at temperature 1; the next token is the first of its next candidates.

    `evaluations` draw that token, as its scripts for benchmarks do; `chat` takes the most probable
    one, as `rest_generate` does. Its module draftretriever, which retrieves drafts, is a double. It
    takes one request, whose paths are the leaves of a tree, and draws from the default generator
    alone.
    """

    version = REST.version[:10]
    algorithm = "target_first"
    scheme = "without_replacement"

    def __init__(self, caller: str) -> None:
        (self._module,) = imported(
            "rest.model.utils", releases=[REST], doubles={"draftretriever": None}
        )
        self.name = f"rest-{caller}"
        self._following = {"evaluations": {"top_p": TOP_P, "temperature": 1.0}, "chat": {}}[caller]
        self.files = files(__file__, REST)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        target = logits_of(request)[1][0]
        # Candidates begin with the token before the draft, whatever it is.
        best, accepted = self._module.evaluate_posterior(
            target, torch.nn.functional.pad(request.draft_tokens[0], (1, 0)), 1.0, TOP_P
        )
        # Nothing is retrieved: behind the token that is drawn there is but a guess.
        candidates, _, _ = self._module.generate_candidates_and_draft_buffer(
            target[None, best, accepted][None],
            torch.tensor([[0]]),
            None,
            [],
            device="cpu",
            **self._following,
        )
        return Result(accepted_length=accepted[None], path=best[None], next_token=candidates[0, :1])
