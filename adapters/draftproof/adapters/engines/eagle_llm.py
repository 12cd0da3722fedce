"""EAGLE as it was released: the rules that verify its trees of sampled drafts.

https://pypi.org/project/eagle-llm.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines import eagle
from draftproof.adapters.engines.eagle import TEMPERATURE, toss
from draftproof.adapters.engines.layout import OneTree, logits_of
from draftproof.adapters.engines.released import Release, files, imported, require_call
from draftproof.conformance.adapter import Request, Result

RULES = {
    "tree": ("eagle.model.utils", False, 10),
    "batched": ("eagle.modelbsne1.utils", True, 10),
    "modeling": ("eagle.modeling_eagle", True, 5),
}
"""The rules: the module, whether it takes a batch, and how many tokens a node is drafted."""

_GIVEN = (
    *("logits", "candidates", "logits_processor", "cart_candidates_prob", "op", "p_indices"),
    *("tree_candidates", "b_indices"),
)


class EaEvaluatePosterior(OneTree):
    """`evaluate_posterior` of a module at a temperature; the last token is torch's own draw.

    The tree, and what the rule is told of it, are `generate_tree_buffers`' and
    `generate_candidates`' of the same module. What they are told is what the drafter's `sample`
    returns: tokens, their probabilities among those that are left, and the rows. The target's
    logits are such that its law at the temperature is the request's. Its coins, Python's, are
    torch's here.
    """

    algorithm = "recursive_rejection"
    scheme = "without_replacement"

    def __init__(self, rule: str, *, release: Release) -> None:
        place, self._is_batched, self._drafted = RULES[rule]
        (self._module,) = imported(place, releases=[release], doubles={})
        given = (*_GIVEN, "finish_flag") if self._is_batched else _GIVEN
        require_call(self._module.evaluate_posterior, *((name,) for name in given))
        self.name = f"eagle-llm-{rule}"
        self.version, self.files = release.version, files(__file__, eagle.__file__, release)
        self._processor = self._module.prepare_logits_processor(temperature=TEMPERATURE)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        toss(self._module, request.generator)
        leaves, length = request.draft_tokens.shape[1:]
        widths = request.branching or (leaves, *[1] * (length - 1))
        choices = [
            [*choice]
            for depth in range(length)
            for choice in product(*(range(width) for width in widths[: depth + 1]))
        ]
        tree: dict[str, Any] = self._module.generate_tree_buffers(choices, device="cpu")
        tokens, chances, rows = self._sampled(request, widths)
        candidates, left, nodes = self._module.generate_candidates(
            (tokens, chances),
            tree["tree_indices"],
            tree["retrieve_indices"],
            # The token before the draft, whatever it is.
            torch.zeros(1, 1, dtype=torch.int64),
            self._processor,
        )
        said = TEMPERATURE * logits_of(request)[1]
        best, accepted, last = self._module.evaluate_posterior(
            said if self._is_batched else said[0],
            candidates,
            self._processor,
            left,
            [row[None] for row in rows] if self._is_batched else rows,
            tree["p_indices"],
            nodes,
            tree["b_indices"],
            *([[False]] if self._is_batched else []),
        )
        if self._is_batched:
            best, accepted, last = torch.tensor(best[0]), accepted[0], last[0]
        return Result(
            accepted_length=torch.tensor([accepted]),
            path=best[None],
            next_token=torch.multinomial(last, 1, generator=request.generator),
        )

    def _sampled(
        self, request: Request, widths: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Return what is drafted at all nodes that have children, and at each depth their rows.

        Beside the request's siblings there are others, which are not part of the tree.
        """
        tokens, chances, rows = [], [], []
        for depth, width in enumerate(widths):
            below = prod(widths[depth + 1 :])
            siblings = request.draft_tokens[0, ::below, depth].view(-1, width)
            row = request.draft_probs[0, :: below * width, depth]
            q = row.gather(1, siblings)
            left = 1 - (q.cumsum(1) - q)
            chance = (q / left).nan_to_num(0, 0, 0).clamp(0, 1)
            others = (0, self._drafted - width)
            tokens.append(torch.nn.functional.pad(siblings, others))
            chances.append(torch.nn.functional.pad(chance, others))
            rows.append(row)
        return torch.cat(tokens), torch.cat(chances), rows
