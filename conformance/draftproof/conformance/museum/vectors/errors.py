"""Vectors of input that breaks the contract: instances with one fault, and drafted paths.

They are written raw, since most are not valid instances: NaN and infinities are the strings of the
harness protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from draftproof.conformance.museum.vectors import plan
from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.errors import InvalidInput
from draftproof.reference.model import Instance, context_key, instance_from_json, instance_to_json
from draftproof.reference.verifiers import algorithm_named, verification_law

REFUSED = "error"
"""Expected result for input that must cause an error."""

REFUSED_OR_SAID = "error or a token of the target"
"""Expected result for input that may cause an error or any emission that the target can write."""

_CASES = {
    "tiny": ("generic.v2.l1",),
    "small": ("generic.v2.l2", "several.iid.v2.l1.k2"),
    "standard": ("several.without_replacement.v3.l1.k2",),
}

_UNDRAFTED = {"small": ("zeros.draft", "zeros.same")}

_ROWS = {
    "nan": ("nan", ("NaN", "0")),
    "negative": ("negative", ("-1/2", "3/2")),
    "infinite": ("unnormalised", ("Infinity", "0")),
    "sum-below-one": ("unnormalised", ("1/4", "1/4")),
    "sum-above-one": ("unnormalised", ("1", "1")),
}
"""First entries of a row with one fault, and the kind of the fault; other entries are 0."""


def vectors(size: str) -> Iterator[dict[str, Any]]:
    """Yield the errors of a size."""
    for name in _CASES[size]:
        given = plan.instances()[name]
        paths, *_ = sorted(draft_law(given))
        yield from _of_rows(name, given, paths)
        yield from _of_shape(name, given, paths)
        yield from _of_tokens(name, given, paths)
    for name in _UNDRAFTED.get(size, ()):
        yield from _undrafted(name, plan.instances()[name])


def error(
    identity: str, kind: str, instance: dict[str, Any], drafts: Sequence[Sequence[int]]
) -> dict[str, Any]:
    """Return the vector of an invalid input, with the reference's answer.

    Raises `ValueError` for input that the reference accepts.
    """
    undrafted = kind == "undrafted"
    return {
        "id": identity,
        "requirements": ["input.undrafted" if undrafted else "input.rejected"],
        "flags": ["undrafted" if undrafted else "invalid"],
        "kind": kind,
        "instance": instance,
        "paths": [list(path) for path in drafts],
        "expected": REFUSED_OR_SAID if undrafted else REFUSED,
        "reason": refusal(instance, drafts),
    }


def refusal(instance: dict[str, Any], drafts: Sequence[Sequence[int]]) -> str:
    """Return the reference's answer to invalid input.

    Raises `ValueError` for input that the reference accepts.
    """
    try:
        # Of all the reference's verifiers it is the one that takes every scheme and every K.
        taken = instance_from_json(instance)
        verification_law(algorithm_named("target_first"), taken, tuple(map(tuple, drafts)))
    except InvalidInput as refused:
        return str(refused)
    raise ValueError("the reference takes this input")


def _of_rows(name: str, given: Instance, drafts: Drafts) -> Iterator[dict[str, Any]]:
    """Yield an error for every fault of one row along the first path, at every position."""
    for model, depth in (("draft", given.length), ("target", given.length + 1)):
        for position in range(depth):
            key = context_key(drafts[0][:position])
            place = f"{name}.{model}.position-{position}"
            for fault, (kind, entries) in _ROWS.items():
                row = [*entries, *["0"] * (given.vocabulary - len(entries))]
                changed = _with_row(given, model, key, row)
                yield error(f"error.{fault}.{place}", kind, changed, drafts)
            row = instance_to_json(given)[model][key]
            for fault, other in (("row-too-short", row[:-1]), ("row-too-long", [*row, "0"])):
                changed = _with_row(given, model, key, other)
                yield error(f"error.{fault}.{place}", "shape", changed, drafts)
            missing = instance_to_json(given)
            del missing[model][key]
            yield error(f"error.row-missing.{place}", "shape", missing, drafts)


def _of_shape(name: str, given: Instance, drafts: Drafts) -> Iterator[dict[str, Any]]:
    first, *others = drafts
    for fault, paths in (
        ("path-too-short", (first[:-1], *others)),
        ("path-too-long", ((*first, 0), *others)),
        ("path-missing", tuple(others)),
        ("path-too-many", (first, *drafts)),
    ):
        yield error(f"error.{fault}.{name}", "shape", instance_to_json(given), paths)


def _of_tokens(name: str, given: Instance, drafts: Drafts) -> Iterator[dict[str, Any]]:
    """Yield an error for a token below and beyond the vocabulary, wherever one is drafted."""
    for fault, token in (("token-negative", -1), ("token-too-large", given.vocabulary)):
        for path, position in product(range(len(drafts)), range(given.length)):
            paths = [list(each) for each in drafts]
            paths[path][position] = token
            place = f"{name}.path-{path}.position-{position}"
            yield error(f"error.{fault}.{place}", "token", instance_to_json(given), paths)


def _undrafted(name: str, given: Instance) -> Iterator[dict[str, Any]]:
    """Yield, for every position, the first path whose token there has no probability.

    It yields two paths if both kinds exist: a token that the target can write, and one that it
    cannot.
    """
    for position in range(given.length):
        found: dict[bool, Drafts] = {}
        for path in product(range(given.vocabulary), repeat=given.length):
            if given.draft.joint(path[:position]) != 0 == given.draft.joint(path[: position + 1]):
                said = given.target(path[:position])[path[position]] != 0
                found.setdefault(said, (path,))
        for said, drafts in found.items():
            identity = f"error.undrafted-{'said' if said else 'unsaid'}.{name}.position-{position}"
            yield error(identity, "undrafted", instance_to_json(given), drafts)


def _with_row(given: Instance, model: str, key: str, row: Sequence[str]) -> dict[str, Any]:
    changed = instance_to_json(given)
    changed[model][key] = list(row)
    return changed
