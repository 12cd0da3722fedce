"""Commands for test vectors: `vectors export`, `vectors check` and `vectors fmt`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import as_json, echo, print_json, usage_errors, written_to
from draftproof.conformance.evidence.whole_file import write_whole
from draftproof.reference.errors import InvalidInput
from draftproof.reference.verifiers import algorithm_named
from draftproof.spec import VECTOR_KINDS, VECTOR_SIZES, vector_files

_files = click.argument(
    "places",
    nargs=-1,
    metavar="[FOLDER|FILE]...",
    type=click.Path(exists=True, path_type=Path),
)


@click.group()
def vectors() -> None:
    """Write, check and format test vectors for verifiers in other languages.

    A folder of vectors has one folder per size; spec/vectors holds the shipped vectors.
    """


@vectors.command()
@options.defaulted(
    "--size",
    type=click.Choice(VECTOR_SIZES),
    default=VECTOR_SIZES[-1],
    help="Largest size; it includes smaller sizes.",
)
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    metavar="NAME",
    help="Only vectors of this algorithm. [default: all, with optima and errors]",
)
@options.output_folder(default=Path("vectors"), help="Folder to write to.")
@as_json
def export(size: str, algorithms: tuple[str, ...], output: Path, as_json: bool) -> None:
    """Compute vectors from the reference and write them, replacing existing files.

    All vectors are computed before the first file is written.
    """
    from draftproof.conformance.museum.vectors import making, written
    from draftproof.conformance.report import terminal

    with usage_errors(InvalidInput):
        wanted = {algorithm_named(name).name for name in algorithms} or None
    sizes = VECTOR_SIZES[: VECTOR_SIZES.index(size) + 1]
    asked = [(each, kind) for each in sizes for kind in VECTOR_KINDS]
    made = {}
    for place, kind in terminal.shown_progress(asked, len(asked), "vectors"):
        document = making.document(kind, place, algorithms=wanted)
        if document["vectors"]:
            made[output / place / f"{kind}.json"] = document
    texts = {path: written.text(document) for path, document in made.items()}
    files = []
    for path, document in made.items():
        changed = not path.is_file() or path.read_bytes() != texts[path].encode()
        if changed:
            _write(texts[path], path)
        files.append(_told(path, document, changed=changed))
    _show(files, as_json=as_json)


@vectors.command("check")
@_files
@as_json
def check_(places: tuple[Path, ...], as_json: bool) -> None:
    """Recompute vectors from the reference and compare exactly; by default the shipped vectors.

    Reports the first vector of each file that differs from the reference.
    """
    from draftproof.conformance.museum.vectors import checking
    from draftproof.conformance.report import terminal

    found = _found(places)
    files = []
    for path in terminal.shown_progress(found, len(found), "vectors"):
        document, problem = None, None
        try:
            document = checking.read(path)
            checking.require_right(document, str(path))
        except checking.VectorsError as error:
            problem = str(error)
        files.append(_told(path, document, error=problem))
    _show(files, as_json=as_json)


@vectors.command()
@_files
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; report what would change."
)
@as_json
def fmt(places: tuple[Path, ...], only_check: bool, as_json: bool) -> None:
    """Rewrite files of vectors in canonical form; by default the shipped files."""
    from draftproof.conformance.museum.vectors import checking, written

    files = []
    for path in _found(places):
        try:
            document = checking.read(path)
        except checking.VectorsError as error:
            files.append(_told(path, None, error=str(error)))
            continue
        text = written.text(document)
        changed = path.read_bytes() != text.encode()
        problem = None
        if changed and only_check:
            problem = f"{path} is not in canonical form; run `draftproof vectors fmt`"
        elif changed:
            _write(text, path)
        files.append(_told(path, document, changed=changed, error=problem))
    _show(files, as_json=as_json)


def _found(places: tuple[Path, ...]) -> list[Path]:
    """Return the files at these places. A folder without vectors is a usage error."""
    found: list[Path] = []
    for place in places:
        inside = sorted(place.rglob("*.json")) if place.is_dir() else [place]
        if not inside:
            raise click.UsageError(f"there is no file of vectors (*.json) in {str(place)!r}")
        found += inside
    return found or [*vector_files()]


def _write(text: str, path: Path) -> None:
    """Write a file, making its folders as needed."""
    with written_to(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(text, path)


def _told(
    path: Path, document: Any, *, changed: bool = False, error: str | None = None
) -> dict[str, Any]:
    return {
        "file": str(path),
        "kind": document["kind"] if document else None,
        "size": document["size"] if document else None,
        "vectors": len(document["vectors"]) if document else 0,
        "changed": changed,
        "error": error,
    }


def _show(files: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print the outcome of each file, and exit with 5 if any file has an error."""
    code = 5 if any(file["error"] for file in files) else 0
    if as_json:
        print_json({"files": files, "exit_code": code}, "vectors-outcome")
    for file in files:
        if file["error"]:
            echo(f"Error: {file['error']}", err=True)
        elif not as_json:
            changed = ", written" if file["changed"] else ""
            echo(f"{file['file']}: {file['vectors']} vectors{changed}")
    sys.exit(code)
