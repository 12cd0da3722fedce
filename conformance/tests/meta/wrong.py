"""Verifiers that are wrong on purpose, each in one way that real engines have been wrong in."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.adapter import Request, Result


class Verifier:
    """Token verification with every step open to be got wrong."""

    version = "1"
    algorithm = "token"

    def __init__(self) -> None:
        self.name = type(self).__name__

    def accepted_length(self, passed: Tensor) -> Tensor:
        return passed.long().cumprod(-1).sum(-1)

    def coins(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio)

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return p / q

    def residual(self, p: Tensor, q: Tensor, token: Tensor) -> Tensor:
        return (p - q).clamp(min=0)

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return p[:, -1]

    def draw(self, rows: Tensor, coins: Tensor, accepted: Tensor) -> Tensor:
        return torch.multinomial(rows, 1)[:, 0]

    def verify(self, request: Request) -> Result:
        path, q, p = (
            request.draft_tokens[:, 0],
            request.draft_probs[:, 0],
            request.target_probs[:, 0],
        )
        ratio = self.threshold(_at(p[:, :-1], path), _at(q, path))
        coins = self.coins(ratio)
        accepted = self.accepted_length(coins < ratio)
        rows = torch.cat([self.residual(p[:, :-1], q, path), self.bonus(p, q)[:, None]], 1)[
            torch.arange(len(p)), accepted
        ]
        token = self.draw(rows, coins, accepted)
        return Result(accepted, torch.zeros_like(accepted), token)


def _at(rows: Tensor, path: Tensor) -> Tensor:
    return rows.gather(-1, path[..., None])[..., 0]


def _inverse_cdf(rows: Tensor, mark: Tensor) -> Tensor:
    """Return where the running sum passes `mark` [B]; the last token if it never does."""
    return (rows.cumsum(-1) <= mark[:, None]).sum(-1).clamp(max=rows.shape[-1] - 1)


class NotRenormalised(Verifier):
    """The residual's running sum is searched with a coin on 0..1: the last token gets the rest."""

    def draw(self, rows: Tensor, coins: Tensor, accepted: Tensor) -> Tensor:
        return _inverse_cdf(rows, torch.rand(len(rows)))


class ResidualFromTarget(Verifier):
    def residual(self, p: Tensor, q: Tensor, token: Tensor) -> Tensor:
        return p


class ResidualWithoutToken(Verifier):
    """Only the drafted token is taken out, as is right for a draft of one sure token."""

    def residual(self, p: Tensor, q: Tensor, token: Tensor) -> Tensor:
        others = p.scatter(-1, token[..., None], 0.0)
        return torch.where(others.sum(-1, keepdim=True) > 0, others, p)


class ResidualAbsolute(Verifier):
    def residual(self, p: Tensor, q: Tensor, token: Tensor) -> Tensor:
        return (p - q).abs() + 1e-9


class BonusFromDraft(Verifier):
    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return q[:, -1]


class BonusRowOffByOne(Verifier):
    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return p[:, -2]


class GoesOnAfterRejection(Verifier):
    """Counts the tokens that pass instead of stopping at the first that does not."""

    def accepted_length(self, passed: Tensor) -> Tensor:
        return passed.long().sum(-1)


class SharedCoin(Verifier):
    """The coin that rejected a token also picks its correction."""

    def draw(self, rows: Tensor, coins: Tensor, accepted: Tensor) -> Tensor:
        used = coins.gather(1, accepted.clamp(max=coins.shape[1] - 1)[:, None])[:, 0]
        return _inverse_cdf(rows / rows.sum(-1, keepdim=True), used)


class OneCoinForAll(Verifier):
    """One coin decides every position."""

    def coins(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio[:, :1]).expand_as(ratio)


class CoinSharedByRows(Verifier):
    """All rows of a batch use the coins of the first."""

    def coins(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio[:1]).expand_as(ratio)


class AcceptsEverything(Verifier):
    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return torch.ones_like(p) * 2


class AcceptsByTargetAlone(Verifier):
    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return p


class AcceptsAboveShortcut(Verifier):
    """A token that is nearly sure is accepted without a coin."""

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return torch.where(p > 0.99, 2.0, p / q)


class AcceptsNearlySure(Verifier):
    """The same, for a token that is sure to one in a thousand."""

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return torch.where(p > 0.999, 2.0, p / q)


class OneHot(Verifier):
    """The draft's law is ignored: lossless, but not what token verification accepts."""

    def threshold(self, p: Tensor, q: Tensor) -> Tensor:
        return p

    def residual(self, p: Tensor, q: Tensor, token: Tensor) -> Tensor:
        others = p.scatter(-1, token[..., None], 0.0)
        return torch.where(others.sum(-1, keepdim=True) > 0, others, p)


class BlockWithTokenResidual(Verifier):
    """Block acceptance, but the correction is drawn from the token rule's residual."""

    algorithm = "block"
    weighted = False

    def verify(self, request: Request) -> Result:
        path, q, p = (
            request.draft_tokens[:, 0],
            request.draft_probs[:, 0],
            request.target_probs[:, 0],
        )
        length = path.shape[1]
        ratio = _at(p[:, :-1], path) / _at(q, path)
        weights = [torch.ones(len(path))]
        for i in range(length):
            weights.append((weights[-1] * ratio[:, i]).clamp(max=1))
        weight = torch.stack(weights, 1)
        excess = (weight[:, :-1, None] * p[:, :-1] - q).clamp(min=0)
        mass = excess.sum(-1)[:, 1:]
        against = mass + 1 - weight[:, 1:-1]
        chance = torch.where(against > 0, mass / against, 1.0)
        accepted = self.kept(torch.cat([chance, weight[:, -1:]], 1))
        rows = torch.cat([self.correction(p[:, :-1], q, excess), p[:, -1:]], 1)
        rows = rows[torch.arange(len(p)), accepted]
        rows = torch.where(rows.sum(-1, keepdim=True) > 0, rows, p[torch.arange(len(p)), accepted])
        return Result(accepted, torch.zeros_like(accepted), torch.multinomial(rows, 1)[:, 0])

    def kept(self, chance: Tensor) -> Tensor:
        passed = torch.rand_like(chance) < chance
        return (passed * torch.arange(1, chance.shape[1] + 1)).amax(1)

    def correction(self, p: Tensor, q: Tensor, excess: Tensor) -> Tensor:
        return (p - q).clamp(min=0)


class BlockStopsAtFirstFailure(BlockWithTokenResidual):
    """The block rule's tests, but a failed one ends the scan."""

    def kept(self, chance: Tensor) -> Tensor:
        return (torch.rand_like(chance) < chance).long().cumprod(-1).sum(-1)

    def correction(self, p: Tensor, q: Tensor, excess: Tensor) -> Tensor:
        return excess


class TokenUnderBlockName(Verifier):
    """Lossless, but slower than it says."""

    algorithm = "block"


class OutOfRange(Verifier):
    def draw(self, rows: Tensor, coins: Tensor, accepted: Tensor) -> Tensor:
        return torch.multinomial(rows, 1)[:, 0] + rows.shape[-1] * (coins[:, 0] < 0.25)


class NeighbourRow(Verifier):
    """In a batch, every row is corrected with the next row's target."""

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return p[:, -1].roll(1, 0)


class CrashesOnRejection(Verifier):
    def draw(self, rows: Tensor, coins: Tensor, accepted: Tensor) -> Tensor:
        if (accepted < coins.shape[1]).any():
            raise IndexError("index 7 is out of bounds")
        return torch.multinomial(rows, 1)[:, 0]
