"""Mutants of token verification: of the acceptance, the correction, and the choice of rows."""

from __future__ import annotations

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.verifiers import Token, at, one_hot, tempered, without
from draftproof.conformance.protocol.adapter import Request, Result

RIGHT = Token()


def typical(p: Tensor, q: Tensor, path: Tensor) -> Tensor:
    entropy = -torch.special.xlogy(p, p).sum(-1)
    return (at(p, path) > (0.3 * torch.exp(-entropy)).clamp(max=0.09)) * 2.0


def searched(rows: Tensor, request: Request) -> Tensor:
    mark = torch.rand(len(rows), 1, generator=request.generator)
    return (rows.cumsum(-1) <= mark).sum(-1)


def all_kept(accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
    right = RIGHT.emitted(accepted, owed, p, request)
    return Result(torch.full_like(accepted, p.shape[1] - 1), right.path, right.next_token)


def bonus_counted(accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
    right = RIGHT.emitted(accepted, owed, p, request)
    return Result(accepted + (accepted == p.shape[1] - 1), right.path, right.next_token)


def crashing(accepted: Tensor, owed: Tensor, p: Tensor, request: Request) -> Result:
    if (accepted < p.shape[1] - 1).any():
        raise TypeError("correct() takes 2 positional arguments but 3 were given")
    return RIGHT.emitted(accepted, owed, p, request)


class TargetOneRowLate(Token):
    """Token verification whose ratio uses the target's rows from the second on."""

    def verify(self, request: Request) -> Result:
        self._late = request.target_probs[:, 0, 1:]
        return super().verify(request)

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        return super().ratio(self._late, q, path)


def cut_to_draft(path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    kept = p[:, :-1] * (q > 0)
    return q, torch.cat([kept / kept.sum(-1, keepdim=True).clamp(min=1e-9), p[:, -1:]], 1)


def min_p(p: Tensor, q: Tensor) -> Tensor:
    last = p[:, -1:]
    return torch.where(last >= 0.2 * last.amax(-1, keepdim=True), last, 0.0)


MUTANTS = (
    # --- what is accepted ---------------------------------------------------------------------
    mutant(
        "accepts-everything",
        "https://github.com/huggingface/transformers/issues/28508",
        what="Accepts every drafted token.",
        why="what is emitted has the draft's law, and more is accepted than is possible",
        check="whether a coin is drawn at all, and what it is compared with",
        also=("length.bounded",),
        ratio=lambda p, q, path: torch.full_like(at(p, path), 2.0),
    ),
    mutant(
        "rejects-everything",
        what="Rejects every drafted token and draws from the residual.",
        why="the residual is owed after a rejection by the ratio, not after just any",
        check="the direction of the comparison between coin and ratio",
        also=("length.expected",),
        ratio=lambda p, q, path: torch.zeros_like(at(p, path)),
    ),
    mutant(
        "ratio-to-the-largest",
        "https://github.com/1bit-MONSTER/1bit-MONSTER/issues/637",
        what="Accepts with probability p(x) / max p.",
        why="q does not enter, so nothing makes up for what it drafts too often",
        check="the denominator of the ratio: q(x), not max p",
        ratio=lambda p, q, path: at(p, path) / p.amax(-1),
    ),
    mutant(
        "accepts-by-target-alone",
        what="Accepts with probability p(x), and corrects from (p - q)+.",
        why="p(x) is the right probability for a draft that is certain, with another residual",
        check="the denominator of the ratio: p(x) / q(x), not p(x)",
        ratio=lambda p, q, path: at(p, path),
    ),
    mutant(
        "accepts-the-most-probable",
        "https://github.com/lablup/mlxcel/issues/902",
        "https://github.com/lablup/mlxcel/issues/992",
        what="Accepts a token if and only if it is the target's most probable one.",
        why="at a temperature above 0 a token that is not the most probable is wanted, too",
        check="whether the greedy rule runs on requests that sample",
        ratio=lambda p, q, path: (path == p.argmax(-1)) * 2.0,
    ),
    mutant(
        "greedy-but-for-the-bonus",
        "https://github.com/ROCm/ATOM/issues/2318",
        what="Decides drafted positions by the target's most probable token, "
        "and samples the bonus.",
        why="only the bonus has the target's law",
        check="whether drafted positions are verified greedily although the request samples",
        ratio=lambda p, q, path: (path == p.argmax(-1)) * 2.0,
        residual=lambda p, q, path: one_hot(p.argmax(-1), p),
    ),
    mutant(
        "greedy-at-any-temperature",
        "https://github.com/sgl-project/sglang/issues/13039",
        "https://github.com/sgl-project/sglang/issues/31214",
        "https://github.com/sgl-project/sglang/pull/39253",
        what="Takes the target's most probable token for certain.",
        why="a request above temperature 0 asks for samples",
        check="whether the temperature of the request reaches the verifier",
        seen=lambda path, q, p: (q, one_hot(p.argmax(-1), p)),
    ),
    mutant(
        "typical-acceptance",
        "FasterDecoding/Medusa, found by running it",
        "https://github.com/vllm-project/vllm/pull/8562",
        what="Accepts what has a probability above min(0.09, 0.3 exp(-entropy)).",
        why="what is typical is accepted without a coin: a relaxation, not a rejection rule",
        check="whether typical acceptance replaces the rejection rule",
        ratio=typical,
    ),
    mutant(
        "threshold-below-one",
        "sgl-project/sglang, found by reading it",
        what="Divides the ratio by an acceptance threshold of 0.9.",
        why="a factor on the ratio accepts more than the target can afford",
        check="the factor or threshold that the ratio is divided by: it must be 1",
        also=("length.bounded",),
        ratio=lambda p, q, path: RIGHT.ratio(p, q, path) / 0.9,
    ),
    mutant(
        "ensemble-weight",
        "huggingface/transformers, found by reading it",
        what="Verifies against a mixture of nine parts target and one part draft.",
        why="what is emitted has the mixture's law",
        check="whether draft probabilities are mixed into the target's rows",
        seen=lambda path, q, p: (q, torch.cat([0.9 * p[:, :-1] + 0.1 * q, p[:, -1:]], 1)),
    ),
    mutant(
        "sure-tokens-skip-the-coin",
        "MasterGodzilla/Speculative_decoding_OT, found by reading it",
        what="Accepts without a coin what has a probability above 0.999.",
        why="a draft that is surer than the target still drafts too often",
        check="the shortcut that accepts very probable tokens without a coin",
        ratio=lambda p, q, path: torch.where(at(p, path) > 0.999, 2.0, RIGHT.ratio(p, q, path)),
    ),
    mutant(
        "rejects-certain-drafts",
        "https://github.com/sgl-project/sglang/issues/42568",
        what="Takes a draft probability that is not below 1 for invalid, and rejects.",
        why="a draft that is certain is a law like any other",
        check="the validity test of q(x): a probability of exactly 1 is valid",
        ratio=lambda p, q, path: torch.where(at(q, path) >= 1, 0.0, RIGHT.ratio(p, q, path)),
    ),
    # --- what corrects ------------------------------------------------------------------------
    mutant(
        "corrects-from-target",
        "https://github.com/vllm-project/vllm/pull/8320",
        what="Draws the correction from p, where (p - q)+ is owed.",
        why="what the draft gives already is given twice",
        check="the residual: the correction is drawn from (p - q)+, not from p",
        also=("random.fresh",),
        residual=lambda p, q, path: p,
    ),
    mutant(
        "corrects-without-token",
        "xLLM, found by running and reading it",
        what="Draws the correction from p without the drafted token.",
        why="it is the residual of a draft that is certain; this one was sampled from q",
        check="the residual: (p - q)+ where drafts are sampled; p without the drafted token is "
        "right only for a draft that is certain",
        also=("random.fresh",),
        residual=lambda p, q, path: without(p, path),
    ),
    mutant(
        "corrects-by-distance",
        what="Draws the correction from |p - q|.",
        why="what the draft gives too much of is not owed",
        check="the residual: negative entries of p - q are cut to 0, not made positive",
        also=("law.support",),
        residual=lambda p, q, path: (p - q).abs(),
    ),
    mutant(
        "correction-of-row-zero",
        "https://github.com/flashinfer-ai/flashinfer/pull/425",
        what="Draws corrections and the bonus from the rows of the first position.",
        why="only rows that do not depend on the context hide it",
        check="the row index of the correction and of the bonus: it is the accepted length",
        emitted=lambda accepted, owed, p, request: RIGHT.emitted(
            accepted, owed[:, :1].expand_as(owed), p, request
        ),
    ),
    mutant(
        "bonus-one-row-early",
        what="Draws the bonus from the row of the last drafted token.",
        why="the bonus follows the last drafted token, whose row is the one after",
        check="the row index of the bonus: L, the row after the last drafted token",
        bonus=lambda p, q: p[:, -2:-1],
    ),
    mutant(
        "bonus-from-draft",
        what="Draws the bonus from the draft's last row.",
        why="the bonus is the target's own token",
        check="which row the bonus is drawn from: the target's row L, not a row of the draft",
        bonus=lambda p, q: q[:, -1:],
    ),
    mutant(
        "searches-unnormalised",
        "https://github.com/iree-org/iree-turbine/pull/890",
        what="Searches the running sum of the residual with a coin on 0..1.",
        why="a residual does not sum to 1: the last token gets whatever is missing",
        check="the inverse-CDF search: scale the coin by the sum of the residual",
        draw=lambda rows, request: searched(rows, request).clamp(max=rows.shape[-1] - 1),
    ),
    mutant(
        "searches-off-the-end",
        "https://github.com/iree-org/iree-turbine/pull/890",
        what="Searches the running sum of the residual, "
        "and returns V where it never exceeds the coin.",
        why="where the running sum never exceeds the coin there is no token of this number",
        check="the inverse-CDF search: scale the coin by the sum, and keep the index below V",
        breaks="law.prefix",
        draw=searched,
    ),
    # --- how far it counts --------------------------------------------------------------------
    mutant(
        "counts-every-pass",
        "https://github.com/flashinfer-ai/flashinfer/issues/3624",
        what="Counts the positions that pass, each by itself.",
        why="tokens after a rejected one have no right context; the count is taken for a prefix",
        check="how the accepted length is counted: up to the first rejection (cumprod, then sum)",
        also=("length.bounded",),
        accepted=lambda passed: passed.sum(-1),
    ),
    mutant(
        "counts-to-the-last-pass",
        "https://github.com/antonellof/ferrox/pull/307",
        what="Goes on after a rejection, and keeps everything up to the last token that passes.",
        why="the loop lacks its break: a later pass makes good an earlier rejection",
        check="whether the loop over positions stops at the first rejection",
        also=("length.bounded",),
        accepted=lambda passed: (passed * torch.arange(1, passed.shape[1] + 1)).amax(1),
    ),
    mutant(
        "rejects-one-late",
        "https://github.com/openvinotoolkit/openvino.genai/pull/4190",
        what="Lets a rejection take effect one position late.",
        why="the rejected token itself is kept",
        check="the index at which a rejection cuts the path: the rejected token is not kept",
        also=("length.bounded",),
        accepted=lambda passed: (RIGHT.accepted(passed) + 1).clamp(max=passed.shape[1]),
    ),
    mutant(
        "keeps-rejected-drafts",
        "https://github.com/lucidrains/speculative-decoding/issues/3",
        what="Corrects at the first rejection, but leaves all drafted tokens in the output.",
        why="rejected tokens stay in the text, with the correction after them",
        check="whether drafted tokens after the first rejection are removed from the output",
        also=("length.bounded",),
        emitted=all_kept,
    ),
    mutant(
        "counts-beyond-the-limit",
        "https://github.com/flashinfer-ai/flashinfer/issues/879",
        what="Counts the bonus among the accepted tokens.",
        why="no more than L tokens were drafted",
        check="whether the accepted length counts the bonus: it is at most L",
        breaks="law.prefix",
        emitted=bonus_counted,
    ),
    mutant(
        "crashes-on-rejection",
        "FasterDecoding/Medusa, found by running it",
        what="Calls its correction with one argument too many.",
        why="a path of the program that no test ever takes",
        check="the code that runs after a rejection: it raises an error",
        breaks="law.prefix",
        emitted=crashing,
    ),
    mutant(
        "kernel-for-one-token",
        "https://github.com/vllm-project/vllm-ascend/pull/11458",
        what="Corrects from p where one token is drafted, as it does right where there are more.",
        why="the special case was written apart, and nobody compares it with the general one",
        check="the special case for L = 1 and its residual",
        residual=lambda p, q, path: p if path.shape[1] == 1 else RIGHT.residual(p, q, path),
    ),
    # --- which row is which -------------------------------------------------------------------
    mutant(
        "target-one-row-late",
        "https://github.com/huggingface/transformers/pull/28166",
        what="Reads the target's probability of a token in the row that follows it.",
        why="the row after a token says nothing of that token",
        check="the row of p in the ratio: row i belongs to drafted token i",
        of=TargetOneRowLate,
    ),
    mutant(
        "draft-one-row-late",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/12588",
        what="Reads the draft's probability of a token in the row that follows it.",
        why="the row after a token says nothing of that token",
        check="the row of q in the ratio: row i belongs to drafted token i",
        ratio=lambda p, q, path: RIGHT.ratio(p, q.roll(-1, 1), path),
    ),
    mutant(
        "draft-of-row-zero",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/6542",
        what="Gathers all drafted tokens from the draft's first row.",
        why="q[:, tokens] is a table of all rows by all tokens, of which the first row is read",
        check="how q is gathered: each drafted token from its own row",
        ratio=lambda p, q, path: RIGHT.ratio(p, q[:, :1].expand_as(q), path),
    ),
    # --- p or q is not what was meant ---------------------------------------------------------
    mutant(
        "target-at-default-temperature",
        "https://github.com/vllm-project/vllm/issues/9834",
        "https://github.com/vllm-project/vllm/pull/10198",
        what="Scores with default sampling parameters: the target at a temperature of 0.8.",
        why="the target was asked for at another temperature",
        check="whether the sampling parameters of the request reach the target's rows",
        seen=lambda path, q, p: (q, tempered(p, 0.8)),
    ),
    mutant(
        "bonus-without-temperature",
        "SafeAILab/EAGLE, found by running it",
        what="Draws the bonus from the row before its temperature of 0.5 was applied.",
        why="the bonus is a token like any other",
        check="whether the bonus row gets the same temperature as the verified rows",
        bonus=lambda p, q: tempered(p[:, -1:], 2.0),
    ),
    mutant(
        "processes-the-bonus-only",
        "https://github.com/vllm-project/vllm/issues/42744",
        "https://github.com/vllm-project/vllm/issues/19482",
        what="Applies a min-p of 0.2 to the bonus row, which no verified row has seen.",
        why="verified tokens and the bonus have different laws, one of which is not the target's",
        check="whether verified rows and the bonus row get the same processors",
        bonus=min_p,
    ),
    mutant(
        "target-cut-to-draft-vocabulary",
        "https://github.com/vllm-project/vllm/pull/42775",
        what="Drops the target's probability of tokens that the draft never proposes.",
        why="the target can say what the draft cannot",
        check="whether target tokens outside the draft's vocabulary keep their probability",
        seen=cut_to_draft,
    ),
    mutant(
        "draft-vocabulary-mapped-wrongly",
        "https://github.com/vllm-project/vllm-ascend/pull/16166",
        what="Puts the reduced vocabulary's probabilities one token too far.",
        why="probabilities stand at the wrong tokens",
        check="the map from the draft's vocabulary to the target's: an offset of one",
        seen=lambda path, q, p: (q.roll(1, -1), p),
    ),
)
