"""Terms of all tests: kernels are interpreted, torch keeps to one thread, skips are counted.

Each test is marked by the seconds that it took when all were measured: `slow` ones are not of
`make check`, `nightly` ones not of `make test`, unless they are marked `always`. What nobody has
measured is run every time, and so is the quickest test of each module.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir

import pytest

DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds of every test that takes long, as `--measure` has written them."""

MARKS = {"slow": 0.2, "nightly": 2.0}
"""Seconds from which on a test is slow, and from which on it runs by night: so many leave two
minutes of two cores to `make check`, and twelve to `make test`."""

# Triton decides when a kernel is defined. TRITON_INTERPRET=0 tests kernels on a GPU that is there.
os.environ.setdefault("TRITON_INTERPRET", "1")

# Every core has a worker of pytest's already, whose tensors are small.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Tests judge, and leave no store behind; those of stores name theirs.
os.environ["DRAFTPROOF_STORE"] = "off"
os.environ.pop("CI", None)

# Programs of whole engines, and scripts that show faults of some, need those engines.
collect_ignore_glob = ["adapters/whole/*", "adapters/matrix/reproductions/*"]

# What was asked of this run of pytest is not asked of those that tests start.
os.environ.pop("PYTEST_ADDOPTS", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that measures."""
    told = f"write {DURATIONS.name}, by which tests are slow or run by night"
    parser.addoption("--measure", action="store_true", help=told)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark tests by what is on record."""
    took = json.loads(DURATIONS.read_text(encoding="utf-8"))["seconds"]
    quickest: dict[Path, pytest.Item] = {}
    for item in items:
        known = quickest.setdefault(item.path, item)
        if took.get(item.nodeid, 0) < took.get(known.nodeid, 0):
            quickest[item.path] = item
    for item in items:
        if item is quickest[item.path]:
            continue
        for mark, limit in MARKS.items():
            is_kept = mark == "nightly" and item.get_closest_marker("always")
            if took.get(item.nodeid, 0) >= limit and not is_kept:
                item.add_marker(mark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test, with the programs that it waits for."""
    item.stash[_BEGIN] = time.monotonic()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    """Measure what is made once for several tests: without the first, another has it made."""
    begin = time.monotonic()
    try:
        return (yield)
    finally:
        made = time.monotonic() - begin
        if request.scope == "function":
            # Another module may share what has this name.
            _MADE.pop(request.fixturename or "", None)
        else:
            _MADE[request.fixturename or ""] = made
            request.session.stash[_SHARED] = request.session.stash.get(_SHARED, 0.0) + made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the last report of a test say what it took."""
    report = yield
    if call.when == "teardown":
        own = time.monotonic() - item.stash[_BEGIN] - item.session.stash.get(_SHARED, 0.0)
        shared = sum(_MADE.get(name, 0.0) for name in getattr(item, "fixturenames", ()))
        report.user_properties.append((_TOOK, own + shared))
        item.session.stash[_SHARED] = 0.0
    return report


_BEGIN, _SHARED = pytest.StashKey[float](), pytest.StashKey[float]()
"""When a test began, and the seconds in which it had something made that others share."""

_MADE: dict[str, float] = {}
"""Seconds that it took to make what several tests share, by the fixture's name, the last of it."""

_TOOK = "seconds"


@pytest.fixture(autouse=True)
def path_kept() -> Iterator[None]:
    """Let no test find modules of another's folder, which loading an adapter makes importable."""
    yield
    # What a module's fixture loads is there before its first test begins.
    if sys.path != _PATH:
        sys.path[:] = _PATH
        found = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
        for name, file in found.items():
            if file is not None and file.startswith(gettempdir()):
                del sys.modules[name]


_PATH: list[str] = []
"""The path when all tests are collected."""


def pytest_collection_finish() -> None:
    """Keep what was collected out of all later searches among live objects: it stays."""
    _PATH[:] = sys.path
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter's end find what was kept from it."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    """Say last how many tests of pages were skipped for want of a browser, and how to get it."""
    yield
    # A worker of xdist has a summary, too, which nobody sees.
    is_worker = hasattr(terminalreporter.config, "workerinput")
    if terminalreporter.config.getoption("measure") and not is_worker:
        _measured(terminalreporter, is_whole=_is_of_all_tests(terminalreporter.config))
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum("chromium is not installed" in str(report.longrepr) for report in skipped)
    if count:
        told = f"{count} browser tests skipped: chromium is not installed."
        terminalreporter.write_line(f"{told} On Debian: apt-get install chromium", yellow=True)


def _is_of_all_tests(config: pytest.Config) -> bool:
    """Return whether no tests were left out: those keep what is on record of them."""
    part = (config.option.keyword, config.option.markexpr)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(part)


def _measured(told: pytest.TerminalReporter, *, is_whole: bool) -> None:
    """Write what each test took, and tell of those that are marked anew."""
    document = json.loads(DURATIONS.read_text(encoding="utf-8"))
    before = document["seconds"]
    took: Counter[str] = Counter()
    for reports in told.stats.values():
        for report in reports:
            # What was deselected is among them, and has taken nothing.
            for name, seconds in getattr(report, "user_properties", ()):
                took[report.nodeid] += seconds if name == _TOOK else 0
    for mark, limit in MARKS.items():
        moved = [name for name in took if (took[name] < limit) != (before.get(name, 0) < limit)]
        told.write_line(f"{len(moved)} tests change sides at {limit} s ({mark})")
    if is_whole:
        document = {
            "measured": f"{datetime.now(UTC):%Y-%m-%d}",
            "seconds in all": round(took.total()),
            "outcomes": {
                kind: len(told.stats[kind])
                for kind in ("passed", "failed", "skipped", "error")
                if kind in told.stats
            },
        }
    now = sorted({**({} if is_whole else before), **took}.items())
    document["seconds"] = {name: round(s, 2) for name, s in now if s >= MARKS["slow"]}
    DURATIONS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
