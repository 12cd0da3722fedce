"""Scores that are shared out, against exact arithmetic and by what they must add up to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.adapters.fast.batch import uniforms
from draftproof.adapters.fast.inputs import InvalidRequest, from_request
from draftproof.adapters.fast.scores import (
    DealtScores,
    ScoredRanks,
    Scores,
    everywhere,
    ranked,
    ratios,
    smallest,
    split,
)
from draftproof.conformance.cases import Case
from draftproof.conformance.cases.rows import fixed
from draftproof.conformance.lanes.observe import EXACT, as_observed, joint_laws, observe
from draftproof.conformance.protocol.adapter import Request, Result, declaration, program_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.finding import PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge
from draftproof.conformance.requirements.states import Iterated, judge_chain
from draftproof.conformance.requirements.task import Terms
from draftproof.reference import scores as exact
from draftproof.reference.drafting import Drafts
from draftproof.reference.model import Row
from draftproof.reference.rational import ONE, rational, total
from draftproof.reference.verifiers import ALGORITHMS, verification_law

NAMES = ["scored_multipath_block", "scored_greedy_block"]
CPU = torch.device("cpu")


def tensor(row: Any) -> Tensor:
    return torch.tensor([[float(x) for x in row]], dtype=torch.float64)


# --- splits ----------------------------------------------------------------------------------


def rows(vocabulary: int) -> st.SearchStrategy[Row]:
    """Rows of integer weights, zeros and ties included."""
    weights = st.lists(st.integers(0, 6), min_size=vocabulary, max_size=vocabulary)
    return weights.filter(any).map(lambda each: tuple(rational(x) / sum(each) for x in each))


@st.composite
def texts(draw: st.DrawFn) -> tuple[list[tuple[Row, Row, int]], int]:
    """Rows of target and draft, and a token that the draft can say, of some positions; and K."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        vocabulary = draw(st.integers(1, 6))
        p, q = draw(rows(vocabulary)), draw(rows(vocabulary))
        found.append((p, q, draw(st.sampled_from([t for t, x in enumerate(q) if x != 0]))))
    return found, draw(st.integers(2, 5))


def distribution(scores: exact.Scores, at: float) -> float:
    mass = total(cell.mass for cell in scores)
    below = (
        float(cell.mass / mass)
        * min(1.0, max(0.0, (at - float(cell.low)) / float(cell.high - cell.low)))
        for cell in scores
    )
    return sum(below)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=texts())
def test_law_weight_and_scores_are_those_of_the_reference(
    text: tuple[list[tuple[Row, Row, int]], int],
) -> None:
    positions, drafts = text
    wanted, owed, mine = exact.UNIFORM, ONE, everywhere(1, CPU)
    weight, share = torch.ones(1, dtype=torch.float64), ONE
    for p, q, token in positions:
        right = exact.split(wanted, p, q, owed=owed, drafts=drafts)
        ranks = ranked(tensor(p), tensor(q))
        found = split(mine, ranks, ranks.ratio, ranks.unsaid, weight, drafts)
        law = tensor(q) * found.law(ratios(tensor(p), tensor(q)))
        assert torch.allclose(law, tensor([x / share for x in right.law]), rtol=1e-12, atol=1e-12)

        own = ratios(tensor([p[token]]), tensor([q[token]]))
        mine, wanted = found.after(ranks.place(own)), right.after(token)
        weight = found.weight(own[:, 0]).clamp(max=1)
        owed, share = min(owed * p[token], right.law[token]), share * q[token]
        assert float(weight) == pytest.approx(float(owed / right.law[token]), abs=1e-12)
        edges = sorted({float(edge) for cell in wanted for edge in (cell.low, cell.high)})
        expected = tensor([distribution(wanted, edge) for edge in edges])
        assert (mine.distribution(tensor(edges)) - expected).abs().max() < 1e-11
        if owed == 0:
            break


def test_one_of_several_has_the_smallest_score() -> None:
    thirds = [
        tuple(
            exact.ScoreCell(rational(a) / 6, rational(b) / 6, rational(m) / 8) for a, b, m in each
        )
        for each in ([(0, 1, 2), (2, 6, 6)], [(1, 3, 5), (3, 4, 3)], [(0, 6, 8)], [(2, 5, 8)])
    ]
    mine = [
        Scores(
            tensor([cell.low for cell in cells]),
            tensor([cell.high for cell in cells]),
            tensor([total(cell.mass for cell in cells[: n + 1]) for n in range(len(cells))]),
        )
        for cells in thirds
    ]
    for count in range(1, 5):
        expected = tensor(exact.smallest(tuple(thirds[:count])))
        assert torch.allclose(smallest(mine[:count]), expected, rtol=0, atol=1e-15)


def unlike(vocabulary: int, count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return rows [count, V] whose tokens have unlike ratios, of few tokens that are probable."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(count, vocabulary, generator=generator, dtype=torch.float64)
    target -= torch.arange(1, vocabulary + 1).log()
    draft = target + 0.7 * torch.randn(count, vocabulary, generator=generator, dtype=torch.float64)
    return target.softmax(-1), draft.softmax(-1)


def splits(
    vocabulary: int, drafts: int
) -> list[tuple[Scores, ScoredRanks, DealtScores, Tensor, Tensor]]:
    """Return two splits, the second behind the most probable token, and what they are made of."""
    scores, weight = everywhere(1, CPU), torch.ones(1, dtype=torch.float64)
    found = []
    for p, q in zip(*(each[:, None] for each in unlike(vocabulary, 2)), strict=True):
        ranks = ranked(p, q)
        here = split(scores, ranks, ranks.ratio, ranks.unsaid, weight, drafts)
        found.append((scores, ranks, here, p, q))
        own = ratios(p, q).gather(1, q.argmax(1, keepdim=True))
        scores, weight = here.after(ranks.place(own)), here.weight(own[:, 0]).clamp(max=1)
    return found


@pytest.mark.requirement("number.tail")
@pytest.mark.parametrize("vocabulary", [2_000, 32_000])
def test_what_is_dealt_is_what_is_verified_against(vocabulary: int) -> None:
    for _, ranks, here, p, q in splits(vocabulary, 4):
        ratio = ratios(p, q)
        law = q * here.law(ratio)
        # V roundings of sums that are 1 at most.
        assert float(law.sum()) == pytest.approx(float(here.reach), abs=vocabulary * 2**-50)
        for token in [*range(10), *range(50, vocabulary, vocabulary // 10)]:
            own = here.after(ranks.place(ratio[:, token, None]))
            worth = q[0, token] * own.worth(torch.ones(1, 1, dtype=torch.float64), 4)
            assert float(worth) == pytest.approx(float(law[0, token]), abs=1e-12)


def test_what_all_tokens_are_dealt_is_all_that_there_is() -> None:
    at = torch.linspace(0, 1, 1001, dtype=torch.float64)[None]
    for scores, ranks, here, p, q in splits(300, 3):
        ratio, dealt = ratios(p, q), torch.zeros_like(at)
        for token in range(300):
            after = here.after(ranks.place(ratio[:, token, None]))
            dealt += q[0, token] * after.distribution(at)
        assert (dealt - scores.distribution(at)).abs().max() < 1e-12


def test_requests_do_not_depend_on_each_other() -> None:
    p, q = unlike(500, 3)
    one = torch.ones(3, dtype=torch.float64)

    def after(some: slice) -> Scores:
        ranks = ranked(p[some], q[some])
        here = split(everywhere(len(p[some]), CPU), ranks, ranks.ratio, ranks.unsaid, one[some], 4)
        return here.after(ranks.place(ratios(p[some, :1], q[some, :1])))

    together, at = after(slice(3)), torch.linspace(0, 1, 101, dtype=torch.float64)[None]
    for n in range(3):
        alone = after(slice(n, n + 1)).distribution(at)
        assert torch.equal(together.distribution(at.expand(3, -1))[n], alone[0])


# --- verifiers -------------------------------------------------------------------------------


PAIR = replace(fixed("112 144", "208 48", length=2), drafts=2)


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "paths",
    [((0, 1, 0), (0, 0, 1), (1, 0, 0)), ((0, 0, 1), (0, 0, 1), (0, 1, 1))],
    ids=str,
)
def test_three_paths_of_three_tokens_have_the_references_law(name: str, paths: Drafts) -> None:
    verifier = FastVerifier(name)
    instance = replace(fixed("112 144", "208 48", length=3), drafts=3)
    (law,) = joint_laws(program_of(verifier), [[(instance, paths)]], lane=EXACT)
    expected = verification_law(ALGORITHMS[name], instance, paths)
    distance = law.of_row(0).total_variation(expected.map(as_observed))
    assert distance <= allowed_distance(declaration(verifier), 2, 3)


@pytest.mark.parametrize("name", NAMES)
def test_a_pair_has_the_law_of_the_reference(name: str) -> None:
    findings = judge(observe(program_of(FastVerifier(name)), Case("pair", "", "certify", PAIR)))
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize(
    "chain",
    [
        Iterated("pair", (PAIR,)),
        Iterated("nested", (fixed("112 144", "208 48", length=3),), ((0,), (0,))),
        Iterated("zeros", (fixed("0 160 96", "128 128 0", length=2),)),
    ],
    ids=lambda chain: chain.id,
)
def test_what_a_block_leaves_is_repaid(chain: Iterated) -> None:
    program = program_of(FastVerifier("scored_greedy_block"))
    (finding,) = judge_chain(chain, program, Terms(EXACT, "quick"))
    assert finding.verdict == PASS, finding.detail


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


def of(name: str, given: Request, generator: torch.Generator) -> Result:
    width = TEXTS[name].noise(given.draft_tokens.shape[1], given.draft_tokens.shape[2])
    noise = uniforms(len(given.draft_tokens), width, generator, CPU)
    return FastVerifier(name).of(from_request(given, most_drafts=8), noise)


@pytest.mark.parametrize("name", NAMES)
def test_one_path_is_block_verification(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    given = drawn(1000, 1, 4, generator)
    seeded = [torch.Generator().manual_seed(1) for _ in range(2)]
    noise = uniforms(1000, TEXTS[name].noise(1, 3), seeded[0], CPU)
    batch = from_request(given, most_drafts=8)
    one = FastVerifier(name).of(batch, noise)
    other = FastVerifier(name.removeprefix("scored_").removeprefix("multipath_")).of(
        batch, noise[:, 1:]
    )
    assert torch.equal(one.accepted_length, other.accepted_length)
    # A mark in a row of sums that are rounded otherwise.
    assert (one.next_token != other.next_token).sum() <= 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_what_is_emitted_can_be_said_in_any_dtype(name: str, dtype: torch.dtype) -> None:
    generator, left = torch.Generator().manual_seed(0), None
    for _ in range(3):
        given = drawn(200, 3, 7, generator)
        q, p = given.draft_probs.to(dtype), given.target_probs.to(dtype)
        result = of(name, replace(given, draft_probs=q, target_probs=p, state=left), generator)
        left = result.state
        row = p[torch.arange(200), result.path, result.accepted_length]
        assert (row.gather(1, result.next_token[:, None]) > 0).all()
        for each in (left or {}).values():
            assert not each.isnan().any()


@pytest.mark.parametrize("name", NAMES)
def test_paths_of_one_token_are_kept(name: str) -> None:
    one = torch.ones(2, 8, 4, 1)
    given = Request(torch.zeros(2, 8, 4, dtype=torch.int64), one, torch.ones(2, 8, 5, 1))
    result = of(name, given, torch.Generator().manual_seed(0))
    assert result.accepted_length.tolist() == [4, 4]


@pytest.mark.requirement("number.tail")
@pytest.mark.parametrize("name", NAMES)
def test_every_token_of_a_large_flat_vocabulary_is_drawn_in_its_turn(name: str) -> None:
    size = 2**18
    flat, sure = torch.full((1, 2, 2, size), 1 / size), torch.zeros(1, 2, 1, size)
    sure[..., 0] = 1
    given = Request(torch.zeros(1, 2, 1, dtype=torch.int64), sure, flat)
    batch = from_request(given, most_drafts=8)
    result = FastVerifier(name).of(batch, torch.tensor([[0.5, 0.5, 1 - 2.0**-53]]).double())
    # All of token 0 is drafted: what is owed are the others, each as much as any.
    assert (result.accepted_length.tolist(), result.next_token.tolist()) == ([0], [size - 1])


# --- states ----------------------------------------------------------------------------------


def test_a_request_that_joins_has_nothing_left() -> None:
    generator = torch.Generator().manual_seed(0)
    given = drawn(300, 2, 4, generator)
    left = of("scored_greedy_block", given, generator).state
    assert left is not None
    assert left["left"].shape == (300, 2)
    nothing = {
        "left": torch.zeros(300, 2, dtype=torch.int64),
        "drafts": torch.ones(300, 2, dtype=torch.int64),
        "target": torch.ones(300, 2, dtype=torch.float64),
        "selected": torch.zeros(300, 2, dtype=torch.float64),
        "low": torch.zeros(300, 2, 1, dtype=torch.float64),
        "high": torch.ones(300, 2, 1, dtype=torch.float64),
        "upto": torch.ones(300, 2, 1, dtype=torch.float64),
    }
    seeded = (torch.Generator().manual_seed(1) for _ in range(2))
    one, other = (
        of("scored_greedy_block", replace(given, state=each), noise)
        for each, noise in zip((None, nothing), seeded, strict=True)
    )
    assert torch.equal(one.accepted_length, other.accepted_length)
    assert torch.equal(one.next_token, other.next_token)
    assert one.state is not None
    assert other.state is not None
    assert all(torch.equal(each, other.state[name]) for name, each in one.state.items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {"left": state["left"]}, "state has no 'drafts'"),
        (lambda state: {**state, "low": state["low"][..., :0]}, r"of one form; got .*'low' \[4, 2"),
        (lambda state: {n: each[:3] for n, each in state.items()}, "4 requests, got 3"),
        (lambda state: {**state, "drafts": state["drafts"] + 1}, "of calls of 2 paths"),
    ],
)
def test_a_state_of_other_requests_is_refused(change: Any, message: str) -> None:
    generator = torch.Generator().manual_seed(3)
    given = replace(drawn(4, 2, 4, generator), lengths=torch.full((4,), 3))
    # The worst coins refuse all.
    noise = torch.full((4, TEXTS["scored_greedy_block"].noise(2, 3)), 1 - 2.0**-53).double()
    left = FastVerifier("scored_greedy_block").of(from_request(given, most_drafts=8), noise).state
    assert left is not None
    assert left["left"].amax() == 2
    with pytest.raises(InvalidRequest, match=message):
        of("scored_greedy_block", replace(given, state=change(left)), generator)
