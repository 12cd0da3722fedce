"""The engines' signatures, held against their own functions as released, on the same batches.

What enters as coins decides alike, so accepted lengths are equal; a correction that an engine draws
by a race has the same law and another value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from benchmarks import compiled
from click.testing import CliRunner
from torch import Tensor

from draftproof.adapters.engines import noise
from draftproof.adapters.engines.released import Unavailable, imported
from draftproof.adapters.engines.sglang import SGLANG
from draftproof.adapters.engines.vllm import VLLM, doubles
from draftproof.adapters.fast import FORMS
from draftproof.adapters.fast.inputs import InvalidRequest
from draftproof.adapters.fast.shims import NotOurs, adapters, sglang, vllm
from draftproof.adapters.fast.shims.checks import NAMES
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.observe import EXACT, PROBE, observe
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.conformance.run.certify import certify

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


@pytest.mark.parametrize(
    ("module", "release", "doubled", "name", "ours"),
    [
        (
            *("vllm.v1.sample.rejection_sampler", VLLM, doubles),
            *("rejection_sample", vllm.rejection_sample_v1),
        ),
        (
            *("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils", VLLM, doubles),
            *("rejection_sample", vllm.rejection_sample_v2),
        ),
        (
            *("sglang.kernels.ops.speculative.reject_sampling", SGLANG, dict),
            *("chain_speculative_sampling_triton", sglang.chain),
        ),
    ],
)
def test_a_signature_is_the_engines(
    module: str, release: Any, doubled: Callable[[], Any], name: str, ours: Callable[..., Any]
) -> None:
    """Its arguments in their order, with its defaults; ours have some of their own behind them."""
    wanted = inspect.signature(getattr(theirs(module, release, doubled), name)).parameters
    found = inspect.signature(ours).parameters
    positional = [each for each in found.values() if each.kind is not each.KEYWORD_ONLY]
    engines = [each for each in wanted.values() if each.kind is not each.KEYWORD_ONLY]
    assert [each.name for each in positional] == [each.name for each in engines]
    for each in wanted.values():
        if each.default is not each.empty:
            assert found[each.name].default == each.default


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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("verifier", NAMES)
@pytest.mark.parametrize("has_rows", [True, False])
def test_where_all_are_greedy_temperatures_and_chance_are_nothing(
    has_rows: bool, verifier: str, form: str
) -> None:
    """What is emitted is vLLM's, and no generator moves."""
    released = theirs("vllm.v1.sample.rejection_sampler", VLLM, doubles)
    for seed in range(20):
        given = batch_v1(seed, has_rows=has_rows)
        # Some drafted tokens are the target's best.
        best = given["target_logits"].argmax(-1).int()
        given["draft_token_ids"][seed % 3 :: 2] = best[seed % 3 :: 2]
        told = given["sampling_metadata"]
        told.all_greedy, told.all_random, told.temperature = True, False, torch.ones(6)
        before = [torch.get_rng_state(), *(each.get_state() for each in told.generators.values())]
        wanted = released.rejection_sample(**given)
        found = vllm.rejection_sample_v1(**given, name=verifier, form=form)
        assert torch.equal(found, wanted)
        after = [torch.get_rng_state(), *(each.get_state() for each in told.generators.values())]
        assert all(torch.equal(*pair) for pair in zip(after, before, strict=True))
        told.temperature = None
        assert torch.equal(vllm.rejection_sample_v1(**given, name=verifier, form=form), wanted)


@pytest.mark.parametrize("form", FORMS)
def test_vllm_refuses_what_its_draft_cannot_have_said_and_we_keep_it(form: str) -> None:
    """The documented difference, of drafters that are broken."""
    released = theirs("vllm.v1.sample.rejection_sampler", VLLM, doubles)
    given: dict[str, Any] = {
        "draft_token_ids": torch.tensor([1], dtype=torch.int32),
        "num_draft_tokens": [1],
        "max_spec_len": 1,
        "cu_num_draft_tokens": torch.tensor([1], dtype=torch.int32),
        "draft_probs": torch.tensor([[1.0, 0.0]]),
        "target_logits": torch.zeros(1, 2),
        "bonus_token_ids": torch.tensor([[0]], dtype=torch.int32),
        "sampling_metadata": SimpleNamespace(
            all_greedy=False, all_random=True, temperature=torch.ones(1), generators={}
        ),
    }
    assert released.rejection_sample(**given).tolist() == [[1, -1]]
    assert vllm.rejection_sample_v1(**given, form=form).tolist() == [[1, 0]]


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
        ("fly_window_size", 0),
        ("fly_entropy_threshold", 0.3),
    ],
)
def test_what_loses_the_law_is_refused_by_vllms_name(option: str, value: Any) -> None:
    """With what was given, why it is refused, and what would be right."""
    told = re.escape("a tensor [4]" if isinstance(value, Tensor) else repr(value))
    why = "tokens are accepted at a rate" if option.startswith("synthetic") else "FLy keeps tokens"
    pattern = f"^{option} is {told}: {why}.* not have the target's law; .*'standard' or 'block'"
    with pytest.raises(NotOurs, match=pattern):
        vllm.rejection_sample_v1(**batch_v1(0, has_rows=True), **{option: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "greedy_block"}, "name must be one of token, block, got 'greedy_block'"),
        ({"form": "cuda"}, "form must be one of torch, triton, got 'cuda'"),
        ({"draft_token_ids": torch.zeros(10)}, "draft_token_ids must be integers [n] on cpu, got"),
        ({"num_draft_tokens": [1, 0, 0, 0, 0, 0]}, "num_draft_tokens must be 17 together, as"),
        ({"max_spec_len": 1}, "and at most max_spec_len = 1 each, got [0, 4, 4, 3, 3, 3]"),
        ({"cu_num_draft_tokens": torch.zeros(5).int()}, "must be integers [6] on cpu, got torch."),
        ({"target_logits": torch.zeros(16, V)}, "target_logits must be reals [17, V] on cpu, got"),
        ({"draft_probs": torch.zeros(10)}, "draft_probs must be reals [17, 11] on cpu, got torch."),
        ({"draft_probs": torch.zeros(17, V - 1)}, "[17, 11] on cpu, got torch.float32 [17, 10]"),
        ({"draft_probs": torch.zeros(17, V + 1)}, "[17, 11] on cpu, got torch.float32 [17, 12]"),
        ({"target_logits": torch.zeros(17, 0)}, "target_logits must have at least 1 token, got ["),
        ({"draft_token_ids": torch.zeros(17).bool()}, "integers [n] on cpu, got torch.bool [17]"),
        (
            {"draft_token_ids": torch.zeros(17, dtype=torch.cfloat)},
            "integers [n] on cpu, got torch.complex64",
        ),
        ({"draft_probs": torch.zeros(17, V, device="meta")}, "[17, 11] on meta"),
        ({"bonus_token_ids": torch.zeros(6).int()}, "bonus_token_ids must be integers [6, 1] on"),
        (
            {"sampling_metadata": SimpleNamespace(all_greedy=False, temperature=torch.ones(5))},
            "temperature must be reals [6] on cpu, got torch.float32 [5] on cpu",
        ),
        (
            {"sampling_metadata": SimpleNamespace(all_greedy=False, temperature=None)},
            "temperature is None: then all_greedy must be True, and is False",
        ),
    ],
)
def test_what_does_not_fit_vllms_signature_is_told(changes: dict[str, Any], message: str) -> None:
    given = {**batch_v1(1, has_rows=True), **changes}
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        vllm.rejection_sample_v1(**given)


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
def test_the_second_runner_emits_what_vllms_does_where_no_chance_is(
    has_rows: bool, is_block: bool
) -> None:
    """Requests of temperature 0 emit the same; the shapes and dtypes of all are the same.

    What is drawn is drawn by other counters: its law is judged by the lanes, ours below and vLLM's
    own in the matrix of engines.
    """
    released = theirs("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils", VLLM, doubles)
    # The interpreter has no libdevice.
    released.tldevice = noise
    given = batch_v2(5, 12, has_rows=has_rows)
    given["draft_sampled"][4::6] = given["target_logits"][0].argmax()
    given["temperature"][given["idx_mapping"][:8].long()] = 0
    options: dict[str, Any] = {"use_block_verification": is_block}
    # Interpreted, their kernel subtracts infinities where no token is left.
    with numpy.errstate(invalid="ignore"):
        wanted, count = released.rejection_sample(**given, **options)
    assert len({*count[:8].tolist()}) > 1
    for form in FORMS:
        found, number = vllm.rejection_sample_v2(**given, **options, form=form)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        assert (number.shape, number.dtype) == (count.shape, count.dtype)
        assert torch.equal(number[:8], count[:8])
        is_emitted = torch.arange(3) < count[:8, None]
        assert torch.equal(found[:8][is_emitted], wanted[:8][is_emitted])
        assert torch.equal((found != -1).sum(1), number)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("more", [-3, 3])
def test_the_second_runner_cuts_both_vocabularies_to_the_smaller(more: int, form: str) -> None:
    """As vLLM does: what the target alone has is never emitted, were it the most probable."""
    released = theirs("vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils", VLLM, doubles)
    released.tldevice = noise
    given = batch_v2(5, 12, has_rows=True)
    rows = given["draft_logits"]
    given["draft_logits"] = torch.cat([rows, rows], -1)[..., : V + more].contiguous()
    given["target_logits"][:, -1] = 9
    given["draft_sampled"] %= V + min(more, 0)
    given["temperature"] = torch.zeros_like(given["temperature"])
    with numpy.errstate(invalid="ignore"):
        wanted, count = released.rejection_sample(**given)
    found, number = vllm.rejection_sample_v2(**given, form=form)
    assert torch.equal(number, count)
    is_emitted = torch.arange(3) < count[:, None]
    assert torch.equal(found[is_emitted], wanted[is_emitted])
    assert bool((found < V + min(more, 0)).all())


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


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("synthetic_conditional_rates", torch.ones(2), "tokens are accepted at a rate"),
        ("fly_window_size", 2, "FLy keeps tokens that the target refuses"),
        ("contexts", torch.zeros(6, 2).int(), "a watermark draws the next token by a key"),
        ("watermarking", torch.ones(5).bool(), "a watermark draws the next token by a key"),
        ("watermarking_skip_mask", torch.ones(6).bool(), "a watermark draws the next token by"),
        ("watermark_key", 5, "a watermark draws the next token by a key"),
    ],
)
def test_the_second_runner_refuses_what_loses_the_law(option: str, value: Any, why: str) -> None:
    given = batch_v2(0, 2, has_rows=True)
    with pytest.raises(NotOurs, match=f"^{option} is .*: {why}.* not have the target's law; call"):
        vllm.rejection_sample_v2(**given, **{option: value})


def test_flys_other_options_alone_are_none() -> None:
    """vLLM always passes them."""
    given = batch_v2(0, 2, has_rows=True)
    told: dict[str, Any] = {
        "fly_window_size": 0,
        "fly_entropy_threshold": 0.7,
        "fly_entropy_top_k": 5,
    }
    found, plain = (vllm.rejection_sample_v2(**given, **each) for each in (told, {}))
    assert all(torch.equal(*pair) for pair in zip(found, plain, strict=True))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_logits": torch.zeros(6)}, "target_logits must be reals [6, V] on cpu, got"),
        ({"draft_logits": torch.zeros(6, V)}, "draft_logits must be reals [R, 2 or more, V] on"),
        ({"draft_logits": torch.zeros(5, 1, V)}, "got torch.float32 [5, 1, 11] on cpu"),
        ({"draft_sampled": torch.zeros(6)}, "draft_sampled must be integers [N] on cpu, got"),
        ({"pos": torch.zeros(5).long()}, "pos must be integers [6] on cpu, got torch.int64 [5]"),
        ({"idx_mapping": torch.zeros(3).int()}, "idx_mapping must be integers [2] on cpu, got"),
        ({"expanded_idx_mapping": torch.zeros(5).int()}, "expanded_idx_mapping must be integers"),
        ({"expanded_local_pos": torch.zeros(6)}, "expanded_local_pos must be integers [6] on cpu"),
        ({"temperature": torch.ones(5).int()}, "temperature must be reals [R] on cpu, got"),
        ({"seed": torch.zeros(5)}, "seed must be integers [R] on cpu, got torch.float32 [5]"),
        ({"seed": torch.zeros(5).bool()}, "seed must be integers [R] on cpu, got torch.bool [5]"),
        ({"target_logits": torch.zeros(6, 0)}, "target_logits must have at least 1 token, got [6"),
        ({"draft_logits": torch.zeros(5, 2, 0)}, "draft_logits must have at least 1 token, got [5"),
        ({"noise": torch.zeros(2, 2)}, "noise must be reals [2, 3] on cpu, got torch.float32"),
        ({"form": "cuda"}, "form must be one of torch, triton, got 'cuda'"),
    ],
)
def test_what_does_not_fit_the_second_signature_is_told(
    changes: dict[str, Any], message: str
) -> None:
    given = {**batch_v2(0, 2, has_rows=True), **changes}
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        vllm.rejection_sample_v2(**given)


def test_compacted_rows_are_taken_with_longer_maps() -> None:
    given = batch_v2(3, 4, has_rows=True)
    plain = vllm.rejection_sample_v2(**given, form="torch")
    for name in ("expanded_idx_mapping", "expanded_local_pos"):
        given[name] = torch.cat([given[name], given[name]])
    found = vllm.rejection_sample_v2(**given, form="torch")
    assert all(torch.equal(*pair) for pair in zip(found, plain, strict=True))


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
    """Return a tree of two children, the first of which has two; it is that of all requests."""
    generator = seeded(4)
    target = (torch.randn(5, V, generator=generator) * 1.5).softmax(-1)
    tokens = torch.tensor([9, 0, 7, 1, 4])
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
    through = rows[rows[:, 0] == 0]
    second = torch.bincount(through[:, 1], minlength=V) / len(through)
    assert bool(((second - target[1]).abs() < 5 * (target[1] / len(through)).sqrt()).all())
    # What is told of nodes is what was followed.
    is_followed = (rows[:, 0] == 0) | (rows[:, 0] == 7)
    assert torch.equal(kept > 0, is_followed)
    assert torch.equal((accept_index >= 0).sum(-1), kept + 1)
    assert not bool(given["draft_probs"].any())


def test_a_token_that_is_twice_among_siblings_has_the_targets_law() -> None:
    requests = 20_000
    given = trees(requests)
    given["candidates"] = torch.tensor([9, 7, 7, 1, 1]).repeat(requests, 1)
    predicts, _, _ = written(sglang.tree, given)
    first = torch.bincount(predicts.view(requests, 5)[:, 0], minlength=V) / requests
    target = given["target_probs"][0, 0]
    assert bool(((first - target).abs() < 5 * (target / requests).sqrt()).all())


@pytest.mark.parametrize("form", FORMS)
def test_a_chain_without_a_draft_says_the_next_token(form: str) -> None:
    given = {name: each[:, :1] for name, each in chains(0).items() if each.dim() > 1}
    given["uniform_samples_for_final_sampling"] = torch.full((5,), 0.5)
    given["retrive_index"] = torch.arange(5)[:, None]
    predicts, accept_index, kept = written(sglang.chain, given, form=form)
    rows = given["target_probs"][:, 0]
    assert torch.equal(predicts.long(), (rows.cumsum(-1) <= 0.5).sum(-1))
    assert torch.equal(accept_index[:, 0].long(), torch.arange(5))
    assert not bool(kept.any())


def test_a_tree_without_a_draft_says_the_next_token() -> None:
    """Of one slot, and of more where there is room for that of the last token alone."""
    given = trees(7)
    given["uniform_samples_for_final_sampling"] = torch.arange(7) / 7
    rows = given["target_probs"][:, 0]
    marks = given["uniform_samples_for_final_sampling"][:, None]
    wanted = (rows.cumsum(-1) <= marks).sum(-1)
    for slots in (1, 5):
        less = {
            name: each[:, :slots].clone() if each.dim() > 1 else each
            for name, each in given.items()
        }
        less["retrive_index"] = torch.arange(7 * slots).view(7, slots)
        if slots == 1:
            less["retrive_next_token"][:] = -1
        predicts, kept = torch.full((7 * slots,), -7).int(), torch.ones(7).int()
        accept_index = torch.full((7, 1), -1).int()
        sglang.tree(predicts, accept_index, kept, **less)
        assert torch.equal(predicts.view(7, slots)[:, 0].long(), wanted)
        assert torch.equal(accept_index[:, 0].long(), torch.arange(7) * slots)
        assert not bool(kept.any())


@pytest.mark.parametrize("none", [V, V + 2, 2**31 - 1, -2, -7])
def test_a_tree_does_not_follow_what_is_no_token(none: int) -> None:
    """Its siblings are looked at as if it were not there."""
    given, without = trees(500), trees(500)
    given["candidates"][:, [1, 3]] = none
    # The root has the child 2 alone, which has none.
    without["retrive_next_token"][:] = torch.tensor([2, -1, -1, -1, -1])
    found, wanted = written(sglang.tree, given), written(sglang.tree, without)
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))
    assert len({*wanted[2].tolist()}) == 2


@pytest.mark.parametrize("tree_of", ["retrive_next_token", "retrive_next_sibling"])
def test_a_tree_does_not_follow_what_is_no_node(tree_of: str) -> None:
    given, without = trees(500), trees(500)
    given[tree_of][given[tree_of] == -1] = 5
    found, wanted = written(sglang.tree, given), written(sglang.tree, without)
    assert all(torch.equal(*pair) for pair in zip(found, wanted, strict=True))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("block_verification", [False, True])
def test_sglang_refuses_what_its_draft_cannot_have_said_and_we_keep_it(
    block_verification: bool, form: str
) -> None:
    """The documented difference, of drafters that are broken."""
    kernels = theirs("sglang.kernels.ops.speculative.reject_sampling", SGLANG)
    given = {
        "candidates": torch.tensor([[0, 1]]),
        "retrive_index": torch.tensor([[0, 1]]),
        "retrive_next_token": torch.full((1, 2), -1),
        "retrive_next_sibling": torch.full((1, 2), -1),
        "uniform_samples": torch.full((1, 2), 0.25),
        "uniform_samples_for_final_sampling": torch.full((1,), 0.25),
        "target_probs": torch.full((1, 2, 2), 0.5),
        "draft_probs": torch.tensor([[[1.0, 0.0]]]),
    }
    options = {"block_verification": block_verification}
    # Interpreted, their kernel divides by the 0 that it then refuses.
    with numpy.errstate(divide="ignore"):
        wanted = written(kernels.chain_speculative_sampling_triton, given, **options)
    found = written(sglang.chain, given, **options, form=form)
    assert (wanted[2].tolist(), found[2].tolist()) == ([0], [1])


@pytest.mark.parametrize("verify", [sglang.chain, sglang.tree])
@pytest.mark.parametrize(
    ("name", "value"),
    [("threshold_single", 0.9), ("threshold_acc", 0.5), ("threshold_acc", 2.0)],
)
def test_thresholds_other_than_one_are_refused(
    name: str, value: float, verify: Callable[..., None]
) -> None:
    pattern = f"^{name} is {value}: .* not have the target's law; leave both thresholds at 1"
    with pytest.raises(NotOurs, match=pattern):
        verify(*(torch.zeros(1),) * 3, **chains(0), **{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"candidates": torch.zeros(5)}, "candidates must be integers [B, S] on cpu, got"),
        ({"retrive_index": torch.zeros(5, 9).int()}, "retrive_index must be integers [5, 5] on"),
        ({"uniform_samples": torch.zeros(5)}, "uniform_samples must be reals [5, "),
        ({"uniform_samples": torch.zeros(5, 3)}, "uniform_samples must be reals [5, "),
        ({"uniform_samples_for_final_sampling": torch.zeros(6)}, "sampling must be reals [5] on"),
        ({"target_probs": torch.zeros(25, V)}, "target_probs must be reals [5, 5, V] on cpu, got"),
        ({"target_probs": torch.zeros(5, 5, V, device="meta")}, "on cpu, got torch.float32 [5, "),
        ({"target_probs": torch.zeros(5, 5, 0)}, "target_probs must have at least 1 token, got ["),
        ({"target_probs": None}, "target_probs must be reals [5, 5, V] on cpu, got None"),
        ({"candidates": torch.zeros(5, 0).int()}, "candidates must have at least 1 slot, got [5, "),
        ({"candidates": torch.zeros(5, 5).bool()}, "integers [B, S] on cpu, got torch.bool [5, 5]"),
        ({"predicts": torch.zeros(24).int()}, "predicts must be integers [25 or more] on cpu, got"),
        ({"predicts": torch.zeros(25).bool()}, "[25 or more] on cpu, got torch.bool [25] on cpu"),
    ],
)
@pytest.mark.parametrize("verify", [sglang.chain, sglang.tree])
def test_what_does_not_fit_sglangs_signature_is_told(
    verify: Callable[..., None], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        sized(verify, {**chains(FIVE_SLOTS), **changes})


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (torch.zeros(5, 3, V), "torch.float32 [5, 3, 11]"),
        (torch.zeros(5, 4, V - 1), "torch.float32 [5, 4, 10]"),
        (torch.zeros(5, 4, V + 1), "torch.float32 [5, 4, 12]"),
        (None, "None"),
    ],
)
def test_rows_of_a_draft_that_do_not_fit_are_told(rows: Tensor | None, told: str) -> None:
    message = f"draft_probs must be reals [5, 4 or more, 11] on cpu, got {told}"
    with pytest.raises(InvalidRequest, match=re.escape(message)):
        sized(sglang.chain, {**chains(FIVE_SLOTS), "draft_probs": rows})


def test_a_tree_needs_room_for_the_last_token() -> None:
    none = torch.zeros(5, 0).int()
    with pytest.raises(InvalidRequest, match="accept_index must have at least 1 slot, got"):
        sized(sglang.tree, {**chains(FIVE_SLOTS), "accept_index": none})


@pytest.mark.parametrize("verify", [sglang.chain, sglang.tree])
def test_more_room_than_is_needed_is_left_as_it_is(verify: Callable[..., None]) -> None:
    predicts = torch.full((30,), -7).int()
    sized(verify, {**chains(FIVE_SLOTS), "predicts": predicts})
    assert predicts[25:].tolist() == [-7] * 5


FIVE_SLOTS = next(seed for seed in range(99) if chains(seed)["candidates"].shape[1] == 5)


def sized(verify: Callable[..., None], given: dict[str, Any]) -> None:
    """Ask for five requests of five slots."""
    room = {
        "predicts": torch.zeros(25).int(),
        "accept_index": torch.zeros(5, 5).int(),
        "accept_token_num": torch.zeros(5).int(),
    }
    verify(**{**room, **given})


# --- Judged as any adapter -------------------------------------------------------------------

COMPUTED = [name for name in adapters.NAMES if not name.endswith("counted")]
ONE_BY_ONE = "triton_vllm_v1_token", "triton_vllm_v1_block"
"""Which draw for each request by itself, so that a lane asks for one at a time, for minutes."""
COUNTED = [name for name in adapters.NAMES if name.endswith("counted")]


def judged(adapter: adapters.Shim, case: str, lane: str) -> dict[str, str]:
    (found,) = (each for each in cases("quick") if each.id == case)
    return {
        finding.requirement: finding.verdict
        for finding in judge(observe(program_of(adapter), found, lane=lane))
    }


def case_of(name: str) -> str:
    if name.endswith("tree"):
        return "tree.without_replacement.v3.b1x2"
    return "generic.v2.l2"


@pytest.mark.requirement("law.lossless", "law.reference", "law.support", "law.prefix")
@pytest.mark.parametrize("name", [name for name in COMPUTED if name not in ONE_BY_ONE])
def test_a_shim_has_the_law_of_its_algorithm(name: str) -> None:
    lane = EXACT if name.startswith("torch") else PROBE
    found = judged(getattr(adapters, name), case_of(name), lane)
    assert {*found.values()} <= {PASS, SKIPPED}
    assert found["law.lossless"] == found["law.reference"] == PASS


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize("verifier", NAMES)
def test_both_forms_of_the_first_runner_emit_the_same(verifier: str) -> None:
    differing = 0
    for seed in range(100):
        found = []
        for form in FORMS:
            torch.manual_seed(seed)
            given = batch_v1(seed, has_rows=seed % 2 > 0)
            found.append(vllm.rejection_sample_v1(**given, name=verifier, form=form))
        differing += int((found[0] != found[1]).any())
    # Sums of float32 in another order move a mark once in a million draws.
    assert differing == 0


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize("name", COUNTED)
def test_a_shim_that_counts_has_the_law_as_far_as_draws_show(name: str) -> None:
    """A false alarm has probability 1e-9."""
    report = certify(
        getattr(adapters, name),
        mode="quick",
        seed=1,
        cases=["generic.v2.l2"],
        only=["law.lossless", "law.reference"],
        lanes=["sample"],
    )
    found = {each.requirement.id: each.verdict for each in report.decisions}
    assert (found["law.lossless"], found["law.reference"]) == (PASS, PASS)


def swapped(name: str) -> adapters.Shim:
    """Return a shim that takes rows of other positions: the draft's, or the target's of a tree."""
    adapter = getattr(adapters, name)
    verify = adapter._verify

    def other(*given: Any, **named: Any) -> Any:
        if "v1" in name:
            given = (*given[:4], given[4].flip(0), *given[5:])
        elif "v2" in name:
            named["draft_logits"] = named["draft_logits"].flip(1)
        elif "chain" in name:
            named["draft_probs"] = named["draft_probs"].flip(1)
        else:
            named["target_probs"] = named["target_probs"].flip(1)
        return verify(*given, **named)

    adapter._verify = other
    return adapter  # type: ignore[no-any-return]  # it is made by its name


@pytest.mark.requirement("law.lossless")
@pytest.mark.parametrize("name", [name for name in COMPUTED if name.startswith("torch")])
def test_a_shim_that_swaps_rows_is_refused(name: str) -> None:
    assert judged(swapped(name), case_of(name), EXACT)["law.lossless"] == FAIL


@pytest.mark.parametrize("name", adapters.NAMES)
def test_a_shim_declares_the_files_that_it_is_made_of(name: str) -> None:
    found = {file.name for file in getattr(adapters, name).files}
    engine = "vllm.py" if "vllm" in name else "sglang.py"
    assert {engine, "adapters.py", "checks.py", "engine.py", "layout.py"} <= found
    assert ("pipeline.py" in found) == name.startswith("triton")


def test_no_shim_is_called_otherwise() -> None:
    with pytest.raises(AttributeError, match="there is no shim 'torch_vllm_v3'; there are torch_"):
        getattr(adapters, "torch_vllm_v3")  # noqa: B009  # the module makes its attributes


# --- Compiled for a GPU ----------------------------------------------------------------------


def test_kernels_that_are_interpreted_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "IS_INTERPRETED", True)
    found = CliRunner().invoke(compiled.main, ["token"])
    assert found.exit_code == 2
    assert "kernels are compiled here, and TRITON_INTERPRET has them interpreted" in found.output
