"""gpt-fast: its speculative decoding, before and after it came to draft for a batch.

https://github.com/meta-pytorch/gpt-fast.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import Commit, files, imported
from draftproof.conformance.adapter import Request, Result

RELEASES = {
    version[:7]: Commit("meta-pytorch/gpt-fast", version, {"generate.py": digest})
    for version, digest in (
        (
            "bc04265df30c7b927d38f34198e0e33a63cb893e",
            "ac3603db88518ff8f987d73922f5410efb14bf7ab3996e28053bdda86e88a924",
        ),
        (
            "6ecad9b5b6b987d17ac4303965545873d0192086",
            "f29a485b0c922b302487d437a76e16fa4f4359a1a1ee32254009dc9c924fa401",
        ),
    )
}
"""The releases, by their commits."""

_DRAFTED_SHAPES: dict[str, tuple[int, ...]] = {"bc04265": (), "6ecad9b": (1,)}
"""What the shapes of a drafted token [..., 1] and of its row [..., V] begin with."""


class SpeculativeDecode(OneRequest):
    """`speculative_decode` at temperature 1, with a target model that says the request's rows.

    One thing is replaced: `decode_n_tokens`, by what says the request's drafts in the shapes of the
    release. It takes one request, and draws from the default generator alone.
    """

    algorithm = "token"

    def __init__(self, commit: str) -> None:
        release, searched = RELEASES[commit], list(sys.path)
        (self._module,) = imported(
            "generate", releases=[release], doubles={"model": None, "tokenizer": None}
        )
        # It has the whole process look for modules beside its folder.
        sys.path[:] = searched
        self.name, self.version = "gpt-fast", release.version[:10]
        self.files = files(__file__, release)
        self._shape = _DRAFTED_SHAPES[commit]

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        q, p = (rows[0] for rows in logits_of(request))
        path = request.draft_tokens[0, 0]
        tokens = [token.view(*self._shape, 1) for token in path]
        rows = [row.view(*self._shape, -1) for row in q[0].softmax(-1)]

        def decoded(*_: object) -> tuple[list[Tensor], list[Tensor]]:
            return tokens, rows

        self._module.decode_n_tokens = decoded  # type: ignore[attr-defined]
        emitted = self._module.speculative_decode(
            model=lambda *_: p,
            draft_model=lambda *_: None,
            cur_token=torch.tensor(0),
            input_pos=0,
            speculate_k=len(path),
        )
        return followed(request, emitted, len(emitted) - 1)
