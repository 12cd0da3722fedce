"""A store gives back what was kept, as long as all is as it was, and else nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from draftproof.conformance.evidence import store as stores
from draftproof.conformance.evidence.store import (
    Basis,
    DamagedSeed,
    KnownFindings,
    Store,
    keep_trace,
)
from draftproof.conformance.evidence.traces import Trace, recording

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
    store.keep(CODE, RECORDS, Basis({own}), made=MADE)
    (file,) = (store.folder / "findings").glob("*/*")
    return file


def again(store: Store) -> Store:
    """Return the store as another process finds it."""
    return Store(store.folder)


def test_what_is_kept_is_known(store: Store) -> None:
    assert store.finding(CODE) is None
    assert not store.folder.exists()
    kept(store)
    known = again(store).finding(CODE)
    assert known is not None
    assert (known.records, known.made, len(known.traces)) == (RECORDS, MADE, 1)
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
    kept(store, Trace({}, {}, "it starts other programs"))
    assert again(store).finding(CODE) is None
    other = "b" * 64
    store.keep(other, RECORDS, Basis({"c" * 64}, "it starts other programs"), made=MADE)
    assert len([*(store.folder / "findings").glob("*/*")]) == 1


def test_what_has_no_trace_is_neither_kept_nor_known(store: Store) -> None:
    store.keep(CODE, RECORDS, Basis(), made=MADE)
    store.keep_campaign({}, [{"created": MADE}], Basis())
    assert not store.folder.exists()
    file = kept(store)
    text = json.dumps({**json.loads(file.read_text().partition("\n")[2]), "traces": []})
    rewrite(file, text)
    assert again(store).finding(CODE) is None


def rewrite(file: Path, text: str) -> None:
    """Write a file of a store with a digest that is right."""
    seal = sha256(f"{file.name}\n{text}".encode()).hexdigest()
    file.write_text(f"{seal}\n{text}")


@pytest.mark.parametrize("text", ["{}", "[]", "1", "no JSON", ""])
def test_what_another_program_wrote_is_not_known(store: Store, text: str) -> None:
    file = kept(store)
    rewrite(file, text)
    assert again(store).finding(CODE) is None
    asked = {"name": "mine.py:Mine"}
    store.keep_seed(asked, "f" * 64, 7, is_failed=False)
    (seed,) = (store.folder / "seeds").iterdir()
    rewrite(seed, text)
    with pytest.raises(DamagedSeed):
        store.seed(asked, "f" * 64)
    assert store.keep_seed(asked, "f" * 64, 8, is_failed=False)


def test_what_is_moved_to_another_name_is_not_known(store: Store) -> None:
    file = kept(store)
    store.keep("b" * 64, RECORDS, Basis({"c" * 64}), made=MADE)
    (other,) = (each for each in (store.folder / "findings").glob("*/*") if each != file)
    other.write_bytes(file.read_bytes())
    assert again(store).finding("b" * 64) is None
    assert again(store).finding(CODE) is not None


def test_what_was_not_recorded_is_not_kept(store: Store) -> None:
    basis = Basis()
    basis.read(store.folder)
    assert basis == Basis(refusal="what it reads was not recorded")


def test_another_folder_or_path_knows_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name leads elsewhere there."""
    kept(store)
    with monkeypatch.context() as patched:
        patched.chdir(tmp_path)
        assert again(store).finding(CODE) is None
    with monkeypatch.context() as patched:
        patched.setattr(sys, "path", [str(tmp_path), *sys.path])
        assert again(store).finding(CODE) is None
    assert again(store).finding(CODE) is not None


@pytest.mark.parametrize("name", ["DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "OMP_SCHEDULE"])
def test_a_variable_that_compiled_code_reads_is_of_the_environment(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kept(store)
    monkeypatch.setenv(name, "other")
    assert again(store).finding(CODE) is None


def test_a_seed_is_of_an_adapter_and_survives_another(store: Store) -> None:
    asked = {"name": "mine.py:Mine", "mode": "quick"}
    assert store.seed(asked, "one") is None
    assert store.keep_seed(asked, "one", 5, is_failed=True)
    assert store.keep_seed(asked, "two", 6, is_failed=False)
    assert not again(store).keep_seed(asked, "one", 7, is_failed=False)
    assert store.keep_seed(asked, "one", 5, is_failed=False)
    assert not store.keep_seed(asked, "one", 7, is_failed=False), "it failed once"
    assert (store.seed(asked, "one"), store.seed(asked, "two")) == (5, 6)
    assert store.keep_seed(asked, "two", 8, is_failed=False)
    for file in (store.folder / "seeds").iterdir():
        file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(DamagedSeed):
        store.seed(asked, "one")


def test_what_is_forgotten_is_not_known(store: Store) -> None:
    kept(store)
    store.forget(CODE)
    store.forget(CODE)
    assert again(store).finding(CODE) is None
    assert not store.trouble


def test_a_folder_of_the_user_is_not_hidden(store: Store) -> None:
    store.folder.mkdir()
    kept(store)
    assert not (store.folder / ".gitignore").exists()


def test_what_killed_writers_left_is_removed(store: Store) -> None:
    kept(store)
    old, new = (store.folder / "writing" / each for each in ("old", "new"))
    for each in (old, new):
        each.touch()
    os.utime(old, (0, 0))
    store.keep("b" * 64, RECORDS, Basis({"c"}), made=MADE)
    assert (old.exists(), new.exists()) == (False, True)


def test_two_writers_leave_one_of_their_findings(store: Store) -> None:
    trace = keep_trace(store.folder, NOTHING_READ)

    def write(number: int) -> None:
        records = [{"number": number, "much": "x" * 50_000}]
        again(store).keep(CODE, records, Basis({trace}), made=MADE)

    def read(_: int) -> KnownFindings | None:
        return again(store).finding(CODE)

    with ThreadPoolExecutor(8) as pool:
        writing = pool.map(write, range(200))
        seen = [*pool.map(read, range(200))]
        assert len([*writing]) == 200
    whole = {each.records[0]["number"] for each in seen if each}
    assert whole <= {*range(200)}
    files = [each for each in store.folder.rglob("*") if each.is_file()]
    assert len(files) == 3, "a finding, its trace and .gitignore: nothing that was being written"


def test_a_store_that_cannot_be_written_ends_nothing(store: Store) -> None:
    store.folder.write_text("a file")
    store.keep(CODE, RECORDS, Basis({"c"}), made=MADE)
    assert store.trouble.startswith("the store cannot be written: ")
    basis = Basis()
    with recording():
        basis.read(store.folder)
    assert basis.refusal == store.trouble
    assert store.keep_seed({}, "one", 5, is_failed=False)


@pytest.mark.skipif(os.name != "posix", reason="it needs permissions")
def test_a_store_that_cannot_be_read_knows_nothing(store: Store) -> None:
    file = kept(store)
    file.unlink()
    file.mkdir()
    assert again(store).finding(CODE) is None
