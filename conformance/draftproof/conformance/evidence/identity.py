"""Identity of judge, adapter and environment: names, versions and digests."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as released
from pathlib import Path

import numpy

import draftproof.conformance
import draftproof.reference
from draftproof.conformance.protocol.adapter import Program
from draftproof.conformance.protocol.loading import source_digest
from draftproof.spec import chapters, schema_files, version


def subject(program: Program) -> dict[str, str]:
    """Return the identity of an adapter: name, version, and the digest of its source."""
    return {
        "name": program.declared.name,
        "version": program.declared.version,
        "sha256": source_digest(program.adapter),
    }


@cache
def specification() -> dict[str, str]:
    """Return the version of the specification, and the digest of its chapters and schemas."""
    files = ((file.name, file) for file in (*chapters(), *schema_files()))
    return {"version": version(), "sha256": _digest(files)}


BESIDE_JUDGEMENT = (
    *("museum", "report", "matrix", "cli", "pytest_plugin.py", "templates"),
    "ledger",
)
"""Rooms of conformance and of the reference that take no part in judging a verifier."""


@cache
def suite() -> dict[str, str]:
    """Return the version of the suite, and the digest of all code that judges."""
    rooms = (Path(room.__path__[0]) for room in (draftproof.reference, draftproof.conformance))
    files = (
        (file.relative_to(room.parent).as_posix(), file)
        for room in rooms
        for file in sorted(room.rglob("*.py"))
        if file.relative_to(room).parts[0] not in BESIDE_JUDGEMENT
    )
    return {"version": released("draftproof"), "sha256": _digest(files)}


def environment() -> dict[str, str]:
    """Return the environment that results can depend on: machine and computing libraries."""
    # Digests are compared where there is no torch, too.
    import torch

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "torch": str(torch.__version__),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "numpy": numpy.__version__,
        "scipy": released("scipy"),
        "sympy": released("sympy"),
        **_triton(),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
    }


def processor() -> str:
    """Return the model of the processor: models with the same instructions can round differently.

    Libraries choose their code by vendor and model, and one name may denote several models.
    """
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8").splitlines() if told.is_file() else []
    pairs = (line.partition(":") for line in lines)
    # All cores are listed; the first one stands for them.
    fields = {key.strip(): value.strip() for key, _, value in reversed([*pairs])}
    if "model name" not in fields:
        return platform.processor() or platform.machine()
    numbers = [f"{key} {fields[key]}" for key in ("cpu family", "model") if key in fields]
    return ", ".join((fields["model name"], *numbers))


def _triton() -> dict[str, str]:
    """Return the version of Triton, if there is one, and whether its kernels run in Python."""
    try:
        found = released("triton")
    except PackageNotFoundError:
        return {}
    is_interpreted = os.environ.get("TRITON_INTERPRET", "").lower() in _ON
    return {"triton": found + (" interpreted" if is_interpreted else "")}


_ON = ("1", "true", "yes", "on", "y")
"""Values that Triton reads as yes."""


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    """Return the digest of files under their names."""
    digest = sha256()
    for name, file in files:
        digest.update(f"{name}\n{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
