"""Between blocks of rows and rows one after another."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from draftproof.adapters.engines.layout import flattened, logits_of, read
from draftproof.adapters.engines.released import MovedOn
from draftproof.conformance.protocol.adapter import Request

PLACE = torch.arange(6.0).view(2, 1, 3, 1).expand(-1, -1, -1, 7)
"""Rows that say where they are."""


def ragged() -> Request:
    """Return two requests of two tokens and of one."""
    return Request(
        draft_tokens=torch.tensor([[[4, 5]], [[6, -1]]]),
        draft_probs=PLACE[:, :, :2].exp(),
        target_probs=PLACE.exp(),
        lengths=torch.tensor([2, 1]),
    )


def test_requests_are_laid_one_after_another() -> None:
    # Logits are moved as they are given; logarithms of probabilities would be rounded.
    flat = flattened(replace(ragged(), draft_logits=PLACE[:, :, :2], target_logits=PLACE))
    assert flat.tokens.tolist() == [4, 5, 6]
    assert flat.lengths == [2, 1]
    assert flat.ends.tolist() == [2, 3]
    assert flat.q[:, 0].tolist() == [0, 1, 3]
    assert flat.p[:, 0].tolist() == [0, 1, 3]
    assert flat.bonus[:, 0].tolist() == [2, 4]


def test_logits_are_those_that_are_given() -> None:
    given = ragged()
    q, p = logits_of(given)
    assert torch.equal(q, given.draft_probs.log())
    assert torch.equal(p, given.target_probs.log())
    own = Request(
        given.draft_tokens,
        given.draft_probs,
        given.target_probs,
        draft_logits=q + 1,
        target_logits=p,
    )
    assert torch.equal(logits_of(own)[0], q + 1)


def test_rows_end_before_their_first_minus_one() -> None:
    given = Request(torch.tensor([[[4, 5]]] * 3), torch.ones(()), torch.ones(()))
    emitted = torch.tensor([[4, 5, 6], [4, 3, -1], [2, -1, -1]])
    result = read(given, emitted)
    assert result.accepted_length.tolist() == [2, 1, 0]
    assert result.next_token.tolist() == [6, 3, 2]


def test_what_is_no_row_is_told() -> None:
    """Nothing at all, a hole, tokens that were not drafted."""
    given = Request(torch.tensor([[[4, 5]]] * 3), torch.ones(()), torch.ones(()))
    emitted = torch.tensor([[-1, -1, -1], [4, -1, 6], [3, 5, 6]])
    assert read(given, emitted).accepted_length.tolist() == [-1, -1, -1]


def test_what_has_another_shape_is_told() -> None:
    given = Request(torch.tensor([[[4, 5]]] * 3), torch.ones(()), torch.ones(()))
    told = r"it returned \[3\] where this adapter reads rows of tokens \[3, 3\]"
    with pytest.raises(MovedOn, match=told):
        read(given, torch.zeros(3, dtype=torch.int64))
