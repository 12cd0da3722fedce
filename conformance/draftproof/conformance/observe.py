"""What is observed of an adapter: its law on a case and on a batch, and how it meets bad input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.adapter import (
    INVALID_INPUTS,
    Adapter,
    Declaration,
    Request,
    declaration,
)
from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.exact import ExactLaw, OpaqueRandomness, exact_law
from draftproof.conformance.precise import softmax
from draftproof.conformance.tolerance import allowed_distance
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Model, Row
from draftproof.reference.rational import Rational, exactly, rational, total
from draftproof.reference.verifiers import ALGORITHMS, Algorithm


@dataclass(frozen=True)
class Failure:
    """What a verifier did instead of emitting something that the drafts allow."""

    what: str


Outcome = Emission | Failure


@dataclass(frozen=True)
class Observation:
    """The law of an adapter on one case, beside what it is judged by.

    `instance` has the rows that the adapter was really given, as exact rationals; `observed` has
    its law for every possible outcome of drafting. `algorithm` is None where the
    adapter's is not known to the reference.
    """

    case: str
    instance: Instance
    algorithm: Algorithm | None
    drafts: Law[Drafts]
    observed: Mapping[Drafts, Law[Outcome]]
    runs: int
    slack: Rational
    allowed: Rational

    def emitted(self) -> Law[Outcome]:
        """Return the law of one iteration, drafting included."""
        return self.drafts.then(lambda drafts: self.observed[drafts])


@dataclass(frozen=True)
class BatchObservation:
    """The joint law of a batch, and the laws of its rows each observed alone."""

    case: str
    joint: Law[tuple[Outcome, ...]]
    alone: tuple[Law[Outcome], ...]
    runs: int
    slack: Rational
    allowed: Rational


@dataclass(frozen=True)
class InputObservation:
    """What an adapter did with each kind of invalid input: the error, or None if it was silent."""

    errors: Mapping[str, str | None]
    undefined: Mapping[str, str]


def observe(adapter: Adapter, case: Case) -> Observation:
    """Observe the adapter's law on a case, for every path that can be drafted."""
    declared = declaration(adapter)
    instance = as_given(case.instance, declared)
    drafts = draft_law(instance)
    observed, runs, slack = {}, 0, exactly(0.0)
    for paths in drafts:
        law = _exact(adapter, [(case.instance, paths)])
        observed[paths] = law.law.map(lambda outcomes: outcomes[0])
        runs += law.runs
        slack = max(slack, law.slack)
    return Observation(
        case=case.id,
        instance=instance,
        algorithm=ALGORITHMS.get(declared.algorithm),
        drafts=drafts,
        observed=observed,
        runs=runs,
        slack=slack,
        allowed=allowed_distance(declared, instance.vocabulary, instance.length),
    )


def observe_batch(
    adapter: Adapter, name: str, rows: Sequence[tuple[Instance, Drafts]]
) -> BatchObservation:
    """Observe the joint law of a batch, and every row of it alone."""
    declared = declaration(adapter)
    together = _exact(adapter, rows)
    alone = [_exact(adapter, [row]) for row in rows]
    instance = rows[0][0]
    return BatchObservation(
        case=name,
        joint=together.law,
        alone=tuple(law.law.map(lambda outcomes: outcomes[0]) for law in alone),
        runs=together.runs + sum(law.runs for law in alone),
        slack=together.slack + total(law.slack for law in alone),
        # Every row may be off by the rounding of one law, in the batch and alone.
        allowed=2 * len(rows) * allowed_distance(declared, instance.vocabulary, instance.length),
    )


def observe_inputs(adapter: Adapter, case: Case) -> InputObservation:
    """Give the adapter every kind of invalid input and see whether it can pass in silence."""
    declared = declaration(adapter)
    paths = next(iter(draft_law(case.instance)))
    valid = _request([(case.instance, paths)], declared)
    errors: dict[str, str | None] = {}
    for kind in INVALID_INPUTS:
        for request in _invalid(kind, valid):
            outcomes = _errors(adapter, request)
            if None in outcomes:
                errors[kind] = None
            else:
                errors.setdefault(kind, outcomes[0])
    return InputObservation(errors, declared.undefined)


def _errors(adapter: Adapter, request: Request) -> list[str | None]:
    """Return what a request can end in: whether an error comes may depend on what is accepted."""
    program = partial(_error, adapter, request)
    try:
        return list(exact_law(program).law)
    except OpaqueRandomness:
        # NaN in a race, say, has no law to be followed: one real run must do.
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return [program()]


def _error(adapter: Adapter, request: Request) -> str | None:
    try:
        adapter.verify(
            replace(
                request,
                draft_tokens=request.draft_tokens.clone(),
                draft_probs=request.draft_probs.clone(),
                target_probs=request.target_probs.clone(),
            )
        )
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return None


def as_given(instance: Instance, declared: Declaration) -> Instance:
    """Return the instance whose rows are those that the adapter is really given, exactly.

    Rows are rounded to its dtype, and normalised. Where it turns them into logits, they are
    the softmax of those logits, computed to 128 bits.
    """
    models = (_model_as_given(model, declared) for model in (instance.target, instance.draft))
    target, draft = models
    return replace(instance, target=target, draft=draft)


def _model_as_given(model: Model, declared: Declaration) -> Model:
    return replace(model, rows={c: _row_as_given(r, declared) for c, r in model.rows.items()})


def _row_as_given(row: Row, declared: Declaration) -> Row:
    floats = torch.tensor([float(weight) for weight in row], dtype=getattr(torch, declared.dtype))
    if not declared.logits:
        weights = [exactly(weight) for weight in floats.tolist()]
        return tuple(weight / total(weights) for weight in weights)
    said = [token for token, weight in enumerate(row) if weight != 0]
    logits = floats.log().tolist()
    shares = dict(zip(said, softmax([exactly(logits[token]) for token in said]), strict=True))
    return _on_grid([shares.get(token, weight) for token, weight in enumerate(row)])


def _on_grid(row: Sequence[Rational]) -> Row:
    """Return the row in multiples of 2**-128, so that laws keep one small denominator."""
    grid = rational(2) ** 128
    kept = [rational(int(weight * grid)) / grid for weight in row]
    largest = kept.index(max(kept))
    kept[largest] += 1 - total(kept)
    return tuple(kept)


def _request(rows: Sequence[tuple[Instance, Drafts]], declared: Declaration) -> Request:
    dtype, device = getattr(torch, declared.dtype), declared.device

    def table(model: Model, drafts: Drafts, depth: int) -> list[list[list[float]]]:
        return [[[float(w) for w in model(path[:i])] for i in range(depth)] for path in drafts]

    return Request(
        draft_tokens=torch.tensor(
            [[list(path) for path in drafts] for _, drafts in rows], device=device
        ),
        draft_probs=torch.tensor(
            [table(i.draft, drafts, i.length) for i, drafts in rows], dtype=dtype, device=device
        ),
        target_probs=torch.tensor(
            [table(i.target, drafts, i.length + 1) for i, drafts in rows],
            dtype=dtype,
            device=device,
        ),
        generator=torch.Generator(device),
    )


# Eager draws at every position of three rows take some 30,000 runs; this is a minute or two.
_MOST_RUNS = 50_000


def _exact(adapter: Adapter, rows: Sequence[tuple[Instance, Drafts]]) -> ExactLaw[Any]:
    """Return the exact law of the outcomes of all rows in one batch."""
    declared = declaration(adapter)

    def program() -> Any:
        # Fresh tensors in every run: an adapter that writes into them harms itself only.
        request = _request(rows, declared)
        try:
            return _checked(adapter.verify(request), len(rows))
        except (Exception, SystemExit) as error:
            return f"raised {type(error).__name__}: {error}"

    raw = exact_law(program, most_runs=_MOST_RUNS)
    return replace(raw, law=raw.law.map(lambda outcome: _outcomes(outcome, rows)))


def _checked(result: Any, rows: int) -> tuple[Tensor, ...]:
    columns = []
    for field in ("accepted_length", "path", "next_token"):
        if not hasattr(result, field):
            raise TypeError(f"verify must return a Result, got {type(result).__name__}")
        column = torch.as_tensor(getattr(result, field))
        if column.shape != (rows,):
            raise TypeError(f"Result.{field} must have shape [{rows}], got {list(column.shape)}")
        columns.append(column)
    return tuple(columns)


def _outcomes(raw: Any, rows: Sequence[tuple[Instance, Drafts]]) -> tuple[Outcome, ...]:
    if isinstance(raw, str):
        return tuple(Failure(raw) for _ in rows)
    return tuple(
        _outcome(accepted, path, token, instance, drafts)
        for accepted, path, token, (instance, drafts) in zip(*raw, rows, strict=True)
    )


def _outcome(accepted: Any, path: Any, token: Any, instance: Instance, drafts: Drafts) -> Outcome:
    if accepted not in range(instance.length + 1):
        return Failure(f"returned accepted length {accepted}, not in 0..{instance.length}")
    if path not in range(instance.drafts):
        return Failure(f"returned path {path}, not in 0..{instance.drafts - 1}")
    if token not in range(instance.vocabulary):
        return Failure(f"returned next token {token}, not in 0..{instance.vocabulary - 1}")
    return Emission(int(path), drafts[int(path)][: int(accepted)], int(token))


def _invalid(kind: str, valid: Request) -> Iterator[Request]:
    """Yield requests that are invalid in one way."""

    def rows(name: str, first: Sequence[float]) -> Request:
        changed = getattr(valid, name).clone()
        for entry, value in enumerate(first):
            changed[0, 0, 0, entry] = value
        return replace(valid, **{name: changed})

    both = ("draft_probs", "target_probs")
    if kind == "nan":
        yield from (rows(name, [float("nan")]) for name in both)
    elif kind == "negative":
        yield from (rows(name, [-0.5, 1.5]) for name in both)
    elif kind == "unnormalised":
        yield from (rows(name, [0.25, 0.25]) for name in both)
    elif kind == "shape":
        yield replace(valid, draft_probs=valid.draft_probs[:, :, :-1])
        yield replace(valid, target_probs=valid.target_probs[:, :, :-1])
    elif kind == "token":
        for token in (-1, valid.draft_probs.shape[-1]):
            yield replace(valid, draft_tokens=torch.full_like(valid.draft_tokens, token))
