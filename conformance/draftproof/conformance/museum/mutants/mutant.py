"""Mutants and controls: verifiers with one wrong step taken from an engine, and correct ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import Adapter


@dataclass(frozen=True)
class Exhibit:
    """Verifier, or drafter, of the museum, and the requirements that it must fail.

    `source` has the public threads that report the fault, or a repository that we read or ran, or
    "draftproof" for an invented fault. `check` names the place to check in a verifier that behaves
    alike, to be read after "Check"; controls have no such place.
    """

    id: str
    what: str
    why: str
    source: tuple[str, ...]
    must_fail: tuple[str, ...]
    make: Callable[[], Adapter]
    check: str = ""


class Mutant(Exhibit):
    """A verifier, or a drafter, with one wrong step.

    The first requirement that it must fail is the one that the fault itself violates.
    """

    @property
    def breaks(self) -> str:
        """The requirement that the mutant is made for."""
        return self.must_fail[0]


class Control(Exhibit):
    """Correct verifier that looks suspicious, and that no requirement may call lossy.

    It fails a requirement only if it does not run the algorithm that it names; all other controls
    must conform.
    """


def mutant(
    name: str,
    *source: str,
    breaks: str = "law.lossless",
    also: tuple[str, ...] = (),
    **made: Any,
) -> Mutant:
    """Return a mutant that breaks a requirement, and must fail others as well.

    `made` describes it: `what`, `why`, `check`, the base verifier (`of`), and the wrong steps that
    replace steps of that verifier: functions without `self`. Without a source, it is "draftproof".
    """
    return _exhibit(Mutant, name, source, (breaks, *also), **made)


def control(name: str, *source: str, fails: tuple[str, ...] = (), **made: Any) -> Control:
    """Return a control, made in the same way as a mutant."""
    return _exhibit(Control, name, source, fails, **made)


Kind = TypeVar("Kind", bound=Exhibit)


def _exhibit(
    kind: type[Kind],
    name: str,
    source: tuple[str, ...],
    must_fail: tuple[str, ...],
    *,
    what: str,
    why: str,
    check: str = "",
    of: type[Any] = Token,
    **steps: Any,
) -> Kind:
    functions: dict[str, Any] = {
        step: each for step, each in steps.items() if inspect.isfunction(each)
    }
    made = type(
        "".join(map(str.capitalize, name.split("-"))),
        (of,),
        {
            "name": name,
            # Where it is found by its name, and what it is made of: no module defines it.
            "__module__": __package__,
            "files": tuple({inspect.getfile(each): None for each in (of, *functions.values())}),
            **steps,
            **{step: staticmethod(each) for step, each in functions.items()},
        },
    )
    return kind(name, what, why, source or ("draftproof",), must_fail, made, check)
