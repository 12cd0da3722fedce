"""Store of findings by their keys, so that known findings are not judged again.

    findings/<key>     the records of judging a task
    campaigns/<key>    the evidence of a whole campaign, by its requested terms
    seeds/<key>        the seed of the adapter's last campaign with these terms
    traces/<digest>    everything that the program under test had read by then
    writing/           files that are being written

Each file is JSON after a line with the SHA-256 of its name and its text: a damaged or renamed file
counts as missing. Files are written whole and moved into place, so if two writers meet, a reader
sees the complete file of one of them. Findings without a trace are never used. A store is a cache:
a failed write does not end a run. A store is as trustworthy as the machine that filled it: whoever
can write to it can write any verdict.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

from draftproof.conformance.evidence.keys import environment_key
from draftproof.conformance.evidence.records import Record, canonical
from draftproof.conformance.evidence.traces import Trace, trace, untraced

FOLDER = Path(".draftproof")
"""Default folder of the store."""

_FORMAT = 3
"""Version of the store's format; entries of a different version are unknown."""


@dataclass(frozen=True)
class KnownFindings:
    """Stored records of judging, the time at which their campaign began, and their traces."""

    records: tuple[Record, ...]
    made: str
    traces: tuple[str, ...]


@dataclass
class Basis:
    """Basis of findings: the digests of traces, or a `refusal`, the reason not to keep them."""

    traces: set[str] = field(default_factory=set)
    refusal: str = ""

    def read(self, folder: Path) -> None:
        """Add everything that this process has read so far, and keep it in a folder's store."""
        found = trace()
        if found.closed:
            self.add(refusal=found.closed)
            return
        try:
            self.add(traces=[keep_trace(folder, found)])
        except OSError as error:
            self.add(refusal=_unwritable(error))

    def add(self, *, traces: Sequence[str] = (), refusal: str = "") -> None:
        """Add further traces, or a refusal."""
        self.traces.update(traces)
        self.refusal = self.refusal or refusal

    def include(self, other: Basis) -> None:
        """Add the basis of other findings."""
        self.add(traces=[*other.traces], refusal=other.refusal)


class DamagedSeed(LookupError):
    """Error of a recorded seed that cannot be read."""


class Store:
    """Findings in a folder, which is made at the first write.

    Entries are found again in the same environment, from the same working folder, if Python looks
    for modules in the same places. After a failed write, `trouble` has the reason, and nothing more
    is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.trouble = ""
        self._place = canonical([_FORMAT, environment_key(), str(Path.cwd()), sys.path])
        self._traces: dict[str, str | None] = {}
        """Changes since a trace was written, by its digest."""

    def finding(self, code: str) -> KnownFindings | None:
        """Return the stored findings of a task by its code key, None if none are still valid."""
        return self._known(self._of_task(code))

    def keep(self, code: str, records: Sequence[Record], basis: Basis, *, made: str) -> None:
        """Keep the findings of a task, if their basis is unchanged."""
        self._keep(self._of_task(code), records, basis, made)

    def forget(self, code: str) -> None:
        """Remove the findings of a task."""
        self._forget(self._of_task(code))

    def campaign(self, asked: Mapping[str, Any]) -> KnownFindings | None:
        """Return the stored evidence of a campaign with these terms, None if it no longer holds."""
        return self._known(self._of_campaign(asked))

    def keep_campaign(
        self, asked: Mapping[str, Any], records: Sequence[Record], basis: Basis
    ) -> None:
        """Keep the evidence of a campaign, if the basis of its findings is unchanged."""
        self._keep(self._of_campaign(asked), records, basis, records[0]["created"])

    def forget_campaign(self, asked: Mapping[str, Any]) -> None:
        """Remove the evidence of a campaign."""
        self._forget(self._of_campaign(asked))

    def seed(self, asked: Mapping[str, Any], subject: str) -> int | None:
        """Return the seed that is recorded for an adapter, by the digest of its files.

        It is recorded whether or not a finding still holds. Raises `DamagedSeed`.
        """
        place = self._of_seed(asked, subject)
        found = _read(place)
        if found is None and place.exists():
            raise DamagedSeed(place)
        seed = None if found is None else found.get("seed")
        if found is not None and type(seed) is not int:
            raise DamagedSeed(place)
        return seed

    def keep_seed(
        self, asked: Mapping[str, Any], subject: str, seed: int, *, is_failed: bool
    ) -> bool:
        """Record a seed, and return True, unless a sample with a different seed has failed."""
        place = self._of_seed(asked, subject)
        found = _read(place)
        was_failed = found is not None and found.get("failed", False)
        if found is not None and was_failed and found.get("seed") != seed:
            return False
        self._put(place, {"seed": seed, "failed": is_failed or was_failed})
        return True

    def _of_task(self, code: str) -> Path:
        return self._named("findings", f"{code}\n{self._place}")

    def _of_campaign(self, asked: Mapping[str, Any]) -> Path:
        return self._named("campaigns", canonical([_sorted(asked), self._place]))

    def _of_seed(self, asked: Mapping[str, Any], subject: str) -> Path:
        return self._named("seeds", canonical([_sorted(asked), subject]))

    def _named(self, kind: str, told: str) -> Path:
        key = sha256(told.encode()).hexdigest()
        return self.folder.joinpath(kind, *([key[:2]] if kind == "findings" else []), key)

    def _known(self, place: Path) -> KnownFindings | None:
        found = _read(place)
        try:
            if found is None or not found["traces"] or any(map(self._changed, found["traces"])):
                return None
            return KnownFindings(tuple(found["records"]), found["made"], tuple(found["traces"]))
        except (KeyError, TypeError):
            return None  # another program has written it

    def _changed(self, digest: str) -> str | None:
        """Return a difference from the state that a trace recorded, None if there is none."""
        if digest not in self._traces:
            found = _read(self.folder / "traces" / digest)
            self._traces[digest] = "its trace" if found is None else Trace(**found).changed()
        return self._traces[digest]

    def _keep(self, place: Path, records: Sequence[Record], basis: Basis, made: str) -> None:
        if basis.traces and not basis.refusal:
            told = {"traces": sorted(basis.traces), "made": made, "records": list(records)}
            self._put(place, told)

    def _put(self, place: Path, document: Mapping[str, Any]) -> None:
        if self.trouble:
            return
        try:
            _write(self.folder, place, canonical(document))
        except OSError as error:
            self.trouble = _unwritable(error)

    def _forget(self, place: Path) -> None:
        try:
            place.unlink(missing_ok=True)
        except OSError as error:
            self.trouble = _unwritable(error)


def keep_trace(folder: Path, trace: Trace) -> str:
    """Keep a trace in the store of a folder, and return its digest. Raises `OSError`."""
    if not _LAST or _LAST[0] != trace:
        _LAST[:] = [trace, canonical(asdict(trace))]
    text = _LAST[1]
    digest = sha256(text.encode()).hexdigest()
    place = folder / "traces" / digest
    if _read(place) is None:
        _write(folder, place, text)
    return digest


_LAST: list[Any] = []
"""The trace that this process kept last, and its text."""


def _unwritable(error: OSError) -> str:
    return f"the store cannot be written: {error.strerror or error}"


def _sorted(asked: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(asked.items()))


def _read(place: Path) -> dict[str, Any] | None:
    """Return the content of a file, None if the file is missing or damaged."""
    try:
        with untraced():
            digest, _, text = place.read_bytes().partition(b"\n")
    except OSError:
        return None
    if _seal(place, text).encode() != digest:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _seal(place: Path, text: bytes) -> str:
    return sha256(place.name.encode() + b"\n" + text).hexdigest()


def _write(folder: Path, place: Path, text: str) -> None:
    """Write a file of a store, which appears whole or not at all."""
    digest = _seal(place, text.encode())
    own = folder / "writing" / token_hex(8)
    with untraced():
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            # A folder that was there before is the user's.
            (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        for each in (own.parent, place.parent):
            each.mkdir(exist_ok=True, parents=True)
        _sweep(own.parent)
        try:
            own.write_text(f"{digest}\n{text}", encoding="utf-8", newline="\n")
            own.replace(place)
        finally:
            with suppress(OSError):
                own.unlink(missing_ok=True)


_DAY = 24 * 60 * 60


def _sweep(folder: Path) -> None:
    """Remove the files that killed writers have left."""
    for each in folder.iterdir():
        with suppress(OSError):
            if each.stat().st_mtime < time.time() - _DAY:
                each.unlink()
