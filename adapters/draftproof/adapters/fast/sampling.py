"""Sampling parameters: which tokens of a row are kept, and how probable they are.

Every request has its own temperature, top-k and top-p. What they keep of a row is always the most
probable tokens, equals by token id; so it is told by the least of them, and no row is written.
Finding it takes a sort where there is a top-k or a top-p, and one reduction where there is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Softmax


@dataclass(frozen=True)
class Sampling:
    """The parameters of N rows; None does what the value of all rows would that changes nothing."""

    temperature: Tensor | None = None
    """[N], float: 0 keeps the most probable token for certain; others count as 2**-100 at least.

    What is negative or NaN counts as 0."""
    top_k: Tensor | None = None
    """[N], integer: how many tokens are kept, all where it is 0 or less, or more than V."""
    top_p: Tensor | None = None
    """[N], float: the mass that those that are kept reach, given top-k; all of them where it is 1.

    The token that reaches it is kept, so one always is."""

    @property
    def is_plain(self) -> bool:
        """Whether rows stay as they are."""
        return self.temperature is None and self.top_k is None and self.top_p is None

    def of(self, request: Tensor) -> Sampling:
        """Return the parameters of rows that belong to these requests, [N] int64."""
        given = self.temperature, self.top_k, self.top_p
        return Sampling(*(each if each is None else each[request] for each in given))


def softmax(logits: Tensor, sampling: Sampling) -> Softmax:
    """Return how logits [N, V] become probabilities by the parameters of their rows.

    First temperature, then top-k, then top-p. Running sums are float64, so that no device ends
    top-p with another token because of the order in which it adds.
    """
    rows, vocabulary = logits.shape
    dtype = torch.promote_types(logits.dtype, torch.float32)
    temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
    scale, is_sure = None, torch.zeros(rows, dtype=torch.bool, device=logits.device)
    if temperature is not None:
        # NaN fails every comparison, and must not become a probability.
        is_sure = ~(temperature > 0)
        scale = _reciprocal(torch.where(is_sure, 1, temperature).to(dtype))
    if top_k is None and top_p is None:
        if temperature is None:
            return Softmax()
        highest, first = logits.max(-1)
        all_of_them = torch.full_like(first, vocabulary - 1)
        return Softmax(
            scale,
            highest.to(dtype),
            least=torch.where(is_sure, highest.to(dtype), -torch.inf),
            last=torch.where(is_sure, first, all_of_them),
        )
    ranked, tokens = logits.sort(dim=-1, descending=True, stable=True)
    largest = None if scale is None else ranked[:, 0].to(dtype)
    kept = torch.full_like(tokens[:, 0], vocabulary)
    if top_k is not None:
        kept = torch.where(top_k > 0, top_k, kept).clamp(max=vocabulary)
    if top_p is not None:
        place = torch.arange(vocabulary, device=logits.device)
        heated = ranked
        if scale is not None and largest is not None:
            heated = (ranked - largest[:, None]) * scale[:, None]
        heated = heated.masked_fill(place >= kept[:, None], -torch.inf)
        weights = torch.softmax(heated, -1, dtype=torch.float64)
        reaching = 1 + (weights.cumsum(-1) < top_p[:, None]).sum(-1)
        kept = torch.where(top_p < 1, torch.minimum(kept, reaching), kept)
    place = torch.where(is_sure, 1, kept)[:, None] - 1
    least, last = ranked.gather(1, place)[:, 0].to(dtype), tokens.gather(1, place)[:, 0]
    return Softmax(scale, largest, least, last)


_COLDEST, _HOTTEST = 2.0**-100, 2.0**100
"""Temperatures between which all are told apart: their reciprocals are neither infinite nor 0,
which would make NaN of a gap of 0, or of a logit of -inf.

At the coldest, the smaller of two logits of float32 has no mass: they differ by 2**-24 of the
larger one at least, so by 104 temperatures, unless both are below 2e-21. At the hottest all logits
below 1e22 have the same mass.
"""


def _reciprocal(temperature: Tensor) -> Tensor:
    """Return 1 / temperature."""
    return temperature.clamp(_COLDEST, _HOTTEST).reciprocal()


def declared(rows: Tensor, sampling: Sampling, *, logits: bool = True) -> Tensor:
    """Return the probabilities [N, V] by the parameters of rows of logits, or of probabilities.

    They are normalised, float32, or float64 for rows of it. Probabilities are raised to
    1 / temperature as float64 logarithms, which tell any two of float32 apart.
    """
    dtype = torch.promote_types(rows.dtype, torch.float32)
    if not logits:
        wide = rows.to(torch.float64)
        if sampling.is_plain:
            return (wide / wide.sum(-1, keepdim=True)).to(dtype)
        rows = wide.log()
    every = torch.arange(len(rows), device=rows.device)
    made = torch.empty(rows.shape, dtype=torch.promote_types(rows.dtype, dtype), device=rows.device)
    return softmax(rows, sampling).of(rows, every, made).to(dtype)
