"""Speculative_decoding_OT: the rules of SpecHub's authors, on the trees of their copy of EAGLE.

arXiv 2411.05289, https://github.com/MasterGodzilla/Speculative_decoding_OT.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines import eagle
from draftproof.adapters.engines.layout import OneTree, logits_of
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

OT = Commit(
    repository="MasterGodzilla/Speculative_decoding_OT",
    version="7d592b70e954bb1fb48516a5628f9c3439645464",
    digests={
        "EAGLE/eagle/model/utils.py": (
            "bd15bf1af59d99b19409349e71abb53ccd7b1c80338a6085ffa66584006363ee"
        )
    },
)

MODES = {
    "RRS": ("recursive_rejection", "iid"),
    "RRS_wo_replacement": ("recursive_rejection", "without_replacement"),
    "spechub": ("spechub", "hub"),
}
"""The modes: the algorithm that each claims, and how its siblings are drawn."""


class OptimalTransportEvaluatePosterior(OneTree):
    """`evaluate_posterior` in one of its modes; the last token is torch's own draw, as after it.

    The target's logits are such that its law at the temperature is the request's. Of the drafter
    only what it tells is here: tokens, rows, and for every token its probability given the siblings
    before it. The tree's indices are made by the code itself. Its coins, Python's, are torch's.
    """

    version = OT.version[:10]

    def __init__(self, mode: str, temperature: float = 1.0) -> None:
        (self._module,) = imported("EAGLE.eagle.model.utils", releases=[OT], doubles={})
        self.name = f"speculative-decoding-ot-{mode.lower().replace('_', '-')}"
        if temperature != 1:
            self.name += f" (temperature={temperature})"
        self.algorithm, self.scheme = MODES[mode]
        self.files = files(__file__, eagle.__file__, OT)
        self._mode, self._temperature = mode, temperature
        self._processor = self._module.prepare_logits_processor(temperature=temperature)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        leaves, length = request.draft_tokens[0].shape
        widths = request.branching or (leaves, *[1] * (length - 1))
        depths = range(1, length + 1)
        nodes = [list(z) for depth in depths for z in product(*map(range, widths[:depth]))]
        buffers = self._module.generate_tree_buffers(nodes, device="cpu")
        drafted = self._drafted(request, widths)
        # Candidates begin with the token before the draft, whatever it is.
        candidates, probabilities, tree = self._module.generate_candidates(
            drafted,
            buffers["tree_indices"],
            buffers["retrieve_indices"],
            torch.zeros(1, 1, dtype=torch.int64),
            self._processor,
        )
        self._module.random = eagle.Coins(request.generator)  # type: ignore[attr-defined]
        best, accepted, last = self._module.evaluate_posterior(
            self._temperature * logits_of(request)[1][0],
            candidates,
            self._processor,
            probabilities,
            drafted[2],
            buffers["p_indices"],
            tree,
            buffers["b_indices"],
            mode=self._mode,
        )
        return Result(
            accepted_length=torch.tensor([accepted]),
            path=best[None],
            next_token=torch.multinomial(last, 1, generator=request.generator),
        )

    def _drafted(self, request: Request, widths: tuple[int, ...]) -> tuple[Tensor, Tensor, Any]:
        """Return tokens and their probabilities after every node, and the rows by depth.

        After every node there is room for as many as after any.
        """
        paths, all_rows = request.draft_tokens[0], request.draft_probs[0]
        tokens, probabilities, rows = [], [], []
        for depth, width in enumerate(widths):
            below = prod(widths[depth + 1 :])
            siblings = paths[::below, depth].view(-1, width)
            rows.append(all_rows[:: below * width, depth])
            drawn = rows[-1].gather(1, siblings)
            if self.scheme == "without_replacement":
                # Where rounding leaves nothing for the last siblings, it has them drawn for sure.
                drawn = (drawn / (1 - (drawn.cumsum(1) - drawn))).nan_to_num(0.0).clamp(0, 1)
            room = (0, max(widths) - width)
            tokens.append(torch.nn.functional.pad(siblings, room))
            probabilities.append(torch.nn.functional.pad(drawn, room))
        return torch.cat(tokens), torch.cat(probabilities), rows
