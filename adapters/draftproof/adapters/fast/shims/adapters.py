"""The shims as adapters: what is judged is the call that an engine makes of them.

    draftproof certify draftproof.adapters.fast.shims.adapters:torch_vllm_v1_block

Requests are laid out as the engine lays out its own, and outputs are read as it reads them. The
second model runner's counters are judged by draws alone; given noise, it is judged through that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import accumulate
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.engines import layout
from draftproof.adapters.engines.layout import flattened, lengths_of, logits_of, read, trusting
from draftproof.adapters.fast.shims.sglang import chain, tree
from draftproof.adapters.fast.shims.vllm import rejection_sample_v1, rejection_sample_v2
from draftproof.adapters.fast.texts import FORMS, TEXTS, module
from draftproof.adapters.fast.verifier import FastVerifier, files_of
from draftproof.conformance.adapter import Request, Result


class Shim:
    """A shim in one of its forms; those of Triton agree with torch's row by row."""

    version = FastVerifier.version
    arithmetic = "float32"
    at_once = 4096
    undefined: ClassVar = trusting("its own models")

    def __init__(self, name: str, algorithm: str, form: str = "torch") -> None:
        self.algorithm, self.form = algorithm, form
        self.name = f"{form}-{name}"
        self.device = "cpu"
        if form == "triton":
            self.same_as = f"{__name__}:torch_{name.replace('-', '_')}"
            kernels = import_module("draftproof.adapters.fast.kernels")
            self.device = "cpu" if kernels.IS_INTERPRETED else "cuda"

    @property
    def files(self) -> list[Path]:
        """The files that it is made of."""
        used = [module(TEXTS[self.algorithm], self.form)] if self.algorithm in TEXTS else []
        return [*files_of(__name__, *used), Path(layout.__file__)]


class VllmV1(Shim):
    """`rejection_sample_v1`, and the bonus by torch's own draw, as vLLM draws it before."""

    logits = True
    ragged = True

    def __init__(self, algorithm: str, form: str = "torch") -> None:
        super().__init__(f"vllm-v1-{algorithm}", algorithm, form)
        self._verify = rejection_sample_v1

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        flat, own = flattened(request), request.generator
        requests = len(flat.lengths)
        bonus = torch.multinomial(flat.bonus.softmax(-1), 1, generator=own)
        given = SimpleNamespace(
            all_greedy=False,
            temperature=flat.p.new_ones(requests),
            generators={} if own is None else dict.fromkeys(range(requests), own),
        )
        emitted = self._verify(
            flat.tokens,
            flat.lengths,
            request.draft_tokens.shape[2],
            flat.ends,
            flat.q.softmax(-1),
            flat.p,
            bonus,
            given,
            name=self.algorithm,
            form=self.form,
        )
        return read(request, emitted.long())


class VllmV2(Shim):
    """`rejection_sample_v2`: on noise that torch draws, or by counter, on seeds that it draws."""

    logits = True
    ragged = True

    def __init__(self, algorithm: str, form: str = "torch", *, counted: bool = False) -> None:
        super().__init__(f"vllm-v2-{algorithm}{'-counted' * counted}", algorithm, form)
        self._counted = counted
        self._verify = rejection_sample_v2

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        count, _, longest = request.draft_tokens.shape
        q, p = (rows[:, 0] for rows in logits_of(request))
        lengths, own = lengths_of(request), request.generator
        depth, every = torch.arange(longest + 1), torch.arange(count)
        is_there = depth <= lengths[:, None]
        tokens = pad(request.draft_tokens[:, 0], (1, 0))[is_there]
        numbers = None
        seeds = torch.zeros(count, dtype=torch.int64)
        if self._counted:
            seeds = torch.randint(2**62, (count,), generator=own)
        else:
            numbers = torch.rand(count, longest + 1, dtype=torch.float64, generator=own)
        sampled, number = self._verify(
            target_logits=p[is_there],
            draft_logits=q.nan_to_num(0.0, neginf=-torch.inf),
            draft_sampled=tokens,
            cu_num_logits=pad((lengths + 1).cumsum(0), (1, 0)).int(),
            pos=depth.expand(count, -1)[is_there] + 7,
            idx_mapping=every.int(),
            expanded_idx_mapping=every.repeat_interleave(lengths + 1).int(),
            expanded_local_pos=depth.expand(count, -1)[is_there].int(),
            temperature=p.new_ones(count),
            seed=seeds,
            num_speculative_steps=longest,
            use_block_verification=self.algorithm == "block",
            noise=numbers,
            form=self.form,
        )
        # What it counts is what it emits.
        is_counted = (sampled != -1).sum(1) == number
        found = read(request, sampled)
        return Result(found.accepted_length.where(is_counted, -1), found.path, found.next_token)


class SglangChain(Shim):
    """`chain`, whose coins its caller draws. Slot 0 is the token before the draft."""

    def __init__(self, algorithm: str, form: str = "torch") -> None:
        super().__init__(f"sglang-chain-{algorithm}", algorithm, form)
        self._verify = chain

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        candidates = pad(request.draft_tokens[:, 0], (1, 0))
        nothing = torch.full_like(candidates, -1)
        predicts, accepted_slots, accepted, slots = _room(candidates, candidates.shape[1])
        self._verify(
            predicts=predicts,
            accept_index=accepted_slots,
            accept_token_num=accepted,
            candidates=candidates,
            retrive_index=slots,
            retrive_next_token=nothing,
            retrive_next_sibling=nothing,
            uniform_samples=torch.rand(slots.shape, generator=request.generator),
            uniform_samples_for_final_sampling=torch.rand(len(slots), generator=request.generator),
            target_probs=request.target_probs[:, 0],
            draft_probs=request.draft_probs[:, 0],
            block_verification=self.algorithm == "block",
            form=self.form,
        )
        told = _told(predicts, accepted_slots, accepted, slots, candidates)
        path = torch.zeros_like(accepted, dtype=torch.int64)
        return Result(told[0], path, told[2])


class SglangTree(Shim):
    """`tree`, on a tree whose nodes come by depth, the token before the draft first."""

    trees = True
    max_drafts = 4
    scheme = "without_replacement"

    def __init__(self) -> None:
        super().__init__("sglang-tree", "target_first")
        self._verify = tree

    def verify(self, request: Request) -> Result:
        """Verify B rows of one tree each."""
        count, leaves, length = request.draft_tokens.shape
        widths = request.branching or (leaves, *[1] * (length - 1))
        counts = [prod(widths[:depth]) for depth in range(length + 1)]
        first, below = [0, *accumulate(counts)], [leaves // each for each in counts]
        children, siblings, leaf = [], [], []
        for depth, width in enumerate((*widths[:length], 0)):
            for node in range(counts[depth]):
                children.append(first[depth + 1] + node * width if width else -1)
                is_last = depth == 0 or (node + 1) % widths[depth - 1] == 0
                siblings.append(-1 if is_last else first[depth] + node + 1)
                leaf.append(node * below[depth])
        paths = pad(request.draft_tokens, (1, 0))
        candidates = torch.cat([paths[:, ::each, d] for d, each in enumerate(below)], 1)
        rows = [request.target_probs[:, ::each, d] for d, each in enumerate(below)]
        predicts, accepted_nodes, accepted, nodes = _room(candidates, length + 1)
        self._verify(
            predicts=predicts,
            accept_index=accepted_nodes,
            accept_token_num=accepted,
            candidates=candidates,
            retrive_index=nodes,
            retrive_next_token=torch.tensor(children).expand(count, -1),
            retrive_next_sibling=torch.tensor(siblings).expand(count, -1),
            uniform_samples=torch.rand(nodes.shape, generator=request.generator),
            uniform_samples_for_final_sampling=torch.rand(count, generator=request.generator),
            target_probs=torch.cat(rows, 1),
            draft_probs=torch.zeros_like(request.target_probs[:, 0, :1]),
        )
        length_of, last, token = _told(predicts, accepted_nodes, accepted, nodes, candidates)
        return Result(length_of, torch.tensor(leaf)[last], token)


def _room(candidates: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return `predicts`, `accept_index` and `accept_token_num`, to be written, and all nodes."""
    requests, nodes = candidates.shape
    return (
        torch.full((requests * nodes,), -1, dtype=torch.int32),
        torch.full((requests, most), -1, dtype=torch.int32),
        torch.zeros(requests, dtype=torch.int32),
        torch.arange(requests * nodes).view(requests, -1),
    )


def _told(
    predicts: Tensor, kept: Tensor, accepted: Tensor, nodes: Tensor, candidates: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the accepted length [B], the last kept node and the token that follows it.

    A length of -1 says that a node that is kept is not what its predecessor predicts.
    """
    number = accepted.long()[:, None]
    said = predicts[kept.long().clamp(min=0)].long()
    own = (kept.long() - nodes[:, :1]).clamp(min=0)
    depth = torch.arange(kept.shape[1] - 1)
    is_other = (candidates.gather(1, own[:, 1:]) != said[:, :-1]) | (kept[:, 1:] == -1)
    is_wrong = (is_other & (depth < number)).any(1)
    last, token = own.gather(1, number)[:, 0], said.gather(1, number)[:, 0]
    return number[:, 0].masked_fill(is_wrong, -1), last, token


_MAKERS: dict[str, Callable[[str], Shim]] = {
    "vllm_v1_token": partial(VllmV1, "token"),
    "vllm_v1_block": partial(VllmV1, "block"),
    "vllm_v2_token": partial(VllmV2, "token"),
    "vllm_v2_block": partial(VllmV2, "block"),
    "vllm_v2_token_counted": partial(VllmV2, "token", counted=True),
    "vllm_v2_block_counted": partial(VllmV2, "block", counted=True),
    "sglang_chain_token": partial(SglangChain, "token"),
    "sglang_chain_block": partial(SglangChain, "block"),
}

NAMES = (*(f"{form}_{name}" for form in FORMS for name in _MAKERS), "torch_sglang_tree")
"""The adapters, which are attributes of this module."""


def __getattr__(name: str) -> Shim:
    """Make the adapter that is called FORM_NAME."""
    form, _, shim = name.partition("_")
    if name not in NAMES:
        raise AttributeError(f"there is no shim {name!r}; there are {', '.join(NAMES)}")
    return SglangTree() if shim == "sglang_tree" else _MAKERS[shim](form)
