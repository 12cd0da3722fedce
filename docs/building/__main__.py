"""Build the site: `python -m building`, in the folder docs.

The build gathers and computes pages in docs/.pages; MkDocs or Zensical makes a site from them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from building import (
    algorithms,
    bug,
    commands,
    engines,
    field,
    glossary,
    ledger,
    playground,
    requirements,
    theory,
    trophies,
    vendored,
    whole,
)
from building.chapters import divided
from building.checking import faults
from building.descriptions import described
from building.forms import FORMS
from building.markdown import fronted, outlined
from building.pages import HOUSE, filled, generated, resolved, written

PAGES = HOUSE / "docs/.pages"

_GENERATING = (
    algorithms,
    bug,
    commands,
    engines,
    field,
    ledger,
    requirements,
    trophies,
    whole,
)


@click.command()
@click.option("--pages-only", is_flag=True, help="Write the pages, make no site.")
@click.option("--with", "maker", type=click.Choice(["mkdocs", "zensical"]), default="mkdocs")
def main(*, pages_only: bool, maker: str) -> None:
    """Gather and compute the pages, and build the site from them."""
    gather(PAGES)
    if not pages_only:
        made = subprocess.run(  # noqa: S603  # our own command
            [sys.executable, "-m", maker, "build", "--strict", "--config-file", "mkdocs.yml"],
            cwd=HOUSE,
            check=False,
        )
        wrong = [*faults(HOUSE / "site")] if made.returncode == 0 else []
        for fault in wrong:
            click.echo(fault, err=True)
        sys.exit(made.returncode or bool(wrong))


def gather(into: Path) -> None:
    """Write all pages, and all files that they link to and load, into an empty folder."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    vendored.build(into)
    playground.build(into)
    shutil.copytree(HOUSE / "docs/theme/assets", into / "assets", dirs_exist_ok=True)
    # The README shows them in HTML, whose links are left as they are.
    shutil.copytree(HOUSE / "docs/pictures", into / "source/docs/pictures")
    for module in _GENERATING:
        for place, content in getattr(module, "files", dict)().items():
            _place(into, place).write_bytes(content)
    pages = written() + theory.written()
    for module in _GENERATING:
        pages += generated(getattr(module, "pages", dict)())
    pages = [requirements.evidenced(filled(page, FORMS)) for page in pages]
    pages = [part for page in pages for part in divided(page)]
    finished, files = resolved(pages)
    for page in finished:
        text = outlined(page.text)
        # A source is shown as it is.
        if not page.place.startswith("source/"):
            text = described(text) + glossary.abbreviations()
            origin = page.origin.partition("#")[0]
            if (HOUSE / origin).is_file():
                text = fronted(text, "origin", origin)
        _place(into, page.place).write_text(text, encoding="utf-8")
    for place, file in files.items():
        shutil.copyfile(file, _place(into, place))


def _place(into: Path, place: str) -> Path:
    path = into / place
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


if __name__ == "__main__":
    main()
