"""Cases of one draft."""

from __future__ import annotations

from collections.abc import Iterator

from draftproof.conformance.cases.case import Case
from draftproof.conformance.cases.rows import (
    by_depth,
    context_free,
    equal,
    fixed,
    instance,
    random_support,
    row,
    without,
)


def single() -> Iterator[Case]:
    """Yield the cases of one draft."""
    for vocabulary, length, mode in (
        (2, 1, "quick"),
        (2, 2, "quick"),
        (3, 2, "quick"),
        (4, 2, "standard"),
        (2, 3, "standard"),
        (3, 3, "standard"),
        (4, 3, "standard"),
    ):
        name = f"generic.v{vocabulary}.l{length}"
        yield Case(name, "rows of every context differ", mode, instance(name, vocabulary, length))

    yield Case(
        "motivating",
        "Sun et al.'s example: token 10/9, block 11/9",
        "quick",
        context_free(row("1/3 2/3"), row("2/3 1/3"), length=2),
    )
    yield Case(
        "zeros.target",
        "the target forbids tokens that the draft proposes",
        "standard",
        instance("zeros.target", 3, 2, target=lambda c: without(c, 3)),
    )
    yield Case(
        "zeros.draft",
        "the draft never proposes tokens that the target wants",
        "standard",
        instance("zeros.draft", 3, 2, draft=lambda c: without(c, 3)),
    )
    yield Case(
        "zeros.both",
        "zeros in both, at the same and at different tokens",
        "quick",
        instance(
            "zeros.both", 4, 2, target=lambda c: without(c, 4), draft=lambda c: without(c, 4, 1)
        ),
    )
    yield Case(
        "disjoint",
        "disjoint supports: everything is rejected",
        "quick",
        instance("disjoint", 4, 2, target=lambda _: (0, 1), draft=lambda _: (2, 3)),
    )
    yield Case(
        "disjoint.later",
        "disjoint supports after the first token",
        "standard",
        instance(
            "disjoint.later",
            3,
            2,
            target=lambda c: (0,) if c else (0, 1, 2),
            draft=lambda c: (1, 2) if c else (0, 1, 2),
        ),
    )
    yield Case(
        "equal",
        "p = q: everything is accepted, every residual is 0/0",
        "quick",
        equal("equal", 3, 2, lambda _: True),
    )
    yield Case(
        "equal.first",
        "p = q at the first position only",
        "quick",
        equal("equal.first", 3, 2, lambda c: not c),
    )
    yield Case(
        "equal.later",
        "p = q after the first position only",
        "standard",
        equal("equal.later", 3, 2, lambda c: bool(c)),
    )
    yield Case(
        "near-equal",
        "p and q differ by 1/256: small residuals",
        "standard",
        fixed("85 86 85", "86 85 85", length=2),
    )
    yield Case(
        "ties",
        "equal probabilities and equal ratios",
        "standard",
        by_depth(3, ["64 64 128", "128 64 64", "64 128 64"], ["128 128 0", "128 64 64"]),
    )
    yield Case(
        "point.target",
        "the target is certain",
        "standard",
        instance("point.target", 3, 2, target=lambda c: (sum(c) % 3,)),
    )
    yield Case(
        "point.draft",
        "the draft is certain",
        "standard",
        instance("point.draft", 3, 2, draft=lambda c: ((1 + sum(c)) % 3,)),
    )
    yield Case(
        "point.both",
        "both are certain: they agree first and differ later",
        "standard",
        instance("point.both", 3, 2, target=lambda _: (1,), draft=lambda c: (2,) if c else (1,)),
    )
    yield Case(
        "near-one.target",
        "the target is nearly certain",
        "standard",
        by_depth(3, ["254 1 1", "1 254 1", "1 1 254"], ["128 64 64", "64 64 128"]),
    )
    yield Case(
        "near-one.draft",
        "the draft is nearly certain",
        "standard",
        by_depth(3, ["128 64 64", "64 64 128", "64 128 64"], ["254 1 1", "1 254 1"]),
    )
    yield Case(
        "near-one.both",
        "both are nearly certain, of the same token",
        "standard",
        by_depth(2, ["255 1", "254 2", "1 255"], ["254 2", "255 1"]),
    )
    yield Case(
        "near-one.sure",
        "the draft is certain, and the target certain to 1/2048",
        "standard",
        context_free(row("2047 1", 2048), row("1 0"), length=2),
    )
    yield Case(
        "banked",
        "a gain at one position pays for a loss at the next",
        "quick",
        by_depth(2, ["192 64", "64 192", "128 128"], ["64 192", "192 64"]),
    )
    yield Case(
        "lost-then-won",
        "a loss at one position is made good at later ones",
        "standard",
        by_depth(2, ["64 192", "224 32", "192 64", "32 224"], ["192 64", "64 192", "128 128"]),
    )
    yield Case(
        "single-token", "V = 1: nothing to choose", "standard", fixed("256", "256", length=2)
    )
    yield Case("single-token.l1", "V = 1 and L = 1", "standard", fixed("256", "256", length=1))
    for index in range(24):
        vocabulary, length = 2 + index % 3, 1 + index // 3 % 3
        name = f"random.{index:02d}"
        yield Case(
            name,
            "rows and zeros at random",
            "certify",
            instance(
                name,
                vocabulary,
                length,
                target=random_support(f"{name}/p", vocabulary),
                draft=random_support(f"{name}/q", vocabulary),
            ),
        )
