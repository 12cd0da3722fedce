"""Files of the playground: Python for the browser, packages for the reference, the reference.

All files are copied or made here, so that no request leaves the page. Every third-party part has
its licence beside it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from itertools import product
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from playground.playground import computation

from building.pages import HOUSE
from building.vendored import NotInstalled

_SOURCES = HOUSE / "docs/playground"
_PYODIDE = HOUSE / "docs/node_modules/pyodide"
_COMPILED = HOUSE / "docs/node_modules/.cache/playground"

_OURS = (
    "playground.js",
    "element.js",
    "instance.js",
    "results.js",
    "worker.js",
    "playground.css",
    "story/story.css",
)
STORY = _SOURCES / "story/story.json"
"""The words, rows and bugs of the story."""

_TOLD_BY = (
    "story/exact.mjs",
    "story/verification.mjs",
    "story/sampling.mjs",
    "story/link.mjs",
    "element.js",
    "story/bars.mjs",
    "story/story.mjs",
)
"""The modules of the story, each after the modules that it imports."""

_IMPORT = re.compile(r"^import [^;]*;\n", re.M)
_EXPORT = re.compile(r"^export ", re.M)
_RUNTIME = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
_IMPORTED = ("sympy", "mpmath", "networkx")
_UNUSED = re.compile(r"(^|/)(tests|__pycache__)/")

# An example that takes longer is no example.
_LONGEST = 60_000


def build(site_pages: Path) -> None:
    """Write all files that the page loads below playground/. Raises `NotInstalled`."""
    into = site_pages / "playground"
    shutil.rmtree(into, ignore_errors=True)
    (into / "vendor/pyodide").mkdir(parents=True)
    for name in _OURS:
        shutil.copyfile(_SOURCES / name, into / Path(name).name)
    (into / "story.js").write_text(story_script(), encoding="utf-8")
    _copy_runtime(into / "vendor/pyodide")
    for name in _IMPORTED:
        _copy_package(distribution(name), into / "vendor")
    _zip(into / "draftproof.zip", _reference())
    loaded = [*into.glob("vendor/*.zip"), *into.glob("vendor/pyodide/*"), into / "draftproof.zip"]
    built = {
        "bytes": sum(file.stat().st_size for file in loaded),
        "packages": [f"vendor/{name}.zip" for name in _IMPORTED],
        "examples": _examples(),
    }
    (into / "built.json").write_text(json.dumps(built), encoding="utf-8")


def story_script() -> str:
    """Return the story, its modules and its data, as one plain script.

    If a page is opened as a file, the browser loads no modules and no data for it.
    """
    modules = [(_SOURCES / name).read_text(encoding="utf-8") for name in _TOLD_BY]
    joined = "\n".join(_EXPORT.sub("", _IMPORT.sub("", module)) for module in modules)
    data = json.dumps(json.loads(STORY.read_text(encoding="utf-8")))
    begin = f'tell(document.querySelector("[data-story]"), {data});'
    return f'(() => {{\n"use strict";\n{joined}\n{begin}\n}})();\n'


def story_instance() -> dict[str, Any]:
    """Return the instance of the story in the form of the reference: a row for every context."""
    story = json.loads(STORY.read_text(encoding="utf-8"))
    words, length = story["words"], story["length"]

    def rows(model: str, deepest: int) -> dict[str, list[str]]:
        contexts = [
            context
            for size in range(deepest + 1)
            for context in product(range(len(words)), repeat=size)
        ]
        last = {context: words[context[-1]] if context else "" for context in contexts}
        return {",".join(map(str, own)): story[model][last[own]] for own in contexts}

    return {
        "vocabulary": len(words),
        "length": length,
        "drafts": 1,
        "scheme": "iid",
        "target": rows("target", length),
        "draft": rows("draft", length - 1),
    }


def _copy_runtime(into: Path) -> None:
    for name in _RUNTIME:
        if not (_PYODIDE / name).exists():
            raise NotInstalled(f"pyodide has no {name}: run npm ci in docs")
        shutil.copyfile(_PYODIDE / name, into / name)
    for licence in sorted((_SOURCES / "licences").iterdir()):
        shutil.copyfile(licence, into / f"LICENSE.{licence.name}")


def _copy_package(package: Distribution, into: Path) -> None:
    """Write the package's modules, compiled, and its licence."""
    name, files = package.metadata["Name"], {}
    for file in package.files or ():
        path = file.as_posix()
        if path.startswith(f"{name}/") and not _UNUSED.search(path):
            files[path] = file.read_binary()
        elif ".dist-info/" in path and file.name.startswith("LICENSE"):
            (into / f"{name}.{file.name}").write_bytes(file.read_binary())
    if not files:
        raise NotInstalled(f"{name} is not installed as a folder of modules")
    shutil.copyfile(_compiled(name, files), into / f"{name}.zip")


def _compiled(name: str, files: dict[str, bytes]) -> Path:
    """Return a zip of the files, with Python compiled for the browser, cached by content."""
    version = json.loads((_PYODIDE / "package.json").read_text(encoding="utf-8"))["version"]
    digest = sha256(version.encode() + (_SOURCES / "compile.mjs").read_bytes())
    for path, content in sorted(files.items()):
        digest.update(path.encode() + content)
    kept = _COMPILED / f"{name}.{digest.hexdigest()[:16]}.zip"
    if not kept.exists():
        node = shutil.which("node")
        if node is None:
            raise NotInstalled("there is no node, which compiles modules for the browser")
        kept.parent.mkdir(parents=True, exist_ok=True)
        source, made = kept.with_suffix(".source"), kept.with_suffix(".made")
        _zip(source, files.items())
        subprocess.run(  # noqa: S603  # our own script
            [node, _SOURCES / "compile.mjs", source, made], check=True
        )
        source.unlink()
        made.replace(kept)
    return kept


def _reference() -> Iterable[tuple[str, bytes]]:
    """Yield the reference, unchanged, and the modules that connect it to the page."""
    root = HOUSE / "reference"
    for file in sorted(root.glob("draftproof/**/*.py")):
        yield file.relative_to(root).as_posix(), file.read_bytes()
    for name in ("playground.py", "arrays.py"):
        yield name, (_SOURCES / name).read_bytes()


def _zip(place: Path, files: Iterable[tuple[str, bytes]]) -> None:
    with ZipFile(place, "w", ZIP_DEFLATED) as made:
        for name, content in files:
            # The same bytes whenever it is made.
            made.writestr(ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, ZIP_DEFLATED)


@cache
def _examples() -> list[dict[str, Any]]:
    """Return the examples with the answers that the browser would compute, as initial content."""
    examples = json.loads((_SOURCES / "examples.json").read_text(encoding="utf-8"))
    words = json.loads(STORY.read_text(encoding="utf-8"))["words"]
    about = ", ".join(f"{token} is “{word}”" for token, word in enumerate(words))
    examples.append(
        {"title": "The story", "about": f"The story's rows: {about}.", "instance": story_instance()}
    )
    for example in examples:
        advance = computation(json.dumps(example["instance"]))
        told = json.loads(advance(_LONGEST, True))  # noqa: FBT003  # as JavaScript calls it
        if not told.get("finished"):
            raise RuntimeError(f"the example {example['title']!r} is not finished: {told}")
        example["answer"] = {"results": told["results"], "shares": told["shares"]}
    return examples  # type: ignore[no-any-return]  # JSON
