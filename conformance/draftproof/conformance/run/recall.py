"""Recall: the stored findings of a campaign, and which of them are judged again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import SystemRandom
from typing import Any

from draftproof.conformance.evidence.records import Record, StoreDiffers, differences
from draftproof.conformance.evidence.store import Basis, KnownFindings, Store
from draftproof.conformance.lanes.observe import SAMPLE
from draftproof.conformance.requirements.finding import FAIL


@dataclass
class Recall:
    """Known findings of a campaign that began at the time `made`, of the adapter of a `name`.

    The share `audited` of known findings is judged again, or all of them if `is_ignored`. `known`
    counts stored findings by the time at which they were made, `judged` counts the findings judged
    now; the `basis` is that of all of them.
    """

    store: Store
    name: str
    made: str
    audited: float = 0.0
    is_ignored: bool = False
    known: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    basis: Basis = field(default_factory=Basis)

    def finding(self, codes: Iterable[str]) -> KnownFindings | None:
        """Return the stored findings of a task, by the code keys of the lanes that can decide."""
        if self.is_ignored:
            return None
        return next(filter(None, (self.store.finding(self._key(each)) for each in codes)), None)

    def keep(self, code: str, records: Sequence[Record], basis: Basis) -> None:
        """Keep the findings of a task."""
        self.store.keep(self._key(code), records, basis, made=self.made)

    def forget(self, codes: Iterable[str]) -> None:
        """Remove the findings of a task."""
        for each in codes:
            self.store.forget(self._key(each))

    def keep_campaign(self, asked: Iterable[Mapping[str, Any]], records: Sequence[Record]) -> None:
        """Keep the evidence of the campaign under these keys.

        Raises `StoreDiffers` if the store has different evidence, which is then removed.
        """
        self.basis.read(self.store.folder)
        for each in asked:
            known = None if self.is_ignored else self.store.campaign(each)
            if known is not None and (told := _difference(known.records, records)):
                self.store.forget_campaign(each)
                raise StoreDiffers(f"the campaign was judged again: {told}; {FORGOTTEN}")
            self.store.keep_campaign(each, records, self.basis)

    def drawn(self, known: Collection[int]) -> frozenset[int]:
        """Return which of the known tasks to judge again."""
        count = min(ceil(self.audited * len(known)), len(known))
        return frozenset(SystemRandom().sample(sorted(known), count))

    def _key(self, code: str) -> str:
        # Adapters of the same files may import others.
        return f"{self.name}\n{code}"


FORGOTTEN = "the store has forgotten it: judge again, with --fresh if you doubt the rest"
"""Consequence of a wrong finding, and the advice that goes with it."""


def has_failed_sample(records: Iterable[Record]) -> bool:
    """Return True if a sample has failed."""
    found = (each for record in records for each in record.get("findings", ()))
    return any(each["lane"] == SAMPLE and each["verdict"] == FAIL for each in found)


def _difference(then: Sequence[Record], now: Sequence[Record]) -> str:
    """Return how the stored campaign differs from the judged one, empty if it does not.

    If the suite has changed since, only findings judged by the same code are compared.
    """
    old, new = then[0], now[0]
    if old["campaign"]["seed"] != new["campaign"]["seed"]:
        return ""
    is_same = all(old[each] == new[each] for each in ("suite", "specification"))
    before, after = (_comparable(each, is_whole=is_same) for each in (then, now))
    for key in before if is_same else before.keys() & after.keys():
        for where, was, is_now in differences(before[key], after.get(key)):
            return f"{where} is {is_now!r}, where the store has {was!r}"
    return ""


def _comparable(records: Sequence[Record], *, is_whole: bool) -> dict[str, Record]:
    """Return results by task and key; if `is_whole`, return all records by position instead."""
    beside = ("made", "likeness")
    told = [{k: v for k, v in each.items() if k not in beside} for each in records[1:]]
    keyed = {f"{each['task']} {each['key']}": each for each in told if "key" in each}
    return {str(place): each for place, each in enumerate(told)} if is_whole else keyed
