"""Power and cost of tests on known faults, as recorded in docs/data/power.json.

    python -m building.power

Run in docs, this command replaces the record; pages and pictures need only the record. Distances
are exact, from the exact lane. The rate at which a sampling test catches a fault is counted with a
seed, except for the sequential test, whose power the suite computes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import log10
from typing import Any

import numpy
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2, ncx2

from building.links import OURS, met_in
from building.markdown import table
from building.pages import HOUSE
from building.pictures import Axis, Line, Panel, both, panels, power_of_ten, powers, shown
from draftproof.conformance.lanes.statistics import (
    Budget,
    hardest,
    null,
    outcomes_to_reject,
    outlook,
)
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, instance_to_json
from draftproof.reference.process import continued
from draftproof.reference.rational import Rational, total

RECORD = HOUSE / "docs/data/power.json"

Floats = NDArray[numpy.float64]

FAULTS = (
    "searches-unnormalised",
    "bonus-from-draft",
    "bonus-one-row-early",
    "coin-rejects-and-corrects",
    "block-mass-of-the-row-before",
    "block-with-token-residual",
    "coins-of-eight-bits",
)
"""Mutants of the suite, the simplest fault first."""

ACROSS = ("coins-drawn-once", "noise-of-the-draft-corrects")
"""Mutants whose single iterations are correct: their faults are between calls."""

SEED = 0
REPETITIONS = 4000
"""Repetitions of every test: the standard error of a share is below 0.8 %."""

FALSE_ALARM = 0.01
"""False-alarm rate of the tests by chi-square."""

SEQUENTIAL = Budget(1e-9)
"""Budget of false alarms of the suite's own test."""

EMISSIONS = tuple(round(10 ** (2 + n / 4)) for n in range(25))
"""Numbers of iterations, from a hundred to a hundred million."""

WANTED = 0.9
"""The power at which a fault counts as found."""

ENGINE = 10, 100_000, 20, 100
"""Terms of an engine's test: a small and a large number of samples, the factor by which one
distance must shrink more than the other, and the number of other rows (vLLM,
tests/v1/sample/test_rejection_sampler.py)."""


def inputs() -> Mapping[str, Instance]:
    """Return the rows that the tests use: equal in all contexts, as in engines; and by context.

    Those by context are the first of the suite's rows of V = 3, L = 2 that show every fault.
    """
    from draftproof.conformance.cases.rows import fixed, instance

    return {
        "alike": fixed("112 80 48 16", "40 64 72 80", length=2),
        "by context": instance("power.2", 3, 2),
    }


# --- what a test looks at -------------------------------------------------------------------------


def texts(emitted: Law[Any], instance: Instance) -> tuple[Law[Path], Law[Path]]:
    """Return the law of L + 1 tokens of text, as verified, and the target's law of them."""
    horizon = instance.length + 1
    return continued(emitted, instance, horizon), instance.target.text(horizon)


def pooled(emitted: Law[Any], instance: Instance) -> dict[int, Rational]:
    """Return the law of the tokens at the drafted positions, pooled, without the bonus."""
    mass: dict[int, Rational] = {}
    for emission, weight in emitted.items():
        for token in emission.tokens[: instance.length]:
            mass[token] = mass.get(token, Rational(0)) + weight
    whole = total(mass.values())
    return {token: weight / whole for token, weight in mass.items()}


def distances(laws: Mapping[str, Law[Any]], allowed: Mapping[str, float]) -> dict[str, float]:
    """Return the total variation between observed and correct law, for the statistic of each test.

    A distance that rounding explains is 0: every statistic is a function of the emission, so its
    distance is no larger than the emission's.
    """
    found: dict[str, float] = {}
    for name, instance in inputs().items():
        text, right = texts(laws[name], instance)
        seen = {
            "text": text.total_variation(right),
            "positions": max(
                _at(text, i).total_variation(_at(right, i)) for i in range(instance.length + 1)
            ),
        }
        if name == "alike":
            row = Law(dict(enumerate(instance.target(()))))
            seen["pooled"] = Law(pooled(laws[name], instance)).total_variation(row)
        for what, distance in seen.items():
            found[f"{what}, {name}"] = figure(distance) if distance > allowed[name] else 0.0
    return found


def _at(text: Law[Path], place: int) -> Law[int]:
    return text.map(lambda path: path[place])


def figure(value: float | Rational) -> float:
    """Return a number to six digits, as in the record."""
    return float(f"{float(value):.6g}")


# --- how often a test catches ---------------------------------------------------------------------


def power_of_pooled(emitted: Law[Any], instance: Instance, count: int) -> float:
    """Return how often chi-square rejects the pooled tokens of `count` iterations."""
    target = numpy.array(instance.target(()), dtype=float)
    return float(_rejects(_pooled_counts(emitted, instance, count), target, FALSE_ALARM).mean())


def _pooled_counts(emitted: Law[Any], instance: Instance, count: int) -> NDArray[numpy.int64]:
    """Return the counts of each token at the drafted positions, [repetitions, V]."""
    drafted = emitted.map(lambda emission: emission.tokens[: instance.length])
    cells = sorted(drafted)
    tokens = numpy.array([[own.count(t) for t in range(instance.vocabulary)] for own in cells])
    counts: NDArray[numpy.int64] = _drawn([drafted[own] for own in cells], count) @ tokens
    return counts


def power_of_positions(emitted: Law[Any], instance: Instance, count: int) -> float:
    """Return how often chi-square rejects any position, each at its share of the false alarms."""
    text, right = texts(emitted, instance)
    cells = sorted({*text, *right})
    drawn = _drawn([text[path] for path in cells], count)
    share = FALSE_ALARM / (instance.length + 1)
    rejected = numpy.zeros(REPETITIONS, dtype=bool)
    for place in range(instance.length + 1):
        tokens = numpy.array([numpy.eye(instance.vocabulary)[path[place]] for path in cells])
        law = _at(right, place)
        weights = numpy.array([float(law[t]) for t in range(instance.vocabulary)])
        rejected |= _rejects(drawn @ tokens, weights, share)
    return float(rejected.mean())


def power_of_text(emitted: Law[Any], instance: Instance, count: int) -> float:
    """Return how often chi-square rejects the whole texts."""
    law, seen = _weights(emitted, instance)
    return float(_rejects(_drawn(seen, count), law, FALSE_ALARM).mean())


def power_of_sequential(emitted: Law[Any], instance: Instance, count: int) -> float:
    """Return the computed probability that the suite's evidence passes its threshold by `count`."""
    law, seen = _weights(emitted, instance)
    return outlook(null(law), seen, max(count, 256)).power(SEQUENTIAL.threshold)


TESTS: Mapping[str, tuple[str, Callable[[Law[Any], Instance, int], float]]] = {
    "pooled": ("alike", power_of_pooled),
    "positions": ("by context", power_of_positions),
    "text": ("by context", power_of_text),
    "sequential": ("by context", power_of_sequential),
}
"""The tests that draw samples: the name of their rows, and their power."""


def caught_by_engine(emitted: Law[Any], instance: Instance) -> float:
    """Return how often an engine's rule catches a fault.

    The rule: from few iterations to many, the distance of the pooled tokens from the target must
    shrink more than 20 times as much as their distance from other rows. A distance is the root of a
    sum of squares.
    """
    few, many, factor, others = ENGINE
    generator = numpy.random.default_rng(SEED)
    rows = numpy.exp(generator.random((REPETITIONS, others, instance.vocabulary)))
    rows /= rows.sum(-1, keepdims=True)
    target = numpy.array(instance.target(()), dtype=float)
    shrunk = []
    for count in (few, many):
        tokens = _pooled_counts(emitted, instance, count)
        seen = tokens / tokens.sum(1, keepdims=True)
        far = numpy.sqrt(((seen[:, None] - rows) ** 2).sum((1, 2)))
        shrunk.append((numpy.sqrt(((seen - target) ** 2).sum(1)), far))
    (near, far), (nearer, farther) = shrunk
    return float((near / nearer <= factor * far / farther).mean())


def emissions_needed(law: Floats, seen: Floats) -> float:
    """Return the number of emissions after which chi-square has the power `WANTED`."""
    kept = law > 0
    each = float(((seen - law)[kept] ** 2 / law[kept]).sum())
    free = int(kept.sum()) - 1
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        found = ncx2.sf(chi2.isf(FALSE_ALARM, free), free, middle)
        low, high = (low, middle) if found >= WANTED else (middle, high)
    return high / each


def emissions_needed_at_best(bias: float) -> float:
    """Return the emissions that a test for one known fault needs, at the same error rates.

    An event of probability one half becomes more probable by the bias, the smallest change that a
    total variation distance can mean. Its counts are nearly normal, with a standard deviation of
    one half per draw. The draws have no other information.
    """
    return float((ndtri(1 - FALSE_ALARM) + ndtri(WANTED)) ** 2 / (4 * bias**2))


def _weights(emitted: Law[Any], instance: Instance) -> tuple[Floats, Floats]:
    text, right = texts(emitted, instance)
    cells = sorted({*text, *right})
    expected = numpy.array([float(right[path]) for path in cells])
    return expected, numpy.array([float(text[path]) for path in cells])


def _drawn(weights: Iterable[float | Rational], count: int) -> NDArray[numpy.int64]:
    """Return counts [repetitions, cells], the same for the same law, whichever verifier has it."""
    law = numpy.array([float(weight) for weight in weights])
    generator = numpy.random.default_rng([SEED, count])
    return generator.multinomial(count, law / law.sum(), size=REPETITIONS)


def _rejects(counts: NDArray[numpy.int64], law: Floats, false_alarm: float) -> NDArray[numpy.bool_]:
    expected = counts.sum(1, keepdims=True) * law
    distance = ((counts - expected) ** 2 / expected).sum(1)
    return distance > chi2.isf(false_alarm, len(law) - 1)  # type: ignore[no-any-return]  # scipy is untyped


# --- the record -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """Exact laws of a verifier on the inputs, their runs, and the distances due to rounding."""

    laws: Mapping[str, Law[Any]]
    runs: Mapping[str, int]
    allowed: Mapping[str, float]


def observed(name: str) -> Seen:
    """Return the exact lane's view of a mutant, or of our correct verifier "token" or "block"."""
    from draftproof.conformance.cases import Case
    from draftproof.conformance.lanes.observe import observe
    from draftproof.conformance.museum.mutants import EXHIBITS
    from draftproof.conformance.museum.mutants.verifiers import Block, Token
    from draftproof.conformance.protocol.adapter import program_of

    right = {"token": Token, "block": Block}
    made = program_of(right[name]() if name in right else EXHIBITS[name].make())
    seen = {key: observe(made, Case(key, "", "quick", each)) for key, each in inputs().items()}
    return Seen(
        {key: each.emitted() for key, each in seen.items()},
        {key: each.runs for key, each in seen.items()},
        {key: figure(each.allowed) for key, each in seen.items()},
    )


def recorded(name: str) -> dict[str, Any]:
    """Return the record of a fault, or of a correct verifier."""
    from draftproof.conformance.museum.mutants import EXHIBITS

    seen = observed(name)
    mutant = EXHIBITS.get(name)
    found: dict[str, Any] = {
        "id": name,
        "what": mutant.what if mutant else "",
        "breaks": getattr(mutant, "breaks", None),
        "source": list(mutant.source) if mutant else [],
        "distances": distances(seen.laws, seen.allowed),
        "runs": seen.runs["by context"],
        "allowed": seen.allowed["by context"],
    }
    if name in ACROSS:
        return found
    found["power"] = {
        test: [round(power(seen.laws[rows], inputs()[rows], count), 4) for count in EMISSIONS]
        for test, (rows, power) in TESTS.items()
    }
    found["engine"] = caught_by_engine(seen.laws["alike"], inputs()["alike"])
    if name in FAULTS:
        law, other = _weights(seen.laws["by context"], inputs()["by context"])
        found["needed"] = figure(emissions_needed(law, other))
    return found


def record() -> dict[str, Any]:
    """Return the record of all verifiers."""
    names = ("token", *FAULTS, *ACROSS)
    law, _ = _weights(observed("token").laws["by context"], inputs()["by context"])
    biases = [10 ** (-n / 2) for n in range(2, 10)]
    return {
        "seed": SEED,
        "repetitions": REPETITIONS,
        "false_alarm": {"chi_square": FALSE_ALARM, "sequential": SEQUENTIAL.total},
        "inputs": {name: instance_to_json(each) for name, each in inputs().items()},
        "emissions": list(EMISSIONS),
        "verifiers": [recorded(name) for name in names],
        "hardest": [
            {
                "bias": figure(bias),
                "chi_square": figure(emissions_needed(law, hardest(law, bias))),
                "sequential": figure(
                    outcomes_to_reject(
                        lambda count, bias=bias: outlook(null(law), hardest(law, bias), count),  # type: ignore[misc]  # bound early
                        SEQUENTIAL.threshold,
                    )
                ),
            }
            for bias in biases
        ],
    }


@cache
def _record() -> Any:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def main() -> None:
    """Write the record."""
    RECORD.write_text(json.dumps(record(), indent=1) + "\n", encoding="utf-8")


# --- what pages show ------------------------------------------------------------------------------

_PLACE = "explanation"

_OURS = f"ours, {power_of_ten(round(log10(SEQUENTIAL.total)))}"

_LINES = {
    "pooled": Line((), "clay", "2 2.5", name="pooled tokens, rows alike"),
    "positions": Line((), "gold", "5 3", name="each position"),
    "text": Line((), "blue", name="whole text"),
    "sequential": Line((), "plum", name=f"whole text, {_OURS}"),
}
_LAW = Line((), "green", width=3.6)


def files() -> Mapping[str, bytes]:
    """Return the pictures made from the record."""
    return {
        **both(f"{_PLACE}/power", _power_picture()),
        **both(f"{_PLACE}/needed", _needed_picture()),
    }


def curves() -> str:
    """Return the picture of power by cost."""
    return shown("power", _POWER)


def needed() -> str:
    """Return the picture of cost by distance."""
    return shown("needed", _NEEDED)


def faults() -> str:
    """Return the faults as a table, with their distance in the statistic of each test."""
    rows = []
    for fault in _record()["verifiers"]:
        if fault["id"] == "token":
            continue
        seen = fault["distances"]
        columns = ("pooled, alike", "text, alike", "positions, by context", "text, by context")
        rows.append([_name(fault), fault["what"], *(_told(seen[column]) for column in columns)])
    head = [
        "fault",
        "what it does",
        "pooled, rows alike",
        "text, rows alike",
        "a position, by context",
        "text, by context",
    ]
    return table(head, rows, align="llrrrr")


def runs() -> str:
    """Return the runs that each fault's exact law takes, and the iterations that samples need."""
    rows = [
        [
            _name(fault),
            _told(fault["distances"]["text, by context"]),
            str(fault["runs"]),
            _rounded(fault["needed"]),
        ]
        for fault in _record()["verifiers"]
        if fault["id"] in FAULTS
    ]
    return table(
        ["fault", "distance", "runs of the law", "iterations of a sample"], rows, align="lrrr"
    )


def sources() -> str:
    """Return the sources of each fault, and the requirement that it breaks."""
    rows = [
        [
            _name(fault),
            "<br>".join(
                "ourselves" if source == OURS else met_in(source) for source in fault["source"]
            ),
            f"[](#{fault['breaks']})",
        ]
        for fault in _record()["verifiers"]
        if fault["breaks"]
    ]
    return table(["fault", "met in", "caught by"], rows)


def engine() -> str:
    """Return how often an engine's rule catches each fault that shows in a single iteration."""
    _, many, _, _ = ENGINE
    rows = [
        [
            "none: token verification" if each["id"] == "token" else _name(each),
            _told(each["distances"]["pooled, alike"]),
            f"{each['engine']:.1%}",
        ]
        for each in _record()["verifiers"]
        if "engine" in each
    ]
    return table(
        ["fault", "pooled distance", f"caught with {many:,} iterations"], rows, align="lrr"
    )


def hardest_to_see() -> str:
    """Return a table of the cost of finding a distance in its least favourable spread."""
    known = {round(log10(each["bias"])): each for each in _record()["hardest"][::2]}
    rows = []
    for exponent in range(-1, -8, -1):
        own = known.get(exponent, {})
        rows.append(
            [
                power_of_ten(exponent),
                _rounded(emissions_needed_at_best(10.0**exponent)),
                *(_rounded(own[test]) if own else "" for test in ("chi_square", "sequential")),
            ]
        )
    head = ["distance", "a test that knows the fault", "chi-square of the text", _OURS]
    return table(head, rows, align="rrrr")


def _rounded(count: float) -> str:
    """Return a count to two digits."""
    digits, exponent = f"{count:.1e}".split("e")
    power = int(exponent)
    return f"{float(f'{count:.1e}'):,.0f}" if power < 5 else f"{digits} · {power_of_ten(power)}"


def _name(fault: Mapping[str, Any]) -> str:
    return str(fault["id"]).replace("-", " ")


def _told(distance: float) -> str:
    return f"{distance:.2g}" if distance else "**0**"


_POWER = (
    "Probability to catch each fault against the number of iterations that are drawn: where what "
    "a test looks at is right, its line stays at its rate of false alarms; the law is known after "
    "a few dozen runs"
)


def _power_picture() -> str:
    record = _record()
    x = powers(1, 8, name="iterations drawn; for the law: runs of the program")
    drawn = []
    for fault in record["verifiers"]:
        if fault["id"] not in FAULTS:
            continue
        lines = [replace(_LAW, points=[(log10(fault["runs"]), 1), (x.high, 1)])]
        for test, line in _LINES.items():
            places = zip(record["emissions"], fault["power"][test], strict=True)
            points = [(log10(count), power) for count, power in places]
            lines.append(replace(line, points=points, name=""))
        distance = fault["distances"]["text, by context"]
        title = f"{_name(fault)}: distance {distance:.2g}"
        dot = (log10(fault["runs"]), 1.0, "green")
        drawn.append(Panel(title, lines, points=[dot]))
    return panels(
        drawn,
        x=x,
        y=Axis(0, 1, {0.0: "0", 0.5: "½", 1.0: "1"}),
        title="Power against cost",
        told=_POWER,
        legend={**{line.name: line for line in _LINES.values()}, "the law": _LAW},
        each=58,
    )


_NEEDED = (
    "Iterations that a test must draw to see a distance that is spread as badly as can be, falling "
    "lines with a slope of minus two, and the runs that the law takes, which do not depend on it"
)


def _needed_picture() -> str:
    record = _record()
    runs = next(each["runs"] for each in record["verifiers"] if each["id"] == "token")
    rounding = next(each["allowed"] for each in record["verifiers"] if each["id"] == "token")
    x = powers(-8, 0, name="total variation distance")
    best = [(float(e), log10(emissions_needed_at_best(10.0**e))) for e in range(-8, 0)]
    lines = {
        "a test that knows the fault": Line(best, "muted", "2 2.5"),
        "chi-square of the text": replace(_LINES["text"], points=_scale("chi_square")),
        _OURS: replace(_LINES["sequential"], points=_scale("sequential")),
        "the law": Line([(log10(rounding), log10(runs)), (0.0, log10(runs))], "green", width=3.6),
    }
    found = [each for each in record["verifiers"] if each["id"] in FAULTS]
    dots = [
        (log10(each["distances"]["text, by context"]), log10(each["needed"]), "blue")
        for each in found
    ]
    panel = Panel(
        "Iterations, or runs, until it is seen",
        [replace(line, name="") for line in lines.values()],
        points=dots,
        words=[(log10(rounding), log10(runs) + 0.55, "float32 rounding", "middle")],
    )
    return panels(
        [panel],
        x=x,
        y=powers(0, 17, step=2),
        title="Cost against distance",
        told=_NEEDED,
        legend={name: replace(line, name="") for name, line in lines.items()},
        each=230,
    )


def _scale(test: str) -> list[tuple[float, float]]:
    return [(log10(each["bias"]), log10(each[test])) for each in _record()["hardest"]]


COMPUTED: Mapping[str, Callable[..., str]] = {
    "engine": engine,
    "faults": faults,
    "hardest": hardest_to_see,
    "needed": needed,
    "power": curves,
    "runs": runs,
    "sources": sources,
}
"""The forms of this module by name."""


if __name__ == "__main__":
    main()
