"""Formulas of the specification, each written once: what a page shows is what is evaluated here.

A formula is equations in Python. The site prints them in LaTeX; `Formula.holds` evaluates them in
exact arithmetic at places where the names in them stand for something.

Texts are numbered from 1: x[i] is the i-th token of a text x, x[:i] are the first i, x[i:] those
after them, and z @ y is the text z with one token more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from draftproof.reference.model import Path
from draftproof.reference.rational import ONE, positive_part

Names = dict[str, Any]

Define = Callable[[int, Names], Any]
"""The right side of a line that is shown, by its number, with these names."""

Places = Callable[[Define], Iterable[Names]]
"""Where a formula is asked: what each of its names stands for."""


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A displayed formula.

    `lines` are its equations, each of which must hold at every place; `given` are definitions of
    what the places are computed with; `checks` must hold as well, and are not shown. `notation`
    says how names are printed, `aside` is printed last. A `bound` is printed with "at most" for
    "is": it is what the suite allows.
    """

    lines: tuple[str, ...] = ()
    places: Places
    given: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    notation: Mapping[str, str] = field(default_factory=dict)
    aside: str = ""
    bound: bool = False

    def holds(self) -> bool:
        """Return whether every line and check holds at every place, and there is one."""
        lines = [_compiled(line) for line in (*self.lines, *self.checks)]
        shown = (*self.lines, *self.given)

        def define(number: int, names: Names) -> Any:
            return _evaluated(_compiled(shown[number].partition(" == ")[2]), names)

        asked = 0
        for names in self.places(define):
            asked += 1
            if not all(_evaluated(line, names) for line in lines):
                return False
        return asked > 0


@dataclass(frozen=True)
class Text:
    """The tokens of a text, numbered from 1."""

    tokens: Path

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return Text(self.tokens[key])
        if key < 1:
            raise IndexError(f"tokens are numbered from 1, got {key}")
        return self.tokens[key - 1]

    def __matmul__(self, token: int) -> Text:
        return Text((*self.tokens, token))

    def __len__(self) -> int:
        return len(self.tokens)


def to(start: int, end: int) -> range:
    """Return the numbers from `start` to `end`, both included."""
    return range(start, end + 1)


_KNOWN: Names = {
    "__builtins__": {},
    "abs": abs,
    "comb": math.comb,
    "log": math.log,
    "max": max,
    "min": min,
    "pos": positive_part,
    "prod": partial(math.prod, start=ONE),
    "sqrt": math.sqrt,
    "sum": sum,
    "to": to,
}


@cache
def _compiled(line: str) -> Any:
    return compile(line, "<formula>", "eval")


def _evaluated(code: Any, names: Names) -> Any:
    return eval(code, {**_KNOWN, **names})  # noqa: S307  # the texts are those of this package
