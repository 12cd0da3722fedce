"""transformers 5.23.0: assisted generation with two tokenizers, against the target's own sampling.

    python transformers_universal.py

writes two tokens 3,000 times with `UniversalSpeculativeDecodingGenerator`, from tiny Llamas of
random weights whose vocabularies are letters, and compares how often each letter comes first with
the target's softmax. Needs torch and transformers; ends with 1 if their distribution is wrong.

The assistant's pruned head gives its logits in the order in which `get_vocab()` lists its tokens
(`assistant_overlap_token_ids`, generation/candidate_generator.py, lines 724-729), and
`get_target_logits` takes them to be in the order of their ids (lines 828-833). `get_vocab()` of a
fast tokenizer is a hash map, so the rows that are declared are the drawn ones, shuffled.

A control shows that nothing else is to blame: the same tokenizers, `get_vocab()` sorted by id.
Where the assistant has no token that the target lacks there is no head to prune, and line 816 asks
for it all the same: the last line says what comes of that.
"""

import math
import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, logging

LETTERS = "abcdefgh"
PROMPT = torch.tensor([[0, 1]])
TEXTS = 3_000


class Sorted(PreTrainedTokenizerFast):
    """A tokenizer that lists its vocabulary by id."""

    def get_vocab(self) -> dict[str, int]:
        return dict(sorted(super().get_vocab().items(), key=lambda item: item[1]))


def tokenizer(letters: str, kind: type[PreTrainedTokenizerFast]) -> PreTrainedTokenizerFast:
    """Return a tokenizer that numbers letters as they stand."""
    words = {letter: token for token, letter in enumerate(letters)}
    whole = Tokenizer(models.WordLevel(words, unk_token=LETTERS[0]))
    whole.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return kind(tokenizer_object=whole)


def model(vocabulary: int, seed: int) -> LlamaForCausalLM:
    """Return a small Llama of random weights that never ends a text."""
    torch.manual_seed(seed)
    none = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    form = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        initializer_range=0.5,
        **none,
    )
    return LlamaForCausalLM(form).eval()


def judged(letters: str, kind: type[PreTrainedTokenizerFast]) -> float:
    """Print how often each letter comes first, and return the largest deviation."""
    target = model(len(LETTERS), 0)
    drafting = {
        "assistant_model": model(len(letters), 1),
        "tokenizer": tokenizer(LETTERS, kind),
        "assistant_tokenizer": tokenizer(letters, kind),
    }
    options = {"do_sample": True, "max_new_tokens": 2, "top_k": 0}
    mask = torch.ones_like(PROMPT)
    law = target(PROMPT).logits[0, -1].softmax(-1).tolist()
    torch.manual_seed(0)
    firsts = [
        target.generate(PROMPT, attention_mask=mask, **options, **drafting)[0, PROMPT.shape[1]]
        for _ in range(TEXTS)
    ]
    seen = torch.bincount(torch.stack(firsts), minlength=len(LETTERS)) / TEXTS
    print(f"the assistant's vocabulary is listed as {drafting['assistant_tokenizer'].get_vocab()}")
    deviations = []
    for letter, often, owed in zip(LETTERS, seen.tolist(), law, strict=True):
        deviations.append((often - owed) / math.sqrt(owed * (1 - owed) / TEXTS))
        print(f"  {letter}: {often:.4f}, must be {owed:.4f}: {deviations[-1]:+.1f} sigma")
    return max(map(abs, deviations))


def main() -> int:
    logging.set_verbosity_error()
    worst = judged("ihgfedcba", PreTrainedTokenizerFast)
    judged("ihgfedcba", Sorted)
    try:
        judged("gfedcba", PreTrainedTokenizerFast)
    except AttributeError as error:
        print(f"with an assistant that has no other letters: AttributeError: {error}")
        return 1
    return int(worst > 6)


if __name__ == "__main__":
    sys.exit(main())
