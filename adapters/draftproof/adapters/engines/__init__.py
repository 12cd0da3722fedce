"""Thin adapters to implementations that ship elsewhere, unmodified and imported lazily.

Each is an attribute of this package: `vllm_v1`, say, is of a pinned release, and `vllm/v1@PATH` of
whatever is there (see `packages`). `rows.toml` has those that the conformance matrix judges.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_TREES = "speculative_decoding_ot", "OptimalTransportEvaluatePosterior"
_TEXTS = "assisted", "AssistedGeneration"

_MAKERS: dict[str, tuple[Any, ...]] = {
    "vllm_v1": ("vllm", "V1"),
    "vllm_v2_token": ("vllm", "ModelRunner", "token"),
    "vllm_v2_block": ("vllm", "ModelRunner", "block"),
    "vllm_v0": ("vllm", "RejectionSampler"),
    "vllm_v0_typical": ("vllm", "TypicalAcceptanceSampler"),
    "vllm_ascend_0_13_block": ("vllm_ascend", "AscendRejectionSample", "block", "0.13.0"),
    "vllm_ascend_0_18_block": ("vllm_ascend", "AscendRejectionSample", "block", "0.18.0"),
    "vllm_ascend_0_19_block": ("vllm_ascend", "AscendRejectionSample", "block", "0.19.1rc1"),
    "vllm_ascend_0_20_block": ("vllm_ascend", "AscendRejectionSample", "block", "0.20.2rc1"),
    "vllm_ascend_0_23_token": ("vllm_ascend", "AscendRejectionSample", "token", "0.23.0"),
    "vllm_ascend_0_23_block": ("vllm_ascend", "AscendRejectionSample", "block", "0.23.0"),
    "vllm_ascend_0_26_token": ("vllm_ascend", "AscendRejectionSample", "token", "0.26.0rc1"),
    "vllm_ascend_0_26_block": ("vllm_ascend", "AscendRejectionSample", "block", "0.26.0rc1"),
    "sglang_token": ("sglang", "Chain", "token"),
    "sglang_block": ("sglang", "Chain", "block"),
    "lmdeploy_default": ("lmdeploy", "RejectionSampling", "default"),
    "lmdeploy_cuda": ("lmdeploy", "RejectionSampling", "cuda"),
    "transformers_ensemble": ("transformers", "SpeculativeSampling", 0.5),
    "mlx_lm_agreement": ("mlx_lm", "SpeculativeGenerateStep"),
    "tpu_inference_token": ("tpu_inference", "TpuRejectionSample"),
    "mcsd_with_replacement": ("mcsd", "Strategy", "with-replacement"),
    "mcsd_without_replacement": ("mcsd", "Strategy", "without-replacement"),
    "eagle_cb7e084": ("eagle", "EagleEvaluatePosterior", "cb7e084"),
    "eagle_08b3e5c": ("eagle", "EagleEvaluatePosterior", "08b3e5c"),
    "ot_rrs": (*_TREES, "RRS"),
    "ot_rrs_without_replacement": (*_TREES, "RRS_wo_replacement"),
    "ot_rrs_without_replacement_cool": (*_TREES, "RRS_wo_replacement", 0.5),
    "ot_spechub": (*_TREES, "spechub"),
    "deepspec_verify": ("deepspec", "VerifyDraftTokens"),
    "tensorrt_llm_rejection": ("tensorrt_llm", "TorchSampler"),
    "medusa_typical": ("medusa", "MedusaEvaluatePosterior"),
    "sequoia_verify": ("sequoia", "Verify", "SpecTree"),
    "sequoia_specinfer": ("sequoia", "Verify", "SpecInferTree"),
    "sequoia_accept_step": ("sequoia", "AcceptStep", "SpecTree"),
    "sequoia_specinfer_accept_step": ("sequoia", "AcceptStep", "SpecInferTree"),
    "gpt_fast_6ecad9b": ("gpt_fast", "SpeculativeDecode", "6ecad9b"),
    "gpt_fast_bc04265": ("gpt_fast", "SpeculativeDecode", "bc04265"),
    "transformers_assisted": (*_TEXTS, "AssistedCandidateGenerator"),
    "transformers_early_exit": (*_TEXTS, "EarlyExitCandidateGenerator"),
    "transformers_prompt_lookup": (*_TEXTS, "PromptLookupCandidateGenerator"),
    "transformers_universal": (*_TEXTS, "UniversalSpeculativeDecodingGenerator"),
    "transformers_single_position": (*_TEXTS, "SinglePositionMultiTokenCandidateGenerator"),
    "hydra_typical": ("hydra", "HydraEvaluatePosterior"),
    "recurrent_drafter_path": ("recurrent_drafter", "AcceptCandidateTokens", 1),
    "recurrent_drafter_beam": ("recurrent_drafter", "AcceptCandidateTokens", 4),
    "lightllm_mtp": ("lightllm", "MtpVerify"),
    "layerskip_single_step": ("layerskip", "SingleStepSpeculation"),
    "rest_posterior": ("rest", "Posterior", "evaluations"),
    "rest_chat": ("rest", "Posterior", "chat"),
    "hsd_token": ("hsd", "HierarchicalSampling", "token"),
    "hsd_block": ("hsd", "HierarchicalSampling", "block"),
    "hsd_hierarchical": ("hsd", "HierarchicalSampling", "hierarchical"),
    "hsd_tree": ("hsd", "HierarchicalPosterior"),
    "sglang_jax_chain": ("sglang_jax", "VerifyRejectionSampling"),
    "feifeibear_google": ("feifeibear", "OneRound", "google"),
    "feifeibear_deepmind": ("feifeibear", "OneRound", "deepmind"),
    "lucidrains_decoding": ("lucidrains", "SpeculativeDecoding"),
}
"""The adapters: the module, the class, and what it is made with."""


def __getattr__(name: str) -> Any:
    """Make the adapter of this name, of those above or of `packages`."""
    if "/" in name:
        return import_module(f"{__name__}.packages").made(name)
    if name not in _MAKERS:
        raise AttributeError(f"there is no engine {name!r}")
    module, made, *options = _MAKERS[name]
    return getattr(import_module(f"{__name__}.{module}"), made)(*options)
