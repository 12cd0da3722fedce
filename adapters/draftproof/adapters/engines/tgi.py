"""Text Generation Inference: how its chooser of tokens keeps drafted ones, from a checkout.

https://github.com/huggingface/text-generation-inference, in whose folder `server` the package is.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from draftproof.adapters.engines.layout import logits_of, read, trusting
from draftproof.adapters.engines.released import (
    Release,
    files,
    imported,
    require_call,
    require_names,
)
from draftproof.conformance.adapter import Request, Result

_PLACE = "text_generation_server.utils"


class NextTokenChooser:
    """`HeterogeneousNextTokenChooser` at temperature 1, without penalties, cuts or a grammar.

    It samples the target after every drafted token, and keeps the drafted tokens that agree. It
    takes logits. Its generators, one for every request, are the request's one here.
    """

    name = "text-generation-inference"
    algorithm = "target_first"
    logits = True
    undefined: ClassVar = trusting()

    def __init__(self, release: Release) -> None:
        (module,) = imported(
            f"{_PLACE}.tokens",
            releases=[release],
            doubles={
                **{f"{_PLACE}.{name}": None for name in ("logits_process", "watermark")},
                "text_generation_server.pb": {},
                "text_generation_server.pb.generate_pb2": {
                    **dict.fromkeys(("NextTokenChooserParameters", "StoppingCriteriaParameters")),
                    "FinishReason": _Kinds,
                    "GrammarType": _Kinds,
                },
                "transformers": None,
            },
        )
        require_names(module, "HeterogeneousNextTokenChooser")
        self._chooser = module.HeterogeneousNextTokenChooser
        given = ("input_ids", "scores", "speculate", "speculated_ids")
        require_call(self._chooser.__call__, ("self",), keywords=given)
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        drafted, rows = request.draft_tokens[:, 0], logits_of(request)[1][:, 0]
        count, every, vocabulary = rows.shape
        ones, zeros, none = [1.0] * count, [0] * count, [False] * count
        chooser = self._chooser(
            dtype=rows.dtype,
            device=rows.device,
            watermark=none,
            temperature=ones,
            repetition_penalty=ones,
            frequency_penalty=[0.0] * count,
            top_k=zeros,
            top_p=ones,
            typical_p=ones,
            do_sample=[True] * count,
            seeds=zeros,
            tokenizer=None,
            grammars=[""] * count,
            grammar_types=zeros,
            fsm_grammar_states=zeros,
        )
        for sampling in chooser.choice.sampling_mapping.values():
            sampling.generator = request.generator
        emitted, _, _, accepted, _ = chooser(
            # The texts so far, whatever they are.
            input_ids=torch.zeros(count, 1, dtype=torch.int64),
            # It changes what it is given.
            scores=rows.reshape(count * every, vocabulary).clone(),
            speculate=0,
            speculated_ids=drafted,
        )
        is_there = torch.arange(every) < accepted[:, None]
        return read(request, torch.full((count, every), -1).masked_scatter(is_there, emitted))


class _Kinds:
    """A double of the kinds of grammars and of ends."""

    GRAMMAR_TYPE_NONE = 0
