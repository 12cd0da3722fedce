"""vLLM: the rejection samplers of its engines, as released."""

from __future__ import annotations

import logging
from enum import StrEnum
from inspect import signature
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import torch

from draftproof.adapters.engines.layout import flattened, lengths_of, logits_of, read, trusting
from draftproof.adapters.engines.released import (
    Doubles,
    Release,
    Wheel,
    files,
    imported,
    require_call,
    require_names,
)
from draftproof.conformance.adapter import Request, Result

V0 = Wheel(
    project="vllm",
    version="0.5.5",
    name="vllm-0.5.5-cp38-abi3-manylinux1_x86_64.whl",
    digest="64fb5b8a3300af3006a3b9ba4eacdf5f4bd2a85887a695e6587684447c49eb8e",
    members=(
        "vllm/model_executor/layers/rejection_sampler.py",
        "vllm/model_executor/layers/spec_decode_base_sampler.py",
        "vllm/model_executor/layers/typical_acceptance_sampler.py",
    ),
)

VLLM = Wheel(
    project="vllm",
    version="0.33.0",
    name="vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl",
    digest="4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
    members=(
        "vllm/model_executor/warmup/jit_warmup.py",
        "vllm/model_executor/warmup/jit_warmup_triton_helper.py",
        "vllm/v1/sample/ops/topk_topp_sampler.py",
        "vllm/v1/sample/rejection_sampler.py",
        "vllm/v1/spec_decode/fly.py",
        "vllm/v1/worker/gpu/sample/gumbel.py",
        "vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py",
    ),
)


_PLATFORM = SimpleNamespace(
    is_cpu=lambda: True,
    is_cuda=lambda: False,
    is_cuda_alike=lambda: False,
    device_type="cpu",
    simple_compile_backend="eager",
)

_MODES = StrEnum("_MODES", "RAW_LOGITS RAW_LOGPROBS PROCESSED_LOGITS PROCESSED_LOGPROBS")

V0_DOUBLES: Doubles = {
    "vllm.envs": {"VLLM_USE_FLASHINFER_SAMPLER": False},
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.platforms": {"current_platform": _PLATFORM},
}
"""What stands for the rest of vLLM around the samplers of its engine V0."""


def doubles() -> Doubles:
    """Return what stands for the rest of vLLM."""
    import triton
    import triton.language as tl
    from triton.language.extra import libdevice

    return {
        "vllm.config": {"LogprobsMode": _MODES},
        "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": (), "LogprobsMode": _MODES},
        "vllm.envs": {},
        "vllm.logger": {"init_logger": logging.getLogger},
        "vllm.platforms": {"current_platform": _PLATFORM, "CpuArchEnum": None},
        "vllm.platforms.interface": None,
        "vllm.triton_utils": {
            "HAS_TRITON": True,
            "triton": triton,
            "tl": tl,
            "tldevice": libdevice,
        },
        "vllm._aiter_ops": None,
        "vllm.utils.torch_utils": None,
        "vllm.v1.outputs": None,
        "vllm.v1.sample.logits_processor.builtin": None,
        "vllm.v1.sample.metadata": None,
        "vllm.v1.sample.ops.bad_words": None,
        "vllm.v1.sample.ops.penalties": None,
        "vllm.v1.sample.ops.topk_topp_triton": None,
        "vllm.v1.sample.sampler": None,
        "vllm.v1.spec_decode.metadata": None,
        "vllm.v1.spec_decode.utils": None,
        "vllm.v1.worker.gpu.sample.watermark": None,
    }


class V1:
    """`vllm.v1.sample.rejection_sampler.rejection_sample`, and the bonus by its own race.

    It takes logits, and requests one after another, which may differ in length.
    """

    name = "vllm-v1"
    algorithm = "token"
    logits = True
    ragged = True
    undefined: ClassVar = trusting(
        drafter="its own drafter",
        nan="logits are trusted",
        shape="shapes are asserted, contents trusted",
    )

    def __init__(self, release: Release = VLLM) -> None:
        self._sampler, self._ops = imported(
            "vllm.v1.sample.rejection_sampler",
            "vllm.v1.sample.ops.topk_topp_sampler",
            releases=[release],
            doubles=doubles(),
        )
        self.version, self.files = release.version, files(__file__, release)
        self._takes_logits = takes_logits(self._sampler)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        return verified(request, self._sampler, self._ops, takes_logits=self._takes_logits)


def takes_logits(sampler: Any) -> bool:
    """Return True if its `rejection_sample` takes the target's logits, False for probabilities.

    Raises `MovedOn` if it takes other arguments than `verified` gives it.
    """
    rows = ("target_logits", "target_logits_or_tuple", "target_probs")
    names = ("draft_token_ids", "num_draft_tokens", "max_spec_len", "cu_num_draft_tokens")
    given = (*names, "draft_probs", rows, "bonus_token_ids", "sampling_metadata")
    positions = [(each,) if isinstance(each, str) else each for each in given]
    return rows[-1] not in require_call(sampler.rejection_sample, *positions)


def verified(request: Request, sampler: Any, ops: ModuleType, *, takes_logits: bool) -> Result:
    """Verify a request by the `rejection_sample` of a module; the bonus is drawn by vLLM's race.

    The function takes the target's rows as logits, or as probabilities.
    """
    flat = flattened(request)
    own = request.generator
    generators = {} if own is None else dict.fromkeys(range(len(flat.lengths)), own)
    given = SimpleNamespace(
        all_greedy=False,
        all_random=True,
        temperature=torch.ones(len(flat.lengths)),
        generators=generators,
    )
    bonus = ops.random_sample(flat.bonus.softmax(-1, dtype=torch.float32), generators)
    emitted = sampler.rejection_sample(
        flat.tokens,
        flat.lengths,
        max(flat.lengths),
        flat.ends,
        flat.q.softmax(-1, dtype=torch.float32),
        flat.p if takes_logits else flat.p.softmax(-1, dtype=torch.float32),
        bonus[:, None],
        given,
    )
    return read(request, emitted)


class ModelRunner:
    """`rejection_sample` of the second model runner, by token or by block.

    Its kernels make their own random numbers, of a seed and a position, which no lane can follow.
    Here the functions that make them read what torch has drawn instead: for every position a coin,
    and a number for every token. What the numbers are used for is the release's own.
    """

    logits = True
    ragged = True
    undefined: ClassVar = V1.undefined
    _given = (
        *("target_logits", "draft_logits", "draft_sampled", "cu_num_logits", "pos", "idx_mapping"),
        *("expanded_idx_mapping", "expanded_local_pos", "temperature", "seed"),
        "num_speculative_steps",
    )

    def __init__(self, algorithm: str, release: Release = VLLM) -> None:
        sampler, gumbel = imported(
            "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils",
            "vllm.v1.worker.gpu.sample.gumbel",
            releases=[release],
            doubles=doubles(),
        )
        from draftproof.adapters.engines import noise

        require_names(sampler, "rejection_sample", "tl_rand32")
        require_names(gumbel, "murmur3_uniform32")
        by_block = ("use_block_verification",) if algorithm == "block" else ()
        require_call(sampler.rejection_sample, keywords=(*self._given, *by_block))
        sampler.tl_rand32, sampler.spec_step_seed = noise.coin, noise.same  # type: ignore[attr-defined]
        gumbel.murmur3_uniform32 = noise.uniform  # type: ignore[attr-defined]
        # The interpreter has no libdevice.
        sampler.tldevice = noise  # type: ignore[attr-defined]
        self.name, self.algorithm = f"vllm-v2-{algorithm}", algorithm
        self.version, self.files = release.version, files(__file__, release)
        self._verify = sampler.rejection_sample
        self._drawn = noise.drawn

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        count, _, longest = request.draft_tokens.shape
        q, p = (rows[:, 0] for rows in logits_of(request))
        lengths = lengths_of(request)
        # A request's rows begin with that of its last token, which is no draft.
        depth = torch.arange(longest + 1)
        is_there = depth <= lengths[:, None]
        tokens = torch.nn.functional.pad(request.draft_tokens[:, 0], (1, 0))[is_there]
        starts = torch.nn.functional.pad((lengths + 1).cumsum(0), (1, 0))
        every = torch.arange(count)
        noise = self._drawn(len(tokens), p.shape[-1], request.generator)
        sampled, number = self._verify(
            target_logits=p[is_there],
            draft_logits=q.nan_to_num(0.0, neginf=-torch.inf),
            draft_sampled=tokens,
            cu_num_logits=starts.int(),
            pos=torch.arange(len(tokens)),
            idx_mapping=every.int(),
            expanded_idx_mapping=every.repeat_interleave(lengths + 1).int(),
            expanded_local_pos=depth.expand(count, -1)[is_there].int(),
            temperature=torch.ones(count),
            seed=torch.full((count,), noise.data_ptr()),
            num_speculative_steps=longest,
            use_block_verification=self.algorithm == "block",
        )
        # What lies behind the tokens that it counts was never written.
        return read(request, sampled.masked_fill(depth >= number[:, None], -1))


class RejectionSampler:
    """`RejectionSampler` of the engine V0, and the bonus by torch's own draw, as its workers did.

    It takes probabilities, in blocks of one length.
    """

    name = "vllm-v0"
    algorithm = "token"
    undefined: ClassVar = trusting(
        "its own softmax",
        logits=False,
        shape="shapes are checked in its strict mode alone",
        token="tokens are checked in its strict mode alone",  # noqa: S106  # no secret
    )

    def __init__(self, release: Release = V0) -> None:
        (module,) = imported(
            "vllm.model_executor.layers.rejection_sampler", releases=[release], doubles=V0_DOUBLES
        )
        self.version, self.files = release.version, files(__file__, release)
        made = module.RejectionSampler
        # Once, the bonus could be left out.
        has_option = "disable_bonus_tokens" in signature(made.__init__).parameters
        self._sampler = made(**({"disable_bonus_tokens": False} if has_option else {}))
        self._sampler.init_gpu_tensors("cpu")
        self._has_bonus = takes_bonus(self._sampler)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        target, own = request.target_probs[:, 0], request.generator
        bonus = torch.multinomial(target[:, -1], 1, generator=own)
        emitted = self._sampler(
            target if self._has_bonus else target[:, :-1],
            bonus,
            request.draft_probs[:, 0],
            request.draft_tokens[:, 0],
            seeded_seqs=None if own is None else dict.fromkeys(range(len(target)), own),
        )
        return read(request, emitted)


def takes_bonus(sampler: Any) -> bool:
    """Return True if a sampler takes the target's rows with the bonus's, False for those before.

    Raises `MovedOn` if it takes other arguments than it is given.
    """
    rows = ("target_with_bonus_probs", "target_probs")
    others = (("bonus_token_ids",), ("draft_probs",), ("draft_token_ids",))
    return rows[0] in require_call(sampler.forward, rows, *others)


class TypicalAcceptanceSampler:
    """`TypicalAcceptanceSampler` of the engine V0, with the options that are its default.

    It keeps what is typical of the target, and corrects by its most probable token: it is lossy by
    design.
    """

    name = "vllm-v0-typical"
    algorithm = "token"
    undefined: ClassVar = RejectionSampler.undefined

    def __init__(self, release: Release = V0) -> None:
        (module,) = imported(
            "vllm.model_executor.layers.typical_acceptance_sampler",
            releases=[release],
            doubles=V0_DOUBLES,
        )
        self.version, self.files = release.version, files(__file__, release)
        self._sampler = module.TypicalAcceptanceSampler(
            posterior_threshold=0.09, posterior_alpha=0.3
        )
        self._sampler.init_gpu_tensors("cpu")
        self._has_bonus = takes_bonus(self._sampler)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        target = request.target_probs[:, 0]
        bonus = torch.multinomial(target[:, -1], 1, generator=request.generator)
        emitted = self._sampler(
            target if self._has_bonus else target[:, :-1],
            bonus,
            request.draft_probs[:, 0],
            request.draft_tokens[:, 0],
        )
        return read(request, emitted)
