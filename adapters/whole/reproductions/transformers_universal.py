"""Transformers 5.23.0: universal assisted generation pairs drafted tokens with others' logits.

    pip install transformers==5.23.0 torch==2.13.0

With sampling, the assistant's head keeps the tokens that both vocabularies have. The translator
must name the same token of the target for a place of this head, whether it is asked for the token
or for its logit. Ends with 1 while it does not.
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.generation.candidate_generator import AssistantToTargetTranslator

WORDS = "?abcdefgh"
"""The words of the target: the first stands for all that is unknown."""


def tokenizer(words: str) -> PreTrainedTokenizerFast:
    """Return a tokenizer of these words, numbered as they come."""
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, words[0]))
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token=words[0])


def translator(words: str) -> AssistantToTargetTranslator:
    """Return the translator of an assistant with these words to a target with `WORDS`."""
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
    )
    assistant = LlamaForCausalLM(config)
    own, target = tokenizer(words), tokenizer(WORDS)
    return AssistantToTargetTranslator(
        target, own, len(WORDS), assistant, assistant_prune_lm_head=True
    )


def by_tokens(made: AssistantToTargetTranslator, place: int) -> int:
    """Return the token of the target that a drafted token becomes."""
    prompt = torch.tensor([[0]])
    drafted = torch.cat([prompt, torch.tensor([[place]])], dim=1)
    return int(made.get_target_ids(prompt, prompt, drafted)[0, -1])


def by_logits(made: AssistantToTargetTranslator, place: int) -> int:
    """Return the token of the target that gets the logit of a place of the head."""
    logits = torch.zeros(1, 1, len(WORDS))
    logits[..., place] = 1.0
    return int(made.get_target_logits(logits).argmax())


def main() -> int:
    """Print both translations, and return 1 if they are different."""
    # A word more than the target has, and all others in reverse.
    made = translator("?X" + WORDS[:0:-1])
    places = range(len(WORDS))
    tokens = [by_tokens(made, place) for place in places]
    logits = [by_logits(made, place) for place in places]
    print(f"places of the head as tokens: {tokens}")
    print(f"places of the head by logits: {logits}, must be the same")
    # No word that the target does not have: the head is not pruned, but is read as if it was.
    try:
        by_tokens(translator(WORDS[:-1]), 0)
    except AttributeError as error:
        print(f"an assistant with fewer words: AttributeError: {error}")
        return 1
    return int(tokens != logits)


if __name__ == "__main__":
    sys.exit(main())
