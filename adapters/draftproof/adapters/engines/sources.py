"""Where an engine's code is: installed, in a checkout, in a commit of one, in a wheel, in an index.

Each is a `Release`, as the pinned ones are. Of its package the files of the verifier are imported,
and what they import of the package besides, unless a double stands for it; the package's own
`__init__` files do not run. The files that ran are the release's members, after the import.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from draftproof.adapters.engines.index import archive, listed, project_page
from draftproof.adapters.engines.released import Unavailable, UnfetchedRelease, kept, module_in
from draftproof.conformance.adapter import untraced

BELOW = ("", "src", "python")
"""The folders of a checkout that a package may be in."""


@dataclass(frozen=True)
class Found:
    """The code of a package in a folder that somebody else keeps, or that was copied for once."""

    version: str
    """Its version, and its commit where it has one."""
    root: Path
    """The folder that the package is in."""
    fetch: Callable[[str], None] | None = field(default=None, compare=False)
    """What brings a file of the package there, if it is not there yet."""
    _used: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def members(self) -> tuple[str, ...]:
        """The paths of the files that were imported."""
        return tuple(sorted(self._used))

    def folder(self) -> Path:
        """Return the folder that the package is in."""
        return self.root

    def file_of(self, module: str) -> Path | None:
        """Return the file of a module, None if it has none, or is a package."""
        if self.fetch is not None:
            self.fetch(f"{module.replace('.', '/')}.py")
        file = module_in(self.root, module)
        if file is None or file.name == "__init__.py":
            return None
        self._used.add(file.relative_to(self.root).as_posix())
        return file

    def has(self, member: str) -> bool:
        """Return True if the package has this file."""
        if self.fetch is not None:
            self.fetch(member)
        return (self.root / member).is_file()


def installed(project: str, package: str) -> Found:
    """Return the package as it is installed here, an editable install too. Raises `Unavailable`."""
    found = importlib.util.find_spec(package)
    places = list(found.submodule_search_locations or ()) if found else []
    if not places:
        raise Unavailable(f"{project} is not installed here: install it, or give --source")
    root = Path(places[0]).parent
    try:
        version = importlib.metadata.version(project)
    except importlib.metadata.PackageNotFoundError:
        version = _written(root, package)
    return Found(_with_commit(version, root, package), root)


def at(path: Path, package: str) -> Found:
    """Return the package in a checkout, in a folder, or in a wheel. Raises `Unavailable`."""
    path = path.expanduser()
    if path.is_file():
        return _wheel(path, package)
    if not path.exists():
        raise Unavailable(f"there is no folder and no wheel {str(path)!r}")
    if path.name == package and not (path / package).is_dir():
        path = path.parent
    for below in BELOW:
        root = (path / below).resolve()
        if (root / package).is_dir():
            return Found(_with_commit(_written(root, package), root, package), root)
    places = ", ".join(str(Path(below, package)) for below in BELOW)
    raise Unavailable(f"{str(path)!r} has no package {package!r}: neither {places} is a folder")


def at_commit(path: Path, package: str, commit: str) -> Found:
    """Return the package at a commit of a checkout, whose own files are left as they are.

    Raises `Unavailable`.
    """
    if commit.startswith("-"):
        raise Unavailable(f"{commit!r} names no commit: git would take it for an option")
    for below in BELOW:
        own = (Path(below) / package).as_posix()
        if git(path, "ls-tree", "-d", "--name-only", commit, "--", own):
            break
    else:
        raise Unavailable(f"the commit {commit} of {str(path)!r} has no package {package!r}")

    def fetched(place: Path) -> None:
        whole = _run(path, "archive", "--format=tar", commit, "--", own)
        with tarfile.open(fileobj=BytesIO(whole)) as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(".py"):
                    tar.extract(member, place, filter="data")

    whole = git(path, "rev-parse", f"{commit}^{{commit}}")
    root = kept(f"{package}-{whole[:12]}", [whole, own], fetched) / below
    return Found(f"{_written(root, package)} (commit {whole[:12]})", root)


def of_index(project: str, version: str, package: str) -> Found:
    """Return the package in a wheel of the index, whose files are fetched as they are asked for.

    The index and the wheel's table are asked once, and what they said is kept. Raises `Unavailable`
    if the index has no such wheel, and `UnfetchedRelease`.
    """

    def fetched(place: Path) -> None:
        """Make the folders of the package: its files are found by name."""
        release = next((each for each in listed(project) if each.version == version), None)
        if release is None:
            raise Unavailable(f"the index has no wheel of {project} {version}")
        own = _files_in(archive(release.address), package)
        for name in own:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / _TABLE).write_text(json.dumps({"address": release.address, "members": own}))

    root = kept(f"{project}-{version}-files", [project_page(project)], fetched)
    table = json.loads((root / _TABLE).read_bytes())
    members = frozenset(table["members"])

    def fetch(member: str) -> None:
        if member not in members or (root / member).exists():
            return
        with untraced(), TemporaryDirectory(dir=root) as other:
            try:
                content = archive(table["address"]).read(member)
            except (OSError, zipfile.BadZipFile) as error:
                raise UnfetchedRelease(f"cannot fetch {member}: {error!r}") from error
            part = Path(other) / "part"
            part.write_bytes(content)
            part.replace(root / member)

    return Found(version, root, fetch)


_TABLE = "wheel.json"
"""The file beside a package of the index: the wheel's address, and the names of its files."""


def commits(path: Path, members: Collection[str], *, since: str) -> list[tuple[str, str, str]]:
    """Return the commits of a checkout that touched these files, the oldest first.

    Each is its hash, its day and its subject. Raises `Unavailable`.
    """
    places = [str(Path(below, member)) for below in BELOW for member in members]
    said = git(
        path,
        *("log", "--first-parent", "--reverse", "--format=%H%x09%cs%x09%s", f"--since={since}"),
        *("--", *places),
    )
    found = [line.split("\t", 2) for line in said.splitlines()]
    return [(whole, day, subject) for whole, day, subject in found]


def git(path: Path, *command: str) -> str:
    """Return what git says of a checkout. Raises `Unavailable`."""
    return _run(path, *command).decode(errors="replace").strip()


def _run(path: Path, *command: str) -> bytes:
    program = shutil.which("git")
    if program is None:
        raise Unavailable("git is not installed, and a checkout is asked for its commits")
    # What git says is in the version, and the files that it gives are read.
    with untraced():
        run = subprocess.run([program, "-C", str(path), *command], capture_output=True)  # noqa: S603  # git's
    if run.returncode != 0:
        said = run.stderr.decode(errors="replace").strip() or f"exit code {run.returncode}"
        raise Unavailable(f"git {command[0]} in {str(path)!r}: {said}")
    return run.stdout


def _wheel(path: Path, package: str) -> Found:
    """Return the package in a wheel, of which only Python files are kept."""
    content = path.read_bytes()

    def fetched(place: Path) -> None:
        with zipfile.ZipFile(BytesIO(content)) as wheel:
            for name in _files_in(wheel, package):
                wheel.extract(name, place)
        if not (place / package).is_dir():
            raise Unavailable(f"{str(path)!r} has no package {package!r}")

    if not zipfile.is_zipfile(path):
        if content.startswith(b"PK"):
            raise Unavailable(f"the end of the wheel {str(path)!r} is missing: fetch it again")
        raise Unavailable(f"{str(path)!r} is neither a folder nor a wheel")
    parts = path.name.split("-")
    version = parts[1] if len(parts) > 1 else "unknown version"
    return Found(version, kept(path.stem, [sha256(content).hexdigest()], fetched))


def _files_in(wheel: zipfile.ZipFile, package: str) -> list[str]:
    """Return the names of a package's Python files in a wheel."""
    inside = (name for name in wheel.namelist() if name.startswith(f"{package}/"))
    return [name for name in inside if name.endswith(".py")]


_VERSION = re.compile(
    r"""^__version__\s*(?::\s*str\s*)?=\s*(?:version\s*=\s*)?["']([^"']+)["']""", re.M
)
_PROJECT = re.compile(r"""^version\s*=\s*["']([^"']+)["']""", re.M)


def _written(root: Path, package: str) -> str:
    """Return the version that the package's files say."""
    for name in ("_version.py", "version.py", "__init__.py"):
        file = root / package / name
        if file.is_file() and (said := _VERSION.search(file.read_text(errors="replace"))):
            return said[1]
    # A wheel that was unpacked, or a copy of what is installed, says it beside the package.
    beside = [*root.glob(f"{package}-*.dist-info")]
    if len(beside) == 1:
        return beside[0].stem.removeprefix(f"{package}-")
    for file in (root / "pyproject.toml", root.parent / "pyproject.toml"):
        if file.is_file() and (said := _PROJECT.search(file.read_text(errors="replace"))):
            return said[1]
    return "unknown version"


def _with_commit(version: str, root: Path, package: str) -> str:
    """Return a version with the commit of the checkout that the package is part of, if it is."""
    try:
        if not git(root, "ls-files", "--", package):
            return version
        commit = git(root, "rev-parse", "--short=12", "HEAD")
        changed = git(root, "status", "--porcelain", "--untracked-files=no", "--", package)
    except Unavailable:
        return version
    return f"{version} (commit {commit}{', with changes' if changed else ''})"
