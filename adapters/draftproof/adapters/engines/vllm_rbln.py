"""vLLM RBLN, for Rebellions' devices: its rejection sampler in torch, as released."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, ClassVar

from draftproof.adapters.engines import vllm
from draftproof.adapters.engines.released import (
    Release,
    files,
    imported,
    require_names,
)
from draftproof.conformance.adapter import Request, Result


class TorchRejectionSample:
    """`torch_rejection_sample`, and the bonus by vLLM's own race.

    It is what runs without the sampler that is compiled for the device. It takes probabilities of
    logits, and requests one after another, which may differ in length.
    """

    name = "vllm-rbln"
    algorithm = "token"
    logits = True
    ragged = True
    undefined: ClassVar = vllm.V1.undefined

    def __init__(self, release: Release) -> None:
        sampler, self._ops = imported(
            "vllm_rbln.v1.sample.rbln_rejection_sampler",
            "vllm.v1.sample.ops.topk_topp_sampler",
            releases=[release, vllm.VLLM],
            doubles={
                **vllm.doubles(),
                "rebel": None,
                "vllm_rbln.compilation": None,
                "vllm_rbln.envs": None,
                "vllm_rbln.logger": {"init_logger": logging.getLogger},
                "vllm_rbln.platform": None,
            },
        )
        require_names(sampler, "torch_rejection_sample")
        self._sampler: Any = SimpleNamespace(rejection_sample=sampler.torch_rejection_sample)
        self._takes_logits = vllm.takes_logits(self._sampler)
        self.version = release.version
        self.files = files(__file__, vllm.__file__, release, vllm.VLLM)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        return vllm.verified(request, self._sampler, self._ops, takes_logits=self._takes_logits)
