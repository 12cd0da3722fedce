"""Claims, and their check by exact arithmetic.

A claim is recorded as data: its statement, its source, and the findings of exact arithmetic. The
data comes with a program that derives the same findings from the verifiers of this package alone.
`check` compares the two, figure by figure, so that the ledger stays true to the verifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
    """Verdict on a claim, the strongest first, and refuted last.

    `MECHANISED`: theorems checked by Coq imply the claim for every V, L and K of its shape; their
    programs are the reference's, as checked by reading and by tests. `PROVED`: a proof by cells for
    all p and q of one shape, about the reference's own text. `ARGUED`: an argument in prose, for
    every V, L and K of the shape, which names what it rests on. `HOLDS`: true of all examined
    instances, and nothing more is known.
    """

    MECHANISED = "mechanised"
    PROVED = "proved for a shape"
    ARGUED = "argued"
    HOLDS = "holds"
    REFUTED = "refuted"


class ClaimFailed(AssertionError):
    """The derived figures or verdict differ from the ledger's."""


class Unfounded(AssertionError):
    """A claim rests on a claim that cannot support it; the message names both."""


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
        """Return these instances, then the instances of other scopes, with a new description."""
        return Scope(
            words, lambda: chain.from_iterable(each.instances() for each in (self, *others))
        )

    def all_with(self, words: str, change: Callable[[Instance], Instance]) -> Scope:
        """Return these instances, each changed, with `words` before their description."""
        return Scope(words + self.words, lambda: map(change, self.instances()))


def by_figures(_: Instance) -> None:
    """Refute nothing, for a claim that consists of its figures, which `check` compares."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement, its source, and the findings on it.

    `statement` is the claim as made, even if it is false. `shape` is the shape that it is about;
    for a refuted claim, the shape of its counterexample. A counterexample is the first of the
    `examined` instances for which `refuted` returns figures; `known` returns figures that are
    computed in any case.

    `theorems` are the mechanised theorems, as "file.name" of spec/theory, that together imply the
    claim. `proof` is an argument for all instances of the shape, if there is a short one, with
    corollaries that are not claims of their own; `rests_on` has the ids of the claims that the
    argument uses, or that grant what the theorems suppose. `derive` also tests the argument on the
    instances. The verdict follows from all of these: see `verdicts`. Texts may span several lines.
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
    theorems: tuple[str, ...] = ()
    rests_on: tuple[str, ...] = ()

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
    def stated(self) -> str:
        """Return the statement with its shape, for places that print nothing else of the claim."""
        return f"{self.statement} ({self.shape})"

    @property
    def evidence(self) -> Verdict:
        """Return the verdict that the claim would have if all that it rests on were mechanised."""
        if self.recorded.counterexample is not None:
            return Verdict.REFUTED
        if self.theorems:
            return Verdict.MECHANISED
        return Verdict.ARGUED if self.proof else Verdict.HOLDS

    @property
    def command(self) -> str:
        """Return the command that derives the claim again."""
        return f"draftproof claims --check {self.id}"


_STRONGEST_FIRST = tuple(Verdict)


def verdicts(claims: Iterable[Claim]) -> Mapping[str, Verdict]:
    """Return the verdict of every claim: the weakest of its evidence and of all that it rests on.

    Raises `Unfounded` if a claim rests on a refuted claim, on itself, or on an unknown id.
    """
    known = {claim.id: claim for claim in claims}
    found: dict[str, Verdict] = {}

    def verdict(claim: Claim, above: tuple[str, ...]) -> Verdict:
        path = (*above, claim.id)
        if claim.id in above:
            raise Unfounded(f"{claim.id} rests on itself: {' rests on '.join(path)}")
        if claim.id not in found:
            below = dict(carried(claim, path))
            if Verdict.REFUTED in below.values():
                false = next(name for name, each in below.items() if each is Verdict.REFUTED)
                raise Unfounded(f"{claim.id} rests on {false}, which is refuted")
            if below and claim.evidence is Verdict.REFUTED:
                raise Unfounded(f"{claim.id} is refuted, and rests on its counterexample alone")
            found[claim.id] = max((claim.evidence, *below.values()), key=_STRONGEST_FIRST.index)
        return found[claim.id]

    def carried(claim: Claim, path: tuple[str, ...]) -> Iterator[tuple[str, Verdict]]:
        for name in claim.rests_on:
            if name not in known:
                raise Unfounded(f"{claim.id} rests on {name!r}, which is no claim of the ledger")
            yield name, verdict(known[name], path)

    return {name: verdict(claim, ()) for name, claim in known.items()}


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


def claim_to_json(claim: Claim, verdicts: Mapping[str, Verdict]) -> dict[str, Any]:
    """Return the JSON form of a claim, given its verdict and those of all that it rests on."""
    found = claim.recorded.counterexample
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": claim.source,
        "shape": claim.shape,
        "verdict": verdicts[claim.id].value,
        "scope": claim.scope,
        "theorems": list(claim.theorems),
        "proof": claim.proof or None,
        "rests_on": [{"id": name, "verdict": verdicts[name].value} for name in claim.rests_on],
        "instances": claim.recorded.instances,
        "figures": dict(claim.recorded.figures),
        "counterexample": None if found is None else instance_to_json(found),
        "command": claim.command,
    }


def _written(figures: Mapping[str, Figure]) -> Figures:
    return {name: str(value) for name, value in figures.items()}


def _shown(instance: Instance | None) -> str:
    return "none" if instance is None else str(instance_to_json(instance))
