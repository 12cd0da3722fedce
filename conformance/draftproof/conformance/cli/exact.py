"""Commands that compute exactly: `law`, `optimum` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click
from rich.markup import escape

from draftproof.conformance.cases.enumerable import require_solvable
from draftproof.conformance.cli.documents import (
    as_json,
    errors_of,
    instance_file,
    read_instance,
    show,
    usage_errors,
)
from draftproof.conformance.protocol.loading import load_algorithm
from draftproof.reference.emission import Emission
from draftproof.reference.errors import InvalidInput, Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance
from draftproof.reference.optimum import stateful, stateless
from draftproof.reference.process import (
    continued,
    expected_accepted,
    is_lossless,
    is_lossless_over_iterations,
)
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import (
    ALGORITHMS,
    Algorithm,
    emission_law,
    require_fit,
)
from draftproof.reference.verifiers.k_seq import k_seq

# Minutes of enumeration, not hours.
_MOST_DRAWS = 300_000


@click.command()
@click.argument("algorithm")
@instance_file
@click.option("--rho", help="Factor of k_seq, such as 3/2. [default: the smallest]")
@as_json
def law(algorithm: str, instance_file: str, rho: str | None, as_json: bool) -> None:
    """Print the exact distribution of ALGORITHM on an instance ("-" reads standard input).

    ALGORITHM is a name from `draftproof list algorithms`, or a function at ./file.py:function. The
    exit code is 0 whether or not the algorithm is lossless: `draftproof prove` decides that for all
    p and q.
    """
    from draftproof.conformance.report import terminal

    instance = read_instance(instance_file)
    with errors_of(algorithm):
        named = _with_rho(load_algorithm(algorithm), rho)
        _require_enumerable(named, instance)
        with terminal.console(stderr=True).status(escape(f"distribution of {algorithm}")):
            document = _law_document(named, instance)
    show(document, "law", terminal.print_law, as_json=as_json)


@click.command()
@instance_file
@as_json
def optimum(instance_file: str, as_json: bool) -> None:
    """Print the certified optima on an instance ("-" reads standard input)."""
    from draftproof.conformance.museum.vectors.making import optima
    from draftproof.conformance.report import terminal

    instance = read_instance(instance_file)
    with usage_errors(InvalidInput), terminal.console(stderr=True).status("optima"):
        require_solvable(instance)
        document = optima(instance)
    show(document, "optimum", terminal.print_optimum, as_json=as_json)


@click.command()
@instance_file
@click.argument("functions", nargs=-1, metavar="[./FILE.py:FUNCTION]...")
@as_json
def compare(instance_file: str, functions: Sequence[str], as_json: bool) -> None:
    """Compare every algorithm that fits an instance, and your own functions, with the optima.

    "-" reads the instance from standard input.
    """
    from draftproof.conformance.report import terminal

    instance = read_instance(instance_file)
    own = [_own(name) for name in functions]
    with usage_errors(InvalidInput), terminal.console(stderr=True).status("optima"):
        require_solvable(instance)
        optima = {"stateless": stateless(instance).value, "stateful": stateful(instance).value}
    fitting = [a for a in ALGORITHMS.values() if _misfit(a, instance) is None]
    rows = []
    asked = [*own, *fitting]
    for algorithm in terminal.shown_progress(asked, len(asked), "compare"):
        with errors_of(algorithm.name):
            rows.append(_compared(algorithm, instance, optima))
    document = {
        "algorithms": sorted(rows, key=lambda row: -rational(row["expected_accepted"])),
        "optimum": {kind: str(value) for kind, value in optima.items()},
        "unfit": [
            {"algorithm": name, "reason": reason}
            for name, algorithm in ALGORITHMS.items()
            if (reason := _misfit(algorithm, instance)) is not None
        ],
    }
    show(document, "compare", terminal.print_comparison, as_json=as_json)


def _own(name: str) -> Algorithm:
    """Return a function of the user's. An algorithm of the reference is a usage error."""
    if name in ALGORITHMS:
        raise click.UsageError(f"{name} is compared anyway: name only functions of your own")
    with errors_of(name):
        return load_algorithm(name)


def _with_rho(algorithm: Algorithm, rho: str | None) -> Algorithm:
    if rho is None:
        return algorithm
    if algorithm.name != "k_seq":
        raise Unsupported(f"--rho applies only to k_seq, not to {algorithm.name}")
    return replace(algorithm, verify=partial(k_seq, rho=rational(rho)))


def _law_document(algorithm: Algorithm, instance: Instance) -> dict[str, Any]:
    emitted = emission_law(algorithm, instance)
    document: dict[str, Any] = {
        "algorithm": algorithm.name,
        "lossless": is_lossless(emitted, instance),
        "expected_accepted": str(expected_accepted(emitted)),
    }
    if not document["lossless"]:
        document["wrong"] = _wrong_text(emitted, instance)
    if algorithm.stateful:
        tokens, lossless = is_lossless_over_iterations(algorithm, instance)
        document["process"] = {"tokens": tokens, "lossless": lossless}
    # What a stateful verifier leaves behind is no part of what is emitted.
    shown: Law[Emission] = emitted.map(lambda emission: replace(emission, modified=()))
    document["law"] = [
        {
            "path": emission.path,
            "accepted": list(emission.accepted),
            "next": emission.next_token,
            "probability": str(weight),
        }
        for emission, weight in shown.items()
    ]
    return document


def _wrong_text(emitted: Law[Emission], instance: Instance) -> dict[str, Any]:
    """Return the text of L + 1 tokens whose probability differs most from the target's."""
    horizon = instance.length + 1
    found, required = continued(emitted, instance, horizon), instance.target.text(horizon)
    text = max(sorted({*found, *required}), key=lambda each: abs(found[each] - required[each]))
    return {
        "text": list(text),
        "probability": str(found[text]),
        "required": str(required[text]),
    }


def _require_enumerable(algorithm: Algorithm, instance: Instance) -> None:
    """Refuse an instance with too many combinations of paths to enumerate in minutes."""
    paths = sum(len(path) == instance.length for path in instance.draft.reachable(instance.length))
    if algorithm.reads_all and paths**instance.drafts > _MOST_DRAWS:
        raise Unsupported(
            f"{algorithm.name} reads every draft in full: {paths} to the power of "
            f"{instance.drafts} combinations of paths are too many to enumerate"
        )


def _misfit(algorithm: Algorithm, instance: Instance) -> str | None:
    try:
        require_fit(algorithm, instance)
        _require_enumerable(algorithm, instance)
    except Unsupported as reason:
        return str(reason)
    return None


def _compared(
    algorithm: Algorithm, instance: Instance, optima: dict[str, Rational]
) -> dict[str, Any]:
    emitted = emission_law(algorithm, instance)
    value = expected_accepted(emitted)
    best = optima["stateful" if algorithm.stateful else "stateless"]
    return {
        "algorithm": algorithm.name,
        "stateful": algorithm.stateful,
        "lossless": is_lossless(emitted, instance),
        "expected_accepted": str(value),
        # Where nothing can be accepted, nothing is all of it.
        "share": str(value / best if best else rational(1)),
    }
