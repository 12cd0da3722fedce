from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from draftproof.conformance.cli.listing import KINDS
from draftproof.conformance.protocol.adapter import Declaration, declaration
from draftproof.conformance.requirements.plan import plan


class Mine:
    name, version, algorithm = "mine", "1", "token"

    def verify(self, request: Any) -> Any:
        raise NotImplementedError


OWN = declaration(Mine())


@pytest.mark.parametrize(
    "declared",
    [
        OWN,
        replace(OWN, batch=False, ragged=False, logits=True),
        replace(OWN, algorithm="block", ragged=True, generators=True),
        replace(OWN, algorithm="recursive_rejection", max_drafts=4, trees=True),
    ],
)
def test_every_case_that_is_planned_is_listed(declared: Declaration) -> None:
    modes = {each["id"]: each["mode"] for each in KINDS["cases"]()}
    unlisted = {task.case for task in plan(declared, "certify")} - set(modes)
    assert unlisted == set()
    later = [task.case for task in plan(declared, "quick") if modes[task.case] != "quick"]
    assert later == []


def test_what_is_not_listed_without_torch_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = len(KINDS["cases"]())
    monkeypatch.setitem(sys.modules, "draftproof.conformance.requirements.plan", None)
    assert 0 < len(KINDS["cases"]()) < everything
    assert "cases of batches, calls and dtypes are not listed" in capsys.readouterr().err
