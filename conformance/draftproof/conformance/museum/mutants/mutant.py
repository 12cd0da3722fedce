"""What a mutant is: a verifier that is right but for one place, where some engine was wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from draftproof.conformance.protocol.adapter import Adapter

Class = TypeVar("Class", bound=type[Any])


@dataclass(frozen=True)
class Mutant:
    """A verifier, or a drafter, that is wrong in one place.

    `source` has the public threads in which the fault was met, or a repository that was read or
    run, or "draftproof" for what we thought of ourselves. `breaks` is the requirement that the
    fault itself offends and must be caught by, `also` what must catch it as well.
    """

    id: str
    what: str
    why: str
    source: tuple[str, ...]
    breaks: str
    also: tuple[str, ...]
    make: Callable[[], Adapter]


@dataclass(frozen=True)
class Control:
    """A verifier that looks wrong and is not: what must not be called lossy.

    `fails` are the requirements that it must fail by, since it is not what it calls itself; one
    without any must conform.
    """

    id: str
    what: str
    why: str
    source: tuple[str, ...]
    fails: tuple[str, ...]
    make: Callable[[], Adapter]


Exhibit = Mutant | Control


def mutant(
    name: str, *source: str, breaks: str, why: str, also: tuple[str, ...] = ()
) -> Callable[[Class], Class]:
    """Make a class of adapters a mutant; its docstring says in a sentence what it does."""

    def marked(cls: Class) -> Class:
        cls.exhibit = Mutant(name, inspect.getdoc(cls) or "", why, source, breaks, also, cls)
        cls.name = name
        return cls

    return marked


def control(
    name: str, *source: str, why: str, fails: tuple[str, ...] = ()
) -> Callable[[Class], Class]:
    """Make a class of adapters a control; its docstring says in a sentence what it does."""

    def marked(cls: Class) -> Class:
        cls.exhibit = Control(name, inspect.getdoc(cls) or "", why, source, fails, cls)
        cls.name = name
        return cls

    return marked


def exhibits(module: ModuleType) -> Iterator[Any]:
    """Yield the mutants or controls that a module defines, from top to bottom."""
    for defined in vars(module).values():
        if inspect.isclass(defined) and defined.__module__ == module.__name__:
            # A class inherits the mark of what it is made from; only its own counts.
            own = vars(defined).get("exhibit")
            if own is not None:
                yield own
