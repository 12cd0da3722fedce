"""Correct verifiers in the styles that people write them in. Every one must be found to conform."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy
import torch
from torch import Tensor

from draftproof.conformance.protocol.adapter import Request, Result


class Verifier:
    """What the verifiers below share: a name, and one path per row."""

    version = "1"
    algorithm = "token"

    def __init__(self) -> None:
        self.name = type(self).__name__


def one_path(request: Request) -> tuple[Tensor, Tensor, Tensor]:
    """Return path [B, L], q [B, L, V] and p [B, L+1, V]."""
    return request.draft_tokens[:, 0], request.draft_probs[:, 0], request.target_probs[:, 0]


def result(accepted: Tensor, token: Tensor) -> Result:
    return Result(accepted, torch.zeros_like(accepted), token)


def at(rows: Tensor, path: Tensor) -> Tensor:
    return rows.gather(-1, path[..., None])[..., 0]


def correction_rows(accepted: Tensor, q: Tensor, p: Tensor) -> Tensor:
    """Return the residual, or the bonus row, at the accepted length of each row."""
    row = torch.arange(len(p))
    padded = torch.cat([q, torch.zeros_like(p[:, :1])], 1)
    return (p[row, accepted] - padded[row, accepted]).clamp(min=0)


class Batched(Verifier):
    """Token verification; subclasses choose how to accept and how to draw."""

    def accept(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio) < ratio

    def draw(self, rows: Tensor) -> Tensor:
        return torch.multinomial(rows, 1)[:, 0]

    def verify(self, request: Request) -> Result:
        path, q, p = one_path(request)
        passed = self.accept(at(p[:, :-1], path) / at(q, path))
        accepted = passed.long().cumprod(-1).sum(-1)
        return result(accepted, self.draw(correction_rows(accepted, q, p)))


class InverseCdf(Batched):
    def draw(self, rows: Tensor) -> Tensor:
        cumulative = rows.cumsum(-1)
        mark = torch.rand(len(rows), 1) * cumulative[:, -1:]
        return (cumulative <= mark).sum(-1)


class SearchSorted(Batched):
    def draw(self, rows: Tensor) -> Tensor:
        cumulative = (rows / rows.sum(-1, keepdim=True)).cumsum(-1)
        found = torch.searchsorted(cumulative, torch.rand(len(rows), 1), right=True)[:, 0]
        return found.clamp(max=rows.shape[-1] - 1)


class GumbelRace(Batched):
    def draw(self, rows: Tensor) -> Tensor:
        uniform = torch.rand_like(rows).clamp(min=torch.finfo(rows.dtype).tiny)
        return (rows.log() - torch.log(-torch.log(uniform))).argmax(-1)


class GuardedGumbelRace(Batched):
    def draw(self, rows: Tensor) -> Tensor:
        gumbel = -torch.log(-torch.log(torch.rand_like(rows) + 1e-20) + 1e-20)
        return (rows.log() + gumbel).argmax(-1)


class ExponentialRace(Batched):
    def draw(self, rows: Tensor) -> Tensor:
        noise = torch.empty_like(rows).exponential_()
        return rows.div(noise).argmax(-1)


class LogSpace(Batched):
    def accept(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio).log() < ratio.log()


class BernoulliAccepts(Batched):
    def accept(self, ratio: Tensor) -> Tensor:
        return torch.bernoulli(ratio.clamp(max=1)).bool()


class Flipped(Batched):
    def accept(self, ratio: Tensor) -> Tensor:
        return ~(ratio.nan_to_num(0.0) <= torch.rand_like(ratio))


class Double(Batched):
    dtype = torch.float64


class WidenedInside(Batched):
    def verify(self, request: Request) -> Result:
        wide = Request(
            request.draft_tokens,
            request.draft_probs.double(),
            request.target_probs.double(),
            request.generator,
        )
        return super().verify(wide)


class WithGenerator(Verifier):
    def verify(self, request: Request) -> Result:
        path, q, p = one_path(request)
        ratio = at(p[:, :-1], path) / at(q, path)
        coins = torch.empty_like(ratio).uniform_(generator=request.generator)
        accepted = (coins < ratio).long().cumprod(-1).sum(-1)
        rows = correction_rows(accepted, q, p)
        return result(accepted, torch.multinomial(rows, 1, generator=request.generator)[:, 0])


class SharedRace(Verifier):
    """One exponential race per row serves every position: only one of its results is used."""

    def verify(self, request: Request) -> Result:
        path, q, p = one_path(request)
        ratio = at(p[:, :-1], path) / at(q, path)
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        residual = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)
        noise = torch.empty_like(p[:, 0]).exponential_()
        recovered = (residual / noise[:, None]).argmax(-1)
        return result(accepted, recovered.gather(1, accepted[:, None])[:, 0])


class RowLoop(Verifier):
    """Python all the way: rows, positions, and scalars taken out of tensors."""

    def verify(self, request: Request) -> Result:
        accepted, tokens = [], []
        for path, q, p in zip(*one_path(request), strict=True):
            kept = 0
            while kept < len(path):
                token = int(path[kept])
                if torch.rand(()).item() >= float(p[kept, token]) / float(q[kept, token]):
                    break
                kept += 1
            row = p[kept] - q[kept] if kept < len(path) else p[kept]
            tokens.append(int(torch.multinomial(row.clamp(min=0), 1)))
            accepted.append(kept)
        return result(torch.tensor(accepted), torch.tensor(tokens))


class OneAtATime(RowLoop):
    batch = False


class BlockInverseCdf(Verifier):
    """Block verification, position by position from the end, with an inverse-CDF draw."""

    algorithm = "block"

    def verify(self, request: Request) -> Result:
        accepted, tokens = [], []
        for path, q, p in zip(*one_path(request), strict=True):
            length = len(path)
            weight = [1.0]
            for i, token in enumerate(path.tolist()):
                weight.append(min(1.0, weight[i] * float(p[i, token]) / float(q[i, token])))
            kept = length
            while kept > 0:
                if kept == length:
                    passing = weight[kept]
                else:
                    mass = float((weight[kept] * p[kept] - q[kept]).clamp(min=0).sum())
                    passing = mass / (mass + 1 - weight[kept]) if mass else float(weight[kept] == 1)
                if torch.rand(()) < passing:
                    break
                kept -= 1
            row = p[kept] if kept == length else (weight[kept] * p[kept] - q[kept]).clamp(min=0)
            mark = torch.rand(()) * row.sum()
            tokens.append(int((row.cumsum(0) <= mark).sum()))
            accepted.append(kept)
        return result(torch.tensor(accepted), torch.tensor(tokens))


class BlockVectorised(Verifier):
    """Block verification with all tests at once and a Gumbel race."""

    algorithm = "block"

    def verify(self, request: Request) -> Result:
        path, q, p = one_path(request)
        length = path.shape[1]
        weights = [torch.ones(len(path))]
        for i in range(length):
            weights.append(
                (weights[-1] * at(p[:, i], path[:, i]) / at(q[:, i], path[:, i]))
                .nan_to_num(0.0)
                .clamp(max=1)
            )
        weight = torch.stack(weights, 1)
        excess = (weight[:, :-1, None] * p[:, :-1] - q).clamp(min=0)
        mass = excess.sum(-1)
        chance = mass[:, 1:] / (mass[:, 1:] + 1 - weight[:, 1:-1])
        chance = torch.cat([chance.nan_to_num(1.0), weight[:, -1:]], 1)
        passed = torch.rand_like(chance) < chance
        accepted = (passed * torch.arange(1, length + 1)).amax(1)
        rows = torch.cat([excess, p[:, -1:]], 1)[torch.arange(len(path)), accepted]
        gumbel = -torch.empty_like(rows).exponential_().log()
        return result(accepted, (rows.log() + gumbel).argmax(-1))


class Float64Cdf(Batched):
    """Residuals are summed, and searched, in double precision."""

    def draw(self, rows: Tensor) -> Tensor:
        cumulative = rows.double().cumsum(-1)
        mark = torch.rand(len(rows), 1, dtype=torch.float64) * cumulative[:, -1:]
        return torch.searchsorted(cumulative, mark, right=True)[:, 0].clamp(max=rows.shape[-1] - 1)


class TakesLogits(Verifier):
    """Logits come in; probabilities are taken inside, ratios in log space."""

    logits = True

    def verify(self, request: Request) -> Result:
        assert request.draft_logits is not None
        assert request.target_logits is not None
        path = request.draft_tokens[:, 0]
        q, p = (
            request.draft_logits[:, 0].log_softmax(-1),
            request.target_logits[:, 0].log_softmax(-1),
        )
        passed = torch.rand(path.shape).log() < at(p[:, :-1], path) - at(q, path)
        accepted = passed.long().cumprod(-1).sum(-1)
        return result(
            accepted, torch.multinomial(correction_rows(accepted, q.exp(), p.exp()), 1)[:, 0]
        )


class NoiseSupplied(Verifier):
    """All random numbers come with the request."""

    noise: ClassVar = {"coins": ("uniform", "L"), "marks": ("uniform",)}

    def verify(self, request: Request) -> Result:
        assert request.noise is not None
        path, q, p = one_path(request)
        passed = request.noise["coins"] < at(p[:, :-1], path) / at(q, path)
        accepted = passed.long().cumprod(-1).sum(-1)
        cumulative = correction_rows(accepted, q, p).cumsum(-1)
        mark = request.noise["marks"][:, None] * cumulative[:, -1:]
        return result(accepted, (cumulative <= mark).sum(-1).clamp(max=p.shape[-1] - 1))


class RowByRow(WithGenerator):
    """A batch is taken apart, and its rows are verified one after another."""

    def verify(self, request: Request) -> Result:
        results = []
        for row in range(len(request.draft_tokens)):
            tokens, q, p = (
                tensor[row : row + 1]
                for tensor in (request.draft_tokens, request.draft_probs, request.target_probs)
            )
            results.append(super().verify(Request(tokens, q, p, request.generator)))
        return result(
            torch.cat([each.accepted_length for each in results]),
            torch.cat([each.next_token for each in results]),
        )


class FlatRagged(Verifier):
    """Rows of different lengths lie one after another, and are found by their ends, cu_num."""

    ragged = True

    def verify(self, request: Request) -> Result:
        path, q, p = one_path(request)
        lengths = request.lengths
        if lengths is None:
            lengths = torch.full((len(path),), path.shape[1])
        cu_num_draft_tokens = lengths.cumsum(0)
        held = torch.arange(path.shape[1]) < lengths[:, None]
        flat_path, flat_q, flat_p = path[held], q[held], p[:, :-1][held]
        passed = (
            torch.rand(len(flat_path))
            < at(flat_p[None], flat_path[None])[0] / (at(flat_q[None], flat_path[None])[0])
        )
        accepted, rows = [], []
        for row, (length, end) in enumerate(
            zip(lengths.tolist(), cu_num_draft_tokens.tolist(), strict=True)
        ):
            kept = passed[end - length : end].long().cumprod(0).sum()
            taken = torch.cat([q[row], torch.zeros_like(p[row, :1])])
            taken[length:] = 0
            accepted.append(kept)
            rows.append((p[row, kept] - taken[kept]).clamp(min=0))
        return result(torch.stack(accepted), torch.multinomial(torch.stack(rows), 1)[:, 0])


class NumpyInside(Verifier):
    """Torch draws, numpy decides: the exact lane cannot follow."""

    def verify(self, request: Request) -> Result:
        path, q, p = (each.double().numpy() for each in one_path(request))
        path = path.astype(int)
        count, length = path.shape
        coins, marks = torch.rand(count, length).numpy(), torch.rand(count).numpy()
        accepted, tokens = [], []
        for row in range(count):
            position = numpy.arange(length)
            p_x, q_x = p[row, position, path[row]], q[row, position, path[row]]
            kept = int(numpy.cumprod(coins[row] * q_x < p_x).sum())
            owed = p[row, kept] - (q[row, kept] if kept < length else 0.0)
            shares = numpy.cumsum(numpy.maximum(owed, 0.0))
            tokens.append(int(numpy.searchsorted(shares, marks[row] * shares[-1], side="right")))
            accepted.append(kept)
        return result(torch.tensor(accepted), torch.tensor(tokens))


class MathAndItem(Verifier):
    """Scalars leave torch and go through Python's own logarithm: the exact lane cannot follow."""

    def verify(self, request: Request) -> Result:
        paths, q, p = one_path(request)
        coins, marks = torch.rand(paths.shape), torch.rand(len(paths))
        accepted, tokens = [], []
        for row, path in enumerate(paths.tolist()):
            kept = 0
            for i, token in enumerate(path):
                p_x, q_x, coin = p[row, i, token].item(), q[row, i, token].item(), coins[row, i]
                if p_x == 0 or (q_x > 0 and _log(coin.item()) >= math.log(p_x) - math.log(q_x)):
                    break
                kept += 1
            owed = p[row, kept] - (q[row, kept] if kept < len(path) else 0)
            shares = owed.clamp(min=0).double().cumsum(0).tolist()
            mark = marks[row].item() * shares[-1]
            tokens.append(next(token for token, share in enumerate(shares) if mark < share))
            accepted.append(kept)
        return result(torch.tensor(accepted), torch.tensor(tokens))


def _log(number: float) -> float:
    return math.log(number) if number > 0 else -math.inf
