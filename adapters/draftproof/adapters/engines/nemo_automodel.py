"""NeMo AutoModel: how the drafters that it trains are verified, in plain torch, as released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor

from draftproof.adapters.engines.layout import OneRequest, followed, logits_of, trusting
from draftproof.adapters.engines.released import (
    Doubles,
    Release,
    files,
    imported,
    require_call,
    require_names,
)
from draftproof.conformance.adapter import Request, Result

_PLACE = "nemo_automodel.components.speculative"


class MSDStochasticChain(OneRequest):
    """`verify_stochastic_chain` of MSD, a form of EAGLE: it takes logits, and one request."""

    name = "nemo-automodel-msd"
    algorithm = "token"
    undefined: ClassVar = trusting(
        drafter="its own drafter",
        nan="rows are trusted",
        shape="their shapes are checked, their contents trusted",
        token="a token outside the vocabulary raises if it is reached",  # noqa: S106  # no secret
    )

    def __init__(self, release: Release) -> None:
        (module,) = imported(
            f"{_PLACE}.eagle.msd_decode",
            releases=[release],
            doubles={f"{_PLACE}.eagle.{name}": None for name in ("draft_llama", "msd_target")},
        )
        require_names(module, "verify_stochastic_chain")
        given = ("candidate_token_ids", "target_logits", "draft_logits", "generator")
        require_call(module.verify_stochastic_chain, keywords=given)
        self._verify = module.verify_stochastic_chain
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        q, p = (rows[0, 0] for rows in logits_of(request))
        found = self._verify(
            candidate_token_ids=request.draft_tokens[0, 0].tolist(),
            target_logits=p,
            # It asks for a last row that it does not use.
            draft_logits=torch.nn.functional.pad(q, (0, 0, 0, 1)),
            generator=request.generator,
        )
        return followed(request, torch.tensor(found.emitted_token_ids), found.accepted_draft_tokens)


class DFlash2RejectionSample:
    """`dflash2_rejection_sample`, with all tokens as the candidates that were drafted from.

    It takes probabilities, and one request, and draws from the default generator alone.
    """

    name = "nemo-automodel-dflash2"
    algorithm = "token"
    batch = False
    undefined: ClassVar = trusting("its own softmax", drafter="its own drafter", logits=False)

    def __init__(self, release: Release) -> None:
        (module,) = imported(
            f"{_PLACE}.dflash.draft_qwen3_dflash2", releases=[release], doubles=_doubles()
        )
        require_names(module, "dflash2_rejection_sample")
        given = ("draft_tokens", "target_probs", "draft_probs", "candidate_ids")
        require_call(module.dflash2_rejection_sample, *((name,) for name in given))
        self._verify = module.dflash2_rejection_sample
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        tokens, q = request.draft_tokens[0], request.draft_probs[0]
        every = torch.arange(q.shape[-1]).expand(q.shape)
        accepted, following = self._verify(tokens, request.target_probs[0], q, every)
        return Result(
            accepted_length=torch.tensor([accepted]),
            path=torch.tensor([0]),
            next_token=following[None],
        )


class DFlashSpecGenerate(OneRequest):
    """The first block of `Qwen3DFlashDraftModel.spec_generate`, with models that say the rows.

    It samples the target after every drafted token, and keeps the drafted ones that agree. It
    drafts the most probable tokens: here those of the request. What it writes ends with a token
    that the request's rows do not have. It takes one request, and draws from the default generator
    alone.
    """

    name = "nemo-automodel-dflash"
    algorithm = "target_first"

    def __init__(self, release: Release) -> None:
        (module,) = imported(f"{_PLACE}.dflash.draft_qwen3", releases=[release], doubles=_doubles())
        require_names(module, "Qwen3DFlashDraftModel")
        self._generate = module.Qwen3DFlashDraftModel.spec_generate
        given = ("input_ids", "max_new_tokens", "stop_token_ids", "temperature")
        require_call(self._generate, ("self",), ("target",), keywords=given)
        self.version, self.files = release.version, files(__file__, release)

    def verify(self, request: Request) -> Result:
        """Verify one row with one path."""
        path = request.draft_tokens[0, 0]
        rows = torch.nn.functional.pad(logits_of(request)[1][0, 0], (0, 1), value=-torch.inf)
        end = rows.shape[-1] - 1
        # The token before the draft, whatever it is, then the rows, then the end.
        said = _certain(rows, 1, 0), rows, _certain(rows, len(rows), end)
        text = self._generate(
            _Drafter(_certain(rows, len(path), path), _certain(rows, len(path), end)),
            _Target(*said),
            input_ids=torch.tensor([[0]]),
            max_new_tokens=len(path) + 3,
            stop_token_ids=[end],
            temperature=1.0,
        )
        emitted = text[0, 2:-1]
        return followed(request, emitted, len(emitted) - 1)


def _certain(rows: Tensor, count: int, tokens: Tensor | int) -> Tensor:
    """Return logits [count, V+1] with which tokens are certain."""
    return torch.full((count, rows.shape[-1]), -torch.inf).index_put(
        (torch.arange(count), torch.as_tensor(tokens)), torch.tensor(0.0)
    )


class _Target:
    """A target that says rows [n, V+1], other ones in every call."""

    config = None
    device = "cpu"
    lm_head = "its head"
    model = SimpleNamespace(embed_tokens=None)

    def __init__(self, *rows: Tensor) -> None:
        self._rows = iter(rows)

    def __call__(self, tokens: Tensor, **_: object) -> Any:
        hidden = torch.zeros(*tokens.shape, 1)
        return SimpleNamespace(logits=next(self._rows)[None], hidden_states=[hidden, hidden])


class _Drafter:
    """A drafter that says rows [L, V+1], other ones in every call."""

    config = None
    mask_token_id = 0
    target_layer_ids = (0,)

    def __init__(self, *rows: Tensor) -> None:
        self._rows = iter(rows)
        self.block_size = len(rows[0]) + 1

    def __call__(self, **_: object) -> Tensor:
        return next(self._rows)[None]

    def eval(self) -> None:
        """Do nothing: it does not learn."""

    def embed_noise_block(self, *_: object) -> None:
        """Return nothing: it looks at no tokens."""

    def compute_logits(self, hidden: Tensor, _: object) -> Tensor:
        """Return what it said."""
        return hidden


class _Cache:
    """A cache that keeps nothing."""

    def __init__(self, config: object = None) -> None:
        pass

    def get_seq_length(self) -> int:
        """Return how many tokens it holds."""
        return 0

    def crop(self, length: int) -> None:
        """Forget what is behind a length."""


def _doubles() -> Doubles:
    return {
        "transformers": {"DynamicCache": _Cache},
        "transformers.cache_utils": None,
        "transformers.models.qwen3.configuration_qwen3": None,
        "transformers.models.qwen3.modeling_qwen3": None,
        f"{_PLACE}.dflash.target": {"resolve_text_config": lambda config: config},
    }
