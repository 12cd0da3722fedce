"""The suite itself on trial: it must catch what is wrong, by the right requirement, and spare
what is right, in whatever style it is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.campaign import Report, certify
from draftproof.reference.rational import rational

HERE = Path(__file__).parent

RIGHT = (
    "Batched",
    "InverseCdf",
    "SearchSorted",
    "GumbelRace",
    "GuardedGumbelRace",
    "ExponentialRace",
    "LogSpace",
    "BernoulliAccepts",
    "Flipped",
    "Double",
    "WidenedInside",
    "WithGenerator",
    "SharedRace",
    "RowLoop",
    "OneAtATime",
    "BlockInverseCdf",
    "BlockVectorised",
)

LOSSY = {"law.lossless", "law.reference"}

# Every wrong verifier, with the requirements that it breaks and no others (MUST ones).
WRONG = {
    "NotRenormalised": LOSSY | {"law.support"},
    "ResidualFromTarget": LOSSY,
    "ResidualWithoutToken": LOSSY,
    "ResidualAbsolute": LOSSY | {"law.support"},
    "BonusFromDraft": LOSSY | {"law.support"},
    "BonusRowOffByOne": LOSSY | {"law.support"},
    "GoesOnAfterRejection": LOSSY | {"law.support", "law.prefix", "length.expected"},
    "SharedCoin": LOSSY,
    "OneCoinForAll": LOSSY | {"length.expected"},
    "CoinSharedByRows": {"batch.invariant"},
    "AcceptsEverything": LOSSY | {"law.support", "length.expected"},
    "AcceptsByTargetAlone": LOSSY | {"law.prefix", "length.expected"},
    "AcceptsAboveShortcut": LOSSY | {"length.expected"},
    "AcceptsNearlySure": LOSSY | {"length.expected"},
    "OneHot": {"law.reference", "length.expected"},
    "BlockWithTokenResidual": LOSSY,
    "BlockStopsAtFirstFailure": LOSSY | {"length.expected", "length.optimal"},
    "TokenUnderBlockName": {"law.reference", "length.expected", "length.optimal"},
    "OutOfRange": LOSSY | {"law.prefix", "length.expected"},
    "NeighbourRow": {"batch.invariant"},
    "CrashesOnRejection": LOSSY | {"law.prefix", "length.expected", "batch.invariant"},
}


# What shows on nearly certain or on far apart rows only, which are not among the quick cases.
NEEDS_STANDARD = ("AcceptsAboveShortcut", "AcceptsNearlySure", "GoesOnAfterRejection")


def silent(steps: Iterable[Any], count: int, title: str) -> Iterable[Any]:
    return steps


def missed(report: Report) -> set[str]:
    return {
        decision.requirement.id
        for decision in report.decisions
        if decision.verdict not in ("pass", "skipped") and decision.requirement.level == "MUST"
    }


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_conforms(name: str) -> None:
    report = certify(f"{HERE / 'right.py'}:{name}", tier="standard", progress=silent)
    assert report.verdict == "pass"
    assert missed(report) == set()
    assert report.counterexample is None
    worst = max(d.worst.distance for d in report.decisions if d.worst.distance is not None)
    assert worst < rational("1/1000000")


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_fails_by_the_requirement_that_it_breaks(name: str) -> None:
    tier = "standard" if name in NEEDS_STANDARD else "quick"
    report = certify(f"{HERE / 'wrong.py'}:{name}", tier=tier, progress=silent)
    assert report.verdict == "fail"
    assert missed(report) == WRONG[name]

    found = report.counterexample
    assert found is not None
    assert found.requirement in WRONG[name]
    assert found.distance >= rational("1/5000")
    assert found.words[0].startswith(f"{found.requirement} fails")
    if found.requirement != "batch.invariant":
        assert found.instance.vocabulary <= 3
        assert found.instance.length <= 2
        assert found.observed != found.expected


def test_the_catalogue_is_complete() -> None:
    """No wrong or right verifier stands in a file without being judged here."""
    for file, names in (("right.py", set(RIGHT)), ("wrong.py", set(WRONG))):
        text = (HERE / file).read_text()
        defined = {
            line.split()[1].split("(")[0].rstrip(":")
            for line in text.splitlines()
            if line.startswith("class ")
        }
        assert defined - {"Verifier"} == names
