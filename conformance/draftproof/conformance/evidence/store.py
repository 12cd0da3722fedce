"""A store: findings by their keys, so that what is known is not judged again.

    findings/<key>     the records that judging a task left
    campaigns/<key>    the evidence of a whole campaign, its terms as they were asked for
    seeds/<key>        the seed of the last campaign that was asked for so, of that adapter
    traces/<digest>    what the program under test had read by then
    writing/           what is being written

Each file is JSON behind a line with the SHA-256 of its name and its text: one that is damaged, or
moved to another name, is as good as none. Files are written whole and moved into place, so that two
writers may meet, and a reader sees one or the other. What has
no trace is never believed. A store is a cache: one that cannot be written ends no run. It is
trusted like the machine that filled it: who can write to it can write any verdict.
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
"""The store of a folder, unless another one is named."""

_FORMAT = 3
"""The way in which findings are kept: what another one has kept is unknown."""


@dataclass(frozen=True)
class KnownFindings:
    """Records that judging left before, the time at which that campaign began, and its traces."""

    records: tuple[Record, ...]
    made: str
    traces: tuple[str, ...]


@dataclass
class Basis:
    """Basis of findings: the digests of traces, or a `refusal`, the reason not to keep them."""

    traces: set[str] = field(default_factory=set)
    refusal: str = ""

    def read(self, folder: Path) -> None:
        """Add what this process has read by now, and keep it in the store of a folder."""
        found = trace()
        if found.closed:
            self.add(refusal=found.closed)
            return
        try:
            self.add(traces=[keep_trace(folder, found)])
        except OSError as error:
            self.add(refusal=_unwritable(error))

    def add(self, *, traces: Sequence[str] = (), refusal: str = "") -> None:
        """Add what else findings rest on."""
        self.traces.update(traces)
        self.refusal = self.refusal or refusal

    def include(self, other: Basis) -> None:
        """Add what other findings rest on."""
        self.add(traces=[*other.traces], refusal=other.refusal)


class DamagedSeed(LookupError):
    """A seed was recorded, and cannot be read."""


class Store:
    """Findings in a folder, which is made when something is kept.

    What is kept is found again in the same environment, from the same working folder, where Python
    looks for modules in the same places. After a file could not be written, `trouble` has the
    reason, and nothing more is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.trouble = ""
        self._place = canonical([_FORMAT, environment_key(), str(Path.cwd()), sys.path])
        self._traces: dict[str, str | None] = {}
        """By digest, what has changed since."""

    def finding(self, code: str) -> KnownFindings | None:
        """Return what is known of a task by its code key, None if nothing that still holds."""
        return self._known(self._of_task(code))

    def keep(self, code: str, records: Sequence[Record], basis: Basis, *, made: str) -> None:
        """Keep what judging a task left, as long as what it rests on is as it was."""
        self._keep(self._of_task(code), records, basis, made)

    def forget(self, code: str) -> None:
        """Remove what is known of a task."""
        self._forget(self._of_task(code))

    def campaign(self, asked: Mapping[str, Any]) -> KnownFindings | None:
        """Return the evidence of a campaign that was asked for so, None if it no longer holds."""
        return self._known(self._of_campaign(asked))

    def keep_campaign(
        self, asked: Mapping[str, Any], records: Sequence[Record], basis: Basis
    ) -> None:
        """Keep the evidence of a campaign, as long as what its findings rest on is as it was."""
        self._keep(self._of_campaign(asked), records, basis, records[0]["created"])

    def forget_campaign(self, asked: Mapping[str, Any]) -> None:
        """Remove what is known of a campaign."""
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
        """Record a seed, and return True, unless a sample with another seed has failed."""
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
        """Return what is no longer as a trace has it, None if all is."""
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
    """Return what a file has, None where there is none, or not what was written."""
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
    """Remove what writers that were killed have left."""
    for each in folder.iterdir():
        with suppress(OSError):
            if each.stat().st_mtime < time.time() - _DAY:
                each.unlink()
