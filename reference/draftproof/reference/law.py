"""Laws: finite distributions with exact rational weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from draftproof.reference.errors import NotADistribution
from draftproof.reference.rational import ONE, ZERO, Rational, rational, shown, total

Outcome = TypeVar("Outcome")
Image = TypeVar("Image")


@dataclass(frozen=True, init=False)
class Law(Generic[Outcome]):
    """A finite distribution: every outcome with its positive exact probability.

    Raises `NotRational` for a weight that is a float, and `NotADistribution` unless the
    weights are non-negative and sum to exactly one.
    """

    weights: Mapping[Outcome, Rational]

    def __init__(self, weights: Mapping[Outcome, Rational]) -> None:
        exact = {outcome: rational(weight) for outcome, weight in weights.items()}
        for outcome, weight in exact.items():
            if weight < 0:
                raise NotADistribution(f"outcome {outcome!r} has the negative probability {weight}")
        mass = total(exact.values())
        if mass != 1:
            raise NotADistribution(f"probabilities must sum to 1, they sum to {mass}")
        kept = {outcome: weight for outcome, weight in exact.items() if weight != 0}
        object.__setattr__(self, "weights", kept)

    @classmethod
    def certain(cls, outcome: Outcome) -> Law[Outcome]:
        """Return the law of a single certain outcome."""
        return cls({outcome: ONE})

    def __repr__(self) -> str:
        return f"Law({shown(self.weights)})"

    def __getitem__(self, outcome: Outcome) -> Rational:
        return self.weights.get(outcome, ZERO)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.weights)

    def __len__(self) -> int:
        return len(self.weights)

    def items(self) -> Iterator[tuple[Outcome, Rational]]:
        """Yield every outcome of positive probability with its probability."""
        yield from self.weights.items()

    def map(self, image: Callable[[Outcome], Image]) -> Law[Image]:
        """Return the law of image(X) for X drawn from this law."""
        return self.then(lambda outcome: Law.certain(image(outcome)))

    def then(self, kernel: Callable[[Outcome], Law[Image]]) -> Law[Image]:
        """Return the law of Y drawn from kernel(X), for X drawn from this law."""
        joint: dict[Image, Rational] = {}
        for outcome, weight in self.items():
            for image, share in kernel(outcome).items():
                joint[image] = joint.get(image, ZERO) + weight * share
        return Law(joint)

    def expectation(self, value: Callable[[Outcome], Rational | int]) -> Rational:
        """Return E[value(X)]. Raises `NotRational` for a value that is a float."""
        return total(weight * rational(value(outcome)) for outcome, weight in self.items())

    def probability(self, event: Callable[[Outcome], bool]) -> Rational:
        """Return P(event(X))."""
        return total(weight for outcome, weight in self.items() if event(outcome))

    def total_variation(self, other: Law[Outcome]) -> Rational:
        """Return the largest difference between the two laws' probabilities of one event."""
        outcomes = {*self, *other}
        return total(abs(self[outcome] - other[outcome]) for outcome in outcomes) / 2
