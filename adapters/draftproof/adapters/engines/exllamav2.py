"""ExLlamaV2: speculative decoding by agreement with the target's own tokens, as released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of
from draftproof.adapters.engines.released import Release, files, imported, require_call
from draftproof.conformance.adapter import Request, Result

_OTHERS = (
    *("exllamav2", "exllamav2.attn", "exllamav2.cache", "exllamav2.compat", "exllamav2.embedding"),
    *("exllamav2.ext", "exllamav2.util", "exllamav2.generator", "exllamav2.generator.filters"),
    *("exllamav2.generator.dynamic_embeddings", "exllamav2.generator.hooks"),
    "exllamav2.generator.ngram",
)


class _Agreement(OneRequest):
    """What draws from the target after every drafted token, and keeps the drafted ones that agree.

    Its sampler, which is of its extension, is torch's draw here. It takes one request.
    """

    algorithm = "target_first"
    _module = ""

    def __init__(self, release: Release) -> None:
        place = f"exllamav2.generator.{self._module}"
        (self._own,) = imported(place, releases=[release], doubles=dict.fromkeys(_OTHERS))
        self.name = f"exllamav2-{self._module}"
        self.version, self.files = release.version, files(__file__, release)


class Streaming(_Agreement):
    """`_gen_single_token_speculative` of the streaming generator, until its draft is used up.

    For the draft model, which it asks first, the sampler says the request's drafts, all of them
    above its threshold. The models say the request's rows.
    """

    _module = "streaming"

    def __init__(self, release: Release) -> None:
        super().__init__(release)
        self._step = self._own.ExLlamaV2StreamingGenerator._gen_single_token_speculative
        require_call(self._step, ("self",), ("gen_settings",))

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        rows, path = logits_of(request)[1][0], request.draft_tokens[0, 0]
        drafts = iter(path)

        def sampled(logits: Tensor, *_: object, **__: object) -> tuple[Any, ...]:
            drafted = next(drafts, None)
            token = drawn(logits, request.generator) if drafted is None else drafted.view(1, 1)
            return token, None, None, 1.0, False

        self._own.ExLlamaV2Sampler = SimpleNamespace(sample=sampled)  # type: ignore[attr-defined]
        nothing = dict.fromkeys(
            (
                *("future_tokens", "future_logits", "input_mask", "position_offsets"),
                *("active_loras", "tokenizer", "current_blocked_tokens", "filter_prefer_eos"),
            )
        )
        none = ("total_draft_tokens", "accepted_draft_tokens", "total_tokens", "return_top_tokens")
        generator = SimpleNamespace(
            **nothing,
            **dict.fromkeys(none, 0),
            filters=[],
            # The token before the draft, whatever it is.
            sequence_ids=torch.tensor([[0]]),
            num_speculative_tokens=len(path),
            speculative_prob_threshold=0.25,
            cache=SimpleNamespace(current_seq_len=0),
            draft_cache=SimpleNamespace(current_seq_len=0),
            model=SimpleNamespace(forward=lambda tokens, *_, **__: rows[:, : tokens.shape[1]]),
            draft_model=SimpleNamespace(forward=lambda *_, **__: rows),
        )
        settings = SimpleNamespace(greedy_clone=lambda: None)
        emitted = [self._step(generator, settings)[0]]
        while generator.future_tokens is not None:
            emitted.append(self._step(generator, settings)[0])
        return followed(request, torch.cat(emitted, 1)[0], len(emitted) - 1)


class Dynamic(_Agreement):
    """`iterate_gen` of the dynamic generator, of a job that draws and keeps what it is given.

    The job and the model are doubles; the model says the request's rows.
    """

    _module = "dynamic"

    def __init__(self, release: Release) -> None:
        super().__init__(release)
        self._step = self._own.ExLlamaV2DynamicGenerator.iterate_gen
        require_call(self._step, ("self",), ("results",), ("draft_tokens",))

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        rows, path = logits_of(request)[1][0], request.draft_tokens[0]
        job = Job(path, request.generator)
        generator = SimpleNamespace(
            active_jobs=[job],
            num_draft_tokens=path.shape[1],
            page_size=256,
            model=SimpleNamespace(
                config=SimpleNamespace(arch=SimpleNamespace(lm=SimpleNamespace(mrope=False))),
                forward_chunk=lambda **_: {"logits": rows},
            ),
            get_paged_params=lambda *_, **__: None,
            cache=None,
            current_loras=None,
            filter_queue=[],
            logits_pinned=torch.empty_like(rows),
            max_sampling_threads=1,
            num_remaining_jobs=lambda: 1,
        )
        self._step(generator, [], path)
        return followed(request, torch.cat(job.emitted), len(job.emitted) - 1)


class Job(SimpleNamespace):
    """A job that has one sequence, of a token, whatever it is, and that never ends."""

    def __init__(self, path: Tensor, generator: torch.Generator | None) -> None:
        page = SimpleNamespace(kv_position=1 + path.shape[1])
        sequence = SimpleNamespace(sequence_ids=[0], kv_position=0, allocated_pages=[page])
        super().__init__(
            sequences=[sequence],
            embeddings=[],
            time_first_token=0.0,
            rejected_draft_tokens=0,
            accepted_draft_tokens=0,
            emitted=[],
        )
        self._path, self._generator = path, generator

    def is_prefill_done(self) -> bool:
        """Return True: its text has been read."""
        return True

    def get_max_seq_len(self) -> int:
        """Return the length of its text."""
        return 1

    def get_block_index(self, *_: object) -> Tensor:
        """Return its one page."""
        return torch.zeros(1, dtype=torch.int32)

    def get_input_ids_list(self, *_: object, **__: object) -> list[Tensor]:
        """Return its token and the drafts."""
        return [torch.nn.functional.pad(self._path, (1, 0))]

    def receive_logits(self, logits: Tensor) -> tuple[Any, ...]:
        """Draw a token."""
        return drawn(logits, self._generator), None, None, None, False

    def receive_sample(self, _: Tensor, token: Tensor, *__: object) -> tuple[bool, Tensor]:
        """Keep a token."""
        self.emitted.append(token[0])
        return False, token


def drawn(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw a token [1, 1] by logits [1, 1, V]."""
    return torch.multinomial(logits[:, 0].softmax(-1), 1, generator=generator)
