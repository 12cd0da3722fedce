"""sglang-jax: the verification of its chains where a text is sampled, in JAX.

https://github.com/sgl-project/sglang-jax, at a commit.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import logits_of, read, trusting
from draftproof.adapters.engines.released import Commit, Unavailable, files, imported
from draftproof.conformance.adapter import Request, Result

_MODULE = "python.sgl_jax.srt.speculative.draft_extend_fused"
_BESIDE = "sgl_jax.srt"

SGLANG_JAX = Commit(
    repository="sgl-project/sglang-jax",
    version="cddbf6f1cc33cbdd453bd8f36ff7051cf46ca176",
    digests={
        f"{_MODULE.replace('.', '/')}.py": (
            "42874e76074847286e26795618e6e233ebf0fe26b18ee0d7cd2685d6775f3abf"
        )
    },
)

_STATIC = (
    *("enable_top_k", "enable_top_p", "speculative_num_draft_tokens", "speculative_num_steps"),
    *("threshold_acc", "threshold_single"),
)
"""Names of the arguments that it is compiled for, as the function that calls it is."""


def _kept(
    *, accept_index: Any, predict: Any, accept_lens: Any, **_: object
) -> tuple[Any, Any, Any]:
    """Return what was verified, as is done where no acceptance is simulated."""
    return accept_index, predict, accept_lens


class VerifyRejectionSampling:
    """`_verify_rejection_sampling` at temperature 1, without top-k and top-p, on one device.

    Its coins are torch's, as large as those that it is given. The package beside its module is a
    double, in which no acceptance is simulated, and so is flax. Drafts count as certain: the law is
    that of drawing from the target first.
    """

    name = "sglang-jax"
    version = SGLANG_JAX.version[:10]
    algorithm = "target_first"
    logits = True
    undefined: ClassVar = trusting()

    def __init__(self) -> None:
        try:
            import jax
        except ImportError as error:
            raise Unavailable(f"JAX is not installed ({error})") from error
        (self._module,) = imported(
            _MODULE,
            releases=[SGLANG_JAX],
            doubles={
                "flax": None,
                f"{_BESIDE}.kernels.speculative.kernel": None,
                f"{_BESIDE}.sampling.sampling_params": None,
                f"{_BESIDE}.speculative.relay_buffer": None,
                f"{_BESIDE}.speculative.spec_utils": {
                    "SIMULATED_ACCEPTANCE_CONFIG": SimpleNamespace(enabled=False),
                    "apply_simulated_acceptance": _kept,
                },
            },
        )
        # Its first use starts threads, which no lane can follow.
        jax.devices()
        self._jax: Any = jax
        explicit = jax.sharding.AxisType.Explicit
        self._mesh = jax.make_mesh((1, 1), ("data", "tensor"), axis_types=(explicit, explicit))
        self._verify = jax.jit(self._module._verify_rejection_sampling, static_argnames=_STATIC)
        self.files = files(__file__, SGLANG_JAX)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        with self._jax.set_mesh(self._mesh):
            return read(request, self._emitted(request))

    def _emitted(self, request: Request) -> Tensor:
        """Return what it emits, [B, L+1], with -1 behind it."""
        paths, given = request.draft_tokens[:, 0], self._jax.numpy.asarray
        count, length = paths.shape
        generator, width = request.generator, length + 1
        rows = logits_of(request)[1][:, 0]
        found = self._verify(
            # What follows the text, and not the verification: a number for each token.
            target_hidden=self._jax.numpy.zeros((count * width, 1)),
            positions=self._jax.numpy.zeros(count * width, dtype=int),
            # A length of 0 is no request's.
            seq_lens=self._jax.numpy.ones(count, dtype=int),
            # They begin with the token before the draft, whatever it is.
            draft_tokens=given(torch.nn.functional.pad(paths, (1, 0)).numpy().reshape(-1)),
            target_logits=given(rows.reshape(count * width, -1).numpy()),
            temperatures=self._jax.numpy.ones((count, 1)),
            top_ks=None,
            top_ps=None,
            coins=given(torch.rand(count, length, generator=generator).numpy()),
            coin_f=given(torch.rand(count, generator=generator).numpy()),
            threshold_single=1.0,
            threshold_acc=1.0,
            enable_top_k=False,
            enable_top_p=False,
            speculative_num_steps=length,
            speculative_num_draft_tokens=width,
        )
        said, lengths = (
            torch.from_numpy(self._jax.device_get(each).copy()).long()
            for each in (found.verified_id, found.accept_lens)
        )
        is_said = torch.arange(width) < lengths[:, None]
        return said.view(count, width).masked_fill(~is_said, -1)
