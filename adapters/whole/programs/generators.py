"""Transformers' `generate`: with an assistant of any kind, or prompt lookup."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import drafters
import torch
from answering import Request, Started, answer
from drafters import LENGTH
from transformers import PreTrainedModel


def chosen(folder: str, speculation: str) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Return the target, and the options of a speculation."""
    if speculation.startswith("gemma"):
        target, drafter = drafters.gemma(folder)
        return target, {"assistant_model": drafter}
    if speculation == "multi-token":
        return drafters.predicting(folder), {"use_mtp": True}
    if speculation == "early-exit":
        return drafters.deepened(folder), {"assistant_early_exit": 1}
    target = drafters.loaded(folder, "target")
    if speculation.startswith("universal"):
        return target, drafters.renumbered(folder)
    if speculation == "diffusion":
        drafter = drafters.denoised(target)
        return target, {"assistant_model": drafter, "speculation_type": "dflash"}
    draft = drafters.loaded(folder, "draft")
    if speculation == "dynamic":
        draft.generation_config.num_assistant_tokens_schedule = "heuristic"
        draft.generation_config.assistant_confidence_threshold = 0.4
    return target, {
        "none": {},
        "draft": {"assistant_model": draft},
        "dynamic": {"assistant_model": draft},
        "lookup": {"prompt_lookup_num_tokens": LENGTH, "max_matching_ngram_size": 2},
    }[speculation]


def start(folder: str, speculation: str) -> Started:
    """Return the version, and what answers."""
    torch.set_num_threads(1)
    target, options = chosen(folder, speculation)
    if speculation == "universal-fixed":
        drafters.translate_in_order()
    if speculation == "gemma-fixed":
        drafters.without_logits()

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
