"""Runs that are made together come to what each comes to by itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from draftproof.conformance.lanes.exact import _walk, _walks, exact_law, exact_laws
from draftproof.conformance.lanes.exact._errors import NotTogether
from draftproof.conformance.lanes.exact._replay import CompletedRun, Replays
from draftproof.conformance.lanes.exact._run import Run
from draftproof.conformance.lanes.exact._split import Partitions, classes
from draftproof.conformance.lanes.exact._walk import Walk
from draftproof.conformance.lanes.exact._walks import Walks, alike, cloned
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.reference.chance import NondeterministicProgram
from draftproof.reference.rational import Rational, total

MOST_RUNS = 1_000


def told(runs: list[CompletedRun]) -> list[Any]:
    """Return what is to be equal of runs, NaN to NaN: of all that read alike, in their order.

    Runs that go on as one count as many, and come where the first of them does.
    """
    alike: dict[tuple[str, Rational], list[CompletedRun]] = {}
    for run in runs:
        alike.setdefault((repr(run.reading), run.slack), []).append(run)
    return [
        (kind, total(run.probability for run in own), sum(run.count for run in own))
        for kind, own in alike.items()
    ]


def each_by_itself(
    program: Callable[[Any], Any], subjects: list[Any], most_runs: int = MOST_RUNS
) -> list[Any]:
    programs = [partial(of_its_own, program, subject) for subject in subjects]
    return [told(Replays(each, most_runs).runs()) for each in programs]


def of_its_own(program: Callable[[Any], Any], subject: Any) -> Any:
    return program(cloned(subject))


def together(program: Callable[[Any], Any], subjects: list[Any]) -> list[Any]:
    return [told(runs) for runs in Walks(program, subjects, MOST_RUNS).runs()]


# --- programs ------------------------------------------------------------------------------------

P = torch.tensor([0.5, 0.25, 0.25])
Q = torch.tensor([0.25, 0.5, 0.25])


def accepts(p: Tensor) -> Any:
    """Verify two tokens, as token verification does."""
    accepted = (torch.rand(2) < (p / Q)[:2]).long().cumprod(0).sum()
    residual = (p - Q).clamp(min=0)
    rows = torch.stack([residual, residual + P, P])
    return accepted, torch.multinomial(rows[accepted], 1)


def branches(p: Tensor) -> Any:
    for token in range(3):
        if torch.rand(()) < p[token]:
            return token
    return torch.multinomial(p, 1).item()


def writes(p: Tensor) -> Any:
    tokens = torch.full((4,), -1)
    tokens[1:3] = torch.multinomial(p, 2, replacement=True)
    tokens[0] = tokens[1] + 1
    p[tokens[1]] = 0
    torch.add(tokens, 1, out=tokens)
    tokens.masked_fill_(tokens == 0, 7)
    return tokens, (p > 0).sum()


def loops(p: Tensor) -> Any:
    tokens: list[int] = []
    while len(tokens) < 3 and (not tokens or tokens[-1] != 2):
        tokens.append(int(torch.multinomial(p, 1)))
    return tokens


def races(p: Tensor) -> Any:
    winner = (p / torch.empty(3).exponential_()).argmax()
    left = p.index_fill(0, winner, 0)
    return winner, (left / torch.empty(3).exponential_()).topk(2).indices


def of_any_shape(p: Tensor) -> Any:
    kept = torch.rand(3) < p
    found = kept.nonzero()[:, 0]
    return found, found.numel(), p[kept].sum() > 0.5


def raises(p: Tensor) -> Any:
    token = torch.multinomial(p, 1)
    try:
        return torch.zeros(2)[token]
    except IndexError as error:
        return str(error)


def swaps(p: Tensor) -> Any:
    """Write, through a view, to memory that a choice has parted."""
    drawn = torch.multinomial(p, 2)
    rows = torch.stack([p, Q])
    top = rows[0]
    top += drawn[0] / 8
    rows[1, drawn[1]] = 1
    return rows.argmax(1), (rows.T.contiguous() * 8).long()


def guarded(p: Tensor) -> Any:
    noise = -torch.log(-torch.log(torch.rand(3) + 1e-10))
    first = (p.log() + noise).argmax()
    return first, torch.rand(()) < p[first]


def nests(p: Tensor) -> Any:
    counts, tokens = torch.bernoulli(p), torch.randint(0, 3, (2,))
    values, places = torch.stack([counts, p]).sort(1)
    return {"values": values, "places": (places, tokens), "sums": values.sum(1).tolist()}


def in_half(p: Tensor) -> Any:
    return torch.rand(2, dtype=torch.bfloat16) < p.to(torch.bfloat16)[:2], p.half().argmax()


@torch.inference_mode()
def infers(p: Tensor) -> Any:
    accepted = (torch.rand(3) < p).long()
    accepted += 1
    return accepted.cumsum(0), p * accepted


def decides_in_its_own_order(p: Tensor) -> Any:
    """Add two coins, of which the first is one for some p alone, and branch on both."""
    kept, coin = torch.rand(()) < 0.5, torch.rand(()) < 0.5
    total = torch.where(p[0] > 0.3, kept.long(), 0) + coin
    if total.item() and p[0].item() > 0.3:
        return total, kept.long() + 1
    return total, coin, kept.long() + 2


def in_complex_numbers(p: Tensor) -> Any:
    drawn = (torch.rand(2) < 0.25).to(torch.complex128) * (p[:2] + 1j)
    return drawn.tolist(), (drawn + 1)[0].item()


def writes_half(p: Tensor) -> Any:
    """Scatter to places of which the last is none, which fails after it wrote."""
    into = torch.zeros(3) + (torch.rand(()) < 0.5)
    places = torch.stack([torch.randint(0, 2, ()), torch.tensor(1), torch.tensor(7)])
    try:
        into.scatter_(0, places, (torch.rand(3) < p).float())
    except RuntimeError:
        return "failed", into
    return into


def selects_into_itself(p: Tensor) -> Any:
    """Write over every other element what is read there, which torch refuses of one tensor."""
    every = (p[:2] + (torch.rand(2) < 0.5)).repeat_interleave(2)[::2]
    try:
        torch.index_select(every, 0, torch.tensor([1, 0]), out=every)
    except RuntimeError as refused:
        return str(refused)[:40], every
    return every


PROGRAMS = [
    decides_in_its_own_order,
    selects_into_itself,
    in_complex_numbers,
    writes_half,
    accepts,
    branches,
    writes,
    loops,
    races,
    of_any_shape,
    raises,
    swaps,
    guarded,
    nests,
    in_half,
    infers,
]

SUBJECTS = [P, Q, torch.tensor([0.125, 0.125, 0.75]), P.clone()]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_runs_come_to_what_each_comes_to_by_itself(program: Callable[[Any], Any]) -> None:
    assert together(program, SUBJECTS) == each_by_itself(program, SUBJECTS)


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_few_may_go_together(
    program: Callable[[Any], Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftproof.conformance.lanes.exact._walk.MOST_TOGETHER", most)
    monkeypatch.setattr(_walks, "MOST_TOGETHER", most)
    assert together(program, SUBJECTS) == each_by_itself(program, SUBJECTS)


Step = Callable[[list[Tensor]], Any]


def _branch(tensors: list[Tensor]) -> None:
    if (tensors[-1] > 0.25).any():
        tensors.append(tensors[-1] * 2)


def _write(tensors: list[Tensor]) -> None:
    tensors[0][1:] = tensors[-1][:2]


def _add(tensors: list[Tensor]) -> None:
    tensors[-1].add_(tensors[0])


def _swap(tensors: list[Tensor]) -> None:
    tensors[0], tensors[-1] = tensors[-1], tensors[0]


def _branch_on_one(tensors: list[Tensor]) -> None:
    if tensors[-1][0] > 0:
        tensors.append(tensors[-2] + 1)


STEPS: list[Step] = [
    _branch_on_one,
    lambda t: t.append((torch.rand(3) < 0.5).float()),
    lambda t: t.append(torch.where(t[0] > 0.3, t[-1], 0.0)),
    lambda t: t.append(t[-1] + t[-2]),
    lambda t: t.append(t[-2].clone()),
    lambda t: t.insert(0, t.pop()),
    _branch,
    _write,
    _add,
    _swap,
    lambda t: t.append((torch.rand(3) < t[-1]).float()),
    lambda t: t.append((torch.rand(3) < 0.5).float() * t[-1]),
    lambda t: t.append(torch.where(torch.rand(3) < 0.25, t[-1], t[0])),
    lambda t: t.append(t[-1].clamp(0, 1).cumsum(0) / 4),
    lambda t: t.append(t[-1].flip(0)),
    lambda t: t.append(t[0].expand(2, 3)[1]),
    lambda t: t.append(t[-1][torch.multinomial(t[-1].abs() + 0.25, 3, replacement=True)]),
    lambda t: t.append(torch.zeros(3).index_fill_(0, t[-1].argmax(), 1.0)),
    lambda t: t.append(torch.stack([t[-1], t[0]]).sort(0).values[0]),
    lambda t: t.append(torch.cat([t[-1][t[-1] > 0], t[0]])[:3]),
    lambda t: torch.sub(t[-1], t[0], out=t[-1]),
    lambda t: t[-1].item() if t[-1].dim() == 0 else t[-1].tolist(),
    lambda t: t[0].copy_(t[-1].detach()),
    lambda t: t.append(torch.tensor([float(x) for x in t[-1]])),
]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(range(len(STEPS))), min_size=2, max_size=7))
def test_any_program_comes_to_the_same(steps: list[int]) -> None:
    def program(p: Tensor) -> Any:
        tensors = [p, p.clone()]
        for step in steps:
            STEPS[step](tensors)
        return tensors[-1], tensors[-2], tensors[0]

    subjects = [Q, P, Q.clone()]
    try:
        wanted = each_by_itself(program, subjects, 100)
    except Exception as refused:
        with pytest.raises(type(refused)):
            exact_laws(program, subjects, most_runs=100)
        return
    assert together(program, subjects) == wanted


# --- runs that go on as one ----------------------------------------------------------------------


@dataclass
class Held:
    """The memory of a program, which forgets how it came to it."""

    noise: Tensor
    clocks: Tensor
    coin: Tensor
    state: Tensor
    kept: list[Any]


def _coin(held: Held, number: int, edge: float) -> None:
    held.state = torch.where(held.noise[number % 3] < edge, held.state + 1, held.state)


def _coin_of_state(held: Held, number: int, edge: float) -> None:
    held.state = (held.noise[number % 3] < edge * (1 + held.state) / 2).long() + held.state


def _toss(held: Held, number: int, edge: float) -> None:
    held.state = held.state * (1 + held.coin)


def _forget(held: Held, number: int, edge: float) -> None:
    held.state = held.state % (1 + number % 3)


def _draw(held: Held, number: int, edge: float) -> None:
    below = torch.tensor([edge / 2, edge])
    held.kept.append((held.noise[number % 3] > below + held.state / 8).sum() + number)


def _race(held: Held, number: int, edge: float) -> None:
    winner = (torch.tensor([edge, 1 - edge, 0.5]) / held.clocks).argmax()
    held.state = (held.state + winner) % 2


def _look(held: Held, number: int, edge: float) -> None:
    if held.state > number % 3:
        held.kept.append(number)
        held.state = held.state * 0


def _read(held: Held, number: int, edge: float) -> None:
    if held.kept:
        held.state = held.state + torch.as_tensor(held.kept[number % len(held.kept)]) % 2


ASKED = [_coin, _coin_of_state, _toss, _forget, _draw, _race, _look, _read]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(ASKED), st.integers(0, 5), st.sampled_from([0.25, 0.5, 0.75])),
        min_size=2,
        max_size=8,
    )
)
def test_runs_that_forget_how_they_came_go_on_as_one(steps: list[tuple[Any, int, float]]) -> None:
    def program(p: Tensor) -> Any:
        clocks = torch.empty(3).exponential_()
        held = Held(torch.rand(3), clocks, torch.bernoulli(p[0]), torch.tensor(0), [])
        for step, number, edge in steps:
            step(held, number, edge)
        return held.state, held.kept

    subjects = [Q, P]
    try:
        wanted = each_by_itself(program, subjects)
    except Exception as refused:
        with pytest.raises(type(refused)):
            exact_laws(program, subjects, most_runs=MOST_RUNS)
        return
    assert together(program, subjects) == wanted


def counts_coins(p: Tensor) -> Any:
    """Count six coins: 64 runs, which stand at seven numbers at most."""
    coins, count = torch.rand(6), torch.tensor(0)
    for i in range(6):
        count = count + (coins[i] < p[0])
    return count, coins


def test_runs_of_one_memory_are_few() -> None:
    (runs,) = Walks(lambda p: counts_coins(p)[0], [Q], MOST_RUNS).runs()
    assert [run.count for run in runs] == [1, 6, 15, 20, 15, 6, 1]
    assert total(run.probability for run in runs) == 1


def test_runs_that_a_look_leaves_behind_go_on_as_one_again() -> None:
    def program(p: Tensor) -> Any:
        count, _ = counts_coins(p)
        return "odd" if count % 2 else "even"

    (runs,) = Walks(program, [Q], MOST_RUNS).runs()
    assert [run.count for run in runs] == [32, 32]
    assert together(program, [P, Q]) == each_by_itself(program, [P, Q])


def test_runs_that_know_other_things_part_where_it_matters() -> None:
    def program(p: Tensor) -> Any:
        count, coins = counts_coins(p)
        return count, coins[5] < 0.75 * p[0]

    (runs,) = Walks(program, [Q], MOST_RUNS).runs()
    # After 0 to 5 heads of five coins, the last one is below a quarter, or it is not.
    assert sorted(run.count for run in runs) == [1, 1, 1, 1, 5, 5, 5, 5, 10, 10, 10, 10]
    assert together(program, [P, Q]) == each_by_itself(program, [P, Q])


def test_one_of_the_runs_that_another_leads_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: runs go on as one whatever they have in memory."""

    def product(self: Partitions, factors: Any) -> Any:
        return (0,) * len(factors[0]), [0]

    def join(self: Walk, *given: Any) -> Any:
        with monkeypatch.context() as within:
            within.setattr(Partitions, "product", product)
            return joined(self, *given)

    joined = Walk._join
    monkeypatch.setattr(Walk, "_join", join)
    with pytest.raises(OpaqueRandomness, match="in another with the same random choices"):
        exact_law(lambda: counts_coins(Q)[0])


def test_what_runs_know_is_no_longer_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a number that runs know otherwise is asked about, and they do not part."""
    monkeypatch.setattr("draftproof.conformance.lanes.exact._run._differing", lambda *_: set())

    def program() -> Any:
        count, coins = counts_coins(Q)
        return count, coins[5] < 0.5

    with pytest.raises((NondeterministicProgram, OpaqueRandomness)):
        exact_law(program)


# --- what outlives a run -------------------------------------------------------------------------


def test_a_choice_that_is_kept_is_noticed() -> None:
    kept: list[Tensor] = []

    def program() -> Any:
        if not kept:
            kept.append((torch.rand(2) < 0.5).long().cumsum(0))
        return kept[0].clone()

    with pytest.raises(NondeterministicProgram):
        exact_law(program)


def test_a_number_that_is_kept_is_noticed() -> None:
    kept: list[bool] = []

    def program() -> Any:
        if not kept:
            kept.append(bool(torch.rand(()) < 0.5))
        return kept[0]

    with pytest.raises(NondeterministicProgram):
        exact_law(program)


def test_noise_that_is_kept_is_noticed() -> None:
    kept: list[Tensor] = []

    def program() -> Any:
        if not kept:
            kept.append(torch.rand(2))
        return kept[0] < 0.5

    with pytest.raises(OpaqueRandomness, match="drawn in an earlier call"):
        exact_law(program)


def test_what_nobody_looked_at_and_is_kept_is_noticed() -> None:
    """Where it differs between subjects, too."""
    kept: list[Tensor] = []

    def program(p: Tensor) -> Any:
        if not kept:
            kept.append(torch.multinomial(p, 1))
        return kept[0]

    with pytest.raises(OpaqueRandomness, match="drawn in an earlier call"):
        exact_laws(program, [P, Q])


def test_what_is_kept_has_what_the_first_run_had() -> None:
    """Nobody finds memory that no run has had."""
    kept: list[Tensor] = []

    def program(p: Tensor) -> Any:
        token = torch.multinomial(p, 1)
        kept[:] = [p[token] * 2, token + 0]
        return token

    laws = exact_laws(program, [P, Q])
    assert [str(law.law[(0,)]) for law in laws] == ["1/2", "1/4"]
    assert all(bool(each.isfinite().all()) and bool((each >= 0).all()) for each in kept)


def test_a_count_of_calls_is_noticed() -> None:
    calls: list[int] = []

    def program(p: Tensor) -> Any:
        calls.append(1)
        return torch.rand(()) < p[0], len(calls) > 1

    with pytest.raises(OpaqueRandomness, match="with the same random choices"):
        exact_laws(program, [P, Q])


# --- what is not done together -------------------------------------------------------------------


def normalized(p: Tensor, u: Tensor) -> Any:
    """Normalize a batch, which writes running averages that no schema tells of."""
    mean, variance = torch.zeros(3), torch.ones(3)
    rows = torch.stack([p, 2 * p])
    torch.native_batch_norm(rows, None, None, mean, variance, True, 0.5, 1e-5)
    return u < mean[0]


def set_to(p: Tensor, u: Tensor) -> Any:
    into: Any = torch.zeros(3)
    into.set_(p)
    return u < into


def nested(p: Tensor) -> Any:
    try:
        return torch.nested.nested_tensor([p])[0] > 0.3, torch.rand(()) < 0.5
    except Exception:
        return "caught"


def conjugated(p: Tensor, u: Tensor) -> Any:
    both = torch.complex(p, p) * (u < 0.5)
    return both.conj().imag.tolist()


def written_outside_of_inference_mode(p: Tensor, u: Tensor) -> Any:
    with torch.inference_mode():
        into = p + (u < 0.5)
    try:
        into.add_(1)
    except RuntimeError:
        return "refused", into
    return into


@pytest.mark.parametrize(
    "program",
    [
        lambda p: p[torch.multinomial(p, 1)].numpy().tolist(),
        lambda p: f"{torch.multinomial(p, 1)}",
        lambda p: torch.rand(()).item() < p[0].item(),
        lambda p: (torch.rand(3) < p).view(torch.uint8).float() + 1,
        lambda p: torch.empty(0).resize_(3).copy_(torch.bernoulli(p)).resize_(2) + 1,
        lambda p: normalized(p, torch.rand(())),
        lambda p: set_to(p, torch.rand(3)),
        lambda p: nested(p),
        lambda p: conjugated(p, torch.rand(())),
        lambda p: written_outside_of_inference_mode(p, torch.rand(())),
        lambda p: ((p + (torch.rand(()) < 0.5)).requires_grad_() * 2).requires_grad,
    ],
    ids=[
        "numpy",
        "format",
        "item",
        "bits",
        "resized",
        "hidden writes",
        "set",
        "not dense",
        "conjugates",
        "inference mode",
        "gradients",
    ],
)
def test_what_cannot_go_together_goes_alone(program: Callable[[Any], Any]) -> None:
    alone = each_by_itself(program, [P, Q])
    with pytest.raises((NotTogether, OpaqueRandomness)):
        Walks(program, [P, Q], MOST_RUNS).runs()
    for law, runs in zip(exact_laws(program, [P, Q]), alone, strict=True):
        assert law.runs == sum(count for *_, count in runs)


def test_a_program_may_not_catch_the_end_of_a_walk() -> None:
    def program(p: Tensor) -> Any:
        token = torch.multinomial(p, 1)
        try:
            return p[token].numpy() > 0.25
        except Exception:
            return "caught"

    with pytest.raises(NotTogether, match="reads what differs between runs"):
        Walks(program, [P, Q], MOST_RUNS).runs()
    assert set(exact_laws(program, [P, Q])[0].law) == {(True,), (False,)}


# --- subjects --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    rows: Tensor
    names: dict[str, Tensor]
    size: int


@dataclass(frozen=True)
class Loose:
    """What equals everything of its kind."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose)

    def __hash__(self) -> int:
        return 0


class Pair(NamedTuple):
    """Two rows."""

    target: Tensor
    draft: Tensor


@dataclass
class Computing:
    """What computes something of its row at once, and something when it is asked."""

    row: Tensor

    def __post_init__(self) -> None:
        self.least = float(self.row.min())


@dataclass
class Remembering:
    row: Tensor

    @cached_property
    def least(self) -> float:
        return float(self.row.min())


class Slotted:
    __slots__ = ("least",)


@dataclass
class InSlots(Slotted):
    row: Tensor

    def __post_init__(self) -> None:
        self.least = float(self.row.min())


@dataclass
class Listing(list[float]):
    row: Tensor

    def __post_init__(self) -> None:
        self.append(float(self.row.min()))

    @property
    def least(self) -> float:
        return self[0]


class Mapped(dict[str, Tensor]):
    def __init__(self, row: Tensor) -> None:
        super().__init__(row=row)
        self.least = float(row.min())


class Keyed(NamedTuple):
    row: Tensor


class Paired(Keyed):
    least: float


def of_row(kind: Any, row: Tensor) -> Any:
    subject = kind(row)
    if kind is Paired:
        subject.least = float(row.min())
    assert subject.least == row.min()
    return subject


@pytest.mark.parametrize("kind", [Computing, Remembering, InSlots, Listing, Mapped, Paired])
def test_what_keeps_more_than_its_parts_is_like_nothing_else(kind: Any) -> None:
    subjects = [of_row(kind, torch.tensor([x, 1.0])) for x in (0.25, 0.25, 0.5)]
    laws = exact_laws(lambda subject: torch.rand(()) < subject.least, subjects)
    assert alike(subjects) == [[0], [1], [2]]
    assert [str(each.law[True]) for each in laws] == ["1/4", "1/4", "1/2"]


def test_what_makes_missing_values_or_has_tensors_for_keys_is_like_nothing_else() -> None:
    assert alike([defaultdict(int, row=P), defaultdict(float, row=P)]) == [[0], [1]]
    assert alike([{torch.tensor(x): P} for x in range(2)]) == [[0], [1]]


def test_a_named_tuple_is_copied() -> None:
    copy = cloned(Pair(P, Q))
    assert isinstance(copy, Pair)
    assert torch.equal(copy.draft, Q)
    assert copy.draft is not Q


def test_subjects_may_be_nests() -> None:
    def program(asked: Asked) -> Any:
        return torch.rand(()) < asked.rows[0, 1], asked.names["q"].sum() > 1, asked.size

    subjects = [
        Asked(row[None, :].expand(2, 3), {"q": row * size}, size)
        for row in (P, Q)
        for size in (1, 2)
    ]
    assert alike(subjects) == [[0, 2], [1, 3]]
    found = [{key: str(w) for key, w in law.law.items()} for law in exact_laws(program, subjects)]
    assert found == [
        {(True, False, 1): "1/4", (False, False, 1): "3/4"},
        {(True, True, 2): "1/4", (False, True, 2): "3/4"},
        {(True, False, 1): "1/2", (False, False, 1): "1/2"},
        {(True, True, 2): "1/2", (False, True, 2): "1/2"},
    ]


@pytest.mark.parametrize(
    "others",
    [
        (0.0, -0.0),
        (True, 1),
        (Decimal("1.0"), Decimal("1.00")),
        ({True: 1}, {1: 1}),
        (("a", None), ("a", 0)),
        (Loose("x"), Loose("y")),
    ],
    ids=repr,
)
def test_subjects_that_are_equal_and_not_the_same_are_not_alike(others: tuple[Any, Any]) -> None:
    assert alike([(P, others[0]), (Q, others[1])]) == [[0], [1]]


@pytest.mark.parametrize(
    "tensors",
    [
        [torch.inference_mode()(P.clone)(), torch.inference_mode()(Q.clone)()],
        [P.clone().requires_grad_(), Q.clone().requires_grad_()],
        [torch.complex(P, P).conj(), torch.complex(Q, Q).conj()],
        [P.to_sparse(), Q.to_sparse()],
        [torch.nn.Parameter(P), torch.nn.Parameter(Q)],
        [(row, row[1:]) for row in (P.clone(), Q.clone())],
    ],
    ids=["inference mode", "gradients", "conjugates", "not dense", "a class", "shared memory"],
)
def test_special_tensors_are_not_alike(tensors: list[Any]) -> None:
    assert alike(tensors) == [[0], [1]]


def test_copies_share_memory_as_their_originals_do() -> None:
    row, rest, bits = cloned((P, P[1:], P.view(torch.int32)))
    row[1] = 7
    assert rest[0] == 7
    assert bits[1] == torch.tensor(7.0).view(torch.int32)
    assert P[1] == 0.25


@pytest.mark.parametrize(
    "given",
    [
        {"p": P, "seen": []},
        {"p": P, "seen": {}},
        {"p": P, "seen": set()},
        {"p": P, "seen": numpy.zeros(1)},
        defaultdict[str, Any](list, p=P),
    ],
    ids=["list", "dictionary", "set", "array", "default"],
)
def test_a_program_that_notes_what_it_saw_notes_it_in_a_copy(given: dict[str, Any]) -> None:
    def program(own: dict[str, Any]) -> Any:
        token, seen = int(torch.multinomial(own["p"], 1)), own["seen"]
        if isinstance(seen, list):
            seen.append(token)
        elif isinstance(seen, dict):
            seen[len(seen)] = token
        elif isinstance(seen, set):
            seen.add(token)
        else:
            seen += 1 + token
        return seen

    before = repr(given)
    (found,) = exact_laws(program, [given])
    assert [str(weight) for _, weight in sorted(found.law.items())] == ["1/2", "1/4", "1/4"]
    assert repr(given) == before


def test_a_program_may_write_to_its_subject() -> None:
    subjects = [P.clone(), Q.clone()]

    def program(p: Tensor) -> Any:
        p[torch.multinomial(p, 1)] = 2
        return p

    exact_laws(program, subjects)
    assert torch.equal(subjects[0], P)
    assert torch.equal(subjects[1], Q)


def test_what_a_subject_raises_is_raised() -> None:
    def program(p: Tensor) -> Any:
        if p[0] < 0.5:
            raise ValueError(f"p is {p.tolist()}")
        return torch.rand(()) < 0.5

    with pytest.raises(ValueError, match=r"p is \[0.25, 0.5, 0.25\]"):
        exact_laws(program, [P, Q])


# --- faults --------------------------------------------------------------------------------------


def test_a_walk_that_mixes_runs_up_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    product = Partitions.product

    def of_the_first(self: Partitions, factors: Any) -> Any:
        of, first = product(self, factors)
        return of, [first[0]] * len(first)

    monkeypatch.setattr(Partitions, "product", of_the_first)
    with pytest.raises((OpaqueRandomness, NondeterministicProgram), match=r"the same.* choices"):
        Walks(accepts, SUBJECTS, MOST_RUNS).runs()


def test_a_choice_that_is_decided_for_all_runs_alike_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def alike(run: Run, was: int, key: int | None, values: Any) -> Any:
        return become(run, was, key, dict.fromkeys(values, 0))

    become = _walk._DecidedRun
    monkeypatch.setattr(_walk, "_DecidedRun", alike)
    with pytest.raises(OpaqueRandomness, match="with the same random choices"):
        Walks(swaps, [P], MOST_RUNS).runs()


def test_classes_are_numbered_as_they_are_met() -> None:
    assert classes("abacb") == ((0, 1, 0, 2, 1), [0, 1, 3])
    assert classes([]) == ((), [])


def test_products_are_as_fine_as_all_factors() -> None:
    partitions = Partitions()
    one, other = partitions.one((0, 0, 1, 1)), partitions.one((0, 1, 0, 1))
    assert partitions.product([one, other]) == ((0, 1, 2, 3), [0, 1, 2, 3])
    assert partitions.product([one, one])[0] is one
