"""Each requirement on laws that are made by hand, and on verifiers of several drafts in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes.exchange import Failure, Outcome
from draftproof.conformance.lanes.observe import PROBE, Observation, observe
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED, Finding, Lengths
from draftproof.conformance.requirements.laws import (
    LAWS,
    OutOfReach,
    fits,
    judge,
    judge_case,
    lengths_of,
    optimum,
    reference_law,
    tasks,
)
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import ALGORITHMS, Algorithm

HALF = rational("1/2")


def instance(target: str, draft: str, length: int = 1, **sizes: Any) -> Instance:
    p, q = (tuple(map(rational, row.split())) for row in (target, draft))
    return Instance(
        Model("target", len(p), {(): p}, context_free=True),
        Model("draft", len(q), {(): q}, context_free=True),
        length=length,
        **sizes,
    )


def seen(of: Instance, law: Any = None, algorithm: str | None = "token") -> Observation:
    """Return an observation of `law(drafts)` for all drafts, the reference's own by default."""
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
    return replace(blank, observed={d: law(d) if law else reference_law(blank, d) for d in drafts})


def findings(of: Observation) -> dict[str, Finding]:
    return {finding.requirement: finding for finding in judge(of)}


def distances(of: Observation) -> dict[str, Rational | None]:
    return {finding.requirement: finding.distance for finding in judge(of)}


def sure(outcome: Outcome) -> Law[Outcome]:
    return Law.certain(outcome)


def bonus(of: Instance, drafts: Drafts, mass: Rational) -> dict[Outcome, Rational]:
    """Return what accepts the first draft, with a probability in all, and goes on rightly."""
    return {Emission(0, drafts[0], t): w * mass for t, w in enumerate(of.target(()))}


# --- laws made by hand ---------------------------------------------------------------------


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "length.optimal",
    "random.fresh",
)
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.name)
@pytest.mark.parametrize("drafts", [1, 2])
def test_the_reference_is_at_distance_zero_of_itself(algorithm: Algorithm, drafts: int) -> None:
    most = algorithm.most_drafts or drafts
    for scheme in algorithm.schemes:
        of = instance("1/4 3/4", "2/3 1/3", 2, drafts=min(drafts, most), scheme=scheme)
        found = findings(seen(of, algorithm=algorithm.name))
        for requirement, finding in found.items():
            if requirement == "length.optimal" and not algorithm.optimal:
                assert finding.verdict == SKIPPED
            else:
                assert finding.verdict == PASS
                assert finding.distance == 0


@pytest.mark.requirement("law.lossless", "length.expected", "length.bounded")
def test_accepting_everything_has_the_drafts_law() -> None:
    found = distances(seen(instance("1/4 3/4", "1/2 1/2"), lambda d: sure(Emission(0, d[0], 0))))
    # The text is (draft token, 0): 1/2 each, where the target says 1/16 and 3/16 for these two.
    assert found["law.lossless"] == rational("3/4")
    assert found["length.expected"] == rational("1/4")
    assert found["length.bounded"] == rational("1/4")
    assert found["law.support"] == 0
    assert found["law.prefix"] == 0


@pytest.mark.requirement("law.lossless", "length.expected", "length.bounded")
def test_accepting_one_of_two_drafts_has_the_law_of_the_drafts_choice() -> None:
    of = instance("1/4 3/4", "1/2 1/2", drafts=2)
    found = distances(seen(of, lambda d: sure(Emission(0, max(d), 1)), "recursive_rejection"))
    # The larger of two tokens is 1 with probability 3/4, as the target has it; but then comes a 1.
    assert found["law.lossless"] == rational("1/4")
    # It accepts all, and so do the best lossless verifiers: the larger token has the target's law.
    assert found["length.bounded"] == 0
    # Recursive rejection accepts 1/2 (1 + 1/2) of the 0s and all of the rest: E = 1 - 1/4 + 1/8.
    assert found["length.expected"] == 1 - rational("7/8")


@pytest.mark.requirement("law.support")
def test_what_the_target_never_says_counts_wherever_it_stands() -> None:
    of = instance("1 0", "1/2 1/2")
    accepted = distances(seen(of, lambda d: sure(Emission(0, d[0], 0))))
    assert accepted["law.support"] == HALF
    said = distances(seen(of, lambda d: sure(Emission(0, (), 1))))
    assert said["law.support"] == 1
    assert said["law.lossless"] == 1


@pytest.mark.requirement("law.prefix", "law.lossless")
def test_a_failure_is_no_text_and_no_prefix() -> None:
    found = findings(seen(instance("1/2 1/2", "1/2 1/2"), lambda d: sure(Failure("raised X"))))
    assert found["law.prefix"].distance == 1
    assert found["law.prefix"].detail == "raised X"
    assert found["law.lossless"].distance == 1
    assert found["law.support"].distance == 0


@pytest.mark.requirement("law.reference", "length.expected")
def test_the_joint_law_with_the_drafts_is_compared() -> None:
    """Swapping what two paths lead to keeps the text's law, and is still another algorithm."""
    of = instance("1/2 1/2", "1/2 1/2", length=1)
    found = distances(seen(of, lambda d: sure(Emission(0, (), 1 - d[0][0]))))
    assert found["law.lossless"] == 0
    assert found["law.reference"] == 1
    assert found["length.expected"] == 1


@pytest.mark.requirement("law.reference")
def test_the_path_is_part_of_the_law() -> None:
    of = instance("1/2 1/2", "1/2 1/2", drafts=2, scheme="without_replacement")

    def second(drafts: Drafts) -> Law[Outcome]:
        return Law({Emission(1, drafts[1], 0): HALF, Emission(1, drafts[1], 1): HALF})

    found = distances(seen(of, second, "recursive_rejection"))
    assert found["law.lossless"] == 0
    assert found["length.expected"] == 0
    assert found["law.reference"] == 1


@pytest.mark.requirement("random.fresh")
def test_the_next_token_is_judged_given_what_was_accepted() -> None:
    """A correction that is always 0 is right for one half of it, after every rejection."""
    of = instance("1/4 1/4 1/2", "1/2 1/2 0")

    def wrong(drafts: Drafts) -> Law[Outcome]:
        return Law({**bonus(of, drafts, HALF), Emission(0, (), 0): HALF})

    found = distances(seen(of, wrong))
    # The residual is token 2 for certain; half of the time something is rejected.
    assert found["random.fresh"] == HALF
    assert found["length.expected"] == 0


@pytest.mark.requirement("law.reference", "random.fresh")
def test_a_wrong_accepted_length_is_not_a_stale_next_token() -> None:
    of = instance("1/4 3/4", "1/2 1/2")

    def rarely(drafts: Drafts) -> Law[Outcome]:
        return Law({**bonus(of, drafts, HALF / 2), Emission(0, (), 1): rational("3/4")})

    found = distances(seen(of, rarely))
    assert found["random.fresh"] == 0
    assert found["law.reference"] == HALF


@pytest.mark.requirement("length.bounded", "length.optimal")
def test_a_length_above_the_optimum_is_called_impossible() -> None:
    of = instance("1/4 3/4", "1/2 1/2")
    found = findings(seen(of, lambda d: sure(Emission(0, d[0], 0)), algorithm="block"))
    for requirement in ("length.optimal", "length.bounded"):
        assert found[requirement].verdict == FAIL
        assert found[requirement].detail == "above the optimum, so it cannot be lossless"
    found = findings(seen(of, lambda d: sure(Emission(0, (), 0)), algorithm="block"))
    assert found["length.optimal"].detail == "below the optimum"
    assert found["length.bounded"].verdict == PASS


def test_what_does_not_apply_is_skipped_with_its_reason() -> None:
    of = instance("1/4 3/4", "1/2 1/2")
    assert findings(seen(of))["length.optimal"].detail == "token claims no optimum"
    unknown = findings(seen(of, lambda d: sure(Emission(0, (), 0)), algorithm=None))
    for requirement in ("law.reference", "length.expected", "length.optimal", "random.fresh"):
        assert unknown[requirement].verdict == SKIPPED
        assert unknown[requirement].detail == (
            f"the reference does not have its algorithm, but {', '.join(ALGORITHMS)}"
        )
    assert unknown["law.lossless"].verdict == FAIL
    assert unknown["length.bounded"].verdict == PASS


def test_an_algorithm_is_not_compared_on_drafts_that_it_does_not_take() -> None:
    of = instance("1/4 3/4", "1/2 1/2", drafts=2)
    found = findings(seen(of, lambda d: sure(Emission(0, (), 0)), algorithm="token"))
    assert found["law.reference"].detail == "token verifies at most 1 path, got 2"
    assert found["law.lossless"].verdict == FAIL


def test_distances_are_allowed_as_much_as_the_law_can_move_them() -> None:
    found = findings(seen(instance("1/4 3/4", "2/3 1/3", length=2)))
    assert found["length.expected"].allowed == 2 * rational("1/1000000")
    assert found["random.fresh"].allowed == 2 * rational("1/1000000")
    assert found["law.lossless"].allowed == rational("1/1000000")
    assert set(found) == set(LAWS)


@pytest.mark.requirement("law.lossless", "law.reference", "length.expected", "length.bounded")
def test_lossless_and_slow_is_told_from_lossy() -> None:
    """Keeping a drafted token only if a fresh sample of the target says it loses speed alone."""
    of = instance("1/4 3/4", "1/2 1/2", drafts=2)
    slow = seen(of, algorithm="target_first")
    found = findings(replace(slow, algorithm=None))
    assert found["law.lossless"].verdict == found["length.bounded"].verdict == PASS
    # E[accepted length] is 1 - (1 - 1/2)^2, where the best verifiers accept all.
    assert lengths_of(slow) == Lengths(observed=0.75, optimum=1.0)
    named = findings(replace(slow, algorithm=ALGORITHMS["recursive_rejection"]))
    assert named["law.lossless"].verdict == PASS
    assert named["length.expected"].distance == rational("1/8")
    assert named["law.reference"].verdict == FAIL


def test_the_text_is_shown_beside_the_targets() -> None:
    """Whatever is drafted, this verifier says the target's text: of two tokens, with q = p."""
    law = findings(seen(instance("1/4 3/4", "1/4 3/4")))["law.lossless"].law
    assert law is not None
    shown = {each.text: (each.observed, each.expected) for each in law}
    quarters = {(a, b): (1, 3)[a] * (1, 3)[b] / 16 for a in (0, 1) for b in (0, 1)}
    assert shown == {text: (weight, weight) for text, weight in quarters.items()}


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        (
            {"length": 7, "drafts": 2},
            "no optimum is computed for 128 paths that can be drafted, more than 64",
        ),
        (
            {"drafts": 14},
            "no optimum is computed for 16384 ways to draw the first tokens, more than 10000",
        ),
    ],
)
def test_an_optimum_that_takes_too_long_is_not_asked_for(sizes: Any, reason: str) -> None:
    with pytest.raises(OutOfReach, match=reason):
        optimum(instance("1/4 3/4", "1/2 1/2", **sizes))


# --- which cases ---------------------------------------------------------------------------


class Declared:
    name, version, algorithm = "declared", "1", "recursive_rejection"

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def verify(self, request: Request) -> Result:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("declared", "schemes", "most"),
    [
        ({}, {"iid"}, 1),
        ({"max_drafts": 2}, {"iid"}, 2),
        ({"max_drafts": 3}, {"iid"}, 3),
        ({"max_drafts": 9, "scheme": "greedy"}, {"iid", "greedy"}, 3),
        ({"max_drafts": 9, "scheme": "hub"}, {"iid", "hub"}, 2),
    ],
)
def test_a_case_is_asked_of_who_declares_its_drafts(
    declared: Any, schemes: set[str], most: int
) -> None:
    adapter = declaration(Declared(**declared))
    fitting = [case.instance for case in cases("standard") if fits(case, adapter)]
    assert {i.scheme for i in fitting} == schemes
    assert max(i.drafts for i in fitting) == most
    assert all(i.scheme == adapter.scheme for i in fitting if i.drafts > 1)
    assert len(list(tasks(adapter, "standard"))) == len(fitting)


def test_the_sample_lane_is_asked_for_the_same_requirements() -> None:
    """One seed of a right verifier: it fails with probability 5e-9 at most."""
    case = next(case for case in cases("quick") if case.id == "generic.v2.l1")
    terms = Terms("sample", "quick", seed=1)
    found = {f.requirement: f for f in judge_case(case, (case,), program_of(OneDraft()), terms)}
    assert set(found) == set(LAWS)
    for requirement in ("law.lossless", "law.reference", "law.support", "length.expected"):
        assert found[requirement].verdict == PASS
        assert found[requirement].lane == "sample"
        assert found[requirement].sampled is not None
    assert found["length.expected"].allowed == found["law.lossless"].allowed
    assert found["length.optimal"].detail == "token claims no optimum"
    assert found["random.fresh"].detail == "on the sample lane it follows from law.reference"


class OneDraft:
    name, version, algorithm = "one", "1", "token"

    def verify(self, request: Request) -> Result:
        path, q, p = (
            request.draft_tokens[:, 0],
            request.draft_probs[:, 0],
            request.target_probs[:, 0],
        )
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted], 1)[:, 0]
        return Result(accepted, torch.zeros_like(accepted), token)


# --- cases that are probed together ---------------------------------------------------------


class Counting(OneDraft):
    calls = 0

    def verify(self, request: Request) -> Result:
        Counting.calls += 1
        return super().verify(request)


class BlindSpot(OneDraft):
    """Draws noise that cannot be fed, where target and draft have a row in common."""

    def verify(self, request: Request) -> Result:
        if (request.target_probs[:, :, :-1] == request.draft_probs).all(-1).any():
            torch.randn(1)
        return super().verify(request)


def alike(vocabulary: int, length: int) -> tuple[Case, ...]:
    found = [case for case in cases("quick") if case.instance.drafts == 1]
    return tuple(
        case
        for case in found
        if (case.instance.vocabulary, case.instance.length) == (vocabulary, length)
    )


def test_cases_of_one_shape_are_probed_together_and_come_out_as_alone() -> None:
    program, terms = program_of(Counting()), Terms(PROBE, "quick")
    first, *others = known = alike(3, 2)
    judge_case(first, known, program, terms)
    before = Counting.calls
    for case in others:
        found = judge_case(case, known, program, terms)
        alone = judge(observe(program_of(OneDraft()), case, lane=PROBE))
        assert [(f.requirement, f.verdict, f.distance) for f in found] == [
            (f.requirement, f.verdict, f.distance) for f in alone
        ]
    assert len(others) >= 2
    assert Counting.calls == before


def test_tasks_of_one_shape_know_each_other() -> None:
    program = program_of(Counting())
    for task in tasks(program.declared, "quick"):
        before = Counting.calls
        task.judge(program, Terms(PROBE, "quick"))
        if task.case == alike(3, 2)[1].id:
            assert Counting.calls == before
            return
    raise AssertionError


def test_another_adapter_is_observed_anew() -> None:
    known, terms = alike(2, 1), Terms(PROBE, "quick")
    judge_case(known[0], known, program_of(Counting()), terms)
    before = Counting.calls
    judge_case(known[0], known, program_of(Counting()), terms)
    assert Counting.calls > before


def test_a_case_that_blinds_the_lane_blinds_it_to_no_other() -> None:
    program, terms, known = program_of(BlindSpot()), Terms(PROBE, "quick"), alike(3, 2)
    assert {case.id for case in known} == {"generic.v3.l2", "equal", "equal.first"}
    for case in known:
        if case.id != "generic.v3.l2":
            with pytest.raises(OpaqueRandomness):
                judge_case(case, known, program, terms)
        else:
            found = judge_case(case, known, program, terms)
            assert {f.verdict for f in found} <= {PASS, SKIPPED}


# --- verifiers of several drafts, as people write them -------------------------------------


class Several:
    """Recursive rejection of i.i.d. paths, row by row, with every step open to be got wrong."""

    version, algorithm = "1", "recursive_rejection"
    max_drafts = 3

    def __init__(self) -> None:
        self.name = type(self).__name__

    def verify(self, request: Request) -> Result:
        emitted = [
            self.emitted(paths.tolist(), q, p)
            for paths, q, p in zip(
                request.draft_tokens, request.draft_probs, request.target_probs, strict=True
            )
        ]
        accepted, path, token = (torch.tensor(column) for column in zip(*emitted, strict=True))
        return Result(accepted, path, token)

    def emitted(self, paths: list[list[int]], q: Tensor, p: Tensor) -> tuple[int, int, int]:
        alive, kept = list(range(len(paths))), 0
        while kept < len(paths[0]):
            here = alive[0]
            target, chosen = p[here, kept], None
            for path in self.order(alive, [paths[k][kept] for k in alive]):
                token = paths[path][kept]
                if self.accepts(target[token] / q[path, kept, token]):
                    chosen = path
                    break
                target = self.residual(target, q[path, kept])
            if chosen is None:
                return kept, here, self.draw(self.correction(target, p[here, kept]))
            token = paths[chosen][kept]
            alive = [k for k in alive if paths[k][kept] == token]
            kept += 1
        return kept, alive[0], self.draw(self.bonus(p, alive[0]))

    def order(self, alive: Sequence[int], tokens: Sequence[int]) -> Sequence[int]:
        return alive

    def accepts(self, ratio: Tensor) -> bool:
        return bool(torch.rand(()) < ratio)

    def residual(self, target: Tensor, q: Tensor) -> Tensor:
        left = (target - q).clamp(min=0)
        return left / left.sum()

    def correction(self, residual: Tensor, target: Tensor) -> Tensor:
        return residual

    def bonus(self, p: Tensor, path: int) -> Tensor:
        return p[path, -1]

    def draw(self, row: Tensor) -> int:
        return int(torch.multinomial(row, 1))


class SkipsRepeated(Several):
    """A sibling that repeats a token is skipped: it was rejected already."""

    def order(self, alive: Sequence[int], tokens: Sequence[int]) -> Sequence[int]:
        return [k for i, k in enumerate(alive) if tokens[i] not in tokens[:i]]


class ResidualOnce(Several):
    """The residual is not normalised before the next sibling is tried."""

    def residual(self, target: Tensor, q: Tensor) -> Tensor:
        return (target - q).clamp(min=0)

    def correction(self, residual: Tensor, target: Tensor) -> Tensor:
        return residual if residual.sum() > 0 else target


class CorrectsFromTarget(Several):
    def correction(self, residual: Tensor, target: Tensor) -> Tensor:
        return target


class BonusOfFirstPath(Several):
    """The bonus row is always that of the first path, whichever was accepted."""

    def bonus(self, p: Tensor, path: int) -> Tensor:
        return p[0, -1]


class HighestFirst(Several):
    """Siblings are tried by token, the highest first: it no longer has the draft's law."""

    def order(self, alive: Sequence[int], tokens: Sequence[int]) -> Sequence[int]:
        return sorted(alive, key=lambda k: -tokens[alive.index(k)])


CHOSEN = ("v2.l2.k2", "v3.l1.k3", "concentrated.k2", "zeros.k2")
QUICK = [
    case
    for case in cases("quick")
    if case.id in ("generic.v2.l2", *(f"several.iid.{name}" for name in CHOSEN))
]


def failed(adapter: Any) -> dict[str, set[int]]:
    """Return, for every requirement that fails on a few cases, the numbers of drafts."""
    found: dict[str, set[int]] = {}
    for case in QUICK:
        for finding in judge(observe(program_of(adapter), case)):
            assert finding.verdict in (PASS, FAIL, SKIPPED)
            if finding.verdict == FAIL:
                found.setdefault(finding.requirement, set()).add(case.instance.drafts)
    return found


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "random.fresh",
)
def test_recursive_rejection_in_torch_conforms() -> None:
    assert failed(Several()) == {}


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "length.expected",
    "length.bounded",
    "random.fresh",
)
@pytest.mark.parametrize(
    ("wrong", "requirements"),
    [
        (SkipsRepeated, {"law.lossless", "law.reference", "random.fresh"}),
        (ResidualOnce, {"law.lossless", "law.reference", "length.expected", "random.fresh"}),
        (
            HighestFirst,
            {"law.lossless", "law.reference", "length.expected", "length.bounded"},
        ),
        (
            BonusOfFirstPath,
            {"law.lossless", "law.reference", "law.support", "random.fresh"},
        ),
    ],
)
def test_what_is_wrong_with_several_drafts_only_fails_there(
    wrong: type[Several], requirements: set[str]
) -> None:
    found = failed(wrong())
    assert set(found) == requirements
    # With one draft they are right.
    assert all(numbers <= {2, 3} for numbers in found.values())


@pytest.mark.requirement("random.fresh")
def test_a_correction_from_the_target_fails_with_one_draft_as_well() -> None:
    found = failed(CorrectsFromTarget())
    assert found["random.fresh"] == {1, 2, 3}
    assert "length.expected" not in found


# --- stateful algorithms --------------------------------------------------------------------


@pytest.mark.requirement("law.lossless", "length.bounded")
def test_a_stateful_algorithm_may_accept_more_than_a_stateless_one() -> None:
    """P = (1/3, 2/3) and Q = (2/3, 1/3), L = 2: the sum of min(p, q) over all prefixes."""
    of = instance("1/3 2/3", "2/3 1/3", 2)
    greedy = findings(seen(of, algorithm="greedy_block"))
    # The sum of min(p, q): 1/3 + 1/3, and 1/9 + 2/9 + 2/9 + 1/9.
    assert greedy["length.bounded"].lengths == Lengths(
        float(rational("4/3")), float(rational("4/3"))
    )
    assert optimum(of) < optimum(of, is_stateful=True) == rational("4/3")
    assert greedy["length.bounded"].verdict == greedy["law.lossless"].verdict == PASS
    # Under another name it is no more than that: impossible, and so lossy.
    reference = seen(of, algorithm="greedy_block")
    named = findings(replace(reference, algorithm=ALGORITHMS["block"]))
    assert named["length.bounded"].verdict == named["law.lossless"].verdict == FAIL
    assert named["length.bounded"].distance == rational("4/3") - optimum(of)


@pytest.mark.requirement("law.lossless")
def test_an_emission_is_continued_by_what_its_algorithm_leaves_there() -> None:
    """Drawing from P at once, with P = (1/4, 3/4) and Q = (1/2, 1/2), by hand.

    A drafted 0 the algorithm can reject, to a 1, at the ratio 3/2: the next row is then that of
    (3/2 P - Q)+ = (0, 5/8), a 1 for certain. Whatever else is said at once, the algorithm never
    says, and the target's own rows follow.
    """
    of = instance("1/4 3/4", "1/2 1/2", 2)

    def draws(drafts: Drafts) -> Law[Outcome]:
        return Law({Emission(0, (), t): w for t, w in enumerate(of.target(()))})

    found = findings(seen(of, draws, "greedy_block"))
    assert found["law.lossless"].distance == HALF * rational("3/4") * rational("1/4")
    assert findings(seen(of, draws, "block"))["law.lossless"].distance == 0


@pytest.mark.parametrize("name", ["greedy_block", "recursive_greedy_block", "spectr_gbv"])
def test_what_is_left_behind_is_no_part_of_what_is_seen(name: str) -> None:
    of = instance("1/4 3/4", "1/2 1/2", 2, drafts=ALGORITHMS[name].most_drafts or 2)
    reference = seen(of, algorithm=name)
    outcomes = {outcome for law in reference.observed.values() for outcome in law}
    assert all(isinstance(each, Emission) and each.modified == () for each in outcomes)
    assert distances(reference)["law.reference"] == distances(reference)["law.lossless"] == 0
