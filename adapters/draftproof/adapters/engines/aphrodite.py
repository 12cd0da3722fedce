"""Aphrodite: the rejection samplers that it has of vLLM, as released."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import triton
import triton.language as tl

from draftproof.adapters.engines import noise, vllm
from draftproof.adapters.engines.released import (
    Doubles,
    Release,
    files,
    imported,
    require_call,
    require_names,
)

_LAYERS = "aphrodite.modeling.layers"


def _doubles() -> Doubles:
    """Return what stands for the rest of Aphrodite: what stands for vLLM's, by its own names."""
    others: Doubles = {
        "aphrodite.distributed.parallel_state": None,
        "aphrodite.config.speculative": None,
    }
    own = {f"aphrodite{name.removeprefix('vllm')}": given for name, given in vllm.doubles().items()}
    return {**own, **others}


class V1(vllm.V1):
    """`aphrodite.v1.sample.rejection_sampler.rejection_sample`, and the bonus by its own race.

    It takes logits, or probabilities, and requests one after another, which may differ in length.
    """

    name = "aphrodite-v1"

    def __init__(self, release: Release) -> None:
        self._sampler, self._ops = imported(
            "aphrodite.v1.sample.rejection_sampler",
            "aphrodite.v1.sample.ops.topk_topp_sampler",
            releases=[release],
            doubles=_doubles(),
        )
        self.version, self.files = release.version, _files(release)
        self._takes_logits = vllm.takes_logits(self._sampler)


class ModelRunner(vllm.ModelRunner):
    """`rejection_sample` of the second model runner, by token or by block.

    Its kernels make their own random numbers, of a seed and a position. Here those functions read
    what torch has drawn, for every position a coin and a number for every token.
    """

    def __init__(self, algorithm: str, release: Release) -> None:
        sampler, gumbel = imported(
            "aphrodite.v1.worker.gpu.spec_decode.rejection_sampler_utils",
            "aphrodite.v1.worker.gpu.sample.gumbel",
            releases=[release],
            doubles=_doubles(),
        )
        require_names(sampler, "rejection_sample", "tl_rand32", "tldevice")
        require_names(gumbel, "tl_rand32", "tldevice")
        by_block = ("use_block_verification",) if algorithm == "block" else ()
        require_call(sampler.rejection_sample, keywords=(*self._given, *by_block))
        own: dict[str, Any] = {"tl_rand32": noise.coin, "tldevice": noise}
        vars(sampler).update(own)
        # The seed of a position's race is its place in the numbers; the interpreter looks for
        # Triton's own module among a function's names.
        own = {
            "tl_rand32": _number,
            "tldevice": noise,
            "tl": _Placing(tl.__name__),
            "triton_tl": tl,
        }
        vars(gumbel).update(own)
        self.name, self.algorithm = f"aphrodite-v2-{algorithm}", algorithm
        self.version, self.files = release.version, _files(release)
        self._verify = sampler.rejection_sample
        self._drawn = noise.drawn


class _Placing(ModuleType):
    """Triton's language, with a `randint` that says where the numbers of a position are."""

    def __getattr__(self, name: str) -> Any:
        return _place if name == "randint" else getattr(tl, name)


@triton.jit
def _place(seed, position):
    """Return the seed as far on as a position's numbers are."""
    return seed + position * noise._WIDTH * 4


@triton.jit
def _number(place, token, includes_zero: tl.constexpr):  # noqa: ARG001  # Aphrodite's do
    """Return the numbers of tokens at a place."""
    return tl.load(place.to(tl.pointer_type(tl.float32)) + 1 + token)


class RejectionSampler(vllm.RejectionSampler):
    """`RejectionSampler` of the engine V0, and the bonus by torch's own draw.

    It takes probabilities, in blocks of one length.
    """

    name = "aphrodite-v0"

    def __init__(self, release: Release) -> None:
        (module,) = imported(f"{_LAYERS}.rejection_sampler", releases=[release], doubles={})
        self.version, self.files = release.version, _files(release)
        self._sampler = module.RejectionSampler(disable_bonus_tokens=False)
        self._sampler.init_gpu_tensors("cpu")
        self._has_bonus = vllm._takes_bonus(self._sampler)


class TypicalAcceptanceSampler(vllm.TypicalAcceptanceSampler):
    """`TypicalAcceptanceSampler` of the engine V0, with the options that are its default.

    It keeps what is typical of the target, and corrects by its most probable token: it is lossy by
    design.
    """

    name = "aphrodite-v0-typical"

    def __init__(self, release: Release) -> None:
        place = f"{_LAYERS}.typical_acceptance_sampler"
        (module,) = imported(place, releases=[release], doubles={})
        self.version, self.files = release.version, _files(release)
        self._sampler = module.TypicalAcceptanceSampler(
            posterior_threshold=0.09, posterior_alpha=0.3
        )
        self._sampler.init_gpu_tensors("cpu")
        self._has_bonus = vllm._takes_bonus(self._sampler)


def _files(release: Release) -> Sequence[Any]:
    return files(__file__, vllm.__file__, release)
