"""A store: findings by their keys, so that what is known is not judged again.

    findings/<key>     the records that judging a task left
    traces/<digest>    what the program under test had read by then
    campaigns/<key>    the evidence of a whole campaign, its terms as they were asked for

Each file is JSON behind a line with its SHA-256: one that is damaged is as good as none. Files are
written whole under names of their own and moved, so that two writers may meet, and a reader sees
one or the other. A store is trusted like the machine that filled it: who can write to it can write
any verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

from draftproof.conformance.evidence.keys import FORMAT, environment_key
from draftproof.conformance.evidence.records import Record, canonical
from draftproof.conformance.evidence.traces import Trace

FOLDER = Path(".draftproof")
"""The store of a folder, unless another one is named."""


@dataclass(frozen=True)
class KnownFindings:
    """What judging left before: records, and the time at which that campaign began."""

    records: tuple[Record, ...]
    made: str


class Store:
    """Findings in a folder, which is made when something is kept. Raises `OSError` then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._environment = environment_key()
        self._traces: dict[str, str | None] = {}
        """By digest, what has changed since."""

    def finding(self, code: str) -> KnownFindings | None:
        """Return what is known of a task by its code key, None if nothing that still holds."""
        return self._known(self._of_task(code))

    def keep(
        self, code: str, records: Sequence[Record], *, traces: Sequence[str], made: str
    ) -> None:
        """Keep what judging a task left, and by which traces that is told to hold no more."""
        self._keep(self._of_task(code), records, traces, made)

    def campaign(self, asked: Mapping[str, Any]) -> KnownFindings | None:
        """Return the evidence of a campaign that was asked for so, None if it no longer holds."""
        return self._known(self._of_campaign(asked))

    def seed(self, asked: Mapping[str, Any]) -> int | None:
        """Return the seed of the last campaign that was asked for so, whether it holds or not."""
        found = _read(self._of_campaign(asked))
        return None if found is None else int(found["records"][0]["campaign"]["seed"])

    def keep_campaign(
        self, asked: Mapping[str, Any], records: Sequence[Record], *, traces: Sequence[str]
    ) -> None:
        """Keep the evidence of a campaign."""
        self._keep(self._of_campaign(asked), records, traces, records[0]["created"])

    def refusal(self, traces: Sequence[str]) -> str:
        """Return why findings with such traces are never taken from here, empty if they may be."""
        found = (_read(self.folder / "traces" / each) for each in traces)
        return next((each["closed"] for each in found if each and each["closed"]), "")

    def _of_task(self, code: str) -> Path:
        key = sha256(f"{code}\n{self._environment}".encode()).hexdigest()
        return self.folder / "findings" / key[:2] / key

    def _of_campaign(self, asked: Mapping[str, Any]) -> Path:
        told = canonical([FORMAT, dict(sorted(asked.items())), self._environment])
        return self.folder / "campaigns" / sha256(told.encode()).hexdigest()

    def _known(self, place: Path) -> KnownFindings | None:
        found = _read(place)
        if found is None or any(self._changed(each) for each in found["traces"]):
            return None
        return KnownFindings(tuple(found["records"]), found["made"])

    def _changed(self, digest: str) -> str | None:
        """Return what is no longer as a trace has it, None if all is."""
        if digest not in self._traces:
            found = _read(self.folder / "traces" / digest)
            self._traces[digest] = "its trace" if found is None else Trace(**found).changed()
        return self._traces[digest]

    def _keep(
        self, place: Path, records: Sequence[Record], traces: Sequence[str], made: str
    ) -> None:
        told = {"traces": list(traces), "made": made, "records": list(records)}
        _write(self.folder, place, canonical(told))


def keep_trace(folder: Path, trace: Trace) -> str:
    """Keep a trace in the store of a folder, and return its digest. Raises `OSError`."""
    if _KEPT.get("trace") != (folder, trace):
        text = canonical(asdict(trace))
        digest = sha256(text.encode()).hexdigest()
        place = folder / "traces" / digest
        if _read(place) is None:
            _write(folder, place, text)
        _KEPT.update(trace=(folder, trace), digest=digest)
    return str(_KEPT["digest"])


_KEPT: dict[str, Any] = {}
"""The trace that this process kept last, where, and its digest."""


def _read(place: Path) -> dict[str, Any] | None:
    """Return what a file has, None where there is none, or not what was written."""
    try:
        digest, _, text = place.read_bytes().partition(b"\n")
    except OSError:
        return None
    if sha256(text).hexdigest().encode() != digest:
        return None
    found: dict[str, Any] = json.loads(text)
    return found


def _write(folder: Path, place: Path, text: str) -> None:
    """Write a file of a store, which appears whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    digest = sha256(text.encode()).hexdigest()
    own = place.with_name(f"{place.name}.{token_hex(8)}")
    try:
        own.write_text(f"{digest}\n{text}", encoding="utf-8", newline="\n")
        own.replace(place)
    finally:
        with suppress(OSError):
            own.unlink(missing_ok=True)
