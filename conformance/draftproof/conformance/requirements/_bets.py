"""Bets against what the counts of a sample are held against, and the verdicts that follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from math import expm1, inf, log

import numpy

from draftproof.conformance.lanes.observe import as_observed, left_behind
from draftproof.conformance.lanes.sample import EmissionCells, Integers, Look, cells_of
from draftproof.conformance.lanes.statistics import (
    MISSED,
    Floats,
    Null,
    Outlook,
    Wealth,
    detectable,
    distance,
    hardest,
    log_evidence,
    log_evidence_above,
    log_evidence_off,
    mean_outlook,
    no_evidence,
    null,
    outlook,
    shifted,
    tally,
    updated,
    upper_bound,
)
from draftproof.conformance.protocol.adapter import Declaration
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    PASS,
)
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.process import continued
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law, require_fit

POWER = 0.9
"""What is called detectable is rejected with this probability."""


@dataclass(frozen=True)
class Tested:
    """What one requirement came to.

    `distance` is the distance that the counts have, `bound` one that the true distance exceeds with
    probability at most 1e-6. A right verifier reaches the `threshold` with the probability of a
    false alarm that its budget allows. With these emissions, a distance of `detectable`, in the
    direction that is hardest to see, is found with the probability `power`, which is computed, and
    right to a few hundredths.
    """

    verdict: str
    """"pass", "fail" or "inconclusive"."""
    emissions: int
    distance: float
    bound: float
    log_evidence: float
    threshold: float
    what: str
    """What decided it."""
    detectable: float = inf
    power: float = POWER
    path: tuple[tuple[int, float], ...] = ()
    """The emissions and the log evidence at every look."""
    stream: str = ""
    """The SHA-256 of all that was emitted, in order."""


@dataclass(frozen=True)
class Criterion:
    """The log evidence at which a test fails, and the smallest bias of interest."""

    threshold: float
    bias: float


@dataclass(frozen=True)
class Asked:
    """What the counts of one instance are held against.

    `emission` and `length` are None where the reference does not know the algorithm, `optimum`
    where it is not known; `claimed` says that the algorithm claims it.
    """

    cells: EmissionCells
    allowed: float
    text: Null
    continuations: tuple[tuple[Integers, Integers, Integers, Floats], ...]
    """For 1..L+1 tokens: the cells of so many and the group of each, the number of the text of each
    group, and the target's law of the texts that go on from there. Cells of one text are one group,
    unless the algorithm is stateful: then the target is the one that it leaves behind."""
    emission: Null | None
    length: Floats | None
    """[L+1]: the exact law of the accepted length."""
    optimum: float | None
    claimed: bool


@dataclass(frozen=True)
class Counted:
    """What was counted, and what was won by it."""

    counts: Floats
    texts: Floats
    emission: Wealth | None
    text: Wealth
    words: str
    stream: str
    """A digest of the digests of all looks, in order."""


def emission_law_of(cells: EmissionCells, algorithm: Algorithm) -> Floats:
    """Return the law of an algorithm's emissions by cell."""
    law = emission_law(algorithm, cells.instance).map(as_observed)
    return numpy.array([float(law[emission]) for emission in cells.emissions] + [0.0])


def allowed_of(instance: Instance, declared: Declaration) -> float:
    """Return what rounding explains."""
    return min(float(allowed_distance(declared, instance.vocabulary, instance.length)), 1.0)


@lru_cache(maxsize=8)
def asked_of(instance: Instance, name: str, allowed: float) -> Asked:
    """Return what the counts of an adapter of this algorithm's name are held against."""
    cells, algorithm = cells_of(instance), _fitting(name, instance)
    emission = length = None
    no_result = cells.size - 1
    if algorithm is not None:
        law = emission_law_of(cells, algorithm)
        emission = null(law, tolerance=allowed, forbidden=[*cells.unsaid, no_result])
        length = tally(cells.accepted, law, instance.length + 1)
    is_stateful = algorithm is not None and algorithm.stateful
    try:
        optimum = float((stateful if is_stateful else stateless)(instance).value)
    except Unsupported:
        optimum = None
    texts = _text_law(instance.target.text(instance.length + 1), instance)
    return Asked(
        cells=cells,
        allowed=allowed,
        text=null(
            numpy.append(texts, 0.0),  # what the target never says, and what is no result
            tolerance=allowed,
            forbidden=[len(texts)],
        ),
        continuations=tuple(
            _continuations(cells, texts)
            if algorithm is None or not algorithm.stateful
            else _modified_continuations(cells, texts, algorithm)
        ),
        emission=emission,
        length=length,
        optimum=optimum,
        claimed=algorithm is not None and algorithm.optimal,
    )


def _fitting(name: str, instance: Instance) -> Algorithm | None:
    """Return the algorithm of this name, if the reference has one that takes the instance."""
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        return None
    try:
        require_fit(algorithm, instance)
    except Unsupported:
        return None
    return algorithm


def _text_law(law: Law[Path], instance: Instance) -> Floats:
    """Return the law of texts by number: their tokens as digits in base V."""
    shares = numpy.zeros((instance.vocabulary,) * (instance.length + 1))
    for text, weight in law.items():
        shares[text] = float(weight)
    return shares.ravel()


def _continuations(
    cells: EmissionCells, texts: Floats
) -> Iterator[tuple[Integers, Integers, Integers, Floats]]:
    vocabulary = cells.instance.vocabulary
    said = numpy.setdiff1d(numpy.arange(len(cells.emissions)), cells.unsaid)
    for size in range(1, cells.instance.length + 2):
        own = numpy.array([i for i in said if len(cells.emissions[i].tokens) == size], dtype=int)
        digits = vocabulary ** numpy.arange(size - 1, -1, -1)
        number = numpy.array([digits @ cells.emissions[i].tokens for i in own], dtype=int)
        block = texts.reshape(vocabulary**size, -1)
        mass = block.sum(1, keepdims=True)
        following = numpy.divide(block, mass, out=numpy.zeros_like(block), where=mass > 0)
        yield own, number, numpy.arange(len(block)), following


def _modified_continuations(
    cells: EmissionCells, texts: Floats, algorithm: Algorithm
) -> Iterator[tuple[Integers, Integers, Integers, Floats]]:
    """Yield every cell as a group by itself, continued by what the algorithm leaves there.

    Where drafts are averaged out, that is an average, too. What the algorithm never emits is
    continued by the target's own rows.
    """
    instance = cells.instance
    left = left_behind(emission_law(algorithm, instance))
    for own, number, _, following in _continuations(cells, texts):
        laws = following[number]
        for place, cell in enumerate(own):
            if emitted := left.get(cells.emissions[cell]):
                law = _text_law(continued(emitted, instance, instance.length + 1), instance)
                laws[place] = law.reshape(-1, following.shape[1])[number[place]]
        yield own, numpy.arange(len(own)), number, laws


def nothing_seen(asked: Asked) -> Counted:
    """Return what is seen before the first batch."""
    return Counted(
        numpy.zeros(asked.cells.size),
        numpy.zeros(len(asked.text.law)),
        no_evidence(asked.emission) if asked.emission else None,
        no_evidence(asked.text),
        "",
        "",
    )


def counted(asked: Asked, seen: Counted, look: Look, random: numpy.random.Generator) -> Counted:
    """Return what is seen after one more batch."""
    counts = look.counts.astype(numpy.float64)
    texts = _texts(asked, counts, random)
    emission = seen.emission
    if asked.emission is not None and emission is not None:
        emission = updated(asked.emission, emission, counts)
    return Counted(
        seen.counts + counts,
        seen.texts + texts,
        emission,
        updated(asked.text, seen.text, texts),
        seen.words or look.words,
        sha256(f"{seen.stream}{look.stream}".encode()).hexdigest(),
    )


def _texts(asked: Asked, counts: Floats, random: numpy.random.Generator) -> Floats:
    """Return how often each text was written, the emissions continued by the target at random."""
    texts = numpy.zeros(len(asked.text.law))
    for own, group, number, following in asked.continuations:
        started = tally(group, counts[own], len(following))
        written = random.multinomial(started.astype(int), following)
        numpy.add.at(texts[:-1].reshape(-1, following.shape[1]), number, written)
    texts[-1] = counts[asked.cells.unsaid].sum() + counts[-1]
    return texts


# --- verdicts -------------------------------------------------------------------------------


def judged_by(asked: Asked, seen: Counted, criterion: Criterion, look: int) -> dict[str, Tested]:
    """Return what each requirement comes to as things stand."""
    cells, counts = asked.cells, seen.counts
    span = cells.instance.length
    lengths = tally(cells.accepted, counts, span + 1)
    text = judged_law(
        asked.text, seen.text, seen.texts, criterion, look, "the law of the text is another one"
    )
    judged = {"law.lossless": text}
    if asked.optimum is not None:
        above = _judged_above(lengths, asked.optimum, asked.allowed, criterion, look)
        judged["length.bounded"] = above
        if above.verdict == FAIL and text.verdict != FAIL:
            proof = replace(text, verdict=FAIL, log_evidence=above.log_evidence, what=above.what)
            judged["law.lossless"] = proof
    if asked.emission is not None and seen.emission is not None:
        judged["law.reference"] = judged_law(
            asked.emission,
            seen.emission,
            counts,
            criterion,
            look,
            "the law of the emission is another one",
        )
    never = "what the target never says"
    judged["law.support"] = _judged_never(
        counts[cells.unsaid].sum(), counts, criterion, look, never
    )
    words = seen.words or "what is no result"
    judged["law.prefix"] = _judged_never(counts[-1], counts, criterion, look, words)
    if asked.length is not None:
        mean = float(asked.length @ numpy.arange(span + 1))
        judged["length.expected"] = _judged_length(lengths, mean, asked.allowed, criterion, look)
        if asked.claimed and asked.optimum is not None:
            judged["length.optimal"] = _judged_length(
                lengths, asked.optimum, asked.allowed, criterion, look
            )
    return judged


def judged_law(
    null: Null, evidence: Wealth, counts: Floats, criterion: Criterion, look: int, what: str
) -> Tested:
    """Return what a law comes to as things stand."""
    emissions, observed = int(counts.sum()), distance(null.law, counts)
    bound = upper_bound(observed, emissions, look=look)
    if evidence.forbidden:
        what = f"{what}: it has a forbidden outcome"
    return _tested(
        emissions, observed, bound, log_evidence(null, evidence), criterion.bias, criterion, what
    )


def _judged_never(
    times: float, counts: Floats, criterion: Criterion, look: int, what: str
) -> Tested:
    """Judge what must not happen even once: no rounding excuses it."""
    emissions = int(counts.sum())
    observed = float(times / emissions)
    # Never seen in n emissions: (1 - bound)**n is the look's share of the error.
    bound = (
        upper_bound(observed, emissions, look=look)
        if times
        else log(look * (look + 1) / MISSED) / emissions
    )
    what = f"a forbidden outcome: {what}" if times else f"no outcome is {what}"
    won = inf if times else 0.0
    return _tested(emissions, observed, bound, won, criterion.bias, criterion, what)


def _judged_length(
    lengths: Floats, mean: float, allowed: float, criterion: Criterion, look: int
) -> Tested:
    off, span = mean_of(lengths) - mean, len(lengths) - 1
    won = log_evidence_off(lengths, mean, span * allowed)
    return _judged_mean(
        lengths, abs(off), won, criterion, look, "the mean of the accepted length is another one"
    )


def _judged_above(
    lengths: Floats, optimum: float, allowed: float, criterion: Criterion, look: int
) -> Tested:
    above, span = max(mean_of(lengths) - optimum, 0.0), len(lengths) - 1
    won = log_evidence_above(lengths, optimum + span * allowed)
    return _judged_mean(
        lengths, above, won, criterion, look, "the accepted length is above the optimum"
    )


def _judged_mean(
    lengths: Floats, observed: float, won: float, criterion: Criterion, look: int, what: str
) -> Tested:
    emissions, span = int(lengths.sum()), len(lengths) - 1
    bound = upper_bound(observed, emissions, look=look, span=span)
    return _tested(emissions, observed, bound, won, span * criterion.bias, criterion, what)


def mean_of(lengths: Floats) -> float:
    """Return the mean accepted length, of counts by length."""
    return float(lengths @ numpy.arange(len(lengths))) / int(lengths.sum())


def _tested(
    emissions: int,
    observed: float,
    bound: float,
    won: float,
    bias: float,
    criterion: Criterion,
    what: str,
) -> Tested:
    """Return what a test came to whose distance passes below `bias`."""
    verdict = PASS if bound <= bias else INCONCLUSIVE
    if won >= criterion.threshold:
        verdict = FAIL
    return Tested(verdict, emissions, observed, bound, won, criterion.threshold, what)


# --- what could have been seen ------------------------------------------------------------------


def with_sight(asked: Asked, judged: dict[str, Tested], criterion: Criterion) -> dict[str, Tested]:
    """Return the findings with the smallest distances that they could have seen."""
    nulls = {"law.lossless": asked.text, "law.reference": asked.emission}
    sighted = {}
    for requirement, found in judged.items():
        law = nulls.get(requirement)
        if law is not None:
            smallest = smallest_bias(law, found.emissions, criterion)
        elif requirement.startswith("law."):
            smallest = -expm1(log(1 - POWER) / found.emissions)
        elif requirement == "length.bounded" and asked.optimum is not None:
            smallest = _smallest_excess(asked, asked.optimum, found.emissions, criterion)
        elif asked.length is not None:
            smallest = _smallest_shift(asked.length, asked.allowed, found.emissions, criterion)
        sighted[requirement] = replace(found, detectable=smallest)
    return sighted


def smallest_bias(law: Null, emissions: int, criterion: Criterion) -> float:
    """Return the smallest distance from a law that would be found."""

    def after(bias: float) -> Outlook:
        return outlook(law, hardest(law.law, bias), emissions)

    return detectable(after, criterion.threshold, power=POWER)


def _smallest_excess(asked: Asked, optimum: float, emissions: int, criterion: Criterion) -> float:
    """Return it for the law that varies most at the optimum: all tokens accepted, or none."""
    span = asked.cells.instance.length
    room, bound = span - optimum, optimum + span * asked.allowed
    if room <= 0:
        return 0.0
    all_or_none = numpy.zeros(span + 1)
    all_or_none[[0, span]] = room / span, optimum / span

    def after(shift: float) -> Outlook:
        return mean_outlook(shifted(all_or_none, shift), bound, emissions)

    return min(detectable(after, criterion.threshold, power=POWER, largest=room), room)


def _smallest_shift(length: Floats, allowed: float, emissions: int, criterion: Criterion) -> float:
    span = len(length) - 1

    def either_way(upwards: Floats) -> float:
        mean = float(upwards @ numpy.arange(span + 1))
        if mean >= span:
            return 0.0

        def after(shift: float) -> Outlook:
            return mean_outlook(shifted(upwards, shift), mean + span * allowed, emissions)

        # One of two sides has half of the wealth.
        smallest = detectable(after, criterion.threshold + log(2), power=POWER, largest=span - mean)
        return min(smallest, span - mean)  # no mean is further off on this side

    return max(either_way(length), either_way(length[::-1]))
