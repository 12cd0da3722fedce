"""Null hypotheses: the exact laws against which the counts of a sample are tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import expm1, inf, log

import numpy

from draftproof.conformance.lanes.observe import as_observed, left_behind
from draftproof.conformance.lanes.sample import EmissionCells, Integers, cells_of
from draftproof.conformance.lanes.statistics import (
    Floats,
    Null,
    Outlook,
    detectable,
    hardest,
    mean_outlook,
    null,
    outlook,
    shifted,
    tally,
)
from draftproof.conformance.protocol.adapter import Declaration
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.process import continued
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law, require_fit


@dataclass(frozen=True)
class NullHypotheses:
    """The hypotheses against which the counts of one instance are tested.

    `emission` and `length` are None where the reference does not know the algorithm, `optimum`
    where it is unknown; `claimed` is true if the algorithm claims the optimum.
    """

    cells: EmissionCells
    allowed: float
    text: Null
    continuations: tuple[tuple[Integers, Integers, Integers, Floats], ...]
    """For 1..L+1 tokens: the cells with that many tokens and the group of each, the number of the
    text of each group, and the target's law of the texts that continue it. Cells of one text are
    one group, unless the algorithm is stateful: then the target is the modified target that the
    cell leaves."""
    emission: Null | None
    length: Floats | None
    """[L+1]: the exact law of the accepted length."""
    optimum: float | None
    claimed: bool

    @property
    def laws(self) -> dict[str, Null]:
        """The laws by the name of the counts: texts, and emissions where their law is known."""
        known = {} if self.emission is None else {"emission": self.emission}
        return {"text": self.text, **known}


def emission_law_of(cells: EmissionCells, algorithm: Algorithm) -> Floats:
    """Return the law of an algorithm's emissions by cell."""
    law = emission_law(algorithm, cells.instance).map(as_observed)
    return numpy.array([float(law[emission]) for emission in cells.emissions] + [0.0])


def allowed_of(instance: Instance, declared: Declaration) -> float:
    """Return the distance that rounding explains."""
    return min(float(allowed_distance(declared, instance.vocabulary, instance.length)), 1.0)


@lru_cache(maxsize=8)
def null_hypotheses(instance: Instance, name: str, allowed: float) -> NullHypotheses:
    """Return the null hypotheses for the counts of an adapter with an algorithm of this name."""
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
    return NullHypotheses(
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
    """Yield every cell as a separate group, continued by the target that the algorithm leaves.

    The continuation is an average over drafts, like the counts. Emissions that the algorithm never
    produces are continued by the target's own rows.
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


def texts_of(nulls: NullHypotheses, counts: Floats, random: numpy.random.Generator) -> Floats:
    """Return the counts of texts: emissions that the target continues at random."""
    texts = numpy.zeros(len(nulls.text.law))
    for own, group, number, following in nulls.continuations:
        started = tally(group, counts[own], len(following))
        written = random.multinomial(started.astype(int), following)
        numpy.add.at(texts[:-1].reshape(-1, following.shape[1]), number, written)
    texts[-1] = counts[nulls.cells.unsaid].sum() + counts[-1]
    return texts


# --- what is detectable -------------------------------------------------------------------------

POWER = 0.9
"""The probability with which a test rejects a detectable distance."""


def detectable_distance(
    nulls: NullHypotheses, requirement: str, emissions: int, threshold: float
) -> float:
    """Return the smallest distance of a requirement that is found with the probability `POWER`."""
    law = {"law.lossless": nulls.text, "law.reference": nulls.emission}.get(requirement)
    if law is not None:
        return detectable_bias(law, emissions, threshold)
    if requirement.startswith("law."):
        return -expm1(log(1 - POWER) / emissions)
    if requirement == "length.bounded" and nulls.optimum is not None:
        return _detectable_excess(nulls, nulls.optimum, emissions, threshold)
    if nulls.length is not None:
        return _detectable_shift(nulls.length, nulls.allowed, emissions, threshold)
    return inf


def detectable_bias(law: Null, emissions: int, threshold: float) -> float:
    """Return the smallest distance from a law that is found with the probability `POWER`."""

    def after(bias: float) -> Outlook:
        return outlook(law, hardest(law.law, bias), emissions)

    return detectable(after, threshold, power=POWER)


def _detectable_excess(
    nulls: NullHypotheses, optimum: float, emissions: int, threshold: float
) -> float:
    """Return the detectable excess over the optimum of the most varied law: all tokens, or none."""
    span = nulls.cells.instance.length
    room, bound = span - optimum, optimum + span * nulls.allowed
    if room <= 0:
        return 0.0
    all_or_none = numpy.zeros(span + 1)
    all_or_none[[0, span]] = room / span, optimum / span

    def after(shift: float) -> Outlook:
        return mean_outlook(shifted(all_or_none, shift), bound, emissions)

    return min(detectable(after, threshold, power=POWER, largest=room), room)


def _detectable_shift(length: Floats, allowed: float, emissions: int, threshold: float) -> float:
    span = len(length) - 1

    def either_way(upwards: Floats) -> float:
        mean = float(upwards @ numpy.arange(span + 1))
        if mean >= span:
            return 0.0

        def after(shift: float) -> Outlook:
            return mean_outlook(shifted(upwards, shift), mean + span * allowed, emissions)

        # One of two sides has half of the wealth.
        smallest = detectable(after, threshold + log(2), power=POWER, largest=span - mean)
        return min(smallest, span - mean)  # no mean is further off on this side

    return max(either_way(length), either_way(length[::-1]))
