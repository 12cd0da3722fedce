"""Sample lane: counts of the emissions of a verifier that no other lane can see through.

The lane needs only `verify`, with its real randomness. It draws drafts from their exact law, and
counts emissions by cells. `requirements.sampled` judges the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftproof.conformance.lanes.compared import Between, Compared, described
from draftproof.conformance.lanes.exchange import as_given, columns, raised, request, with_noise
from draftproof.conformance.lanes.statistics import Floats
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program, Request
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Path

Integers = NDArray[numpy.int64]


@dataclass(frozen=True)
class BatchCounts:
    """Number of emissions of each cell in one batch, and a digest of their order.

    A cell is numbered by the accepted prefix, its path, and the next token; the last cell counts
    invalid results, the first of which `words` describes.
    """

    counts: Integers
    """[cells]: the number of emissions."""
    words: str
    stream: str
    """The SHA-256 of the cells in order, as 32-bit little-endian integers."""


def counted_batches(
    program: Program,
    instance: Instance,
    cells: EmissionCells,
    random: numpy.random.Generator,
    sizes: Sequence[int],
) -> Iterator[BatchCounts]:
    """Yield the counts of batches of these sizes, one after another."""
    with verifying(program, instance, cells, random) as verify:
        for size in sizes:
            found, words = verify(size)
            counts = numpy.bincount(found, minlength=cells.size)
            yield BatchCounts(counts, words, sha256(in_order(found)).hexdigest())


def in_order(cells: Integers) -> bytes:
    """Return the cell numbers in their order, as 32-bit little-endian integers."""
    return cells.astype("<i4").tobytes()


@dataclass(frozen=True)
class EmissionCells:
    """Numbering of all possible emissions on an instance.

    A *node* is a prefix that can be accepted, with the first path that has it. Cell node * V +
    token is an emission; the last cell counts invalid results.
    """

    instance: Instance
    drafts: tuple[Drafts, ...]
    chances: Floats
    """[drafts]: the cumulative probabilities of the drafts."""
    node: tuple[Integers, ...]
    """[K, L+1] for every draft: the node of a path and an accepted length."""
    emissions: tuple[Emission, ...]
    accepted: Integers
    """[cells]: the accepted length; 0 for an invalid result."""
    unsaid: Integers
    """The cells of emissions that the target never writes."""
    kind: Integers
    """[cells]: accepted length * V + next token, and one more for an invalid result."""

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.accepted)


@lru_cache(maxsize=8)
def cells_of(instance: Instance) -> EmissionCells:
    """Return the numbering of all possible emissions on an instance."""
    law = draft_law(instance)
    vocabulary = instance.vocabulary
    numbers: dict[tuple[int, Path], int] = {}
    node = []
    for drafts in law:
        first: dict[Path, int] = {}
        for index, path in enumerate(drafts):
            for accepted in range(len(path) + 1):
                first.setdefault(path[:accepted], index)
        prefixes = [[path[:a] for a in range(len(path) + 1)] for path in drafts]
        node.append(
            numpy.array(
                [[numbers.setdefault((first[x], x), len(numbers)) for x in row] for row in prefixes]
            )
        )
    emissions = tuple(
        Emission(path, prefix, token) for path, prefix in numbers for token in range(vocabulary)
    )
    target = instance.target
    return EmissionCells(
        instance=instance,
        drafts=tuple(law),
        chances=numpy.cumsum([float(weight) for _, weight in law.items()]),
        node=tuple(node),
        emissions=emissions,
        accepted=numpy.array([len(e.accepted) for e in emissions] + [0]),
        unsaid=numpy.array(
            [i for i, e in enumerate(emissions) if target.joint(e.tokens) == 0], dtype=int
        ),
        kind=numpy.array(
            [len(e.accepted) * vocabulary + e.next_token for e in emissions]
            + [(instance.length + 1) * vocabulary]
        ),
    )


@dataclass(frozen=True)
class _Table:
    """Table of all drafts with one number of paths, as rows of requests, to gather batches from."""

    row: Integers
    """[drafts]: the row of each draft."""
    request: Request
    node: Tensor
    """[rows, K, L+1]: the node of a path and an accepted length."""


def compared_in(
    adapter: Adapter | None, declared: Declaration, instance: Instance, sizes: Collection[int]
) -> Iterator[Compared]:
    """Yield the requests for the law of an instance, in batches of these sizes.

    If the number of rows with each number of paths is random, one of the possible divisions is
    described.
    """
    given = as_given(instance, declared)
    tables = [*_tables(instance, given, declared).values()]
    for table in tables:
        seen = described(adapter, table.request)
        if isinstance(adapter, Between) and adapter.passed_on(table.request) is not table.request:
            yield seen
            continue
        for size in sorted(set(sizes)):
            is_whole = declared.batch and len(tables) == 1
            yield replace(seen, rows=size if is_whole else 1)


_Verify = Callable[[int], tuple[Integers, str]]
"""Function that drafts and verifies a number of rows: their cells, and a description of an invalid
result."""


@contextmanager
def verifying(
    program: Program, instance: Instance, cells: EmissionCells, random: numpy.random.Generator
) -> Iterator[_Verify]:
    """Seed torch's global generator and the request's from `random` within the block."""
    sizes = numpy.array([len(drafts) for drafts in cells.drafts])
    tables = _tables(instance, cells.instance, program.declared)

    def verify(rows: int) -> tuple[Integers, str]:
        drawn = cells.chances.searchsorted(random.random(rows) * cells.chances[-1], side="right")
        found, words = numpy.empty(rows, dtype=int), ""
        for size, table in tables.items():
            here = numpy.flatnonzero(sizes[drawn] == size)
            # A verifier that takes one row at a time is given one row at a time.
            for part in [here] if program.declared.batch and len(here) else here[:, None]:
                chosen = torch.from_numpy(table.row[drawn[part]])
                found[part], failed = _verified(program, cells, table, chosen, generator)
                words = words or failed
        return found, words

    threads = torch.get_num_threads()
    try:
        # Threads that wait for each other are ten times slower where cases run in parallel.
        torch.set_num_threads(1)
        with torch.random.fork_rng():
            torch.manual_seed(int(random.integers(2**63)))
            generator = torch.Generator(program.declared.device)
            generator.manual_seed(int(random.integers(2**63)))
            yield verify
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=8)
def _tables(instance: Instance, given: Instance, declared: Declaration) -> dict[int, _Table]:
    """Return a table for every number of paths that are drafted from an instance.

    A scheme that runs out of tokens drafts fewer paths, and all rows of a request have the same K.
    """
    cells = cells_of(given)
    sizes = numpy.array([len(drafts) for drafts in cells.drafts])
    tables = {}
    for size in numpy.unique(sizes):
        members = numpy.flatnonzero(sizes == size)
        row = numpy.zeros(len(sizes), dtype=int)
        row[members] = numpy.arange(len(members))
        asked = request([(instance, cells.drafts[i]) for i in members], declared)
        node = torch.from_numpy(numpy.array([cells.node[i] for i in members]))
        tables[int(size)] = _Table(row, asked, node)
    return tables


def _verified(
    program: Program,
    cells: EmissionCells,
    table: _Table,
    chosen: Tensor,
    generator: torch.Generator,
) -> tuple[Integers, str]:
    asked = with_noise(_gathered(table.request, chosen, generator), program.declared)
    try:
        result = columns(program.adapter.verify(asked), len(chosen))
        accepted, path, token = (_whole(column) for column in result)
    except BaseException as error:
        return numpy.full(len(chosen), cells.size - 1), raised(error)
    (_, drafts, lengths), vocabulary = table.node.shape, cells.instance.vocabulary
    valid = (accepted >= 0) & (accepted < lengths) & (path >= 0) & (path < drafts)
    valid &= (token >= 0) & (token < vocabulary)
    place = torch.where(valid, (chosen * drafts + path) * lengths + accepted, 0)
    cell = torch.where(valid, table.node.view(-1)[place] * vocabulary + token, cells.size - 1)
    if valid.all():
        return cell.numpy(), ""
    bad = int(valid.logical_not().nonzero()[0])
    found = [column[bad].item() for column in result]
    return cell.numpy(), "returned accepted length {}, path {}, next token {}".format(*found)


def _gathered(table: Request, chosen: Tensor, generator: torch.Generator) -> Request:
    """Return the request of the chosen rows, all of its tensors fresh."""
    rows = {
        field.name: getattr(table, field.name).index_select(0, chosen.to(table.draft_probs.device))
        for field in fields(Request)
        if isinstance(getattr(table, field.name), Tensor)
    }
    return replace(table, **rows, generator=generator)


def _whole(column: Tensor) -> Tensor:
    """Return a column as int64 on the CPU, -1 for entries that are not whole numbers."""
    whole = column.detach().to("cpu", torch.int64)
    return whole if whole.dtype == column.dtype else torch.where(whole == column.cpu(), whole, -1)
