"""Requirement on a stateful verifier's state: several iterations in a row.

Its id, level and wording are those of the specification's chapter 2. Every iteration is observed
separately, with each state that the previous iteration was observed to leave, for all of its drafts
and emissions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeVar

from draftproof.conformance.cases import Case
from draftproof.conformance.cases.rows import equal, fixed, instance
from draftproof.conformance.lanes.exchange import Outcome, State, as_given, told
from draftproof.conformance.lanes.observe import EXACT, PROBE, Observed, as_observed, laws_left
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import FAIL, Finding, verdict_of
from draftproof.conformance.requirements.laws import fits
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model
from draftproof.reference.process import after
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.verifiers import ALGORITHMS, verification_law

Each = TypeVar("Each")


@dataclass(frozen=True)
class Iterated:
    """Iterations of L tokens from one or several instances, whose models are deep enough.

    `going` has the rows of every iteration after the first, as places in the previous one: the
    other rows have stopped. All possible drafts are included, or, without `all_drafts`, only the
    most probable ones: the distance is then their part of the average.
    """

    id: str
    rows: tuple[Instance, ...]
    going: tuple[tuple[int, ...], ...] = ((0,),)
    all_drafts: bool = True


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:  # noqa: ARG001  # all are of every mode
    """Yield the tasks on the states of a verifier, if its algorithm is stateful.

    There is no task for samples, which would have to be of whole chains.
    """
    algorithm = ALGORITHMS.get(declared.algorithm)
    if algorithm is not None and algorithm.stateful:
        for chain in _chains(declared):
            judged = partial(judge_chain, chain)
            yield Task(f"states.{chain.id}", ("law.state",), (EXACT, PROBE), judged)


def _chains(declared: Declaration) -> Iterator[Iterated]:
    """Yield the chains. Rows that do not depend on the context lead to few different states."""
    # Rows of every context differ.
    yield Iterated("two-tokens", (_deep(instance("states.two-tokens", 2, 5)),))
    # Several ratios are left, by what is rejected.
    yield Iterated("three-tokens", (fixed("64 144 48", "160 32 64", length=2),))
    # Blocks within blocks: with L = 3, two of them reach beyond what is emitted.
    yield Iterated("nested", (fixed("112 144", "208 48", length=3),), ((0,), (0,)))
    # What the draft never proposes is said: the ratio has no end, and the rows stay as they are.
    yield Iterated("zeros", (fixed("0 160 96", "128 128 0", length=2),))
    # p = q: everything is accepted, and nothing left.
    yield Iterated("equal", (_deep(equal("states.equal", 2, 5, lambda _: True)),))
    pair = replace(fixed("112 144", "208 48", length=2), drafts=2, scheme=declared.scheme)
    if declared.max_drafts > 1 and fits(Case("two-drafts", "", "quick", pair), declared):
        yield Iterated("two-drafts", (pair,))
    if declared.batch:
        # The rows of a batch go on in another order, all but the second.
        rows = ("128 128", "224 32"), ("128 128", "128 128"), ("96 160", "208 48")
        several = tuple(fixed(p, q, length=2) for p, q in rows)
        yield Iterated("rows", several, ((2, 0),), all_drafts=False)


def _deep(models: Instance) -> Instance:
    """Return an instance of two drafted tokens with all rows of these models."""
    return replace(models, length=2)


# --- how it is judged ---------------------------------------------------------------------


@dataclass(frozen=True)
class _StatePlace:
    """State of the texts between two iterations: all data on which the next iteration depends.

    `asked` and `given` are the instances of the rows from here on, as intended, and as rounded for
    the adapter. `states` has the states that the adapter left, with their probabilities given the
    outcomes so far; `targets` has the targets that the algorithm left.
    """

    asked: tuple[Instance, ...]
    given: tuple[Instance, ...]
    states: tuple[tuple[tuple[State | None, ...], Rational], ...]
    targets: tuple[tuple[tuple[Model, ...], Rational], ...]


@dataclass
class _Step:
    """The distance of one iteration, averaged over all places and drafts."""

    number: int
    slack: Rational
    distance: Rational = ZERO
    worst: Rational = ZERO
    words: str = ""

    def add(self, weight: Rational, has: Rational, owes: Rational, text: str, knew: str) -> None:
        """Add outcomes, with their observed and their required probability."""
        off = weight * abs(has - owes)
        self.distance += off / 2
        if off > self.worst:
            chances = f"with probability {float(has):.6g}, should be {float(owes):.6g}"
            self.worst, self.words = off, f"iteration {self.number}: {text}, {chances}, {knew}"


def judge_chain(chain: Iterated, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `law.state` on a chain of iterations."""
    algorithm = ALGORITHMS[program.declared.algorithm]

    @cache
    def expected(given: Instance, drafts: Drafts) -> Law[tuple[Outcome, Model]]:
        law = verification_law(algorithm, given, drafts)
        return law.map(lambda emission: (as_observed(emission), after(given.target, emission)))

    places = {_start(chain, program.declared): (ONE, "")}
    known: dict[_Request, Observed] = {}
    steps: list[_Step] = []
    for going in (*chain.going, ()):
        wanted = dict.fromkeys(each for place in places for each in _requests(place, chain))
        fresh = [each for each in wanted if each not in known]
        rows = [list(zip(*each, strict=True)) for each in fresh]
        known |= zip(fresh, laws_left(program, rows, lane=terms.lane), strict=True)
        step = _Step(len(steps) + 1, max((known[each].slack for each in wanted), default=ZERO))
        following: dict[_StatePlace, tuple[Rational, str]] = {}
        for place, (weight, story) in places.items():
            for drafts, share in _drafted(place, chain):
                observed = _by_outcomes(
                    (known[place.asked, drafts, states].law, chance)
                    for states, chance in place.states
                )
                should = _by_outcomes(
                    (_together(map(expected, _with(targets, place.given), drafts)), chance)
                    for targets, chance in place.targets
                )
                for outcomes in {**observed, **should}:
                    states, targets = observed.get(outcomes, {}), should.get(outcomes, {})
                    has, owes = total(states.values()), total(targets.values())
                    text = story + _told(drafts, outcomes)
                    step.add(weight * share, has, owes, text, _shown(place))
                    if going and has and owes:
                        then = _after(place, outcomes, going, states, targets)
                        reached, first = following.get(then, (ZERO, f"{text}; then "))
                        following[then] = reached + weight * share * has, first
        steps.append(step)
        places = following
    runs = sum(each.runs for each in known.values())
    return [_finding(chain, program.declared, terms, steps, runs)]


def _with(targets: tuple[Model, ...], given: tuple[Instance, ...]) -> Iterator[Instance]:
    return (replace(each, target=own) for each, own in zip(given, targets, strict=True))


def _start(chain: Iterated, declared: Declaration) -> _StatePlace:
    given = tuple(as_given(each, declared) for each in chain.rows)
    nothing, own = (None,) * len(given), tuple(each.target for each in given)
    return _StatePlace(chain.rows, given, ((nothing, ONE),), ((own, ONE),))


_Request = tuple[tuple[Instance, ...], tuple[Drafts, ...], tuple[State | None, ...]]
"""The instances, the drafts and the states of a request's rows."""


def _requests(place: _StatePlace, chain: Iterated) -> Iterator[_Request]:
    """Yield the requests to the adapter at a place."""
    for drafts, _ in _drafted(place, chain):
        for states, _ in place.states:
            yield place.asked, drafts, states


def _drafted(place: _StatePlace, chain: Iterated) -> Iterable[tuple[tuple[Drafts, ...], Rational]]:
    """Return the drafts for the rows, with their probabilities."""
    law = _together(draft_law(each) for each in place.given)
    return law.items() if chain.all_drafts else [max(law.items(), key=lambda item: item[1])]


def _together(laws: Iterable[Law[Each]]) -> Law[tuple[Each, ...]]:
    """Return the joint law of independent draws, one from each of the laws."""
    joint: Law[tuple[Each, ...]] = Law.certain(())
    for law in laws:
        joint = joint.then(lambda rows, law=law: law.map(lambda one: (*rows, one)))  # type: ignore[misc]
    return joint


_Ways = dict[tuple[Each, ...], Rational]
"""Unseen states, or targets, behind the same outcomes, each with its weight."""


def _by_outcomes(
    laws: Iterable[tuple[Law[tuple[tuple[Outcome, Each], ...]], Rational]],
) -> dict[tuple[Outcome, ...], _Ways[Each]]:
    """Return the outcomes of weighted laws, each with the weights of its states or targets."""
    found: dict[tuple[Outcome, ...], _Ways[Each]] = {}
    for law, share in laws:
        for rows, weight in law.items():
            outcomes = tuple(outcome for outcome, _ in rows)
            unseen = tuple(each for _, each in rows)
            ways = found.setdefault(outcomes, {})
            ways[unseen] = ways.get(unseen, ZERO) + share * weight
    return found


def _after(
    place: _StatePlace,
    outcomes: tuple[Outcome, ...],
    going: tuple[int, ...],
    states: _Ways[State | None],
    targets: _Ways[Model],
) -> _StatePlace:
    """Return the place after these outcomes, for the rows that continue."""
    # Outcomes of the algorithm are emissions, all of them.
    tokens = [outcome.tokens for outcome in outcomes if isinstance(outcome, Emission)]

    def given_that(ways: _Ways[Each]) -> tuple[tuple[tuple[Each, ...], Rational], ...]:
        kept: _Ways[Each] = {}
        for unseen, weight in ways.items():
            own = tuple(unseen[row] for row in going)
            kept[own] = kept.get(own, ZERO) + weight / total(ways.values())
        return tuple(kept.items())

    return _StatePlace(
        tuple(place.asked[row].after(tokens[row]) for row in going),
        tuple(place.given[row].after(tokens[row]) for row in going),
        given_that(states),
        given_that(targets),
    )


def _finding(
    chain: Iterated, declared: Declaration, terms: Terms, steps: Sequence[_Step], runs: int
) -> Finding:
    vocabulary, length = chain.rows[0].vocabulary, chain.rows[0].length
    allowed = [
        len(chain.rows) * allowed_distance(declared, vocabulary, length, before=before)
        for before in range(len(steps))
    ]
    distance, slack = total(step.distance for step in steps), total(step.slack for step in steps)
    # What is not known of one iteration moves where the following ones start, too.
    verdict = verdict_of(distance, total(allowed), len(steps) * slack)
    detail = ""
    if verdict == FAIL:
        wrong = (s for s, most in zip(steps, allowed, strict=True) if s.distance > most)
        detail = next(wrong, max(steps, key=lambda step: step.distance)).words
    return Finding(
        "law.state",
        f"states.{chain.id}",
        verdict,
        distance,
        total(allowed),
        terms.lane,
        runs,
        detail,
    )


def _told(drafts: tuple[Drafts, ...], outcomes: tuple[Outcome, ...]) -> str:
    rows = [told(paths, outcome) for paths, outcome in zip(drafts, outcomes, strict=True)]
    return rows[0] if len(rows) == 1 else "; ".join(f"row {i}, {row}" for i, row in enumerate(rows))


_MOST_NUMBERS = 8
"""Maximum number of values in a printed state; larger states are only named."""


def _shown(place: _StatePlace) -> str:
    """Describe the state that the adapter gets from the previous iteration, if there was one."""
    (states, _), *_ = place.states
    told_of = [
        f"{name} {list(values) if len(values) <= _MOST_NUMBERS else list(shape)}"
        for state in states
        for name, _, shape, values in state or ()
    ]
    return f"told {', '.join(told_of)}" if told_of else "told of no state"
