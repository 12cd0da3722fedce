"""Sequential tests: counts of emissions, judged after every batch, and their verdicts.

The sample lane counts emissions, and this module tests the counts against the exact law of the
case. A run ends as soon as it shows that a requirement fails, or that every distance is below the
smallest one of interest, or with its budget: requirements that are open then are *inconclusive*. No
test is repeated.

The tests assume that rows are independent, which `sample_pairs` checks. A verifier whose rows share
a coin, or use their neighbours' rows, fails here, too, unless it gets one row at a time, `alone`.
The tests judge the law of the emission, averaged over drafts. They do not see a dependence on
drafted tokens that are not accepted, nor behaviour with a probability below
`TestResult.detectable`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from math import inf, log

import numpy

from draftproof.conformance.lanes.compared import Compared, note
from draftproof.conformance.lanes.exchange import as_given
from draftproof.conformance.lanes.sample import BatchCounts, cells_of, compared_in, counted_batches
from draftproof.conformance.lanes.statistics import (
    LARGEST,
    MISSED,
    SMALLEST,
    Budget,
    Floats,
    Null,
    Wealth,
    batch_sizes,
    distance,
    log_evidence,
    log_evidence_above,
    log_evidence_off,
    no_evidence,
    tally,
    updated,
    upper_bound,
)
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program
from draftproof.conformance.requirements._nulls import (
    POWER,
    NullHypotheses,
    allowed_of,
    detectable_distance,
    null_hypotheses,
    texts_of,
)
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Finding,
    Lengths,
    SampleFigures,
    TextWeight,
)
from draftproof.reference.model import Instance
from draftproof.reference.rational import Rational, exactly


@dataclass(frozen=True)
class Effort:
    """The number of emissions of one instance, and the smallest bias of interest."""

    emissions: int
    bias: float


EFFORTS = {
    "quick": Effort(2**17, 0.03),
    "standard": Effort(2**20, 0.01),
    "certify": Effort(2**23, 0.0035),
}
"""Effort of each mode, with which correct verifiers pass on all instances of one draft up to V = 4,
L = 3. The bound falls below the bias near n = (0.4 s + 3.4)**2 / bias**2 emissions, with s the sum
of the square roots of a law's weights: at most the root of the number of its cells, 15 for the 256
texts of V = 4, L = 3. V = 8, L = 3 has 4096 (s = 58) and ends inconclusive in every mode: it takes
0.8, 7 and 58 million emissions."""

TESTS = 5
"""Tests of one run that can raise a false alarm: two on laws, and three on the length."""


@dataclass(frozen=True)
class TestResult:
    """Verdict and figures of a test on one requirement.

    `distance` is the distance of the counts, and `bound` exceeds the true distance except with
    probability at most 1e-6; the test passes where `bound` is at most the `bias` of interest. A
    correct verifier reaches the `threshold` with the probability of a false alarm that its budget
    allows. With these emissions, the test finds a distance of `detectable`, in the direction that
    is hardest to see, with the probability `power`, which is computed and correct to a few
    hundredths.
    """

    emissions: int
    distance: float
    bound: float
    bias: float
    log_evidence: float
    threshold: float
    what: str
    """The deciding evidence, in words."""
    detectable: float = inf
    power: float = POWER
    path: tuple[tuple[int, float], ...] = ()
    """The number of emissions and the log evidence after every batch."""
    stream: str = ""
    """The SHA-256 of all emissions, in order."""

    @property
    def verdict(self) -> str:
        """Fail, pass or inconclusive."""
        if self.log_evidence >= self.threshold:
            return FAIL
        return PASS if self.bound <= self.bias else INCONCLUSIVE

    def finding(
        self, requirement: str, case: str, *, allowed: Rational, false_alarm: float
    ) -> Finding:
        """Return the finding of a requirement; `allowed` is the distance that rounding explains."""
        return Finding(
            requirement,
            case,
            self.verdict,
            exactly(self.distance),
            allowed,
            "sample",
            self.emissions,
            self.what if self.verdict == FAIL else "",
            sampled=SampleFigures(
                false_alarm,
                self.log_evidence,
                self.bound,
                self.detectable,
                self.power,
                self.path,
                self.stream,
            ),
        )


@dataclass(frozen=True)
class TestState:
    """State of a test after some batches: the counts, the wealth of the bets, and the results."""

    batches: int = 0
    counts: Mapping[str, Floats] = field(default_factory=dict)
    wealth: Mapping[str, Wealth] = field(default_factory=dict)
    words: str = ""
    """The description of the first invalid result."""
    stream: str = ""
    """The SHA-256 of all emissions, in order."""
    results: Mapping[str, TestResult] = field(default_factory=dict)

    @property
    def is_undecided(self) -> bool:
        """True if more emissions can decide a requirement."""
        return not self.results or INCONCLUSIVE in self._verdicts

    @property
    def is_open(self) -> bool:
        """True if more emissions can decide a requirement, and none has failed."""
        return self.is_undecided and FAIL not in self._verdicts

    @property
    def _verdicts(self) -> set[str]:
        return {each.verdict for each in self.results.values()}

    def with_counts(
        self, counts: Mapping[str, Floats], laws: Mapping[str, Null], stream: str, words: str = ""
    ) -> TestState:
        """Return the state after one more batch: bets are on the counts that have a law."""
        wealth = {
            each: updated(law, self.wealth.get(each) or no_evidence(law), counts[each])
            for each, law in laws.items()
        }
        added = {each: self.counts.get(each, 0.0) + fresh for each, fresh in counts.items()}
        return replace(
            self,
            batches=self.batches + 1,
            counts=added,
            wealth=wealth,
            words=self.words or words,
            stream=stream,
        )

    def with_results(self, results: Mapping[str, TestResult]) -> TestState:
        """Return the state with the results of its last batch; failed requirements stay failed."""
        now: dict[str, TestResult] = {}
        for each, found in results.items():
            before = self.results.get(each)
            if before is not None and before.verdict == FAIL:
                now[each] = before
                continue
            path = () if before is None else before.path
            path = (*path, (found.emissions, found.log_evidence))
            now[each] = replace(found, path=path, stream=self.stream)
        return replace(self, results=now)


@dataclass(frozen=True)
class SequentialTest:
    """A sequential test of one adapter on one instance, cut into shares.

    Shares can be drawn anywhere, in any order, each from its own seed; they are judged in order, so
    the result is the same wherever they were drawn. `alone` gives the verifier one row at a time.
    """

    declared: Declaration
    instance: Instance
    seed: int
    effort: Effort
    budget: Budget
    alone: bool = False

    @property
    def shares(self) -> tuple[tuple[int, ...], ...]:
        """The batch sizes of every share; each of the first shares quadruples the emissions."""
        return _shares(self.effort.emissions)

    @property
    def nulls(self) -> NullHypotheses:
        """The null hypotheses for the counts."""
        given = as_given(self.instance, self.declared)
        return null_hypotheses(given, self.declared.algorithm, allowed_of(given, self.declared))

    def run(self, adapter: Adapter, *, to_the_end: bool = False) -> TestState:
        """Return the final state, after drawing here as many shares as necessary."""
        state = self._end(adapter, to_the_end=to_the_end)
        note(self.compared(state, adapter))
        return state

    def _end(self, adapter: Adapter, *, to_the_end: bool) -> TestState:
        state = TestState()
        for share in range(len(self.shares)):
            for batch in self.draw(adapter, share):
                state = self.after(state, batch)
                if not (state.is_undecided if to_the_end else state.is_open):
                    return state
        return state

    def compared(self, state: TestState, adapter: Adapter | None = None) -> Counter[Compared]:
        """Return the requests for the law up to a state, of an adapter around the verifier."""
        sizes = [size for share in self.shares for size in share][: state.batches]
        return Counter(compared_in(adapter, self._asked, self.instance, sizes))

    @property
    def _asked(self) -> Declaration:
        """The declaration for requests, with one row at a time if `alone`."""
        return replace(self.declared, batch=self.declared.batch and not self.alone)

    def draw(self, adapter: Adapter, share: int) -> Iterator[BatchCounts]:
        """Draw one share, batch by batch."""
        cells = cells_of(as_given(self.instance, self.declared))
        random = numpy.random.default_rng((self.seed, _DRAWN, share))
        program, sizes = Program(adapter, self._asked), self.shares[share]
        return counted_batches(program, self.instance, cells, random, sizes)

    def after(self, state: TestState, batch: BatchCounts) -> TestState:
        """Return the state after one more batch."""
        nulls, counts = self.nulls, batch.counts.astype(numpy.float64)
        random = numpy.random.default_rng((self.seed, _CONTINUED, state.batches + 1))
        seen = state.with_counts(
            {"emission": counts, "text": texts_of(nulls, counts, random)},
            nulls.laws,
            sha256(f"{state.stream}{batch.stream}".encode()).hexdigest(),
            batch.words,
        )
        return seen.with_results(_judged(self, nulls, seen))

    def results(self, state: TestState) -> dict[str, TestResult]:
        """Return the result of each requirement, with the smallest detectable distance."""
        nulls, threshold = self.nulls, self.budget.threshold
        return {
            each: replace(
                found, detectable=detectable_distance(nulls, each, found.emissions, threshold)
            )
            for each, found in state.results.items()
        }

    def texts(self, state: TestState) -> tuple[TextWeight, ...]:
        """Return the counted law of the text, and the target's."""
        nulls, counts = self.nulls, state.counts["text"]
        weights = zip([*nulls.texts, ()], counts / counts.sum(), nulls.text.law, strict=True)
        return tuple(TextWeight(t, float(seen), float(p)) for t, seen, p in weights if seen or p)

    def lengths(self, state: TestState) -> Lengths | None:
        """Return the mean accepted length and its optimum; None where the optimum is unknown."""
        nulls = self.nulls
        if nulls.optimum is None:
            return None
        return Lengths(_mean_of(_lengths_of(nulls, state)), nulls.optimum)


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


def sample(
    program: Program,
    instance: Instance,
    *,
    seed: int,
    effort: Effort = EFFORTS["quick"],
    budget: Budget | None = None,
    alone: bool = False,
    to_the_end: bool = False,
) -> dict[str, TestResult]:
    """Return the result of each requirement that can be judged on this instance.

    A requirement passes if its distance is below the bias of interest, L times that for lengths.
    The default budget of false alarms is for `TESTS` tests. `alone` gives the verifier one row at a
    time; `to_the_end` goes on after a failure, until everything is decided. `law.reference`,
    `length.expected` and `length.optimal` are included only where the reference has the algorithm,
    and the algorithm takes the instance; `length.optimal` only where the algorithm claims the
    optimum.
    """
    budget = budget or Budget(tests=TESTS)
    test = SequentialTest(program.declared, instance, seed, effort, budget, alone)
    return test.results(test.run(program.adapter, to_the_end=to_the_end))


# --- results -----------------------------------------------------------------------------------


def _judged(test: SequentialTest, nulls: NullHypotheses, state: TestState) -> dict[str, TestResult]:
    """Return the current result of each requirement."""
    emissions = state.counts["emission"]
    text = law_result(test, state, "text", nulls.text, "the law of the text is another one")
    results = {"law.lossless": text}
    if nulls.optimum is not None:
        above = _above_result(test, nulls, state, nulls.optimum)
        results["length.bounded"] = above
        if above.verdict == FAIL and text.verdict != FAIL:
            proof = replace(text, log_evidence=above.log_evidence, what=above.what)
            results["law.lossless"] = proof
    if nulls.emission is not None:
        what = "the law of the emission is another one"
        results["law.reference"] = law_result(test, state, "emission", nulls.emission, what)
    unsaid = emissions[nulls.cells.unsaid].sum()
    results["law.support"] = _never_result(test, state, unsaid, "what the target never says")
    words = state.words or "what is no result"
    results["law.prefix"] = _never_result(test, state, emissions[-1], words)
    if nulls.length is not None:
        mean = float(nulls.length @ numpy.arange(len(nulls.length)))
        results["length.expected"] = _length_result(test, nulls, state, mean)
        if nulls.claimed and nulls.optimum is not None:
            results["length.optimal"] = _length_result(test, nulls, state, nulls.optimum)
    return results


def law_result(
    test: SequentialTest, state: TestState, counted: str, law: Null, what: str
) -> TestResult:
    """Return the current result on a law, given the name of the counts in `counted`."""
    counts, wealth = state.counts[counted], state.wealth[counted]
    if wealth.forbidden:
        what = f"{what}: it has a forbidden outcome"
    observed, emissions = distance(law.law, counts), int(counts.sum())
    bound = upper_bound(observed, emissions, look=state.batches)
    return _result(test, emissions, observed, bound, log_evidence(law, wealth), what)


def _never_result(test: SequentialTest, state: TestState, times: float, what: str) -> TestResult:
    """Return the result of a count that must be zero: rounding does not excuse a single one."""
    emissions, look = int(state.counts["emission"].sum()), state.batches
    observed = float(times / emissions)
    # Never seen in n emissions: (1 - bound)**n is the batch's share of the error.
    bound = (
        upper_bound(observed, emissions, look=look)
        if times
        else log(look * (look + 1) / MISSED) / emissions
    )
    what = f"a forbidden outcome: {what}" if times else f"no outcome is {what}"
    return _result(test, emissions, observed, bound, inf if times else 0.0, what)


def _length_result(
    test: SequentialTest, nulls: NullHypotheses, state: TestState, mean: float
) -> TestResult:
    lengths = _lengths_of(nulls, state)
    won = log_evidence_off(lengths, mean, (len(lengths) - 1) * nulls.allowed)
    what = "the mean of the accepted length is another one"
    return _mean_result(test, state, lengths, abs(_mean_of(lengths) - mean), won, what)


def _above_result(
    test: SequentialTest, nulls: NullHypotheses, state: TestState, optimum: float
) -> TestResult:
    lengths = _lengths_of(nulls, state)
    won = log_evidence_above(lengths, optimum + (len(lengths) - 1) * nulls.allowed)
    what = "the accepted length is above the optimum"
    return _mean_result(test, state, lengths, max(_mean_of(lengths) - optimum, 0.0), won, what)


def _mean_result(
    test: SequentialTest, state: TestState, lengths: Floats, observed: float, won: float, what: str
) -> TestResult:
    emissions, span = int(lengths.sum()), len(lengths) - 1
    bound = upper_bound(observed, emissions, look=state.batches, span=span)
    return _result(test, emissions, observed, bound, won, what, span=span)


def _lengths_of(nulls: NullHypotheses, state: TestState) -> Floats:
    """Return the number of times of each accepted length."""
    return tally(nulls.cells.accepted, state.counts["emission"], nulls.cells.instance.length + 1)


def _mean_of(lengths: Floats) -> float:
    """Return the mean accepted length, from counts by length."""
    return float(lengths @ numpy.arange(len(lengths))) / int(lengths.sum())


def _result(
    test: SequentialTest,
    emissions: int,
    observed: float,
    bound: float,
    won: float,
    what: str,
    *,
    span: int = 1,
) -> TestResult:
    bias = span * test.effort.bias
    return TestResult(emissions, observed, bound, bias, won, test.budget.threshold, what)
