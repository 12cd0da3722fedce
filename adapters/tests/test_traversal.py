"""Traversal verification of paths and trees, against the exact reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.adapters.fast.batch import uniforms
from draftproof.adapters.fast.inputs import from_request
from draftproof.adapters.fast.traversal import in_order
from draftproof.conformance.cases.rows import by_depth
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.observe import EXACT, as_observed, joint_laws
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.reference.drafting import Drafts
from draftproof.reference.model import Instance
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, verification_law

VERIFIER = FastVerifier("traversal")
OTHER = FastVerifier("traversal_without_replacement")
NAMES = ("traversal", "traversal_without_replacement")


# The draft mostly says what the target seldom says: nodes are refused, and others tried.
IID = replace(by_depth(2, ["48 208", "32 224", "128 128"], ["208 48", "208 48"]), drafts=4)
TREE = replace(
    by_depth(3, ["32 64 160", "32 64 160", "128 64 64"], ["160 64 32", "144 96 16"]),
    drafts=4,
    branching=(2, 2),
)
WIDE = replace(
    by_depth(4, ["0 256 0 0", "160 0 0 96", "64 64 64 64"], ["128 128 0 0", "8 160 72 16"]),
    drafts=4,
)


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize(
    ("verifier", "given", "paths"),
    [
        # The first node has children on the first path and on the last: both come first.
        (VERIFIER, IID, ((0, 0), (1, 0), (1, 1), (0, 1))),
        # A leaf twice, and a node whose children are the same.
        (VERIFIER, IID, ((0, 0), (1, 0), (0, 0), (1, 0))),
        (VERIFIER, IID, ((0, 0), (0, 0), (0, 0), (0, 0))),
        # Copies of a node have children in both of their places.
        (VERIFIER, replace(TREE, scheme="iid"), ((0, 0), (0, 1), (0, 1), (0, 2))),
        (OTHER, replace(TREE, scheme="without_replacement"), ((0, 0), (0, 1), (1, 1), (1, 0))),
        # The third of three siblings is measured without both of the others, but with a cousin.
        (VERIFIER, WIDE, ((0, 2), (1, 0), (1, 1), (1, 2))),
    ],
    ids=lambda given: str(given) if isinstance(given, tuple) else "",
)
def test_paths_that_share_nodes_anywhere_have_the_references_law(
    verifier: FastVerifier, given: Instance, paths: Drafts
) -> None:
    program = program_of(verifier)
    (law,) = joint_laws(program, [[(given, paths)]], lane=EXACT)
    expected = verification_law(ALGORITHMS["traversal"], given, paths)
    allowed = allowed_distance(program.declared, given.vocabulary, given.length)
    assert law.of_row(0).total_variation(expected.map(as_observed)) <= allowed


def test_paths_come_in_the_order_of_their_leaves() -> None:
    tokens = torch.tensor([[[1, 0], [2, 0], [1, 2], [2, 0], [0, 0], [1, 0]]])
    flat = torch.ones(1, 6, 3, 3) / 3
    tree, order, shared = in_order(
        from_request(Request(tokens, flat[:, :, :2], flat), most_drafts=8)
    )
    assert order.tolist() == [[0, 5, 2, 1, 3, 4]]
    assert tree.tokens[0].tolist() == [[1, 0], [1, 0], [1, 2], [2, 0], [2, 0], [0, 0]]
    assert shared[0].tolist() == [
        [2, 2, 1, 0, 0, 0],
        [2, 2, 1, 0, 0, 0],
        [1, 1, 2, 0, 0, 0],
        [0, 0, 0, 2, 2, 0],
        [0, 0, 0, 2, 2, 0],
        [0, 0, 0, 0, 0, 2],
    ]


# --- rows on which floats go wrong ----------------------------------------------------------


def law_of(p: Tensor, q: Tensor, *tokens: int) -> dict[Any, Any]:
    """Return the law of (accepted, path, next) where siblings of rows p, q [V] were drafted."""
    count = len(tokens)
    given = Request(
        torch.tensor(tokens).view(1, count, 1),
        q.expand(1, count, 1, -1),
        p.expand(1, count, 2, -1),
    )

    def emitted() -> Any:
        result = OTHER.verify(given)
        return result.accepted_length, result.path, result.next_token

    return {
        (accepted, path, token): weight
        for ((accepted,), (path,), (token,)), weight in exact_law(emitted).law.items()
    }


def test_siblings_of_an_almost_certain_token_are_measured_by_what_they_share() -> None:
    """In float32 the first has all of the draft's mass: 1 - q leaves nothing to measure by."""
    p, q = torch.tensor([0.0, 0.25, 0.75]), torch.tensor([1.0, 2.0**-30, 2.0**-30])
    law = law_of(p, q, 0, 1)
    kept = sum(weight for (accepted, *_), weight in law.items() if accepted == 1)
    # Half of what is left is the second's, of which the target says a quarter.
    assert abs(kept - rational("1/2")) <= allowed_distance(declaration(OTHER), 3, 1)
    assert {token for (accepted, _, token) in law if accepted == 0} == {2}


@pytest.mark.requirement("input.undrafted")
def test_a_token_that_was_drafted_without_probability_is_kept_if_the_target_can_say_it() -> None:
    sure, half = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    assert {accepted for accepted, *_ in law_of(half, sure, 1)} == {1}
    assert {accepted for accepted, *_ in law_of(sure, sure, 1)} == {0}
    # Nothing is left to be drafted after the only token: its sibling is measured by nothing.
    assert {path for accepted, path, _ in law_of(1 - sure, sure, 0, 1) if accepted == 1} == {1}


def test_nothing_is_refused_of_eight_equal_paths() -> None:
    row = torch.rand(64, generator=torch.Generator().manual_seed(0)).softmax(-1)
    given = Request(
        torch.full((16, 8, 16), 5), row.expand(16, 8, 16, 64), row.expand(16, 8, 17, 64)
    )
    assert VERIFIER.verify(given).accepted_length.tolist() == [16] * 16


# --- Triton ---------------------------------------------------------------------------------


def drawn(count: int, drafts: int, vocabulary: int, generator: torch.Generator) -> Request:
    """Return requests of up to three tokens, of few: many paths share nodes, and their rows."""
    length, some = 3, min(vocabulary, 3)
    tokens = torch.randint(some, (count, drafts, length), generator=generator)
    contexts = torch.zeros(count, drafts, length + 1, dtype=torch.int64)
    for i in range(length):
        contexts[..., i + 1] = contexts[..., i] * some + tokens[..., i] + 1
    batch = torch.arange(count)[:, None, None]

    def by_context() -> Tensor:
        shape = count, int(contexts.max()) + 1, vocabulary
        weights = torch.rand(shape, generator=generator).pow(4)
        weights = weights.masked_fill(torch.rand(shape, generator=generator) < 0.2, 0)
        weights = weights.index_fill(-1, torch.tensor([0]), 0.01)
        return (weights / weights.sum(-1, keepdim=True))[batch, contexts]

    lengths = torch.randint(length + 1, (count,), generator=generator)
    return Request(tokens, by_context()[:, :, :length], by_context(), lengths=lengths)


def of(given: Request, noise: Tensor, form: str) -> Result:
    return FastVerifier("traversal", form=form).of(from_request(given, most_drafts=8), noise)


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize(
    ("count", "drafts", "vocabulary"), [(1000, 3, 4), (1000, 8, 2), (3, 2, 5000)]
)
def test_both_forms_keep_the_same_nodes(count: int, drafts: int, vocabulary: int) -> None:
    pytest.importorskip("triton")
    generator = torch.Generator().manual_seed(drafts)
    given = drawn(count, drafts, vocabulary, generator)
    width = TEXTS["traversal"].noise(drafts, 3)
    noise = uniforms(count, width, generator, given.draft_tokens.device)
    one, other = (of(given, noise, form) for form in ("torch", "triton"))
    is_same = (one.accepted_length == other.accepted_length) & (one.path == other.path)
    # See `test_kernels` for how often a coin falls between two roundings of a threshold.
    assert (~is_same | (one.next_token != other.next_token)).sum() <= 1
