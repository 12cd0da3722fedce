"""The ledger: every claim can be derived again, and one that was tampered with is caught."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain

import pytest

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission
from draftproof.reference.errors import Unsupported
from draftproof.reference.ledger import (
    CLAIMS,
    VERDICTS,
    WITHDRAWN,
    Claim,
    ClaimFailed,
    Derivation,
    Unfounded,
    Verdict,
    best_drafts,
    check,
    claim_named,
    claim_to_json,
    exhibits,
    limits,
    mixed,
    one_position,
    scored,
    scored_greedy,
    several_paths,
    single_path,
    spectr_gbv,
    theorems,
    two_iterations,
    verdicts,
)
from draftproof.reference.ledger.claim import Scope
from draftproof.reference.ledger.instances import (
    all_rows,
    context_free,
    every_context,
    example,
    row,
    rows,
    seeded,
)
from draftproof.reference.ledger.quantities import accepted, expected_tokens, law, lossless
from draftproof.reference.model import Instance, instance_from_json, instance_to_json
from draftproof.reference.rational import ONE, ZERO, rational
from draftproof.reference.verifiers import ALGORITHMS, Verifier
from draftproof.reference.verifiers.token import token

EVERY = [
    *single_path.CLAIMS,
    *one_position.CLAIMS,
    *best_drafts.CLAIMS,
    *several_paths.CLAIMS,
    *spectr_gbv.CLAIMS,
    *mixed.CLAIMS,
    *scored.CLAIMS,
    *scored_greedy.CLAIMS,
    *limits.CLAIMS,
    *two_iterations.CLAIMS,
    *theorems.CLAIMS,
]

# Every refutation is derived again here, and the positive claims that take least;
# `draftproof claims --check` derives them all.
SLOW = {
    "block.over_token",
    "block.optimal",
    "block.lossless",
    "block.value",
    "canonical.optimal",
    "greedy_block.bound",
    "greedy_block.lossless",
    "greedy_block.value",
    "gap.division",
    "guarded.over_block",
    "hierarchical.is_block",
    "iterations.two",
    "mixed.ends",
    "mixed.lossless",
    "mixed.optimal.two_tokens",
    "mixed.over_ends.one",
    "mixed.over_ends.two",
    "scored.lossless",
    "scored.optimal.one",
    "scored.over_block.two",
    "scored.share",
    "scored_greedy_block.later",
    "scored_greedy_block.lossless",
    "scored_greedy_block.over_greedy_block.two",
    "scored_greedy_block.over_scored.two",
    "scored_greedy_block.share",
    "scored_greedy_block.value",
    "theorem.rejection",
    "theorem.rejection.tree",
    "theorem.rejection.without_replacement",
    "theorem.greedy_draft",
    "theorem.block",
    "theorem.scored",
    "theorem.scored.optimal",
    "theorem.scored.three_drafts",
    "token.lossless",
    "multipath.lossless",
    "naive_tree.lossless",
    "optimum.agree",
    "optimum.convex.without_replacement",
    "optimum.subsets",
    "paths.monotone",
    "recursive_greedy_block.lossless",
    "rejection.lossless",
    "spectr_gbv.lossless",
    "spectr_gbv.one_path",
    "spectr_gbv.value",
    "traversal.below_rejection",
    "traversal.lossless",
}

every_claim = pytest.mark.parametrize("claim", EVERY, ids=lambda claim: claim.id)


@pytest.mark.parametrize(
    "claim", [claim for claim in EVERY if claim.id not in SLOW], ids=lambda claim: claim.id
)
def test_a_claim_is_derived_again(claim: Claim) -> None:
    assert check(claim) == claim.recorded


def test_slow_claims_are_claims() -> None:
    assert set(CLAIMS) >= SLOW


def test_every_id_is_one_claims() -> None:
    assert len(CLAIMS) == len(EVERY)
    assert all(claim_named(claim.id) is claim for claim in EVERY)
    with pytest.raises(
        Unsupported, match=r"unknown claim 'blok.lossless', did you mean 'block\.lossless'"
    ):
        claim_named("blok.lossless")


def test_the_named_claims_of_the_papers_are_there() -> None:
    """Each line: what must be in the ledger, and the verdict it must have."""
    told = {
        "mechanised": """token.lossless token.value block.lossless block.value block.optimal
            greedy_block.value greedy_block.bound greedy_block.lossless optimum.subsets
            optimum.agree rejection.lossless rejection.recursion k_seq.lossless spechub.value
            greedy_draft.optimal target_first.lossless naive_tree.lossless naive_tree.value
            multipath.lossless traversal.lossless traversal.one_path
            traversal.is_rejection mixed.lossless mixed.value spechub.optimal
            spechub.over_rejection.condition mixed.over_ends.one mixed.optimal.two_tokens
            scored.lossless scored.value scored_greedy_block.lossless
            scored_greedy_block.value gap.along_the_path gap.guarantee""",
        "proved for a shape": "theorem.token theorem.scored theorem.scored.optimal",
        "argued": """block.is_token.one_hot block.over_token hierarchical.is_block paths.monotone
            spectr_gbv.released.probability.one
            spechub.over_rejection_without_replacement.condition optimum.without_replacement
            optimum.monotone optimum.prefixes.iid rejection.below_k_seq k_seq.guarantee
            canonical.optimal target_first.value scored.optimal.one spectr_gbv.coupling
            spectr_gbv.value spectr_gbv.lossless spectr_gbv.one_path gap.share
            gap.drafted_rows guarded.over_block iterations.two
            scored_greedy_block.optimal.one scored_greedy_block.over_scored.two
            scored_greedy_block.over_greedy_block.two
            drafts.marginals drafts.trees""",
        "holds": """block.example rejection.without_replacement traversal.below_rejection
            recursive_greedy_block.lossless scored.share scored_greedy_block.share
            scored_greedy_block.later gap.division iterations.two.ahead drafts.shape
            drafts.trees.shape""",
        "refuted": """block.optimal.iterations block.is_token.two greedy_block.unmodified
            greedy_block.iterations multipath.over_block multipath.monotone multipath.ties
            multipath.optimal paths.levels k_seq.factor spectr_gbv.optimal spectr_gbv.released
            spectr_gbv.over_rejection spechub.over_rejection
            spechub.over_rejection_without_replacement optimum.prefixes.any rejection.duplicates
            mixed.over_multipath mixed.over_block scored.over_block
            scored_greedy_block.over_scored scored_greedy_block.over_greedy_block
            scored_greedy_block.over_spectr_gbv scored_greedy_block.iterations
            iterations.two.one_of_both scored.guarantee drafts.trees.fixed""",
    }
    for verdict, names in told.items():
        assert {name: VERDICTS[name].value for name in names.split()} == dict.fromkeys(
            names.split(), verdict
        )
    assert set(VERDICTS.values()) == set(Verdict)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("block.example", ["10/9", "11/9", "4/3"]),
        ("block.optimal.iterations", ["49/8", "25/4", "37/4", "19/2"]),
        ("greedy_block.iterations", ["7/3, 40/9, 59/9, 26/3, 97/9"]),
        ("multipath.over_block", ["9/10, 17/20, 29/40, 53/80, 101/160"]),
        ("multipath.optimal", ["11/9, 131/81, 1289/729", "11/9, 131/81, 1351/729"]),
        ("multipath.ties", ["11/25, 9/25, 1/5"]),
        ("multipath.ties.clamped", ["8/15, 4/15, 1/5"]),
        ("spectr_gbv.optimal", ["37/45", "17/20", "19/12", "131/81", "134/81"]),
        ("spectr_gbv.over_rejection", ["83/200", "7/16"]),
        ("spectr_gbv.released", ["69/100"]),
        ("rejection.duplicates", ["4/11, 147/484, 161/484"]),
    ],
)
def test_the_figures_of_the_literature_are_among_those_derived(
    name: str, figures: list[str]
) -> None:
    assert set(figures) <= set(CLAIMS[name].recorded.figures.values())


@every_claim
def test_a_claim_says_who_makes_it_and_what_was_examined(claim: Claim) -> None:
    assert re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)+", claim.id)
    assert re.fullmatch(
        r"(arXiv \d{4}\.\d{5}|github\.com/[\w.-]+/[\w.-]+|draftproof)(, .+)?", claim.source
    )
    assert claim.statement.endswith(".")
    assert not claim.proof or claim.proof.endswith(".")
    assert claim.scope
    assert claim.shape
    assert claim.recorded.instances > 0
    assert claim.command == f"draftproof claims --check {claim.id}"
    if claim.evidence is Verdict.REFUTED:
        assert claim.recorded.figures
        assert not claim.proof


@every_claim
def test_a_claim_names_all_that_its_argument_uses_and_nothing_that_is_not_needed(
    claim: Claim,
) -> None:
    named = set(re.findall(r"[a-z_]+(?:\.[a-z_]+)+", claim.proof)) & set(CLAIMS)
    if claim.evidence is Verdict.ARGUED:
        assert named == set(claim.rests_on)
    elif claim.evidence is Verdict.MECHANISED:
        assert named >= set(claim.rests_on)
        assert all(VERDICTS[name] is not Verdict.MECHANISED for name in claim.rests_on)
    else:
        assert not claim.rests_on


@every_claim
def test_a_statement_carries_its_shape(claim: Claim) -> None:
    assert re.search(r"\b[VLK] = |\bany [VL]\b", claim.stated)
    assert not re.match(r"(It|They|This)\b", claim.statement)


def test_a_mean_share_names_its_prior_and_the_worst_case() -> None:
    share = CLAIMS["scored.share"]
    assert "random.Random(100)" in share.statement
    worst = [name for name in share.recorded.figures if name.endswith(", worst")]
    assert len(worst) == len(scored.SHARES)


def test_what_was_withdrawn_says_where_it_is_told_now() -> None:
    assert not set(WITHDRAWN) & set(CLAIMS)
    assert set(WITHDRAWN.values()) <= set(CLAIMS)
    with pytest.raises(
        Unsupported,
        match=r"claim 'khisti\.two_drafts' was withdrawn: .* corollary of 'optimum\.subsets'",
    ):
        claim_named("khisti.two_drafts")


@pytest.mark.parametrize(
    "claim",
    [claim for claim in EVERY if claim.recorded.counterexample],
    ids=lambda claim: claim.id,
)
def test_a_counterexample_can_be_written_down_and_read_again(claim: Claim) -> None:
    found = claim.recorded.counterexample
    assert found is not None
    assert instance_from_json(json.loads(json.dumps(instance_to_json(found)))) == found
    assert claim_to_json(claim)["counterexample"] == instance_to_json(found)


# --- A ledger that was tampered with ----------------------------------------------------------

HONEST = CLAIMS["block.is_token.two"]


@pytest.mark.parametrize(
    ("claim", "recorded", "message"),
    [
        (
            HONEST,
            replace(HONEST.recorded, figures={"token": "10/9", "block": "4/3"}),
            "block.is_token.two: block is 11/9, the ledger says 4/3",
        ),
        (
            HONEST,
            replace(HONEST.recorded, figures={"token": "10/9"}),
            "block.is_token.two: block is 11/9, the ledger says nothing",
        ),
        (
            CLAIMS["block.is_token.one"],
            replace(CLAIMS["block.is_token.one"].recorded, figures={"token": "1"}),
            "block.is_token.one: token is nothing, the ledger says 1",
        ),
        (
            HONEST,
            replace(HONEST.recorded, counterexample=None),
            "block.is_token.two: the first counterexample is {'vocabulary': 2, ",
        ),
        (
            CLAIMS["block.is_token.one"],
            replace(CLAIMS["block.is_token.one"].recorded, counterexample=example("1", "1")),
            "block.is_token.one: the first counterexample is none, the ledger says {'vocabulary': ",
        ),
        (
            HONEST,
            replace(HONEST.recorded, instances=15),
            "block.is_token.two: 14 instances were examined, the ledger says 15",
        ),
    ],
)
def test_a_claim_that_was_tampered_with_is_caught(
    claim: Claim, recorded: Derivation, message: str
) -> None:
    with pytest.raises(ClaimFailed) as failure:
        check(replace(claim, recorded=recorded))
    assert str(failure.value).startswith(message)


PLAIN = replace(HONEST, id="a.plain", recorded=Derivation(3))
ARGUED = replace(PLAIN, id="an.argument", proof="It is so.")
MECHANISED = replace(PLAIN, id="a.theorem", theorems=("block.block_lossless",))


def test_evidence_follows_from_what_is_recorded() -> None:
    assert HONEST.evidence is Verdict.REFUTED
    assert replace(HONEST, theorems=("block.block_lossless",)).evidence is Verdict.REFUTED
    assert PLAIN.evidence is Verdict.HOLDS
    assert ARGUED.evidence is Verdict.ARGUED
    assert CLAIMS["theorem.token"].evidence is Verdict.PROVED
    assert MECHANISED.evidence is Verdict.MECHANISED


def test_a_claim_is_no_stronger_than_what_it_rests_on() -> None:
    shape = replace(CLAIMS["theorem.token"], id="a.shape")
    told = verdicts(
        [
            replace(ARGUED, id="on.holds", rests_on=("a.theorem", "a.plain")),
            replace(ARGUED, id="on.argued", rests_on=("an.argument",)),
            replace(ARGUED, id="on.theorem", rests_on=("a.theorem",)),
            replace(MECHANISED, id="on.shape", rests_on=("a.shape",)),
            replace(ARGUED, id="further.up", rests_on=("on.theorem", "on.holds")),
            PLAIN,
            ARGUED,
            MECHANISED,
            shape,
        ]
    )
    assert told == {
        "on.holds": Verdict.HOLDS,
        "on.argued": Verdict.ARGUED,
        "on.theorem": Verdict.ARGUED,
        "on.shape": Verdict.PROVED,
        "further.up": Verdict.HOLDS,
        "a.plain": Verdict.HOLDS,
        "an.argument": Verdict.ARGUED,
        "a.theorem": Verdict.MECHANISED,
        "a.shape": Verdict.PROVED,
    }


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        (
            [replace(ARGUED, rests_on=(HONEST.id,)), HONEST],
            f"an.argument rests on {HONEST.id}, which is refuted",
        ),
        (
            [replace(ARGUED, rests_on=("block.perfect",))],
            "an.argument rests on 'block.perfect', which is no claim of the ledger",
        ),
        (
            [
                replace(ARGUED, rests_on=("another.one",)),
                replace(ARGUED, id="another.one", rests_on=("an.argument",)),
            ],
            "an.argument rests on itself: an.argument rests on another.one rests on an.argument",
        ),
        (
            [replace(HONEST, rests_on=("a.plain",)), PLAIN],
            f"{HONEST.id} is refuted, and rests on its counterexample alone",
        ),
    ],
)
def test_what_cannot_carry_a_claim_is_refused(claims: list[Claim], message: str) -> None:
    with pytest.raises(Unfounded) as failure:
        verdicts(claims)
    assert str(failure.value) == message


def test_examining_stops_at_the_first_refutation() -> None:
    instances = list(context_free(2, 2))

    def refuted(instance: Instance) -> dict[str, str] | None:
        return {"p": "second"} if instance is instances[1] else None

    few = replace(HONEST, examined=Scope("few", lambda: instances))
    known = replace(few, refuted=refuted, known=lambda: {"known": ONE})
    assert known.derive() == Derivation(2, {"known": "1", "p": "second"}, instances[1])
    assert replace(few, refuted=lambda _: None).derive() == Derivation(9)


def test_a_text_is_one_line_however_it_is_written() -> None:
    written = replace(
        HONEST,
        statement="""Over
        two lines.""",
        examined=Scope("of\n   two", list),
    )
    assert (written.statement, written.scope) == ("Over two lines.", "of two")


# --- The instances ----------------------------------------------------------------------------


def test_small_instances_come_once_each_and_in_order() -> None:
    assert rows(2, 2) == (row("0 1"), row("1/2 1/2"), row("1 0"))
    assert list(all_rows(2, 1, 2)) == [(row("1/2 1/2"),)]
    assert len(list(context_free(2, 6))) == len({*map(str, context_free(2, 6))})
    # All pairs of rows that are multiples of 1/6, or of 1/5, or of 1/4: overlaps counted once.
    assert len(list(context_free(2, 6))) == 7**2 + (6**2 - 2**2) + (5**2 - 3**2)
    # Three contexts in each model, three rows of halves.
    assert len(list(every_context(2, 2))) == 3**6


def test_seeded_instances_are_the_same_in_every_run_and_hard() -> None:
    first, second = (list(seeded(50, 3, length=2, drafts=2)) for _ in range(2))
    assert first == second
    assert len({str(instance) for instance in first}) == 50
    pairs = [
        (instance.target(c), instance.draft(c)) for instance in first for c in [(), (0,), (1,)]
    ]
    assert any(p == q for p, q in pairs)
    assert any(a == b == 0 for p, q in pairs for a, b in zip(p, q, strict=True))
    assert any(a == 0 < b for p, q in pairs for a, b in zip(p, q, strict=True))
    assert any(b == 0 < a for p, q in pairs for a, b in zip(p, q, strict=True))
    assert any(max(p) == 1 for p, _ in pairs)


# --- Several iterations -----------------------------------------------------------------------


def test_tokens_after_several_iterations() -> None:
    # Token verification forgets nothing from one iteration to the next of a context-free model.
    motivating = example("1/3 2/3", "2/3 1/3", length=2)
    for iterations in range(4):
        expected = iterations * (accepted("token")(motivating) + 1)
        assert expected_tokens(token, motivating, iterations) == expected


# --- The exhibits -----------------------------------------------------------------------------

WRONG: list[tuple[Verifier, Instance]] = [
    (exhibits.block_then_token_residual, example("1/4 1/4 1/2", "0 3/4 1/4", length=2)),
    (exhibits.block_with_break, example("1/2 1/2", "0 1", length=2)),
    (exhibits.greedy_block_without_memory, example("1/3 2/3", "2/3 1/3", length=2)),
    (exhibits.released_hierarchical, example("1/3 2/3", "2/3 1/3", length=2)),
    (exhibits.rejection_skipping_duplicates, example("0 1/3 2/3", "2/3 0 1/3", drafts=2)),
    (exhibits.multipath_block_first_of_equals, example("1/2 1/2", "1/2 1/2", drafts=2)),
    (exhibits.multipath_block_clamped, example("1/2 3/10 1/5", "1/5 1/5 3/5", drafts=2)),
    (exhibits.spectr_gbv_loop, example("1/2 1/2", "9/10 1/10", drafts=2)),
]
SLOWER: list[Verifier] = [exhibits.block_without_last, exhibits.block_that_waits]


def name(verify: object) -> str:
    return getattr(verify, "__name__", "")


@pytest.mark.parametrize(("verify", "instance"), WRONG, ids=name)
def test_an_exhibit_is_biased(verify: Verifier, instance: Instance) -> None:
    assert lossless(verify)(instance) is not None


@pytest.mark.parametrize("verify", [verify for verify, _ in WRONG], ids=name)
def test_an_exhibit_that_cannot_be_seen_here_is_right(verify: Verifier) -> None:
    # One draft of one token leaves no room for any of these faults but one: the break's. At L = 1
    # there is one prefix, so that one is right as well.
    for instance in context_free(2, 4):
        assert lossless(verify)(instance) is None


@pytest.mark.parametrize("verify", SLOWER, ids=name)
def test_leaving_a_token_to_the_next_iteration_is_lossless_and_never_better(
    verify: Verifier,
) -> None:
    for instance in chain(seeded(30, 2, length=2), seeded(15, 2, length=3)):
        assert lossless(verify)(instance) is None
        assert accepted(verify)(instance) <= accepted("block")(instance)


def test_waiting_waits_only_where_the_target_is_sure() -> None:
    sure = single_path.banked(3, rational("2/3"))
    assert accepted(exhibits.block_that_waits)(sure) == accepted("block")(sure) - 1
    unsure = example("1/3 2/3", "2/3 1/3", length=2)
    assert law(exhibits.block_that_waits, unsure) == law(ALGORITHMS["block"].verify, unsure)


def test_a_quantity_of_a_wrong_verifier_is_named_after_it() -> None:
    def sure(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        return token(drafts, instance, chance)

    assert accepted(sure).name == "sure"
    assert accepted(sure)(example("1", "1")) == 1
    assert accepted(sure)(example("1 0", "0 1")) == ZERO
