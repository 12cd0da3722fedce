"""Claims, and their check by exact arithmetic.

A claim is recorded as data: its statement, its source, and the findings of exact arithmetic. The
data comes with a program that derives the same findings from the verifiers of this package alone.
`check` compares the two, figure by figure, so that the ledger stays true to the verifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Any

from draftproof.reference.model import Instance, instance_to_json
from draftproof.reference.rational import Rational

Figures = Mapping[str, str]
Figure = Rational | int | str
Refutation = Callable[[Instance], Mapping[str, Figure] | None]


class Verdict(StrEnum):
    """The verdict of exact arithmetic on a claim, or an argument that it illustrates."""

    PROVED = "proved"
    HOLDS = "holds"
    REFUTED = "refuted"


class ClaimFailed(AssertionError):
    """The derived figures or verdict differ from the ledger's."""


@dataclass(frozen=True)
class Derivation:
    """The number of examined instances, the figures found, and the counterexample, if any.

    `figures` are exact numbers by name, in printed form.
    """

    instances: int
    figures: Figures = field(default_factory=dict)
    counterexample: Instance | None = None


@dataclass(frozen=True)
class Scope:
    """Instances in the order in which a claim examines them, and their description."""

    words: str
    instances: Callable[[], Iterable[Instance]]

    def also(self, words: str) -> Scope:
        """Return the same instances with a longer description."""
        return replace(self, words=self.words + words)

    def then(self, words: str, *others: Scope) -> Scope:
        """Return these instances and then those of others, with a new description."""
        return Scope(
            words, lambda: chain.from_iterable(each.instances() for each in (self, *others))
        )

    def all_with(self, words: str, change: Callable[[Instance], Instance]) -> Scope:
        """Return these instances, each changed, with words before their description."""
        return Scope(words + self.words, lambda: map(change, self.instances()))


def by_figures(_: Instance) -> None:
    """Refute nothing, for a claim that consists of its figures, which `check` compares."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement, its source, and the findings on it.

    `statement` is the claim as made, even where it is false. A counterexample is the first instance
    of those `examined` for which `refuted` returns figures; `known` are figures that are computed
    in any case. `proof` is an argument for all instances of the shape, where there is a short one;
    `derive` also tests the argument on the instances. Texts may span several lines.
    """

    id: str
    statement: str
    source: str
    shape: str
    examined: Scope
    refuted: Refutation
    known: Callable[[], Mapping[str, Figure]] = dict
    recorded: Derivation
    proof: str = ""

    def __post_init__(self) -> None:
        for name in ("statement", "proof"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))

    @property
    def scope(self) -> str:
        """Return the description of the examined instances."""
        return " ".join(self.examined.words.split())

    def derive(self) -> Derivation:
        """Examine the instances in their order, up to the first that refutes the claim."""
        figures, count = dict(self.known()), 0
        for instance in self.examined.instances():
            count += 1
            if (found := self.refuted(instance)) is not None:
                return Derivation(count, _written({**figures, **found}), instance)
        return Derivation(count, _written(figures))

    @property
    def verdict(self) -> Verdict:
        """Return the verdict, which follows from the recorded findings."""
        if self.recorded.counterexample is not None:
            return Verdict.REFUTED
        return Verdict.PROVED if self.proof else Verdict.HOLDS

    @property
    def evidence(self) -> str:
        """Return the figures in one line."""
        return ", ".join(f"{name} {value}" for name, value in self.recorded.figures.items())

    @property
    def command(self) -> str:
        """Return the command that derives the claim again."""
        return f"draftproof claims --check {self.id}"


def check(claim: Claim) -> Derivation:
    """Derive the claim again and return the findings.

    Raises `ClaimFailed`, naming the first difference, where the findings differ from the record.
    """
    found, recorded = claim.derive(), claim.recorded
    for name in sorted({*found.figures, *recorded.figures}):
        derived, written = found.figures.get(name, "nothing"), recorded.figures.get(name, "nothing")
        if derived != written:
            raise ClaimFailed(f"{claim.id}: {name} is {derived}, the ledger says {written}")
    if found.counterexample != recorded.counterexample:
        raise ClaimFailed(
            f"{claim.id}: the first counterexample is {_shown(found.counterexample)}, "
            f"the ledger says {_shown(recorded.counterexample)}"
        )
    if found.instances != recorded.instances:
        raise ClaimFailed(
            f"{claim.id}: {found.instances} instances were examined, "
            f"the ledger says {recorded.instances}"
        )
    return found


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """Return the JSON form of a claim."""
    found = claim.recorded.counterexample
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": claim.source,
        "shape": claim.shape,
        "verdict": claim.verdict.value,
        "scope": claim.scope,
        "proof": claim.proof or None,
        "instances": claim.recorded.instances,
        "figures": dict(claim.recorded.figures),
        "counterexample": None if found is None else instance_to_json(found),
        "command": claim.command,
    }


def _written(figures: Mapping[str, Figure]) -> Figures:
    return {name: str(value) for name, value in figures.items()}


def _shown(instance: Instance | None) -> str:
    return "none" if instance is None else str(instance_to_json(instance))
