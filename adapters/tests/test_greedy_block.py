"""Greedy block verification, iteration after iteration, against the exact reference."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.adapters.fast import TEXTS, FastVerifier
from draftproof.adapters.fast.batch import uniforms
from draftproof.adapters.fast.inputs import InvalidRequest, from_request
from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.observe import EXACT
from draftproof.conformance.protocol.adapter import Request, declaration, program_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements import states
from draftproof.conformance.requirements.finding import PASS
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.rational import rational

VERIFIER = FastVerifier("greedy_block")
DECLARED = declaration(VERIFIER)


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize("task", [*states.tasks(DECLARED, "quick")], ids=lambda task: task.case)
def test_what_is_left_is_repaid(task: Task) -> None:
    (finding,) = task.judge(program_of(VERIFIER), Terms(EXACT, "quick"))
    assert finding.verdict == PASS, finding.detail


# --- iterations of different lengths ---------------------------------------------------------

P = (("7/16", "9/16"), ("1/4", "3/4"), ("5/8", "3/8"), ("1/2", "1/2"), ("5/16", "11/16"))
Q = (("13/16", "3/16"), ("3/4", "1/4"), ("1/4", "3/4"), ("7/8", "1/8"), ("11/16", "5/16"))
"""Rows that depend on how many tokens are written, modulo five. All are exact in float32."""


def table(rows: tuple[tuple[str, ...], ...], first: int, count: int) -> Tensor:
    """Return so many rows [1, 1, count, V] from the first on."""
    taken = (rows[i % len(rows)] for i in range(first, first + count))
    return torch.tensor([[float(rational(weight)) for weight in row] for row in taken])[None, None]


def written(lengths: tuple[int, ...], text: tuple[int, ...], state: Any) -> dict[Any, float]:
    """Return the law of four tokens where the iterations draft so many tokens each."""
    if len(text) >= 4:
        return {text[:4]: 1.0}
    (length, *later), law, done = lengths, dict[Any, float](), len(text)
    q, p = table(Q, done, length), table(P, done, length + 1)
    for path in product(range(2), repeat=length):
        given = Request(torch.tensor([[path]]), q, p, state=state)
        drawn = float(q[0, 0].gather(1, torch.tensor(path)[:, None]).prod())

        def emitted(given: Request = given) -> Any:
            result = VERIFIER.verify(given)
            left = {name: each.flatten() for name, each in (result.state or {}).items()}
            return result.accepted_length, result.next_token, left

        for ((accepted,), (token,), left), weight in exact_law(emitted).law.items():
            tensors = {name: torch.tensor(each)[None] for name, each in left}
            kept = {n: each[..., None] if n != "left" else each for n, each in tensors.items()}
            after = written(tuple(later), (*text, *path[:accepted], token), kept)
            for words, chance in after.items():
                law[words] = law.get(words, 0.0) + drawn * float(weight) * chance
    return law


@pytest.mark.requirement("law.state")
@pytest.mark.parametrize("lengths", [(3, 1, 2, 1), (1, 3, 1, 1)])
def test_the_text_is_the_targets_whatever_each_iteration_drafts(lengths: tuple[int, ...]) -> None:
    """Blocks go on behind shorter ones, also where their bonus would be."""
    law = written(lengths, (), None)
    texts = {
        words: float(table(P, 0, 4)[0, 0].gather(1, torch.tensor(words)[:, None]).prod())
        for words in product(range(2), repeat=4)
    }
    allowed = sum(allowed_distance(DECLARED, 2, 3, before=before) for before in range(4))
    assert sum(abs(law[words] - share) for words, share in texts.items()) / 2 <= float(allowed)


LEFT = {
    "left": torch.tensor([[0, 2]]),
    "target": torch.tensor([[[1.0], [1.0]]], dtype=torch.float64),
    "draft": torch.tensor([[[0.0], [0.5]]], dtype=torch.float64),
}


def undrafted(state: Any) -> Request:
    """Return a request that drafts nothing of three tokens."""
    return Request(
        torch.full((1, 1, 3), -1),
        torch.full((1, 1, 3, 2), torch.nan),
        torch.tensor([0.25, 0.75]).expand(1, 1, 4, 2),
        lengths=torch.tensor([0]),
        state=state,
    )


@pytest.mark.parametrize("name", ["greedy_block", "recursive_greedy_block"])
def test_a_request_that_drafts_nothing_is_refused_where_something_is_left(name: str) -> None:
    """Its token would need a row of the draft."""
    with pytest.raises(InvalidRequest, match=r"lengths\[0\] is 0, but .* must be drafted"):
        FastVerifier(name).verify(undrafted(LEFT))
    over = {**LEFT, "left": torch.zeros(1, 2, dtype=torch.int64)}
    assert FastVerifier(name).verify(undrafted(over)).accepted_length.tolist() == [0]


def test_a_request_that_drafts_nothing_loses_what_is_left_unchecked() -> None:
    """Its token is the target's own, and so is what follows."""
    verifier, given = FastVerifier("greedy_block", checked=False), undrafted(LEFT)
    law = exact_law(lambda: verifier.verify(given).next_token).law
    assert dict(law.items()) == {(0,): rational("1/4"), (1,): rational("3/4")}
    after = verifier.verify(given).state
    assert after is not None
    assert after["left"].tolist() == [[0, 0]]
    assert after["draft"].tolist() == [[[0.0], [0.0]]]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"left": LEFT["left"]}, "state has no 'target'"),
        ({**LEFT, "draft": LEFT["draft"][0]}, r"of one form; got .*'draft' \[2, 1\]"),
        ({n: each.expand(3, *each.shape[1:]) for n, each in LEFT.items()}, "1 requests, got 3"),
    ],
)
def test_a_state_of_other_requests_is_refused(state: Any, message: str) -> None:
    given = Request(torch.zeros(1, 1, 1, dtype=torch.int64), table(Q, 0, 1), table(P, 0, 2))
    with pytest.raises(InvalidRequest, match=message):
        VERIFIER.verify(replace(given, state=state))


def test_ratios_of_long_paths_are_left_as_they_are() -> None:
    """Ten tokens that the target says 2**20 times as often, which float32 has no number for."""
    length, rare = 16, 2.0**-20
    p = torch.tensor([1.0, 0.0]).expand(1, 1, length + 1, 2).clone()
    p[0, 0, 10] = torch.tensor([0.0, 1.0])
    q = torch.tensor([rare, 1 - rare]).expand(1, 1, length, 2)
    result = VERIFIER.verify(Request(torch.zeros(1, 1, length, dtype=torch.int64), q, p))
    assert (result.accepted_length.tolist(), result.next_token.tolist()) == ([10], [1])
    assert result.state is not None
    assert result.state["left"].tolist() == [[0] * 14 + [5]]
    assert result.state["target"][0, -1].tolist() == [1.0]
    assert result.state["draft"][0, -1].tolist() == [rare**10 * (1 - rare)]


# --- Triton ---------------------------------------------------------------------------------


def drawn(count: int, length: int, vocabulary: int, generator: torch.Generator) -> Request:
    """Return requests of rows with zeros, and paths of any length but 0."""

    def some(*shape: int) -> Tensor:
        weights = torch.rand(*shape, vocabulary, generator=generator).pow(4)
        zeros = torch.rand(*shape, vocabulary, generator=generator) < 0.2
        weights = weights.masked_fill(zeros, 0).index_fill(-1, torch.tensor([0]), 0.01)
        return weights / weights.sum(-1, keepdim=True)

    q, p = some(count, 1, length), some(count, 1, length + 1)
    tokens = torch.multinomial(q.flatten(0, 2), 1, generator=generator).view(count, 1, length)
    lengths = torch.randint(1, length + 1, (count,), generator=generator)
    return Request(tokens, q, p, lengths=lengths)


@pytest.mark.requirement("batch.backends")
@pytest.mark.parametrize(("count", "vocabulary"), [(1000, 3), (1000, 7), (3, 5000)])
def test_both_forms_leave_the_same_and_go_on_alike(count: int, vocabulary: int) -> None:
    pytest.importorskip("triton")
    generator = torch.Generator().manual_seed(vocabulary)
    left: Any = None
    for _ in range(3):
        given = from_request(
            replace(drawn(count, 3, vocabulary, generator), state=left), most_drafts=1
        )
        noise = uniforms(count, TEXTS["greedy_block"].noise(1, 3), generator, given.tokens.device)
        one, other = (
            FastVerifier("greedy_block", form=form).of(given, noise) for form in ("torch", "triton")
        )
        is_same = one.accepted_length == other.accepted_length
        # See `test_kernels` for how often a coin falls between two roundings of a threshold.
        assert (~is_same | (one.next_token != other.next_token)).sum() <= 1
        assert one.state is not None
        assert other.state is not None
        for name, each in one.state.items():
            # Factors are sums of float32: they are off by V roundings, and so are their products.
            off = (each - other.state[name])[is_same].abs()
            assert off.max() <= 8 * vocabulary * 2.0**-23
        left = one.state
