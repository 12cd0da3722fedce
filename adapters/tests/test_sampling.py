"""Sampling parameters against the rows that a plain program cuts by hand."""

from __future__ import annotations

from math import exp, inf, nan
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from draftproof.adapters.fast.sampling import Sampling, declared, softmax
from draftproof.reference.rational import exactly

UNIT = 2.0**-24


def by_hand(logits: list[float], temperature: float, top_k: int, top_p: float) -> list[float]:
    """Return the row after temperature, then top-k, then top-p, equals by token id."""
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    if temperature == 0:
        return [float(token == ranked[0]) for token in range(len(logits))]
    largest = logits[ranked[0]]
    weights = [exp((logit - largest) / temperature) for logit in logits]
    if top_k > 0:
        ranked = ranked[:top_k]
    whole = sum(weights[token] for token in ranked)
    kept: list[int] = []
    for token in ranked:
        if top_p < 1 and sum(weights[other] for other in kept) / whole >= top_p:
            break
        kept.append(token)
    mass = sum(weights[token] for token in kept)
    return [weights[t] / mass if t in kept else 0.0 for t in range(len(logits))]


def columns(*rows: tuple[float, int, float]) -> Sampling:
    """Return the temperature, top-k and top-p of each row."""
    temperature, top_k, top_p = zip(*rows, strict=True)
    return Sampling(
        torch.tensor(temperature),
        torch.tensor(top_k),
        torch.tensor(top_p, dtype=torch.float64),
    )


def near(row: Tensor, wanted: list[float]) -> bool:
    """Return whether a row keeps the same tokens, and differs from the one wanted by rounding.

    The logits are halves, the temperatures powers of 2: no quotient or difference is rounded. An
    exponential is off by 2 units, the sum of V = 5 numbers and a division by 6 more, and numerator
    and sum alike. What was probabilities before has been so once, then squared: 3 times.
    """
    made = row.tolist()
    return all(
        (a == 0) == (b == 0) and abs(a - b) <= 3 * 2 * 8 * UNIT * b
        for a, b in zip(made, wanted, strict=True)
    )


LOGITS = st.sampled_from([-8.0, -2.0, 0.0, 0.5, 1.0, 8.0, -inf])
ROW = st.tuples(
    st.lists(LOGITS, min_size=5, max_size=5).filter(lambda row: max(row) > -inf),
    st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    st.integers(-1, 7),
    # No sum of the weights above reaches one of these to within a double's rounding.
    st.sampled_from([0.05, 0.3, 0.7, 0.95, 1.0]),
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows=st.lists(ROW, min_size=1, max_size=4))
def test_every_row_is_cut_by_its_own_parameters(rows: list[Any]) -> None:
    logits = torch.tensor([row for row, *_ in rows])
    made = declared(logits, columns(*(parameters for _, *parameters in rows)))
    for row, (given_logits, *parameters) in zip(made, rows, strict=True):
        assert near(row, by_hand(given_logits, *parameters)), (given_logits, parameters)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows=st.lists(ROW, min_size=1, max_size=4))
def test_probabilities_are_cut_as_their_logarithms_are(rows: list[Any]) -> None:
    logits = torch.tensor([row for row, *_ in rows])
    sampling = columns(*(parameters for _, *parameters in rows))
    made = declared(torch.softmax(logits, -1), sampling, logits=False)
    for row, (given_logits, *parameters) in zip(made, rows, strict=True):
        assert near(row, by_hand(given_logits, *parameters)), (given_logits, parameters)


@pytest.mark.parametrize(
    ("sampling", "logits", "kept"),
    [
        (Sampling(top_k=torch.tensor([2])), [1, 3, 3, 3], [1, 2]),
        (Sampling(top_k=torch.tensor([4])), [1, 3, 3, 3], [0, 1, 2, 3]),
        (Sampling(top_k=torch.tensor([9])), [1, 3, 3, 3], [0, 1, 2, 3]),
        (Sampling(top_p=torch.tensor([0.5])), [0, 0, 0, 0], [0, 1]),
        (Sampling(top_p=torch.tensor([0.51])), [0, 0, 0, 0], [0, 1, 2]),
        (Sampling(top_p=torch.tensor([0.0])), [0, 1, 1, 0], [1]),
        # Two of five equals are kept first, and one of them is half of what is left.
        (Sampling(top_k=torch.tensor([2]), top_p=torch.tensor([0.4])), [0, 0, 0, 0, 0], [0]),
        (Sampling(temperature=torch.tensor([0.0])), [1, 3, 3, 3], [1]),
        (Sampling(torch.tensor([0.0]), torch.tensor([3])), [1, 3, 3, 3], [1]),
        (Sampling(temperature=torch.tensor([nan])), [1, 3, 3, 3], [1]),
        (Sampling(temperature=torch.tensor([-1.0])), [1, 3, 3, 3], [1]),
        (Sampling(top_p=torch.tensor([nan])), [1, 3, 3, 3], [0, 1, 2, 3]),
        (Sampling(torch.tensor([0.0]), torch.tensor([0]), torch.tensor([1.0])), [5, 5], [0]),
        (Sampling(top_k=torch.tensor([3])), [-inf, 3, -inf, -inf], [1]),
        (Sampling(top_k=torch.tensor([1])), [7], [0]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_equals_are_kept_by_token_id(
    sampling: Sampling, logits: list[float], kept: list[int], dtype: torch.dtype
) -> None:
    row = declared(torch.tensor([logits], dtype=dtype), sampling)
    assert row.dtype == torch.promote_types(dtype, torch.float32)
    assert row[0].nonzero().flatten().tolist() == kept


def test_what_changes_nothing_makes_no_cut() -> None:
    plain = softmax(torch.zeros(2, 3), Sampling())
    assert (plain.scale, plain.least, plain.last) == (None, None, None)
    row = torch.tensor([[0.1, 0.2, 0.7]])
    (made,) = declared(row, Sampling(), logits=False)
    whole = sum(map(exactly, row[0].tolist()))
    for weight, given_weight in zip(made.tolist(), row[0].tolist(), strict=True):
        # A double's sum and quotient are exact beside the one rounding to float32.
        assert abs(weight - float(exactly(given_weight) / whole)) <= UNIT * weight


def test_temperature_alone_needs_no_sort() -> None:
    logits = torch.tensor([[1.0, 4.0, 4.0], [1.0, 4.0, 4.0]])
    made = softmax(logits, Sampling(temperature=torch.tensor([0.0, 0.5])))
    assert made.scale is not None
    assert made.least is not None
    assert made.last is not None
    assert made.scale.tolist() == [1.0, 2.0]
    assert made.least.tolist() == [4.0, -inf]
    assert made.last.tolist() == [1, 2]


def test_parameters_follow_their_request() -> None:
    own = columns((0.5, 1, 0.9), (2.0, 0, 1.0)).of(torch.tensor([1, 0, 0]))
    assert own.temperature is not None
    assert own.top_k is not None
    assert own.temperature.tolist() == [2.0, 0.5, 0.5]
    assert own.top_k.tolist() == [0, 1, 1]
    assert Sampling().of(torch.tensor([0])).is_plain


def test_float32_neighbours_are_told_apart_by_their_logarithms() -> None:
    """Of two probabilities of about 1e-30 whose logarithms are nearer than float32 numbers are."""
    low = torch.tensor(1e-30)
    high = low.nextafter(torch.tensor(1.0))
    # Near log(1e-30) = -69 float32 numbers are 2**-17 apart.
    assert high.double().log() - low.double().log() < 2.0**-20
    row = torch.stack([low, high, torch.tensor(1.0)])[None]
    made = declared(row, Sampling(top_k=torch.tensor([2])), logits=False)
    assert made[0].nonzero().flatten().tolist() == [1, 2]


def test_a_flat_row_of_a_large_vocabulary_ends_where_it_should() -> None:
    vocabulary = 250_000
    made = declared(torch.zeros(2, vocabulary), Sampling(top_p=torch.tensor([0.5, 0.9]).double()))
    # 0.9 was a float32, a little less than 225,000 of 250,000.
    assert (made > 0).sum(-1).tolist() == [125_000, 225_000]
    assert (made[0, :125_000] == made[0, 0]).all()
