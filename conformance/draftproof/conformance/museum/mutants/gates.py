"""Gated mutants: every base fault behind every gate, one family.

A fault of an engine seldom acts in every call. It hides behind a *gate*: a length, a batch, a
layout, a token, a call that is not the first. Outside of its gate a gated mutant runs correctly,
step by step on the same random numbers, so a suite that asks nothing behind the gate sees a correct
verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from draftproof.conformance.museum.mutants.mutant import Mutant
from draftproof.conformance.museum.mutants.verifiers import Ragged, tempered
from draftproof.conformance.protocol.adapter import Request, Result

# --- faults ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """Wrong steps that replace steps of token verification, as functions without `self`."""

    id: str
    what: str
    steps: Mapping[str, Callable[..., Any]]


def _target_itself(p: Tensor, q: Tensor, path: Tensor) -> Tensor:
    return p.clone()


def _one_coin(ratio: Tensor, request: Request) -> Tensor:
    coin = torch.rand(len(ratio), 1, dtype=ratio.dtype, generator=request.generator)
    return coin.expand_as(ratio)


def _own_seed(ratio: Tensor, request: Request) -> Tensor:
    own = torch.Generator().manual_seed(0)
    return torch.rand(ratio.shape, dtype=ratio.dtype, generator=own)


FAULTS: tuple[Fault, ...] = (
    Fault("residual", "Corrects from the target's row", {"residual": _target_itself}),
    Fault("coin", "Tests every position of a row with one coin", {"coins": _one_coin}),
    Fault("seed", "Tests with coins of a seed of its own", {"coins": _own_seed}),
    Fault(
        "ratio",
        "Accepts with the square root of the ratio",
        {"ratio": lambda p, q, path: _at(p, path).sqrt() / _at(q, path).sqrt()},
    ),
    Fault(
        "row",
        "Reads the target's row of the position before",
        {"seen": lambda path, q, p: (q, torch.cat([p[:, :1], p[:, :-1]], 1))},
    ),
    Fault(
        "neighbour",
        "Reads the target's rows of the request before",
        {"seen": lambda path, q, p: (q, p.roll(1, 0))},
    ),
    Fault(
        "temperature",
        "Takes the target's rows at temperature 1/2",
        {"seen": lambda path, q, p: (q, tempered(p, 0.5))},
    ),
    Fault("bonus", "Draws the bonus from the draft's last row", {"bonus": lambda p, q: q[:, -1:]}),
)
"""Base faults."""


def _at(rows: Tensor, path: Tensor) -> Tensor:
    return rows.gather(-1, path[..., None])[..., 0]


# --- gates -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calls:
    """Calls before this one: their number, and their largest B."""

    count: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Gate:
    """Condition behind which a fault hides, and the requirement that tests behind it.

    `opens` returns the positions at which the fault acts: a mask that broadcasts to [B, L].
    """

    id: str
    what: str
    asked_by: str
    opens: Callable[[Request, Calls], Tensor]


def _always(is_open: object) -> Tensor:
    """Return a mask of all positions, or of none."""
    return torch.tensor([[bool(is_open)]])


def _positions(request: Request) -> Tensor:
    return torch.arange(request.draft_tokens.shape[2])[None]


def _rows(request: Request) -> Tensor:
    return torch.arange(len(request.draft_tokens))[:, None]


def _rank(request: Request) -> Tensor:
    """Return how many tokens the target finds likelier than each drafted token: [B, L]."""
    rows, path = request.target_probs[:, 0, :-1], request.draft_tokens[:, 0].clamp(min=0)
    return (rows > _at(rows, path)[..., None]).sum(-1)


def _is_equal_to_one_before(request: Request) -> Tensor:
    """Return the rows [B, 1] that draft what a row before them drafts."""
    path = request.draft_tokens[:, 0]
    alike = (path[:, None] == path[None]).all(-1)
    return alike.tril(-1).any(-1, keepdim=True)


def _is_beside_nothing(request: Request) -> Tensor:
    """Return the rows [B, 1] whose neighbour drafts nothing."""
    if request.lengths is None:
        return _always(None)
    empty = request.lengths == 0
    beside = torch.zeros_like(empty)
    beside[1:] |= empty[:-1]
    beside[:-1] |= empty[1:]
    return beside[:, None]


def _strides(request: Request) -> list[int]:
    """Return the strides of the rows along the sides that have more than one entry."""
    rows = (request.draft_probs, request.target_probs)
    return [
        n for each in rows for n, size in zip(each.stride(), each.shape, strict=True) if size > 1
    ]


GATES: tuple[Gate, ...] = (
    Gate(
        "length",
        "where L is 5 or more",
        "law.long",
        lambda request, _: _always(request.draft_tokens.shape[2] >= 5),
    ),
    Gate("position", "from position 4 on", "law.long", lambda request, _: _positions(request) >= 4),
    Gate(
        "batch",
        "where B is 6 or more",
        "batch.large",
        lambda request, _: _always(len(request.draft_tokens) >= 6),
    ),
    Gate(
        "last-row",
        "in the last row of several",
        "batch.invariant",
        lambda request, _: (_rows(request) == len(request.draft_tokens) - 1) & (_rows(request) > 0),
    ),
    Gate("row", "from row 32 on", "batch.large", lambda request, _: _rows(request) >= 32),
    Gate(
        "equal",
        "in a row that drafts what a row before it drafts",
        "batch.large",
        lambda request, _: _is_equal_to_one_before(request),
    ),
    Gate(
        "nothing",
        "beside a row that drafts nothing",
        "batch.ragged",
        lambda request, _: _is_beside_nothing(request),
    ),
    Gate(
        "vocabulary",
        "where V is more than 32,768",
        "number.tail",
        lambda request, _: _always(request.target_probs.shape[-1] > 2**15),
    ),
    Gate(
        "token",
        "at the last token of a tile of 1,024",
        "number.tail",
        lambda request, _: request.draft_tokens[:, 0] % 1024 == 1023,
    ),
    Gate(
        "tail",
        "at a token that a thousand others are likelier than",
        "number.tail",
        lambda request, _: _rank(request) >= 1000,
    ),
    Gate(
        "dtype",
        "where rows are not float32",
        "number.dtypes",
        lambda request, _: _always(request.target_probs.dtype != torch.float32),
    ),
    Gate(
        "strided",
        "where rows are not contiguous",
        "input.layout",
        lambda request, _: _always(not request.target_probs.is_contiguous()),
    ),
    Gate(
        "expanded",
        "where rows are expanded",
        "input.layout",
        lambda request, _: _always(0 in _strides(request)),
    ),
    Gate(
        "generator",
        "where the request has no generator",
        "random.default",
        lambda request, _: _always(request.generator is None),
    ),
    Gate(
        "call", "from the third call on", "random.calls", lambda _, calls: _always(calls.count > 1)
    ),
    Gate(
        "growing",
        "where B is larger than in all calls before",
        "random.calls",
        lambda request, calls: _always(calls.count > 0 and len(request.draft_tokens) > calls.rows),
    ),
)
"""Gates, by the dimension of the envelope that they are in."""


# --- verifiers ---------------------------------------------------------------------------------


class Gated(Ragged):
    """Token verification with a fault that acts behind a gate, and nowhere else."""

    dtypes: ClassVar = ("float32", "float64", "bfloat16")
    arithmetic = "float32"
    fault: ClassVar[Fault]
    gate: ClassVar[Gate]

    def __init__(self) -> None:
        self.calls = Calls()

    def verify(self, request: Request) -> Result:
        """Verify B single paths of the same or of different lengths."""
        rows, _, length = request.draft_tokens.shape
        is_open = self.gate.opens(request, self.calls).expand(rows, length)
        if request.lengths is not None:
            is_open = is_open & (_positions(request) < request.lengths[:, None])
        self.is_open = is_open
        self.calls = Calls(self.calls.count + 1, max(self.calls.rows, rows))
        return super().verify(request)

    def seen(self, path: Tensor, q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows to verify."""
        wrong_q, wrong_p = self._step("seen", path, q, p) or (q, p)
        last = torch.cat([self.is_open, self.is_open[:, -1:]], 1)
        at = self.is_open[..., None], last[..., None]
        return torch.where(at[0], wrong_q, q), torch.where(at[1], wrong_p, p)

    def ratio(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return the ratio of each drafted token."""
        right = super().ratio(p, q, path)
        wrong = self._step("ratio", p, q, path.clamp(min=0))
        return right if wrong is None else torch.where(self.is_open, wrong, right)

    def coins(self, ratio: Tensor, request: Request) -> Tensor:
        """Return a uniform number for each ratio."""
        right = super().coins(ratio, request)
        wrong = self._step("coins", ratio, request)
        return right if wrong is None else torch.where(self.is_open, wrong, right)

    def residual(self, p: Tensor, q: Tensor, path: Tensor) -> Tensor:
        """Return the weights of corrections."""
        right = super().residual(p, q, path)
        wrong = self._step("residual", p, q, path)
        return right if wrong is None else torch.where(self.is_open[..., None], wrong, right)

    def bonus(self, p: Tensor, q: Tensor) -> Tensor:
        """Return the weights of the bonus."""
        right = super().bonus(p, q)
        wrong = self._step("bonus", p, q)
        return right if wrong is None else torch.where(self.is_open[:, -1:, None], wrong, right)

    def _step(self, name: str, *given: Any) -> Any:
        """Return the result of a wrong step, None if there is none, or the gate is shut."""
        step = self.fault.steps.get(name)
        return None if step is None or not self.is_open.any() else step(*given)


def gated(fault: Fault, gate: Gate) -> type[Gated]:
    """Return the verifier that has a fault behind a gate."""
    name = f"{fault.id}-behind-{gate.id}"
    made = {
        "name": name,
        "__module__": __name__,
        "files": (__file__,),
        "fault": fault,
        "gate": gate,
    }
    return type("".join(map(str.capitalize, name.split("-"))), (Gated,), made)


FAMILY: Mapping[str, type[Gated]] = {
    made.__name__: made for gate in GATES for fault in FAULTS for made in (gated(fault, gate),)
}
"""Every fault behind every gate, by the names of their classes."""


def _exhibit(made: type[Gated]) -> Mutant:
    """Return a gated verifier with its label."""
    why = "who asks nothing behind the gate sees a right verifier"
    what = f"{made.fault.what} {made.gate.what}."
    return Mutant(made.name, what, why, ("draftproof",), (made.gate.asked_by,), made)


GATED: Mapping[str, Mutant] = {made.name: _exhibit(made) for made in FAMILY.values()}
"""Every fault behind every gate as an exhibit, by id."""


def __getattr__(name: str) -> Any:
    """Return a class of the family, for loading it as an adapter or unpickling it."""
    try:
        return FAMILY[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
