"""The search for private generators takes 0.1 s a program; only its own tests wait for it."""

from __future__ import annotations

import pytest

from draftproof.conformance.lanes import _foreign


@pytest.fixture(autouse=True)
def _no_search(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name != "test_foreign.py":
        monkeypatch.setattr(_foreign, "_private_generators", lambda: iter(()))
