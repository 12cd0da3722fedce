"""Token verification, got wrong: what is accepted, what corrects, and which row is which."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Token, at, one_hot, tempered, without
from draftproof.conformance.protocol.adapter import Request, Result

# --- what is accepted ------------------------------------------------------------------------


@mutant(
    "accepts-everything",
    "https://github.com/huggingface/transformers/issues/28508",
    breaks="law.lossless",
    also=("length.bounded",),
    why="what is emitted has the draft's law, and more is accepted than is possible",
)
class AcceptsEverything(Token):
    """Accepts every drafted token."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return torch.full_like(at(p, path), 2.0)


@mutant(
    "rejects-everything",
    "draftproof",
    breaks="law.lossless",
    also=("length.expected",),
    why="the residual is owed after a rejection by the ratio, not after just any",
)
class RejectsEverything(Token):
    """Rejects every drafted token and draws from the residual."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return torch.zeros_like(at(p, path))


@mutant(
    "ratio-to-the-largest",
    "https://github.com/1bit-MONSTER/1bit-MONSTER/issues/637",
    breaks="law.lossless",
    why="q does not enter, so nothing makes up for what it drafts too often",
)
class RatioToTheLargest(Token):
    """Accepts with probability p(x) / max p."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return at(p, path) / p.amax(-1)


@mutant(
    "accepts-by-target-alone",
    "draftproof",
    breaks="law.lossless",
    why="p(x) is the right probability for a draft that is certain, with another residual",
)
class AcceptsByTargetAlone(Token):
    """Accepts with probability p(x), and corrects from (p - q)+."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return at(p, path)


@mutant(
    "accepts-the-most-probable",
    "https://github.com/lablup/mlxcel/issues/902",
    "https://github.com/lablup/mlxcel/issues/992",
    breaks="law.lossless",
    why="at a temperature above 0 a token that is not the most probable is wanted, too",
)
class AcceptsTheMostProbable(Token):
    """Accepts a token if and only if it is the target's most probable one."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return (path == p.argmax(-1)) * 2.0


@mutant(
    "greedy-but-for-the-bonus",
    "https://github.com/ROCm/ATOM/issues/2318",
    breaks="law.lossless",
    why="only the bonus has the target's law",
)
class GreedyButForTheBonus(AcceptsTheMostProbable):
    """Decides drafted positions by the target's most probable token, and samples the bonus."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return one_hot(p.argmax(-1), p)


@mutant(
    "greedy-at-any-temperature",
    "https://github.com/sgl-project/sglang/issues/13039",
    "https://github.com/sgl-project/sglang/issues/31214",
    "https://github.com/sgl-project/sglang/pull/39253",
    breaks="law.lossless",
    why="a request above temperature 0 asks for samples",
)
class GreedyAtAnyTemperature(Token):
    """Takes the target's most probable token for certain."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        return path, q, one_hot(p.argmax(-1), p)


@mutant(
    "typical-acceptance",
    "FasterDecoding/Medusa, found by running it",
    "https://github.com/vllm-project/vllm/pull/8562",
    breaks="law.lossless",
    why="what is typical is accepted without a coin: a relaxation, not a rejection rule",
)
class TypicalAcceptance(Token):
    """Accepts what has a probability above min(0.09, 0.3 exp(-entropy))."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        entropy = -torch.special.xlogy(p, p).sum(-1)
        return (at(p, path) > (0.3 * torch.exp(-entropy)).clamp(max=0.09)) * 2.0


@mutant(
    "threshold-below-one",
    "sgl-project/sglang, found by reading it",
    breaks="law.lossless",
    also=("length.bounded",),
    why="a factor on the ratio accepts more than the target can afford",
)
class ThresholdBelowOne(Token):
    """Divides the ratio by an acceptance threshold of 0.9."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return super().ratio(p, q, path) / 0.9


@mutant(
    "ensemble-weight",
    "huggingface/transformers, found by reading it",
    breaks="law.lossless",
    why="what is emitted has the mixture's law",
)
class EnsembleWeight(Token):
    """Verifies against a mixture of nine parts target and one part draft."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        return path, q, torch.cat([0.9 * p[:, :-1] + 0.1 * q, p[:, -1:]], 1)


@mutant(
    "sure-tokens-skip-the-coin",
    "MasterGodzilla/Speculative_decoding_OT, found by reading it",
    breaks="law.lossless",
    why="a draft that is surer than the target still drafts too often",
)
class SureTokensSkipTheCoin(Token):
    """Accepts without a coin what has a probability above 0.999."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return torch.where(at(p, path) > 0.999, 2.0, super().ratio(p, q, path))


@mutant(
    "rejects-certain-drafts",
    "https://github.com/sgl-project/sglang/issues/42568",
    breaks="law.lossless",
    why="a draft that is certain is a law like any other",
)
class RejectsCertainDrafts(Token):
    """Takes a draft probability that is not below 1 for invalid, and rejects."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return torch.where(at(q, path) >= 1, 0.0, super().ratio(p, q, path))


# --- what corrects ---------------------------------------------------------------------------


@mutant(
    "corrects-from-target",
    "https://github.com/vllm-project/vllm/pull/8320",
    breaks="law.lossless",
    also=("random.fresh",),
    why="what the draft gives already is given twice",
)
class CorrectsFromTarget(Token):
    """Draws the correction from p, where (p - q)+ is owed."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return p


@mutant(
    "corrects-without-token",
    "xLLM, found by running and reading it",
    breaks="law.lossless",
    also=("random.fresh",),
    why="it is the residual of a draft that is certain; this one was sampled from q",
)
class CorrectsWithoutToken(Token):
    """Draws the correction from p without the drafted token."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return without(p, path)


@mutant(
    "corrects-by-distance",
    "draftproof",
    breaks="law.lossless",
    also=("law.support",),
    why="what the draft gives too much of is not owed",
)
class CorrectsByDistance(Token):
    """Draws the correction from |p - q|."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return (p - q).abs()


@mutant(
    "correction-of-row-zero",
    "https://github.com/flashinfer-ai/flashinfer/pull/425",
    breaks="law.lossless",
    why="only rows that do not depend on the context hide it",
)
class CorrectionOfRowZero(Token):
    """Draws corrections and the bonus from the rows of the first position."""

    def emitted(self, accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
        return super().emitted(accepted, owed[:, :1].expand_as(owed), p, request)


@mutant(
    "bonus-one-row-early",
    "draftproof",
    breaks="law.lossless",
    why="the bonus follows the last drafted token, whose row is the one after",
)
class BonusOneRowEarly(Token):
    """Draws the bonus from the row of the last drafted token."""

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return p[:, -2:-1]


@mutant(
    "bonus-from-draft",
    "draftproof",
    breaks="law.lossless",
    why="the bonus is the target's own token",
)
class BonusFromDraft(Token):
    """Draws the bonus from the draft's last row."""

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return q[:, -1:]


@mutant(
    "searches-unnormalised",
    "https://github.com/iree-org/iree-turbine/pull/890",
    breaks="law.lossless",
    why="a residual does not sum to 1: the last token gets whatever is missing",
)
class SearchesUnnormalised(Token):
    """Searches the running sum of the residual with a coin on 0..1."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        mark = torch.rand(len(rows), 1, generator=request.generator)
        return (rows.cumsum(-1) <= mark).sum(-1).clamp(max=rows.shape[-1] - 1)


@mutant(
    "searches-off-the-end",
    "https://github.com/iree-org/iree-turbine/pull/890",
    breaks="law.prefix",
    why="where the running sum never exceeds the coin there is no token of this number",
)
class SearchesOffTheEnd(Token):
    """Searches the running sum of the residual, and returns V where it never exceeds the coin."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        mark = torch.rand(len(rows), 1, generator=request.generator)
        return (rows.cumsum(-1) <= mark).sum(-1)


# --- how far it counts -----------------------------------------------------------------------


@mutant(
    "counts-every-pass",
    "https://github.com/flashinfer-ai/flashinfer/issues/3624",
    breaks="law.lossless",
    also=("length.bounded",),
    why="tokens after a rejected one have no right context; the count is taken for a prefix",
)
class CountsEveryPass(Token):
    """Counts the positions that pass, each by itself."""

    def accepted(self, passed: Tensor) -> Tensor:
        return passed.sum(-1)


@mutant(
    "counts-to-the-last-pass",
    "https://github.com/antonellof/ferrox/pull/307",
    breaks="law.lossless",
    also=("length.bounded",),
    why="the loop lacks its break: a later pass makes good an earlier rejection",
)
class CountsToTheLastPass(Token):
    """Goes on after a rejection, and keeps everything up to the last token that passes."""

    def accepted(self, passed: Tensor) -> Tensor:
        return (passed * torch.arange(1, passed.shape[1] + 1)).amax(1)


@mutant(
    "rejects-one-late",
    "https://github.com/openvinotoolkit/openvino.genai/pull/4190",
    breaks="law.lossless",
    also=("length.bounded",),
    why="the rejected token itself is kept",
)
class RejectsOneLate(Token):
    """Lets a rejection take effect one position late."""

    def accepted(self, passed: Tensor) -> Tensor:
        return (super().accepted(passed) + 1).clamp(max=passed.shape[1])


@mutant(
    "keeps-rejected-drafts",
    "https://github.com/lucidrains/speculative-decoding/issues/3",
    breaks="law.lossless",
    also=("length.bounded",),
    why="rejected tokens stay in the text, with the correction after them",
)
class KeepsRejectedDrafts(Token):
    """Corrects at the first rejection, but leaves all drafted tokens in the output."""

    def emitted(self, accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
        right = super().emitted(accepted, owed, p, request)
        return Result(torch.full_like(accepted, p.shape[1] - 1), right.path, right.next_token)


@mutant(
    "counts-beyond-the-limit",
    "https://github.com/flashinfer-ai/flashinfer/issues/879",
    breaks="law.prefix",
    why="no more than L tokens were drafted",
)
class CountsBeyondTheLimit(Token):
    """Counts the bonus among the accepted tokens."""

    def emitted(self, accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
        right = super().emitted(accepted, owed, p, request)
        return Result(accepted + (accepted == p.shape[1] - 1), right.path, right.next_token)


@mutant(
    "crashes-on-rejection",
    "FasterDecoding/Medusa, found by running it",
    breaks="law.prefix",
    why="a path of the program that no test ever takes",
)
class CrashesOnRejection(Token):
    """Calls its correction with one argument too many."""

    def emitted(self, accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
        if (accepted < p.shape[1] - 1).any():
            raise TypeError("correct() takes 2 positional arguments but 3 were given")
        return super().emitted(accepted, owed, p, request)


@mutant(
    "kernel-for-one-token",
    "https://github.com/vllm-project/vllm-ascend/pull/11458",
    breaks="law.lossless",
    why="the special case was written apart, and nobody compares it with the general one",
)
class KernelForOneToken(Token):
    """Corrects from p where one token is drafted, as it does right where there are more."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return p if path.shape[1] == 1 else super().residual(p, q, path)


# --- which row is which ----------------------------------------------------------------------


@mutant(
    "target-one-row-late",
    "https://github.com/huggingface/transformers/pull/28166",
    breaks="law.lossless",
    why="the row after a token says nothing of that token",
)
class TargetOneRowLate(Token):
    """Reads the target's probability of a token in the row that follows it."""

    def verify(self, request: Request) -> Result:
        self._late = request.target_probs[:, 0, 1:]
        return super().verify(request)

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return super().ratio(self._late, q, path)


@mutant(
    "draft-one-row-late",
    "https://github.com/NVIDIA/TensorRT-LLM/pull/12588",
    breaks="law.lossless",
    why="the row after a token says nothing of that token",
)
class DraftOneRowLate(Token):
    """Reads the draft's probability of a token in the row that follows it."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return super().ratio(p, q.roll(-1, 1), path)


@mutant(
    "draft-of-row-zero",
    "https://github.com/NVIDIA/TensorRT-LLM/pull/6542",
    breaks="law.lossless",
    why="q[:, tokens] is a table of all rows by all tokens, of which the first row is read",
)
class DraftOfRowZero(Token):
    """Gathers all drafted tokens from the draft's first row."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return super().ratio(p, q[:, :1].expand_as(q), path)


# --- p or q is not what was meant ------------------------------------------------------------


@mutant(
    "target-at-default-temperature",
    "https://github.com/vllm-project/vllm/issues/9834",
    "https://github.com/vllm-project/vllm/pull/10198",
    breaks="law.lossless",
    why="the target was asked for at another temperature",
)
class TargetAtDefaultTemperature(Token):
    """Scores with default sampling parameters: the target at a temperature of 0.8."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        return path, q, tempered(p, 0.8)


@mutant(
    "bonus-without-temperature",
    "SafeAILab/EAGLE, found by running it",
    breaks="law.lossless",
    why="the bonus is a token like any other",
)
class BonusWithoutTemperature(Token):
    """Draws the bonus from the row before its temperature of 0.5 was applied."""

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        return tempered(p[:, -1:], 2.0)


@mutant(
    "processes-the-bonus-only",
    "https://github.com/vllm-project/vllm/issues/42744",
    "https://github.com/vllm-project/vllm/issues/19482",
    breaks="law.lossless",
    why="verified tokens and the bonus have different laws, one of which is not the target's",
)
class ProcessesTheBonusOnly(Token):
    """Applies a min-p of 0.2 to the bonus row, which no verified row has seen."""

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        last = p[:, -1:]
        return torch.where(last >= 0.2 * last.amax(-1, keepdim=True), last, 0.0)


@mutant(
    "target-cut-to-draft-vocabulary",
    "https://github.com/vllm-project/vllm/pull/42775",
    breaks="law.lossless",
    why="the target can say what the draft cannot",
)
class TargetCutToDraftVocabulary(Token):
    """Drops the target's probability of tokens that the draft never proposes."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        kept = p[:, :-1] * (q > 0)
        return path, q, torch.cat([kept / kept.sum(-1, keepdim=True).clamp(min=1e-9), p[:, -1:]], 1)


@mutant(
    "draft-vocabulary-mapped-wrongly",
    "https://github.com/vllm-project/vllm-ascend/pull/16166",
    breaks="law.lossless",
    why="probabilities stand at the wrong tokens",
)
class DraftVocabularyMappedWrongly(Token):
    """Puts the reduced vocabulary's probabilities one token too far."""

    def rows(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().rows(request)
        return path, q.roll(1, -1), p
