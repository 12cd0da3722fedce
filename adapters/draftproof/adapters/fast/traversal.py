"""Traversal verification: block verification on a tree, from the leaves to the root.

A node has a weight w, and a target M that every refused child makes a residual. The child is
measured by q without the siblings refused before: with the mass R of the others, the residual is
(w M - q/R)+, normalised. So M = (a p - c q)+ / m at any time, a refusal makes it proportional to
(wa p - (wc + m/R) q)+, and the weight Z / (Z + 1 - w), Z being the mass of the residual. Siblings
need not be taken out of q there: who is refused has w M < q/R, which leaves 0 for good.

Numerics. All factors are float64, and (a, c) is scaled so that the larger is 1. R is summed over
the siblings that are left: 1 - q of the others is rounding where the draft is almost certain. If
it is 0 it counts as 1, since q is 0 then. A token of draft probability 0 has weight 1 if its target
can say it, else 0. A residual of mass 0 leaves M as it is, and makes the weight 0; but a weight of
1 remains, since target and draft differ by rounding alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import chances, draw, excess, mass, rows_behind, scaled
from draftproof.conformance.adapter import Result


def traversal(batch: Batch, noise: Tensor) -> Result:
    """Try the leaves in order; a refused one leaves its parent a residual target and weight.

    `noise` [B, K L + 1]: a coin for each token of each path, path by path, and the mark of the next
    token. Paths share nodes where they share tokens, and siblings that repeat a token are one
    child. A node's coin is that of the last path through it, of those in order.
    Source: arXiv 2505.12398.
    """
    room, (tree, order, shared) = batch.room, in_order(batch)
    drafts, length, lengths = batch.drafts, batch.length, batch.lengths
    coins = noise[:, :-1].reshape(batch.tokens.shape).take_along_dim(order[..., None], 1)
    nodes, before = [fresh(batch)] * (length + 1), None
    # Places are numbered path by path, the root first; what is kept is the first place that passes.
    kept, places = torch.full_like(lengths, -1), []
    for k in range(drafts):
        path = torch.full_like(kept, k)
        after = shared[:, k, k + 1] if k + 1 < drafts else torch.full_like(kept, -1)
        nodes = down(tree, path, before, nodes, room[0])
        for i in range(length, -1, -1):
            if i < length:
                p, q = tree.p.row(path, i, room[0]), tree.q.row(path, i, room[1])
                is_left = (after <= i) & (i < lengths)
                nodes[i] = chosen(is_left, refused(p, q, nodes[i], room[2]), nodes[i])
            passes = (kept < 0) & (after < i) & (i <= lengths)
            if i > 0:
                passes = coins[:, k, i - 1] < torch.where(passes, nodes[i].weight, 0)
            kept = torch.where(passes, k * (length + 1) + i, kept)
        places += nodes
        if k + 1 < drafts and length > 0:
            rest = left(tree, path, after, shared[:, k, : k + 1], room[1])
            nodes = [
                replace(node, rest=torch.where(after == i, rest, node.rest))
                for i, node in enumerate(nodes)
            ]
            before = after
    accepted = kept % (length + 1)
    path = order.gather(1, kept[:, None] // (length + 1))[:, 0]
    p, q = rows_behind(batch, path, accepted)
    a, c = (
        torch.stack(each, 1).gather(1, kept[:, None])[:, 0].to(p.dtype)
        for each in ([node.a for node in places], [node.c for node in places])
    )
    return Result(accepted, path, draw(excess(p, q, a, c, out=room[2]), noise[:, -1]))


def traversal_without_replacement(batch: Batch, noise: Tensor) -> Result:
    """Verify as `traversal` does: no child of a node is tried twice, however they are drawn."""
    return traversal(batch, noise)


def in_order(batch: Batch) -> tuple[Batch, Tensor, Tensor]:
    """Return the batch with its paths in the order of the leaves of their tree.

    Then the number [B, K] that each path had, and how many tokens two of them share, [B, K, K], L
    if they are the same. A node has its children in the order in which they first occur.
    """
    rows, drafts, length = batch.tokens.shape
    order = torch.arange(drafts, device=batch.tokens.device).expand(rows, -1)
    if drafts == 1 or length == 0:
        return batch, order, torch.full_like(order, length)[..., None].expand(-1, -1, drafts)
    is_same = (batch.tokens[:, :, None] == batch.tokens[:, None]).long().cumprod(-1)
    shared = is_same.sum(-1)
    # Two paths come in the order of their first companions behind what they share.
    first = is_same.argmax(2).gather(2, shared.clamp(max=length - 1))
    is_later = first > first.transpose(1, 2)
    is_equal = first == first.transpose(1, 2)
    rank = (is_later | is_equal & (order[:, :, None] > order[:, None])).sum(-1)
    order = rank.argsort(1)
    shared = shared.take_along_dim(order[:, :, None], 1).take_along_dim(order[:, None], 2)
    p, q = (
        replace(rows, at=rows.at.take_along_dim(order[..., None], 1)) for rows in (batch.p, batch.q)
    )
    tokens = batch.tokens.take_along_dim(order[..., None], 1)
    return replace(batch, tokens=tokens, p=p, q=q), order, shared


@dataclass(frozen=True)
class TraversalNode:
    """A node of one path of every request."""

    weight: Tensor
    """[B] float64: the probability w with which all that starts there may be kept."""
    a: Tensor
    """[B] float64: the target there is (a p - c q)+ / mass."""
    c: Tensor
    """[B] float64."""
    mass: Tensor
    """[B] float64."""
    rest: Tensor
    """[B] float64: the draft's mass R of the tokens that have not been refused there."""


def fresh(batch: Batch) -> TraversalNode:
    """Return a node of weight 1 of which no child has been refused."""
    one = torch.ones(len(batch.lengths), dtype=torch.float64, device=batch.lengths.device)
    return TraversalNode(one, one, torch.zeros_like(one), one, one)


def chosen(where: Tensor, new: TraversalNode, old: TraversalNode) -> TraversalNode:
    """Return the new node at the requests `where` [B] says so, the old one elsewhere."""
    pairs = zip(vars(new).values(), vars(old).values(), strict=True)
    return TraversalNode(*(torch.where(where, *pair) for pair in pairs))


def down(
    tree: Batch, path: Tensor, before: Tensor | None, nodes: list[TraversalNode], out: Tensor
) -> list[TraversalNode]:
    """Return the nodes of a path [B]; down to depth `before` [B] they are those that are given."""
    tokens = tree.tokens[torch.arange(len(path), device=path.device), path]
    p, q = (chances(tree, rows, path, tokens, out).double() for rows in (tree.p, tree.q))
    found, new = nodes[:1], fresh(tree)
    for i, old in enumerate(nodes[1:]):
        above = found[i]
        said = (above.a * p[:, i] - above.c * q[:, i]).clamp(min=0) / above.mass
        ratio = above.weight * said / (q[:, i] / above.rest)
        # Nothing is made of 0 / 0: what neither target nor draft says is not kept.
        node = replace(new, weight=ratio.clamp(max=1).nan_to_num())
        found.append(node if before is None else chosen(i + 1 > before, node, old))
    return found


def refused(p: Tensor, q: Tensor, node: TraversalNode, out: Tensor) -> TraversalNode:
    """Return a node of rows p, q [B, V] when another child was refused. Computed in `out`."""
    a, c, scale = scaled(node.weight * node.a, node.weight * node.c + node.mass / node.rest)
    left = mass(p, q, a.to(p.dtype), c.to(p.dtype), out=out).double()
    residual = left * scale / node.mass
    against = residual + (1 - node.weight)
    weight = torch.where(against > 0, residual / against, 1.0)
    is_void = left == 0
    return chosen(
        is_void, replace(node, weight=weight), TraversalNode(weight, a, c, left, node.rest)
    )


def left(tree: Batch, path: Tensor, depth: Tensor, shared: Tensor, out: Tensor) -> Tensor:
    """Return the draft's mass [B] without the tokens of a path [B] and those before it, at a depth.

    Only paths with the same node there, of those that share so many tokens, [B, k+1]. It is 1
    where no mass is left. Computed in `out`.
    """
    inside = depth.clamp(max=tree.length - 1)
    q = tree.q.row(path, inside, out)
    tokens = tree.tokens.take_along_dim(inside[:, None, None], 2)[:, : shared.shape[1], 0]
    gone = torch.where(shared >= depth[:, None], tokens, tokens[:, -1:])
    rest = q.scatter_(1, gone, 0).sum(-1).double()
    return torch.where(rest > 0, rest, 1.0)
