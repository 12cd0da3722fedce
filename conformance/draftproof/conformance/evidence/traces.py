"""Traces: the files and variables that a program under test has read, each with its digest.

A finding is true of the program at that time. An adapter declares files, but its imports, opened
files and environment count as well. So Draftproof records all of them, from before the adapter is
loaded until its last finding:

* every file that is opened to be read, and every compiled library that is loaded, hashed before the
  program sees it, except Python's own, the suite's, and libraries whose versions are in keys;
* every folder in which a module was looked for, with the folder's entries of the module's name;
* every environment variable that Python reads.

A recording fails closed. A program that starts another program, uses a network, or opens a file
that is not regular depends on data that cannot be recorded: the trace is *closed*, and its findings
are never taken from a store. A file that changes while the program is judged closes it, too. The
page about known findings lists what leaves no trace.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, wraps
from hashlib import file_digest, sha256
from importlib.machinery import all_suffixes
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec, source_from_cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import local
from types import FrameType
from typing import Any

import draftproof.conformance
import draftproof.reference
import draftproof.spec
from draftproof.conformance.evidence.keys import libraries
from draftproof.spec import chapters, schema_files


@dataclass(frozen=True)
class Trace:
    """Files by path and variables by name that were read, each with its SHA-256, None if absent.

    `modules` has, by folder, the names of modules that were looked up there, and the files that
    provide each. `closed` says why the findings may not be taken from a store, empty if they may.
    """

    files: Mapping[str, str | None]
    variables: Mapping[str, str | None]
    closed: str = ""
    modules: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def changed(self) -> str | None:
        """Return a difference from the recorded state, or why none is known; None if unchanged."""
        if self.closed:
            return self.closed
        for file, was in self.files.items():
            if _digest_of(file) != was:
                return file
        for folder, names in self.modules.items():
            for name, had in names.items():
                if _named_so(folder, name) != had:
                    return f"what {folder} has by the name of {name}"
        for name, was in self.variables.items():
            if _digest_of_variable(name) != was:
                return f"the variable {name}"
        return None


class _Recording:
    """Files, variables and modules that this process has read since the recording began."""

    def __init__(self, *, has_workers: bool) -> None:
        self.has_workers = has_workers
        self.closed = ""
        self.files: dict[str, str | None] = {}
        self.stamps: dict[str, _Stamp | None] = {}
        self.variables: dict[str, str | None] = {}
        self.modules: dict[str, dict[str, Sequence[str]]] = {}
        self.loaded = 0

    def close(self, reason: str) -> None:
        self.closed = self.closed or reason

    def read(self, name: str) -> None:
        """Hash a file that is about to be read, unless it was hashed before."""
        path = _source_of(str(Path(name).absolute()))
        if path in self.files or _is_left_out(path):
            return
        stamp = _stamp(path)
        if stamp is not None and not stat.S_ISREG(stamp[0]):
            self.close(f"it reads {path}, which is no regular file")
        self.stamps[path], self.files[path] = stamp, _digest_of(path)

    def look_up(self, name: str, path: Sequence[str]) -> None:
        """Record the files that provide a module in the folders in which Python looks for it."""
        last = name.rpartition(".")[2]
        for each in path:
            folder = str(Path(each).absolute())
            found = _named_so(folder, last)
            if not _is_left_out(f"{folder}{os.sep}_"):
                self.modules.setdefault(folder, {}).setdefault(last, found)
            # A folder alone may be a part of a package, and so may others be.
            if any(one.startswith((f"{last}.", f"{last}{os.sep}")) for one in found):
                break

    def read_modules(self) -> None:
        """Record the files of modules that no hook reported."""
        if len(sys.modules) != self.loaded:
            self.loaded = len(sys.modules)
            for module in list(sys.modules.values()):
                file = getattr(module, "__file__", None)
                if isinstance(file, str):
                    self.read(file)


_Stamp = tuple[int, ...]

_ON: list[_Recording] = []
"""The active recording of this process, if there is one."""

_HERE = local()
"""Flag of a thread, `silent`: true while its reads are not the program's own."""


@contextmanager
def recording(*, has_workers: bool = False) -> Iterator[None]:
    """Record everything that the program under test reads meanwhile, in this thread while `traced`.

    If it `has_workers`, processes that joblib starts belong to the suite.
    """
    begin(has_workers=has_workers)
    try:
        yield
    finally:
        _ON.clear()
        _HERE.silent = False
        sys.meta_path[:] = [each for each in sys.meta_path if each is not _LookedUp]


def begin(*, has_workers: bool = False) -> None:
    """Begin to record, for the lifetime of this process."""
    _listen()
    # It asks a program for the processor, once.
    platform.platform()
    _ON[:] = [_Recording(has_workers=has_workers)]
    _HERE.silent = True
    sys.meta_path.insert(0, _LookedUp)
    # What is loaded already is as it is now, or was edited behind it: nobody knows.
    _ON[0].read_modules()


def is_recording() -> bool:
    """Return True if this process records its reads."""
    return bool(_ON)


def close(reason: str) -> None:
    """Exclude all findings of this process from stores."""
    for recorded in _ON:
        recorded.close(reason)


def traced() -> Any:
    """Attribute everything that this thread does in the block to the program under test."""
    return _silent(is_silent=False)


def untraced() -> Any:
    """Attribute everything that this thread does in the block to the suite."""
    return _silent(is_silent=True)


@contextmanager
def _silent(*, is_silent: bool) -> Iterator[None]:
    before = getattr(_HERE, "silent", False)
    _HERE.silent = is_silent
    try:
        yield
    finally:
        _HERE.silent = before


def unheard(shown: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Wrap a progress display: the suite does the display, and the program the steps."""

    def both(steps: Iterable[Any], *about: Any) -> Iterator[Any]:
        yield from _each(shown(_each(steps, traced), *about), untraced)

    return both


def _each(steps: Iterable[Any], within: Callable[[], Any]) -> Iterator[Any]:
    iterator = iter(steps)
    while True:
        with within():
            try:
                step = next(iterator)
            except StopIteration:
                return
        yield step


def trace() -> Trace:
    """Return everything read since the recording began: a closed trace if a file has changed."""
    if not _ON:
        return Trace({}, {}, "what it reads was not recorded")
    recorded = _ON[0]
    with untraced():
        recorded.read_modules()
        for path, stamp in list(recorded.stamps.items()):
            if _stamp(path) != stamp:
                recorded.close(f"{path} was changed while it was judged")
    return Trace(
        dict(sorted(recorded.files.items())),
        {name: was for name, was in sorted(recorded.variables.items()) if was != _SET},
        recorded.closed,
        {folder: dict(sorted(names.items())) for folder, names in sorted(recorded.modules.items())},
    )


# --- what is heard ------------------------------------------------------------------------


@cache
def _listen() -> None:
    """Listen to Python's audit events, to the start of processes, and to reads of variables."""
    sys.addaudithook(_heard)
    kind: Any = BaseProcess
    kind.start = _starting(kind.start)
    _listen_to_names(type(os.environ))
    _listen_to_walks(type(os.environ))


def _listen_to_names(kind: Any) -> None:
    """Record the variables that are read, looked up and set."""
    get, contains, put = kind.__getitem__, kind.__contains__, kind.__setitem__

    def traced_get(environment: Any, name: Any) -> Any:
        if _is_heard() and not (_is_walk(sys._getframe(1)) and _is_installed(_asking())):
            _ask(environment, name)
        return get(environment, name)

    def traced_contains(environment: Any, name: Any) -> bool:
        _ask(environment, name)
        return bool(contains(environment, name))

    # What a program sets itself is no input, unless it has been read before.
    def traced_put(environment: Any, name: Any, value: Any) -> None:
        if _is_heard() and _is_of_process(environment):
            _ON[0].variables.setdefault(os.fsdecode(name), _SET)
        put(environment, name, value)

    kind.__getitem__, kind.__contains__, kind.__setitem__ = traced_get, traced_contains, traced_put


def _listen_to_walks(kind: Any) -> None:
    """Record iterations over all variables, which may read any variable."""
    walk, shown, count = kind.__iter__, kind.__repr__, kind.__len__

    def ask_all(environment: Any) -> None:
        for name in (_NAMES, *walk(environment)):
            _ask(environment, name)

    # Libraries look for those of their own, which they read by name then.
    def traced_walk(environment: Any) -> Any:
        if _is_heard() and not _is_installed(_asking()):
            ask_all(environment)
        return walk(environment)

    def traced_shown(environment: Any) -> Any:
        ask_all(environment)
        return shown(environment)

    def traced_count(environment: Any) -> int:
        _ask(environment, _NAMES)
        return int(count(environment))

    kind.__iter__, kind.__repr__, kind.__len__ = traced_walk, traced_shown, traced_count


def _is_heard() -> bool:
    """Return True if this thread runs the program under test, and is recorded."""
    return bool(_ON) and not getattr(_HERE, "silent", False)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS or not _is_heard():
        return
    with untraced():
        try:
            _EVENTS[event](arguments)
        except Exception as error:
            # What cannot be recorded must not stop the program, nor be believed.
            close(f"what it reads could not be recorded ({type(error).__name__}: {error})")


def _opened(arguments: tuple[Any, ...]) -> None:
    """Record a file that is opened to be read."""
    name, mode, flags = arguments
    if not isinstance(name, (str, bytes, os.PathLike)):
        return  # what is open already was recorded when it was opened
    is_new = flags & os.O_TRUNC or (flags & os.O_CREAT and flags & os.O_EXCL)
    if is_new or flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) == os.O_WRONLY:
        return  # what is written is no input
    path = os.fsdecode(name)
    # `os.open` may mean a folder that is open (dir_fd), of which nothing is told.
    if mode is None and not Path(path).is_absolute():
        close(f"it opens {path!r} by `os.open`, and the folder is not known")
    else:
        _ON[0].read(path)


def _imported(arguments: tuple[Any, ...]) -> None:
    """Record a compiled module, the only kind whose event names its file."""
    if arguments[1] is not None:
        _ON[0].read(os.fsdecode(arguments[1]))


def _loaded_library(arguments: tuple[Any, ...]) -> None:
    """Record a compiled library, which only a path identifies for certain."""
    name = arguments[0]
    if name is None:
        return  # the process itself
    if os.sep in os.fsdecode(name):
        _ON[0].read(os.fsdecode(name))
    else:
        close(f"it loads the library {name!r}, wherever that is found")


def _connected(arguments: tuple[Any, ...]) -> None:
    if arguments[0] != ":memory:":
        close("it opens a database")


def _beyond(told: str) -> Callable[[tuple[Any, ...]], None]:
    return lambda _: close(f"it {told}")


def _forked(_: tuple[Any, ...]) -> None:
    # The suite forks too, and calls the program on both sides.
    file = os.path.realpath(sys._getframe(2).f_code.co_filename)
    if not any(file.startswith(f"{folder}{os.sep}") for folder in suite_folders()):
        close(f"it {_PROGRAMS}")


_PROGRAMS, _NETWORK = "starts other programs", "reaches over a network"

_EVENTS: Mapping[str, Callable[[tuple[Any, ...]], None]] = {
    "open": _opened,
    "import": _imported,
    "ctypes.dlopen": _loaded_library,
    "sqlite3.connect": _connected,
    **dict.fromkeys(
        (
            *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"),
            *("os.forkpty", "os.startfile", "pty.spawn"),
        ),
        _beyond(_PROGRAMS),
    ),
    "os.fork": _forked,
    **dict.fromkeys(
        (
            *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"),
            *("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"),
        ),
        _beyond(_NETWORK),
    ),
    "socket.gethostname": _beyond("asks for the name of the machine"),
}
"""Functions that handle the events that Python audits, by event name."""


def _starting(start: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the method that starts a process of `multiprocessing`, which no event reports."""

    @wraps(start)
    def heard(process: Any) -> None:
        is_own = bool(_ON) and _ON[0].has_workers and type(process).__module__.startswith("joblib.")
        if _is_heard() and not is_own:
            close(f"it {_PROGRAMS}")
        start(process)

    return heard


class _LookedUp:
    """First finder of modules, which finds none: it records where Python looks for them."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _: Any = None) -> None:
        """Record a name, and the folders in which it is looked for."""
        if not _is_heard() or name in sys.builtin_module_names:
            return
        with untraced():
            try:
                folders = sys.path if path is None else path
                _ON[0].look_up(name, folders)
            except Exception as error:
                close(f"{name} was looked for, and where is not known ({error})")


# --- variables ----------------------------------------------------------------------------


def _is_walk(frame: FrameType) -> bool:
    """Return True if Python's own code reads a variable while it iterates over all of them."""
    return frame.f_code.co_name in ("__iter__", "copy") and _is_standard(frame.f_code.co_filename)


def _ask(environment: Any, name: Any) -> None:
    """Record the value of a variable that is read for the first time."""
    if _is_heard() and isinstance(name, (str, bytes)) and _is_of_process(environment):
        called, asked = os.fsdecode(name), _ON[0].variables
        if called not in asked:
            with untraced():
                asked[called] = _digest_of_variable(called)


def _is_of_process(environment: Any) -> bool:
    """Return True if variables are those of this process, and not of a copy."""
    return environment is os.environ or environment is getattr(os, "environb", None)


_NAMES = "*"
"""Placeholder for the names of all variables; no variable has this name."""

_SET = "set by the program"
"""Placeholder for a variable that was set before it was read."""


def _asking() -> str:
    """Return the file of the code that calls one of Python's own modules."""
    frame: FrameType | None = sys._getframe(2)
    file = ""
    while frame is not None and _is_standard(file := frame.f_code.co_filename):
        frame = frame.f_back
    return file


def _digest_of_variable(name: str) -> str | None:
    known = _ON[0].variables if _ON else {}
    own = [each for each, was in known.items() if was == _SET]
    with untraced():
        every = "\n".join(sorted(set(os.environ) - set(own))) if name == _NAMES else None
        value = every if name == _NAMES else os.environ.get(name)
    return None if value is None else sha256(os.fsencode(value)).hexdigest()


# --- files --------------------------------------------------------------------------------


def _source_of(path: str) -> str:
    """Return the path of compiled code's source, or the given path if the source is missing."""
    if path.endswith(".pyc"):
        with suppress(ValueError, NotImplementedError):
            source = source_from_cache(path)
            return source if Path(source).exists() else path
    return path


def _stamp(path: str) -> _Stamp | None:
    """Return properties of a file that change when it is written or replaced; None if missing."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return (
        *(found.st_mode, found.st_dev, found.st_ino),
        *(found.st_size, found.st_mtime_ns, found.st_ctime_ns),
    )


def _digest_of(file: str) -> str | None:
    """Return the SHA-256 of a regular file, None if no such file can be read."""
    with untraced():
        try:
            # A pipe would keep its reader waiting.
            opened = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
        except (OSError, ValueError):
            return None
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return None
            with open(opened, "rb", closefd=False) as content:
                return file_digest(content, "sha256").hexdigest()
        except OSError:
            return None
        finally:
            os.close(opened)


_BINARY = getattr(os, "O_BINARY", 0)


def _named_so(folder: str, name: str) -> list[str]:
    """Return the entries of a folder that can provide a module of a name.

    A folder of that name is a package if it has a file `__init__`, which is then an entry, too. An
    archive of modules in place of the folder is represented by its digest.
    """
    try:
        # Whatever is added, removed or renamed changes the time.
        changed = Path(folder).stat().st_mtime_ns
        entries = _entries(folder, changed).get(name, [])
    except NotADirectoryError:
        return _archive(folder, changed)
    except (OSError, ValueError):
        return []
    inside = (f"{name}{os.sep}__init__{suffix}" for suffix in all_suffixes() if name in entries)
    return [*entries, *(each for each in inside if Path(folder, each).is_file())]


@cache
def _archive(path: str, _: int) -> list[str]:
    """Return the digest that represents every module of an archive, which is hashed once."""
    return [f"SHA-256 {_digest_of(path)}"]


@cache
def _entries(folder: str, _: int) -> dict[str, list[str]]:
    """Return the entries of a folder by the names of the modules that they can provide."""
    found: dict[str, list[str]] = {}
    for each in sorted(each.name for each in Path(folder).iterdir()):
        name, dot, rest = each.partition(".")
        if not dot or f"{dot}{rest}" in _SUFFIXES:
            found.setdefault(name, []).append(each)
    return found


_SUFFIXES = frozenset(all_suffixes())


@cache
def _is_left_out(name: str) -> bool:
    """Return True for a folder, or a file of `_SAME`, Python, the suite or a versioned library."""
    path = os.path.realpath(name)
    if name in _SAME or Path(path).is_dir():
        return True
    if Path(name).is_symlink() and not name.startswith(_python_folders()):
        return False  # where it leads may change
    is_told = any(path.startswith(f"{place}{os.sep}") for place in _elsewhere())
    return is_told or _is_standard(name) or path in _installed()


_SAME = ("/dev/null", "/proc/cpuinfo", "/proc/self/maps")
"""Files of the system without content of their own, or covered by a key, or about this process."""


def _is_installed(name: str) -> bool:
    """Return True if a file belongs to an installed library."""
    return _is_left_out(name) or not set(PACKAGES).isdisjoint(Path(name).parts)


@cache
def _is_standard(name: str) -> bool:
    """Return True if a file is one of Python's own modules, including frozen modules."""
    standard = f"{os.path.realpath(sysconfig.get_path('stdlib'))}{os.sep}"
    path = os.path.realpath(name)
    is_below = path.startswith(standard) and not path[len(standard) :].startswith(PACKAGES)
    return is_below or name.startswith("<frozen ")


@cache
def _python_folders() -> tuple[str, ...]:
    """Return the folders of Python and its libraries, whose files may be links."""
    return tuple({f"{path}{os.sep}" for path in sysconfig.get_paths().values() if path})


@cache
def _elsewhere() -> tuple[str, ...]:
    """Return the folders that keys cover: those of the suite, and of libraries with versions."""
    told = {os.path.realpath(each.parent) for each in (*chapters(), *schema_files())}
    libraries_of = [*filter(None, map(_folder, VERSIONED))]
    # Wheels keep the libraries that they bring along beside the package.
    beside = [f"{each}.libs" for each in libraries_of]
    return (*suite_folders(), *sorted(told), *libraries_of, *beside)


def suite_folders() -> list[str]:
    """Return the folders of the suite's rooms."""
    rooms = (draftproof.conformance, draftproof.reference, draftproof.spec)
    return [os.path.realpath(next(iter(room.__path__))) for room in rooms]


VERSIONED = ("torch", "triton", "numpy", "scipy", "sympy")
"""Packages whose versions are in keys, and in the environment of a certificate."""

PACKAGES = ("site-packages", "dist-packages")
"""Folders of other projects inside of Python's own."""


def _folder(name: str) -> str:
    """Return the folder of a package, which may not have been imported yet, empty without one."""
    found = find_spec(name)
    return str(Path(found.origin).resolve().parent) if found and found.origin else ""


@cache
def _installed() -> frozenset[str]:
    """Return the files of the libraries whose versions a key has."""
    found: list[str] = []
    for name in libraries():
        if name not in (*VERSIONED, "draftproof"):
            try:
                listed = distribution(name).files or ()
            except PackageNotFoundError:
                continue
            found += [os.path.realpath(str(each.locate())) for each in listed]
    return frozenset(found)
