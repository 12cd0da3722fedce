"""Theorems, and their records: a proof as a JSON document that anybody can check."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from draftproof.reference.errors import InvalidInput, Unsupported
from draftproof.reference.proof.cells import SIGN_NAMES
from draftproof.reference.proof.checker import NotAProof, establish
from draftproof.reference.proof.claims import Statement, claim_named
from draftproof.reference.proof.polynomials import read, written
from draftproof.reference.proof.prover import Refutation, Unproven, Watch, find
from draftproof.reference.proof.symbols import Shape, everywhere
from draftproof.reference.proof.tree import Empty, Node, Parts, Split
from draftproof.reference.rational import rational
from draftproof.reference.verifiers import ALGORITHMS, Algorithm

FORMAT = 1


@dataclass(frozen=True)
class Theorem:
    """A claim that holds for every p and q of its shape, zeros, ties and point masses included."""

    claim: Statement
    tree: Node

    @property
    def cells(self) -> int:
        """The number of cells that the proof distinguishes, without the empty ones."""
        return _cells(self.tree, {})

    def __str__(self) -> str:
        shape = self.claim.shape
        drafted = f", {shape.scheme}" if shape.drafts > 1 else ""
        cells = f"{self.cells} cell{'s' if self.cells > 1 else ''}"
        return (
            f"{self.claim.statement} for all p and q with V={shape.vocabulary}, "
            f"L={shape.length}, K={shape.drafts}{drafted}: {cells}, each {self.claim.each}"
        )


def prove(
    algorithm: Algorithm | str,
    *,
    vocabulary: int,
    length: int,
    drafts: int = 1,
    scheme: str = "iid",
    claim: str = "lossless",
    watch: Watch | None = None,
) -> Theorem | Refutation:
    """Prove a claim about an algorithm for every p and q of a shape, or refute it.

    `claim` is one of `CLAIMS`. `watch` is called with the number of the step, before each one.
    Raises `Unproven` if neither succeeds, and `InvalidInput` for an unknown claim or shape.
    """
    shape = Shape(vocabulary, length, drafts, scheme)
    try:
        stated = claim_named(claim, algorithm, shape)
    except RecursionError:
        raise Unproven(
            f"{claim}: a polynomial of the shape has more variables than sympy can factor within "
            f"Python's limit of {sys.getrecursionlimit()} calls; a smaller shape may do"
        ) from None
    found = find(stated, watch)
    return found if isinstance(found, Refutation) else Theorem(stated, found)


def record(theorem: Theorem) -> dict[str, Any]:
    """Return the record of a theorem (`proof.schema.json`).

    Raises `Unsupported` for an algorithm outside the table of algorithms: records refer to
    algorithms by name.
    """
    claim, shape = theorem.claim, theorem.claim.shape
    if claim.algorithm not in ALGORITHMS:
        raise Unsupported(
            f"a record names its algorithm, and {claim.algorithm!r} is not in the table"
        )
    polynomials: dict[str, int] = {}
    nodes: dict[str, int] = {}
    listed: list[dict[str, Any]] = []

    def numbered(polynomial: Any) -> int:
        return polynomials.setdefault(written(polynomial), len(polynomials))

    def entered(node: Node) -> int:
        if isinstance(node, Empty):
            entry: dict[str, Any] = {
                "empty": [[str(c), [numbered(f) for f in product]] for c, product in node.terms]
            }
        elif isinstance(node, Split):
            cases = {_SIGNS_WRITTEN[signs]: entered(case) for signs, case in node.cases}
            entry = {"split": numbered(node.polynomial), "cases": cases}
        else:
            entry = {"parts": [None if c is None else entered(c) for c in node.children]}
        key = repr(entry)
        if key not in nodes:
            nodes[key] = len(listed)
            listed.append(entry)
        return nodes[key]

    entered(theorem.tree)
    return {
        "format": FORMAT,
        "claim": claim.name,
        "algorithm": claim.algorithm,
        "vocabulary": shape.vocabulary,
        "length": shape.length,
        "drafts": shape.drafts,
        "scheme": shape.scheme,
        "theorem": str(theorem),
        "polynomials": list(polynomials),
        "nodes": listed,
    }


def check(document: Any) -> Theorem:
    """Return the theorem that a record proves, after establishing it again.

    The check trusts nothing in the record: see `establish`. Raises `NotAProof` if the record is not
    a proof, or not a proof of its claim.
    """
    claim, tree = _read(document)
    establish(claim, tree)
    theorem = Theorem(claim, tree)
    if document.get("theorem") != str(theorem):
        raise NotAProof(
            f"the record claims {document.get('theorem')!r}, what it proves is {str(theorem)!r}"
        )
    return theorem


_SIGNS_WRITTEN = {signs: name for name, signs in SIGN_NAMES.items()}


def _read(document: Any) -> tuple[Statement, Node]:
    try:
        if document["format"] != FORMAT:
            raise NotAProof(f"expected a record of format {FORMAT}, got {document['format']!r}")
        shape = Shape(
            document["vocabulary"], document["length"], document["drafts"], document["scheme"]
        )
        claim = claim_named(document["claim"], document["algorithm"], shape)
        ring = everywhere(claim.shape).ring
        return claim, _tree(document["nodes"], [read(f, ring) for f in document["polynomials"]])
    except NotAProof:
        raise
    except (LookupError, TypeError, AttributeError, InvalidInput) as error:
        raise NotAProof(f"not a record of a proof: {error}") from None


def _tree(listed: list[Any], polynomials: list[Any]) -> Node:
    """Return the last node; each node refers only to earlier nodes, so there are no cycles."""
    nodes: list[Node] = []

    def earlier(number: int) -> Node:
        if not 0 <= number < len(nodes):
            raise NotAProof(f"node {len(nodes)} refers to node {number}, which is not before it")
        return nodes[number]

    for entry in listed:
        if "split" in entry:
            cases = tuple((SIGN_NAMES[name], earlier(n)) for name, n in entry["cases"].items())
            nodes.append(Split(polynomials[entry["split"]], cases))
        elif "empty" in entry:
            terms = entry["empty"]
            nodes.append(
                Empty(tuple((rational(c), tuple(polynomials[n] for n in fs)) for c, fs in terms))
            )
        else:
            nodes.append(Parts(tuple(None if n is None else earlier(n) for n in entry["parts"])))
    if not nodes:
        raise NotAProof("the record has no nodes")
    return nodes[-1]


def _cells(node: Node, counted: dict[int, int]) -> int:
    if id(node) not in counted:
        if isinstance(node, Empty):
            counted[id(node)] = 0
        elif isinstance(node, Split):
            counted[id(node)] = sum(_cells(case, counted) for _, case in node.cases)
        else:
            below = (_cells(child, counted) for child in node.children if child is not None)
            # A draw adds nothing by itself: what is split below it is split once more for each.
            counted[id(node)] = 1 + sum(max(count - 1, 0) for count in below)
    return counted[id(node)]
