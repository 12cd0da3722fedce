"""What a case is, and a batch of rows."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.reference.drafting import Drafts
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance

TIERS = ("quick", "standard", "full")
"""Each tier contains the ones before it."""


@dataclass(frozen=True)
class Case:
    """An instance with a stable id and the reason why it is here."""

    id: str
    reason: str
    tier: str
    instance: Instance


@dataclass(frozen=True)
class BatchCase:
    """Rows that are verified together: each an instance and the paths drafted from it."""

    id: str
    tier: str
    rows: tuple[tuple[Instance, Drafts], ...]


def tiers_up_to(tier: str) -> tuple[str, ...]:
    """Return the tier and those that it contains. Raises `Unsupported` for an unknown one."""
    if tier not in TIERS:
        raise Unsupported(f"unknown tier {tier!r}; known: {', '.join(TIERS)}")
    return TIERS[: TIERS.index(tier) + 1]
