"""The correct verifiers that mutants are made from: a mutant can replace every step, a method."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from draftproof.conformance.protocol.adapter import INVALID_INPUTS, Request, Result


class Token:
    """Token verification of one path. Rows of one request have the same length."""

    name = "token"
    version = "1"
    algorithm = "token"
    undefined: ClassVar = dict.fromkeys(INVALID_INPUTS, "it trusts its caller")

    def verify(self, request: Request) -> Result:
        """Verify B single paths."""
        path, q, p = self.rows(request)
        ratio = self.ratio(p[:, :-1], q, path)
        accepted = self.accepted(self.passed(self.coins(ratio, request), ratio))
        owed = torch.cat([self.residual(p[:, :-1], q, path), self.bonus(p, q)], 1)
        return self.emitted(accepted, owed, p, request)

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        """Return the path [B, L] and its rows q [B, L, V] and p [B, L+1, V]."""
        wide = torch.promote_types(request.target_probs.dtype, torch.float32)
        rows = request.draft_probs[:, 0].to(wide), request.target_probs[:, 0].to(wide)
        path = request.draft_tokens[:, 0]
        return path, *self.seen(path, *rows)

    def seen(self, path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows q [B, L, V] and p [B, L+1, V] to verify."""
        return q, p

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return the ratio p/q of each drafted token: [B, L]."""
        return at(p, path) / at(q, path)

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        """Return a uniform number for each ratio."""
        return torch.rand(ratio.shape, dtype=ratio.dtype, generator=request.generator)

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        """Return the positions that pass, as a mask."""
        return coins < ratio

    def accepted(self, passed: Tensor) -> Tensor:
        """Return the number of tokens [B] that pass before the first that does not."""
        return passed.long().cumprod(-1).sum(-1)

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return the weights of corrections, not normalised: [B, L, V]."""
        return (p - q).clamp(min=0)

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        """Return the weights of the bonus: [B, 1, V]."""
        return p[:, -1:]

    def emitted(self, accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
        """Draw the next token from the row of `owed` [B, L+1, V] after the accepted tokens."""
        row = torch.arange(len(p))
        last = owed[row, accepted]
        # Only rounding leaves nothing to draw from.
        last = torch.where(last.sum(-1, keepdim=True) > 0, last, p[row, accepted])
        return Result(accepted, torch.zeros_like(accepted), self.draw(last, request))

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        """Draw a token [B] from rows [B, V] that need not be normalised."""
        return torch.multinomial(rows, 1, generator=request.generator)[:, 0]


class Block(Token):
    """Block verification of one path."""

    name = "block"
    algorithm = "block"
    most: float = 1

    def verify(self, request: Request) -> Result:
        """Verify B single paths."""
        path, q, p = self.rows(request)
        weight = self.weights(self.ratio(p[:, :-1], q, path))
        excess = (weight[:, :-1, None] * p[:, :-1] - q).clamp(min=0)
        passing = self.passing(self.mass(excess, weight, p, q), weight)
        accepted = self.kept(self.coins(passing, request) < passing)
        owed = torch.cat([self.correction(excess, p[:, :-1], q), self.bonus(p, q)], 1)
        return self.emitted(accepted, owed, p, request)

    def weights(self, ratio: Tensor) -> Tensor:
        """Return w [B, L+1] of w_0 = 1, w_i = min(most, w_{i-1} ratio_i)."""
        weight = [torch.ones_like(ratio[:, 0])]
        for column in ratio.unbind(1):
            # 0 / 0 is no number: what neither can say has no weight.
            weight.append((weight[-1] * column).nan_to_num(0.0).clamp(max=self.most))
        return torch.stack(weight, 1)

    def mass(self, excess: Tensor, weight: Tensor, p: Tensor, q: Tensor) -> Tensor:
        """Return the target's remaining mass after each prefix but the whole path: [B, L]."""
        return excess.sum(-1)

    def passing(self, mass: Tensor, weight: Tensor) -> Tensor:
        """Return the probability [B, L] of passing the test of each prefix."""
        against = mass[:, 1:] + 1 - weight[:, 1:-1]
        shorter = torch.where(against > 0, mass[:, 1:] / against, 1.0)
        return torch.cat([shorter, weight[:, -1:]], 1)

    def kept(self, passed: Tensor) -> Tensor:
        """Return the length [B] of the longest prefix that passes."""
        return (passed * torch.arange(1, passed.shape[1] + 1)).amax(1)

    def correction(self, excess: Tensor, p: Tensor, q: Tensor) -> Tensor:
        """Return the weights of corrections, not normalised: [B, L, V]."""
        return excess


class GreedyBlock(Block):
    """Greedy block verification of one path, in blocks that nest; all are of one length.

    Of the last L-1 blocks, the oldest first, its state has `ratio` [B, L-1], the ratio of the
    target's to the draft's probability of the tokens emitted since the block's start, and `left`
    [B, L-1], the number of positions still to be modified.
    """

    name = "greedy-block"
    algorithm = "greedy_block"
    # Only what cannot be drafted has a ratio without end.
    most = 2.0**100

    def verify(self, request: Request) -> Result:
        """Verify B single paths."""
        result = super().verify(request)
        return replace(result, state=self.state(request, result))

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        """Return the path and its rows, the target's as modified by the earlier blocks."""
        path, q, p = super().rows(request)
        targets, _ = self.blocks(path, q, p, *self.told(request))
        return path, q, targets[:, -1]

    def passing(self, mass: Tensor, weight: Tensor) -> Tensor:
        """Return the probability [B, L] of passing the test of each prefix."""
        against = torch.maximum(mass[:, 1:], mass[:, 1:] + 1 - weight[:, 1:-1])
        shorter = torch.where(against > 0, mass[:, 1:] / against, 1.0)
        return torch.cat([shorter, weight[:, -1:].clamp(max=1)], 1)

    def told(self, request: Request) -> tuple[Tensor, Tensor]:
        """Return the ratio and the positions left [B, L-1] of the earlier blocks."""
        if request.state is not None:
            return request.state["ratio"], request.state["left"]
        rows, _, length = request.draft_tokens.shape
        return torch.ones(rows, length - 1), torch.zeros(rows, length - 1, dtype=torch.int64)

    def blocks(
        self, path: Tensor, q: Tensor, p: Tensor, ratio: Tensor, left: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the rows [B, L, L+1, V] of each block's target, and its ratios [B, L-1, L+1].

        The last of the targets is the current block's. Ratios are of the tokens before each
        position.
        """
        row = torch.arange(len(p))
        targets, ratios = [], []
        for i in range(p.shape[1]):
            levels = [p[:, i]]
            ratios.append(ratio)
            for block in range(ratio.shape[1]):
                levels.append(levels[-1])
                if i < path.shape[1]:
                    owed = (ratio[:, block, None] * levels[-1] - q[:, i]).clamp(min=0)
                    mass = owed.sum(-1, keepdim=True)
                    modified = (left[:, block, None] > i) & (mass > 0)
                    levels[-1] = torch.where(modified, owed / mass, levels[-1])
            targets.append(torch.stack(levels, 1))
            if i < path.shape[1]:
                said = self.said(targets[-1], p[:, i])[row, :-1, path[:, i]]
                ratio = ratio * said / at(q, path)[:, i, None]
        return torch.stack(targets, 2), torch.stack(ratios, 2)

    def said(self, targets: Tensor, p: Tensor) -> Tensor:
        """Return the rows [B, L, V] behind the ratio of each block: the rows of its target."""
        return targets

    def state(self, request: Request, result: Result) -> dict[str, Tensor] | None:
        """Return the state of the last blocks, including the current one."""
        path, q, p = super().rows(request)
        ratio, left = self.told(request)
        targets, ratios = self.blocks(path, q, p, ratio, left)
        own = self.weights(self.ratio(targets[:, -1, :-1], q, path))
        ratios = torch.cat([ratios, own[:, None]], 1)
        row, accepted, token = torch.arange(len(p)), result.accepted_length, result.next_token
        after = self.emitted_ratio(
            ratios[row, :, accepted],
            self.said(targets[row, :, accepted], p[row, accepted])[row, :, token],
            # Where all is accepted, nothing is left of any block.
            q[row, accepted.clamp(max=path.shape[1] - 1), token],
        )
        left = torch.cat([left, torch.full_like(accepted, path.shape[1])[:, None]], 1)
        left = self.positions_left(left, accepted)
        # What the draft never says has no ratio, and owes nothing after it.
        left = torch.where(after.isfinite(), left, 0)
        return {"ratio": torch.where(left > 0, after, 1.0)[:, 1:], "left": left[:, 1:]}

    def emitted_ratio(self, ratio: Tensor, p: Tensor, q: Tensor) -> Tensor:
        """Return the ratio [B, L] of each block, including the next token."""
        return ratio * p / q[:, None]

    def positions_left(self, left: Tensor, accepted: Tensor) -> Tensor:
        """Return the number of positions [B, L] that each block has left after the next token."""
        return (left - accepted[:, None] - 1).clamp(min=0)


class Ragged(Token):
    """Token verification of rows of different lengths."""

    name = "ragged"
    ragged = True

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        """Return the path, -1 where a row has ended, and its rows."""
        path, q, p = super().rows(request)
        if request.lengths is not None:
            ended = torch.arange(path.shape[1]) >= request.lengths[:, None]
            path = path.masked_fill(ended, -1)
        return path, q, p

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return 0 where a row has ended: there is nothing to accept."""
        return torch.where(path >= 0, super().ratio(p, q, path.clamp(min=0)), 0.0)

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return the bonus row where a row has ended: nothing is subtracted from it."""
        return torch.where((path >= 0)[..., None], super().residual(p, q, path), p)


class Supplied(Token):
    """Token verification on the caller's random numbers."""

    name = "supplied"
    noise: ClassVar = {"coins": ("uniform", "L"), "race": ("exponential", "V")}

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        """Return the caller's coins."""
        return request.noise["coins"]  # type: ignore[index]  # it is declared

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        """Let the tokens race: the token with the most probability per time wins."""
        clocks = request.noise["race"]  # type: ignore[index]  # it is declared
        return (rows / clocks.clamp(min=torch.finfo(clocks.dtype).tiny)).argmax(-1)


class Logits(Token):
    """Token verification of rows given as logits."""

    name = "logits"
    logits = True

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        """Return the path and the softmax of its rows."""
        q, p = request.draft_logits, request.target_logits
        return request.draft_tokens[:, 0], q[:, 0].softmax(-1), p[:, 0].softmax(-1)  # type: ignore[index]  # they are declared


class Checked(Token):
    """Token verification that refuses invalid input."""

    name = "checked"
    undefined: ClassVar = {}

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        """Return the path and its rows, checked. Raises `ValueError`."""
        tokens, vocabulary = request.draft_tokens, request.draft_probs.shape[-1]
        count, drafts, length = tokens.shape
        if request.draft_probs.shape != (count, 1, length, vocabulary) or drafts != 1:
            raise ValueError("there must be a row of the draft for every token of one path")
        if request.target_probs.shape != (count, 1, length + 1, vocabulary):
            raise ValueError("there must be a row of the target for every token and the bonus")
        path, q, p = super().rows(request)
        if ((path < 0) | (path >= p.shape[-1])).any():
            raise ValueError("a drafted token is not in the vocabulary")
        if self.is_invalid(q) or self.is_invalid(p):
            raise ValueError("a row is no probability distribution")
        return path, q, p

    def is_invalid(self, rows: Tensor) -> bool:
        """Return True if one of the rows is not a distribution."""
        sums = rows.sum(-1)
        return not ((rows >= 0).all() and ((sums - 1).abs() < 1e-2).all())


def at(rows: Tensor, path: Tensor) -> Tensor:
    """Return the entry [B, L] of each path token in its row [B, L, V]."""
    return rows.gather(-1, path[..., None])[..., 0]


def one_hot(token: Tensor, rows: Tensor) -> Tensor:
    """Return rows like `rows` [..., V] that are certain of a token [...]."""
    return torch.zeros_like(rows).scatter(-1, token[..., None], 1.0)


def without(rows: Tensor, token: Tensor) -> Tensor:
    """Return the rows [..., V] with a zero at a token [...], not normalised."""
    return rows.scatter(-1, token[..., None], 0.0)


def tempered(rows: Tensor, temperature: float) -> Tensor:
    """Return the rows [..., V] at a different temperature."""
    return (rows.log() / temperature).softmax(-1)


def in_blocks(rows: Tensor, size: int, *, large: int) -> Tensor:
    """Return the whole blocks of the rows [B, V] of a large vocabulary; all of a smaller one.

    A row that has nothing left becomes uniform.
    """
    vocabulary = rows.shape[-1]
    blocks = rows[:, : vocabulary // size * size] if vocabulary >= large else rows
    return torch.where(blocks.sum(-1, keepdim=True) == 0, 1.0, blocks)


def reached(rows: Tensor, mark: Tensor) -> Tensor:
    """Return the first token [B] at which the share of a row [B, V] exceeds `mark` [B, 1]."""
    shares = rows.cumsum(-1) / rows.sum(-1, keepdim=True)
    return (shares <= mark).sum(-1).clamp(max=rows.shape[-1] - 1)
