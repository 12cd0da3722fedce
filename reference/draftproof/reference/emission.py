"""What one iteration of speculative decoding emits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from draftproof.reference.drafting import Drafted
from draftproof.reference.model import Path, Row

Modification = tuple[tuple[Path, Row], ...]


@dataclass(frozen=True)
class Emission:
    """Accepted draft tokens, the first path that they lie on, and the next token after them.

    A stateful verifier leaves a modified target behind: `modified` has the rows that replace the
    target's in the following iterations, by their context after what is emitted.
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
    """Return the emission of a node of the drafted tree and a next token.

    `modified` has its contexts from the start of the iteration; rows that what is emitted
    rules out are left out.
    """
    emitted = (*accepted, next_token)
    later = {
        context[len(emitted) :]: row
        for context, row in (modified or {}).items()
        if context[: len(emitted)] == emitted
    }
    return Emission(drafts.first(accepted), accepted, next_token, tuple(sorted(later.items())))
