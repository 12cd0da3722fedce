"""Who judges whom, and where: names, versions and digests."""

from __future__ import annotations

import platform
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch

import draftproof.conformance
import draftproof.reference
from draftproof.conformance.adapter import Adapter, Declaration
from draftproof.conformance.loading import source_digest
from draftproof.spec import chapters, schema_files


def subject(adapter: Adapter, declared: Declaration) -> dict[str, str]:
    """Return what is judged: name, version, and the digest of its source."""
    return {
        "name": declared.name,
        "version": declared.version,
        "sha256": source_digest(adapter),
    }


@cache
def specification() -> dict[str, str]:
    """Return the version of the specification, and the digest of its chapters and schemas."""
    return {
        "version": version("draftproof"),
        "sha256": _digest([*chapters(), *schema_files()], Path()),
    }


@cache
def suite() -> dict[str, str]:
    """Return the version of the suite, and the digest of its sources and of the reference's."""
    digest = sha256()
    for room in (draftproof.reference, draftproof.conformance):
        folder = Path(room.__path__[0])
        digest.update(_digest(sorted(folder.rglob("*.py")), folder).encode())
    return {"version": version("draftproof"), "sha256": digest.hexdigest()}


def environment() -> dict[str, str]:
    """Return what results can depend on: the machine, and the libraries that compute."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": str(torch.__version__),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "numpy": numpy.__version__,
        "scipy": version("scipy"),
        "sympy": version("sympy"),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
    }


def _digest(files: list[Path], folder: Path) -> str:
    digest = sha256()
    for file in files:
        name: Any = file.relative_to(folder).as_posix() if folder.parts else file.name
        digest.update(f"{name}\n{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
