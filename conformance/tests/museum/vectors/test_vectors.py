"""The vectors are the reference's, and no wrong verifier that one can see meets them all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from draftproof.conformance.lanes.exact import exact_law
from draftproof.conformance.lanes.exchange import Failure, Outcome, request
from draftproof.conformance.lanes.observe import BLINDNESS, EXACT, as_observed, joint_laws
from draftproof.conformance.museum.mutants import EXHIBITS, MUTANTS, Mutant
from draftproof.conformance.museum.mutants.drafting import Drafting, DraftingSeveral
from draftproof.conformance.museum.mutants.texts import Recursive
from draftproof.conformance.museum.mutants.trees import Tree
from draftproof.conformance.museum.mutants.verifiers import (
    Block,
    Checked,
    GreedyBlock,
    Token,
    reached,
)
from draftproof.conformance.museum.vectors import making, written
from draftproof.conformance.museum.vectors.checking import instances_of, read, require_right
from draftproof.conformance.museum.vectors.flags import FLAGS
from draftproof.conformance.museum.vectors.supplied import (
    MARGIN,
    OutOfNumbers,
    Question,
    SuppliedNoise,
    run_on,
    table,
)
from draftproof.conformance.protocol.adapter import Declaration, Request, declaration, program_of
from draftproof.conformance.protocol.tolerance import allowed_distance
from draftproof.conformance.requirements.drafting import DraftSetting, observe_drafting
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Drafts
from draftproof.reference.emission import Emission, emission
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, context_from_key, context_key
from draftproof.reference.model import Path as Context
from draftproof.reference.process import continued
from draftproof.reference.rational import ONE, ZERO, exactly, rational, total
from draftproof.reference.rows import excess
from draftproof.reference.verifiers import ALGORITHMS, Algorithm, Verifier, verification_law
from draftproof.spec import VECTOR_KINDS, VECTOR_SIZES, requirements, vector_files

FOLDER = vector_files()[0].parents[1]

Vector = dict[str, Any]


@cache
def shipped(kind: str) -> tuple[Vector, ...]:
    """All vectors of a kind, each with its size, and its instance in the place of the name."""
    found = []
    for path in vector_files():
        if path.stem == kind:
            document = json.loads(path.read_text(encoding="utf-8"))
            instances = instances_of(document)
            for vector in document["vectors"]:
                given = instances[vector["instance"]] if instances else vector["instance"]
                found.append({**vector, "instance": given, "size": path.parent.name})
    return tuple(found)


def first_sizes(kind: str, last: str = "small") -> list[Vector]:
    """The vectors of the sizes up to one."""
    sizes = VECTOR_SIZES[: VECTOR_SIZES.index(last) + 1]
    return [vector for vector in shipped(kind) if vector["size"] in sizes]


def of(kind: str, algorithm: str) -> list[Vector]:
    return [vector for vector in shipped(kind) if vector.get("algorithm") == algorithm]


def drafts_of(paths: Sequence[Sequence[int]]) -> Drafts:
    return tuple(map(tuple, paths))


def law_of(entries: Sequence[Sequence[Any]], drafts: Drafts) -> Law[Outcome]:
    """The law that a vector has, without what is left behind."""
    weights: dict[Outcome, Any] = {}
    for path, length, token, weight, *_ in entries:
        emitted = Emission(path, drafts[path][:length], token)
        weights[emitted] = weights.get(emitted, ZERO) + rational(weight)
    return Law(weights)


# --- supplied numbers --------------------------------------------------------------------------


def tossed(chance: Chance) -> Emission:
    passed = chance.coin(rational("1/3"))
    return Emission(0, (), chance.draw([ZERO, ONE, ONE]) if passed else chance.draw([ONE]))


def test_a_number_on_a_threshold_does_not_pass() -> None:
    third, half = rational("1/3"), rational("1/2")
    assert run_on(tossed, (ZERO, ZERO)).emission.next_token == 1
    assert run_on(tossed, (ZERO, half)).emission.next_token == 2
    assert run_on(tossed, (third, half)).emission.next_token == 0
    assert run_on(tossed, (third, half)).asked == (
        Question(coin=True, thresholds=(third,)),
        Question(coin=False, thresholds=(ONE,)),
    )


def test_as_many_numbers_are_given_as_are_asked_for() -> None:
    with pytest.raises(OutOfNumbers, match="question 2 has no number: 1 are given"):
        run_on(tossed, (ZERO,))
    with pytest.raises(ValueError, match="3 numbers are given, 2 are asked for"):
        run_on(tossed, (ZERO, ZERO, ZERO))


def test_a_table_reaches_every_leaf_and_every_end_of_every_cell() -> None:
    third, below_third = rational("1/3"), rational("5461/16384")
    largest = rational("65535/65536")
    inside, outside = rational("1/8"), rational("3/4")
    first, second, below_half = rational("1/4"), rational("3/4"), rational("32767/65536")
    assert [(run.numbers, run.emission.next_token) for run in table(tossed)] == [
        ((ZERO, ZERO), 1),
        ((inside, ZERO), 1),
        ((inside, first), 1),
        ((inside, below_half), 1),
        ((inside, rational("1/2")), 2),
        ((inside, second), 2),
        ((inside, largest), 2),
        ((below_third, first), 1),
        ((third, rational("1/2")), 0),
        ((outside, rational("1/2")), 0),
        ((outside, largest), 0),
    ]
    assert 0 < third - below_third <= rational("3/2") / 2**16


def test_supplied_numbers_have_the_law_of_what_they_decide() -> None:
    """The leaves' cells multiply to the law that the enumerator finds."""
    for vector in of("decisions", "traversal")[:10]:
        drafts = drafts_of(vector["paths"])
        text = making.verification(ALGORITHMS["traversal"], vector["instance"], drafts)
        weights: dict[tuple[Any, ...], Any] = {}
        for run in table(text):
            cells = [
                next((low, high) for low, high in q.cells() if low <= n < high)
                for q, n in zip(run.asked, run.numbers, strict=True)
            ]
            weight = ONE
            for low, high in cells:
                weight *= high - low
            weights[tuple(cells)] = (run.emission, weight)
        law: dict[Emission, Any] = {}
        for emitted, weight in weights.values():
            law[emitted] = law.get(emitted, ZERO) + weight
        assert Law(law) == verification_law(ALGORITHMS["traversal"], vector["instance"], drafts)


# --- what ships --------------------------------------------------------------------------------


@pytest.mark.requirement("law.reference", "length.expected", "input.rejected")
@pytest.mark.parametrize("kind", ["laws", "decisions", "errors"])
def test_what_ships_is_what_is_exported(kind: str) -> None:
    for size in VECTOR_SIZES:
        text = (FOLDER / size / f"{kind}.json").read_text(encoding="utf-8")
        assert text == written.text(making.document(kind, size)), size


def test_values_that_ship_are_what_is_exported_and_proved() -> None:
    """Certificates may differ, and must check: other versions of a solver find others."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(each) for key, each in value.items() if key != "certificate"}
        return [bare(each) for each in value] if isinstance(value, list) else value

    for size in VECTOR_SIZES:
        path = FOLDER / size / "values.json"
        document = read(path)
        assert bare(document) == bare(written.canonical(making.document("values", size))), size
        assert path.read_text(encoding="utf-8") == written.text(document)
        if size == "tiny":
            require_right(document, str(path))


def test_every_algorithm_has_vectors_of_every_kind_in_every_size() -> None:
    for size in VECTOR_SIZES:
        for kind in ("laws", "decisions", "values"):
            document = json.loads((FOLDER / size / f"{kind}.json").read_text(encoding="utf-8"))
            found = {vector.get("algorithm") for vector in document["vectors"]}
            assert found - {None} == set(ALGORITHMS), (size, kind)


def test_vectors_cover_what_rows_and_drafts_can_be() -> None:
    given = [vector["instance"] for vector in shipped("laws")]
    assert {each.scheme for each in given} == {"iid", "without_replacement", "hub", "greedy"}
    assert {each.drafts for each in given} >= {1, 2, 3, 4}
    assert {each.vocabulary for each in given} == {1, 2, 3, 4}
    assert {each.length for each in given} == {1, 2, 3}
    assert {each.branching for each in given} == {(), (1, 2), (2, 2)}
    for name in ("zeros", "disjoint", "equal", "ties", "point", "single-token"):
        assert any(f".{name}" in vector["id"] for vector in shipped("laws")), name


def test_ids_are_unique_and_follow_from_what_the_vector_is_of() -> None:
    ids = [vector["id"] for kind in VECTOR_KINDS for vector in shipped(kind)]
    assert len(ids) == len(set(ids))
    expected = {
        "law.block.zeros.target",
        "decision.block.zeros.target.2-0",
        "decision.recursive_rejection.several.iid.v2.l1.k2.0_1",
        "value.block.motivating",
        "value.optimum.motivating",
        "error.nan.generic.v2.l2.target.position-2",
    }
    assert expected <= set(ids)


def test_requirements_are_those_of_the_specification_and_flags_have_their_sources() -> None:
    required = {r for kind in VECTOR_KINDS for v in shipped(kind) for r in v["requirements"]}
    assert required <= set(requirements())
    noted: dict[str, Any] = {}
    for path in vector_files():
        noted |= json.loads(path.read_text(encoding="utf-8"))["flags"]
    assert set(noted) == set(FLAGS)
    for name, note in noted.items():
        assert note["mutants"] == list(FLAGS[name].mutants)
        sources = {source for mutant in note["mutants"] for source in EXHIBITS[mutant].source}
        assert set(note["sources"]) == sources


@pytest.mark.requirement("law.lossless", "law.support", "law.prefix")
def test_laws_are_lossless_as_they_stand() -> None:
    """By the vector's own numbers: drafts, emissions, and the target's rows after them."""
    for vector in shipped("laws"):
        instance: Instance = vector["instance"]
        if vector["id"].count(".") > 4 and instance.drafts > 2:
            continue
        emitted: dict[Emission, Any] = {}
        for draft in vector["drafts"]:
            drafts = drafts_of(draft["paths"])
            for path, length, token, weight, *left in draft["law"]:
                rows = {
                    context_from_key(key): tuple(map(rational, row))
                    for key, row in (left[0] if left else {}).items()
                }
                each = Emission(path, drafts[path][:length], token, tuple(sorted(rows.items())))
                share = rational(draft["probability"]) * rational(weight)
                emitted[each] = emitted.get(each, ZERO) + share
        horizon = instance.length + 1
        text = continued(Law(emitted), instance, horizon)
        assert text == instance.target.text(horizon), vector["id"]
        length = total(len(e.accepted) * w for e, w in Law(emitted).items())
        (value,) = (
            v["expected_accepted"]
            for v in of("values", vector["algorithm"])
            if v["id"] == vector["id"].replace("law.", "value.", 1)
        )
        assert str(length) == value, vector["id"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_decisions_reach_every_outcome_of_the_law(algorithm: str) -> None:
    laws = {vector["id"].removeprefix("law."): vector for vector in of("laws", algorithm)}
    checked = 0
    for vector in of("decisions", algorithm):
        name, _, _ = vector["id"].removeprefix("decision.").rpartition(".")
        (law,) = (d["law"] for d in laws[name]["drafts"] if d["paths"] == vector["paths"])
        emitted = {tuple(run["emits"]) for run in vector["runs"]}
        assert emitted == {tuple(entry[:3]) for entry in law}, vector["id"]
        checked += 1
    assert checked > 3


def test_thresholds_are_met_exactly_and_from_inside() -> None:
    """By every coin that is neither certain to pass nor to fail; cells may be too narrow."""
    narrow = 0
    for vector in shipped("decisions"):
        pairs = [
            (rational(number), rational(question[1]))
            for run in vector["runs"]
            for number, question in zip(run["numbers"], run["asked"], strict=True)
            if question[0] == "coin" and question[1] not in ("0", "1")
        ]
        for edge in {edge for _, edge in pairs}:
            gaps = [edge - number for number, other in pairs if other == edge]
            assert ZERO in gaps, vector["id"]
            if edge < 2 * MARGIN:
                narrow += 1
                continue
            assert MARGIN <= min(gap for gap in gaps if gap > 0) < 3 * MARGIN, vector["id"]
    assert narrow < 10


def test_numbers_are_floats_and_far_from_thresholds_but_for_narrow_cells() -> None:
    """Such cells are those that a rational leaves in the place of an irrational factor."""
    for vector in shipped("decisions"):
        for run in vector["runs"]:
            for number, question in zip(run["numbers"], run["asked"], strict=True):
                gaps = {abs(rational(number) - rational(edge)) for edge in question[1:]} - {ZERO}
                near = min(gaps, default=ONE) < MARGIN
                assert not near or vector["algorithm"] == "k_seq", vector["id"]
                assert number in question or near or is_float(number), vector["id"]


# --- verifiers that are wrong for every algorithm ------------------------------------------------


def accepts_all(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    path = drafts.paths()[0]
    return emission(drafts, path, chance.draw(instance.target(path)))


def rejects_all(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    return emission(drafts, (), chance.draw(instance.target(())))


def accepts_half(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    path = drafts.paths()[0]
    for i in range(len(path)):
        if not chance.coin(rational("1/2")):
            p, q = instance.target(path[:i]), instance.draft(path[:i])
            owed = excess(p, q)
            return emission(drafts, path[:i], chance.draw(owed if any(owed) else p))
    return emission(drafts, path, chance.draw(instance.target(path)))


def law_is_met(vector: Vector, verify: Verifier, algorithm: Algorithm) -> bool:
    wrong = Algorithm(
        name="wrong",
        title="",
        source="",
        verify=verify,
        schemes=algorithm.schemes,
        trees=algorithm.trees,
    )
    for draft in vector["drafts"]:
        drafts = drafts_of(draft["paths"])
        law = verification_law(wrong, vector["instance"], drafts).map(as_observed)
        if law != law_of(draft["law"], drafts):
            return False
    return True


def decisions_are_met(vector: Vector, verify: Verifier) -> bool:
    """Whether all emissions are right; how many numbers a verifier takes is left to it."""
    tree = making.verification(
        Algorithm(name="wrong", title="", source="", verify=verify),
        vector["instance"],
        drafts_of(vector["paths"]),
    )
    half = rational("1/2")
    for run in vector["runs"]:
        chance = SuppliedNoise([*map(rational, run["numbers"])], otherwise=lambda _: half)
        if making.emitted(tree(chance)) != run["emits"]:
            return False
    return True


@pytest.mark.requirement("law.reference")
@pytest.mark.parametrize("wrong", [accepts_all, rejects_all, accepts_half])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_algorithm_can_be_replaced_by_what_accepts_blindly(name: str, wrong: Verifier) -> None:
    """Already the tiny size sees it, by laws alone and by decisions alone."""
    algorithm = ALGORITHMS[name]
    laws = [vector for vector in first_sizes("laws", "tiny") if vector["algorithm"] == name]
    assert all(law_is_met(vector, algorithm.verify, algorithm) for vector in laws)
    assert not all(law_is_met(vector, wrong, algorithm) for vector in laws)
    decisions = [v for v in first_sizes("decisions", "tiny") if v["algorithm"] == name]
    assert all(decisions_are_met(vector, algorithm.verify) for vector in decisions)
    assert not all(decisions_are_met(vector, wrong) for vector in decisions)


# --- mutants -----------------------------------------------------------------------------------

UNSEEN = {
    "batch.backends": "a vector has one verifier, and no other to agree with",
    "batch.invariant": "a vector is one row: it has no neighbours",
    "batch.large": "a vector is one row: it has no neighbours",
    "batch.mixed": "a vector is one row: no other row is at temperature zero",
    "batch.order": "a vector is one row: there is nothing to put back",
    "batch.padding": "no vector's vocabulary is padded, and none is longer than one vector of four",
    "batch.ragged": "a vector is one row: no other is longer",
    "draft.declared": "rows are given as they are processed: nothing is heated, cut or rounded",
    "input.layout": "vectors are numbers, which lie nowhere",
    "input.unchanged": "what a verifier does to its input is not among what it emits",
    "law.long": "no vector has five positions",
    "law.state": "a vector is one iteration of one row: no block lies within a block",
    "number.dtypes": "vectors are exact: in which dtype they are read is the reader's choice",
    "number.extreme": "no vector is as long as it takes for a joint probability to vanish",
    "number.offsets": "vectors are numbers, which lie nowhere",
    "number.tail": "no vector's vocabulary is longer than a block of a kernel",
    "random.boundary": "supplied numbers are uniform ones: an exponential race takes others",
    "random.default": "numbers are supplied: there is no generator",
    "random.generator": "numbers are supplied: there is no generator",
    "random.iterations": "drafts are given: no noise drew them",
    "random.one": "supplied numbers are below 1",
    "random.reproducible": "numbers are supplied: there is no generator",
    "text.lossless": "a vector is one iteration, and no pipeline around it",
}
"""What breaks these requirements and has no flag is not seen by any vector, and why."""

FLAGGED = {mutant for flag in FLAGS.values() for mutant in flag.mutants}


def test_every_mutant_is_flagged_or_there_is_a_reason_why_not() -> None:
    known = {mutant.id for mutant in MUTANTS}
    assert known >= FLAGGED
    unseen = {mutant.breaks for mutant in MUTANTS if mutant.id not in FLAGGED}
    assert unseen == set(UNSEEN)


CLAIMED = {"tests-prefixes-path-by-path": "spectr_gbv"}
"""What verifies by the name of no algorithm, and whose it is meant to be."""


def claimed(exhibit: Mutant) -> str:
    return CLAIMED.get(exhibit.id, declaration(exhibit.make()).algorithm)


def fits(instance: Instance, declared: Declaration) -> bool:
    """Whether the adapter takes the drafts, and its floats hold the rows."""
    below = max(instance.widths[1:], default=1) > 1
    return (
        instance.drafts <= declared.max_drafts
        and (instance.drafts == 1 or instance.scheme == declared.scheme)
        and (declared.trees or not below)
        and all(exactly(float(w)) == w for row in instance.target.rows.values() for w in row)
    )


def missed_law(vector: Vector, exhibit: Mutant) -> bool:
    """Whether the exact lane finds another law, by more than rounding, or cannot look."""
    adapter = exhibit.make()
    program, instance = program_of(adapter), vector["instance"]
    allowed = allowed_distance(program.declared, instance.vocabulary, instance.length)
    for draft in vector["drafts"]:
        drafts = drafts_of(draft["paths"])
        try:
            (seen,) = joint_laws(program, [[(instance, drafts)]], lane=EXACT)
        except BLINDNESS:
            return False
        law = law_of(draft["law"], drafts)
        if seen.of_row(0).total_variation(law) > allowed + seen.slack:
            return True
    return False


@cache
def drafted(algorithm: str, instance: Instance) -> Any:
    (law,) = (vector for vector in of("laws", algorithm) if vector["instance"] == instance)
    return law["drafts"]


def missed_value(vector: Vector, exhibit: Mutant) -> bool:
    """Whether the exact lane finds another E[accepted length]."""
    adapter = exhibit.make()
    program, instance = program_of(adapter), vector["instance"]
    found = ZERO
    for draft in drafted(vector["algorithm"], instance):
        asked = (instance, drafts_of(draft["paths"]))
        (seen,) = joint_laws(program, [[asked]], lane=EXACT)
        lengths = seen.of_row(0).expectation(
            lambda e: 0 if isinstance(e, Failure) else len(e.accepted)
        )
        found += rational(draft["probability"]) * lengths
    allowed = instance.length * allowed_distance(
        program.declared, instance.vocabulary, instance.length
    )
    return bool(abs(found - rational(vector["expected_accepted"])) > allowed)


def missed_drafts(vector: Vector, exhibit: Mutant) -> bool:
    """Whether the drafter draws other paths from the vector's rows, or declares other rows."""
    adapter, instance = exhibit.make(), vector["instance"]
    if not hasattr(adapter, "draft"):
        return False
    seen = observe_drafting(
        program_of(adapter), DraftSetting("vector", "quick", instance.draft, instance.widths)
    )
    law = Law({drafts_of(d["paths"]): rational(d["probability"]) for d in vector["drafts"]})
    found: dict[Any, Any] = {}
    for drafted, weight in seen.law.items():
        key: Any = drafted
        if not isinstance(drafted, Failure):
            rows = [
                [instance.draft(path[:i]) for path in drafted.paths] for i in range(instance.length)
            ]
            declared = [[*level[0]] for level in drafted.levels]
            key = drafted.paths if rows == declared else "other rows"
        found[key] = found.get(key, ZERO) + weight
    return bool(Law(found).total_variation(law) > seen.allowed)


def missed_state(vector: Vector, exhibit: Mutant) -> bool:
    """Whether what is left makes other rows of the target's own than the vector's modified ones."""
    mutant, instance = exhibit.make(), vector["instance"]
    assert isinstance(mutant, GreedyBlock)
    if instance.length == 1:
        return False  # no position is left to be modified
    for draft in vector["drafts"]:
        drafts = drafts_of(draft["paths"])
        states = emitted_in_a_batch(mutant, instance, drafts)
        for path, length, token, _, *left in draft["law"]:
            if (length, token) in states:
                rows = {context_from_key(k): row for k, row in (left or [{}])[0].items()}
                emitted = (*drafts[path][:length], token)
                state = states[length, token]
                if any(
                    rows_differ(mutant, instance, emitted, z, state, rows)
                    for z in continued_by(instance, emitted)
                ):
                    return True
    return False


def emitted_in_a_batch(
    mutant: GreedyBlock, instance: Instance, drafts: Drafts
) -> dict[tuple[int, int], Mapping[str, Tensor] | None]:
    """What is left, by accepted length and next token, of as many rows as it takes to see most."""
    one, rows = request([(instance, drafts)], declaration(mutant)), 2048
    result = mutant.verify(
        Request(
            one.draft_tokens.expand(rows, -1, -1),
            one.draft_probs.expand(rows, -1, -1, -1),
            one.target_probs.expand(rows, -1, -1, -1),
            torch.Generator().manual_seed(0),
        )
    )
    pairs = zip(result.accepted_length.tolist(), result.next_token.tolist(), strict=True)
    return {
        pair: result.state and {name: left[row : row + 1] for name, left in result.state.items()}
        for row, pair in enumerate(pairs)
    }


def continued_by(instance: Instance, emitted: Context) -> list[Context]:
    """The paths that the next iteration may draft before the old block ends."""
    inside = max(instance.length - len(emitted), 0)
    return [z for z in instance.draft.after(emitted).reachable(inside) if len(z) == inside]


def rows_differ(
    mutant: GreedyBlock,
    instance: Instance,
    emitted: Context,
    path: Context,
    state: Mapping[str, Tensor] | None,
    modified: Mapping[Context, Sequence[str]],
) -> bool:
    """Whether the next iteration's target has other rows than it should, where the text can go.

    Behind the old block the instance has no rows: any will do there, if p and q differ.
    """
    size, length, inside = instance.vocabulary, instance.length, len(path)
    beyond_p, beyond_q = [0.75, 0.25, 0.0, 0.0][:size], [0.25, 0.75, 0.0, 0.0][:size]
    p, q, right = [], [], []
    for i in range(length + 1):
        known = i <= length - len(emitted)
        p.append([*map(float, instance.target((*emitted, *path[:i])))] if known else beyond_p)
        q.append([*map(float, instance.draft((*emitted, *path[:i])))] if i < inside else beyond_q)
        owed = modified.get(path[:i]) if i <= inside else None
        right.append([float(rational(w)) for w in owed] if owed else p[i])
    tokens = [*path, *[0] * (length - inside)]
    asked = Request(
        torch.tensor([[tokens]]), torch.tensor([[q[:length]]]), torch.tensor([[p]]), state=state
    )
    _, _, rows = mutant.rows(asked)
    for i, row in enumerate(right):
        if (rows[0, i] - torch.tensor(row)).abs().max() > 1e-4:
            return True
        if i < length and row[tokens[i]] == 0:
            break
    return False


def missed_decision(vector: Vector, exhibit: Mutant, patch: pytest.MonkeyPatch) -> bool:
    """Whether the verifier, fed with the vector's numbers, emits something else.

    It decides all positions at once, so what the reference does not ask it is told anyway. Numbers
    on thresholds that floats do not hold are left out.
    """
    mutant, instance = exhibit.make(), vector["instance"]
    declared, drafts = declaration(mutant), drafts_of(vector["paths"])
    for run in vector["runs"]:
        pairs = zip(run["numbers"], run["asked"], strict=True)
        if not all(number not in question or is_float(number) for number, question in pairs):
            continue
        *coins, last = map(float, map(rational, run["numbers"]))
        told = [*coins, *[0.5] * (instance.length - len(coins))]
        with patch.context() as fed:
            feed(fed, told if declared.algorithm == "token" else told[::-1], last)
            result = mutant.verify(request([(instance, drafts)], declared))
        emitted = [int(result.path), int(result.accepted_length), int(result.next_token)]
        if emitted != run["emits"]:
            return True
    return False


def is_float(number: str) -> bool:
    return exactly(torch.tensor(float(rational(number))).item()) == rational(number)


def feed(patch: pytest.MonkeyPatch, coins: list[float], last: float) -> None:
    """Let verifiers take these numbers: coins in the order of the positions, then a draw."""

    def coins_of(self: Token, ratio: Tensor, asked: Request) -> Tensor:
        return torch.tensor([coins])

    def drawn(self: Token, rows: Tensor, asked: Request) -> Tensor:
        return reached(rows, torch.tensor([[last]]))

    patch.setattr(Token, "coins", coins_of)
    patch.setattr(Token, "draw", drawn)


def missed_error(vector: Vector, exhibit: Mutant) -> bool:
    """Whether invalid input can end without an error, or undrafted with what is never said."""
    mutant, given = exhibit.make(), vector["instance"]
    (path,) = vector["paths"] if given["drafts"] == len(vector["paths"]) == 1 else ([],)
    keys = [context_key(tuple(path[:i])) for i in range(len(path) + 1)]
    rows = {
        model: [given[model].get(key) for key in keys[:depth]]
        for model, depth in (("draft", -1), ("target", None))
    }
    whole = all(row and len(row) == given["vocabulary"] for m in rows.values() for row in m)
    if len(path) != given["length"] or not whole:
        return False  # what is no tensor is not asked

    def number(text: str) -> float:
        return float(text) if text in ("NaN", "Infinity") else float(rational(text))

    def tensor(model: str) -> Tensor:
        return torch.tensor([[[[number(each) for each in row] for row in rows[model]]]])

    def program() -> Any:
        asked = Request(torch.tensor([[path]]), tensor("draft"), tensor("target"))
        try:
            result = mutant.verify(asked)
        except ValueError:
            return None
        return result.accepted_length, result.next_token

    if vector["kind"] != "undrafted":
        try:
            return any(outcome is not None for outcome in exact_law(program).law)
        except BLINDNESS:
            return program() is not None
    for (kept,), (token,) in exact_law(program).law:
        row = rows["target"]
        tokens = [*path[:kept], token]
        if any(row[i][each] == "0" for i, each in enumerate(tokens)):
            return True
    return False


def missed(vector: Vector, exhibit: Mutant, patch: pytest.MonkeyPatch) -> bool:
    kind, *_ = vector["id"].split(".")
    if kind == "error":
        return missed_error(vector, exhibit)
    declared = declaration(exhibit.make())
    if vector.get("algorithm") != claimed(exhibit) or not fits(vector["instance"], declared):
        return False
    if kind == "value":
        return missed_value(vector, exhibit)
    if kind == "decision":
        return isinstance(exhibit.make(), Token) and missed_decision(vector, exhibit, patch)
    if isinstance(exhibit.make(), GreedyBlock) and missed_state(vector, exhibit):
        return True
    return missed_law(vector, exhibit) or missed_drafts(vector, exhibit)


def with_flag(name: str) -> Iterator[Vector]:
    """The vectors that have a flag, the smallest first."""
    found = [v for kind in VECTOR_KINDS for v in shipped(kind) if name in v["flags"]]
    return iter(
        sorted(found, key=lambda vector: len(str(vector.get("drafts", vector.get("runs")))))
    )


@pytest.mark.parametrize(
    ("flag", "name"), [(flag, name) for flag, each in FLAGS.items() for name in each.mutants]
)
def test_a_mutant_is_caught_by_a_vector_with_its_flag(
    flag: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exhibit = EXHIBITS[name]
    assert isinstance(exhibit, Mutant)
    assert any(missed(vector, exhibit, monkeypatch) for vector in with_flag(flag))


@pytest.mark.parametrize(
    "right", [Token, Block, GreedyBlock, Checked, Recursive, Tree, Drafting, DraftingSeveral]
)
def test_what_mutants_are_made_from_meets_the_vectors(
    right: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a mutant is caught by its fault, and not by how it is asked."""
    exhibit = Mutant("right", "", "", (), ("",), right)
    for kind in VECTOR_KINDS:
        asked = [
            vector
            for vector in first_sizes(kind)
            if vector.get("algorithm", right.algorithm) == right.algorithm
            and len(vector.get("drafts", ())) <= 4
            and (kind == "errors" or fits(vector["instance"], declaration(right())))
        ]
        # The others trust their caller.
        for vector in asked[:12] if kind != "errors" or right is Checked else ():
            assert not missed(vector, exhibit, monkeypatch), vector["id"]
        assert len(asked) > 3


@pytest.mark.requirement("random.boundary")
@pytest.mark.parametrize("right", [Token, Block, GreedyBlock])
def test_float32_decides_as_exact_arithmetic(right: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on thresholds, where floats hold them."""
    exhibit = Mutant("right", "", "", (), ("",), right)
    asked = [
        v for v in of("decisions", right.algorithm) if fits(v["instance"], declaration(right()))
    ]
    assert len(asked) > 40
    for vector in asked:
        assert not missed_decision(vector, exhibit, monkeypatch), vector["id"]
