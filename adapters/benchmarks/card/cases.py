"""What is timed: ours and those of engines, on the same rows, in the order of what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import torch
from benchmarks.calls import as_logits
from benchmarks.card.graphs import counted
from benchmarks.engines import ENGINES, Engine, Given, of_one_path
from benchmarks.inputs import Size, request
from benchmarks.measuring import Call
from benchmarks.peers import at_once
from benchmarks.predictions import DRAFTS
from benchmarks.traffic import drafted

from draftproof.adapters.fast.engine import verify
from draftproof.conformance.protocol.adapter import Request

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Skip: TypeAlias = Callable[[str, str], None]
"""Notes what is not measured, and why."""

_USUAL = 5
"""The L that is timed before others."""


@dataclass(frozen=True)
class Case:
    """One size and dtype of logits."""

    size: Size
    dtype: str

    def __str__(self) -> str:
        size = self.size
        return f"B {size.requests}, L {size.length}, V {size.vocabulary}, {self.dtype}"


@dataclass(frozen=True)
class Timed:
    """A call, and what its time is compared by."""

    name: str
    algorithm: str
    given: Given
    call: Call
    bytes: int
    """Those of the rows that it is given."""
    drafts: int = 1
    is_graphed: bool = True

    def __str__(self) -> str:
        return f"{self.name} from {self.given}"

    def row(self, case: Case) -> dict[str, Any]:
        """Return how a row of the document begins."""
        return {
            "size": asdict(case.size),
            "dtype": case.dtype,
            "name": self.name,
            "algorithm": self.algorithm,
            "given": self.given,
            "drafts": self.drafts,
            "bytes": self.bytes,
        }


def cases(sizes: Mapping[str, Sequence[Any]]) -> list[Case]:
    """Return all cases: the usual length and the first vocabulary before any other."""
    usual = _USUAL if _USUAL in sizes["length"] else sizes["length"][0]
    # One request, a full card, and then what is between.
    requests = sorted(sizes["requests"])
    telling = [*requests[:1], *requests[:0:-1]]

    def order(case: Case) -> tuple[int, ...]:
        size = case.size
        others = (size.length != usual) + (size.vocabulary != sizes["vocabulary"][0])
        return others, telling.index(size.requests), sizes["dtype"].index(case.dtype)

    every = product(sizes["requests"], sizes["length"], sizes["vocabulary"], sizes["dtype"])
    return sorted((Case(Size(*size), dtype) for *size, dtype in every), key=order)


def of_one(case: Case, *, seed: int, device: str, skip: Skip) -> list[Timed]:
    """Return the calls of verifiers of one path: ours, the obvious one, and those of engines."""
    dtype = DTYPES[case.dtype]
    given = request(case.size, seed=seed, logits=True, device=device, dtype=dtype)
    rows = likely(given)
    calls = [each for name in ("token", "block") for each in ours(name, given, rows, 1)]
    tokens, q, p = of_one_path(given)
    batched = partial(at_once, tokens, q, p, logits=True)
    # A graph would hold all the memory that this takes, as much as several inputs.
    calls.append(Timed("batched", "block", "logits", batched, _bytes(p, q), is_graphed=False))
    return [*calls, *theirs(given, skip)]


def of_several(case: Case, *, seed: int, device: str, skip: Skip) -> list[Timed]:  # noqa: ARG001  # as above
    """Return the calls of the verifier of several paths, which no engine has."""
    name, dtype = "multipath_block", DTYPES[case.dtype]
    count = DRAFTS[name]
    given = drafted(case.size, count, seed=seed, logits=True, dtype=dtype, device=device)
    return list(ours(name, given, likely(given), count))


GROUPS = (of_one, of_several)
"""What is timed in turn, and then forgotten: several paths need several times the memory."""


def likely(given: Request) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return logits as probabilities of float32, the draft's and, of float32 logits, the target's.

    Engines that take probabilities take float32, so that ours are compared with them there.
    """
    flat = as_logits(given)
    p, q = flat["target_logits"], flat["draft_logits"]
    rows = p.softmax(-1) if p.dtype == torch.float32 else None
    return rows, q.softmax(-1, dtype=torch.float32)


def ours(
    name: str, given: Request, rows: tuple[torch.Tensor | None, torch.Tensor], drafts: int
) -> Iterator[Timed]:
    """Yield the calls of a verifier of ours, from the same rows as logits and as probabilities.

    Numbers are made by counter, in the kernels, as engines make theirs.
    """
    flat = as_logits(given)
    p, q = flat.pop("target_logits"), flat.pop("draft_logits")
    del flat["generators"]
    flat |= counted(len(given.draft_tokens), str(p.device))
    call, (of_target, of_draft) = partial(verify, name, form="triton", **flat), rows
    own = partial(Timed, f"triton {name}", name)
    yield own("logits", partial(call, target_logits=p, draft_logits=q), _bytes(p, q), drafts)
    if name == "token":
        mixed = partial(call, target_logits=p, draft_probs=of_draft)
        yield own("mixed", mixed, _bytes(p, of_draft), drafts)
    if of_target is not None:
        both = partial(call, target_probs=of_target, draft_probs=of_draft)
        yield own("probabilities", both, _bytes(of_target, of_draft), drafts)


def theirs(given: Request, skip: Any, engines: Mapping[str, Engine] = ENGINES) -> Iterator[Timed]:
    """Yield the calls of the engines that work here, and tell why the others do not."""
    _, q, p = of_one_path(given)
    for name, engine in engines.items():
        if engine.given == "probabilities" and p.dtype != torch.float32:
            continue
        size = p.element_size(), q.element_size()
        if engine.given == "mixed":
            size = p.element_size(), 4
        try:
            call = engine(given)
            call()
        except ImportError as error:
            skip(name, f"absent: {type(error).__name__}: {error}")
        # Whatever breaks in a program that is not ours is the reason why it is not measured.
        except Exception as error:
            skip(name, f"{type(error).__name__}: {error}")
        else:
            count = p.numel() * size[0] + q.numel() * size[1]
            yield Timed(name, engine.algorithm, engine.given, call, count)


def _bytes(*rows: torch.Tensor) -> int:
    return sum(each.numel() * each.element_size() for each in rows)
