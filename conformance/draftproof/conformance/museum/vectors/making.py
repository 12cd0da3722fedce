"""Vectors from the reference: its results on one input, in their written form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from draftproof.conformance.museum.vectors import errors, plan
from draftproof.conformance.museum.vectors.flags import flags_used, of_decision, of_law
from draftproof.conformance.museum.vectors.supplied import (
    Question,
    SuppliedRun,
    Verification,
    table,
)
from draftproof.reference.drafting import Drafts, FixedTree, draft_law, require_drawable
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, context_key, instance_to_json
from draftproof.reference.optimum import acceptance_rate, stateful, stateless
from draftproof.reference.process import expected_accepted
from draftproof.reference.verifiers import (
    Algorithm,
    emission_law,
    require_fit,
    verification_law,
)
from draftproof.spec import VECTOR_KINDS

FORMAT = 1
"""Version of the format; files of other versions are refused."""

Vector = dict[str, Any]


def document(kind: str, size: str, *, algorithms: Collection[str] | None = None) -> dict[str, Any]:
    """Return the file of a kind and a size; with `algorithms`, the vectors of these only."""
    vectors = [
        vector
        for vector in _KINDS[kind](size)
        if algorithms is None or vector.get("algorithm") in algorithms
    ]
    return file_of(kind, size, vectors, plan.instances())


def file_of(
    kind: str, size: str, vectors: Sequence[Vector], instances: Mapping[str, Instance]
) -> dict[str, Any]:
    """Return the document of a file of vectors, which are of these instances."""
    named = sorted({vector["instance"] for vector in vectors if type(vector["instance"]) is str})
    return {
        "format": FORMAT,
        "kind": kind,
        "size": size,
        "flags": flags_used(flag for vector in vectors for flag in vector["flags"]),
        **(
            {}
            if kind == "errors"
            else {"instances": {n: instance_to_json(instances[n]) for n in named}}
        ),
        "vectors": sorted(vectors, key=lambda vector: str(vector["id"])),
    }


def law(algorithm: Algorithm, name: str, instance: Instance) -> Vector:
    """Return the vector of an algorithm's whole law on an instance: that of every draft."""
    drawn = sorted(draft_law(instance).items())
    laws = [(drafts, verification_law(algorithm, instance, drafts)) for drafts, _ in drawn]
    required = ["law.lossless", "law.prefix", "law.reference", "law.support"]
    required.append("draft.joint" if instance.drafts > 1 else "draft.declared")
    required += ["law.state"] if algorithm.stateful else []
    return {
        "id": f"law.{algorithm.name}.{name}",
        "requirements": sorted(required),
        "flags": of_law(algorithm, instance, laws),
        "algorithm": algorithm.name,
        "instance": name,
        "drafts": [
            {
                "paths": _listed(drafts),
                "probability": str(probability),
                "law": [
                    [*emitted(emission), str(weight), *_left(emission)]
                    for emission, weight in sorted(law.items(), key=lambda pair: _order(pair[0]))
                ],
            }
            for (drafts, probability), (_, law) in zip(drawn, laws, strict=True)
        ],
    }


def decision(
    algorithm: Algorithm, name: str, instance: Instance, drafts: Drafts, runs: Sequence[SuppliedRun]
) -> Vector:
    """Return the vector of an algorithm's runs on one draft."""
    tokens = "_".join("-".join(map(str, path)) for path in drafts)
    return {
        "id": f"decision.{algorithm.name}.{name}.{tokens}",
        "requirements": ["law.reference", "random.boundary", "random.calls"],
        "flags": of_decision(algorithm, instance, drafts, runs),
        "algorithm": algorithm.name,
        "instance": name,
        "paths": _listed(drafts),
        "runs": [
            {
                "numbers": [str(number) for number in run.numbers],
                "asked": [_asked(question) for question in run.asked],
                "emits": emitted(run.emission),
            }
            for run in runs
        ],
    }


def value(algorithm: Algorithm, name: str, instance: Instance) -> Vector:
    """Return the vector of an algorithm's E[accepted length] on an instance."""
    return {
        "id": f"value.{algorithm.name}.{name}",
        "requirements": ["length.expected"],
        "flags": ["length"],
        "algorithm": algorithm.name,
        "instance": name,
        "expected_accepted": str(expected_accepted(emission_law(algorithm, instance))),
    }


def optimum(name: str, instance: Instance) -> Vector:
    """Return the vector of the certified optima on an instance."""
    return {
        "id": f"value.{plan.OPTIMUM}.{name}",
        "requirements": ["length.bounded", "length.optimal"],
        "flags": ["length"],
        "instance": name,
        "optimum": optima(instance),
    }


def optima(instance: Instance) -> dict[str, Any]:
    """Return the certified optima on an instance, as `optimum.schema.json` has them."""
    rate = {"acceptance_rate": acceptance_rate(instance).to_json()} if instance.length == 1 else {}
    lengths = {"stateless": stateless(instance), "stateful": stateful(instance)}
    return {**rate, **{kind: found.to_json() for kind, found in lengths.items()}}


def verification(algorithm: Algorithm, instance: Instance, drafts: Drafts) -> Verification:
    """Return the algorithm's text on these drafts, as a function that asks a `Chance`.

    Raises `Unsupported` and `WrongShape` as `verification_law` does.
    """
    require_fit(algorithm, instance)
    require_drawable(drafts, instance)
    tree = FixedTree(drafts, instance)
    return lambda chance: algorithm.verify(tree, instance, chance)


def emitted(emission: Emission) -> list[int]:
    """Return the visible part of an emission: path, accepted length, next token."""
    return [emission.path, len(emission.accepted), emission.next_token]


# --- the kinds -------------------------------------------------------------------------------


def _laws(size: str) -> Iterator[Vector]:
    return starmap(law, plan.entries("laws", size))


def _decisions(size: str) -> Iterator[Vector]:
    for algorithm, name, instance in plan.entries("decisions", size):
        shapes: set[frozenset[Any]] = set()
        for drafts in sorted(draft_law(instance)):
            runs = table(verification(algorithm, instance, drafts))
            shape = frozenset(_shape(run) for run in runs)
            # A draft on which the same happens as on one before, with other numbers, is no news.
            if shape not in shapes:
                yield decision(algorithm, name, instance, drafts, runs)
            shapes.add(shape)


def _values(size: str) -> Iterator[Vector]:
    yield from starmap(value, plan.entries("values", size))
    yield from starmap(optimum, plan.optima(size))


_KINDS: Mapping[str, Callable[[str], Iterator[Vector]]] = dict(
    zip(VECTOR_KINDS, (_laws, _decisions, _values, errors.vectors), strict=True)
)


def _shape(run: SuppliedRun) -> tuple[Any, ...]:
    """Return the key that a run shares with runs of the same course: its answers, and its end."""
    cells = tuple((question.coin, len([*question.cells()])) for question in run.asked)
    return cells, run.emission.path, len(run.emission.accepted)


# --- how things are written ------------------------------------------------------------------


def _asked(question: Question) -> list[str]:
    kind = "coin" if question.coin else "draw"
    return [kind, *(str(edge) for edge in question.thresholds)]


def _left(emission: Emission) -> list[Any]:
    """Return the modified rows that an emission leaves, in a list; an empty list for none."""
    rows = {context_key(z): [str(weight) for weight in row] for z, row in emission.modified}
    return [rows] if rows else []


def _order(emission: Emission) -> tuple[Any, ...]:
    return (emission.path, len(emission.accepted), emission.next_token, emission.modified)


def _listed(drafts: Drafts) -> list[list[int]]:
    return [list(path) for path in drafts]
