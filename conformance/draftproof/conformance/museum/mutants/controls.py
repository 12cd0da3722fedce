"""Controls: correct verifiers that look suspicious; no requirement may call them lossy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import control
from draftproof.conformance.museum.mutants.texts import BlockText, Recursive
from draftproof.conformance.museum.mutants.verifiers import Block, Token, at, one_hot, without
from draftproof.conformance.protocol.adapter import Request, Result
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Siblings
from draftproof.reference.ledger import exhibits
from draftproof.reference.model import Row
from draftproof.reference.rows import normalised
from draftproof.reference.rows import without as without_tokens

SLOW = ("law.reference", "length.expected")

AS_CERTAIN: dict[str, Any] = {
    "ratio": lambda p, q, path: at(p, path),
    "residual": lambda p, q, path: without(p, path),
}
"""The steps of token verification for a draft that is certain."""


class SampleMatches(Token):
    """Draws from p at every position, and continues if the draw equals the drafted token."""

    def verify(self, request: Request) -> Result:
        """Verify B single paths."""
        path, _, p = self.rows(request)
        drawn = self.draw(p.flatten(0, 1), request).view(p.shape[:2])
        accepted = self.accepted(drawn[:, :-1] == path)
        token = drawn.gather(1, accepted[:, None])[:, 0]
        return Result(accepted, torch.zeros_like(accepted), token)


class WithoutCoinsWhereCertain(Token):
    """Token verification that ignores coins where rows are certain, and takes their top token."""

    def passed(self, coins: Tensor, ratio: Tensor) -> Tensor:
        return torch.where(self._greedy, self._agrees, super().passed(coins, ratio))

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        self._greedy = p.amax(-1) == 1
        self._agrees = path == p.argmax(-1)
        return super().ratio(p, q, path)

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        sampled = super().residual(p, q, path)
        return torch.where(self._greedy[..., None], one_hot(p.argmax(-1), p), sampled)


def each_as_certain(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
    for token in siblings:
        if chance.coin(p[token]):
            return token, True
        p = normalised(without_tokens(p, (token,)))
    return chance.draw(p), False


CONTROLS = (
    control(
        "one-hot-under-the-name-token",
        "https://github.com/vllm-project/vllm/issues/40149",
        "https://github.com/vllm-project/vllm/issues/44869",
        "https://github.com/sgl-project/sglang/issues/10308",
        what="Ignores the law of sampled drafts: accepts with p(x), corrects from p without x.",
        why="given the drafts, each is a draft that is certain: the rule for those loses no text",
        fails=SLOW,
        **AS_CERTAIN,
    ),
    control(
        "one-hot",
        "https://github.com/vllm-project/vllm/issues/40149",
        what="Ignores the law of sampled drafts, and says so: it is called target first.",
        why="it is the law of drawing from the target first",
        algorithm="target_first",
        **AS_CERTAIN,
    ),
    control(
        "sample-match-under-the-name-token",
        "https://github.com/ml-explore/mlx-swift-lm/pull/459",
        "https://github.com/lablup/mlxcel/issues/992",
        what="Accepts a drafted token only if it equals a fresh sample of the target.",
        why="what is emitted is drawn from p, whatever was drafted",
        fails=SLOW,
        of=SampleMatches,
    ),
    control(
        "sample-match",
        "https://github.com/ml-explore/mlx-swift-lm/pull/459",
        "https://github.com/pegainfer-project/pegainfer/pull/670",
        what="Accepts what equals a fresh sample of the target, and says so.",
        why="it is the law of drawing from the target first, by definition",
        of=SampleMatches,
        algorithm="target_first",
    ),
    control(
        "accepts-nothing",
        what="Rejects every drafted token and draws from p.",
        why="it is the target sampling by itself",
        fails=SLOW,
        ratio=lambda p, q, path: torch.zeros_like(at(p, path)),
        residual=lambda p, q, path: p,
    ),
    control(
        "no-coins-at-temperature-zero",
        "https://github.com/vllm-project/vllm/issues/13196",
        what="Compares with the most probable token, and uses no coin, "
        "where the target is certain.",
        why="where the target is certain, p / q decides like a coin that is 0",
        of=WithoutCoinsWhereCertain,
    ),
    control(
        "sampled-siblings-as-certain",
        "https://github.com/SafeAILab/EAGLE/issues/50",
        "https://github.com/SafeAILab/EAGLE/issues/171",
        "https://github.com/SafeAILab/EAGLE/issues/183",
        "https://github.com/SafeAILab/EAGLE/issues/221",
        what="Accepts each sibling as if the draft had been certain of it, q = 1.",
        why="given the drafts, each sibling is certain; what was tried before has nothing left",
        of=Recursive,
        algorithm="target_first",
        rule=each_as_certain,
    ),
    control(
        "block-of-certain-drafts",
        "https://github.com/vllm-project/vllm-ascend/pull/7603",
        what="Runs the block rule on drafts without rows as if each were certain.",
        why="given the path, it is block verification of a draft that is certain",
        fails=(*SLOW, "length.optimal"),
        of=Block,
        seen=lambda path, q, p: (one_hot(path, q), p),
    ),
    control(
        "block-without-the-last-token",
        what="Verifies all but the last drafted token as a block.",
        why="what is not looked at is not lost",
        fails=(*SLOW, "length.optimal"),
        of=BlockText,
        text=exhibits.block_without_last,
    ),
    control(
        "capped-hierarchical",
        "arXiv 2601.05724",
        what="Tests every prefix on the ratio since the best prefix before it, capped at one.",
        why="the capped ratio is block verification's weight",
        of=BlockText,
        text=exhibits.capped_hierarchical,
    ),
)
