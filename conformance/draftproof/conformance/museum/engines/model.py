"""Llama model with a cache of keys and values, in numpy: as small as an engine's model can be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

Floats = NDArray[numpy.floating[Any]]
Integers = NDArray[numpy.int64]


@dataclass
class Cache:
    """Keys and values [rows, slots, heads, width] of the text of each row.

    The first `lengths` [rows] slots of a row are in use.
    """

    keys: Floats
    values: Floats
    lengths: Integers


class Llama:
    """Model of one layer that transformers has saved in float32."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file

        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        weights = load_file(folder / "model.safetensors")
        layer = "model.layers.0."
        self.embedding = weights["model.embed_tokens.weight"]
        self.query, self.key, self.value, self.output = (
            weights[f"{layer}self_attn.{each}_proj.weight"].T for each in "qkvo"
        )
        self.norm = weights[f"{layer}input_layernorm.weight"]
        self.last_norm = weights["model.norm.weight"]
        self.head = weights["lm_head.weight"].T
        self.heads = self.config["num_attention_heads"]
        self.width = self.config["head_dim"]
        base = self.config["rope_parameters"]["rope_theta"]
        half = numpy.arange(self.width // 2)
        self.theta = base ** (-half * 2 / self.width)

    def cache(self, rows: int, slots: int) -> Cache:
        """Return an empty cache."""
        shape = (rows, slots, self.heads, self.width)
        empty = numpy.zeros(shape, dtype=numpy.float32)
        return Cache(empty, empty.copy(), numpy.zeros(rows, dtype=numpy.int64))

    def logits(self, tokens: Integers, positions: Integers, cache: Cache) -> Floats:
        """Return the logits [rows, T, V] after tokens [rows, T], and put the tokens into the cache.

        `positions` [rows, T] are the positions of the tokens in their texts. The cache's lengths
        stay unchanged: the caller sets how many of the tokens are kept.
        """
        rows, count = tokens.shape
        stream = self.embedding[tokens]
        normed = self._normed(stream, self.norm)
        shape = (rows, count, self.heads, self.width)
        query = self._turned((normed @ self.query).reshape(shape), positions)
        key = self._turned((normed @ self.key).reshape(shape), positions)
        slots = cache.lengths[:, None] + numpy.arange(count)
        at = (numpy.arange(rows)[:, None], slots)
        cache.keys[at] = key
        cache.values[at] = (normed @ self.value).reshape(shape)
        used = int(slots.max()) + 1
        scores = numpy.einsum("bthd,bshd->bhts", query, cache.keys[:, :used])
        scores /= numpy.sqrt(self.width)
        later = numpy.arange(used) > slots[:, :, None]
        scores = numpy.where(later[:, None], -numpy.inf, scores)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        seen = numpy.einsum("bhts,bshd->bthd", weights, cache.values[:, :used])
        stream = stream + seen.reshape(rows, count, -1) @ self.output
        # The MLP of a checkpoint writes zeros.
        logits: Floats = self._normed(stream, self.last_norm) @ self.head
        return logits

    def _normed(self, stream: Floats, weight: Floats) -> Floats:
        mean = (stream**2).mean(-1, keepdims=True) + self.config["rms_norm_eps"]
        normed: Floats = stream / numpy.sqrt(mean) * weight
        return normed

    def _turned(self, vectors: Floats, positions: Integers) -> Floats:
        angle = (positions[..., None] * self.theta)[:, :, None]
        cosine, sine = (f(angle).astype(numpy.float32) for f in (numpy.cos, numpy.sin))
        low, high = numpy.split(vectors, 2, axis=-1)
        return numpy.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1)
