"""What is told of a failure: which rows, which drafts, and what is emitted."""

from __future__ import annotations

from draftproof.conformance.cases import Case
from draftproof.conformance.failure import story
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.protocol.reference import ReferenceVerifier
from draftproof.reference.model import Instance, Model
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS

HALF, ONE, NONE = rational("1/2"), rational(1), rational(0)

TREE = Instance(
    Model("target", 2, {(): (HALF, HALF)}, context_free=True),
    Model("draft", 2, {(): (HALF, HALF), (0,): (ONE, NONE), (1,): (HALF, HALF)}),
    length=2,
    drafts=4,
    branching=(2, 2),
)


def test_a_tree_is_told_with_its_branching_and_its_paths_in_order() -> None:
    seen = observe(
        program_of(ReferenceVerifier(ALGORITHMS["recursive_rejection"])),
        Case("tree", "", "quick", TREE),
    )
    drafts = ((0, 0), (0, 0), (1, 1), (1, 0))
    words = list(story.of_case("law.reference", HALF, TREE, seen, drafts, None))
    assert words[:4] == [
        "law.reference fails at V=2, L=2, K=4, iid drafts that branch 2 x 2: distance 1/2",
        "target: (1/2, 1/2) in every context",
        "draft: (1/2, 1/2) at first, (1, 0) after 0, (1/2, 1/2) after 1",
        "drafted: [0, 0], [0, 0], [1, 1] and [1, 0], which together have probability 1/16",
    ]


def test_paths_that_part_at_the_root_do_not_branch() -> None:
    flat = Instance(TREE.target, TREE.draft, length=2, drafts=2)
    seen = observe(
        program_of(ReferenceVerifier(ALGORITHMS["recursive_rejection"])),
        Case("flat", "", "quick", flat),
    )
    words = list(story.of_case("law.reference", HALF, flat, seen, ((0, 0), (1, 0)), None))
    assert words[0] == "law.reference fails at V=2, L=2, K=2, iid drafts: distance 1/2"
