"""The sample lane: what a verifier that cannot be seen through emits, counted.

It needs nothing but `verify`, with its real randomness. Drafts are drawn from their exact law, what
is emitted is counted, and the counts are held against the exact law of the case by tests that may
be looked at after every batch. A run ends as soon as it shows that a requirement fails, or that
every distance is below the smallest one of interest, or with its budget: then what is still open
is *inconclusive*. Nothing is tried again.

What it takes for granted is that rows are independent: `sample_pairs` asks for that. A verifier
whose rows share a coin, or take their neighbours' rows, fails here, too, unless it is given one row
at a time, `alone`. What is judged is the law of the emission with the drafts averaged out. What a
verifier makes of drafted tokens that it does not accept, and what it does with a probability below
`Tested.detectable`, is out of sight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from hashlib import sha256
from math import expm1, inf, log

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftproof.conformance.lanes.exchange import (
    as_given,
    columns,
    raised,
    request,
    with_noise,
)
from draftproof.conformance.lanes.observe import as_observed, left_behind
from draftproof.conformance.lanes.statistics import (
    LARGEST,
    MISSED,
    SMALLEST,
    Budget,
    Evidence,
    Floats,
    Null,
    Outlook,
    batch_sizes,
    detectable,
    distance,
    hardest,
    log_evidence,
    log_evidence_above,
    log_evidence_off,
    mean_outlook,
    no_evidence,
    null,
    outlook,
    shifted,
    tally,
    updated,
    upper_bound,
)
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Request, declaration
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    Finding,
    Lengths,
    Sampled,
    TextWeight,
)
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.process import continued
from draftproof.reference.rational import Rational, exactly
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, emission_law, require_fit

Integers = NDArray[numpy.int64]


@dataclass(frozen=True)
class Effort:
    """How many emissions one instance is worth, and the smallest bias of interest."""

    emissions: int
    bias: float


EFFORTS = {
    "quick": Effort(2**17, 0.03),
    "standard": Effort(2**20, 0.01),
    "full": Effort(2**23, 0.0035),
}
"""The effort of each tier: with it, right verifiers pass on all instances of one draft up to V = 4,
L = 3. The bound falls below the bias near n = (0.4 s + 3.4)**2 / bias**2 emissions, s being the sum
of the square roots of a law's weights: at most the root of the number of its cells, 15 for the 256
texts of V = 4, L = 3. V = 8, L = 3 has 4096 (s = 58) and ends inconclusive on every tier: it takes
0.8, 7 and 58 million emissions."""

TESTS = 5
"""The tests of one run that can raise a false alarm: two laws, and three bets on the length."""

POWER = 0.9
"""What is called detectable is rejected with this probability."""


@dataclass(frozen=True)
class Tested:
    """What one requirement came to.

    `distance` is the distance that the counts have, `bound` one that the true distance exceeds with
    probability at most 1e-6. A right verifier reaches the `threshold` with the probability of a
    false alarm that its budget allows. With these emissions, a distance of `detectable`, in the
    direction that is hardest to see, is found with the probability `power`, which is computed, and
    right to a few hundredths.
    """

    verdict: str
    """"pass", "fail" or "inconclusive"."""
    emissions: int
    distance: float
    bound: float
    log_evidence: float
    threshold: float
    what: str
    """What decided it."""
    detectable: float = inf
    power: float = POWER
    path: tuple[tuple[int, float], ...] = ()
    """The emissions and the log evidence at every look."""
    stream: str = ""
    """The SHA-256 of all that was emitted, in order."""


@dataclass(frozen=True)
class Course:
    """A sequential test of one adapter on one instance, cut into shares.

    Shares are drawn anywhere, in any order, each from a seed of its own, and judged in order: so
    what they come to is the same wherever they were drawn. `alone` gives the verifier one row at a
    time.
    """

    declared: Declaration
    instance: Instance
    seed: int
    effort: Effort
    budget: Budget
    alone: bool = False

    @property
    def shares(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the batches of every share, which ends where four times as much is drawn."""
        return _shares(self.effort.emissions)


@dataclass(frozen=True)
class Look:
    """What one batch came to: how often each cell was emitted, and a digest of the order.

    Cells are numbered by what was accepted, on which path, and the next token; the last one is for
    what is no result, of which `words` tells the first.
    """

    counts: Integers
    """[cells]"""
    words: str
    stream: str
    """The SHA-256 of the cells in order, as 32-bit little-endian integers."""


@dataclass(frozen=True)
class Standing:
    """How a course stands after some looks."""

    looks: int
    seen: _Seen
    failed: Mapping[str, Tested]
    tested: Mapping[str, Tested]

    @property
    def is_undecided(self) -> bool:
        """Whether more emissions can decide something."""
        return not self.tested or INCONCLUSIVE in {t.verdict for t in self.tested.values()}

    @property
    def is_open(self) -> bool:
        """Whether more emissions can decide something, and nothing has failed."""
        return self.is_undecided and not self.failed


def sample(
    adapter: Adapter,
    instance: Instance,
    *,
    seed: int,
    effort: Effort = EFFORTS["quick"],
    budget: Budget | None = None,
    alone: bool = False,
    to_the_end: bool = False,
) -> dict[str, Tested]:
    """Return what each requirement came to that can be judged on this instance.

    A requirement passes if its distance is below the bias of interest, L times that for lengths.
    The budget of false alarms is for `TESTS` tests if it is not given. `alone` gives the verifier
    one row at a time; `to_the_end` goes on after a failure, until everything is decided.
    `law.reference`, `length.expected` and `length.optimal` are asked only where the reference knows
    the algorithm, and it takes the instance; the last one only where it claims the optimum.

    Raises `InvalidAdapter`.
    """
    budget = budget or Budget(tests=TESTS)
    course = Course(declaration(adapter), instance, seed, effort, budget, alone)
    return outcome(course, followed(course, adapter, to_the_end=to_the_end))


def followed(course: Course, adapter: Adapter, *, to_the_end: bool = False) -> Standing:
    """Return how the course stands when it ends, drawn here, as far as it takes."""
    standing = started(course)
    for share in range(len(course.shares)):
        for look in drawn(course, adapter, share):
            standing = after(course, standing, look)
            if not (standing.is_undecided if to_the_end else standing.is_open):
                return standing
    return standing


def started(course: Course) -> Standing:
    """Return how the course stands before the first look."""
    return Standing(0, _nothing(_asked_of(course)), {}, {})


def drawn(course: Course, adapter: Adapter, share: int) -> Iterator[Look]:
    """Draw one share of the course, look by look."""
    declared = replace(course.declared, batch=course.declared.batch and not course.alone)
    cells = _cells(as_given(course.instance, course.declared))
    random = numpy.random.default_rng((course.seed, _DRAWN, share))
    with _verifying(adapter, course.instance, cells, declared, random) as verify:
        for size in course.shares[share]:
            found, words = verify(size)
            counts = numpy.bincount(found, minlength=cells.size)
            yield Look(counts, words, _digest(found))


def after(course: Course, standing: Standing, look: Look) -> Standing:
    """Return how the course stands after one more look."""
    asked, looks = _asked_of(course), standing.looks + 1
    random = numpy.random.default_rng((course.seed, _CONTINUED, looks))
    seen = _counted(asked, standing.seen, look, random)
    judged = _judged(asked, seen, _terms_of(course), looks)
    for each, found in judged.items():
        before = standing.tested[each].path if standing.tested else ()
        path = (*before, (found.emissions, found.log_evidence))
        judged[each] = replace(found, path=path, stream=seen.stream)
    judged = {**judged, **standing.failed}
    failed = {each: found for each, found in judged.items() if found.verdict == FAIL}
    return Standing(looks, seen, failed, judged)


def outcome(course: Course, standing: Standing) -> dict[str, Tested]:
    """Return what each requirement came to, with the smallest distances that could be seen."""
    return _with_sight(_asked_of(course), dict(standing.tested), _terms_of(course))


def observed_text(course: Course, standing: Standing) -> tuple[TextWeight, ...]:
    """Return the law of the text as it was counted, and the target's."""
    asked = _asked_of(course)
    span = asked.cells.instance.length + 1
    shape = (asked.cells.instance.vocabulary,) * span
    shares = standing.seen.texts / standing.seen.texts.sum()
    texts = [tuple(map(int, text)) for text in numpy.ndindex(*shape)]
    weights = zip([*texts, ()], shares, asked.text.law, strict=True)
    return tuple(TextWeight(t, float(seen), float(p)) for t, seen, p in weights if seen or p)


def observed_lengths(course: Course, standing: Standing) -> Lengths | None:
    """Return the mean accepted length and its optimum; None where no optimum is known."""
    asked = _asked_of(course)
    if asked.optimum is None:
        return None
    lengths = tally(asked.cells.accepted, standing.seen.counts, asked.cells.instance.length + 1)
    return Lengths(_mean(lengths), asked.optimum)


# Seeds of different purposes never meet.
_DRAWN, _CONTINUED = 0, 1


@lru_cache
def _shares(emissions: int) -> tuple[tuple[int, ...], ...]:
    shares: list[tuple[int, ...]] = []
    share: list[int] = []
    drawn, most = 0, 4 * SMALLEST
    for size in batch_sizes(emissions):
        share.append(size)
        drawn += size
        if drawn >= most:
            shares.append(tuple(share))
            # Large enough to be worth a journey, small enough to be lost.
            share, most = [], drawn + min(3 * drawn, LARGEST)
    return (*shares, *([tuple(share)] if share else []))


def _asked_of(course: Course) -> _Asked:
    given = as_given(course.instance, course.declared)
    return _asked(given, course.declared.algorithm, _allowed(given, course.declared))


def _terms_of(course: Course) -> _Terms:
    return _Terms(course.budget.threshold, course.effort.bias)


def _digest(cells: Integers) -> str:
    return sha256(cells.astype("<i4").tobytes()).hexdigest()


def sample_pairs(
    adapter: Adapter,
    instance: Instance,
    *,
    seed: int,
    effort: Effort = EFFORTS["quick"],
    budget: Budget | None = None,
) -> dict[str, Tested]:
    """Return what `batch.invariant` and `random.calls` came to on this instance.

    Pairs are neighbouring rows of one batch, and the same row in two consecutive calls. The joint
    law of their accepted lengths and next tokens is held against the product of the exact laws,
    so what `sample` finds wrong with single emissions fails here, too. `Tested.emissions` counts
    pairs. `batch.invariant` is not asked of a verifier that takes one row at a time.

    Raises `Unsupported` where the reference does not know the algorithm, or the algorithm does not
    take the instance; `InvalidAdapter`.
    """
    declared = declaration(adapter)
    algorithm = ALGORITHMS.get(declared.algorithm)
    if algorithm is None:
        raise Unsupported(
            f"pairs of emissions are held against the law of an algorithm, and the reference does "
            f"not know {declared.algorithm!r}; it knows {', '.join(ALGORITHMS)}"
        )
    given = as_given(instance, declared)
    cells = _cells(given)
    terms = _Terms((budget or Budget(tests=2)).threshold, effort.bias)
    law = tally(cells.kind, _emission_law(cells, algorithm), 0)
    both = null(numpy.outer(law, law).ravel(), tolerance=min(2 * _allowed(given, declared), 1.0))
    tests = {"random.calls": "consecutive calls depend on each other"}
    if declared.batch:
        tests = {"batch.invariant": "neighbouring rows depend on each other", **tests}
    counts = {each: numpy.zeros(len(both.law)) for each in tests}
    evidence = dict.fromkeys(tests, no_evidence(both))
    paths: dict[str, tuple[tuple[int, float], ...]] = dict.fromkeys(tests, ())
    stream = sha256()
    random = numpy.random.default_rng(seed)
    with _verifying(adapter, instance, cells, declared, random) as verify:
        for look, size in enumerate(batch_sizes(effort.emissions, smallest=2 * SMALLEST), 1):
            calls = [cells.kind[verify(max(size // 4 * 2, 2))[0]] for _ in range(2)]
            pairs = {
                "batch.invariant": numpy.concatenate([call.reshape(-1, 2) for call in calls]),
                "random.calls": numpy.stack(calls, 1),
            }
            for each in tests:
                cell = pairs[each] @ numpy.array([len(law), 1])
                fresh = numpy.bincount(cell, minlength=len(both.law)).astype(float)
                counts[each] = counts[each] + fresh
                evidence[each] = updated(both, evidence[each], fresh)
            judged = {
                each: _judged_law(both, evidence[each], counts[each], terms, look, what)
                for each, what in tests.items()
            }
            stream.update(numpy.stack(calls).astype("<i4").tobytes())
            for each, found in judged.items():
                paths[each] = (*paths[each], (found.emissions, found.log_evidence))
            verdicts = {found.verdict for found in judged.values()}
            if INCONCLUSIVE not in verdicts or FAIL in verdicts:
                break
    return {
        each: replace(
            found,
            detectable=_smallest_bias(both, found.emissions, terms),
            path=paths[each],
            stream=stream.hexdigest(),
        )
        for each, found in judged.items()
    }


def finding(
    requirement: str, case: str, tested: Tested, *, allowed: Rational, false_alarm: float
) -> Finding:
    """Return what a test came to as a finding; `allowed` is what rounding explains."""
    return Finding(
        requirement,
        case,
        tested.verdict,
        exactly(tested.distance),
        allowed,
        "sample",
        tested.emissions,
        tested.what if tested.verdict == FAIL else "",
        sampled=Sampled(
            false_alarm,
            tested.log_evidence,
            tested.bound,
            tested.detectable,
            tested.power,
            tested.path,
            tested.stream,
        ),
    )


# --- what is emitted, as numbers --------------------------------------------------------------


@dataclass(frozen=True)
class _Cells:
    """The numbering of all that can be emitted on an instance.

    A *node* is what can be accepted: a prefix and the first path that has it. Cell node * V + token
    is an emission, the last cell is for what is no result.
    """

    instance: Instance
    drafts: tuple[Drafts, ...]
    chances: Floats
    """[drafts]: the probabilities of the drafts, summed up."""
    node: tuple[Integers, ...]
    """[K, L+1] for every draft: the node of a path and an accepted length."""
    emissions: tuple[Emission, ...]
    accepted: Integers
    """[cells]: the accepted length; 0 for no result."""
    unsaid: Integers
    """The cells of emissions that the target never says."""
    kind: Integers
    """[cells]: accepted length * V + next token, and one more for no result."""

    @property
    def size(self) -> int:
        """The number of cells."""
        return len(self.accepted)


@lru_cache(maxsize=8)
def _cells(instance: Instance) -> _Cells:
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
    return _Cells(
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


def _emission_law(cells: _Cells, algorithm: Algorithm) -> Floats:
    law = emission_law(algorithm, cells.instance).map(as_observed)
    return numpy.array([float(law[emission]) for emission in cells.emissions] + [0.0])


def _allowed(instance: Instance, declared: Declaration) -> float:
    return min(float(allowed_distance(declared, instance.vocabulary, instance.length)), 1.0)


@dataclass(frozen=True)
class _Table:
    """Every draft of one number of paths as a row of a request, to gather batches from."""

    row: Integers
    """[drafts]: which row a draft has."""
    request: Request
    node: Tensor
    """[rows, K, L+1]"""


_Verify = Callable[[int], tuple[Integers, str]]
"""Drafts and verifies a number of rows: their cells, and the words of what is no result."""


@contextmanager
def _verifying(
    adapter: Adapter,
    instance: Instance,
    cells: _Cells,
    declared: Declaration,
    random: numpy.random.Generator,
) -> Iterator[_Verify]:
    """Seed the global generator of torch and the request's from `random`, until the end."""
    sizes = numpy.array([len(drafts) for drafts in cells.drafts])
    tables = _tables(instance, cells.instance, declared)

    def verify(rows: int) -> tuple[Integers, str]:
        drawn = cells.chances.searchsorted(random.random(rows) * cells.chances[-1], side="right")
        found, words = numpy.empty(rows, dtype=int), ""
        for size, table in tables.items():
            here = numpy.flatnonzero(sizes[drawn] == size)
            # A verifier that takes one row at a time is given one row at a time.
            for part in [here] if declared.batch and len(here) else here[:, None]:
                chosen = torch.from_numpy(table.row[drawn[part]])
                found[part], failed = _verified(adapter, declared, cells, table, chosen, generator)
                words = words or failed
        return found, words

    threads = torch.get_num_threads()
    try:
        # Threads that wait for each other are ten times slower where cases run in parallel.
        torch.set_num_threads(1)
        with torch.random.fork_rng():
            torch.manual_seed(int(random.integers(2**63)))
            generator = torch.Generator(declared.device)
            generator.manual_seed(int(random.integers(2**63)))
            yield verify
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=8)
def _tables(instance: Instance, given: Instance, declared: Declaration) -> dict[int, _Table]:
    """Return a table for every number of paths that are drafted from an instance.

    A scheme that runs out of tokens drafts fewer paths, and requests have one K.
    """
    cells = _cells(given)
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
    adapter: Adapter,
    declared: Declaration,
    cells: _Cells,
    table: _Table,
    chosen: Tensor,
    generator: torch.Generator,
) -> tuple[Integers, str]:
    asked = with_noise(_gathered(table.request, chosen, generator), declared)
    try:
        result = columns(adapter.verify(asked), len(chosen))
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
    """Return a column as int64 on the CPU, -1 for what is no whole number."""
    whole = column.detach().to("cpu", torch.int64)
    return whole if whole.dtype == column.dtype else torch.where(whole == column.cpu(), whole, -1)


# --- what is asked of it ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Terms:
    threshold: float
    bias: float


@dataclass(frozen=True)
class _Asked:
    """What the counts of one instance are held against.

    `emission` and `length` are None where the reference does not know the algorithm, `optimum`
    where it is not known; `claimed` says that the algorithm claims it.
    """

    cells: _Cells
    allowed: float
    text: Null
    continuations: tuple[tuple[Integers, Integers, Integers, Floats], ...]
    """For 1..L+1 tokens: the cells of so many and the group of each, the number of the text of each
    group, and the target's law of the texts that go on from there. Cells of one text are one group,
    unless the algorithm is stateful: then the target is the one that it leaves behind."""
    emission: Null | None
    length: Floats | None
    """[L+1]: the exact law of the accepted length."""
    optimum: float | None
    claimed: bool


@dataclass(frozen=True)
class _Seen:
    """What was counted, and what was won by it."""

    counts: Floats
    texts: Floats
    emission: Evidence | None
    text: Evidence
    words: str
    stream: str
    """A digest of the digests of all looks, in order."""


@lru_cache(maxsize=8)
def _asked(instance: Instance, name: str, allowed: float) -> _Asked:
    cells, algorithm = _cells(instance), _fitting(name, instance)
    emission = length = None
    no_result = cells.size - 1
    if algorithm is not None:
        law = _emission_law(cells, algorithm)
        emission = null(law, tolerance=allowed, forbidden=[*cells.unsaid, no_result])
        length = tally(cells.accepted, law, instance.length + 1)
    is_stateful = algorithm is not None and algorithm.stateful
    try:
        optimum = float((stateful if is_stateful else stateless)(instance).value)
    except Unsupported:
        optimum = None
    texts = _text_law(instance.target.text(instance.length + 1), instance)
    return _Asked(
        cells=cells,
        allowed=allowed,
        text=null(
            numpy.append(texts, 0.0),  # what the target never says, and what is no result
            tolerance=allowed,
            forbidden=[len(texts)],
        ),
        continuations=tuple(
            _continuations(cells, texts)
            if algorithm is None or not algorithm.stateful
            else _modified_continuations(cells, texts, algorithm)
        ),
        emission=emission,
        length=length,
        optimum=optimum,
        claimed=algorithm is not None and algorithm.optimal,
    )


def _fitting(name: str, instance: Instance) -> Algorithm | None:
    """Return the algorithm of this name, if the reference has one that takes the instance."""
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        return None
    try:
        require_fit(algorithm, instance)
    except Unsupported:
        return None
    return algorithm


def _text_law(law: Law[Path], instance: Instance) -> Floats:
    """Return the law of texts by number: their tokens as digits in base V."""
    shares = numpy.zeros((instance.vocabulary,) * (instance.length + 1))
    for text, weight in law.items():
        shares[text] = float(weight)
    return shares.ravel()


def _continuations(
    cells: _Cells, texts: Floats
) -> Iterator[tuple[Integers, Integers, Integers, Floats]]:
    vocabulary = cells.instance.vocabulary
    said = numpy.setdiff1d(numpy.arange(len(cells.emissions)), cells.unsaid)
    for size in range(1, cells.instance.length + 2):
        own = numpy.array([i for i in said if len(cells.emissions[i].tokens) == size], dtype=int)
        digits = vocabulary ** numpy.arange(size - 1, -1, -1)
        number = numpy.array([digits @ cells.emissions[i].tokens for i in own], dtype=int)
        block = texts.reshape(vocabulary**size, -1)
        mass = block.sum(1, keepdims=True)
        following = numpy.divide(block, mass, out=numpy.zeros_like(block), where=mass > 0)
        yield own, number, numpy.arange(len(block)), following


def _modified_continuations(
    cells: _Cells, texts: Floats, algorithm: Algorithm
) -> Iterator[tuple[Integers, Integers, Integers, Floats]]:
    """Yield every cell as a group by itself, continued by what the algorithm leaves there.

    Where drafts are averaged out, that is an average, too. What the algorithm never emits is
    continued by the target's own rows.
    """
    instance = cells.instance
    left = left_behind(emission_law(algorithm, instance))
    for own, number, _, following in _continuations(cells, texts):
        laws = following[number]
        for place, cell in enumerate(own):
            if emitted := left.get(cells.emissions[cell]):
                law = _text_law(continued(emitted, instance, instance.length + 1), instance)
                laws[place] = law.reshape(-1, following.shape[1])[number[place]]
        yield own, numpy.arange(len(own)), number, laws


def _nothing(asked: _Asked) -> _Seen:
    return _Seen(
        numpy.zeros(asked.cells.size),
        numpy.zeros(len(asked.text.law)),
        no_evidence(asked.emission) if asked.emission else None,
        no_evidence(asked.text),
        "",
        "",
    )


def _counted(asked: _Asked, seen: _Seen, look: Look, random: numpy.random.Generator) -> _Seen:
    """Return what is seen after one more batch."""
    counts = look.counts.astype(numpy.float64)
    texts = _texts(asked, counts, random)
    emission = seen.emission
    if asked.emission is not None and emission is not None:
        emission = updated(asked.emission, emission, counts)
    return _Seen(
        seen.counts + counts,
        seen.texts + texts,
        emission,
        updated(asked.text, seen.text, texts),
        seen.words or look.words,
        sha256(f"{seen.stream}{look.stream}".encode()).hexdigest(),
    )


def _texts(asked: _Asked, counts: Floats, random: numpy.random.Generator) -> Floats:
    """Return how often each text was written, the emissions continued by the target at random."""
    texts = numpy.zeros(len(asked.text.law))
    for own, group, number, following in asked.continuations:
        started = tally(group, counts[own], len(following))
        written = random.multinomial(started.astype(int), following)
        numpy.add.at(texts[:-1].reshape(-1, following.shape[1]), number, written)
    texts[-1] = counts[asked.cells.unsaid].sum() + counts[-1]
    return texts


# --- verdicts -------------------------------------------------------------------------------


def _judged(asked: _Asked, seen: _Seen, terms: _Terms, look: int) -> dict[str, Tested]:
    """Return what each requirement comes to as things stand."""
    cells, counts = asked.cells, seen.counts
    span = cells.instance.length
    lengths = tally(cells.accepted, counts, span + 1)
    text = _judged_law(
        asked.text, seen.text, seen.texts, terms, look, "the law of the text is another one"
    )
    judged = {"law.lossless": text}
    if asked.optimum is not None:
        above = _judged_above(lengths, asked.optimum, asked.allowed, terms, look)
        judged["length.bounded"] = above
        if above.verdict == FAIL and text.verdict != FAIL:
            proof = replace(text, verdict=FAIL, log_evidence=above.log_evidence, what=above.what)
            judged["law.lossless"] = proof
    if asked.emission is not None and seen.emission is not None:
        judged["law.reference"] = _judged_law(
            asked.emission,
            seen.emission,
            counts,
            terms,
            look,
            "the law of the emission is another one",
        )
    never = "what the target never says"
    judged["law.support"] = _judged_never(counts[cells.unsaid].sum(), counts, terms, look, never)
    words = seen.words or "what is no result"
    judged["law.prefix"] = _judged_never(counts[-1], counts, terms, look, words)
    if asked.length is not None:
        mean = float(asked.length @ numpy.arange(span + 1))
        judged["length.expected"] = _judged_length(lengths, mean, asked.allowed, terms, look)
        if asked.claimed and asked.optimum is not None:
            judged["length.optimal"] = _judged_length(
                lengths, asked.optimum, asked.allowed, terms, look
            )
    return judged


def _judged_law(
    null: Null, evidence: Evidence, counts: Floats, terms: _Terms, look: int, what: str
) -> Tested:
    emissions, observed = int(counts.sum()), distance(null.law, counts)
    bound = upper_bound(observed, emissions, look=look)
    if evidence.forbidden:
        what = f"{what}: it has a forbidden outcome"
    return _tested(
        emissions, observed, bound, log_evidence(null, evidence), terms.bias, terms, what
    )


def _judged_never(times: float, counts: Floats, terms: _Terms, look: int, what: str) -> Tested:
    """Judge what must not happen even once: no rounding excuses it."""
    emissions = int(counts.sum())
    observed = float(times / emissions)
    # Never seen in n emissions: (1 - bound)**n is the look's share of the error.
    bound = (
        upper_bound(observed, emissions, look=look)
        if times
        else log(look * (look + 1) / MISSED) / emissions
    )
    what = f"a forbidden outcome: {what}" if times else f"no outcome is {what}"
    won = inf if times else 0.0
    return _tested(emissions, observed, bound, won, terms.bias, terms, what)


def _judged_length(
    lengths: Floats, mean: float, allowed: float, terms: _Terms, look: int
) -> Tested:
    off, span = _mean(lengths) - mean, len(lengths) - 1
    won = log_evidence_off(lengths, mean, span * allowed)
    return _judged_mean(
        lengths, abs(off), won, terms, look, "the mean of the accepted length is another one"
    )


def _judged_above(
    lengths: Floats, optimum: float, allowed: float, terms: _Terms, look: int
) -> Tested:
    above, span = max(_mean(lengths) - optimum, 0.0), len(lengths) - 1
    won = log_evidence_above(lengths, optimum + span * allowed)
    return _judged_mean(
        lengths, above, won, terms, look, "the accepted length is above the optimum"
    )


def _judged_mean(
    lengths: Floats, observed: float, won: float, terms: _Terms, look: int, what: str
) -> Tested:
    emissions, span = int(lengths.sum()), len(lengths) - 1
    bound = upper_bound(observed, emissions, look=look, span=span)
    return _tested(emissions, observed, bound, won, span * terms.bias, terms, what)


def _mean(lengths: Floats) -> float:
    return float(lengths @ numpy.arange(len(lengths))) / int(lengths.sum())


def _tested(
    emissions: int,
    observed: float,
    bound: float,
    won: float,
    bias: float,
    terms: _Terms,
    what: str,
) -> Tested:
    """Return what a test came to whose distance passes below `bias`."""
    verdict = PASS if bound <= bias else INCONCLUSIVE
    if won >= terms.threshold:
        verdict = FAIL
    return Tested(verdict, emissions, observed, bound, won, terms.threshold, what)


# --- what could have been seen ------------------------------------------------------------------


def _with_sight(asked: _Asked, judged: dict[str, Tested], terms: _Terms) -> dict[str, Tested]:
    """Return the findings with the smallest distances that they could have seen."""
    nulls = {"law.lossless": asked.text, "law.reference": asked.emission}
    sighted = {}
    for requirement, found in judged.items():
        law = nulls.get(requirement)
        if law is not None:
            smallest = _smallest_bias(law, found.emissions, terms)
        elif requirement.startswith("law."):
            smallest = -expm1(log(1 - POWER) / found.emissions)
        elif requirement == "length.bounded":
            smallest = _smallest_excess(asked, found.emissions, terms)
        else:
            assert asked.length is not None
            smallest = _smallest_shift(asked.length, asked.allowed, found.emissions, terms)
        sighted[requirement] = replace(found, detectable=smallest)
    return sighted


def _smallest_bias(law: Null, emissions: int, terms: _Terms) -> float:
    def after(bias: float) -> Outlook:
        return outlook(law, hardest(law.law, bias), emissions)

    return detectable(after, terms.threshold, power=POWER)


def _smallest_excess(asked: _Asked, emissions: int, terms: _Terms) -> float:
    """Return it for the law that varies most at the optimum: all tokens accepted, or none."""
    span = asked.cells.instance.length
    assert asked.optimum is not None
    room, bound = span - asked.optimum, asked.optimum + span * asked.allowed
    if room <= 0:
        return 0.0
    all_or_none = numpy.zeros(span + 1)
    all_or_none[[0, span]] = room / span, asked.optimum / span

    def after(shift: float) -> Outlook:
        return mean_outlook(shifted(all_or_none, shift), bound, emissions)

    return min(detectable(after, terms.threshold, power=POWER, largest=room), room)


def _smallest_shift(length: Floats, allowed: float, emissions: int, terms: _Terms) -> float:
    span = len(length) - 1

    def either_way(upwards: Floats) -> float:
        mean = float(upwards @ numpy.arange(span + 1))
        if mean >= span:
            return 0.0

        def after(shift: float) -> Outlook:
            return mean_outlook(shifted(upwards, shift), mean + span * allowed, emissions)

        # One of two sides has half of the wealth.
        smallest = detectable(after, terms.threshold + log(2), power=POWER, largest=span - mean)
        return min(smallest, span - mean)  # no mean is further off on this side

    return max(either_way(length), either_way(length[::-1]))
