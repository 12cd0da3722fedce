"""Verifiers that are right or wrong in batches, and by which requirement each is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import batches, cases
from draftproof.conformance.cases.together import mixed, ragged, reordered, with_padding_rows
from draftproof.conformance.lanes.exchange import Outcome
from draftproof.conformance.lanes.observe import RUN, BatchObservation, observe_batch
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.protocol.reference import ReferenceVerifier
from draftproof.conformance.requirements.batches import (
    Agreement,
    batch_invariant,
    judge_agreement,
    judge_backends,
    judge_batch,
    judge_unchanged,
    largest_share,
    observe_agreement,
    padded_vocabulary,
    tasks,
)
from draftproof.conformance.requirements.finding import ERROR, FAIL, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law

CASES = {case.id: case for case in cases("standard")}
HALF = rational("1/2")
TERMS = Terms(RUN, "quick", seed=1)


def judged(adapter: Any, mode: str = "quick") -> list[Finding]:
    program = program_of(adapter)
    return [
        finding
        for task in tasks(program.declared, mode)
        for finding in task.judge(program, Terms(task.lanes[0], mode, seed=1))
    ]


def broken(adapter: Any, mode: str = "quick") -> set[str]:
    found = judged(adapter, mode)
    return {each.requirement for each in found if each.verdict not in (PASS, SKIPPED)}


def at(rows: Tensor, path: Tensor) -> Tensor:
    return rows.gather(-1, path[..., None])[..., 0]


class Verifier:
    version, algorithm = "1", "token"

    def __init__(self) -> None:
        self.name = type(self).__name__


class Token(Verifier):
    """Token verification with the steps open that a batch can get wrong."""

    def verify(self, request: Request) -> Result:
        path, q, p = self.given(request)
        ratio = at(p[:, :-1], path) / at(q, path)
        accepted = (self.coins(ratio) < ratio).long().cumprod(-1).sum(-1)
        token = torch.multinomial(self.rows(accepted, q, p), 1)[:, 0]
        return Result(accepted, torch.zeros_like(accepted), self.said(accepted, token, p))

    def given(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        return request.draft_tokens[:, 0], request.draft_probs[:, 0], request.target_probs[:, 0]

    def coins(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio)

    def rows(self, accepted: Tensor, q: Tensor, p: Tensor) -> Tensor:
        row = torch.arange(len(p))
        none = torch.zeros_like(p[:, :1])
        return (p[row, accepted] - torch.cat([q, none], 1)[row, accepted]).clamp(min=0)

    def said(self, accepted: Tensor, token: Tensor, p: Tensor) -> Tensor:
        return token


class Loop(Verifier):
    """Token verification row by row and position by position, of as many tokens as there are."""

    ragged = True

    def verify(self, request: Request) -> Result:
        accepted, tokens = [], []
        for row, (path, q, p) in enumerate(
            zip(
                request.draft_tokens[:, 0],
                request.draft_probs[:, 0],
                request.target_probs[:, 0],
                strict=True,
            )
        ):
            length = self.length(request, row)
            kept = 0
            while kept < length and torch.rand(()) < p[kept, path[kept]] / q[kept, path[kept]]:
                kept += 1
            tokens.append(int(torch.multinomial(self.row(kept, length, q, p), 1)))
            accepted.append(kept)
        return Result(torch.tensor(accepted), torch.zeros(len(tokens)), torch.tensor(tokens))

    def length(self, request: Request, row: int) -> int:
        if request.lengths is None:
            return request.draft_tokens.shape[-1]
        return int(request.lengths[row])

    def row(self, kept: int, length: int, q: Tensor, p: Tensor) -> Tensor:
        return (p[kept] - q[kept]).clamp(min=0) if kept < length else p[kept]


class Ragged(Token):
    """The same for all rows at once: padding has a ratio of 0, and a draft of zeros."""

    ragged = True

    def given(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().given(request)
        assert request.lengths is not None
        here = torch.arange(path.shape[1]) < request.lengths[:, None]
        return path.clamp(min=0), q.where(here[..., None], 0), p.nan_to_num(0.0)

    def coins(self, ratio: Tensor) -> Tensor:
        # Nothing is below NaN, and what a draft of zeros is divided by passes no coin of infinity.
        return torch.where(ratio.isinf(), torch.inf, torch.rand_like(ratio))


@pytest.mark.requirement(
    "batch.invariant",
    "batch.ragged",
    "batch.padding",
    "batch.mixed",
    "batch.order",
    "input.unchanged",
)
@pytest.mark.parametrize(
    ("verifier", "mode"),
    [(Token(), "standard"), (Ragged(), "standard"), (Loop(), "quick")],
    ids=lambda given: getattr(given, "name", given),
)
def test_what_is_right_breaks_nothing(verifier: Any, mode: str) -> None:
    found = judged(verifier, mode)
    asked = {each.requirement for each in found if each.verdict != SKIPPED}
    expected = {"invariant", "padding", "mixed", "order"} | (
        {"ragged"} if declaration(verifier).ragged else set()
    )
    assert asked == {f"batch.{each}" for each in expected} | {"input.unchanged"}
    assert {each.verdict for each in found} == {PASS, SKIPPED}


class OneAtATime(Token):
    batch = False

    def verify(self, request: Request) -> Result:
        assert len(request.draft_tokens) == 1
        return super().verify(request)


@pytest.mark.requirement("batch.padding", "input.unchanged")
def test_one_row_at_a_time_is_asked_for_its_padding_and_its_callers_tensors() -> None:
    found = {each.requirement for each in judged(OneAtATime()) if each.verdict == PASS}
    assert found == {"batch.padding", "input.unchanged"}


# --- rows that know of each other ---------------------------------------------------------


class CoinsOfTheFirstRow(Token):
    def coins(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio[:1]).expand_as(ratio)


class DraftRowsPermuted(Token):
    def given(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().given(request)
        return path, q.roll(1, 0), p


class FirstStartsBeforeTheBatch(Token):
    """Offsets end[row - 1]: for the first row that is the end of the last, whose row it reads."""

    def rows(self, accepted: Tensor, q: Tensor, p: Tensor) -> Tensor:
        own = super().rows(accepted, q, p)
        return torch.cat([p[-1:, -1], own[1:]]) if len(p) > 1 else own


class StrideOfTwo(Token):
    """Right for up to two rows: from the third on, rows are read one too early."""

    def rows(self, accepted: Tensor, q: Tensor, p: Tensor) -> Tensor:
        row = torch.arange(len(p))
        return super().rows(accepted, q, p)[torch.where(row < 2, row, row - 1)]


class LastBonusOverwritten(Token):
    """When every row accepts everything, padding of the flat output lands on the last bonus."""

    def said(self, accepted: Tensor, token: Tensor, p: Tensor) -> Tensor:
        if len(p) > 1 and (accepted == p.shape[1] - 1).all():
            return torch.cat([token[:-1], torch.zeros_like(token[-1:])])
        return token


class GreedyForAll(Token):
    """One row at temperature zero, and no row has its coins thrown."""

    def coins(self, ratio: Tensor) -> Tensor:
        return torch.full_like(ratio, 0.5) if self.greedy else torch.rand_like(ratio)

    def given(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        path, q, p = super().given(request)
        self.greedy = len(p) > 1 and bool((p == 1).any() and (q < 1).any())
        return path, q, p


class CoinsOfTheFirstRowInALoop(Loop):
    """The coins are thrown before the loop over rows."""

    ragged = False

    def verify(self, request: Request) -> Result:
        coins = torch.rand(request.draft_tokens.shape[-1])
        results = []
        for row in range(len(request.draft_tokens)):
            path, q, p = (
                given[row, 0]
                for given in (request.draft_tokens, request.draft_probs, request.target_probs)
            )
            kept = 0
            while kept < len(path) and coins[kept] < p[kept, path[kept]] / q[kept, path[kept]]:
                kept += 1
            drawn = torch.multinomial(self.row(kept, len(path), q, p), 1)
            results.append((kept, 0, int(drawn)))
        return Result(*torch.tensor(results).T)


@pytest.mark.requirement("batch.invariant", "batch.mixed", "batch.order")
@pytest.mark.parametrize(
    ("verifier", "requirements"),
    [
        (CoinsOfTheFirstRow(), {"batch.invariant"}),
        (CoinsOfTheFirstRowInALoop(), {"batch.invariant"}),
        (GreedyForAll(), {"batch.mixed"}),
        # An order that matters is a row that is not as it is alone, in one order or the other.
        (DraftRowsPermuted(), {"batch.invariant", "batch.order", "batch.mixed"}),
        (FirstStartsBeforeTheBatch(), {"batch.invariant", "batch.order", "batch.mixed"}),
        (StrideOfTwo(), {"batch.invariant", "batch.order"}),
        (LastBonusOverwritten(), {"batch.invariant", "batch.order", "batch.mixed"}),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_rows_that_know_of_each_other_are_seen(verifier: Any, requirements: set[str]) -> None:
    assert broken(verifier) == requirements


@pytest.mark.requirement("batch.mixed")
def test_certain_rows_must_say_what_is_certain() -> None:
    """Rows that are as wrong together as they are alone are independent, and still wrong."""

    class AlwaysZero(Token):
        def said(self, accepted: Tensor, token: Tensor, p: Tensor) -> Tensor:
            return torch.zeros_like(token)

    found = [each for each in judged(AlwaysZero()) if each.requirement == "batch.mixed"]
    assert [each.verdict for each in found] == [FAIL] * len(found)
    assert all(each.distance == 1 for each in found)


# --- padding -------------------------------------------------------------------------------


class PaddingIsAMismatch(Loop):
    """Columns beyond a row's own are compared, differ, and cost it its bonus."""

    def row(self, kept: int, length: int, q: Tensor, p: Tensor) -> Tensor:
        if kept == length < len(q):
            return (p[kept] - 0.5).clamp(min=0) + 1e-3
        return super().row(kept, length, q, p)


class PlaceholderAsIndex(Loop):
    """All columns are verified: -1 reads the last token of a row, and NaN rejects nothing."""

    def length(self, request: Request, row: int) -> int:
        return request.draft_tokens.shape[-1]

    def row(self, kept: int, length: int, q: Tensor, p: Tensor) -> Tensor:
        return super().row(kept, length, q, p).nan_to_num(1.0)


class BonusOfTheLongest(Ragged):
    """The bonus comes from the last row, which is padding: a NaN is never passed by a sum."""

    def verify(self, request: Request) -> Result:
        result = super().verify(request)
        assert request.lengths is not None
        full = result.accepted_length == request.lengths
        bonus = request.target_probs[:, 0, -1]
        searched = (~(bonus.cumsum(-1) > torch.rand(len(bonus), 1))).sum(-1)
        token = torch.where(full & bonus.isnan().any(-1), searched, result.next_token)
        return replace(result, next_token=token)


class EmptyRowsCutTheBatch(Ragged):
    """A row without drafts ends the batch: the others lose their last token."""

    def coins(self, ratio: Tensor) -> Tensor:
        drawn = super().coins(ratio)
        drawn[:, -1] = torch.where(self.cut, torch.inf, drawn[:, -1])
        return drawn

    def given(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        assert request.lengths is not None
        self.cut = (request.lengths == 0).any()
        return super().given(request)


class BlockOfFour(Token):
    """The correction is looked for in the first block of four tokens."""

    def rows(self, accepted: Tensor, q: Tensor, p: Tensor) -> Tensor:
        rows = super().rows(accepted, q, p)
        first = torch.cat([rows[:, :4], torch.zeros_like(rows[:, 4:])], 1)
        return torch.where(first.sum(-1, keepdim=True) > 0, first, rows)


@pytest.mark.requirement("batch.ragged", "batch.padding")
@pytest.mark.parametrize(
    ("verifier", "requirements"),
    [
        (PaddingIsAMismatch(), {"batch.ragged"}),
        (PlaceholderAsIndex(), {"batch.ragged"}),
        (BonusOfTheLongest(), {"batch.ragged"}),
        (EmptyRowsCutTheBatch(), {"batch.ragged", "batch.padding"}),
        (BlockOfFour(), {"batch.padding"}),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_padding_that_counts_is_seen(verifier: Any, requirements: set[str]) -> None:
    assert broken(verifier) == requirements


def test_a_padded_vocabulary_has_the_same_law_up_to_names() -> None:
    instance = CASES["zeros.both"].instance
    places = (2, 5, 8, 11)
    padded = padded_vocabulary(instance, places, 14)
    assert padded.vocabulary == 14
    for algorithm in (ALGORITHMS["token"], ALGORITHMS["block"]):
        few, many = emission_law(algorithm, instance), emission_law(algorithm, padded)
        assert len(few) == len(many)
        for emission, weight in few.items():
            accepted = tuple(places[token] for token in emission.accepted)
            assert many[Emission(0, accepted, places[emission.next_token])] == weight


# --- the caller's tensors --------------------------------------------------------------------


class DividesInPlace(Token):
    def verify(self, request: Request) -> Result:
        result = super().verify(request)
        request.target_probs.div_(2)
        return result


class ZeroesTheDraftedToken(Loop):
    """`target_probs[..., token] = 0` makes the correction of a certain draft, in the caller's."""

    def verify(self, request: Request) -> Result:
        result = super().verify(request)
        for row, path in enumerate(request.draft_tokens[:, 0]):
            kept = int(result.accepted_length[row])
            if kept < self.length(request, row):
                request.target_probs[row, 0, kept, path[kept]] = 0
        return result


class WritesThroughNumpy(Token):
    def verify(self, request: Request) -> Result:
        result = super().verify(request)
        request.draft_tokens.numpy()[...] = 0
        return result


class WritesBesideItsTensor(Token):
    def verify(self, request: Request) -> Result:
        result = super().verify(request)
        rows = request.draft_probs
        beyond = rows.as_strided((1,), (1,), rows.storage_offset() + rows.numel())
        beyond.fill_(0.25)
        return result


class WritesInTheNextCall(Token):
    kept: ClassVar[list[Tensor]] = []

    def verify(self, request: Request) -> Result:
        for earlier in self.kept[-1:]:
            earlier.fill_(0.25)
        self.kept.append(request.draft_probs)
        return super().verify(request)


class TransposesInPlace(Token):
    def verify(self, request: Request) -> Result:
        result = super().verify(request)
        request.draft_probs.transpose_(2, 3)
        return result


@pytest.mark.requirement("input.unchanged")
@pytest.mark.parametrize(
    ("verifier", "field"),
    [
        (DividesInPlace(), "target_probs"),
        (ZeroesTheDraftedToken(), "target_probs"),
        (WritesThroughNumpy(), "draft_tokens"),
        (WritesBesideItsTensor(), "draft_probs"),
        (WritesInTheNextCall(), "draft_probs"),
        (TransposesInPlace(), "draft_probs"),
    ],
    ids=lambda given: getattr(given, "name", ""),
)
def test_a_callers_tensor_that_is_written_to_is_seen(verifier: Any, field: str) -> None:
    (finding,) = judge_unchanged("quick", program_of(verifier), TERMS)
    assert finding.verdict == FAIL
    assert finding.detail.startswith(f"Request.{field} was changed on ")


@pytest.mark.parametrize("verifier", [DividesInPlace(), ZeroesTheDraftedToken()])
def test_writing_breaks_nothing_else(verifier: Any) -> None:
    assert broken(verifier) == {"input.unchanged"}


@pytest.mark.requirement("input.unchanged")
def test_an_error_has_written_nothing() -> None:
    class Refuses(Verifier):
        def verify(self, request: Request) -> Result:
            raise ValueError("no")

    (finding,) = judge_unchanged("quick", program_of(Refuses()), TERMS)
    assert finding.verdict == PASS


@pytest.mark.requirement("input.unchanged")
def test_noise_is_a_callers_tensor_too() -> None:
    class UsesUp(Verifier):
        noise: ClassVar = {"coins": ("uniform", "L")}

        def verify(self, request: Request) -> Result:
            assert request.noise is not None
            request.noise["coins"].zero_()
            none = torch.zeros(len(request.draft_tokens), dtype=torch.int64)
            return Result(none, none, none)

    (finding,) = judge_unchanged("quick", program_of(UsesUp()), TERMS)
    assert finding.detail.startswith("Request.noise['coins'] was changed on generic.v2.l2")


# --- two backends ----------------------------------------------------------------------------


class Supplied(Verifier):
    """Token verification on noise that is supplied: coins, and one race."""

    noise: ClassVar = {"coins": ("uniform", "L"), "race": ("exponential", "V")}
    wide = torch.float32

    def verify(self, request: Request) -> Result:
        assert request.noise is not None
        path = request.draft_tokens[:, 0]
        q, p = (rows[:, 0].to(self.wide) for rows in (request.draft_probs, request.target_probs))
        accepted = self.accepted(request.noise["coins"], at(p[:, :-1], path), at(q, path))
        row = torch.arange(len(p))
        wanted = (p - torch.cat([q, torch.zeros_like(p[:, :1])], 1)).clamp(min=0)[row, accepted]
        token = self.raced(wanted, request.noise["race"])
        return Result(accepted, torch.zeros_like(accepted), token)

    def accepted(self, coins: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return (coins < p / q).long().cumprod(-1).sum(-1)

    def raced(self, wanted: Tensor, clocks: Tensor) -> Tensor:
        return (wanted / clocks).argmax(-1)


class SuppliedInLogs(Supplied):
    """Another way to the same: it rounds otherwise."""

    def accepted(self, coins: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return (coins.log() < p.log() - q.log()).long().cumprod(-1).sum(-1)

    def raced(self, wanted: Tensor, clocks: Tensor) -> Tensor:
        return (wanted.log() - clocks.log()).argmax(-1)


class SuppliedDouble(Supplied):
    wide = torch.float64


class SuppliedFlipped(Supplied):
    """Lossless, and no emission is that of the other backend."""

    def accepted(self, coins: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return super().accepted(1 - coins, p, q)


class SuppliedHalf(Supplied):
    """p and q go through half precision before their ratio."""

    def accepted(self, coins: Tensor, p: Tensor, q: Tensor) -> Tensor:
        return super().accepted(coins, p.bfloat16().float(), (q * 1.01).bfloat16().float())


class Seeded(Token):
    """Without noise of its own: backends are compared on seeds."""


class SeededCoinLate(Token):
    """Draws one number more before its coins."""

    def coins(self, ratio: Tensor) -> Tensor:
        torch.rand(1)
        return super().coins(ratio)


def with_other(adapter: Any, other: Any) -> Any:
    adapter.same_as = other
    return adapter


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize(
    ("other", "mode"),
    [(SuppliedInLogs(), "standard"), (SuppliedDouble(), "quick"), (Supplied(), "quick")],
    ids=lambda given: getattr(given, "name", given),
)
def test_backends_that_differ_by_rounding_agree(other: Any, mode: str) -> None:
    found = judge_backends(
        mode, program_of(with_other(Supplied(), other)), Terms(RUN, mode, seed=1)
    )
    assert {each.case for each in found} == {c.id for c in cases(mode) if c.instance.drafts == 1}
    assert {each.verdict for each in found} == {PASS}
    assert all(each.runs >= 2048 for each in found)


@pytest.mark.requirement("batch.backends")
def test_a_lossless_backend_can_be_another() -> None:
    assert broken(SuppliedFlipped()) == set()
    assert broken(with_other(Supplied(), SuppliedFlipped())) == {"batch.backends"}


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize("other", [SuppliedFlipped(), SuppliedHalf()], ids=lambda v: v.name)
def test_backends_that_differ_by_more_do_not_agree(other: Any) -> None:
    found = judge_backends("quick", program_of(with_other(Supplied(), other)), TERMS)
    assert FAIL in {each.verdict for each in found}


@pytest.mark.requirement("batch.backends")
def test_backends_without_noise_are_compared_on_seeds() -> None:
    assert {
        each.verdict
        for each in judge_backends("quick", program_of(with_other(Token(), Seeded())), TERMS)
    } == {PASS}
    found = judge_backends("quick", program_of(with_other(Token(), SeededCoinLate())), TERMS)
    assert FAIL in {each.verdict for each in found}


def test_what_one_backend_alone_takes_is_skipped_by_name() -> None:
    class OfTwoDrafts(Token):
        max_drafts = 2

    found = judge_backends("quick", program_of(with_other(OfTwoDrafts(), Token())), TERMS)
    skipped = {each.case: each for each in found if each.verdict == SKIPPED}
    assert skipped.keys() == {
        case.id
        for case in cases("quick")
        if (case.instance.drafts, case.instance.scheme) == (2, "iid")
        and not case.instance.branching
    }
    assert not any(each.applies for each in skipped.values())
    assert {each.detail for each in skipped.values()} == {
        "Token does not take the drafts of this case"
    }
    assert {each.verdict for each in found} == {PASS, SKIPPED}


def test_backends_of_one_row_at_a_time_are_compared_row_by_row() -> None:
    seen = observe_agreement(
        (program_of(OneAtATime()), program_of(Token())), CASES["banked"], seed=1
    )
    assert (seen.rows, seen.different) == (128, 0)


@pytest.mark.parametrize(
    ("other", "verdict", "reason"),
    [
        (None, SKIPPED, "it names no other backend to agree with"),
        ("no-such-adapter", ERROR, "same_as: no built-in adapter is called 'no-such-adapter'"),
        (object(), ERROR, "same_as: an adapter needs 'name'"),
        (Token(), ERROR, "Supplied and Token take different noise: none can be shared"),
    ],
)
def test_backends_that_cannot_be_compared_say_why(other: Any, verdict: str, reason: str) -> None:
    (finding,) = judge_backends("quick", program_of(with_other(Supplied(), other)), TERMS)
    assert finding.verdict == verdict
    assert finding.detail.startswith(reason)


@pytest.mark.requirement("batch.backends")
def test_legal_disagreements_are_bounded_by_a_binomial_tail() -> None:
    # One in a million each, of a thousand: three or more happen with probability 1.7e-10.
    rare = rational(1) / 10**6
    assert largest_share(1000, rare, 1e-9) == rational(2) / 1000
    assert largest_share(1000, rational(2), 1e-9) == 1
    for different, verdict in ((0, PASS), (1, PASS), (3, FAIL)):
        seen = Agreement("made", 1000, different, rare)
        assert judge_agreement(seen, 1e-9).verdict == verdict


# --- batches, and laws made by hand -----------------------------------------------------------


@pytest.mark.requirement("batch.invariant")
@pytest.mark.parametrize(
    ("joint", "distance", "verdict"),
    [
        ({(0, 0): "1/4", (0, 1): "1/4", (1, 0): "1/4", (1, 1): "1/4"}, "0", PASS),
        ({(0, 0): "1/2", (1, 1): "1/2"}, "1/2", FAIL),
        ({(0, 0): "1/2", (1, 0): "1/2"}, "1/2", FAIL),
    ],
)
def test_rows_must_be_independent_and_each_its_own(
    joint: dict[tuple[int, int], str], distance: str, verdict: str
) -> None:
    def emitted(token: int) -> Outcome:
        return Emission(0, (), token)

    seen = BatchObservation(
        case="made",
        joint=Law({(emitted(a), emitted(b)): rational(w) for (a, b), w in joint.items()}),
        alone=tuple(Law({emitted(0): HALF, emitted(1): HALF}) for _ in range(2)),
        runs=1,
        slack=rational(0),
        allowed=rational("1/1000000"),
    )
    finding = judge_batch(seen)
    assert batch_invariant(seen) == rational(distance)
    assert (finding.requirement, finding.verdict) == ("batch.invariant", verdict)


def test_a_batch_keeps_rows_apart() -> None:
    class SaysItsFirstToken(Verifier):
        def verify(self, request: Request) -> Result:
            first = request.draft_tokens[:, 0, 0]
            return Result(torch.zeros_like(first), torch.zeros_like(first), first)

    instance = CASES["generic.v2.l2"].instance
    rows = ((instance, ((0, 1),)), (instance, ((1, 0),)))
    seen = observe_batch(program_of(SaysItsFirstToken()), "two", rows)
    assert dict(seen.joint.items()) == {(Emission(0, (), 0), Emission(0, (), 1)): 1}
    assert [dict(law.items()) for law in seen.alone] == [
        {Emission(0, (), 0): 1},
        {Emission(0, (), 1): 1},
    ]


def test_batches_have_rows_of_one_vocabulary_and_of_their_own_kind() -> None:
    def lengths(kind: Sequence[Any]) -> list[set[int]]:
        for batch in kind:
            assert len({instance.vocabulary for instance, _ in batch.rows}) == 1
            assert len({instance.branching for instance, _ in batch.rows}) == 1
            for instance, paths in batch.rows:
                assert len(paths) == instance.drafts
                assert all(len(path) == instance.length for path in paths)
                assert instance.length == 0 or all(map(instance.draft.joint, paths))
        return [{instance.length for instance, _ in batch.rows} for batch in kind]

    assert all(len(each) == 1 for each in lengths(batches("standard")))
    assert all(len(each) == 1 for each in lengths(tuple(mixed("standard"))))
    assert all(len(each) > 1 for each in lengths(tuple(ragged("standard"))))
    assert all(0 in each for each in lengths(tuple(with_padding_rows("standard"))))
    assert {batch.id for batch in reordered("standard")} < {b.id for b in batches("standard")}
    assert max(len(batch.rows) for batch in batches("standard")) > 2


# --- trees -------------------------------------------------------------------------------


class TreeVerifier(ReferenceVerifier):
    """Recursive rejection in trees, row by row."""

    def __init__(self, scheme: str = "iid") -> None:
        super().__init__(ALGORITHMS["recursive_rejection"], scheme=scheme)


class TreeRowsOfTheNeighbour(TreeVerifier):
    """Reads the target's rows of the row before, in trees only."""

    def verify(self, request: Request) -> Result:
        if request.branching is None:
            return super().verify(request)
        p = request.target_probs
        # The rows of one path, since nodes of the neighbour's tree are other nodes.
        along = p[:, :1].expand_as(p).roll(1, 0)
        return super().verify(replace(request, target_probs=along))


def tree_batches(adapter: Any) -> dict[str, Finding]:
    program = program_of(adapter)
    return {
        task.case: task.judge(program, Terms("exact", "standard"))[0]
        for task in tasks(program.declared, "standard")
        if ".tree." in task.case
    }


@pytest.mark.requirement("batch.invariant")
@pytest.mark.parametrize("scheme", ["iid", "without_replacement"])
def test_batches_of_trees_are_asked_of_who_takes_them(scheme: str) -> None:
    found = tree_batches(TreeVerifier(scheme))
    assert set(found) == {
        f"batch.tree.{scheme}.{shape}" for shape in ("b1x2", "b2x2", "b2x2.three")
    }
    assert {each.verdict for each in found.values()} == {PASS}
    assert {each.requirement for each in found.values()} == {"batch.invariant"}


def test_batches_of_larger_trees_are_not_asked_of_who_takes_two_paths() -> None:
    two = TreeVerifier()
    two.max_drafts = 2
    assert set(tree_batches(two)) == {"batch.tree.iid.b1x2"}
    flat = TreeVerifier()
    flat.trees = False
    assert tree_batches(flat) == {}


@pytest.mark.requirement("batch.invariant")
def test_trees_that_know_of_each_other_are_seen() -> None:
    """Alone, the neighbour's first path stands in for all paths: the batch is what differs."""
    found = tree_batches(TreeRowsOfTheNeighbour())
    assert {each.verdict for each in found.values()} == {FAIL}
