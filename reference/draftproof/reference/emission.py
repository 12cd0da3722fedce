"""Emissions: the tokens from one iteration of speculative decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftproof.reference.drafting import Drafted
from draftproof.reference.model import Path, Row

Modification = tuple[tuple[Path, Row], ...]


@dataclass(frozen=True)
class Emission:
    """Accepted draft tokens, the first path with these tokens, and the next token after them.

    A stateful verifier leaves a modified target: `modified` has the rows that replace the target's
    in the following iterations, by their context after the emitted tokens.
    """

    path: int
    accepted: Path
    next_token: int
    modified: Modification = ()

    @property
    def tokens(self) -> Path:
        """All tokens emitted, in order."""
        return (*self.accepted, self.next_token)


def emission(
    drafts: Drafted, accepted: Path, next_token: int, modified: Mapping[Path, Row] | None = None
) -> Emission:
    """Return the emission of an accepted node of the drafted tree and a next token.

    The contexts of `modified` count from the start of the iteration; rows that the emitted tokens
    rule out are dropped.
    """
    emitted = (*accepted, next_token)
    later = {
        context[len(emitted) :]: row
        for context, row in (modified or {}).items()
        if context[: len(emitted)] == emitted
    }
    return Emission(drafts.first(accepted), accepted, next_token, tuple(sorted(later.items())))
