"""The drafters against the exact laws of their schemes, in torch and in Triton.

Run as a program, this file prints what siblings both forms draw at the same marks; it is run so in
a process of its own, for Triton interprets always or never.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from draftproof.adapters.fast import FastVerifier
from draftproof.adapters.fast.batch import Softmax, uniforms
from draftproof.adapters.fast.drafting import NotEnoughTokens, draft, siblings
from draftproof.adapters.fast.inputs import InvalidRequest
from draftproof.adapters.fast.sampling import Sampling, softmax
from draftproof.adapters.fast.urn import urn
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.protocol.adapter import DraftRequest, declaration, program_of
from draftproof.conformance.requirements import drafting as judged
from draftproof.conformance.requirements.finding import PASS
from draftproof.reference.drafting import SCHEMES, sibling_law
from draftproof.reference.rational import rational

BY_SCHEME = {
    "iid": "recursive_rejection",
    "without_replacement": "recursive_rejection_without_replacement",
    "hub": "spechub",
    "greedy": "greedy_draft",
}


# --- the laws of the schemes -----------------------------------------------------------------


@st.composite
def rows(draw: st.DrawFn) -> tuple[int, ...]:
    """Rows in 8ths, as integers: zeros and equals included."""
    vocabulary = draw(st.integers(1, 4))
    cuts = draw(st.lists(st.integers(0, 8), min_size=vocabulary - 1, max_size=vocabulary - 1))
    edges = [0, *sorted(cuts), 8]
    return tuple(b - a for a, b in pairwise(edges))


def drawn(row: Tensor, width: int, scheme: str) -> Tensor:
    return siblings(row, uniforms(len(row), width, None, row.device), scheme=scheme)


@pytest.mark.requirement("draft.joint")
@pytest.mark.parametrize("scheme", SCHEMES)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(eighths=rows(), width=st.integers(1, 3))
def test_siblings_have_the_exact_law_of_their_scheme(
    scheme: str, eighths: tuple[int, ...], width: int
) -> None:
    width = min(width, 2 if scheme == "hub" else 3)
    if scheme != "iid":
        width = min(width, sum(weight > 0 for weight in eighths))
    row = torch.tensor([eighths], dtype=torch.float32) / 8
    law = exact_law(lambda: drawn(row, width, scheme)).law
    exact = sibling_law(scheme, tuple(rational(weight) / 8 for weight in eighths), width)
    assert dict(law.items()) == {(tokens,): weight for tokens, weight in exact.items()}


def test_what_is_gone_cannot_be_drawn_at_any_mark() -> None:
    row = torch.tensor([[0.5, 0.0, 0.25, 0.25]]).expand(5, 4)
    marks = torch.tensor([0.0, 0.25, 0.5, 0.75, 1 - 2.0**-53], dtype=torch.float64)
    urned = urn(row, None)
    without_first = torch.zeros(5, 1, dtype=torch.int64)
    assert urned.draw(marks, without_first[:, :0]).tolist() == [0, 0, 2, 3, 3]
    assert urned.draw(marks, without_first).tolist() == [2, 2, 3, 3, 3]
    assert urned.most_probable(without_first).tolist() == [2] * 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_flat_row_of_a_large_vocabulary_is_drawn_from_evenly(dtype: torch.dtype) -> None:
    """A token every 2**-18: a mark in the middle of each is what a running sum must find."""
    vocabulary = 2**18
    tokens = torch.tensor([[0, 1, 77_777, 131_072, 262_142, 262_143]])
    row = torch.full((1, vocabulary), 1.0).to(dtype) / vocabulary
    marks = (tokens.double() + 0.5) / vocabulary
    assert torch.equal(siblings(row, marks, scheme="iid"), tokens)
    # Without token 0 there is one less, and each is a little wider.
    two = (torch.tensor([[0.0, 5.5 / (vocabulary - 1)]])).double()
    assert siblings(row, two, scheme="without_replacement").tolist() == [[0, 6]]
    assert siblings(row, two, scheme="greedy").tolist() == [[0, 6]]
    assert siblings(row, two, scheme="hub").tolist() == [[0, 6]]


def test_logits_are_drawn_from_as_the_softmax_says() -> None:
    logits = torch.tensor([[1.0, 5.0, 2.0, 4.0]]).expand(3, 4)
    cut = softmax(logits, Sampling(top_k=torch.tensor([1, 2, 4])))
    marks = torch.full((3, 1), 0.999, dtype=torch.float64)
    found = siblings(logits, marks, scheme="iid", softmax=cut)
    assert found.tolist() == [[1], [3], [3]]


# --- what is declared ------------------------------------------------------------------------


ASKED = (
    "draft.v3.l2.k1.all",
    "draft.v3.l2.k1.greedy",
    "draft.v3.l1.k2.hot",
    "draft.v3.l1.k2.all",
    "draft.v3.l2.k2.top-k",
    "draft.v4.l1.k3.plain",
    "draft.v3.l2.b1x2.cold",
    "draft.v2.l2.b2x2.plain",
    "draft.zeros",
)
"""A setting of every shape, and every option."""


@pytest.mark.requirement("draft.declared", "draft.joint")
@pytest.mark.parametrize(
    ("scheme", "setting"),
    [
        pytest.param(scheme, setting, id=f"{scheme}-{setting.id}")
        for scheme, name in BY_SCHEME.items()
        for setting in judged.settings(declaration(FastVerifier(name)))
        if setting.id in ASKED
    ],
)
def test_tokens_are_drawn_from_the_rows_that_are_declared(
    scheme: str, setting: judged.DraftSetting
) -> None:
    seen = judged.observe_drafting(program_of(FastVerifier(BY_SCHEME[scheme])), setting)
    assert seen.scheme == scheme
    assert {finding.verdict for finding in judged.judge(seen)} == {PASS}


def flat(contexts: Tensor) -> Tensor:
    return torch.full((len(contexts), 4), 0.25)


def request(**changes: Any) -> DraftRequest:
    asked = {"next_probs": flat, "rows": 2, "drafts": 2, "length": 3, "vocabulary": 4}
    return DraftRequest(**{**asked, **changes})


def test_paths_come_in_the_order_of_the_leaves_with_the_rows_of_their_prefixes() -> None:
    def named(contexts: Tensor) -> Tensor:
        """Return rows that tell their contexts apart."""
        return torch.softmax((contexts + 1.0).sum(1)[:, None] * torch.arange(4) / 7, -1)

    asked = request(
        next_probs=named, drafts=6, branching=(3, 1, 2), generator=torch.Generator().manual_seed(1)
    )
    result = draft(asked, scheme="without_replacement")
    tokens, probs = result.draft_tokens, result.draft_probs
    assert tokens.shape == (2, 6, 3)
    assert probs.shape == (2, 6, 3, 4)
    assert torch.equal(tokens[:, ::2, :2], tokens[:, 1::2, :2])
    assert (tokens[:, ::2, 2] != tokens[:, 1::2, 2]).all()
    assert all(len(set(row)) == 3 for row in tokens[:, ::2, 0].tolist())
    for depth in range(3):
        wanted = named(tokens[..., :depth].flatten(0, 1)).view(2, 6, 4)
        # A row, and a row divided by its sum: a rounding each, and those of the sum of four.
        assert (probs[:, :, depth] - wanted).abs().max() <= 6 * 2.0**-24


@pytest.mark.requirement("random.reproducible")
def test_the_generator_decides() -> None:
    first, again, other = (
        draft(request(rows=64, generator=torch.Generator().manual_seed(seed)), scheme="iid")
        for seed in (7, 7, 8)
    )
    assert torch.equal(first.draft_tokens, again.draft_tokens)
    assert not torch.equal(first.draft_tokens, other.draft_tokens)


@pytest.mark.parametrize("scheme", ["without_replacement", "greedy", "hub"])
def test_a_scheme_that_runs_out_of_tokens_says_how_many_there_are(scheme: str) -> None:
    with pytest.raises(
        NotEnoughTokens,
        match=f"the scheme '{scheme}' is asked for 2 siblings, but the declared row of context 0 "
        "has only 1 tokens of positive probability",
    ):
        draft(request(top_k=1), scheme=scheme)


def test_the_hub_has_pairs_only() -> None:
    with pytest.raises(InvalidRequest, match="the scheme 'hub' draws pairs, not 3 siblings"):
        draft(request(drafts=3), scheme="hub")


# --- Triton ----------------------------------------------------------------------------------


def test_kernels_draw_what_operators_draw() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not to be had on this platform")
    run = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    reports = json.loads(run.stdout)
    assert len(reports) == 7 * len(SCHEMES)
    for report in reports:
        # A sum of V numbers is off by V units: not one mark in a hundred calls is so near an edge.
        assert report["siblings"] * report["vocabulary"] * report["unit"] < 0.01
        assert report["differ"] == 0, report


def compared(vocabulary: int, count: int, *, scheme: str, kind: str) -> dict[str, Any]:
    """Compare both forms at random marks."""
    generator = torch.Generator().manual_seed(vocabulary)
    logits = torch.randn(count, vocabulary, generator=generator) * 3
    width = 2 if scheme == "hub" else 3
    marks = uniforms(count, width, generator, logits.device)
    given_softmax: Softmax | None = None
    rows = logits.bfloat16()
    if kind == "cut":
        heat = torch.full((count,), 0.5)
        given_softmax = softmax(rows, Sampling(heat, torch.full((count,), 4)))
    elif kind == "probabilities":
        rows = torch.softmax(logits.double(), -1)
        # All but every third number is 0, but for the first three.
        rows *= (torch.arange(vocabulary) % 3 == 0) | (torch.arange(vocabulary) < 3)
    elif kind == "equals":
        rows = torch.full_like(logits, 1 / vocabulary, dtype=torch.float64)
    else:
        given_softmax = Softmax()
    one, two = (
        siblings(rows, marks, scheme=scheme, form=form, softmax=given_softmax)
        for form in ("torch", "triton")
    )
    return {
        "scheme": scheme,
        "kind": kind,
        "vocabulary": vocabulary,
        "siblings": one.numel(),
        "unit": torch.finfo(torch.promote_types(rows.dtype, torch.float32)).eps / 2,
        "differ": int((one != two).sum()),
    }


if __name__ == "__main__":
    found = [
        compared(vocabulary, count, scheme=scheme, kind=kind)
        for vocabulary, count, kinds in (
            (5, 1000, ("probabilities", "logits", "cut")),
            (9000, 3, ("probabilities", "logits", "cut")),
            # So large that a row is cut into pieces.
            (300_000, 1, ("equals",)),
        )
        for kind in kinds
        for scheme in SCHEMES
    ]
    sys.stdout.write(json.dumps(found))
