"""Llama model with the rows of a chain: weights that are set, not trained.

The *embedding* is one-hot: a token writes `ONE_HOT` at the place of its state in the first block of
the residual stream.

*Attention* head j looks back by exactly j tokens. All queries are one constant vector, and all keys
are a second constant vector, rotated by j places. With RoPE the score of distance d is then

    gain * sum over i of cos(theta[i] * (d - j)) / sqrt(64),

which is largest at d = j, by so much that softmax gives everything else less than 1e-12. The value
of a token is its one-hot vector, which the output projection writes to block j. The first tokens of
a text have no token to look back to: their rows are not part of the chain.

The *MLP* writes zeros. The last RMSNorm makes every one-hot number 1, and the *head* adds up the
tables.

A rejected token that stays in the cache, and a wrong position, mask or cached prefix, change the
tokens that a head attends to, and so the rows.

A target for draft heads has one more block, to which it writes nothing: there its head has the
draft's first table, for a draft head that writes to this block (`heads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy
from numpy.typing import NDArray

from draftproof.conformance.checkpoint.chain import (
    BEGIN,
    END,
    EXCLUDED,
    STEPS,
    UNKNOWN,
    Integers,
    MarkovChain,
)

if TYPE_CHECKING:
    from transformers import LlamaConfig

Weights = dict[str, NDArray[numpy.float64]]

BLOCK = 64
"""The width of a block of the residual stream: of the one-hot vector of a state, and of a head."""

CONTEXT = 32_768
"""The longest text, in tokens."""

ONE_HOT = 64.0
"""The size of one-hot numbers: the epsilon of RMSNorm changes them by 1e-8."""

_GAIN = 2_000.0
"""Scale of all scores. At 400, every place but the correct one has less than 1e-12; five times that
scale leaves room for keys in bfloat16."""

_BASE = 10_000.0
_EPSILON = 1e-6


def config(chain: MarkovChain, dtype: str, *, with_heads: bool = False) -> LlamaConfig:
    """Return the configuration of the model, for transformers and what reads its files."""
    from transformers import LlamaConfig

    blocks = chain.memory + with_heads
    return LlamaConfig(
        vocab_size=chain.vocabulary,
        hidden_size=BLOCK * blocks,
        intermediate_size=BLOCK,
        num_hidden_layers=1,
        num_attention_heads=blocks,
        num_key_value_heads=blocks,
        head_dim=BLOCK,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=_EPSILON,
        rope_theta=_BASE,
        unk_token_id=UNKNOWN,
        bos_token_id=BEGIN,
        eos_token_id=END,
        pad_token_id=UNKNOWN,
        tie_word_embeddings=False,
        dtype=dtype,
    )


def weights(chain: MarkovChain, tables: Integers, *, with_heads: bool = False) -> Weights:
    """Return the weights of the model by their names in transformers, as float64 arrays."""
    layer = "model.layers.0"
    blocks = chain.memory + with_heads
    width = BLOCK * blocks
    query, key, value, output = _attention(chain.memory, width)
    # RMSNorm divides by the root of the mean square, over all blocks.
    normed = 1 / (BLOCK * blocks) ** 0.5
    return {
        "model.embed_tokens.weight": _embedding(chain, width),
        f"{layer}.input_layernorm.weight": numpy.full(width, normed),
        f"{layer}.self_attn.q_proj.weight": query,
        f"{layer}.self_attn.k_proj.weight": key,
        f"{layer}.self_attn.v_proj.weight": value,
        f"{layer}.self_attn.o_proj.weight": output,
        f"{layer}.post_attention_layernorm.weight": numpy.ones(width),
        f"{layer}.mlp.gate_proj.weight": numpy.zeros((BLOCK, width)),
        f"{layer}.mlp.up_proj.weight": numpy.zeros((BLOCK, width)),
        f"{layer}.mlp.down_proj.weight": numpy.zeros((width, BLOCK)),
        "model.norm.weight": numpy.full(width, normed * chain.memory**0.5),
        "lm_head.weight": _head(chain, [*tables, *chain.draft[:with_heads]], width),
    }


def _embedding(chain: MarkovChain, width: int) -> NDArray[numpy.float64]:
    """Return the embedding [V, width]: one-hot in the first block, by state."""
    embedding = numpy.zeros((chain.vocabulary, width))
    embedding[:, 0] = ONE_HOT
    for word, state in chain.state_of.items():
        embedding[word, [0, state]] = 0.0, ONE_HOT
    return embedding


def _attention(memory: int, width: int) -> tuple[NDArray[numpy.float64], ...]:
    """Return the projections [width, width] of queries, keys, values and outputs.

    The input of the layer is one-hot with ones, in the first block. Head 0 is silent; head j looks
    back by j places.
    """
    query, key, value, output = (numpy.zeros((width, width)) for _ in range(4))
    theta = _BASE ** (-numpy.arange(BLOCK // 2) * 2 / BLOCK)
    for back in range(1, memory):
        own = slice(back * BLOCK, (back + 1) * BLOCK)
        turned = numpy.concatenate([numpy.cos(theta * back), numpy.sin(theta * back)])
        constant = numpy.concatenate([numpy.ones(BLOCK // 2), numpy.zeros(BLOCK // 2)])
        query[own, :BLOCK] = constant[:, None] * _GAIN**0.5
        key[own, :BLOCK] = turned[:, None] * _GAIN**0.5
        value[own, :BLOCK] = numpy.eye(BLOCK)
        output[own, own] = numpy.eye(BLOCK) * ONE_HOT
    return query, key, value, output


def _head(chain: MarkovChain, tables: Sequence[Integers], width: int) -> NDArray[numpy.float64]:
    """Return the head [V, width], which yields the chain's logits times its temperature."""
    logits = numpy.zeros((chain.vocabulary, width))
    logits[:, : chain.states] = EXCLUDED
    logits[:, chain.memory * BLOCK :] = EXCLUDED
    for back, table in enumerate(tables):
        at = back * BLOCK
        logits[list(chain.words), at : at + chain.states] = table.T
    return logits / STEPS * float(chain.temperature)
