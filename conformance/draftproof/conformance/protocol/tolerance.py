"""Distance from exact that a verifier computing in floats is allowed (spec, chapter 11)."""

from __future__ import annotations

from collections.abc import Sequence

from draftproof.conformance.protocol.adapter import Declaration
from draftproof.reference.rational import Rational, rational

UNIT_ROUNDOFF = {
    "float64": rational("1/2") ** 53,
    "float32": rational("1/2") ** 24,
    "float16": rational("1/2") ** 11,
    "bfloat16": rational("1/2") ** 8,
}
"""Largest relative error of one operation, by dtype."""

DECISIVE = rational("1/1000")
"""Largest distance that can count as rounding; a larger one is inconclusive at best."""


def allowed_distance(
    declared: Declaration, vocabulary: int, length: int, *, before: int = 0
) -> Rational:
    """Return the total variation distance that rounding alone can cause (spec, chapter 11).

    The target's rows are as given, or as modified by `before` nested iterations.
    """
    row = vocabulary + 20 if declared.logits else 0
    for _ in range(before):
        # A modified row is a normalised excess.
        _, excess = _of_excess(row, length)
        row = excess + 2 * vocabulary
    return _of_emission(row, vocabulary, length) * _unit_of_arithmetic(declared)


def allowed_given_draft(
    declared: Declaration, vocabulary: int, masses: Sequence[Rational]
) -> Rational:
    """Return the distance that rounding can cause on one draft, however unlikely the draft.

    `masses` are those of the residuals, position by position: the mass of a rejection does not
    cancel, so errors count relative to it. At the first position nothing is multiplied: the
    residual of rows that are exact as given is rounded once, however small it is.
    """
    row = vocabulary + 20 if declared.logits else 0
    units = rational(row + 2 * vocabulary)
    for position, mass in enumerate(masses):
        weight, excess = _of_excess(row, position)
        own = 2 * row / mass + 1 if position == 0 else (3 * excess + weight + 2) / mass
        units += 4 * vocabulary + (3 * own + 2 if position == 0 else own)
    return units * _unit_of_arithmetic(declared)


def allowed_of_text(declared: Declaration, vocabulary: int, horizon: int) -> Rational:
    """Return the distance that rounding can cause between a pipeline's and its target's text."""
    row = of_processed_row(vocabulary)
    own = horizon * _of_emission(row, vocabulary, 0)
    assisted = sum(_of_emission(row, vocabulary, left) for left in range(1, horizon + 1))
    return (own + assisted) * unit_of(declared)


def of_processed_row(vocabulary: int) -> int:
    """Return the error of an entry after temperature, top-k and top-p, in units (chapter 4)."""
    return 3 * vocabulary + 101


def unit_of(declared: Declaration) -> Rational:
    """Return the unit in which errors are counted.

    Noise counts as ideal. In float32 it is ideal to this unit, so no verifier needs to be more
    exact.
    """
    return max(UNIT_ROUNDOFF[declared.dtype], UNIT_ROUNDOFF["float32"])


def _unit_of_arithmetic(declared: Declaration) -> Rational:
    """Return the unit of errors for a verifier that takes rows without processing them."""
    own = UNIT_ROUNDOFF[declared.arithmetic] if declared.arithmetic else unit_of(declared)
    return min(unit_of(declared), max(own, UNIT_ROUNDOFF["float32"]))


def _of_emission(row: int, vocabulary: int, length: int) -> int:
    """Return the error of one iteration's emission, for rows whose entries have this error."""
    weight, excess = _of_excess(row, length)
    position = 3 * excess + 4 * vocabulary + weight + 2
    return length * position + row + 2 * vocabulary


def _of_excess(row: int, length: int) -> tuple[int, int]:
    """Return the errors of a weight and of an excess, for rows whose entries have this error."""
    weight = length * (2 * row + 2)
    return weight, weight + 2 * row + 2
