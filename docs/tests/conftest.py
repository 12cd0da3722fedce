"""What tests of pages share: the programs that pages call, and where the first page ends."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import telling

PAGES = Path(__file__).parents[1] / "pages"


@pytest.fixture(scope="session")
def programs() -> Path:
    """A folder with draftproof, pytest and python."""
    return telling.programs()


@pytest.fixture(scope="session")
def first_certificate(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the page of the first certificate has happened, once for all workers."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place
    folder, outcome = place / "first", place / "first.txt"
    with (place / "first.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not outcome.exists():
            folder.mkdir()
            page = (PAGES / "first-certificate.md").read_text(encoding="utf-8")
            try:
                assert telling.happens(page, folder, programs) == 0
                outcome.write_text("")
            except AssertionError as error:
                outcome.write_text(str(error))
        if wrong := outcome.read_text():
            pytest.fail(wrong, pytrace=False)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The Chromium of this machine."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield started
        started.close()
