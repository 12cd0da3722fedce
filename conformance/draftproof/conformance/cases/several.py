"""Cases of several drafts, with the same rows for every drafting scheme.

Supports at the root have K tokens or more, so that K paths are always drawn; only i.i.d. siblings,
which can be equal, are also drawn from fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from draftproof.conformance.cases.case import Case
from draftproof.conformance.cases.rows import (
    by_depth,
    equal,
    fixed,
    full_at_root,
    instance,
    random_support,
    without,
)
from draftproof.reference.drafting import SCHEMES
from draftproof.reference.model import Instance, Path

_EVERY = tuple(SCHEMES)


def several() -> Iterator[Case]:
    """Yield the cases of several drafts, for every scheme."""
    for scheme in _EVERY:
        for name, reason, mode, rows, drafts in _rows(scheme):
            drawn = replace(rows, drafts=drafts, scheme=scheme)
            yield Case(f"several.{scheme}.{name}.k{drafts}", reason, mode, drawn)


def _rows(scheme: str) -> Iterator[tuple[str, str, str, Instance, int]]:
    """Yield name, reason, mode, rows and K of every case that the scheme can draw."""
    for name, reason, mode, rows, numbers in (*_generic(), *_special(), *_at_random()):
        for drafts in numbers:
            narrowest = sum(q != 0 for q in rows.draft(()))
            if scheme == "iid" or (drafts <= narrowest and (scheme, drafts) != ("hub", 3)):
                yield name, reason, mode, rows, drafts


_Rows = Iterator[tuple[str, str, str, Instance, tuple[int, ...]]]


def _generic() -> _Rows:
    for vocabulary, length, numbers, mode in (
        (2, 1, (2,), "quick"),
        (3, 1, (2, 3), "quick"),
        (2, 2, (2,), "quick"),
        (4, 1, (2, 3), "standard"),
        (2, 2, (3,), "standard"),
        (3, 2, (2,), "standard"),
        (3, 2, (3,), "certify"),
        (2, 3, (2,), "certify"),
    ):
        name = f"v{vocabulary}.l{length}"
        rows = instance(f"several.{name}", vocabulary, length)
        yield name, "rows of every context differ", mode, rows, numbers


def _special() -> _Rows:
    def after_root(context: Path) -> tuple[int, ...]:
        return without(context, 3) if context else (0, 1, 2)

    yield (
        "zeros",
        "zeros in both, at the same and at different tokens",
        "quick",
        instance(
            "several.zeros", 4, 1, target=lambda c: without(c, 4), draft=lambda c: without(c, 4, 1)
        ),
        (2, 3),
    )
    yield (
        "zeros.later",
        "zeros in both after the first token",
        "standard",
        instance("several.zeros.later", 3, 2, target=after_root, draft=lambda c: after_root(c[:1])),
        (2,),
    )
    yield (
        "concentrated",
        "the draft mostly says one token: i.i.d. siblings repeat it, the target wants the others",
        "quick",
        fixed("64 128 64", "192 32 32", length=1),
        (2, 3),
    )
    yield (
        "ties",
        "equal probabilities and equal ratios: every rank is a matter of order",
        "standard",
        by_depth(4, ["96 96 32 32", "64 64 64 64"], ["64 64 64 64"]),
        (2, 3),
    )
    yield (
        "ties.later",
        "equal probabilities and equal ratios, of tokens and of paths",
        "standard",
        by_depth(2, ["192 64", "128 128", "64 192"], ["128 128", "128 128"]),
        (2,),
    )
    yield (
        "equal",
        "p = q: one draft would do, every residual is 0/0",
        "quick",
        equal("several.equal", 3, 1, lambda _: True),
        (2, 3),
    )
    yield (
        "equal.first",
        "p = q at the first position only",
        "standard",
        equal("several.equal.first", 2, 2, lambda c: not c),
        (2,),
    )
    yield (
        "equal.later",
        "p = q after the first position only",
        "standard",
        equal("several.equal.later", 2, 2, lambda c: bool(c)),
        (2,),
    )
    yield (
        "near-equal",
        "p and q differ by 1/256: small residuals",
        "standard",
        fixed("85 86 85", "86 85 85", length=1),
        (2, 3),
    )
    yield (
        "disjoint",
        "disjoint supports: every path is rejected",
        "quick",
        instance("several.disjoint", 4, 1, target=lambda _: (0, 1), draft=lambda _: (2, 3)),
        (2,),
    )
    yield (
        "disjoint.later",
        "disjoint supports after the first token",
        "standard",
        instance(
            "several.disjoint.later",
            3,
            2,
            target=lambda c: (0,) if c else (0, 1, 2),
            draft=lambda c: (1, 2) if c else (0, 1, 2),
        ),
        (2,),
    )
    yield (
        "point.target",
        "the target is certain: one of the siblings may be it",
        "standard",
        instance("several.point.target", 3, 1, target=lambda c: (sum(c) % 3,)),
        (2, 3),
    )
    yield (
        "point.draft",
        "the draft is certain: i.i.d. siblings are all alike",
        "quick",
        instance("several.point.draft", 3, 1, draft=lambda _: (1,)),
        (2, 3),
    )
    yield (
        "near-one",
        "draft and target are nearly certain, of different tokens",
        "standard",
        fixed("2 250 4", "250 2 4", length=1),
        (2, 3),
    )
    yield (
        "banked",
        "a gain at one position pays for a loss at the next",
        "quick",
        by_depth(2, ["192 64", "64 192", "128 128"], ["64 192", "192 64"]),
        (2,),
    )
    yield (
        "owed",
        "what is owed at the second position depends on what was accepted at the first",
        "quick",
        fixed("112 144", "36 220", length=2),
        (2,),
    )
    yield (
        "single-token",
        "V = 1: nothing to choose, all paths are one",
        "standard",
        fixed("256", "256", length=1),
        (2,),
    )


def _at_random() -> _Rows:
    for index in range(12):
        vocabulary, length = ((3, 1), (4, 1), (2, 2), (3, 2))[index % 4]
        name = f"random.{index:02d}"
        rows = instance(
            f"several.{name}",
            vocabulary,
            length,
            target=random_support(f"several.{name}/p", vocabulary),
            draft=full_at_root(random_support(f"several.{name}/q", vocabulary), vocabulary),
        )
        yield name, "rows and zeros at random", "certify", rows, (2,)
