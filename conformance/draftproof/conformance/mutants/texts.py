"""Verifiers written in the reference's style, run row by row on torch's random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

import torch

from draftproof.conformance.adapter import INVALID_INPUTS, Request, Result
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, FixedTree, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.errors import MissingContext
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.rational import ONE, Rational, exactly, total
from draftproof.reference.rows import excess, normalised
from draftproof.reference.verifiers.descent import descend


class Text:
    """An adapter whose `text` is a verifier of the reference's style."""

    name = "text"
    version = "1"
    algorithm = "none"
    max_drafts = 2
    scheme = "iid"
    undefined: ClassVar = dict.fromkeys(INVALID_INPUTS, "it trusts its caller")

    def verify(self, request: Request) -> Result:
        """Verify B rows of K paths, one after another."""
        chance = _TorchChance(request.generator)
        columns = request.draft_tokens, request.draft_probs, request.target_probs
        emitted = []
        for paths, q, p in zip(*(column.tolist() for column in columns), strict=True):
            instance = _instance(paths, q, p, self.scheme)
            tree = FixedTree(tuple(map(tuple, paths)), instance)
            emitted.append(self.text(tree, instance, chance))
        return Result(
            torch.tensor([len(e.accepted) for e in emitted]),
            torch.tensor([e.path for e in emitted]),
            torch.tensor([e.next_token for e in emitted]),
        )

    def text(self, drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        """Verify the paths of one row."""
        raise NotImplementedError


class Recursive(Text):
    """Recursive rejection of i.i.d. siblings: the rule for one position can be got wrong."""

    name = "recursive"
    algorithm = "recursive_rejection"

    def text(self, drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        """Descend by the rule."""
        return descend(self.rule, drafts, instance, chance)

    def rule(self, siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        """Try the siblings in turn, each against what is still owed."""
        for token in siblings:
            if chance.coin(min(ONE, p[token] / q[token])):
                return token, True
            p = normalised(excess(p, q))
        return chance.draw(p), False


class _TorchChance:
    """Answers by torch's random numbers, of double precision."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self._generator = generator

    def coin(self, probability: Rational) -> bool:
        return bool(self._uniform() < float(probability))

    def draw(self, weights: Sequence[Rational]) -> int:
        mass = total(weights)
        edges = [float(edge / mass) for edge in accumulate(weights)]
        return int((torch.tensor(edges, dtype=torch.float64) <= self._uniform()).sum())

    def _uniform(self) -> torch.Tensor:
        drawn = torch.rand((), dtype=torch.float64, generator=self._generator)
        return drawn.clamp(max=1 - 2**-53)  # nothing is drawn by a 1


class _AlongPaths(Model):
    """A model that knows its rows along the drafted paths only."""

    def __call__(self, context: Path) -> Row:
        if context not in self.modified:
            raise MissingContext(f"{context} lies on none of the drafted paths")
        return self.modified[context]


def _instance(
    paths: list[list[int]], q: list[list[list[float]]], p: list[list[list[float]]], scheme: str
) -> Instance:
    """Return what a request says of the models, exactly."""

    def model(name: str, rows: list[list[list[float]]]) -> Model:
        known: dict[Path, Row] = {
            tuple(path[:depth]): normalised([exactly(weight) for weight in row])
            for path, along in zip(paths, rows, strict=True)
            for depth, row in enumerate(along)
        }
        # An instance asks a context-free model for no row before a verifier does.
        first = known[()]
        return _AlongPaths(name, len(first), {(): first}, context_free=True, modified=known)

    length, drafts = len(paths[0]), len(paths)
    return Instance(
        model("target", p), model("draft", q), length=length, drafts=drafts, scheme=scheme
    )
