"""The engine's form: flat tensors against the adapter protocol, on the same noise.

Run as a program, this file prints where kernels and operators differ; it is run so in a process of
its own, for Triton interprets always or never.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import FORMS, TEXTS, FastVerifier, engine
from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.drafting import draft
from draftproof.adapters.fast.engine import Verified, verify
from draftproof.adapters.fast.inputs import InvalidRequest, from_flat
from draftproof.adapters.fast.operator import TENSORS
from draftproof.adapters.fast.sampling import Sampling, declared
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import DraftRequest, Request, Result, program_of
from draftproof.conformance.requirements.finding import PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge

LENGTHS = (3, 0, 1, 2, 3, 2, 0, 3)
VOCABULARY = 5


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def next_probs(contexts: Tensor, model: int = 3) -> Tensor:
    """Return rows that differ in every context, and for every model."""
    each = (contexts + 1.0).cumsum(1).sum(1)[:, None] + torch.arange(VOCABULARY)
    return torch.softmax(torch.sin(model * (each + 1)), -1)


def request(name: str, lengths: tuple[int, ...] = LENGTHS, **changes: Any) -> Request:
    """Return drafts of a verifier's scheme and of these lengths, padded to 3 tokens."""
    text = TEXTS[name]
    drafts = min(2, text.most_drafts)
    asked = DraftRequest(next_probs, len(lengths), drafts, 3, VOCABULARY, generator=seeded(1))
    drafted = draft(asked, scheme=text.scheme)
    tokens = drafted.draft_tokens
    contexts = torch.cat([tokens, torch.zeros_like(tokens[..., :1])], -1).flatten(0, 1)
    target = [next_probs(contexts[:, :depth], 2) for depth in range(4)]
    inside = torch.arange(4) <= torch.tensor(lengths)[:, None, None]
    made = Request(
        draft_tokens=tokens.where(inside[..., 1:], -1),
        draft_probs=drafted.draft_probs.where(inside[..., 1:, None], torch.nan),
        target_probs=torch.stack(target, 1).view(*tokens.shape[:2], 4, -1),
        lengths=torch.tensor(lengths),
        generator=seeded(2),
    )
    return replace(made, **changes)


def flat(given: Request, **changes: Any) -> dict[str, Any]:
    """Return the request as an engine has it."""
    count, _, longest = given.draft_tokens.shape
    lengths = [longest] * count if given.lengths is None else given.lengths.tolist()

    def each(rows: Tensor, more: int) -> Tensor:
        """Return what is given of the positions [B, K, D, ...] of all requests, [n, K, ...]."""
        return torch.cat(
            [row[:, : n + more].movedim(0, 1) for row, n in zip(rows, lengths, strict=True)]
        )

    called = {
        "draft_token_ids": each(given.draft_tokens, 0),
        "cu_num_draft_tokens": torch.tensor(lengths).cumsum(0),
        "max_spec_len": longest,
        "draft_probs": each(given.draft_probs, 0),
        "target_probs": each(given.target_probs, 1),
        "generators": given.generator,
        "branching": given.branching,
        "state": given.state,
    }
    return {**called, **changes}


def emitted(given: Request, result: Result) -> list[list[int]]:
    """Return the tokens that each row emits."""
    return [
        [*tokens[path][:accepted], last]
        for tokens, path, accepted, last in zip(
            given.draft_tokens.tolist(),
            result.path.tolist(),
            result.accepted_length.tolist(),
            result.next_token.tolist(),
            strict=True,
        )
    ]


def read(verified: Verified) -> list[list[int]]:
    """Return the tokens that each request emits, as an engine reads them."""
    return [[token for token in row if token >= 0] for row in verified.token_ids.tolist()]


# --- the law ---------------------------------------------------------------------------------


@pytest.mark.requirement("law.lossless")
def test_a_bonus_from_the_row_before_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in the engine's call fails: that is what is judged."""
    case = next(case for case in cases("quick") if case.id == "generic.v3.l2")

    def verdicts() -> set[str]:
        return {
            finding.verdict for finding in judge(observe(program_of(FastVerifier("token")), case))
        }

    assert verdicts() <= {PASS, SKIPPED}

    def off_by_one(*args: Any, **options: Any) -> Batch:
        batch = from_flat(*args, **options)
        at = batch.p.at.clone()
        at[..., 1:] = batch.p.at[..., :-1]
        return replace(batch, p=replace(batch.p, at=at))

    monkeypatch.setattr(engine, "from_flat", off_by_one)
    assert "fail" in verdicts()


# --- the same as the protocol ----------------------------------------------------------------


@pytest.mark.parametrize("name", TEXTS)
def test_flat_and_padded_requests_emit_the_same(name: str) -> None:
    verifier, given = FastVerifier(name), request(name)
    result = verifier.verify(given)
    called = verify(name, **flat(given, generators=seeded(2)))
    assert read(called) == emitted(given, result)
    assert torch.equal(called.accepted, result.accepted_length)
    assert called.token_ids.shape == (len(LENGTHS), 4)
    assert called.token_ids.dtype == torch.int32
    assert (called.state is None) == (result.state is None)


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if not text.waits])
def test_the_whole_call_is_compiled_without_a_break(name: str) -> None:
    many = LENGTHS * 8
    called = flat(request(name, many, generator=None), target_probs=None)
    called["target_logits"] = flat(request(name, many))["target_probs"].log()
    called["temperature"] = torch.linspace(0.5, 2, len(many))
    called["top_k"] = torch.full((len(many),), 3)

    def again(verify: Callable[..., Verified]) -> Verified:
        torch.manual_seed(7)
        return verify(name, **called)

    torch.compiler.reset()  # one function is compiled eight times at most
    compiled = torch.compile(verify, backend="eager", fullgraph=True)
    one, other = again(compiled), again(verify)
    assert torch.equal(one.token_ids, other.token_ids)
    assert torch.equal(one.path, other.path)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", ["block", "greedy_block", "traversal"])
def test_a_call_of_kernels_is_compiled_without_a_break(name: str, backend: str) -> None:
    called = flat(request(name, LENGTHS, generator=None), form="triton", target_probs=None)
    called["target_logits"] = flat(request(name))["target_probs"].log()
    called["temperature"] = torch.linspace(0.5, 2, len(LENGTHS))
    width = TEXTS[name].noise(min(2, TEXTS[name].most_drafts), 3)
    called["noise"] = torch.rand(len(LENGTHS), width, generator=seeded(3))
    torch.compiler.reset()
    compiled = torch.compile(verify, backend=backend, fullgraph=True)
    one, other = compiled(name, **called), verify(name, **called)
    for field in ("token_ids", "accepted", "path", "num_sampled"):
        assert torch.equal(getattr(one, field), getattr(other, field))
    assert (one.state is None) == (other.state is None)
    for key, left in (other.state or {}).items():
        assert torch.equal((one.state or {})[key], left)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("noise", ["noise", "default"])
def test_batches_of_all_sizes_are_compiled(noise: str, form: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(verify, backend="eager", fullgraph=True)
    for count in (1, 2, 3):
        lengths = LENGTHS[:4] * count
        given = flat(request("block", lengths, generator=None), form=form)
        if noise == "noise":
            given["noise"] = torch.rand(len(lengths), 4, generator=seeded(6))
        torch.manual_seed(5)
        one = compiled("block", **given)
        torch.manual_seed(5)
        assert torch.equal(one.token_ids, verify("block", **given).token_ids)


def test_an_operator_with_a_state_is_as_torch_wants_operators() -> None:
    many = LENGTHS * 3
    called = flat(request("greedy_block", many), form="triton")
    state = verify("greedy_block", **called).state
    assert state is not None
    noise = torch.rand(len(many), TEXTS["greedy_block"].noise(1, 3), generator=seeded(5))
    given = {"target_probs", "draft_probs"} & {*called}
    tensors = [
        noise if key == "noise" else called[key] if key in given else None for key in TENSORS
    ]
    shape = called["draft_token_ids"], called["cu_num_draft_tokens"], 3
    operator = torch.ops.draftproof.verify.default
    torch.library.opcheck(
        operator, ("greedy_block", *shape, tensors, None, [*state.values()], True)
    )


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize("name", ["greedy_block", "recursive_greedy_block"])
def test_a_state_is_handed_on(name: str) -> None:
    many = LENGTHS * 32
    result = FastVerifier(name).verify(request(name, many))
    called = verify(name, **flat(request(name, many)))
    assert result.state is not None
    assert called.state is not None
    for key, left in result.state.items():
        assert torch.equal(called.state[key], left)
    again = request(name, many, state=result.state, generator=seeded(3))
    wanted = emitted(again, FastVerifier(name).verify(again))
    assert read(verify(name, **flat(again, generators=seeded(3)))) == wanted
    assert read(verify(name, **flat(again, generators=seeded(3), state=None))) != wanted


def test_what_is_emitted_is_followed_by_minus_one() -> None:
    called = verify("token", **flat(request("token")))
    ids, accepted = called.token_ids, called.accepted
    behind = torch.arange(4) > accepted[:, None]
    assert (ids[behind] == -1).all()
    assert (ids[~behind] >= 0).all()
    assert (accepted <= torch.tensor(LENGTHS)).all()


def test_minus_one_ends_a_draft() -> None:
    given = request("token", (3, 3))
    cut = request("token", (1, 0))
    tokens = given.draft_tokens.clone()
    tokens[0, 0, 1], tokens[1, 0, 0] = -1, -1
    called = verify("token", **flat(replace(given, draft_tokens=tokens)))
    assert read(called) == read(verify("token", **flat(cut)))


def test_what_is_longer_than_the_engine_drafts_does_not_count() -> None:
    long, short = request("token", (3, 2)), request("token", (1, 1))
    called, cut = (
        verify("token", **flat(each, max_spec_len=1, generators=seeded(5)))
        for each in (long, short)
    )
    assert read(called) == read(cut)
    assert called.token_ids.shape == (2, 2)


@pytest.mark.requirement("batch.ragged")
@pytest.mark.parametrize("name", ["token", "block"])
def test_requests_without_drafts_emit_a_token_of_the_target(name: str) -> None:
    given = request(name, (0, 0, 0))
    called = flat(given, generators=[seeded(row) for row in range(3)])
    alone = verify(name, **called)
    assert alone.accepted.tolist() == [0, 0, 0]
    padded = request(name, (0, 0, 0, 3), generator=None)
    beside = verify(name, **flat(padded, generators=[*map(seeded, range(3)), None]))
    assert read(alone) == read(beside)[:3]
    certain = verify(
        name, **{**called, "draft_probs": None, "generators": [seeded(row) for row in range(3)]}
    )
    assert read(certain) == read(alone)


def test_an_empty_batch_is_an_empty_result() -> None:
    called = verify(
        "token",
        draft_token_ids=torch.zeros(0, dtype=torch.int32),
        cu_num_draft_tokens=torch.zeros(0, dtype=torch.int32),
        max_spec_len=3,
        target_logits=torch.zeros(0, VOCABULARY),
    )
    assert called.token_ids.shape == (0, 4)


# --- drafts without rows ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["token", "block"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_draft_without_rows_is_certain(name: str, dtype: torch.dtype) -> None:
    given = request(name)
    called = flat(given, target_probs=flat(given)["target_probs"].to(dtype))
    tokens = called["draft_token_ids"]
    sure = torch.nn.functional.one_hot(tokens, VOCABULARY).to(dtype)
    told = verify(name, **{**called, "draft_probs": sure})
    untold = verify(name, **{**called, "draft_probs": None, "generators": seeded(2)})
    assert torch.equal(told.token_ids, untold.token_ids)


# --- sampling parameters ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [
        (None, None, None),
        ([0.0, 0.5, 1.0, 2.0] * 2, None, None),
        (None, [1, 2, 3, 0] * 2, None),
        (None, None, [0.3, 0.6, 0.9, 1.0] * 2),
        ([0.0, 0.5, 1.0, 2.0] * 2, [0, 0, 3, 2] * 2, [0.5, 0.6, 0.9, 0.7] * 2),
    ],
)
@pytest.mark.parametrize("name", ["token", "block", "recursive_rejection"])
def test_logits_are_processed_as_their_parameters_say(
    name: str, temperature: Any, top_k: Any, top_p: Any
) -> None:
    given = request(name)
    called = flat(given)
    parameters = Sampling(
        *(None if each is None else torch.tensor(each) for each in (temperature, top_k, top_p))
    )
    logits = {
        side: called[f"{side}_probs"].double().log().float() + 3 for side in ("draft", "target")
    }
    before = {side: rows.clone() for side, rows in logits.items()}
    by_hand = {}
    for side, more in (("draft", 0), ("target", 1)):
        rows = [row for row, n in enumerate(LENGTHS) for _ in range(n + more)]
        own = [declared(each, parameters.of(torch.tensor(rows))) for each in logits[side].unbind(1)]
        by_hand[f"{side}_probs"] = torch.stack(own, 1)
    told = verify(name, **{**called, **by_hand})
    processed = verify(
        name,
        **{
            **called,
            **{f"{side}_probs": None for side in logits},
            **{f"{side}_logits": rows for side, rows in logits.items()},
            "temperature": parameters.temperature,
            "top_k": parameters.top_k,
            "top_p": parameters.top_p,
            "generators": seeded(2),
        },
    )
    assert torch.equal(told.token_ids, processed.token_ids)
    assert all(torch.equal(rows, before[side]) for side, rows in logits.items())


# --- generators ------------------------------------------------------------------------------


@pytest.mark.requirement("batch.invariant", "batch.order", "random.generator")
@pytest.mark.parametrize("name", TEXTS)
def test_a_request_with_its_own_generator_does_not_see_the_others(name: str) -> None:
    """Alone, and among others in another order: same seed, same tokens."""
    given = request(name)
    own: dict[str, Any] = {"generators": [seeded(row) for row in range(len(LENGTHS))]}
    together = read(verify(name, **flat(given, **own)))

    def only(rows: list[int]) -> Request:
        return replace(
            given,
            draft_tokens=given.draft_tokens[rows],
            draft_probs=given.draft_probs[rows],
            target_probs=given.target_probs[rows],
            lengths=torch.tensor(LENGTHS)[rows],
        )

    for rows in ([0], [1], [5], [7, 2, 1], [1, 6]):
        generators = [seeded(row) for row in rows]
        found = read(verify(name, **flat(only(rows), generators=generators)))
        assert found == [together[row] for row in rows]


@pytest.mark.requirement("random.reproducible")
def test_one_generator_decides_for_all() -> None:
    given = request("token", (3,) * 64)
    one, again, other = (
        verify("token", **flat(given, generators=seeded(seed))).token_ids for seed in (7, 7, 8)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


# --- what does not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"draft_token_ids": torch.zeros(14, 2, dtype=torch.int64)},
            r"draft_token_ids must be \[n\] or \[n, K\], with K at most 1 for torch-token, got "
            r"\[14, 2\]",
        ),
        (
            {"cu_num_draft_tokens": torch.tensor([[14]])},
            r"cu_num_draft_tokens must be \[B\], got \[1, 1\]",
        ),
        (
            {"target_probs": torch.ones(14, VOCABULARY)},
            r"target_probs must be \[22, V\] or \[22, 1, V\], got \[14, 5\]",
        ),
        (
            {"draft_probs": None, "draft_logits": torch.ones(22, 1, VOCABULARY)},
            r"draft_logits must be \[14, V\] or \[14, 1, V\], got \[22, 1, 5\]",
        ),
        ({"target_probs": None}, "target_logits or target_probs must be given"),
        (
            {"draft_logits": torch.ones(14, VOCABULARY)},
            "draft_logits and draft_probs are both given, one must be None",
        ),
        ({"temperature": torch.ones(14)}, r"temperature must be \[8\], got \[14\]"),
        ({"top_k": torch.ones(8, 1)}, r"top_k must be \[8\], got \[8, 1\]"),
        (
            {"generators": [None]},
            "generators must be one, or one for each of the 8 requests, got 1",
        ),
        ({"form": "cuda"}, "there is no form 'cuda'; there are torch, triton"),
        (
            {"noise": torch.zeros(8, 4)},
            "generators and noise are both given, one must be None",
        ),
        (
            {"generators": None, "noise": torch.zeros(8, 3)},
            r"noise must be real numbers \[8, 4\], got torch.float32 \[8, 3\]",
        ),
        (
            {"generators": None, "noise": torch.zeros(8, 4, dtype=torch.int64)},
            r"noise must be real numbers \[8, 4\], got torch.int64 \[8, 4\]",
        ),
        (
            {"generators": None, "seeds": torch.zeros(8, dtype=torch.int64)},
            "seeds are given without positions: numbers by counter need both",
        ),
        (
            {"positions": torch.zeros(8, dtype=torch.int64)},
            "positions are given without seeds: numbers by counter need both",
        ),
        (
            {"generators": None, "seeds": torch.zeros(8), "positions": torch.zeros(8)},
            r"seeds must be integers \[8\], got torch.float32 \[8\]",
        ),
        (
            {
                "generators": None,
                "seeds": torch.zeros(8, dtype=torch.int64),
                "positions": torch.zeros(7, dtype=torch.int64),
            },
            r"positions must be integers \[8\], got torch.int64 \[7\]",
        ),
        (
            {"draft_rows": torch.zeros(8, dtype=torch.int64)},
            r"draft_rows must be integers \[14\] or \[14, 1\], got torch.int64 \[8\]",
        ),
        (
            {"target_rows": torch.zeros(22)},
            r"target_rows must be integers \[22\] or \[22, 1\], got torch.float32 \[22\]",
        ),
        (
            {"draft_probs": None, "draft_rows": torch.zeros(14, dtype=torch.int64)},
            "draft_rows are given without the rows that they tell of",
        ),
        (
            {
                "target_probs": torch.ones(0, VOCABULARY),
                "target_rows": torch.zeros(22, dtype=torch.int64),
            },
            r"target_rows tell of rows, and there are none: \[0, 5\]",
        ),
        ({"max_spec_len": -1}, "max_spec_len must be 0 or more, got -1"),
        (
            {"draft_token_ids": torch.zeros(14)},
            "draft_token_ids must be integers, got torch.float32",
        ),
        (
            {"cu_num_draft_tokens": torch.zeros(8)},
            "cu_num_draft_tokens must be integers, got torch.float32",
        ),
        ({"top_k": torch.ones(8)}, "top_k must be integers, got torch.float32"),
        (
            {"target_probs": torch.ones(22, VOCABULARY, dtype=torch.int64)},
            "target_probs must be of float32, float64, float16, bfloat16, got torch.int64",
        ),
        (
            {"draft_probs": torch.ones(14, VOCABULARY, dtype=torch.complex64)},
            "draft_probs must be of float32, .*, got torch.complex64",
        ),
        (
            {"target_probs": torch.ones(22, VOCABULARY, device="meta")},
            "target_probs must be where draft_token_ids are, on cpu, got meta",
        ),
        (
            {"temperature": torch.ones(8, device="meta")},
            "temperature must be where draft_token_ids are, on cpu, got meta",
        ),
        (
            {"generators": (None,) * 8},
            "generators must be a torch.Generator or a list of them, got tuple",
        ),
        (
            {"generators": None, "seeds": torch.ones(8).bool(), "positions": torch.ones(8).bool()},
            r"seeds must be integers \[8\], got torch.bool \[8\]",
        ),
        (
            {"target_rows": torch.zeros(22).bool()},
            r"target_rows must be integers \[22\] or \[22, 1\], got torch.bool \[22\]",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        verify("token", **flat(request("token"), **changes))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("branching", [(1,), (2, 1), (1, 1, 1), (-2, -1, 1)])
def test_siblings_of_other_trees_are_refused(branching: tuple[int, ...], form: str) -> None:
    message = "branching must have a number of siblings for each of max_spec_len = 3 depths, whose"
    given = flat(request("recursive_rejection"), branching=branching, form=form)
    with pytest.raises(InvalidRequest, match=message):
        verify("recursive_rejection", **given)


def test_a_state_of_other_numbers_is_refused() -> None:
    state = verify("greedy_block", **flat(request("greedy_block"))).state
    assert state is not None
    state = {**state, "left": state["left"].double()}
    with pytest.raises(InvalidRequest, match=r"state\['left'\] must be int64, got torch.float64"):
        verify("greedy_block", **flat(request("greedy_block"), state=state))


def test_a_form_that_a_verifier_does_not_have_is_refused() -> None:
    message = "mixed_multipath_block has no form 'triton', only torch"
    with pytest.raises(InvalidRequest, match=message):
        verify("mixed_multipath_block", form="triton", **flat(request("mixed_multipath_block")))


@pytest.mark.parametrize("ends", [[4, 3], [-2, 4], [9, 11], [3, 3], [2**40, 2**50]])
@pytest.mark.parametrize("name", TEXTS)
def test_ends_that_do_not_fit_are_read_alike_with_parameters(name: str, ends: list[int]) -> None:
    """As if all drafts lay within the tensors, whatever the ends are."""
    rows = torch.sin(torch.arange(6 * VOCABULARY)).view(6, VOCABULARY)
    drafts = min(2, TEXTS[name].most_drafts)

    def verified(temperature: Tensor | None) -> Tensor:
        return verify(
            name,
            draft_token_ids=torch.tensor([1, 2, 3, 0])[:, None].expand(-1, drafts),
            cu_num_draft_tokens=torch.tensor(ends),
            max_spec_len=3,
            target_logits=rows[:, None].expand(-1, drafts, -1),
            draft_logits=rows[:4, None].flip(0).expand(-1, drafts, -1),
            temperature=temperature,
            generators=seeded(3),
        ).token_ids

    assert torch.equal(verified(torch.ones(2)), verified(None))


def test_a_draft_of_several_paths_needs_its_rows() -> None:
    with pytest.raises(
        InvalidRequest,
        match="draft_logits or draft_probs must be given: a draft that is certain of its tokens "
        "has one path, draft_token_ids has 2",
    ):
        verify("recursive_rejection", **flat(request("recursive_rejection"), draft_probs=None))


def test_an_unknown_verifier_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="there is no verifier 'medusa'; there are token, "):
        verify("medusa", **flat(request("token")))


# --- Triton ----------------------------------------------------------------------------------


@pytest.mark.requirement("batch.backends")
def test_kernels_verify_what_operators_verify() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not to be had on this platform")
    run = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert json.loads(run.stdout) == {"logits": 0, "probabilities": 0, "certain": 0}


def differ(given: dict[str, Any]) -> int:
    """Return how many requests the forms answer otherwise."""
    one, two = (
        verify("block", **{**given, "form": form, "generators": seeded(2)}).token_ids
        for form in ("torch", "triton")
    )
    return int((one != two).any(1).sum())


if __name__ == "__main__":
    lengths = LENGTHS * 50
    many = flat(request("block", lengths))
    without = {**many, "draft_probs": None, "target_probs": None}
    with_logits = {
        **without,
        "draft_logits": many["draft_probs"].log(),
        "target_logits": many["target_probs"].log(),
        "temperature": torch.tensor([0.0, 0.5, 1.0, 2.0]).repeat(len(lengths) // 4),
        "top_k": torch.tensor([0, 2, 3, 4]).repeat(len(lengths) // 4),
    }
    sys.stdout.write(
        json.dumps(
            {
                "logits": differ(with_logits),
                "probabilities": differ(many),
                "certain": differ({**many, "draft_probs": None}),
            }
        )
    )
