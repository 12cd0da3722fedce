"""The reference as an adapter conforms, text by text and scheme by scheme, and refuses the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.cases import cases
from draftproof.conformance.cases.rows import fixed, instance
from draftproof.conformance.lanes import exchange
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol import reference
from draftproof.conformance.protocol.adapter import DraftRequest, Request, declaration, program_of
from draftproof.conformance.protocol.loading import load_adapter
from draftproof.conformance.protocol.reference import (
    Heard,
    Iteration,
    ReferenceVerifier,
    Story,
    TorchChance,
    _instance,
    _stories,
)
from draftproof.conformance.requirements.drafting import judge as judge_drafting
from draftproof.conformance.requirements.drafting import observe_drafting, settings
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED
from draftproof.conformance.requirements.laws import fits, judge
from draftproof.reference.chance import Chance, enumerate_runs
from draftproof.reference.drafting import Drafted, Drafts, FixedTree, draft_law
from draftproof.reference.emission import Emission, emission
from draftproof.reference.errors import (
    InvalidInput,
    MissingContext,
    NotADistribution,
    NotRational,
    TokenOutOfRange,
    Unsupported,
    WrongShape,
)
from draftproof.reference.model import Instance
from draftproof.reference.process import after
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, Algorithm

ASKED = [a for a in ALGORITHMS.values() if a.name != "spectr_gbv"]
TEXTS = [
    (algorithm, scheme)
    for algorithm in ASKED
    for scheme in (algorithm.schemes if algorithm.most_drafts != 1 else ("iid",))
]
CASES = {case.id: case for case in cases("standard")}

# Coins are compared with the nearest float64, 2^-54 away, some 30 of them on a path of a run.
ROUNDED = rational("1/2") ** 48


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
@pytest.mark.parametrize(("algorithm", "scheme"), TEXTS, ids=lambda x: getattr(x, "name", x))
def test_every_text_conforms_by_every_scheme(algorithm: Algorithm, scheme: str) -> None:
    adapter = ReferenceVerifier(algorithm, scheme=scheme)
    program = program_of(adapter)
    chosen = ("v2.l2.k2", "v3.l1.k2", "zeros.k2", "disjoint.k2", "v3.l1.k3")
    ids = ("zeros.both", *(f"several.{scheme}.{name}" for name in chosen))
    fitting = [CASES[i] for i in ids if i in CASES and fits(CASES[i], program.declared)]
    assert len(fitting) == (1 if algorithm.most_drafts == 1 else 5 if scheme == "hub" else 6)
    for case in fitting:
        for finding in judge(observe(program, case)):
            assert finding.verdict in (PASS, SKIPPED), (case.id, finding)
            assert finding.distance is None or finding.distance < ROUNDED


def accepts_everything(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    path = drafts.paths()[-1]
    return emission(drafts, path, chance.draw(instance.target(path)))


def reads_elsewhere(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    (path,) = drafts.paths()
    return emission(drafts, (), chance.draw(instance.target((1 - path[0],))))


@pytest.mark.requirement("law.lossless", "law.prefix", "length.bounded")
def test_a_text_of_your_own_is_judged() -> None:
    adapter = ReferenceVerifier(accepts_everything)
    assert adapter.name == "reference-accepts_everything"
    assert adapter.algorithm == "accepts_everything"
    found = {
        f.requirement: f for f in judge(observe(program_of(adapter), CASES["several.iid.zeros.k2"]))
    }
    assert found["law.lossless"].verdict == found["length.bounded"].verdict == FAIL
    assert found["law.reference"].verdict == SKIPPED
    assert found["law.prefix"].verdict == PASS


def test_a_row_off_the_drafted_paths_is_refused() -> None:
    adapter = ReferenceVerifier(reads_elsewhere)
    with pytest.raises(MissingContext, match=r"the target's row at '1', which lies on none of the"):
        adapter.verify(request([[0]]))
    found = {f.requirement: f for f in judge(observe(program_of(adapter), CASES["generic.v2.l1"]))}
    assert found["law.prefix"].detail.startswith("raised MissingContext: the verifier asks for the")


def test_a_text_that_asks_for_all_rows_is_refused() -> None:
    with pytest.raises(
        Unsupported, match="spectr_gbv cannot be asked by requests, which have rows"
    ):
        ReferenceVerifier(ALGORITHMS["spectr_gbv"])


def test_a_scheme_that_a_text_does_not_take_is_refused() -> None:
    with pytest.raises(Unsupported, match="k_seq takes drafts of the scheme 'iid', got 'hub'"):
        ReferenceVerifier(ALGORITHMS["k_seq"], scheme="hub")


@pytest.mark.parametrize(
    ("name", "algorithm", "scheme", "most"),
    [
        ("token", "token", "iid", 1),
        ("recursive_rejection", "recursive_rejection", "iid", 8),
        (
            "recursive_rejection_without_replacement",
            *("recursive_rejection", "without_replacement"),
            8,
        ),
        ("naive_tree_hub", "naive_tree", "hub", 8),
        ("spechub", "spechub", "hub", 8),
        ("target_first_greedy", "target_first", "greedy", 8),
    ],
)
def test_each_has_a_name_on_the_command_line(
    name: str, algorithm: str, scheme: str, most: int
) -> None:
    declared = declaration(load_adapter(f"draftproof.conformance.reference_adapter:{name}"))
    found = (declared.algorithm, declared.scheme, declared.max_drafts)
    assert found == (algorithm, scheme, most)


def test_unknown_names_are_not_there() -> None:
    for name in ("recursive_rejection_hub", "greedy", "_verify"):
        assert not hasattr(reference, name)


# --- several iterations ----------------------------------------------------------------------


def iterated(
    text: Algorithm, start: Instance, iterations: int, told: Story = ()
) -> Iterator[tuple[Story, Instance]]:
    """Yield every story of so many iterations, and the instance that the models leave after it."""
    if iterations == 0:
        yield told, start
        return
    for paths in draft_law(start):
        for (emitted, answers), _ in enumerate_runs(partial(heard, text, start, paths)):
            known = Iteration(*rows_of(start, paths), answers, emitted.tokens)
            draft = start.draft.after(emitted.tokens)
            left = replace(start, target=after(start.target, emitted), draft=draft)
            yield from iterated(text, left, iterations - 1, (*told, known))


def heard(
    text: Algorithm, start: Instance, paths: Drafts, chance: Chance
) -> tuple[Emission, tuple[int, ...]]:
    answers = Heard(chance)
    return text.verify(FixedTree(paths, start), start, answers), tuple(answers.answers)


def rows_of(start: Instance, paths: Drafts) -> tuple[Drafts, Any, Any]:
    """Return what a request says of some paths: its target's rows are the target's own."""
    own = replace(start, drafts=len(paths), target=replace(start.target, modified={}))
    asked = exchange.request([(own, paths)], declaration(reference.greedy_block))
    return paths, frozen(asked.draft_probs[0].tolist()), frozen(asked.target_probs[0].tolist())


def frozen(nested: Any) -> Any:
    return tuple(map(frozen, nested)) if isinstance(nested, list) else nested


@pytest.mark.parametrize(
    ("name", "models", "drafts", "length", "iterations"),
    [
        ("greedy_block", instance("story", 2, 8), 1, 2, 2),
        ("greedy_block", fixed("112 144", "208 48", length=3), 1, 3, 2),
        ("greedy_block", fixed("0 224 32", "192 64 0", length=2), 1, 2, 2),
        ("recursive_greedy_block", instance("story", 2, 5), 2, 2, 1),
        ("recursive_greedy_block", fixed("112 144", "208 48", length=3), 2, 3, 1),
        ("recursive_greedy_block", fixed("0 224 32", "192 64 0", length=2), 2, 2, 1),
    ],
)
def test_the_rows_that_a_story_tells_are_the_modified_ones(
    name: str, models: Instance, drafts: int, length: int, iterations: int
) -> None:
    """After every run of the text, in every context that can be drafted: exactly."""
    text, modified = ALGORITHMS[name], 0
    start = replace(models, length=length, drafts=drafts)
    for story, here in iterated(text, start, iterations):
        own = start.target.after(tuple(token for each in story for token in each.emitted))
        for paths in draft_law(replace(here, drafts=1)):
            now = Iteration(*rows_of(here, paths))
            told = _instance(text, (*story, now), "iid", (), rational(0))
            for context in {path[:i] for path in paths for i in range(length + 1)}:
                assert told.target(context) == here.target(context)
                modified += told.target(context) != own(context)
    assert modified > 0


def test_a_state_is_given_back_row_by_row() -> None:
    adapter = reference.greedy_block
    # The second row is certain to be accepted, and the others are certain to be rejected.
    asked = request([[0, 0]], **rejected(3))
    first = adapter.verify(asked)
    assert first.accepted_length.tolist() == [0, 2, 0]
    assert first.state is not None
    assert {name: each.shape[0] for name, each in first.state.items()} == {"story": 3}
    left = _stories(first.state, 3)
    assert [[each.emitted for each in story] for story in left] == [[(1,)], [], [(1,)]]
    subset = {name: each[[2, 0]] for name, each in first.state.items()}
    stories = _stories(subset, 2)
    assert stories == [left[i] for i in (2, 0)]
    assert stories[0][0].target_probs == ((((0.0, 1.0), (0.0, 1.0), (0.0, 1.0))),)


def rejected(rows: int) -> dict[str, Any]:
    certain, other = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    target = other.expand(rows, 1, 3, 2).clone()
    target[1] = certain
    return {
        "draft_tokens": torch.zeros(rows, 1, 2, dtype=torch.int64),
        "draft_probs": certain.expand(rows, 1, 2, 2),
        "target_probs": target,
    }


def test_a_stateless_text_leaves_nothing() -> None:
    assert reference.block.verify(request([[0]])).state is None


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "the state must be the 'story' that was left of each of the 1 rows; got "),
        ({"story": torch.zeros(2, 1, 1)}, r"got story \[2, 1, 1\]"),
        ({"paths": torch.zeros(1, 1, 1)}, r"got paths \[1, 1, 1\]"),
    ],
)
def test_what_is_no_state_is_refused(state: dict[str, Tensor], message: str) -> None:
    with pytest.raises(WrongShape, match=message):
        reference.greedy_block.verify(request([[0]], state=state))


def test_drafts_that_end_within_a_block_before_are_refused() -> None:
    adapter = reference.greedy_block
    state = adapter.verify(
        request(
            [[0, 0, 0]],
            draft_probs=torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2),
            target_probs=torch.tensor([0.0, 1.0]).expand(1, 1, 4, 2),
        )
    ).state
    with pytest.raises(MissingContext, match="up to 1 tokens beyond what is drafted now"):
        adapter.verify(request([[0]], state=state))
    assert adapter.verify(request([[0, 0]], state=state)).state is not None


# --- trees ------------------------------------------------------------------------------------

TREES = [(a, s) for a, s in TEXTS if a.trees and not a.stateful and a.most_drafts != 1]


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
@pytest.mark.parametrize(("algorithm", "scheme"), TREES, ids=lambda x: getattr(x, "name", x))
def test_every_text_that_takes_trees_conforms_on_them(algorithm: Algorithm, scheme: str) -> None:
    adapter = ReferenceVerifier(algorithm, scheme=scheme)
    program = program_of(adapter)
    assert program.declared.trees
    trees = [c for c in cases("quick") if c.instance.branching and c.instance.scheme == scheme]
    fitting = [case for case in trees if fits(case, program.declared)]
    assert fitting
    for case in fitting[:1]:
        for finding in judge(observe(program, case)):
            assert finding.verdict in (PASS, SKIPPED), (case.id, finding)
            assert finding.distance is None or finding.distance < ROUNDED


def test_what_takes_no_trees_says_so() -> None:
    for name in ("multipath_block", "greedy_block"):
        assert not declaration(getattr(reference, name)).trees


def test_a_tree_is_drafted_by_its_branching() -> None:
    asked = DraftRequest(
        next_probs=lambda contexts: torch.tensor([[0.5, 0.25, 0.25]]).expand(len(contexts), -1),
        rows=1,
        drafts=4,
        length=2,
        vocabulary=3,
        branching=(2, 2),
        generator=torch.Generator().manual_seed(1),
    )
    ((*paths,),) = reference.recursive_rejection_without_replacement.draft(
        asked
    ).draft_tokens.tolist()
    assert paths[0][0] == paths[1][0] != paths[2][0] == paths[3][0]
    assert paths[0][1] != paths[1][1]
    assert paths[2][1] != paths[3][1]


# --- requests ------------------------------------------------------------------------------


def request(paths: Any, **changes: Any) -> Request:
    """Return one row of these paths over two tokens, all rows even."""
    tokens = torch.tensor([paths])
    drafts, length = len(paths), len(paths[0])
    valid = Request(
        draft_tokens=tokens,
        draft_probs=torch.full((1, drafts, length, 2), 0.5),
        target_probs=torch.full((1, drafts, length + 1, 2), 0.5),
        generator=torch.Generator().manual_seed(7),
    )
    return replace(valid, **changes)


def uneven(row: list[float]) -> Tensor:
    """Return even rows for one path of one token, but this one at first."""
    changed = torch.full((1, 1, 2, 2), 0.5)
    changed[0, 0, 0] = torch.tensor(row)
    return changed


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (
            request([[0]], target_probs=torch.full((1, 1, 1, 2), 0.5)),
            WrongShape,
            r"target_probs must be \[1, 1, 2, 2\], got \[1, 1, 1, 2\]",
        ),
        (
            request([[0]], draft_probs=torch.full((1, 1, 2), 0.5)),
            WrongShape,
            r"draft_probs must be \[1, 1, 1, 2\], got \[1, 1, 2\]",
        ),
        (
            request([[0]], draft_tokens=torch.tensor([[0]])),
            WrongShape,
            r"draft_tokens must be \[B, K, L\], none of them 0, got \[1, 1\]",
        ),
        (request([[2]]), TokenOutOfRange, r"drafted token 2 is not in 0\.\.1"),
        (request([[-1]]), TokenOutOfRange, r"drafted token -1 is not in 0\.\.1"),
        (
            request([[0]], target_probs=uneven([0.25, 0.25])),
            NotADistribution,
            "the target's row after '' must sum to 1, it sums to 0.5",
        ),
        (
            request([[0]], target_probs=uneven([1.5, -0.5])),
            NotADistribution,
            "gives token 1 the negative weight -1/2",
        ),
        (
            request([[0]], target_probs=uneven([float("nan"), 1.0])),
            NotRational,
            "expected a finite number, got nan",
        ),
        (
            request([[0]], draft_probs=torch.tensor([[[[0.0, 1.0]]]])),
            WrongShape,
            "has probability 0 under the draft: it cannot be drafted",
        ),
        (
            request([[0], [1]], draft_probs=torch.tensor([[[[0.5, 0.5]], [[0.25, 0.75]]]])),
            NotADistribution,
            "the draft has two different rows after ''",
        ),
    ],
)
def test_what_breaks_the_contract_is_refused(
    bad: Request, error: type[InvalidInput], message: str
) -> None:
    adapter = ReferenceVerifier(ALGORITHMS["recursive_rejection"])
    with pytest.raises(error, match=message):
        adapter.verify(bad)


def test_rows_as_far_from_one_as_rounding_brings_them_are_normalised() -> None:
    third = torch.full((1, 1, 2, 3), 1 / 3)
    asked = request([[0]], draft_probs=third[:, :, :1], target_probs=third)
    result = ReferenceVerifier(ALGORITHMS["token"]).verify(asked)
    assert result.accepted_length.tolist() == [1]


def test_rows_of_a_batch_are_verified_apart_and_repeat_with_the_generator() -> None:
    adapter = ReferenceVerifier(ALGORITHMS["multipath_block"])
    batch = 40
    asked = Request(
        draft_tokens=torch.tensor([[[0], [1]]]).expand(batch, -1, -1),
        draft_probs=torch.full((batch, 2, 1, 2), 0.5),
        target_probs=torch.tensor([0.25, 0.75]).expand(batch, 2, 2, 2),
    )

    def emitted() -> list[list[int]]:
        result = adapter.verify(replace(asked, generator=torch.Generator().manual_seed(3)))
        return [c.tolist() for c in (result.accepted_length, result.path, result.next_token)]

    state = torch.get_rng_state()
    first = emitted()
    assert first == emitted()
    assert torch.equal(state, torch.get_rng_state())
    assert len(set(zip(*first, strict=True))) > 1


def test_a_draw_has_the_law_of_its_weights() -> None:
    weights = [rational(w) for w in ("0", "1/3", "0", "1/2", "0")]
    law = exact_law(lambda: TorchChance(None).draw(weights)).law
    assert set(law) == {1, 3}
    assert abs(law[1] - rational("2/5")) < ROUNDED
    for impossible in ([], [rational(0)], [rational(1), rational(-1)]):
        with pytest.raises(NotADistribution, match="cannot draw with the weights"):
            TorchChance(None).draw(impossible)


def test_a_uniform_number_that_is_one_changes_nothing_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(1.0, dtype=torch.float64))
    chance = TorchChance(None)
    assert chance.coin(rational(1))
    assert not chance.coin(rational("1/2"))
    assert chance.draw([rational(w) for w in ("0", "1/3", "2/3", "0")]) == 2


# --- drafts --------------------------------------------------------------------------------


@pytest.mark.requirement("draft.declared", "draft.joint")
@pytest.mark.parametrize(
    "name", ["token", "k_seq", "recursive_rejection_without_replacement", "spechub", "greedy_draft"]
)
def test_drafts_have_the_law_of_the_scheme_and_the_declared_rows(name: str) -> None:
    adapter = getattr(reference, name)
    program = program_of(adapter)
    quick = [s for s in settings(program.declared) if s.mode == "quick"]
    assert quick
    for setting in quick:
        for finding in judge_drafting(observe_drafting(program, setting)):
            assert finding.verdict == PASS, finding
            assert finding.distance is not None
            assert finding.distance < ROUNDED


def test_a_scheme_that_runs_out_of_tokens_says_so() -> None:
    asked = DraftRequest(
        next_probs=lambda contexts: torch.tensor([[0.0, 1.0]]).expand(len(contexts), -1),
        rows=1,
        drafts=2,
        length=1,
        vocabulary=2,
    )
    with pytest.raises(Unsupported, match="finds tokens for 1 paths, 2 are asked for"):
        reference.recursive_rejection_without_replacement.draft(asked)
    assert reference.recursive_rejection.draft(asked).draft_tokens.tolist() == [[[1], [1]]]
