"""What samples come to: tests that may be looked at after every batch, and their verdicts.

What is emitted is counted by the sample lane, and the counts are held against the exact law of the
case. A run ends as soon as it shows that a requirement fails, or that every distance is below the
smallest one of interest, or with its budget: then what is still open is *inconclusive*. Nothing is
tried again.

What it takes for granted is that rows are independent: `sample_pairs` asks for that. A verifier
whose rows share a coin, or take their neighbours' rows, fails here, too, unless it is given one row
at a time, `alone`. What is judged is the law of the emission with the drafts averaged out. What a
verifier makes of drafted tokens that it does not accept, and what it does with a probability below
`Tested.detectable`, is out of sight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256

import numpy

from draftproof.conformance.lanes.exchange import as_given
from draftproof.conformance.lanes.sample import Look, cells_of, looks, verifying
from draftproof.conformance.lanes.statistics import (
    LARGEST,
    SMALLEST,
    Budget,
    batch_sizes,
    no_evidence,
    null,
    tally,
    updated,
)
from draftproof.conformance.protocol.adapter import Adapter, Declaration, declaration
from draftproof.conformance.requirements._bets import (
    Asked,
    Counted,
    Criterion,
    Tested,
    allowed_of,
    asked_of,
    counted,
    emission_law_of,
    judged_by,
    judged_law,
    mean_of,
    nothing_seen,
    smallest_bias,
    with_sight,
)
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    Finding,
    Lengths,
    Sampled,
    TextWeight,
)
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance
from draftproof.reference.rational import Rational, exactly
from draftproof.reference.verifiers import ALGORITHMS


@dataclass(frozen=True)
class Effort:
    """How many emissions one instance is worth, and the smallest bias of interest."""

    emissions: int
    bias: float


EFFORTS = {
    "quick": Effort(2**17, 0.03),
    "standard": Effort(2**20, 0.01),
    "certify": Effort(2**23, 0.0035),
}
"""The effort of each mode: with it, right verifiers pass on all instances of one draft up to V = 4,
L = 3. The bound falls below the bias near n = (0.4 s + 3.4)**2 / bias**2 emissions, s being the sum
of the square roots of a law's weights: at most the root of the number of its cells, 15 for the 256
texts of V = 4, L = 3. V = 8, L = 3 has 4096 (s = 58) and ends inconclusive on every mode: it takes
0.8, 7 and 58 million emissions."""

TESTS = 5
"""The tests of one run that can raise a false alarm: two laws, and three bets on the length."""


@dataclass(frozen=True)
class SequentialTest:
    """A sequential test of one adapter on one instance, cut into shares.

    Shares are drawn anywhere, in any order, each from a seed of its own, and judged in order: so
    what they come to is the same wherever they were drawn. `alone` gives the verifier one row at a
    time.
    """

    declared: Declaration
    instance: Instance
    seed: int
    effort: Effort
    budget: Budget
    alone: bool = False

    @property
    def shares(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the batches of every share, which ends where four times as much is drawn."""
        return _shares(self.effort.emissions)


@dataclass(frozen=True)
class Standing:
    """How a test stands after some looks."""

    looks: int
    seen: Counted
    failed: Mapping[str, Tested]
    tested: Mapping[str, Tested]

    @property
    def is_undecided(self) -> bool:
        """Whether more emissions can decide something."""
        return not self.tested or INCONCLUSIVE in {t.verdict for t in self.tested.values()}

    @property
    def is_open(self) -> bool:
        """Whether more emissions can decide something, and nothing has failed."""
        return self.is_undecided and not self.failed


def sample(
    adapter: Adapter,
    instance: Instance,
    *,
    seed: int,
    effort: Effort = EFFORTS["quick"],
    budget: Budget | None = None,
    alone: bool = False,
    to_the_end: bool = False,
) -> dict[str, Tested]:
    """Return what each requirement came to that can be judged on this instance.

    A requirement passes if its distance is below the bias of interest, L times that for lengths.
    The budget of false alarms is for `TESTS` tests if it is not given. `alone` gives the verifier
    one row at a time; `to_the_end` goes on after a failure, until everything is decided.
    `law.reference`, `length.expected` and `length.optimal` are asked only where the reference knows
    the algorithm, and it takes the instance; the last one only where it claims the optimum.

    Raises `InvalidAdapter`.
    """
    budget = budget or Budget(tests=TESTS)
    test = SequentialTest(declaration(adapter), instance, seed, effort, budget, alone)
    return outcome(test, followed(test, adapter, to_the_end=to_the_end))


def followed(test: SequentialTest, adapter: Adapter, *, to_the_end: bool = False) -> Standing:
    """Return how the test stands when it ends, drawn here, as far as it takes."""
    standing = started(test)
    for share in range(len(test.shares)):
        for look in drawn(test, adapter, share):
            standing = after(test, standing, look)
            if not (standing.is_undecided if to_the_end else standing.is_open):
                return standing
    return standing


def started(test: SequentialTest) -> Standing:
    """Return how the test stands before the first look."""
    return Standing(0, nothing_seen(_asked_of(test)), {}, {})


def drawn(test: SequentialTest, adapter: Adapter, share: int) -> Iterator[Look]:
    """Draw one share of the test, look by look."""
    declared = replace(test.declared, batch=test.declared.batch and not test.alone)
    cells = cells_of(as_given(test.instance, test.declared))
    random = numpy.random.default_rng((test.seed, _DRAWN, share))
    return looks(adapter, test.instance, cells, declared, random, test.shares[share])


def after(test: SequentialTest, standing: Standing, look: Look) -> Standing:
    """Return how the test stands after one more look."""
    asked, looks = _asked_of(test), standing.looks + 1
    random = numpy.random.default_rng((test.seed, _CONTINUED, looks))
    seen = counted(asked, standing.seen, look, random)
    judged = judged_by(asked, seen, _criterion_of(test), looks)
    for each, found in judged.items():
        before = standing.tested[each].path if standing.tested else ()
        path = (*before, (found.emissions, found.log_evidence))
        judged[each] = replace(found, path=path, stream=seen.stream)
    judged = {**judged, **standing.failed}
    failed = {each: found for each, found in judged.items() if found.verdict == FAIL}
    return Standing(looks, seen, failed, judged)


def outcome(test: SequentialTest, standing: Standing) -> dict[str, Tested]:
    """Return what each requirement came to, with the smallest distances that could be seen."""
    return with_sight(_asked_of(test), dict(standing.tested), _criterion_of(test))


def observed_text(test: SequentialTest, standing: Standing) -> tuple[TextWeight, ...]:
    """Return the law of the text as it was counted, and the target's."""
    asked = _asked_of(test)
    span = asked.cells.instance.length + 1
    shape = (asked.cells.instance.vocabulary,) * span
    shares = standing.seen.texts / standing.seen.texts.sum()
    texts = [tuple(map(int, text)) for text in numpy.ndindex(*shape)]
    weights = zip([*texts, ()], shares, asked.text.law, strict=True)
    return tuple(TextWeight(t, float(seen), float(p)) for t, seen, p in weights if seen or p)


def observed_lengths(test: SequentialTest, standing: Standing) -> Lengths | None:
    """Return the mean accepted length and its optimum; None where no optimum is known."""
    asked = _asked_of(test)
    if asked.optimum is None:
        return None
    lengths = tally(asked.cells.accepted, standing.seen.counts, asked.cells.instance.length + 1)
    return Lengths(mean_of(lengths), asked.optimum)


# Seeds of different purposes never meet.
_DRAWN, _CONTINUED = 0, 1


@lru_cache
def _shares(emissions: int) -> tuple[tuple[int, ...], ...]:
    shares: list[tuple[int, ...]] = []
    share: list[int] = []
    drawn, most = 0, 4 * SMALLEST
    for size in batch_sizes(emissions):
        share.append(size)
        drawn += size
        if drawn >= most:
            shares.append(tuple(share))
            # Large enough to be worth a journey, small enough to be lost.
            share, most = [], drawn + min(3 * drawn, LARGEST)
    return (*shares, *([tuple(share)] if share else []))


def _asked_of(test: SequentialTest) -> Asked:
    given = as_given(test.instance, test.declared)
    return asked_of(given, test.declared.algorithm, allowed_of(given, test.declared))


def _criterion_of(test: SequentialTest) -> Criterion:
    return Criterion(test.budget.threshold, test.effort.bias)


def sample_pairs(
    adapter: Adapter,
    instance: Instance,
    *,
    seed: int,
    effort: Effort = EFFORTS["quick"],
    budget: Budget | None = None,
) -> dict[str, Tested]:
    """Return what `batch.invariant` and `random.calls` came to on this instance.

    Pairs are neighbouring rows of one batch, and the same row in two consecutive calls. The joint
    law of their accepted lengths and next tokens is held against the product of the exact laws,
    so what `sample` finds wrong with single emissions fails here, too. `Tested.emissions` counts
    pairs. `batch.invariant` is not asked of a verifier that takes one row at a time.

    Raises `Unsupported` where the reference does not know the algorithm, or the algorithm does not
    take the instance; `InvalidAdapter`.
    """
    declared = declaration(adapter)
    algorithm = ALGORITHMS.get(declared.algorithm)
    if algorithm is None:
        raise Unsupported(
            f"pairs of emissions are held against the law of an algorithm, and the reference does "
            f"not know {declared.algorithm!r}; it knows {', '.join(ALGORITHMS)}"
        )
    given = as_given(instance, declared)
    cells = cells_of(given)
    criterion = Criterion((budget or Budget(tests=2)).threshold, effort.bias)
    law = tally(cells.kind, emission_law_of(cells, algorithm), 0)
    both = null(numpy.outer(law, law).ravel(), tolerance=min(2 * allowed_of(given, declared), 1.0))
    tests = {"random.calls": "consecutive calls depend on each other"}
    if declared.batch:
        tests = {"batch.invariant": "neighbouring rows depend on each other", **tests}
    counts = {each: numpy.zeros(len(both.law)) for each in tests}
    evidence = dict.fromkeys(tests, no_evidence(both))
    paths: dict[str, tuple[tuple[int, float], ...]] = dict.fromkeys(tests, ())
    stream = sha256()
    random = numpy.random.default_rng(seed)
    with verifying(adapter, instance, cells, declared, random) as verify:
        for look, size in enumerate(batch_sizes(effort.emissions, smallest=2 * SMALLEST), 1):
            calls = [cells.kind[verify(max(size // 4 * 2, 2))[0]] for _ in range(2)]
            pairs = {
                "batch.invariant": numpy.concatenate([call.reshape(-1, 2) for call in calls]),
                "random.calls": numpy.stack(calls, 1),
            }
            for each in tests:
                cell = pairs[each] @ numpy.array([len(law), 1])
                fresh = numpy.bincount(cell, minlength=len(both.law)).astype(float)
                counts[each] = counts[each] + fresh
                evidence[each] = updated(both, evidence[each], fresh)
            judged = {
                each: judged_law(both, evidence[each], counts[each], criterion, look, what)
                for each, what in tests.items()
            }
            stream.update(numpy.stack(calls).astype("<i4").tobytes())
            for each, found in judged.items():
                paths[each] = (*paths[each], (found.emissions, found.log_evidence))
            verdicts = {found.verdict for found in judged.values()}
            if INCONCLUSIVE not in verdicts or FAIL in verdicts:
                break
    return {
        each: replace(
            found,
            detectable=smallest_bias(both, found.emissions, criterion),
            path=paths[each],
            stream=stream.hexdigest(),
        )
        for each, found in judged.items()
    }


def finding(
    requirement: str, case: str, tested: Tested, *, allowed: Rational, false_alarm: float
) -> Finding:
    """Return what a test came to as a finding; `allowed` is what rounding explains."""
    return Finding(
        requirement,
        case,
        tested.verdict,
        exactly(tested.distance),
        allowed,
        "sample",
        tested.emissions,
        tested.what if tested.verdict == FAIL else "",
        sampled=Sampled(
            false_alarm,
            tested.log_evidence,
            tested.bound,
            tested.detectable,
            tested.power,
            tested.path,
            tested.stream,
        ),
    )
