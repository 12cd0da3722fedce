"""Requests to an adapter, made from instances, and outcomes made from its results.

Every run of an adapter goes through `verified`.
"""

from __future__ import annotations

import copyreg
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy
import torch
from torch import Tensor

from draftproof.conformance.lanes.opaque import require_own
from draftproof.conformance.lanes.precise import softmax
from draftproof.conformance.lanes.unwatched import fresh_generator
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Request
from draftproof.conformance.protocol.raising import caught, place_of, show, told_of
from draftproof.reference.drafting import Drafts
from draftproof.reference.emission import Emission
from draftproof.reference.errors import WrongShape
from draftproof.reference.model import Instance, Model, Row
from draftproof.reference.rational import Rational, exactly, rational, total

Asked = tuple[Instance, Drafts]
"""One row of a request: an instance, and the paths drafted from it."""

State = tuple[tuple[str, str, tuple[int, ...], tuple[float, ...]], ...]
"""State that one row left: the name, the dtype, the shape and the values of every tensor."""

Going = tuple[Instance, Drafts, State | None]
"""A row of a request, and the state that the previous iteration left of it."""


@dataclass(frozen=True)
class Failure:
    """Outcome of a verifier that emitted nothing that the drafts allow."""

    what: str


Outcome = Emission | Failure

Left = tuple[Outcome, State | None]
"""The emission of a row, and the state that it left."""


def verified(adapter: Adapter, rows: Sequence[Asked], declared: Declaration) -> tuple[Outcome, ...]:
    """Return the adapter's outcome for each row, from one request for all rows.

    An error of the adapter is the outcome of every row. Draws the noise that the adapter asks for.
    """
    # Fresh tensors every time: an adapter that writes into them harms itself only.
    asked = with_noise(request(rows, declared), declared)
    try:
        return outcomes(columns(adapter.verify(asked), len(rows)), rows)
    except BaseException as error:
        return outcomes(raised(error), rows)


def answer(adapter: Adapter, asked: Request) -> Any:
    """Return the columns of the adapter's result, or the message of its error."""
    try:
        return columns(adapter.verify(asked), len(asked.draft_tokens))
    except BaseException as error:
        return raised(error)


def raised(error: BaseException, *, placed: bool = True) -> str:
    """Return the message of an adapter's error, in the form of `told_of`.

    The message ends with the adapter's own line if `placed` is true. Raises `OpaqueRandomness` if a
    lane's stand-in for a float may have caused the error, and the exceptions of `caught`.
    """
    require_own(error)
    place = place_of(error) if placed else ""
    said = f"raised {told_of(caught(error))}"
    words = f"{said.rstrip()} ({place})" if place else said
    show(error, words)
    return words


def request(rows: Sequence[Asked | Going], declared: Declaration, *, shift: float = 0.0) -> Request:
    """Return the request that asks for the rows, which have one V, one K and one branching.

    Rows shorter than the longest are padded, as a ragged adapter expects. `shift` is added to all
    logits. Raises `WrongShape` for rows that branch differently.
    """
    dtype, device = getattr(torch, declared.dtype), declared.device
    # A lane asks for the same few rows thousands of times: each is written once.
    distinct = {id(row): row for row in rows}
    places = {identity: place for place, identity in enumerate(distinct)}
    place_of = torch.tensor([places[id(row)] for row in rows])

    once = list(distinct.values())
    longest = max(instance.length for instance, *_ in once)
    branching = _branching(once)

    def gathered(values: list[Any], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype)[place_of].to(device)

    def padded(model: Model, drafts: Drafts, own: int, all_rows: int) -> list[list[list[float]]]:
        nothing = [float("nan")] * model.vocabulary
        return [rows + [nothing] * (all_rows - own) for rows in _along(model, drafts, own)]

    draft_probs = gathered(
        [padded(i.draft, paths, i.length, longest) for i, paths, *_ in once], dtype
    )
    target_probs = gathered(
        [padded(i.target, paths, i.length + 1, longest + 1) for i, paths, *_ in once], dtype
    )
    tokens = [[[*path, *[-1] * (longest - len(path))] for path in paths] for _, paths, *_ in once]
    lengths = [instance.length for instance, *_ in once]
    return Request(
        draft_tokens=gathered(tokens, torch.int64),
        draft_probs=draft_probs,
        target_probs=target_probs,
        generator=fresh_generator(device),
        lengths=gathered(lengths, torch.int64) if declared.ragged else None,
        draft_logits=draft_probs.log() + shift if declared.logits else None,
        target_logits=target_probs.log() + shift if declared.logits else None,
        branching=branching if declared.trees else None,
        state=_gathered([state for _, _, *states in rows for state in states], declared),
    )


def seeded_request(
    rows: Sequence[Asked], declared: Declaration, generator: torch.Generator
) -> Request:
    """Return the request for the rows, with a generator from which its noise was drawn."""
    return with_noise(replace(request(rows, declared), generator=generator), declared)


def _branching(rows: Sequence[Asked | Going]) -> tuple[int, ...] | None:
    """Return the branching of the drafts of all rows, None if they branch only at the root."""
    first, *others = dict.fromkeys(instance.branching for instance, *_ in rows)
    if others:
        raise WrongShape(
            f"the rows of a request must branch alike: one has {list(first)} tokens after "
            f"contexts of each depth, another {list(others[0])}"
        )
    return first or None


def _gathered(states: Sequence[State | None], declared: Declaration) -> dict[str, Tensor] | None:
    """Return the tensors of the states of a request's rows, None if a row has none."""
    if not states or None in states:
        return None
    tensors: dict[str, list[Tensor]] = {}
    for state in states:
        for name, dtype, shape, values in state or ():
            kind = getattr(torch, dtype.removeprefix("torch."))
            one = torch.tensor(values, dtype=kind, device=declared.device).reshape(shape)
            tensors.setdefault(name, []).append(one)
    return {name: torch.stack(each) for name, each in tensors.items()}


@lru_cache(maxsize=4096)
def _along(model: Model, drafts: Drafts, depth: int) -> list[list[list[float]]]:
    """Return the model's rows at the first contexts along each path."""
    return [[[float(w) for w in model(path[:i])] for i in range(depth)] for path in drafts]


def with_noise(asked: Request, declared: Declaration) -> Request:
    """Return the request with the noise that the adapter asks for, drawn from the generator."""
    if not declared.noise:
        return asked
    rows, drafts, length, vocabulary = asked.draft_probs.shape
    sides = {"K": drafts, "L": length, "V": vocabulary}
    noise = {}
    for name, (law, *shape) in declared.noise.items():
        drawn = torch.empty(
            [rows, *(sides[side] if isinstance(side, str) else side for side in shape)],
            dtype=torch.promote_types(asked.draft_probs.dtype, torch.float32),
            device=asked.draft_probs.device,
        )
        draw = drawn.uniform_ if law == "uniform" else drawn.exponential_
        noise[name] = draw(generator=asked.generator)
    return replace(asked, noise=noise)


def columns(result: Any, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return accepted lengths, paths and next tokens, [B] each. Raises `TypeError`."""
    found = []
    missing = [field for field in _FIELDS if not hasattr(result, field)]
    if len(missing) == len(_FIELDS):
        raise TypeError(f"verify must return a Result, got {type(result).__name__}")
    if missing:
        raise TypeError(
            f"verify must return a Result with {', '.join(_FIELDS)}; "
            f"{type(result).__name__} has no {' and no '.join(missing)}"
        )
    for field in _FIELDS:
        column = torch.as_tensor(getattr(result, field))
        if column.shape != (rows,):
            raise TypeError(f"Result.{field} must have shape [{rows}], got {list(column.shape)}")
        found.append(column)
    accepted, path, token = found
    return accepted, path, token


_FIELDS = ("accepted_length", "path", "next_token")


def columns_left(result: Any, rows: int) -> tuple[Any, Any]:
    """Return the columns of a result, and the tensors of its state. Raises `TypeError`."""
    return columns(result, rows), _state_of(result, rows)


def _state_of(result: Any, rows: int) -> Any:
    """Return the tensors of a result's state, one after the other. Raises `TypeError`."""
    state = getattr(result, "state", None)
    if state is None:
        return None
    if not isinstance(state, Mapping):
        raise TypeError(f"Result.state must map names to tensors, got {type(state).__name__}")
    for name, each in state.items():
        if not isinstance(each, Tensor) or each.shape[:1] != (rows,):
            shape = list(each.shape) if isinstance(each, Tensor) else type(each).__name__
            raise TypeError(f"Result.state[{name!r}] must be a tensor [{rows}, ...], got {shape}")
    return tuple(
        (name, str(each.dtype), tuple(each.shape[1:]), each.reshape(rows, prod(each.shape[1:])))
        for name, each in state.items()
    )


def as_loaded(adapter: Adapter) -> Adapter:
    """Return a copy of the adapter as loaded, so that a call leaves no trace in the original.

    The copy shares the parts that cannot be copied, and the generators of Python's and numpy's: a
    copy of those would draw the same in every call.
    """
    try:
        with _generators_shared():
            return deepcopy(adapter)
    except Exception:
        return copy(adapter)


@contextmanager
def _generators_shared() -> Iterator[None]:
    before = dict(copyreg.dispatch_table)
    # `deepcopy` takes the object itself where it is told a name.
    copyreg.dispatch_table.update(dict.fromkeys(_GENERATORS, lambda _: ""))
    try:
        yield
    finally:
        copyreg.dispatch_table.clear()
        copyreg.dispatch_table.update(before)


_GENERATORS: tuple[type, ...] = (
    numpy.random.Generator,
    numpy.random.RandomState,
    random.Random,
    random.SystemRandom,
    *numpy.random.BitGenerator.__subclasses__(),
)


def outcomes(raw: Any, rows: Sequence[Asked | Going]) -> tuple[Outcome, ...]:
    """Return the outcome of each row, from columns of numbers or from the message of an error."""
    if isinstance(raw, str):
        return tuple(Failure(raw) for _ in rows)
    plain = (column.tolist() if isinstance(column, Tensor) else column for column in raw)
    known: dict[tuple[Any, ...], Outcome] = {}
    return tuple(
        known[said] if said in known else known.setdefault(said, _outcome(*said[:3], *row[:2]))
        for said, row in (((*said, id(row)), row) for *said, row in zip(*plain, rows, strict=True))
    )


def outcomes_left(raw: Any, rows: Sequence[Going]) -> tuple[Left, ...]:
    """Return the emission of each row, and the state that it left."""
    emitted, left = (raw, None) if isinstance(raw, str) else raw
    return tuple(zip(outcomes(emitted, rows), _apart(left, len(rows)), strict=True))


def _apart(tensors: Any, rows: int) -> Iterator[State | None]:
    """Yield the state of each row."""
    if tensors is None:
        yield from [None] * rows
        return
    values = [v.tolist() if isinstance(v, Tensor) else v for *_, v in tensors]
    for row in range(rows):
        forms = zip(tensors, values, strict=True)
        yield tuple((name, dtype, shape, tuple(v[row])) for (name, dtype, shape, _), v in forms)


def _outcome(accepted: Any, path: Any, token: Any, instance: Instance, drafts: Drafts) -> Outcome:
    if accepted not in range(instance.length + 1):
        return Failure(f"returned accepted length {accepted}, not in 0..{instance.length}")
    if path not in range(len(drafts)):
        return Failure(f"returned path {path}, not in 0..{len(drafts) - 1}")
    if token not in range(instance.vocabulary):
        return Failure(f"returned next token {token}, not in 0..{instance.vocabulary - 1}")
    kept = drafts[int(path)][: int(accepted)]
    # Paths that share what was accepted are one and the same.
    first = next(i for i, each in enumerate(drafts) if each[: len(kept)] == kept)
    return Emission(first, kept, int(token))


def told(drafts: Drafts, outcome: Outcome) -> str:
    """Return the drafts and their outcome in words."""
    paths = " and ".join(str(list(path)) for path in drafts)
    return f"drafted {paths}, it {did(outcome)}"


def did(outcome: Outcome) -> str:
    """Return a verifier's outcome, in words that follow 'it'."""
    if isinstance(outcome, Failure):
        return outcome.what
    return f"accepts {list(outcome.accepted)}, next token {outcome.next_token}"


@lru_cache(maxsize=256)
def as_given(instance: Instance, declared: Declaration, *, shift: float = 0.0) -> Instance:
    """Return the instance with the exact values of the rows that the adapter is given.

    Rows are rounded to the adapter's dtype and normalised. For an adapter that takes logits, the
    rows are the softmax of those logits, to which `shift` was added, computed to 128 bits.
    """
    models = (_as_given(model, declared, shift) for model in (instance.target, instance.draft))
    target, draft = models
    return replace(instance, target=target, draft=draft)


def _as_given(model: Model, declared: Declaration, shift: float) -> Model:
    rows = {context: _row_as_given(row, declared, shift) for context, row in model.rows.items()}
    return replace(model, rows=rows)


def _row_as_given(row: Row, declared: Declaration, shift: float) -> Row:
    floats = torch.tensor([float(weight) for weight in row], dtype=getattr(torch, declared.dtype))
    if not declared.logits:
        weights = [exactly(weight) for weight in floats.tolist()]
        return tuple(weight / total(weights) for weight in weights)
    said = [token for token, weight in enumerate(row) if weight != 0]
    logits = (floats.log() + shift).tolist()
    shares = dict(zip(said, softmax([exactly(logits[token]) for token in said]), strict=True))
    return _on_grid([shares.get(token, weight) for token, weight in enumerate(row)])


def _on_grid(row: Sequence[Rational]) -> Row:
    """Return the row in multiples of 2**-128, so that laws keep one small denominator."""
    grid = rational(2) ** 128
    kept = [rational(int(weight * grid)) / grid for weight in row]
    largest = kept.index(max(kept))
    kept[largest] += 1 - total(kept)
    return tuple(kept)
