"""The pages of the algorithms: their plans are couplings, and what they say of cost is measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from building import algorithms
from building.algorithms import EXAMPLES, claims, cost, example_of, fastest, flows, plan, reads
from building.pages import HOUSE

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, draft_law, single_path
from draftproof.reference.emission import Emission, emission
from draftproof.reference.ledger import CLAIMS
from draftproof.reference.ledger.exhibits import block_with_break
from draftproof.reference.model import Instance
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import Rational, total
from draftproof.reference.verifiers import ALGORITHMS, emission_law

NAMES = list(ALGORITHMS)
PAGES = HOUSE / "docs/pages/explanation/algorithms"


@pytest.fixture
def fresh() -> Iterator[None]:
    """Plans are kept for the process: forget them before and after."""
    flows.cache_clear()
    yield
    flows.cache_clear()


def side(name: str, which: str) -> dict[str, Rational]:
    found: dict[str, Rational] = {}
    for flow in flows(name):
        place = getattr(flow, which)
        found[place] = found.get(place, Rational(0)) + flow.mass
    return found


def written(instance: Instance) -> dict[str, Rational]:
    text = instance.target.text(instance.length)
    return {"".join(map(str, path)): weight for path, weight in text.items()}


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_goes_from_the_drafts_to_the_text(name: str) -> None:
    instance = example_of(name).instance
    drafted: dict[str, Rational] = {}
    for drafts, weight in draft_law(instance).items():
        place = " ".join("".join(map(str, path)) for path in sorted(drafts))
        drafted[place] = drafted.get(place, Rational(0)) + weight
    assert total(flow.mass for flow in flows(name)) == 1
    assert side(name, "start") == drafted
    assert side(name, "end") == written(instance)


@pytest.mark.parametrize("name", NAMES)
def test_the_colours_of_a_plan_are_the_accepted_length(name: str) -> None:
    instance = example_of(name).instance
    kinds = (
        ["corrected", "accepted"]
        if instance.length == 1
        else ["none accepted", "one accepted", "both accepted"]
    )
    accepted = total(kinds.index(flow.kind) * flow.mass for flow in flows(name))
    assert accepted == expected_accepted(emission_law(ALGORITHMS[name], instance))
    for flow in flows(name):
        kept = kinds.index(flow.kind)
        assert any(path[:kept] == flow.end[:kept] for path in flow.start.split())


def test_a_lossy_verifier_spoils_the_plan(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    wrong = replace(ALGORITHMS["block"], verify=block_with_break)
    monkeypatch.setitem(ALGORITHMS, "block", wrong)
    assert side("block", "end") != written(example_of("block").instance)


def test_greedy_block_moves_no_more_than_it_must() -> None:
    # Its page says that no transport of these two laws moves less: one less their overlap.
    instance = example_of("greedy_block").instance
    p, q = instance.target.text(2), instance.draft.text(2)
    moved = total(flow.mass for flow in flows("greedy_block") if flow.start != flow.end)
    assert moved == p.total_variation(q)


def test_nothing_is_refused_where_the_page_says_so() -> None:
    assert {flow.kind for flow in flows("mixed_multipath_block")} == {"accepted"}
    assert {flow.kind for flow in flows("traversal")} == {"one accepted", "both accepted"}
    corrected = {flow.start for flow in flows("optimal_transport") if flow.kind == "corrected"}
    assert corrected == {"2 2"}


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_also_a_table(name: str) -> None:
    printed = plan(name)
    assert printed.count(f"{name}-plan-light.svg#only-light") == 1
    assert printed.count(f"{name}-plan-dark.svg#only-dark") == 1
    masses = re.findall(r"([\d/]+) \((\d)\)", printed)
    assert sum(Fraction(mass) for mass, _ in masses) == 1
    accepted = sum(int(kept) * Fraction(mass) for mass, kept in masses)
    instance = example_of(name).instance
    assert str(accepted) == str(expected_accepted(emission_law(ALGORITHMS[name], instance)))


def test_pictures_are_files() -> None:
    drawn = algorithms.files()
    for name in NAMES:
        for shade in ("light", "dark"):
            assert drawn[f"explanation/algorithms/{name}-plan-{shade}.svg"].startswith(b"<svg")
    assert drawn == algorithms.files()


def test_reads_are_counted() -> None:
    target, draft = reads("token")
    assert (target.least, target.most, target.off) == (1, 3, False)
    assert (draft.least, draft.most, draft.off) == (1, 2, False)


@pytest.mark.parametrize(
    "name", [name for name, algorithm in ALGORITHMS.items() if not algorithm.stateful]
)
def test_no_stateless_verifier_reads_off_the_drafted_paths(name: str) -> None:
    assert not any(own.off for own in reads(name))


def test_a_row_off_the_path_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def curious(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
        path = single_path(drafts)
        instance.target((1 - path[0],))
        return emission(drafts, (), chance.draw(instance.target(())))

    monkeypatch.setitem(ALGORITHMS, "token", replace(ALGORITHMS["token"], verify=curious))
    target, draft = reads("token")
    assert target.off
    assert not draft.off
    assert (target.most, draft.most) == (2, 0)


def test_measured_times_are_those_on_record() -> None:
    measured = json.loads(algorithms._MEASURED.read_text(encoding="utf-8"))
    (own,) = [
        row["seconds"]["median"]
        for row in measured["times"]
        if (row["name"], row["drafts"], row["length"]) == ("block", 1, 4)
    ]
    assert f"| 1 | 4 | {1e3 * own:.1f} |" in cost("block")
    assert "It is not among the forms that were timed." in cost("canonical")
    assert "w/o replacement, ms" in cost("traversal")


def test_the_fastest_is_the_fastest() -> None:
    rows = json.loads(algorithms._MEASURED.read_text(encoding="utf-8"))["rows"]
    best = max((row for row in rows if row["sigma"] == 0.5), key=lambda r: r["tokens_per_second"])
    (line,) = [line for line in fastest().splitlines() if line.startswith("| 0.5 |")]
    assert f"{best['tokens_per_second']:,.0f}" in line
    assert ALGORITHMS[best["name"]].title in line


def test_every_claim_of_an_algorithm_stands_on_a_page() -> None:
    told = "".join(page.read_text(encoding="utf-8") for page in PAGES.glob("*.md"))
    said = set(re.findall(r'"computed: claims ([^"]*)"', told))
    assert {name for names in said for name in names.split()} == set(CLAIMS)


def test_claims_are_told_by_verdict() -> None:
    told = claims(
        "block.optimal.iterations",
        "scored.share",
        "spectr_gbv.lossless",
        "theorem.token",
        "block.optimal",
    )
    kinds = ("**Mechanised", "**Proved for a shape", "**Argued", "**Holds", "**Refuted")
    order = [told.index(verdict) for verdict in kinds]
    assert order == sorted(order)
    assert told.index("block.optimal.iterations") > order[4] > told.index("`block.optimal`")
    assert "lossless. (any V, L, K; i.i.d. paths)" in told
    with pytest.raises(LookupError, match=r"the ledger has no claim block\.perfect"):
        claims("block.optimal", "block.perfect")


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_has_a_page_of_its_own(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert page.startswith(f"# {TITLES.get(name, ALGORITHMS[name].title)}\n")
    for form in ("definition", "worked", "plan", "cost", "values", "law"):
        assert f'"computed: {form} {name}"' in page
    others = set(re.findall(r'"computed: (?:definition|worked|plan|cost|values|law) (\w+)"', page))
    assert others == {name}
    assert f"(#algorithm.{name})" in page
    assert "[](#law.reference)" in page
    assert ("[](#law.state)" in page) == ALGORITHMS[name].stateful
    assert ("[](#length.optimal)" in page) == ALGORITHMS[name].optimal
    for source in re.findall(r"arXiv [\d.]+\d", ALGORITHMS[name].source):
        assert f"https://arxiv.org/abs/{source.removeprefix('arXiv ')}" in page
    assert EXAMPLES[name].drafts


TITLES = {"naive_tree": "The naive tree rule", "greedy_draft": "The greedy draft"}


def test_an_unknown_picture_is_refused() -> None:
    with pytest.raises(LookupError, match="no picture 'cost'; known: speed, efficiency"):
        algorithms.decoding("cost")
