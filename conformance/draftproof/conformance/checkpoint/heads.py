"""Draft heads with the rows of a chain, in the formats that engines load.

The EAGLE head of Li et al. (arXiv 2401.15077) is one decoder layer over `fc`, which reads the
token's embedding and the target's hidden state. Our `fc` reads the embedding alone, and our layer
writes zeros: `fc` writes the state's one-hot vector to one more block of the residual stream, where
the target's own head, which both models share, has the table of the draft. Its rows depend on the
last token.

A Medusa head (Cai et al., arXiv 2401.10774) reads the hidden state from which the target predicts
the next token, and predicts a later token: our heads have the rows of the tokens that the draft
writes 1 to `MEDUSA` places after the next token. Their residual blocks add nothing.
"""

from __future__ import annotations

import numpy

from draftproof.conformance.checkpoint.chain import EXCLUDED, STEPS, Floats, MarkovChain, softmax
from draftproof.conformance.checkpoint.llama import BLOCK, ONE_HOT, Weights

MEDUSA = 3
"""The number of Medusa heads."""


def eagle(chain: MarkovChain) -> Weights:
    """Return the weights of the EAGLE head, by the names of its authors' checkpoints."""
    width = BLOCK * (chain.memory + 1)
    fc = numpy.zeros((width, 2 * width))
    fc[width - BLOCK :, :BLOCK] = numpy.eye(BLOCK) / ONE_HOT
    square, narrow = numpy.zeros((width, width)), numpy.zeros((BLOCK, width))
    return {
        "fc.weight": fc,
        **{f"layers.0.self_attn.{each}_proj.weight": square for each in "qkvo"},
        "layers.0.post_attention_layernorm.weight": numpy.ones(width),
        "layers.0.mlp.gate_proj.weight": narrow,
        "layers.0.mlp.up_proj.weight": narrow,
        "layers.0.mlp.down_proj.weight": narrow.T,
    }


def medusa(chain: MarkovChain) -> Weights:
    """Return the weights of the Medusa heads, by the names that engines load."""
    width = BLOCK * (chain.memory + 1)
    (table,) = chain.draft
    draft = numpy.array([softmax(logits) for logits in table])
    (first,) = chain.target
    row = numpy.array([softmax(logits) for logits in first])
    found = {}
    for place in range(MEDUSA):
        # Every word leads to its own state, and none to state 0.
        row = row @ draft[1:]
        found[f"blocks.{place}.layers.0.weight"] = numpy.zeros((width, width))
        found[f"lm_heads.{place}.weight"] = _head(chain, row, width)
    return found


def _head(chain: MarkovChain, rows: Floats, width: int) -> Floats:
    """Return a head [V, width] that yields rows [states, words] after one-hot states."""
    logits = numpy.zeros((chain.vocabulary, width))
    logits[:, : chain.states] = EXCLUDED / STEPS
    with numpy.errstate(divide="ignore"):
        own = numpy.maximum(numpy.log(rows), EXCLUDED / STEPS)
    logits[list(chain.words), : chain.states] = own.T
    return logits * float(chain.temperature)


def medusa_config(chain: MarkovChain, dtype: str) -> dict[str, object]:
    """Return the configuration of the Medusa heads."""
    return {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": BLOCK * (chain.memory + 1),
        "num_heads": MEDUSA,
        "num_hidden_layers": 1,
        "vocab_size": chain.vocabulary,
        "truncated_vocab_size": chain.vocabulary,
        "dtype": dtype,
    }
