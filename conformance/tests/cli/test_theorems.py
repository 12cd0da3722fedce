"""Theorems and claims on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from draftproof.conformance import cli
from draftproof.reference.ledger import CLAIMS, Claim, ClaimFailed
from draftproof.reference.model import instance_from_json
from draftproof.spec import MalformedDocument, validate

WRONG = """
from draftproof.reference.drafting import single_path
from draftproof.reference.emission import emission
from draftproof.reference.rational import ONE
from draftproof.reference.rows import excess

def bonus_from_draft(drafts, instance, chance):
    (token,) = path = single_path(drafts)
    p, q = instance.target(()), instance.draft(())
    if chance.coin(min(ONE, p[token] / q[token])):
        return emission(drafts, path, chance.draw(q))
    return emission(drafts, (), chance.draw(excess(p, q)))
"""


def draftproof(*arguments: str) -> Any:
    return CliRunner().invoke(cli.cli, arguments)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL = ("--vocabulary", "2", "--length", "1")
MINE = "./wrong.py:bonus_from_draft"


def test_a_theorem_is_proved_recorded_and_checked(here: Path) -> None:
    ran = draftproof("prove", "block", *SMALL, "--output", "proof.json")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Proved: block is lossless for all p and q with V=2, L=1, K=1: ")
    document = json.loads((here / "proof.json").read_text())
    validate(document, "proof")
    checked = draftproof("prove", "--check", "proof.json")
    assert (checked.exit_code, checked.stdout) == (0, ran.stdout.replace("Proved", "Checked"))
    printed = draftproof("prove", "block", *SMALL, "--json")
    assert json.loads(printed.stdout) == document


def test_a_verifier_that_keeps_a_cache_is_proved(here: Path) -> None:
    ran = draftproof("prove", "scored_multipath_block", *SMALL, "--drafts", "2")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.stdout.startswith(
        "Proved: scored_multipath_block is lossless for all p and q with V=2, L=1, K=2, iid: "
    )


def test_a_tampered_record_exits_with_5(here: Path) -> None:
    document = json.loads(draftproof("prove", "token", *SMALL, "--json").stdout)
    document["algorithm"] = "block"
    (here / "proof.json").write_text(json.dumps(document))
    ran = draftproof("prove", "--check", "proof.json")
    assert ran.exit_code == 5
    assert "proof.json is not a proof: " in ran.stderr
    (here / "proof.json").write_text(json.dumps({**document, "length": 10**9}))
    assert "no proof of that size would end" in draftproof("prove", "--check", "proof.json").stderr
    (here / "proof.json").write_text("{}")
    assert draftproof("prove", "--check", "proof.json").exit_code == 5


def test_a_wrong_verifier_gets_a_counterexample_that_the_law_command_confirms(here: Path) -> None:
    (here / "wrong.py").write_text(WRONG)
    ran = draftproof("prove", "./wrong.py:bonus_from_draft", *SMALL, "--json")
    assert ran.exit_code == 1
    assert "Refuted: it is false that ./wrong.py:bonus_from_draft is lossless: " in ran.stderr
    instance_from_json(json.loads(ran.stdout))
    (here / "found.json").write_text(ran.stdout)
    law = draftproof("law", "./wrong.py:bonus_from_draft", "found.json", "--json")
    assert json.loads(law.stdout)["lossless"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "give an ALGORITHM, --vocabulary and --length; or --check FILE"),
        (("block",), 2, "give an ALGORITHM, --vocabulary and --length"),
        (("block", "--check", "x.json"), 2, "--check cannot be combined with an ALGORITHM"),
        (("--check", "x.json"), 2, "cannot read 'x.json': No such file or directory"),
        (("blok", *SMALL), 2, "unknown algorithm 'blok'"),
        (("./no.py:verify", *SMALL), 2, "there is no file 'no.py'"),
        (("block", "--vocabulary", "9", "--length", "9"), 2, "no proof of that size would end"),
        (("token", "--vocabulary", "5", "--length", "3"), 4, "a smaller shape may do"),
        (("block", *SMALL, "--claim", "magic"), 2, "unknown claim 'magic'; known: lossless"),
        (("block", *SMALL, "--drafts", "2"), 2, "block verifies at most 1 path, got 2"),
        ((MINE, *SMALL, "--output", "x.json"), 2, "prove your own function without --output"),
        ((MINE, *SMALL, "--drafts", "2"), 3, f"{MINE} raised ValueError"),
        (("block", "--vocabulary", "0", "--length", "1"), 2, "0 is not in the range x>=1"),
        (("block", *SMALL, "--output", "no/such/folder"), 2, "cannot write 'no/such/folder'"),
    ],
)
def test_wrong_usage(here: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    (here / "wrong.py").write_text(WRONG)
    ran = draftproof("prove", *arguments)
    assert ran.exit_code == code
    assert message in ran.stderr


def test_claims_are_listed_and_derived_again() -> None:
    ran = draftproof("claims", "--json")
    document = json.loads(ran.stdout)
    validate(document, "claims")
    assert [claim["id"] for claim in document["claims"]] == list(CLAIMS)
    one = draftproof("claims", "--check", "block.example", "--json")
    (claim,) = json.loads(one.stdout)["claims"]
    assert (one.exit_code, claim["verdict"], claim["failure"]) == (0, "holds", None)
    assert "token 10/9, block 11/9" in draftproof("claims", "block.example").stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("block.lossless", "block.lossless: mechanised\n"),
        ("block.optimal", "\n  theorems: block.block_optimal, block.block_longest, "),
        ("theorem.token", "theorem.token: proved for a shape\n"),
        ("scored.optimal.one", "scored.optimal.one: argued\n"),
        ("scored.optimal.one", "\n  rests on: scored.value (mechanised), optimum.subsets (mech"),
        ("spectr_gbv.lossless", "spectr_gbv.lossless: argued\n"),
        ("spectr_gbv.lossless", "\n  theorems: spectr_gbv.spectr_gbv_lossless, "),
        ("spectr_gbv.lossless", "\n  rests on: spectr_gbv.coupling (argued)\n"),
        ("spectr_gbv.below_stateless", "spectr_gbv.below_stateless: refuted\n"),
        ("traversal.below_rejection", "traversal.below_rejection: holds on all "),
        ("block.example", "block.example: holds on the one instance examined\n"),
        ("multipath.over_block", "multipath.over_block: refuted\n"),
    ],
)
def test_a_claim_is_told_with_its_kind_of_truth_and_what_carries_it(name: str, told: str) -> None:
    assert told in draftproof("claims", name).stdout


def test_a_withdrawn_claim_says_where_it_is_told_now() -> None:
    ran = draftproof("claims", "spectr_gbv.monotone")
    assert ran.exit_code == 2
    assert "was withdrawn: it is a corollary of 'spectr_gbv.value'" in ran.stderr


def test_the_schema_refuses_a_verdict_without_what_it_needs() -> None:
    document = json.loads(draftproof("claims", "scored.over_block.two", "--json").stdout)
    (claim,) = document["claims"]
    assert claim["rests_on"] == [
        {"id": "scored.value", "verdict": "mechanised"},
        {"id": "block.value", "verdict": "mechanised"},
    ]
    for changed in ({"verdict": "mechanised"}, {"verdict": "proved"}, {"proof": None}):
        with pytest.raises(MalformedDocument):
            validate({"claims": [{**claim, **changed}]}, "claims")


def test_a_claim_that_does_not_derive_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(claim: Claim) -> None:
        raise ClaimFailed(f"{claim.id}: token is 1, the ledger says 10/9")

    monkeypatch.setattr("draftproof.conformance.cli.theorems.check", fails)
    ran = draftproof("claims", "--check", "block.example")
    assert ran.exit_code == 1
    assert "block.example: derivation failed" in ran.stdout
    assert "token is 1, the ledger says 10/9" in ran.stdout


def test_an_unknown_claim_is_named() -> None:
    ran = draftproof("claims", "no.such")
    assert (ran.exit_code, "unknown claim 'no.such'" in ran.stderr) == (2, True)
