"""vllm-ascend: the rejection sampler's torch fallbacks, by token and by block, in six releases.

They are what runs where there is no Triton for the device. They pin memory on the way to it, which
a machine without one cannot: torch's constructors are told not to. That is all that is changed.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import ClassVar

from draftproof.adapters.engines import vllm
from draftproof.adapters.engines.layout import Unpinned
from draftproof.adapters.engines.released import Doubles, Release, Wheel, files, imported
from draftproof.conformance.adapter import Request, Result

_DIGESTS = {
    "0.13.0": "3359986af39959d09c35806b39431e3229a47f5f152e3127f4beb41d81fce5b1",
    "0.18.0": "4d5f4cc392a6c4f4ccf209008823d6ae615473d665596cf3d042cb5a755271bd",
    "0.19.1rc1": "d6003e34e9c21bcd6398a947040c37461ceb044b178f07e39eeca988bd226bf7",
    "0.20.2rc1": "0ab8dbea974053a6cf506c92bb7855e7fd559d8a9ae85c96cb5648f0d1d42f81",
    "0.23.0": "4f0d25d3b6d8ae85753b53d4bd8d910418865baf413fa779b87012ad1a4a3f87",
    "0.26.0rc1": "f9ae1cbd28975658695191d78a2de0b141468a24e18951d680dc4ae674a6984a",
}

RELEASES = {
    version: Wheel(
        project="vllm-ascend",
        version=version,
        name=f"vllm_ascend-{version}-cp311-cp311-manylinux_2_{system}_x86_64.whl",
        digest=digest,
        members=("vllm_ascend/sample/rejection_sampler.py",),
    )
    for version, digest in _DIGESTS.items()
    for system in [34 if version >= "0.23" else 24]
}


class AscendRejectionSample:
    """`vllm_ascend.sample.rejection_sampler.rejection_sample`, the bonus by vLLM's own race.

    Block verification is what it does with drafts of three tokens or more: always, before 0.21,
    then if it is switched on, as it is here for "block". Shorter drafts are verified by token.
    """

    logits = True
    ragged = True
    undefined: ClassVar = vllm.V1.undefined

    def __init__(self, algorithm: str, release: str | Release) -> None:
        release = RELEASES[release] if isinstance(release, str) else release
        self.name, self.algorithm = f"vllm-ascend-{algorithm}", algorithm
        self._sampler, self._ops = imported(
            "vllm_ascend.sample.rejection_sampler",
            "vllm.v1.sample.ops.topk_topp_sampler",
            releases=[release, vllm.VLLM],
            doubles=_doubles(block=algorithm == "block"),
        )
        self.version = release.version
        self.files = files(__file__, vllm.__file__, release, vllm.VLLM)
        self._takes_logits = vllm.takes_logits(self._sampler)
        self._sampler.torch = Unpinned()  # type: ignore[attr-defined]

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        return vllm.verified(request, self._sampler, self._ops, takes_logits=self._takes_logits)


def _doubles(*, block: bool) -> Doubles:
    logger = logging.getLogger(__name__)
    for level in ("debug_once", "info_once", "warning_once"):
        setattr(logger, level, lambda *_: None)
    verification = SimpleNamespace(
        enable_block_verify=block,
        enable_entropy_verify=False,
        posterior_threshold=0.95,
        posterior_alpha=0.4,
    )
    config = SimpleNamespace(rejection_sampler_config=verification, enable_reduce_sample=False)
    own = vllm.doubles()
    return {
        **own,
        "vllm.triton_utils": {**(own["vllm.triton_utils"] or {}), "HAS_TRITON": False},
        "vllm.logger": {"init_logger": logging.getLogger, "logger": logger},
        "vllm.distributed.parallel_state": None,
        "vllm_ascend.ascend_config": {"get_ascend_config": lambda: config},
        "vllm_ascend.ops.triton.reject_sample": None,
        "vllm_ascend.sample.penalties": None,
        "vllm_ascend.sample.sampler": None,
        "vllm_ascend.utils": {"is_310p": lambda: False},
    }
