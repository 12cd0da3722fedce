"""DFlash: the rejection sampling of its drafts, by rows and by candidates, as released."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, trusting
from draftproof.adapters.engines.released import Release, files, function_of, require_call
from draftproof.conformance.adapter import Request, Result

_PLACE = "dflash.model"
_GIVEN = ("draft_tokens", "target_probs", "draft_probs", "draft_indices")


class RejectionSample(OneRequest):
    """`_rejection_sample`, which takes the draft's rows, or, of DFlash 2, those of its candidates.

    It is taken out of its module, which imports transformers. For `candidates` the draft's rows are
    given as the probabilities of listed tokens, which are all of them here, the last one first. It
    takes one request, and draws from the default generator alone.
    """

    algorithm = "token"
    logits = False
    undefined: ClassVar = trusting(
        "its own softmax",
        drafter="its own drafter",
        logits=False,
        shape="rows come from its own models and are trusted",
    )

    def __init__(self, rows: str, *, release: Release) -> None:
        drawn = function_of(release, _PLACE, "_sample_probs", {"torch": torch})
        own = {"torch": torch, "_sample_probs": drawn}
        self._verify = function_of(release, _PLACE, "_rejection_sample", own)
        require_call(self._verify, *((name,) for name in _GIVEN))
        self._has_candidates = rows == "candidates"
        self.name = f"dflash-{rows}"
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        drafted, q = request.draft_tokens[:, 0], request.draft_probs[:, 0]
        listed: Tensor | None = None
        if self._has_candidates:
            q = q.flip(-1)
            listed = torch.arange(q.shape[-1]).flip(0).expand(q.shape)
        accepted, last = self._verify(drafted, request.target_probs[:, 0], q, listed)
        return followed(request, torch.cat([drafted[0, :accepted], last[None]]), accepted)
