"""transformers 5.23.0: generation assisted by a Gemma 4 assistant, against the target's sampling.

    python transformers_single_position.py

writes three tokens 3,000 times with `SinglePositionMultiTokenCandidateGenerator`, from tiny models
of random weights, and compares how often each pair of the first two comes with the target's
distribution. Needs torch and transformers; ends with 1 if the distribution of the pairs is wrong.

The generator drafts the most probable token and returns the logits that it chose the token by
(generation/candidate_generator.py, lines 1344-1347). `_speculative_sampling` takes their softmax
for the distribution that the draft was drawn from. Of the three generators that
https://github.com/huggingface/transformers/issues/47932 names, this one is as it was.

A control shows that nothing else is to blame: logits that are certain of the drafted token.

The assistant's own form shares the caches of all its layers, and 5.23.0 refuses to build a model in
which no layer produces one (models/gemma4/configuration_gemma4.py, lines 237-242). So the assistant
here shares none. That changes which tokens it drafts, and not how they are verified.
"""

import math
import sys
from typing import Any

import torch
from transformers import (
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    logging,
)
from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator

VOCABULARY = 3
PROMPT = torch.tensor([[0, 1, 0]])
TEXTS = 3_000
TYPES = ["sliding_attention", "full_attention"]


def form(**sizes: Any) -> Gemma4TextConfig:
    """Return the form of a small model that never ends a text."""
    return Gemma4TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=4,
        intermediate_size=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=2,
        global_head_dim=2,
        initializer_range=1.0,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **sizes,
    )


def models() -> tuple[Gemma4ForCausalLM, Gemma4AssistantForCausalLM]:
    torch.manual_seed(0)
    target = Gemma4ForCausalLM(
        form(
            num_hidden_layers=4,
            num_kv_shared_layers=2,
            layer_types=2 * TYPES,
            hidden_size_per_layer_input=2,
            vocab_size_per_layer_input=VOCABULARY,
        )
    )
    small = form(
        num_hidden_layers=2,
        layer_types=TYPES,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
    )
    whole = Gemma4AssistantConfig(
        text_config=small, backbone_hidden_size=4, tie_word_embeddings=False
    )
    whole.text_config.num_kv_shared_layers = 0
    torch.manual_seed(1)
    assistant = Gemma4AssistantForCausalLM(whole)
    for model in (target, assistant):
        head = model.get_output_embeddings().weight
        with torch.no_grad():
            head /= head.norm(dim=-1, keepdim=True)
    assistant.generation_config.num_assistant_tokens = 2
    return target.eval(), assistant.eval()


def pairs(target: Gemma4ForCausalLM) -> torch.Tensor:
    """Return the target's law of two tokens, [V, V]."""
    contexts = torch.tensor([[*PROMPT[0].tolist(), token] for token in range(VOCABULARY)])
    rows = target(contexts).logits.softmax(-1).detach()
    return rows[0, -2][:, None] * rows[:, -1]


def judged(how: str) -> float:
    """Print how often each pair comes first, and return the largest deviation."""
    target, assistant = models()
    law = pairs(target)
    torch.manual_seed(0)
    seen = torch.zeros_like(law)
    for _ in range(TEXTS):
        text = target.generate(
            PROMPT,
            attention_mask=torch.ones_like(PROMPT),
            assistant_model=assistant,
            do_sample=True,
            max_new_tokens=3,
            top_k=0,
        )
        first, second = text[0, PROMPT.shape[1] :][:2].tolist()
        seen[first, second] += 1 / TEXTS
    print(f"{how}:")
    deviation = (seen - law) / (law * (1 - law) / TEXTS).sqrt()
    for first in range(VOCABULARY):
        for second in range(VOCABULARY):
            often, owed, sigma = (each[first, second] for each in (seen, law, deviation))
            print(f"  ({first}, {second}): {often:.4f}, must be {owed:.4f}: {sigma:+.1f} sigma")
    return deviation.abs().max().item()


def main() -> int:
    logging.set_verbosity_error()
    worst = judged("as installed")
    drafted = SinglePositionMultiTokenCandidateGenerator.get_candidates

    def certain(self: Any, *given: Any, **options: Any) -> Any:
        tokens, logits = drafted(self, *given, **options)
        if logits is not None:
            is_drafted = torch.nn.functional.one_hot(logits.argmax(-1), VOCABULARY).bool()
            logits = torch.zeros_like(logits).masked_fill(~is_drafted, -math.inf)
        return tokens, logits

    SinglePositionMultiTokenCandidateGenerator.get_candidates = certain
    judged("with logits that are certain of what is drafted")
    return int(worst > 6)


if __name__ == "__main__":
    sys.exit(main())
