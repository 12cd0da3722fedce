"""The formulas of the suite: what it allows, and what it makes of samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import exp
from types import SimpleNamespace
from typing import Any

import numpy
from formulas.formula import Define, Formula, Names, to

from draftproof.conformance.lanes import statistics
from draftproof.conformance.protocol.adapter import Declaration, declaration
from draftproof.conformance.protocol.tolerance import (
    UNIT_ROUNDOFF,
    allowed_distance,
    allowed_of_text,
    unit_of,
)
from draftproof.conformance.requirements import batches, drafting
from draftproof.reference.law import Law
from draftproof.reference.ledger.instances import row
from draftproof.reference.rational import rational


def _declared(**attributes: Any) -> Declaration:
    named = {"name": "any", "version": "1", "algorithm": "block", "verify": print}
    return declaration(SimpleNamespace(**named, **attributes))


def roundings(define: Define) -> Iterator[Names]:
    """What is allowed a verifier, of rows as they are and of logits."""
    for logits, dtype in product((False, True), UNIT_ROUNDOFF):
        known = _declared(logits=logits, dtype=dtype)
        for vocabulary, length in product((1, 2, 5), (1, 3)):
            names: Names = {"V": vocabulary, "L": length, "u": unit_of(known)}
            names["r"] = vocabulary + 20 if logits else 0
            names["w"] = define(1, names)
            names["e"] = define(2, names)
            yield {**names, "TV": allowed_distance(known, vocabulary, length)}


def drafted_roundings(_: Define) -> Iterator[Names]:
    """What is allowed a drafter."""
    known = _declared(max_drafts=4, trees=True)
    for setting in list(drafting.settings(known))[::5]:
        sizes = {"K": setting.drafts, "L": setting.length, "V": setting.model.vocabulary}
        yield {**sizes, "u": unit_of(known), "TV": drafting._allowed(setting, known)}


def written_roundings(define: Define) -> Iterator[Names]:
    """What is allowed a pipeline."""
    known = _declared()
    for vocabulary, horizon in product((2, 3, 4), (1, 2, 3)):
        names: Names = {"V": vocabulary, "H": horizon, "u": unit_of(known), "w": {}, "e": {}}
        names["r"] = define(1, names)
        for n in to(1, horizon):
            names["w"][n] = define(2, {**names, "n": n})
            names["e"][n] = define(3, {**names, "n": n})
        yield {**names, "TV": allowed_of_text(known, vocabulary, horizon)}


def races(_: Define) -> Iterator[Names]:
    """Pairs of laws, at the distance delta."""
    rows = [row(each) for each in ("1/3 2/3 0", "1/2 1/4 1/4", "1/7 3/7 3/7")]
    for p, moved in product(rows, repeat=2):
        delta = Law(dict(enumerate(p))).total_variation(Law(dict(enumerate(moved))))
        names = {"p": p.__getitem__, "p1": moved.__getitem__}
        yield {**names, "V": range(len(p)), "delta": delta}


def backends(_: Define) -> Iterator[Names]:
    """What is allowed a backend, on a row."""
    known = _declared()
    for vocabulary, length in product((1, 2, 4, 7), (1, 2, 3)):
        delta = allowed_distance(known, vocabulary, length)
        names: Names = {"V": vocabulary, "L": length, "delta": delta, "two": rational(2)}
        yield {**names, "d": batches._legal(known, vocabulary, length)}


def payoffs(_: Define) -> Iterator[Names]:
    """A bet, and what it earns at most: d is moved to where it pays most."""
    p = row("1/2 1/4 1/4")
    for paid, d in product(((1, 2, 3), (2, 0, 1), (1, 1, 1), (5, 4, 0)), ("1/8", "1/5")):
        low, high, moved = paid.index(min(paid)), paid.index(max(paid)), rational(d)
        fair = sum(weight * each for weight, each in zip(p, paid, strict=True))
        bet = [each / fair for each in paid]
        worst = [weight + moved * ((k == high) - (k == low)) for k, weight in enumerate(p)]
        most = sum(weight * each for weight, each in zip(worst, bet, strict=True))
        yield {"d": moved, "r": bet.__getitem__, "V": range(3), "most": most}


def wealth(define: Define) -> Iterator[Names]:
    """What bets on outcomes, one by one, have won, beside the evidence that the suite finds."""
    law = numpy.array([0.5, 0.375, 0.125])
    null = statistics.null(law)
    for outcomes in ((0, 1, 0, 2, 2, 2, 1), (2, 2, 2, 2, 2, 2), (0, 0, 1, 0, 1, 1)):
        on_law = dict.fromkeys(statistics.CONCENTRATIONS, 1.0)
        on_mean = dict.fromkeys(statistics.STAKES, 1.0)
        seen, evidence = [0, 0, 0], statistics.no_evidence(null)
        for k in outcomes:
            names = {"k": k, "N": sum(seen), "n": seen.__getitem__, "p0": law.__getitem__}
            for c in on_law:
                on_law[c] *= define(0, {**names, "c": c, "half": 0.5})
            # The event that was most discrepant before this outcome.
            event = [n > p * sum(seen) for n, p in zip(seen, law, strict=True)]
            for stake in on_mean if any(event) else ():
                b = float(law[event].sum())
                on_mean[stake] *= define(1, {"s": stake / b, "X": int(event[k]), "b": b})
            seen[k] += 1
            evidence = statistics.updated(null, evidence, numpy.eye(3)[k])
        own = sum(on_law.values()) / len(on_law), sum(on_mean.values()) / len(on_mean)
        found = exp(statistics.log_evidence(null, evidence))
        yield {"error": abs(sum(own) / 2 - found) / found}


def bounds(_: Define) -> Iterator[Names]:
    """The upper bound on a distance, at the j-th look at n emissions."""
    for n, j, seen in ((256, 1, 0.01), (4096, 5, 0.002), (10**6, 30, 0.0)):
        bound = statistics.upper_bound(seen, n, look=j)
        yield {"d": bound, "seen": seen, "n": n, "j": j, "beta": statistics.MISSED}


SUITE: dict[str, Formula] = {
    "drafting.rounding": Formula(
        lines=("TV == u * K * L * (5 * V + 101)",),
        bound=True,
        places=drafted_roundings,
    ),
    "text.rounding": Formula(
        lines=(
            "TV == u * (sum(n * (3 * e[n] + 4 * V + w[n] + 2) + r + 2 * V for n in to(1, H))"
            " + H * (r + 2 * V))",
        ),
        given=("r == 3 * V + 101", "w[n] == n * (2 * r + 2)", "e[n] == w[n] + 2 * r + 2"),
        bound=True,
        places=written_roundings,
    ),
    "backends.race": Formula(
        lines=(
            "sum(min(p(i), p1(i)) for i in V) / sum(max(p(j), p1(j)) for j in V)"
            " == (1 - delta) / (1 + delta)",
        ),
        places=races,
    ),
    "backends.bound": Formula(
        lines=("d == max(2, V - 1) * (delta + (L + 1) / two**24)",),
        notation={"two": "2"},
        bound=True,
        places=backends,
    ),
    "rounding.bound": Formula(
        lines=("TV == u * (L * (3 * e + 4 * V + w + 2) + r + 2 * V)",),
        given=("w == L * (2 * r + 2)", "e == w + 2 * r + 2"),
        bound=True,
        places=roundings,
    ),
    "chance.growth": Formula(
        lines=("most == 1 + d * (max(r(k) for k in V) - min(r(k) for k in V))",),
        notation={"most": r"\max_P \mathbb{E}_P[r]"},
        places=payoffs,
    ),
    "chance.wealth": Formula(
        checks=("error < 1e-6",),
        given=(
            "r(k) == (c + n(k) / p0(k)) / (c + half + N)",
            "earned == 1 + s * (X - b)",
        ),
        notation={"p0": "p", "half": r"\tfrac{1}{2}", "earned": "r(X)"},
        places=wealth,
    ),
    "chance.bound": Formula(
        lines=("d == seen + sqrt(log(j * (j + 1) / beta) / (2 * n))",),
        notation={"seen": r"\hat d"},
        places=bounds,
    ),
}
"""The formulas by name."""
