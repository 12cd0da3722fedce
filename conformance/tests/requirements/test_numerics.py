"""Verifiers that are right or wrong in floats, and by which requirement each is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes.observe import EXACT, RUN
from draftproof.conformance.protocol.adapter import DTYPES, Request, Result, declaration, program_of
from draftproof.conformance.requirements._one_law import law_distance, likeliest_failure
from draftproof.conformance.requirements.finding import FAIL, INCONCLUSIVE, PASS, Finding
from draftproof.conformance.requirements.numerics import (
    Given,
    accepts_what_is_equal,
    all_bits,
    extreme_cases,
    judge_products,
    masked_cases,
    observe_given,
    tasks,
)
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import exactly, rational

CASES = {case.id: case for case in cases("standard")}


def judged(adapter: Any, mode: str = "quick") -> list[Finding]:
    program = program_of(adapter)
    return [
        finding
        for task in tasks(program.declared, mode)
        for finding in task.judge(program, Terms(task.lanes[0], mode, seed=1))
    ]


def broken(adapter: Any, verdict: str = FAIL) -> set[str]:
    return {each.requirement for each in judged(adapter) if each.verdict == verdict}


def at(rows: Tensor, path: Tensor) -> Tensor:
    return rows.gather(-1, path[..., None])[..., 0]


class Verifier:
    version, algorithm = "1", "token"

    def __init__(self) -> None:
        self.name = type(self).__name__


class Token(Verifier):
    """Token verification with the steps open that floats can get wrong."""

    dtypes: ClassVar[tuple[str, ...]] = DTYPES

    def verify(self, request: Request) -> Result:
        path, q, p = self.given(request)
        ratio = self.ratio(at(p[:, :-1], path), at(q, path))
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        row = torch.arange(len(p))
        none = torch.zeros_like(p[:, :1])
        residual = (p[row, accepted] - torch.cat([q, none], 1)[row, accepted]).clamp(min=0)
        void = residual.sum(-1, keepdim=True) == 0
        token = self.draw(torch.where(void, p[row, accepted], residual))
        return Result(accepted, torch.zeros_like(accepted), token)

    def given(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        q, p = (self.widened(rows[:, 0]) for rows in (request.draft_probs, request.target_probs))
        return request.draft_tokens[:, 0], q, p

    def widened(self, rows: Tensor) -> Tensor:
        return rows.to(torch.promote_types(rows.dtype, torch.float32))

    def ratio(self, p: Tensor, q: Tensor) -> Tensor:
        return p / q

    def draw(self, rows: Tensor) -> Tensor:
        return torch.multinomial(rows, 1)[:, 0]


class Loop(Verifier):
    """Row by row and position by position, in Python's numbers."""

    def verify(self, request: Request) -> Result:
        accepted, tokens = [], []
        for path, q, p in zip(
            request.draft_tokens[:, 0],
            request.draft_probs[:, 0],
            request.target_probs[:, 0],
            strict=True,
        ):
            kept = 0
            while kept < len(path) and torch.rand(()).item() < self.ratio(kept, path, q, p):
                kept += 1
            row = p[kept] - q[kept] if kept < len(path) else p[kept]
            tokens.append(int(torch.multinomial(row.clamp(min=0), 1)))
            accepted.append(kept)
        return Result(torch.tensor(accepted), torch.zeros(len(tokens)), torch.tensor(tokens))

    def ratio(self, kept: int, path: Tensor, q: Tensor, p: Tensor) -> float:
        return float(p[kept, path[kept]]) / float(q[kept, path[kept]])


class Logits(Token):
    """Takes logits, and their softmax itself."""

    logits = True
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64")

    def given(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        assert request.draft_logits is not None
        assert request.target_logits is not None
        q, p = (self.softmax(x[:, 0]) for x in (request.draft_logits, request.target_logits))
        return request.draft_tokens[:, 0], q, p

    def softmax(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1)


class ArithmeticInHalf(Token):
    """As honest as its bits: what is computed has the dtype of the rows."""

    def widened(self, rows: Tensor) -> Tensor:
        return rows


@pytest.mark.requirement("number.dtypes", "number.extreme", "number.masked")
@pytest.mark.parametrize(
    "verifier", [Token(), Loop(), Logits(), ArithmeticInHalf()], ids=lambda v: v.name
)
def test_what_is_right_breaks_nothing(verifier: Any) -> None:
    found = judged(verifier)
    assert {each.requirement for each in found} == {
        "number.dtypes",
        "number.extreme",
        "number.masked",
    }
    assert {each.verdict for each in found} == {PASS}


class ShortBeforeTheRatio(Token):
    """p and q are cast to a short float before they are divided, whatever they come in."""

    dtypes: ClassVar[tuple[str, ...]] = ("float32",)
    short = torch.bfloat16

    def ratio(self, p: Tensor, q: Tensor) -> Tensor:
        return p.to(self.short).float() / q.to(self.short).float()


class HalfBeforeTheRatio(ShortBeforeTheRatio):
    short = torch.float16


class ReadsItsMemoryAsFloat32(Token):
    """Half the entries of a row in float64 are the second halves of the others."""

    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64")

    def widened(self, rows: Tensor) -> Tensor:
        if rows.dtype == torch.float32:
            return rows
        return rows.view(torch.float32)[..., : rows.shape[-1]].nan_to_num().clamp(0, 1) + 1e-6


class RejectsMoreInHalf(Token):
    """Off by 1/100 in eight bits, which rounding could explain."""

    def widened(self, rows: Tensor) -> Tensor:
        self.short = rows.dtype == torch.bfloat16
        return super().widened(rows)

    def ratio(self, p: Tensor, q: Tensor) -> Tensor:
        return 0.99 * p / q if self.short else p / q


class ShortBeforeTheRatioInALoop(Loop):
    def ratio(self, kept: int, path: Tensor, q: Tensor, p: Tensor) -> float:
        return super().ratio(kept, path, q.bfloat16(), p.bfloat16())


class ProductsApart(Token):
    """The product of the p over the product of the q: 0/0 when both underflow."""

    def ratio(self, p: Tensor, q: Tensor) -> Tensor:
        together = p.cumprod(-1) / q.cumprod(-1)
        return together / torch.cat([torch.ones_like(together[:, :1]), together[:, :-1]], 1)


class ProductsApartInALoop(Loop):
    def ratio(self, kept: int, path: Tensor, q: Tensor, p: Tensor) -> float:
        if float(q[:kept].gather(-1, path[:kept, None]).prod()) == 0:
            return 0.0
        return super().ratio(kept, path, q, p)


class RefusesSmallNumbers(Token):
    """An error for a token that is hardly ever drafted, and takes the whole batch with it."""

    def ratio(self, p: Tensor, q: Tensor) -> Tensor:
        if (q < 1e-30).any():
            raise FloatingPointError("the ratio overflows")
        return p / q


class SoftmaxWithoutMaximum(Logits):
    def softmax(self, logits: Tensor) -> Tensor:
        return logits.exp() / logits.exp().sum(-1, keepdim=True)


class BlockByBlock(Token):
    """First a token in every block of 32, then one of them: an empty block has no token."""

    def draw(self, rows: Tensor) -> Tensor:
        if rows.shape[-1] % 32:
            return super().draw(rows)
        blocks = rows.view(len(rows), -1, 32)
        mass = blocks.sum(-1)
        inner = (blocks / mass[..., None]).flatten(0, 1)
        block = torch.multinomial(mass, 1)
        token = torch.multinomial(inner, 1).view_as(mass).gather(-1, block)
        return (32 * block + token)[:, 0]


class OnlineSoftmax(Logits):
    """A softmax block by block: -inf minus -inf where the first block is all masked."""

    def softmax(self, logits: Tensor) -> Tensor:
        highest = logits[..., :32].amax(-1, keepdim=True)
        mass = (logits[..., :32] - highest).exp().sum(-1, keepdim=True)
        for block in torch.split(logits, 32, -1)[1:]:
            higher = torch.maximum(highest, block.amax(-1, keepdim=True))
            mass = mass * (highest - higher).exp() + (block - higher).exp().sum(-1, keepdim=True)
            highest = higher
        return (logits - highest).exp() / mass


@pytest.mark.requirement("number.dtypes", "number.extreme", "number.masked")
@pytest.mark.parametrize(
    ("verifier", "requirement"),
    [
        (ShortBeforeTheRatio(), "number.dtypes"),
        (HalfBeforeTheRatio(), "number.dtypes"),
        (ShortBeforeTheRatioInALoop(), "number.dtypes"),
        (ReadsItsMemoryAsFloat32(), "number.dtypes"),
        (ProductsApart(), "number.extreme"),
        (ProductsApartInALoop(), "number.extreme"),
        (RefusesSmallNumbers(), "number.extreme"),
        (SoftmaxWithoutMaximum(), "number.extreme"),
        (BlockByBlock(), "number.masked"),
        (OnlineSoftmax(), "number.masked"),
    ],
    ids=lambda given: getattr(given, "name", given),
)
def test_what_is_wrong_breaks_its_requirement_alone(verifier: Any, requirement: str) -> None:
    assert broken(verifier) == {requirement}


@pytest.mark.requirement("number.dtypes")
def test_what_half_precision_could_explain_is_inconclusive() -> None:
    assert {each.verdict for each in judged(RejectsMoreInHalf())} == {PASS, INCONCLUSIVE}
    assert broken(RejectsMoreInHalf(), INCONCLUSIVE) == {"number.dtypes"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_all_bits_are_exact_and_need_them(dtype: str) -> None:
    kind = getattr(torch, dtype)
    instance = all_bits(dtype).instance
    for row in (instance.target(()), instance.draft(())):
        assert [exactly(x) for x in torch.tensor(list(map(float, row)), dtype=kind).tolist()] == [
            *row
        ]
        short = torch.tensor([float(row[0])], dtype=kind).item() * 2 / torch.finfo(kind).eps
        assert short == int(short) > 0.3 * 2 / torch.finfo(kind).eps


# --- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_rows_reach_the_smallest_normal_number(dtype: str) -> None:
    tiny = torch.finfo(getattr(torch, dtype)).tiny
    given = {case.id: case.instance for case in extreme_cases(dtype)}
    smallest = min(
        float(weight) for each in given.values() for weight in (*each.target(()), *each.draft(()))
    )
    assert smallest == tiny
    near = given["extreme.last-bit"].target(())
    floats = torch.tensor([float(weight) for weight in near], dtype=getattr(torch, dtype))
    assert floats.sum() == 1
    assert 0 < floats[0] - 0.5 == torch.finfo(floats.dtype).eps / 2


def test_whole_blocks_are_masked() -> None:
    for case in masked_cases():
        assert case.instance.vocabulary == 96
        said = [token for token, weight in enumerate(case.instance.target(())) if weight > 0]
        assert len({token // 32 for token in said}) < 3


def test_what_is_no_result_counts_however_unlikely_its_draft() -> None:
    class RaisesOnOne(Token):
        def verify(self, request: Request) -> Result:
            if (request.draft_tokens == 1).any():
                raise OverflowError("too large")
            return super().verify(request)

    rare = rational(1) / 2**100
    p, q = (rational("1/2"), rational("1/2")), (1 - rare, rare)
    instance = Instance(
        Model("target", 2, {(): p}, context_free=True),
        Model("draft", 2, {(): q}, context_free=True),
        length=1,
    )
    given = Given(Case("rare", "", "quick", instance), "float32")
    seen = observe_given(program_of(RaisesOnOne()), given, lane=EXACT)
    assert law_distance(seen) == 1
    likeliest = likeliest_failure(seen)
    assert likeliest is not None
    assert likeliest.what.startswith("raised OverflowError: too large (test_numerics.py:")
    assert likeliest_failure(observe_given(program_of(Token()), given, lane=EXACT)) is None


def test_the_text_is_judged_where_the_algorithm_is_not_known() -> None:
    unknown = Token()
    unknown.algorithm = "mine"
    given = Given(CASES["zeros.both"], "float32")
    seen = observe_given(program_of(unknown), given, lane=EXACT)
    assert seen.algorithm is None
    assert 0 < law_distance(seen) < seen.allowed


@pytest.mark.requirement("number.extreme")
def test_products_are_asked_of_algorithms_that_accept_what_is_equal() -> None:
    token = declaration(Token())
    assert accepts_what_is_equal(token)
    assert accepts_what_is_equal(replace(token, algorithm="block"))
    assert not accepts_what_is_equal(replace(token, algorithm="target_first"))
    assert not accepts_what_is_equal(replace(token, algorithm="mine"))
    (finding,) = judge_products(program_of(Token()), Terms(RUN, "quick", seed=1))
    assert (finding.verdict, finding.runs) == (PASS, 64)
    assert finding.distance == 0
    (finding,) = judge_products(program_of(ProductsApart()), Terms(RUN, "quick", seed=1))
    assert finding.verdict == FAIL
    assert finding.distance == 1
