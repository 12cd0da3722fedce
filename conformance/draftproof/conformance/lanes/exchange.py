"""What goes over to an adapter and what comes back: requests from instances, outcomes from results.

Everything that runs an adapter goes through `verified`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.lanes.exact._scalar import require_own
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
"""One row of a request: an instance, and the paths that were drafted from it."""


@dataclass(frozen=True)
class Failure:
    """What a verifier did instead of emitting something that the drafts allow."""

    what: str


Outcome = Emission | Failure


def verified(adapter: Adapter, rows: Sequence[Asked], declared: Declaration) -> tuple[Outcome, ...]:
    """Return what the adapter makes of each row, asked for all of them at once.

    An error of the adapter is the outcome of every row. Draws the noise that it asks for.
    """
    # Fresh tensors every time: an adapter that writes into them harms itself only.
    asked = with_noise(request(rows, declared), declared)
    try:
        return outcomes(columns(adapter.verify(asked), len(rows)), rows)
    except BaseException as error:
        return outcomes(raised(error), rows)


def raised(error: BaseException, *, placed: bool = True) -> str:
    """Return the words for an error of an adapter, as `told_of` has them.

    They end with the adapter's own line, unless it is not to be `placed`. Raises
    `OpaqueRandomness` where a lane's stand-in for a float may have caused it, and what `caught`
    raises.
    """
    require_own(error)
    place = place_of(error) if placed else ""
    said = f"raised {told_of(caught(error))}"
    words = f"{said.rstrip()} ({place})" if place else said
    show(error, words)
    return words


def request(rows: Sequence[Asked], declared: Declaration, *, shift: float = 0.0) -> Request:
    """Return the request that asks for the rows, which have one V, one K and one branching.

    Rows of fewer tokens than the longest are padded, as a ragged adapter is told. `shift` is added
    to all logits. Raises `WrongShape` for rows that branch differently.
    """
    dtype, device = getattr(torch, declared.dtype), declared.device
    # A lane asks for the same few rows thousands of times: each is written once.
    distinct = {id(row): row for row in rows}
    places = {identity: place for place, identity in enumerate(distinct)}
    place_of = torch.tensor([places[id(row)] for row in rows])

    once = list(distinct.values())
    longest = max(instance.length for instance, _ in once)
    branching = _branching(once)

    def gathered(values: list[Any], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype)[place_of].to(device)

    def padded(model: Model, drafts: Drafts, own: int, all_rows: int) -> list[list[list[float]]]:
        nothing = [float("nan")] * model.vocabulary
        return [rows + [nothing] * (all_rows - own) for rows in _along(model, drafts, own)]

    draft_probs = gathered([padded(i.draft, paths, i.length, longest) for i, paths in once], dtype)
    target_probs = gathered(
        [padded(i.target, paths, i.length + 1, longest + 1) for i, paths in once], dtype
    )
    tokens = [[[*path, *[-1] * (longest - len(path))] for path in paths] for _, paths in once]
    lengths = [instance.length for instance, _ in once]
    return Request(
        draft_tokens=gathered(tokens, torch.int64),
        draft_probs=draft_probs,
        target_probs=target_probs,
        generator=fresh_generator(device),
        lengths=gathered(lengths, torch.int64) if declared.ragged else None,
        draft_logits=draft_probs.log() + shift if declared.logits else None,
        target_logits=target_probs.log() + shift if declared.logits else None,
        branching=branching if declared.trees else None,
    )


def _branching(rows: Sequence[Asked]) -> tuple[int, ...] | None:
    """Return how the drafts of all rows branch, None where they part at the root alone."""
    first, *others = dict.fromkeys(instance.branching for instance, _ in rows)
    if others:
        raise WrongShape(
            f"the rows of a request must branch alike: one has {list(first)} tokens after "
            f"contexts of each depth, another {list(others[0])}"
        )
    return first or None


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


def as_loaded(adapter: Adapter) -> Adapter:
    """Return a copy of the adapter as it was loaded, so that what a call leaves in it stays there.

    Parts that cannot be copied are shared.
    """
    try:
        return deepcopy(adapter)
    except Exception:
        return copy(adapter)


def outcomes(raw: Any, rows: Sequence[Asked]) -> tuple[Outcome, ...]:
    """Return the outcome of each row, from columns of numbers or the words of an error."""
    if isinstance(raw, str):
        return tuple(Failure(raw) for _ in rows)
    plain = (column.tolist() if isinstance(column, Tensor) else column for column in raw)
    known: dict[tuple[Any, ...], Outcome] = {}
    return tuple(
        known[said] if said in known else known.setdefault(said, _outcome(*said[:3], *row))
        for said, row in (((*said, id(row)), row) for *said, row in zip(*plain, rows, strict=True))
    )


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


@lru_cache(maxsize=256)
def as_given(instance: Instance, declared: Declaration, *, shift: float = 0.0) -> Instance:
    """Return the instance whose rows are those that the adapter is really given, exactly.

    Rows are rounded to its dtype, and normalised. Where it takes logits, they are the softmax of
    those logits, to which `shift` was added, computed to 128 bits.
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
