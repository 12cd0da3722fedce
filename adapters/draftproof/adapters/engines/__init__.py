"""Thin adapters to implementations that ship elsewhere, unmodified and imported lazily.

Each is an attribute of this package, such as `vllm_v1`. `rows.toml` has those that the conformance
matrix judges.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MAKERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "vllm_v1": ("vllm", "V1", ()),
    "vllm_v2_token": ("vllm", "ModelRunner", ("token",)),
    "vllm_v2_block": ("vllm", "ModelRunner", ("block",)),
    "vllm_v0": ("vllm", "RejectionSampler", ()),
    "vllm_v0_typical": ("vllm", "TypicalAcceptanceSampler", ()),
    "vllm_ascend_0_13_token": ("vllm_ascend", "RejectionSample", ("0.13.0", "token")),
    "vllm_ascend_0_13_block": ("vllm_ascend", "RejectionSample", ("0.13.0", "block")),
    "vllm_ascend_0_18_token": ("vllm_ascend", "RejectionSample", ("0.18.0", "token")),
    "vllm_ascend_0_18_block": ("vllm_ascend", "RejectionSample", ("0.18.0", "block")),
    "vllm_ascend_0_23_token": ("vllm_ascend", "RejectionSample", ("0.23.0", "token")),
    "vllm_ascend_0_23_block": ("vllm_ascend", "RejectionSample", ("0.23.0", "block")),
    "sglang_token": ("sglang", "Chain", ("token",)),
    "sglang_block": ("sglang", "Chain", ("block",)),
    "lmdeploy_default": ("lmdeploy", "RejectionSampling", ("default",)),
    "lmdeploy_cuda": ("lmdeploy", "RejectionSampling", ("cuda",)),
    "mcsd_with_replacement": ("mcsd", "Strategy", ("with-replacement",)),
    "mcsd_without_replacement": ("mcsd", "Strategy", ("without-replacement",)),
}
"""The adapters: the module, the class, and what it is made with."""


def __getattr__(name: str) -> Any:
    """Make the adapter of this name."""
    if name not in _MAKERS:
        raise AttributeError(f"there is no engine {name!r}")
    module, made, options = _MAKERS[name]
    return getattr(import_module(f"{__name__}.{module}"), made)(*options)
