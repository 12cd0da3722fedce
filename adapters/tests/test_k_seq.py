"""K-SEQ's factor: valid, next to the least one, and with a law that is next to its law."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.adapters.fast.batch import Batch
from draftproof.adapters.fast.descent import Siblings
from draftproof.adapters.fast.inputs import from_request
from draftproof.adapters.fast.k_seq import SWEEPS, least_factor
from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import Request, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.reference.model import Instance, Model, Row
from draftproof.reference.optimum import k_seq_factor
from draftproof.reference.rational import ZERO, Rational, exactly, rational, total


def drawn(count: Tensor) -> Siblings:
    """Return so many [B] siblings, of whom nothing else is asked."""
    most = int(count.max())
    nothing = torch.zeros(len(count), most, dtype=torch.int64)
    return Siblings(nothing, count, nothing, depth=0, most=most)


def rows(requests: int, vocabulary: int, *, spread: float, dtype: torch.dtype) -> list[Tensor]:
    """Return targets and drafts: every third draft is its target, every seventh without a token."""
    generator = torch.Generator().manual_seed(vocabulary)
    logits = torch.randn(2, requests, vocabulary, generator=generator, dtype=dtype) * spread
    logits[1, ::3] = logits[0, ::3]
    logits[1, ::7, 0] = -torch.inf
    return list(logits.softmax(-1).unbind())


@pytest.mark.parametrize("spread", [0.01, 1.0, 5.0])
def test_the_factor_is_valid_and_next_to_the_least(spread: float) -> None:
    p, q = rows(60, 5, spread=spread, dtype=torch.float32)
    count = torch.arange(60) % 8 + 1
    rho, tried = least_factor(p, q, drawn(count), torch.empty_like(p))
    # What the sweeps leave of the bracket; and eight roundings of sums of five, in S of n powers.
    left = (count - 1) / 2 ** (SWEEPS - 1) + count * (count - 1) / 2 * 8 * 2**-24
    for request in range(60):
        target, draft = (law(row[request]) for row in (p, q))
        drafts, here, most = int(count[request]), exactly(float(rho[request])), float(left[request])
        over = here - sum(refused(target, draft, here) ** i for i in range(drafts))
        assert abs(float(over)) <= most
        assert abs(float(here - over) - float(tried[request])) <= most
        # It is the integral of a slope from rho* on, which is n miss**(n-1) / rho at least.
        least = k_seq_factor.least_factor(target, draft, drafts)
        slope = drafts * refused(target, draft, least) ** (drafts - 1) / here
        assert float((here - least) * slope) <= most


def law(row: Tensor) -> Row:
    weights = [exactly(weight) for weight in row.tolist()]
    return tuple(weight / total(weights) for weight in weights)


def refused(p: Row, q: Row, rho: Rational) -> Rational:
    return total(max(b - a / rho, ZERO) for a, b in zip(p, q, strict=True))


def accepted(p: Tensor, q: Tensor, rho: Tensor, count: int) -> Tensor:
    """Return the probability [B, V] that each token is accepted with factors [B]."""
    share = torch.minimum(p / rho[:, None], q)
    miss = 1 - share.sum(-1, keepdim=True)
    return share * sum(miss**i for i in range(count))


@pytest.mark.parametrize("count", [2, 8])
def test_laws_of_valid_factors_differ_by_what_they_leave(count: int) -> None:
    """As the module says: rho - S bounds the distance from the law of the least factor."""
    p, q = rows(300, 6, spread=1.0, dtype=torch.float64)
    several = torch.full((300,), count)
    least, _ = least_factor(p, q, drawn(several), torch.empty_like(p))
    for part in (0.01, 0.1, 0.5, 1.0):
        rho = least + part * (count - least)
        miss = (q - p / rho[:, None]).clamp(min=0).sum(-1)
        left = rho - sum(miss**i for i in range(count))
        here, there = accepted(p, q, rho, count), accepted(p, q, least, count)
        # Each of two parts of the tokens moves by no more: those with p below rho q, and the rest.
        apart = (here - there).clamp(min=0).sum(-1), (there - here).clamp(min=0).sum(-1)
        for each in apart:
            assert (each <= left + (count - 1) / 2 ** (SWEEPS - 1)).all()


def certain(count: int) -> Batch:
    """Return a request whose siblings are drawn for certain, and said half of the time."""
    target = torch.tensor([[0.5, 0.5], [1.0, 0.0]]).expand(1, count, 2, 2)
    draft = torch.tensor([[1.0, 0.0]]).expand(1, count, 1, 2)
    return from_request(
        Request(torch.zeros(1, count, 1, dtype=torch.int64), draft, target), most_drafts=8
    )


@pytest.mark.parametrize("form", ["torch", "triton"])
def test_a_draft_that_is_certain_is_accepted_half_of_the_time(form: str) -> None:
    """By hand: with b = 1 / (2 rho), 1 - (1 - b)**2 = rho b = 1/2 gives b = 1 - 2**(-1/2)."""
    edge = 1 - 0.5**0.5
    for coins, length in (
        ((edge - 1e-5, 1.0), 1),
        ((edge + 1e-5, edge - 1e-5), 1),
        ((edge + 1e-5, edge + 1e-5), 0),
    ):
        noise = torch.tensor([[*coins, 0.0]], dtype=torch.float64)
        result = FastVerifier("k_seq", form=form).of(certain(2), noise)
        assert result.accepted_length.tolist() == [length]
        assert result.next_token.tolist() == [1 - length]


@pytest.mark.requirement("law.reference", "batch.backends")
@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("drafts", range(2, 9))
def test_rounding_does_not_choose_the_factor(form: str, drafts: int) -> None:
    """With p = 7/16, 9/16 and q = 1/2, factors from 9/8 on are valid by (1 - 1/rho)**n of rho."""
    p, q = (tuple(map(rational, row)) for row in (("7/16", "9/16"), ("1/2", "1/2")))
    edge = float(p[0] / q[0] / k_seq_factor.least_factor(p, q, drafts))
    target, draft = (torch.tensor([[float(weight) for weight in row]]) for row in (p, q))
    given = Request(
        torch.zeros(2, drafts, 1, dtype=torch.int64),
        draft.expand(2, drafts, 1, 2),
        target.expand(2, drafts, 2, 2),
    )
    noise = torch.full((2, drafts + 1), 1 - 2.0**-24, dtype=torch.float64)
    noise[:, 0] = torch.tensor([edge - 1e-5, edge + 1e-5])
    result = FastVerifier("k_seq", form=form).of(from_request(given, most_drafts=8), noise)
    assert result.accepted_length.tolist() == [1, 0]


INSTANCE = Instance(
    Model("target", 3, {(): tuple(rational(f"{x}/8") for x in (4, 3, 1))}, context_free=True),
    Model("draft", 3, {(): tuple(rational(f"{x}/8") for x in (1, 2, 5))}, context_free=True),
    length=1,
    drafts=2,
)


@pytest.mark.requirement("law.lossless", "law.reference", "length.bounded")
@pytest.mark.parametrize(
    ("times", "verdicts"),
    [
        # A larger factor is lossless, and has another law.
        (1.25, {"law.lossless": PASS, "law.reference": FAIL, "length.bounded": PASS}),
        # With a smaller one no residual can repay what was accepted.
        (0.8, {"law.lossless": FAIL, "law.reference": FAIL}),
    ],
)
def test_a_factor_that_is_wrong_is_found(
    times: float, verdicts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(p: Tensor, q: Tensor, siblings: Siblings, out: Tensor) -> tuple[Tensor, Tensor]:
        rho = times * least_factor(p, q, siblings, out)[0]
        return rho, 1 + (q - p / rho[:, None]).clamp(min=0).sum(-1)

    monkeypatch.setattr("draftproof.adapters.fast.k_seq.least_factor", other)
    findings = judge(
        observe(program_of(FastVerifier("k_seq")), Case("wrong", "", "certify", INSTANCE))
    )
    found = {finding.requirement: finding.verdict for finding in findings}
    assert {requirement: found[requirement] for requirement in verdicts} == verdicts


def test_it_is_right_with_the_right_one() -> None:
    findings = judge(
        observe(program_of(FastVerifier("k_seq")), Case("right", "", "certify", INSTANCE))
    )
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}
