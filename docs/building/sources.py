"""Files of the checkout as pages, so that readers of the site can read the cited sources."""

from __future__ import annotations

import re
from pathlib import Path

from building.markdown import fenced

_LANGUAGES = {
    ".c": "c",
    ".cff": "yaml",
    ".html": "html",
    ".js": "javascript",
    ".mjs": "javascript",
    ".ml": "ocaml",
    ".py": "python",
    ".rs": "rust",
    ".toml": "toml",
    ".txt": "text",
    ".yml": "yaml",
}
_DATA = (".json", ".jsonl", ".map", ".svg")


class NotDefined(LookupError):
    """Error of a link to a name that its file does not define."""


def is_text(path: Path) -> bool:
    """Return True if a file or folder becomes a page; data are copied unchanged."""
    return path.is_dir() or path.suffix not in _DATA


def place(path: str) -> str:
    """Return the place of a file of the checkout on the site."""
    as_it_is = Path(path).suffix in (*_DATA, ".md")
    return f"source/{path}" if as_it_is else f"source/{path}.md"


def page(house: Path, path: str) -> str:
    """Return a file, or a list of the files in a folder, as Markdown."""
    file = house / path
    if file.is_dir():
        inside = sorted(each for each in file.iterdir() if not each.name.startswith((".", "__")))
        listed = "\n".join(f"- `{each.name}{'/' if each.is_dir() else ''}`" for each in inside)
        return f"{_HIDDEN}# `{path}/`\n\n{listed}\n"
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        return text
    language = _LANGUAGES.get(file.suffix, "text")
    code = fenced(text, language, options='linenums="1"')
    return f"{_HIDDEN}# `{path}`\n\n{code}\n"


_HIDDEN = "---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n"


def anchor(path: Path, name: str) -> str:
    """Return the anchor of the line that defines a name. Raises `NotDefined` if no line does."""
    if path.suffix == ".md":
        return name
    defines = re.compile(
        rf"\s*(?:async def|def|class|function|fn|const|let)?\s*{re.escape(name)}\b\s*[(:=\[]|"
        rf"\s*class {re.escape(name)}\b"
    )
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if defines.match(line):
            return f"__codelineno-0-{number}"
    raise NotDefined(f"{path.name} defines no {name!r}")
