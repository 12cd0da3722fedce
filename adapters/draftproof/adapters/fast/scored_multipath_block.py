"""Scored multi-path block verification: K paths compete to the end, the winner is verified.

The scores are said in `scores`. A prefix of weight w is owed w times its Q', and passes with
probability h = m / (m + 1 - w), where m is what the target is owed beyond Q' behind it, over Q'.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import draw, rows_behind
from draftproof.adapters.fast.scores import everywhere, ranked, ratios, smallest, split
from draftproof.conformance.adapter import Result


def scored_multipath_block(batch: Batch, noise: Tensor) -> Result:
    """Select the path with the smallest score, and verify it against its law.

    `noise` [B, L+2]: a number that selects the path, a coin for each prefix, and the mark of the
    next token. Ours.
    """
    root = everywhere(len(noise), noise.device)
    scores, weights = [root] * batch.drafts, [torch.ones_like(noise[:, 0])] * batch.drafts
    prefixes = []
    for i in range(batch.length):
        for k in range(batch.drafts):
            # All paths have one root.
            if i > 0 or k == 0:
                path = torch.full_like(batch.lengths, k)
                p, q = drafted_rows(batch, path, i, batch.lengths)
                ranks = ranked(p, q)
                here = split(scores[k], ranks, ranks.ratio, ranks.unsaid, weights[k], batch.drafts)
            passing = torch.where(batch.lengths == i, weights[k], here.passing)
            prefixes.append(torch.stack((passing, here.owed, here.high), 1))
            token = batch.tokens[:, k, i, None]
            ratio = ratios(p.gather(1, token), q.gather(1, token))
            if batch.drafts > 1:
                scores[k] = here.after(ranks.place(ratio))
            weights[k] = here.weight(ratio[:, 0]).clamp(max=1)
    prefixes += [torch.stack((weight, weight, weight), 1) for weight in weights]
    path = draw(smallest(scores), noise[:, 0])
    along = torch.stack(prefixes, 1).view(len(path), -1, batch.drafts, 3)
    passing, owed, high = along[torch.arange(len(path), device=path.device), :, path].unbind(2)
    return emitted(batch, path, passing, owed, high, noise[:, 1:])


def drafted_rows(batch: Batch, path: Tensor, depth: int, until: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows p, q [B, V] at a depth of each request's `path` [B].

    From the depth `until` [B] on both are certain of token 0, which changes nothing.
    """
    sure = torch.arange(batch.vocabulary, device=path.device) == 0
    p, q = (
        torch.where((depth < until)[:, None], rows.row(path, depth, room), sure.to(room.dtype))
        for rows, room in zip((batch.p, batch.q), batch.room[:2], strict=True)
    )
    return p, q


def emitted(
    batch: Batch, path: Tensor, passing: Tensor, owed: Tensor, high: Tensor, noise: Tensor
) -> Result:
    """Return what is emitted of a `path` [B]: the longest prefix that passes, and what is owed.

    `passing`, `owed` and `high` are [B, L+1], by the length of a prefix; `noise` [B, L+1] has a
    coin for each, and the mark of the next token. Where nothing is owed, or all is kept, it is
    drawn from p.
    """
    depth = torch.arange(1, batch.length + 1, device=path.device)
    passes = (noise[:, :-1] < passing[:, 1:]) & (depth <= batch.lengths[:, None])
    accepted = torch.cat([torch.zeros_like(path[:, None]), passes * depth], 1).amax(1)
    p, q = rows_behind(batch, path, accepted)
    p, owed, high = p.double(), *(each.gather(1, accepted[:, None]) for each in (owed, high))
    more = torch.addcmul(p * owed, q.double(), high, value=-1).clamp_(min=0)
    is_whole = (accepted == batch.lengths) | (more.sum(1) == 0)
    return Result(accepted, path, draw(torch.where(is_whole[:, None], p, more), noise[:, -1]))
