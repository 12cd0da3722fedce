"""AngelSlim: the rule that verifies EAGLE's tree of drafts in its benchmark, as released."""

from __future__ import annotations

import torch

from draftproof.adapters.engines import eagle
from draftproof.adapters.engines.eagle import TEMPERATURE, posterior
from draftproof.adapters.engines.layout import OneTree
from draftproof.adapters.engines.released import Release, files, imported, require_call
from draftproof.conformance.adapter import Request, Result


class AngelSlimEvaluatePosterior(OneTree):
    """`evaluate_posterior` at a temperature, which draws the last token itself.

    It is EAGLE's rule, which measures every sibling by q = 1: whatever distinct siblings were
    drafted, the law is that of drawing from the target first. The target's logits are such that its
    law at the temperature is the request's. Its coins, Python's, are torch's here.
    """

    name = "angelslim"
    algorithm = "target_first"
    scheme = "without_replacement"

    def __init__(self, *, release: Release) -> None:
        (self._module,) = imported(
            "angelslim.compressor.speculative.utils.util", releases=[release], doubles={}
        )
        given = ("logits", "candidates", "logits_processor")
        require_call(self._module.evaluate_posterior, *((name,) for name in given))
        self.version, self.files = release.version, files(__file__, eagle.__file__, release)
        self._processor = self._module.prepare_logits_processor(temperature=TEMPERATURE)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        best, accepted, last = posterior(self._module, self._processor, request)
        return Result(accepted_length=torch.tensor([accepted]), path=best[None], next_token=last[0])
