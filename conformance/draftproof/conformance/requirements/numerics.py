"""Requirements on floating-point arithmetic.

Ids, levels and wording are those of the specification's chapter 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from draftproof.conformance.cases import Case, batches, cases
from draftproof.conformance.cases.rows import instance
from draftproof.conformance.lanes.cache import Coming
from draftproof.conformance.lanes.exchange import (
    Asked,
    as_given,
    request,
    with_noise,
)
from draftproof.conformance.lanes.observe import (
    EXACT,
    PROBE,
    RUN,
    Observation,
    observe,
    observe_batch,
)
from draftproof.conformance.protocol.adapter import (
    Declaration,
    Program,
    Request,
)
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements._one_law import (
    AskedOtherwise,
    judged_law,
)
from draftproof.conformance.requirements.batches import (
    emitted,
    judge_batch,
    largest_share,
    padded_vocabulary,
)
from draftproof.conformance.requirements.finding import Finding, verdict_of
from draftproof.conformance.requirements.laws import asked
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.model import Instance, Model, Row
from draftproof.reference.rational import ZERO, exactly, rational
from draftproof.reference.verifiers import ALGORITHMS, emission_law


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on floating-point arithmetic."""
    for requirement, cases_of in (
        ("number.dtypes", _in_every_dtype),
        ("number.extreme", _extreme),
        ("number.masked", _masked),
    ):
        for given in cases_of(declared, mode):
            judged = partial(judge_given, requirement, given)
            asks = partial(_asked, given)
            yield Task(given.case.id, (requirement,), (EXACT, PROBE), judged, asks=asks)
    for dtype in declared.dtypes[1:] if declared.batch else ():
        yield Task(f"pair.{dtype}", ("number.dtypes",), (EXACT, PROBE), partial(judge_pair, dtype))
    if accepts_what_is_equal(declared):
        yield Task("extreme.products", ("number.extreme",), (RUN,), judge_products)


@dataclass(frozen=True)
class Given:
    """Case, the dtype of its rows, and a change of its logits."""

    case: Case
    dtype: str
    logits: Callable[[Tensor], Tensor] | None = None


def _asked(given: Given, declared: Declaration) -> Coming:
    """Return the requests for a case, empty if their logits are changed."""
    return asked(given.case, replace(declared, dtype=given.dtype)) if given.logits is None else ()


# --- laws on one row ---------------------------------------------------------------------


def judge_given(requirement: str, given: Given, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of a requirement on the law of a case, given in one form."""
    return [judged_law(requirement, observe_given(program, given, lane=terms.lane))]


def observe_given(program: Program, given: Given, *, lane: str) -> Observation:
    """Observe the program's law on a case, given in one form. Raises as `observe` does."""
    asked = replace(program, declared=replace(program.declared, dtype=given.dtype))
    if given.logits is not None:
        change = partial(_other_logits, given.logits)
        asked = replace(asked, adapter=AskedOtherwise(program.adapter, change))
    return observe(asked, given.case, lane=lane)


def _other_logits(change: Callable[[Tensor], Tensor], request: Request) -> Request:
    """Return the request of an adapter that takes logits, with these changed."""
    p, q = request.target_logits, request.draft_logits
    assert p is not None  # noqa: S101  # given to adapters that take logits
    assert q is not None  # noqa: S101
    return replace(request, target_logits=change(p), draft_logits=change(q))


def _plus(shift: float, logits: Tensor) -> Tensor:
    return logits + shift


def _masked_by(value: float, logits: Tensor) -> Tensor:
    return logits.masked_fill(logits.isneginf(), value)


# --- dtypes ------------------------------------------------------------------------------

_IN_DTYPES = {
    "quick": ("generic.v2.l2", "zeros.both"),
    "standard": ("generic.v2.l2", "zeros.both", "generic.v3.l2"),
}


def _in_every_dtype(declared: Declaration, mode: str) -> Iterator[Given]:
    chosen = _IN_DTYPES.get(mode, _IN_DTYPES["standard"])
    chosen_cases = [case for case in cases(mode) if case.id in chosen]
    for dtype in declared.dtypes:
        for case in (all_bits(dtype), *chosen_cases):
            yield Given(replace(case, id=f"{case.id}.{dtype}"), dtype)


def all_bits(dtype: str) -> Case:
    """Return a case whose rows need all bits of the dtype: a third and three fifths, rounded.

    Rows in 16ths are exact in every dtype, and so are many numbers computed from them.
    """
    grid = exactly(torch.finfo(getattr(torch, dtype)).eps) / 2
    third, fifths = (int(rational(share) / grid) * grid for share in ("1/3", "3/5"))
    given = _context_free((third, 1 - third), (fifths, 1 - fifths), 2)
    return Case("all-bits", "rows need every bit", "quick", given)


def judge_pair(dtype: str, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `number.dtypes` on two rows of a dtype, which are independent."""
    pair = next(each for each in batches("quick") if each.id == "batch.pair")
    asked = replace(program, declared=replace(program.declared, dtype=dtype))
    seen = observe_batch(asked, f"pair.{dtype}", pair.rows, lane=terms.lane)
    return [judge_batch(seen, "number.dtypes")]


# --- extreme rows ------------------------------------------------------------------------

FAR = 1e4
"""Size of the shift of logits, and of the distance between them."""


def _extreme(declared: Declaration, mode: str) -> Iterator[Given]:
    for case in extreme_cases(declared.dtype):
        yield Given(case, declared.dtype)
    if not declared.logits:
        return
    chosen = ("generic.v2.l2", "zeros.both")
    for case in (case for case in cases(mode) if case.id in chosen):
        for shift in (FAR, -FAR):
            # Logits are coarser when they are shifted. Rows that have been through it once are
            # not changed by it again: the grid that all are moved to is the same.
            coarse = as_given(case.instance, declared, shift=shift)
            shifted = replace(case, id=f"{case.id}.shifted.{shift:+.0f}", instance=coarse)
            yield Given(shifted, declared.dtype, partial(_plus, shift))
    apart = next(case for case in cases(mode) if case.id == "zeros.both")
    far = replace(apart, id="zeros.both.far-apart")
    yield Given(far, declared.dtype, partial(_masked_by, -FAR))


def extreme_cases(dtype: str) -> Iterator[Case]:
    """Yield cases with probabilities down to the smallest normal number of the dtype."""
    limits = torch.finfo(getattr(torch, dtype))
    tiny, ulp = exactly(limits.tiny), exactly(limits.eps) / 2
    half = rational("1/2")
    even, sure, unlike = (half, half), (1 - tiny, tiny), (tiny, 1 - tiny)
    one_up = (half + ulp, half - ulp)
    three = (half, half - tiny, tiny), (tiny, half, half - tiny)

    def case(name: str, reason: str, length: int, target: Row, draft: Row) -> Case:
        return Case(f"extreme.{name}", reason, "quick", _context_free(target, draft, length))

    yield case("ratios-down", "ratios whose products underflow", 3, sure, even)
    yield case("ratios-up", "ratios whose products overflow", 3, even, sure)
    yield case(
        "opposed", "what the draft nearly always says, the target hardly ever", 2, sure, unlike
    )
    yield case("scattered", "every token is rare in p or in q", 2, *three)
    yield case("last-bit", "p and q differ by their last bit: residuals cancel", 2, one_up, even)


def _context_free(target: Row, draft: Row, length: int) -> Instance:
    models = (("target", target), ("draft", draft))
    p, q = (Model(name, len(row), {(): row}, context_free=True) for name, row in models)
    return Instance(p, q, length=length)


def accepts_what_is_equal(declared: Declaration) -> bool:
    """Return True if the adapter's algorithm accepts every token where p = q."""
    algorithm = ALGORITHMS.get(declared.algorithm)
    if algorithm is None:
        return False
    even = (rational("1/2"), rational("1/2"))
    law = emission_law(algorithm, _context_free(even, even, 2))
    return law.expectation(lambda emission: len(emission.accepted)) == 2


_PRODUCT = 32
"""V and L of the products: V**-L = 2**-160 is zero in float32 and in all shorter floats."""

_PRODUCT_ROWS = 64


def judge_products(program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `number.extreme` where p = q, and a path's probability underflows.

    Every token is accepted, but for rounding: a correct verifier loses more with probability
    `false_alarm` at most.
    """
    declared = program.declared
    even = (rational(1) / _PRODUCT,) * _PRODUCT
    flat = _context_free(even, even, _PRODUCT)
    seed = terms.seed_of("extreme.products")
    drawn = torch.Generator().manual_seed(seed)
    paths = torch.randint(_PRODUCT, (_PRODUCT_ROWS, _PRODUCT), generator=drawn).tolist()
    rows: list[Asked] = [(flat, (tuple(path),)) for path in paths]
    lost, words = 0, ""
    for number, part in enumerate([rows] if declared.batch else [[each] for each in rows]):
        raw = emitted(program.adapter, with_noise(request(part, declared), declared), seed + number)
        if isinstance(raw, str):
            lost, words = lost + len(part), raw
        else:
            lost += sum(accepted != _PRODUCT for accepted in raw[0])
    rounding = allowed_distance(declared, _PRODUCT, _PRODUCT)
    distance, allowed = (
        rational(lost) / len(rows),
        largest_share(len(rows), rounding, terms.false_alarm),
    )
    verdict = verdict_of(distance, allowed, ZERO)
    found = Finding(
        "number.extreme", "extreme.products", verdict, distance, allowed, RUN, len(rows), words
    )
    return [found]


# --- masked rows -------------------------------------------------------------------------

_MASKED = {
    "quick": ("zeros.both", "disjoint"),
    "standard": ("zeros.both", "disjoint", "zeros.target", "zeros.draft", "point.both"),
}


def _masked(declared: Declaration, mode: str) -> Iterator[Given]:
    chosen = _MASKED.get(mode, _MASKED["standard"])
    narrow = [case for case in cases(mode) if case.id in chosen]
    for case in (*narrow, *masked_cases()):
        yield Given(replace(case, id=f"{case.id}.masked"), declared.dtype)
        if declared.logits:
            # Engines mask with the lowest finite number, too.
            lowest = torch.finfo(getattr(torch, declared.dtype)).min
            finite = replace(case, id=f"{case.id}.masked.finite")
            yield Given(finite, declared.dtype, partial(_masked_by, lowest))


def masked_cases() -> Iterator[Case]:
    """Yield cases of 96 tokens, nearly all masked: whole blocks of the vocabulary are empty."""
    for name, places, few in (
        ("behind", (70, 77, 95), instance("masked.behind", 3, 2)),
        ("in-front", (0, 1, 31), instance("masked.in-front", 3, 2)),
        ("but-one", (40, 90), instance("masked.but-one", 2, 2, target=lambda _: (1,))),
        (
            "apart",
            (5, 64),
            instance("masked.apart", 2, 2, target=lambda _: (0,), draft=lambda _: (1,)),
        ),
    ):
        yield Case(
            f"wide.{name}", "most tokens are masked", "quick", padded_vocabulary(few, places, 96)
        )
