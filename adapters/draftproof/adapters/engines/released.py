"""A release of somebody's package: fetched once, at a version and a hash, and a few files imported.

An engine's wheel is heavy and needs a GPU to be imported whole, though its verifier is a file or
two. Here pip fetches the wheel, those files are kept, unmodified, and the wheel is thrown away.
They are imported by themselves: what they import of their package beyond those files is a double,
named by the adapter that uses it, and a double that is really used says so instead of running.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import inspect
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import ModuleSpec
from operator import contains
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Protocol
from urllib.request import urlopen

from draftproof.conformance.adapter import Unfetched, untraced

HOST = "https://raw.githubusercontent.com"
"""Where the files of repositories are."""


class Unavailable(RuntimeError):
    """A release cannot be had, or cannot run on this machine; the message says why."""


class UnfetchedRelease(Unavailable, Unfetched):
    """A release cannot be had from here; the message says why."""


class Release(Protocol):
    """Files of somebody's package, at a version."""

    @property
    def version(self) -> str:
        """The version, or the commit."""

    @property
    def members(self) -> Sequence[str]:
        """The paths of the files that are used, below the folder."""

    def folder(self) -> Path:
        """Return the folder in which the files lie. Raises `Unavailable`."""

    def file_of(self, module: str) -> Path | None:
        """Return the file of a module, None if it has none."""


class MovedOn(Unavailable):
    """A release's function is called in another way than the adapter calls it; the message says."""


def require_call(
    function: Callable[..., Any], *positions: Sequence[str], keywords: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the names of the parameters that an adapter gives by position.

    `positions` has for each the names that it may have, `keywords` the other parameters that are
    given. Raises `MovedOn` if the function takes others, or needs more.
    """
    code = inspect.unwrap(function).__code__
    place = "/".join(Path(code.co_filename).parts[-4:])
    taken = inspect.signature(function).parameters
    first = tuple(taken)[: len(positions)]
    needed = [name for name, each in taken.items() if each.default is each.empty]
    is_known = len(first) == len(positions) and all(map(contains, positions, first))
    if not is_known or not {*keywords} <= {*taken} or not {*needed} <= {*first, *keywords}:
        expected = ["|".join(names) for names in positions] + [f"{name}=" for name in keywords]
        raise MovedOn(
            f"{code.co_name} in {place} takes ({', '.join(taken)}), and this adapter calls it with "
            f"({', '.join(expected)})"
        )
    return first


def require_names(module: ModuleType, *names: str) -> None:
    """Raise `MovedOn` unless a module has these names, in whose place an adapter puts its own."""
    missing = [name for name in names if not hasattr(module, name)]
    if missing:
        raise MovedOn(
            f"{module.__name__} has no {' and no '.join(missing)}, which this adapter needs"
        )


@dataclass(frozen=True)
class Wheel:
    """A wheel of a project on PyPI, and those of its files that are used."""

    project: str
    version: str
    name: str
    """The file's."""
    digest: str
    """Its SHA-256, in hex."""
    members: tuple[str, ...]

    def folder(self) -> Path:
        """Return the folder in which the files lie. Raises `Unavailable`."""
        return kept(f"{self.project}-{self.version}", [self.digest, *self.members], self._fetch)

    def file_of(self, module: str) -> Path | None:
        """Return the file of a module, None if it has none."""
        return module_in(self.folder(), module)

    def _fetch(self, place: Path) -> None:
        """Fetch the wheel by pip, which checks its hash, and keep the files that are used."""
        with (
            TemporaryDirectory(dir=place.parent) as other,
            zipfile.ZipFile(self._downloaded(Path(other))) as archive,
        ):
            for member in self.members:
                try:
                    archive.extract(member, place)
                except KeyError as error:
                    raise Unavailable(f"{self.name} has no file {member}") from error

    def _downloaded(self, place: Path) -> Path:
        # The files are text: they are read on machines that could not run the rest of the wheel.
        *_, python, abi, platform = self.name.removesuffix(".whl").split("-")
        listed = place / "requirements.txt"
        listed.write_text(f"{self.project}=={self.version} --hash=sha256:{self.digest}\n")
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", str(listed)),
            *("--dest", str(place), "--abi", abi, "--platform", platform),
            # What is built for a stable interface says the oldest Python that it runs on.
            *(() if abi in ("abi3", "none") else ("--python-version", python.removeprefix("cp"))),
        ]
        run = subprocess.run(command, capture_output=True, text=True)  # noqa: S603  # ours
        if run.returncode != 0:
            said = [line for line in run.stderr.splitlines() if line.startswith("ERROR")]
            raise UnfetchedRelease(
                f"pip could not fetch {self.project} {self.version}: "
                f"{' '.join(said[-2:]) or run.stderr.strip()[-300:] or 'it said nothing'}"
            )
        return place / self.name


@dataclass(frozen=True)
class Commit:
    """A commit of a repository on GitHub, and those of its files that are used."""

    repository: str
    """Its owner and its name."""
    version: str
    """The commit, in hex."""
    digests: Mapping[str, str]
    """The paths of the files, each with its SHA-256 in hex."""

    @property
    def members(self) -> tuple[str, ...]:
        """The paths of the files."""
        return tuple(self.digests)

    def folder(self) -> Path:
        """Return the folder in which the files lie. Raises `Unavailable`."""
        name = f"{self.repository.replace('/', '-')}-{self.version[:10]}"
        return kept(name, [each for pair in self.digests.items() for each in pair], self._fetch)

    def file_of(self, module: str) -> Path | None:
        """Return the file of a module, None if it has none."""
        return module_in(self.folder(), module)

    def _fetch(self, place: Path) -> None:
        """Fetch the files, and hold each to its hash."""
        for path, digest in self.digests.items():
            address = f"{HOST}/{self.repository}/{self.version}/{path}"
            try:
                with urlopen(address, timeout=60) as answer:  # noqa: S310  # its hash is known
                    content: bytes = answer.read()
            except OSError as error:
                raise UnfetchedRelease(f"cannot fetch {address}: {error}") from error
            found = sha256(content).hexdigest()
            if found != digest:
                raise Unavailable(f"{address} has the SHA-256 {found}, not {digest}")
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)


def module_in(folder: Path, module: str) -> Path | None:
    """Return the file of a module, or of a package, in a folder, None if it has none."""
    place = folder.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def files(*parts: str | Release) -> list[Path]:
    """Return what an adapter is made of: its own files, and those that it uses of releases.

    All of this folder that adapters share is among them. Releases are fetched if need be. Raises
    `Unavailable`.
    """
    made = [Path(__file__).with_name(f"{name}.py") for name in ("released", "layout", "noise")]
    for part in parts:
        if isinstance(part, str):
            made.append(Path(part))
        else:
            made += [part.folder() / member for member in part.members]
    return made


def cache() -> Path:
    """Return the folder of what is fetched: DRAFTPROOF_CACHE, or one in the user's cache."""
    own = os.environ.get("DRAFTPROOF_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "draftproof"


def kept(name: str, told: Sequence[str], fetch: Callable[[Path], None]) -> Path:
    """Return the folder of what was fetched once; it appears whole or not at all.

    What a program does with the files is traced, and not how they were brought here.
    """
    folder = cache() / f"{name}-{sha256(chr(10).join(told).encode()).hexdigest()[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with untraced(), TemporaryDirectory(dir=folder.parent) as other:
            made = Path(other) / name
            made.mkdir()
            fetch(made)
            try:
                made.rename(folder)
            except OSError:
                # Another process was faster; what it has kept is the same.
                if not folder.is_dir():
                    raise
    return folder


Doubles = Mapping[str, Mapping[str, Any] | None]
"""Modules that stand for those that are not used, by name: with the names that are given, or, where
None is given, with any name, each of which raises when it is called."""


def imported(*modules: str, releases: Sequence[Release], doubles: Doubles) -> list[ModuleType]:
    """Import modules of the releases, with each other but without all else, and return them.

    Their imports find the releases' files, and the doubles. All of them are this import's own:
    another release of the same package can be imported in the same process. Raises `Unavailable`
    if a release is, `ModuleNotFoundError` for what is neither file nor double.
    """
    owned = {name.partition(".")[0] for name in [*modules, *doubles]}
    with _alone(owned, _Finder(owned, releases, doubles)):
        return [importlib.import_module(module) for module in modules]


def function_of(
    release: Release, module: str, name: str, given: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return one function of a module by itself: its text, with no names but those that are given.

    Raises `Unavailable` if the release has no such module, `MovedOn` if that has no such function.
    """
    file = release.file_of(module)
    if file is None:
        raise Unavailable(f"{release.version} has no module {module}")
    tree = ast.parse(file.read_bytes(), str(file))
    own = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    if not own:
        raise MovedOn(f"{module} has no function {name}, which this adapter calls")
    names = dict(given)
    text = ast.Module(body=[own[-1]], type_ignores=[])
    exec(compile(text, file, "exec", annotations.compiler_flag), names)  # noqa: S102  # the engine's own
    found: Callable[..., Any] = names[name]
    return found


@contextmanager
def _alone(owned: set[str], finder: importlib.abc.MetaPathFinder) -> Iterator[None]:
    """Import from this finder alone what is below the `owned` names, and forget it again."""
    hidden = {name: sys.modules.pop(name) for name in _below(owned)}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in _below(owned):
            del sys.modules[name]
        sys.modules.update(hidden)


def _below(owned: set[str]) -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in owned]


@dataclass(frozen=True)
class _Finder(importlib.abc.MetaPathFinder):
    owned: set[str]
    releases: Sequence[Release]
    doubles: Doubles

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:  # noqa: ARG002  # a name says enough
        if name.partition(".")[0] not in self.owned:
            return None
        if name in self.doubles:
            return ModuleSpec(name, _Double(self.doubles[name]), is_package=True)
        for release in self.releases:
            if file := release.file_of(name):
                return importlib.util.spec_from_file_location(name, file)
            if release.folder().joinpath(*name.split(".")).is_dir():
                # A package whose own file is not used is a bare folder.
                return ModuleSpec(name, None, is_package=True)
        if any(double.startswith(f"{name}.") for double in self.doubles):
            return ModuleSpec(name, None, is_package=True)
        return None


@dataclass(frozen=True)
class _Double(importlib.abc.Loader):
    """What stands for a module that is not used."""

    names: Mapping[str, Any] | None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        double = ModuleType(spec.name)
        if self.names is None:
            double.__getattr__ = lambda name: _absent(spec.name, name)  # type: ignore[method-assign]
        return double

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.names or {})


def _absent(module: str, name: str) -> type:
    """Return what stands for a name that is imported, but not used."""
    if name.startswith("__"):
        raise AttributeError(name)

    def made(*_: object, **__: object) -> object:
        raise Unavailable(f"{module}.{name} is called, but stands here as a double")

    return type(name, (), {"__module__": module, "__new__": made})
