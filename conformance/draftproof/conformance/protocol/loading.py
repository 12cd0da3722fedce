"""Loading of adapters and algorithms by their names on the command line."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache, wraps
from hashlib import sha256
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

from draftproof.conformance.protocol.adapter import (
    Adapter,
    AdapterFailed,
    InvalidAdapter,
    Program,
    UnknownAdapter,
    program_of,
)
from draftproof.conformance.protocol.raising import caught, is_told, place_of, shown, told_of
from draftproof.reference.emission import Emission
from draftproof.reference.extras import installation
from draftproof.reference.model import Instance
from draftproof.reference.verifiers import Algorithm, algorithm_named


@cache
def built_in() -> dict[str, str]:
    """Return the installed adapters by name, with their places; Draftproof's own come first.

    They are entry points of the group "draftproof.adapters", of any distribution. If several
    adapters have the same name, the first of them counts.
    """
    found = sorted(entry_points(group=GROUP), key=lambda each: not each.value.startswith(GROUP))
    places: dict[str, str] = {}
    for each in found:
        places.setdefault(each.name, each.value)
    return places


GROUP = "draftproof.adapters"
"""Group of entry points, and package of the adapters that Draftproof installs."""

HARNESS = "harness:"
"""Prefix in the names of programs, which Draftproof asks over their stdin and stdout."""


def load_adapter(name: str) -> Adapter:
    """Return the adapter of an installed name, "package.module:attribute" or "./file.py:attribute".

    The attribute is an adapter, or a class that makes one without arguments. "harness:COMMAND"
    starts a program in any language (`draftproof.conformance.protocol.harness`). Raises
    `UnknownAdapter` if there is no such adapter, `AdapterFailed` if the adapter cannot be imported,
    made or started, `InvalidAdapter` if it does not follow the protocol.
    """
    return load_program(name).adapter


def load_program(name: str) -> Program:
    """Return the adapter of a name with its declaration. Raises what `load_adapter` raises."""
    if not name.isprintable():
        raise UnknownAdapter(
            f"an adapter's name is printed in its certificate, {name!r} cannot be: rename its file"
        )
    if name.startswith(HARNESS):
        # It needs torch, which a reader of names does without.
        from draftproof.conformance.protocol.harness import started

        return program_of(started(name.removeprefix(HARNESS)))
    place = built_in().get(name, name)
    if not all(place.rpartition(":")):
        raise UnknownAdapter(_unknown(name))
    adapter = load_attribute(place)
    if inspect.isclass(adapter):
        try:
            adapter = adapter()
        except BaseException as error:
            attribute = place.rpartition(":")[2]
            raise AdapterFailed(f"{name}: {attribute}() raised {_told(error)}") from error
    return program_of(adapter)


def other_backend(adapter: Any) -> Adapter | None:
    """Return the other backend that an adapter declares (`same_as`), or None.

    Raises as `load_adapter` does.
    """
    other: Adapter | str | None = getattr(adapter, "same_as", None)
    return load_adapter(other) if isinstance(other, str) else other


def twin_of(adapter: Any) -> Adapter | None:
    """Return the other backend of an adapter, or None if there is none or it does not load."""
    try:
        return other_backend(adapter)
    except Exception:
        return None


def _unknown(name: str) -> str:
    """Describe the error in an unknown adapter name, and correct names."""
    file = name.removesuffix(":")
    if file.endswith(".py"):
        if not Path(file).is_file():
            return f"there is no file {file!r}"
        classes = _verifiers(Path(file))
        named = " or ".join(f"{file}:{each}" for each in classes or ["ATTRIBUTE"])
        return f"{name} names a file, and no adapter in it: {named}"
    near = get_close_matches(name, built_in(), n=1)
    meant = f", did you mean {near[0]}?" if near else "; `draftproof list` names all."
    return (
        f"no built-in adapter is called {name!r}{meant} Your own is named "
        f"package.module:attribute or ./file.py:attribute, and a program of any language "
        f"harness:COMMAND"
    )


def _verifiers(file: Path) -> list[str]:
    """Return the classes of a file that have a method `verify`, in the order of the file."""
    return [
        each.name
        for each in _defined(file)
        if isinstance(each, ast.ClassDef)
        and any(isinstance(own, ast.FunctionDef) and own.name == "verify" for own in each.body)
    ]


def _defined(file: Path) -> list[ast.stmt]:
    """Return the statements of a file, empty if the file cannot be read."""
    try:
        return ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []


def name_from(folder: Path, name: str) -> str:
    """Return a name that leads to the adapter from every folder, given its name in one folder."""
    place, _, attribute = name.rpartition(":")
    is_file = place.endswith(".py") and not name.startswith(HARNESS)
    return f"{folder / place}:{attribute}" if is_file else name


def source_digest(adapter: Adapter) -> str:
    """Return the SHA-256, in hex, of the files of the adapter; for one file, that of its bytes.

    For several files, it is the SHA-256 of each file's name and digest, one after the other. Raises
    `InvalidAdapter` if its `files` are not paths, `AdapterFailed` if a file cannot be read.
    """
    files = files_of(adapter)
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


def files_of(adapter: Any) -> tuple[Path, ...]:
    """Return the files that the adapter declares, or else the file, if any, that defines it."""
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
    """Return a reference algorithm, or the verifier function at ./file.py:function.

    The function has the form of those of `draftproof.reference.verifiers`, and may run on every
    draft law. Raises `Unsupported`, `UnknownAdapter` or `AdapterFailed`.
    """
    place, separator, attribute = name.rpartition(":")
    file = name.removesuffix(":")
    if not separator and not file.endswith(".py"):
        return algorithm_named(name)
    if not place or not attribute:
        raise UnknownAdapter(_unknown_algorithm(name, file))
    verify = load_attribute(name)
    if inspect.isclass(verify) or not callable(verify):
        is_adapter = callable(getattr(verify, "verify", None))
        instead = f"; `draftproof certify {name}` judges an adapter" if is_adapter else ""
        what = f"the class {verify.__name__}" if inspect.isclass(verify) else type(verify).__name__
        raise UnknownAdapter(
            f"{name} is {what}: an algorithm is a function verify(drafts, instance, chance) that "
            f"returns an Emission{instead}"
        )
    try:
        inspect.signature(verify).bind(None, None, None)
    except TypeError as error:
        raise UnknownAdapter(
            f"{name} takes other arguments than verify(drafts, instance, chance): {error}"
        ) from None
    except ValueError:
        pass  # what is not written in Python may have no signature
    return Algorithm(name=name, title=attribute, source=place, verify=_own(name, verify))


def _unknown_algorithm(name: str, file: str) -> str:
    """Describe the error in a name that has a file without a function, or is unknown."""
    if not file.endswith(".py"):
        return (
            f"{name!r} names no algorithm: `draftproof list` names all, and your own is at "
            f"./file.py:function"
        )
    if not Path(file).is_file():
        return f"there is no file {file!r}"
    functions = [each.name for each in _defined(Path(file)) if isinstance(each, ast.FunctionDef)]
    named = " or ".join(f"{file}:{each}" for each in functions or ["FUNCTION"])
    return f"{name} names a file, and no function in it: {named}"


# An argument about all p and q is told of these.
_TOLD_TO_PROVERS = (ArithmeticError, LookupError, ValueError, RecursionError)


def _own(name: str, verify: Callable[..., Any]) -> Callable[..., Emission]:
    """Return a user's verifier; its errors and its invalid results raise `AdapterFailed`."""

    @wraps(verify)
    def checked(drafts: Any, instance: Instance, chance: Any) -> Emission:
        try:
            found = verify(drafts, instance, chance)
        except _TOLD_TO_PROVERS as error:
            if is_told(error):
                raise
            raise AdapterFailed(f"{name} raised {_told(error)}") from error
        except BaseException as error:
            # What the reference raises is for the reference.
            if type(error).__module__.startswith("draftproof."):
                raise
            raise AdapterFailed(f"{name} raised {_told(error)}") from error
        if (problem := _problem(found, instance)) is not None:
            raise AdapterFailed(
                f"{name} returned {problem}: it must return an Emission, such as "
                f"draftproof.reference.emission.emission(drafts, accepted, next_token) makes"
            )
        return found  # type: ignore[no-any-return]  # it was found to be one

    return checked


def _problem(found: Any, instance: Instance) -> str | None:
    """Describe the error in the result of a user's verifier, None if it is valid."""
    if not isinstance(found, Emission):
        return f"a {type(found).__name__}"
    accepted: Any = found.accepted
    if not isinstance(accepted, tuple) or len(accepted) > instance.length:
        return f"the accepted tokens {shown(accepted)}, not a tuple of at most {instance.length}"
    for token in (*accepted, found.next_token):
        if type(token) is not int or not 0 <= token < instance.vocabulary:
            return f"the token {shown(token)}, not in 0..{instance.vocabulary - 1}"
    if type(found.path) is not int or not 0 <= found.path < instance.drafts:
        return f"the path {shown(found.path)}, not in 0..{instance.drafts - 1}"
    return None


def load_attribute(name: str) -> Any:
    """Return the object of the name package.module:attribute or ./file.py:attribute.

    Raises `UnknownAdapter` or `AdapterFailed`.
    """
    place, _, attribute = name.rpartition(":")
    module = _from_file(Path(place)) if place.endswith(".py") else _from_package(place)
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        near = get_close_matches(attribute, dir(module), n=1)
        meant = f", did you mean {near[0]!r}?" if near else ""
        raise UnknownAdapter(f"{place} has no attribute {attribute!r}{meant}") from error
    except BaseException as error:
        raise AdapterFailed(f"{place}:{attribute} could not be made: {_told(error)}") from error


def _from_package(name: str) -> ModuleType:
    if not all(name.split(".")) or "/" in name or os.sep in name:
        raise UnknownAdapter(
            f"{name!r} is neither a Python file, such as ./file.py, nor a module, such as "
            f"package.module"
        )
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
    except BaseException as error:
        raise AdapterFailed(f"{name} could not be imported: {_told(error)}") from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownAdapter(f"there is no file {str(path)!r}")
    # It imports what is beside it, as a script does: last, so that nothing installed is replaced.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
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
    except BaseException as error:
        del sys.modules[name]
        raise AdapterFailed(f"{path} could not be imported: {_told(error)}") from error
    return module


def _told(error: BaseException) -> str:
    """Return a description of an error, its place in the program, and the missing extra."""
    place = place_of(error)
    told = told_of(caught(error)) + (f" ({place})" if place else "")
    # An adapter may say in its own words that something is missing.
    causes = (error, error.__cause__)
    missing = next((each.name for each in causes if isinstance(each, ModuleNotFoundError)), None)
    extra = _EXTRAS.get((missing or "").partition(".")[0])
    return f"{told}; {installation(extra)}" if extra else told


_EXTRAS = {
    "torch": "torch",
    "triton": "triton",
    "transformers": "transformers",
    "jax": "engines",
    "mlx": "engines",
    "hypothesis": "search",
}
"""Extras that install the modules that adapters import, by module."""
