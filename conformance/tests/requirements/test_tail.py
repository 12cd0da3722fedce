"""Large vocabularies: right verifiers pass, and what hides in the tail is found there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases.tail import TailCase, TailRows, tails
from draftproof.conformance.lanes.compared import noting
from draftproof.conformance.lanes.observe import EXACT, PROBE, SAMPLE
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.museum.mutants.gates import GATED
from draftproof.conformance.museum.mutants.verifiers import Logits, Ragged, Token
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.protocol.tolerance import allowed_given_draft
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding
from draftproof.conformance.requirements.tail import (
    expected_rows,
    is_of_kinds,
    judge_tail,
    kept,
    tasks,
)
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.chance import enumerate_rows
from draftproof.reference.drafting import FixedTree
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import exactly
from draftproof.reference.verifiers import ALGORITHMS

CASES = {case.id: case for case in tails("certify")}
FLAT, BUCKETS = CASES["tail.flat.v50257"], CASES["tail.buckets.v50257"]

pytestmark = pytest.mark.requirement("number.tail")


def judged(adapter: Any, case: TailCase, lane: str = EXACT, mode: str = "quick") -> Finding:
    (finding,) = judge_tail(case, program_of(adapter), Terms(lane, mode, seed=1))
    return finding


@pytest.mark.parametrize("name", ["ragged", "torch-token", "torch-block", "torch-multipath-block"])
def test_what_is_right_passes(name: str) -> None:
    program = program_of(Ragged()) if name == "ragged" else load_program(name)
    for task in tasks(program.declared, "quick"):
        (finding,) = task.judge(program, Terms(EXACT, "quick", seed=1))
        assert (finding.verdict, finding.lane) == (PASS, EXACT), finding


class Unheard(Ragged):
    """Token verification under a name that the reference does not have."""

    algorithm = "unheard"


def test_the_text_is_judged_where_the_algorithm_is_not_known() -> None:
    asked = [task.case for task in tasks(declaration(Unheard()), "quick")]
    assert asked == ["tail.sure.v8193"]
    assert judged(Unheard(), CASES["tail.sure.v8193"]).verdict == PASS


def test_rows_of_logits_are_not_asked_for_what_they_round_away() -> None:
    asked = {task.case for task in tasks(declaration(Logits()), "certify")}
    assert not any("near" in case for case in asked)
    assert judged(Logits(), FLAT).verdict == PASS


def test_short_dtypes_are_asked_for_few_tokens() -> None:
    class Narrow(Ragged):
        dtype = "bfloat16"
        arithmetic = "float32"

    assert {task.case.split(".")[1] for task in tasks(declaration(Narrow()), "certify")} == {
        "edges",
        "special",
    }
    assert judged(Narrow(), CASES["tail.edges.v8193"]).verdict == PASS


HIDDEN = [
    name
    for name, mutant in GATED.items()
    if mutant.breaks == "number.tail" and not name.startswith("seed")
]


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_behind_a_gate_is_found(name: str) -> None:
    assert judged(GATED[name].make(), FLAT).verdict == FAIL


@pytest.mark.parametrize("gate", ["vocabulary", "token", "tail"])
def test_a_seed_of_its_own_is_found_by_samples(gate: str) -> None:
    """The exact lane says why it cannot see the verifier; a row a call shows what it does."""
    mutant = GATED[f"seed-behind-{gate}"]
    with pytest.raises(OpaqueRandomness, match="seed 0"):
        judged(mutant.make(), FLAT)
    assert judged(mutant.make(), BUCKETS, SAMPLE, "certify").verdict == FAIL


def test_samples_pass_what_is_right_and_say_what_they_would_have_seen() -> None:
    finding = judged(Ragged(), BUCKETS, SAMPLE)
    assert finding.verdict == PASS
    assert finding.sampled is not None
    assert finding.sampled.detectable < 0.5
    assert judged(Ragged(), FLAT, SAMPLE).verdict == SKIPPED


class TargetFirst:
    """Sample the target, keep the token if it was drafted: what is drafted is one token of many."""

    name, version, algorithm = "target-first", "1", "target_first"
    max_drafts = 1

    def verify(self, request: Request) -> Result:
        path = torch.zeros(len(request.draft_tokens), dtype=torch.int64)
        accepted, token = path, path
        for depth in range(request.draft_tokens.shape[2] + 1):
            going = accepted == depth
            row = request.target_probs[:, 0, depth]
            drawn = row.multinomial(1, generator=request.generator)[:, 0]
            token = torch.where(going, drawn, token)
            if depth < request.draft_tokens.shape[2]:
                accepted = accepted + (going & (drawn == request.draft_tokens[:, 0, depth]))
        return Result(accepted, path, token)


class LosesHalf(TargetFirst):
    def verify(self, request: Request) -> Result:
        rows = request.target_probs.clone()
        rows[..., rows.shape[-1] // 2 :] = 0
        return super().verify(replace(request, target_probs=rows))


def test_a_token_of_a_kind_is_one_of_many_where_the_algorithm_asks_for_it() -> None:
    """The law of kinds is not that of tokens: the text decides."""
    assert not is_of_kinds(ALGORITHMS["target_first"])
    assert is_of_kinds(ALGORITHMS["token"])
    assert judged(TargetFirst(), BUCKETS, SAMPLE).verdict == PASS
    assert judged(LosesHalf(), CASES["tail.ranges.v50257"], SAMPLE).verdict == FAIL


class CountsInSixteenBits(Token):
    def draw(self, rows: Tensor, request: Request) -> Tensor:
        return super().draw(rows, request) % 2**16


class LosesItsLastBlock(Token):
    def draw(self, rows: Tensor, request: Request) -> Tensor:
        whole = rows.clone()
        whole[:, rows.shape[-1] // 1024 * 1024 :] = 0
        return super().draw(torch.where(whole.sum(-1, keepdim=True) > 0, whole, 1.0), request)


class EndsOneTooEarly(Token):
    def draw(self, rows: Tensor, request: Request) -> Tensor:
        token = super().draw(rows, request)
        return torch.where(token == rows.shape[-1] - 1, 0, token)


class SaysNoToken(Token):
    def draw(self, rows: Tensor, request: Request) -> Tensor:
        return super().draw(rows, request) + rows.shape[-1]


class FloorsWhatIsSmall(Token):
    """Takes a residual of less than 1e-6 for rounding."""

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        owed = super().residual(p, q, path)
        return torch.where(owed.sum(-1, keepdim=True) < 1e-6, p, owed)


class ForgetsTheTail(Token):
    """Corrects from the tokens that are among the likeliest thousand."""

    def draw(self, rows: Tensor, request: Request) -> Tensor:
        least = rows.topk(min(1000, rows.shape[-1]), -1).values[:, -1:]
        return super().draw(torch.where(rows >= least, rows, 0.0), request)


@pytest.mark.parametrize(
    ("verifier", "case"),
    [
        (CountsInSixteenBits(), "tail.edges.v151936"),
        (LosesItsLastBlock(), "tail.edges.v8193"),
        (EndsOneTooEarly(), "tail.edges.v8193"),
        (SaysNoToken(), "tail.edges.v8193"),
        (FloorsWhatIsSmall(), "tail.near.1e-7.v128256"),
        (ForgetsTheTail(), "tail.zipf.v32000"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_faults_of_size_are_found(verifier: Any, case: str) -> None:
    assert judged(verifier, CASES[case]).verdict == FAIL


def test_what_is_no_token_is_told() -> None:
    found = judged(SaysNoToken(), CASES["tail.edges.v8193"])
    assert "a token not in 0..8192" in found.detail


def small(size: int) -> TailRows:
    """Return rows of a few kinds of tokens, L = 1, that are drafted at token 3."""
    random = numpy.random.default_rng(1)
    p, q, bonus = (random.choice([1.0, 2.0, 4.0], size) for _ in range(3))
    q[3], p[3] = 4 * p[3], p[3]
    return TailRows(numpy.stack([p / p.sum(), bonus / bonus.sum()]), (q / q.sum())[None], (3,))


@pytest.mark.parametrize("name", ["token", "block", "multipath_block", "k_seq", "spechub"])
def test_kinds_have_the_law_of_their_tokens(name: str) -> None:
    rows, algorithm = small(40), ALGORITHMS[name]

    def model(which: str, own: Any) -> Model:
        exact = [[exactly(weight) for weight in row.tolist()] for row in own]
        first, *later = [tuple(w / sum(row) for w in row) for row in exact]
        after: dict[tuple[int, ...], Any] = dict(zip([(3,)], later, strict=False))
        return Model(which, 40, {(): first}, context_free=True).overridden(after)

    instance = Instance(model("target", rows.target), model("draft", rows.draft), length=1)

    def verified(chance: Any) -> tuple[int, int]:
        said = algorithm.verify(FixedTree(((3,),), instance), instance, chance)
        return len(said.accepted), said.next_token

    right = enumerate_rows(verified, 40)
    found = expected_rows(algorithm, rows)
    assert {length for length, _ in found} == {*right}
    for length, row in right.items():
        assert numpy.allclose(found[length, 0][1:-1], [*map(float, row)], atol=1e-15)


def test_a_residual_of_rows_as_given_is_allowed_no_more_however_small() -> None:
    as_rows, of_logits = declaration(Token()), declaration(Logits())
    many, few = exactly(1e-3), exactly(1e-7)
    assert allowed_given_draft(as_rows, 1000, [many]) == allowed_given_draft(as_rows, 1000, [few])
    assert allowed_given_draft(of_logits, 1000, [few]) > 1


def test_what_is_compared_is_noted() -> None:
    """On every lane with the vocabulary that the verifier gets, and the tail of its rows."""
    for case, lane in ((FLAT, EXACT), (PLACES, PROBE), (BUCKETS, SAMPLE)):
        with noting() as noted:
            judged(ByMarks() if lane == PROBE else Ragged(), case, lane)
        assert {each.vocabulary for each in noted.laws} == {case.vocabulary}
        assert min(each.atoms for each in noted.laws) >= 1000
        assert (noted.resolution > 0) == (lane == PROBE)


# --- by probe ----------------------------------------------------------------------------------

PLACES = CASES["tail.places.v32000"]


class ByMarks(Ragged):
    """Token verification in numpy, on a coin and a mark of the running sum."""

    def ratios(self, path: Any, ratio: Any) -> Any:
        return ratio

    def weights(self, weights: Any) -> Any:
        return weights

    def verify(self, request: Request) -> Result:
        path = request.draft_tokens[:, 0, 0].numpy()
        q, p, bonus = (
            rows[:, 0, depth].double().numpy()
            for rows, depth in (
                (request.draft_probs, 0),
                (request.target_probs, 0),
                (request.target_probs, 1),
            )
        )
        row = numpy.arange(len(path))
        noise = torch.rand(len(path), 2, dtype=torch.float64, generator=request.generator).numpy()
        accepted = noise[:, 0] < self.ratios(path, p[row, path] / q[row, path])
        owed = numpy.where(accepted[:, None], bonus, (p - q).clip(0))
        running = self.weights(owed).cumsum(1)
        token = (running <= noise[:, 1:] * running[:, -1:]).sum(1)
        return Result(torch.tensor(accepted).long(), torch.zeros(len(row)), torch.tensor(token))


class AcceptsTheEndsOfTiles(ByMarks):
    def ratios(self, path: Any, ratio: Any) -> Any:
        return numpy.where(path % 1024 == 1023, 1.0, ratio)


class LosesTheEndsOfTiles(ByMarks):
    def weights(self, weights: Any) -> Any:
        kept = weights.copy()
        kept[:, 1023::1024] = 0
        return kept


class SwapsNeighboursOfATile(ByMarks):
    def weights(self, weights: Any) -> Any:
        kept = weights.copy()
        kept[:, 1023] += kept[:, 1024]
        kept[:, 1024] = 0
        return kept


@pytest.mark.parametrize("name", ["by-marks", "torch-token", "torch-block"])
def test_walls_are_where_the_law_has_them(name: str) -> None:
    program = program_of(ByMarks()) if name == "by-marks" else load_program(name)
    (finding,) = judge_tail(PLACES, program, Terms(PROBE, "quick", seed=1))
    assert (finding.verdict, finding.lane) == (PASS, PROBE)
    assert finding.distance is not None
    assert 0 < finding.distance < exactly(1e-4)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (AcceptsTheEndsOfTiles, r"the threshold of token \d+ is not within .+ of 0\.\d+"),
        (LosesTheEndsOfTiles, r"the weight of token \d+ (begins|ends) .+ from its place"),
        (SwapsNeighboursOfATile, r"the weight of token \d+ (begins|ends) .+ from its place"),
    ],
)
def test_walls_that_are_elsewhere_are_found(wrong: type[ByMarks], told: str) -> None:
    found = judged(wrong(), PLACES, PROBE)
    assert found.verdict == FAIL
    assert re.fullmatch(told, found.detail)


class TargetFirstByMarks(ByMarks):
    """A coin for whether the target says the drafted token, and a mark for what it says else."""

    algorithm = "target_first"

    def verify(self, request: Request) -> Result:
        tokens = request.draft_tokens[:, 0, 0]
        rows = request.target_probs[:, 0, 0].double()
        said = torch.zeros_like(rows).scatter(1, tokens[:, None], 1.0)
        # To a draft that is sure, p is the ratio, and the rest of p the residual.
        return super().verify(replace(request, draft_probs=said[:, None, None]))


def test_each_algorithm_has_walls_of_its_own() -> None:
    """The target first keeps a token with p, not with p / q, which is what others do."""
    assert kept(ALGORITHMS["target_first"], 0.25, 0.5) == 0.25
    assert kept(ALGORITHMS["token"], 0.25, 0.5) == 0.5
    assert judged(TargetFirstByMarks(), PLACES, PROBE).verdict == PASS
    assert judged(AcceptsTheEndsOfTiles(), PLACES, PROBE).verdict == FAIL


def test_what_races_is_not_probed_here() -> None:
    with pytest.raises(OpaqueRandomness, match="walls are not foretold"):
        judged(Ragged(), PLACES, PROBE)
