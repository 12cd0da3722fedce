"""Audits: the verdict on a log, with speculation and without it."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from typing import Any

import numpy
import pytest

from draftproof.conformance.lanes.audit.log import Audited
from draftproof.conformance.run.audit import audit
from draftproof.spec import validate


def written(count: int, *, bias: float, speculation: bool = True, seed: int = 1) -> list[Audited]:
    """Return tokens of which the draft's favourite is written too often."""
    random = numpy.random.default_rng(seed)
    chances = random.uniform(0.1, 0.9, count)
    came = random.random(count) < chances + bias * (1 - chances)
    return [
        Audited((chance, nan, nan, nan), (bool(happened), False, False, False), speculation)
        for chance, happened in zip(chances, came, strict=True)
    ]


def judged(*logs: list[Audited], tolerance: float = 1e-3) -> dict[str, Any]:
    found = audit((each for log in logs for each in log), alpha=1e-6, tolerance=tolerance)
    validate(found, "audit")
    return found


def test_a_lossless_log_raises_no_alarm() -> None:
    found = judged(written(5000, bias=0))
    assert (found["verdict"], found["reason"]) == (
        "no alarm",
        "5,000 tokens with speculation show no bias. This does not show that the server is "
        "lossless: a bias below 0.05 on the draft's favourite (its most probable token), or any "
        "bias among other tokens, is expected to stay hidden. `draftproof audit --plan` prints "
        "how many tokens a smaller bias needs",
    )
    (group,) = found["groups"]
    assert group["tokens"] == 5000
    assert group["alarm_after"] is None
    assert group["distance_at_least"] == 0
    assert group["would_find"] == 0.05
    assert group["events"].keys() == {"draft"}


def test_a_lossy_log_raises_one_and_says_what_is_too_often() -> None:
    found = judged(written(5000, bias=0.2), written(5000, bias=0, speculation=False))
    assert found["verdict"] == "alarm"
    group, _ = found["groups"]
    assert group["alarm_after"] < 3000
    assert 0.01 <= group["distance_at_least"] <= 0.1
    assert group["telling"] == {"event": "draft", "direction": "more"}
    draft = group["events"]["draft"]
    assert draft["happened"] > draft["expected"] * 1.1


def test_what_is_too_seldom_is_told() -> None:
    (group,) = judged(written(5000, bias=-0.2))["groups"]
    assert group["telling"] == {"event": "draft", "direction": "less"}


@pytest.mark.parametrize(
    ("own", "control", "verdict", "reason"),
    [
        ((5000, 0.2), (5000, 0), "alarm", "without it they are"),
        ((5000, 0.2), (100, 0), "inconclusive", "100 tokens without speculation are too few"),
        ((5000, 0.2), (5000, 0.2), "inconclusive", "all tokens, with speculation and without,"),
        ((5000, 0), (5000, 0.2), "inconclusive", "log the distribution that tokens are drawn from"),
        ((5000, 0), (5000, 0), "no alarm", "a bias below 0.05 on the draft's favourite"),
        ((20, 0), (5000, 0), "inconclusive", "20 tokens with speculation are too few to detect"),
        ((5000, 0.2), (0, 0), "inconclusive", "the log has no tokens without speculation: add"),
        ((0, 0), (5000, 0.2), "inconclusive", "tokens without speculation differ from these rows"),
        ((0, 0), (5000, 0), "inconclusive", "the log has no tokens with speculation"),
    ],
)
def test_a_log_without_speculation_tells_the_cause(
    own: tuple[int, float], control: tuple[int, float], verdict: str, reason: str
) -> None:
    (count, bias), (others, other) = own, control
    found = judged(
        written(count, bias=bias),
        written(others, bias=other, speculation=False, seed=1),
    )
    assert found["verdict"] == verdict
    assert reason in found["reason"]


def test_a_tolerance_forgives_what_is_below_it() -> None:
    log = written(20_000, bias=0.05)
    log += written(60_000, bias=0, speculation=False)
    assert judged(log, tolerance=0)["verdict"] == "alarm"
    assert judged(log, tolerance=0.05)["verdict"] == "no alarm"


def test_a_log_is_read_as_it_comes() -> None:
    def endless() -> Iterator[Audited]:
        yield from written(1000, bias=0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit(endless(), alpha=1e-6, tolerance=0)
