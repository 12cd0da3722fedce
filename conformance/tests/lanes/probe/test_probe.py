"""What is found from outside is what the exact lane computes, where both can; and what no lane can
know is refused."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.exchange import Outcome, verified
from draftproof.conformance.lanes.observe import PROBE, observe
from draftproof.conformance.lanes.probe import (
    OpaqueRandomness,
    ProbedLaw,
    TooManyRuns,
    probed_laws,
    share_of,
)
from draftproof.conformance.museum.mutants import EXHIBITS
from draftproof.conformance.museum.mutants.verifiers import Supplied
from draftproof.conformance.protocol.adapter import (
    Adapter,
    Request,
    Result,
    declaration,
    program_of,
)
from draftproof.conformance.requirements.laws import judge
from draftproof.reference.drafting import draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.rational import ONE, Rational, rational

META = Path(__file__).parents[2] / "meta"
INSTANCES = {case.id: case.instance for case in cases("standard")}
UNIT = rational("1/2") ** 24

# So many fresh points that what is wrong on a twelfth of its noise escapes once in 70,000 times.
HELD_BACK = 128


def loaded(file: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"probed_{file}", META / f"{file}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RIGHT = loaded("right")
WRONG = {each.make.__name__: each.make for each in EXHIBITS.values()}


def compare(adapter: Adapter, case: str) -> tuple[ProbedLaw[Outcome], ...]:
    """Probe the adapter on all drafts of a case, and hold the laws against the exact lane's.

    The exact lane takes uniform noise as continuous, and the program rounds what it computes of it:
    two units for each of L coins and V tokens.
    """
    instance, declared = INSTANCES[case], declaration(adapter)
    drafted = list(draft_law(instance))

    def verify(batch: Sequence[int]) -> tuple[Outcome, ...]:
        return verified(adapter, [(instance, drafted[subject]) for subject in batch], declared)

    found = probed_laws(
        verify,
        len(drafted),
        batched=declared.batch,
        vocabulary=instance.vocabulary,
        held_back=HELD_BACK,
    )
    for subject, probed in enumerate(found):
        exact = exact_law(partial(verify, [subject]))
        expected = exact.law.map(lambda outcomes: outcomes[0])
        allowed = (
            probed.resolution + exact.slack + 2 * (instance.length + instance.vocabulary) * UNIT
        )
        assert probed.law.map(dataclasses.astuple).total_variation(expected) <= allowed
        assert probed.resolution < rational("1/200000")
    return found


@pytest.mark.parametrize(
    "name",
    [
        "Batched",
        "InverseCdf",
        "SearchSorted",
        "GumbelRace",
        "GuardedGumbelRace",
        "ExponentialRace",
        "LogSpace",
        "BernoulliAccepts",
        "Flipped",
        "Double",
        "WidenedInside",
        "WithGenerator",
        "SharedRace",
        "BlockVectorised",
    ],
)
def test_a_right_verifier_has_the_law_that_the_exact_lane_computes(name: str) -> None:
    compare(getattr(RIGHT, name)(), "generic.v3.l2")


@pytest.mark.parametrize("case", ["near-one.both", "near-one.sure"])
def test_races_that_one_token_nearly_always_wins_are_found(case: str) -> None:
    compare(RIGHT.GumbelRace(), case)


@pytest.mark.parametrize("name", ["RowLoop", "OneAtATime", "BlockInverseCdf"])
def test_so_has_one_that_takes_a_row_at_a_time(name: str) -> None:
    compare(getattr(RIGHT, name)(), "generic.v2.l2")


@pytest.mark.parametrize(
    ("adapter", "case"),
    [
        (FastVerifier("token"), "near-equal"),
        (FastVerifier("block"), "generic.v2.l3"),
        (FastVerifier("block"), "disjoint"),
    ],
)
def test_our_own_have_their_laws(adapter: Adapter, case: str) -> None:
    compare(adapter, case)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("SearchesUnnormalised", "zeros.both"),
        ("CoinRejectsAndCorrects", "zeros.both"),
        ("OneCoinForAllPositions", "generic.v2.l2"),
        ("CountsEveryPass", "near-one.both"),
        ("SureTokensSkipTheCoin", "near-one.sure"),
        ("BlockWithTokenResidual", "banked"),
        ("SearchesOffTheEnd", "generic.v2.l2"),
    ],
)
def test_a_wrong_verifier_has_its_wrong_law(name: str, case: str) -> None:
    compare(WRONG[name](), case)


@pytest.mark.parametrize(
    "name", ["OneCoinForAllRows", "BonusOfTheNextRequest", "CrashesOnRejection"]
)
def test_rows_that_disturb_each_other_are_run_alone(name: str) -> None:
    compare(WRONG[name](), "near-one.both")


class Narrow(RIGHT.Batched):  # type: ignore[misc, name-defined]  # loaded by its path
    dtype = torch.bfloat16


class InNumpy(RIGHT.Batched):  # type: ignore[misc, name-defined]  # as above
    """The whole verification in numpy, on noise that torch drew."""

    def verify(self, request: Request) -> Result:
        path, q, p = (part.numpy() for part in RIGHT.one_path(request))
        rows, length = path.shape
        coins = torch.rand(rows, length).numpy()
        clocks = torch.empty(rows, p.shape[-1]).exponential_().numpy()
        accepted, tokens = [], []
        for row in range(rows):
            kept = 0
            while kept < length:
                token = path[row, kept]
                if coins[row, kept] * q[row, kept, token] >= p[row, kept, token]:
                    break
                kept += 1
            rest = p[row, kept] - (q[row, kept] if kept < length else 0)
            tokens.append(int(numpy.argmax(rest.clip(min=0) / clocks[row])))
            accepted.append(kept)
        return RIGHT.result(tensor(accepted), tensor(tokens))  # type: ignore[no-any-return]  # as above


def test_narrow_noise_has_its_own_grid() -> None:
    compare(Narrow(), "generic.v2.l2")


def test_numpy_in_the_middle_hides_nothing() -> None:
    instance = INSTANCES["generic.v3.l2"]
    drafted, declared = list(draft_law(instance)), declaration(InNumpy())

    def laws(adapter: Adapter) -> tuple[ProbedLaw[Outcome], ...]:
        return probed_laws(
            lambda batch: verified(adapter, [(instance, drafted[i]) for i in batch], declared),
            len(drafted),
            batched=True,
            vocabulary=3,
            held_back=HELD_BACK,
        )

    for hidden, plain in zip(laws(InNumpy()), laws(RIGHT.Batched()), strict=True):
        allowed = hidden.resolution + plain.resolution + 10 * UNIT
        assert hidden.law.total_variation(plain.law) <= allowed


def accepts(law: Law[Outcome]) -> Rational:
    """Return the probability that a token is accepted."""
    return law.probability(lambda outcome: isinstance(outcome, Emission) and outcome.accepted != ())


class ZeroCoin(RIGHT.Batched):  # type: ignore[misc, name-defined]  # as above
    """Accepts at a coin that is not above the ratio: at the number 0, what is never to be said."""

    def accept(self, ratio: Tensor) -> Tensor:
        return torch.rand_like(ratio) <= ratio


def test_a_coin_of_zero_is_seen_to_accept_what_has_no_probability() -> None:
    instance = INSTANCES["disjoint"]
    drafted, declared = next(iter(draft_law(instance))), declaration(ZeroCoin())
    (found,) = probed_laws(
        lambda batch: verified(ZeroCoin(), [(instance, drafted)] * len(batch), declared),
        1,
        batched=True,
        vocabulary=instance.vocabulary,
    )
    assert accepts(found.law) > UNIT * (1 - UNIT)
    strict, *_ = compare(RIGHT.Batched(), "disjoint")
    assert accepts(strict.law) == 0


def test_a_triton_kernel_has_the_law_of_what_it_was_made_after() -> None:
    """Right or wrong; in a process of its own, for Triton interprets always or never."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not to be had on this platform")
    run = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "triton_token.py")],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    for report in json.loads(run.stdout):
        assert report["distance"] <= report["resolution"] < 1e-5


# --- small programs ----------------------------------------------------------------------

WEIGHTS = tensor([0.125, 0.25, 0.625])
DRAW = Law({0: rational("1/8"), 1: rational("1/4"), 2: rational("5/8")})

Program = Callable[[], Any]


def probe(program: Program, **options: Any) -> ProbedLaw[Any]:
    """Return the law of a program of one row."""

    def verify(batch: Sequence[int]) -> list[Any]:
        outcome = program()
        return [tuple(outcome.flatten().tolist()) if isinstance(outcome, Tensor) else outcome]

    (found,) = probed_laws(verify, 1, batched=False, vocabulary=3, **options)
    return found


def law(program: Program, **options: Any) -> Law[Any]:
    return probe(program, **options).law


def exponential() -> Tensor:
    return torch.empty(3).exponential_()


def by_item(clocks: Tensor) -> int:
    return max(range(3), key=lambda i: float(WEIGHTS[i]) / clocks[i].item())


COMPILED = torch.compile(
    lambda w: (w / torch.empty_like(w).exponential_()).argmax(), backend="eager"
)

RACES: dict[str, Program] = {
    "clocks": lambda: int((WEIGHTS / exponential()).argmax()),
    "clocks, smallest": lambda: int((exponential() / WEIGHTS).argmin()),
    "-log u, in numpy": lambda: int(
        (WEIGHTS.numpy() / -numpy.log(torch.rand(3).numpy().clip(min=1e-30))).argmax()
    ),
    "-log(1 - u), in numpy": lambda: int(
        (-numpy.log1p(-torch.rand(3).numpy()) / WEIGHTS.numpy()).argmin()
    ),
    "gumbel": lambda: int((WEIGHTS.log() - (-torch.rand(3).log()).log()).argmax()),
    "gumbel, tempered": lambda: int(
        ((WEIGHTS.log() - (-torch.rand(3).log()).log()) / 0.7).argmax()
    ),
    "gumbel_softmax": lambda: int(F.gumbel_softmax(WEIGHTS.log(), hard=True).argmax()),
    "keys": lambda: int((torch.rand(3) ** (1 / WEIGHTS)).argmax()),
    "compiled": lambda: int(COMPILED(WEIGHTS)),
    "one by one, by item": lambda: by_item(exponential()),
    "squares of clocks": lambda: int((WEIGHTS.double() ** 2 / exponential() ** 2).argmax()),
}


@pytest.mark.parametrize("program", RACES.values(), ids=RACES)
def test_a_race_is_found(program: Program) -> None:
    found = probe(program)
    assert found.law.total_variation(DRAW) <= found.resolution
    assert found.resolution < rational("1/300000")


UNEQUAL: dict[str, Callable[[Tensor, int], Tensor]] = {
    "clocks": lambda w, rows: w / torch.empty(rows, 3).exponential_(),
    "gumbel": lambda w, rows: w.log() - (-torch.rand(rows, 3).log()).log(),
    "guarded": lambda w, rows: w.log() - (-(torch.rand(rows, 3) + 1e-10).log() + 1e-10).log(),
    "-log(1 - u)": lambda w, rows: w / -torch.log1p(-torch.rand(rows, 3)),
}


@pytest.mark.parametrize("name", UNEQUAL)
@pytest.mark.parametrize("weights", [(254, 1, 1), (0, 1, 255), (2047, 1, 0), (2**20, 1, 2**10)])
def test_unequal_races_are_found_from_wherever_the_search_starts(
    weights: tuple[int, ...], name: str
) -> None:
    """Each subject's search tries other points."""
    row = tensor(weights, dtype=torch.float32) / sum(weights)
    expected = Law({i: rational(w) / sum(weights) for i, w in enumerate(weights)})

    def verify(batch: Sequence[int]) -> list[int]:
        winners: list[int] = UNEQUAL[name](row, len(batch)).argmax(-1).tolist()
        return winners

    for found in probed_laws(verify, 24, batched=True, vocabulary=3, held_back=HELD_BACK):
        assert found.law.total_variation(expected) <= found.resolution


def test_what_never_rings_never_wins() -> None:
    weights = tensor([0.0, 0.25, 0.75])
    expected = Law({1: rational("1/4"), 2: rational("3/4")})
    found = probe(lambda: int((weights / exponential()).argmax()))
    assert set(found.law) == {1, 2}
    assert found.law.total_variation(expected) <= found.resolution


@pytest.mark.parametrize("case", ["generic.v2.l1", "equal.first", "zeros.both"])
def test_a_race_is_seen_sharply_enough_to_pass(case: str) -> None:
    """Where rounding is allowed least, the lane's own doubt must leave room for a verdict."""
    observed = observe(
        program_of(Supplied()), next(c for c in cases("quick") if c.id == case), lane=PROBE
    )
    assert {finding.verdict for finding in judge(observed)} <= {"pass", "skipped"}
    assert 0 < observed.slack < observed.allowed


def test_races_follow_each_other() -> None:
    def program() -> tuple[int, int]:
        first = int((WEIGHTS / exponential()).argmax())
        return first, int((WEIGHTS.roll(first) / exponential()).argmax())

    found = probe(program)
    for first in range(3):
        for second in range(3):
            expected = DRAW[first] * DRAW[(second - first) % 3]
            assert abs(found.law[first, second] - expected) <= found.resolution


def test_a_coin_may_depend_on_a_race() -> None:
    def program() -> tuple[int, bool]:
        winner = int((WEIGHTS / exponential()).argmax())
        return winner, bool(torch.rand(()) < WEIGHTS[winner])

    found = probe(program)
    for winner in range(3):
        expected = DRAW[winner] * DRAW[winner]
        assert abs(found.law[winner, True] - expected) <= found.resolution


def test_coins_as_many_as_tokens_are_not_taken_for_clocks() -> None:
    assert law(lambda: torch.rand(3) < WEIGHTS) == exact_law(lambda: torch.rand(3) < WEIGHTS).law
    clocks = law(lambda: exponential() < WEIGHTS)
    ideal = exact_law(lambda: exponential() < WEIGHTS).law
    assert clocks.total_variation(ideal) < 4 * UNIT


def test_coins_as_many_as_tokens_are_all_tried_at_their_ends_at_once() -> None:
    """Where p is next to q, what is refused lies in a corner; and KL + 1 coins may be V."""

    def program() -> tuple[bool, bool]:
        first, second, mark = torch.rand(3)
        return bool((first < 0.98) | (second < 0.98)), bool(mark < 0.5)

    assert law(program) == exact_law(program).law


EXACT: dict[str, tuple[Program, dict[Any, str]]] = {
    "a threshold": (lambda: float(torch.rand(1)) < 0.375, {True: "3/8", False: "5/8"}),
    "a zero coin": (
        lambda: bool(torch.rand(()) <= 0),
        {True: "1/16777216", False: "16777215/16777216"},
    ),
    "a sure coin": (lambda: bool(torch.rand(()) < 1), {True: "1"}),
    "the largest number": (
        lambda: torch.rand(()).item() == 1 - 2.0**-24,
        {True: "1/16777216", False: "16777215/16777216"},
    ),
    "a logarithm": (
        lambda: math.log(1 - float(torch.rand(1))) > math.log(0.25),
        {True: "3/4", False: "1/4"},
    ),
    "an integer": (lambda: int(torch.randint(0, 3, ())), dict.fromkeys(range(3), "1/3")),
    "one coin, twice": (
        lambda: (lambda u: (u < 0.5, u < 0.25))(torch.rand(()).item()),
        {(True, True): "1/4", (True, False): "1/4", (False, False): "1/2"},
    ),
    "an interval": (
        lambda: 0.5 <= torch.rand(()).item() < 0.53125,
        {True: "1/32", False: "31/32"},
    ),
    "no noise": (lambda: 7, {7: "1"}),
    "a buffer": (lambda: bool(torch.rand(500)[321] < 0.25), {True: "1/4", False: "3/4"}),
}


@pytest.mark.parametrize("name", EXACT)
def test_walls_are_found_to_the_last_number_of_the_grid(name: str) -> None:
    program, expected = EXACT[name]
    found = probe(program)
    assert {outcome: str(weight) for outcome, weight in found.law.items()} == expected
    assert found.resolution < rational("1/2") ** 48


def test_an_island_that_is_found_once_is_found_in_every_part() -> None:
    """Of a coin whose outcome comes back behind it; other coins' walls part it in four.

    Few points show few of the parts by themselves.
    """

    def verify(subjects: Sequence[int]) -> list[int]:
        coin, part = torch.rand(2, len(subjects), dtype=torch.float64)
        is_island = (coin >= 0.75) & (coin < 0.75 + 2**-6)
        return torch.where(is_island, 4, (part * 4).to(torch.int64)).tolist()

    found = probed_laws(verify, 12, batched=True, vocabulary=2, held_back=HELD_BACK)
    seen = [each.law.probability(lambda outcome: outcome == 4) for each in found]
    assert set(seen) <= {rational(0), rational("1/64")}
    # All four parts are missed where 128 points are: 0.13 of the searches, in which others were.
    assert seen.count(rational("1/64")) > 6


def test_draws_have_their_law_to_the_last_digit() -> None:
    found = probe(lambda: torch.multinomial(WEIGHTS, 2))
    expected = exact_law(lambda: torch.multinomial(WEIGHTS, 2)).law
    assert found.law.total_variation(expected) <= found.resolution < rational("1/10000000000")


# --- what is refused ---------------------------------------------------------------------

counter = count()

OPAQUE: dict[str, tuple[Program, str]] = {
    "no race": (lambda: int((WEIGHTS - exponential()).argmax()), "nor raced"),
    "a race of uniform noise": (lambda: int((WEIGHTS * torch.rand(3)).argmax()), "nor raced"),
    "the first two": (lambda: (WEIGHTS / exponential()).topk(2).indices, "nor raced"),
    "a sum": (lambda: bool(torch.rand(2).sum() < 1), "neither compared"),
    "two coins against each other": (
        lambda: torch.rand(()).item() < torch.rand(()).item(),
        "neither compared",
    ),
    "a hash": (
        lambda: int(torch.randint(0, 2**31, ())) * 2654435761 // 2**7 % 3,
        "neither compared",
    ),
    "normal noise": (lambda: bool(torch.randn(()) < 0), "of a kind that cannot be fed"),
    "python": (lambda: random.random() < 0.5, "Python's random module"),
    "numpy": (lambda: bool(numpy.random.rand() < 0.5), "numpy.random"),
    "the clock": (lambda: time.perf_counter_ns(), "with the same random numbers"),
    "a count of calls": (lambda: next(counter), "with the same random numbers"),
    "a seed": (lambda: torch.manual_seed(1).initial_seed(), "torch's global generator"),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_is_not_understood_is_refused(name: str) -> None:
    program, reason = OPAQUE[name]
    with pytest.raises(OpaqueRandomness, match=reason):
        probe(program)


def test_a_refusal_names_the_operator_and_the_line() -> None:
    with pytest.raises(OpaqueRandomness) as refusal:
        probe(lambda: bool(torch.rand(2).sum() < 1))
    assert refusal.value.operator == "aten.rand.default"
    assert "torch.rand(2).sum() < 1" in refusal.value.source


def test_a_race_that_holds_on_most_noise_only_is_refused() -> None:
    def program() -> int:
        clocks = exponential()
        return int((WEIGHTS / clocks).argmax()) if clocks.sum() < 6 else 0

    with pytest.raises(OpaqueRandomness, match="nor raced"):
        probe(program)


def test_noise_that_is_kept_is_noticed() -> None:
    kept: list[Tensor] = []

    def program() -> bool:
        if not kept:
            kept.append(torch.rand(()))
        return bool(kept[0] < 0.5)

    with pytest.raises(OpaqueRandomness, match="it keeps noise"):
        probe(program)


def test_a_program_that_needs_too_many_rows_is_given_up() -> None:
    with pytest.raises(TooManyRuns, match="subject 0 needs more than 100 rows of the program"):
        probe(lambda: bool(torch.rand(()) < 0.5), most_runs=100)


def test_a_wrong_number_of_outcomes_is_an_error() -> None:
    with pytest.raises(ValueError, match="verify returned 2 outcomes for 1 rows"):
        probed_laws(lambda batch: [0, 0], 1, batched=False, vocabulary=2)


def test_what_the_program_raises_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        probe(lambda: 1 // 0)


# --- how it is found ---------------------------------------------------------------------


def test_all_subjects_share_the_calls() -> None:
    calls: list[int] = []
    thresholds = torch.linspace(0, 1, 33)

    def verify(batch: Sequence[int]) -> list[bool]:
        calls.append(len(batch))
        below: list[bool] = (torch.rand(len(batch)) < thresholds[list(batch)]).tolist()
        return below

    found = probed_laws(verify, 33, batched=True, vocabulary=2)
    assert [probed.law[True] for probed in found] == [rational(i) / 32 for i in range(33)]
    assert sum(calls) == sum(probed.runs for probed in found) + 0
    together = [rows for rows in calls if rows > 1]
    assert len(together) < 100
    assert max(together) == 4096


def test_the_last_subjects_have_the_rows_of_calls_to_themselves() -> None:
    """A number of double precision has 53 bits: as many calls, if an interval is cut in two."""
    calls: list[int] = []
    thresholds = torch.tensor([*[1.0] * 63, 0.3], dtype=torch.float64)

    def verify(batch: Sequence[int]) -> list[bool]:
        calls.append(len(batch))
        coins = torch.rand(len(batch), dtype=torch.float64)
        below: list[bool] = (coins < thresholds[list(batch)]).tolist()
        return below

    found = probed_laws(verify, 64, batched=True, vocabulary=2, at_once=64)
    assert found[0].law[True] == 1
    assert found[-1].law[True] == rational(math.ceil(0.3 * 2**53)) / 2**53
    assert len(calls) < 53


def test_the_same_law_is_found_every_time() -> None:
    first, second = (probe(lambda: int((WEIGHTS / exponential()).argmax())) for _ in range(2))
    assert first == second


def test_no_subjects_have_no_laws() -> None:
    assert probed_laws(lambda batch: [], 0, batched=True, vocabulary=2) == ()


@pytest.mark.parametrize("subjects", [1, 3, 20])
def test_rows_that_come_out_otherwise_in_a_batch_are_run_alone(subjects: int) -> None:
    def verify(batch: Sequence[int]) -> list[int]:
        threshold = 0.5 if len(batch) == 1 else 0.125
        return [int(coin < threshold) for coin in torch.rand(len(batch), 1).numpy()[:, 0]]

    for found in probed_laws(verify, subjects, batched=True, vocabulary=2):
        assert found.law[1] == rational("1/2")


def test_drafts_are_parts_of_their_instance_where_there_are_many() -> None:
    weight = rational("1/9")
    assert [share_of(weight, alike) for alike in (1, 16, 17)] == [1, 1, weight]


def test_subjects_that_are_judged_together_share_the_points_that_test_their_laws() -> None:
    """The law of all together is tested by 4,096, each of them by as many as it is probable."""

    def verify(batch: Sequence[int]) -> list[int]:
        torch.rand(len(batch))
        return [0] * len(batch)

    shares = [ONE, *(rational(share) for share in ("3/4", "1/8", "1/16", "1/4096"))]
    found = probed_laws(verify, 5, batched=True, vocabulary=2, shares=shares)
    _, heavy, eighth, sixteenth, least = (law.runs for law in found)
    assert heavy - eighth == 4096 * 5 // 8
    assert sixteenth - least == 4096 // 16 - 16
    # What is tried of boxes is less for small parts.
    assert eighth - 512 > 3 * (sixteenth - 256)
