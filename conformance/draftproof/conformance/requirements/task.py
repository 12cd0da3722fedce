"""Tasks: the parts of a campaign, each of which judges some requirements on one case."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256

from draftproof.conformance.lanes.cache import Coming
from draftproof.conformance.protocol.adapter import Declaration, Program
from draftproof.conformance.requirements.finding import Finding
from draftproof.conformance.requirements.sampled import SequentialTest, TestState


@dataclass(frozen=True)
class Terms:
    """Terms of a judgement: the lane, the seed, and the allowed effect of chance.

    `seed` is the campaign's; `false_alarm` is the probability with which each statistical test may
    fail a correct verifier. `cases` are patterns of the cases to judge, empty for all. `alone`
    draws samples one row per call, because real runs of single rows contradict the computed laws.
    """

    lane: str
    mode: str
    seed: int = 0
    false_alarm: float = 1e-9
    cases: tuple[str, ...] = ()
    alone: bool = False

    def seed_of(self, case: str) -> int:
        """Return the seed of a case: equal for equal campaigns, different for every case."""
        return int.from_bytes(sha256(f"{self.seed}/{case}".encode()).digest()[:7], "big")


def is_asked(case: str, patterns: Collection[str]) -> bool:
    """Return True if patterns include a case: "generic.*" names some, "!wide.*" leaves some out.

    If the patterns name no cases, they include all that are not left out.
    """
    left_out = {pattern for pattern in patterns if pattern.startswith("!")}
    named = {*patterns} - left_out
    if any(fnmatchcase(case, pattern[1:]) for pattern in left_out):
        return False
    return not named or any(fnmatchcase(case, pattern) for pattern in named)


@dataclass(frozen=True)
class Task:
    """Judgement of some requirements on one case, by the strongest of the lanes that can decide.

    `judge` returns a finding for each of the requirements; it raises `OpaqueRandomness`,
    `TooManyRuns` or `NondeterministicProgram` if the lane of its terms is blind. A task can be sent
    to another process. If there is a test by `sampling`, its shares can be drawn anywhere, and
    `findings` returns its results. `asks` returns the requests whose laws the task needs: one walk
    computes those of similar tasks. Tasks that are `probed_with` each other have an equal value
    there: the probe lane observes all of them at once.
    """

    case: str
    requirements: tuple[str, ...]
    lanes: tuple[str, ...]
    judge: Callable[[Program, Terms], list[Finding]]
    sampling: Callable[[Declaration, Terms], SequentialTest] | None = None
    findings: Callable[[SequentialTest, TestState], list[Finding]] | None = None
    asks: Callable[[Declaration], Coming] | None = None
    probed_with: Hashable = None
