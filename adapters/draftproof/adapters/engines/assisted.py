"""Hugging Face transformers: assisted generation as a whole, with tiny models of random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from string import ascii_lowercase
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines.transformers import SpeculativeSampling
from draftproof.conformance.adapter import TextRequest

Drafted = tuple[Any, dict[str, Any]]
"""A target, and the options of its `generate` that say what drafts for it."""

_PROMPT = (0, 1, 0)
"""It repeats a token, so that there is something to look up."""

_DRAFTS = 2
_HIDDEN = 4


class AssistedGeneration(SpeculativeSampling):
    """`generate` of the installed transformers, unmodified, with one of its candidate generators.

    It verifies by its private function, as `SpeculativeSampling` does.
    """

    def __init__(self, candidates: str) -> None:
        from transformers import logging

        super().__init__()
        # It warns of options that it takes twice, once for every process, in whatever is printed.
        logging.set_verbosity_error()
        self.name = f"transformers generate ({candidates})"
        self._candidates = candidates

    def generate(self, request: TextRequest) -> Tensor:
        """Write a text after a short prompt."""
        target, drafting = CANDIDATES[self._candidates](request.vocabulary)
        prompt = torch.tensor([_PROMPT])
        written = target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            max_new_tokens=request.horizon,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            **(drafting if request.assisted else {}),
        )
        return written[0, len(_PROMPT) :]  # type: ignore[no-any-return]  # transformers is untyped here


def _tokenizers(vocabulary: int) -> Drafted:
    """Return models of letters; the assistant counts them backwards, and has one more."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    class Letters(PreTrainedTokenizerFast):  # type: ignore[misc]  # transformers is untyped here
        def get_vocab(self) -> dict[str, int]:
            """Return the letters in their order."""
            # A hash map's order is another in every process; this is one that it can have.
            return dict(sorted(super().get_vocab().items()))

    def tokenizer(letters: str) -> Any:
        words = {letter: token for token, letter in enumerate(letters)}
        whole = Tokenizer(models.WordLevel(words, unk_token=ascii_lowercase[0]))
        whole.pre_tokenizer = pre_tokenizers.Split("", "isolated")
        return Letters(tokenizer_object=whole)

    letters = ascii_lowercase[: vocabulary + 1]
    return _llama(vocabulary, 0), {
        "assistant_model": _drafting(_llama(vocabulary + 1, 1)),
        "tokenizer": tokenizer(letters[:-1]),
        "assistant_tokenizer": tokenizer(letters[::-1]),
    }


def _gemma(vocabulary: int) -> Drafted:
    """Return a target of Gemma 4's form, and its assistant, which reads the target's cache."""
    from transformers import (
        Gemma4AssistantConfig,
        Gemma4AssistantForCausalLM,
        Gemma4ForCausalLM,
        Gemma4TextConfig,
    )

    sizes = _sizes(vocabulary) | {
        "head_dim": 2,
        "global_head_dim": 2,
        "num_key_value_heads": 1,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
        "tie_word_embeddings": False,
    }
    types = ["sliding_attention", "full_attention"]
    deep = {
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
        "layer_types": 2 * types,
        "hidden_size_per_layer_input": 2,
        "vocab_size_per_layer_input": vocabulary,
    }
    target = _seeded(0, lambda: Gemma4ForCausalLM(Gemma4TextConfig(**sizes | deep)))
    form = Gemma4AssistantConfig(
        text_config=Gemma4TextConfig(**sizes, layer_types=types),
        backbone_hidden_size=_HIDDEN,
        tie_word_embeddings=False,
    )
    # With all layers shared, as it sets them, 5.23 cannot build it: none would produce a cache.
    form.text_config.num_kv_shared_layers = 0
    assistant = _seeded(1, lambda: Gemma4AssistantForCausalLM(form))
    return target, {"assistant_model": _drafting(assistant)}


CANDIDATES: dict[str, Callable[[int], Drafted]] = {
    "AssistedCandidateGenerator": cache(
        lambda vocabulary: (
            _llama(vocabulary, 0),
            {"assistant_model": _drafting(_llama(vocabulary, 1))},
        )
    ),
    "EarlyExitCandidateGenerator": cache(
        lambda vocabulary: (_drafting(_llama(vocabulary, 0)), {"assistant_early_exit": 1})
    ),
    "PromptLookupCandidateGenerator": cache(
        lambda vocabulary: (_llama(vocabulary, 0), {"prompt_lookup_num_tokens": _DRAFTS})
    ),
    "UniversalSpeculativeDecodingGenerator": cache(_tokenizers),
    "SinglePositionMultiTokenCandidateGenerator": cache(_gemma),
}
"""Its classes of candidate generators, each with the models that make it the one that is used."""


def _llama(vocabulary: int, seed: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return _seeded(seed, lambda: LlamaForCausalLM(LlamaConfig(**_sizes(vocabulary))))


def _sizes(vocabulary: int) -> dict[str, Any]:
    # No token ends or pads a text.
    none = {f"{kind}_token_id": None for kind in ("bos", "eos", "pad")}
    return none | {
        "vocab_size": vocabulary,
        "hidden_size": _HIDDEN,
        "intermediate_size": 2 * _HIDDEN,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 32,
        "initializer_range": 1.0,
    }


def _seeded(seed: int, make: Callable[[], Any]) -> Any:
    """Return a model of random weights, in double precision, with logits of at most 2 in size.

    However tokens come together in a forward pass, a logit is then the same number but for the
    float32 roundings of norms and positions. The last layer gets normed vectors, of length 2.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make().double().eval()
    # A fused attention could drop weights at random, so the exact lane does not follow it.
    model.set_attn_implementation("eager")
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head /= head.norm(dim=-1, keepdim=True)
    return model


def _drafting(model: Any) -> Any:
    """Return the model, set to draft a fixed number of tokens at a time."""
    model.generation_config.num_assistant_tokens = _DRAFTS
    model.generation_config.num_assistant_tokens_schedule = "constant"
    return model
