"""Aphrodite: the rejection samplers that it has of vLLM, as released."""

from __future__ import annotations

from pathlib import Path

from draftproof.adapters.engines import vllm
from draftproof.adapters.engines.released import (
    Doubles,
    Release,
    files,
    imported,
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


class AphroditeV1(vllm.V1):
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


class AphroditeRejectionSampler(vllm.RejectionSampler):
    """`RejectionSampler` of the engine V0, and the bonus by torch's own draw.

    It takes probabilities, in blocks of one length.
    """

    name = "aphrodite-v0"

    def __init__(self, release: Release) -> None:
        (module,) = imported(f"{_LAYERS}.rejection_sampler", releases=[release], doubles={})
        self.version, self.files = release.version, _files(release)
        self._sampler = module.RejectionSampler(disable_bonus_tokens=False)
        self._sampler.init_gpu_tensors("cpu")
        self._has_bonus = vllm.takes_bonus(self._sampler)


class AphroditeTypicalAcceptanceSampler(vllm.TypicalAcceptanceSampler):
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
        self._has_bonus = vllm.takes_bonus(self._sampler)


def _files(release: Release) -> list[Path]:
    return files(__file__, vllm.__file__, release)
