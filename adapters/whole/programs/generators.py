"""Transformers' `generate`: with an assistant, prompt lookup, or its lossy switch."""

from __future__ import annotations

from importlib.metadata import version

import torch
from answering import Request, Started, answer
from transformers import AutoModelForCausalLM

LENGTH = 3
"""Drafted tokens in a step."""


def start(folder: str, speculation: str) -> Started:
    """Return the version, and what answers."""
    torch.set_num_threads(1)
    target, draft = (
        AutoModelForCausalLM.from_pretrained(f"{folder}/{each}").eval()
        for each in ("target", "draft")
    )
    draft.generation_config.num_assistant_tokens = LENGTH
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    options = {
        "none": {},
        "draft": {"assistant_model": draft},
        "lookup": {"prompt_lookup_num_tokens": LENGTH, "max_matching_ngram_size": 2},
    }[speculation]

    def text(asked: Request) -> list[int]:
        if asked["seed"] is not None:
            torch.manual_seed(asked["seed"])
        prompt = torch.tensor([asked["prompt"]])
        found = target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            max_new_tokens=asked["max_tokens"],
            min_new_tokens=asked["max_tokens"],
            eos_token_id=None,
            temperature=asked["temperature"],
            top_k=asked["top_k"] or 0,
            top_p=asked["top_p"] or 1.0,
            **({"min_p": asked["min_p"]} if asked["min_p"] else {}),
            **options,
        )
        return found[0, prompt.shape[1] :].tolist()

    return version("transformers"), lambda requests: [text(each) for each in requests]


if __name__ == "__main__":
    answer(start)
