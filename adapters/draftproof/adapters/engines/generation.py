"""Hugging Face transformers as a whole engine: `generate`, with assisted generation."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from draftproof.conformance.adapter import Answer, Generation


class Transformers:
    """`generate` of the target in a checkpoint's folder, with its draft as the assistant.

    Requests are written one after another: assisted generation takes no batches.
    """

    name = "transformers-generate"
    switchable = True

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM
        from transformers.utils import logging

        self.version = version("transformers")
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        self.target, self.draft = (
            AutoModelForCausalLM.from_pretrained(Path(folder) / each).eval()
            for each in ("target", "draft")
        )
        if shown:
            logging.enable_progress_bar()
        # A fixed number of drafted tokens, and no confidence at which drafting stops.
        config = self.draft.generation_config
        config.num_assistant_tokens = 3
        config.num_assistant_tokens_schedule = "constant"
        config.assistant_confidence_threshold = 0.0

    def generate(self, requests: Sequence[Generation], /) -> list[Answer]:
        """Return what is written to each request."""
        return [self.answer(each) for each in requests]

    def answer(self, asked: Generation, /) -> Answer:
        """Return what is written to a request."""
        if asked.seed is not None:
            torch.manual_seed(asked.seed)
        prompt = torch.tensor([asked.prompt])
        text = self.target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            max_new_tokens=asked.max_tokens,
            min_new_tokens=asked.max_tokens,
            eos_token_id=None,
            **({"assistant_model": self.draft} if asked.speculation else {}),
            **_options(asked),
        )
        return Answer(tuple(text[0, len(asked.prompt) :].tolist()))


def _options(asked: Generation) -> dict[str, Any]:
    """Return the settings of a request by their names in `generate`, all others switched off."""
    sampling = asked.sampling
    allowed = sampling.allowed
    options: dict[str, Any] = {
        "temperature": float(sampling.temperature),
        "top_k": sampling.top_k or 0,
        "top_p": 1.0 if sampling.top_p is None else sampling.top_p,
    }
    if sampling.min_p is not None:
        options["min_p"] = sampling.min_p
    if sampling.logit_bias:
        options["sequence_bias"] = {(k,): v for k, v in sampling.logit_bias.items()}
    if allowed is not None:
        options["prefix_allowed_tokens_fn"] = lambda *_: sorted(allowed)
    return options
