"""Noise chosen for many rows of a call, to check a predicted result.

There is no search: a caller that knows the law knows the walls of a coin and of a running sum, and
requests the outcomes on both sides of each wall.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from draftproof.conformance.lanes import _foreign as foreign
from draftproof.conformance.lanes._conditions import one_thread, uncompiled
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.probe._interpreted import patched_once
from draftproof.conformance.lanes.probe._tape import NOWHERE, Playback, RowsMixed, Tape

Shares = Mapping[int, float]
"""Share of a column's numbers that are below the chosen number, by column."""


class Fed:
    """Program that takes rows, `at_once` in a call, each fed the numbers at some shares."""

    def __init__(
        self, verify: Callable[[Sequence[Any]], Sequence[Any]], vocabulary: int, at_once: int
    ) -> None:
        self._verify, self._at_once = verify, at_once
        self._tape = Tape(vocabulary)
        self.rows = 0

    def columns(self, subject: Any) -> list[int]:
        """Return the columns of one row. Raises `OpaqueRandomness` unless all are uniform."""
        # The tape makes numbers of its own for columns that are new.
        self._run([subject], [NOWHERE])
        for block in self._tape.owners:
            if block.law != "uniform" or block.raced:
                reason = "draws noise whose walls are not foretold"
                raise OpaqueRandomness(block.operator, reason, block.source)
        self._tape.is_sealed = True
        return [*range(len(self._tape.owners))]

    def outcomes(self, rows: Sequence[tuple[Any, Shares]]) -> list[Any]:
        """Return the outcomes of rows. Raises `OpaqueRandomness` if rows draw differently."""
        found: list[Any] = []
        for start in range(0, len(rows), self._at_once):
            part = rows[start : start + self._at_once]
            points = [self._point(shares) for _, shares in part]
            with foreign.generators_untouched(self._verify):
                found += self._run([subject for subject, _ in part], points)
        return found

    def _point(self, shares: Shares) -> Any:
        numbers = self._tape.numbers
        point = numbers // 2
        for column, share in shares.items():
            last = int(numbers[column]) - 1
            point[column] = min(max(int(share * (last + 1)), 0), last)
        return point

    def _run(self, subjects: Sequence[Any], points: Sequence[Any]) -> Sequence[Any]:
        self.rows += len(subjects)
        with one_thread(), uncompiled(), patched_once():
            playback = Playback(self._tape, [numpy.asarray(point) for point in points])
            try:
                with playback:
                    outcomes = self._verify(subjects)
                playback.finish()
            except RowsMixed as mixed:
                raise OpaqueRandomness("the program", str(mixed)) from None
        return outcomes
