"""Shares of sequential tests in evidence, and the findings that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy

from draftproof.conformance.evidence.records import EditedEvidence, MalformedEvidence, Record
from draftproof.conformance.lanes.compared import Compared, compared_to_json
from draftproof.conformance.lanes.observe import SAMPLE
from draftproof.conformance.lanes.sample import BatchCounts
from draftproof.conformance.protocol.adapter import Declaration
from draftproof.conformance.requirements.finding import Finding, findings_to_json
from draftproof.conformance.requirements.sampled import SequentialTest, TestState
from draftproof.conformance.requirements.task import Task, Terms


@dataclass
class TestRun:
    """Test, its state, and the drawn shares in written form."""

    test: SequentialTest
    state: TestState = field(default_factory=TestState)
    shares: list[Record] = field(default_factory=list)

    def add(self, batches: Sequence[BatchCounts]) -> int:
        """Add the next share, and return how many of its batches are needed."""
        needed = []
        for batch in batches:
            if not self.state.is_open:
                break
            self.state = self.test.after(self.state, batch)
            needed.append(batch)
        told = [{**vars(batch), "counts": batch.counts.tolist()} for batch in needed]
        self.shares.append({"share": len(self.shares), "looks": told})
        return len(needed)

    @property
    def compared(self) -> Mapping[Compared, int]:
        """The requests for the compared law, each with its number of occurrences."""
        return self.test.compared(self.state)

    @property
    def is_over(self) -> bool:
        """True if no more shares are needed, or no more exist."""
        drawn_all = len(self.shares) == len(self.test.shares)
        return bool(self.shares) and (drawn_all or not self.state.is_open)

    def findings(self, task: Task) -> list[Finding]:
        """Return the findings of the task whose test this is."""
        return [] if task.findings is None else task.findings(self.test, self.state)


def recount(task: Task, declared: Declaration, terms: Terms, shares: Sequence[Record]) -> Record:
    """Return the findings and the compared laws, in written form, that follow from shares.

    Raises `MalformedEvidence` for invalid shares, `EditedEvidence` for too many or too few.
    """
    if task.sampling is None:
        raise EditedEvidence(f"{task.case} has shares, and is not judged by samples")
    run = TestRun(task.sampling(declared, replace(terms, lane=SAMPLE)))
    for record in shares:
        batches = batches_in(record, run.test)
        is_needed = run.add(batches) == len(batches)
        is_whole = len(batches) == len(run.test.shares[record["share"]])
        if not is_needed or (run.state.is_open and not is_whole):
            raise EditedEvidence(f"{task.case} has more looks than were needed, or less")
    if not run.is_over:
        raise EditedEvidence(f"{task.case} has fewer shares than were needed")
    findings = findings_to_json(run.findings(task))
    return {"findings": findings, "compared": compared_to_json(run.compared)}


def batches_in(record: Record, test: SequentialTest) -> list[BatchCounts]:
    """Return the batches of a share. Raises `MalformedEvidence` if the test cannot have it."""
    share, cells = record["share"], test.nulls.cells.size
    sizes = test.shares[share] if share < len(test.shares) else ()
    if len(record["looks"]) > len(sizes):
        raise MalformedEvidence(f"share {share} has at most {len(sizes)} looks")
    for size, look in zip(sizes, record["looks"], strict=False):
        counts = look["counts"]
        if (
            len(counts) != cells
            or not all(type(each) is int and each >= 0 for each in counts)
            or sum(counts) != size
        ):
            raise MalformedEvidence(f"share {share} has no counts of {size} in {cells} cells")
    return [
        BatchCounts(numpy.array(each["counts"], dtype=numpy.int64), each["words"], each["stream"])
        for each in record["looks"]
    ]
