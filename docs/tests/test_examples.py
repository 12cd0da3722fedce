"""The worked examples are the reference's own runs, and what is printed is what they come to."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest
from building import examples
from building.algorithms import EXAMPLES, example_of
from building.examples import STANDARD, Unworded, figure, law, runs, values, worked

from draftproof.reference.drafting import draft_law
from draftproof.reference.emission import emission
from draftproof.reference.law import Law
from draftproof.reference.ledger.exhibits import block_with_break
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law, verification_law

NAMES = list(ALGORITHMS)


def rows(markdown: str) -> list[list[str]]:
    """Return the cells of all rows of all tables, without their heads and rules."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = {n for n, row in enumerate(cells) if all(set(cell) <= {"-", ":"} for cell in row)}
    return [row for n, row in enumerate(cells) if n not in rules and n + 1 not in rules]


@pytest.mark.parametrize("name", NAMES)
def test_runs_are_the_law_of_the_verifier(name: str) -> None:
    instance = example_of(name).instance
    for drafts in EXAMPLES[name].drafts:
        found = runs(name, drafts)
        weights: dict[object, Rational] = {}
        for run in found:
            weights[run.emission] = weights.get(run.emission, Rational(0)) + run.probability
        assert Law(weights) == verification_law(ALGORITHMS[name], instance, drafts)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_down_makes_the_probability(name: str) -> None:
    for drafts in EXAMPLES[name].drafts:
        for run in runs(name, drafts):
            assert prod(asked.share for asked in run.asked) == run.probability
            assert run.asked[-1].answer == f"`{run.emission.next_token}`"


@pytest.mark.parametrize("name", NAMES)
def test_the_steps_of_a_draft_are_all_that_can_happen(name: str) -> None:
    drafted: list[list[list[str]]] = []
    for row in rows(worked(name)):
        if row[0]:
            drafted.append([])
        drafted[-1].append(row)
    assert len(drafted) == len(EXAMPLES[name].drafts)
    law_of_drafts = draft_law(example_of(name).instance)
    for drafts, own in zip(EXAMPLES[name].drafts, drafted, strict=True):
        assert own[0][0].endswith(f"<br>{law_of_drafts[drafts]}")
        assert sum(Fraction(row[-1]) for row in own) == 1
        for row in own:
            following = re.findall(r"`\d`, ([\d/]+)", row[3])
            assert sum(map(Fraction, following)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_printed_law_is_the_references(name: str) -> None:
    instance = example_of(name).instance
    emitted = emission_law(ALGORITHMS[name], instance)
    printed = rows(law(name))
    size = len(emitted.map(lambda each: (each.accepted, each.next_token)))
    assert sum(Fraction(row[-1]) for row in printed[:size]) == 1
    lengths = [0 if row[0] == "nothing" else len(row[0].split()) for row in printed[:size]]
    shares = (length * rational(row[-1]) for length, row in zip(lengths, printed, strict=False))
    assert total(shares) == expected_accepted(emitted)
    texts = printed[size:]
    assert [row[1] for row in texts] == [row[2] for row in texts]
    assert {row[0].strip("`"): row[2] for row in texts} == {
        " ".join(map(str, path)): str(weight)
        for path, weight in instance.target.text(instance.length + 1).items()
    }


def test_a_verifier_that_loses_text_does_so_on_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "away from" not in law("block")
    wrong = replace(ALGORITHMS["block"], verify=block_with_break)
    monkeypatch.setitem(ALGORITHMS, "block", wrong)
    assert "away from the target" in law("block")


@pytest.mark.parametrize("name", NAMES)
def test_values_are_at_most_the_optimum(name: str) -> None:
    for row in rows(values(name)):
        value, optimum = (float(cell.split("≈")[-1]) for cell in row[2:4])
        assert value <= optimum
        assert row[4] == f"{value / optimum:.1%}" or len(row[2]) > 9
        assert row[0] in STANDARD


def test_a_value_is_that_of_the_algorithm() -> None:
    printed = {row[0]: row[2] for row in rows(values("block"))}
    for name, instance in STANDARD.items():
        exact = expected_accepted(emission_law(ALGORITHMS["block"], instance))
        assert printed[name] == figure(exact)
        assert rational(printed[name].split(" ≈ ")[0]) == exact


def test_target_first_is_last_on_every_example() -> None:
    # Its page says so.
    for instance in (replace(one, drafts=2) for one in STANDARD.values()):
        found = {
            name: expected_accepted(emission_law(algorithm, instance))
            for name, algorithm in ALGORITHMS.items()
            if algorithm.most_drafts is None and "iid" in algorithm.schemes
        }
        assert min(found, key=lambda name: found[name]) == "target_first"


def test_stateless_verifiers_accept_more_than_recursive_greedy_block() -> None:
    # Its page says so, of those that select a path.
    for instance in (replace(one, drafts=2) for one in STANDARD.values()):
        values = {
            name: expected_accepted(emission_law(ALGORITHMS[name], instance))
            for name in ("recursive_greedy_block", "mixed_multipath_block")
        }
        assert values["recursive_greedy_block"] < values["mixed_multipath_block"]


def test_a_question_without_words_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(drafts: object, instance: object, chance: object) -> object:
        return chance.coin(rational("1/2"))  # type: ignore[attr-defined]

    monkeypatch.setitem(ALGORITHMS, "token", replace(ALGORITHMS["token"], verify=unknown))  # type: ignore[arg-type]
    with pytest.raises(Unworded, match=r"no words for .*unknown"):
        runs("token", ((0, 0),))


def test_an_answer_that_is_not_the_programs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    # A program that emits another token than it drew is told by the last answer.
    def lies(drafts: object, instance: object, chance: object) -> object:
        found = ALGORITHMS["block"].verify(drafts, instance, chance)  # type: ignore[arg-type]
        return emission(drafts, found.accepted, 1 - found.next_token)  # type: ignore[arg-type]

    monkeypatch.setitem(ALGORITHMS, "token", replace(ALGORITHMS["token"], verify=lies))  # type: ignore[arg-type]
    found = runs("token", ((0, 0),))
    assert any(run.asked[-1].answer != f"`{run.emission.next_token}`" for run in found)


@pytest.mark.parametrize("form", ["law", "values", "worked", "plan", "cost"])
def test_an_unknown_name_is_refused(form: str) -> None:
    with pytest.raises(LookupError, match="no algorithm 'nobody'; known: token, block"):
        examples.COMPUTED[form]("nobody")


def test_figures_are_exact_where_that_is_readable() -> None:
    assert figure(rational("2")) == "2"
    assert figure(rational("11/9")) == "11/9 ≈ 1.2222"
    assert figure(rational("1234567/7654321")) == "≈ 0.1613"


def test_shares_are_of_the_optimum_without_a_state() -> None:
    printed = {row[0]: row[2:] for row in rows(examples.shares())}
    assert printed["[Block verification](block.md)"] == ["100.0%"] * 4
    assert printed["[Greedy block verification](greedy_block.md)"][0] == f"{4 / 3 / (11 / 9):.1%}"
    assert len(printed) == len(ALGORITHMS)
