"""Cases, and batches of cases."""

from __future__ import annotations

from dataclasses import dataclass

from draftproof.reference.drafting import Drafts
from draftproof.reference.model import Instance


@dataclass(frozen=True)
class Case:
    """Instance with a stable id and the reason why the suite includes it."""

    id: str
    reason: str
    mode: str
    instance: Instance


@dataclass(frozen=True)
class BatchCase:
    """Rows that are verified together: each an instance and the paths drafted from it."""

    id: str
    mode: str
    rows: tuple[tuple[Instance, Drafts], ...]
