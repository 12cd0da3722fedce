"""Random numbers that are used twice, kept, copied, or drawn from the wrong place."""

from __future__ import annotations

from dataclasses import replace
from secrets import randbits

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.drafting import Drafting
from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Supplied, Token, reached
from draftproof.conformance.protocol.adapter import DraftRequest, Request, Result

# --- within one row --------------------------------------------------------------------------


@mutant(
    "coin-rejects-and-corrects",
    "draftproof",
    breaks="random.fresh",
    also=("law.lossless",),
    why="a coin that rejected a token is large, and picks its correction among the last tokens",
)
class CoinRejectsAndCorrects(Token):
    """Lets the coin that rejected a token pick the correction."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        self._coins = super().coins(ratio, request)
        return self._coins

    def emitted(self, accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
        self._used = self._coins.gather(1, accepted.clamp(max=p.shape[1] - 2)[:, None])
        return super().emitted(accepted, owed, p, request)

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        return reached(rows, self._used)


@mutant(
    "one-coin-for-all-positions",
    "draftproof",
    breaks="law.lossless",
    also=("length.expected",),
    why="a coin that was small enough for one token is likely to be so for the next",
)
class OneCoinForAllPositions(Token):
    """Decides all positions of a row by one coin."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return super().coins(ratio[:, :1], request).expand_as(ratio)


@mutant(
    "coins-of-eight-bits",
    "https://github.com/vllm-project/vllm/pull/23803",
    breaks="law.lossless",
    why="a coin on a grid passes more often than it should: at 0 always, at float32's once in 2^24",
)
class CoinsOfEightBits(Token):
    """Draws its coins in bfloat16."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return torch.rand(ratio.shape, dtype=torch.bfloat16, generator=request.generator).float()


# --- across rows -----------------------------------------------------------------------------


@mutant(
    "one-coin-for-all-rows",
    "https://github.com/vllm-project/vllm/pull/35398",
    breaks="batch.invariant",
    why="every row alone has the right law; together they are accepted and rejected alike",
)
class OneCoinForAllRows(Token):
    """Uses the seed of the first row for all rows of a batch."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return super().coins(ratio[:1], request).expand_as(ratio)


@mutant(
    "noise-of-another-slot",
    "https://github.com/vllm-project/vllm/issues/14645",
    breaks="batch.backends",
    why="what a request is answered depends on its place in the batch",
)
class NoiseOfAnotherSlot(Supplied):
    """Verifies a row on the coins of its neighbour's slot."""

    same_as = Supplied()

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return super().coins(ratio, request).roll(1, 0)


@mutant(
    "replica-draws-one-more",
    "https://github.com/vllm-project/vllm/issues/17498",
    breaks="batch.backends",
    why="ranks that work on one request must draw the same coins",
)
class ReplicaDrawsOneMore(Token):
    """Draws a number that the other replica does not draw."""

    same_as = Token()

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        torch.rand(1, generator=request.generator)
        return super().coins(ratio, request)


# --- across calls ----------------------------------------------------------------------------


@mutant(
    "coins-drawn-once",
    "Infini-AI-Lab/Sequoia, found by running it",
    breaks="random.calls",
    why="what was decided in one iteration is decided alike in all that follow",
)
class CoinsDrawnOnce(Token):
    """Draws its coins for a prompt, and uses them in every iteration."""

    _kept: Tensor | None = None

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        if self._kept is None or self._kept.shape != ratio.shape:
            self._kept = super().coins(ratio, request)
        return self._kept


@mutant(
    "scratch-not-cleared",
    "https://github.com/sgl-project/sglang/issues/12561",
    "https://github.com/sgl-project/sglang/issues/12512",
    breaks="random.calls",
    why="what stands in the buffer is left from the call before",
)
class ScratchNotCleared(Token):
    """Adds the draft's rows to a buffer that it does not clear."""

    _scratch: Tensor | None = None

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        if self._scratch is None or self._scratch.shape != q.shape:
            self._scratch = torch.zeros_like(q)
        self._scratch = self._scratch + q
        return super().residual(p, self._scratch, path)


@mutant(
    "generator-copied",
    "https://github.com/vllm-project/vllm/issues/6038",
    "https://github.com/vllm-project/vllm/pull/6034",
    breaks="random.generator",
    why="the copy moves on, the request's own generator stands still and repeats itself",
)
class GeneratorCopied(Token):
    """Draws from a copy of the request's generator."""

    def verify(self, request: Request) -> Result:
        if request.generator is None:
            return super().verify(request)
        return super().verify(replace(request, generator=request.generator.clone_state()))


@mutant(
    "ignores-the-generator",
    "https://github.com/vllm-project/vllm/issues/6038",
    breaks="random.generator",
    why="a seed that is given for one request has no effect",
)
class IgnoresTheGenerator(Token):
    """Draws from the global generator, whatever the request carries."""

    def verify(self, request: Request) -> Result:
        return super().verify(replace(request, generator=None))


@mutant(
    "seeds-itself",
    "https://github.com/vllm-project/vllm/issues/17498",
    breaks="random.reproducible",
    why="no seed of the caller's makes it do the same again",
)
class SeedsItself(Token):
    """Seeds a generator of its own by chance."""

    def verify(self, request: Request) -> Result:
        own = torch.Generator().manual_seed(randbits(48))
        return super().verify(replace(request, generator=own))


# --- from draft to verifier ------------------------------------------------------------------


@mutant(
    "noise-of-the-draft-corrects",
    "https://github.com/vllm-project/vllm/pull/47386",
    "https://github.com/vllm-project/vllm/pull/54282",
    "https://github.com/local-inference-lab/vllm/issues/205",
    breaks="random.iterations",
    why="noise that has drawn a token is no longer random once the token is known",
)
class NoiseOfTheDraftCorrects(Drafting):
    """Draws the next token with the number that drew the last draft."""

    _marks: Tensor | None = None

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        self._marks = torch.rand(len(rows), 1, generator=request.generator)
        return reached(rows, self._marks)

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        if self._marks is None:
            return super().draw(rows, request)
        return reached(rows, self._marks)
