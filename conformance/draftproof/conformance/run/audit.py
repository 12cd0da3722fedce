"""Audit: verdict on a log of tokens and rows, with speculation and without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, log
from typing import Any

import numpy

from draftproof.conformance.lanes.audit.log import EVENTS, Audited
from draftproof.conformance.lanes.audit.plan import detectable, tokens_needed
from draftproof.conformance.lanes.audit.wealth import EPSILONS, AuditWealth

ALARM, QUIET, UNDECIDED = "alarm", "no alarm", "inconclusive"

_TOGETHER = 128
"""Number of tokens between looks; the last look uses the remaining tokens."""


@dataclass
class _Group:
    """Tokens of a log that were written with speculation, or without."""

    wealth: AuditWealth
    threshold: float
    tolerance: float
    held: list[Audited] = field(default_factory=list)
    alarm_after: int | None = None

    def add(self, token: Audited) -> None:
        self.held.append(token)
        if len(self.held) == _TOGETHER:
            self.look()

    def look(self) -> None:
        if not self.held:
            return
        self.wealth.add(
            numpy.array([each.chances for each in self.held]),
            numpy.array([each.happened for each in self.held]),
        )
        self.held.clear()
        if self.alarm_after is None and self.distance > self.tolerance:
            self.alarm_after = self.wealth.tokens

    @property
    def distance(self) -> float:
        """Lower bound on the largest distance of a row from the distribution of its tokens."""
        return self.wealth.smallest(self.threshold)

    @property
    def favourite(self) -> str:
        """The event whose bias is found first: the draft's favourite, if the log has it."""
        has_draft = not numpy.isnan(self.wealth.kept[:, EVENTS.index("draft")]).all()
        return "draft" if has_draft else "target"

    @property
    def detectable(self) -> float:
        """The smallest bias of a favourite that this many tokens are expected to detect."""
        chances = self.wealth.kept[:, EVENTS.index(self.favourite)]
        return detectable(chances, self.wealth.tokens, self.threshold, epsilon=self.tolerance)

    def would_show(self, other: _Group) -> bool:
        """Return True if these tokens would show the bias of the other group.

        The number of tokens must be twice the expected number: nine in ten logs need at most 1.6
        times as many as expected.
        """
        wealth = other.wealth
        event, is_often = wealth.telling()
        at = EVENTS.index(event)
        bias = abs(wealth.happened[at] - wealth.expected[at]) / max(wealth.bets[at], 1)
        chances = self.wealth.kept[:, at]
        needed = tokens_needed(
            chances if is_often else 1 - chances, bias, self.threshold, epsilon=self.tolerance
        )
        return self.wealth.tokens >= 2 * needed

    def told(self, *, speculation: bool) -> dict[str, Any]:
        wealth = self.wealth
        evidence = float(wealth.best[wealth.epsilons.index(self.tolerance)])
        event, is_often = wealth.telling()
        would_find = self.detectable
        return {
            "speculation": speculation,
            "tokens": wealth.tokens,
            "log_evidence": None if evidence == inf else evidence,
            "alarm_after": self.alarm_after,
            "distance_at_least": self.distance,
            "would_find": None if would_find == inf else would_find,
            "telling": None
            if self.distance == 0
            else {"event": event, "direction": "more" if is_often else "less"},
            "events": {
                name: {
                    "tokens": int(wealth.bets[at]),
                    "expected": float(wealth.expected[at]),
                    "happened": int(wealth.happened[at]),
                }
                for at, name in enumerate(EVENTS)
                if wealth.bets[at]
            },
        }


def audit(tokens: Iterable[Audited], *, alpha: float, tolerance: float) -> dict[str, Any]:
    """Return the findings of an audit, as a document of the schema `audit`.

    With probability 1 - alpha, it raises no alarm about tokens whose rows are within `tolerance`.
    """
    threshold = -log(alpha)
    epsilons = sorted({*EPSILONS, tolerance})
    groups: dict[bool, _Group] = {}
    for token in tokens:
        if token.speculation not in groups:
            groups[token.speculation] = _Group(AuditWealth(epsilons), threshold, tolerance)
        groups[token.speculation].add(token)
    for group in groups.values():
        group.look()
    verdict, reason = _verdict(groups)
    return {
        "verdict": verdict,
        "reason": reason,
        "alpha": alpha,
        "tolerance": tolerance,
        "groups": [
            groups[speculation].told(speculation=speculation)
            for speculation in (True, False)
            if speculation in groups
        ],
    }


def _verdict(groups: dict[bool, _Group]) -> tuple[str, str]:
    """Return the verdict on speculation, and its reason, given the findings without speculation."""
    own, control = groups.get(True), groups.get(False)
    if control is not None and control.alarm_after is not None:
        kinds = "tokens without speculation"
        if own is not None and own.alarm_after is not None:
            kinds = "all tokens, with speculation and without,"
        return UNDECIDED, (
            f"{kinds} differ from these rows: log the distribution that tokens are drawn from, "
            "after temperature and filters"
        )
    if own is None:
        return UNDECIDED, "the log has no tokens with speculation"
    if own.alarm_after is None:
        return _without_alarm(own)
    if control is None:
        return UNDECIDED, (
            "the tokens are not drawn from these rows, and the log has no tokens without "
            "speculation: add some to show whether speculation is the cause"
        )
    if not control.would_show(own):
        return UNDECIDED, (
            f"the tokens are not drawn from these rows, but {control.wealth.tokens:,} tokens "
            f"without speculation are too few to show whether speculation is the cause"
        )
    return ALARM, "with speculation the tokens are not drawn from these rows; without it they are"


def _without_alarm(own: _Group) -> tuple[str, str]:
    """Return the verdict on tokens with speculation that raised no alarm, and what it means."""
    tokens, least = own.wealth.tokens, own.detectable
    if least == inf:
        return UNDECIDED, f"{tokens:,} tokens with speculation are too few to detect any bias"
    return QUIET, (
        f"{tokens:,} tokens with speculation show no bias. This does not show that the server is "
        f"lossless: a bias below {least:g} on the {own.favourite}'s favourite (its most probable "
        f"token), or any bias among other tokens, is expected to stay hidden. `draftproof audit "
        f"--plan` prints how many tokens a smaller bias needs"
    )
