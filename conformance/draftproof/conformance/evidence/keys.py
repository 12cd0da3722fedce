"""Keys: digests of everything that a finding depends on, split into code and environment.

The *code key* of a task covers its question (case, requirements, terms), the reference algorithm,
the modules that observe and judge it, and the files that the adapter declares. The same code key
means the same question and the same judge, on any machine. The *environment* covers the versions of
computing libraries and the machine; floats depend on it. `traces` records whatever else a program
has read.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as released
from pathlib import Path
from typing import TYPE_CHECKING, Any

from draftproof.conformance.evidence.closure import digest
from draftproof.conformance.evidence.identity import processor
from draftproof.reference.rational import ZERO, Rational
from draftproof.reference.verifiers import ALGORITHMS

if TYPE_CHECKING:  # what these import takes seconds, and keys are looked up before
    from draftproof.conformance.protocol.adapter import Declaration
    from draftproof.conformance.requirements.task import Task, Terms

FORMAT = 2
"""Version of the scheme of keys; a new version makes all findings unknown."""

JUDGE = "draftproof.conformance.run.judging"
"""Module that asks lane after lane."""


def code_key(
    task: Task,
    *,
    lane: str | None,
    blind: Collection[str],
    declared: Declaration,
    subject: str,
    terms: Terms,
) -> str:
    """Return the code key of a task that a lane decides, None if no lane can.

    The lanes before it were asked, too, except those that are `blind` to the adapter, whose files
    have the digest `subject`.
    """
    seeing = [each for each in task.lanes if each not in blind]
    lanes = [] if lane is None else seeing[: seeing.index(lane) + 1]
    calls = [each for each in (task.judge, task.sampling) if each is not None]
    algorithm = ALGORITHMS.get(declared.algorithm)
    code = digest(
        {_module(each) for each in calls} | {JUDGE},
        lanes=lanes,
        algorithm=None if algorithm is None else algorithm.verify.__module__,
    )
    asked = (
        FORMAT,
        task.case,
        task.requirements,
        *calls,
        lanes,
        declared,
        algorithm,
        subject,
        terms,
    )
    return _sha256("\n".join([*content(asked), code]))


def environment_key() -> str:
    """Return the digest of the computing libraries and the machine, without importing them."""
    return _sha256("\n".join(content(_environment())))


def tree_root(leaves: Sequence[str]) -> str:
    """Return the root of the hash tree over some keys; an unpaired last node moves up unchanged."""
    level = [*leaves] or [_sha256("")]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [_sha256("\n".join(pair)) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def content(value: Any) -> list[str]:
    """Return the parts of a value as words; different values have different words.

    Raises `TypeError` for a value of an unsupported type.
    """
    words: list[str] = []
    _tell(value, words.append)
    return words


def _tell(value: Any, say: Callable[[str], None]) -> None:
    """Pass the parts of a value to `say`. A campaign has millions of parts, mostly numbers."""
    kind = type(value)
    if kind in _WORDS:
        say(f"{kind.__name__} {value!r}")
    elif (whole := _parts(value)) is not None:
        begin, parts, end = whole
        say(begin)
        for part in parts:
            _tell(part, say)
        say(end)
    elif isinstance(value, (int, float, str, Rational)):
        say(f"{kind.__name__} {value!r}")
    elif callable(value) and hasattr(value, "__qualname__"):
        say(f"{value.__module__}.{value.__qualname__}")
    else:
        raise TypeError(f"a {kind.__name__} has no content that can be hashed: {value!r}")


def _parts(value: Any) -> tuple[str, Iterable[Any], str] | None:
    """Return the parts of a value between two brackets, None if it has none."""
    if isinstance(value, (list, tuple)):
        return "[", value, "]"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__qualname__}(", (getattr(value, f.name) for f in fields(value)), ")"
    if isinstance(value, Mapping):
        return "{", value.items(), "}"
    if isinstance(value, (set, frozenset)):
        return "[", sorted(value, key=repr), "]"
    if isinstance(value, partial):
        return "[", (value.func, value.args, value.keywords), "]"
    return None


_WORDS = frozenset({bool, float, int, str, type(None), type(ZERO)})
"""Types of nearly all parts, each of which is written as the name of its type and its value."""


def _module(call: Callable[..., Any]) -> str:
    return _module(call.func) if isinstance(call, partial) else call.__module__


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _environment() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": (platform.system(), platform.machine(), platform.libc_ver()),
        "processor": processor(),
        "flags": _cpu_flags(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "libraries": libraries(),
        "variables": _variables(),
        "optimized": sys.flags.optimize,
        "gpu": [_text_of(each) for each in _GPU],
    }


@cache
def libraries() -> dict[str, str]:
    """Return the versions of the libraries that judge and compute: torch, Triton and others."""
    own = (each.split(";")[0] for each in requires("draftproof") or () if "extra ==" not in each)
    names = ("draftproof", "torch", "triton", *(_name(each) for each in own))
    return {name: found for name in sorted({*names}) if (found := _version(name))}


def _name(requirement: str) -> str:
    """Return the name that a requirement such as "click>=8.1" begins with."""
    return requirement[: next((i for i, c in enumerate(requirement) if c in "<>=!~[ "), None)]


def _version(name: str) -> str | None:
    try:
        return released(name)
    except PackageNotFoundError:
        return None


def _variables() -> dict[str, str]:
    """Return the variables that libraries read, the same before and after an import of joblib."""
    read = {name for name in os.environ if name.startswith(_READ_IN_C)}
    return {name: os.environ[name] for name in sorted(read - {_SET_BY_JOBLIB})}


_SET_BY_JOBLIB = "KMP_INIT_AT_FORK"

_READ_IN_C = (
    *("ATEN_", "BLIS_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "GLIBC_TUNABLES", "GOMP_", "KMP_"),
    *("LANG", "LC_", "LD_", "MALLOC_", "MKL_", "NPY_", "NUMEXPR_", "NVIDIA_", "OMP_", "ONEDNN_"),
    *("OPENBLAS_", "PYTHONHASHSEED"),
    *("PYTORCH_", "TORCH_", "TRITON_", "TZ", "XLA_", "JAX_"),
)
"""Prefixes of variables that libraries read without Python; reads by a program are traced."""

_GPU = (Path("/proc/driver/nvidia/version"),)


def _cpu_flags() -> str:
    told = _text_of(Path("/proc/cpuinfo"))
    return next((each for each in told.splitlines() if each.startswith("flags")), "")


def _text_of(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""
