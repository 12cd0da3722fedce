"""Transformers 5.23.0: Gemma 4's drafter changes the distribution of sampled text.

    pip install transformers==5.23.0 torch==2.13.0

A random Gemma 4 of eight tokens has a random drafter. The second token behind a prompt is compared
with its exact distribution under the model. Ends with 1 while it is wrong.
"""

from __future__ import annotations

import sys

import torch
from transformers import (
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
)

TOKENS, TEXTS, PROMPT, WIDTH = 8, 2000, [1, 2, 3], 32
KINDS = ["sliding_attention", "full_attention"]


def config(kinds: list[str], shared: int) -> Gemma4TextConfig:
    """Return the configuration of a model with these layers, the last ones with shared keys."""
    return Gemma4TextConfig(
        vocab_size=TOKENS,
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=len(kinds),
        layer_types=kinds,
        num_attention_heads=1,
        num_key_value_heads=1,
        head_dim=WIDTH,
        global_head_dim=WIDTH,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
        num_kv_shared_layers=shared,
        initializer_range=0.3,
        eos_token_id=None,
    )


def drafter() -> Gemma4AssistantForCausalLM:
    """Return a random drafter."""
    text = config(KINDS, len(KINDS))
    return Gemma4AssistantForCausalLM(
        Gemma4AssistantConfig(text_config=text, backbone_hidden_size=WIDTH, initializer_range=0.3)
    ).eval()


def main() -> int:
    """Print both distributions, and return 1 if they are further apart than chance makes them."""
    torch.manual_seed(0)
    target = Gemma4ForCausalLM(config([*KINDS, KINDS[-1]], 1)).eval()
    try:
        assistant = drafter()
    except ValueError as error:
        print(f"no drafter can be made: ValueError: {error}")
        # All its layers use keys and values of the target, so none of them makes any.
        modes = Gemma4TextConfig.kv_sharing_modes.fget
        Gemma4TextConfig.kv_sharing_modes = property(
            lambda own: (
                ["reuse"] * len(KINDS)
                if own.num_kv_shared_layers == own.num_hidden_layers
                else modes(own)
            )
        )
        torch.manual_seed(1)
        assistant = drafter()
    assistant.generation_config.num_assistant_tokens = 1
    exact = torch.zeros(TOKENS, dtype=torch.double)
    with torch.no_grad():
        for first in range(TOKENS):
            # Only when all hidden states are asked for, all tokens get to the last layer.
            said = target(torch.tensor([[*PROMPT, first]]), output_hidden_states=True)
            rows = said.logits[0].double().softmax(-1)
            exact += rows[-2, first] * rows[-1]
    prompt = torch.tensor([PROMPT])
    found = torch.zeros(TOKENS, dtype=torch.double)
    for _ in range(TEXTS):
        text = target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            top_k=0,
            max_new_tokens=3,
            assistant_model=assistant,
        )
        found[text[0, len(PROMPT) + 1]] += 1 / TEXTS
    distance = float((exact - found).abs().sum() / 2)
    for name, row in (("exact", exact), ("written", found)):
        print(f"{name:8}", " ".join(f"{each:.3f}" for each in row))
    print(f"off by {distance:.3f}; chance alone makes less than .05")
    return int(distance > 0.05)


if __name__ == "__main__":
    sys.exit(main())
