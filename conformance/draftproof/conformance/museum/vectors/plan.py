"""Plan of the vectors: algorithms on instances, size by size.

A size lists only its additions to the smaller sizes. Instances are the suite's cases, and a few
more; they have names, so that the id of a vector follows from its subject.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from math import prod

from draftproof.conformance.cases import cases
from draftproof.conformance.cases.rows import instance, without
from draftproof.reference.drafting import SCHEMES
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, require_fit
from draftproof.spec import VECTOR_SIZES

OPTIMUM = "optimum"
"""Word in place of an algorithm in the id of an optimum."""


Entry = tuple[Algorithm, str, Instance]
"""An algorithm, the name of an instance, and the instance."""


_LAWS = {
    "tiny": ("zeros.target.v2.l1", "generic.v2.l1", "motivating", "several.*.v2.l1.k2"),
    "small": (
        "generic.v2.l2",
        "generic.v3.l2",
        "zeros.both",
        "zeros.same",
        "disjoint",
        "equal",
        "equal.first",
        "banked",
        "near-one.sure",
        "single-token.l1",
        "several.*.v3.l1.k2",
        "several.*.v2.l2.k2",
        "several.*.zeros.k2",
        "several.*.concentrated.k2",
        "several.*.disjoint.k2",
        "several.*.point.draft.k2",
        "several.*.banked.k2",
        "several.iid.owed.k2",
        "tree.*.v2.b1x2",
    ),
    "standard": (
        "generic.v4.l2",
        "generic.v2.l3",
        "generic.v3.l3",
        "zeros.target",
        "zeros.draft",
        "disjoint.later",
        "equal.later",
        "near-equal",
        "ties",
        "point.*",
        "near-one.*",
        "lost-then-won",
        "single-token",
        "several.*.equal.k2",
        "several.*.v3.l1.k3",
        "several.*.ties.later.k2",
        "several.*.equal.later.k2",
        "several.*.disjoint.later.k2",
        "several.*.point.target.k2",
        "several.*.point.draft.k3",
        "several.*.near-one.k2",
        "several.*.single-token.k2",
        "several.[!i]*.zeros.k3",
        "several.[!i]*.v4.l1.k2",
        "tree.*.v3.b1x2",
        "tree.*.concentrated.b1x2",
        "tree.*.v2.b2x2",
        "tree.[!i]*.zeros.b2x2",
        "tree.[!i]*.disjoint.once.b2x2",
    ),
}
"""Instances of laws: of several paths, those on which few paths can be drawn."""

_DECISIONS = {
    "tiny": _LAWS["tiny"],
    "small": (
        "generic.v2.l2",
        "zeros.both",
        "zeros.same",
        "disjoint",
        "equal",
        "banked",
        "near-one.sure",
        "single-token.l1",
        "several.iid.zeros.k2",
        "several.[!i]*.v3.l1.k2",
        "several.[!i]*.v2.l2.k2",
        "several.*.disjoint.k2",
        "several.*.point.draft.k2",
        "tree.*.v2.b1x2",
    ),
    "standard": (
        "generic.v3.l2",
        "generic.v2.l3",
        "zeros.target",
        "zeros.draft",
        "equal.first",
        "lost-then-won",
        "ties",
        "point.*",
        "several.iid.v2.l2.k2",
        "several.iid.concentrated.k2",
        "several.[!i]*.v3.l1.k3",
        "several.*.ties.later.k2",
    ),
}

_VALUES = {
    "tiny": _LAWS["tiny"],
    "small": _LAWS["small"],
    "standard": (*_LAWS["standard"], "generic.v4.l3", "several.*.v3.l2.k2", "tree.iid.zeros.b2x2"),
}

_PLANS = {"laws": _LAWS, "decisions": _DECISIONS, "values": _VALUES}

ONE_PATH = "generic.v2.l2"
"""Instance of one path on which verifiers of several paths run, too."""


@cache
def instances() -> dict[str, Instance]:
    """Return the instances that vectors may be of, by name."""
    known = {case.id: case.instance for case in cases("standard")}
    return {**dict(_own()), **known}


def entries(kind: str, size: str) -> Iterator[Entry]:
    """Yield the subjects of the laws, decisions or values of a size, without the optima."""
    for name in _named(_PLANS[kind], size):
        asked = instances()[name]
        for algorithm in ALGORITHMS.values():
            if _fits(algorithm, asked) and (
                algorithm.most_drafts == 1 or asked.drafts > 1 or name == ONE_PATH
            ):
                yield algorithm, name, asked


def optima(size: str) -> Iterator[tuple[str, Instance]]:
    """Yield the instances of a size's optima, with their names."""
    yield from ((name, instances()[name]) for name in _named(_VALUES, size))


def _named(plan: dict[str, tuple[str, ...]], size: str) -> list[str]:
    """Return the names that a size adds to the smaller ones."""
    own, before = plan[size], VECTOR_SIZES[: VECTOR_SIZES.index(size)]
    taken = [pattern for each in before for pattern in plan[each]]
    return [name for name in instances() if _matches(name, own) and not _matches(name, taken)]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _fits(algorithm: Algorithm, asked: Instance) -> bool:
    try:
        require_fit(algorithm, asked)
    except Unsupported:
        return False
    return True


def _own() -> Iterator[tuple[str, Instance]]:
    """Yield the instances that are not cases."""
    yield "zeros.target.v2.l1", instance("zeros.target.v2.l1", 2, 1, target=lambda _: (1,))
    same = instance(
        "zeros.same", 3, 2, target=lambda c: without(c, 3), draft=lambda c: without(c, 3)
    )
    yield "zeros.same", same
    branching = (1, 2)
    for scheme in SCHEMES:
        tree = replace(
            instance("tree.v2.b1x2", 2, len(branching)),
            scheme=scheme,
            branching=branching,
            drafts=prod(branching),
        )
        yield f"tree.{scheme}.v2.b1x2", tree
