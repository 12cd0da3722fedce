"""Evidence: the records of a campaign, step by step, so that nothing is lost or done twice.

A file of JSON lines, each written as soon as it is known:

    header          the subject, the judge, and the terms
    rows            for an engine: the rows of its checkpoint
    case            one for every task: the case and its requirements
    share, result   task by task: the counts of samples; the findings on requirements
    answers         for an engine, in place of shares: the tokens that it wrote
    blind           a lane that real runs contradict; all tasks then come again
    search          the worst instances of an adversarial search, if one was requested
    counterexample  the smallest failure found, or none
    footer          the number of records: the evidence is complete

Every line is in canonical form and ends with a digest of itself and of all lines before it, so any
changed byte, and any lost or moved line, is detected. This guards against accidents and
carelessness. Judging again (`draftproof check-certificate --rerun`), or a signature over the
certificate, exposes an attacker who rewrites all digests.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EWOULDBLOCK
from hashlib import sha256
from importlib.metadata import version as released
from pathlib import Path
from typing import Any, BinaryIO

from draftproof.spec import FileTooLarge, MalformedDocument, content_of, require_file, validate
from draftproof.spec import parsed as read_json

Record = dict[str, Any]

UNFINISHED = ".part"
"""Suffix of the file's name until its footer is written."""


class EvidenceError(ValueError):
    """Error of evidence, or of a certificate, that cannot be trusted."""


class MissingEvidence(EvidenceError):
    """Error of evidence that is missing."""


class EmptyEvidence(EvidenceError):
    """Error of an empty file."""


class NoCertificate(EvidenceError):
    """Error of a file that is not a certificate."""


class EditedEvidence(EvidenceError):
    """Error of a line that was changed."""


class MalformedEvidence(EvidenceError):
    """Error of a line that breaks its schema, or is out of place."""


class MissingFooter(EvidenceError):
    """Error of a file that ends early: the run was killed, or the file was cut off."""


class StaleEvidence(EvidenceError):
    """Error of evidence on a different subject than the one judged now."""


class StoreDiffers(EvidenceError):
    """Error of a stored finding that judging again refutes: the store cannot be trusted."""


@dataclass(frozen=True)
class Evidence:
    """Records of a file, as far as they are complete."""

    records: tuple[Record, ...]
    size: int
    """The size of the records in bytes; anything after them was being written."""
    digest: str
    """The digest of the last line."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The first record."""
        return self.records[0]

    @property
    def is_finished(self) -> bool:
        """True if the footer is present."""
        return bool(self.records) and self.records[-1]["record"] == "footer"


NOTHING = Evidence((), 0, "")


def canonical(document: Any) -> str:
    """Return the canonical form of a document: no spaces, keys in their given order."""
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def bytes_of(path: Path) -> bytes:
    """Return the content of a file. Raises `MissingEvidence`; `MalformedEvidence` if too large."""
    try:
        return content_of(path)
    except OSError as error:
        raise MissingEvidence(f"cannot read {str(path)!r}: {error.strerror}") from error
    except FileTooLarge as error:
        raise MalformedEvidence(f"{path}: {error}") from None


def read_finished(path: Path) -> tuple[Evidence, str]:
    """Return finished evidence and the SHA-256 of its file. Raises `EvidenceError`."""
    content = bytes_of(path)
    evidence = parsed(content, str(path))
    if not evidence.is_finished or evidence.size != len(content):
        raise MissingFooter(
            f"{path}: it ends after {len(evidence.records)} records, without a footer"
        )
    return evidence, sha256(content).hexdigest()


def read_unfinished(path: Path) -> Evidence:
    """Return the evidence that a killed run left, empty if there is none.

    An incomplete last line was being written, and is left out. Raises `EvidenceError`.
    """
    try:
        content = bytes_of(path)
    except MissingEvidence as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return NOTHING
        raise
    return parsed(content, str(path)) if content else NOTHING


def parsed(content: bytes, name: str) -> Evidence:
    """Return the evidence in the complete lines. Raises `EvidenceError`."""
    if not content:
        raise EmptyEvidence(f"{name}: the file is empty")
    records: list[Record] = []
    kinds: Counter[str] = Counter()
    size, digest = 0, ""
    *lines, _ = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        where = f"{name}, line {number}"
        record, digest = _unsealed(line, digest, where)
        _require_place(record, records[-1] if records else {"record": "nothing"}, kinds, where)
        records.append(record)
        kinds[record["record"]] += 1
        size += len(line) + 1
    return Evidence(tuple(records), size, digest)


def sealed(records: Sequence[Record], digest: str = "") -> tuple[bytes, str]:
    """Return the lines of records that follow the record with this digest, and the last digest."""
    lines = []
    for record in records:
        line, digest = _sealed(record, digest)
        lines.append(line)
    return b"".join(lines), digest


class Sink:
    """Evidence that is being written."""

    def __init__(self, file: BinaryIO, digest: str) -> None:
        self._file = file
        self._digest = digest
        self._owner = os.getpid()

    def keep(self, *records: Record) -> None:
        """Write records; when this returns, they survive a crash of the process or the machine.

        A fork of the process that opened the file exits here: code under test may create forks.
        """
        if os.getpid() != self._owner:
            os._exit(1)
        lines, digest = sealed(records, self._digest)
        before = self._file.tell()
        try:
            unwritten = memoryview(lines)
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            # What was written before goes on where there is room again.
            with suppress(OSError):
                self._file.truncate(before)
            raise
        self._digest = digest


@contextmanager
def written(path: Path, known: Evidence = NOTHING) -> Iterator[Sink]:
    """Write evidence to a file, after its `known` part; rename the file when it is complete.

    Until then its name ends with `UNFINISHED`; without any record it is removed. Raises `OSError`,
    also if another run is writing it, or has written to it since it was `known`.
    """
    part = unfinished(path)
    # What a run that was killed just before its certificate left has its name already.
    place = path if known.is_finished and not part.exists() else part
    with suppress(FileNotFoundError):
        require_file(place)
    # Opening must change nothing: before the lock it may be another run's.
    opened = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
    with os.fdopen(opened, "r+b", buffering=0) as file:
        _lock(file, place)
        _require_known(file, place, known)
        file.truncate(known.size)
        file.seek(known.size)
        try:
            yield Sink(file, known.digest)
        except BaseException:
            # It would hide evidence that is finished.
            if os.fstat(opened).st_size == 0:
                place.unlink(missing_ok=True)
            raise
        # Behind the lock another run would begin in it.
        place.replace(path)


def _lock(file: BinaryIO, place: Path) -> None:
    """Keep other runs from writing to a file that is open, where the system can."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows has no such thing
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(error.errno, "another run is writing it", str(place)) from None


def _require_known(file: BinaryIO, place: Path, known: Evidence) -> None:
    """Refuse a file that was locked too late: its content or its name has changed."""
    try:
        is_named = os.path.samestat(os.fstat(file.fileno()), place.stat())
    except FileNotFoundError:
        is_named = False
    rest = file.read()[known.size :] if known.size and is_named else b""
    if not is_named or b"\n" in rest or os.fstat(file.fileno()).st_size < known.size:
        raise BlockingIOError(EWOULDBLOCK, "another run has written to it", str(place))


def unfinished(path: Path) -> Path:
    """Return the path of evidence while it is being written."""
    return path.with_name(path.name + UNFINISHED)


def found_blind(records: Sequence[Record]) -> list[int]:
    """Return the indices of the records of blind lanes, each followed by all tasks again."""
    return [i for i, record in enumerate(records) if record["record"] == "blind"]


def differences(then: Any, now: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences of two documents, with their paths."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*then, *now)):
            yield from differences(then.get(key), now.get(key), f"{where}/{key}".strip("/"))
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (was, is_now) in enumerate(zip(then, now, strict=True)):
            yield from differences(was, is_now, f"{where}/{index}".strip("/"))
    elif then != now:
        yield where, then, now


def require_same(known: Sequence[Record], opening: Sequence[Record]) -> None:
    """Raise `StaleEvidence` if known records differ from the opening of the campaign."""
    for then, now in zip(known, opening, strict=False):
        for where, was, is_now in differences(then, now):
            raise StaleEvidence(
                f"the evidence is of another campaign: {where} was {was}, and is {is_now} now; "
                f"start anew without --resume"
            )


def _sealed(record: Record, before: str) -> tuple[bytes, str]:
    """Return the line of a record and its digest, which also covers the digest before it."""
    body = canonical(record)
    digest = sha256(f"{before}\n{body}".encode()).hexdigest()
    return f'{body[:-1]},"digest":"{digest}"}}\n'.encode(), digest


def _unsealed(line: bytes, before: str, where: str) -> tuple[Record, str]:
    try:
        record = read_json(line)
    except FileTooLarge as error:
        raise MalformedEvidence(f"{where}: {error}") from None
    except ValueError as error:
        raise EditedEvidence(f"{where}: it is not the JSON that was written: {error}") from None
    if not isinstance(record, dict) or "digest" not in record:
        raise EditedEvidence(f"{where}: it has no digest")
    del record["digest"]
    try:
        again, digest = _sealed(record, before)
    except ValueError:
        again, digest = b"", ""
    if again != line + b"\n":
        raise EditedEvidence(
            f"{where}: its digest does not follow from it and from the lines before it"
        )
    try:
        validate(record, "evidence")
    except MalformedDocument as error:
        raise MalformedEvidence(
            f"{where}: {written_elsewhere(record.get('suite')) or error}"
        ) from None
    return record, digest


def written_elsewhere(suite: Any) -> str:
    """Return the other version of the suite that wrote a document, empty for this version."""
    version = suite.get("version") if isinstance(suite, Mapping) else None
    if not isinstance(version, str) or version == released("draftproof"):
        return ""
    return (
        f"draftproof {version} wrote it, and can check it; this is {released('draftproof')}, whose "
        f"documents have another form"
    )


def _require_place(record: Record, last: Record, kinds: Counter[str], where: str) -> None:
    """Refuse a record that may not follow the last one, or that occurs too often."""
    kind = record["record"]
    expected = _expected(last["record"], kinds)
    if kind not in expected:
        raise MalformedEvidence(f"{where}: a {kind} where {' or '.join(expected)} is expected")
    if kind == "case":
        _require_number(record["task"], kinds["case"], "task", where)
    elif kind in ("share", "answers", "result"):
        _require_number(record["task"], _judged(kinds), "task", where)
    elif kind == "footer":
        _require_number(record["records"], kinds.total() + 1, "count of records", where)
    for counted, number in (("share", "share"), ("answers", "batch")):
        if kind == counted:
            next_one = last[number] + 1 if last["record"] == counted else 0
            _require_number(record[number], next_one, number, where)


def _require_number(found: int, expected: int, what: str, where: str) -> None:
    if found != expected:
        raise MalformedEvidence(f"{where}: {what} {found} where {expected} is expected")


def _expected(last: str, kinds: Counter[str]) -> tuple[str, ...]:
    """Return the kinds of record that may come next."""
    if last in _FOLLOWS:
        return _FOLLOWS[last]
    planned = ("case",) if not kinds["result"] and last not in ("share", "answers") else ()
    if last == "header":
        return ("rows", *planned)
    if _judged(kinds) < kinds["case"]:
        return (*planned, "answers" if kinds["rows"] else "share", "result")
    again = ("blind",) if kinds["case"] and kinds["blind"] < _LANES else ()
    return (*planned, *again, "sources", *_AFTER) if kinds["case"] else planned


def _judged(kinds: Counter[str]) -> int:
    """Return how many tasks have a result after the last blind lane."""
    return kinds["result"] - kinds["case"] * kinds["blind"]


_LANES = 2
"""Maximum number of blind lanes: the lanes that compute laws."""

_AFTER = ("search", "counterexample")

_FOLLOWS = {
    "nothing": ("header",),
    "sources": _AFTER,
    "search": ("counterexample",),
    "counterexample": ("footer",),
    "footer": ("nothing",),
}
