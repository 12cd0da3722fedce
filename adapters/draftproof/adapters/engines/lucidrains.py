"""speculative-decoding by lucidrains: its speculative decoding with a second model, batched.

https://github.com/lucidrains/speculative-decoding.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import logits_of, read, trusting
from draftproof.adapters.engines.released import Commit, MovedOn, files, imported
from draftproof.conformance.adapter import Request, Result

LUCIDRAINS = Commit(
    repository="lucidrains/speculative-decoding",
    version="72171ac91cd040ad6b67c186ac985e4f50a0c269",
    digests={
        "speculative_decoding/speculative_decoding.py": (
            "ea38e277bb19b92d9f7d156fc69200e631ae01e92fbe85d128304b79e5b7ee78"
        )
    },
)


class SpeculativeDecoding:
    """The first round of `speculative_decoding`, at temperature 1 and without its top-k.

    Its networks are doubles that say the request's rows and keep caches of zeros, and its
    `gumbel_sample` says the request's drafts. The round is over when the small network is asked
    again. The module beartype is a double, and einops one that knows the patterns used here. It
    draws from the default generator alone.
    """

    name = "lucidrains"
    version = LUCIDRAINS.version[:10]
    algorithm = "token"
    logits = True
    undefined: ClassVar = trusting()

    def __init__(self) -> None:
        (self._module,) = imported(
            "speculative_decoding.speculative_decoding",
            releases=[LUCIDRAINS],
            doubles={"beartype": None, "einops": {"rearrange": _rearranged}},
        )
        self.files = files(__file__, LUCIDRAINS)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        q, p = (rows[:, 0] for rows in logits_of(request))
        paths = request.draft_tokens[:, 0]
        count, length = paths.shape
        drafts, rows = iter(paths.T), iter(q.unbind(1))

        def small(text: Tensor, *, seq_start_pos: Tensor, **_: object) -> Any:
            row = next(rows, None)
            if row is None:
                raise _Over(text, seq_start_pos)
            return row[:, None], _cached(text)

        def large(text: Tensor, **_: object) -> Any:
            return p, _cached(text)

        self._module.gumbel_sample = lambda *_, **__: next(drafts)  # type: ignore[attr-defined]
        try:
            self._module.speculative_decoding(
                large,
                small,
                # The token before the draft, whatever it is.
                torch.zeros(count, 1, dtype=torch.int64),
                # More than a round can write.
                length + 3,
                gamma=length,
                filter_thres=0.0,
            )
        except _Over as over:
            text, begins = over.args
        written = torch.full((count, length + 1), -1)
        for row, tokens, begin in zip(written, text, begins.tolist(), strict=True):
            # Its text is aligned to the right, and begins with the token before the draft.
            emitted = tokens[begin + 1 :]
            row[: len(emitted)] = emitted
        return read(request, written)


class _Over(Exception):
    """The end of the round: the text [B, n], and where that of each request begins."""


def _cached(text: Tensor) -> tuple[Tensor, None]:
    """Return a cache for a text [B, n]."""
    return torch.zeros(len(text), 1, text.shape[1], 1), None


def _rearranged(values: Tensor, pattern: str) -> Tensor:
    """Do what einops' `rearrange` does, for the patterns of the function alone."""
    match pattern:
        case "b -> b 1" | "... -> ... 1":
            return values[..., None]
        case "b -> b 1 1":
            return values[..., None, None]
        case "b n 1 -> b n":
            return values.squeeze(-1)
        case "b 1 d -> b d":
            return values.squeeze(1)
        case "b ... n d -> b n ... d":
            return values.movedim(-2, 1)
        case "b n ... d -> b ... n d":
            return values.movedim(1, -2)
        case _:
            raise MovedOn(f"it rearranges by {pattern!r}, which this adapter does not know")
