"""Each requirement on laws that are made by hand, without any program behind them."""

from __future__ import annotations

from typing import Any

import pytest

from draftproof.conformance.observe import (
    BatchObservation,
    Failure,
    InputObservation,
    Observation,
    Outcome,
)
from draftproof.conformance.requirements import (
    FAIL,
    LAWS,
    PASS,
    SKIPPED,
    Finding,
    judge,
    judge_batch,
    judge_inputs,
    reference_law,
)
from draftproof.reference.drafting import draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import ALGORITHMS

HALF = rational("1/2")


def instance(target: str, draft: str, length: int = 1) -> Instance:
    p, q = (tuple(map(rational, row.split())) for row in (target, draft))
    return Instance(
        Model("target", len(p), {(): p}, context_free=True),
        Model("draft", len(q), {(): q}, context_free=True),
        length=length,
    )


def seen(of: Instance, law: Any = None, algorithm: str | None = "token") -> Observation:
    """Return an observation of `law(path)` for every path, the reference's own by default."""
    drafts = draft_law(of)
    blank = Observation(
        case="made",
        instance=of,
        algorithm=ALGORITHMS.get(algorithm or ""),
        drafts=drafts,
        observed={},
        runs=1,
        slack=rational(0),
        allowed=rational("1/1000000"),
    )
    observed = {d: law(d[0]) if law else reference_law(blank, d) for d in drafts}
    return Observation(**{**vars(blank), "observed": observed})


def findings(of: Observation) -> dict[str, Finding]:
    return {finding.requirement: finding for finding in judge(of)}


def distances(of: Observation) -> dict[str, Rational | None]:
    return {finding.requirement: finding.distance for finding in judge(of)}


def sure(outcome: Outcome) -> Law[Outcome]:
    return Law.certain(outcome)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_reference_is_at_distance_zero_of_itself(algorithm: str) -> None:
    found = findings(seen(instance("1/4 3/4", "2/3 1/3", length=2), algorithm=algorithm))
    for finding in found.values():
        assert finding.distance == 0 or finding.verdict == SKIPPED


def test_accepting_everything_has_the_drafts_law() -> None:
    found = distances(seen(instance("1/4 3/4", "1/2 1/2"), lambda p: sure(Emission(0, p, 0))))
    # The text is (draft token, 0): 1/2 each, where the target says 1/16 and 3/16 for these two.
    assert found["law.lossless"] == rational("3/4")
    assert found["length.expected"] == rational("1/4")
    assert found["law.support"] == 0
    assert found["law.prefix"] == 0


def test_what_the_target_never_says_counts_wherever_it_stands() -> None:
    of = instance("1 0", "1/2 1/2")
    accepted = distances(seen(of, lambda p: sure(Emission(0, p, 0))))
    assert accepted["law.support"] == HALF
    said = distances(seen(of, lambda p: sure(Emission(0, (), 1))))
    assert said["law.support"] == 1
    assert said["law.lossless"] == 1


def test_a_failure_is_no_text_and_no_prefix() -> None:
    found = findings(seen(instance("1/2 1/2", "1/2 1/2"), lambda p: sure(Failure("raised X"))))
    assert found["law.prefix"].distance == 1
    assert found["law.prefix"].detail == "raised X"
    assert found["law.lossless"].distance == 1
    assert found["law.support"].distance == 0


def test_the_joint_law_with_the_drafts_is_compared() -> None:
    """Swapping what two paths lead to keeps the text's law, and is still another algorithm."""
    of = instance("1/2 1/2", "1/2 1/2", length=1)

    def swapped(path: tuple[int, ...]) -> Law[Outcome]:
        other = (1 - path[0],)
        return Law({Emission(0, (), other[0]): rational(1)})

    found = distances(seen(of, swapped))
    assert found["law.lossless"] == 0
    assert found["law.reference"] == 1
    assert found["length.expected"] == 1


def test_a_length_above_the_optimum_is_called_impossible() -> None:
    of = instance("1/4 3/4", "1/2 1/2")
    found = findings(seen(of, lambda p: sure(Emission(0, p, 0)), algorithm="block"))
    assert found["length.optimal"].verdict == FAIL
    assert found["length.optimal"].detail == "above the optimum, so it cannot be lossless"
    found = findings(seen(of, lambda p: sure(Emission(0, (), 0)), algorithm="block"))
    assert found["length.optimal"].detail == "below the optimum"


def test_what_does_not_apply_is_skipped_with_its_reason() -> None:
    of = instance("1/4 3/4", "1/2 1/2")
    assert findings(seen(of))["length.optimal"].detail == "token claims no optimum"
    unknown = findings(seen(of, lambda p: sure(Emission(0, (), 0)), algorithm=None))
    for requirement in ("law.reference", "length.expected", "length.optimal"):
        assert unknown[requirement].verdict == SKIPPED
        assert unknown[requirement].detail == (
            f"the reference knows the algorithms {', '.join(ALGORITHMS)} only"
        )
    assert unknown["law.lossless"].verdict == FAIL


def test_lengths_are_allowed_l_times_the_distance() -> None:
    found = findings(seen(instance("1/4 3/4", "2/3 1/3", length=2)))
    assert found["length.expected"].allowed == 2 * rational("1/1000000")
    assert found["law.lossless"].allowed == rational("1/1000000")
    assert set(found) == set(LAWS)


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

    finding = judge_batch(
        BatchObservation(
            case="made",
            joint=Law({(emitted(a), emitted(b)): rational(w) for (a, b), w in joint.items()}),
            alone=tuple(Law({emitted(0): HALF, emitted(1): HALF}) for _ in range(2)),
            runs=1,
            slack=rational(0),
            allowed=rational("1/1000000"),
        )
    )
    assert (finding.distance, finding.verdict) == (rational(distance), verdict)


def test_silence_is_excused_by_a_declaration_only() -> None:
    errors = {"nan": "ValueError: no", "shape": None, "token": None}
    undeclared = judge_inputs(InputObservation(errors, {"token": "trusted"}))
    assert (undeclared.verdict, undeclared.detail) == (FAIL, "accepted in silence: shape")
    declared = judge_inputs(InputObservation(errors, {"token": "trusted", "shape": "trusted"}))
    assert (declared.verdict, declared.detail) == (PASS, "declared undefined: shape, token")
