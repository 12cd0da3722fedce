"""Programs that call an adapter, once or several times, and what is observed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import prod
from typing import Any

import torch
from torch import Tensor

from draftproof.conformance.lanes.exact import exact_law, exact_laws, hold_exact
from draftproof.conformance.lanes.exchange import (
    Asked,
    Failure,
    Outcome,
    as_loaded,
    columns,
    outcomes,
    raised,
    request,
    with_noise,
)
from draftproof.conformance.lanes.observe import PROBE
from draftproof.conformance.lanes.probe import probed_laws
from draftproof.conformance.lanes.unwatched import watched_generator
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Request
from draftproof.conformance.protocol.loading import twin_of
from draftproof.reference.drafting import Drafts
from draftproof.reference.law import Law
from draftproof.reference.rational import Rational


@dataclass(frozen=True)
class Observed:
    """The law of a program, the runs that it took, and how far the true law may lie from it."""

    law: Law[Any]
    runs: int
    slack: Rational


# Two calls of an eager verifier take some 1,000 runs; this is a minute.
_MOST_RUNS = 20_000


def observed(
    adapter: Adapter,
    program: Callable[[Adapter, int], Any],
    read: Callable[[Any, int], Sequence[Any]],
    declared: Declaration,
    *,
    vocabulary: int,
    lane: str,
    most_runs: int = _MOST_RUNS,
) -> Observed:
    """Return the law of what `read` makes of the program's result, on the exact or probe lane.

    `program(adapter, n)` does the same with an adapter n times over, in the rows of one batch, and
    `read(result, n)` tells what came of each. An adapter that takes no batches is asked for one
    only. Raises `OpaqueRandomness`, `TooManyRuns` or `NondeterministicProgram` where the lane is
    blind.
    """
    if lane == PROBE:

        def verify(asked: Adapter, subjects: Sequence[int]) -> Sequence[Any]:
            return read(program(asked, len(subjects)), len(subjects))

        other = twin_of(adapter)
        (probed,) = probed_laws(
            partial(verify, adapter),
            1,
            batched=declared.batch,
            vocabulary=vocabulary,
            at_once=declared.at_once,
            twin=None if other is None else partial(verify, other),
        )
        return Observed(probed.law, probed.runs, probed.resolution)
    found = exact_law(lambda: program(adapter, 1), most_runs=most_runs)
    return Observed(found.law.map(lambda raw: read(raw, 1)[0]), found.runs, found.slack)


State = tuple[tuple[str, str, tuple[int, ...], tuple[float, ...]], ...]
"""What is left of one row: of every tensor its name, its dtype, its shape and its values."""

Going = tuple[Asked, State | None]
"""A row of a request, and what the iteration before has left of it."""

Left = tuple[Outcome, State | None]
"""What is emitted for a row, and what is left of it."""


def observed_left(
    adapter: Adapter, requests: Sequence[Sequence[Going]], declared: Declaration, *, lane: str
) -> list[Observed]:
    """Return, for each request, the joint law of the `Left` of its rows.

    What is left is taken as numbers, so that whatever else an adapter remembers is of no use to it.
    Rows of one request have states that one call has left. Raises as `observed` does.
    """
    if lane != PROBE:
        return _exactly_left(adapter, requests, declared)
    # Requests of one form share calls, and the lane tests that they can.
    forms = [(len(rows), tuple(_form(state) for _, state in rows)) for rows in requests]
    found: dict[int, Observed] = {}
    for form in dict.fromkeys(forms):
        own = [index for index, other in enumerate(forms) if other == form]
        alike = [requests[index] for index in own]
        found.update(zip(own, _probed_left(adapter, alike, declared), strict=True))
    return [found[index] for index in range(len(requests))]


def _exactly_left(
    adapter: Adapter, requests: Sequence[Sequence[Going]], declared: Declaration
) -> list[Observed]:
    # All draw from one generator, each as if it were alone.
    generator = watched_generator(declared.device)
    asked = [(replace(_asked(rows, declared), generator=generator), len(rows)) for rows in requests]

    def called(given: tuple[Request, int]) -> Any:
        return _answered_left(adapter, *given, declared)

    laws = exact_laws(called, asked, most_runs=_MOST_RUNS)
    for rows, law in zip(requests, laws, strict=True):
        hold_exact(law, partial(_called, adapter, rows, declared))
    return [
        Observed(law.law.map(partial(_read, rows=rows)), law.runs, law.slack)
        for rows, law in zip(requests, laws, strict=True)
    ]


def _probed_left(
    adapter: Adapter, requests: Sequence[Sequence[Going]], declared: Declaration
) -> list[Observed]:
    def verify(asked: Adapter, subjects: Sequence[int]) -> list[tuple[Left, ...]]:
        rows = [row for subject in subjects for row in requests[subject]]
        flat = iter(_read(_called(asked, rows, declared), rows))
        return [tuple(islice(flat, len(requests[subject]))) for subject in subjects]

    vocabulary = requests[0][0][0][0].vocabulary
    other = twin_of(adapter)
    found = probed_laws(
        partial(verify, adapter),
        len(requests),
        batched=declared.batch,
        vocabulary=vocabulary,
        at_once=declared.at_once,
        twin=None if other is None else partial(verify, other),
    )
    return [Observed(each.law, each.runs, each.resolution) for each in found]


def _form(state: State | None) -> Any:
    """Return what the states of one request have in common: all but the values."""
    return None if state is None else tuple(each[:-1] for each in state)


def _called(adapter: Adapter, rows: Sequence[Going], declared: Declaration) -> Any:
    """Return the columns of the result and of its state, or the words of an error."""
    return _answered_left(adapter, _asked(rows, declared), len(rows), declared)


def _asked(rows: Sequence[Going], declared: Declaration) -> Request:
    asked = request([row for row, _ in rows], declared)
    return replace(asked, state=_gathered([state for _, state in rows], declared))


def _answered_left(adapter: Adapter, asked: Request, rows: int, declared: Declaration) -> Any:
    asked = with_noise(asked, declared)
    try:
        result = as_loaded(adapter).verify(asked)
        return columns(result, rows), _state_of(result, rows)
    except BaseException as error:
        return raised(error)


def _read(raw: Any, rows: Sequence[Going]) -> tuple[Left, ...]:
    """Return what was emitted for each row, and what was left of it."""
    emitted, left = (raw, None) if isinstance(raw, str) else raw
    seen = outcomes(emitted, [row for row, _ in rows])
    return tuple(zip(seen, _apart(left, len(rows)), strict=True))


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


def _apart(tensors: Any, rows: int) -> Iterator[State | None]:
    """Yield the state of each row."""
    if tensors is None:
        yield from [None] * rows
        return
    values = [v.tolist() if isinstance(v, Tensor) else v for *_, v in tensors]
    for row in range(rows):
        forms = zip(tensors, values, strict=True)
        yield tuple((name, dtype, shape, tuple(v[row])) for (name, dtype, shape, _), v in forms)


def _gathered(states: Sequence[State | None], declared: Declaration) -> dict[str, Tensor] | None:
    """Return the states of the rows of a request as its tensors."""
    tensors: dict[str, list[Tensor]] = {}
    for state in states:
        for name, dtype, shape, values in state or ():
            kind = getattr(torch, dtype.removeprefix("torch."))
            one = torch.tensor(values, dtype=kind, device=declared.device).reshape(shape)
            tensors.setdefault(name, []).append(one)
    return (
        {name: torch.stack(each) for name, each in tensors.items()} if None not in states else None
    )


def seeded_request(
    rows: Sequence[Asked], declared: Declaration, generator: torch.Generator
) -> Request:
    """Return the request for the rows that draws, and whose noise was drawn, from a generator."""
    return with_noise(replace(request(rows, declared), generator=generator), declared)


def answer(adapter: Adapter, asked: Request) -> Any:
    """Return the columns of the adapter's result, or the words of its error."""
    try:
        return columns(adapter.verify(asked), len(asked.draft_tokens))
    except BaseException as error:
        return raised(error)


def told(drafts: Drafts, outcome: Outcome) -> str:
    """Return what was drafted and what came of it, in words."""
    paths = " and ".join(str(list(path)) for path in drafts)
    return f"drafted {paths}, it {did(outcome)}"


def did(outcome: Outcome) -> str:
    """Return what a verifier did, in words that follow 'it'."""
    if isinstance(outcome, Failure):
        return outcome.what
    return f"accepts {list(outcome.accepted)}, next token {outcome.next_token}"
