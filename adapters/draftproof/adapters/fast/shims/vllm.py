"""vLLM's `rejection_sample`, of its first model runner and of its second, as it calls them.

    from draftproof.adapters.fast.shims.vllm import rejection_sample_v1 as rejection_sample

The first gives probabilities of the draft, the target's processed logits without a row for the
bonus, which it has drawn, and generators; the second logits of both, by request and step, of which
the draft's are not heated, and seeds. Signatures are those of vLLM 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from draftproof.adapters.fast.batch import Softmax
from draftproof.adapters.fast.engine import emitted
from draftproof.adapters.fast.inputs import EngineBatch, InvalidRequest, Lying
from draftproof.adapters.fast.shims import NotOurs
from draftproof.adapters.fast.shims.checks import (
    NAMES,
    AtLeast,
    check_form,
    check_integers,
    check_reals,
    check_reals_if_given,
    check_some,
)
from draftproof.adapters.fast.texts import TEXTS

PLACEHOLDER_TOKEN_ID = -1
"""What stands behind the last token that is emitted."""

_LOSSY = {
    "synthetic": "tokens are accepted at a rate, whatever the target says",
    "fly": "FLy keeps tokens that the target refuses",
    "watermark": "a watermark draws the next token by a key and a context, not by chance",
}
"""Why what is emitted would not have the target's law, by how vLLM's options begin."""

_INSTEAD = {
    "synthetic": "rejection_sample_method is 'standard' or 'block'",
    "fly": "rejection_sample_method is 'standard' or 'block'",
    "watermark": "no watermark is configured",
}
"""What vLLM is to be told instead."""


class SamplingMetadata(Protocol):
    """What is read of vLLM's own."""

    all_greedy: bool
    """Whether every request takes the most probable token, whatever the temperature is."""
    temperature: Tensor | None
    """[B]: 0 takes the most probable token; the target's logits are divided by others already."""
    generators: Mapping[int, torch.Generator]
    """Those of requests that have their own, by their number in the batch."""


def rejection_sample_v1(
    draft_token_ids: Tensor,
    num_draft_tokens: list[int],
    max_spec_len: int,
    cu_num_draft_tokens: Tensor,
    draft_probs: Tensor | None,
    target_logits: Tensor,
    bonus_token_ids: Tensor,
    sampling_metadata: SamplingMetadata,
    synthetic_mode: bool = False,
    synthetic_conditional_rates: Tensor | None = None,
    use_fp64_gumbel: bool = False,
    fly_window_size: int | None = None,
    fly_entropy_threshold: float | None = None,
    fly_entropy_top_k: int = 3,
    *,
    name: str = "token",
    form: str = "triton",
) -> Tensor:
    """Verify as `vllm.v1.sample.rejection_sampler.rejection_sample` does, by the verifier `name`.

    Tokens [n] of B requests, of `num_draft_tokens`; probabilities of the draft, or None where it is
    certain, and logits of the target, [n, V]; bonus tokens [B, 1]. Returns [B, max_spec_len + 1]
    int32, with placeholders. Coins are drawn as vLLM does, so that it accepts as many tokens; the
    correction is drawn by another number, from the same law. Nothing is drawn where all requests
    are greedy. A drafted token of which the draft's probability is 0 is kept where the target's is
    not; vLLM refuses it. It needs no fp64 of its own: `use_fp64_gumbel` changes nothing.

    Raises `NotOurs` for synthetic acceptance and FLy, `InvalidRequest` for tensors that do not fit
    together.
    """
    _refuse(
        "synthetic",
        synthetic_mode=synthetic_mode or None,
        synthetic_conditional_rates=synthetic_conditional_rates,
    )
    _refuse("fly", fly_window_size=fly_window_size, fly_entropy_threshold=fly_entropy_threshold)
    requests, count, device = len(num_draft_tokens), len(draft_token_ids), target_logits.device
    if name not in NAMES:
        raise InvalidRequest(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    check_form(form)
    check_integers(
        device,
        draft_token_ids=(draft_token_ids, ("n",)),
        cu_num_draft_tokens=(cu_num_draft_tokens, (requests,)),
        bonus_token_ids=(bonus_token_ids, (requests, 1)),
    )
    check_reals(device, target_logits=(target_logits, (count, "V")))
    check_some("token", "target_logits", target_logits)
    # vLLM reads the draft's rows as if they were as long as the target's.
    check_reals_if_given(
        device,
        draft_probs=(draft_probs, (count, target_logits.shape[-1])),
        temperature=(sampling_metadata.temperature, (requests,)),
    )
    _check_lengths(num_draft_tokens, max_spec_len, count)
    if sampling_metadata.temperature is None and not sampling_metadata.all_greedy:
        raise InvalidRequest("temperature is None: then all_greedy must be True, and is False")
    if count == 0:
        emitted_ids = bonus_token_ids.new_full((requests, max_spec_len + 1), PLACEHOLDER_TOKEN_ID)
        emitted_ids[:, :1] = bonus_token_ids
        return emitted_ids.int()
    heat = None
    if sampling_metadata.all_greedy:
        # Neither chance nor the draft's rows matter.
        draft_probs, heat = None, target_logits.new_zeros(requests)
        numbers = heat.new_zeros(requests, max_spec_len + 1, dtype=torch.float64)
    else:
        numbers = _numbers_v1(num_draft_tokens, max_spec_len, sampling_metadata, device)
        if sampling_metadata.temperature is not None:
            heat = (sampling_metadata.temperature != 0).to(target_logits.dtype)
    flat = EngineBatch(
        tokens=draft_token_ids[:, None],
        ends=cu_num_draft_tokens,
        p=_without_bonus(target_logits, cu_num_draft_tokens),
        q=None if draft_probs is None else Lying(draft_probs, 1, 0, count),
        longest=max_spec_len,
        noise=numbers,
        p_temperature=heat,
    )
    verified = emitted(TEXTS[name], form, flat)
    # A bonus is drawn by the caller.
    lengths = cu_num_draft_tokens.diff(prepend=cu_num_draft_tokens.new_zeros(1))
    is_whole = (verified.accepted == lengths)[:, None]
    is_last = torch.arange(max_spec_len + 1, device=device) == verified.accepted[:, None]
    return torch.where(is_last & is_whole, bonus_token_ids.int(), verified.token_ids)


def _refuse(kind: str, **options: object) -> None:
    """Raise `NotOurs` if any option of this kind is given."""
    for option, value in options.items():
        if value is not None:
            told = f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
            raise NotOurs(
                f"{option} is {told}: {_LOSSY[kind]}, so what is emitted would not have the "
                f"target's law; call this function where {_INSTEAD[kind]}, and vLLM's own elsewhere"
            )


def _check_lengths(lengths: list[int], longest: int, count: int) -> None:
    if sum(lengths) != count or max(lengths, default=0) > longest:
        raise InvalidRequest(
            f"num_draft_tokens must be {count} together, as draft_token_ids are, and at most "
            f"max_spec_len = {longest} each, got {lengths}"
        )


def _without_bonus(logits: Tensor, ends: Tensor) -> Lying:
    """Return the target's rows [n, V] at positions of which each request has one more.

    Behind a request's last token stands the row of that token: nothing that is drawn from it is
    emitted.
    """
    count, requests = len(logits), len(ends)
    position = torch.arange(count + requests, device=logits.device)
    behind = ends.long() + torch.arange(1, requests + 1, device=logits.device)
    request = torch.searchsorted(behind, position, right=True).clamp_(max=requests - 1)
    index = (position - request).clamp_(0, count - 1)
    return Lying(logits, 1, 0, len(index), Softmax(), index)


def _numbers_v1(
    lengths: list[int], longest: int, metadata: SamplingMetadata, device: torch.device
) -> Tensor:
    """Return numbers [B, L+1]: coins drawn in vLLM's order, and marks."""
    coins = torch.rand(sum(lengths), dtype=torch.float64, device=device)
    marks = torch.rand(len(lengths), 1, dtype=torch.float64, device=device)
    start, starts = 0, []
    for request, length in enumerate(lengths):
        starts.append(start)
        own = metadata.generators.get(request)
        if own is not None and length > 0:
            coins[start : start + length].uniform_(generator=own)
            marks[request].uniform_(generator=own)
        start += length
    place = torch.tensor(starts)[:, None] + torch.arange(longest)
    padded = coins[place.clamp(max=max(start - 1, 0)).to(device, non_blocking=True)]
    return torch.cat([padded, marks], 1)


def rejection_sample_v2(
    target_logits: Tensor,
    draft_logits: Tensor | None,
    draft_sampled: Tensor,
    cu_num_logits: Tensor,
    pos: Tensor,
    idx_mapping: Tensor,
    expanded_idx_mapping: Tensor,
    expanded_local_pos: Tensor,
    temperature: Tensor,
    seed: Tensor,
    num_speculative_steps: int,
    synthetic_conditional_rates: Tensor | None = None,
    use_fp64: bool = False,
    use_block_verification: bool = False,
    contexts: Tensor | None = None,
    watermarking: Tensor | None = None,
    watermarking_skip_mask: Tensor | None = None,
    watermark_key: int | None = None,
    fly_window_size: int = 0,
    fly_entropy_threshold: float = 0.3,
    fly_entropy_top_k: int = 3,
    *,
    noise: Tensor | None = None,
    form: str = "triton",
) -> tuple[Tensor, Tensor]:
    """Verify as `rejection_sample` of `vllm.v1.worker.gpu.spec_decode` does, token by token or not.

    The target's logits [N, V], heated, of all requests, one row more for each than it drafts
    tokens; the draft's [R, S, V] by request's state and step, not heated, or None where it is
    certain; the inputs of all rows; and by state temperatures and seeds. Returns tokens [B, S+1]
    int64, -1 behind the last that is emitted, and how many these are, [B] int32. Numbers are those
    of `counters`, of each request's seed and first position, or `noise` [B, S+1] where it is given,
    for lanes that look through it: the coins, then the mark. It needs no fp64 of its own:
    `use_fp64` changes nothing. FLy's other options matter where it has a window.

    Raises `NotOurs` for synthetic acceptance, FLy and watermarks, `InvalidRequest` for tensors that
    do not fit together.
    """
    _refuse("synthetic", synthetic_conditional_rates=synthetic_conditional_rates)
    _refuse("fly", fly_window_size=fly_window_size or None)
    _refuse(
        "watermark",
        contexts=contexts,
        watermarking=watermarking,
        watermarking_skip_mask=watermarking_skip_mask,
        watermark_key=watermark_key,
    )
    device, requests = target_logits.device, len(cu_num_logits) - 1
    rows = len(draft_sampled)
    # Where vLLM compacts rows, what it has expanded is longer.
    expanded_idx_mapping, expanded_local_pos = (
        expanded_idx_mapping[:rows],
        expanded_local_pos[:rows],
    )
    check_form(form)
    check_integers(
        device,
        draft_sampled=(draft_sampled, ("N",)),
        cu_num_logits=(cu_num_logits, ("B + 1",)),
        pos=(pos, (rows,)),
        idx_mapping=(idx_mapping, (requests,)),
        expanded_idx_mapping=(expanded_idx_mapping, (rows,)),
        expanded_local_pos=(expanded_local_pos, (rows,)),
        seed=(seed, ("R",)),
    )
    check_reals(
        device,
        target_logits=(target_logits, (rows, "V")),
        temperature=(temperature, ("R",)),
    )
    check_reals_if_given(
        device,
        draft_logits=(draft_logits, ("R", AtLeast(num_speculative_steps), "V")),
        noise=(noise, (requests, num_speculative_steps + 1)),
    )
    check_some("token", "target_logits", target_logits)
    if draft_logits is not None:
        check_some("token", "draft_logits", draft_logits)
    count = rows - requests
    each = torch.arange(1, requests + 1, device=device)
    ends = cu_num_logits[1:] - each
    position = torch.arange(count, device=device)
    request = torch.searchsorted(ends.long(), position, right=True).clamp_(max=requests - 1)
    # A row's input is the token that the row before verifies.
    row = position + request
    heat = temperature[idx_mapping]
    vocabulary, q = target_logits.shape[-1], None
    if draft_logits is not None and count > 0:
        steps = draft_logits.shape[1]
        vocabulary = min(vocabulary, draft_logits.shape[-1])
        index = expanded_idx_mapping[row].long() * steps + expanded_local_pos[row]
        kept = draft_logits[..., :vocabulary].flatten(0, 1)
        q = Lying(kept, 1, 0, count, Softmax(), index)
    numbers: Tensor | tuple[Tensor, Tensor]
    numbers = seed[idx_mapping], pos[cu_num_logits[:-1].long()]
    if noise is not None:
        numbers = noise.double()
    flat = EngineBatch(
        tokens=draft_sampled[row + 1][:, None],
        ends=ends,
        p=Lying(target_logits[:, :vocabulary], 1, 0, len(target_logits), Softmax()),
        q=q,
        longest=num_speculative_steps,
        noise=numbers,
        p_temperature=(heat != 0).to(heat.dtype),
        q_temperature=heat,
    )
    name = "block" if use_block_verification else "token"
    verified = emitted(TEXTS[name], form, flat)
    return verified.token_ids.long(), verified.num_sampled
