"""Draft heads that say the rows of a chain, in the shapes that engines load.

The EAGLE head of Li et al. (arXiv 2401.15077) is one decoder layer over `fc`, which reads the
token's embedding and the target's hidden state. Ours reads the embedding alone, and its layer
writes zeros: it writes the state's one-hot vector to one more block of the residual stream, where
the target's own head, which both share, has the table of the draft. Its rows depend on the last
token.
"""

from __future__ import annotations

import numpy

from draftproof.conformance.checkpoint.chain import Chain
from draftproof.conformance.checkpoint.llama import BLOCK, ONE_HOT, Weights


def eagle(chain: Chain) -> Weights:
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
