"""From the name on a command line to an adapter or an algorithm."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable
from hashlib import sha256
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

from draftproof.conformance.adapter import Adapter, InvalidAdapter, declaration
from draftproof.reference.verifiers import Algorithm, algorithm_named

_FAST = (
    "token",
    "block",
    "greedy-block",
    "recursive-rejection",
    "recursive-rejection-without-replacement",
    "k-seq",
    "spechub",
    "greedy-draft",
    "multipath-block",
    "mixed-multipath-block",
    "traversal",
    "traversal-without-replacement",
    "recursive-greedy-block",
)
"""Our own fast verifiers, each in torch and in Triton."""

BUILT_IN = {
    **{
        f"{form}-{name}": f"draftproof.adapters.fast:{form}_{name.replace('-', '_')}"
        for form in ("torch", "triton")
        for name in _FAST
    },
    "transformers": "draftproof.adapters.engines.transformers:SpeculativeSampling",
}
"""The built-in adapters: name and where it is."""

HARNESS = "harness:"
"""What the name of a program begins with, which is asked over its stdin and stdout."""


class UnknownAdapter(LookupError):
    """A name does not lead to an adapter: a usage error."""


class AdapterFailed(RuntimeError):
    """An adapter was found, but could not be made ready to run."""


class FailsEverywhere(AdapterFailed):
    """An adapter runs, and no case ever ends in an emission."""


def load_adapter(name: str) -> Adapter:
    """Return the adapter of a built-in name, "package.module:attribute" or "./file.py:attribute".

    The attribute is an adapter, or a class that makes one without arguments. "harness:COMMAND" is a
    program of any language, which is started (`draftproof.conformance.harness`). Raises
    `UnknownAdapter` if there is none, `AdapterFailed` if it cannot be imported, made or started,
    `InvalidAdapter` if it does not follow the protocol.
    """
    if name.startswith(HARNESS):
        # It needs torch, which a reader of names does without.
        from draftproof.conformance.harness import started

        program = started(name.removeprefix(HARNESS))
        declaration(program)
        return program
    place = BUILT_IN.get(name, name)
    if not all(place.rpartition(":")):
        raise UnknownAdapter(
            f"no built-in adapter is called {name!r} (there are {', '.join(BUILT_IN)}); "
            f"your own is named package.module:attribute or ./file.py:attribute, and a program of "
            f"any language harness:COMMAND"
        )
    adapter = load_attribute(place)
    if inspect.isclass(adapter):
        try:
            adapter = adapter()
        except (Exception, SystemExit) as error:
            attribute = place.rpartition(":")[2]
            raise AdapterFailed(f"{name}: {attribute}() raised {_told(error)}") from error
    declaration(adapter)
    return adapter  # type: ignore[no-any-return]  # declaration has checked it


def name_from(folder: Path, name: str) -> str:
    """Return the name by which other folders, too, know an adapter that has a name in one."""
    place, _, attribute = name.rpartition(":")
    is_file = place.endswith(".py") and not name.startswith(HARNESS)
    return f"{folder / place}:{attribute}" if is_file else name


def source_digest(adapter: Adapter) -> str:
    """Return the SHA-256, in hex, of the files that make the adapter up; of one, of its bytes.

    Of several, it is that of each file's name and digest, one after the other. Raises
    `InvalidAdapter` if its `files` are no paths, `AdapterFailed` if one of them cannot be read.
    """
    files = _files(adapter)
    try:
        contents = [file.read_bytes() for file in files]
    except OSError as error:
        raise AdapterFailed(f"{error.filename} is part of it, but: {error.strerror}") from error
    if len(files) == 1:
        return sha256(contents[0]).hexdigest()
    whole = sha256()
    for file, content in zip(files, contents, strict=True):
        # A digest has a length of its own, and a name has no zero byte: nothing runs together.
        whole.update(file.name.encode() + b"\0" + sha256(content).digest())
    # What no file defines, as in an interactive session, is known by the name of its type alone.
    return (whole if files else sha256(repr(type(adapter)).encode())).hexdigest()


def _files(adapter: Any) -> tuple[Path, ...]:
    """Return the files that the adapter declares, or the one that defines it, if there is one."""
    given = getattr(adapter, "files", None)
    if given is None:
        defined = getattr(sys.modules.get(type(adapter).__module__), "__file__", None)
        return (Path(defined),) if defined else ()
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(each, (str, PathLike)) for each in given)
        or not given
    ):
        raise InvalidAdapter(f"'files' must be one or more paths, got {given!r}")
    return tuple(map(Path, given))


def load_algorithm(name: str) -> Algorithm:
    """Return a reference algorithm, or the one of a verifier's text at ./file.py:function.

    The function is written like those of `draftproof.reference.verifiers`, and may be run on every
    draft law. Raises `Unsupported`, `UnknownAdapter` or `AdapterFailed`.
    """
    place, separator, attribute = name.rpartition(":")
    if not separator:
        return algorithm_named(name)
    verify = load_attribute(name)
    if not callable(verify):
        raise UnknownAdapter(f"{name} is no function verify(drafts, instance, chance)")
    return Algorithm(name=name, title=attribute, source=place, verify=verify)


def load_attribute(name: str) -> Any:
    """Return what is called package.module:attribute or ./file.py:attribute.

    Raises `UnknownAdapter` or `AdapterFailed`.
    """
    place, _, attribute = name.rpartition(":")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_package(place)
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise UnknownAdapter(f"{place} has no attribute {attribute!r}") from error
    except (Exception, SystemExit) as error:
        raise AdapterFailed(f"{place}:{attribute} could not be made: {_told(error)}") from error


def _from_package(name: str) -> ModuleType:
    # A module beside the user is importable, as it is for `python -m`. One of ours is not looked
    # for there: whoever checks a certificate runs nothing that is beside it.
    is_ours = name.partition(".")[0] == "draftproof"
    if not is_ours and "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UnknownAdapter(f"there is no module {error.name!r}") from error
        raise AdapterFailed(f"{name} could not be imported: {_told(error)}") from error
    except (Exception, SystemExit) as error:
        raise AdapterFailed(f"{name} could not be imported: {_told(error)}") from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownAdapter(f"there is no file {str(path)!r}")
    # A file that was edited since is another module.
    digest = sha256(f"{path.resolve()}\n".encode() + path.read_bytes()).hexdigest()
    name = f"draftproof_adapter_{path.stem}_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UnknownAdapter(f"{str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickling look their module up while it is being executed.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise AdapterFailed(f"{path} could not be imported: {_told(error)}") from error
    return module


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
