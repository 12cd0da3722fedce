from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from operator import add, le, lt, mul, sub, truediv
from typing import Any

import pytest

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings, single_path
from draftproof.reference.emission import Emission, emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.process import continued
from draftproof.reference.proof import (
    NotAProof,
    Refutation,
    Theorem,
    Unproven,
    check,
    establish,
    prove,
    record,
)
from draftproof.reference.proof.claims import claim_named
from draftproof.reference.proof.symbols import (
    KeptBetweenRuns,
    Shape,
    everywhere,
    symbolic_instance,
)
from draftproof.reference.proof.tree import Parts
from draftproof.reference.rational import ONE, ratio_or_one, total
from draftproof.reference.rows import excess, normalised
from draftproof.reference.verifiers import (
    ALGORITHMS,
    Algorithm,
    Verifier,
    emission_law,
)
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.multipath_block import by_ratio, multipath_block


def proven(algorithm: Algorithm | str, vocabulary: int, length: int, **options: Any) -> Theorem:
    """Prove, write the record down, read it again, establish it."""
    theorem = prove(algorithm, vocabulary=vocabulary, length=length, **options)
    assert isinstance(theorem, Theorem), theorem
    document = json.loads(json.dumps(record(theorem)))
    assert str(check(document)) == str(theorem)
    return theorem


def refuted(
    verify: Verifier, like: str, vocabulary: int, length: int, **options: Any
) -> Refutation:
    """Refute a verifier, and look at the counterexample with the laws of the reference."""
    wrong = replace(ALGORITHMS[like], name="wrong", verify=verify)
    found = prove(wrong, vocabulary=vocabulary, length=length, **options)
    assert isinstance(found, Refutation), found
    text = continued(emission_law(wrong, found.instance), found.instance, length + 1)
    assert text[found.outcome] == found.observed
    assert found.instance.target.text(length + 1)[found.outcome] == found.required
    assert found.observed != found.required
    return found


@pytest.mark.parametrize(
    ("algorithm", "vocabulary", "length", "options"),
    [
        ("token", 2, 1, {}),
        ("token", 2, 2, {}),
        ("token", 3, 1, {}),
        ("block", 2, 2, {}),
        ("block", 3, 1, {}),
        ("greedy_block", 2, 1, {}),
        ("greedy_block", 2, 1, {"claim": "lossless_twice"}),
        ("recursive_rejection", 2, 1, {"drafts": 2}),
        ("recursive_rejection", 2, 1, {"drafts": 3}),
        ("recursive_rejection", 2, 1, {"drafts": 2, "scheme": "without_replacement"}),
        ("spechub", 2, 1, {"drafts": 2, "scheme": "hub"}),
        ("greedy_draft", 2, 1, {"drafts": 2, "scheme": "greedy"}),
        ("multipath_block", 2, 1, {"drafts": 2}),
        ("mixed_multipath_block", 2, 1, {"drafts": 2}),
        ("scored_multipath_block", 2, 1, {"drafts": 2}),
        ("k_seq", 2, 1, {"drafts": 2, "claim": "lossless_at_every_rho"}),
    ],
)
def test_what_is_lossless_for_all_p_and_q(
    algorithm: str, vocabulary: int, length: int, options: dict[str, Any]
) -> None:
    theorem = proven(algorithm, vocabulary, length, **options)
    assert f"for all p and q with V={vocabulary}, L={length}, K=" in str(theorem)
    assert str(theorem).endswith("each an identity")


@pytest.mark.parametrize(
    ("claim", "algorithm", "options"),
    [
        ("at_most_k_seq", "recursive_rejection", {"drafts": 2}),
        ("optimal", "spechub", {"drafts": 2, "scheme": "hub"}),
        ("optimal", "greedy_draft", {"drafts": 2, "scheme": "greedy"}),
        ("optimal", "scored_multipath_block", {"drafts": 2}),
        ("at_least_token", "block", {}),
    ],
)
def test_what_is_accepted_for_all_p_and_q(
    claim: str, algorithm: str, options: dict[str, Any]
) -> None:
    proven(algorithm, 2, 1, claim=claim, **options)


def test_an_inequality_that_is_false_has_a_counterexample() -> None:
    found = prove("recursive_rejection", vocabulary=2, length=1, drafts=2, claim="optimal")
    assert isinstance(found, Refutation)
    assert found.required is not None
    assert found.observed is not None
    assert found.observed > found.required


def corrected_from_the_target(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        (drafted,) = siblings
        if chance.coin(min(ONE, p[drafted] / q[drafted])):
            return drafted, True
        return chance.draw(p), False

    return descend(rule, drafts, instance, chance)


def skipping_duplicates(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        for token in dict.fromkeys(siblings):
            if chance.coin(min(ONE, p[token] / q[token])):
                return token, True
            p = normalised(excess(p, q))
        return chance.draw(p), False

    return descend(rule, drafts, instance, chance)


def blockwise_tokens(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Block verification that computes its tests without the weight of the prefix."""
    path, target, draft = single_path(drafts), instance.target, instance.draft
    weight = [ONE]
    for i, drafted in enumerate(path):
        weight.append(min(ONE, weight[i] * target(path[:i])[drafted] / draft(path[:i])[drafted]))

    def passes(i: int) -> bool:
        if i == len(path):
            return chance.coin(weight[i])
        mass = total(excess(target(path[:i]), draft(path[:i])))
        return chance.coin(ratio_or_one(mass, mass + 1 - weight[i]))

    accepted = next((i for i in range(len(path), 0, -1) if passes(i)), 0)
    z = path[:accepted]
    law = target(z) if accepted == len(path) else excess(target(z), draft(z), weight[accepted])
    return emission(drafts, z, chance.draw(law if any(law) else target(z)))


def first_of_equals(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Multi-path block verification that ranks equals by token id, and selects the first drafted.

    It is wrong only where two ratios tie.
    """

    class Selected:
        def siblings(self, node: Path) -> Siblings:
            p, q = instance.target(node), instance.draft(node)
            return (max(drafts.siblings(node), key=lambda t: p[t] / q[t]),)

        def first(self, node: Path) -> int:
            return drafts.first(node)

        def paths(self) -> tuple[Path, ...]:
            return drafts.paths()

    return multipath_block(Selected(), instance, chance, order=by_ratio)


def test_a_correction_from_the_target_is_refuted() -> None:
    refuted(corrected_from_the_target, "token", 2, 1)


def test_a_block_blockwise_tokens_is_refuted() -> None:
    refuted(blockwise_tokens, "block", 2, 2)


def test_an_error_that_lives_on_ties_alone_is_refuted() -> None:
    found = refuted(first_of_equals, "multipath_block", 2, 1, drafts=2)
    p, q = found.instance.target(()), found.instance.draft(())
    assert p[0] / q[0] == p[1] / q[1]


@pytest.mark.parametrize(
    ("algorithm", "wrong", "length", "drafts"),
    [
        ("token", corrected_from_the_target, 1, 1),
        ("block", blockwise_tokens, 2, 1),
        ("multipath_block", first_of_equals, 1, 2),
    ],
)
def test_a_proof_of_the_right_text_is_none_of_a_wrong_one(
    algorithm: str, wrong: Verifier, length: int, drafts: int
) -> None:
    theorem = prove(algorithm, vocabulary=2, length=length, drafts=drafts)
    assert isinstance(theorem, Theorem)
    like = replace(ALGORITHMS[algorithm], name="wrong", verify=wrong)
    with pytest.raises(NotAProof):
        establish(claim_named("lossless", like, theorem.claim.shape), theorem.tree)


def test_skipping_duplicates_shows_from_three_tokens_on() -> None:
    skipping = replace(
        ALGORITHMS["recursive_rejection"], name="skipping", verify=skipping_duplicates
    )
    assert isinstance(prove(skipping, vocabulary=2, length=1, drafts=2), Theorem)
    refuted(skipping_duplicates, "recursive_rejection", 3, 1, drafts=2)


def test_a_draw_from_what_is_no_law_is_refuted() -> None:
    def overdrawn(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
            if chance.coin(p[siblings[0]] / q[siblings[0]]):
                return siblings[0], True
            return chance.draw(excess(p, q)), False

        return descend(rule, drafts, instance, chance)

    wrong = replace(ALGORITHMS["token"], name="overdrawn", verify=overdrawn)
    found = prove(wrong, vocabulary=2, length=1)
    assert isinstance(found, Refutation)
    assert "must lie in 0..1" in str(found)


def test_progress_is_told() -> None:
    seen: list[int] = []
    prove("token", vocabulary=2, length=1, watch=seen.append)
    assert seen == list(range(1, len(seen) + 1))
    assert seen


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    theorem = prove("multipath_block", vocabulary=2, length=1, drafts=2)
    assert isinstance(theorem, Theorem)
    return record(theorem)


def test_a_record_says_what_it_proves(document: dict[str, Any]) -> None:
    assert str(check(document)) == document["theorem"]


def test_a_proof_is_not_checked_by_a_solver(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    check(document)


def altered(document: dict[str, Any], kind: str) -> Sequence[dict[str, Any]]:
    """Return records that differ from a sound one in one node of the kind.

    A cell whose facts contradict each other outright needs no certificate, so none can be wrong.
    """
    found: list[dict[str, Any]] = []
    for number, node in enumerate(document["nodes"]):
        if node.get(kind, []) != [] or kind == "parts" in node:
            wrong = copy.deepcopy(document)
            found.append(wrong)
            _alter(wrong["nodes"][number], kind)
    assert found
    return found


def _alter(node: dict[str, Any], kind: str) -> None:
    if kind == "split":  # a cell is removed
        del node["cases"][next(iter(node["cases"]))]
    elif kind == "empty":  # a certificate no longer adds up
        node["empty"].pop()
    else:  # a part of a run is left out
        node["parts"] = [None, *node["parts"]]


@pytest.mark.parametrize("kind", ["split", "empty", "parts"])
def test_a_record_with_one_node_altered_proves_nothing(document: dict[str, Any], kind: str) -> None:
    for wrong in altered(document, kind):
        with pytest.raises(NotAProof):
            check(wrong)


def test_flipped_decisions_prove_nothing(document: dict[str, Any]) -> None:
    flips = {"<0": ">0", ">0": "<0", "<=0": ">=0", ">=0": "<=0"}
    wrong = copy.deepcopy(document)
    for node in wrong["nodes"]:
        if "cases" in node:
            node["cases"] = {flips.get(name, name): n for name, n in node["cases"].items()}
    with pytest.raises(NotAProof):
        check(wrong)


def test_another_polynomial_proves_nothing(document: dict[str, Any]) -> None:
    wrong = copy.deepcopy(document)
    wrong["polynomials"] = ["p(0)" for _ in wrong["polynomials"]]
    with pytest.raises(NotAProof):
        check(wrong)


def test_a_proof_of_one_algorithm_is_none_of_another(document: dict[str, Any]) -> None:
    with pytest.raises(NotAProof):
        check({**document, "algorithm": "recursive_rejection"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "expected a record of format 1, got 2"),
        ({"claim": "nice"}, "unknown claim 'nice'; known: lossless, "),
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"polynomials": ["p(0) +"]}, "expected a sum of terms"),
        ({"polynomials": ["r(0)"]}, "unknown symbol 'r\\(0\\)'"),
        ({"nodes": []}, "the record has no nodes"),
        ({"nodes": [{"parts": [0]}]}, "node 0 refers to node 0, which is not before it"),
        ({"nodes": 3}, "not a record of a proof"),
        (
            {"theorem": "P = NP"},
            "the record claims 'P = NP', what it proves is",
        ),
    ],
)
def test_what_is_no_record_is_refused(
    document: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(NotAProof, match=message):
        check({**document, **change})


def test_a_missing_split_is_named() -> None:
    theorem = prove("token", vocabulary=2, length=1)
    assert isinstance(theorem, Theorem)
    ends = Parts((Parts(), Parts()))
    with pytest.raises(NotAProof, match=re.escape("the sign of p(0) - q(0) in a cell")):
        establish(theorem.claim, Parts((Parts((ends, ends)),)))


def test_a_cache_gives_no_cell_what_it_found_from_the_facts_of_another() -> None:
    @lru_cache
    def kept(p: Row, q: Row) -> tuple[Row, Row]:
        # Which of two numbers is the smaller is a fact of the cell, and p and q are not.
        return tuple(map(min, p, q)), excess(p, q)

    def cached(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
            (drafted,) = siblings
            shared, residual = kept(p, q)
            if chance.coin(shared[drafted] / q[drafted]):
                return drafted, True
            return chance.draw(residual), False

        return descend(rule, drafts, instance, chance)

    theorem = prove(replace(ALGORITHMS["token"], verify=cached), vocabulary=2, length=1)
    assert isinstance(theorem, Theorem), theorem
    check(record(theorem))


def test_what_keeps_numbers_from_one_run_to_the_next_is_refused() -> None:
    seen: list[Row] = []

    def stale(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        seen.append(instance.target(()))
        path = single_path(drafts)
        accepted = chance.coin(min(ONE, seen[0][path[0]] / instance.draft(())[path[0]]))
        return emission(drafts, path if accepted else (), chance.draw(instance.target(path)))

    with pytest.raises(Unsupported, match="stale keeps numbers from one run to the next"):
        prove(replace(ALGORITHMS["token"], name="stale", verify=stale), vocabulary=2, length=1)


def test_a_number_that_was_kept_does_not_answer_by_the_facts_of_its_own_cell() -> None:
    seen: list[Row] = []

    def stale(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        seen.append(instance.target(()))
        path = single_path(drafts) if seen[0][0] > 0 else ()
        return emission(drafts, (), chance.draw(instance.target(path)))

    with pytest.raises(Unsupported, match="stale keeps numbers from one run to the next"):
        prove(replace(ALGORITHMS["token"], name="stale", verify=stale), vocabulary=2, length=1)


def test_numbers_of_two_cells_are_not_equal_and_do_not_meet() -> None:
    shape = Shape(2, 1, depth=1)
    (one, _), (other, _) = (symbolic_instance(shape, everywhere(shape)) for _ in range(2))
    assert one.target(()) != other.target(())
    assert one != other
    assert one == replace(one)
    for operation in (add, sub, mul, truediv, lt, le):
        with pytest.raises(KeptBetweenRuns, match="a number of one cell is used in another"):
            operation(one.target(())[0], other.target(())[0])


def test_a_tree_that_is_too_deep_for_python_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deep(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("draftproof.reference.proof.prover._Prover.cover", deep)
    with pytest.raises(Unproven, match=rf"Python's limit of {sys.getrecursionlimit()} calls"):
        prove("token", vocabulary=2, length=1)


def test_what_computes_with_numbers_only_is_refused() -> None:
    with pytest.raises(Unsupported, match="optimal_transport cannot run on symbols: "):
        prove("optimal_transport", vocabulary=2, length=1, drafts=2)


def test_one_token_is_a_law_by_itself() -> None:
    proven("token", 1, 1)


def test_a_record_names_its_algorithm() -> None:
    own = replace(ALGORITHMS["token"], name="own")
    theorem = prove(own, vocabulary=2, length=1)
    assert isinstance(theorem, Theorem)
    with pytest.raises(Unsupported, match="a record names its algorithm, and 'own' is not"):
        record(theorem)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"claim": "nice"}, "unknown claim 'nice'"),
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"drafts": 2}, "token verifies at most 1 path, got 2"),
        ({"claim": "optimal"}, "the claim 'optimal' is about a draft of 1 token, got 2"),
        (
            {"claim": "lossless_at_every_rho", "length": 1},
            "only k_seq has a rho, got token",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        prove(**{"algorithm": "token", "vocabulary": 2, "length": 2, **options})
