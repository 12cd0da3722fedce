"""Verifiers that look wrong and are not: none of them may be called lossy."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import control
from draftproof.conformance.museum.mutants.texts import Recursive, ReferenceStyle
from draftproof.conformance.museum.mutants.token import (
    AcceptsByTargetAlone,
    CorrectsFromTarget,
    CorrectsWithoutToken,
    RejectsEverything,
)
from draftproof.conformance.museum.mutants.verifiers import Block, Token, one_hot
from draftproof.conformance.protocol.adapter import Request, Result
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Siblings
from draftproof.reference.ledger import exhibits
from draftproof.reference.model import Row
from draftproof.reference.rows import normalised
from draftproof.reference.rows import without as without_tokens

SLOW = ("law.reference", "length.expected")


@control(
    "one-hot-under-the-name-token",
    "https://github.com/vllm-project/vllm/issues/40149",
    "https://github.com/vllm-project/vllm/issues/44869",
    "https://github.com/sgl-project/sglang/issues/10308",
    fails=SLOW,
    why="given the drafts, each is a draft that is certain: the rule for those loses no text",
)
class OneHotUnderTheNameToken(AcceptsByTargetAlone, CorrectsWithoutToken):
    """Ignores the law of sampled drafts: accepts with p(x), corrects from p without x."""


@control(
    "one-hot",
    "https://github.com/vllm-project/vllm/issues/40149",
    why="it is the law of drawing from the target first",
)
class OneHot(OneHotUnderTheNameToken):
    """Ignores the law of sampled drafts, and says so: it is called target first."""

    algorithm = "target_first"


class SampleMatches(Token):
    """Draws from p at every position, and goes on where the drafted token was drawn."""

    def verify(self, request: Request) -> Result:
        """Verify B single paths."""
        path, _, p = self.rows(request)
        drawn = self.draw(p.flatten(0, 1), request).view(p.shape[:2])
        accepted = self.accepted(drawn[:, :-1] == path)
        token = drawn.gather(1, accepted[:, None])[:, 0]
        return Result(accepted, torch.zeros_like(accepted), token)


@control(
    "sample-match-under-the-name-token",
    "https://github.com/ml-explore/mlx-swift-lm/pull/459",
    "https://github.com/lablup/mlxcel/issues/992",
    fails=SLOW,
    why="what is emitted is drawn from p, whatever was drafted",
)
class SampleMatchUnderTheNameToken(SampleMatches):
    """Accepts a drafted token only if it equals a fresh sample of the target."""


@control(
    "sample-match",
    "https://github.com/ml-explore/mlx-swift-lm/pull/459",
    "https://github.com/pegainfer-project/pegainfer/pull/670",
    why="it is the law of drawing from the target first, by definition",
)
class SampleMatch(SampleMatches):
    """Accepts what equals a fresh sample of the target, and says so."""

    algorithm = "target_first"


@control(
    "accepts-nothing",
    "draftproof",
    fails=SLOW,
    why="it is the target sampling by itself",
)
class AcceptsNothing(RejectsEverything, CorrectsFromTarget):
    """Rejects every drafted token and draws from p."""


@control(
    "no-coins-at-temperature-zero",
    "https://github.com/vllm-project/vllm/issues/13196",
    why="where the target is certain, p / q decides like a coin that is 0",
)
class NoCoinsAtTemperatureZero(Token):
    """Compares with the most probable token, and uses no coin, where the target is certain."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return torch.where(self._greedy, self._agrees, super().passed(coins, ratio))

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        self._greedy = p.amax(-1) == 1
        self._agrees = path == p.argmax(-1)
        return super().ratio(p, q, path)

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        sampled = super().residual(p, q, path)
        return torch.where(self._greedy[..., None], one_hot(p.argmax(-1), p), sampled)


@control(
    "sampled-siblings-as-certain",
    "https://github.com/SafeAILab/EAGLE/issues/50",
    "https://github.com/SafeAILab/EAGLE/issues/171",
    "https://github.com/SafeAILab/EAGLE/issues/183",
    "https://github.com/SafeAILab/EAGLE/issues/221",
    why="given the drafts, each sibling is certain; what was tried before has nothing left",
)
class SampledSiblingsAsCertain(Recursive):
    """Accepts each sibling as if the draft had been certain of it, q = 1."""

    algorithm = "target_first"

    def rule(self, siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        for token in siblings:
            if chance.coin(p[token]):
                return token, True
            p = normalised(without_tokens(p, (token,)))
        return chance.draw(p), False


@control(
    "block-of-certain-drafts",
    "https://github.com/vllm-project/vllm-ascend/pull/7603",
    fails=(*SLOW, "length.optimal"),
    why="given the path, it is block verification of a draft that is certain",
)
class BlockOfCertainDrafts(Block):
    """Runs the block rule on drafts without rows as if each were certain."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        return path, one_hot(path, q), p


@control(
    "block-without-the-last-token",
    "draftproof",
    fails=(*SLOW, "length.optimal"),
    why="what is not looked at is not lost",
)
class BlockWithoutTheLastToken(ReferenceStyle):
    """Verifies all but the last drafted token as a block."""

    algorithm = "block"
    max_drafts = 1
    text = staticmethod(exhibits.block_without_last)


@control(
    "capped-hierarchical",
    "arXiv 2601.05724",
    why="the capped ratio is block verification's weight",
)
class CappedHierarchical(ReferenceStyle):
    """Tests every prefix on the ratio since the best prefix before it, capped at one."""

    algorithm = "block"
    max_drafts = 1
    text = staticmethod(exhibits.capped_hierarchical)
