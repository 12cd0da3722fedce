"""What a claim is, and how it is held to account.

A claim is recorded as data: what it says, who said it, and what exact arithmetic found. Beside the
data stands a program that finds the same again from nothing but the verifiers of this room. A
ledger that is never recomputed is an opinion; so `check` compares the two, figure by figure.
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
    """What exact arithmetic says of a claim, or an argument that it illustrates."""

    PROVED = "proved"
    HOLDS = "holds"
    REFUTED = "refuted"


class ClaimFailed(AssertionError):
    """What was derived is not what the ledger says."""


@dataclass(frozen=True)
class Derivation:
    """How many instances were examined, the figures found, and where the claim fails, if it does.

    `figures` are exact numbers by name, as they are printed.
    """

    instances: int
    figures: Figures = field(default_factory=dict)
    counterexample: Instance | None = None


@dataclass(frozen=True)
class Scope:
    """Instances in the order in which a claim examines them, and what they are in words."""

    words: str
    instances: Callable[[], Iterable[Instance]]

    def also(self, words: str) -> Scope:
        """Return the same instances, of which more is said."""
        return replace(self, words=self.words + words)

    def then(self, words: str, *others: Scope) -> Scope:
        """Return these instances and those of others after them, in words of their own."""
        return Scope(
            words, lambda: chain.from_iterable(each.instances() for each in (self, *others))
        )

    def all_with(self, words: str, change: Callable[[Instance], Instance]) -> Scope:
        """Return these instances, each changed, in words that come before theirs."""
        return Scope(words + self.words, lambda: map(change, self.instances()))


def by_figures(_: Instance) -> None:
    """Refute nothing: such a claim is its figures, which `check` compares."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement, its source, and what was found.

    `statement` is what is claimed, even where it is false. A counterexample is the first instance
    of those `examined` for which `refuted` returns figures; `known` are figures that are wanted in
    any case. `proof` is an argument for all instances of the shape, where there is a short one;
    what it says is not taken on trust either: `derive` tries it on the instances. Texts may be
    written over several lines.
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
        """Return which instances are examined, in words."""
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
        """Return the verdict, which follows from what is recorded."""
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
    """Derive the claim again and return what is found.

    Raises `ClaimFailed`, naming the first difference, where that is not what is recorded.
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
