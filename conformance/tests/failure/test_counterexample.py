from __future__ import annotations

from typing import Any

import pytest
import torch

from draftproof.conformance.cases import BatchCase, batches, cases
from draftproof.conformance.failure.counterexample import Counterexample, explain, explain_batch
from draftproof.conformance.museum.mutants import GreedyBlockWithCappedRatio
from draftproof.conformance.protocol.adapter import Request, Result, program_of
from draftproof.conformance.requirements.laws import LAWS
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import rational

CASES = {case.id: case for case in cases("standard")}


def explained(adapter: Any, requirement: str, case: str) -> Counterexample:
    found = explain(program_of(adapter), requirement, CASES[case].instance)
    assert found is not None
    return found


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
    found = explained(AcceptsUntil(length, vocabulary), "law.lossless", "generic.v3.l3")
    assert (found.instance.length, found.instance.vocabulary) == (length, vocabulary)
    assert found.distance >= 0.01
    rows = [*found.instance.target.rows.values(), *found.instance.draft.rows.values()]
    assert all(weight.denominator in (1, 2, 4) for row in rows for weight in row)


def test_the_story_names_rows_draft_and_both_laws() -> None:
    found = explained(AcceptsUntil(1, 2), "length.expected", "generic.v2.l2")
    story = "\n".join(found.words)
    assert "length.expected fails at V=2, L=1, K=1: distance 1" in story
    assert "target: (0, 1) in every context" in story
    assert "draft: (1, 0) in every context" in story
    assert "drafted: [0], which has probability 1" in story
    assert "accepted length 1: probability 1, should be 0" in story
    assert "E[accepted length] over all drafts: 1, should be 0 (token verification)" in story
    assert "no lossless verifier exceeds 0, so this one cannot be lossless" in story


class Kept:
    """Accepts the first path whole if it has as many drafts as it says; else it is target first."""

    version = "1"

    def __init__(self, drafts: int, algorithm: str = "target_first", scheme: str = "iid") -> None:
        self.name = "kept"
        self.algorithm, self.drafts = algorithm, drafts
        self.scheme, self.max_drafts = scheme, 3

    def verify(self, request: Request) -> Result:
        emitted = [
            self.emitted(paths.tolist(), p)
            for paths, p in zip(request.draft_tokens, request.target_probs, strict=True)
        ]
        accepted, path, token = (torch.tensor(column) for column in zip(*emitted, strict=True))
        return Result(accepted, path, token)

    def emitted(self, paths: list[list[int]], p: torch.Tensor) -> tuple[int, int, int]:
        length = len(paths[0])
        if len(paths) >= self.drafts:
            return length, 0, int(torch.multinomial(p[0, length], 1))
        alive, kept = list(range(len(paths))), 0
        while True:
            token = int(torch.multinomial(p[alive[0], kept], 1))
            following = [k for k in alive if kept < length and paths[k][kept] == token]
            if not following:
                return kept, alive[0], token
            alive, kept = following, kept + 1


def test_a_fault_of_one_draft_is_told_with_one() -> None:
    found = explained(Kept(1), "law.lossless", "several.iid.v2.l2.k2")
    assert found.instance.drafts == 1


@pytest.mark.parametrize("scheme", ["iid", "without_replacement"])
def test_a_fault_of_two_drafts_is_told_with_two(scheme: str) -> None:
    found = explained(Kept(2, scheme=scheme), "law.lossless", f"several.{scheme}.v3.l1.k3")
    assert (found.instance.drafts, found.instance.length, found.instance.vocabulary) == (2, 1, 2)
    assert found.instance.scheme == scheme
    assert len(found.drafts) == 2
    story = "\n".join(found.words)
    assert f"law.lossless fails at V=2, L=1, K=2, {scheme} drafts: distance" in story
    assert "drafted: [0] and [" in story
    assert ", which together have probability " in story


@pytest.mark.parametrize("algorithm", ["target_first", "unheard of"])
@pytest.mark.parametrize("requirement", ["law.lossless", "law.support", "length.bounded"])
def test_an_unknown_algorithm_has_a_story_too(algorithm: str, requirement: str) -> None:
    """The target never says one of two tokens that are drafted together: the first is accepted."""
    found = explained(Kept(2, algorithm), requirement, "several.iid.zeros.k2")
    assert (found.instance.drafts, found.instance.length, found.instance.vocabulary) == (2, 1, 2)
    assert (found.expected is None) == (algorithm == "unheard of")
    story = "\n".join(found.words)
    if requirement == "law.support" and found.expected is None:
        assert (
            "accepts [1], next token 0: probability 1, which has probability 0 under the target"
            in story
            or (
                "accepts [0], next token 1: probability 1, which has probability 0 under the target"
                in story
            )
        )
    if requirement == "length.bounded":
        assert "no lossless verifier exceeds " in story
    if requirement == "law.lossless":
        assert "over all drafts, the text [" in story


class WrongIn(Kept):
    """Wrong in the way that a requirement is about, on every number of drafts."""

    def __init__(self, requirement: str) -> None:
        super().__init__(1, "block" if requirement == "length.optimal" else "target_first")
        self.requirement = requirement

    def emitted(self, paths: list[list[int]], p: torch.Tensor) -> tuple[int, int, int]:
        if self.requirement == "law.prefix":
            return 0, len(paths), 0
        if self.requirement == "random.fresh":
            return 0, 0, 0
        return super().emitted(paths, p)


@pytest.mark.parametrize("requirement", LAWS)
def test_every_law_has_a_story(requirement: str) -> None:
    case = "disjoint" if requirement == "law.support" else "generic.v2.l2"
    found = explained(WrongIn(requirement), requirement, case)
    assert (found.instance.drafts, found.instance.length) == (1, 1)
    assert found.distance >= rational("1/100")
    assert found.words[0].startswith(f"{requirement} fails at V=2, L=1, K=1: distance ")
    if requirement == "law.prefix":
        assert "it returned path 1, not in 0..0: probability 1, should be 0" in found.words


def test_what_the_simplest_do_not_show_is_made_smaller() -> None:
    """A fault that shows on rows of more than two tokens and depths only."""
    found = explained(AcceptsUntil(2, 4), "law.lossless", "generic.v4.l3")
    assert (found.instance.length, found.instance.vocabulary) == (2, 4)


def test_what_does_not_fail_is_not_explained() -> None:
    right = AcceptsUntil(9, 9)
    instance = CASES["generic.v2.l2"].instance
    assert explain(program_of(right), "law.lossless", instance) is None
    batch = batches("quick")[0]
    assert explain_batch(program_of(right), batch) is None


def test_a_lane_without_laws_is_refused() -> None:
    instance, batch = CASES["generic.v2.l1"].instance, batches("quick")[0]
    needed = "a counterexample needs the lane 'exact' or 'probe', got 'sample'"
    with pytest.raises(ValueError, match=needed):
        explain(program_of(AcceptsUntil(1, 2)), "law.lossless", instance, lane="sample")
    with pytest.raises(ValueError, match=needed):
        explain_batch(program_of(Shared(2)), batch, lane="sample")


def test_what_the_exact_lane_cannot_see_the_probe_explains() -> None:
    class Numpy(AcceptsUntil):
        """Takes its coins out of torch, one row at a time."""

        batch = False

        def verify(self, request: Request) -> Result:
            p = request.target_probs[0, 0]
            kept = int(torch.rand(1).numpy()[0] < 0.5)
            token = p[kept].argmax()[None]
            return Result(torch.tensor([kept]), torch.tensor([0]), token)

    instance = CASES["generic.v2.l1"].instance
    assert explain(program_of(Numpy(1, 2)), "law.lossless", instance) is None
    found = explain(program_of(Numpy(1, 2)), "law.lossless", instance, lane="probe")
    assert found is not None
    assert found.instance.length == 1
    assert "over all drafts, the text [" in found.words[-1]


# --- batches -------------------------------------------------------------------------------


class Shared(AcceptsUntil):
    """Every row repeats the first, in batches of as many rows as it says."""

    def __init__(self, rows: int, length: int = 1) -> None:
        super().__init__(9, 9)
        self.rows, self.least = rows, length

    def verify(self, request: Request) -> Result:
        first = super().verify(request)
        rows, _, length = request.draft_tokens.shape
        if rows < self.rows or length < self.least:
            return first
        accepted, path, token = (
            column[:1].expand(len(column))
            for column in (first.accepted_length, first.path, first.next_token)
        )
        return Result(accepted, path, token)


def batch_named(name: str) -> BatchCase:
    return next(batch for batch in batches("standard") if batch.id == name)


def test_a_batch_is_told_by_its_simplest_rows() -> None:
    found = explain_batch(program_of(Shared(2)), batch_named("batch.same"))
    assert found is not None
    assert found.requirement == "batch.invariant"
    assert found.distance >= rational("1/100")
    assert [(instance.vocabulary, instance.length) for instance, _ in found.rows] == [(2, 1)] * 2
    assert found.observed.total_variation(found.expected) == found.distance
    assert found.words[0].startswith("batch.invariant fails in a batch of 2 rows: distance ")
    assert found.words[1].startswith("row 0: target (")
    assert found.words[2].startswith("row 0: draft (")
    assert found.words[3].startswith("row 0: drafted [")
    assert "when each row is verified alone" in found.words[-1]


def test_rows_that_are_not_needed_are_left_out_of_a_batch() -> None:
    coin = Instance(
        Model("target", 2, {(): (rational("1/4"), rational("3/4"))}, context_free=True),
        Model("draft", 2, {(): (rational("1/2"), rational("1/2"))}, context_free=True),
        length=2,
    )
    batch = BatchCase("made", "quick", ((coin, ((0, 1),)), (coin, ((1, 0),)), (coin, ((0, 0),))))
    found = explain_batch(program_of(Shared(2, length=2)), batch)
    assert found is not None
    # No batch of drafts of one token fails: the simplest are no counterexamples.
    assert [instance.length for instance, _ in found.rows] == [2, 2]
    assert found.words[0].startswith("batch.invariant fails in a batch of 2 rows: distance ")


def test_a_batch_keeps_the_rows_that_it_needs() -> None:
    found = explain_batch(program_of(Shared(3)), batch_named("batch.three"))
    assert found is not None
    assert [instance.length for instance, _ in found.rows] == [1, 1, 1]
    assert found.words[0].startswith("batch.invariant fails in a batch of 3 rows: distance ")


def test_a_stateful_verifier_is_explained_by_one_iteration() -> None:
    """One token has no ratio to be capped: it takes two."""
    found = explained(GreedyBlockWithCappedRatio(), "law.lossless", "generic.v2.l2")
    assert (found.instance.length, found.instance.vocabulary) == (2, 2)
    assert found.expected is not None
    assert found.observed.total_variation(found.expected) > rational("1/100")
    assert found.words[0].startswith("law.lossless fails at V=2, L=2, K=1: distance ")
    assert any(line.startswith("over all drafts, the text ") for line in found.words)
