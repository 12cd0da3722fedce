"""SpecHub: the hub token is drafted with every other token and takes what they cannot use.

With a the hub, h = q(a) and r the mass of q elsewhere, a pair (i, a) was drawn with probability
q(i), and a pair (a, i) with h q(i) / r. The first serves (p - q)+ of what is owed to the others,
the second what is left, so that both leave (p - q / r)+, an excess of the two rows again. The hub
is offered what of its pairs was refused: sum of (q - p)+ of the first, and of the second h less the
difference of the masses of both excesses. That difference is exactly 0 where p = q.

Everything but the hub is rows without it. A single token is verified as such: where the row has no
other token, or the drafts do not branch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.descent import SiblingChoice, Siblings, descend
from draftproof.adapters.fast.excess import mass
from draftproof.conformance.adapter import Result


def spechub(batch: Batch, noise: Tensor) -> Result:
    """Try the pair's other token first, then the hub, each against what is still owed.

    `noise` [B, KL+1]: a coin for each drafted token, and the mark of the next token.
    Source: arXiv 2411.05289.
    """

    def rule(siblings: Siblings, p: Tensor, q: Tensor) -> SiblingChoice:
        coins = noise.gather(1, siblings.place)
        alone = _single(siblings, p, q, coins[:, 0])
        return alone if siblings.most == 1 else _pair(siblings, p, q, coins, alone, batch.room[2])

    return descend(batch, rule, noise[:, -1], scheme="hub")


def _single(siblings: Siblings, p: Tensor, q: Tensor, coin: Tensor) -> SiblingChoice:
    """Return the choice of requests that have one token; what it is refused it is owed no more."""
    token = siblings.tokens[:, :1]
    wanted = p.gather(1, token)[:, 0].where(siblings.count == 1, 0)
    accepts = coin * q.gather(1, token)[:, 0] < wanted
    return SiblingChoice(
        torch.where(accepts, token[:, 0], -1), torch.ones_like(wanted), apart=token
    )


def _pair(
    siblings: Siblings, p: Tensor, q: Tensor, coins: Tensor, alone: SiblingChoice, out: Tensor
) -> SiblingChoice:
    """Return the choice where there are two tokens, and `alone` elsewhere. Sweeps are in `out`."""
    tokens = siblings.tokens[:, :2]
    drawn, wanted = q.gather(1, tokens), p.gather(1, tokens)
    # The more probable of the two, of equals the smaller.
    is_second = (drawn[:, 1] > drawn[:, 0]) | (
        (drawn[:, 1] == drawn[:, 0]) & (tokens[:, 1] < tokens[:, 0])
    )
    hub_slot = is_second.long()[:, None]
    hub, other = tokens.gather(1, hub_slot), tokens.gather(1, 1 - hub_slot)
    h, p_hub = drawn.gather(1, hub_slot)[:, 0], wanted.gather(1, hub_slot)[:, 0]
    drawn, wanted = drawn.gather(1, 1 - hub_slot)[:, 0], wanted.gather(1, 1 - hub_slot)[:, 0]
    is_pair = siblings.count == 2
    p.scatter_(1, hub, torch.where(is_pair, 0, p_hub)[:, None])
    q.scatter_(1, hub, torch.where(is_pair, 0, h)[:, None])

    r = q.sum(-1)
    one, both = torch.ones_like(r), (1 / r).nan_to_num()
    left = mass(p, q, one, both, out=out)
    hub_first = (h - (mass(p, q, one, out=out) - left)).clamp(min=0)
    hub_second = mass(q, p, one, out=out)
    owed_hub = (p_hub - hub_first).clamp(min=0)

    worth = torch.where(is_second, wanted, (wanted - drawn) * r)
    offered = torch.where(is_second, drawn, h * drawn)
    accepts_other = coins[:, 0] * offered < worth.where(is_pair, 0)
    worth = torch.where(is_second, owed_hub, p_hub)
    offered = torch.where(is_second, hub_second, hub_first)
    accepts_hub = coins[:, 1] * offered < worth.where(is_pair & ~accepts_other, 0)
    token = torch.where(accepts_hub, hub[:, 0], alone.token)
    return SiblingChoice(
        token=torch.where(accepts_other, other[:, 0], token),
        c=torch.where(is_pair, both, alone.c),
        apart=hub,
        weight=torch.where(is_pair, (owed_hub - hub_second).clamp(min=0), 0),
    )
