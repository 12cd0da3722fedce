"""Rows read one by one, and masses that matter alone: the same emission, to the bit.

Rows as short as those of tests are read together, so here `LONG` says that none is short.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from draftproof.adapters.fast import FastVerifier, excess
from draftproof.adapters.fast import batch as batches
from draftproof.adapters.fast.batch import Batch, Rows, Softmax
from draftproof.adapters.fast.block import block, slack, weights
from draftproof.adapters.fast.engine import verify
from draftproof.adapters.fast.excess import mass, ratios
from draftproof.adapters.fast.token import token
from draftproof.conformance.adapter import Result
from draftproof.conformance.cases import Case
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.requirements.finding import PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.reference.model import Instance

KINDS = ("any", "equal", "ties", "masked", "sure", "disjoint")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LONG", 1)


def drafted(seed: int, kind: str, dtype: torch.dtype, *, logits: bool) -> tuple[Batch, Tensor]:
    """Return 64 requests of a kind, of up to L tokens each, and numbers for them."""
    g = torch.Generator().manual_seed(seed)
    length, vocabulary = (4, 0, 1, 8)[seed % 4], (5, 1, 2, 300)[seed // 4 % 4]
    heat = float(10 ** (2 * torch.rand((), generator=g) - 1))
    q = heat * torch.randn(64, length, vocabulary, generator=g)
    p = torch.randn(64, length + 1, vocabulary, generator=g)
    p[:, :-1] = q + heat * p[:, :-1] / 2
    first = torch.arange(vocabulary) < 1
    if kind == "equal":
        p[:, :-1] = q
    elif kind == "ties":
        p, q = (2 * p).round() / 2, (2 * q).round() / 2
    elif kind == "masked":
        p, q = (
            x.masked_fill((torch.rand(x.shape, generator=g) < 0.4) & ~first, -torch.inf)
            for x in (p, q)
        )
    elif kind == "sure":
        p, q = 1e3 * p, 1e3 * q
    elif kind == "disjoint" and vocabulary > 1:
        p, q = p.masked_fill(first, -torch.inf), q.masked_fill(~first, -torch.inf)
    tokens = torch.randint(0, vocabulary, (64, length), generator=g)
    if length > 0 and seed % 3 > 0:
        drawn = q.softmax(-1).flatten(0, 1).multinomial(1, generator=g)
        tokens = drawn.view(64, length)
    lengths = torch.randint(0, length + 1, (64,), generator=g)
    if not logits:
        p, q = p.double().softmax(-1), q.double().softmax(-1)
    depth, request = torch.arange(length + 1), torch.arange(64)[:, None]
    is_drafted = depth[:-1] < lengths[:, None]
    at_p = request * (length + 1) + depth.minimum(lengths[:, None])
    at_q = torch.where(is_drafted, request * length + depth[:-1], 0)
    p, q = (x.to(dtype).flatten(0, 1) for x in (p, q))
    how = Softmax() if logits else None
    return Batch(
        tokens=torch.where(is_drafted, tokens, 0)[:, None].contiguous(),
        lengths=lengths,
        q=Rows(q if length else p, at_q[:, None], how),
        p=Rows(p, at_p[:, None], how),
    ), torch.rand(64, length + 1, generator=g, dtype=torch.float64)


def of_all_masses(batch: Batch, noise: Tensor) -> Result:
    """Verify as the paper lists it: every mass is looked at, and every prefix tested."""
    path = batch.any_path()
    weight = weights(ratios(batch, path))
    accepted = path
    for i in range(1, batch.length + 1):
        w = weight[:, i]
        passing = w
        if i < batch.length:
            p, q = batch.p.row(path, i, batch.room[0]), batch.q.row(path, i, batch.room[1])
            more = mass(p, q, w, out=batch.room[1])
            passing = torch.where(more + (1 - w) > 0, more / (more + (1 - w)), 1.0)
        passing = torch.where(batch.lengths == i, w, passing)
        passes = (i <= batch.lengths) & (noise[:, i - 1] < passing)
        accepted = torch.where(passes, i, accepted)
    kept = weight.gather(1, accepted[:, None])[:, 0]
    return excess.corrected(batch, path, accepted, kept, noise[:, -1])


def differing(one: Result, other: Result) -> int:
    is_other = one.accepted_length != other.accepted_length
    return int((is_other | (one.next_token != other.next_token)).sum())


@pytest.mark.parametrize("logits", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_masses_that_cannot_matter_are_not_missed(
    monkeypatch: pytest.MonkeyPatch, kind: str, dtype: torch.dtype, logits: bool
) -> None:
    for seed in range(16):
        batch, noise = drafted(seed, kind, dtype, logits=logits)
        expected, of_tokens = of_all_masses(batch, noise), token(batch, noise)
        assert differing(block(batch, noise), expected) == 0
        with monkeypatch.context() as patched:
            patched.setattr(batches, "LONG", 1)
            again = replace(batch)
            assert differing(block(again, noise), expected) == 0
            assert differing(token(again, noise), of_tokens) == 0


def test_a_mass_that_matters_is_missed_if_it_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, one_by_one: None
) -> None:
    batch, noise = drafted(0, "any", torch.float32, logits=False)
    expected = of_all_masses(batch, noise)
    monkeypatch.setattr("draftproof.adapters.fast.block.slack", lambda _: -1.0)
    assert differing(block(batch, noise), expected) > 0


def test_few_masses_are_looked_at(monkeypatch: pytest.MonkeyPatch, one_by_one: None) -> None:
    seen = []

    def counted(*given: Any, out: Tensor) -> Tensor:
        seen.append(given)
        return mass(*given, out=out)

    batch, noise = drafted(3, "any", torch.float32, logits=False)
    monkeypatch.setattr(excess, "mass", counted)
    block(batch, noise)
    between = (batch.lengths - 1).clamp(min=0).sum()
    assert 0 < len(seen) < between / 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocabulary", [1, 3, 4096, 262_144])
def test_no_prefix_passes_beyond_its_slack(dtype: torch.dtype, vocabulary: int) -> None:
    """Rows as large as `inputs.checked` lets them be, and a draft that takes nothing of them."""
    allowed = vocabulary * torch.finfo(torch.float32).eps + torch.finfo(dtype).eps
    row = torch.full((1, vocabulary), (1 + allowed) / vocabulary, dtype=torch.float64).to(dtype)
    batch = Batch(
        tokens=torch.zeros(1, 1, 1, dtype=torch.int64),
        lengths=torch.ones(1, dtype=torch.int64),
        q=Rows(row, torch.zeros(1, 1, 1, dtype=torch.int64)),
        p=Rows(row, torch.zeros(1, 1, 2, dtype=torch.int64)),
    )
    wide = row.to(batch.p.dtype)
    for w in torch.tensor([1e-30, 1e-6, 0.1, 0.5, 0.999, 1 - 2**-24], dtype=wide.dtype):
        more = mass(wide, torch.zeros_like(wide), w[None], out=torch.empty_like(wide))
        assert more / (more + (1 - w)) <= w * (1 + slack(batch))


@pytest.mark.requirement("law.lossless", "law.reference", "length.optimal")
@pytest.mark.parametrize("name", ["token", "block"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_law_holds_where_rows_are_read_one_by_one(
    name: str, drawn: Any, data: st.DataObject
) -> None:
    instance: Instance = data.draw(drawn(st.tuples(st.integers(1, 3), st.integers(1, 2))))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(batches, "LONG", 1)
        seen = observe(program_of(FastVerifier(name)), Case("drawn", "", "certify", instance))
        assert {finding.verdict for finding in judge(seen)} <= {PASS, SKIPPED}


@pytest.mark.parametrize("vocabulary", [8, 5000])
@pytest.mark.parametrize("logits", [True, False])
def test_a_draft_of_fewer_digits_is_computed_in_those_of_the_target(
    vocabulary: int, logits: bool
) -> None:
    """Where both have the same logits nothing is refused, but by coins next to 1."""
    g = torch.Generator().manual_seed(1)
    q = torch.randn(300, 3, vocabulary, generator=g)
    if not logits:
        q = q.softmax(-1)
    p = torch.cat([q, q[:, :1]], 1).double()
    kind = "logits" if logits else "probs"
    noise = torch.full((300, 4), 1 - 2.0**-33, dtype=torch.float64)
    for name in ("token", "block"):
        rows: dict[str, Any] = {f"target_{kind}": p.flatten(0, 1), f"draft_{kind}": q.flatten(0, 1)}
        found = verify(
            name,
            draft_token_ids=torch.randint(0, vocabulary, (900,), generator=g),
            cu_num_draft_tokens=torch.arange(1, 301) * 3,
            max_spec_len=3,
            noise=noise,
            **rows,
        )
        assert (found.accepted == 3).all()
