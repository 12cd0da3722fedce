"""Requirement on large vocabularies: the whole row of the next token, including the tail.

Id, level and wording are those of the specification's chapter 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from draftproof.conformance.cases.tail import PLACES, TailCase, TailRows, crowds, places, tails
from draftproof.conformance.lanes.compared import Between, described, note, note_resolution
from draftproof.conformance.lanes.exact import RowLaw, row_law
from draftproof.conformance.lanes.exchange import as_loaded, columns, raised, with_noise
from draftproof.conformance.lanes.observe import EXACT, PROBE, SAMPLE
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.conformance.lanes.probe._fed import Fed
from draftproof.conformance.lanes.unwatched import fresh_generator
from draftproof.conformance.protocol.adapter import (
    Declaration,
    Program,
    Request,
    Result,
    program_of,
)
from draftproof.conformance.protocol.tolerance import allowed_given_draft
from draftproof.conformance.requirements._one_law import sampled_law
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    SKIPPED,
    Finding,
    verdict_of,
)
from draftproof.conformance.requirements.sampled import Effort
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.chance import Chance, enumerate_law, enumerate_rows
from draftproof.reference.drafting import FixedTree
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.model import Row as ExactRow
from draftproof.reference.rational import ZERO, Rational, exactly, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, verification_law

Floats = NDArray[numpy.float64]

_SIDES = ("target", "draft")


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on large vocabularies."""
    for case in tails(mode):
        if is_asked_of(case, declared):
            lanes = (EXACT, PROBE, SAMPLE) if case.form == "places" else (EXACT, SAMPLE)
            yield Task(case.id, ("number.tail",), lanes, partial(judge_tail, case))


def is_asked_of(case: TailCase, declared: Declaration) -> bool:
    """Return True if a case is meaningful for an adapter.

    Rows of short dtypes hold few tokens only. If p and q are nearly equal, rounding dominates the
    residual of an adapter that computes its rows from logits. Without a reference, the law of a
    single draft is known if the draft is certain.
    """
    if declared.dtype not in ("float32", "float64") and case.form not in ("edges", "special"):
        return False
    if declared.logits and case.is_near:
        return False
    return declared.algorithm in ALGORITHMS or case.form == "sure"


def judge_tail(case: TailCase, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `number.tail` on a case."""
    if terms.lane == SAMPLE:
        return [_by_samples(case, program, terms)]
    if terms.lane == PROBE:
        return [_by_walls(case, program, terms)]
    declared = program.declared
    algorithm = ALGORITHMS.get(declared.algorithm)
    rows = case.rows()
    if algorithm is not None and algorithm.stateful:
        # What a block leaves behind has a row for every text that it may go on with.
        rows = TailRows(rows.target[:2], rows.draft[:1], rows.path[:1])
    seen = observed_rows(program, rows, row=case.row)
    given = as_given(rows, declared)
    if algorithm is None:
        distance, told = text_distance(seen, given), ""
    else:
        right = expected_rows(algorithm, given)
        distance, told = seen.distance(right), _largest(seen, right)
    masses = [exactly(mass) for mass in given.masses]
    allowed = allowed_given_draft(declared, rows.said, masses)
    slack = seen.slack + exactly(seen.error) + _ROUNDING
    verdict = verdict_of(exactly(distance), allowed, slack)
    detail = told if verdict == FAIL else ""
    return [
        Finding(
            "number.tail",
            case.id,
            verdict,
            exactly(distance),
            allowed,
            EXACT,
            seen.runs,
            detail,
        )
    ]


_ROUNDING = rational("1/2") ** 45
"""Bounds on the errors of the expected law and of its distance: sums of doubles, which numpy adds
pairwise."""


# --- the exact lane ------------------------------------------------------------------------------


def observed_rows(program: Program, rows: TailRows, *, row: int = 0) -> RowLaw:
    """Return the law of the result on one draft, as rows of the next token by (length, path).

    A token t is entry t + 1; entries 0 and V + 1 are for tokens outside the vocabulary. An error is
    an outcome with its message. In a batch of two, the second row is certain of other tokens, so
    that a verifier that reads it emits tokens of probability 0. Raises as `row_law` does.
    """
    asked, vocabulary = request_for(rows, program.declared, row=row), rows.target.shape[1]
    own = row if program.declared.batch else 0
    note([described(program.adapter, _afresh(asked, program.declared))])

    def run() -> tuple[Any, Any]:
        given = with_noise(_afresh(asked, program.declared), program.declared)
        try:
            result = as_loaded(program.adapter).verify(given)
            accepted, path, token = columns(result, len(given.draft_tokens))
            return (accepted[own], path[own]), token[own].clamp(-1, vocabulary) + 1
        except BaseException as error:
            return raised(error), 0

    return row_law(run, vocabulary + 2, most_runs=_MOST_RUNS)


# A sampler in tiles has a run for each tile that says something, and each accepted length.
_MOST_RUNS = 4096


def request_for(rows: TailRows, declared: Declaration, *, row: int = 0) -> Request:
    """Return the request for the rows, with a neighbour if the adapter takes batches."""
    dtype, device = getattr(torch, declared.dtype), declared.device
    target, draft, path = [rows.target], [rows.draft], [rows.path]
    if declared.batch:
        other = 1 - row
        path.insert(other, rows.path)
        draft.insert(other, _certain(rows.path, rows.draft))
        target.insert(other, _certain((*rows.path, 0), rows.target))
    p = torch.tensor(numpy.stack(target), dtype=dtype, device=device)[:, None]
    q = torch.tensor(numpy.stack(draft), dtype=dtype, device=device)[:, None]
    count, length = len(path), len(rows.path)
    return Request(
        draft_tokens=torch.tensor(path, device=device)[:, None],
        draft_probs=q,
        target_probs=p,
        lengths=torch.full((count,), length, device=device) if declared.ragged else None,
        draft_logits=q.log() if declared.logits else None,
        target_logits=p.log() if declared.logits else None,
    )


def _certain(tokens: Path, like: Floats) -> Floats:
    certain = numpy.zeros_like(like)
    certain[numpy.arange(len(tokens)), [*tokens]] = 1
    return certain


def _afresh(asked: Request, declared: Declaration) -> Request:
    """Return the request with its own tensors, so that writing to them has no further effect."""
    own: dict[str, Any] = {
        name: tensor.clone() for name, tensor in vars(asked).items() if isinstance(tensor, Tensor)
    }
    return replace(asked, **own, generator=fresh_generator(declared.device))


# --- what is expected ----------------------------------------------------------------------------


def as_given(rows: TailRows, declared: Declaration) -> TailRows:
    """Return the rows that the adapter actually gets, in doubles; for logits, their softmax."""
    dtype = getattr(torch, declared.dtype)

    def given(row: Floats) -> Floats:
        own = torch.tensor(row, dtype=dtype)
        wide = own.log().double().softmax(-1) if declared.logits else own.double()
        found: Floats = wide.numpy()
        return found

    return TailRows(given(rows.target), given(rows.draft), rows.path)


def expected_rows(algorithm: Algorithm, rows: TailRows) -> Mapping[Any, Floats]:
    """Return the law of the algorithm on the rows, in the form of `observed_rows`.

    Tokens with equal weights in every row are one token of the exact law, and share its weight: a
    verifier's treatment of a token depends on its weights alone.
    """
    kinds, sizes, instance, path = in_kinds(rows)

    def verified(chance: Chance) -> tuple[int, int]:
        said: Emission = algorithm.verify(FixedTree((path,), instance), instance, chance)
        return len(said.accepted), said.next_token

    try:
        found = enumerate_rows(verified, instance.vocabulary)
    except TypeError:
        # An algorithm that looks at its tokens is run for each.
        found = {}
        for (length, token), weight in enumerate_law(verified).items():
            found.setdefault(length, [ZERO] * instance.vocabulary)[token] += weight
    return {(length, 0): _wide(row, kinds, sizes) for length, row in found.items()}


def _wide(row: list[Rational], kinds: NDArray[numpy.int64], sizes: NDArray[numpy.int64]) -> Floats:
    wide = numpy.zeros(len(kinds) + 2)
    wide[1:-1] = (numpy.array([*map(float, row)]) / sizes)[kinds]
    return wide


def in_kinds(
    rows: TailRows,
) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], Instance, Path]:
    """Return the kind of each token [V], the sizes of kinds, and rows and path of kinds."""
    kinds = numpy.zeros(rows.target.shape[1], numpy.int64)
    for place, token in enumerate(rows.path):
        # What is drafted is a kind of its own.
        kinds[token] = place + 1
    for row in (*rows.target, *rows.draft):
        _, own = numpy.unique(row, return_inverse=True)
        _, kinds = numpy.unique(kinds * (own.max() + 1) + own, return_inverse=True)
    _, first, sizes = numpy.unique(kinds, return_index=True, return_counts=True)
    path = tuple(int(kinds[token]) for token in rows.path)

    def model(name: str, own: Floats) -> Model:
        # Contexts beside the path are never met, so any row will do there.
        found = {path[:depth]: _exact(row[first], sizes) for depth, row in enumerate(own)}
        whole = Model(name, len(first), {(): found.pop(())}, context_free=True)
        return whole.overridden(found)

    return (
        kinds,
        sizes,
        Instance(model("target", rows.target), model("draft", rows.draft), length=len(path)),
        path,
    )


def _exact(row: Floats, sizes: NDArray[numpy.int64]) -> ExactRow:
    weights = [exactly(w) * n for w, n in zip(row.tolist(), sizes.tolist(), strict=True)]
    mass = total(weights)
    return tuple(weight / mass for weight in weights)


def text_distance(seen: RowLaw, rows: TailRows) -> float:
    """Return the TV between text and target, if the draft is certain of one token.

    Whatever the algorithm, the first token has the target's row, and so has the token after an
    accepted one; a token after a correction has the target's own row.
    """
    (drafted,) = rows.path
    nothing = numpy.zeros(rows.target.shape[1] + 2)
    rejected, accepted = (seen.rows.get((length, 0), nothing) for length in (0, 1))
    p, after = (numpy.concatenate([[0.0], row / row.sum(), [0.0]]) for row in rows.target)
    others = numpy.arange(len(p)) != drafted + 1
    said = rejected[drafted + 1] * after + accepted
    lost = 1 - rejected.sum() - accepted.sum()
    apart = abs(rejected - p)[others].sum() + abs(said - p[drafted + 1] * after).sum()
    return float(apart + lost) / 2


def _largest(seen: RowLaw, right: Mapping[Any, Floats]) -> str:
    """Describe the result with the largest error in its probability."""
    nothing = numpy.zeros(len(next(iter(right.values()))))
    apart = {
        outcome: seen.rows.get(outcome, nothing) - right.get(outcome, nothing)
        for outcome in dict.fromkeys([*right, *seen.rows])
    }
    outcome = max(apart, key=lambda each: float(abs(apart[each]).max()))
    place = int(abs(apart[outcome]).argmax())
    found, owed = (each.get(outcome, nothing)[place] for each in (seen.rows, right))
    if isinstance(outcome, str):
        return outcome
    last = len(nothing) - 2
    token = f"next token {place - 1}" if 0 < place <= last else f"a token not in 0..{last - 1}"
    accepted = outcome[0] if isinstance(outcome, tuple) else outcome
    return f"{token} after {accepted} accepted has probability {found:.3g}, not {owed:.3g}"


# --- the probe lane ------------------------------------------------------------------------------

_TOKENS = {"quick": 100, "standard": 300, "certify": 1000}
"""Number of tokens whose thresholds and weights are probed."""

_TOKENS_OF_LONG_ROWS = 200
"""The same if an interpreted kernel takes seconds for a few rows."""

_COIN, _MARK = 2.0**-20, 2.0**-23
"""Distances at which walls are probed: of a coin, and of a running sum of 1024ths."""


def _by_walls(case: TailCase, program: Program, terms: Terms) -> Finding:
    """Return the finding of the probe lane, which probes both sides of each predicted wall.

    A coin tests a token's threshold, and two marks of the running sum test its weight as a bonus.
    If walls are elsewhere, the distance is the larger one that they show; otherwise it is a bound
    on the distance of the law, from the gaps between the sides. Raises `OpaqueRandomness`.
    """
    rows, declared = case.rows(), program.declared
    given, vocabulary = as_given(rows, declared), rows.target.shape[1]
    asked = request_for(rows, replace(declared, batch=False))

    def batch_of(tokens: Sequence[int]) -> Request:
        own: dict[str, Any] = {
            name: tensor.expand(len(tokens), *tensor.shape[1:]).contiguous()
            for name, tensor in vars(asked).items()
            if isinstance(tensor, Tensor)
        }
        own["draft_tokens"] = torch.tensor(tokens, device=declared.device)[:, None, None]
        return replace(asked, **own, generator=fresh_generator(declared.device))

    def verify(tokens: Sequence[int]) -> Sequence[tuple[int, int]]:
        result = as_loaded(program.adapter).verify(with_noise(batch_of(tokens), declared))
        accepted, _, token = columns(result, len(tokens))
        return [*zip(accepted.tolist(), token.tolist(), strict=True)]

    fed = Fed(verify, vocabulary, max(2**21 // vocabulary, 1) if declared.batch else 1)
    # Edges of tiles and special ids come first.
    most_tokens = _TOKENS[terms.mode] if vocabulary < 2**16 else _TOKENS_OF_LONG_ROWS
    ids = places(vocabulary, PLACES)[:most_tokens]
    roles = _roles(fed, rows.path[0])
    algorithm = ALGORITHMS[declared.algorithm]
    wrong, right, threshold = _thresholds(fed, roles, given, ids, algorithm)
    gaps = _weights(fed, roles, given, rows.path[0], ids)
    least = max(wrong, *gaps)
    most = max(right if wrong == 0 else 1.0, 2 * _MARK * len(ids) + sum(gaps))
    masses = [exactly(mass) for mass in given.masses]
    allowed = allowed_given_draft(declared, rows.said, masses)
    note([described(program.adapter, batch_of(ids[:1].tolist()))])
    note_resolution(exactly(most))
    verdict = verdict_of(exactly(most), allowed, ZERO)
    if verdict != PASS:
        verdict = verdict_of(exactly(least), allowed, ZERO)
        verdict = FAIL if verdict == FAIL else INCONCLUSIVE
    told = "" if verdict != FAIL else threshold or _weight_told(gaps, ids)
    distance = exactly(most if verdict == PASS else least)
    return Finding("number.tail", case.id, verdict, distance, allowed, PROBE, fed.rows, told)


@dataclass(frozen=True)
class _Roles:
    """Columns of noise of the coin and of the mark, and whether low coins accept."""

    coin: int
    mark: int
    is_low: bool


def kept(algorithm: Algorithm, p: float, q: float) -> float:
    """Return the probability that an algorithm keeps a single drafted token of weights p and q.

    The probability must depend on these two weights alone; all other tokens are merged into one.
    """
    q = max(q, 2.0**-60)
    target, draft = (
        Model(name, 2, {(): (exactly(own), 1 - exactly(own))}, context_free=True)
        for name, own in (("target", min(p, 1.0)), ("draft", min(q, 1.0)))
    )
    law = verification_law(algorithm, Instance(target, draft, length=1), ((0,),))
    return float(law.probability(lambda emission: len(emission.accepted) == 1))


def _thresholds(
    fed: Fed, roles: _Roles, given: TailRows, ids: NDArray[numpy.int64], algorithm: Algorithm
) -> tuple[float, float, str]:
    """Return a lower and an upper bound on the largest error of a threshold, and a description.

    The lower bound is 0 if no error shows. Each threshold is probed on both sides, at growing
    distances, until all are inside.
    """
    pairs = list(zip(*(row[0][ids].tolist() for row in (given.target, given.draft)), strict=True))
    known = {pair: kept(algorithm, *pair) for pair in set(pairs)}
    shares = numpy.array([known[pair] for pair in pairs])
    owed = shares if roles.is_low else 1 - shares
    # Low coins accept below the threshold, high ones above it.
    expected = [1, 0] * len(ids) if roles.is_low else [0, 1] * len(ids)
    tokens, wrong, told = numpy.repeat(ids, 2).tolist(), 0.0, ""
    for off in (_COIN, *(2.0**-power for power in range(16, 1, -2))):
        coins = [float(share + side) for share in owed for side in (-off, off)]
        seen = fed.outcomes([(t, {roles.coin: c}) for t, c in zip(tokens, coins, strict=True)])
        astray = next(
            (
                place
                for place, ((accepted, _), coin) in enumerate(zip(seen, coins, strict=True))
                if 0 < coin < 1 and accepted != expected[place]
            ),
            None,
        )
        if astray is None:
            return wrong, off, told
        wrong = off
        told = (
            f"the threshold of token {tokens[astray]} is not within {off:.2g} of "
            f"{owed[astray // 2]:.6g}"
        )
    return wrong, 0.0, told


def _weights(
    fed: Fed, roles: _Roles, given: TailRows, drafted: int, ids: NDArray[numpy.int64]
) -> list[float]:
    """Return the distances at which each end of a token's weight as a bonus is probed."""
    before = given.target[1].cumsum() - given.target[1]
    after = before + given.target[1]
    accept = {roles.coin: 0.0 if roles.is_low else 1.0}
    marks = [float(share) for t in ids for share in (before[t] + _MARK, after[t] - _MARK)]
    seen = fed.outcomes([(drafted, {**accept, roles.mark: share}) for share in marks])
    return [
        max(float(before[token]) - share, share - float(after[token]), 0.0)
        if 0 <= token < len(before)
        else 1.0
        for share, (_, token) in zip(marks, seen, strict=True)
    ]


def _weight_told(gaps: Sequence[float], ids: NDArray[numpy.int64]) -> str:
    """Describe the weight whose end has the largest error."""
    worst = int(numpy.argmax(gaps))
    end = "ends" if worst % 2 else "begins"
    return f"the weight of token {ids[worst // 2]} {end} {gaps[worst]:.2g} from its place"


def _roles(fed: Fed, token: int) -> _Roles:
    """Return which columns are the coin and the mark. Raises `OpaqueRandomness`."""
    every = fed.columns(token)
    low, high = (dict.fromkeys(every, share) for share in (0.0, 1.0))
    ends = [each for each, _ in fed.outcomes([(token, low), (token, high)])]
    if sorted(ends) != [0, 1]:
        raise OpaqueRandomness("the program", "has no coin that its noise decides at both ends")
    is_low = ends == [1, 0]
    here, there = (low, 1.0) if is_low else (high, 0.0)
    turned = fed.outcomes([(token, {**here, column: there}) for column in every])
    coins = [column for column, (accepted, _) in enumerate(turned) if accepted == 0]
    (_, said), *_ = fed.outcomes([(token, here)])
    marks = [c for c, (accepted, other) in enumerate(turned) if accepted == 1 and other != said]
    if len(coins) != 1 or len(marks) != 1:
        raise OpaqueRandomness("the program", "does not decide by one coin and one running sum")
    return _Roles(coins[0], marks[0], is_low)


# --- samples -------------------------------------------------------------------------------------

_EFFORTS = {
    "quick": Effort(256, 0.5),
    "standard": Effort(512, 0.35),
    "certify": Effort(1024, 0.25),
}
"""Efforts smaller than `sampled.EFFORTS`, since rows are long and each is a separate call. A fault
that affects tokens drafted at the ends of tiles, or in the tail, affects half of the drafts
here."""


def _by_samples(case: TailCase, program: Program, terms: Terms) -> Finding:
    if case.form not in ("buckets", "ranges"):
        told = "samples cannot decide it: they count buckets and ranges"
        return Finding("number.tail", case.id, SKIPPED, detail=told)
    found = crowds(case.form, case.vocabulary)
    own = Crowd(program, found.kinds, terms.seed_of(case.id))
    algorithm = ALGORITHMS.get(program.declared.algorithm)
    if algorithm is not None and not is_of_kinds(algorithm):
        # Its law of kinds is another one: what is written is the target's all the same.
        own.algorithm = f"{algorithm.name}, of kinds"
    crowd = program_of(own)
    return sampled_law("number.tail", case.id, crowd, found.instance, terms, _EFFORTS[terms.mode])


def is_of_kinds(algorithm: Algorithm) -> bool:
    """Return True if an algorithm treats tokens of equal weights in every row like one token.

    The ratio of target to draft is the same for each such token and for their sums. Target-first
    verification still differs: it asks which of the tokens was drafted.
    """
    split, whole = (
        _acceptance(algorithm, tuple(map(rational, weights)))
        for weights in (("1/4", "1/4", "1/2"), ("1/2", "1/2"))
    )
    return split == whole


def _acceptance(algorithm: Algorithm, row: ExactRow) -> Rational:
    """Return the probability that token 0 is accepted, where target and draft have one row."""
    target, draft = (Model(name, len(row), {(): row}, context_free=True) for name in _SIDES)
    instance = Instance(target, draft, length=1)
    law = enumerate_law(
        lambda chance: len(
            algorithm.verify(FixedTree(((0,),), instance), instance, chance).accepted
        )
    )
    return law.probability(lambda accepted: accepted == 1)


class Crowd(Between):
    """Adapter that verifies kinds of tokens, in the rows of a large vocabulary.

    Each row is a separate call, so that noise that is the same in every call shows.
    """

    def __init__(self, program: Program, kinds: NDArray[numpy.int64], seed: int) -> None:
        super().__init__(program.adapter)
        self._declared = declared = program.declared
        self._random = numpy.random.default_rng(seed)
        self._members = [numpy.flatnonzero(kinds == kind) for kind in range(int(kinds.max()) + 1)]
        self._kinds = torch.from_numpy(kinds).to(declared.device)
        self._sizes = self._kinds.bincount()
        self.dtype, self.device = declared.dtype, declared.device
        self.batch, self.logits = declared.batch, declared.logits

    def verify(self, request: Request) -> Result:
        """Verify the rows, one by one."""
        parts = [self._verified(request, row) for row in range(len(request.draft_tokens))]
        accepted, path, token = (torch.cat(columns) for columns in zip(*parts, strict=True))
        is_said = (token >= 0) & (token < len(self._kinds))
        # What is no token stays none.
        number = torch.where(token < 0, token, len(self._members))
        known = self._kinds[torch.where(is_said, token, 0).long()]
        return Result(accepted, path, torch.where(is_said, known, number))

    def passed_on(self, request: Request) -> Request:
        """Return the request for the first row, at the first token of each kind."""
        return self._wide(request, 0, lambda kind: int(self._members[kind][0]))

    def _verified(self, request: Request, row: int) -> tuple[Tensor, Tensor, Tensor]:
        part = self._wide(request, row, lambda kind: int(self._random.choice(self._members[kind])))
        return columns(self._adapter.verify(with_noise(part, self._declared)), 1)

    def _wide(self, request: Request, row: int, member: Callable[[int], int]) -> Request:
        here = slice(row, row + 1)
        drafted = [member(kind) for kind in request.draft_tokens[row].flatten().tolist()]
        tokens = request.draft_tokens.new_tensor(drafted).view_as(request.draft_tokens[here])
        wide: dict[str, Any] = {
            name: self._spread(getattr(request, name)[here])
            for name in ("draft_probs", "target_probs")
        }
        if self._declared.logits:
            wide |= {f"{side}_logits": wide[f"{side}_probs"].log() for side in ("draft", "target")}
        return replace(request, draft_tokens=tokens, **wide)

    def _spread(self, rows: Tensor) -> Tensor:
        return (rows / self._sizes)[..., self._kinds].to(rows.dtype)
