"""Base verifiers in the reference's style, run row by row on torch's random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from draftproof.conformance.protocol.adapter import INVALID_INPUTS, Request, Result
from draftproof.conformance.protocol.reference import ReferenceVerifier
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, Rational
from draftproof.reference.rows import excess, normalised
from draftproof.reference.scores import Contender, contender, smallest
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.reference.verifiers.block import keep
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.greedy_block import kept, modified_rows
from draftproof.reference.verifiers.scored_greedy_block import all_of_it, owed


class ReferenceStyle:
    """An adapter whose `text` is a verifier of the reference's style."""

    name = "text"
    version = "1"
    algorithm = "none"
    max_drafts = 2
    scheme = "iid"
    undefined: ClassVar = dict.fromkeys(INVALID_INPUTS, "it trusts its caller")

    def verify(self, request: Request) -> Result:
        """Verify B rows of K paths, one after another."""
        reader = ReferenceVerifier(self.text, scheme=self.scheme, max_drafts=self.max_drafts)
        return reader.verify(request)

    def text(self, drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        """Verify the paths of one row."""
        raise NotImplementedError


class BlockText(ReferenceStyle):
    """A verifier of one path, called block verification."""

    algorithm = "block"
    max_drafts = 1


class Recursive(ReferenceStyle):
    """Recursive rejection of i.i.d. siblings, with a replaceable rule for one position."""

    name = "recursive"
    algorithm = "recursive_rejection"

    def text(self, drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        """Descend by the rule."""
        return descend(self.rule, drafts, instance, chance)

    def rule(self, siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        """Try the siblings in turn, each against the normalised residual of the target."""
        for token in siblings:
            if chance.coin(min(ONE, p[token] / q[token])):
                return token, True
            p = normalised(excess(p, q))
        return chance.draw(p), False


class Scored(ReferenceStyle):
    """Scored multi-path block verification: the path with the smallest score, as a block."""

    name = "scored"
    algorithm = "scored_multipath_block"

    def text(self, drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        """Select a path by its score, and verify it."""
        paths = drafts.paths()
        contenders = [self.contender(path, instance) for path in paths]
        winner = chance.draw(self.chances(contenders))
        rows = self.rows(paths[winner], contenders[winner], instance)
        return self.verified(drafts, paths[winner], rows, instance, chance)

    def contender(self, path: Path, instance: Instance) -> Contender:
        """Return the path with its scores: what is accepted is passed on."""
        return contender(path, instance, min)

    def chances(self, contenders: Sequence[Contender]) -> Sequence[Rational]:
        """Return the probability of each path to have the smallest score."""
        return smallest(tuple(each.scores for each in contenders))

    def rows(self, path: Path, selected: Contender, instance: Instance) -> list[Row]:
        """Return the rows, along the selected path, of the law that it is verified against."""
        return [normalised(law) for law in selected.rows]

    def verified(
        self,
        drafts: Drafted,
        path: Path,
        rows: Sequence[Row],
        instance: Instance,
        chance: Chance,
    ) -> Emission:
        """Verify the path as a block."""
        accepted, law = keep(path, rows, instance, chance)
        return emission(drafts, accepted, chance.draw(law))


class ScoredGreedy(Scored):
    """Scored greedy block verification: the path with the smallest score, kept greedily."""

    name = "scored-greedy"
    algorithm = "scored_greedy_block"

    def verify(self, request: Request) -> Result:
        """Verify B rows of K paths, each with the story that its state tells."""
        text = replace(ALGORITHMS[self.algorithm], verify=self.text)
        return ReferenceVerifier(text, max_drafts=self.max_drafts).verify(request)

    def contender(self, path: Path, instance: Instance) -> Contender:
        """Return the path with its scores: all that is owed is passed on."""
        return contender(path, instance, all_of_it)

    def verified(
        self,
        drafts: Drafted,
        path: Path,
        rows: Sequence[Row],
        instance: Instance,
        chance: Chance,
    ) -> Emission:
        """Keep the path greedily, and leave what is owed."""
        target = instance.target
        accepted = path[: kept(path, target, lambda prefix: rows[len(prefix)], chance)]
        if accepted == path:
            return emission(drafts, path, chance.draw(target(path)))
        modified = modified_rows(
            partial(self.owed, instance), accepted, instance.length, instance.vocabulary
        )
        return emission(drafts, accepted, chance.draw(modified[accepted]), self.left(modified))

    def owed(self, instance: Instance, text: Path) -> Rational:
        """Return (p - Q')+ of a text."""
        return owed(instance, text)

    def left(self, modified: Mapping[Path, Row]) -> Mapping[Path, Row]:
        """Return the rows that are left to the next iteration."""
        return modified
