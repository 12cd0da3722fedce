"""Multi-candidate speculative decoding: the rules of its authors' code, in the loop that uses them.

arXiv 2401.06706, https://github.com/NJUNLP/MCSD.
"""

from __future__ import annotations

from math import prod
from types import SimpleNamespace

from draftproof.adapters.engines.layout import OneTree, followed, logits_of
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

MCSD = Commit(
    repository="NJUNLP/MCSD",
    version="8aadd6501a9e987ba5fca6cc8f9ad5949e480ec7",
    digests={
        "MCSD/inference/strategies.py": (
            "31cd5544b49c0776e910ee9590be25760b8a67b77eae91256d67df833638762b"
        )
    },
)

RULES = {
    # Of a token that is drafted twice it knows but what was drawn below the copy that it keeps.
    "with-replacement": ("_MCSSwReplacement", "recursive_rejection_of_copies", "iid"),
    "without-replacement": ("_MCSSwoReplacement", "recursive_rejection", "without_replacement"),
}
"""The rules: the function's name, the algorithm that it claims, and how its siblings are drawn."""


class Strategy(OneTree):
    """`BatchStrategy.verify` with one of its rules, and models that say what the request says.

    It takes one request, whose paths are the leaves of a tree.
    """

    version = MCSD.version[:10]
    max_drafts = 8

    def __init__(self, rule: str) -> None:
        (module,) = imported("MCSD.inference.strategies", releases=[MCSD], doubles={})
        function, self.algorithm, self.scheme = RULES[rule]
        self.name = f"mcsd-{rule}"
        self.files = files(__file__, MCSD)
        self._verify = module.BatchStrategy.verify
        self._check = getattr(module, function)

    def verify(self, request: Request) -> Result:
        """Verify one row."""
        paths = request.draft_tokens[0]
        leaves, length = paths.shape
        widths = request.branching or (leaves, *[1] * (length - 1))
        below = [prod(widths[depth + 1 :]) for depth in range(length)]
        said = logits_of(request)[1][0]
        strategy = SimpleNamespace(
            acceptance_check=self._check,
            k_config=widths,
            max_draft_len=length,
            reversed_prod_size=below,
            target_model=SimpleNamespace(
                model=lambda **_: SimpleNamespace(last_hidden_state=said, past_key_values=()),
                lm_head=lambda rows: rows,
            ),
            target_model_device="cpu",
            target_model_temp=1,
        )
        # It gives away what it is told of the draft, and changes it.
        rows = [
            request.draft_probs[0, :: below[depth] * widths[depth], depth].clone()
            for depth in range(length)
        ]
        found = self._verify(strategy, paths, None, [], rows)
        return followed(request, found.sequences[0], found.acceptance_count)
