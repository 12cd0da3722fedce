"""Assets that the pages load, copied from packages, so that no request leaves the site."""

from __future__ import annotations

import shutil
from pathlib import Path

from building.pages import HOUSE

_PACKAGES = HOUSE / "docs/node_modules"


class NotInstalled(RuntimeError):
    """Error of a missing package that the pages need."""


def build(pages: Path) -> None:
    """Copy KaTeX and the fonts to assets/vendor. Raises `NotInstalled`."""
    _copy(
        "katex", pages, "dist/katex.min.css", "dist/katex.min.js", "dist/contrib/auto-render.min.js"
    )
    _copy("katex", pages, "dist/fonts/*.woff2", "LICENSE")
    for font in ("inter", "jetbrains-mono"):
        _copy(
            f"@fontsource-variable/{font}",
            pages,
            "index.css",
            "files/*-wght-normal.woff2",
            "LICENSE",
        )


def _copy(package: str, pages: Path, *patterns: str) -> None:
    folder = _PACKAGES / package
    into = pages / "assets/vendor" / package.rpartition("/")[2]
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if not found:
            raise NotInstalled(f"{package} has no {pattern}: run npm ci in docs")
        for file in found:
            place = into / file.relative_to(folder).as_posix().removeprefix("dist/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
