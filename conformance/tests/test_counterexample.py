from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

from draftproof.conformance.adapter import Request, Result
from draftproof.conformance.cases import batches, cases
from draftproof.conformance.counterexample import explain, explain_batch

CASES = {case.id: case for case in cases("standard")}


def silent(steps: Iterable[Any], count: int, title: str) -> Iterable[Any]:
    return steps


class AcceptsUntil:
    """Accepts all, once the draft has a given length and the vocabulary a given size."""

    name, version, algorithm = "accepts", "1", "token"

    def __init__(self, length: int, vocabulary: int) -> None:
        self.length = length
        self.vocabulary = vocabulary

    def verify(self, request: Request) -> Result:
        path, q, p = (
            tensor[:, 0]
            for tensor in (request.draft_tokens, request.draft_probs, request.target_probs)
        )
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        if path.shape[1] >= self.length and p.shape[-1] >= self.vocabulary:
            ratio = torch.full_like(ratio, 2.0)
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted], 1)[:, 0]
        return Result(accepted, torch.zeros_like(accepted), token)


@pytest.mark.parametrize(("length", "vocabulary"), [(1, 2), (2, 2), (1, 3), (2, 3)])
def test_the_smallest_shape_that_fails_is_found(length: int, vocabulary: int) -> None:
    found = explain(
        AcceptsUntil(length, vocabulary),
        "law.lossless",
        CASES["generic.v3.l3"].instance,
        progress=silent,
    )
    assert (found.instance.length, found.instance.vocabulary) == (length, vocabulary)
    assert found.distance >= 0.01
    rows = [*found.instance.target.rows.values(), *found.instance.draft.rows.values()]
    assert all(weight.denominator in (1, 2, 4) for row in rows for weight in row)


def test_the_story_names_rows_draft_and_both_laws() -> None:
    found = explain(
        AcceptsUntil(1, 2), "length.expected", CASES["generic.v2.l2"].instance, progress=silent
    )
    story = "\n".join(found.words)
    assert "length.expected fails at V=2, L=1, K=1: distance 1" in story
    assert "target: (0, 1) in every context" in story
    assert "draft: (1, 0) in every context" in story
    assert "drafted: [0], which has probability 1" in story
    assert "accepted length 1: probability 1, should be 0" in story
    assert "E[accepted length] over all drafts: 1, token verification has 0" in story
    assert "no lossless verifier exceeds 0, so this one cannot be lossless" in story


class Shared(AcceptsUntil):
    """Every row repeats the first."""

    def verify(self, request: Request) -> Result:
        first = super().verify(request)
        return Result(
            *(
                column[:1].expand(len(column))
                for column in (first.accepted_length, first.path, first.next_token)
            )
        )


def test_a_batch_has_a_story_of_its_own() -> None:
    batch = next(batch for batch in batches("quick") if batch.id == "batch.same")
    found = explain_batch(Shared(9, 9), batch)
    assert found.requirement == "batch.invariant"
    assert found.distance > 0.1
    assert found.words[0] == "batch.invariant fails in the batch batch.same of 2 rows"
    assert found.words[1].startswith("row 0: drafted [0, 1], ")
    assert "if the rows are verified one by one" in found.words[-1]
