"""The fast verifiers against the exact reference, and against input that breaks the contract."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from draftproof.adapters import fast
from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.adapters.fast.batch import Rows, Softmax
from draftproof.adapters.fast.excess import draw, excess, mass
from draftproof.adapters.fast.inputs import InvalidRequest
from draftproof.adapters.fast.texts import name_of
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.protocol.adapter import INVALID_INPUTS, Request, Result
from draftproof.conformance.protocol.loading import built_in
from draftproof.reference.rational import rational

VERIFIERS = [FastVerifier("token"), FastVerifier("block")]


def request(rows: int = 2, length: int = 2, vocabulary: int = 3, **changes: Any) -> Request:
    torch.manual_seed(0)
    valid = Request(
        draft_tokens=torch.randint(vocabulary, (rows, 1, length)),
        draft_probs=torch.rand(rows, 1, length, vocabulary).softmax(-1),
        target_probs=torch.rand(rows, 1, length + 1, vocabulary).softmax(-1),
        generator=torch.Generator(),
    )
    return replace(valid, **changes)


def spoilt(name: str, place: tuple[int, ...], value: float) -> Request:
    tensor = getattr(request(), name).clone()
    tensor[place] = value
    return request(**{name: tensor})


@pytest.mark.requirement("input.rejected")
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            request(draft_tokens=torch.zeros(2, 1, 2)),
            r"draft_tokens must be int64 \[B, K, L\], got torch.float32 \[2, 1, 2\]",
        ),
        (
            request(draft_tokens=torch.zeros(2, 2, dtype=torch.int64)),
            r"draft_tokens must be int64 \[B, K, L\], got torch.int64 \[2, 2\]",
        ),
        (
            request(draft_probs=torch.ones(2, 1, 3, 3) / 3),
            r"draft_probs must be \[2, 1, 2, V\] to match draft_tokens, got \[2, 1, 3, 3\]",
        ),
        (
            request(target_probs=torch.ones(2, 1, 2, 3) / 3),
            r"target_probs must be \[2, 1, 3, 3\], one row more than draft_probs, got \[2, 1, 2",
        ),
        (
            Request(
                torch.zeros(1, 2, 1, dtype=torch.int64),
                torch.ones(1, 2, 1, 1),
                torch.ones(1, 2, 2, 1),
            ),
            "this verifier takes one path per row, got 2",
        ),
        (spoilt("draft_tokens", (1, 0, 0), 3), r"draft_tokens\[1, 0, 0\] is 3, not in 0..2"),
        (spoilt("draft_tokens", (0, 0, 1), -1), r"draft_tokens\[0, 0, 1\] is -1, not in 0..2"),
        (
            spoilt("target_probs", (1, 0, 2, 0), float("nan")),
            r"target_probs\[1, 0, 2, 0\] is nan, it must be a probability",
        ),
        (
            spoilt("draft_probs", (0, 0, 1, 2), -0.5),
            r"draft_probs\[0, 0, 1, 2\] is -0.5, it must be a probability",
        ),
        (
            spoilt("draft_probs", (0, 0, 1, 2), 0.0),
            r"draft_probs\[0, 0, 1\] sums to 0.\d+, it must sum to 1",
        ),
        (spoilt("draft_probs", (0, 0, 1, 2), float("inf")), "sums to inf, it must sum to 1"),
    ],
)
def test_a_broken_contract_is_refused_with_its_place(
    verifier: Any, bad: Request, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        verifier.verify(bad)


def drawn(verifier: Any, given: Request) -> Result:
    return verifier.verify(given)  # type: ignore[no-any-return]  # either verifier


@pytest.mark.requirement("law.prefix", "input.unchanged")
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str
)
def test_large_batches_and_vocabularies(verifier: Any, dtype: torch.dtype) -> None:
    rows, length, vocabulary = 64, 5, 1000
    big = request(rows, length, vocabulary)
    big = replace(
        big, draft_probs=big.draft_probs.to(dtype), target_probs=big.target_probs.to(dtype)
    )
    before = [big.draft_tokens.clone(), big.draft_probs.clone(), big.target_probs.clone()]
    result = drawn(verifier, big)
    for column, most in (
        (result.accepted_length, length),
        (result.path, 0),
        (result.next_token, vocabulary - 1),
    ):
        assert column.shape == (rows,)
        assert column.dtype == torch.int64
        assert 0 <= column.min() <= column.max() <= most
    after = [big.draft_tokens, big.draft_probs, big.target_probs]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.requirement("random.reproducible")
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
def test_the_generator_decides(verifier: Any) -> None:
    one, two = (
        drawn(verifier, replace(request(64), generator=torch.Generator().manual_seed(7)))
        for _ in range(2)
    )
    assert torch.equal(one.accepted_length, two.accepted_length)
    assert torch.equal(one.next_token, two.next_token)


@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
def test_an_empty_batch_is_an_empty_result(verifier: Any) -> None:
    result = drawn(verifier, request(rows=0))
    assert result.accepted_length.shape == result.next_token.shape == (0,)


def ragged(rows: list[int], **changes: Any) -> Request:
    """Return a request of rows of these lengths, up to three, the rest of each padded."""
    valid = request(len(rows), 3)
    own = torch.tensor(rows)
    inside = torch.arange(4) <= own[:, None, None]
    padded = Request(
        draft_tokens=valid.draft_tokens.where(inside[..., 1:], -1),
        draft_probs=valid.draft_probs.where(inside[..., 1:, None], torch.nan),
        target_probs=valid.target_probs.where(inside[..., None], torch.nan),
        lengths=own,
    )
    return replace(padded, **changes)


@pytest.mark.requirement("law.prefix", "input.unchanged")
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_no_row_accepts_more_than_it_drafts(verifier: Any, dtype: torch.dtype) -> None:
    lengths = [0, 1, 2, 3] * 500
    big = ragged(lengths)
    given = (big.draft_tokens, big.draft_probs.to(dtype), big.target_probs.to(dtype))
    before = [each.clone() for each in given]
    tokens, q, p = given
    result = drawn(verifier, Request(tokens, q, p, lengths=big.lengths))
    for length in range(4):
        accepted = result.accepted_length[length::4]
        assert accepted.max() == length
    assert 0 <= result.next_token.min() <= result.next_token.max() < 3
    assert all(
        torch.equal(a.nan_to_num(-1), b.nan_to_num(-1)) for a, b in zip(before, given, strict=True)
    )


@pytest.mark.requirement("batch.ragged")
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
@pytest.mark.parametrize("lengths", [[3, 1], [0, 0], [2, 3]])
def test_a_row_has_the_law_that_it_has_without_padding(verifier: Any, lengths: list[int]) -> None:
    padded = ragged(lengths)

    def emitted(given: Request) -> Any:
        result = drawn(verifier, given)
        return result.accepted_length, result.next_token

    def only(row: int, both: Any) -> Any:
        return tuple((each[row],) for each in both)

    together = exact_law(partial(emitted, padded)).law
    for row, length in enumerate(lengths):
        here, own = slice(row, row + 1), max(length, 1)
        bare = Request(
            padded.draft_tokens[here, :, :own],
            padded.draft_probs[here, :, :own],
            padded.target_probs[here, :, : own + 1],
            lengths=torch.tensor([length]),
        )
        alone = exact_law(partial(emitted, bare)).law
        marginal = together.map(partial(only, row))
        # Three tokens and three positions: 2**-24 times the bound of spec chapter 11.
        assert marginal.total_variation(alone) < rational("1/100000")
    if lengths[0] == 0:
        tokens = together.map(lambda both: both[1][0])
        for token, weight in enumerate(padded.target_probs[0, 0, 0].tolist()):
            # A draw from a row of three tokens is 2V roundings off (spec chapter 11).
            assert abs(float(tokens[token]) - weight) <= 6 * 2.0**-24


@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
def test_full_lengths_are_no_lengths(verifier: Any) -> None:
    valid = request(64)
    results = [
        drawn(verifier, replace(valid, lengths=lengths, generator=torch.Generator().manual_seed(7)))
        for lengths in (None, torch.full((64,), 2))
    ]
    assert torch.equal(results[0].accepted_length, results[1].accepted_length)
    assert torch.equal(results[0].next_token, results[1].next_token)


@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            ragged([1, 2], lengths=torch.tensor([1.0, 2.0])),
            r"lengths must be int64 \[2\], got torch.float32 \[2\]",
        ),
        (
            ragged([1, 2], lengths=torch.tensor([1])),
            r"lengths must be int64 \[2\], got torch.int64 \[1\]",
        ),
        (ragged([1, 2], lengths=torch.tensor([1, 4])), r"lengths\[1\] is 4, not in 0..3"),
        (ragged([1, 2], lengths=torch.tensor([-1, 2])), r"lengths\[0\] is -1, not in 0..3"),
        (
            ragged([1, 2], lengths=torch.tensor([1, 3])),
            r"draft_tokens\[1, 0, 2\] is -1, not in 0..2",
        ),
        (
            ragged([1, 2], draft_tokens=torch.zeros(2, 1, 3, dtype=torch.int64), lengths=None),
            r"draft_probs\[0, 0, 1, 0\] is nan, it must be a probability",
        ),
    ],
)
def test_lengths_that_do_not_fit_are_refused(verifier: Any, bad: Request, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        verifier.verify(bad)


@pytest.mark.requirement("input.undrafted")
@pytest.mark.parametrize("verifier", VERIFIERS, ids=lambda v: v.name)
def test_what_is_drafted_without_probability_is_accepted_if_the_target_can_say_it(
    verifier: Any,
) -> None:
    sure, half = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])

    def accepted(target: torch.Tensor) -> set[Any]:
        given = Request(torch.ones(1, 1, 2, dtype=torch.int64), sure.expand(1, 1, 2, 2), target)
        law = exact_law(lambda: drawn(verifier, given).accepted_length).law
        return {length for (length,) in law}

    assert accepted(half.expand(1, 1, 3, 2)) == {2}
    assert accepted(sure.expand(1, 1, 3, 2)) == {0}
    assert accepted(torch.stack([sure, half, half]).expand(1, 1, 3, 2)) == {0}


def test_every_verifier_has_a_name_on_the_command_line() -> None:
    ours = {name_of(text, form) for text in TEXTS.values() for form in text.forms}
    assert ours == set(built_in()) - {"transformers"}


def test_a_verifier_consists_of_its_module_and_of_what_that_imports() -> None:
    files = {file.name for file in FastVerifier("token").files}
    assert files >= {"verifier.py", "token.py", "excess.py", "batch.py"}
    assert "block.py" not in files
    assert all(file.is_file() for file in FastVerifier("token", form="triton").files)


def test_a_name_that_is_none_says_so() -> None:
    with pytest.raises(AttributeError, match="there is no fast verifier 'torch_tokens'"):
        fast.torch_tokens  # noqa: B018  # looking it up is what is tested


def test_rows_that_nobody_checks_are_declared_undefined() -> None:
    trusting = FastVerifier("block", checked=False)
    assert set(trusting.undefined) == set(INVALID_INPUTS)
    bad = spoilt("target_probs", (0, 0, 2, 0), float("nan"))
    assert drawn(trusting, bad).next_token.shape == (2,)


@pytest.mark.requirement("number.tail")
def test_flat_tokens_are_drawn_with_the_probability_that_they_have() -> None:
    """Of 262,144 equal tokens each is 4e-6 of the row: a float32 sum would be off by 1/64 of it."""
    size = 2**18
    marks = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    for start in range(0, size, 2**15):
        some = marks[start : start + 64]
        row = torch.full((1, size), 1 / size).expand(len(some), -1)
        assert torch.equal(draw(row, some), (some * size).long())


@pytest.mark.requirement("random.boundary")
def test_a_token_without_weight_is_never_drawn() -> None:
    row = torch.tensor([[0.0, 0.3, 0.0, 0.7, 0.0]])
    ends = torch.tensor([0.0, 1 - 2.0**-53], dtype=torch.float64)
    assert draw(row.expand(2, -1), ends).tolist() == [1, 3]
    many = torch.zeros(2, 5000)
    many[:, 700], many[:, 2048] = 0.1, 0.2
    assert draw(many, ends).tolist() == [700, 2048]


def test_an_excess_is_what_its_name_says_and_its_mass_the_sum() -> None:
    torch.manual_seed(0)
    p, q = torch.rand(2, 50, 7).softmax(-1).unbind()
    a, c = torch.rand(2, 50).unbind()
    expected = (a[:, None].double() * p.double() - c[:, None].double() * q.double()).clamp(min=0)
    found = excess(p, q, a, c, out=torch.empty_like(p))
    # Two products and a difference of numbers below 1 are each off by half a unit, at most.
    assert (found - expected).abs().max() <= 1.5 * torch.finfo(torch.float32).eps
    assert torch.equal(found.sum(-1), mass(p, q, a, c, out=torch.empty_like(p)))
    one = excess(p, q, torch.ones_like(a), out=torch.empty_like(p))
    assert torch.equal(one, (p - q).clamp(min=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_logits_become_probabilities_in_their_own_place(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits = torch.randn(6, 9001, dtype=dtype) * 8
    at, temperature = torch.tensor([[[3, 0]], [[5, 1]]]), torch.rand(6) + 0.5
    rows = Rows(logits, at, Softmax(scale=1 / temperature, largest=logits.amax(-1)))
    out = torch.empty(2, 9001, dtype=dtype)
    found = rows.row(torch.zeros(2, dtype=torch.int64), 0, out)
    expected = (logits[[3, 5]] / temperature[[3, 5], None]).softmax(-1)
    assert found.data_ptr() == out.data_ptr()
    # Scaled by a rounded reciprocal, a logit of 40 at most is off by 40 units.
    assert (found - expected).abs().max() <= 40 * torch.finfo(torch.float32).eps
