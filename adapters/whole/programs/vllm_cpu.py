"""vLLM on a CPU: with a draft model, n-grams, an EAGLE head or Medusa heads.

A speculation with `-fixed` behind it replaces `expand_batch_to_tokens`, whose form for CPUs writes
into a copy, by three lines of torch.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from answering import Request, Started, answer

LENGTH = 3
"""Drafted tokens in a step."""


def fix() -> None:
    """Replace the expansion of a value for each request to one for each drafted token."""
    import torch
    from vllm.v1.sample import rejection_sampler

    def expanded(
        x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0
    ) -> Any:
        kept = torch.where(x == replace_from, replace_to, x) if replace_from != replace_to else x
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        return kept.repeat_interleave(counts.long(), output_size=num_tokens)

    rejection_sampler.expand_batch_to_tokens = expanded


def start(folder: str, speculation: str) -> Started:
    """Return the version, and what answers."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    import vllm

    method, _, fixed = speculation.partition("-")
    if fixed:
        fix()
    own = {"num_speculative_tokens": LENGTH}
    config = {
        "none": None,
        "draft": {**own, "method": "draft_model", "model": f"{folder}/draft"},
        "ngram": {**own, "method": "ngram", "prompt_lookup_max": 2, "prompt_lookup_min": 1},
        "eagle": {**own, "method": "eagle", "model": f"{folder}/eagle"},
        "medusa": {**own, "method": "medusa", "model": f"{folder}/medusa"},
    }[method]
    engine = vllm.LLM(
        str(Path(folder) / "target"),
        dtype="float32",
        max_model_len=1280,
        max_num_seqs=32,
        enforce_eager=True,
        speculative_config=config,
    )

    def params(asked: Request) -> vllm.SamplingParams:
        return vllm.SamplingParams(
            temperature=asked["temperature"],
            top_k=asked["top_k"] or 0,
            top_p=asked["top_p"] or 1.0,
            min_p=asked["min_p"] or 0.0,
            logit_bias=asked["logit_bias"] or None,
            seed=asked["seed"],
            max_tokens=asked["max_tokens"],
            ignore_eos=True,
            detokenize=False,
        )

    def generate(requests: list[Request]) -> list[list[int]]:
        prompts = [{"prompt_token_ids": each["prompt"]} for each in requests]
        found = engine.generate(prompts, [params(each) for each in requests], use_tqdm=False)
        return [[*each.outputs[0].token_ids] for each in found]

    return vllm.__version__, generate


if __name__ == "__main__":
    answer(start)
