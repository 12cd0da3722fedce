"""Sequoia: the verification of its trees, those without replacement and SpecInfer's with it.

https://github.com/Infini-AI-Lab/Sequoia.
"""

from __future__ import annotations

from itertools import accumulate
from math import inf, prod
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.engines.layout import OneTree, followed, logits_of, trusting
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

SEQUOIA = Commit(
    repository="Infini-AI-Lab/Sequoia",
    version="0ff3ff71475ca148f2dfb7545e0de5caf5c67b39",
    digests={
        "Tree/SpecInferTree.py": "fb9c8bd5dcd8c32544642e9209598f187d3f07747aba40bac3da784300ee318e",
        "Tree/SpecTree.py": "ff7318d88785bed478e8f21b1415ebcd25399df3c66aa499343fca2854342174",
        "Tree/Tree.py": "f7eb3c446b262e81a8562dc873511c3096079aa15e0e3ddedd1a357f5ab765a1",
        "utils.py": "5d7091d83f2947f7425461e80e442f0cc70fe6c0f8981b129f869acfe5abd80f",
    },
)

TREES = {
    "SpecTree": ("recursive_rejection", "without_replacement"),
    # Of a token that is drafted twice it knows but what was drawn below the copy that it keeps.
    "SpecInferTree": ("recursive_rejection_of_copies", "iid"),
}
"""The trees: the algorithm that each claims, and how its siblings are drawn."""

_ENDS = 3
"""Tokens below are ends of a text to it: the request's begin there."""


class Verify(OneTree):
    """`verify` of one of its trees, grown as the request's, at temperature 1 and without top-p.

    Its engines say the request's rows, and their caches keep nothing. It takes one request, whose
    coins are drawn with the tree, as its constructor draws them.
    """

    version = SEQUOIA.version[:10]
    undefined: ClassVar = trusting(
        nan="rows come from its own models; NaN is taken for the end of the text"
    )

    def __init__(self, tree: str) -> None:
        module, utils = imported(
            f"Tree.{tree}", "utils", releases=[SEQUOIA], doubles={"Engine.Engine": None}
        )
        self.name = f"sequoia-{tree.lower()}"
        self.algorithm, self.scheme = TREES[tree]
        self.files = files(__file__, SEQUOIA)
        self._tree, self._residual = getattr(module, tree), utils.get_residual

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        tokens, count, _, _ = self._grown(request).verify()
        # The first is the token before the draft.
        return followed(request, tokens[1:] - _ENDS, count - 1)

    def _grown(self, request: Request) -> Any:
        """Return the tree as it is before it is verified: nodes come by depth, the root first."""
        paths = request.draft_tokens[0]
        leaves, length = paths.shape
        widths = request.branching or (leaves, *[1] * (length - 1))
        counts = [prod(widths[:depth]) for depth in range(length + 1)]
        first = [0, *accumulate(counts)]
        below = [leaves // count for count in counts]
        q, p = (rows[0] for rows in logits_of(request))

        def nodes(of_paths: Tensor, depths: range) -> Tensor:
            """Return what stands along the paths, node by node."""
            return torch.cat([of_paths[:: below[depth], at] for at, depth in enumerate(depths)])

        said = pad(nodes(p, range(length + 1)), (_ENDS, 0), value=-inf)
        size = len(said)
        cache = SimpleNamespace(kv_cache=SimpleNamespace(gather_kv_incremental=lambda *_: None))
        tree = object.__new__(self._tree)
        vars(tree).update(
            Successors=[
                [first[depth + 1] + node * width + i for i in range(width)]
                for depth, width in enumerate((*widths, 0))
                for node in range(counts[depth])
            ],
            attn_mask=torch.zeros(size, size),
            # It looks up the leaves' rows, too, though nothing is drafted from them.
            draft_logits=pad(nodes(q, range(length)), (_ENDS, 0, 0, leaves), value=-inf),
            draft_model_engine=SimpleNamespace(engine=cache),
            dtype=said.dtype,
            ground_truth_len=1,
            # An iteration that exceeds it is the last: nothing is prepared for another.
            max_target_seq=0,
            num_nodes=size,
            position_ids=torch.zeros(size),
            r=torch.rand(size, generator=request.generator),
            residual_graph=self._residual,
            seq_to_use=list(range(size)),
            storage_ids=torch.arange(size),
            target_kv_len=0,
            target_model_engine=SimpleNamespace(
                dtype=said.dtype, engine=cache, inference=lambda **_: said[None]
            ),
            temperature=1.0,
            # The first is the token before the draft, whatever it is; there is room for the bonus.
            tokens=pad(nodes(paths, range(1, length + 1)) + _ENDS, (1, 1)),
            top_p=1.0,
        )
        return tree


class AcceptStep(Verify):
    """`accept_step` of one of its trees, from the root on; the last token is torch's own draw.

    It is what `verify` does, but for the tokens that this puts in order.
    """

    def __init__(self, tree: str) -> None:
        super().__init__(tree)
        self.name += "-accept-step"

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        tree = self._grown(request)
        tree.target_logits = tree.target_model_engine.inference()[0].softmax(-1)
        slots, residual = [0], None
        while residual is None:
            slot, residual = tree.accept_step(slots[-1])
            slots.append(slot)
        accepted = tree.tokens[slots[1:-1]]
        emitted = torch.cat([accepted, residual.multinomial(1)]) - _ENDS
        return followed(request, emitted, len(accepted))
