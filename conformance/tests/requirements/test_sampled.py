from __future__ import annotations

import re
from collections.abc import Iterator
from math import inf
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.exchange import as_given
from draftproof.conformance.lanes.statistics import (
    Budget,
    mean_outlook,
    outcomes_to_reject,
    outlook,
    tally,
)
from draftproof.conformance.museum.mutants import EXHIBITS, GreedyBlockWithCappedRatio
from draftproof.conformance.museum.mutants.verifiers import GreedyBlock
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.requirements import sampled
from draftproof.conformance.requirements._nulls import emission_law_of, null_hypotheses
from draftproof.conformance.requirements.pairs import sample_pairs
from draftproof.conformance.requirements.sampled import EFFORTS, Effort, sample
from draftproof.reference.drafting import draft_law
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, verification_law

META = Path(__file__).parents[1] / "meta"
SMALL = Effort(2**14, 0.05)

EVERY = {
    "length.bounded",
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
}


def right(name: str) -> Any:
    return load_adapter(f"{META / 'right.py'}:{name}")


def wrong(name: str) -> Any:
    return next(each.make() for each in EXHIBITS.values() if each.make.__name__ == name)


def instance(case: str) -> Instance:
    return next(each.instance for each in cases("standard") if each.id == case)


def judged(adapter: Any, where: Instance, **terms: Any) -> dict[str, sampled.TestResult]:
    return sample(program_of(adapter), where, **terms)


def verdicts(tested: dict[str, sampled.TestResult]) -> set[str]:
    return {found.verdict for found in tested.values()}


# --- right verifiers ------------------------------------------------------------------------


@pytest.mark.requirement("law.lossless", "law.reference")
def test_what_a_stateful_verifier_emits_is_continued_by_what_its_algorithm_leaves() -> None:
    effort = EFFORTS["quick"]
    tested = judged(GreedyBlock(), instance("banked"), seed=1, effort=effort)
    assert set(tested) == EVERY
    assert verdicts(tested) == {"pass"}
    capped = GreedyBlockWithCappedRatio()
    tested = judged(capped, instance("banked"), seed=1, effort=effort, to_the_end=True)
    # Computed, the text of the capped one is off by 1/8, and so is its law.
    for requirement in ("law.lossless", "law.reference"):
        assert tested[requirement].verdict == "fail"
        assert abs(tested[requirement].distance - 1 / 8) < 0.03
    # It accepts less than any that is not greedy may.
    assert tested["length.bounded"].verdict == "pass"


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "length.optimal",
)
@pytest.mark.parametrize("name", ["Batched", "Double", "WithGenerator", "torch-block"])
@pytest.mark.parametrize("case", ["zeros.both", "generic.v3.l2"])
def test_what_is_right_passes(name: str, case: str) -> None:
    adapter = load_adapter(name) if name == "torch-block" else right(name)
    effort = EFFORTS["quick"]
    tested = judged(adapter, instance(case), seed=1, effort=effort)
    claimed = {"length.optimal"} if adapter.algorithm == "block" else set()
    assert set(tested) == EVERY | claimed
    for found in tested.values():
        assert found.verdict == "pass"
        assert found.distance <= found.bound <= 2 * effort.bias
        assert found.log_evidence < found.threshold == Budget(tests=5).threshold
        assert 0 < found.emissions <= effort.emissions
        assert 0 < found.detectable < 0.2
        assert found.power == 0.9


def test_a_verifier_that_takes_one_row_is_given_one() -> None:
    tested = judged(
        right("OneAtATime"), instance("generic.v2.l1"), seed=1, effort=Effort(1024, 0.2)
    )
    assert verdicts(tested) == {"pass"}


def test_what_the_budget_does_not_decide_is_inconclusive() -> None:
    tested = judged(right("Batched"), instance("generic.v3.l2"), seed=1, effort=Effort(300, 0.01))
    assert {found.emissions for found in tested.values()} == {300}
    assert verdicts(tested) == {"inconclusive"}


def test_an_unknown_algorithm_is_asked_for_its_text_alone() -> None:
    adapter = right("Batched")
    adapter.algorithm = "our own"
    tested = judged(adapter, instance("generic.v2.l2"), seed=1, effort=SMALL)
    assert set(tested) == {"law.lossless", "law.support", "law.prefix", "length.bounded"}
    assert verdicts(tested) == {"pass"}
    with pytest.raises(Unsupported, match=r"^pairs of emissions are held against the law of an"):
        sample_pairs(program_of(adapter), instance("generic.v2.l2"), seed=1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_narrow_floats_are_allowed_their_rounding(dtype: str) -> None:
    adapter = right("Batched")
    adapter.dtype = dtype
    adapter.verify = widened(adapter.verify)
    tested = judged(adapter, instance("generic.v2.l1"), seed=1, effort=SMALL)
    assert verdicts(tested) == {"pass"}


def widened(verify: Any) -> Any:
    return lambda asked: verify(
        Request(asked.draft_tokens, asked.draft_probs.double(), asked.target_probs.double())
    )


def test_logits_and_noise_are_given_to_those_that_ask_for_them() -> None:
    class Asking:
        name, version, algorithm, logits = "asking", "1", "token", True

        def __init__(self) -> None:
            self.noise = {"coins": ("uniform", "L")}

        def verify(self, asked: Request) -> Result:
            assert asked.draft_logits is not None
            assert asked.target_logits is not None
            assert asked.noise is not None
            path = asked.draft_tokens[:, 0]
            q, p = (x[:, 0].double().softmax(-1) for x in (asked.draft_logits, asked.target_logits))
            ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
            accepted = (asked.noise["coins"] < ratio).long().cumprod(-1).sum(-1)
            rows = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)
            token = torch.multinomial(rows[torch.arange(len(p)), accepted], 1)[:, 0]
            return Result(accepted, torch.zeros_like(accepted), token)

    assert verdicts(judged(Asking(), instance("generic.v3.l2"), seed=1)) == {"pass"}


# --- wrong verifiers ------------------------------------------------------------------------

# Where each is seen, and by which requirement. SureTokensSkipTheCoin needs a token sure to 1/1000.
SEEN: dict[str, tuple[str, str]] = {
    "SearchesUnnormalised": ("generic.v2.l1", "law.reference"),
    "CorrectsFromTarget": ("generic.v2.l1", "law.reference"),
    "CorrectsWithoutToken": ("generic.v3.l2", "law.reference"),
    "CorrectsByDistance": ("generic.v2.l1", "law.reference"),
    "BonusFromDraft": ("zeros.both", "law.reference"),
    "BonusOneRowEarly": ("zeros.both", "law.reference"),
    "CountsEveryPass": ("generic.v2.l2", "law.reference"),
    "CoinRejectsAndCorrects": ("near-one.draft", "law.lossless"),
    "OneCoinForAllPositions": ("generic.v4.l3", "law.reference"),
    "AcceptsEverything": ("generic.v2.l2", "law.lossless"),
    "AcceptsByTargetAlone": ("generic.v2.l1", "length.expected"),
    "SureTokensSkipTheCoin": ("near-one.sure", "law.reference"),
    "OneHotUnderTheNameToken": ("generic.v2.l1", "length.expected"),
    "BlockWithTokenResidual": ("generic.v4.l3", "law.reference"),
    "BlockStopsAtFirstFailure": ("generic.v2.l2", "length.optimal"),
    "BlockFlagIgnored": ("generic.v3.l2", "law.reference"),
    "SearchesOffTheEnd": ("generic.v2.l1", "law.prefix"),
    "CrashesOnRejection": ("generic.v2.l1", "law.prefix"),
}

# No law of one row, alone, shows them.
IN_PAIRS = {"OneCoinForAllRows": "generic.v2.l2", "BonusOfTheNextRequest": "generic.v3.l2"}


@pytest.mark.requirement(
    "law.lossless", "law.reference", "law.prefix", "length.expected", "length.optimal"
)
@pytest.mark.parametrize("name", SEEN)
def test_what_is_wrong_fails(name: str) -> None:
    case, requirement = SEEN[name]
    tested = judged(wrong(name), instance(case), seed=2, effort=EFFORTS["standard"])
    found = tested[requirement]
    assert found.verdict == "fail"
    assert found.log_evidence >= found.threshold
    assert found.emissions < 100_000


@pytest.mark.requirement("batch.invariant")
@pytest.mark.parametrize("name", IN_PAIRS)
def test_what_is_wrong_with_the_batch_fails_in_pairs_and_not_alone(name: str) -> None:
    adapter, where = wrong(name), instance(IN_PAIRS[name])
    assert sample_pairs(program_of(adapter), where, seed=2)["batch.invariant"].verdict == "fail"
    alone = judged(adapter, where, seed=2, effort=Effort(2048, 0.2), alone=True)
    assert "fail" not in verdicts(alone)


def test_what_decided_is_said() -> None:
    def what(name: str, case: str, requirement: str) -> str:
        return judged(wrong(name), instance(case), seed=3, to_the_end=True)[requirement].what

    never = "a forbidden outcome: what the target never says"
    assert what("BonusFromDraft", "zeros.both", "law.support") == never
    text = "the law of the text is another one: it has a forbidden outcome"
    assert what("BonusFromDraft", "zeros.both", "law.lossless") == text
    told = "correct() takes 2 positional arguments but 3 were given"
    raised = f"a forbidden outcome: raised TypeError: {told}"
    assert what("CrashesOnRejection", "generic.v2.l1", "law.prefix") == raised
    returned = what("SearchesOffTheEnd", "generic.v2.l1", "law.prefix")
    assert re.fullmatch(
        "a forbidden outcome: returned accepted length [01], path 0, next token [23]", returned
    )
    assert (
        what("BlockFlagIgnored", "generic.v3.l2", "law.lossless")
        == "the law of the text is another one"
    )


def test_a_run_may_go_on_after_a_failure() -> None:
    adapter = wrong("OneHotUnderTheNameToken")
    short, whole = (
        judged(adapter, instance("generic.v2.l2"), seed=3, effort=SMALL, to_the_end=to_end)
        for to_end in (False, True)
    )
    assert short["law.reference"] == whole["law.reference"]
    assert whole["law.lossless"].emissions > short["law.lossless"].emissions
    assert short["law.lossless"].verdict == "inconclusive"
    assert whole["law.lossless"].verdict == "pass"


# --- results that are none ------------------------------------------------------------------


def answering(**columns: Any) -> Any:
    """Return an adapter that answers with these columns, of B rows each."""

    def verify(asked: Request) -> Any:
        rows = len(asked.draft_tokens)
        zeros = torch.zeros(rows, dtype=torch.int64)
        given = {"accepted_length": zeros, "path": zeros, "next_token": zeros}
        return SimpleNamespace(**{**given, **{k: f(rows) for k, f in columns.items()}})

    return SimpleNamespace(name="answering", version="1", algorithm="token", verify=verify)


@pytest.mark.requirement("law.prefix")
@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"path": lambda b: torch.ones(b)}, "returned accepted length 0, path 1.0, next token 0"),
        ({"path": lambda b: torch.full((b,), -1)}, "returned accepted length 0, path -1, next"),
        ({"next_token": lambda b: torch.full((b,), 0.5)}, "returned accepted length 0, path 0, n"),
        ({"next_token": lambda b: torch.full((b,), float("nan"))}, "returned accepted length 0, p"),
        ({"accepted_length": lambda b: torch.full((b,), 2)}, "returned accepted length 2, path 0"),
        (
            {"accepted_length": lambda b: torch.zeros(b, 1)},
            "raised TypeError: Result.accepted_length must have shape [256], got [256, 1]",
        ),
    ],
)
def test_what_is_no_result_is_counted_and_told(columns: dict[str, Any], words: str) -> None:
    found = judged(answering(**columns), instance("generic.v2.l1"), seed=1)["law.prefix"]
    assert found.verdict == "fail"
    assert found.distance == 1
    assert found.log_evidence == inf
    assert found.what.startswith(f"a forbidden outcome: {words}")


def test_whole_numbers_of_any_dtype_are_results() -> None:
    for dtype in (torch.int32, torch.uint8, torch.float32, torch.bool):
        adapter = answering(path=lambda rows, dtype=dtype: torch.zeros(rows, dtype=dtype))
        found = judged(adapter, instance("generic.v2.l1"), seed=1)["law.prefix"]
        assert found.distance == 0


def test_an_exit_is_a_failure_like_others() -> None:
    def verify(asked: Request) -> Result:
        raise SystemExit(3)

    adapter: Any = SimpleNamespace(name="a", version="1", algorithm="token", verify=verify)
    found = judged(adapter, instance("generic.v2.l1"), seed=1)["law.prefix"]
    told = r"a forbidden outcome: raised SystemExit: 3 \(test_sampled\.py:\d+\)"
    assert re.fullmatch(told, found.what)


# --- several drafts ---------------------------------------------------------------------------


class Reference:
    """Emits what an algorithm of the reference emits, by its exact law on the drafts."""

    version, max_drafts = "1", 2

    def __init__(self, algorithm: str, where: Instance, *, last: bool = False) -> None:
        self.name = self.algorithm = algorithm
        self.scheme = where.scheme
        given = as_given(where, declaration(self))
        self._laws = {
            drafts: verification_law(ALGORITHMS[algorithm], given, drafts)
            for drafts in draft_law(given)
        }
        self._random, self._last = Random(4), last

    def verify(self, asked: Request) -> Result:
        rows = [tuple(map(tuple, row)) for row in asked.draft_tokens.tolist()]
        columns = [self._emitted(drafts) for drafts in rows]
        accepted, path, token = map(torch.tensor, zip(*columns, strict=True))
        return Result(accepted, path, token)

    def _emitted(self, drafts: Any) -> tuple[int, int, int]:
        weights = self._laws[drafts].weights
        (emitted,) = self._random.choices([*weights], [float(w) for w in weights.values()])
        size = len(emitted.accepted)
        sharing = [i for i, path in enumerate(drafts) if path[:size] == emitted.accepted]
        return size, sharing[-1 if self._last else 0], emitted.next_token


def two_drafts(scheme: str) -> Instance:
    def row(text: str) -> tuple[Any, ...]:
        return tuple(rational(weight) for weight in text.split())

    # The draft of the second token is sure after 0: a scheme without replacement runs out there.
    draft = {(): row("1/2 1/2 0"), (0,): row("1 0 0"), (1,): row("1/4 1/4 1/2")}
    return Instance(
        Model("target", 3, {(): row("1/4 1/4 1/2")}, context_free=True),
        Model("draft", 3, draft),
        length=2,
        drafts=2,
        scheme=scheme,
        branching=(1, 2),
    )


@pytest.mark.parametrize(
    ("algorithm", "scheme"),
    [
        ("recursive_rejection", "iid"),
        ("recursive_rejection", "without_replacement"),
        ("naive_tree", "iid"),
    ],
)
def test_several_drafts_of_every_scheme(algorithm: str, scheme: str) -> None:
    where = two_drafts(scheme)
    sizes = {len(drafts) for drafts in draft_law(where)}
    assert sizes == ({2} if scheme == "iid" else {1, 2})
    # Paths that share what was accepted are one and the same.
    for last in (False, True):
        adapter = Reference(algorithm, where, last=last)
        tested = judged(adapter, where, seed=1, effort=SMALL)
        assert set(tested) == EVERY
        assert verdicts(tested) == {"pass"}


@pytest.mark.requirement("law.reference")
def test_another_algorithm_of_several_drafts_fails() -> None:
    where = two_drafts("iid")
    adapter = Reference("target_first", where)
    adapter.algorithm = "recursive_rejection"
    tested = judged(adapter, where, seed=1, effort=SMALL)
    assert tested["law.reference"].verdict == "fail"


def test_an_algorithm_that_does_not_take_the_drafts_is_judged_by_its_text() -> None:
    tested = judged(right("Batched"), two_drafts("iid"), seed=1, effort=SMALL)
    assert set(tested) == {"law.lossless", "law.support", "law.prefix", "length.bounded"}
    assert verdicts(tested) == {"pass"}


# --- the length ---------------------------------------------------------------------------------


def test_a_length_above_the_optimum_is_the_first_to_be_seen() -> None:
    """As computed for a verifier that accepts everything one and a half times too often."""
    where = instance("generic.v3.l2")
    nulls = null_hypotheses(where, "token", 1e-5)
    cells, emission, optimum = nulls.cells, nulls.emission, nulls.optimum
    assert emission is not None
    assert optimum is not None
    emitted = emission_law_of(cells, ALGORITHMS["token"])
    full = cells.accepted == where.length
    emitted[full] *= 1.5
    emitted[~full] *= (1 - emitted[full].sum()) / emitted[~full].sum()
    text = numpy.zeros(len(nulls.text.law))
    for each in nulls.continuations:
        started = tally(each.group, emitted[each.cells], len(each.law))
        numpy.add.at(text, each.text, started[:, None] * each.law)
    lengths = tally(cells.accepted, emitted, where.length + 1)
    outlooks = {
        "length": lambda n: mean_outlook(lengths, optimum + 2e-5, n),
        "emission": lambda n: outlook(emission, emitted, n),
        "text": lambda n: outlook(nulls.text, text, n),
    }
    needed = {each: outcomes_to_reject(after, 22.3) for each, after in outlooks.items()}
    assert needed["length"] < min(needed["emission"], needed["text"])


# --- pairs ----------------------------------------------------------------------------------


class SameSeed:
    """Draws the same numbers in every call."""

    name, version, algorithm = "same seed", "1", "token"

    def verify(self, asked: Request) -> Any:
        torch.manual_seed(0)
        return right("Batched").verify(asked)


class Remembering:
    """Uses a coin of the last call again, one time in five."""

    name, version, algorithm = "remembering", "1", "token"

    def __init__(self) -> None:
        self.last = torch.zeros(0)
        self.verifier = right("Batched")
        self.verifier.accept = self.accept

    def accept(self, ratio: Tensor) -> Tensor:
        coins = torch.rand_like(ratio)
        if self.last.shape == coins.shape:
            coins = torch.where(torch.rand(len(coins), 1) < 0.2, self.last, coins)
        self.last = coins
        return coins < ratio

    def verify(self, asked: Request) -> Any:
        return self.verifier.verify(asked)


@pytest.mark.requirement("batch.invariant", "random.calls")
def test_pairs_of_what_is_right_pass() -> None:
    tested = sample_pairs(program_of(right("Batched")), instance("generic.v2.l2"), seed=1)
    assert {each: found.verdict for each, found in tested.items()} == {
        "batch.invariant": "pass",
        "random.calls": "pass",
    }


@pytest.mark.requirement("batch.invariant", "random.calls")
@pytest.mark.parametrize("kind", [SameSeed, Remembering])
def test_calls_that_depend_on_each_other_fail(kind: type) -> None:
    tested = sample_pairs(program_of(kind()), instance("generic.v3.l2"), seed=1)
    assert tested["random.calls"].verdict == "fail"
    assert tested["random.calls"].what == "consecutive calls depend on each other"
    assert tested["batch.invariant"].verdict != "fail"


def test_one_row_at_a_time_has_no_neighbours() -> None:
    effort = Effort(1024, 0.3)
    tested = sample_pairs(
        program_of(right("OneAtATime")), instance("generic.v2.l1"), seed=1, effort=effort
    )
    assert set(tested) == {"random.calls"}


# --- what a run leaves behind -----------------------------------------------------------------


def test_the_same_seed_gives_the_same_run() -> None:
    first, again, other = (
        judged(right("Batched"), instance("generic.v2.l2"), seed=seed, effort=SMALL)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first["law.reference"].distance != other["law.reference"].distance


@pytest.fixture
def _two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("_two_threads")
def test_nothing_is_left_behind() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    judged(right("Batched"), instance("generic.v2.l1"), seed=1, effort=Effort(600, 0.1))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == 2


def test_a_verifier_that_writes_into_its_request_harms_itself_only() -> None:
    adapter = right("Batched")
    verify = adapter.verify

    def writing(asked: Request) -> Any:
        result = verify(asked)
        for tensor in (asked.draft_tokens, asked.draft_probs, asked.target_probs):
            tensor.zero_()
        return result

    adapter.verify = writing
    tested = judged(adapter, instance("generic.v2.l2"), seed=1, effort=SMALL)
    assert verdicts(tested) == {"pass"}


def test_tokens_that_are_sure_leave_nothing_to_be_seen_but_failures() -> None:
    tested = judged(right("Batched"), instance("single-token"), seed=1, effort=SMALL)
    assert verdicts(tested) == {"pass"}
    assert tested["law.reference"].distance == 0
    assert tested["law.reference"].detectable < 0.01
