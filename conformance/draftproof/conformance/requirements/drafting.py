"""Requirements on the rows that a drafter declares.

Ids, levels and wording are those of the specification's chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import isfinite, prod
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.cases.rows import instance, without
from draftproof.conformance.lanes.exchange import (
    Failure,
    as_loaded,
    raised,
)
from draftproof.conformance.lanes.observe import EXACT, PROBE, observed
from draftproof.conformance.lanes.unwatched import fresh_generator
from draftproof.conformance.protocol.adapter import (
    Adapter,
    Declaration,
    DraftRequest,
    DraftResult,
    Program,
)
from draftproof.conformance.protocol.modes import modes_up_to
from draftproof.conformance.protocol.tolerance import of_processed_row, unit_of
from draftproof.conformance.requirements.finding import FAIL, Finding, verdict_of
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import Drafts, sibling_law
from draftproof.reference.errors import MissingContext
from draftproof.reference.law import Law
from draftproof.reference.model import Model, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, total
from draftproof.reference.rows import normalised

Siblings = tuple[int, ...]
Level = tuple[tuple[Row, ...], Siblings]
"""Content of one depth: a declared row for each path, and a token of each path."""


@dataclass(frozen=True)
class DraftSetting:
    """A request to a drafter: a toy draft model, K paths of L tokens, and the options.

    `widths` has the number of tokens drawn together after a context, by the context's depth.
    """

    id: str
    mode: str
    model: Model
    widths: tuple[int, ...]
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @property
    def length(self) -> int:
        """The draft length L."""
        return len(self.widths)

    @property
    def drafts(self) -> int:
        """The number of drafted paths K."""
        return prod(self.widths)

    @property
    def branching(self) -> tuple[int, ...] | None:
        """The branching of the request: None if the paths branch only at the root."""
        return self.widths if max(self.widths[1:], default=1) > 1 else None


@dataclass(frozen=True)
class DraftedRows:
    """The drafts of one row, depth by depth."""

    levels: tuple[Level, ...]

    def of_path(self, path: int) -> DraftedRows:
        """Return one of the paths, with the rows declared along it."""
        return DraftedRows(tuple(((rows[path],), (tokens[path],)) for rows, tokens in self.levels))

    @property
    def paths(self) -> Drafts:
        """The K paths."""
        return tuple(zip(*(tokens for _, tokens in self.levels), strict=True))


@dataclass(frozen=True)
class DraftObservation:
    """The joint law of a drafter's drafts and declarations, beside the data that judge it.

    `scheme` is the drafter's declared scheme, `widths` are those of its `DraftSetting`. The law is
    known up to `slack` in total variation.
    """

    case: str
    scheme: str
    widths: tuple[int, ...]
    law: Law[DraftedRows | Failure]
    runs: int
    slack: Rational
    allowed: Rational
    lane: str = EXACT


# --- what is required ----------------------------------------------------------------------


def draft_declared(seen: DraftObservation) -> Rational:
    """`draft.declared`: TV between the law of a path and that of its rows, for the worst path."""
    return max(law.total_variation(declared_law(law, drawn)) for law, drawn in _paths_of(seen))


def draft_joint(seen: DraftObservation) -> Rational:
    """`draft.joint`: TV between the joint law of the paths and the scheme's for their rows."""
    return seen.law.total_variation(declared_law(seen.law, scheme_of(seen)))


REQUIREMENTS = {"draft.declared": draft_declared, "draft.joint": draft_joint}
"""Requirements on a drafter, each with the distance that it measures."""

Drawn = Callable[[int, Level], Rational]
"""The probability of the tokens at a depth, given the rows declared for them."""


def scheme_of(seen: DraftObservation) -> Drawn:
    """Return the scheme's law of all paths: siblings jointly, and each node's independently."""

    def drawn(depth: int, level: Level) -> Rational:
        rows, tokens = level
        width, below = seen.widths[depth], prod(seen.widths[depth + 1 :])
        share = ONE
        for node in range(0, len(tokens), width * below):
            siblings = tokens[node : node + width * below : below]
            # All paths through a sibling have its token.
            if tokens[node : node + width * below] != tuple(
                t for t in siblings for _ in range(below)
            ):
                return ZERO
            share *= sibling_law(seen.scheme, rows[node], width)[siblings]
        return share

    return drawn


def _paths_of(seen: DraftObservation) -> Iterator[tuple[Law[DraftedRows | Failure], Drawn]]:
    """Yield the law of each path alone, and that of its tokens: at each depth the n-th sibling."""

    def drawn(path: int, depth: int, level: Level) -> Rational:
        ((row,), (token,)) = level
        width, below = seen.widths[depth], prod(seen.widths[depth + 1 :])
        nth = path // below % width
        law = sibling_law(seen.scheme, row, width)
        return law.probability(lambda siblings: siblings[nth : nth + 1] == (token,))

    def own(path: int, drafted: DraftedRows | Failure) -> DraftedRows | Failure:
        return drafted.of_path(path) if isinstance(drafted, DraftedRows) else drafted

    for path in range(prod(seen.widths)):
        yield seen.law.map(partial(own, path)), partial(drawn, path)


def declared_law(law: Law[DraftedRows | Failure], drawn: Drawn) -> Law[DraftedRows | Failure]:
    """Return the law that drafts drawn from their declared rows would have.

    It is built depth by depth. The row of each node keeps its law, given the tokens and rows on the
    way to the node; the tokens then get the law of these rows, even if the drafter drew them
    otherwise. So a row may depend on chance, but on no token drawn from it, and on no other path:
    paths that share their tokens share the row after them, and other paths are independent.
    """
    drafted = {each: weight for each, weight in law.items() if isinstance(each, DraftedRows)}
    reached = _reached(drafted)
    declared: dict[DraftedRows | Failure, Rational] = {}

    def follow(
        same: dict[DraftedRows, Rational], before: tuple[Level, ...], mass: Rational
    ) -> None:
        left = mass
        groups: dict[Level, dict[DraftedRows, Rational]] = {}
        for each, share in same.items():
            groups.setdefault(each.levels[len(before)], {})[each] = share
        for level, those in groups.items():
            after = (*before, level)
            weight = mass * _declared_share(after, reached) * drawn(len(before), level)
            left -= weight
            if DraftedRows(after) in those:
                declared[DraftedRows(after)] = weight
            else:
                follow(those, after, weight)
        declared[_NEVER_DRAWN] = declared.get(_NEVER_DRAWN, ZERO) + left

    follow(drafted, (), ONE)
    return Law(declared)


_NEVER_DRAWN = Failure("is declared, but never drawn")

Way = tuple[Any, ...]
"""The rows and tokens, in turn, that were declared and drawn on the way to a node."""


def _reached(drafted: dict[DraftedRows, Rational]) -> dict[tuple[int, Way], Rational]:
    """Return the probability of every way that a path starts with, by path."""
    reached: dict[tuple[int, Way], Rational] = {}
    for each, weight in drafted.items():
        for path in range(len(each.levels[0][1])):
            way = _way(each.levels, path)
            for size in range(len(way) + 1):
                key = path, way[:size]
                reached[key] = reached.get(key, ZERO) + weight
    return reached


def _declared_share(
    levels: tuple[Level, ...], reached: dict[tuple[int, Way], Rational]
) -> Rational:
    """Return the probability of the last level's rows, given the ways to their nodes."""
    rows, _ = levels[-1]
    nodes: dict[Way, int] = {}
    for path, row in enumerate(rows):
        other = nodes.setdefault(_way(levels[:-1], path), path)
        if rows[other] != row:
            return ZERO
    return prod(
        (reached[path, (*way, rows[path])] / reached[path, way] for way, path in nodes.items()),
        start=ONE,
    )


def _way(levels: tuple[Level, ...], path: int) -> Way:
    return tuple(side[path] for level in levels for side in level)


# --- how it is judged ----------------------------------------------------------------------


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on a drafter's declarations, one per setting, if there is a drafter."""
    if declared.drafts:
        for setting in settings(declared):
            if setting.mode in modes_up_to(mode):
                judged = partial(judge_setting, setting)
                yield Task(setting.id, tuple(REQUIREMENTS), (EXACT, PROBE), judged)


def settings(declared: Declaration) -> Iterator[DraftSetting]:
    """Yield the settings that the drafter declares to take.

    Options leave every row as many tokens as are drawn from it, unless tokens may be drawn twice.
    """
    for vocabulary, widths, drafts, mode in (*_SHAPES, *(_TREES if declared.trees else ())):
        widest = max(widths)
        if prod(widths) > declared.max_drafts or (declared.scheme, widest) == ("hub", 3):
            continue
        repeats = declared.scheme == "iid" or widest == 1
        shape = f"draft.v{vocabulary}.l{len(widths)}"
        model = instance(shape, vocabulary, len(widths)).draft
        for name, left, options in OPTIONS:
            if repeats or min(left, vocabulary) >= widest:
                yield DraftSetting(f"{shape}.{drafts}.{name}", mode, model, widths, **options)
    zeros = instance("draft.zeros", 4, 2, draft=lambda c: without(c, 4)).draft
    yield DraftSetting("draft.zeros", "standard", zeros, (1, 1), temperature=2.0)


_SHAPES = (
    (3, (1, 1), "k1", "quick"),
    (3, (2,), "k2", "quick"),
    (2, (1, 1, 1), "k1", "standard"),
    (3, (2, 1), "k2", "standard"),
    (4, (3,), "k3", "standard"),
)
"""Shapes: V, the numbers of tokens drawn together by depth, a name, and the mode."""

_TREES = (
    (3, (1, 2), "b1x2", "quick"),
    (2, (2, 2), "b2x2", "standard"),
)
"""Shapes of drafts that branch below the root, in the same form."""

_ALL = 1_000
OPTIONS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("plain", _ALL, {}),
    ("cold", _ALL, {"temperature": 0.5}),
    ("hot", _ALL, {"temperature": 2.0}),
    ("greedy", 1, {"temperature": 0.0}),
    ("top-k", 2, {"top_k": 2}),
    ("top-p", 1, {"top_p": 0.7}),
    ("hot-top-p", 1, {"temperature": 2.0, "top_p": 0.8}),
    ("all", 1, {"temperature": 2.0, "top_k": 2, "top_p": 0.9}),
)
"""Options by name, with the fewest tokens that they leave in a row."""


def judge_setting(setting: DraftSetting, program: Program, terms: Terms) -> list[Finding]:
    """Return the findings of `REQUIREMENTS` on one setting."""
    return judge(observe_drafting(program, setting, lane=terms.lane))


def judge(seen: DraftObservation) -> list[Finding]:
    """Return the findings of `REQUIREMENTS` on one observed setting."""
    return [_finding(requirement, seen) for requirement in REQUIREMENTS]


def _finding(requirement: str, seen: DraftObservation) -> Finding:
    distance = REQUIREMENTS[requirement](seen)
    # Beside the law, what is declared given what was drawn before may move twice at each depth.
    slack = (1 + 2 * len(seen.widths)) * seen.slack
    verdict = verdict_of(distance, seen.allowed, slack)
    detail = _told(requirement, seen) if verdict == FAIL else ""
    return Finding(
        requirement, seen.case, verdict, distance, seen.allowed, seen.lane, seen.runs, detail
    )


def _told(requirement: str, seen: DraftObservation) -> str:
    """Describe the drafts with the largest errors."""
    laws = list(_paths_of(seen)) if requirement == "draft.declared" else []
    law, drawn = max(
        laws or [(seen.law, scheme_of(seen))],
        key=lambda pair: pair[0].total_variation(declared_law(*pair)),
    )
    should = declared_law(law, drawn)
    # What is drawn too often says more than what is drawn too rarely, or never.
    worst = max(law, key=lambda each: law[each] - should[each])
    if isinstance(worst, Failure):
        return worst.what
    paths = " and ".join(str(list(path)) for path in worst.paths)
    rows = "; ".join(
        ", ".join(dict.fromkeys(f"({', '.join(f'{float(x):.4g}' for x in row)})" for row in rows))
        for rows, _ in worst.levels
    )
    return (
        f"drafts {paths} with probability {float(law[worst]):.6g}, the declared rows {rows} "
        f"say {float(should[worst]):.6g}"
    )


# --- what is observed ----------------------------------------------------------------------

# Three paths of one token of four, or two of two tokens of three: some 100 runs each.
_MOST_RUNS = 50_000


def observe_drafting(
    program: Program, setting: DraftSetting, *, lane: str = EXACT
) -> DraftObservation:
    """Observe the joint law of what a drafter draws and declares.

    Raises `OpaqueRandomness`, `TooManyRuns` or `NondeterministicProgram` where the lane is blind.
    """
    declared = program.declared
    rounding = _row_rounding(setting, declared)
    known: dict[Path, list[Row]] = {}

    def run(asked: Adapter, rows: int) -> DraftResult | str:
        try:
            return drafted(as_loaded(asked), setting, declared, rows=rows)
        except BaseException as error:
            return raised(error)

    found = observed(
        program,
        run,
        each_drafted,
        vocabulary=setting.model.vocabulary,
        lane=lane,
        most_runs=_MOST_RUNS,
    )
    return DraftObservation(
        case=setting.id,
        scheme=declared.scheme,
        widths=setting.widths,
        law=found.law.map(lambda raw: _drafted(raw, setting, rounding, known)),
        runs=found.runs,
        slack=found.slack,
        allowed=_allowed(setting, declared),
        lane=lane,
    )


def drafted(
    adapter: Any,
    setting: DraftSetting,
    declared: Declaration,
    *,
    rows: int = 1,
    generator: torch.Generator | None = None,
) -> DraftResult:
    """Return the paths [rows, K, L] that a drafter draws, and their rows [rows, K, L, V].

    The tensors contain no undecided choice. Raises `TypeError` for wrong shapes, and the drafter's
    own errors.
    """
    asked = draft_request(setting, declared, rows=rows, generator=generator)
    result = adapter.draft(asked)
    shape = [rows, setting.drafts, setting.length]
    wanted = {"draft_tokens": shape, "draft_probs": [*shape, setting.model.vocabulary]}
    found = {name: torch.as_tensor(getattr(result, name)) for name in wanted}
    for name, each in found.items():
        if list(each.shape) != wanted[name]:
            raise TypeError(
                f"DraftResult.{name} must have shape {wanted[name]}, got {list(each.shape)}"
            )
        # An operator decides what is drawn, and all runs go on together: a number read parts them.
        each.ne(each)
    return DraftResult(**found)


def each_drafted(raw: Any, rows: int) -> list[Any]:
    """Return, for each row, the tokens [K][L] and rows [K][L][V] drafted, or an error's message."""
    if isinstance(raw, str):
        return [raw] * rows
    tokens, declares = vars(raw).values() if isinstance(raw, DraftResult) else raw
    return list(zip(_frozen(tokens), _frozen(declares), strict=True))


def draft_request(
    setting: DraftSetting,
    declared: Declaration,
    *,
    rows: int = 1,
    generator: torch.Generator | None = None,
) -> DraftRequest:
    """Return the request for rows of a setting, by default with a fresh generator."""
    dtype, device = getattr(torch, declared.dtype), declared.device

    vocabulary = setting.model.vocabulary

    @cache
    def row(context: Path) -> list[float]:
        return list(map(float, setting.model(context)))

    def looked_up(contexts: Iterable[Sequence[int]]) -> Tensor:
        return torch.tensor([row(tuple(each)) for each in contexts], dtype=dtype, device=device)

    def next_probs(contexts: Tensor) -> Tensor:
        is_plain = contexts.dim() == 2 and not contexts.is_floating_point()
        if not is_plain or are_outside(contexts, vocabulary):
            return looked_up(contexts.tolist())
        # A table, since a context that is read parts runs which are watched together.
        try:
            table = looked_up(product(range(vocabulary), repeat=contexts.shape[1]))
        except MissingContext:
            return looked_up(contexts.tolist())
        return table[numbered(contexts, vocabulary).to(device)]

    return DraftRequest(
        next_probs=next_probs,
        rows=rows,
        drafts=setting.drafts,
        length=setting.length,
        vocabulary=vocabulary,
        temperature=setting.temperature,
        top_k=setting.top_k,
        top_p=setting.top_p,
        branching=setting.branching,
        generator=generator or fresh_generator(device),
    )


def are_outside(tokens: Tensor, vocabulary: int) -> bool:
    """Return True if any token is outside 0..V - 1."""
    return bool(((tokens < 0) | (tokens >= vocabulary) | (tokens != tokens.long())).any())


def numbered(tokens: Tensor, vocabulary: int) -> Tensor:
    """Return the places [N] of tokens [N, D] among all of D tokens, in lexicographic order."""
    places = vocabulary ** torch.arange(tokens.shape[1], device=tokens.device).flip(0)
    return (tokens.long() * places).sum(1)


def _frozen(nested: Any) -> Any:
    nested = nested.tolist() if isinstance(nested, Tensor) else nested
    return tuple(map(_frozen, nested)) if isinstance(nested, (list, tuple)) else nested


def _drafted(
    raw: Any, setting: DraftSetting, rounding: Rational, known: dict[Path, list[Row]]
) -> DraftedRows | Failure:
    """Return the drafts, from nested numbers or from the message of an error.

    `known` has the known rows of each context, from any outcome: a row that differs from a known
    row by rounding is replaced by it, so that rounding does not split a law.
    """
    if isinstance(raw, str):
        return Failure(raw)
    paths, probs = raw
    rows: list[list[Row]] = []
    for path, along in zip(paths, probs, strict=True):
        rows.append([])
        for depth, (token, row) in enumerate(zip(path, along, strict=True)):
            if token not in range(setting.model.vocabulary):
                return Failure(f"drafts token {token}, not in 0..{setting.model.vocabulary - 1}")
            if not all(isfinite(weight) and weight >= 0 for weight in row):
                return Failure(f"declares the row {list(row)}, which is no law")
            weights = [exactly(weight) for weight in row]
            if abs(total(weights) - 1) > rounding:
                return Failure(f"declares a row that sums to {float(total(weights)):.6g}")
            rows[-1].append(
                _known(normalised(weights), known.setdefault(path[:depth], []), rounding)
            )
    return DraftedRows(
        tuple(
            (tuple(row[depth] for row in rows), tuple(path[depth] for path in paths))
            for depth in range(setting.length)
        )
    )


def _known(row: Row, known: list[Row], rounding: Rational) -> Row:
    """Return the first of the known rows that differs from a row by rounding, or the row itself."""
    for other in known:
        if all(abs(a - b) <= rounding for a, b in zip(row, other, strict=True)):
            return other
    known.append(row)
    return row


def _row_rounding(setting: DraftSetting, declared: Declaration) -> Rational:
    """Return the largest relative error of an entry of a declared row, and of the row's sum.

    A logarithm of a weight of 1/16 or more (2.8, off by 6 units in the last place), divided by 1/2
    or more (5.6, off by 17), less the largest (23) and exponentiated (25); numerator and sum alike,
    V terms: V + 50. Cutting and normalising the row again does the same to both once more:
    3V + 101.
    """
    return of_processed_row(setting.model.vocabulary) * unit_of(declared)


def _allowed(setting: DraftSetting, declared: Declaration) -> Rational:
    """Return the distance that rounding alone can cause.

    Every one of the K L tokens is drawn from a separate row: that row and the declared one may each
    carry the error of a row, which is half as much in TV, and a running sum is off by 2V units.
    """
    drawn = _row_rounding(setting, declared) + 2 * setting.model.vocabulary * unit_of(declared)
    return setting.drafts * setting.length * drawn
