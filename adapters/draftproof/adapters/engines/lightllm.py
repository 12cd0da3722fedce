"""LightLLM: the Triton kernel that compares drafts with the target's own tokens.

https://github.com/ModelTC/LightLLM.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import lengths_of, logits_of, trusting
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

_MODULE = "lightllm.common.basemodel.triton_kernel.mtp_utils"

LIGHTLLM = Commit(
    repository="ModelTC/LightLLM",
    version="87881ae7ca9aa774db744ad38df22c95d80c0eb0",
    digests={
        f"{_MODULE.replace('.', '/')}.py": (
            "1f79d43c94eb30141b5943f27f8eef0198d9ed3da3b39962ef855f936d8ec2cd"
        )
    },
)


class MtpVerify:
    """`mtp_verify`, to which its caller gives the target's tokens: torch's own draw here.

    It takes a batch, whose drafts may differ in length, of at most 15 tokens each.
    """

    name = "lightllm"
    version = LIGHTLLM.version[:10]
    algorithm = "target_first"
    logits = True
    ragged = True
    undefined: ClassVar = trusting(drafter="its own drafter")

    def __init__(self) -> None:
        (self._module,) = imported(_MODULE, releases=[LIGHTLLM], doubles={})
        self.files = files(__file__, LIGHTLLM)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        drafted, rows = request.draft_tokens[:, 0], logits_of(request)[1][:, 0]
        each, widths = torch.arange(len(drafted)), lengths_of(request) + 1
        is_there = torch.arange(rows.shape[1]) < widths[:, None]
        sampled = torch.multinomial(
            rows[is_there].softmax(-1), 1, generator=request.generator
        ).flatten()
        starts = widths.cumsum(0) - widths
        counted, _ = self._module.mtp_verify(
            # It begins with the token before the draft, whatever it is.
            req_to_next_token_ids=torch.nn.functional.pad(drafted, (1, 0)),
            b_req_mtp_start_loc=starts.int(),
            new_next_token_ids=sampled,
            b_req_idx=each.repeat_interleave(widths).int(),
        )
        # It counts the token behind those that agree.
        accepted = counted.long() - 1
        return Result(
            accepted_length=accepted,
            path=torch.zeros_like(accepted),
            next_token=sampled[starts + accepted],
        )
