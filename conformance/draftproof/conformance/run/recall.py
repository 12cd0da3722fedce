"""Recall: what a store knows of a campaign, and what is judged again all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import SystemRandom
from typing import Any

from draftproof.conformance.evidence.records import Record
from draftproof.conformance.evidence.store import KnownFindings, Store
from draftproof.conformance.lanes.observe import SAMPLE
from draftproof.conformance.requirements.finding import FAIL


@dataclass
class Recall:
    """What a store knows of a campaign that began at the time `made`.

    Of what is known, the share `audited` is judged again all the same, or all of it, where it
    `is_ignored`. Counted are the findings that were `known`, by the times at which they were made,
    and those that were `judged` now; `traces` are the digests of what the program under test has
    read.
    """

    store: Store
    made: str
    audited: float = 0.0
    is_ignored: bool = False
    known: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    traces: set[str] = field(default_factory=set)

    def finding(self, codes: Iterable[str]) -> KnownFindings | None:
        """Return what is known of a task, by the code keys of the lanes that can decide it."""
        if self.is_ignored:
            return None
        return next(filter(None, map(self.store.finding, codes)), None)

    def keep(self, asked: Mapping[str, Any], records: Sequence[Record]) -> None:
        """Keep the evidence of the campaign that was asked for so.

        A sample that failed is not replaced by one with another seed.
        """
        known = self.store.campaign(asked)
        before = records if known is None else known.records
        seeds = {each[0]["campaign"]["seed"] for each in (records, before)}
        if len(seeds) == 1 or not _has_failed_sample(before):
            self.store.keep_campaign(asked, records, traces=sorted(self.traces))

    def drawn(self, known: Collection[int]) -> frozenset[int]:
        """Return which of the tasks that are known are judged again."""
        count = min(ceil(self.audited * len(known)), len(known))
        return frozenset(SystemRandom().sample(sorted(known), count))


def _has_failed_sample(records: Iterable[Record]) -> bool:
    found = (each for record in records for each in record.get("findings", ()))
    return any(each["lane"] == SAMPLE and each["verdict"] == FAIL for each in found)
