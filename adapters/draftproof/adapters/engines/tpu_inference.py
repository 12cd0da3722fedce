"""tpu-inference: the rejection sampler of vLLM on TPUs, in JAX, as released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import torch

from draftproof.adapters.engines.layout import flattened, read, trusting
from draftproof.adapters.engines.released import (
    Release,
    Unavailable,
    Wheel,
    files,
    imported,
)
from draftproof.conformance.adapter import Request, Result

TPU_INFERENCE = Wheel(
    project="tpu-inference",
    version="0.32.0",
    name="tpu_inference-0.32.0-py3-none-any.whl",
    digest="7c25a3c76cefd383f06ef115a6ed4d7bed82c081f047046bfef55f5913ea06d4",
    members=("tpu_inference/layers/jax/sample/rejection_sampler.py",),
)


class TpuRejectionSample:
    """`rejection_sample` of its module; the bonus is torch's own draw.

    The numbers that it asks `jax.random` for are drawn by torch. It takes probabilities, and
    requests one after another, which may differ in length.
    """

    name = "tpu-inference"
    algorithm = "token"
    ragged = True
    logits = True
    undefined: ClassVar = trusting(
        "its own softmax",
        drafter="its own drafter",
        logits=False,
        shape="rows come from its own models and are trusted",
    )

    def __init__(self, release: Release = TPU_INFERENCE) -> None:
        try:
            import jax
        except ImportError as error:
            raise Unavailable(f"JAX is not installed ({error})") from error
        (self._module,) = imported(
            "tpu_inference.layers.jax.sample.rejection_sampler",
            releases=[release],
            doubles={
                "tpu_inference.layers.common.binary_search": None,
                "tpu_inference.layers.common.sharding": None,
                "tpu_inference.layers.jax.sample.sampling_metadata": None,
            },
        )
        # Its first use starts threads, which no lane can follow.
        jax.devices()
        self._jax: Any = jax
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify B rows with one path each."""
        flat = flattened(request)
        generator, given = request.generator, self._jax.numpy.asarray

        def uniform(_: object, shape: tuple[int, ...]) -> Any:
            return given(torch.rand(shape, generator=generator).numpy())

        def exponential(_: object, shape: tuple[int, ...]) -> Any:
            return given(torch.empty(shape).exponential_(generator=generator).numpy())

        self._module.jax = SimpleNamespace(  # type: ignore[attr-defined]
            ops=self._jax.ops,
            random=SimpleNamespace(
                split=lambda key: (key, key), uniform=uniform, exponential=exponential
            ),
        )
        bonus = torch.multinomial(flat.bonus.softmax(-1), 1, generator=generator)[:, 0]
        said = self._module.rejection_sample(
            given(flat.tokens.numpy()),
            given(torch.tensor(flat.lengths).numpy()),
            given(flat.q.softmax(-1).numpy()),
            given(flat.p.softmax(-1).numpy()),
            given(bonus.numpy()),
            do_sampling=True,
            key=0,
        )
        emitted = torch.from_numpy(self._jax.device_get(said).copy()).long()
        return read(request, _padded(request, flat.lengths, emitted))


def _padded(request: Request, lengths: list[int], emitted: torch.Tensor) -> torch.Tensor:
    """Return [B, L+1] of what is emitted one after the other, the bonuses behind all else."""
    count, _, longest = request.draft_tokens.shape
    rows = torch.full((count, longest + 1), -1)
    drafted, bonus = emitted[:-count], emitted[-count:]
    each = torch.split(drafted, lengths)
    for row, (length, tokens) in enumerate(zip(lengths, each, strict=True)):
        rows[row, :length] = tokens
        rows[row, length] = bonus[row]
    return rows
