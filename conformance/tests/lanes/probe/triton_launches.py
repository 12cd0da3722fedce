"""Programs of Triton's interpreter that are replayed write what interpreted ones write.

A program of its own, because Triton decides when it is imported whether it interprets:

    TRITON_INTERPRET=1 python triton_launches.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from functools import wraps
from time import monotonic
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import knobs

from draftproof.conformance.lanes.probe import _launches
from draftproof.conformance.lanes.probe._launches import interpreted, recorded

INTERPRETER: Any = sys.modules["triton.runtime.interpreter"]

# Triton is untyped.
jit: Callable[[Callable[..., Any]], Any] = triton.jit

calls = 0
LIMIT = tl.constexpr(0.0)


@jit
def plain(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Sum, take the largest of, and add up rows, the first of which is written to, too."""
    row = tl.program_id(0)
    place = tl.arange(0, BLOCK)
    inside = place < count
    own = tl.load(x + row * count + place, mask=inside, other=0.0) * scale
    tl.store(out + row * 3, tl.sum(own))
    tl.store(out + row * 3 + 1, tl.max(own, 0))
    tl.store(out + row * 3 + 2, tl.sum(tl.cumsum(own, 0) * own))
    tl.store(x + row * count + place, own, mask=inside & (place * 0 + row == 0))


@jit
def looking(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write over memory, and look at what is there before it is written to again."""
    place = tl.arange(0, BLOCK)
    own = tl.load(x + place, mask=place < count, other=0.0)
    tl.store(out, 7.0)
    if tl.max(own, 0) > scale:
        tl.store(out, tl.load(out) + tl.sum(own))
        for step in range(count):
            tl.store(out + step, tl.load(out + step) * 2)
    elif tl.min(own, 0) < 0:
        tl.store(out + 1, tl.min(own, 0))


@jit
def gridded(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Go on from what the program before wrote, in other ways at other places of the grid."""
    row, column = tl.program_id(0), tl.program_id(1)
    total = tl.load(out) + tl.num_programs(0) * 100 + row * 10
    if row == 1:
        total = total * scale
    for step in range(column):
        total += tl.load(x + row + step)
    tl.store(out, total)
    if tl.load(x + row) < 0:
        tl.store(out + 1 + (row + column) % 8, total)


@jit
def stopping(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Raise an error at the first negative number, after programs that have written."""
    row = tl.program_id(0)
    tl.store(out + row, scale)
    if tl.load(x + row) < -1:
        tl.arange(0, 3)
    tl.store(out + row, tl.load(x + row))


@jit
def turning(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Add up from other ends at other places of the grid: the scan looks at the place itself."""
    row, place = tl.program_id(0), tl.arange(0, BLOCK)
    added_up = tl.cumsum(tl.load(x + place), 0, reverse=row >= 1)
    tl.store(out + row, tl.sum(added_up * place))


@jit
def summing(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Add up along other axes at other places of the grid."""
    row, place = tl.program_id(0), tl.arange(0, 4)
    own = tl.load(x + place[:, None] * 4 + place[None, :])
    tl.store(out + row * 4 + place, tl.sum(own, axis=row % 2), mask=place + row * 4 < 9)


@jit
def launching(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Launch a kernel, which changes the grid."""
    stopping[(1,)](x, out, count, scale, BLOCK=BLOCK)
    tl.store(out + 1, tl.num_programs(0) * 10.0)


@jit
def warning(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Call a function that Triton warns of."""
    place = tl.arange(0, BLOCK)
    two = tl.cat(tl.load(x + place), tl.load(x + place), can_reorder=True)
    tl.store(out, tl.sum(two))


@jit
def added(one: Any, other: Any) -> Any:
    """Return a sum, as numpy does not."""
    return one + other


@jit
def combining(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Reduce by a function of the program's own."""
    place = tl.arange(0, BLOCK)
    own = tl.load(x + place, mask=place < count, other=0.0)
    tl.store(out, tl.reduce(own, 0, added))


@jit
def counting(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write what depends on the launches before, which nobody sees that it reads."""
    tl.store(out, monotonic())


@jit
def tallying(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write how many launches there were before, which a function of Python's counts."""
    tl.store(out, called() + tl.load(x) * 0)


def called() -> float:
    global calls
    calls += 1
    return float(calls)


@jit
def limited(x: Any) -> Any:
    """Return whether a number is below a limit that is a global."""
    return x < LIMIT


@jit
def reading(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with a global that is different in every launch."""
    place = tl.arange(0, BLOCK)
    own = tl.load(x + place, mask=place < count, other=0.0)
    tl.store(out, tl.sum(limited(own).to(tl.int32)))


@jit
def paired(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Divide by a constant that is one of a pair: its sign is seen where it is zero."""
    tl.store(out, 1.0 / (tl.load(x) * tl.load(x) * BLOCK[1]))


class Place(NamedTuple):
    """Where a number is, and whether it is there; the type has a bound, changed meanwhile."""

    at: Any
    inside: Any


BOUNDED: Any = Place


@jit
def placed(place: Any, count: Any) -> Any:
    return Place(place, place < count)


@jit
def bounded(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Go by named tuples, and compare with an attribute of their type."""
    here = placed(tl.arange(0, BLOCK), count)
    own = tl.load(x + here.at, mask=here.inside, other=0.0)
    tl.store(out, tl.sum((own < BOUNDED.bound).to(tl.int32)))


@jit
def attributed(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with an attribute of a function of the kernel's."""
    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < limited.bound).to(tl.int32)))


def below_limit(x: Any) -> Any:
    return x < LIMIT


wrapping: Callable[..., Any] = wraps(tl.exp)(below_limit)


@jit
def wrapped(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare by a function that says that it is one of Triton's."""
    tl.store(out, tl.sum(wrapping(tl.load(x + tl.arange(0, BLOCK))).to(tl.int32)))


SETTINGS = ModuleType("settings")
MAKING = ModuleType("making")
vars(MAKING)["__getattr__"] = lambda name: LIMIT


def bounding(settings: Any) -> Any:
    return settings.bound


@jit
def given(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with an attribute of a module that another function reads."""
    bound = bounding(SETTINGS)
    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < bound).to(tl.int32)))


@jit
def telling(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Look at a number's text."""
    tl.store(out, 1.0 if str(tl.load(x) < 0) == "[ True]" else 2.0)


@jit
def making(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with what a module makes when it is asked for it."""
    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < MAKING.bound).to(tl.int32)))


@jit
def importing(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Compare with what is imported then."""
    from __main__ import LIMIT as bound

    tl.store(out, tl.sum((tl.load(x + tl.arange(0, BLOCK)) < bound).to(tl.int32)))


@jit
def handling(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Look at a number as numpy has it."""
    tl.store(out, 1.0 if tl.load(x).handle.data.item() < 0 else 2.0)


@jit
def wandering(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Look at so many numbers that nearly every program takes a way of its own."""
    for i in range(12):
        if tl.load(x + i) < 0:
            tl.store(out + i % 9, scale * i)


@jit
def adding_at_once(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Add to memory in one step."""
    tl.atomic_add(out, tl.load(x))


class Defaulted(NamedTuple):
    """A type whose default is changed meanwhile."""

    value: Any
    bound: Any = 0.5


@jit
def defaulting(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write the default of a type."""
    tl.store(out, Defaulted(tl.load(x)).bound)


@jit
def of_environment(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write what Triton finds in the environment."""
    tl.store(out, 1.0 if knobs.language.fp32_default == "ieee" else 2.0)


@jit
def of_type(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write an attribute of one of Triton's objects."""
    tl.store(out, tl.float32.bound)


@jit
def of_list(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write what a list holds that was put into Triton."""
    tl.store(out, tl.bounds[0])


@jit
def of_kernel(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write what was given to a function with its decorator."""
    tl.store(out, limited.kwargs["bound"])


@jit
def of_semantic(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write an attribute of what kernels are rewritten with."""
    tl.store(out, interpreter_semantic.bound)  # type: ignore[name-defined]  # noqa: F821


@jit
def of_semantics_own(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write an attribute of Triton's class of tensors."""
    tl.store(out, tl.load(x).bound)


@jit
def inner(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Call a function of Triton's whose own functions are replaced meanwhile."""
    tl.store(out, tl.sigmoid(tl.load(x)))


class dtype:
    """A type that says that it is Triton's."""

    __module__ = "triton.language"

    def __str__(self) -> str:
        return "fp32"


IMPOSTOR: Any = dtype()


@jit
def of_an_impostor(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write an attribute of an object of that type."""
    tl.store(out, IMPOSTOR.bound)


@jit
def owned(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Call a function that was put into Triton's module."""
    tl.store(out, OWNED(tl.load(x)))


@jit
def catching_assertion(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Catch what a step of Triton's raises."""
    y = 1.0
    try:
        tl.assume(tl.load(x) < 0.0)
    except AssertionError:
        y = 2.0
    tl.store(out, y)


@jit
def catching_number(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Catch what a look raises."""
    y = 1.0
    try:
        int(tl.where(tl.load(x) > 0.0, float("nan"), 1.0))
    except ValueError:
        y = 2.0
    tl.store(out, y)


def frames(box: Any) -> Any:
    for each in box:
        yield each.gi_frame.f_back


@jit
def of_frame(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Write what a caller has, by the frame of a generator."""
    box = [0]
    each = frames(box)
    box[0] = each
    for frame in each:
        while frame.f_code.co_name != "launched":
            frame = frame.f_back
        tl.store(out, len(frame.f_code.co_name))


@jit
def printing(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Print, which a recording does not."""
    print(end="")
    tl.store(out, tl.load(x))


@jit
def addressed(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Make text of an object: it has its address."""
    tl.store(out, len(f"{(i for i in (0,))}"))


def depth() -> int:
    try:
        return min(1 + depth(), 1)
    except RecursionError:
        return 0


@jit
def deep(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Find out how deep calls may be."""
    tl.store(out, tl.load(x) * 0 + depth())


UNSEEN = ModuleType("unseen")
exec("def plus(x):\n    return x + 1.0", vars(UNSEEN))
plus = jit(vars(UNSEEN)["plus"])


@jit
def unseeing(x: Any, out: Any, count: Any, scale: Any, BLOCK: tl.constexpr) -> None:
    """Call a function of a module that does not see Triton's."""
    tl.store(out, plus(tl.load(x)))


exec("def owned_by(x):\n    return x * bounds[0]", vars(tl))
OWNED: Any = vars(tl).pop("owned_by")

MATH = INTERPRETER.tl.standard.math
FAKE = ModuleType("fake")
vars(FAKE).update({**vars(MATH), "exp": lambda x: x})


@contextmanager
def changed(kernel: Any, bound: float) -> Any:
    """Change Triton, where it is this kernel that reads it."""
    Defaulted.__new__.__defaults__ = (bound,)
    limited.kwargs["bound"] = IMPOSTOR.bound = bound
    with ExitStack() as stack:
        if kernel is of_environment:
            found = {"TRITON_F32_DEFAULT": "ieee" if bound > 0 else "tf32"}
            stack.enter_context(patch.dict("os.environ", found))
        if kernel is of_type:
            stack.enter_context(patch.object(tl.float32, "bound", bound, create=True))
        if kernel in (of_list, owned):
            stack.enter_context(patch.object(tl, "bounds", BOUNDS, create=True))
            BOUNDS[0] = bound
        if kernel is of_semantic:
            owner = INTERPRETER.interpreter_semantic
            stack.enter_context(patch.object(owner, "bound", bound, create=True))
        if kernel is of_semantics_own:
            stack.enter_context(patch.object(tl.tensor, "bound", bound, create=True))
        if kernel is inner and bound < 0:
            stack.enter_context(patch.object(INTERPRETER.tl.standard, "math", FAKE))
        yield


BOUNDS = [0.0]

_LIMITED = (
    *(defaulting, of_environment, of_type, of_list, of_kernel, of_semantic, of_semantics_own),
    *(inner, of_an_impostor, owned),
    *(reading, bounded, attributed, wrapped, given, making, importing),
)


def launched(kernel: Any, x: Tensor, count: int, scale: float) -> list[Any]:
    """Return what a launch writes, bit by bit."""
    global LIMIT
    LIMIT = tl.constexpr(scale - 1.0)
    BOUNDED.bound = limited.bound = vars(SETTINGS)["bound"] = LIMIT
    x, out = x.clone(), torch.full((3 * 3,), -1.0, dtype=x.dtype)
    block = (1, 0.0 if scale < 1 else -0.0) if kernel is paired else 16
    grids: dict[Any, tuple[int, ...]] = {
        **dict.fromkeys([plain, turning, summing], (3,)),
        gridded: (count, 2, 2),
        stopping: (count,),
        launching: (count, 1),
    }
    grid, raised = grids.get(kernel, (1,)), None
    # Of the limit only the global tells, or an attribute.
    scale = 1.0 if kernel in _LIMITED else scale
    with changed(kernel, LIMIT.value):
        try:
            kernel[grid](x, out, count, scale, BLOCK=block)
        except triton.runtime.errors.InterpreterError as error:
            raised = repr(error.__cause__)[-80:]
    return [raised, out.tolist(), x.tolist()]


def inputs(kernel: Any) -> list[tuple[Tensor, int, float]]:
    """Return rows with many answers to what a kernel looks at."""
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(3 * 12, generator=generator, dtype=dtype), count, scale)
        for _ in range(4)
        for dtype in (torch.float32, torch.float64)
        for count in (1, 3, 5, 9)
        for scale in (0.5, 2.0)
    ]


def without_writes(branch: Any) -> None:
    """Leave out the writes of a recording."""
    branch.steps = [each for each in branch.steps if each.name not in _launches._STORES]
    for each in branch.answers.values():
        without_writes(each)


def unwritten() -> dict[str, Any]:
    """Return what comes of programs of which the tenth does not write what interpreting does."""
    _launches._KINDS.clear()
    with recorded(INTERPRETER):
        launched(plain, *inputs(plain)[0])
        (kind,) = _launches._KINDS.values()
        for _ in range(2):
            launched(plain, *inputs(plain)[0])
        without_writes(kind.root)
        with patch.object(_launches, "_CHECKED", 1):
            launched(plain, *inputs(plain)[0])
    return {"refused": [kind.refused], "made": kind.made}


@contextmanager
def spoilt() -> Any:
    """Let programs that are replayed add where they should multiply."""
    played = _launches._played

    def wrong(interpreter: Any, root: Any, *given: Any, **how: Any) -> Any:
        def swapped(branch: Any) -> None:
            for place, step in enumerate(branch.steps):
                if step.name == "create_fmul":
                    add = interpreter.interpreter_builder.create_fadd
                    branch.steps[place] = _launches.Step(
                        step.name, add, step.arguments, step.are_values
                    )
            for each in branch.answers.values():
                swapped(each)

        swapped(root)
        return played(interpreter, root, *given, **how)

    vars(_launches)["_played"] = wrong
    try:
        yield
    finally:
        vars(_launches)["_played"] = played


def compared(kernel: Any) -> dict[str, Any]:
    """Return how many launches differ, and what is known of their kinds."""
    _launches._KINDS.clear()
    wanted = [launched(kernel, *each) for each in inputs(kernel)]
    with recorded(INTERPRETER):
        found = [launched(kernel, *each) for each in inputs(kernel)]
    kinds = _launches._KINDS.values()
    made = sum(kind.made for kind in kinds)
    return {
        "made": made,
        "differ": sum(one != other for one, other in zip(wanted, found, strict=True)),
        "kinds": len(kinds),
        "branches": sum(kind.branches for kind in kinds),
        "checked": sum(kind.made > 0 and kind.refused is None for kind in kinds),
        "refused": sorted({kind.refused for kind in kinds if kind.refused}),
    }


if __name__ == "__main__":
    kernels: list[Callable[..., Any]] = [
        *(plain, warning, looking, gridded, stopping, turning, summing, launching),
        *(reading, paired, bounded, attributed, wrapped, given, telling),
        *(making, importing, handling, wandering),
        *(defaulting, of_environment, of_type, of_list, of_kernel, of_semantic, of_semantics_own),
        *(inner, of_an_impostor, owned, catching_assertion, catching_number, of_frame, printing),
        *(addressed, deep, unseeing),
        *(combining, adding_at_once, counting, tallying),
    ]
    report = {kernel.__name__: compared(kernel) for kernel in kernels}
    with spoilt():
        report["spoilt"] = compared(plain)
    report["unwritten"] = unwritten()
    with interpreted():
        report["interpreted"] = compared(plain)
    with patch.object(_launches, "_MOST_MISSED", 2):
        report["wandering on"] = compared(wandering)
    with patch.object(_launches, "_MOST_NUMBERS", 35):
        report["large"] = compared(plain)
    print(json.dumps(report))
