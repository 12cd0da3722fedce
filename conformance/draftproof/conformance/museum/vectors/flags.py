"""Flags: properties of a vector that expose a class of faults, and the mutants with that fault.

A flag follows from the vector. It names the mutants of its class, and a vector with the flag
catches each of them; their sources are those of the catalogue of mutants.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Any

from draftproof.conformance.museum.vectors.supplied import SuppliedRun
from draftproof.reference.drafting import Drafts, FixedTree
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.rational import ONE, ZERO, Rational, rational
from draftproof.reference.verifiers import Algorithm

_NEARLY = rational("99/100")
"""Probability above which a verifier that rounds, or skips coins, treats a token as certain."""


@dataclass(frozen=True)
class Flag:
    """Class of faults, the inputs that expose it, and the mutants that have it."""

    fault: str
    description: str
    mutants: tuple[str, ...]


FLAGS = {
    "acceptance": Flag(
        "wrong acceptance",
        "A drafted token is neither certain to be accepted nor certain to be rejected.",
        (
            "accepts-everything",
            "rejects-everything",
            "ratio-to-the-largest",
            "accepts-by-target-alone",
            "accepts-the-most-probable",
            "greedy-but-for-the-bonus",
            "greedy-at-any-temperature",
            "typical-acceptance",
            "threshold-below-one",
            "ensemble-weight",
            "target-at-default-temperature",
            "draft-vocabulary-mapped-wrongly",
            "coins-of-eight-bits",
            "ratio-in-half-precision",
            "block-flag-ignored",
            "block-without-draft-rows",
        ),
    ),
    "bonus": Flag(
        "wrong bonus",
        "Everything can be accepted, and the bonus is random.",
        (
            "bonus-from-draft",
            "bonus-one-row-early",
            "bonus-without-temperature",
            "processes-the-bonus-only",
            "counts-beyond-the-limit",
        ),
    ),
    "boundary": Flag(
        "wrong side of a threshold",
        "A supplied number is a threshold itself, 0 among them: it does not pass.",
        ("accepts-at-equality",),
    ),
    "calls": Flag(
        "calls that know of each other",
        "One verifier is asked several times, and each time as if for the first.",
        ("coins-drawn-once", "scratch-not-cleared"),
    ),
    "certain": Flag(
        "certainty taken for granted",
        "A row is certain of a token, or nearly so.",
        ("sure-tokens-skip-the-coin", "rejects-certain-drafts", "divides-by-temperature-zero"),
    ),
    "contexts": Flag(
        "a row of another position",
        "The rows along a drafted path differ.",
        (
            "correction-of-row-zero",
            "target-one-row-late",
            "draft-one-row-late",
            "draft-of-row-zero",
            "starts-before-the-buffer",
            "rows-of-the-first-path",
        ),
    ),
    "copies": Flag(
        "copies of a token",
        "Siblings repeat a token.",
        (
            "skips-duplicate-siblings",
            "counts-a-token-for-every-copy",
            "siblings-draw-their-own-targets",
        ),
    ),
    "correction": Flag(
        "wrong correction",
        "Something can be rejected, and must be corrected.",
        (
            "corrects-from-target",
            "corrects-without-token",
            "corrects-by-distance",
            "searches-unnormalised",
            "searches-off-the-end",
            "kernel-for-one-token",
            "crashes-on-rejection",
            "coin-rejects-and-corrects",
            "block-with-token-residual",
        ),
    ),
    "drafting": Flag(
        "drafts of another law",
        "The drafts come with their probabilities: whoever draws them can be held to these.",
        ("best-of-two-drafts", "greedy-drafts-of-a-softmax", "declares-the-row-before"),
    ),
    "invalid": Flag(
        "invalid input accepted",
        "The input breaks the contract.",
        ("no-number-is-accepted", "no-number-is-the-last-of-a-block"),
    ),
    "length": Flag(
        "speed lost",
        "How much is accepted is known exactly, and what nobody can exceed.",
        ("block-flag-ignored", "accepts-everything", "rejects-everything"),
    ),
    "prefixes": Flag(
        "wrong prefix",
        "Several tokens were drafted: what is kept of them is a prefix.",
        (
            "counts-every-pass",
            "counts-to-the-last-pass",
            "rejects-one-late",
            "keeps-rejected-drafts",
            "one-coin-for-all-positions",
            "block-by-products-of-coins",
            "block-stops-at-first-failure",
            "block-without-cap",
            "block-without-mass",
            "block-mass-of-the-row-before",
        ),
    ),
    "siblings": Flag(
        "siblings verified wrongly",
        "There are several paths.",
        (
            "forgets-the-residual",
            "residual-among-siblings",
            "rows-of-the-first-path",
            "tests-prefixes-path-by-path",
            "drafts-that-all-differ",
            "drafts-that-all-agree",
            "selected-against-the-draft",
            "first-of-scores-in-one-cell",
            "any-path-for-the-smallest",
            "scores-that-owe-all",
            "scored-greedy-by-accepted-mass",
            "scored-greedy-as-a-block",
        ),
    ),
    "state": Flag(
        "wrong modified target",
        "The algorithm leaves a modified target behind.",
        (
            "greedy-block-with-capped-ratio",
            "leaves-no-state",
            "ignores-its-state",
            "modifies-one-position-more",
            "modifies-one-position-less",
            "ratio-without-the-next-token",
            "scored-greedy-owes-as-for-one-path",
        ),
    ),
    "ties": Flag(
        "equals ranked in two ways",
        "Two tokens that can be drafted have equal p/q, or both have p/q of at least 1.",
        ("equal-ratios-in-drawing-order", "ratios-clamped-at-one"),
    ),
    "tree": Flag(
        "a tree verified wrongly",
        "Paths branch below the root.",
        (
            "tree-as-independent-paths",
            "skips-duplicates-below-the-root",
            "goes-on-in-the-first-subtree",
            "rows-of-the-first-sibling",
            "drafts-paths-for-a-tree",
        ),
    ),
    "undrafted": Flag(
        "undrafted token accepted",
        "A drafted token has probability 0 in the row that is said to have drawn it.",
        ("accepts-undrafted",),
    ),
    "zeros": Flag(
        "zeros",
        "A row gives a token probability 0 that the other model does not, or both do.",
        ("target-cut-to-draft-vocabulary", "subtracts-masks"),
    ),
}
"""All flags by name."""


def flags_used(names: Iterable[str]) -> dict[str, Any]:
    """Return the notes of these flags, in the form of a file."""
    return {
        name: {
            "bugClass": FLAGS[name].fault,
            "description": FLAGS[name].description,
            "mutants": list(FLAGS[name].mutants),
            "sources": list(
                dict.fromkeys(each for mutant in FLAGS[name].mutants for each in _sources()[mutant])
            ),
        }
        for name in sorted(set(names))
    }


@cache
def _sources() -> dict[str, list[str]]:
    """Return the sources of the mutants, from the kill matrix, which needs no torch."""
    shipped = files("draftproof.conformance.report").joinpath("kill_matrix.json")
    document = json.loads(shipped.read_text(encoding="utf-8"))
    return {exhibit["id"]: exhibit["source"] for exhibit in document["exhibits"]}


def of_law(
    algorithm: Algorithm, instance: Instance, laws: Sequence[tuple[Drafts, Law[Emission]]]
) -> list[str]:
    """Return the flags of the law of an algorithm on an instance."""
    found = {"drafting", *_of_instance(algorithm, instance, [drafts for drafts, _ in laws])}
    return sorted(found.union(*(_of_emissions(instance, law) for _, law in laws)))


def of_decision(
    algorithm: Algorithm, instance: Instance, drafts: Drafts, runs: Sequence[SuppliedRun]
) -> list[str]:
    """Return the flags of a table of decisions."""
    found = {*_of_instance(algorithm, instance, [drafts])}
    found |= {*_of_emissions(instance, [run.emission for run in runs])}
    found |= {"calls"} if len(runs) > 1 else set()
    asked = [pair for run in runs for pair in zip(run.asked, run.numbers, strict=True)]
    found |= {"boundary"} if any(n in question.thresholds for question, n in asked) else set()
    return sorted(found)


def _of_emissions(instance: Instance, emissions: Iterable[Emission]) -> Iterator[str]:
    """Yield the flags of the possible emissions on one draft."""
    lengths, bonuses = set(), set()
    for emission in emissions:
        lengths.add(len(emission.accepted))
        if len(emission.accepted) == instance.length:
            bonuses.add(emission.tokens)
    if len(lengths) > 1:
        yield "acceptance"
    if len(bonuses) > 1:
        yield "bonus"
    if min(lengths) < instance.length:
        yield "correction"


def _of_instance(
    algorithm: Algorithm, instance: Instance, drafts: Sequence[Drafts]
) -> Iterator[str]:
    """Yield the flags that the rows along the drafted paths and their shape have."""
    contexts = {path[:i] for paths in drafts for path in paths for i in range(len(path) + 1)}
    pairs = [(instance.target(z), instance.draft(z)) for z in contexts if len(z) < instance.length]
    rows = [row for pair in pairs for row in pair]
    rows += [instance.target(z) for z in contexts if len(z) == instance.length]
    if any(max(row) >= _NEARLY for row in rows) and instance.vocabulary > 1:
        yield "certain"
    if any(ZERO in row for row in rows):
        yield "zeros"
    if _differ_along(instance, drafts):
        yield "contexts"
    if instance.length > 1:
        yield "prefixes"
    if algorithm.stateful:
        yield "state"
    if instance.drafts > 1:
        yield "siblings"
        if any(_ties(p, q) for p, q in pairs):
            yield "ties"
        if any(_has_copies(FixedTree(paths, instance), contexts) for paths in drafts):
            yield "copies"
        if max(instance.widths[1:], default=1) > 1:
            yield "tree"


def _differ_along(instance: Instance, drafts: Sequence[Drafts]) -> bool:
    def rows(path: Path) -> Iterator[Any]:
        for i in range(len(path)):
            yield instance.target(path[:i]), instance.draft(path[:i])

    return any(len(set(rows(path))) > 1 for paths in drafts for path in paths) or any(
        instance.target(path) != instance.target(()) for paths in drafts for path in paths
    )


def _has_copies(tree: FixedTree, contexts: Iterable[Path]) -> bool:
    return any(len(set(drawn)) < len(drawn) for drawn in map(tree.siblings, contexts))


def _ties(p: Sequence[Rational], q: Sequence[Rational]) -> bool:
    ratios = [min(ONE, a / b) for a, b in zip(p, q, strict=True) if b != 0]
    return any(one == other for one, other in combinations(ratios, 2))
