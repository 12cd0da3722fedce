"""Base verifiers in the reference's style, run row by row on torch's random numbers."""

from __future__ import annotations

from typing import ClassVar

from draftproof.conformance.protocol.adapter import INVALID_INPUTS, Request, Result
from draftproof.conformance.protocol.reference import ReferenceVerifier
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Row
from draftproof.reference.rational import ONE
from draftproof.reference.rows import excess, normalised
from draftproof.reference.verifiers.descent import descend


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
        """Try the siblings in turn, each against the mass that is still owed."""
        for token in siblings:
            if chance.coin(min(ONE, p[token] / q[token])):
                return token, True
            p = normalised(excess(p, q))
        return chance.draw(p), False
