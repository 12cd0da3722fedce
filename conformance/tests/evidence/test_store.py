"""A store gives back what was kept, as long as all is as it was, and else nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from draftproof.conformance.evidence import store as stores
from draftproof.conformance.evidence.store import KnownFindings, Store, keep_trace
from draftproof.conformance.evidence.traces import Trace

RECORDS = ({"share": 0, "looks": []}, {"findings": [{"case": "one"}], "key": "0" * 64})
MADE = "2026-01-01T00:00:00+00:00"
CODE = "a" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


NOTHING_READ = Trace({}, {})


def kept(store: Store, trace: Trace = NOTHING_READ) -> Path:
    """Keep a finding, and return its file."""
    own = keep_trace(store.folder, trace)
    store.keep(CODE, RECORDS, traces=[own], made=MADE)
    (file,) = (store.folder / "findings").glob("*/*")
    return file


def again(store: Store) -> Store:
    """Return the store as another process finds it."""
    return Store(store.folder)


def test_what_is_kept_is_known(store: Store) -> None:
    assert store.finding(CODE) is None
    assert not store.folder.exists()
    kept(store)
    assert again(store).finding(CODE) == KnownFindings(RECORDS, MADE)
    assert again(store).finding("b" * 64) is None
    assert (store.folder / ".gitignore").read_text() == "*\n"


def damaged(content: bytes) -> Iterator[bytes]:
    """Yield a file cut off everywhere, and with one bit turned everywhere."""
    for end in range(len(content)):
        yield content[:end]
    for place in range(len(content)):
        yield content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def test_a_damaged_finding_is_not_known(store: Store) -> None:
    file = kept(store)
    content = file.read_bytes()
    for other in damaged(content):
        file.write_bytes(other)
        assert again(store).finding(CODE) is None
    file.write_bytes(content)
    assert again(store).finding(CODE) is not None


def test_a_finding_without_its_trace_is_not_known(store: Store) -> None:
    kept(store)
    (trace,) = (store.folder / "traces").iterdir()
    content = trace.read_bytes()
    for other in (content[:-1], b""):
        trace.write_bytes(other)
        assert again(store).finding(CODE) is None
    trace.unlink()
    assert again(store).finding(CODE) is None


def test_another_environment_knows_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(store)
    monkeypatch.setattr(stores, "environment_key", lambda: "another processor")
    assert again(store).finding(CODE) is None


def test_what_was_read_has_to_be_as_it_was(store: Store, tmp_path: Path) -> None:
    file, absent = tmp_path / "data", tmp_path / "absent"
    file.write_text("one")
    digest = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    kept(store, Trace({str(file): digest, str(absent): None}, {}))
    assert again(store).finding(CODE) is not None
    file.write_text("two")
    assert again(store).finding(CODE) is None
    file.write_text("one")
    assert again(store).finding(CODE) is not None
    absent.write_text("there it is")
    assert again(store).finding(CODE) is None


def test_a_variable_that_was_read_has_to_be_as_it_was(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("READ_BY_ADAPTER", raising=False)
    kept(store, Trace({}, {"READ_BY_ADAPTER": None}))
    assert again(store).finding(CODE) is not None
    monkeypatch.setenv("READ_BY_ADAPTER", "1")
    assert again(store).finding(CODE) is None


def test_what_reaches_beyond_is_never_known(store: Store) -> None:
    closed = Trace({}, {}, "it starts other programs")
    kept(store, closed)
    assert again(store).finding(CODE) is None
    traces = [each.name for each in (store.folder / "traces").iterdir()]
    assert store.refusal(traces) == "it starts other programs"


def test_two_writers_leave_one_of_their_findings(store: Store) -> None:
    def write(number: int) -> None:
        again(store).keep(CODE, [{"number": number, "much": "x" * 50_000}], traces=[], made=MADE)

    def read(_: int) -> KnownFindings | None:
        return again(store).finding(CODE)

    with ThreadPoolExecutor(8) as pool:
        writing = pool.map(write, range(200))
        seen = [*pool.map(read, range(200))]
        assert len([*writing]) == 200
    whole = {each.records[0]["number"] for each in seen if each}
    assert whole <= {*range(200)}
    files = [each for each in store.folder.rglob("*") if each.is_file()]
    assert len(files) == 2, "a finding and .gitignore: nothing that was being written is left"


def test_a_store_that_cannot_be_written_says_so(store: Store) -> None:
    store.folder.write_text("a file")
    with pytest.raises(OSError, match=r"[Nn]ot a directory|exists"):
        kept(store)


@pytest.mark.skipif(os.name != "posix", reason="it needs permissions")
def test_a_store_that_cannot_be_read_knows_nothing(store: Store) -> None:
    file = kept(store)
    file.unlink()
    file.mkdir()
    assert again(store).finding(CODE) is None
