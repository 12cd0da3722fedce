"""SGLang: the Triton kernel that verifies a chain of drafts, by token or by block, as released."""

from __future__ import annotations

from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import trusting
from draftproof.adapters.engines.released import Release, Wheel, files, imported, require_call
from draftproof.conformance.adapter import Request, Result

SGLANG = Wheel(
    project="sglang",
    version="0.5.23",
    name="sglang-0.5.23-cp311-cp311-manylinux_2_34_x86_64.whl",
    digest="00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
    members=("sglang/kernels/ops/speculative/reject_sampling.py",),
)


_PLACES = (
    "sglang.kernels.ops.speculative.reject_sampling",
    "sglang.srt.speculative.reject_sampling",
)
"""Where the kernel is, and where it was."""


class Chain:
    """`chain_speculative_sampling_triton`, whose coins its caller draws.

    Slot 0 of a chain is the token before the draft, so a chain has L + 1 slots.
    """

    undefined: ClassVar = trusting(
        "its own softmax",
        drafter="its own drafter",
        logits=False,
        shape="a kernel does not see where its rows end",
    )

    _given = (
        *("predicts", "accept_index", "accept_token_num", "candidates", "retrive_index"),
        *("retrive_next_token", "retrive_next_sibling", "uniform_samples"),
        *("uniform_samples_for_final_sampling", "target_probs", "draft_probs"),
        *("threshold_single", "threshold_acc", "deterministic"),
    )

    def __init__(self, algorithm: str, release: Release = SGLANG) -> None:
        module = next((each for each in _PLACES if release.file_of(each)), _PLACES[0])
        (kernels,) = imported(module, releases=[release], doubles={})
        self.name, self.algorithm = f"sglang-{algorithm}", algorithm
        self.version, self.files = release.version, files(__file__, release)
        self._verify = kernels.chain_speculative_sampling_triton
        by_block = ("block_verification",) if algorithm == "block" else ()
        require_call(self._verify, keywords=(*self._given, *by_block))

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        drafted = request.draft_tokens[:, 0]
        count, length = drafted.shape
        slots = torch.arange(count * (length + 1)).view(count, -1)
        predicted = torch.full((slots.numel(),), -1, dtype=torch.int32)
        accepted_slots = torch.full(slots.shape, -1, dtype=torch.int32)
        accepted = torch.zeros(count, dtype=torch.int32)
        nothing = torch.full_like(slots, -1)
        self._verify(
            predicts=predicted,
            accept_index=accepted_slots,
            accept_token_num=accepted,
            candidates=torch.cat([torch.zeros_like(drafted[:, :1]), drafted], 1),
            retrive_index=slots,
            retrive_next_token=nothing,
            retrive_next_sibling=nothing,
            uniform_samples=torch.rand(slots.shape, generator=request.generator),
            uniform_samples_for_final_sampling=torch.rand(count, generator=request.generator),
            target_probs=request.target_probs[:, 0].contiguous(),
            draft_probs=request.draft_probs[:, 0].contiguous(),
            threshold_single=1.0,
            threshold_acc=1.0,
            deterministic=True,
            block_verification=self.algorithm == "block",
        )
        # What a slot predicts is the token behind it; accepted slots are the first ones of a chain.
        emitted = predicted.view(count, -1)
        depth = torch.arange(length)
        is_inside = depth < accepted[:, None]
        is_other = (emitted[:, :-1] != drafted) | (accepted_slots[:, 1:] != slots[:, 1:])
        return Result(
            accepted_length=accepted.long().masked_fill((is_other & is_inside).any(1), -1),
            path=torch.zeros(count, dtype=torch.int64),
            next_token=emitted.gather(1, accepted.long()[:, None])[:, 0].long(),
        )
