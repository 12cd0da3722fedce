"""Recursive greedy block verification, of several paths and iterations, against the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.adapters.fast.batch import uniforms
from draftproof.adapters.fast.inputs import from_request
from draftproof.conformance.cases import Case
from draftproof.conformance.cases.rows import fixed
from draftproof.conformance.lanes.observe import EXACT, as_observed, joint_laws, observe
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.conformance.requirements.states import Iterated, judge_chain
from draftproof.conformance.requirements.task import Terms
from draftproof.reference.drafting import Drafts
from draftproof.reference.verifiers import ALGORITHMS, verification_law

NAME = "recursive_greedy_block"
VERIFIER = FastVerifier(NAME)
DECLARED = declaration(VERIFIER)


PAIR = replace(fixed("112 144", "208 48", length=2), drafts=2)
"""The second path often goes on behind what is kept of the first."""


def test_the_second_path_is_verified_behind_the_first() -> None:
    findings = judge(observe(program_of(VERIFIER), Case("pair", "", "certify", PAIR)))
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize(
    "paths",
    [
        # The third leaves the second's node, the second goes on behind the first's, all do.
        ((0, 1, 0), (0, 0, 1), (1, 0, 0)),
        ((0, 0, 0), (0, 0, 1), (0, 1, 1)),
        ((0, 0, 1), (0, 0, 1), (0, 0, 1)),
    ],
    ids=str,
)
def test_three_paths_of_three_tokens_have_the_references_law(paths: Drafts) -> None:
    instance = replace(fixed("112 144", "208 48", length=3), drafts=3)
    (law,) = joint_laws(program_of(VERIFIER), [[(instance, paths)]], lane=EXACT)
    expected = verification_law(ALGORITHMS[NAME], instance, paths)
    distance = law.of_row(0).total_variation(expected.map(as_observed))
    assert distance <= allowed_distance(DECLARED, 2, 3)


@pytest.mark.requirement("law.state")
def test_what_two_paths_leave_is_repaid() -> None:
    (finding,) = judge_chain(Iterated("pair", (PAIR,)), program_of(VERIFIER), Terms(EXACT, "quick"))
    assert finding.verdict == PASS, finding.detail


# --- rows at random -------------------------------------------------------------------------


def drawn(
    count: int, drafts: int, vocabulary: int, generator: torch.Generator, *, length: int = 3
) -> Request:
    """Return requests of rows with zeros, the same for all paths, of any length but 0."""

    def some(depths: int) -> Tensor:
        shape = count, 1, depths, vocabulary
        weights = torch.rand(shape, generator=generator).pow(4)
        weights = weights.masked_fill(torch.rand(shape, generator=generator) < 0.2, 0)
        weights = weights.index_fill(-1, torch.tensor([0]), 0.01)
        return (weights / weights.sum(-1, keepdim=True)).expand(-1, drafts, -1, -1)

    q, p = some(length), some(length + 1)
    tokens = torch.multinomial(q.flatten(0, 2), 1, generator=generator).view(q.shape[:3])
    lengths = torch.randint(1, length + 1, (count,), generator=generator)
    return Request(tokens, q, p, lengths=lengths)


def of(given: Request, noise: Tensor, *, name: str = NAME, form: str = "torch") -> Result:
    return FastVerifier(name, form=form).of(from_request(given, most_drafts=8), noise)


def test_one_path_is_greedy_block_verification() -> None:
    generator = torch.Generator().manual_seed(0)
    given = drawn(1000, 1, 4, generator)
    noise = uniforms(1000, 4, generator, given.draft_tokens.device)
    one, other = of(given, noise), of(given, noise, name="greedy_block")
    assert torch.equal(one.accepted_length, other.accepted_length)
    assert torch.equal(one.next_token, other.next_token)
    assert one.state is not None
    assert other.state is not None
    assert all(torch.equal(each, other.state[name]) for name, each in one.state.items())


def test_blocks_of_paths_that_were_not_drafted_change_nothing() -> None:
    """The iterations before drafted one path; three of which two are none are the same."""
    generator = torch.Generator().manual_seed(0)
    alone = of(drawn(500, 1, 4, generator), uniforms(500, 4, generator, torch.device("cpu"))).state
    assert alone is not None
    padded = {
        "left": alone["left"],
        "target": pad(alone["target"], (0, 2), value=1.0),
        "draft": pad(alone["draft"], (0, 2)),
    }
    given, noise = drawn(500, 2, 4, generator), uniforms(500, 7, generator, torch.device("cpu"))
    one, other = (of(replace(given, state=left), noise) for left in (alone, padded))
    assert torch.equal(one.accepted_length, other.accepted_length)
    assert torch.equal(one.next_token, other.next_token)
    assert one.state is not None
    assert other.state is not None
    assert one.state["target"].shape == (500, 2, 2)
    assert torch.equal(one.state["left"], other.state["left"])
    assert torch.equal(one.state["draft"], other.state["draft"][..., :2])
    assert (other.state["draft"][..., 2] == 0).all()


def test_a_request_that_joins_has_nothing_left() -> None:
    generator = torch.Generator().manual_seed(0)
    given, noise = drawn(500, 2, 4, generator), uniforms(500, 7, generator, torch.device("cpu"))
    nothing = {
        "left": torch.zeros(500, 2, dtype=torch.int64),
        "target": torch.ones(500, 2, 2, dtype=torch.float64),
        "draft": torch.zeros(500, 2, 2, dtype=torch.float64),
    }
    one, other = (of(replace(given, state=left), noise) for left in (None, nothing))
    assert torch.equal(one.accepted_length, other.accepted_length)
    assert torch.equal(one.next_token, other.next_token)
    assert one.state is not None
    assert other.state is not None
    assert all(torch.equal(each, other.state[name]) for name, each in one.state.items())


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize(("count", "vocabulary"), [(1000, 4), (3, 5000)])
def test_both_forms_leave_the_same_and_go_on_alike(count: int, vocabulary: int) -> None:
    pytest.importorskip("triton")
    generator = torch.Generator().manual_seed(vocabulary)
    left: Any = None
    for drafts in (2, 3, 1):
        given = replace(drawn(count, drafts, vocabulary, generator), state=left)
        width = TEXTS[NAME].noise(drafts, 3)
        noise = uniforms(count, width, generator, given.draft_tokens.device)
        one, other = (of(given, noise, form=form) for form in ("torch", "triton"))
        is_same = (one.accepted_length == other.accepted_length) & (one.path == other.path)
        # See `test_kernels` for how often a coin falls between two roundings of a threshold.
        assert (~is_same | (one.next_token != other.next_token)).sum() <= 1
        assert one.state is not None
        assert other.state is not None
        for name, each in one.state.items():
            # Factors are sums of float32: they are off by V roundings, and so are their products.
            off = (each - other.state[name])[is_same].abs()
            assert off.max() <= 8 * vocabulary * 2.0**-23
        left = one.state
