"""Checks of vectors: read, validated against their schema, and recomputed.

Everything in a vector follows from its inputs, so the comparison is exact. Only the certificates of
optima are checked, by sums, instead of compared: a different certificate proves as much.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from draftproof.conformance.cases.enumerable import require_enumerable
from draftproof.conformance.evidence.records import differences
from draftproof.conformance.museum.vectors import errors, making
from draftproof.conformance.museum.vectors.supplied import OutOfNumbers, run_on
from draftproof.conformance.museum.vectors.written import canonical
from draftproof.reference.drafting import sibling_law
from draftproof.reference.errors import InvalidInput
from draftproof.reference.model import Instance, context_from_key, instance_from_json
from draftproof.reference.model import Path as Context
from draftproof.reference.optimum import LengthOptimum, NotOptimal, check
from draftproof.reference.optimum.acceptance_rate import AcceptanceRate
from draftproof.reference.optimum.acceptance_rate import check as check_rate
from draftproof.reference.optimum.stateful import StatefulOptimum
from draftproof.reference.optimum.stateless import StatelessOptimum
from draftproof.reference.rational import Rational, rational
from draftproof.reference.verifiers import algorithm_named
from draftproof.spec import MalformedDocument, content_of, parsed, validate

_OPTIMA: Mapping[str, type[LengthOptimum]] = {
    "stateless": StatelessOptimum,
    "stateful": StatefulOptimum,
}


class VectorsError(ValueError):
    """Error of unreliable vectors; the message says which vector, where and why."""


class UnreadableVectors(VectorsError):
    """Error of a file that is not JSON, or cannot be read."""


class MalformedVectors(VectorsError):
    """Error of a file that breaks its schema, or whose parts do not fit together."""


class WrongVectors(VectorsError):
    """Error of a vector that contradicts the reference."""


def read(path: Path) -> dict[str, Any]:
    """Return the document in a file. Raises `UnreadableVectors` or `MalformedVectors`."""
    try:
        document = parsed(content_of(path))
    except OSError as error:
        raise UnreadableVectors(f"cannot read {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableVectors(f"{path} is not UTF-8 text") from None
    except MalformedDocument as error:
        raise UnreadableVectors(f"{path}: {error}") from None
    try:
        validate(document, "vectors")
    except MalformedDocument as error:
        raise MalformedVectors(f"{path}: {shorten(str(error), 400)}") from None
    _require_whole(document, str(path))
    return document  # type: ignore[no-any-return]  # the schema says what it is


def instances_of(document: Mapping[str, Any]) -> dict[str, Instance]:
    """Return the instances of a file by name. Raises `MalformedVectors`."""
    found = {}
    for name, instance in document.get("instances", {}).items():
        try:
            found[name] = instance_from_json(instance)
            require_enumerable(found[name])
        except InvalidInput as error:
            raise MalformedVectors(f"instance {name!r}: {error}") from None
    return found


def require_right(document: Mapping[str, Any], name: str) -> None:
    """Recompute every vector of a file that was read, in the order of their ids.

    Raises `WrongVectors` for the first that the reference does not confirm, `MalformedVectors` for
    an invalid instance.
    """
    try:
        instances = instances_of(document)
    except MalformedVectors as error:
        raise MalformedVectors(f"{name}: {error}") from None
    said = canonical(document)
    vectors = []
    for vector in said["vectors"]:
        identity = vector["id"]
        try:
            again = canonical(_again(said["kind"], vector, instances))
        except (InvalidInput, NotOptimal, OutOfNumbers, ValueError) as error:
            raise WrongVectors(f"{name}: {identity}: {error}") from None
        # What is said of the input comes before what is said of the vector.
        for said_of_it, says in ((_bare(vector), _bare(again)), (vector, again)):
            _require_same(said_of_it, says, f"{name}: {identity}")
        vectors.append(again)
    whole = making.file_of(said["kind"], said["size"], vectors, instances)
    _require_same(said["flags"], canonical(whole["flags"]), f"{name}: flags")


# --- what is read ------------------------------------------------------------------------------


def _require_whole(document: Mapping[str, Any], name: str) -> None:
    """Refuse an id that comes twice, missing instances, and instances without a vector."""
    for identity, times in Counter(vector["id"] for vector in document["vectors"]).items():
        if times > 1:
            raise MalformedVectors(f"{name}: the id {identity!r} appears {times} times")
    if document["kind"] == "errors":
        return
    for vector in document["vectors"]:
        if (instance := vector["instance"]) not in document["instances"]:
            raise MalformedVectors(f"{name}: {vector['id']}: there is no instance {instance!r}")
    named = {vector["instance"] for vector in document["vectors"]}
    for instance in document["instances"]:
        if instance not in named:
            raise MalformedVectors(f"{name}: no vector is of the instance {instance!r}")


# --- what is computed again --------------------------------------------------------------------


def _again(
    kind: str, vector: Mapping[str, Any], instances: Mapping[str, Instance]
) -> making.Vector:
    """Return the reference's results for the input of a vector."""
    name = vector["instance"]
    if kind == "errors":
        return errors.error(vector["id"], vector["kind"], name, vector["paths"])
    instance = instances[name]
    if "algorithm" not in vector:
        return _optimum(vector, instance)
    algorithm = algorithm_named(vector["algorithm"])
    if kind != "decisions":
        make = making.law if kind == "laws" else making.value
        return make(algorithm, name, instance)
    drafts = tuple(map(tuple, vector["paths"]))
    text = making.verification(algorithm, instance, drafts)
    runs = [run_on(text, tuple(map(rational, run["numbers"]))) for run in vector["runs"]]
    return making.decision(algorithm, name, instance, drafts, runs)


def _optimum(vector: Mapping[str, Any], instance: Instance) -> making.Vector:
    again = making.optimum(vector["instance"], instance)
    for kind, found in again["optimum"].items():
        said = vector["optimum"].get(kind)
        if said is not None and said["value"] == found["value"]:
            _require_proof(kind, said, instance)
            found["certificate"] = said["certificate"]
    return again


def _require_proof(kind: str, said: Mapping[str, Any], instance: Instance) -> None:
    """Raise `NotOptimal` unless the certificate proves the value."""
    value, certificate = rational(said["value"]), said["certificate"]
    if kind == "acceptance_rate":
        coupling = {
            (each["token"], tuple(each["drafts"])): rational(each["mass"])
            for each in certificate["coupling"]
        }
        rate = AcceptanceRate(value, coupling, frozenset(certificate["capped"]))
        drafted = sibling_law(instance.scheme, instance.draft(()), instance.drafts)
        check_rate(rate, instance.target(()), drafted)
        return

    def table(name: str) -> dict[Context, Rational]:
        return {context_from_key(key): rational(each) for key, each in certificate[name].items()}

    selection = tuple(
        (rational(each["weight"]), tuple(map(context_from_key, each["order"])))
        for each in certificate["selection"]
    )
    tables = (table("budget"), table("target_price"), table("draft_price"))
    check(_OPTIMA[kind](value, *tables, selection), instance)


def _bare(vector: Mapping[str, Any]) -> making.Vector:
    return {key: each for key, each in vector.items() if key not in ("requirements", "flags")}


def _require_same(said: Any, again: Any, where: str) -> None:
    for place, given, right in differences(said, again):
        at = f"{where}: {place}" if place else where
        given, right = (shorten(json.dumps(each), 200) for each in (given, right))
        raise WrongVectors(f"{at} is {given}, the reference says {right}")
