"""What one iteration of speculative decoding emits."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.reference.model import Path


@dataclass(frozen=True)
class Emission:
    """Accepted draft tokens, the path that they lie on, and the next token after them."""

    path: int
    accepted: Path
    next_token: int

    @property
    def tokens(self) -> Path:
        """All tokens emitted, in order."""
        return (*self.accepted, self.next_token)
