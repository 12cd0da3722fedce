"""Scored greedy block verification: K paths compete to the end, the winner is kept greedily.

The block leaves (p - Q')+ of what follows inside of it, where Q' is the law of the selected path;
and so on, blocks inside of blocks, as in `modified`. Where the target is M = a p - c q, and `owed`
is M of the text since the block's start over q, the row behind it is (owed M - high q)+: two
factors of the rows at hand again. But `high` depends on the scores of the paths through the text,
so a block is carried on with its cells. What is emitted is seldom a path of the drafts: its scores
are those that a path would have had.

Of each block there are, besides the cells, two numbers b and d, float64, the larger of them 1: what
its target gives the text, and what Q' gives it, up to a factor. d = 0 leaves M as it is, for what
the draft never says. So does a block that owes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.excess import draw, rows_behind, scaled
from draftproof.adapters.fast.inputs import InvalidRequest
from draftproof.adapters.fast.scored_multipath_block import drafted_rows
from draftproof.adapters.fast.scores import Scores, everywhere, ranked, ratios, smallest, split
from draftproof.conformance.adapter import Result


def scored_greedy_block(batch: Batch, noise: Tensor) -> Result:
    """Select the path with the smallest score, and keep it greedily; hand on what is owed.

    `noise` [B, L+2]: a number that selects the path, a coin for each prefix, and the mark of the
    next token. Ours.
    """
    blocks = inherited(batch)
    paths = [
        _followed(batch, blocks, batch.tokens[:, k], torch.full_like(batch.lengths, k))
        for k in range(batch.drafts)
    ]
    path = draw(smallest([each.blocks.scores[-1] for each in paths]), noise[:, 0])
    along = torch.stack([each.along for each in paths], 1)
    passing, a, c = along[torch.arange(len(path), device=path.device), path].unbind(2)

    depth = torch.arange(1, batch.length + 1, device=path.device)
    passes = (noise[:, 1:-1] < passing[:, 1:]) & (depth <= blocks.end[:, None])
    accepted = torch.cat([torch.zeros_like(path[:, None]), passes * depth], 1).amax(1)
    p, q = rows_behind(batch, path, accepted)
    a, c = (each.gather(1, accepted[:, None]) for each in (a, c))
    owed = torch.addcmul(p.double() * a, q.double(), c, value=-1).clamp_(min=0)
    token = draw(torch.where(owed.sum(1, keepdim=True) > 0, owed, p.double()), noise[:, -1])

    row = torch.arange(len(path), device=path.device)
    emitted = pad(batch.tokens[row, path], (0, 1)).scatter(1, accepted[:, None], token[:, None])
    after = _followed(batch, blocks, emitted, path, accepted + 1)
    return Result(accepted, path, token, state(after.blocks, accepted + 1, batch))


@dataclass(frozen=True)
class ScoredBlocks:
    """N blocks of every request, the outer ones first: one of each iteration, this one's last."""

    scores: list[Scores]
    """Of the paths through the text, by block."""
    b: Tensor
    """[B, N]: what its target gives the text since the block's start, up to a factor."""
    d: Tensor
    """[B, N]: what Q' gives it, up to that factor."""
    left: Tensor
    """[B, N-1] int64: how many positions the blocks before have left."""
    end: Tensor
    """[B] int64: at which depth this iteration's block is over."""

    def is_inside(self, block: int, depth: int) -> Tensor | None:
        """Return whether a block modifies the rows [B] of a depth; None is never.

        Of the blocks before, the last one has N - 1 positions left at most, the first one has one.
        """
        if block == self.left.shape[1]:
            return depth < self.end
        return depth < self.left[:, block] if depth <= block else None


@dataclass(frozen=True)
class _Followed:
    """What a text makes of the blocks."""

    blocks: ScoredBlocks
    along: Tensor
    """[B, L+1, 3]: h, a and c behind every prefix."""


def _followed(
    batch: Batch,
    blocks: ScoredBlocks,
    tokens: Tensor,
    path: Tensor,
    until: Tensor | None = None,
) -> _Followed:
    """Follow tokens [B, L or more] along the rows of a `path` [B], or the first `until` [B]."""
    until = batch.lengths if until is None else torch.minimum(until, batch.lengths)
    drafts, one = batch.drafts, torch.ones_like(blocks.b[:, 0])
    along = []
    for i in range(batch.length):
        p, q = drafted_rows(batch, path, i, until)
        ranks, token = ranked(p, q), tokens[:, i, None] * (i < until)[:, None]
        ratio, said = ratios(p.gather(1, token), q.gather(1, token)), q.gather(1, token)[:, 0]
        alone = p.gather(1, token)[:, 0]
        place, is_on = ranks.place(ratio), i < until
        wanted, unsaid, a, c = ranks.ratio, ranks.unsaid, one, torch.zeros_like(one)
        scores, b, d = [*blocks.scores], blocks.b.clone(), blocks.d.clone()
        passing = one
        for n in range(len(scores)):
            is_inside = blocks.is_inside(n, i)
            if is_inside is None:
                continue
            weight = torch.where(d[:, n] > 0, b[:, n] / d[:, n], 1).clamp(max=2.0**900)
            here = split(scores[n], ranks, wanted, unsaid, weight, drafts)
            own = (a * ratio[:, 0] - c).clamp(min=0)
            # What q cannot have said has no ratio, and nothing of it is taken off.
            gives = torch.where(said > 0, own, a * alone)
            law = torch.where(said > 0, here.law(own), 0)
            moved = scaled(b[:, n] * here.reach * gives, d[:, n] * law)
            is_moved = is_on & is_inside
            b[:, n], d[:, n] = (
                torch.where(is_moved, new, old[:, n])
                for new, old in zip(moved[:2], (b, d), strict=True)
            )
            if drafts > 1:
                scores[n] = here.after(place)
            if n + 1 == len(scores):
                passing = torch.where(blocks.end == i, weight, here.passing)
            modifies = is_inside & (here.more > 0) & (blocks.d[:, n] > 0)
            more = torch.where(modifies, here.more, 1)
            owed = torch.where(modifies, here.owed, 1) / more
            high = torch.where(modifies, here.high, 0) / more
            wanted = torch.addcmul(-high[:, None], wanted, owed[:, None]).clamp_(min=0)
            unsaid, a, c = owed * unsaid, owed * a, owed * c + high
        blocks = replace(blocks, scores=scores, b=b, d=d)
        along.append(torch.stack((passing, a, c), 1))
    b, d = blocks.b[:, -1], blocks.d[:, -1]
    weight = torch.where(d > 0, b / d, 1)
    along.append(torch.stack((weight, one, torch.zeros_like(one)), 1))
    return _Followed(blocks, torch.stack(along, 1))


_NAMES = "left", "drafts", "target", "selected", "low", "high", "upto"
"""Of the tensors of a state; the last three are cells."""


def inherited(batch: Batch) -> ScoredBlocks:
    """Return the blocks of `batch.state`, and one that starts here.

    It ends with a request's draft; but one token earlier where an older block goes on behind it:
    the bonus would be drawn from a row that needs the draft's, which is not given. A request that
    drafts nothing knows no row of the draft, and loses what is left. Raises `InvalidRequest` for a
    state that is not of these requests.
    """
    lengths, root = batch.lengths, everywhere(len(batch.lengths), batch.lengths.device)
    one = torch.ones_like(root.low)
    if batch.state is None:
        return ScoredBlocks([root], one, one, lengths.new_zeros(len(lengths), 0), lengths)
    left, drafts, b, d, *cells = of_state(batch.state, len(lengths))
    left = torch.where(lengths[:, None] > 0, left, 0)
    if ((left > 0) & (drafts != batch.drafts)).any():
        raise InvalidRequest(
            f"state must be of calls of {batch.drafts} paths: what a block leaves depends on how "
            f"many competed in it"
        )
    end = lengths - (left > lengths[:, None]).any(1).long()
    scores = [Scores(*(each[:, n].contiguous() for each in cells)) for n in range(left.shape[1])]
    b, d = (torch.cat((each, one), 1) for each in (b, d))
    return ScoredBlocks([*scores, root], b, d, left, end)


def of_state(state: Mapping[str, Tensor], requests: int) -> list[Tensor]:
    """Return the tensors of a state by the order of their names. Raises `InvalidRequest`."""
    missing = [name for name in _NAMES if name not in state]
    if missing:
        raise InvalidRequest(f"state has no {missing[0]!r}: it must be what a call of this left")
    found = [state[name] for name in _NAMES]
    shape, cells = found[0].shape, found[4].shape
    fits = len(shape) == 2 and len(cells) == 3 and cells[:2] == shape and cells[2] > 0
    if not fits or [each.shape for each in found] != [shape] * 4 + [cells] * 3:
        shapes = ", ".join(f"{name!r} {list(state[name].shape)}" for name in _NAMES)
        raise InvalidRequest(f"state must be what a call of this left, of one form; got {shapes}")
    if shape[0] != requests:
        raise InvalidRequest(
            f"state must have a row for each of the {requests} requests, got {shape[0]}; one that "
            f"joins the batch has left 0"
        )
    return found


def state(blocks: ScoredBlocks, emitted: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return what blocks leave behind `emitted` [B] tokens of at most L + 1.

    `left` [B, L-1] int64 says how many positions the blocks of the last L-1 iterations have left,
    the oldest first, and `drafts` how many paths competed there; `target` and `selected` [B, L-1]
    float64 are (b, d) of each; `low`, `high` and `upto` [B, L-1, C] float64 are its cells. What is
    over, and what has not been, has 0, 1, 1, 0 and one cell of all scores.
    """
    left = torch.cat((blocks.left, blocks.end[:, None]), 1)
    known = left.shape[1]
    count = max(known - 1, batch.length - 1)
    more = count - known
    left = (left - emitted[:, None]).clamp(min=0)
    is_left = zip(blocks.scores, (left > 0).any(0).tolist(), strict=True)
    widest = max([1, *(each.low.shape[1] for each, some in is_left if some)])
    left = pad(left, (more, 0))
    is_over = left == 0

    def of_blocks(each: Tensor, none: float) -> Tensor:
        return pad(each, (more, 0), value=none).masked_fill(is_over, none)

    def of_cells(name: str, none: float) -> Tensor:
        each = [getattr(scores, name)[:, :widest] for scores in blocks.scores]
        wide = torch.stack([pad(x, (0, widest - x.shape[1]), value=1.0) for x in each], 1)
        wide = pad(wide, (0, 0, more, 0), value=1.0).masked_fill(is_over[..., None], 1.0)
        wide[..., 0] = wide[..., 0].masked_fill(is_over, none)
        return wide

    return {
        "left": left,
        "drafts": torch.full_like(left, batch.drafts).masked_fill(is_over, 1),
        "target": of_blocks(blocks.b, 1.0),
        "selected": of_blocks(blocks.d, 0.0),
        "low": of_cells("low", 0.0),
        "high": of_cells("high", 1.0),
        "upto": of_cells("upto", 1.0),
    }
