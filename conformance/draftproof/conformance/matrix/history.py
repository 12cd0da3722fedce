"""Histories: verdicts on a method of an engine, version by version, and their changes.

Neighbouring versions whose adapters have the same files are one *text*, which is judged once. A
*halved* history is bisected: texts between two texts with the same verdict are presumed to have
that verdict, and are marked so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from draftproof.conformance.matrix import MatrixRow, judged, line
from draftproof.conformance.protocol.adapter import AdapterFailed, InvalidAdapter, Unfetched
from draftproof.conformance.protocol.loading import load_adapter, source_digest
from draftproof.conformance.protocol.packages import Method, Package, Past, interpreting
from draftproof.conformance.requirements.finding import CANNOT_RUN, FAIL, UNFETCHED


@dataclass(frozen=True)
class SameFiles:
    """Versions with the same files, the oldest first, and the digest of the files."""

    digest: str
    versions: tuple[Past, ...]


@dataclass(frozen=True)
class UnreadHistory:
    """A version whose adapter cannot be made, with the kind of outcome and the reason."""

    version: Past
    outcome: str
    reason: str


def texts_of(past: Sequence[Past]) -> Iterator[SameFiles | UnreadHistory]:
    """Yield the texts, in the order of their first versions; each version is read once.

    Neighbours with the same files are one text; the same files after a gap are a new text.
    """
    os.environ.update({k: v for k, v in interpreting().items() if k not in os.environ})
    own: list[Past] = []
    last = ""
    for version in past:
        try:
            digest = source_digest(load_adapter(version.adapter))
        except (AdapterFailed, InvalidAdapter) as error:
            if own:
                yield SameFiles(last, tuple(own))
                own, last = [], ""
            is_unfetched = isinstance(error.__cause__, Unfetched)
            yield UnreadHistory(version, UNFETCHED if is_unfetched else CANNOT_RUN, _why(error))
            continue
        if own and digest != last:
            yield SameFiles(last, tuple(own))
            own = []
        own.append(version)
        last = digest
    if own:
        yield SameFiles(last, tuple(own))


def _why(error: BaseException) -> str:
    """Return the reason why an adapter could not be made."""
    return str(error.__cause__ or error)


def verdicts(
    package: Package,
    name: str,
    texts: Sequence[SameFiles],
    folder: Path,
    *,
    is_halved: bool = False,
    jobs: int = 1,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the digests of texts, each with its line of a matrix.

    Evidence goes to the folder, by digest; a text with existing evidence is not judged again.
    Raises `OSError` if the evidence cannot be written.
    """
    method = package.methods[name]
    rows = {text.digest: _row(package, name, method, text) for text in texts}
    told: dict[str, dict[str, Any]] = {}

    def judge(digests: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        wanted = {rows[each].name: each for each in dict.fromkeys(digests) if each not in told}
        for found in judged([rows[each] for each in wanted.values()], folder, jobs=jobs):
            digest = wanted[found.row.name]
            told[digest] = line(found)
            yield digest, told[digest]

    if not is_halved:
        yield from judge([*rows])
        return
    waiting = [(0, len(texts) - 1)] if texts else []
    while waiting:
        first, last = waiting.pop(0)
        ends = texts[first].digest, texts[last].digest
        yield from judge(ends)
        if last - first > 1 and told[ends[0]]["outcome"] != told[ends[1]]["outcome"]:
            middle = (first + last) // 2
            waiting += [(first, middle), (middle, last)]


def _row(package: Package, name: str, method: Method, text: SameFiles) -> MatrixRow:
    first = text.versions[0]
    return MatrixRow(
        # A folder of its own, whatever a version or a commit is called.
        name=f"{package.name}-{name}@{text.digest[:16]}",
        engine=package.title,
        version=first.version,
        algorithm=method.algorithm,
        adapter=first.adapter,
        mode=method.mode,
        cases=tuple(method.cases),
        why=method.why,
        note=method.note,
    )


def document(
    package: Package,
    name: str,
    read: Sequence[SameFiles | UnreadHistory],
    told: Mapping[str, Mapping[str, Any]],
    *,
    source: str = "",
) -> dict[str, Any]:
    """Return a history following the schema of its file: every version, and every change."""
    versions = [version for each in read for version in _versions(each, told)]
    _presume(versions)
    return {
        "engine": package.name,
        "method": name,
        "algorithm": package.methods[name].algorithm,
        "cases": list(package.methods[name].cases),
        "source": source or None,
        "versions": versions,
        "changes": _changes(versions),
    }


def _versions(
    read: SameFiles | UnreadHistory, told: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    if isinstance(read, UnreadHistory):
        yield _said(read.version, None, read.outcome, read.reason)
        return
    own = told.get(read.digest)
    for version in read.versions:
        if own is None:
            yield _said(version, read.digest, None, None)
        else:
            yield {
                **_said(version, read.digest, own["outcome"], own["reason"]),
                "failed": _failed(own),
                "distance": _distance(own),
            }


def _said(
    version: Past, digest: str | None, outcome: str | None, reason: str | None
) -> dict[str, Any]:
    return {
        **{part: getattr(version, part) for part in ("version", "day")},
        "said": version.said or None,
        "files": digest,
        "outcome": outcome,
        "reason": reason,
        "presumed": False,
        "failed": [],
        "distance": None,
    }


def _failed(row: Mapping[str, Any]) -> list[str]:
    """Return the requirements that a row of a matrix fails."""
    requirements = row["judged"]["requirements"] if row["judged"] else ()
    return [each["id"] for each in requirements if each["verdict"] == FAIL]


def _distance(row: Mapping[str, Any]) -> float | None:
    """Return the total variation between emissions and target, None if it is unknown."""
    requirements = row["judged"]["requirements"] if row["judged"] else ()
    own = (each["distance"] for each in requirements if each["id"] == "law.lossless")
    distance: float | None = next(own, None)
    return distance


def _presume(versions: list[dict[str, Any]]) -> None:
    """Give each unjudged version the verdict of the last judged version before it."""
    last = None
    for version in versions:
        if version["outcome"] is None and last is not None:
            parts = {part: last[part] for part in ("outcome", "reason", "failed", "distance")}
            version.update(parts, presumed=True)
        elif version["files"] is not None:
            last = version


def _changes(versions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return where the verdict changed, between versions that have one."""
    have = [each for each in versions if each["files"] is not None and each["outcome"]]
    return [
        {
            "version": after["version"],
            "day": after["day"],
            "said": after["said"],
            "after": before["version"],
            "from": before["outcome"],
            "to": after["outcome"],
            "failed": after["failed"],
        }
        for before, after in pairwise(have)
        if (before["outcome"], before["failed"]) != (after["outcome"], after["failed"])
    ]
