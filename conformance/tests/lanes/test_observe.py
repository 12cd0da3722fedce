from __future__ import annotations

from typing import Any

import pytest
import torch

from draftproof.conformance.cases import cases
from draftproof.conformance.lanes import cache, unwatched
from draftproof.conformance.lanes.cache import LawCache, caching
from draftproof.conformance.lanes.exact import OpaqueRandomness
from draftproof.conformance.lanes.exchange import Failure
from draftproof.conformance.lanes.observe import COMPUTING, EXACT, PROBE, joint_laws, observe
from draftproof.conformance.protocol.adapter import Request, Result, program_of
from draftproof.reference.emission import Emission
from draftproof.reference.rational import rational


def fails() -> Any:
    raise IndexError("7")


FAILS = fails.__code__.co_firstlineno + 1
CASES = {case.id: case for case in cases("standard")}


class Scripted:
    """Answers what it is told to answer."""

    name, version, algorithm = "scripted", "1", "token"

    def __init__(self, answer: Any, **attributes: Any) -> None:
        self.answer = answer
        self.__dict__.update(attributes)

    def verify(self, request: Request) -> Result:
        return self.answer(request)  # type: ignore[no-any-return]


def columns(accepted: Any, path: Any, token: Any) -> Result:
    return Result(torch.as_tensor(accepted), torch.as_tensor(path), torch.as_tensor(token))


def only_outcome(answer: Any, case: str = "generic.v2.l1") -> Any:
    seen = observe(program_of(Scripted(answer)), CASES[case])
    outcomes = {outcome for law in seen.observed.values() for outcome in law}
    assert len(outcomes) == 1
    return outcomes.pop()


def test_every_draft_that_can_be_drafted_is_observed() -> None:
    seen = observe(program_of(Scripted(lambda _: columns([0], [0], [0]))), CASES["zeros.draft"])
    assert set(seen.observed) == set(seen.drafts)
    assert all(seen.instance.draft.joint(path) > 0 for (path,) in seen.observed)
    assert seen.runs == len(seen.observed)
    assert seen.slack == 0


def test_an_emission_is_read_from_the_result() -> None:
    seen = observe(program_of(Scripted(lambda _: columns([1], [0], [1]))), CASES["generic.v2.l1"])
    assert dict(seen.observed[((0,),)].items()) == {Emission(0, (0,), 1): 1}


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (lambda _: columns([2], [0], [0]), "returned accepted length 2, not in 0..1"),
        (lambda _: columns([-1], [0], [0]), "returned accepted length -1, not in 0..1"),
        (lambda _: columns([0], [1], [0]), "returned path 1, not in 0..0"),
        (lambda _: columns([0], [0], [2]), "returned next token 2, not in 0..1"),
        (lambda _: columns([0], [0], [0.5]), "returned next token 0.5, not in 0..1"),
        (
            lambda _: columns([[0]], [0], [0]),
            "raised TypeError: Result.accepted_length must have shape [1], got [1, 1]",
        ),
        (lambda _: None, "raised TypeError: verify must return a Result, got NoneType"),
        (lambda _: fails(), f"raised IndexError: 7 (test_observe.py:{FAILS})"),
    ],
)
def test_what_is_no_emission_is_a_failure_that_says_what(answer: Any, what: str) -> None:
    assert only_outcome(answer) == Failure(what)


def test_a_result_may_be_of_lists_too() -> None:
    assert isinstance(only_outcome(lambda _: Result([0], [0], [0])), Emission)  # type: ignore[arg-type]


def test_blindness_is_never_a_failure_of_the_verifier() -> None:
    with pytest.raises(OpaqueRandomness, match="randn"):
        only_outcome(lambda _: columns([0], [0], torch.randn(1) > 0))


def test_a_verifier_that_overwrites_its_input_harms_itself_alone() -> None:
    def spoil(request: Request) -> Result:
        tokens = request.draft_tokens.clone()
        request.draft_tokens.zero_()
        request.target_probs.fill_(0.5)
        return columns([0], [0], torch.bernoulli(torch.tensor([0.5])).long() * tokens[:, 0, 0])

    seen = observe(program_of(Scripted(spoil)), CASES["generic.v2.l1"])
    assert seen.observed[((1,),)][Emission(0, (), 1)] == rational("1/2")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_rows_come_in_the_declared_dtype(dtype: str) -> None:
    given = []

    def answer(request: Request) -> Result:
        given.append((request.draft_probs, request.target_probs, request.draft_tokens))
        return columns([0], [0], [0])

    observe(program_of(Scripted(answer, dtype=dtype)), CASES["generic.v3.l2"])
    q, p, tokens = given[0]
    assert q.dtype == p.dtype == getattr(torch, dtype)
    assert tokens.dtype == torch.int64
    assert (tokens.shape, q.shape, p.shape) == ((1, 1, 2), (1, 1, 2, 3), (1, 1, 3, 3))


# --- laws that are known already ------------------------------------------------------------


def laws_of(adapter: Any, lane: str = EXACT) -> list[Any]:
    seen = observe(program_of(adapter), CASES["generic.v2.l1"], lane=lane)
    return [(paths, [*law.items()]) for paths, law in seen.observed.items()]


def tosses(request: Request) -> Result:
    row = request.target_probs[:, 0, 0]
    none = [0] * len(row)
    return columns(none, none, torch.multinomial(row, 1, generator=request.generator)[:, 0])


@pytest.mark.parametrize("lane", COMPUTING)
def test_a_law_is_computed_once_and_held_against_real_runs_each_time(lane: str) -> None:
    calls = []

    def counted(request: Request) -> Result:
        calls.append(unwatched._RUNNING.get() is None)
        return tosses(request)

    adapter = Scripted(counted)
    alone = laws_of(adapter, lane)
    watched, calls[:] = sum(calls), []
    with caching(LawCache(adapter)):
        for _ in range(2):
            with unwatched.holding(1) as held:
                assert laws_of(adapter, lane) == alone
            assert held.rows.sum() > 0
            assert held.alone.sum() > 0
    assert sum(calls) == watched > 0


def test_a_probed_law_is_known_beside_the_rows_that_shared_its_calls_only() -> None:
    """So the number of its runs does not depend on what was judged before."""
    program = program_of(Scripted(tosses))
    rows = [[(CASES["generic.v2.l1"].instance, ((token,),))] for token in range(2)]
    alone = joint_laws(program, rows[:1], lane=PROBE)
    with caching(LawCache(program.adapter)):
        joint_laws(program, rows, lane=PROBE)
        assert joint_laws(program, rows[:1], lane=PROBE) == alone


def test_the_law_of_one_adapter_is_not_that_of_another() -> None:
    first, second = Scripted(tosses), Scripted(lambda _: columns([0], [0], [0]))
    with caching(LawCache(first)):
        assert laws_of(first) != laws_of(second)
        assert laws_of(first) == laws_of(Scripted(tosses))


def test_the_first_laws_are_forgotten_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache, "_MOST_OUTCOMES", 3)
    program = program_of(Scripted(tosses))
    known = LawCache(program.adapter)
    rows = [(CASES["generic.v2.l1"].instance, ((token,),)) for token in range(2)]
    with caching(known):
        for row in rows:
            joint_laws(program, [[row]], lane=EXACT)
    assert known.get(program, rows[:1]) is None
    assert known.get(program, rows[1:]) is not None
