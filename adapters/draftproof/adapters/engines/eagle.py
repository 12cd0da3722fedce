"""EAGLE: the rule that verifies its tree of drafts, before and after the bonus was mended.

https://github.com/SafeAILab/EAGLE.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneTree, logits_of
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

RELEASES = {
    version[:7]: Commit("SafeAILab/EAGLE", version, {"eagle/model/utils.py": digest})
    for version, digest in (
        (
            "08b3e5c48bf7f22c26590d9987574bd99fa5a7c6",
            "6be76a2ef25528c14cf50856d4c476bfb85783101dae1c2da1a085e690afe484",
        ),
        (
            "cb7e0841fe0c206c6ed74a197ad5e2a1f13f5a2b",
            "68dadf1977dd76624f87d0dc5ce9f840783ccaeb7554861f1206daa664367fe9",
        ),
    )
}
"""The releases, by their commits."""

TEMPERATURE = 0.5
"""The temperature at which it is asked: at 1, a bonus that is drawn without any would not show."""


class Coins:
    """What stands for the module `random`: its numbers are torch's, from one generator."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator

    def random(self) -> Tensor:
        """Return a number from [0, 1), as a tensor that says where it comes from."""
        return torch.rand((), generator=self._generator)


def posterior(
    module: ModuleType, processor: object, request: Request
) -> tuple[Tensor, int, Tensor]:
    """Return the best path, what `evaluate_posterior` accepts of it, and what it says follows.

    Its target's logits are such that its law at the temperature is the request's.
    """
    toss(module, request.generator)
    # Candidates begin with the token before the draft, whatever it is.
    best, accepted, last = module.evaluate_posterior(
        TEMPERATURE * logits_of(request)[1][0],
        torch.nn.functional.pad(request.draft_tokens[0], (1, 0)),
        processor,
    )
    return best, accepted, last


def toss(module: ModuleType, generator: torch.Generator | None) -> None:
    """Have a module toss torch's coins where it tosses Python's."""
    own: dict[str, Any] = {"random": Coins(generator)}
    vars(module).update(own)


class EagleEvaluatePosterior(OneTree):
    """`evaluate_posterior` at a temperature; the last token is torch's own draw, as after it.

    It measures every sibling by q = 1 and forgets those that it refused: whatever distinct siblings
    were drafted, the law is that of drawing from the target first. The target's logits are such
    that its law at the temperature is the request's. Its coins, Python's, are torch's here.
    """

    algorithm = "target_first"
    scheme = "without_replacement"

    def __init__(self, commit: str) -> None:
        release = RELEASES[commit]
        (self._module,) = imported("eagle.model.utils", releases=[release], doubles={})
        self.name, self.version = "eagle", release.version[:10]
        self.files = files(__file__, release)
        self._processor = self._module.prepare_logits_processor(temperature=TEMPERATURE)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        best, accepted, last = posterior(self._module, self._processor, request)
        return Result(
            accepted_length=torch.tensor([accepted]),
            path=best[None],
            next_token=torch.multinomial(last, 1, generator=request.generator),
        )
