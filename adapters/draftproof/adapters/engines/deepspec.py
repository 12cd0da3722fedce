"""DeepSpec: the verification of its evaluator, the same for all of its drafters.

https://github.com/deepseek-ai/DeepSpec.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of, trusting
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

DEEPSPEC = Commit(
    repository="deepseek-ai/DeepSpec",
    version="afdfa7c9382a3341a3e6f17756dd816da79f132c",
    digests={
        "deepspec/eval/base_evaluator.py": (
            "137098951c15816f79c0ba433132709fabbda5ac2bf081e20461fc08ad753977"
        ),
        "deepspec/utils/sampling.py": (
            "8f8ff58387e70526452672372628d1b2fbacb778a89f1a46abc9e2b7639d215a"
        ),
    },
)


class VerifyDraftTokens(OneRequest):
    """`verify_draft_tokens` at temperature 1, with a target model that says the request's rows.

    It takes one request, the target's logits and the draft's probabilities, and draws from the
    default generator alone.
    """

    name = "deepspec"
    version = DEEPSPEC.version[:10]
    algorithm = "token"
    undefined: ClassVar = trusting(
        drafter="its own drafter",
        logits=False,
        shape="of the rows' shapes it checks the vocabulary's size alone",
    )

    def __init__(self) -> None:
        (self._module,) = imported(
            "deepspec.eval.base_evaluator",
            releases=[DEEPSPEC],
            doubles={"deepspec.data.parser": None, "deepspec.utils": None, "transformers": None},
        )
        self.files = files(__file__, DEEPSPEC)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        drafted = request.draft_tokens[0]
        length = drafted.shape[-1]
        said = SimpleNamespace(logits=logits_of(request)[1][0])
        proposal = self._module.DraftProposal(
            draft_token_count=length,
            # It begins with the token before the draft, whatever it is.
            verify_input_ids=torch.nn.functional.pad(drafted, (1, 0)),
            draft_probs=request.draft_probs[0],
        )
        found = self._module.verify_draft_tokens(
            target_model=lambda **_: said,
            proposal=proposal,
            position_ids=torch.arange(length + 1)[None],
            start=0,
            past_key_values_target=None,
            temperature=1.0,
            max_proposal_tokens=length,
        )
        return followed(request, found.committed_tokens[0], found.accepted_draft_tokens)
