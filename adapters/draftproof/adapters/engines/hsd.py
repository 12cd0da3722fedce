"""HSD: hierarchical speculative decoding, in its fork of transformers and in its fork of EAGLE.

https://github.com/ZhouYuxuanYX/Hierarchical-Speculative-Decoding.
"""

from __future__ import annotations

import torch

from draftproof.adapters.engines.eagle import TEMPERATURE
from draftproof.adapters.engines.layout import OneRequest, OneTree, followed, logits_of
from draftproof.adapters.engines.released import Commit, files, function_of, imported
from draftproof.conformance.adapter import Request, Result

_REPOSITORY = "ZhouYuxuanYX/Hierarchical-Speculative-Decoding"

# Later commits have a file that Python does not read.
TRANSFORMERS = Commit(
    _REPOSITORY,
    "f3adf7f13e43011d49c29a9ce9d7ad79a1296343",
    {
        "transformers/generation/utils.py": (
            "087cf84329c13b6eb3d52bd6bc6f164cd4fc1798f0a390bd5a06862ad2950a71"
        )
    },
)

EAGLE = Commit(
    _REPOSITORY,
    "b8575e2ad42bcf2b32d0c6f3481eb49099453f33",
    {
        "EAGLE-3H/eagle/model/utils.py": (
            "069012fd57b0acc41ea116168469ce42ff324d9e05abccef9a18c055f3f18c26"
        )
    },
)

_MODES: dict[str, dict[str, bool]] = {
    "token": {},
    "block": {"blockwise": True},
    "hierarchical": {"backward": True, "clever": True},
}
"""How each rule is asked for, as `_assisted_decoding` does."""


class HierarchicalSampling(OneRequest):
    """`_speculative_sampling` with one of its rules, and with a text that nothing ends.

    The function is taken out of its module, which is a whole fork of transformers. It takes one
    request, and draws from the default generator alone.
    """

    version = TRANSFORMERS.version[:10]

    def __init__(self, rule: str) -> None:
        self.name, self.algorithm = f"hsd-{rule}", rule
        self._mode = _MODES[rule]
        self._verify = function_of(
            TRANSFORMERS,
            "transformers.generation.utils",
            "_speculative_sampling",
            {"torch": torch, "F": torch.nn.functional},
        )
        self.files = files(__file__, TRANSFORMERS)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        q, p = (rows[0] for rows in logits_of(request))
        path = request.draft_tokens[0]
        emitted, accepted, *_ = self._verify(
            # They begin with the token before the draft, whatever it is.
            torch.nn.functional.pad(path, (1, 0)),
            q,
            path.shape[-1],
            p,
            torch.tensor([False]),
            stop=lambda *_, **__: False,
            **self._mode,
        )
        return followed(request, emitted[0], int(accepted))


class HierarchicalPosterior(OneTree):
    """`evaluate_posterior` with `hsd`; the last token is torch's own draw, as after it.

    Drafts count as certain: whatever distinct siblings were drafted, the law is that of drawing
    from the target first. The target's logits are such that its law at the temperature is the
    request's. It takes one request, and draws from the default generator alone.
    """

    name = "hsd-tree"
    version = EAGLE.version[:10]
    algorithm = "target_first"
    scheme = "without_replacement"

    def __init__(self) -> None:
        (self._module,) = imported("EAGLE-3H.eagle.model.utils", releases=[EAGLE], doubles={})
        # As its `eagenerate` has it, without top-k.
        self._processor = self._module.prepare_logits_processor(temperature=TEMPERATURE, top_k=0)
        self.files = files(__file__, EAGLE)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        best, accepted, last = self._module.evaluate_posterior(
            TEMPERATURE * logits_of(request)[1][0],
            torch.nn.functional.pad(request.draft_tokens[0], (1, 0)),
            self._processor,
            hsd=True,
        )
        return Result(
            accepted_length=torch.tensor([accepted]),
            path=torch.tensor([best]),
            next_token=torch.multinomial(last, 1),
        )
