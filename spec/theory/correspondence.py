"""Files of the theory, the modules of the reference read beside them, and digests of both.

Coq proves theorems of the programs in the theory; that these are the reference's programs is tested
on vectors, and read. Whatever changes after it was read must be read again.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from theory.checking import FOLDER
from theory.sentences import programs

TABLE = FOLDER / "correspondence.toml"
REFERENCE = FOLDER.parents[1] / "reference/draftproof/reference"


def modules_of(file: str, table: Path = TABLE) -> tuple[str, ...]:
    """Return the modules of the reference that a file of the theory was read beside."""
    return tuple(_read(table)["files"].get(file, {}).get("modules", ()))


def unread(
    folder: Path = FOLDER, reference: Path = REFERENCE, table: Path = TABLE
) -> Iterator[str]:
    """Yield what has changed since it was read beside its counterpart, and what to do about it."""
    known = _read(table)
    for name, own in known["files"].items():
        changed = [
            f"reference/draftproof/reference/{module}"
            for module in own["modules"]
            if known["modules"].get(module) != _of_module(reference / module)
        ]
        if own["programs"] != _of_programs(folder / f"{name}.v"):
            changed.insert(0, f"spec/theory/{name}.v, its programs")
        if changed:
            beside = ", ".join(own["modules"])
            yield (
                f"changed since they were read side by side: {', '.join(changed)}. "
                f"Read the programs of spec/theory/{name}.v beside {beside}. "
                f"When they say the same: cd spec && python -m theory read {name}"
            )


def without_theory(modules: Collection[str], table: Path = TABLE) -> list[str]:
    """Return the modules that no file of the theory was read beside."""
    read = {module for own in _read(table)["files"].values() for module in own["modules"]}
    return [module for module in modules if module not in read]


def noted(
    names: Iterable[str],
    folder: Path = FOLDER,
    reference: Path = REFERENCE,
    table: Path = TABLE,
) -> None:
    """Note that files were read beside their modules as both are now.

    Raises `LookupError`, and notes nothing, if a name is not of a file in the table.
    """
    known = _read(table)
    names = [*names]
    if unknown := [name for name in names if name not in known["files"]]:
        raise LookupError(
            f"no file of the theory is called {', '.join(map(repr, unknown))}; "
            f"known: {', '.join(known['files'])}"
        )
    for name in names:
        own = known["files"][name]
        own["programs"] = _of_programs(folder / f"{name}.v")
        for module in own["modules"]:
            known["modules"][module] = _of_module(reference / module)
    head = "".join(_comments(table.read_text(encoding="utf-8")))
    table.write_text(head + _written(known), encoding="utf-8")


def _read(table: Path) -> dict[str, Any]:
    return tomllib.loads(table.read_text(encoding="utf-8"))


def _comments(text: str) -> Iterator[str]:
    """Yield the lines at the head of a file that are comments."""
    for line in text.splitlines(keepends=True):
        if not line.startswith("#"):
            return
        yield line


def _written(known: Mapping[str, Any]) -> str:
    """Return the table as it is written: files with their modules, and what these were then."""
    lines = []
    for name, own in sorted(known["files"].items()):
        modules = ", ".join(f'"{each}"' for each in own["modules"])
        lines += [
            f"[files.{name}]",
            f"modules = [{modules}]",
            f'programs = "{own["programs"]}"',
            "",
        ]
    lines.append("[modules]")
    lines += [f'"{module}" = "{digest}"' for module, digest in sorted(known["modules"].items())]
    return "\n".join(["", *lines, ""])


def _of_module(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _of_programs(file: Path) -> str:
    """Return a digest of the programs of a file, whatever is proved of them, and its comments."""
    code = "\n".join(each.code for each in programs(file.read_text(encoding="utf-8")))
    return hashlib.sha256(code.encode()).hexdigest()
