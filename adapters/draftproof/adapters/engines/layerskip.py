"""LayerSkip: the self-speculative decoding of its repository.

arXiv 2404.16710, https://github.com/facebookresearch/LayerSkip.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of, trusting
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

LAYERSKIP = Commit(
    repository="facebookresearch/LayerSkip",
    version="f42c66965545747d42e27d4beab86b5c17956566",
    digests={
        "self_speculation/generator_base.py": (
            "244739e331b8432bb4f44c696596ae7589ab810d06455771d5c2458b62c06287"
        ),
        "self_speculation/llama_model_utils.py": (
            "5eb454b12b4c99f97b94acdcff0b52c38eeb9d1ce986e10e2b4658e9bc479da2"
        ),
        "self_speculation/self_speculation_generator.py": (
            "76683547ff739c2ab5bce5cacb2a68aaa21ae6f5b1501f400859720aaaa346bd"
        ),
    },
)


class SingleStepSpeculation(OneRequest):
    """`single_step_speculation` at temperature 1, without top-k and top-p.

    Three things are replaced: `forward_early` and `forward_remainder`, by what says the request's
    rows, and the draws of the drafts, by the request's drafts. It takes one request, and draws from
    the default generator alone.
    """

    name = "layerskip"
    version = LAYERSKIP.version[:10]
    algorithm = "token"
    undefined: ClassVar = trusting(drafter="its own model")

    def __init__(self) -> None:
        self._own, self._models = imported(
            "self_speculation.self_speculation_generator",
            "self_speculation.llama_model_utils",
            releases=[LAYERSKIP],
            doubles={"colorama": None, "self_speculation.speculative_streamer": None},
        )
        self._step = self._own.SelfSpeculativeGenerationStrategy.single_step_speculation
        # Its top-p, which leaves all tokens here, is of transformers.
        warpers = self._models.transformers.generation.logits_process
        self.files = [*files(__file__, LAYERSKIP), Path(warpers.__file__)]

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        q, p = (rows[0] for rows in logits_of(request))
        path = request.draft_tokens[0, 0]
        rows, said = iter(q.unbind(1)), self._models.ForwardResult
        own: dict[str, Any] = {
            "forward_early": lambda *_: said(next(rows)[:, None], ()),
            "forward_remainder": lambda *_: said(p, ()),
        }
        vars(self._own).update(own)
        vars(self._models).update(torch=_Drafting(iter(path)))
        _, emitted, _, accepted, _ = self._step(
            None,
            model=None,
            # The token before the draft, whatever it is.
            input_ids=torch.zeros(1, 1, dtype=torch.int64),
            input_ids_list=[0],
            output_ids=[],
            num_speculations=len(path),
            past_key_values=(),
            eos_token_ids=[],
            calls=0,
            exit_layer=0,
            sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
        )
        return followed(request, torch.tensor(emitted), accepted)


class _Drafting:
    """The module torch, whose first draws are the drafts."""

    def __init__(self, drafts: Iterator[Tensor]) -> None:
        self._drafts = drafts

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def multinomial(self, rows: Tensor, num_samples: int) -> Tensor:
        """Return the next draft [1, 1], or a draw from each row behind the last."""
        drafted = next(self._drafts, None)
        return torch.multinomial(rows, num_samples) if drafted is None else drafted.view(1, 1)
