"""Drafters of transformers that no checkpoint brings: each is made from the weights of one.

The target of some is a model of another family, for only that family has such a drafter. Its layers
write zeros, and its embedding, last norm and head are those of a checkpoint of memory 1, so that it
says the same rows. How a drafter drafts does not matter to what is owed: each says rows of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    LlamaForCausalLM,
    MuseGlimmerAssistantConfig,
    MuseGlimmerAssistantModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.generation.candidate_generator import (
    AssistantToTargetTranslator,
    SinglePositionMultiTokenCandidateGenerator,
)

LENGTH = 3
"""Drafted tokens in a step."""

UNKNOWN = "X"
"""A word that the target does not have."""


def loaded(folder: str, name: str) -> PreTrainedModel:
    """Return a model of the checkpoint, which drafts `LENGTH` tokens if it is asked to."""
    model = AutoModelForCausalLM.from_pretrained(f"{folder}/{name}").eval()
    constant(model)
    return model


def constant(model: PreTrainedModel) -> None:
    """Let a model draft `LENGTH` tokens in each step, however sure it is."""
    model.generation_config.num_assistant_tokens = LENGTH
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0.0


def renumbered(folder: str) -> dict[str, Any]:
    """Return the draft with another tokenizer: a word more, and all words in reverse."""
    told = json.loads(Path(folder, "draft", "tokenizer.json").read_text("utf-8"))
    own = told["model"]["vocab"]
    special = [text for text in own if text.startswith("<")]
    words = [UNKNOWN, *reversed([text for text in own if text not in special])]
    told["model"]["vocab"] = {text: i for i, text in enumerate([*special, *words])}
    assistant_tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(told)), unk_token=special[0]
    )
    draft = loaded(folder, "draft")
    places = torch.tensor([own.get(text, 0) for text in [*special, *words]])
    for layer in (draft.model.embed_tokens, draft.lm_head):
        layer.weight.data = layer.weight.data[places]
    draft.config.vocab_size = len(places)
    draft.lm_head.out_features = draft.model.embed_tokens.num_embeddings = len(places)
    return {
        "assistant_model": draft,
        "tokenizer": AutoTokenizer.from_pretrained(f"{folder}/target"),
        "assistant_tokenizer": assistant_tokenizer,
    }


def translate_in_order() -> None:
    """Replace the translation of logits, which pairs tokens of the pruned head in another order."""

    def get_target_logits(self: Any, assistant_logits: torch.Tensor) -> torch.Tensor:
        shape = (*assistant_logits.shape[:-1], self.target_vocab_size)
        found = torch.full(shape, self.FILTER_VALUE)
        own = self._assistant_to_target_input_ids[self.assistant_overlap_token_ids]
        found[..., own] = assistant_logits
        return found

    AssistantToTargetTranslator.get_target_logits = get_target_logits


def deepened(folder: str) -> PreTrainedModel:
    """Return the target behind one more layer, which writes zeros: where an early exit leaves it.

    With a memory of 2, the rows of an early exit lack the table of the token before the last one.
    """
    target = loaded(folder, "target")
    target.config.num_hidden_layers = 2
    found = LlamaForCausalLM(target.config).eval()
    own = {name.replace("layers.0", "layers.1"): each for name, each in weights(target).items()}
    found.load_state_dict({**silent(found), **own})
    constant(found)
    return found


def weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return the weights of a model."""
    return {name: each.data for name, each in model.named_parameters()}


def silent(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return weights of zero."""
    return {name: torch.zeros_like(each) for name, each in weights(model).items()}


def transplanted(model: PreTrainedModel, source: PreTrainedModel) -> None:
    """Give a model of one width the embedding, last norm and head of another, and silent layers."""
    ends = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    own = weights(source)
    model.load_state_dict({**silent(model), **{name: own[name] for name in ends}}, strict=False)
    model.generation_config = source.generation_config
    model.eval()


def denoised(target: PreTrainedModel) -> PreTrainedModel:
    """Return a diffusion drafter of the target: it says the row behind a mask, at every place."""
    width = target.config.hidden_size
    form = MuseGlimmerAssistantConfig(
        **shape(width),
        layer_types=["full_attention"],
        block_size=LENGTH + 1,
        mask_token_id=0,
        target_layer_ids=[0],
    )
    drafter = MuseGlimmerAssistantModel(form).eval()
    norm = weights(target)["model.norm.weight"]
    drafter.load_state_dict({**silent(drafter), "norm.weight": norm}, strict=False)
    return drafter


def shape(width: int) -> dict[str, int]:
    """Return the settings of a model with one layer, which each family calls the same."""
    return {
        "hidden_size": width,
        "intermediate_size": width,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "head_dim": width,
    }


def gemma(folder: str) -> tuple[PreTrainedModel, PreTrainedModel]:
    """Return a Gemma 4 that says the rows, and its drafter with the rows of the draft."""
    share_all()
    source, draft = loaded(folder, "target"), loaded(folder, "draft")
    width = source.config.hidden_size
    form = {
        **shape(width),
        "vocab_size": source.config.vocab_size,
        "global_head_dim": width,
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
        "tie_word_embeddings": False,
        "pad_token_id": source.config.pad_token_id,
        "bos_token_id": source.config.bos_token_id,
        "eos_token_id": source.config.eos_token_id,
    }
    kinds = ["sliding_attention", "full_attention"]
    # The last layer uses keys and values again; only then are any told to the drafter.
    layers = {"num_hidden_layers": 3, "layer_types": [*kinds, kinds[-1]]}
    target = Gemma4ForCausalLM(Gemma4TextConfig(**form | layers, num_kv_shared_layers=1))
    transplanted(target, source)
    own = Gemma4TextConfig(
        **form | {"num_hidden_layers": 2, "layer_types": kinds}, num_kv_shared_layers=2
    )
    drafter = Gemma4AssistantForCausalLM(
        Gemma4AssistantConfig(
            text_config=own, backbone_hidden_size=width, tie_word_embeddings=False
        )
    )
    transplanted(drafter, draft)
    # It reads the embedding of the last token alone.
    drafter.pre_projection.weight.data[:, :width] = torch.eye(width)
    constant(drafter)
    return target, drafter


def share_all() -> None:
    """Let all layers of a drafter share the target's keys and values, which is refused."""
    modes = Gemma4TextConfig.kv_sharing_modes.fget

    def kv_sharing_modes(self: Gemma4TextConfig) -> list[str | None]:
        if self.num_kv_shared_layers == self.num_hidden_layers:
            return ["reuse"] * self.num_hidden_layers
        return modes(self)

    Gemma4TextConfig.kv_sharing_modes = property(kv_sharing_modes)


def without_logits() -> None:
    """Let Gemma's drafter return no logits: a token is kept if the target draws the same one."""
    drafts = SinglePositionMultiTokenCandidateGenerator.get_candidates

    def get_candidates(self: Any, *told: Any, **named: Any) -> tuple[torch.Tensor, None]:
        return drafts(self, *told, **named)[0], None

    SinglePositionMultiTokenCandidateGenerator.get_candidates = get_candidates


def predicting(folder: str) -> PreTrainedModel:
    """Return a GLM 4 MoE that says the rows, with one layer that drafts from a flatter row."""
    source = loaded(folder, "target")
    width = source.config.hidden_size
    form = Glm4MoeConfig(
        **shape(width),
        vocab_size=source.config.vocab_size,
        moe_intermediate_size=width,
        n_routed_experts=2,
        num_experts_per_tok=1,
        num_mtp_layers=1,
        first_k_dense_replace=0,
        rms_norm_eps=source.config.rms_norm_eps,
    )
    target = Glm4MoeForCausalLM(form)
    transplanted(target, source)
    path = mkdtemp()
    target.save_pretrained(path)
    # The drafting layer is the one behind the last: checkpoints of this family have 46 or 92.
    Glm4MoeForCausalLM._keys_to_ignore_on_load_unexpected = [r"model\.layers\.1.*"]
    file = f"{path}/model.safetensors"
    layers = load_file(file)
    own = {name: each for name, each in layers.items() if "layers.0." in name}
    layers |= {name.replace("layers.0.", "layers.1."): torch.zeros_like(own[name]) for name in own}
    eye = torch.eye(width)
    layers |= {
        "model.layers.1.enorm.weight": torch.ones(width),
        "model.layers.1.hnorm.weight": torch.ones(width),
        "model.layers.1.eh_proj.weight": torch.cat([eye, 0 * eye], dim=1),
        "model.layers.1.shared_head.norm.weight": layers["model.norm.weight"] * 0.7,
    }
    save_file(layers, file, metadata={"format": "pt"})
    return Glm4MoeForCausalLM.from_pretrained(path).eval()
