"""The engines' signatures, held against their own functions as released, on the same batches.

What enters as coins decides alike, so accepted lengths are equal; a correction that an engine draws
by a race has the same law and another value.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from draftproof.adapters.engines import noise
from draftproof.adapters.engines.released import Unavailable, imported
from draftproof.adapters.engines.sglang import SGLANG
from draftproof.adapters.engines.vllm import VLLM, doubles
from draftproof.adapters.fast import FORMS
from draftproof.adapters.fast.shims import NotOurs, sglang, vllm

pytest.importorskip("triton")

BATCHES = 1000
"""Random batches that are held against an engine's own."""

V, L = 11, 4


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def theirs(module: str, release: Any, doubled: Callable[[], Any] = dict) -> Any:
    try:
        (found,) = imported(module, releases=[release], doubles=doubled())
    except Unavailable as reason:
        pytest.skip(str(reason))
    return found


# --- vLLM's first model runner ---------------------------------------------------------------


def batch_v1(seed: int, *, has_rows: bool) -> dict[str, Any]:
    """Return arguments of `rejection_sample`: requests of all lengths, some of them greedy."""
    generator = seeded(seed)
    lengths = torch.randint(0, L + 1, (6,), generator=generator).tolist()
    count = max(sum(lengths), 1)
    lengths[0] += count - sum(lengths)
    target = torch.randn(count, V, generator=generator) * 2
    draft = (target + torch.randn(count, V, generator=generator)).softmax(-1)
    temperature = torch.tensor([0.0, 1.0])[torch.randint(0, 2, (6,), generator=generator)]
    return {
        "draft_token_ids": torch.multinomial(draft, 1, generator=generator)[:, 0].int(),
        "num_draft_tokens": lengths,
        "max_spec_len": max(lengths),
        "cu_num_draft_tokens": torch.tensor(lengths).cumsum(0).int(),
        "draft_probs": draft if has_rows else None,
        "target_logits": target,
        "bonus_token_ids": torch.randint(V, (6, 1), generator=generator).int(),
        "sampling_metadata": SimpleNamespace(
            all_greedy=False,
            all_random=bool((temperature > 0).all()),
            temperature=temperature,
            generators={1: seeded(seed + 1), 4: seeded(seed + 2)},
        ),
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("has_rows", [True, False])
def test_vllm_accepts_as_many_tokens_on_the_same_coins(has_rows: bool, form: str) -> None:
    released = theirs("vllm.v1.sample.rejection_sampler", VLLM, doubles)
    for seed in range(0, 4 * BATCHES // (2 * len(FORMS)), 4):
        torch.manual_seed(seed)
        wanted = released.rejection_sample(**batch_v1(seed, has_rows=has_rows))
        torch.manual_seed(seed)
        given = batch_v1(seed, has_rows=has_rows)
        found = vllm.rejection_sample_v1(**given, form=form)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        assert torch.equal(found == -1, wanted == -1)
        is_greedy = given["sampling_metadata"].temperature == 0
        assert torch.equal(found[is_greedy], wanted[is_greedy])
        # What is drawn by a race stands last, where not all was accepted.
        emitted = (wanted != -1).sum(-1)
        is_whole = emitted == torch.tensor(given["num_draft_tokens"]) + 1
        place = torch.arange(wanted.shape[1])
        is_alike = (place < emitted[:, None] - 1) | is_whole[:, None]
        assert torch.equal(found[is_alike], wanted[is_alike])


def test_vllm_without_any_draft_is_the_bonus() -> None:
    none = torch.zeros(0, V)
    found = vllm.rejection_sample_v1(
        torch.zeros(0, dtype=torch.int32),
        [0, 0],
        2,
        torch.zeros(2, dtype=torch.int32),
        none,
        none,
        torch.tensor([[3], [5]]),
        SimpleNamespace(all_greedy=False, temperature=torch.ones(2), generators={}),
    )
    assert found.dtype == torch.int32
    assert found.tolist() == [[3, -1, -1], [5, -1, -1]]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("synthetic_mode", True),
        ("synthetic_conditional_rates", torch.ones(L)),
        ("fly_window_size", 3),
    ],
)
def test_what_loses_the_law_is_refused_by_vllms_name(option: str, value: Any) -> None:
    with pytest.raises(NotOurs, match="would not have the target's law; leave it out"):
        vllm.rejection_sample_v1(**batch_v1(0, has_rows=True), **{option: value})


# --- vLLM's second model runner --------------------------------------------------------------


def batch_v2(seed: int, requests: int, *, has_rows: bool) -> dict[str, Any]:
    """Return arguments of the second `rejection_sample`: all requests have the same rows."""
    generator = seeded(seed)
    steps, states = 2, requests + 3
    target = torch.randn(steps + 1, V, generator=generator)
    draft = torch.randn(steps, V, generator=generator)
    at = torch.randperm(states, generator=generator)[:requests]
    drawn = torch.multinomial(draft.softmax(-1), requests, replacement=True, generator=generator)
    sampled = torch.cat([drawn.new_zeros(1, requests), drawn]).T
    kept = torch.full((states, steps, V), 7.0)
    kept[at] = draft
    row = torch.arange(requests * (steps + 1))
    return {
        "target_logits": target.repeat(requests, 1),
        "draft_logits": kept if has_rows else None,
        "draft_sampled": sampled.reshape(-1).contiguous(),
        "cu_num_logits": torch.arange(requests + 1, dtype=torch.int32) * (steps + 1),
        "pos": row % (steps + 1) + 40,
        "idx_mapping": at.int(),
        "expanded_idx_mapping": at.int().repeat_interleave(steps + 1),
        "expanded_local_pos": (row % (steps + 1)).int(),
        "temperature": torch.ones(states),
        "seed": torch.arange(states) * 7919 + seed,
        "num_speculative_steps": steps,
    }


@pytest.mark.parametrize("is_block", [False, True])
@pytest.mark.parametrize("has_rows", [True, False])
def test_the_second_runner_emits_by_the_same_law(has_rows: bool, is_block: bool) -> None:
    """What it emits is compared in law: both draw by counters, and not by the same.

    Of n requests each, two laws of C outcomes that are equal are sqrt(2 C / n) apart on average,
    and 5 standard deviations of that, of 1 / sqrt(n) each, are met once in a million times.
    """
    released = theirs("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils", VLLM, doubles)
    # The interpreter has no libdevice.
    released.tldevice = noise
    count, laws = 400, []
    for verify, options in (
        (released.rejection_sample, {}),
        (vllm.rejection_sample_v2, {"form": "torch"}),
    ):
        seen = torch.zeros(V * V)
        for seed in range(5):
            given = batch_v2(seed, count, has_rows=has_rows)
            # Interpreted, their kernel subtracts infinities where no token is left.
            with numpy.errstate(invalid="ignore"):
                sampled, emitted = verify(**given, use_block_verification=is_block, **options)
            assert (sampled.shape, sampled.dtype) == ((count, 3), torch.int64)
            assert (emitted.shape, emitted.dtype) == ((count,), torch.int32)
            first, second = sampled[:, 0], sampled[:, 1].where(emitted > 1, V - 1)
            seen += torch.bincount(first * V + second, minlength=V * V)
        laws.append(seen / seen.sum())
    n = 5 * count
    outcomes = int((laws[0] + laws[1] > 0).sum())
    apart = float((laws[0] - laws[1]).abs().sum()) / 2
    assert apart < (2 * outcomes / n) ** 0.5 / 2 + 5 / n**0.5


@pytest.mark.parametrize("form", FORMS)
def test_the_second_runner_depends_on_seeds_alone(form: str) -> None:
    """Requests in another order, among fewer, emit the same."""
    given = batch_v2(3, 12, has_rows=True)
    whole, count = vllm.rejection_sample_v2(**given, form=form)
    for order in ([5, 2, 9], [11], [3, 3]):
        rows = torch.tensor([[3 * each + i for i in range(3)] for each in order]).flatten()
        part = {
            **given,
            "target_logits": given["target_logits"][rows],
            "draft_sampled": given["draft_sampled"][rows],
            "cu_num_logits": torch.arange(len(order) + 1, dtype=torch.int32) * 3,
            "pos": given["pos"][rows],
            "idx_mapping": given["idx_mapping"][order],
            "expanded_idx_mapping": given["expanded_idx_mapping"][rows],
            "expanded_local_pos": given["expanded_local_pos"][rows],
        }
        found, emitted = vllm.rejection_sample_v2(**part, form=form)
        assert torch.equal(found, whole[order])
        assert torch.equal(emitted, count[order])


@pytest.mark.parametrize("form", FORMS)
def test_the_second_runner_takes_the_most_probable_token_where_it_is_cold(form: str) -> None:
    given = batch_v2(3, 12, has_rows=True)
    given["temperature"] = torch.zeros_like(given["temperature"])
    sampled, emitted = vllm.rejection_sample_v2(**given, form=form)
    best = given["target_logits"].argmax(-1).view(12, 3)
    is_emitted = torch.arange(3) < emitted[:, None]
    assert torch.equal(sampled[is_emitted], best[is_emitted])


def test_watermarks_are_refused() -> None:
    given = batch_v2(0, 2, has_rows=True)
    with pytest.raises(NotOurs, match="watermarking is asked for, which draws by a key"):
        vllm.rejection_sample_v2(**given, watermark_key=5)


# --- SGLang ----------------------------------------------------------------------------------


def chains(seed: int) -> dict[str, Any]:
    """Return the inputs of a batch of chains of S - 1 drafted tokens."""
    generator = seeded(seed)
    requests, slots = 5, 1 + int(torch.randint(1, L + 1, (), generator=generator))
    target = (torch.randn(requests, slots, V, generator=generator) * 2).softmax(-1)
    draft = target[:, :-1] * torch.rand(requests, slots - 1, V, generator=generator)
    draft /= draft.sum(-1, keepdim=True)
    tokens = torch.multinomial(draft.flatten(0, 1), 1, generator=generator).view(requests, -1)
    return {
        "candidates": torch.cat([torch.zeros_like(tokens[:, :1]), tokens], 1),
        "retrive_index": torch.arange(requests * slots).view(requests, slots),
        "retrive_next_token": torch.full((requests, slots), -1),
        "retrive_next_sibling": torch.full((requests, slots), -1),
        "uniform_samples": torch.rand(requests, slots, generator=generator),
        "uniform_samples_for_final_sampling": torch.rand(requests, generator=generator),
        "target_probs": target.contiguous(),
        "draft_probs": draft.contiguous(),
    }


def written(verify: Callable[..., None], given: dict[str, Any], **options: Any) -> list[Tensor]:
    """Return the outputs that a function writes into memory that SGLang has prepared."""
    requests, slots = given["candidates"].shape
    predicts = torch.full((requests * slots,), -7, dtype=torch.int32)
    accept_index = torch.full((requests, slots), -1, dtype=torch.int32)
    accept_token_num = torch.zeros(requests, dtype=torch.int32)
    verify(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accept_token_num,
        **given,
        threshold_single=1.0,
        threshold_acc=1.0,
        deterministic=True,
        **options,
    )
    return [predicts, accept_index, accept_token_num]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block_verification", [False, True])
def test_a_chain_is_sglangs_token_for_token(block_verification: bool, form: str) -> None:
    kernels = theirs("sglang.kernels.ops.speculative.reject_sampling", SGLANG)
    differing = 0
    for seed in range(BATCHES // (2 * len(FORMS))):
        options = {"block_verification": block_verification}
        wanted = written(kernels.chain_speculative_sampling_triton, chains(seed), **options)
        found = written(sglang.chain, chains(seed), **options, form=form)
        differing += any(not torch.equal(*pair) for pair in zip(found, wanted, strict=True))
    # Sums of float32 in another order move a mark once in a million draws.
    assert differing == 0


def trees(requests: int) -> dict[str, Any]:
    """Return a tree of two children, the first of which has two, as many tokens of each request."""
    generator = seeded(4)
    target = (torch.randn(5, V, generator=generator) * 1.5).softmax(-1)
    tokens = torch.tensor([0, 3, 7, 1, 4])
    # The root's children are 1 and 2, those of 1 are 3 and 4.
    return {
        "candidates": tokens.expand(requests, -1).contiguous(),
        "retrive_index": torch.arange(requests * 5).view(requests, 5),
        "retrive_next_token": torch.tensor([1, 3, -1, -1, -1]).expand(requests, -1).contiguous(),
        "retrive_next_sibling": torch.tensor([-1, 2, -1, 4, -1]).expand(requests, -1).contiguous(),
        "uniform_samples": torch.rand(requests, 5, generator=generator),
        "uniform_samples_for_final_sampling": torch.rand(requests, generator=generator),
        "target_probs": target.expand(requests, -1, -1).contiguous(),
        "draft_probs": torch.zeros(requests, 5, V),
    }


def test_a_tree_emits_by_the_targets_law() -> None:
    """The first token, and the second behind the child that has children, each within 5 sigma."""
    requests = 20_000
    given = trees(requests)
    predicts, accept_index, kept = written(sglang.tree, given)
    rows = predicts.view(requests, 5)
    target = given["target_probs"][0]
    first = torch.bincount(rows[:, 0], minlength=V) / requests
    assert bool(((first - target[0]).abs() < 5 * (target[0] / requests).sqrt()).all())
    through = rows[rows[:, 0] == 3]
    second = torch.bincount(through[:, 1], minlength=V) / len(through)
    assert bool(((second - target[1]).abs() < 5 * (target[1] / len(through)).sqrt()).all())
    # What is told of nodes is what was followed.
    is_followed = (rows[:, 0] == 3) | (rows[:, 0] == 7)
    assert torch.equal(kept > 0, is_followed)
    assert torch.equal((accept_index >= 0).sum(-1), kept + 1)
    assert not bool(given["draft_probs"].any())


@pytest.mark.parametrize("verify", [sglang.chain, sglang.tree])
def test_thresholds_below_one_are_refused(verify: Callable[..., None]) -> None:
    with pytest.raises(NotOurs, match=r"thresholds are 0.9 and 1.0: below 1 what is emitted would"):
        verify(
            *(torch.zeros(1),) * 3,
            **chains(0),
            threshold_single=0.9,
        )
