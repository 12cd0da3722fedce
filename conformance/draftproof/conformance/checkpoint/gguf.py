"""GGUF file of a model's weights, for llama.cpp and programs built on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from draftproof.conformance.checkpoint.chain import BEGIN, END, SPECIAL, UNKNOWN
from draftproof.conformance.checkpoint.llama import Weights
from draftproof.conformance.checkpoint.tokens import TEMPLATE

if TYPE_CHECKING:
    from gguf import GGUFWriter
    from transformers import LlamaConfig

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}

_NAMES_IN_LAYERS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(
    weights: Weights, config: LlamaConfig, texts: Sequence[str], path: Path, *, name: str
) -> None:
    """Write weights of a Llama and its tokenizer to a GGUF file. Raises `OSError`."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    # Every element type is converted to float32 when it is computed with: no other is needed.
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_tokenizer(writer, texts)
    for own, array in weights.items():
        rows = array
        if ".q_proj." in own or ".k_proj." in own:
            rows = _interleaved(array, config.num_attention_heads)
        writer.add_tensor(_named(own), rows.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: GGUFWriter, texts: Sequence[str]) -> None:
    import gguf

    words = len(texts) - len(SPECIAL)
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([0.0] * len(texts))
    writer.add_token_types([*kinds, *[gguf.TokenType.NORMAL] * words])
    writer.add_unk_token_id(UNKNOWN)
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(UNKNOWN)
    writer.add_add_bos_token(value=False)
    writer.add_add_space_prefix(value=False)
    writer.add_chat_template(TEMPLATE)


def _named(own: str) -> str:
    """Return the name in GGUF of a weight that has this name in transformers."""
    module = own.removesuffix(".weight")
    if module in _NAMES:
        return f"{_NAMES[module]}.weight"
    layer, _, part = module.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{_NAMES_IN_LAYERS[part]}.weight"


def _interleaved(array: NDArray[numpy.float64], heads: int) -> NDArray[numpy.float64]:
    """Return the rows of a projection as GGUF has them: both numbers of a rotated pair adjoin."""
    width = array.shape[1]
    return array.reshape(heads, 2, -1, width).swapaxes(1, 2).reshape(-1, width)
