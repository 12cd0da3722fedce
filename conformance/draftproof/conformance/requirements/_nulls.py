"""Null hypotheses: the exact laws against which to test the counts of a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.process import continued
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law, require_fit


@dataclass(frozen=True)
class Continuations:
    """Laws of the texts that continue the emissions of one number of tokens, group by group.

    Cells of one text are one group, unless the algorithm is stateful: then every cell is one, and
    its law is that of the modified target that the cell leaves.
    """

    cells: Integers
    """[emissions]: the cells of the emissions."""
    group: Integers
    """[emissions]: the group of each."""
    text: Integers
    """[groups, widest]: the numbers of the texts that continue each group, padded in front."""
    law: Floats
    """[groups, widest]: their law; 0 in the padding."""


@dataclass(frozen=True)
class NullHypotheses:
    """The hypotheses against which the counts of one instance are tested.

    `emission` and `length` are None where the reference does not know the algorithm, `optimum`
    where it is unknown; `claimed` is true if the algorithm claims the optimum.
    """

    cells: EmissionCells
    allowed: float
    text: Null
    texts: tuple[Path, ...]
    """The texts that the target can write, in order: the number of a text is its position."""
    continuations: tuple[Continuations, ...]
    """Hypotheses on emissions of 1..L+1 tokens."""
    emission: Null | None
    length: Floats | None
    """[L+1]: the exact law of the accepted length."""
    optimum: float | None
    claimed: bool

    @property
    def laws(self) -> dict[str, Null]:
        """Laws by the name of the counts: texts, and emissions if their law is known."""
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
    written = dict(sorted(instance.target.text(instance.length + 1).items()))
    texts = numpy.array([float(weight) for weight in written.values()])
    continuations = [*_continuations(cells, [*written], texts)]
    if algorithm is not None and algorithm.stateful:
        continuations = [_modified(each, cells, [*written], algorithm) for each in continuations]
    return NullHypotheses(
        cells=cells,
        allowed=allowed,
        text=null(
            numpy.append(texts, 0.0),  # what the target never says, and what is no result
            tolerance=allowed,
            forbidden=[len(texts)],
        ),
        texts=(*written,),
        continuations=tuple(continuations),
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


def _continuations(
    cells: EmissionCells, texts: Sequence[Path], law: Floats
) -> Iterator[Continuations]:
    said = numpy.setdiff1d(numpy.arange(len(cells.emissions)), cells.unsaid)
    for size in range(1, cells.instance.length + 2):
        counts = Counter(text[:size] for text in texts)
        number = {text: place for place, text in enumerate(counts)}
        own = [i for i in said if len(cells.emissions[i].tokens) == size]
        widths = numpy.array([*counts.values()])
        # Texts that begin alike are neighbours. Padding in front leaves the last weight its own.
        text = widths.cumsum()[:, None] - numpy.arange(widths.max())[::-1]
        text -= 1
        padding = text < (widths.cumsum() - widths)[:, None]
        text[padding] = 0
        weight = numpy.where(padding, 0.0, law[text])
        yield Continuations(
            cells=numpy.array(own, dtype=int),
            group=numpy.array([number[cells.emissions[i].tokens] for i in own], dtype=int),
            text=text,
            law=weight / weight.sum(1, keepdims=True),
        )


def _modified(
    plain: Continuations, cells: EmissionCells, texts: Sequence[Path], algorithm: Algorithm
) -> Continuations:
    """Return every cell as a separate group, continued by the target that the algorithm leaves.

    The continuation is an average over drafts, like the counts. Emissions that the algorithm never
    produces are continued by the target's own rows.
    """
    instance = cells.instance
    left = left_behind(emission_law(algorithm, instance))
    law, text = plain.law[plain.group], plain.text[plain.group]
    for place, cell in enumerate(plain.cells):
        if emitted := left.get(cells.emissions[cell]):
            owed = continued(emitted, instance, instance.length + 1)
            own = numpy.array([float(owed[each]) for each in texts])
            law[place] = numpy.where(law[place] > 0, own[text[place]], 0.0)
    return replace(plain, group=numpy.arange(len(plain.cells)), text=text, law=law)


def texts_of(nulls: NullHypotheses, counts: Floats, random: numpy.random.Generator) -> Floats:
    """Return the counts of texts: emissions that the target continues at random."""
    texts = numpy.zeros(len(nulls.text.law))
    for each in nulls.continuations:
        started = tally(each.group, counts[each.cells], len(each.law))
        numpy.add.at(texts, each.text, random.multinomial(started.astype(int), each.law))
    texts[-1] = counts[nulls.cells.unsaid].sum() + counts[-1]
    return texts


# --- what is detectable -------------------------------------------------------------------------

POWER = 0.9
"""Probability with which a test rejects a detectable distance."""


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
    """Return the smallest distance from a law that is found with probability `POWER`."""

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
