"""When each rank joins the tie class of a drafted token.

At time t the tie classes are the straight pieces of the least concave function above F - t W; see
`scores`. The height of the token's class, at a place inside of it, is the largest of all *chords*
over that place: lines from an edge on its left to an edge on its right. The height of a chord falls
evenly with the time. So the height of the class is the largest of many falling lines, and its
chords follow each other where two of these lines cross.

They are found by halves. Between a chord and one that is to come, ask which one is highest when the
two are equally high. If none is higher, the one follows the other then; else the question is asked
again on both sides of that time. Only edges between the two chords matter, so all questions of a
round are asked in one sweep over the edges. At V = 32,000, where a class has grown 10,000 times,
there are some 20 rounds.

Of all edges that have heights l and r at distances a and b to the left and right of the place, the
highest chord has the largest (l / a + r / b) / (1 / a + 1 / b). If the height h is too low, the
edges with the largest (l - h) / a and (r - h) / b have a higher chord. It takes three such steps,
mostly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Edges(NamedTuple):
    """All edges of B requests, B (V+1) of them."""

    place: Tensor
    """X, from the middle of the class at time 0 on."""
    worth: Tensor
    """W."""
    aim: Tensor
    """F."""

    def heights(self, chords: Tensor) -> tuple[Tensor, Tensor]:
        """Return the heights [N] of chords [N, 2] over place 0: at time 0, and how they fall."""
        x, w, f = (each.index_select(0, chords.view(-1)).view(-1, 2) for each in self)
        part = -x[:, 0] / (x[:, 1] - x[:, 0])
        return torch.lerp(f[:, 0], f[:, 1], part), torch.lerp(w[:, 0], w[:, 1], part)


def joining(mass: Tensor, worth: Tensor, aim: Tensor, is_edge: Tensor, ends: Tensor) -> Tensor:
    """Return when each rank [B, V] joins the class of two edges, `ends` [B, 2]; 0 inside of it.

    X, W, F and whether the aim has an edge there are [B, V+1].
    """
    rows, size = mass.shape
    place = mass - mass.gather(1, ends).mean(1, keepdim=True)
    edges = Edges(*(each.reshape(-1) for each in (place, worth, aim)))
    start = torch.arange(0, rows * size, size, device=mass.device)[:, None]
    now, later = ends + start, torch.cat((start, start + (size - 1)), 1)
    among = is_edge.reshape(-1).nonzero()[:, 0]
    found = torch.full_like(edges.place, -1)
    found[now[:, 0]] = 0
    pair = among // size
    while len(now):
        among, pair = _between(among, pair, now, later)
        best, time = _highest(edges, among, pair, now, later)
        is_last = (best == now).all(1) | (best == later).all(1)
        for begin, end in ((later[:, 0], now[:, 0]), (now[:, 1], later[:, 1])):
            where = (is_last & (begin < end)).nonzero()[:, 0]
            found[begin.index_select(0, where)] = time.index_select(0, where)
        rest = (~is_last).nonzero()[:, 0]
        now, best, later = (each.index_select(0, rest) for each in (now, best, later))
        # The edges of pair n are now between those of pair n or of pair n + M.
        where = (~is_last).index_select(0, pair).nonzero()[:, 0]
        among = among.index_select(0, where)
        pair = (torch.cumsum(~is_last, 0) - 1).index_select(0, pair.index_select(0, where))
        left, right = (each.index_select(0, pair) for each in best.unbind(1))
        pair = pair + len(best) * ((among < left) | (among > right))
        now, later = torch.cat((now, best)), torch.cat((best, later))
    found = found.view(rows, size)[:, :-1]
    # What begins at an edge goes on up to the next one.
    ranks = torch.arange(size - 1, device=mass.device)
    return found.gather(1, torch.where(found >= 0, ranks, 0).cummax(1).values)


def _between(among: Tensor, pair: Tensor, now: Tensor, later: Tensor) -> tuple[Tensor, Tensor]:
    """Return the edges, of pairs of chords, that are between the two, and their pairs."""
    left, right = (each.index_select(0, pair) for each in now.unbind(1))
    first, last = (each.index_select(0, pair) for each in later.unbind(1))
    is_left, is_right = (first < among) & (among < left), (right < among) & (among < last)
    where = (is_left | is_right).nonzero()[:, 0]
    return among.index_select(0, where), pair.index_select(0, where)


def _highest(
    edges: Edges, among: Tensor, pair: Tensor, now: Tensor, later: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the highest chords [M, 2] when M pairs of chords are equally high, and that time [M].

    It is one of the pair, or of the edges between them.
    """
    height, falling = edges.heights(now)
    then, falling_then = edges.heights(later)
    slower = falling - falling_then
    time = torch.where(slower > 0, (height - then) / slower, 1).clamp_(0, 1)
    height = height - time * falling
    number = torch.arange(len(now), device=now.device)
    every = torch.cat((among, now.view(-1), later.view(-1)))
    twice = number.repeat_interleave(2)
    pair = torch.cat((pair, twice, twice))
    place, worth, aim = (each.index_select(0, every) for each in edges)
    level = aim - time.index_select(0, pair) * worth
    side, near = 2 * pair + (place > 0), place.abs_().reciprocal_()
    none = height.new_full((2 * len(now),), -torch.inf)
    best = now
    while True:
        steepness = (level - height.index_select(0, pair)).mul_(near)
        most = none.scatter_reduce(0, side, steepness, "amax").index_select(0, side)
        which = torch.where(steepness == most, every, 0)
        chord = torch.zeros_like(side[: len(none)]).scatter_reduce(0, side, which, "amax")
        higher, falls = edges.heights(chord.view(-1, 2))
        higher = higher - time * falls
        is_higher = higher > height
        if not is_higher.any():
            return best, time
        best = torch.where(is_higher[:, None], chord.view(-1, 2), best)
        height = torch.where(is_higher, higher, height)
