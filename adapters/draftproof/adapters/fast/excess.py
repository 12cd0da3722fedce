"""What is owed: the excess (a p - c q)+ of two rows, its mass, and a token drawn from it.

Every residual of every verifier here has this form. Token verification owes (p - q)+, block
verification (w p - q)+; and a residual whose target was a residual itself, of the same draft row,
is one again: (b (a p - c q)+ - d q)+ = (ab p - (bc + d) q)+. So trials against one row are two
numbers, not a row of their own.

Masses are sums of what is positive. What is left where p and q differ by rounding alone is
rounding, too; it is drawn from with the probability that coins leave it, which is as small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Batch, Rows
from draftproof.conformance.adapter import Result

CHUNK = 1024
"""How many tokens are searched one by one, after the chunk was found."""


def excess(p: Tensor, q: Tensor, a: Tensor, c: Tensor | None = None, *, out: Tensor) -> Tensor:
    """Return (a p - c q)+ [B, V] of rows p, q [B, V] and factors a, c [B], in `out`, may be q.

    Without c it is 1.
    """
    return _deficit(p, q, a, c, out).neg_()


def mass(p: Tensor, q: Tensor, a: Tensor, c: Tensor | None = None, *, out: Tensor) -> Tensor:
    """Return the sum [B] of `excess`, computed in `out`."""
    return _deficit(p, q, a, c, out).sum(-1).neg_()


def _deficit(p: Tensor, q: Tensor, a: Tensor, c: Tensor | None, out: Tensor) -> Tensor:
    """Return min(c q - a p, 0), in as few passes as there are operators for."""
    scaled = q if c is None else torch.mul(q, c[:, None], out=out)
    return torch.addcmul(scaled, p, a[:, None], value=-1, out=out).clamp_(max=0)


def scaled(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return x and y, neither negative, over the larger of them, and that one; (0, 1, 1) for 0."""
    larger = torch.maximum(x, y)
    y = torch.where(larger > 0, y, 1.0)
    larger = torch.maximum(x, y)
    return x / larger, y / larger, larger


def ratios(batch: Batch, path: Tensor) -> Tensor:
    """Return p / q [B, L] of every token of each request's `path` [B], 0 beyond its length.

    A token that its draft cannot have said: as good as infinite if the target can say it, else 0.
    """
    tokens = batch.tokens[torch.arange(len(path), device=path.device), path]
    p, q = (chances(batch, rows, path, tokens, batch.room[0]) for rows in (batch.p, batch.q))
    inside = torch.arange(batch.length, device=path.device) < batch.lengths[:, None]
    return torch.where(inside, (p / q).nan_to_num(), 0)


def chances(batch: Batch, rows: Rows, path: Tensor, tokens: Tensor, out: Tensor) -> Tensor:
    """Return what rows give to tokens [B, L] at depths 0..L-1 of each request's `path` [B].

    They are of the dtype of `out`, where rows of logits are computed. What is beyond a request's
    length is anything.
    """
    numbers = rows.numbers(path, slice(tokens.shape[1]))
    if rows.softmax is None:
        most = rows.values.shape[1]
        found = rows.values[rows.places(numbers), tokens.clamp(max=most - 1)].to(out.dtype)
        return found if most == batch.vocabulary else found.masked_fill_(tokens >= most, 0)
    found = torch.zeros(tokens.shape, dtype=out.dtype, device=tokens.device)
    if not batch.one_by_one:
        for depth in range(tokens.shape[1]):
            row = rows.row(path, depth, out)
            found[:, depth] = row.gather(1, tokens[:, depth, None])[:, 0]
        return found
    inside = torch.arange(tokens.shape[1], device=path.device) < batch.lengths[:, None]
    said, columns, each = [found.new_empty(0, 1)], tokens[inside][:, None], numbers[inside].tolist()
    for start, count in _runs(each, batch.at_once):
        here = rows.together(each[start], count, out)
        said.append(here.gather(1, columns[start : start + count]))
    found[inside] = torch.cat(said)[:, 0]
    return found


def _runs(numbers: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield where numbers of rows begin to go up by one, and how many do, `most` at once."""
    start = 0
    for i, number in enumerate(numbers):
        if i + 1 - start == most or numbers[i + 1 : i + 2] != [number + 1]:
            yield start, i + 1 - start
            start = i + 1


def masses(batch: Batch, path: Tensor, a: Tensor, is_open: Tensor) -> Tensor:
    """Return the masses [B, L+1] of (a p - q)+ along each request's `path` [B], with a [B, L+1].

    Only those that are open [B, L+1] matter, which the first and the last are not. They alone are
    looked at where rows are read one by one, and all others are 0 then.
    """
    found, (room, other, *_) = torch.zeros_like(a), batch.room
    if not batch.one_by_one:
        for depth in range(1, batch.length):
            p, q = batch.p.row(path, depth, room), batch.q.row(path, depth, other)
            found[:, depth] = mass(p, q, a[:, depth], out=other)
        return found
    request, where = is_open.nonzero().unbind(1)
    of_p, of_q = (rows.at[request, path[request], where].tolist() for rows in (batch.p, batch.q))
    sums = [found.new_empty(0)]
    for at_p, at_q, factor in zip(of_p, of_q, a[request, where, None], strict=True):
        p, q = batch.p.together(at_p, 1, room), batch.q.together(at_q, 1, other)
        sums.append(mass(p, q, factor, out=other[:1]))
    found[request, where] = torch.cat(sums)
    return found


def corrected(batch: Batch, path: Tensor, accepted: Tensor, a: Tensor, mark: Tensor) -> Result:
    """Return what is emitted where `accepted` [B] tokens of a `path` [B] are kept.

    The next token is drawn from (a p - q)+ behind them, with a [B]; from p where all were accepted,
    and where nothing is left, since target and draft differ by rounding alone.
    """
    if batch.one_by_one:
        return Result(accepted, path, _drawn_one_by_one(batch, path, accepted, a, mark))
    p, q = rows_behind(batch, path, accepted)
    owed = excess(p, q, torch.where(accepted == batch.lengths, 1, a), out=q)
    is_void = owed.sum(-1, keepdim=True) == 0
    return Result(accepted, path, draw(owed.addcmul_(p, is_void.to(p.dtype)), mark))


def _drawn_one_by_one(
    batch: Batch, path: Tensor, accepted: Tensor, a: Tensor, mark: Tensor
) -> Tensor:
    """Return the next token [B] as `corrected` draws it, of a few requests at once."""
    (room, other, *_), drawn = batch.room, [torch.empty_like(accepted[:0])]
    is_full, depth = accepted == batch.lengths, accepted.clamp(max=max(batch.length - 1, 0))
    of_p = batch.p.numbers(path, accepted).tolist()
    of_q = batch.q.numbers(path, depth).tolist() if batch.length > 0 else of_p
    requests = [*zip(of_p, of_q, is_full.tolist(), a[:, None], strict=True)]
    for start in range(0, len(requests), batch.at_once):
        some = requests[start : start + batch.at_once]
        owed = other[: len(some)]
        for out, (at_p, at_q, is_bonus, factor) in zip(owed[:, None].unbind(), some, strict=True):
            p = batch.p.together(at_p, 1, room)
            if not is_bonus:
                excess(p, batch.q.together(at_q, 1, out), factor, out=out)
            if is_bonus or out.sum() == 0:
                out.copy_(p)
        drawn.append(draw(owed, mark[start : start + len(some)]))
    return torch.cat(drawn)


def rows_behind(batch: Batch, path: Tensor, accepted: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows p, q [B, V] of the next token behind `accepted` [B] tokens of a `path` [B].

    Where all drafted tokens are accepted there is no row of the draft: q is 0.
    """
    is_full = accepted == batch.lengths
    p = batch.p.row(path, accepted, batch.room[0])
    if batch.length == 0:
        return p, torch.zeros_like(p)
    q = batch.q.row(path, torch.where(is_full, 0, accepted), batch.room[1])
    return p, q.masked_fill_(is_full[:, None], 0)


def draw(weights: Tensor, mark: Tensor) -> Tensor:
    """Return the token [B] at `mark` [B], in [0, 1), of the running sum of weights [B, V].

    Weights need not sum to 1; a token without weight is never drawn, from a row that has any. The
    sum runs in float64 over chunks, whose own sums are float32: at V = 262,144 equal weights, a
    sum that ran in float32 would be wrong by 1/64 of a token.
    """
    vocabulary = weights.shape[-1]
    size = min(CHUNK, vocabulary)
    whole = vocabulary // size * size
    chunks = weights[:, :whole].view(len(weights), whole // size, size).sum(-1)
    rest = weights[:, whole:].sum(-1, keepdim=True)
    reached = torch.cat([chunks, rest], 1).double().cumsum(1)
    here = mark * reached[:, -1]
    chunk = torch.minimum(_first_above(reached, here), _first_full(reached))
    before = torch.cat([torch.zeros_like(reached[:, :1]), reached], 1).gather(1, chunk[:, None])

    tokens = chunk[:, None] * size + torch.arange(size, device=weights.device)
    inside = weights.gather(1, tokens.clamp(max=vocabulary - 1)).double()
    running = inside.masked_fill(tokens >= vocabulary, 0).cumsum(1)
    own = torch.minimum(_first_above(running, here - before[:, 0]), _first_full(running))
    return chunk * size + own


def _first_above(running: Tensor, here: Tensor) -> Tensor:
    """Return the first index [B] at which a running sum [B, N] is above `here` [B], N if none."""
    return torch.searchsorted(running, here[:, None].contiguous(), right=True)[:, 0]


def _first_full(running: Tensor) -> Tensor:
    """Return the first index [B] at which a running sum [B, N] has its last value.

    Nothing is drawn beyond it, though a sum that was rounded otherwise says so.
    """
    return (running < running[:, -1:]).sum(-1)
