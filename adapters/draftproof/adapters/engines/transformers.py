"""Hugging Face transformers: the private function that verifies assisted generation."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

import torch

from draftproof.adapters.engines.released import Release, files, function_of, require_call
from draftproof.conformance.adapter import Request, Result


class SpeculativeSampling:
    """`transformers.generation.utils._speculative_sampling`, unmodified.

    It is the installed package's, or that of a release, which is then taken out of its module.
    It takes logits, one row at a time. `assistant_ensemble_weight` is the option of that
    name, lossy by design (arXiv 2604.07622); None leaves it out.
    """

    algorithm = "token"
    batch = False
    logits = True
    undefined: ClassVar = {
        "nan": "logits are trusted; NaN raises only if it reaches the draw",
        "negative": "it takes logits, which have no negative probabilities",
        "unnormalised": "it takes logits, which need no normalisation",
        "shape": "a missing row is noticed only if the rows before it are accepted",
        "token": "candidate ids come from its own generator and are trusted",
    }

    def __init__(
        self, assistant_ensemble_weight: float | None = None, release: Release | None = None
    ) -> None:
        if release is None:
            from transformers.generation.utils import _speculative_sampling

            self._verify: Callable[..., Any] = _speculative_sampling
            self.version = version("transformers")
            self.files = [Path(__file__), Path(_speculative_sampling.__code__.co_filename)]
        else:
            # The module imports all of transformers, the function nothing but torch.
            place, own = "transformers.generation.utils", {"torch": torch, "nn": torch.nn}
            self._verify = function_of(release, place, "_speculative_sampling", own)
            self.version, self.files = release.version, files(__file__, release)
        given = ("candidate_input_ids", "candidate_logits", "candidate_length", "new_logits")
        taken = signature(self._verify).parameters
        self.name, self._options = "transformers", dict[str, Any]()
        # Once, it was told whether a text has ended.
        if "is_done_candidate" in taken:
            self._options["is_done_candidate"] = False
        if assistant_ensemble_weight is not None:
            self.name += f" (assistant_ensemble_weight={assistant_ensemble_weight})"
            self._options["assistant_ensemble_weight"] = assistant_ensemble_weight
        require_call(self._verify, *((name,) for name in given), keywords=tuple(self._options))

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        path = request.draft_tokens[0]
        length = path.shape[-1]
        tokens, matches = self._verify(
            path,
            request.draft_probs[0].log(),
            length,
            request.target_probs[0].log(),
            **self._options,
        )
        # Tokens that are not the drafted ones have no place in a result: -1 says so.
        is_prefix = torch.equal(tokens[:, :-1], path[:, : tokens.shape[-1] - 1])
        accepted = matches if is_prefix and tokens.shape[-1] == matches + 1 else -1
        return Result(
            accepted_length=torch.as_tensor(accepted).reshape(1),
            path=torch.zeros(1, dtype=torch.int64),
            next_token=tokens[:, -1],
        )
