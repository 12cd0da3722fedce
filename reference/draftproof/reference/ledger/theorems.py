"""Theorems for all p and q of a shape, proved by running the verifiers' text on symbols.

Deriving such a claim again proves it again, writes the proof's record and checks the record. Larger
shapes take minutes: `draftproof prove` proves them.

Some of these shapes are within a mechanised claim. They are not corollaries of that claim: the
proofs here are about the reference's own text, the mechanised theorem is about a program in Coq
that was checked by reading and by tests to say the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from draftproof.reference.ledger.claim import Claim, Derivation, Scope, Verdict, by_figures
from draftproof.reference.model import Instance
from draftproof.reference.proof import Refutation, Theorem, check, prove, record

WOR = "without_replacement"
THEOREMS = (
    ("token", "token", "lossless", 2, 2, 1, "iid"),
    ("block", "block", "lossless", 2, 2, 1, "iid"),
    ("block.three_tokens", "block", "lossless", 3, 1, 1, "iid"),
    ("greedy_block", "greedy_block", "lossless", 3, 1, 1, "iid"),
    ("greedy_block.twice", "greedy_block", "lossless_twice", 2, 1, 1, "iid"),
    ("rejection", "recursive_rejection", "lossless", 3, 1, 2, "iid"),
    ("rejection.three_drafts", "recursive_rejection", "lossless", 2, 1, 3, "iid"),
    ("rejection.tree", "recursive_rejection", "lossless", 2, 2, 2, "iid"),
    ("rejection.without_replacement", "recursive_rejection", "lossless", 3, 1, 2, WOR),
    ("rejection.below_k_seq", "recursive_rejection", "at_most_k_seq", 2, 1, 2, "iid"),
    ("spechub", "spechub", "lossless", 2, 1, 2, "hub"),
    ("spechub.optimal", "spechub", "optimal", 2, 1, 2, "hub"),
    ("greedy_draft", "greedy_draft", "lossless", 3, 1, 3, "greedy"),
    ("greedy_draft.optimal", "greedy_draft", "optimal", 2, 1, 2, "greedy"),
    ("multipath", "multipath_block", "lossless", 2, 1, 2, "iid"),
    ("multipath.three_drafts", "multipath_block", "lossless", 2, 1, 3, "iid"),
    ("scored", "scored_multipath_block", "lossless", 2, 1, 2, "iid"),
    ("scored.three_drafts", "scored_multipath_block", "lossless", 2, 1, 3, "iid"),
    ("scored.optimal", "scored_multipath_block", "optimal", 2, 1, 2, "iid"),
)

EVERYWHERE = Scope(
    "the whole space of p and q, cell by cell: zeros, ties and point masses included", tuple
)
_MEANT = {
    "lossless": "is lossless",
    "lossless_twice": "is lossless over two iterations, with the modified target in between",
    "at_most_k_seq": "accepts no more than K-SEQ at its least factor",
    "optimal": "reaches the optimum of its own draft law",
}


@dataclass(frozen=True, kw_only=True)
class ClaimOfAll(Claim):
    """A claim about all p and q of a shape, which is proved instead of examined."""

    refuted: Callable[[Instance], None] = by_figures
    prove: Callable[[], Theorem | Refutation]

    @property
    def stated(self) -> str:
        """Return the statement, which names its shape."""
        return self.statement

    @property
    def evidence(self) -> Verdict:
        """Return the verdict: the proof is for one shape, and rests on no other claim."""
        return Verdict.REFUTED if self.recorded.counterexample else Verdict.PROVED

    def derive(self) -> Derivation:
        """Prove the claim and check the record of the proof."""
        found = self.prove()
        if isinstance(found, Refutation):
            return Derivation(1, {}, found.instance)
        check(record(found))
        return Derivation(1)


CLAIMS = tuple(
    ClaimOfAll(
        id=f"theorem.{name}",
        statement=f"""{algorithm} {_MEANT[claim]}, for all p and q with V = {V}, L = {L}, K = {K},
        {scheme}.""",
        source="draftproof",
        shape=f"V = {V}, L = {L}, K = {K}; {scheme}",
        examined=EVERYWHERE,
        proof=f"""In every cell it is an identity or an inequality: draftproof prove {algorithm}
        --claim {claim} --vocabulary {V} --length {L} --drafts {K} --scheme {scheme}.""",
        prove=partial(
            prove, algorithm, claim=claim, vocabulary=V, length=L, drafts=K, scheme=scheme
        ),
        recorded=Derivation(1),
    )
    for name, algorithm, claim, V, L, K, scheme in THEOREMS
)
