"""Block verification written the obvious ways, to be compared with.

Neither is wrong, and each is how the algorithm is usually written: for a batch, with every row that
the mathematics names in memory; or as the paper lists it, one request after another.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.fast.excess import draw


def at_once(tokens: Tensor, q: Tensor, p: Tensor, *, logits: bool = False) -> tuple[Tensor, Tensor]:
    """Return the accepted length and the next token [B] of drafts [B, L], all rows at once.

    Rows are probabilities, or `logits`: `q` [B, L, V] and `p` [B, L+1, V].
    """
    if logits:
        q, p = (rows.softmax(-1, dtype=torch.float32) for rows in (q, p))
    requests, length = tokens.shape
    column = tokens[..., None]
    ratio = (p[:, :-1].gather(2, column) / q.gather(2, column))[..., 0]
    weights = [torch.ones_like(p[:, 0, 0])]
    for i in range(length):
        weights.append((weights[-1] * ratio[:, i]).clamp(max=1))
    weight = torch.stack(weights, 1)
    # Behind the last token nothing was drafted: what is owed there is the bonus.
    owed = (weight[..., None] * p - pad(q, (0, 0, 0, 1))).clamp(min=0)
    more = owed.sum(-1)
    against = more + 1 - weight
    passing = torch.where(against > 0, more / against, 1)
    passing[:, -1] = weight[:, -1]
    passes = torch.rand(requests, length + 1, device=p.device) < passing
    passes[:, 0] = True
    accepted = (passes * torch.arange(length + 1, device=p.device)).amax(1)
    residual = owed[torch.arange(requests, device=p.device), accepted]
    # Drawn as ours is, or the draw would be most of what is compared.
    return accepted, draw(residual, torch.rand(requests, dtype=torch.float64, device=p.device))


def one_by_one(
    tokens: Tensor, q: Tensor, p: Tensor, *, logits: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the same, by a loop over requests and positions.

    Source: arXiv 2403.10444, Algorithm 2.
    """

    def rows(request: Tensor) -> Tensor:
        return request.softmax(-1) if logits else request

    results = [
        _listing(own, rows(of_draft), rows(of_target))
        for own, of_draft, of_target in zip(tokens, q, p, strict=True)
    ]
    accepted, following = zip(*results, strict=True)
    return torch.tensor(accepted), torch.cat(following)


def _listing(tokens: Tensor, q: Tensor, p: Tensor) -> tuple[int, Tensor]:
    """Return what one request [L] emits."""
    accepted, weight, length = 0, 1.0, len(tokens)
    residual = (p[0] - q[0]).clamp(min=0)
    for i in range(1, length + 1):
        token = tokens[i - 1]
        weight = min(1.0, weight * float(p[i - 1, token] / q[i - 1, token]))
        owed, passing = p[i], weight
        if i < length:
            owed = (weight * p[i] - q[i]).clamp(min=0)
            more = float(owed.sum())
            passing = more / (more + 1 - weight) if more + 1 > weight else 1.0
        if torch.rand(()) < passing:
            accepted, residual = i, owed
    return accepted, torch.multinomial(residual, 1)
