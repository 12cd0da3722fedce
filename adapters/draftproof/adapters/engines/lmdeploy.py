"""LMDeploy: rejection sampling of its backends, in torch and in Triton, as released."""

from __future__ import annotations

from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import logits_of, read, trusting
from draftproof.adapters.engines.released import Release, Wheel, files, imported, require_call
from draftproof.conformance.adapter import Request, Result

LMDEPLOY = Wheel(
    project="lmdeploy",
    version="0.18.0",
    name="lmdeploy-0.18.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    digest="e6790a25dcdb0345c160567fdf2ac604fec319389523a8b806834c9d92c8ffe1",
    members=(
        "lmdeploy/pytorch/backends/cuda/rejection_sampling.py",
        "lmdeploy/pytorch/backends/default/rejection_sampling.py",
        "lmdeploy/pytorch/backends/rejection_sampling.py",
        "lmdeploy/pytorch/kernels/cuda/rejection_sampling.py",
    ),
)

_BACKENDS = {"default": "DefaultRejectionSamplingImpl", "cuda": "CudaRejectionSamplingImpl"}


class _BuildSpec:
    """What a specification of an operator derives from."""

    def __class_getitem__(cls, _: object) -> type:
        return cls


class RejectionSampling:
    """The rejection sampling of a backend, "default" or "cuda"; the bonus is torch's own draw.

    It takes the target's logits and the draft's probabilities, in blocks of one length, and draws
    from the default generator alone.
    """

    algorithm = "token"
    logits = True
    undefined: ClassVar = trusting(
        drafter="its own drafter", logits=False, shape="shapes are asserted in its caller alone"
    )

    def __init__(self, backend: str = "default", release: Release = LMDEPLOY) -> None:
        (module,) = imported(
            f"lmdeploy.pytorch.backends.{backend}.rejection_sampling",
            releases=[release],
            doubles={"lmdeploy.pytorch.backends.base": {"BuildSpec": _BuildSpec}},
        )
        self.name = f"lmdeploy-{backend}"
        self.version, self.files = release.version, files(__file__, release)
        self._sampling = getattr(module, _BACKENDS[backend])()
        given = ("target_logits", "draft_token_ids", "bonus_token_ids")
        require_call(
            self._sampling.forward,
            *((name,) for name in given),
            keywords=("is_greedy", "draft_probs"),
        )

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        target = logits_of(request)[1][:, 0]
        bonus = torch.multinomial(request.target_probs[:, 0, -1], 1, generator=request.generator)
        emitted, rejected, last = self._sampling.forward(
            target[:, :-1].contiguous(),
            request.draft_tokens[:, 0],
            bonus[:, 0],
            is_greedy=None,
            draft_probs=request.draft_probs[:, 0].contiguous(),
        )
        found = read(request, emitted)
        # It says itself what came last and how many drafts did not, as the next pass is told.
        length = request.draft_tokens.shape[-1]
        is_other = (last != found.next_token) | (rejected != length - found.accepted_length)
        return Result(found.accepted_length.masked_fill(is_other, -1), found.path, found.next_token)
