"""The verifiers that go down from the root: all of them, in torch and in Triton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from itertools import islice
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from draftproof.adapters.fast import TEXTS, FastVerifier, drafting
from draftproof.adapters.fast.batch import Batch, Rows, Softmax, uniforms
from draftproof.adapters.fast.descent import SiblingChoice, Siblings, descend
from draftproof.adapters.fast.inputs import from_request
from draftproof.conformance.cases import Case, cases
from draftproof.conformance.lanes.exchange import as_given
from draftproof.conformance.lanes.observe import EXACT, as_observed, joint_laws, observe
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import PASS, SKIPPED
from draftproof.conformance.requirements.laws import fits, judge
from draftproof.reference.drafting import FixedTree, draft_law
from draftproof.reference.model import Instance, Model, Path
from draftproof.reference.rational import Rational, exactly, rational, total
from draftproof.reference.verifiers import ALGORITHMS, verification_law

NAMES = (
    "recursive_rejection",
    "recursive_rejection_without_replacement",
    "k_seq",
    "spechub",
    "greedy_draft",
)
CPU = torch.device("cpu")

Drafts = tuple[Path, ...]


# --- the law, on the exact lane ------------------------------------------------------------


def distance(name: str, instance: Instance, drafts: Drafts) -> Rational:
    """Return how far the law of what is emitted on some drafts is from the reference's."""
    verifier = FastVerifier(name)
    program = program_of(verifier)
    (seen,) = joint_laws(program, [[(instance, drafts)]], lane=EXACT)
    algorithm = ALGORITHMS[verifier.algorithm]
    expected = verification_law(algorithm, as_given(instance, program.declared), drafts)
    return seen.of_row(0).total_variation(expected.map(as_observed))


def allowed(name: str, instance: Instance) -> Rational:
    declared = declaration(FastVerifier(name))
    return allowed_distance(declared, instance.vocabulary, instance.length)


@lru_cache
def cases_of(name: str) -> tuple[Case, ...]:
    declared = declaration(FastVerifier(name))
    several = (case for case in cases("certify") if case.instance.drafts > 1)
    return tuple(case for case in several if fits(case, declared))


@pytest.mark.requirement(
    "law.lossless",
    "law.reference",
    "law.support",
    "law.prefix",
    "length.expected",
    "length.bounded",
    "length.optimal",
    "random.fresh",
)
@pytest.mark.parametrize("name", NAMES)
def test_every_requirement_holds_on_the_cases(name: str) -> None:
    few = (case for case in cases_of(name) if len(draft_law(case.instance).weights) <= 4)
    for case in islice(few, 3):
        findings = judge(observe(program_of(FastVerifier(name)), case))
        assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}, case.id


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize("name", NAMES)
def test_trees_have_the_law_of_the_reference(name: str) -> None:
    for shape in ("v2.b2x2", "random.01.b1x3", "zeros.b2x2"):
        for case in cases_of(name):
            if case.id.endswith(shape):
                drafts = tuple(draft_law(case.instance))
                for each in (drafts[0], drafts[len(drafts) // 2]):
                    found = distance(name, case.instance, each)
                    assert found <= allowed(name, case.instance), (case.id, each)


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_drawn_instance_has_the_law_of_the_reference(
    name: str, drawn: Any, data: st.DataObject
) -> None:
    """Two drafts of one token, or of a tree of two."""
    shapes = [(1, 1, (2,)), (2, 2, (1, 2)), (3, 1, (2,)), (4, 1, (2,))]
    instance = data.draw(drawn(st.sampled_from(shapes), drafts=2))
    instance = replace(instance, scheme=TEXTS[name].scheme)
    for drafts in islice(draft_law(instance), 2):
        assert distance(name, instance, drafts) <= allowed(name, instance)


def law(*weights: float) -> tuple[Rational, ...]:
    """Return the law of numbers as float32 stores them."""
    stored = [exactly(weight) for weight in torch.tensor(weights).tolist()]
    return tuple(weight / total(stored) for weight in stored)


ABOVE, BELOW = 0.25 * (1 + 2**-23), 0.25 * (1 - 2**-24)
"""The neighbours of a quarter in float32."""

HARD: dict[str, tuple[int, tuple[float, ...], tuple[float, ...]]] = {
    "one token": (2, (1.0,), (1.0,)),
    "equal": (2, (0.25, 0.25, 0.5), (0.25, 0.25, 0.5)),
    "next to equal": (2, (ABOVE, BELOW, 0.5), (0.25, 0.25, 0.5)),
    "tied": (8, (0.5, 0.25, 0.25, 0.0), (0.25, 0.25, 0.25, 0.25)),
    "a certain target": (2, (0.0, 1.0, 0.0), (0.25, 0.25, 0.5)),
    "a certain draft": (8, (0.25, 0.25, 0.5), (0.0, 1.0, 0.0)),
    "an almost certain draft": (3, (0.5, 0.25, 0.25), (1.0, 2.0**-40, 2.0**-100)),
    "disjoint": (2, (0.5, 0.5, 0.0, 0.0), (0.0, 0.0, 0.25, 0.75)),
}
"""Drafts, target and draft, where rounding could matter."""


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("drafts", "target", "draft"), HARD.values(), ids=HARD)
def test_hard_rows_have_the_law_of_the_reference(
    name: str, drafts: int, target: tuple[float, ...], draft: tuple[float, ...]
) -> None:
    vocabulary = len(target)
    instance = Instance(
        Model("target", vocabulary, {(): law(*target)}, context_free=True),
        Model("draft", vocabulary, {(): law(*draft)}, context_free=True),
        length=1,
        drafts=min(drafts, 2) if name == "spechub" else drafts,
        scheme=TEXTS[name].scheme,
    )
    said = [(token,) for token, weight in enumerate(draft) if weight > 0]
    # Of i.i.d. tokens there are too many ways to draw eight: here all in turn.
    turns = (tuple(said * 8)[: instance.drafts],)
    ways = turns if instance.scheme == "iid" else tuple(islice(draft_law(instance), 2))
    for each in ways:
        assert distance(name, instance, each) <= allowed(name, instance)


# --- the walk ------------------------------------------------------------------------------


def drafted(
    name: str,
    requests: int,
    vocabulary: int,
    widths: tuple[int, ...],
    *,
    nearness: float = 1.0,
    dtype: torch.dtype = torch.float32,
    ragged: bool = False,
) -> Request:
    """Return drafts drawn from random rows, which depend on the last token; as trees if not ragged.

    Targets are the drafts' rows, their logits moved by `nearness`; every fourth is the same row,
    the others lack some tokens. Of five tokens, every third request has four.
    """
    generator = torch.Generator().manual_seed(vocabulary)
    depths = len(widths)
    logits = torch.randn(requests, depths + 1, vocabulary, vocabulary, generator=generator)
    moved = torch.randn(logits.shape, generator=generator) * nearness
    is_moved = torch.randint(4, (*logits.shape[:3], 1), generator=generator) > 0
    is_cut = (torch.rand(logits.shape, generator=generator) < nearness / 8) & is_moved
    is_cut[..., 0] = False
    moved = (moved * is_moved).masked_fill(is_cut, -torch.inf)
    if vocabulary >= 5:
        logits[::3, ..., -1] = -torch.inf
    request = torch.arange(requests)[:, None]

    def at(model: Tensor, contexts: Tensor, depth: int) -> Tensor:
        last = contexts[..., -1] if depth else torch.zeros(contexts.shape[:2], dtype=torch.int64)
        return model[:, depth][request, last].softmax(-1).to(dtype)

    paths = torch.zeros(requests, 1, 0, dtype=torch.int64)
    for depth, width in enumerate(widths):
        row = at(logits, paths, depth).flatten(0, 1)
        marks = torch.rand(len(row), width, dtype=torch.float64, generator=generator)
        tokens = drafting.siblings(row, marks, scheme=TEXTS[name].scheme).reshape(requests, -1, 1)
        paths = torch.cat([paths.repeat_interleave(width, 1), tokens], 2)
    return Request(
        draft_tokens=paths,
        draft_probs=torch.stack([at(logits, paths[..., :d], d) for d in range(depths)], 2),
        target_probs=torch.stack(
            [at(logits + moved, paths[..., :d], d) for d in range(depths + 1)], 2
        ),
        lengths=torch.arange(requests) % (depths + 1) if ragged else None,
        branching=None if ragged else widths,
    )


def batch_of(given: Request) -> Batch:
    return from_request(given, most_drafts=8)


def noise_of(name: str, batch: Batch) -> Tensor:
    width = TEXTS[name].noise(batch.drafts, batch.length)
    return uniforms(len(batch.lengths), width, torch.Generator().manual_seed(0), CPU)


def verify(name: str, batch: Batch, noise: Tensor, *, form: str = "torch") -> Result:
    return FastVerifier(name, form=form).of(batch, noise)


def differing(one: Result, other: Result) -> int:
    """Return how many requests have another result."""
    columns = "accepted_length", "path", "next_token"
    is_other = [getattr(one, column) != getattr(other, column) for column in columns]
    return int(torch.stack(is_other).any(0).sum())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("widths", [(2, 2, 2), (1, 2, 1), (2, 1, 2), (2,)], ids=str)
@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_siblings_are_those_of_the_reference(
    name: str, widths: tuple[int, ...], which: int
) -> None:
    """At every node that is come to by keeping the first sibling always, or the last."""
    given = drafted(name, 30, 3, widths)
    flat = Model("any", 3, {(): (rational("1/3"),) * 3}, context_free=True)
    instance = Instance(
        flat,
        flat,
        length=len(widths),
        drafts=prod(widths),
        scheme=TEXTS[name].scheme,
        branching=widths,
    )
    drafts = [tuple(map(tuple, paths)) for paths in given.draft_tokens.tolist()]
    nodes: list[Path] = [()] * 30

    def rule(siblings: Siblings, p: Tensor, q: Tensor) -> SiblingChoice:
        said = zip(
            *(each.tolist() for each in (siblings.tokens, siblings.count, siblings.place)),
            strict=True,
        )
        for request, (tokens, count, place) in enumerate(said):
            own = tuple(tokens[:count])
            assert own == FixedTree(drafts[request], instance).siblings(nodes[request])
            assert count <= siblings.most
            flat = [token for path in drafts[request] for token in path]
            assert [flat[where] for where in place] == tokens
            nodes[request] = (*nodes[request], own[which])
        return SiblingChoice(siblings.tokens[:, which], torch.ones(30))

    result = descend(batch_of(given), rule, torch.zeros(30), scheme=instance.scheme)
    assert (result.accepted_length == len(widths)).all()
    assert result.path.tolist() == [
        paths.index(node) for paths, node in zip(drafts, nodes, strict=True)
    ]


def as_logits(batch: Batch) -> Batch:
    """Return the batch with rows of logits, at temperature 1/2."""

    def logits(rows: Rows) -> Rows:
        values = rows.values.log() / 2
        scale = torch.full((len(values),), 2.0)
        return replace(rows, values=values, softmax=Softmax(scale, values.amax(-1)))

    return replace(batch, p=logits(batch.p), q=logits(batch.q))


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize("name", NAMES)
def test_triton_says_what_torch_says(name: str) -> None:
    pytest.importorskip("triton")
    requests = others = 0
    for widths, vocabulary, changes in (
        ((2, 2), 5, {}),
        ((2, 2), 5, {"nearness": 1e-7}),
        ((2, 1, 1), 4, {"ragged": True}),
        ((1, 2), 3, {"dtype": torch.bfloat16}),
        ((2, 1), 7, {"dtype": torch.float64}),
        ((2, 2, 2), 4, {"nearness": 1e-3}),
    ):
        batch = batch_of(drafted(name, 200, vocabulary, widths, **changes))
        for each in (batch,) if changes else (batch, as_logits(batch)):
            noise = noise_of(name, each)
            one, other = (verify(name, each, noise, form=form) for form in ("torch", "triton"))
            others += differing(one, other)
            requests += 200
    # A number falls between two roundings of a threshold with some 2**-20, of which there are ten
    # a row; where nothing is left but rounding, each form draws from its own with some 2**-20.
    assert requests == 1400
    assert others <= 1


@pytest.mark.parametrize("name", NAMES)
def test_triton_says_what_torch_says_of_large_rows(name: str) -> None:
    """Rows of several tiles, the last of them not full."""
    pytest.importorskip("triton")
    generator = torch.Generator().manual_seed(0)
    p, q = torch.rand(2, 6, 1, 1, 5000, generator=generator).square().unbind()
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    marks = torch.rand(6, 2, dtype=torch.float64, generator=generator)
    tokens = drafting.siblings(q[:, 0, 0], marks, scheme=TEXTS[name].scheme)
    batch = batch_of(Request(tokens[..., None], q.expand(-1, 2, 1, -1), p.expand(-1, 2, 2, -1)))
    noise = noise_of(name, batch)
    # High coins, so that rows are looked at, in three requests; low ones in the others.
    noise[::2, :-1], noise[1::2, :-1] = 0.999, 0.001
    one, other = (verify(name, batch, noise, form=form) for form in ("torch", "triton"))
    assert differing(one, other) == 0
    assert set(one.accepted_length.tolist()) == {0, 1}


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_without_drafts_or_requests(name: str) -> None:
    given = drafted(name, 5, 3, (2, 1))
    undrafted = Request(
        given.draft_tokens[..., :0], given.draft_probs[:, :, :0], given.target_probs[:, :, :1]
    )
    nobody = replace(
        given,
        draft_tokens=given.draft_tokens[:0],
        draft_probs=given.draft_probs[:0],
        target_probs=given.target_probs[:0],
    )
    for requests, each in ((5, undrafted), (0, nobody)):
        batch = batch_of(each)
        one, other = (
            verify(name, batch, noise_of(name, batch), form=form) for form in ("torch", "triton")
        )
        assert differing(one, other) == 0
        assert one.accepted_length.tolist() == [0] * requests
        assert one.next_token.shape == (requests,)


@pytest.mark.requirement("batch.ragged", "input.unchanged")
@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("name", NAMES)
def test_a_request_has_the_result_that_it_has_without_padding(name: str, form: str) -> None:
    given = drafted(name, 40, 4, (2, 1, 1), ragged=True)
    lengths = given.lengths
    assert lengths is not None
    inside = torch.arange(4) <= lengths[:, None, None]
    padded = Request(
        given.draft_tokens.where(inside[..., 1:], -1),
        given.draft_probs.where(inside[..., 1:, None], torch.nan),
        given.target_probs.where(inside[..., None], torch.nan),
        lengths=lengths,
    )
    batch = batch_of(padded)
    noise = noise_of(name, batch)
    kept = [each.clone() for each in (padded.draft_probs, padded.target_probs)]
    together = verify(name, batch, noise, form=form)
    assert (together.accepted_length <= lengths).all()
    assert set((lengths - together.accepted_length).tolist()) >= {0, 1, 2}
    for before, after in zip(kept, (padded.draft_probs, padded.target_probs), strict=True):
        assert torch.equal(before.nan_to_num(-1), after.nan_to_num(-1))
    for length in range(1, 4):
        own = lengths == length
        bare = Request(
            given.draft_tokens[own, :, :length],
            given.draft_probs[own, :, :length],
            given.target_probs[own, :, : length + 1],
        )
        # The noise of the tokens that are there; that of the greedy draft is by depth.
        used = noise[own][:, [*range(2 * length), -1]]
        if name != "greedy_draft":
            of_tokens = noise[own, :-1].view(-1, 2, 3)[..., :length].flatten(1)
            used = torch.cat([of_tokens, noise[own, -1:]], 1)
        alone = verify(name, batch_of(bare), used, form=form)
        here = Result(together.accepted_length[own], together.path[own], together.next_token[own])
        assert differing(here, alone) == 0


@pytest.mark.requirement("batch.ragged")
@pytest.mark.parametrize("name", NAMES)
def test_padding_has_the_law_of_the_reference(name: str) -> None:
    """The exact lane sees no coin that is compared with what is not there."""
    case = next(case for case in cases_of(name) if case.id.endswith("v2.l2.k2"))
    short = next(case for case in cases_of(name) if case.id.endswith("v2.l1.k2"))
    program = program_of(FastVerifier(name))
    asked = [(each.instance, next(iter(draft_law(each.instance)))) for each in (case, short)]
    (seen,) = joint_laws(program, [asked], lane=EXACT)
    for row, (instance, drafts) in enumerate(asked):
        algorithm = ALGORITHMS[TEXTS[name].algorithm]
        expected = verification_law(algorithm, as_given(instance, program.declared), drafts)
        found = seen.of_row(row).total_variation(expected.map(as_observed))
        assert found <= allowed(name, instance)


@pytest.mark.parametrize("form", ["torch", "triton"])
@pytest.mark.parametrize("name", NAMES)
def test_equal_rows_refuse_nothing(name: str, form: str) -> None:
    given = drafted(name, 300, 5, (2, 2), nearness=0.0)
    batch = batch_of(given)
    noise = noise_of(name, batch)
    largest = torch.nextafter(torch.ones(1, dtype=torch.float64), torch.zeros(1).double())
    noise[:100, :-1] = largest
    accepted = verify(name, batch, noise, form=form).accepted_length
    assert (accepted == 2).all()


@pytest.mark.requirement("number.tail")
@pytest.mark.parametrize("name", NAMES)
def test_a_vocabulary_of_262144_equal_tokens(name: str) -> None:
    """Nothing is refused, and the bonus is the token at the mark."""
    vocabulary = 2**18
    row = torch.full((2, 1, 1, vocabulary), 1 / vocabulary)
    tokens = torch.tensor([[5, vocabulary - 1], [6, 4]])[..., None]
    batch = batch_of(Request(tokens, row.expand(-1, 2, 1, -1), row.expand(-1, 2, 2, -1)))
    noise = noise_of(name, batch)
    noise[:, -1] = torch.tensor([0.5 - 2**-20, 0.75], dtype=torch.float64)
    result = verify(name, batch, noise)
    assert result.accepted_length.tolist() == [1, 1]
    assert result.next_token.tolist() == [vocabulary // 2 - 1, 3 * vocabulary // 4]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_compiled_without_a_break(name: str) -> None:
    batch = batch_of(drafted(name, 20, 4, (2, 2)))
    noise = noise_of(name, batch)
    expected = verify(name, batch, noise)
    module = import_module(f"draftproof.adapters.fast.{TEXTS[name].algorithm}")
    function: Callable[[Batch, Tensor], Result] = getattr(module, name)
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    assert differing(compiled(batch, noise), expected) == 0
