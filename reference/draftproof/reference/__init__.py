"""Exact laws of verification algorithms, in rational arithmetic.

instance -> draft law -> verifier -> law of the emission

    >>> from draftproof.reference import ALGORITHMS, Instance, Model, emission_law, stateless
    >>> target = Model("target", 2, {(): ("1/3", "2/3")}, context_free=True)
    >>> draft = Model("draft", 2, {(): ("1/2", "1/2")}, context_free=True)
    >>> instance = Instance(target, draft, length=1)
    >>> emission_law(ALGORITHMS["block"], instance).map(lambda emission: emission.tokens[0])
    Law({0: 1/3, 1: 2/3})
    >>> print(stateless(instance).value)
    5/6

Read `chance` first, then `model`, then any module of `verifiers`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from draftproof.reference.chance import Chance, enumerate_law, sample
    from draftproof.reference.drafting import draft_law
    from draftproof.reference.emission import Emission
    from draftproof.reference.law import Law
    from draftproof.reference.model import Instance, Model
    from draftproof.reference.optimum import acceptance_rate, stateful, stateless
    from draftproof.reference.process import decoded, expected_accepted, is_lossless
    from draftproof.reference.proof import prove
    from draftproof.reference.verifiers import ALGORITHMS, emission_law, verification_law

__all__ = [
    "ALGORITHMS",
    "Chance",
    "Emission",
    "Instance",
    "Law",
    "Model",
    "acceptance_rate",
    "decoded",
    "draft_law",
    "emission_law",
    "enumerate_law",
    "expected_accepted",
    "is_lossless",
    "prove",
    "sample",
    "stateful",
    "stateless",
    "verification_law",
]

_ROOMS = {
    "chance": ("Chance", "enumerate_law", "sample"),
    "drafting": ("draft_law",),
    "emission": ("Emission",),
    "law": ("Law",),
    "model": ("Instance", "Model"),
    "optimum": ("acceptance_rate", "stateful", "stateless"),
    "process": ("decoded", "expected_accepted", "is_lossless"),
    "proof": ("prove",),
    "verifiers": ("ALGORITHMS", "emission_law", "verification_law"),
}
"""Exported names by module. A name is imported at its first use, and sympy with it."""


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
