from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.metadata import version as released
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.evidence import records as evidence
from draftproof.conformance.evidence.records import (
    NOTHING,
    EditedEvidence,
    EmptyEvidence,
    EvidenceError,
    MalformedEvidence,
    MissingEvidence,
    MissingFooter,
    Record,
    Sink,
    canonical,
    differences,
    parsed,
    read_finished,
    read_unfinished,
    unfinished,
    written,
)
from draftproof.spec import IrregularFile

VERSIONED = {"version": "1.0", "sha256": "0" * 64}
HEADER: Record = {
    "record": "header",
    "format": 3,
    "created": "2026-01-01T12:00:00+00:00",
    "subject": {"name": "mine", **VERSIONED},
    "specification": VERSIONED,
    "suite": {**VERSIONED, "version": released("draftproof")},
    "environment": {"python": "3.11"},
    "campaign": {
        "mode": "quick",
        "lanes": ["sample"],
        "blind": {},
        "seed": 1,
        "false_alarm": 1e-09,
        "tests": 2,
        "examples": 0,
        "only": [],
    },
    "adapter": {
        "name": "mine",
        "version": "1.0",
        "algorithm": "token",
        "dtype": "float32",
        "dtypes": ["float32"],
        "device": "cpu",
        "max_drafts": 1,
        "scheme": "iid",
        "batch": True,
        "ragged": False,
        "logits": False,
        "trees": False,
        "at_once": 1,
        "drafts": False,
        "noise": {},
        "undefined": {},
        "place": "./ünïcode.py:mine",
    },
    "known_failures": [],
}


def case(task: int) -> Record:
    lanes = ["exact", "sample"]
    requirements = ["law.support"]
    return {
        "record": "case",
        "task": task,
        "case": "equal",
        "requirements": requirements,
        "lanes": lanes,
    }


def share(task: int, number: int) -> Record:
    look = {"counts": [3, 5, 0], "words": "", "stream": "1" * 64}
    return {"record": "share", "task": task, "share": number, "looks": [look]}


def result(task: int) -> Record:
    finding = {
        "requirement": "law.support",
        "case": "equal",
        "verdict": "pass",
        "distance": 0.25,
        "allowed": 1e-06,
        "lane": "sample",
        "runs": 8,
        "detail": "",
        "applies": True,
        "sampled": None,
        "lengths": None,
        "law": None,
    }
    return {"record": "result", "task": task, "findings": [finding], "compared": []}


SOURCES: Record = {
    "record": "sources",
    "files": [
        {
            "file": "mine.py",
            "sha256": "0" * 64,
            "distribution": None,
            "version": None,
            "declared": True,
        }
    ],
}
COUNTEREXAMPLE: Record = {"record": "counterexample", "counterexample": None}


def footer(records: int) -> Record:
    return {"record": "footer", "records": records}


WHOLE = (
    HEADER,
    case(0),
    case(1),
    share(0, 0),
    share(0, 1),
    result(0),
    result(1),
    COUNTEREXAMPLE,
    footer(9),
)


def sealed(records: Sequence[Record]) -> bytes:
    """The file of these records, its digests as its writer or a forger computes them."""
    lines, digest = [], ""
    for record in records:
        body = canonical(record)
        digest = sha256(f"{digest}\n{body}".encode()).hexdigest()
        lines.append(f'{body[:-1]},"digest":"{digest}"}}\n'.encode())
    return b"".join(lines)


def refused(content: bytes, path: Path) -> EvidenceError:
    """Why a file of this content is no finished evidence; its name must be told."""
    path.write_bytes(content)
    with pytest.raises(EvidenceError) as caught:
        read_finished(path)
    assert str(path) in str(caught.value)
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine.jsonl"


# --- writing ------------------------------------------------------------------------------


def test_what_is_written_is_read(path: Path) -> None:
    with written(path) as sink:
        for record in WHOLE:
            sink.keep(record)
    evidence, digest = read_finished(path)
    assert evidence.records == WHOLE
    assert evidence.header == HEADER
    assert evidence.is_finished
    assert path.read_bytes() == sealed(WHOLE)
    assert digest == sha256(path.read_bytes()).hexdigest()
    assert [each.name for each in path.parent.iterdir()] == ["mine.jsonl"]


def test_every_record_is_there_as_soon_as_it_is_kept(path: Path) -> None:
    with written(path) as sink:
        for number, record in enumerate(WHOLE, start=1):
            sink.keep(record)
            assert unfinished(path).read_bytes() == sealed(WHOLE[:number])
            assert not path.exists()


def test_what_ends_in_an_error_keeps_its_records_and_gets_no_name(path: Path) -> None:
    def fail() -> None:
        with written(path) as sink:
            sink.keep(HEADER)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not path.exists()
    assert read_unfinished(unfinished(path)).records == (HEADER,)


@pytest.mark.parametrize("behind", [b"", b"{", b'{"record":"case","task":', b"\0" * 40, b"\xff"])
@pytest.mark.parametrize("known", [0, 1, 4, 8])
def test_writing_goes_on_behind_the_last_whole_record(
    path: Path, known: int, behind: bytes
) -> None:
    unfinished(path).write_bytes(sealed(WHOLE[:known]) + behind)
    before = read_unfinished(unfinished(path))
    assert before.records == WHOLE[:known]
    with written(path, before) as sink:
        for record in WHOLE[known:]:
            sink.keep(record)
    assert path.read_bytes() == sealed(WHOLE)


def test_what_is_finished_and_has_its_name_is_left_alone(path: Path) -> None:
    path.write_bytes(sealed(WHOLE))
    evidence, _ = read_finished(path)
    with written(path, evidence):
        assert not unfinished(path).exists()
    assert path.read_bytes() == sealed(WHOLE)


def test_old_evidence_makes_room_for_new_when_that_is_whole(path: Path) -> None:
    path.write_bytes(sealed(WHOLE))
    unfinished(path).write_bytes(sealed(WHOLE[:6]))
    with written(path, NOTHING) as sink:
        sink.keep(HEADER)
        assert path.read_bytes() == sealed(WHOLE)
    assert path.read_bytes() == sealed([HEADER])


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="space"):
        Sink(full, "").keep(HEADER)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_cannot_say_is_not_written(path: Path, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"), written(path) as sink:
        sink.keep({**HEADER, "format": number})


def test_two_runs_do_not_write_to_one_file(path: Path) -> None:
    with written(path) as sink:
        sink.keep(WHOLE[0])
        with pytest.raises(BlockingIOError, match="another run is writing it"), written(path):
            raise AssertionError("both write")
        for record in WHOLE[1:]:
            sink.keep(record)
    assert read_finished(path)[0].records == tuple(WHOLE)


def test_a_run_that_waits_for_the_lock_harms_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run begins and ends between the opening and the lock."""
    lock = evidence._lock

    def late(*opened: Any) -> None:
        monkeypatch.setattr(evidence, "_lock", lock)
        with written(path) as other:
            for record in WHOLE:
                other.keep(record)
        lock(*opened)

    monkeypatch.setattr(evidence, "_lock", late)
    with pytest.raises(BlockingIOError, match="another run has written to it"), written(path):
        raise AssertionError("it writes to a file that has another name")
    assert path.read_bytes() == sealed(WHOLE)
    assert not unfinished(path).exists()


def test_opening_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(_file: Any, place: Path) -> None:
        raise BlockingIOError(11, "another run is writing it", str(place))

    unfinished(path).write_bytes(sealed(WHOLE[:6]))
    # It was not there when it was looked for.
    monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(evidence, "_lock", locked)
    with pytest.raises(BlockingIOError), written(path):
        raise AssertionError("it is locked")
    assert unfinished(path).read_bytes() == sealed(WHOLE[:6])


@pytest.mark.parametrize("since", [sealed(WHOLE[:7]), sealed(WHOLE[:4]), b""])
def test_what_was_written_since_it_was_read_is_kept(path: Path, since: bytes) -> None:
    unfinished(path).write_bytes(sealed(WHOLE[:6]))
    known = read_unfinished(unfinished(path))
    unfinished(path).write_bytes(since)
    with pytest.raises(BlockingIOError, match="another run has written"), written(path, known):
        raise AssertionError("it goes on behind what it does not know")
    assert unfinished(path).read_bytes() == since


def test_it_has_its_name_before_another_run_may_write(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def renamed(place: Path, target: Path) -> None:
        with pytest.raises(BlockingIOError, match="another run is writing it"), written(path):
            raise AssertionError("both write")
        place.rename(target)

    monkeypatch.setattr(Path, "replace", renamed)
    with written(path) as sink:
        for record in WHOLE:
            sink.keep(record)
    assert path.read_bytes() == sealed(WHOLE)


class Full:
    """A file on a disk that takes a few bytes more."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: bytes) -> int:
        if not self._room:
            raise OSError(28, "No space left on device")
        taken = self._file.write(content[: self._room])
        self._room -= taken
        return int(taken)


@pytest.mark.parametrize("room", [0, 1, 10, 100])
def test_a_disk_that_fills_leaves_whole_records(path: Path, room: int) -> None:
    def fill() -> None:
        with written(path) as sink:
            sink.keep(HEADER)
            sink._file = Full(sink._file, room)  # type: ignore[assignment]  # it is one
            sink.keep(WHOLE[1])

    with pytest.raises(OSError, match="No space left"):
        fill()
    assert unfinished(path).read_bytes() == sealed([HEADER])


@pytest.mark.parametrize("room", [0, 1, 10])
def test_a_full_disk_leaves_nothing_beside_finished_evidence(path: Path, room: int) -> None:
    path.write_bytes(sealed(WHOLE))

    def fill() -> None:
        with written(path) as sink:
            sink._file = Full(sink._file, room)  # type: ignore[assignment]  # it is one
            sink.keep(HEADER)

    with pytest.raises(OSError, match="No space left"):
        fill()
    assert [each.name for each in path.parent.iterdir()] == ["mine.jsonl"]
    assert path.read_bytes() == sealed(WHOLE)


# --- accidents and carelessness -----------------------------------------------------------


def test_no_byte_can_be_another_one(path: Path) -> None:
    content = sealed(WHOLE)
    chance = random.Random(0)
    for position, byte in enumerate(content):
        changed = byte ^ chance.randrange(1, 256)
        refused(content[:position] + bytes([changed]) + content[position + 1 :], path)


def test_no_byte_can_be_lost_or_added(path: Path) -> None:
    content = sealed(WHOLE)
    chance = random.Random(0)
    for position in range(0, len(content), 7):
        refused(content[:position] + content[position + 1 :], path)
        added = bytes([chance.randrange(256)])
        refused(content[:position] + added + content[position:], path)
    for added in (b"\n", b" ", b"\0", b"\r\n", b"{}", b"{}\n", content):
        refused(content + added, path)


def test_a_file_that_was_cut_off_anywhere_has_no_footer_and_goes_on(path: Path) -> None:
    content = sealed(WHOLE)
    ends = [i for i, byte in enumerate(content) if byte == ord("\n")]
    near_ends = {end + around for end in ends for around in (0, 1, 2)} & {*range(len(content))}
    for position in sorted({*range(1, len(content), 7), *near_ends}):
        assert isinstance(refused(content[:position], path), MissingFooter)
        whole = sum(end < position for end in ends)
        assert read_unfinished(path).records == WHOLE[:whole]
    assert isinstance(refused(b"", path), EmptyEvidence)
    assert read_unfinished(path) == NOTHING


def test_no_line_can_be_lost_repeated_or_put_elsewhere(path: Path) -> None:
    lines = sealed(WHOLE).splitlines(keepends=True)
    last = len(lines) - 1
    for one in range(len(lines)):
        lost = refused(b"".join(lines[:one] + lines[one + 1 :]), path)
        assert isinstance(lost, MissingFooter if one == last else EditedEvidence)
        again = refused(b"".join([*lines[: one + 1], *lines[one:]]), path)
        assert isinstance(again, EditedEvidence)
        for other in range(one):
            moved = list(lines)
            moved[one], moved[other] = moved[other], moved[one]
            assert f"line {other + 1}: its digest does not follow" in str(
                refused(b"".join(moved), path)
            )


def reordered(line: bytes) -> bytes:
    document = json.loads(line)
    body = dict(reversed(document.items()))
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"1" * 5000, "a number of it has 5,000 digits"),
        (b"[" * 9000 + b"]" * 9000, "it has more than 64 lists and objects in each other"),
        (b"[" * 900 + b"]" * 900, "it has more than 64 lists and objects in each other"),
    ],
)
def test_what_is_beyond_all_limits_is_refused(path: Path, value: bytes, message: str) -> None:
    first, *others = sealed(WHOLE).splitlines(keepends=True)
    edited = first.replace(b'"format":3', b'"format":' + value)
    error = refused(edited + b"".join(others), path)
    assert isinstance(error, MalformedEvidence)
    assert message in str(error)


@pytest.mark.parametrize(
    "edit",
    [
        lambda line: line.replace(b"\n", b"\r\n"),
        lambda line: line.replace(b":", b": ", 1),
        lambda line: line.replace(b"\\u00fc", "ü".encode()),
        lambda line: line.replace(b"\\u00fc", b"\\u00FC"),
        lambda line: line.replace(b"\\u00fc", b"\\ud800"),
        lambda line: line.replace(b"1e-09", b"1E-9"),
        lambda line: line.replace(b"1e-09", b"0.000000001"),
        lambda line: line.replace(b"1e-09", b"1e-9"),
        lambda line: line.replace(b"1e-09", b"1e999"),
        lambda line: line.replace(b"1e-09", b"NaN"),
        lambda line: line.replace(b'"format":3', b'"format":3.0'),
        lambda line: line.replace(b'"format":3', b'"format":3,"format":3'),
        lambda line: b"\xef\xbb\xbf" + line,
        lambda line: line.decode().encode("utf-16"),
        lambda line: b"\0" + line,
        lambda line: b"\n" + line,
        lambda line: b"[]\n" + line,
        lambda line: b"null\n" + line,
        lambda line: b"{}\n" + line,
        reordered,
    ],
)
def test_what_says_the_same_in_other_bytes_was_edited(
    path: Path, edit: Callable[[bytes], bytes]
) -> None:
    first, *others = sealed(WHOLE).splitlines(keepends=True)
    assert edit(first) != first
    error = refused(edit(first) + b"".join(others), path)
    assert isinstance(error, EditedEvidence)
    assert "line 1: " in str(error)


def test_the_lines_of_two_files_do_not_mix(path: Path) -> None:
    other = (copy.deepcopy(HEADER), *WHOLE[1:])
    other[0]["campaign"]["seed"] = 2
    mine, theirs = (sealed(each).splitlines(keepends=True) for each in (WHOLE, other))
    for cut in range(1, len(mine)):
        error = refused(b"".join(mine[:cut] + theirs[cut:]), path)
        assert f"line {cut + 1}: its digest does not follow" in str(error)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    for place, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(MissingEvidence, match=f"cannot read '{place}': {reason}"):
            read_finished(place)
    assert read_unfinished(tmp_path / "none") == NOTHING
    with pytest.raises(MissingEvidence, match="Is a directory"):
        read_unfinished(tmp_path)
    with pytest.raises(MissingEvidence, match="File name too long"):
        read_finished(tmp_path / ("x" * 300))


def test_nobody_waits_for_a_pipe(path: Path) -> None:
    os.mkfifo(path)
    os.mkfifo(unfinished(path))
    for read in (read_finished, read_unfinished):
        with pytest.raises(MissingEvidence, match=f"cannot read '{path}': it is a pipe, not a"):
            read(path)
    with pytest.raises(IrregularFile, match="it is a pipe, not a file"), written(path):
        raise AssertionError("it is written to")


# --- forgeries: the digests follow, the records do not ------------------------------------


def without(record: Record, key: str) -> Record:
    return {name: value for name, value in record.items() if name != key}


@pytest.mark.parametrize(
    ("records", "line", "message"),
    [
        ([case(0)], 1, "a case where header is expected"),
        ([footer(3)], 1, "a footer where header is expected"),
        ([HEADER, HEADER], 2, "a header where rows or case is expected"),
        ([HEADER, COUNTEREXAMPLE], 2, "a counterexample where rows or case is expected"),
        ([HEADER, result(0)], 2, "a result where rows or case is expected"),
        ([HEADER, case(1)], 2, "task 1 where 0 is expected"),
        ([HEADER, case(0), case(0)], 3, "task 0 where 1 is expected"),
        ([HEADER, case(0), result(1)], 3, "task 1 where 0 is expected"),
        (
            [HEADER, case(0), result(0), case(1)],
            4,
            "a case where blind or sources or search or counterexample is",
        ),
        (
            [HEADER, case(0), result(0), result(0)],
            4,
            "a result where blind or sources or search or",
        ),
        ([HEADER, case(0), share(0, 1)], 3, "share 1 where 0 is expected"),
        ([HEADER, case(0), share(0, 0), share(0, 0)], 4, "share 0 where 1 is expected"),
        ([HEADER, case(0), share(0, 0), case(1)], 4, "a case where share or result is expected"),
        (
            [HEADER, case(0), case(1), share(0, 0), share(1, 1)],
            5,
            "task 1 where 0 is expected",
        ),
        (
            [HEADER, case(0), case(1), share(0, 0), result(0), share(1, 1)],
            6,
            "share 1 where 0 is expected",
        ),
        ([HEADER, case(0), COUNTEREXAMPLE], 3, "a counterexample where case or share or result"),
        (
            [*WHOLE[:7], footer(8)],
            8,
            "a footer where blind or sources or search or counterexample is expected",
        ),
        ([*WHOLE[:7], SOURCES, SOURCES], 9, "a sources where search or counterexample is expected"),
        ([*WHOLE[:7], SOURCES, footer(9)], 9, "a footer where search or counterexample is"),
        ([*WHOLE[:8], footer(8)], 9, "count of records 8 where 9 is expected"),
        ([*WHOLE, footer(10)], 10, "a footer where nothing is expected"),
        ([*WHOLE, HEADER], 10, "a header where nothing is expected"),
        ([{**HEADER, "record": "story"}], 1, "'story' is not one of"),
        ([{"record": "header"}], 1, "is a required property"),
        ([without(HEADER, "record")], 1, "'record' is a required property"),
        ([{**HEADER, "more": 1}], 1, "'more' was unexpected"),
        ([{**HEADER, "format": 1}], 1, "3 was expected"),
        (
            [{**HEADER, "format": 1, "suite": VERSIONED}],
            1,
            "draftproof 1.0 wrote it, and can check it",
        ),
        ([HEADER, {**case(0), "task": -1}], 2, "-1 is less than the minimum of 0"),
        ([HEADER, {**case(0), "lanes": ["eye"]}], 2, "'eye' is not one of"),
        ([HEADER, case(0), {**share(0, 0), "looks": []}], 3, "[] should be non-empty"),
        ([HEADER, case(0), {**result(0), "findings": []}], 3, "[] should be non-empty"),
    ],
)
def test_records_that_no_campaign_leaves_are_malformed(
    path: Path, records: Sequence[Record], line: int, message: str
) -> None:
    error = refused(sealed(records), path)
    assert isinstance(error, MalformedEvidence)
    assert f"{path}, line {line}: " in str(error)
    assert message in str(error)


def test_json_that_is_no_record_is_refused() -> None:
    documents: list[Any] = [[], None, 1, "header", {"digest": "0" * 64}]
    for document in documents:
        with pytest.raises(EditedEvidence, match="mine, line 1: "):
            parsed(canonical(document).encode() + b"\n", "mine")


# --- differences --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("a/b/1", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
        ({"a": 1}, {"b": 1}, [("a", 1, None), ("b", None, 1)]),
        ([{}, 1], [{}, "1"], [("1", 1, "1")]),
        ({"a": 1}, {"a": 1.0}, []),
        ({}, [], [("", {}, [])]),
    ],
)
def test_differences_say_where_and_what(
    then: Any, now: Any, expected: list[tuple[str, Any, Any]]
) -> None:
    assert list(differences(then, now)) == expected


def test_a_reader_of_another_process_sees_whole_lines_only(path: Path) -> None:
    with written(path) as sink:
        sink.keep(HEADER)
        reader = os.open(unfinished(path), os.O_RDONLY)
        sink.keep(case(0))
        assert os.read(reader, 1 << 20) == sealed([HEADER, case(0)])
        os.close(reader)
