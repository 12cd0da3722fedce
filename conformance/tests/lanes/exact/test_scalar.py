"""A number from `item()` passes for a float, or the lane is blind: no other branch is taken."""

from __future__ import annotations

import copy
import decimal
import fractions
import functools
import gc
import json
import marshal
import math
import numbers
import pickle
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from draftproof.conformance.lanes.exact import OpaqueRandomness, exact_law
from draftproof.conformance.lanes.exact._scalar import Scalar
from draftproof.reference.law import Law
from draftproof.reference.rational import rational


def number() -> Any:
    return torch.rand(()).item()


def matched(u: Any) -> str:
    match u:
        case int():
            return "int"
        case float(x):
            return "float" if x is u else "copy"
        case _:
            return "other"


@functools.singledispatch
def dispatched(_: object) -> str:
    return "object"


@dispatched.register
def _(_: float) -> str:
    return "float"


def caught(function: Callable[..., Any], *arguments: Any) -> str:
    try:
        function(*arguments)
    except (TypeError, ValueError):
        return "no float"
    return "float"


def divided(u: Any) -> str:
    try:
        return str(u / 0)
    except ZeroDivisionError as error:
        return str(error)


def put(u: Any) -> torch.Tensor:
    into = torch.zeros(2)
    into[torch.tensor([0])] = u
    return into


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "isinstance": lambda u: isinstance(u, float),
    "isinstance of several": lambda u: isinstance(u, (int, float)),
    "no int": lambda u: isinstance(u, int),
    "no tensor": lambda u: isinstance(u, torch.Tensor),
    "type": lambda u: type(u) is float,
    "type by equality": lambda u: type(u) == float,  # noqa: E721  # programs do that
    "name of the type": lambda u: type(u).__name__,
    "type of a type": lambda u: type(type(u)) is type,
    "subclass": lambda u: issubclass(type(u), float),
    "class": lambda u: u.__class__ is float,
    "real number": lambda u: isinstance(u, numbers.Real),
    "match": matched,
    "singledispatch": dispatched,
    "callable": callable,
    "has no attributes": lambda u: hasattr(u, "__dict__"),
    "torch says float": lambda u: str(torch.full((1,), 1.0).add(u).dtype),
    "beside no dimension": lambda u: str((torch.tensor(1.0) * u).dtype),
    "beside an integer": lambda u: str((u + torch.tensor(2)).dtype),
    "beside integers": lambda u: str(torch.mul(torch.tensor([2]), u).dtype),
    "beside double": lambda u: str((torch.tensor(1.0).double() - u).dtype),
    "no memory": lambda u: hasattr(u, "_tensor") or hasattr(u, "__slots__"),
    "divided by zero": divided,
    "no module": lambda u: hasattr(u, "__module__") or hasattr(u, "__complex__"),
    "no copies of its own": lambda u: hasattr(u, "__copy__") or hasattr(u, "__deepcopy__"),
    "no garbage": gc.is_tracked,
    "nobody watches": lambda u: sys.gettrace() is None,
    "type's name": lambda u: (type.__name__, type.__module__, type(type(u)).__qualname__),
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_what_it_is_asked_is_answered_as_a_float_would(question: Callable[[Any], Any]) -> None:
    asked = exact_law(lambda: question(number())).law
    assert asked == Law.certain(question(0.3))


def test_an_error_in_a_mode_of_the_program_is_noted() -> None:
    """An operator of torch calls what is the program's own: it is watched there, too."""

    class Caught(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch is
        times = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            try:
                math.frexp(decimal.Decimal(coin))
            except TypeError:
                self.times += 1
            return func(*args, **(kwargs or {}))

    coin = 0.0

    def program() -> int:
        nonlocal coin
        coin = torch.rand(3)[1].item()
        with Caught() as caught:  # type: ignore[no-untyped-call]  # as above
            torch.zeros(2).add(1)
        return int(caught.times)

    with pytest.raises(OpaqueRandomness):
        exact_law(program)


def test_type_is_asked_where_the_number_is_taken() -> None:
    """The name `type` is looked up before there is a number: the program is begun anew."""
    assert exact_law(lambda: type(torch.rand(()).item()) is float).law == Law.certain(True)
    assert exact_law(lambda: type(torch.rand(1).tolist()[0]) is float).law == Law.certain(True)


def test_type_is_itself_for_all_else_and_afterwards() -> None:
    def asked() -> tuple[Any, ...]:
        number()

        class Meta(type):
            pass

        class Made(metaclass=Meta):
            pass

        other = type("Other", (Made,), {})
        return (
            (int is int, type(int) is type, type(Made) is Meta, type(other) is Meta),
            (isinstance(int, type), isinstance(1, type), isinstance(Made, type)),
            (issubclass(Meta, type), issubclass(int, type), type[int] == type[int]),
        )

    wanted = (True, True, True, True), (True, False, True), (True, False, True)
    assert exact_law(asked).law == Law.certain(wanted)
    assert (type(int) is type, float is float, type.__module__) == (True, True, "builtins")
    with pytest.raises(OpaqueRandomness):
        exact_law(lambda: round(number()))
    assert type(type) is type


LAWS: dict[str, Callable[[Any], Any]] = {
    "below": lambda u: u < 0.25,
    "above": lambda u: u < 0.25,
    "numpy": lambda u: u < numpy.float64(0.25),
    "itself": lambda u: +u < 0.25,
    "real": lambda u: u.real < 0.25,
    "conjugate": lambda u: u.conjugate() < 0.25,
    "copied": lambda u: copy.deepcopy([u])[0] < 0.25,
    "smallest": lambda u: min(u, 0.25) < 0.25,
    "sum": lambda u: sum([u, 1.0]) < 1.25,
    "a large whole number": lambda u: u < 0.25 and u < 10**30,
    "of the type": lambda u: u < type(u)("0.25"),
    "put": lambda u: put(u)[0] < 0.25,
}


@pytest.mark.parametrize("question", LAWS.values(), ids=LAWS)
def test_what_is_followed_has_its_law(question: Callable[[Any], Any]) -> None:
    law = exact_law(lambda: bool(question(number()))).law
    assert law[True] == rational("1/4")


BLIND: dict[str, Callable[[Any], Any]] = {
    "u // r": lambda u: u // 0.5 < 1,
    "r // u": lambda u: 1 // u < 2,
    "u % r": lambda u: u % 0.5 < 0.25,
    "divmod": lambda u: divmod(u, 0.5)[0] < 1,
    "is_integer": lambda u: u.is_integer(),
    "as_integer_ratio": lambda u: u.as_integer_ratio()[0] < 1,
    "hex": lambda u: u.hex(),
    "round": round,
    "round to digits": lambda u: round(u, 2) < 0.5,
    "float": lambda u: float(u) < 0.5,
    "fsum": lambda u: math.fsum([u, 1]) < 1.5,
    "isnan": math.isnan,
    "truth": bool,
    "hash": hash,
    "text": str,
    "format": lambda u: f"{u:.2f}",
    "percent": lambda u: "%.2f" % u,  # noqa: UP031  # programs do that
    "json": json.dumps,
    "struct": lambda u: struct.pack("d", u),
    "pickle": pickle.dumps,
    "decimal": lambda u: decimal.Decimal(u) < decimal.Decimal("0.5"),
    "fraction": lambda u: u < fractions.Fraction(1, 2),
    "array": lambda u: bool(numpy.array([u]) < 0.5),
    "descriptor": lambda u: float.__lt__(u, 0.5),
    "sleep": time.sleep,
    "size": sys.getsizeof,
    "size by name": lambda u: u.__sizeof__(),
    "index": lambda u: [1, 2][u],
    # Torch would round the number to half precision first.
    "half": lambda u: bool(u < torch.tensor(0.99, dtype=torch.bfloat16)),
    "half of several": lambda u: bool(torch.tensor([0.99], dtype=torch.float16) > u),
    "half product": lambda u: bool(torch.tensor(1.0, dtype=torch.bfloat16) * u >= 1),
    "of half": lambda u: bool(torch.sub(torch.ones(1).half(), u) > 0.5),
    # A float raises where these overflow.
    "power": lambda u: u**2 < 0.0625,
    "too large a number": lambda u: u < 10**400,
    "complex": lambda u: abs(u + 1j) < 1.2,
    # The program goes on without the error.
    "caught": lambda u: caught(json.dumps, u),
    "caught in C": lambda u: caught(marshal.dumps, u),
    "caught comparison": lambda u: caught(float.__lt__, u, 0.5),
    "caught decimal": lambda u: caught(decimal.Decimal, u),
    # Torch is given a tensor where it was given a number.
    "scatter": lambda u: torch.zeros(1, 2).scatter_(1, torch.tensor([[0]]), u),
}


@pytest.mark.parametrize("question", BLIND.values(), ids=BLIND)
def test_what_is_not_followed_blinds_the_lane(question: Callable[[Any], Any]) -> None:
    def caught() -> Any:
        try:
            return question(number())
        except Exception:
            raise

    with pytest.raises(OpaqueRandomness, match=r"test_scalar\.py"):
        exact_law(caught)


def test_a_float_has_nothing_that_it_lacks() -> None:
    assert [name for name in dir(float) if not hasattr(Scalar, name)] == []
    of_all = {
        *("__delattr__", "__dir__", "__getattribute__", "__setattr__", "__sizeof__", "__new__"),
        *("__subclasshook__", "__init_subclass__"),
    }
    assert {name for name in dir(float) if name not in vars(Scalar)} <= of_all


@pytest.mark.requirement("law.lossless")
def test_a_branch_that_is_never_taken_outside_is_not_taken_here() -> None:
    """A verifier that is right where its number is no float, and too generous where it is one."""

    def accepts() -> bool:
        u = torch.rand(()).item()
        return bool(u < (0.75 if isinstance(u, float) and type(u) is float else 0.5))

    assert exact_law(accepts).law[True] == rational("3/4")


def test_a_generator_is_called_as_ever() -> None:
    def asked() -> tuple[str, str]:
        return type(torch.Generator()).__name__, torch.Generator.__module__

    assert exact_law(asked).law == Law.certain(asked())


def test_a_generator_that_was_made_before_is_one() -> None:
    own = torch.Generator()
    law = exact_law(lambda: (isinstance(own, torch.Generator), isinstance(1, torch.Generator))).law
    assert law == Law.certain((True, False))


class Mute(TypeError):
    def __str__(self) -> str:
        raise self


class Odd(TypeError):
    def __str__(self) -> Any:
        return 7


@pytest.mark.parametrize("error", [Mute, Odd])
def test_an_error_without_a_message_blinds_the_lane(error: type[Exception]) -> None:
    def program() -> Any:
        number()
        raise error

    told = f"may be refused where a float is not: {error.__name__}: its message cannot be had"
    with pytest.raises(OpaqueRandomness, match=told):
        exact_law(program)
