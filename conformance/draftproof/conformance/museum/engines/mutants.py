"""Engines with one wrong step each: faults of the code around a correct verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy

from draftproof.conformance.lanes.engine.asking import Generation, SamplingParams, Tokens
from draftproof.conformance.museum.engines.engine import (
    MuseumEngine,
    Running,
    Slots,
    processed,
)
from draftproof.conformance.museum.engines.model import Floats, Integers


class StaleCache(MuseumEngine):
    """Keeps the cache entries of a rejected token."""

    name = "stale-cache"

    def roll_back(self, running: Sequence[Running], slots: Slots, count: int) -> None:  # noqa: ARG002
        """Advance both caches by all that was read."""
        for cache in (slots.target, slots.draft):
            cache.lengths += count + 1


class NeighboursTemperature(MuseumEngine):
    """Processes each target row with the settings of the request beside it."""

    name = "neighbours-temperature"

    def target_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the target's rows, processed as the next request asks."""
        others = [*running[1:], running[0]]
        return numpy.stack(
            [processed(own, each.asked.sampling) for own, each in zip(logits, others, strict=True)]
        )


class AnothersBonus(MuseumEngine):
    """Draws the bonus from the row of a different request, if there is one."""

    name = "anothers-bonus"

    def target_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the target's rows, with the last ones exchanged."""
        rows = super().target_rows(running, logits)
        rows[:, -1] = numpy.roll(rows[:, -1], 1, axis=0)
        return rows


class DraftSettingsLost(MuseumEngine):
    """Draws drafted tokens as the request asks, and verifies them with the draft's plain rows."""

    name = "draft-settings-lost"

    def drawn_from(self, each: Running, row: Floats) -> Floats:
        """Return the row as the request asks for it."""
        with numpy.errstate(divide="ignore"):
            return processed(numpy.log(row), each.asked.sampling)

    def draft_rows(self, running: Sequence[Running], logits: Floats) -> Floats:  # noqa: ARG002
        """Return the draft's plain rows."""
        return processed(logits, SamplingParams())


class DraftAtOwnTemperature(MuseumEngine):
    """Draws drafted tokens at a temperature of 1.3, and verifies them as if at the request's."""

    name = "draft-at-own-temperature"

    def drawn_from(self, each: Running, row: Floats) -> Floats:  # noqa: ARG002
        """Return the row at a different temperature."""
        warm = row ** (1 / 1.3)
        normalised: Floats = warm / warm.sum()
        return normalised


class FiltersOnOneSide(MuseumEngine):
    """Applies top-k, top-p and min-p to the draft alone."""

    name = "filters-on-one-side"

    def target_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the target's rows without any filter."""
        bare = [
            replace(each.asked.sampling, top_k=None, top_p=None, min_p=None) for each in running
        ]
        return numpy.stack(
            [processed(own, sampling) for own, sampling in zip(logits, bare, strict=True)]
        )


class ForcedAcceptance(MuseumEngine):
    """Keeps every drafted token, as switches for benchmarks do."""

    name = "forced-acceptance"

    def accepts(self, each: Running, p: float, q: float) -> bool:  # noqa: ARG002
        """Return True."""
        return True


class ForcedAtTimes(MuseumEngine):
    """Keeps every drafted token in one step of twenty."""

    name = "forced-at-times"
    taken = 0

    def step(self, running: Sequence[Running], slots: Slots) -> None:
        """Count the steps."""
        super().step(running, slots)
        self.taken += 1

    def accepts(self, each: Running, p: float, q: float) -> bool:
        """Return True in one step of twenty."""
        return self.taken % 20 == 19 or super().accepts(each, p, q)


class GreedyResidual(MuseumEngine):
    """Writes the most probable token after a rejection, instead of drawing the correction."""

    name = "greedy-residual"

    def corrected(self, each: Running, p: Floats, q: Floats) -> int:  # noqa: ARG002  # the step's signature
        """Return the most probable token."""
        return int(p.argmax())


class FirstAlone(MuseumEngine):
    """Verifies the first drafted token alone: without loss, and slowly."""

    name = "first-alone"

    def verify(
        self, each: Running, drafted: Integers, draft_rows: Floats, target_rows: Floats
    ) -> list[int]:
        """Return at most one kept token, and the next token."""
        return super().verify(each, drafted[:1], draft_rows[:1], target_rows[:2])


class ShiftedAfterResume(MuseumEngine):
    """Counts positions from one too many after a prefix that was read before."""

    name = "shifted-after-resume"

    def __init__(self, folder: str, *, seed: int | None = None) -> None:
        super().__init__(folder, seed=seed)
        self.resumed: set[int] = set()

    def known_prefix(self, prompt: Tokens, slots: Slots, row: int) -> int:
        """Note which rows continue a prefix."""
        known = super().known_prefix(prompt, slots, row)
        if known:
            self.resumed.add(row)
        return known

    def prefill(self, running: Sequence[Running], slots: Slots) -> None:
        """Forget the rows of the call before."""
        self.resumed.clear()
        super().prefill(running, slots)

    def positions(self, running: Sequence[Running], count: int) -> Integers:
        """Return positions, one too large for resumed rows."""
        places = super().positions(running, count)
        places[[*self.resumed]] += 1
        return places


class MixedPrefixes(MuseumEngine):
    """Treats two texts as equal if their first tokens are equal."""

    name = "mixed-prefixes"

    def common(self, prompt: Tokens, text: Tokens) -> int:
        """Return the shorter length if the first tokens are the same."""
        return min(len(prompt), len(text)) if prompt[:1] == text[:1] else 0


class BlocksByFirst(MuseumEngine):
    """Keeps prefixes in blocks of 16 tokens, and treats texts as equal that begin alike."""

    name = "blocks-by-first"

    def common(self, prompt: Tokens, text: Tokens) -> int:
        """Return the length of all whole blocks if the first tokens are the same."""
        same = min(len(prompt), len(text)) if prompt[:1] == text[:1] else 0
        return same // 16 * 16


class ChunksFromZero(MuseumEngine):
    """Counts the positions of every chunk of 32 tokens of a prompt from zero."""

    name = "chunks-from-zero"

    def read_from(self, known: int, count: int) -> Integers:
        """Return positions that begin anew."""
        return super().read_from(known, count) % 32


class OneNeighboursTemperature(MuseumEngine):
    """Processes the last of eight rows with the settings of the row before it."""

    name = "one-neighbours-temperature"

    def target_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the target's rows, one of them with the settings of a different request."""
        rows = super().target_rows(running, logits)
        if len(running) == 8:
            rows[7] = processed(logits[7], running[6].asked.sampling)
        return rows


class FiltersBeforeTemperature(MuseumEngine):
    """Filters before it divides by the temperature, and adds the logit bias after that."""

    name = "filters-before-temperature"

    def target_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the target's rows, processed in a different order."""
        return numpy.stack(
            [early(own, each.asked.sampling) for own, each in zip(logits, running, strict=True)]
        )

    def draft_rows(self, running: Sequence[Running], logits: Floats) -> Floats:
        """Return the draft's rows, processed in a different order."""
        return self.target_rows(running, logits)


def early(logits: Floats, sampling: SamplingParams) -> Floats:
    """Return rows that are filtered at a temperature of 1, and biased after the division."""
    filtered = processed(logits, replace(sampling, temperature=1.0, logit_bias={}))
    with numpy.errstate(divide="ignore"):
        own = numpy.log(filtered) / sampling.temperature
    return processed(own, SamplingParams(logit_bias=sampling.logit_bias))


class SharedSeed(MuseumEngine):
    """Starts every request without a seed with the same random numbers."""

    name = "shared-seed"

    def __init__(self, folder: str, *, seed: int | None = None) -> None:
        super().__init__(folder, seed=seed)
        self.fixed = int(self.random.integers(2**63))

    def _seed(self, asked: Generation) -> int:
        return self.fixed if asked.seed is None else asked.seed


@dataclass(frozen=True)
class EngineMutant:
    """A wrong engine, the requirement that its fault breaks, and the memory that shows it."""

    make: type[MuseumEngine]
    breaks: str
    memory: int = 1
    """The number of last tokens on which a row must depend."""


MUTANTS = (
    EngineMutant(StaleCache, "engine.lossless", memory=2),
    EngineMutant(NeighboursTemperature, "engine.concurrent"),
    EngineMutant(AnothersBonus, "engine.concurrent"),
    EngineMutant(DraftSettingsLost, "engine.parameters"),
    EngineMutant(DraftAtOwnTemperature, "engine.lossless"),
    EngineMutant(FiltersOnOneSide, "engine.parameters"),
    EngineMutant(ForcedAcceptance, "engine.lossless"),
    EngineMutant(ForcedAtTimes, "engine.lossless"),
    EngineMutant(GreedyResidual, "engine.lossless"),
    EngineMutant(FirstAlone, "engine.length"),
    EngineMutant(SharedSeed, "engine.lossless"),
    EngineMutant(FiltersBeforeTemperature, "engine.parameters"),
    EngineMutant(OneNeighboursTemperature, "engine.concurrent"),
    EngineMutant(BlocksByFirst, "engine.lossless", memory=2),
    EngineMutant(ChunksFromZero, "engine.lossless", memory=2),
    EngineMutant(ShiftedAfterResume, "engine.lossless", memory=2),
    EngineMutant(MixedPrefixes, "engine.lossless", memory=2),
)
"""All mutants. Mutants that need a memory of 2 are correct on rows of memory 1."""
