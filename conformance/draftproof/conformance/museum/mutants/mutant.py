"""What a mutant is: a verifier that is right but for one place, where some engine was wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from draftproof.conformance.museum.mutants.verifiers import Token
from draftproof.conformance.protocol.adapter import Adapter


@dataclass(frozen=True)
class Exhibit:
    """A verifier, or a drafter, of the museum, and the requirements that it must fail by.

    `source` has the public threads in which the fault was met, or a repository that was read or
    run, or "draftproof" for what we thought of ourselves.
    """

    id: str
    what: str
    why: str
    source: tuple[str, ...]
    must_fail: tuple[str, ...]
    make: Callable[[], Adapter]


class Mutant(Exhibit):
    """A verifier, or a drafter, that is wrong in one place.

    The first requirement that it must fail by is the one that the fault itself offends.
    """

    @property
    def breaks(self) -> str:
        """The requirement that it is here for."""
        return self.must_fail[0]


class Control(Exhibit):
    """A verifier that looks wrong and is not: what must not be called lossy.

    It fails by a requirement only if it is not what it calls itself; the others must conform.
    """


def mutant(
    name: str,
    *source: str,
    breaks: str = "law.lossless",
    also: tuple[str, ...] = (),
    **made: Any,
) -> Mutant:
    """Return a mutant that breaks a requirement, and must fail by others as well.

    It is `made` by `what`, `why`, the verifier `of` which it is one, and the steps of that which
    it gets wrong: functions without `self`. No source stands for "draftproof".
    """
    return _exhibit(Mutant, name, source, (breaks, *also), **made)


def control(name: str, *source: str, fails: tuple[str, ...] = (), **made: Any) -> Control:
    """Return a control, made as a mutant is."""
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
    return kind(name, what, why, source or ("draftproof",), must_fail, made)
