"""Rows on which floats go wrong: every verifier, where the others' tests stop at small ones."""

from __future__ import annotations

from math import log, sqrt

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.conformance.protocol.adapter import DraftRequest, Request, Result

FALSE_ALARM = 1e-9


def requested(
    name: str, p: Tensor, q: Tensor, *, rows: int, drafts: int, length: int, seed: int = 0
) -> Request:
    """Return rows of context-free models p, q [V], drafted by the verifier's own scheme."""
    generator = torch.Generator().manual_seed(seed)
    drafted = FastVerifier(name).draft(
        DraftRequest(
            next_probs=lambda contexts: q.expand(len(contexts), -1),
            rows=rows,
            drafts=drafts,
            length=length,
            vocabulary=len(q),
            generator=generator,
        )
    )
    target = p.expand(rows, drafts, length + 1, -1)
    return Request(drafted.draft_tokens, drafted.draft_probs, target, generator)


def verified(name: str, given: Request) -> Result:
    return FastVerifier(name).verify(given)


@pytest.mark.requirement("number.extreme")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_refused_where_target_and_draft_are_the_same_numbers(
    name: str, dtype: torch.dtype
) -> None:
    p = torch.rand(1000, generator=torch.Generator().manual_seed(1)).mul(8).softmax(-1).to(dtype)
    result = verified(name, requested(name, p, p, rows=32, drafts=1, length=16))
    assert result.accepted_length.tolist() == [16] * 32


@pytest.mark.parametrize("name", TEXTS)
def test_differences_of_one_unit_refuse_as_little_as_they_are(name: str) -> None:
    """A path of 16 tokens is refused with 16 units of 2**-23, not for what rounding leaves owed."""
    generator = torch.Generator().manual_seed(1)
    p = torch.rand(1000, generator=generator).softmax(-1)
    up = torch.rand(1000, generator=generator) < 0.5
    q = torch.where(up, p.nextafter(torch.ones(())), p.nextafter(torch.zeros(())))
    result = verified(name, requested(name, p, q, rows=256, drafts=1, length=16))
    # 256 paths are all kept but with a probability of 256 * 16 * 2**-22, allowing for both rows.
    assert (result.accepted_length == 16).all()


@pytest.mark.requirement("number.extreme")
@pytest.mark.parametrize("name", TEXTS)
def test_long_paths_of_small_probability_keep_what_they_should(name: str) -> None:
    """Each token is half as probable under the target: 2**-16 of the paths are owed as a whole."""
    p, q = torch.tensor([0.25, 0.25, 0.5]), torch.tensor([0.5, 0.5, 0.0])
    result = verified(name, requested(name, p, q, rows=4000, drafts=1, length=16))
    # Every algorithm for one path keeps the first token with probability 1/2 at most on the way
    # to a text of the target; token verification with exactly that.
    share = float((result.accepted_length > 0).double().mean())
    slack = sqrt(log(2 / FALSE_ALARM) / (2 * 4000))
    assert share <= 0.5 + slack
    if name in ("token", "block"):
        assert share >= 0.5 - slack
    assert (result.next_token[result.accepted_length < 16] == 2).all()


@pytest.mark.parametrize("name", TEXTS)
def test_one_token_is_all_there_is(name: str) -> None:
    one = torch.ones(1)
    result = verified(name, requested(name, one, one, rows=3, drafts=1, length=2))
    assert result.accepted_length.tolist() == [2, 2, 2]
    assert result.next_token.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if text.most_drafts > 1])
def test_ties_among_eight_paths_lose_no_token(name: str) -> None:
    """All ratios are equal, so all ranks are ties: the first token is still uniform."""
    rows, vocabulary = 20_000, 16
    flat = torch.full((vocabulary,), 1 / vocabulary)
    drafts = 2 if TEXTS[name].scheme == "hub" else 8
    given = requested(name, flat, flat, rows=rows, drafts=drafts, length=1)
    result = verified(name, given)
    path = given.draft_tokens[torch.arange(rows), result.path, 0]
    first = torch.where(result.accepted_length > 0, path, result.next_token)
    shares = first.bincount(minlength=vocabulary).double() / rows
    slack = sqrt(log(2 * vocabulary / FALSE_ALARM) / (2 * rows))
    assert (shares - 1 / vocabulary).abs().max() <= slack


@pytest.mark.requirement("number.tail")
@pytest.mark.parametrize("name", TEXTS)
def test_a_flat_row_of_262144_tokens_is_drawn_from_flatly(name: str) -> None:
    """The draft says the lower half only: corrections are in the upper half, and all over it."""
    size, rows = 2**18, 48
    p = torch.full((size,), 1 / size)
    q = torch.where(torch.arange(size) < size // 2, 2 / size, 0.0)
    given = requested(name, p, q, rows=rows, drafts=1, length=1)
    result = verified(name, given)
    refused = result.accepted_length == 0
    corrections = result.next_token[refused]
    assert (corrections >= size // 2).all()
    slack = sqrt(log(2 / FALSE_ALARM) / (2 * rows))
    assert abs(float(refused.double().mean()) - 0.5) <= slack
    # Of n corrections, all are in one half of the upper half with probability 2**(1 - n).
    is_high = corrections >= size // 4 * 3
    assert is_high.any()
    assert not is_high.all()
