"""Requirements on input that breaks its contract.

Ids, levels and wording are those of the specification's chapter 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.cases.rows import instance, without
from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.cache import Coming
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.exchange import (
    Asked,
    Failure,
    Outcome,
    as_given,
    as_loaded,
    request,
    told,
    with_noise,
)
from draftproof.conformance.lanes.observe import BLINDNESS, EXACT, PROBE, RUN, joint_laws
from draftproof.conformance.protocol.adapter import (
    INVALID_INPUTS,
    Declaration,
    Program,
    Request,
)
from draftproof.conformance.protocol.raising import caught, told_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding, verdict_of
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.model import Instance
from draftproof.reference.rational import total


def tasks(_declared: Declaration, _mode: str) -> Iterator[Task]:
    """Yield the tasks on input that breaks its contract."""
    judged = partial(_judge_rejection, cases("quick")[1])
    yield Task("inputs", ("input.rejected",), (RUN,), judged)
    for name, undrafted, drafts in _undrafted():
        judged = partial(judge_undrafted, name, undrafted, drafts)
        asks = partial(_asked, (undrafted, drafts))
        yield Task(name, ("input.undrafted",), (EXACT, PROBE), judged, asks=asks)


def _asked(row: Asked, declared: Declaration) -> Coming:
    return [([row], declared)]


# --- invalid input ----------------------------------------------------------------------------


@dataclass(frozen=True)
class InputObservation:
    """Reaction of an adapter to each kind of invalid input: the error, or None for silence.

    `where` describes, for a kind accepted in silence, the first invalid input of that kind;
    `undefined` has the kinds that the adapter declares, each with its reason.
    """

    errors: Mapping[str, str | None]
    undefined: Mapping[str, str]
    where: Mapping[str, str] = field(default_factory=dict)
    runs: int = 0


def _judge_rejection(case: Case, program: Program, _terms: Terms) -> list[Finding]:
    return [judge_inputs(observe_inputs(program, case))]


def observe_inputs(program: Program, case: Case) -> InputObservation:
    """Give the adapter every kind of invalid input, and record the kinds that can pass in silence.

    Each kind is tried at every position of a row, and of the last of two rows if the adapter takes
    several: this finds an adapter that checks only the first row.
    """
    declared = program.declared
    paths = next(iter(draft_law(case.instance)))
    valid = request([(case.instance, paths)] * (2 if declared.batch else 1), declared)
    errors: dict[str, str | None] = {}
    where: dict[str, str] = {}
    runs = 0
    for kind in INVALID_INPUTS:
        for what, invalid in _invalid(kind, valid):
            met = _met(program, invalid)
            runs += met.runs
            if met.error is None:
                errors[kind] = None
                where.setdefault(kind, what)
                break
            errors.setdefault(kind, met.error)
    return InputObservation(errors, declared.undefined, where, runs)


def judge_inputs(seen: InputObservation) -> Finding:
    """Return the finding of `input.rejected`."""
    silent = [f"{kind} ({seen.where[kind]})" for kind in input_rejected(seen)]
    declared = [kind for kind, error in seen.errors.items() if error is None]
    detail = f"declared undefined: {', '.join(declared)}" if declared else ""
    if silent:
        detail = f"accepted in silence: {', '.join(silent)}"
    verdict = FAIL if silent else PASS
    return Finding("input.rejected", "inputs", verdict, lane=RUN, runs=seen.runs, detail=detail)


def input_rejected(seen: InputObservation) -> tuple[str, ...]:
    """`input.rejected`: the kinds of invalid input accepted in silence and not declared."""
    return tuple(
        kind for kind, error in seen.errors.items() if error is None and kind not in seen.undefined
    )


@dataclass(frozen=True)
class _Met:
    """Reaction to invalid input: the error, None if a run can end without an error."""

    error: str | None
    runs: int


class _Silence(Exception):
    """Raised when a run ends without an error, so that no other run is needed."""


def _met(program: Program, invalid: Request) -> _Met:
    """Determine if any run can be silent: an error may depend on which tokens are accepted."""
    runs = 0

    def run() -> str:
        nonlocal runs
        runs += 1
        error = _error(program, invalid)
        if error is None:
            raise _Silence
        return error

    try:
        errors = list(exact_law(run, is_held=False).law)
        return _Met(errors[0], runs)
    except _Silence:
        return _Met(None, runs)
    except BLINDNESS:
        # NaN in a race, say, has no law to be followed: one real run must do.
        with seeded(0):
            return _Met(_error(program, invalid), runs + 1)


def _error(program: Program, invalid: Request) -> str | None:
    tensors = {name: each for name, each in vars(invalid).items() if isinstance(each, Tensor)}
    clones: dict[str, Any] = {name: each.clone() for name, each in tensors.items()}
    fresh = replace(invalid, **clones)
    try:
        as_loaded(program.adapter).verify(with_noise(fresh, program.declared))
    except BaseException as error:
        return told_of(caught(error))
    return None


# The first entries of a row that is invalid in one way only, the others being 0.
_INVALID_ROWS = {
    "nan": (([nan], "is NaN"),),
    "negative": (([-0.5, 1.5], "is negative"),),
    "unnormalised": (
        ([0.25, 0.25], "sums to 1/2"),
        ([1.0, 1.0], "sums to 2"),
        ([inf, 0.0], "is infinite"),
    ),
}


def _invalid(kind: str, valid: Request) -> Iterator[tuple[str, Request]]:
    """Yield requests that are invalid in one way, each with a description of its fault."""
    for row, what in _INVALID_ROWS.get(kind, ()):
        yield from _with_row(valid, "draft_probs", row, what)
        yield from _with_row(valid, "target_probs", row, what)
    if kind == "shape":
        yield from _misshapen(valid)
    if kind == "token":
        yield from _with_unknown_token(valid)


def _misshapen(valid: Request) -> Iterator[tuple[str, Request]]:
    for which in ("draft", "target"):
        yield f"{which}_probs has a row too few", _cut(valid, which, 2)
        yield f"{which}_probs has a row too many", _doubled(valid, which, 2, 1)
        yield f"{which}_probs has a token too few", _cut(valid, which, 3)
        paths = valid.draft_tokens.shape[1]
        yield f"{which}_probs has twice as many paths", _doubled(valid, which, 1, paths)


def _with_unknown_token(valid: Request) -> Iterator[tuple[str, Request]]:
    for place in _places(valid.draft_tokens):
        for token in (-1, valid.draft_probs.shape[-1]):
            tokens = valid.draft_tokens.clone()
            tokens[place] = token
            yield f"draft_tokens{list(place)} is {token}", replace(valid, draft_tokens=tokens)


def _with_row(
    valid: Request, name: str, row: Sequence[float], what: str
) -> Iterator[tuple[str, Request]]:
    """Yield the request with one invalid row, at every place that a row can have."""
    padded = [*row, *[0.0] * (valid.draft_probs.shape[-1] - len(row))]
    for place in _places(getattr(valid, name)[..., 0]):
        changed: dict[str, Any] = {name: getattr(valid, name).clone()}
        changed[name][place] = torch.tensor(padded, dtype=changed[name].dtype)
        logits = name.replace("probs", "logits")
        if getattr(valid, logits) is not None:
            changed[logits] = changed[name].log()
        yield f"{name}{list(place)} {what}", replace(valid, **changed)


def _places(tensor: Tensor) -> list[tuple[int, ...]]:
    """Return the places of all entries of the last of the batch's rows, the first entry first."""
    rows = len(tensor) - 1
    return [(rows, *map(int, rest)) for rest in torch.ones_like(tensor[0]).nonzero().tolist()]


def _cut(valid: Request, which: str, dim: int) -> Request:
    """Return the request whose rows lack the last entry of a dimension."""
    return _reshaped(valid, which, lambda rows: rows.narrow(dim, 0, rows.shape[dim] - 1))


def _doubled(valid: Request, which: str, dim: int, count: int) -> Request:
    """Return the request with the first `count` entries of its rows repeated along a dimension."""
    return _reshaped(valid, which, lambda rows: torch.cat([rows, rows.narrow(dim, 0, count)], dim))


def _reshaped(valid: Request, which: str, change: Any) -> Request:
    names = (f"{which}_probs", f"{which}_logits")
    given = {name: getattr(valid, name) for name in names}
    return replace(valid, **{n: change(rows) for n, rows in given.items() if rows is not None})


# --- what cannot have been drafted ------------------------------------------------------------


def _undrafted() -> Iterator[tuple[str, Instance, Drafts]]:
    """Yield instances, each with a draft that has a token without probability at one place.

    The target can write that token in some instances, and not in others; the token is the first,
    the second, or both.
    """
    wanted = instance("undrafted.wanted", 3, 2, draft=lambda c: without(c, 3))
    unsaid = instance(
        "undrafted.unsaid", 3, 2, target=lambda c: without(c, 3), draft=lambda c: without(c, 3)
    )
    for name, given in (("wanted", wanted), ("unsaid", unsaid)):
        for place, path in (("first", (0, 0)), ("second", (1, 2)), ("both", (0, 1))):
            yield f"undrafted.{name}.{place}", given, (path,)


def judge_undrafted(
    name: str, given: Instance, drafts: Drafts, program: Program, terms: Terms
) -> list[Finding]:
    """Return the finding of `input.undrafted` on one draft that cannot have been drawn."""
    (seen,) = joint_laws(program, [[(given, drafts)]], lane=terms.lane)
    law = seen.of_row(0)
    target = as_given(given, program.declared).target
    wrong = {outcome: w for outcome, w in law.items() if not _is_answer(outcome, target.joint)}
    distance = total(wrong.values())
    allowed = allowed_distance(program.declared, given.vocabulary, given.length)
    verdict = verdict_of(distance, allowed, seen.slack)
    detail = ""
    if verdict == FAIL:
        worst = max(wrong, key=lambda outcome: wrong[outcome])
        detail = told(drafts, worst)
    return [
        Finding("input.undrafted", name, verdict, distance, allowed, terms.lane, seen.runs, detail)
    ]


def _is_answer(outcome: Outcome, joint: Any) -> bool:
    """Return True if the outcome is an error, or an emission that the target can write."""
    if isinstance(outcome, Failure):
        return outcome.what.startswith("raised ")
    return bool(joint(outcome.tokens) > 0)
