"""MLX LM on a CPU: `stream_generate`, with a draft model or without."""

from __future__ import annotations

from importlib.metadata import version

import mlx.core as mx
from answering import Request, Started, answer
from mlx_lm import load, stream_generate
from mlx_lm.sample_utils import make_logits_processors, make_sampler

LENGTH = 3
"""Drafted tokens in a step."""


def start(folder: str, speculation: str) -> Started:
    """Return the version, and what answers."""
    target, tokenizer = load(f"{folder}/target")
    options = {
        "none": {},
        "draft": {"draft_model": load(f"{folder}/draft")[0], "num_draft_tokens": LENGTH},
    }[speculation]

    def text(asked: Request) -> list[int]:
        if asked["seed"] is not None:
            mx.random.seed(asked["seed"])
        filters = {name: asked[name] or 0 for name in ("top_k", "top_p", "min_p")}
        drawn = make_sampler(1.0, **filters)

        def sampler(logprobs: mx.array) -> mx.array:
            # `make_sampler` filters before its temperature, and other engines after it.
            cooled = logprobs / asked["temperature"]
            return drawn(cooled - mx.logsumexp(cooled, axis=-1, keepdims=True))

        bias = {int(token): value for token, value in (asked["logit_bias"] or {}).items()}
        found = stream_generate(
            target,
            tokenizer,
            asked["prompt"],
            asked["max_tokens"],
            sampler=sampler,
            logits_processors=make_logits_processors(bias),
            **options,
        )
        return [each.token for each in found]

    return version("mlx-lm"), lambda requests: [text(each) for each in requests]


if __name__ == "__main__":
    answer(start)
