"""ReDrafter: the verification of a beam of its recurrent drafter.

arXiv 2403.09919, https://github.com/apple/ml-recurrent-drafter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.distributions import Distribution

from draftproof.adapters.engines.layout import logits_of, trusting
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

REDRAFTER = Commit(
    repository="apple/ml-recurrent-drafter",
    version="bd8586bb9bbfa761644c36f932a0cd1eb3f1cdf9",
    digests={
        "recurrent_drafting/recurrent_drafting.py": (
            "38f075466b2f78a8c0f292758d87f523603549e6c78dd4fca785f3bbdd1ff733"
        )
    },
)

_PACKAGE = "recurrent_drafting"


class AcceptCandidateTokens:
    """`_accept_candidate_tokens` at temperature 1.

    One thing is replaced: `_update_kv_cache_and_input_ids`, which is told the path that is chosen,
    by what returns it. The suite samples the paths, and its drafter takes the most probable ones.
    It draws from the default generator alone.
    """

    version = REDRAFTER.version[:10]
    algorithm = "token"
    # The paths of a beam differ.
    scheme = "without_replacement"
    logits = True
    undefined = trusting(drafter="its own drafter")

    def __init__(self, max_drafts: int) -> None:
        with _unchecked():
            (self._module,) = imported(
                f"{_PACKAGE}.recurrent_drafting",
                releases=[REDRAFTER],
                doubles={
                    "transformers": None,
                    **dict.fromkeys(
                        f"{_PACKAGE}.{name}"
                        for name in ("attention", "kv_cache", "modeling_llama", "tree_attention")
                    ),
                    # These are used where its functions are defined.
                    f"{_PACKAGE}.modeling_drafter": {"BeamShape": _shape, "Drafter": object},
                    f"{_PACKAGE}.stats": {
                        "Ledger": object,
                        "TextGeneration": SimpleNamespace(Step=object),
                    },
                },
            )
        vars(self._module).update(_update_kv_cache_and_input_ids=_chosen)
        self.name = f"recurrent-drafter-k{max_drafts}"
        self.files = files(__file__, REDRAFTER)
        self.max_drafts = max_drafts

    def verify(self, request: Request) -> Result:
        """Verify B rows with K paths each."""
        q, p = logits_of(request)
        with _unchecked():
            _, path, following, accepted = self._module._accept_candidate_tokens(
                input_ids=None,
                # It begins with the token before the draft, whatever it is.
                beams=torch.nn.functional.pad(request.draft_tokens, (1, 0)),
                log_probs_by_drafter=q.log_softmax(-1),
                logits_by_llm=p,
                last_hidden_state=p[..., :1],
                cache=None,
                pad_token_id=-1,
                temperature=1.0,
                step_record=SimpleNamespace(time=lambda _: nullcontext()),
            )
        return Result(accepted_length=accepted, path=path, next_token=following)


def _shape(width: int, length: int) -> tuple[int, int]:
    """Return the shape of a beam."""
    return width, length


def _chosen(*, seq_in_beam: torch.Tensor, **_: Any) -> torch.Tensor:
    """Return the path that is chosen."""
    return seq_in_beam


@contextmanager
def _unchecked() -> Iterator[None]:
    """Have torch's distributions not check their arguments, as its module does for its process."""
    checks = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(checks)
