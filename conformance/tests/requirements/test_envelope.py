"""The envelope: what hides behind a length or a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest
from torch import Tensor

from draftproof.conformance.cases.large import MOST_PROBED, alike, among_empty, is_pair, large
from draftproof.conformance.cases.long import long, long_batches
from draftproof.conformance.lanes.cache import LawCache, caching
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    SAMPLE,
    observe_batch,
    observe_together,
)
from draftproof.conformance.lanes.opaque import OpaqueRandomness, TooManyRuns
from draftproof.conformance.museum.mutants.gates import GATED
from draftproof.conformance.museum.mutants.verifiers import Ragged
from draftproof.conformance.protocol.adapter import Program, Request, Result, program_of
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.requirements._one_law import law_distance
from draftproof.conformance.requirements.batches import batch_invariant
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.task import Terms

ASKED_BY = {
    "length": "law.long",
    "position": "law.long",
    "batch": "batch.large",
    "row": "batch.large",
    "equal": "batch.large",
}

pytestmark = pytest.mark.requirement("law.long", "batch.large")


def findings(program: Program, requirement: str) -> Iterator[Finding]:
    for task in plan(program.declared, "quick"):
        if requirement in task.requirements and "exact" in task.lanes:
            yield from task.judge(program, Terms("exact", "quick", 1))


@pytest.mark.parametrize("requirement", sorted({*ASKED_BY.values()}))
@pytest.mark.parametrize("name", ["ragged", "torch-block", "torch-multipath-block"])
def test_what_is_right_passes(name: str, requirement: str) -> None:
    program = program_of(Ragged()) if name == "ragged" else load_program(name)
    found = [*findings(program, requirement)]
    assert found
    assert {each.verdict for each in found} == {PASS}, [each.case for each in found]


HIDDEN = [f"{fault}-behind-{gate}" for gate in ASKED_BY for fault in ("residual", "row", "ratio")]


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_behind_a_gate_is_found(name: str) -> None:
    """By the requirement that asks behind it, and in the fault's own dimension."""
    mutant = GATED[name]
    assert mutant.breaks == ASKED_BY[name.split("-behind-")[1]]
    found = [*findings(program_of(mutant.make()), mutant.breaks)]
    assert FAIL in {each.verdict for each in found}


def test_a_seed_of_its_own_is_refused() -> None:
    """The exact lane says why it cannot see the verifier; another one decides."""
    with pytest.raises(OpaqueRandomness, match="seed 0"):
        [*findings(program_of(GATED["seed-behind-length"].make()), "law.long")]


def test_few_contexts_can_be_written() -> None:
    """However long a draft is, so that its law is small."""
    for group in long("certify"):
        for case in group.cases:
            length = case.instance.length
            target = case.instance.target
            assert len(target.rows) <= 64 * (length + 1)
            uncertain = {
                len(context)
                for context, row in (*target.rows.items(), *target.modified.items())
                if max(row) < 1
            }
            many = {"long.l8.three": 3, "long.l33.ruler": 7}
            assert len(uncertain) == many.get(group.id, 2)


def test_two_rows_of_a_large_batch_are_uncertain() -> None:
    """But in the three that have many distances at once."""
    rulers = {"large.b65.short", "large.b65.odd", "large.b257.far"}
    batches = [*large("certify"), *among_empty("certify")]
    assert {each.id for each in batches if not is_pair(each)} == rulers
    assert {len(batch.rows) for batch in large("certify")} == {6, 9, 17, 33, 65, 257, 1024}


# --- other lanes -------------------------------------------------------------------------------


class Counted(Ragged):
    """A right verifier that counts its calls, copies included."""

    calls: ClassVar[int] = 0

    def verify(self, request: Request) -> Result:
        Counted.calls += 1
        return super().verify(request)


def test_long_drafts_of_one_length_are_probed_together() -> None:
    program = program_of(Counted())
    groups = {group.id: group for group in long("standard") if group.id.startswith("long.l5")}
    tasks = [task for task in plan(program.declared, "standard") if task.case in groups]
    assert len({task.probed_with for task in tasks}) == 1
    calls = []
    with caching(LawCache(program.adapter)):
        for task in tasks:
            before = Counted.calls
            (found,) = task.judge(program, Terms(PROBE, "standard"))
            calls.append(Counted.calls - before)
            assert (found.case, found.lane, found.verdict) == (task.case, PROBE, PASS)
            # One pair in twelve is probed, and no group of this length has more.
            (first, *others) = groups[task.case].cases
            assert len(others) < 12
            alone = observe_together(program, [first], lane=PROBE)
            assert found.distance == max(map(law_distance, alone))
    assert calls[0] > 0
    assert calls[1:] == [0] * (len(tasks) - 1)


class Sharing(Counted):
    """Tests all rows of a call with the coins of the first."""

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        return super().coins(ratio, request)[:1].expand_as(ratio)


@pytest.mark.parametrize(("verifier", "verdict"), [(Counted, PASS), (Sharing, FAIL)])
def test_two_long_rows_are_probed_with_those_of_their_length(
    verifier: type[Counted], verdict: str
) -> None:
    program = program_of(verifier())
    rows = {batch.id: batch.rows for batch in long_batches("standard") if ".l5." in batch.id}
    tasks = [task for task in plan(program.declared, "standard") if task.case in rows]
    assert len(tasks) == len(rows) > 1
    assert len({task.probed_with for task in tasks}) == 1
    calls, verdicts = [], set()
    with caching(LawCache(program.adapter)):
        for task in tasks:
            before = Counted.calls
            (found,) = task.judge(program, Terms(PROBE, "standard"))
            calls.append(Counted.calls - before)
            assert (found.case, found.lane) == (task.case, PROBE)
            verdicts.add(found.verdict)
            alone = observe_batch(program, task.case, rows[task.case], lane=PROBE)
            assert found.distance == batch_invariant(alone)
    # Coins of different positions are different ones, so not every pair of rows is tied.
    assert verdict in verdicts
    assert all(each < calls[0] for each in calls[1:])


SAMPLED = {
    batch.id: batch
    for batch in large("certify")
    if len(batch.rows) > MOST_PROBED and is_pair(batch)
}


class Tied(Ragged):
    """Tests rows of a large batch, as far apart as those of one batch, with the same coins."""

    def __init__(self, batch: str) -> None:
        self.batch_id = batch

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        coins = super().coins(ratio, request)
        if len(coins) > MOST_PROBED:
            for first, second in alike(SAMPLED[self.batch_id]):
                coins[second] = coins[first]
        return coins


@pytest.mark.parametrize("batch", SAMPLED)
def test_samples_decide_what_is_too_large_to_be_probed(batch: str) -> None:
    for verifier, verdict in ((Ragged(), PASS), (Tied(batch), FAIL)):
        program = program_of(verifier)
        (task,) = (each for each in plan(program.declared, "certify") if each.case == batch)
        assert task.lanes == (EXACT, SAMPLE)
        (found,) = task.judge(program, Terms(SAMPLE, "certify", 1))
        assert (found.lane, found.verdict) == (SAMPLE, verdict)
        assert found.sampled is not None
        if verdict == PASS:
            assert found.sampled.bound <= 0.05
        else:
            assert found.detail == "rows of a large batch depend on each other"


@pytest.mark.parametrize("batch", SAMPLED)
def test_pairs_of_a_sampled_batch_are_as_far_apart_as_its_uncertain_rows(batch: str) -> None:
    pairs = alike(SAMPLED[batch])
    rows = len(SAMPLED[batch].rows)
    places = [place for pair in pairs for place in pair]
    assert len({*places}) == len(places) >= rows // 4
    if batch.endswith("ends"):
        assert all(first + second == rows - 1 for first, second in pairs)
    else:
        assert {second - first for first, second in pairs} == {int(batch.rpartition("d")[2])}


class Unsure(Ragged):
    """Accepts what is certain nine times out of ten."""

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return the ratio of each drafted token, less a tenth."""
        return super().ratio(p, q, path) * 0.9


@pytest.mark.parametrize("requirement", ["law.long", "batch.large", "random.calls"])
def test_outcomes_that_double_with_every_row_are_not_counted(requirement: str) -> None:
    program = program_of(Unsure())
    for task in plan(program.declared, "quick"):
        if requirement in task.requirements and task.case.startswith(
            ("long.", "large.", "calls.sequence")
        ):
            with pytest.raises(TooManyRuns, match="random where target and draft are certain"):
                task.judge(program, Terms("exact", "quick", 1))
