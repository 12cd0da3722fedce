"""Greedy block verification, of one path or several, as a Triton kernel that does all of a request.

Blocks are columns of a tile, (b, d) and the target of each, as `modified` says. Its rows are swept
once for every block that is open at a depth, of every path that passes through what is accepted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from draftproof.adapters.fast.inputs import EngineBatch
from draftproof.adapters.fast.kernels.launch import power_of_two
from draftproof.adapters.fast.kernels.pipeline import tell
from draftproof.adapters.fast.kernels.rows import among, drawn, excess, mass, p_of, q_of
from draftproof.adapters.fast.kernels.sources import Drafts, ModelRows, Numbers, mark_of, numbers
from draftproof.adapters.fast.kernels.walking import WalkRows, position, prepared, token_of, walked
from draftproof.adapters.fast.modified import following, of_state

_NUMBERS = 4096
"""How many numbers of a tile of blocks a program holds at most."""


class State(NamedTuple):
    """What iterations leave of G blocks of K paths: how many positions, [B, G], and (b, d)."""

    left: Any
    target: Any
    draft: Any
    iterations: Any
    drafts: Any


def greedy_block(flat: EngineBatch) -> tuple[Any, ...]:
    """Verify as `fast.greedy_block.greedy_block` does, the recursive one with one path."""
    return recursive_greedy_block(flat)


def recursive_greedy_block(flat: EngineBatch) -> tuple[Any, ...]:
    """Verify as `fast.greedy_block.recursive_greedy_block` does."""
    walk, told, drafts = prepared(flat), flat.told(), flat.tokens.shape[1]
    requests, longest = len(flat.ends), flat.longest
    before = _state(flat)
    left, target, draft = following(flat.state, requests, drafts, longest, flat.tokens.device)
    iterations, width = target.shape[1:]
    columns = power_of_two((before.iterations + 1) * width + 1)
    own = min(walk.requests, max(_NUMBERS // columns, 1))
    _verify[(-(-requests // own),)](
        *walk.of, walk.given.mark, told, before, State(left, target, draft, iterations, width),
        own, walk.given.tile, columns, power_of_two(longest + 1),
    )  # fmt: skip
    return *told, {"left": left, "target": target, "draft": draft}


def _state(flat: EngineBatch) -> State:
    if flat.state is None:
        return State(flat.ends, flat.ends, flat.ends, 0, flat.tokens.shape[1])
    left, target, draft = (each.contiguous() for each in of_state(flat.state, len(flat.ends)))
    return State(left, target, draft, left.shape[1], target.shape[2])


@triton.jit
def _verify(
    p: ModelRows, q: ModelRows, drafts: Drafts, walk: WalkRows, noise: Numbers, mark_at, told,
    before: State, after: State, BLOCK_B: tl.constexpr, BLOCK_V: tl.constexpr,
    BLOCKS: tl.constexpr, DEPTHS: tl.constexpr,
):  # fmt: skip
    """Verify path after path, and draw behind what is accepted."""
    request = walked(drafts, walk, BLOCK_B)
    FLOAT: tl.constexpr = walk.soft.dtype.element_ty
    real, length, V = request.real, request.length, drafts.vocabulary
    width, older = after.drafts, before.iterations * after.drafts

    block = tl.arange(0, BLOCKS)[None, :]
    is_older = real[:, None] & (block < older)
    iteration, number = block // width, block % width
    place = request.number[:, None] * before.iterations + iteration
    over = tl.load(before.left + place, mask=is_older, other=0).to(tl.int64)
    # One that drafts nothing knows no row of the draft, and loses what is left. Where an older
    # block goes on behind the last token, that is not verified: see `modified.inherited`.
    over = tl.where(length[:, None] > 0, over, 0)
    last = length - (tl.max(tl.where(is_older, over, -1), 1) > length).to(tl.int64)
    over = tl.where(block < older, over, last[:, None])
    is_told = is_older & (number < before.drafts)
    place = place * before.drafts + number
    b = tl.load(before.target + place, mask=is_told, other=1.0).to(tl.float64)
    d = tl.load(before.draft + place, mask=is_told, other=0.0).to(tl.float64)
    # At the node, column n is the target of block n; columns behind the last are what it leaves.
    a, c, m = tl.full([BLOCK_B, BLOCKS], 1.0, tl.float64), b * 0.0, b * 0.0 + 1.0
    kept, path = tl.full([BLOCK_B], 0, tl.int64), tl.full([BLOCK_B], 0, tl.int64)

    for k in range(drafts.drafts):
        through = real
        for i in range(drafts.longest):
            asked = through & (i < kept)
            own = token_of(drafts, request, k, i, asked)
            through &= own == token_of(drafts, request, path, i, asked)
        newest, start = older + k, kept
        d = tl.where((block == newest) & through[:, None], 1.0, d)
        now_b, now_d = b, d
        for i in range(drafts.longest + 1):
            walking = through & (start <= i) & (i <= last)
            if tl.max(walking.to(tl.int32)) > 0:
                at = position(p, q, drafts, walk, request, start * 0 + k, start * 0 + i, walking)
                one = tl.full([BLOCK_B], 1.0, tl.float64)
                level_a, level_c, level_m, owed = one, one * 0.0, one, one
                own_a, own_c, own_m = a * 0.0 + 1.0, a * 0.0, a * 0.0 + 1.0
                # The iterations before the last i have no block that reaches here.
                for n in range(tl.minimum(i * width, older), newest + 1):
                    this = block == n
                    x = tl.sum(tl.where(this, now_b, 0.0), 1)
                    y = tl.sum(tl.where(this, now_d, 0.0), 1)
                    inside = walking & (i < tl.sum(tl.where(this, over, 0), 1))
                    inside &= (y > 0) | (start * 0 + n == newest)
                    if tl.max(inside.to(tl.int32)) > 0:
                        new_a, new_c = x * level_a, x * level_c + y * level_m
                        scale = tl.maximum(new_a, new_c)
                        new_a, new_c = new_a / scale, new_c / scale
                        there = among(at, inside)
                        rest = mass(p, q, there, new_a.to(FLOAT), new_c.to(FLOAT), V, BLOCK_V)
                        rest = rest.to(tl.float64)
                        owed = rest * scale / level_m
                        modifies = inside & (rest > 0) & (y > 0)
                        level_a = tl.where(modifies, new_a, level_a)
                        level_c = tl.where(modifies, new_c, level_c)
                        level_m = tl.where(modifies, rest, level_m)
                    own_a = tl.where(block > n, level_a[:, None], own_a)
                    own_c = tl.where(block > n, level_c[:, None], own_c)
                    own_m = tl.where(block > n, level_m[:, None], own_m)
                share = tl.sum(tl.where(block == newest, now_b, 0.0), 1)
                against = owed + (1.0 - share)
                passing = tl.where(against > 0, owed / tl.where(against > 0, against, 1.0), 1.0)
                passing = tl.where(i == last, share, passing)
                tossed, depth = walking & (start < i), start * 0 + i - 1
                which = k * drafts.longest + depth
                coin = numbers(noise, request.number, tossed, which, start * 0 + k, depth)
                passes = (walking & (start == i)) | (tossed & (coin < passing))
                kept, path = tl.where(passes, i, kept), tl.where(passes, k, path)
                b, d = tl.where(passes[:, None], now_b, b), tl.where(passes[:, None], now_d, d)
                a, c = tl.where(passes[:, None], own_a, a), tl.where(passes[:, None], own_c, c)
                m = tl.where(passes[:, None], own_m, m)
                # What is said at the bonus is drawn, not drafted.
                going = walking & (i < last)
                token = token_of(drafts, request, start * 0 + k, start * 0 + i, going)
                x = p_of(p, at, token, going).to(tl.float64)[:, None]
                y = q_of(q, at, token, going).to(tl.float64)[:, None]
                said = going[:, None] & (block <= newest)
                next_b, next_d = behind(now_b, now_d, own_a, own_c, own_m, x, y)
                now_b, now_d = tl.where(said, next_b, now_b), tl.where(said, next_d, now_d)

    at = position(p, q, drafts, walk, request, path, kept, real)
    is_last = block == older + drafts.drafts
    final_a = tl.sum(tl.where(is_last, a, 0.0), 1).to(FLOAT)
    final_c = tl.sum(tl.where(is_last, c, 0.0), 1).to(FLOAT)
    mark = mark_of(noise, request.number, real, mark_at)
    token = drawn(excess, p, q, (at, final_a, final_c), mark, V, real, BLOCK_V)[0]
    tell(drafts, told, request.number, real, path, kept, token, DEPTHS)
    x = p_of(p, at, token, real).to(tl.float64)[:, None]
    y = q_of(q, at, token, real & (kept < length)).to(tl.float64)[:, None]
    b, d = behind(b, d, a, c, m, x, y)
    _hand_on(drafts, before, after, request, b, d, tl.maximum(over - kept[:, None] - 1, 0), BLOCKS)


@triton.jit
def behind(b, d, a, c, m, x, y):
    """Return (b, d) behind a token of probabilities x, y, as `modified.Blocks.after` does."""
    b, d = b * tl.maximum(a * x - c * y, 0.0), d * m * y
    d = tl.where(tl.maximum(b, d) > 0, d, 1.0)
    larger = tl.maximum(b, d)
    return b / larger, d / larger


@triton.jit
def _hand_on(drafts, before, after, request, b, d, left, BLOCKS: tl.constexpr):
    """Write what the next iteration is to be told of blocks [BLOCK_B, BLOCKS]: `modified.state`."""
    block = tl.arange(0, BLOCKS)[None, :]
    width, known = after.drafts, before.iterations + 1
    # The newest iteration comes last, and what is older than all that can reach is gone.
    iteration = block // width + after.iterations - known
    inside = request.real[:, None] & (iteration >= 0) & (block < known * width)
    is_block = block < before.iterations * width + drafts.drafts
    is_left = (left > 0) & is_block
    place = request.number[:, None] * after.iterations + iteration
    tl.store(after.left + place, left, mask=inside & (block % width == 0))
    where = place * width + block % width
    tl.store(after.target + where, tl.where(is_left, b, 1.0), mask=inside)
    tl.store(after.draft + where, tl.where(is_left, d, 0.0), mask=inside)
    for age in range(after.iterations - known):
        place = request.number[:, None] * after.iterations + age + block * 0
        first = request.real[:, None] & (block < width)
        tl.store(after.left + place, left * 0, mask=first & (block == 0))
        tl.store(after.target + place * width + block, b * 0 + 1, mask=first)
        tl.store(after.draft + place * width + block, b * 0, mask=first)
