"""One draw, or one verification, written in every style: the same law comes out of each."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import warnings
from bisect import bisect
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from io import BytesIO
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from draftproof.conformance.lanes.exact import (
    OpaqueRandomness,
    TooManyRuns,
    _draws,
    _interpreter,
    exact_law,
    row_law,
)
from draftproof.conformance.lanes.exact._errors import NotTogether
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._walk import Walk
from draftproof.conformance.lanes.exact._walks import Walks
from draftproof.reference.law import Law
from draftproof.reference.rational import ZERO, Rational, exactly, rational, total

Program = Callable[[], Any]

# A theorem has no unlucky seeds, so every run may try the same programs.
exact = settings(derandomize=True, deadline=None, max_examples=60)

# Weights that floats hold exactly, and whose partial sums they hold exactly.
WEIGHTS = tensor([0.125, 0.25, 0.625])
ROW = WEIGHTS[None]
DRAW = {0: rational("1/8"), 1: rational("1/4"), 2: rational("5/8")}

# float32 logarithms of WEIGHTS are off by at most 2**-24 * log 8 < 2**-22, so are the logarithms
# of the rates that they stand for, and the law is off by no more than its largest rate.
LOGARITHM_ERROR = rational("1/4194304")


def law(program: Program) -> Law[Any]:
    return exact_law(program).law


def weights_of(program: Program) -> dict[Any, str]:
    return {outcome: str(weight) for outcome, weight in law(program).items()}


def exponential() -> Tensor:
    return torch.empty_like(WEIGHTS).exponential_()


def by_item() -> int:
    u = torch.rand(1).item()
    return next(i for i, edge in enumerate(WEIGHTS.cumsum(0).tolist()) if u < edge)


def by_a_parameter() -> Any:
    weights = torch.nn.Parameter(WEIGHTS, requires_grad=False)
    assert weights.device == weights.data.device
    return torch.multinomial(weights.view(1, -1).detach(), 1)[0, 0].to(weights.device)


def by_tensor_loop() -> int:
    u, edge = torch.rand(()), torch.zeros(())
    for token, weight in enumerate(WEIGHTS):
        edge = edge + weight
        if u < edge:
            return token
    return 2


def by_in_place_race() -> Tensor:
    noise = torch.empty_like(WEIGHTS)
    noise.exponential_(1)
    return WEIGHTS.clone().div_(noise).argmax(dim=-1)


def by_out_race() -> Tensor:
    noise = exponential()
    torch.div(WEIGHTS, noise, out=noise)
    return noise.argmax()


def by_keys() -> Tensor:
    """Return the largest of u ** (1 / w) (Efraimidis and Spirakis), w being powers of two here."""
    return (torch.rand(2) ** (1 / tensor([0.25, 0.75]))).argmax()


def by_inference() -> Tensor:
    with torch.inference_mode():
        return (ROW / torch.empty_like(ROW).exponential_()).argmax(-1)[0]


def by_vmap() -> Tensor:
    drawn: Tensor = torch.vmap(lambda w, u: (w.cumsum(0) < u).sum())(ROW, torch.rand(1))
    return drawn[0]


GENERATOR = torch.Generator()

DRAWS: dict[str, Program] = {
    "multinomial": lambda: torch.multinomial(WEIGHTS, 1)[0],
    "multinomial, a row": lambda: torch.multinomial(ROW, 1)[0, 0],
    "multinomial, not normalised": lambda: torch.multinomial(WEIGHTS * 8, 1)[0],
    "multinomial, a generator": lambda: torch.multinomial(WEIGHTS, 1, generator=GENERATOR)[0],
    "multinomial, out=": lambda: torch.multinomial(
        WEIGHTS, 1, out=torch.empty(0, dtype=torch.int64)
    )[0],
    "multinomial, into a list": lambda: torch.LongTensor([torch.multinomial(WEIGHTS, 1)[0]])[0],
    "categorical": lambda: torch.distributions.Categorical(WEIGHTS).sample(),  # type: ignore[no-untyped-call]  # torch is
    "race": lambda: (WEIGHTS / exponential()).argmax(),
    "race, smallest": lambda: (exponential() / WEIGHTS).argmin(),
    "race, max": lambda: (WEIGHTS / exponential()).max(-1).indices,
    "race, topk": lambda: (WEIGHTS / exponential()).topk(1).indices[0],
    "race, argsort": lambda: (WEIGHTS / exponential()).argsort(descending=True)[0],
    "race, in place": by_in_place_race,
    "race, out=": by_out_race,
    "race, another rate": lambda: (WEIGHTS / torch.empty(3).exponential_(0.5)).argmax(),
    "race, own logarithm": lambda: (WEIGHTS / -torch.rand(3).log()).argmax(),
    "race, log1p": lambda: (WEIGHTS / -torch.log1p(-torch.rand(3))).argmax(),
    "race, in inference mode": by_inference,
    "cdf < u": lambda: (WEIGHTS.cumsum(0) < torch.rand(1)).sum(),
    "u > cdf": lambda: (torch.rand(1) > WEIGHTS.cumsum(0)).sum(),
    "cdf <= 1 - u": lambda: (WEIGHTS.cumsum(0) <= 1 - torch.rand(1)).sum(),
    "cdf, scaled by the mass": lambda: ((WEIGHTS * 4).cumsum(0) <= torch.rand(()) * 4).sum(),
    "cdf, argmax": lambda: (WEIGHTS.cumsum(0) > torch.rand(1)).int().argmax(),
    "cdf, nonzero": lambda: (WEIGHTS.cumsum(0) > torch.rand(1)).nonzero()[0, 0],
    "cdf, vmap": by_vmap,
    "searchsorted": lambda: torch.searchsorted(WEIGHTS.cumsum(0), torch.rand(())),
    "searchsorted, right": lambda: torch.searchsorted(ROW.cumsum(-1), torch.rand(1, 1), right=True)[
        0, 0
    ],
    "bucketize": lambda: torch.bucketize(torch.rand(()), WEIGHTS.cumsum(0)),
    "bisect": lambda: bisect(WEIGHTS.cumsum(0).tolist(), torch.rand(1).item()),
    "item": by_item,
    "a loop of tensors": by_tensor_loop,
    "a parameter": by_a_parameter,
}


@pytest.mark.parametrize("program", DRAWS.values(), ids=DRAWS)
def test_a_draw_has_its_exact_law(program: Program) -> None:
    observed = exact_law(program)
    assert dict(observed.law.items()) == DRAW
    assert observed.slack == 0


LOGARITHMS: dict[str, Program] = {
    "gumbel": lambda: (WEIGHTS.log() - torch.log(-torch.log(torch.rand(3)))).argmax(),
    "gumbel of a clock": lambda: (WEIGHTS.log() - exponential().log()).argmax(),
    "logarithm of a race": lambda: (WEIGHTS / exponential()).log().argmax(),
    "both guards": lambda: (
        WEIGHTS.log() - torch.log(-torch.log(torch.rand(3) + 1e-10) + 1e-10)
    ).argmax(),
    "inner guard": lambda: (WEIGHTS.log() - (-(torch.rand(3) + 1e-10).log()).log()).argmax(),
    "clamp": lambda: (WEIGHTS.log() - (-torch.rand(3).clamp(min=1e-9).log()).log()).argmax(),
    "distributions": lambda: (
        (
            WEIGHTS.log() + torch.distributions.Gumbel(0.0, 1.0).sample((3,))  # type: ignore[no-untyped-call]  # torch is
        ).argmax()
    ),
    "temperature": lambda: ((WEIGHTS.log() - torch.log(-torch.log(torch.rand(3)))) / 0.7).argmax(),
}


@pytest.mark.parametrize("program", LOGARITHMS.values(), ids=LOGARITHMS)
def test_a_gumbel_draw_has_its_law_up_to_the_rounding_of_the_logits(program: Program) -> None:
    observed = exact_law(program)
    assert observed.law.total_variation(Law(DRAW)) < LOGARITHM_ERROR
    assert observed.slack < rational("1/1000000")


def test_keys_are_a_race() -> None:
    assert law(by_keys).total_variation(Law({0: rational("1/4"), 1: rational("3/4")})) < rational(
        "1/10000000"
    )


IMPOSSIBLE: dict[str, Program] = {
    "multinomial": lambda: torch.multinomial(tensor([0.0, 0.25, 0.75]), 1)[0],
    "race": lambda: (tensor([0.0, 0.25, 0.75]) / exponential()).argmax(),
    "race, guarded": lambda: (tensor([0.0, 0.25, 0.75]) / exponential().clamp(min=1e-9)).argmax(),
    "smallest": lambda: (exponential() / tensor([0.0, 0.25, 0.75])).argmin(),
    "cdf": lambda: (tensor([0.0, 0.25, 1.0]) < torch.rand(1)).sum(),
}


@pytest.mark.parametrize("program", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_weight_of_zero_is_never_drawn(program: Program) -> None:
    assert weights_of(program) == {1: "1/4", 2: "3/4"}


def test_a_logit_of_minus_infinity_is_never_drawn() -> None:
    logits = tensor([-torch.inf, 0.0, 0.0])
    assert weights_of(lambda: (logits - exponential().log()).argmax()) == {1: "1/2", 2: "1/2"}


def by_compiled_program() -> Any:
    listed = torch.jit.CompilationUnit(
        """
        def listed(tokens: Tensor) -> List[int]:
            numbers: List[int] = tokens.tolist()
            return numbers
        """
    ).listed
    return listed(torch.randint(2, (3,)))


def by_places() -> Any:
    split = torch.ops.aten.tensor_split.tensor_indices_or_sections
    return split(torch.arange(4), torch.randint(2, (2,)))


def beyond_what_is_lent() -> Any:
    tokens = torch.multinomial(WEIGHTS, 2)
    return numpy.lib.stride_tricks.as_strided(tokens[:1].numpy(), (2,)).copy()


UNSEEN: dict[str, Program] = {
    "a list that a compiled program makes": by_compiled_program,
    "places to split at": by_places,
    "memory beyond what is lent": beyond_what_is_lent,
}


@pytest.mark.parametrize("program", UNSEEN.values(), ids=UNSEEN)
def test_memory_read_past_the_operators_does_not_pass_for_a_choice(program: Program) -> None:
    with pytest.raises(
        OpaqueRandomness, match=r"something that the exact lane does not see|in a script"
    ):
        exact_law(program)


def test_the_zero_of_noise_has_its_sign() -> None:
    assert weights_of(lambda: torch.signbit(-torch.rand(1) * 0.0)) == {(True,): "1"}
    assert weights_of(lambda: torch.signbit(tensor([-0.0]) / torch.rand(1))) == {(True,): "1"}
    assert weights_of(lambda: torch.signbit(torch.rand(1) / -torch.inf)) == {(True,): "1"}


@pytest.mark.parametrize("is_together", [True, False])
@pytest.mark.parametrize("blind", [0, 1, 3])
def test_a_branch_that_goes_alone_is_made_again(
    monkeypatch: pytest.MonkeyPatch, blind: int, *, is_together: bool
) -> None:
    def program() -> Any:
        branch = torch.randint(5, (1,)).item()
        return by_places() if branch == blind else branch

    def refuse(_: Walks) -> None:
        raise NotTogether("go together")

    if not is_together:
        monkeypatch.setattr(Walks, "runs", refuse)
    with pytest.raises(OpaqueRandomness, match="something that the exact lane does not see"):
        exact_law(program)


WIDE = torch.float64


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda u: torch.add(tensor([0.1], dtype=WIDE), u, alpha=0), 0.1),
        (lambda u: torch.sub(tensor([0.1], dtype=WIDE), u, alpha=0), 0.1),
        (lambda u: torch.rsub(u, tensor([0.1], dtype=WIDE), alpha=0), 0.1),
        (lambda u: 1 / torch.sub(tensor([-0.0], dtype=WIDE), u, alpha=0), math.inf),
        (lambda u: 1 / torch.sub(tensor([-0.0], dtype=WIDE), u, alpha=0.0), -math.inf),
        (lambda u: 1 / torch.rsub(u, tensor([-0.0], dtype=WIDE), alpha=0), math.inf),
    ],
)
def test_a_constant_is_what_torch_computes(
    program: Callable[[Tensor], Tensor], expected: float
) -> None:
    assert program(tensor([0.5], dtype=WIDE)).item() == expected
    assert weights_of(lambda: program(torch.rand(1, dtype=WIDE))) == {(expected,): "1"}


CASTS: list[Callable[[Tensor], Any]] = [
    lambda k: (k + 2**24).float().long(),
    lambda k: (k * 2**24 + 1).float().long(),
    lambda k: (k + 2**31 - 2).int().long(),
    lambda k: (k + 2**31 - 2).int(),
    lambda k: (k + 2**31 - 2).int() + 1,
    lambda k: (k + 2**53).double().long(),
    lambda k: torch.zeros(1, dtype=torch.int32).fill_((k + 2**31 - 2)[0].int()),
    lambda k: torch.zeros(1, dtype=torch.int32).copy_(k + 2**31 - 2),
    lambda k: torch.zeros(1).copy_(k + 2**24).long(),
    lambda k: put(torch.zeros(2), k + 2**24).long(),
    lambda k: (k * 200).to(torch.int8).long(),
    lambda k: k.bool(),
    lambda k: (k + 255).bfloat16().long(),
    lambda k: (k - 1).to(torch.uint8).long(),
    lambda k: (k.int() * 2**30).float(),
    lambda k: (k.float() + 2**24).long(),
]


def put(memory: Tensor, value: Tensor) -> Tensor:
    memory[0] = value
    return memory


@pytest.mark.parametrize("program", CASTS)
def test_a_choice_is_cast_as_torch_casts_it(program: Callable[[Tensor], Any]) -> None:
    expected: dict[Any, Rational] = {}
    for k in range(3):
        outcome = tuple(program(tensor([k])).tolist())
        expected[outcome] = expected.get(outcome, ZERO) + rational("1/3")
    assert law(lambda: program(torch.randint(3, (1,)))) == Law(expected)


def test_a_choice_that_fits_is_cast_as_it_is() -> None:
    def program() -> Tensor:
        return ((torch.randint(1000, (1,)) * 3).float().int() + 1).double()

    assert (exact_law(program).runs, len(law(program))) == (1, 1000)


def test_an_error_in_an_integer_is_none_of_the_programs() -> None:
    def program() -> int:
        try:
            return int(torch.randint(2**31 - 1, 2**31 + 1, (1,)).int())
        except RuntimeError:
            return 0

    assert weights_of(program) == {2**31 - 1: "1/2", -(2**31): "1/2"}


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(
    "program",
    [lambda k, dtype: k.to(dtype), lambda k, dtype: torch.zeros(1, dtype=dtype).copy_(k)],
    ids=["cast", "copy"],
)
def test_a_choice_is_made_where_torch_can_do_little(
    program: Callable[[Tensor, torch.dtype], Tensor], name: str
) -> None:
    found = law(lambda: program(torch.randint(3, (1,)), getattr(torch, name)).double())
    assert found == Law({(float(k),): rational("1/3") for k in range(3)})


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda: torch.searchsorted(torch.empty(0), torch.rand(1)), (0,)),
        (lambda: torch.bucketize(torch.rand(1), torch.empty(0)), (0,)),
        (lambda: torch.searchsorted(torch.empty(2, 0), torch.rand(2, 1)), ((0,), (0,))),
        (lambda: torch.searchsorted(torch.empty(0, 3), torch.rand(0, 1)), ()),
    ],
)
def test_no_edge_is_passed_where_there_is_none(program: Program, expected: Any) -> None:
    assert weights_of(program) == {expected: "1"}


def test_an_image_of_thousands_of_images_is_a_row() -> None:
    def program() -> Tensor:
        x = torch.randint(3, (1,))
        for _ in range(2000):
            x = x + 1
        return x.float()

    assert weights_of(program) == {(2000.0,): "1/3", (2001.0,): "1/3", (2002.0,): "1/3"}


def caught(program: Callable[[], object]) -> Program:
    """Return a program that returns what it hears of an error."""

    def catching() -> str:
        try:
            program()
        except Exception as error:
            return str(error)
        return "it went"

    return catching


@pytest.mark.parametrize("of_several", [False, True])
@pytest.mark.parametrize("error", [RuntimeError, ValueError, RecursionError, KeyError])
@pytest.mark.parametrize("method", ["_bin", "settle"])
def test_an_error_of_the_lane_is_none_of_torchs(
    monkeypatch: pytest.MonkeyPatch, method: str, error: type[Exception], *, of_several: bool
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error("the lane's own")

    if method == "settle":
        monkeypatch.setattr(Identities, "settle", fail)
        monkeypatch.setattr(Walk, "_decide", fail)
    else:
        monkeypatch.setitem(_interpreter._FOLLOWED, "searchsorted", fail)

    def program() -> Any:
        searched = torch.searchsorted(WEIGHTS, torch.rand(1))
        if of_several:
            return searched + 1 if torch.rand(1) < 0.5 else searched
        return searched.item()

    with pytest.raises(OpaqueRandomness, match=r"could not be followed: .*the lane's own"):
        exact_law(caught(program))


@pytest.mark.parametrize(
    "program",
    [
        lambda: torch.rand(2) + torch.ones(3),
        lambda: torch.rand(2).mul_(torch.ones(3)),
        lambda: torch.rand(2) < torch.ones(3),
        lambda: torch.rand(2).view(3),
        lambda: torch.rand(2)[5],
        lambda: torch.cat([torch.rand(2), torch.ones(1, 2)]),
        lambda: torch.randint(3, (2,)) + torch.ones(3, dtype=torch.int64),
        lambda: torch.searchsorted(torch.ones(2, 2), torch.rand(3)),
        lambda: torch.multinomial(torch.zeros(0), 1),
        lambda: torch.rand(2).argmax(3),
        lambda: torch.rand(2).item(),
    ],
)
def test_an_error_of_torchs_is_in_its_words(program: Callable[[], object]) -> None:
    assert {*law(caught(program))} == {caught(program)()}


REFUSED_BY_TORCH: dict[str, tuple[Callable[[], Tensor], str]] = {
    "integers of a type too narrow": (
        lambda: torch.randint(300, (1,), dtype=torch.uint8),
        "out of bounds",
    ),
    "a permutation of a type too narrow": (
        lambda: torch.randperm(300, dtype=torch.uint8),
        "without overflow",
    ),
    "chances that are integers": (lambda: torch.bernoulli(tensor([0, 1])), "bernoulli"),
    "a chance above one": (lambda: torch.zeros(2).bernoulli_(1.5), "expects p"),
    "noise in one place": (lambda: torch.zeros(1).expand(3).uniform_(), "single memory location"),
    "clocks of a negative rate": (lambda: torch.zeros(2).exponential_(-1.0), "lambda"),
}


@pytest.mark.parametrize(("program", "told"), REFUSED_BY_TORCH.values(), ids=REFUSED_BY_TORCH)
def test_what_torch_refuses_to_draw_is_refused_in_its_words(
    program: Callable[[], Tensor], told: str
) -> None:
    with pytest.raises(RuntimeError, match=told) as alone:
        program()
    with pytest.raises(RuntimeError) as watched:
        exact_law(program)
    assert str(watched.value) == str(alone.value)


def test_what_is_drawn_lies_in_memory_as_torch_lays_it() -> None:
    columns = torch.full((3, 2), 0.5).T
    for draw in (torch.bernoulli, torch.rand_like, Tensor.exponential_):

        def strides(draw: Any = draw) -> Any:
            return draw(columns).stride()

        assert weights_of(strides) == {strides(): "1"}


# --- verification ------------------------------------------------------------------------

RATIOS = tensor([0.5, 0.25, 0.75])
ACCEPTED = {0: "1/2", 1: "3/8", 2: "1/32", 3: "3/32"}


def by_loop_of_items() -> int:
    noise = torch.rand(3)
    for i in range(3):
        if noise[i].item() >= RATIOS[i].item():
            return i
    return 3


def by_fresh_noise() -> int:
    for i in range(3):
        if torch.rand(1).item() > RATIOS[i]:
            return i
    return 3


def by_nonzero() -> int:
    rejected = (torch.rand(3) > RATIOS).nonzero()
    return int(rejected[0]) if len(rejected) else 3


def by_where() -> Tensor:
    rejected = torch.rand_like(RATIOS) >= RATIOS
    return torch.where(rejected.any(), rejected.int().argmax(), 3)


def by_buffer() -> Tensor:
    buffer = torch.zeros(2, 5)
    buffer[1, 1:4] = torch.rand(3)
    indexed = buffer[tensor([1, 1, 1]), tensor([1, 2, 3])]
    return (indexed.reshape(1, 3).double()[0] < RATIOS).long().cumprod(0).sum()


def by_masked_bonus() -> Tensor:
    noise = torch.where(tensor([True, True, True, False]), torch.rand(4), 2.0)
    return (noise < F.pad(RATIOS, (0, 1))).int().argmin()


def count_accepted(ratios: Tensor) -> Tensor:
    return (torch.rand_like(ratios) < ratios).int().cumprod(0).sum()


with warnings.catch_warnings():
    # torch.jit is deprecated, and still in use.
    warnings.simplefilter("ignore", DeprecationWarning)
    SCRIPTED = torch.jit.script(count_accepted)

COMPILED = torch.compile(count_accepted, backend="eager")

VERIFICATIONS: dict[str, Program] = {
    "cumprod": lambda: (torch.rand(3) < RATIOS).int().cumprod(0).sum(),
    "cumsum": lambda: ((~(torch.rand(3) <= RATIOS)).cumsum(0) < 1).sum(),
    "logarithms of noise": lambda: (torch.rand(3) ** 2 < RATIOS**2).long().cumprod(0).sum(),
    "ratio on the left": lambda: (torch.rand(3) / RATIOS <= 1).int().cumprod(0).sum(),
    "bernoulli": lambda: torch.bernoulli(RATIOS).cumprod(0).sum().int(),
    "bernoulli in place": lambda: torch.empty(3).bernoulli_(RATIOS).cumprod(0).sum().int(),
    "nonzero": by_nonzero,
    "where": by_where,
    "items": by_loop_of_items,
    "fresh noise": by_fresh_noise,
    "a buffer": by_buffer,
    "a mask": by_masked_bonus,
    "flip": lambda: (torch.rand(3).flip(0) < RATIOS).int().cumprod(0).sum(),
    "stack": lambda: (
        (torch.stack([torch.rand(()) for _ in range(3)]) < RATIOS).int().cumprod(0).sum()
    ),
    "script": lambda: SCRIPTED(RATIOS),
    "compiled": lambda: COMPILED(RATIOS),
    "bfloat16 thresholds": lambda: (torch.rand(3) < RATIOS.bfloat16()).int().cumprod(0).sum(),
}


@pytest.mark.parametrize("program", VERIFICATIONS.values(), ids=VERIFICATIONS)
def test_a_verification_has_its_exact_law(program: Program) -> None:
    assert weights_of(program) == ACCEPTED


def test_what_nobody_looks_at_splits_no_run() -> None:
    """Numbers returned as they were drawn are decided behind the run, once wherever they stand."""
    tossed = exact_law(lambda: torch.rand(2) < tensor([0.25, 0.5]))
    assert tossed.runs == 1
    assert [str(weight) for _, weight in tossed.law.items()] == ["1/8", "1/8", "3/8", "3/8"]

    def twice() -> Any:
        u, token = torch.rand(()), torch.multinomial(WEIGHTS, 1)
        low = bool(u < 0.5)
        return {"low": low, "lower": u < 0.25}, [token, token.clone()[0]], (u < 0.75, u > 0.25)

    observed = exact_law(twice)
    assert observed.runs == 2
    found = {
        (low, lower, below, above, token): weight
        for ((_, low), (_, lower)), ((token,), same), (below, above), weight in (
            (*outcome, weight) for outcome, weight in observed.law.items()
        )
        if token == same
    }
    quarter = rational("1/4")
    assert found == {
        (*seen, token): quarter * weight
        for seen in (
            (True, True, True, False),
            (True, False, True, True),
            (False, False, True, True),
            (False, False, False, True),
        )
        for token, weight in DRAW.items()
    }


@pytest.mark.parametrize("program", [*DRAWS.values(), *VERIFICATIONS.values()])
def test_the_same_law_comes_of_what_is_looked_at_before_it_is_returned(program: Program) -> None:
    """To the bit and in the same order, from no more runs."""

    def looked_at() -> Any:
        outcome = program()
        return outcome.tolist() if isinstance(outcome, Tensor) else outcome

    whole, split = exact_law(program), exact_law(looked_at)
    assert [*whole.law.items()] == [*split.law.items()]
    assert whole.slack == split.slack
    assert whole.runs <= split.runs


def test_a_race_that_nobody_looks_at_is_not_run() -> None:
    def program() -> Tensor:
        noise = torch.empty(1, 3).exponential_()
        rows = torch.stack([ROW, ROW.flip(-1)], 1)
        winners = (rows / noise[:, None]).argmax(-1)
        return winners.gather(1, (torch.rand(1, 1) < 0.5).long())[0]

    observed = exact_law(program)
    assert observed.runs == 2
    assert dict(observed.law.items()) == {
        (0,): rational("3/8"),
        (1,): rational("1/4"),
        (2,): rational("3/8"),
    }


def test_comparisons_of_one_number_agree_with_each_other() -> None:
    def program() -> tuple[Tensor, ...]:
        u = torch.rand(2)
        return u[0] < 0.5, u.view(-1)[0].clone() < 0.25, 1 - u[:1] < 0.25, u[0] == 0.5

    assert weights_of(program) == {
        (True, True, (False,), False): "1/4",
        (True, False, (False,), False): "1/4",
        (False, False, (True,), False): "1/4",
        (False, False, (False,), False): "1/4",
    }


def test_several_rows_and_draws() -> None:
    assert weights_of(lambda: torch.multinomial(WEIGHTS, 2)) == {
        (0, 1): "1/28",
        (0, 2): "5/56",
        (1, 0): "1/24",
        (1, 2): "5/24",
        (2, 0): "5/24",
        (2, 1): "5/12",
    }
    both = law(lambda: torch.multinomial(ROW.expand(2, 3), 1))
    again = law(lambda: torch.multinomial(WEIGHTS, 2, replacement=True).reshape(2, 1))
    assert both == again
    assert len(law(lambda: torch.randperm(3))) == 6
    assert weights_of(lambda: torch.randint(2, 4, ())) == {2: "1/2", 3: "1/2"}


def test_topk_of_a_race_draws_without_replacement() -> None:
    raced = law(lambda: (WEIGHTS / exponential()).topk(2).indices)
    assert raced == law(lambda: torch.multinomial(WEIGHTS, 2))


NARROW = [(torch.float16, 0x3C00), (torch.bfloat16, 0x3F80)]


def narrow_law(dtype: torch.dtype, one: int) -> dict[float, Rational]:
    """Return the law of a rounded uniform number that is 0 instead of 1.

    The floats from 0 to 1 are numbered in order by their bits, `one` being those of 1.
    """
    floats = torch.arange(one + 1, dtype=torch.int16).view(dtype).double().tolist()
    points = [exactly(each) for each in floats]
    middles = [rational(0), *((a + b) / 2 for a, b in pairwise(points)), rational(1)]
    masses = [high - low for low, high in pairwise(middles)]
    masses[0] += masses.pop()
    return dict(zip(floats, masses, strict=False))


def test_a_torch_that_makes_narrow_noise_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_draws, "rounds_uniforms", lambda _: False)
    with pytest.raises(OpaqueRandomness, match="in this release of torch is not known"):
        exact_law(lambda: torch.rand((), dtype=torch.half) < 0.5)


@pytest.mark.parametrize(("dtype", "one"), NARROW, ids=str)
@pytest.mark.parametrize("edge", [0.0, 1e-6, 0.25, 0.3, 0.5, 0.998046875, 1.0])
def test_narrow_noise_lies_on_its_grid(dtype: torch.dtype, one: int, edge: float) -> None:
    seen = float(tensor(edge, dtype=dtype))
    cells = narrow_law(dtype, one)
    below = total(mass for value, mass in cells.items() if value < seen)
    assert law(lambda: torch.rand((), dtype=dtype) < edge)[True] == below
    assert law(lambda: torch.rand((), dtype=dtype) == edge)[True] == cells.get(seen, 0)


@pytest.mark.parametrize(("dtype", "one"), NARROW, ids=str)
@pytest.mark.parametrize("edge", [0.75, 1.0, 1.0078125, 1.265625, 1.2734375])
def test_narrow_arithmetic_rounds_half_to_even(dtype: torch.dtype, one: int, edge: float) -> None:
    cells = narrow_law(dtype, one)
    sums = (tensor(list(cells), dtype=dtype) + 0.5).tolist()
    below = total(mass for mass, value in zip(cells.values(), sums, strict=True) if value < edge)
    assert law(lambda: torch.rand((), dtype=dtype) + 0.5 < edge)[True] == below


NARROW_ARITHMETIC: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: x + 0.1,
    "subtract": lambda x: x - 0.3,
    "subtract from": lambda x: 0.3 - x,
    "multiply": lambda x: x * 3,
    "multiply by a tensor": lambda x: x * tensor([0.3], dtype=x.dtype),
    "divide": lambda x: x / 6,
    "divide by a tensor": lambda x: x / tensor([0.3], dtype=x.dtype),
    "power": lambda x: x**0.5,
    "overflow": lambda x: x * 61440 * 2,
    "overflow below": lambda x: x * -61440 * 2,
    "overflow and back": lambda x: x * 61440 * 2 / 4,
    "overflow, inverted": lambda x: 1 / (x * 61440 * 2 + 1),
    "overflow, clamped": lambda x: (x * 61440 * 2).clamp(max=5),
    "overflow, its exponential": lambda x: (x * -61440 * 2 / 8).exp().clamp(max=0),
    "underflow": lambda x: x / 61440 / 1024,
}


@pytest.mark.parametrize(("dtype", "one"), NARROW, ids=str)
@pytest.mark.parametrize("name", NARROW_ARITHMETIC)
def test_narrow_arithmetic_is_torchs(dtype: torch.dtype, one: int, name: str) -> None:
    function, cells = NARROW_ARITHMETIC[name], narrow_law(dtype, one)
    images = function(tensor(list(cells), dtype=dtype)).tolist()
    middle = [sorted(images)[len(images) * part // 8] for part in range(8)]
    for edge in {*middle, max(images), 0.0, 1.0, math.inf, -math.inf}:
        for relation in (torch.lt, torch.le, torch.gt, torch.ge, torch.eq):
            holds = relation(tensor(images, dtype=dtype), edge).tolist()
            expected = total(m for m, holding in zip(cells.values(), holds, strict=True) if holding)
            found = law(lambda e=edge, r=relation: r(function(torch.rand(1, dtype=dtype)), e))  # type: ignore[misc]
            doubt = ROUNDED_ANYHOW.get(name, 0) * near(edge, images, [*cells.values()], dtype)
            assert abs(found[(True,)] - expected) <= doubt, (edge, relation)


ROUNDED_ANYHOW = {"power": 1, "overflow, its exponential": 1}
"""Ulps by which results are off on some processors."""


def near(edge: float, images: list[float], masses: list[Rational], dtype: torch.dtype) -> Rational:
    """Return the mass of results that an ulp brings to the other side of an edge."""
    seen, end = tensor(edge, dtype=dtype), tensor(math.inf, dtype=dtype)
    low, high = (float(torch.nextafter(seen, sign * end)) for sign in (-1, 1))
    return total(mass for mass, image in zip(masses, images, strict=True) if low <= image <= high)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.log() == -math.inf, "1/2"),
        (lambda x: x.log() < math.inf, "1"),
        (lambda x: x.log().exp() <= 0, "1/2"),
        (lambda x: x.log().exp() > -1, "1"),
        (lambda x: x.log().clamp(min=-1e9) <= -1e9, "1/2"),
        (lambda x: x.log().clamp(min=-1e9) < -2e9, "0"),
    ],
)
def test_the_logarithm_of_zero_is_infinite(
    function: Callable[[Tensor], Tensor], expected: str
) -> None:
    found = law(lambda: function((torch.rand(()) - 0.5).clamp(min=0)))
    assert str(found[True]) == expected


def test_thresholds_keep_their_precision() -> None:
    double = exactly(0.1)
    single = exactly(float(tensor(0.1)))
    assert law(lambda: torch.rand((), dtype=torch.float64) < 0.1)[True] == double
    assert law(lambda: torch.rand(1).item() < 0.1)[True] == double
    assert law(lambda: torch.rand(()) < 0.1)[True] == single


@pytest.mark.parametrize(
    ("edge", "below"), [(-torch.inf, 0), (torch.inf, 1), (torch.nan, 0), (0, 0), (True, 1), (2, 1)]
)
def test_thresholds_out_of_range(edge: float, below: int) -> None:
    assert law(lambda: torch.rand(()) < edge)[True] == below
    assert law(lambda: torch.rand(1).item() < edge)[True] == below


# --- what a program may return -----------------------------------------------------------


@dataclass
class Answer:
    accepted: Tensor
    note: str | None


class Side(Enum):
    LEFT = "left"


RETURNS: dict[str, tuple[Program, Any]] = {
    "none": (lambda: None, None),
    "empty": (lambda: torch.rand(0, 3).argmax(-1), ()),
    "dictionary": (lambda: {"a": torch.rand(1) < 2, "b": [None]}, (("a", (True,)), ("b", (None,)))),
    "dataclass": (lambda: Answer(torch.rand(1) < 2, "x"), ((True,), "x")),
    "tensors for keys": (
        lambda: {tensor(3): 1, (torch.rand(1) < 2,): 2},
        ((3, 1), (((True,),), 2)),
    ),
    "members of enumerations, and classes": (
        lambda: {Side.LEFT: int, Answer: Side.LEFT},
        ((Side.LEFT, int), (Answer, Side.LEFT)),
    ),
    "array": (lambda: (torch.rand(2) < 2).numpy(), (True, True)),
    "numpy scalar": (lambda: numpy.int64(3), 3),
    "set": (lambda: {1, 2}, frozenset({1, 2})),
    "pickled": (lambda: pickle.loads(pickle.dumps(torch.rand(1) < 2)), (True,)),
    "copied": (lambda: copy.deepcopy([torch.rand(1) < 2]), ((True,),)),
}


@pytest.mark.parametrize(("program", "outcome"), RETURNS.values(), ids=RETURNS)
def test_returns(program: Program, outcome: Any) -> None:
    assert law(program) == Law.certain(outcome)


def test_nan_is_one_outcome() -> None:
    observed = law(lambda: torch.where(torch.rand(2) < 0.5, torch.nan, 1.0).sum())
    assert sorted(map(str, observed)) == ["2.0", "nan"]


def test_a_key_of_a_dictionary_is_a_value() -> None:
    def read() -> Any:
        x = torch.randint(3, (1,))
        x.item()
        return {tensor(3): 1}

    assert weights_of(read) == {((3, 1),): "1"}
    assert weights_of(lambda: {torch.randint(2, ()): 1}) == {((0, 1),): "1/2", ((1, 1),): "1/2"}


@pytest.mark.parametrize(
    "value",
    [object(), lambda: 1, bytearray(b"x"), {object(): 1}],
    ids=["object", "f", "b", "a key"],
)
def test_a_result_without_a_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="no value to be compared by"):
        exact_law(lambda: value)


def test_an_exception_of_the_program_is_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        exact_law(lambda: 1 / 0 if torch.rand(()) < 0.5 else 1)


@pytest.mark.parametrize(
    ("program", "runs"),
    [(lambda: torch.rand(2) < 0.5, 1), (lambda: (torch.rand(2) < 0.5).tolist(), 4)],
)
def test_the_number_of_outcomes_is_bounded(program: Program, runs: int) -> None:
    assert exact_law(program, most_runs=4).runs == runs
    with pytest.raises(TooManyRuns, match="more than 3"):
        exact_law(program, most_runs=3)


@pytest.mark.parametrize("law", [exact_law, partial(row_law, size=1)])
@pytest.mark.parametrize("reads", [Tensor.item, lambda drawn: drawn + torch.rand(()) < 0.5])
def test_a_choice_among_very_many_is_counted_before_it_is_made(
    reads: Callable[[Tensor], Any], law: Callable[..., Any]
) -> None:
    """A vocabulary of a real model: the weights of every way would fill the memory."""
    calls = 0

    def program() -> Any:
        nonlocal calls
        calls += 1
        return reads(torch.multinomial(torch.ones(50_000), 1)), tensor(0)

    with pytest.raises(TooManyRuns, match="more than 4096 random outcomes"):
        law(program, most_runs=4096)
    assert calls == 1


def test_what_is_left_to_later_walks_is_counted() -> None:
    """Each of 50 tokens that are read has 50 after it: none of the first 50 is followed in vain."""
    calls = 0

    def program() -> tuple[int, ...]:
        nonlocal calls
        calls += 1
        return tuple(int(torch.multinomial(torch.ones(50), 1)) for _ in range(3))

    with pytest.raises(TooManyRuns, match="more than 200 random outcomes"):
        exact_law(program, most_runs=200)
    assert calls < 10


def test_choices_that_are_made_at_once_are_counted_before_they_are_kept() -> None:
    """Of 64 there are more ways than any memory holds."""
    with pytest.raises(TooManyRuns, match="more than 100 random outcomes"):
        exact_law(lambda: (torch.rand(64) < 0.5).cumsum(0), most_runs=100)


# --- what cannot be seen through ---------------------------------------------------------

KEPT: dict[str, Tensor] = {}


def keep_noise() -> Tensor:
    KEPT.setdefault("u", torch.rand(2))
    return KEPT["u"] < 0.5


def swallow() -> Any:
    try:
        return torch.rand(1).sin().item()
    except Exception:
        return 0


def race_after_comparison() -> Any:
    u = torch.rand(2)
    return (u < 0.5).tolist(), u.argmax()


def comparison_after_race() -> Any:
    u = torch.rand(2)
    return u.argmax().item(), u < 0.5


def bits_viewed_before() -> Tensor:
    noise = torch.empty(1)
    bits = noise.view(torch.int32)
    noise.uniform_()
    return bits < tensor([0.25]).view(torch.int32)


def noise_in_a_sparse_tensor() -> Tensor:
    sparse = torch.sparse_coo_tensor(tensor([[0]]), torch.zeros(1), (1,), check_invariants=True)
    sparse = sparse.coalesce()
    sparse._values().uniform_()
    return sparse.to_dense() >= 0.25


HOOKED = torch.ones((), requires_grad=True)
HOOKED.register_hook(torch.rand_like)  # type: ignore[no-untyped-call]


def called_back_by_autograd() -> Any:
    (2 * HOOKED).backward()  # type: ignore[no-untyped-call]  # torch is
    return HOOKED.grad


class Reads(Tensor):
    """Tells its functions what it has, unwatched."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return tensor(args[0].tolist())


def run_by_itself(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    return func(*args, **(kwargs or {}))


Runs: Any = type(
    "Runs",
    (Tensor,),
    {
        "__torch_dispatch__": staticmethod(run_by_itself),
        "__torch_function__": torch._C._disabled_torch_function_impl,
    },
)


torch.library.define("draftproof_tests::noisy", "(Tensor values) -> Tensor")


@torch.library.impl("draftproof_tests::noisy", "cpu")
def _noisy(values: Tensor) -> Tensor:
    """Stand for a kernel: nobody can tell what it is written in."""
    return values + torch.rand(values.shape)


noisy: Callable[[Tensor], Tensor] = torch.ops.draftproof_tests.noisy


def into(out: Tensor, operator: Callable[..., Tensor], *args: Any) -> Tensor:
    """Write what an operator returns to a tensor."""
    return operator(*args, out=out)


def written_over_itself() -> Tensor:
    return into(tokens := torch.randint(2, (3,)), torch.index_select, tokens, 0, tensor([2, 0, 1]))


def written_over_its_neighbours() -> Tensor:
    tokens = torch.randint(2, (3,))
    return into(tokens[1:], torch.add, tokens[:-1], 1)


def written_to_one_place() -> Tensor:
    return into(torch.zeros(1).expand(3), torch.add, torch.rand(3), 1)


def written_where_there_is_more_room() -> Tensor:
    return into(torch.zeros(3), torch.add, torch.randint(2, (2,)), 1)


def of_a_distance() -> Tensor:
    token = drawn()
    row = torch.zeros(1, 2)

    def distance(left: Tensor, right: Tensor) -> Tensor:
        return (left - right).sum().abs() * float(token.tolist()[0])

    return F.triplet_margin_with_distance_loss(row, row + 1, row, distance_function=distance)


def one_of_equals() -> Tensor:
    weights = tensor([0.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0])
    return (weights / torch.empty(8).exponential_()).topk(4).indices


def of_the_winner(function: Callable[[Tensor], Tensor]) -> Program:
    return lambda: function(torch.empty(2).exponential_().max()) > 0.5


OPAQUE: dict[str, tuple[Program, str]] = {
    "noise in the place of an integer": (
        lambda: torch.zeros(1, dtype=torch.int64).fill_(torch.rand(())) < 0.5,
        "aten.fill_",
    ),
    "noise scattered among integers": (
        lambda: torch.zeros(2, dtype=torch.int64).select_scatter(torch.rand(()), 0, 0),
        "aten.select_scatter",
    ),
    "an imaginary factor": (lambda: (torch.rand(()) * 1j).imag < 0.5, "aten.mul"),
    "an imaginary summand": (lambda: (torch.rand(()) + 1j).real < 0.5, "aten.add"),
    "imaginary factors": (lambda: (torch.rand(2) * tensor([1j, 2])).abs() < 0.5, "aten.mul"),
    "a winner, scaled": (
        of_the_winner(lambda value: (value - 1) * torch.inf),
        "the program's result",
    ),
    "a winner, divided": (of_the_winner(lambda value: (value - 1) / 0), "the program's result"),
    "a winner, to a power": (
        of_the_winner(lambda value: value**torch.inf),
        "the program's result",
    ),
    "noise of either sign, times zero": (lambda: (torch.rand(1) - 0.5) * 0.0 < 1, "aten.mul"),
    "one of equals": (one_of_equals, "aten.topk"),
    "an operator of its own": (lambda: noisy(torch.zeros(1)) < 0.5, "draftproof_tests.noisy"),
    "a sequence that is written to": (
        lambda: torch._sobol_engine_ff_(
            torch.randint(2, (1,)), 3, torch.zeros(1, 30, dtype=torch.int64), 1, 1
        ),
        "_sobol_engine_ff_",
    ),
    "the number of writes": (lambda: torch.randint(2, (2,))._version, "__get__"),
    "a function called for elements": (lambda: drawn().apply_(lambda token: -token), "apply_"),
    "a function called for pairs": (
        lambda: drawn().map_(tensor([2]), lambda token, two: two - token),
        "map_",
    ),
    "a function called for rows": (of_a_distance, "triplet_margin_with_distance_loss"),
    "a result over itself": (written_over_itself, "aten.index_select"),
    "a result over its neighbours": (written_over_its_neighbours, "aten.add"),
    "a result in one place": (written_to_one_place, "aten.add"),
    "a result of another shape": (written_where_there_is_more_room, "aten.add"),
    "normal": (lambda: torch.randn(2), "aten.randn"),
    "normal_": (lambda: torch.empty(2).normal_(), "aten.normal_"),
    "random_": (lambda: torch.empty(2).random_(4), "aten.random_"),
    "sine": (lambda: torch.rand(2).sin() < 0.5, "aten.sin"),
    "sum": (lambda: torch.rand(2).sum() < 0.5, "aten.sum"),
    "matmul": (lambda: torch.rand(2) @ torch.ones(2) < 0.5, "aten.dot"),
    "einsum": (lambda: torch.einsum("i,i->", torch.rand(2), torch.ones(2)) < 1, "aten.bmm"),
    "scatter_add": (
        lambda: torch.zeros(2).scatter_add(0, tensor([1]), torch.rand(1)) < 1,
        "aten.scatter_add",
    ),
    "accumulate": (
        lambda: torch.zeros(2).index_put((tensor([1]),), torch.rand(1), accumulate=True) < 1,
        "aten.index_put",
    ),
    "gumbel softmax": (lambda: F.gumbel_softmax(ROW.log(), hard=True), "aten._softmax"),
    "two random numbers": (lambda: torch.rand(2) < torch.rand(2), "aten.lt.Tensor"),
    "bits": (lambda: torch.rand(1).view(torch.int32) < 5, "aten.view.dtype"),
    "a negative view": (lambda: torch._neg_view(torch.rand(1)) < 0, "aten._neg_view"),
    "integer part": (lambda: (torch.rand(1) * 3 - 1).long(), "aten._to_copy"),
    "numpy": (lambda: torch.rand(2).numpy() < 0.5, "numpy"),
    "a list of tensors": (lambda: torch.tensor([torch.rand(())]) < 0.5, "tensor"),
    "the old constructor": (lambda: torch.FloatTensor([torch.rand(())]) < 0.5, "__float__"),
    "new": (lambda: torch.zeros(1).new([torch.rand(())]) < 0.5, "new"),
    "float()": (lambda: float(torch.rand(1)) < 0.5, "__float__"),
    "text of a number": (lambda: f"{torch.rand(1).item():.2f}", "__float__"),
    "text of a tensor": (lambda: str(torch.rand(2)), "__repr__"),
    "a data pointer": (lambda: torch.rand(2).data_ptr(), "data_ptr"),
    "a function of Python's": (lambda: torch.rand(1).apply_(lambda u: u / 2) < 0.1, "apply_"),
    "bits, viewed before": (bits_viewed_before, "aten.lt"),
    "a sparse tensor": (noise_in_a_sparse_tensor, "aten._to_dense"),
    "an order left open": (lambda: exponential().topk(2, sorted=False).indices[0], "aten.topk"),
    "a copy of noise": (lambda: copy.deepcopy(torch.rand(1)) < 0.5, "__deepcopy__"),
    "NaN in a minimum": (
        lambda: (tensor([torch.nan, 1.0]) * torch.rand(2)).argmin(),
        "aten.argmin",
    ),
    "unsorted edges": (
        lambda: torch.bucketize(torch.rand(1), tensor([0.5, 0.1])),
        "aten.bucketize",
    ),
    "edges that are noise": (
        lambda: torch.searchsorted(torch.rand(1) * 3, tensor([2.0])),
        "aten.searchsorted",
    ),
    "edges that are noise on one branch": (
        lambda: (
            torch.bucketize(tensor([0.5]), torch.rand(1)) if torch.rand(1) < 0.5 else tensor([5])
        ),
        "aten.bucketize",
    ),
    "a number among noise": (
        lambda: torch.ops.aten.searchsorted.Scalar(exponential(), 2.0),
        "aten.searchsorted",
    ),
    "a sorter that is drawn": (
        lambda: torch.searchsorted(tensor([1.0, 2.0]), torch.rand(1), sorter=torch.randperm(2)),
        "aten.searchsorted",
    ),
    "race against a number": (
        lambda: torch.cat([torch.rand(1), tensor([0.5])]).argmax(),
        "aten.argmax",
    ),
    "a narrow interval": (
        lambda: torch.empty(1, dtype=torch.half).uniform_(0, 2) < 1,
        "aten.uniform_",
    ),
    "division by zero": (
        lambda: 1 / torch.rand(1, dtype=torch.bfloat16) < 2,
        "aten.reciprocal",
    ),
    "narrow race": (
        lambda: (ROW.half() / torch.empty(1, 3, dtype=torch.half).exponential_()).argmax(-1),
        "aten.div",
    ),
    "a narrow number times one that is rounded": (
        lambda: torch.rand(1, dtype=torch.half) * 0.1 < 0.05,
        "aten.mul",
    ),
    "a narrow number divided by one that is rounded": (
        lambda: torch.rand(1, dtype=torch.bfloat16).div_(tensor(0.1)) < 7.75,
        "aten.div_",
    ),
    "a narrow number to a power that is rounded": (
        lambda: torch.rand(1, dtype=torch.half) ** 0.1 < 0.5,
        "aten.pow",
    ),
    "a narrow number in a scaled sum": (
        lambda: torch.add(tensor([0.7]).half(), torch.rand(1, dtype=torch.half), alpha=0.5) < 1,
        "aten.add",
    ),
    "a narrow number times wide ones": (
        lambda: torch.rand(1, dtype=torch.half).mul_(tensor([0.1])) < 0.05,
        "aten.mul_",
    ),
    "a wide number beside narrow ones": (
        lambda: torch.rand(()) < tensor([0.3]).half(),
        "aten.lt",
    ),
    "noise in eight bits": (
        lambda: torch.rand(1).to(torch.float8_e4m3fn) == 1,
        "aten._to_copy",
    ),
    "too large for float32": (lambda: (torch.rand(1) * 1e38 * 10).isinf(), "aten.mul"),
    "clocks too large for float32": (lambda: exponential() * 1e38 < torch.inf, "aten.mul"),
    "exponentials too large for float32": (
        lambda: (torch.rand(1) * 30000).exp() < torch.inf,
        "aten.exp",
    ),
    "exponentials too small for any number": (
        lambda: (torch.rand(1, dtype=WIDE) * -30000).exp() > 0,
        "aten.exp",
    ),
    "too large when it is cast": (
        lambda: (torch.rand(1, dtype=WIDE) * 1e300).float() < torch.inf,
        "aten._to_copy",
    ),
    "too small for float32": (lambda: torch.rand(1) * 1e-30 * 1e-30 > 0, "aten.mul"),
    "powers too small for float32": (lambda: torch.rand(1) ** 1000 > 0, "aten.pow"),
    "a class of what may be infinite": (
        lambda: (torch.rand(1, dtype=torch.half) * 61440 * 2).isinf(),
        "aten.isinf",
    ),
    "infinity less what may be infinite": (
        lambda: torch.inf - torch.rand(1, dtype=torch.half) * 61440 * 2,
        "aten.rsub",
    ),
    "what may be infinite divided by infinity": (
        lambda: torch.rand(1, dtype=torch.half) * 61440 * 2 / torch.inf,
        "aten.div",
    ),
    "a class of what may be no number": (
        lambda: torch.log(torch.rand(4) - 9e-6).isnan().any(),
        "aten.isnan",
    ),
    "a class of a root of what may be negative": (
        lambda: torch.isinf(torch.sqrt(torch.rand(4) - 9e-6)),
        "aten.isinf",
    ),
    "zero times what may be no number": (
        lambda: torch.log(torch.rand(1) * 0.5 - 9e-6).clamp(min=-1) * 0,
        "aten.mul",
    ),
    "narrow ties": (lambda: torch.rand(3).half().argmax(), "aten.argmax"),
    "narrowing move": (
        lambda: torch.where(tensor([True]), torch.rand(()).double(), tensor([0.0]).half()) < 0.3,
        "aten.where",
    ),
    "a hook": (called_back_by_autograd, "backward"),
    "a function of a tensor class": (lambda: drawn().as_subclass(Reads) + 1, "add"),
    "an operator of a tensor class": (lambda: drawn().as_subclass(Runs) + 1, "aten.add.Tensor"),
    "too few weights": (lambda: torch.multinomial(tensor([0.0, 1.0]), 2), "aten.multinomial"),
    "integers that bfloat16 rounds": (
        lambda: torch.randint(254, 260, (1,), dtype=torch.bfloat16) == 258,
        "aten.randint",
    ),
    "integers that float16 rounds": (
        lambda: torch.randint(2047, 2050, (1,), dtype=torch.half),
        "aten.randint",
    ),
    "integers that float32 rounds": (
        lambda: torch.randint(2**24, 2**24 + 2, (1,), dtype=torch.float32),
        "aten.randint",
    ),
    "integers beside floats": (
        lambda: torch.cat([torch.randint(2**24, 2**24 + 2, (1,)), torch.zeros(1)]),
        "aten.cat",
    ),
    "a wide range": (lambda: torch.randint(0, 2**40, ()), "aten.randint"),
    "its value": (lambda: torch.rand(2), "result"),
    "the winner's value": (lambda: torch.rand(2).max() < 0.5, "result"),
    "kept noise": (keep_noise, "aten.lt"),
    "swallowed": (swallow, "aten.sin"),
    "race after comparison": (race_after_comparison, "result"),
    "comparison after race": (comparison_after_race, "result"),
}


@pytest.mark.parametrize(("program", "operator"), OPAQUE.values(), ids=OPAQUE)
def test_what_cannot_be_seen_through_is_named(program: Program, operator: str) -> None:
    with pytest.raises(OpaqueRandomness) as failure:
        exact_law(program)
    KEPT.clear()
    assert operator in failure.value.operator
    assert str(failure.value).startswith(failure.value.operator)
    assert "test_exact.py:" in failure.value.source


def drawn() -> Tensor:
    return torch.multinomial(WEIGHTS, 1)


def by_index_in_a_list() -> Tensor:
    return torch.arange(3)[None][0, [drawn()[0]]]


def by_tuple_in_an_index() -> Tensor:
    return torch.arange(3)[None][:, (drawn()[0],)][0]


def by_tuple_in_an_index_that_is_written_to() -> Tensor:
    into = torch.zeros(1, 3, dtype=torch.int64)
    into[:, (drawn()[0],)] = 1
    return into.argmax(-1)


class Sequence:
    """What torch takes for a sequence, and nobody else."""

    def __init__(self, token: Tensor) -> None:
        self.token = token

    def __len__(self) -> int:
        return 1

    def __getitem__(self, place: int) -> Tensor:
        if place:
            raise IndexError(place)
        return self.token


def by_deque() -> Tensor:
    return torch.tensor(deque(drawn()))


def by_sequence_of_its_own() -> Tensor:
    return torch.tensor(Sequence(drawn()[0]))


def by_index_of_its_own() -> Tensor:
    return torch.arange(3)[None][:, Sequence(drawn()[0])][0]  # type: ignore[index]  # torch says no


def by_coordinates() -> Tensor:
    columns: Any = [[drawn()[0]]]
    rows = torch.sparse_coo_tensor(columns, [1.0], (3,), check_invariants=True)
    return rows.to_dense().argmax(-1, keepdim=True)


def by_memory_lent_before() -> int:
    token = torch.zeros(1, dtype=torch.int64)
    lent = numpy.from_dlpack(token)
    token.copy_(drawn())
    return int(lent[0])


def by_tensor_lent_before() -> Tensor:
    token = torch.zeros(1, dtype=torch.int64)
    lent = torch.utils.dlpack.from_dlpack(token)
    token.copy_(drawn())
    return lent.clone()


@pytest.mark.parametrize(
    "program",
    [
        by_index_in_a_list,
        by_tuple_in_an_index,
        by_tuple_in_an_index_that_is_written_to,
        by_deque,
        by_sequence_of_its_own,
        by_index_of_its_own,
        by_coordinates,
        by_memory_lent_before,
        by_tensor_lent_before,
    ],
)
def test_a_choice_is_decided_where_memory_is_read_past_the_operators(program: Program) -> None:
    found = law(program).map(lambda token: token if isinstance(token, int) else token[0])
    assert found == Law(DRAW)


def test_the_programs_own_line_is_named() -> None:
    def program() -> Tensor:
        noise = torch.rand(2)
        return F.softmax(noise, dim=0) < 0.5  # the guilty line

    with pytest.raises(OpaqueRandomness, match="looks at continuous noise") as failure:
        exact_law(program)
    assert failure.value.source.endswith("return F.softmax(noise, dim=0) < 0.5  # the guilty line")


@pytest.mark.parametrize(
    "program",
    [
        lambda: float(torch.rand(1)) < 0.5,
        lambda: math.sin(torch.rand(1).item()) < 0.5,
        lambda: torch.rand(2).numpy() < 0.5,
    ],
    ids=["float", "math.sin", "numpy"],
)
def test_what_takes_noise_out_of_torch_hears_what_to_do_instead(program: Program) -> None:
    with pytest.raises(OpaqueRandomness, match="compare it as a tensor, or as its item"):
        exact_law(program)


def test_a_logarithm_that_is_always_nan_is_named() -> None:
    """The minus belongs inside the clamp: this one takes the log of a negative constant."""
    with pytest.raises(OpaqueRandomness, match="logarithm of noise that is never positive"):
        exact_law(lambda: torch.log(-torch.log(torch.rand(2)).clamp(min=1e-20)).argmax())


def test_a_loop_without_an_end_is_not_enumerated(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_replay", "_run"):
        monkeypatch.setattr(f"draftproof.conformance.lanes.exact.{module}.MOST_CHOICES", 500)

    def program() -> int:
        tries = 0
        # Each turn but the last is likely: what goes on has weight for long.
        while torch.rand(()) < 0.999:
            tries += 1
        return tries

    def stubborn() -> int:
        try:
            return program()
        except RuntimeError:
            return -1

    for endless in (program, stubborn):
        with pytest.raises(TooManyRuns, match="more than 500 random choices"):
            exact_law(endless)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda: torch.rand(()).clamp(max=0.6) >= 0.6, "3355443/8388608"),
        (lambda: torch.rand(()).clamp(min=0.7) <= 0.7, "11744051/16777216"),
        (lambda: torch.rand(()).clamp(min=0.7) < 0.7, "0"),
    ],
    ids=["upper", "lower", "below"],
)
def test_a_clamp_is_at_its_bound_as_a_float(program: Program, expected: str) -> None:
    assert str(exact_law(program).law[True]) == expected


# --- against real randomness -------------------------------------------------------------

SAMPLES = 2000
FALSE_ALARM = 1e-9


@pytest.mark.parametrize(
    "program",
    [*DRAWS.values(), *LOGARITHMS.values(), *IMPOSSIBLE.values(), *VERIFICATIONS.values()],
    ids=[*DRAWS, *LOGARITHMS, *IMPOSSIBLE, *VERIFICATIONS],
)
def test_the_law_is_what_is_sampled(program: Program) -> None:
    """Hoeffding: a frequency is off by `wide` with probability below 2 exp(-2 n wide**2).

    With the union over at most four outcomes, one program fails by chance once in 1e9 times.
    """
    observed = law(program)
    with torch.no_grad():
        counts = Counter(int(program()) for _ in range(SAMPLES))
    wide = sqrt(log(2 * 4 / FALSE_ALARM) / (2 * SAMPLES))
    assert set(counts) <= set(observed)
    for outcome, weight in observed.items():
        assert abs(counts[outcome] / SAMPLES - float(weight)) < wide


# --- laws --------------------------------------------------------------------------------

shares = st.lists(st.integers(0, 8), min_size=1, max_size=5).filter(any)


def normal(parts: list[int]) -> dict[int, Rational]:
    return {i: rational(part) / sum(parts) for i, part in enumerate(parts) if part}


@exact
@given(parts=shares)
def test_all_ways_to_draw_agree(parts: list[int]) -> None:
    weights, mass = tensor(parts, dtype=torch.float64), sum(parts)

    def raced() -> Tensor:
        return (weights / torch.empty_like(weights).exponential_()).argmax()

    def inverted() -> Tensor:
        u = torch.rand((), dtype=torch.float64) * mass
        return (weights.cumsum(0) <= u).sum()

    expected = Law(normal(parts))
    assert law(lambda: torch.multinomial(weights, 1)[0]) == expected
    assert law(raced) == expected
    assert law(inverted) == expected


@exact
@given(parts=shares, thresholds=st.lists(st.integers(-2, 18), max_size=4))
def test_thresholds_of_one_number_cut_it_into_intervals(
    parts: list[int], thresholds: list[int]
) -> None:
    edges = tensor([edge / 16 for edge in thresholds], dtype=torch.float64)

    def program() -> Tensor:
        return (torch.rand((), dtype=torch.float64) < edges).sum()

    observed = law(program)
    cells = sorted(min(max(edge, 0), 16) for edge in thresholds)
    for count in range(len(cells) + 1):
        ends = [0, *cells, 16]
        below = len(cells) - count
        assert observed[count] == rational(f"{ends[below + 1] - ends[below]}/16")


@exact
@given(chances=st.lists(st.integers(0, 8), min_size=1, max_size=4))
def test_acceptances_multiply(chances: list[int]) -> None:
    ratios = tensor([chance / 8 for chance in chances])
    observed = law(lambda: (torch.rand(len(chances)) < ratios).int().cumprod(0).sum())
    at_least = rational(1)
    for length, chance in enumerate(chances):
        at_least *= rational(f"{chance}/8")
        reached = (observed[i] for i in range(length + 1, len(chances) + 1))
        assert total(reached) == at_least


def narrowed() -> Tensor:
    return torch.rand(1, dtype=torch.bfloat16).float()


def doubled(function: Callable[[Tensor], Tensor], end: float) -> Callable[[], Tensor]:
    """Return what compares a function of clamped noise in doubles with that of its least value."""

    def program() -> Tensor:
        u = torch.rand(1, dtype=torch.float64).clamp(min=end)
        return function(u) <= function(tensor([end], dtype=torch.float64))

    return program


def bad_bfloat(q: float, p: float) -> Program:
    return lambda: narrowed() * tensor([q]) <= tensor([p])


ATOMS_ROUNDED: dict[str, Program] = {
    "logarithm": lambda: torch.rand(1).clamp(min=0.1).log() <= tensor([0.1]).log(),
    "quotient": lambda: torch.rand(1).clamp(min=0.1) / 3 >= tensor([0.1]) / 3,
    "product": lambda: torch.rand(1).clamp(min=0.2) * 3 == tensor([0.2]) * 3,
    "difference": lambda: 1 - torch.rand(1).clamp(min=0.2) >= 1 - tensor([0.2]),
    "root": lambda: torch.rand(1).clamp(min=0.1).sqrt() <= tensor([0.1]).sqrt(),
    "larger of two": lambda: torch.maximum(torch.rand(1), tensor([0.1])) * 3 <= tensor([0.1]) * 3,
    "logarithm of a double": doubled(torch.log10, 0.1),
    "cast": lambda: torch.rand(1, dtype=torch.float64).clamp(min=0.1).float() <= tensor([0.1]),
    "item": lambda: torch.rand(1).clamp(min=0.1).item() / 3 <= tensor(0.1).item() / 3,
    "bins": lambda: torch.searchsorted(
        tensor([0.1]).log(), torch.rand(1).clamp(min=0.1).log(), right=True
    ),
    "bfloat16": bad_bfloat(0.1, 0.0625),
    "weighted sum": lambda: torch.add(tensor([1.0]), torch.rand(1).clamp(min=0.1), alpha=0.3) <= 2,
}


@pytest.mark.parametrize("name", ATOMS_ROUNDED)
def test_an_atom_that_float_rounds_beside_an_edge_is_not_compared(name: str) -> None:
    with pytest.raises(
        OpaqueRandomness, match=r"rounding of one number decides|rounded on the way"
    ):
        exact_law(ATOMS_ROUNDED[name])


ATOMS_HELD: dict[str, tuple[Program, float]] = {
    "clamp": (lambda: torch.rand(1).clamp(min=0.1) <= tensor([0.1]), float(tensor(0.1))),
    "exact product": (lambda: torch.rand(1).clamp(min=0.25) * 0.5 <= 0.125, 0.25),
    "exact difference": (lambda: 1 - torch.rand(1).clamp(max=0.75) <= 0.25, 0.25),
    "an edge far off": (lambda: torch.rand(1).clamp(min=0.1) * 0.5 <= 0.25, 0.5),
    "logarithm of one": (lambda: (torch.rand(1) * 2).clamp(max=1).log() >= 0, 0.5),
    "light": (lambda: torch.rand(1).clamp(min=2.0**-30).log() < tensor(2.0**-30).log(), 0.0),
    "bfloat16": (lambda: torch.rand(1, dtype=torch.bfloat16) <= 0.5, 0.5 + 2.0**-8),
    "bfloat16 as float32": (lambda: narrowed() <= 0.5, 0.5 + 2.0**-8),
    "bfloat16 times one half": (lambda: narrowed() * 0.5 <= 0.25, 0.5 + 2.0**-8),
    "bfloat16 taken from one": (lambda: 1 - narrowed() < 1, 1 - 2.0**-9),
}


@pytest.mark.parametrize("name", ATOMS_HELD)
def test_an_atom_that_float_holds_is_compared_exactly(name: str) -> None:
    program, expected = ATOMS_HELD[name]
    assert float(law(program)[(True,)]) == pytest.approx(expected, abs=2.0**-19)


SWAMPED: dict[str, Program] = {
    "and taken back": lambda: (torch.rand(1) + 1e8) - 1e8 < 0.5,
    "a power": lambda: torch.rand(1) ** 4 + 1 > 1,
    "in a race": lambda: (gumbel() + 1e8).argmax(),
    "some of a race": lambda: (gumbel() + tensor([1e8, 1e8, 0.0])).argmax(),
    "in an order": lambda: (gumbel() + tensor([0.0, -1e9, -1e9])).topk(2).indices,
    "in bins": lambda: torch.searchsorted(tensor([1e8]), torch.rand(1) + 1e8),
    "by a cast": lambda: (torch.rand(1, dtype=torch.float64) + 1e8).float() - 1e8 < 0.5,
}


def gumbel() -> Tensor:
    return -torch.log(exponential())


@pytest.mark.parametrize("name", SWAMPED)
def test_noise_that_a_large_number_swamps_is_refused(name: str) -> None:
    with pytest.raises(OpaqueRandomness, match=r"swamped|rounding decides"):
        exact_law(SWAMPED[name])


def test_noise_that_a_number_leaves_enough_of_is_followed() -> None:
    assert law(lambda: (torch.rand(1) + 1000) - 1000 < 0.5)[(True,)] == rational("1/2")
    raced = law(lambda: (gumbel() + tensor([1e4, 1e4, -math.inf])).argmax())
    assert raced == law(lambda: torch.randint(2, ()))
    masked = law(lambda: (gumbel() + tensor([0.0, 0.0, -1e9])).argmax())
    assert masked[0] == masked[1] > rational("49/100")


def filled(number: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
    """Return what writes a double into a tensor of a type that does not hold it."""

    def program() -> Tensor:
        return number(torch.zeros(1)) > 0

    return program


def tiny() -> Tensor:
    return torch.rand((), dtype=torch.float64) * 1e-200


def assigned() -> Tensor:
    x = torch.zeros(3)
    x[1] = tiny()
    return x > 0


MOVED_OUT_OF_RANGE: dict[str, Program] = {
    "fill_": filled(lambda x: x.fill_(tiny())),
    "masked_fill_": filled(lambda x: x.masked_fill_(x == 0, tiny())),
    "assignment": assigned,
    "cat": lambda: torch.cat([tiny()[None]], out=torch.empty(0)) > 0,
    "too large": filled(lambda x: x.fill_(tiny() * 1e300 + 1e100)),
}


@pytest.mark.parametrize("name", MOVED_OUT_OF_RANGE)
def test_noise_that_moves_into_a_type_that_does_not_hold_it_is_refused(name: str) -> None:
    with pytest.raises(OpaqueRandomness, match="makes noise too large, or too small"):
        exact_law(MOVED_OUT_OF_RANGE[name])


def test_noise_that_moves_into_a_type_that_holds_it_is_followed() -> None:
    def program() -> Tensor:
        return torch.zeros(1).fill_(torch.rand((), dtype=torch.float64)) < 0.25

    assert law(program)[(True,)] == rational("1/4")


def test_what_torch_does_not_begin_to_write_is_not_taken_as_written() -> None:
    """Torch refuses memory that overlaps before it looks at an index."""

    def program() -> Tensor:
        noise = torch.rand(2)
        with contextlib.suppress(IndexError, RuntimeError):
            noise[tensor([1, 2])] = noise[0]
        return noise < 0.5

    with pytest.raises(OpaqueRandomness, match="fails, and may have moved noise before"):
        exact_law(program)


def test_what_torch_writes_before_it_fails_is_written() -> None:
    def program() -> Tensor:
        noise = torch.rand(2)
        with contextlib.suppress(IndexError):
            noise[tensor([1, 2])] = tensor(0.25)
        return noise < 0.5

    assert law(program) == law(lambda: (torch.rand(()) < 0.5, True))


def test_a_device_without_generators_is_named() -> None:
    with pytest.raises(OpaqueRandomness, match="on a device that has no generator"):
        exact_law(lambda: torch.rand(2, device="meta").shape)


@pytest.mark.parametrize("relation", [torch.lt, torch.gt])
def test_noise_that_is_read_past_all_operators_is_noticed(relation: Any) -> None:
    """Whatever it is compared with, and however few runs there are."""

    def program() -> bool:
        noise = torch.rand(1)
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return bool(relation(noise, 0.5))

    with pytest.raises(OpaqueRandomness, match="in another with the same random choices"):
        exact_law(program)


# --- memory that is read or written past the operators ------------------------------------------


def rejoined() -> Tensor:
    return torch.randint(0, 4, (1,))


class Index:
    """A number that torch asks Python for."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __index__(self) -> int:
        return 2 if self.tensor.tolist()[0] == 2 else 1


def index() -> Any:
    return Index(rejoined())


def by_overwritten_edges() -> Tensor:
    edges = torch.tensor([0.25, 0.5, 0.75, 1.0], dtype=torch.float64)
    found = torch.searchsorted(edges, torch.rand(1, dtype=torch.float64))
    edges.copy_(torch.tensor([0.9, 0.95, 0.97, 1.0]))
    return found


def by_overwritten_boundaries() -> Tensor:
    edges = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
    found = torch.bucketize(torch.rand(1, dtype=torch.float64), edges)
    edges.zero_()
    return found


def by_dimensions() -> Any:
    axes = torch.stack([torch.randint(0, 4, (1,)).clamp(max=2), torch.zeros(1, dtype=torch.long)])
    x = torch.arange(8.0).reshape(2, 2, 2)
    return torch.tensordot(x + x.transpose(0, 1), torch.arange(2.0)[:, None], dims=axes).sum()


def by_coins_in_place() -> Tensor:
    x = torch.full((1,), 0.25)
    return x.bernoulli_(x)


def by_coins_into_chances() -> Tensor:
    x = torch.full((1,), 0.25)
    return torch.bernoulli(x, out=x)


def by_an_alias() -> Tensor:
    squared = torch.randint(0, 4, (1,)) ** 2
    x = torch.cat([squared, torch.tensor([7])])
    y = torch.as_tensor(data=x[1:])
    x[1:].add_((x[:1] == 4).long())
    return y


def by_packed_lengths() -> Any:
    sizes = torch.cat([torch.tensor([3]), 1 + torch.randint(0, 4, (1,)).clamp(max=2)])
    packed = PackedSequence(torch.arange(6.0)[:, None], sizes)
    return pad_packed_sequence(packed)[1].sum() > 4.5


def by_a_saved_storage() -> bool:
    t = torch.zeros(1, dtype=torch.int64)
    storage = t.untyped_storage()
    t.copy_(rejoined())
    file = BytesIO()
    torch.save(storage, file)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return bool(torch.load(file, weights_only=False).tolist()[0] == 2)


@pytest.mark.parametrize(
    ("program", "law"),
    [
        (by_overwritten_edges, {0: "1/4", 1: "1/4", 2: "1/4", 3: "1/4"}),
        (by_overwritten_boundaries, {0: "1/4", 1: "1/4", 2: "1/4", 3: "1/4"}),
        (by_dimensions, {40: "1/2", 32: "1/2"}),
        (by_coins_in_place, {0: "3/4", 1: "1/4"}),
        (by_coins_into_chances, {0: "3/4", 1: "1/4"}),
        (by_an_alias, {7: "3/4", 8: "1/4"}),
        (by_packed_lengths, {False: "1/4", True: "3/4"}),
        (by_a_saved_storage, {False: "3/4", True: "1/4"}),
        (lambda: torch.zeros(2, index()).shape[1], {1: "3/4", 2: "1/4"}),
        (lambda: torch.zeros([index()]).shape[0], {1: "3/4", 2: "1/4"}),
        (lambda: torch.ones(4).reshape((index(), -1)).shape[0], {1: "3/4", 2: "1/4"}),
        (lambda: torch.ones(4)[0 : index()].shape[0], {1: "3/4", 2: "1/4"}),
        (lambda: torch.arange(4)[index()], {1: "3/4", 2: "1/4"}),
        (lambda: torch.ones(4).narrow(0, 0, index()).shape[0], {1: "3/4", 2: "1/4"}),
        (
            lambda: float(numpy.asarray(rejoined(), dtype=numpy.float32)[0]) == 2,
            {0: "3/4", 1: "1/4"},
        ),
        (lambda: numpy.int64(rejoined()[0]), {0: "1/4", 1: "1/4", 2: "1/4", 3: "1/4"}),
    ],
)
def test_what_reads_or_writes_past_the_operators_is_followed_or_refused(
    program: Callable[[], Any], law: dict[float, str]
) -> None:
    """Of each a law without a word was wrong, or a right program raised."""
    for _ in range(4):
        try:
            found = exact_law(program).law
        except OpaqueRandomness:
            continue
        told = {first_of(outcome): str(weight) for outcome, weight in found.items()}
        assert told == law


def first_of(outcome: Any) -> float:
    while isinstance(outcome, tuple):
        (outcome,) = outcome
    return float(outcome)


def as_list(x: Tensor) -> list[int]:
    y: list[int] = x.tolist()
    return y


def test_a_script_that_reads_memory_is_refused() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.script(as_list)

    def program() -> bool:
        with contextlib.suppress(Exception):
            return bool(script(rejoined())[0] == 2)
        return False

    with pytest.raises(OpaqueRandomness, match="prim::tolist reads tensors in a script"):
        exact_law(program)
    assert script(torch.tensor([2])) == [2]


class Reading:
    """A result that is compared by what it reads."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading) and self.tensor.tolist() == other.tensor.tolist()

    def __hash__(self) -> int:
        return 0


def test_a_result_with_a_comparison_of_its_own_is_refused() -> None:
    with pytest.raises(TypeError, match=r"returned .*Reading.*, which has no value to be compared"):
        exact_law(lambda: Reading(rejoined()))


def test_methods_of_tensors_are_as_before() -> None:
    before = {name: getattr(Tensor, name) for name in ("data_ptr", "numpy", "tolist")}
    exact_law(lambda: torch.rand(1) < 0.5)
    assert {name: getattr(Tensor, name) for name in before} == before
    assert not before.keys() & vars(Tensor).keys()
