"""The record of power: a part of it is made anew, and its tests are tried on laws made for that."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy
import pytest
from building import power
from building.power import (
    ACROSS,
    EMISSIONS,
    FALSE_ALARM,
    FAULTS,
    REPETITIONS,
    SEQUENTIAL,
    WANTED,
    Seen,
    caught_by_engine,
    distances,
    emissions_needed,
    emissions_needed_at_best,
    inputs,
    observed,
    power_of_pooled,
    power_of_positions,
    power_of_text,
    texts,
)
from scipy.stats import binom, norm

from draftproof.conformance.lanes.statistics import (
    batch_sizes,
    log_evidence,
    no_evidence,
    null,
    updated,
)
from draftproof.conformance.museum.mutants import EXHIBITS
from draftproof.conformance.museum.mutants.mutant import Mutant
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.ledger.instances import example
from draftproof.reference.model import instance_to_json
from draftproof.reference.rational import rational

RECORD = json.loads(power.RECORD.read_text(encoding="utf-8"))
OF = {each["id"]: each for each in RECORD["verifiers"]}

DRAWN_AGAIN = 4 / REPETITIONS**0.5
"""Two shares of this many are further apart than this with a probability below 1e-7."""


@cache
def seen(name: str) -> Seen:
    return observed(name)


def test_the_record_is_of_these_settings() -> None:
    assert RECORD["emissions"] == list(EMISSIONS)
    assert RECORD["repetitions"] == REPETITIONS
    assert RECORD["false_alarm"] == {"chi_square": FALSE_ALARM, "sequential": SEQUENTIAL.total}
    assert RECORD["inputs"] == {name: instance_to_json(each) for name, each in inputs().items()}
    assert list(OF) == ["token", *FAULTS, *ACROSS]
    # As the pages say: nine in ten, one in a hundred, one in a thousand million.
    assert (WANTED, FALSE_ALARM, SEQUENTIAL.total) == (0.9, 0.01, 1e-9)


@pytest.mark.parametrize("name", [*FAULTS, *ACROSS])
def test_faults_are_mutants_of_the_suite(name: str) -> None:
    mutant = EXHIBITS[name]
    assert isinstance(mutant, Mutant)
    assert OF[name]["what"] == mutant.what
    assert OF[name]["breaks"] == mutant.breaks
    assert OF[name]["source"] == list(mutant.source)


@pytest.mark.parametrize("name", ["token", "bonus-one-row-early", "block-with-token-residual"])
def test_distances_and_runs_are_what_the_exact_lane_sees(name: str) -> None:
    found = seen(name)
    again, recorded = distances(found.laws, found.allowed), OF[name]["distances"]
    # Each law is off the exact one's by what is allowed, and six digits of each are told.
    rounding = 2 * max(found.allowed.values()) + 1e-5
    assert again == pytest.approx(recorded, rel=0, abs=rounding)
    assert {what for what in again if again[what]} == {what for what in recorded if recorded[what]}
    assert found.runs["by context"] == OF[name]["runs"]
    assert found.allowed["by context"] == OF[name]["allowed"]


def test_power_is_what_is_counted() -> None:
    name, place = "block-with-token-residual", EMISSIONS.index(100_000)
    found, own = seen(name), OF[name]["power"]
    rows = inputs()
    for test, counted in (
        ("pooled", power_of_pooled(found.laws["alike"], rows["alike"], 100_000)),
        ("positions", power_of_positions(found.laws["by context"], rows["by context"], 100_000)),
        ("text", power_of_text(found.laws["by context"], rows["by context"], 100_000)),
    ):
        assert 0.05 < own[test][place] < 1
        assert counted == pytest.approx(own[test][place], abs=DRAWN_AGAIN)


def test_the_engines_rule_is_what_is_counted() -> None:
    name = "block-with-token-residual"
    counted = caught_by_engine(seen(name).laws["alike"], inputs()["alike"])
    assert counted == pytest.approx(OF[name]["engine"], abs=DRAWN_AGAIN)


def test_a_blind_test_accuses_as_often_as_it_does_a_right_verifier() -> None:
    for name in FAULTS:
        own = OF[name]
        if own["distances"]["pooled, alike"] == 0:
            # So many of 4000 are false alarms but for one time in a million.
            most = binom.isf(1e-6, REPETITIONS, FALSE_ALARM) / REPETITIONS
            assert max(own["power"]["pooled"]) <= most
            assert own["engine"] < 0.03
    # The same law and the same seed: the very same counts.
    for name in ("bonus-from-draft", "bonus-one-row-early"):
        assert OF[name]["power"]["pooled"] == OF["token"]["power"]["pooled"]


def test_every_fault_is_found_by_whole_texts_in_the_end() -> None:
    for name in FAULTS:
        for test in ("text", "sequential"):
            assert OF[name]["power"][test][-1] == 1
        place = min(n for n, count in enumerate(EMISSIONS) if count >= OF[name]["needed"])
        assert OF[name]["power"]["text"][place] > WANTED - 0.05
        assert OF[name]["power"]["text"][place - 2] < WANTED


def test_right_verifiers_are_accused_as_seldom_as_is_said() -> None:
    for test, shares in OF["token"]["power"].items():
        assert max(shares) < (1e-6 if test == "sequential" else 0.02)


def test_the_sequential_test_is_as_strong_as_is_computed() -> None:
    name, count, runs = "bonus-from-draft", 1000, 150
    law, other = power._weights(seen(name).laws["by context"], inputs()["by context"])
    hypothesis, generator = null(law), numpy.random.default_rng(1)
    rejected = 0
    for _ in range(runs):
        evidence = no_evidence(hypothesis)
        for size in batch_sizes(count):
            drawn = generator.multinomial(size, other / other.sum())
            evidence = updated(hypothesis, evidence, drawn.astype(float))
        rejected += log_evidence(hypothesis, evidence) >= SEQUENTIAL.threshold
    computed = OF[name]["power"]["sequential"][EMISSIONS.index(count)]
    # It is said to be right to a few hundredths; three standard errors of 150 runs are 0.12.
    assert 0.2 < computed < 0.8
    assert rejected / runs == pytest.approx(computed, abs=0.05 + 0.12)


def test_marginals_that_are_right_hide_a_text_that_is_wrong() -> None:
    # Fair tokens that always repeat, where the target's are independent.
    instance = example("1/2 1/2", "1/2 1/2")
    repeats = Law({Emission(0, (t,), t): rational("1/2") for t in range(2)})
    text, right = texts(repeats, instance)
    assert text.total_variation(right) == rational("1/2")
    assert power_of_positions(repeats, instance, 10_000) < 0.02
    assert power_of_pooled(repeats, instance, 10_000) < 0.02
    assert power_of_text(repeats, instance, 100) == 1


def test_what_is_needed_at_best_is_enough_and_no_less() -> None:
    bias = 1e-3
    count = emissions_needed_at_best(bias)
    deviation = (count / 4) ** 0.5
    threshold = norm.isf(FALSE_ALARM) * deviation
    assert norm.sf((threshold - count * bias) / deviation) == pytest.approx(WANTED)
    assert emissions_needed_at_best(1e-7) == pytest.approx(3.25e14, rel=0.01)


def test_no_test_is_better_than_the_best() -> None:
    for each in RECORD["hardest"]:
        best = emissions_needed_at_best(each["bias"])
        assert best < each["chi_square"] < each["sequential"]


def test_chi_square_needs_what_its_distance_says() -> None:
    law = numpy.array([0.5, 0.5])
    once = emissions_needed(law, numpy.array([0.51, 0.49]))
    twice = emissions_needed(law, numpy.array([0.52, 0.48]))
    assert once == pytest.approx(4 * twice)


@pytest.mark.parametrize("form", sorted(power.COMPUTED))
def test_pages_show_the_record(form: str) -> None:
    shown: Any = power.COMPUTED[form]()
    assert shown
    if form == "faults":
        assert shown.count("**0**") == sum(
            value == 0
            for name in (*FAULTS, *ACROSS)
            for place, value in OF[name]["distances"].items()
            if place != "positions, alike"
        )
