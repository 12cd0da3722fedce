"""The conformance suite: exact laws, certificates, and the verdicts on verifiers.

`exact_law` computes the law of any program of torch's operators, without estimating:

    >>> import torch
    >>> from draftproof.conformance import exact_law
    >>> exact_law(lambda: torch.rand(2).lt(0.25).sum()).law
    Law({2: 1/16, 1: 3/8, 0: 9/16})

`certify` judges an adapter, given as an object or by its name:

    >>> from draftproof.conformance import certify
    >>> certificate = certify("torch-token", mode="quick", seed=0, only=["law.lossless"])
    >>> certificate.verdict
    'pass'
    >>> worst = max(certificate.findings, key=lambda finding: finding.distance)
    >>> worst.distance < worst.allowed
    True

`certificate.write(folder)` writes the certificate with its evidence.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from draftproof.conformance.evidence.certificate import Certificate
    from draftproof.conformance.lanes.exact import ExactLaw, exact_law
    from draftproof.conformance.protocol.adapter import (
        Adapter,
        Declaration,
        DraftRequest,
        DraftResult,
        Request,
        Result,
        TextRequest,
        declaration,
    )
    from draftproof.conformance.protocol.loading import load_adapter
    from draftproof.conformance.requirements.finding import Finding
    from draftproof.conformance.run.certify import certify

__all__ = [
    "Adapter",
    "Certificate",
    "Declaration",
    "DraftRequest",
    "DraftResult",
    "ExactLaw",
    "Finding",
    "Request",
    "Result",
    "TextRequest",
    "certify",
    "declaration",
    "exact_law",
    "load_adapter",
]

_ROOMS = {
    "evidence.certificate": ("Certificate",),
    "lanes.exact": ("ExactLaw", "exact_law"),
    "protocol.adapter": (
        *("Adapter", "Declaration", "DraftRequest", "DraftResult"),
        *("Request", "Result", "TextRequest", "declaration"),
    ),
    "protocol.loading": ("load_adapter",),
    "requirements.finding": ("Finding",),
    "run.certify": ("certify",),
}
"""Exported names by module. A name is imported at its first use, and torch with it."""


def __getattr__(name: str) -> Any:
    for room, names in _ROOMS.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
