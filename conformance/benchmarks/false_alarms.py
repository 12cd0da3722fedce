"""False alarms: campaigns of correct verifiers on the sample lane, and how many of them fail.

    python conformance/benchmarks/false_alarms.py [--campaigns 1000] [--first 0]

Every campaign has a seed of its own and is run once, at the probability of a false alarm that users
have, 1e-9. What it would have come to at .05 is read from the same emissions, since the evidence is
that of a test that may look after every batch: it fails where it ever passed the threshold. Printed
are the failures at both levels with the number that is expected at most, and the mean of the
e-values, cut off at 1 / alpha, which is at most 1 for a correct verifier.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import exp, log, sqrt

from draftproof.conformance.museum.mutants.verifiers import Block, Ragged, Token
from draftproof.conformance.protocol.adapter import Adapter
from draftproof.conformance.requirements.finding import FAIL, Finding
from draftproof.conformance.run.certify import certify

VERIFIERS: tuple[type[Adapter], ...] = (Token, Block, Ragged)
CASES = ("generic.v2.l1", "generic.v2.l2", "zeros.*", "long.l5.*", "batch.*", "calls.*")
ALPHA = 0.05


def main() -> None:
    """Run the campaigns and print what they come to."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--campaigns", type=int, default=1000)
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    given = asked.parse_args()
    failed, alarmed, values, cut = 0, 0, 0, 0.0
    for seed in range(given.first, given.first + given.campaigns):
        verdict, evidence = campaign(VERIFIERS[seed % len(VERIFIERS)], seed)
        failed += verdict == FAIL
        alarmed += any(peak >= log(len(evidence) / ALPHA) for _, peak in evidence)
        values += len(evidence)
        cut += sum(min(exp(min(last, 50.0)), 1 / ALPHA) for last, _ in evidence)
        done = seed - given.first + 1
        print(f"{done} campaigns, {values} tests: {failed} failed, {alarmed} at {ALPHA}", end="\r")
    most = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / given.campaigns)
    print(f"\nat 1e-9: {failed} of {given.campaigns} failed")
    print(f"at {ALPHA}: {alarmed} of {given.campaigns} failed, at most {most:.1%} may")
    print(f"mean of {values} e-values, cut off at {1 / ALPHA:.0f}: {cut / values:.3f}")


def campaign(make: type[Adapter], seed: int) -> tuple[str, list[tuple[float, float]]]:
    """Return the verdict of a campaign, and of each of its tests the last and the most evidence."""
    found = certify(make(), mode="quick", seed=seed, lanes=("sample",), cases=CASES)
    return found.verdict, [
        (each.sampled.log_evidence, max((won for _, won in each.sampled.path), default=0.0))
        for each in _sampled(found.decisions)
        if each.sampled is not None
    ]


def _sampled(decisions: object) -> Iterator[Finding]:
    for decision in decisions:  # type: ignore[attr-defined]  # decisions of requirements
        yield from decision.findings


if __name__ == "__main__":
    main()
