"""Mutants that use random numbers twice, keep them, copy them, or draw from the wrong place."""

from __future__ import annotations

from dataclasses import replace
from secrets import randbits

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.drafting import Drafting
from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Supplied, Token, reached
from draftproof.conformance.protocol.adapter import DraftRequest, Request, Result

RIGHT, SUPPLIED = Token(), Supplied()


class CoinRejectsAndCorrects(Token):
    """Token verification whose last coin also draws the correction."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        self._coins = super().coins(ratio, request)
        return self._coins

    def emitted(self, accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
        self._used = self._coins.gather(1, accepted.clamp(max=p.shape[1] - 2)[:, None])
        return super().emitted(accepted, owed, p, request)

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        return reached(rows, self._used)


def one_more(ratio: Tensor, request: Request) -> Tensor:
    torch.rand(1, generator=request.generator)
    return RIGHT.coins(ratio, request)


class CoinsDrawnOnce(Token):
    """Token verification that draws its coins once and keeps them."""

    _kept: Tensor | None = None

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        if self._kept is None or self._kept.shape != ratio.shape:
            self._kept = super().coins(ratio, request)
        return self._kept


class ScratchNotCleared(Token):
    """Token verification that adds up the draft's rows of all calls."""

    _scratch: Tensor | None = None

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        if self._scratch is None or self._scratch.shape != q.shape:
            self._scratch = torch.zeros_like(q)
        self._scratch = self._scratch + q
        return super().residual(p, self._scratch, path)


def on_a_copy(request: Request) -> Result:
    own = request.generator
    return RIGHT.verify(replace(request, generator=None if own is None else own.clone_state()))


def on_a_seed_of_its_own(request: Request) -> Result:
    return RIGHT.verify(replace(request, generator=torch.Generator().manual_seed(randbits(48))))


class NoiseOfTheDraftCorrects(Drafting):
    """Drafting and verification that draw with the same random number."""

    _marks: Tensor | None = None

    def token(self, rows: Tensor, drawn: Tensor, request: DraftRequest) -> Tensor:
        self._marks = torch.rand(len(rows), 1, generator=request.generator)
        return reached(rows, self._marks)

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        if self._marks is None:
            return super().draw(rows, request)
        return reached(rows, self._marks)


MUTANTS = (
    # --- within one row -----------------------------------------------------------------------
    mutant(
        "coin-rejects-and-corrects",
        what="Lets the coin that rejected a token pick the correction.",
        why="a coin that rejected a token is large, and picks its correction among the last tokens",
        check="whether the coin of a rejection is used again to draw the correction",
        breaks="random.fresh",
        also=("law.lossless",),
        of=CoinRejectsAndCorrects,
    ),
    mutant(
        "one-coin-for-all-positions",
        what="Decides all positions of a row by one coin.",
        why="a coin that was small enough for one token is likely to be so for the next",
        check="the shape of the coins: one for each position",
        also=("length.expected",),
        coins=lambda ratio, request: RIGHT.coins(ratio[:, :1], request).expand_as(ratio),
    ),
    mutant(
        "coins-of-eight-bits",
        "https://github.com/vllm-project/vllm/pull/23803",
        what="Draws its coins in bfloat16.",
        why="a coin on a grid passes more often than it should: at 0 always, "
        "at float32's once in 2^24",
        check="the dtype of the coins: float32 or wider",
        coins=lambda ratio, request: RIGHT.coins(ratio.bfloat16(), request).float(),
    ),
    # --- across rows --------------------------------------------------------------------------
    mutant(
        "one-coin-for-all-rows",
        "https://github.com/vllm-project/vllm/pull/35398",
        what="Uses the seed of the first row for all rows of a batch.",
        why="every row alone has the right law; together they are accepted and rejected alike",
        check="the shape or seed of the coins: one for each row of the batch",
        breaks="batch.invariant",
        coins=lambda ratio, request: RIGHT.coins(ratio[:1], request).expand_as(ratio),
    ),
    mutant(
        "noise-of-another-slot",
        "https://github.com/vllm-project/vllm/issues/14645",
        what="Verifies a row on the coins of its neighbour's slot.",
        why="what a request is answered depends on its place in the batch",
        check="which slot's noise a row reads",
        breaks="batch.backends",
        of=Supplied,
        same_as=SUPPLIED,
        coins=lambda ratio, request: SUPPLIED.coins(ratio, request).roll(1, 0),
    ),
    mutant(
        "replica-draws-one-more",
        "https://github.com/vllm-project/vllm/issues/17498",
        what="Draws a number that the other replica does not draw.",
        why="ranks that work on one request must draw the same coins",
        check="whether all replicas draw the same number of random values",
        breaks="batch.backends",
        same_as=RIGHT,
        coins=one_more,
    ),
    # --- across calls -------------------------------------------------------------------------
    mutant(
        "coins-drawn-once",
        "Infini-AI-Lab/Sequoia, found by running it",
        what="Draws its coins for a prompt, and uses them in every iteration.",
        why="what was decided in one iteration is decided alike in all that follow",
        check="whether coins are drawn in every call",
        breaks="random.calls",
        of=CoinsDrawnOnce,
    ),
    mutant(
        "scratch-not-cleared",
        "https://github.com/sgl-project/sglang/issues/12561",
        "https://github.com/sgl-project/sglang/issues/12512",
        what="Adds the draft's rows to a buffer that it does not clear.",
        why="what stands in the buffer is left from the call before",
        check="whether buffers are cleared between calls",
        breaks="random.calls",
        of=ScratchNotCleared,
    ),
    mutant(
        "generator-copied",
        "https://github.com/vllm-project/vllm/issues/6038",
        "https://github.com/vllm-project/vllm/pull/6034",
        what="Draws from a copy of the request's generator.",
        why="the copy moves on, the request's own generator stands still and repeats itself",
        check="whether the request's own generator advances, or a copy of it",
        breaks="random.generator",
        verify=on_a_copy,
    ),
    mutant(
        "ignores-the-generator",
        "https://github.com/vllm-project/vllm/issues/6038",
        what="Draws from the global generator, whatever the request carries.",
        why="a seed that is given for one request has no effect",
        check="whether the request's generator reaches every random operator",
        breaks="random.generator",
        verify=lambda request: RIGHT.verify(replace(request, generator=None)),
    ),
    mutant(
        "seeds-itself",
        "https://github.com/vllm-project/vllm/issues/17498",
        what="Seeds a generator of its own by chance.",
        why="no seed of the caller's makes it do the same again",
        check="where the generator's seed comes from: the caller, not the clock",
        breaks="random.reproducible",
        verify=on_a_seed_of_its_own,
    ),
    # --- from draft to verifier ---------------------------------------------------------------
    mutant(
        "noise-of-the-draft-corrects",
        "https://github.com/vllm-project/vllm/pull/47386",
        "https://github.com/vllm-project/vllm/pull/54282",
        "https://github.com/local-inference-lab/vllm/issues/205",
        what="Draws the next token with the number that drew the last draft.",
        why="noise that has drawn a token is no longer random once the token is known",
        check="whether noise that drew a draft is used again by the verifier",
        breaks="random.iterations",
        of=NoiseOfTheDraftCorrects,
    ),
)
