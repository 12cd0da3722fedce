"""Releases of projects as a package index lists them, and single files out of their wheels.

A wheel of an engine has hundreds of megabytes, and a verifier a file or two. The table of a zip
archive is at its end, and a server that answers to ranges tells a file out of it in two requests.
A wheel is not held to its hash this way: its files are, one by one, to the checksums in its table.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from io import BufferedReader, RawIOBase
from typing import Any
from urllib.parse import urljoin
from urllib.request import Request, urlopen

from draftproof.adapters.engines.released import UnfetchedRelease

INDEX = "https://pypi.org/simple"
"""The index, unless PIP_INDEX_URL names another one."""

_JSON = "application/vnd.pypi.simple.v1+json"
_SECONDS = 60
_CHUNK = 2**17


@dataclass(frozen=True)
class ListedRelease:
    """A release of a project: its wheel, of several one that is like the others."""

    project: str
    version: str
    day: date
    """The day on which it was released."""
    address: str


def project_page(project: str) -> str:
    """Return the address at which the index lists the files of a project."""
    return f"{os.environ.get('PIP_INDEX_URL') or INDEX}/{project}/"


def listed(project: str) -> list[ListedRelease]:
    """Return the releases of a project that have wheels, the oldest first.

    What was yanked, and what is built every night, is left out. Raises `UnfetchedRelease`.
    """
    address = project_page(project)
    found: dict[str, ListedRelease] = {}
    for file in _listing(address):
        name, time = str(file["filename"]), file.get("upload-time")
        if not name.endswith(".whl") or file.get("yanked") or not time:
            continue
        _, version, *_ = name.split("-")
        if ".dev" in version:
            continue
        own = ListedRelease(
            project, version, date.fromisoformat(time[:10]), urljoin(address, file["url"])
        )
        # A wheel for this kind of machine, where there is one, is what most people have.
        if version not in found or "x86_64" in name:
            found[version] = own
    return sorted(found.values(), key=lambda each: (each.day, _parts(each.version)))


def _listing(address: str) -> list[Mapping[str, Any]]:
    try:
        with urlopen(Request(address, headers={"Accept": _JSON}), timeout=_SECONDS) as answer:  # noqa: S310  # the user's index
            files: list[Mapping[str, Any]] = json.load(answer)["files"]
    except (OSError, ValueError, KeyError) as error:
        raise UnfetchedRelease(f"{address} lists no releases: {error!r}") from error
    return files


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else -1 for part in version.split("."))


@cache
def archive(address: str) -> zipfile.ZipFile:
    """Return a wheel at an address, of which only what is read is fetched.

    Raises `UnfetchedRelease`.
    """
    try:
        return zipfile.ZipFile(BufferedReader(_Ranges(address), _CHUNK))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UnfetchedRelease(f"cannot read {address} by ranges: {error!r}") from error


class _Ranges(RawIOBase):
    """A file at an address, read by ranges."""

    def __init__(self, address: str) -> None:
        self._address, self._place = address, 0
        with urlopen(Request(address, method="HEAD"), timeout=_SECONDS) as answer:  # noqa: S310  # the index's
            self._size = int(answer.headers["Content-Length"])
            if answer.headers.get("Accept-Ranges", "bytes") != "bytes":
                raise OSError("the server does not answer to ranges")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def readinto(self, into: Any) -> int:
        last = min(self._place + len(into), self._size) - 1
        if last < self._place:
            return 0
        own = {"Range": f"bytes={self._place}-{last}"}
        with urlopen(Request(self._address, headers=own), timeout=_SECONDS) as answer:  # noqa: S310  # the index's
            if answer.status != 206:
                raise OSError("the server does not answer to ranges")
            content = answer.read()
        into[: len(content)] = content
        self._place += len(content)
        return len(content)
