"""Where random numbers go: every operator that moves, fills, copies or views them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, tensor

from draftproof.conformance.lanes._signature import SHAPES, VIEWS, is_random, reads_no_values
from draftproof.conformance.lanes.exact import OpaqueRandomness, exact_law

Program = Callable[[], Any]

# A number that noise() cannot be.
FAR = 9.0


def noise() -> Tensor:
    """Return two numbers that are told apart by where they lie: in 0..1 and in 2..3."""
    return torch.rand(2) + tensor([0.0, 2.0])


def places(moved: Tensor) -> Tensor:
    """Return 1 or 3 where the first or the second number went, and 10 where FAR is."""
    first, second = ((moved > lower) & (moved < lower + 1) for lower in (0.0, 2.0))
    return first * 1 + second * 3 + (moved == FAR) * 10


def put(index: Any, value: Callable[[], Any]) -> Program:
    def program() -> Tensor:
        target = torch.full((3,), FAR)
        target[index] = value()
        return target

    return program


MASK = tensor([True, False])
F9 = torch.full((2,), FAR)

MOVES: dict[str, tuple[Program, Any]] = {
    "clone": (lambda: noise().clone(), (1, 3)),
    "contiguous": (lambda: noise().expand(2, 2).t().contiguous(), ((1, 1), (3, 3))),
    "reshape of a transpose": (lambda: noise().expand(2, 2).t().reshape(-1), (1, 1, 3, 3)),
    "flip": (lambda: noise().flip(0), (3, 1)),
    "roll": (lambda: noise().roll(1), (3, 1)),
    "repeat": (lambda: noise().repeat(2), (1, 3, 1, 3)),
    "tile": (lambda: noise().tile(2), (1, 3, 1, 3)),
    "repeat_interleave": (lambda: noise().repeat_interleave(2), (1, 1, 3, 3)),
    "repeat_interleave by counts": (
        lambda: noise().repeat_interleave(tensor([1, 2])),
        (1, 3, 3),
    ),
    "gather": (lambda: noise().gather(0, tensor([1, 1, 0])), (3, 3, 1)),
    "take": (lambda: noise().take(tensor([1])), (3,)),
    "take_along_dim": (lambda: torch.take_along_dim(noise(), tensor([1])), (3,)),
    "index": (lambda: noise()[tensor([1, 0])], (3, 1)),
    "index by a mask": (lambda: noise()[MASK], (1,)),
    "index with None": (lambda: noise()[None, tensor([1])], ((3,),)),
    "index_select": (lambda: noise().index_select(0, tensor([1])), (3,)),
    "masked_select": (lambda: noise().masked_select(MASK), (1,)),
    "masked_fill": (lambda: noise().masked_fill(MASK, FAR), (10, 3)),
    "masked_fill by noise": (lambda: F9.masked_fill(MASK, noise()[1]), (3, 10)),
    "masked_fill in place": (lambda: noise().masked_fill_(~MASK, FAR), (1, 10)),
    "masked_scatter": (lambda: F9.masked_scatter(~MASK, noise()), (10, 1)),
    "where": (lambda: torch.where(MASK, noise(), FAR), (1, 10)),
    "where, number first": (lambda: torch.where(MASK, FAR, noise()), (10, 3)),
    "where, tensors": (lambda: torch.where(MASK, noise(), F9), (1, 10)),
    "where, 0-dim": (lambda: torch.where(MASK, noise()[1], tensor(FAR)), (3, 10)),
    "cat": (lambda: torch.cat([F9, noise()]), (10, 10, 1, 3)),
    "cat along dim=": (lambda: torch.cat([noise()[None], F9[None]], dim=1), ((1, 3, 10, 10),)),
    "cat, out=": (lambda: torch.cat([noise(), F9], out=torch.empty(4)), (1, 3, 10, 10)),
    "stack": (lambda: torch.stack([noise(), F9], -1), ((1, 10), (3, 10))),
    "pad": (lambda: torch.nn.functional.pad(noise(), (1, 0), value=FAR), (10, 1, 3)),
    "scatter": (lambda: F9.scatter(0, tensor([1, 0]), noise()), (3, 1)),
    "scatter a number": (lambda: noise().scatter(0, tensor([0]), FAR), (10, 3)),
    "scatter_": (lambda: F9.clone().scatter_(0, tensor([1]), noise()), (10, 1)),
    "index_copy": (lambda: F9.index_copy(0, tensor([1]), noise()[1:]), (10, 3)),
    "index_fill": (lambda: F9.index_fill(0, tensor([1]), noise()[1]), (10, 3)),
    "index_fill a number": (lambda: noise().index_fill(0, tensor([1]), FAR), (1, 10)),
    "index_put": (lambda: F9.index_put((tensor([1]),), noise()[:1]), (10, 1)),
    "slice_scatter": (lambda: F9.slice_scatter(noise()[1:], start=1), (10, 3)),
    "select_scatter": (lambda: F9.select_scatter(noise()[1], 0, 0), (3, 10)),
    "diagonal_scatter": (
        lambda: F9.expand(2, 2).clone().diagonal_scatter(noise()),
        ((1, 10), (10, 3)),
    ),
    "chunk": (lambda: noise().chunk(2)[1], (3,)),
    "split": (lambda: torch.split(noise(), [1, 1])[1], (3,)),
    "unbind": (lambda: noise().unbind()[1], 3),
    "unfold": (lambda: noise().unfold(0, 1, 1), ((1,), (3,))),
    "diagonal": (lambda: noise().expand(2, 2).diagonal(), (1, 3)),
    "unsqueeze in place": (lambda: noise().unsqueeze_(0), ((1, 3),)),
    "movedim": (lambda: noise()[None].movedim(0, 1), ((1,), (3,))),
    "double": (lambda: noise().double(), (1, 3)),
    "as_tensor": (lambda: torch.as_tensor(noise(), dtype=torch.float64), (1, 3)),
    "detach": (lambda: noise().detach(), (1, 3)),
    "data": (lambda: noise().data, (1, 3)),
    "fill": (put(..., lambda: noise()[1]), (3, 3, 3)),
    "set an item": (put(0, lambda: noise()[1]), (3, 10, 10)),
    "set a number": (put(0, lambda: noise()[1].item()), (3, 10, 10)),
    "set a slice": (put(slice(1, None), noise), (10, 1, 3)),
    "set by indices": (put(tensor([2, 0]), noise), (3, 10, 1)),
    "set by a mask": (put(tensor([True, False, True]), noise), (1, 10, 3)),
    "zero": (lambda: noise().zero_() + FAR, (10, 10)),
    "multiply by a mask": (lambda: noise() * tensor([0.0, 1.0]), (0, 3)),
    "multiply, no alpha": (lambda: torch.add(noise(), 5.0, alpha=0), (1, 3)),
}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(("program", "expected"), MOVES.values(), ids=MOVES)
def test_numbers_are_found_where_they_went(program: Program, expected: Any, mode: Any) -> None:
    def placed() -> Tensor:
        with mode():
            return places(program())

    observed = exact_law(placed)
    assert dict(observed.law.items()) == {expected: 1}
    with mode():
        assert nested(places(program()).tolist()) == expected


def nested(values: Any) -> Any:
    return tuple(map(nested, values)) if isinstance(values, list) else values


CHOICE = tensor([0.25, 0.75])


def choice() -> Tensor:
    return torch.multinomial(CHOICE, 1)[0]


def through_numpy() -> Any:
    buffer = torch.zeros(1, dtype=torch.int64)
    seen = buffer.numpy()
    buffer.copy_(choice())
    return seen.tolist()[0]


def through_an_array() -> Any:
    seen = numpy.zeros(1, dtype=numpy.int64)
    torch.from_numpy(seen)[0] = choice()
    return int(seen[0])


def through_out() -> Any:
    buffer = torch.rand(1) < 0.5
    torch.lt(tensor([0.0]), tensor([1.0]), out=buffer)
    return choice() * buffer[0]


def through_growth() -> Any:
    buffer = torch.rand(2) < 0.5
    buffer.resize_(5).copy_(choice().bool())
    return buffer[4].int()


READS: dict[str, Program] = {
    "result": choice,
    "item": lambda: choice().item(),
    "int": lambda: int(choice()),
    "index": lambda: torch.arange(2)[choice()],
    "slice": lambda: len(torch.arange(3)[: choice()]),
    "narrow": lambda: torch.arange(2).narrow(0, choice(), 1)[0],
    "size": lambda: len(torch.zeros([choice(), 2])),  # type: ignore[list-item]  # runs all the same
    "arange": lambda: len(torch.arange(choice())),  # type: ignore[call-overload]  # as above
    "range": lambda: len(range(choice())),
    "certify": lambda: torch.full((), choice()),  # type: ignore[call-overload]  # as above
    "one hot": lambda: torch.nn.functional.one_hot(choice(), 2)[1],
    "tensor of a list": lambda: tensor([choice()])[0],
    "old constructor": lambda: torch.LongTensor([choice()])[0],
    "old float constructor": lambda: int(torch.Tensor([choice()])[0]),
    "new": lambda: torch.zeros(1, dtype=torch.int64).new([choice()])[0],
    "tensor_split": lambda: len(torch.tensor_split(torch.arange(3), choice()[None])[0]),
    "text": lambda: int(str(choice())[7:-1]),
    "format": lambda: int(f"{choice()}"),
    "format of a row": lambda: int(f"{choice()[None]}"[8:-2]),
    "list": lambda: choice()[None].tolist()[0],
    "numpy": lambda: int(choice().numpy()),
    "shared with numpy": through_numpy,
    "shared by numpy": through_an_array,
    "out=": through_out,
    "growth": through_growth,
    "arithmetic": lambda: (choice() * 2 + 1) // 2,
    "narrow cast": lambda: choice().to(torch.uint8),
    "bool": lambda: int(bool(choice())),
    "unique": lambda: torch.unique(choice())[0],
    "matmul": lambda: (choice()[None].float() @ torch.ones(1)).int(),
    "map": lambda: [1, 0][(choice() == 0).int()],
}


@pytest.mark.parametrize("program", READS.values(), ids=READS)
def test_a_choice_is_made_before_it_is_read(program: Program) -> None:
    law = exact_law(program).law
    assert {int(outcome): str(weight) for outcome, weight in law.items()} == {0: "1/4", 1: "3/4"}


def truth(count: int = 2) -> Tensor:
    """Return choices of truth, each true with probability 1/4."""
    return torch.rand(count) < 0.25


def into(target: Tensor, masked: Callable[[Tensor], Any]) -> Tensor:
    masked(target)
    return target


KEPT = "1/4 of (1, 0), 3/4 of (0, 0)"
MASKED: dict[str, Program] = {
    "and": lambda: truth() & MASK,
    "and, known first": lambda: MASK & truth(),
    "logical": lambda: torch.logical_and(truth(), MASK),
    "by its name": lambda: torch.logical_and(truth(), other=MASK),
    "or": lambda: (truth() | ~MASK) & MASK,
    "in place": lambda: truth().logical_and_(MASK),
    "into what is known": lambda: into(MASK.clone(), lambda known: known.logical_and_(truth())),
    "into a part": lambda: into(MASK.clone(), lambda known: known[:1].logical_and_(truth(1))),
    "out=": lambda: torch.logical_and(truth(), MASK, out=torch.empty(2, dtype=torch.bool)),
    "out= what is known": lambda: into(
        MASK.clone(), lambda known: torch.logical_and(truth(), known, out=known)
    ),
    "one for all": lambda: truth(1) & MASK,
    "expanded": lambda: truth(1).expand(2) & MASK,
    "overwritten after": lambda: (known := MASK.clone(), truth() & known, known.zero_())[1],
}


@pytest.mark.parametrize("program", MASKED.values(), ids=MASKED)
def test_a_mask_decides_no_choice_of_truth(program: Program) -> None:
    """Two results, and one run: nothing had to be decided to know what is kept."""
    law = exact_law(program)
    told = ", ".join(f"{weight} of {tuple(map(int, kept))}" for kept, weight in law.law.items())
    assert told == KEPT
    assert law.runs == 1


BOTH: dict[str, tuple[Program, dict[tuple[bool, ...], str]]] = {
    "itself": (lambda: (lambda one: one & one)(truth(1)), {(True,): "1/4", (False,): "3/4"}),
    "a part of itself": (
        lambda: (lambda two: two & two[:1])(truth()),
        {(True, True): "1/16", (True, False): "3/16", (False, False): "3/4"},
    ),
    "another": (lambda: truth(1) & truth(1), {(True,): "1/16", (False,): "15/16"}),
    "another, behind a mask": (
        lambda: truth() & MASK & truth(),
        {(True, False): "1/16", (False, False): "15/16"},
    ),
    "of three": (
        lambda: (truth() | MASK | truth()) & truth(),
        {
            (True, True): "7/256",
            (True, False): "57/256",
            (False, True): "21/256",
            (False, False): "171/256",
        },
    ),
    "of a wide choice": (
        lambda: torch.multinomial(tensor([0.5, 0.25, 0.25]), 1).bool() & MASK,
        {(False, False): "1/2", (True, False): "1/2"},
    ),
    "of integers": (lambda: (truth().long() & 1)[:1], {(1,): "1/4", (0,): "3/4"}),  # type: ignore[dict-item]  # 1 is True
}


@pytest.mark.parametrize(("program", "expected"), BOTH.values(), ids=BOTH)
def test_a_choice_that_is_not_masked_is_made(program: Program, expected: Any) -> None:
    law = exact_law(program).law
    assert {outcome: str(weight) for outcome, weight in law.items()} == expected


def test_noise_is_no_truth_value() -> None:
    with pytest.raises(OpaqueRandomness, match="looks at continuous noise"):
        exact_law(lambda: torch.logical_and(torch.rand(2), MASK))


def test_noise_does_not_go_where_numpy_sees_it() -> None:
    def program() -> Any:
        buffer = torch.zeros(2)
        seen = buffer.numpy()
        buffer.uniform_()
        return (seen < 0.5).tolist()

    with pytest.raises(OpaqueRandomness, match=r"aten\.uniform_"):
        exact_law(program)


def test_a_buffer_is_drawn_anew_in_every_run() -> None:
    buffer = torch.empty(1)
    assert (
        exact_law(lambda: buffer.uniform_() < 0.25).law[(True,)]
        == exact_law(lambda: torch.rand(1) < 0.25).law[(True,)]
    )


def test_no_harmless_operator_changes_an_element() -> None:
    """What is let through unseen is a view, or has a result of shapes alone; the list is closed."""
    harmless = set()
    for qualified in torch._C._dispatch_get_all_op_names():
        if not qualified.startswith("aten::"):
            continue
        name, _, overload = qualified.removeprefix("aten::").partition(".")
        func = getattr(getattr(torch.ops.aten, name), overload or "default")
        if reads_no_values(func):
            aliases = [r.alias_info is not None for r in func._schema.returns]
            # Torch does not say that what is unsafe in this view is that it is one.
            assert all(aliases) or name in {*SHAPES, "_unsafe_view"}
            harmless.add(name.removesuffix("_"))
    assert harmless == VIEWS | SHAPES


def test_every_operator_with_a_generator_is_known_to_be_random() -> None:
    for qualified in torch._C._dispatch_get_all_op_names():
        if qualified.startswith("aten::"):
            name, _, overload = qualified.removeprefix("aten::").partition(".")
            func = getattr(getattr(torch.ops.aten, name), overload or "default")
            if any("Generator" in str(a.type) for a in func._schema.arguments):
                assert is_random(func), qualified
