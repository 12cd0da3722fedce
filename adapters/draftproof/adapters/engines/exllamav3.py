"""ExLlamaV3: speculative decoding by agreement with the target's own tokens, as released."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines import exllamav2
from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import Release, files, imported, require_call
from draftproof.conformance.adapter import Request, Result

_OTHERS = (
    *("ext", "util", "util.device_copy", "util.memory", "cache.cache", "cache.recurrent"),
    *("constants", "model.model", "tokenizer", "tokenizer.tokenizer", "generator.async_generator"),
    *("generator.cpu_cache", "generator.disk_cache", "generator.draft_confidence"),
    *("generator.filter", "generator.job", "generator.loop_detect", "generator.pagetable"),
    *("generator.sampler", "generator.sparse_head", "generator.visualizer"),
)


class IterateGen(OneRequest):
    """`iterate_gen` of the generator, of a job that draws and keeps what it is given.

    It draws from the target after every drafted token, and keeps the drafted ones that agree. The
    job and the model are doubles; the model says the request's rows, and the job's sampler, which
    is of an extension, is torch's draw. It takes one request.
    """

    name = "exllamav3"
    algorithm = "target_first"

    def __init__(self, release: Release) -> None:
        (module,) = imported(
            "exllamav3.generator.generator",
            releases=[release],
            doubles={f"exllamav3.{name}": None for name in _OTHERS},
        )
        module.PAGE_SIZE = 256  # type: ignore[attr-defined]
        module.ext = SimpleNamespace(generator_stage_decode=_nothing)  # type: ignore[attr-defined]
        self.version, self.files = release.version, files(__file__, exllamav2.__file__, release)
        self._step = module.Generator.iterate_gen
        require_call(self._step, ("self",), ("results",), ("draft_tokens",))

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        rows, path = logits_of(request)[1][0], request.draft_tokens[0]
        job = _Job(path, request.generator)
        nothing = ("draft_model", "cache", "sparse_head", "draft_calibrator")
        no = ("target_recurrent", "draft_recurrent", "mtp_draft", "dflash_draft")
        generator = SimpleNamespace(
            **dict.fromkeys(nothing),
            **dict.fromkeys((*no, "record_draft_stats"), False),
            active_jobs=[job],
            model=SimpleNamespace(caps={}, forward=lambda **_: rows, prefetch_tokens=_nothing),
            num_remaining_jobs=lambda: 1,
            _stage_arena=lambda *_: (None, (None, None, None)),
            _staging=lambda _, count, width, dtype: torch.empty(count, width, dtype=dtype),
            _upload_arena=_nothing,
        )
        self._step(generator, [], path)
        return followed(request, torch.cat(job.emitted), len(job.emitted) - 1)


class _Job(exllamav2.Job):
    """A job of this generator."""

    def __init__(self, path: Tensor, generator: torch.Generator | None) -> None:
        super().__init__(path, generator)
        self.sequences[0].block_index_tensor = None
        nothing = dict.fromkeys(("checkpoint", "forced_ids"))
        vars(self).update(
            **nothing,
            new_tokens=0,
            min_new_tokens=0,
            filters=[],
            filter_futures=[],
            logit_masks=[],
            checkpoint_rewound=False,
            prepare_logit_mask=_nothing,
            prepare_sampling_past_ids=_nothing,
            rng=Random(0),  # noqa: S311  # its numbers are of no use
            sampler=SimpleNamespace(reqs_past_ids=False),
        )

    def receive_logits(self, logits: Tensor) -> tuple[Any, ...]:
        return super().receive_logits(logits)[:4]

    def receive_sample(self, _: Tensor, token: Tensor, *__: object) -> tuple[Any, ...]:
        return *super().receive_sample(_, token), False


def _nothing(*_: object, **__: object) -> None:
    """Do nothing, in place of what moves data to a device."""
