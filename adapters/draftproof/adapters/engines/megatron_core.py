"""Megatron Core: how its inference engine verifies the drafts of its MTP heads, as released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import torch

from draftproof.adapters.engines.layout import logits_of, trusting
from draftproof.adapters.engines.released import Doubles, Release, files, imported, require_names
from draftproof.conformance.adapter import Request, Result

_PLACE = "megatron.core.inference"
_STEP = "_dynamic_step_sample_logits_and_verify_tokens"


class SampleAndVerify:
    """`_dynamic_step_sample_logits_and_verify_tokens` of the controller, with rows that were said.

    It samples the target after every drafted token by its backend in torch, and keeps the drafted
    tokens that agree, in Triton. What it finds of a batch is in the controller's buffers. It takes
    logits.
    """

    name = "megatron-core"
    algorithm = "target_first"
    logits = True
    undefined: ClassVar = trusting()

    def __init__(self, release: Release) -> None:
        sampling, controllers = imported(
            f"{_PLACE}.sampling.torch_sampling",
            f"{_PLACE}.text_generation_controllers.text_generation_controller",
            releases=[release],
            doubles=_doubles(),
        )
        require_names(sampling, "TorchSampling")
        require_names(controllers, "TextGenerationController")
        require_names(controllers.TextGenerationController, _STEP)
        # It asks for the device's number.
        own: dict[str, Any] = {"torch": _OnCpu()}
        vars(sampling).update(own)
        self._sampling = sampling.TorchSampling
        self._controller = controllers.TextGenerationController
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        drafted = request.draft_tokens[:, 0]
        rows = logits_of(request)[1][:, 0]
        count, every, vocabulary = rows.shape
        controller = object.__new__(self._controller)
        vars(controller).update(
            num_speculative_tokens=every - 1,
            inference_wrapped_model=SimpleNamespace(
                inference_context=_InferenceContext(count, every)
            ),
            _all_logits_cuda=rows.reshape(1, count * every, vocabulary),
            _sampling=self._sampling(request.generator, vocabulary),
            _sampled_tokens_cuda=torch.zeros(count, dtype=torch.int64),
            _last_accepted_seq_indices_buf=torch.zeros(count, dtype=torch.int64),
            _accepted_tokens_per_request=torch.full((count, every - 1), -1),
            _accepted_token_counts_per_request=torch.zeros(count, dtype=torch.int64),
        )
        # Of every request, the token before the draft, whatever it is, and the draft.
        getattr(controller, _STEP)(torch.nn.functional.pad(drafted, (1, 0)).reshape(1, -1))
        accepted = controller._accepted_token_counts_per_request
        expected = drafted.masked_fill(torch.arange(every - 1) >= accepted[:, None], -1)
        is_other = (controller._accepted_tokens_per_request != expected).any(1)
        return Result(
            accepted_length=accepted.masked_fill(is_other, -1),
            path=torch.zeros_like(accepted),
            next_token=controller._sampled_tokens_cuda,
        )


class _InferenceContext:
    """A context of B requests that draft, at temperature 1, with no cuts."""

    config = SimpleNamespace(materialize_only_last_token_logits=True)
    num_prefill_requests = 0
    paused_request_count = 0

    def __init__(self, count: int, every: int) -> None:
        self.num_decode_requests = self.total_request_count = count
        self.active_request_metadata = {
            "temperature": torch.ones(count),
            "top_k": torch.zeros(count, dtype=torch.int32),
            "top_p": torch.zeros(count),
        }
        self._rows = torch.arange(count * every)

    def speculative_required_logit_indices(self) -> torch.Tensor:
        """Return the rows that are needed: all."""
        return self._rows


class _OnCpu:
    """Torch, whose current device is the CPU."""

    cuda = SimpleNamespace(current_device=lambda: "cpu")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def _doubles() -> Doubles:
    core = "megatron.core"
    unused = (
        *("parallel_state", "inference.async_stream", "inference.communication_utils"),
        *("inference.config", "inference.contexts.dynamic_context"),
        *("inference.contexts.static_context", "inference.inference_request"),
        "inference.model_inference_wrappers.abstract_model_inference_wrapper",
        *("inference.sampling", "inference.sampling_params", "inference.utils"),
        *("inference.batch_dimensions_utils", "models.multimodal.llava_model"),
        *("tensor_parallel.mappings", "transformer.enums", "transformer.moe.moe_layer"),
        *("transformer.moe.router_replay", "transformer.moe.router_trace"),
        *("transformer.moe.token_dispatcher_inference", "transformer.utils"),
    )
    ranges = dict.fromkeys(("nvtx_range_push", "nvtx_range_pop"), lambda *_: None)
    others = ("accepts_parameter", "get_asyncio_loop", "get_model_config", "get_pg_size")
    more = ("round_up_to_nearest_multiple", "unwrap_model")
    return {
        **{f"{core}.{name}": None for name in unused},
        f"{core}.utils": {**ranges, **dict.fromkeys((*others, *more))},
    }
