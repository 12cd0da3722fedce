"""TensorRT-LLM: rejection sampling of its PyTorch backend, where a second model drafts.

https://github.com/NVIDIA/TensorRT-LLM, at a commit: its wheels are on NVIDIA's own index.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import (
    OneRequest,
    Unpinned,
    followed,
    logits_of,
    trusting,
)
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

_MODULE = "tensorrt_llm._torch.pyexecutor.sampling_utils"

TENSORRT_LLM = Commit(
    repository="NVIDIA/TensorRT-LLM",
    version="053c42c948a14cf3c21981179ecc10a7d7ad8fb6",
    digests={
        f"{_MODULE.replace('.', '/')}.py": (
            "b50e0ad4c2c730acd35ef9e752ecc48dcfa7d11e7db4b60535372da565a6b11d"
        )
    },
)


class TorchSampler(OneRequest):
    """`sample`, `get_rejected_indices` and `sample_rejected` at temperature 1.

    Rows and the bonus come from `sample`, and the rest of this method stands for
    `TorchSampler._process_draft_tokens_rejection_sampling`. One thing is replaced: host memory is
    not pinned, which needs a GPU.
    """

    name = "tensorrt-llm"
    version = TENSORRT_LLM.version[:10]
    algorithm = "token"
    undefined: ClassVar = trusting()

    def __init__(self) -> None:
        (self._module,) = imported(
            _MODULE,
            releases=[TENSORRT_LLM],
            doubles={"tensorrt_llm.bindings.executor": None, "tensorrt_llm.sampling_params": None},
        )
        self._module.torch = Unpinned()  # type: ignore[attr-defined]
        self.files = files(__file__, TENSORRT_LLM)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        path = request.draft_tokens[0, 0]
        source = request.generator or torch.default_generator
        q, p = (rows[0, 0] for rows in logits_of(request))
        warm = "temperature", 1.0
        _, draft_probs = self._module.sample(warm, q, generator=source)
        tokens, target_probs = self._module.sample(warm, p, generator=source)
        rejected = self._module.get_rejected_indices(
            draft_probs, target_probs, source, path.tolist()
        )
        accepted = len(path) if rejected.numel() == 0 else int(rejected[0].item())
        last = tokens[accepted:]
        if accepted < len(path):
            last = torch.tensor(
                [self._module.sample_rejected(draft_probs, target_probs, source, accepted)]
            )
        return followed(request, torch.cat((path[:accepted], last)), accepted)
