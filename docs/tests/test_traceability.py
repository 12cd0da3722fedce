"""Traceability: what is committed is what is there, and what leads nowhere is told."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from building import traceability
from building.markdown import headings
from building.markers import ROOMS, UnknownRequirement, UnreadableMarker, marked_tests
from building.pages import HOUSE
from building.traceability import (
    ENGINES,
    JUDGING,
    KILL_MATRIX,
    PROVES,
    SNAPSHOT,
    NotCaught,
    StaleSnapshot,
    Trace,
    Untested,
    _state,
    changes,
    evidence_of,
    main,
    page,
    require_fresh,
    snapshot,
    traces,
)

from draftproof.conformance.museum.mutants import CONTROLS, MUTANTS
from draftproof.conformance.requirements.finding import FAIL
from draftproof.reference import proof
from draftproof.reference.ledger import CLAIMS
from draftproof.spec import MalformedDocument, requirements, validate, withdrawn

TRACES = {trace.requirement.id: trace for trace in traces()}


# --- what is here --------------------------------------------------------------------------------


def test_the_snapshot_is_what_is_found() -> None:
    require_fresh()


def test_every_requirement_is_traced_to_tests_that_are_there() -> None:
    assert [*TRACES] == [*requirements()]
    for trace in TRACES.values():
        if trace.state in ("proved for a shape", "tested", "implied"):
            assert any(test.startswith(JUDGING) for test in trace.tests)
        for test in trace.tests:
            file, *_, name = test.split("::")
            text = (HOUSE / file).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {name}\(", text, flags=re.M), test


def test_every_exhibit_names_requirements_that_are_stated() -> None:
    for mutant in MUTANTS:
        assert set(mutant.must_fail) <= set(TRACES)
    for control in CONTROLS:
        assert set(control.must_fail) <= set(TRACES)


def test_every_mutant_is_traced_from_all_that_it_breaks() -> None:
    traced = {(kill.mutant.id, each) for each, trace in TRACES.items() for kill in trace.kills}
    assert traced == {(m.id, each) for m in MUTANTS for each in m.must_fail}


def test_every_kind_of_theorem_says_what_it_proves() -> None:
    assert set(PROVES) == set(proof.CLAIMS)
    proved = {each for trace in TRACES.values() for each in trace.proofs}
    assert proved <= set(CLAIMS)
    assert {each for each, trace in TRACES.items() if trace.state == "proved for a shape"} == {
        each for each, trace in TRACES.items() if trace.proofs
    }
    assert "theorem.token" in TRACES["law.lossless"].proofs
    assert "theorem.greedy_block.twice" in TRACES["law.state"].proofs
    assert "theorem.rejection.below_k_seq" not in proved


# --- what leads nowhere --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    house = tmp_path_factory.mktemp("house")
    for room in ROOMS:
        shutil.copytree(HOUSE / room / "tests", house / room / "tests")
    for file in (SNAPSHOT, KILL_MATRIX, ENGINES):
        (house / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(HOUSE / file, house / file)
    for vectors in (HOUSE / "spec/vectors").glob("*/*.json"):
        copy = house / vectors.relative_to(HOUSE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(vectors, copy)
    return house


@pytest.fixture
def house(_copied: Path, tmp_path: Path) -> Path:
    """Return a copy of all that traces are read from, to be broken."""
    return shutil.copytree(_copied, tmp_path / "house")


def unmarked(house: Path, identity: str, folder: str) -> None:
    """Take a requirement out of all markers below a folder."""
    for file in (house / folder).rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(f'"{identity}"', '"law.prefix"'), encoding="utf-8")


def edited(file: Path, change: Any) -> None:
    document = json.loads(file.read_text(encoding="utf-8"))
    change(document)
    file.write_text(json.dumps(document), encoding="utf-8")


def test_a_copy_is_as_good_as_the_house(house: Path) -> None:
    require_fresh(house)


def test_a_requirement_that_loses_its_last_test_is_told(house: Path) -> None:
    unmarked(house, "batch.order", "conformance/tests")
    with pytest.raises(
        Untested,
        match=r"^batch\.order has no test in conformance/tests/ that names it: a test that shows "
        r'that the suite judges it rightly is marked pytest\.mark\.requirement\("batch\.order"\)$',
    ):
        traces(house)


def test_tests_of_our_own_verifiers_judge_nothing(house: Path) -> None:
    assert any(test.startswith("adapters/") for test in TRACES["law.state"].tests)
    unmarked(house, "law.state", "conformance/tests")
    with pytest.raises(Untested, match=r"^law\.state has no test in conformance/tests/"):
        traces(house)


def test_a_test_that_is_lost_makes_the_snapshot_stale(house: Path) -> None:
    file = house / "conformance/tests/requirements/test_texts.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("def test_by_hand(", "def by_hand("), encoding="utf-8")
    with pytest.raises(UnreadableMarker, match=r"test_texts\.py:\d+: a requirement is named on a"):
        traces(house)
    file.write_text(text.replace("def test_by_hand(", "def test_by_heart("), encoding="utf-8")
    with pytest.raises(StaleSnapshot) as refusal:
        require_fresh(house)
    assert str(refusal.value) == (
        "spec/traceability.json is not what is found now; if it should be, write it with "
        "`python -m building.traceability --write`, in docs, and commit it:\n"
        "text.lossless: tests lose conformance/tests/requirements/test_texts.py::test_by_hand\n"
        "text.lossless: tests gain conformance/tests/requirements/test_texts.py::test_by_heart"
    )


def test_a_snapshot_of_another_form_or_none_is_stale(house: Path) -> None:
    edited(house / SNAPSHOT, lambda document: None)
    with pytest.raises(StaleSnapshot, match=r"\nit is written in another form$"):
        require_fresh(house)
    (house / SNAPSHOT).unlink()
    with pytest.raises(StaleSnapshot, match=r"\nthere is none$"):
        require_fresh(house)


def planted(house: Path, text: str) -> dict[str, tuple[str, ...]]:
    file = house / "adapters/tests/test_x.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"import pytest\n\n{text}\n", encoding="utf-8")
    return marked_tests(house, requirements())


@pytest.mark.parametrize(
    "text",
    [
        '@pytest.mark.requirement("law.loss")\ndef test_y():\n    pass',
        '@pytest.mark.parametrize("x", [1])\n@pytest.mark.requirement("law.prefix", "law.loss")\n'
        "def test_y(x):\n    pass",
        'pytestmark = pytest.mark.requirement("law.loss")\n\ndef test_y():\n    pass',
        'pytestmark = [pytest.mark.slow, pytest.mark.requirement("law.loss")]\n\n'
        "def test_y():\n    pass",
    ],
)
def test_a_test_that_names_an_unknown_id_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        UnknownRequirement,
        match=r"^adapters/tests/test_x\.py::test_y names 'law\.loss'; known: law\.lossless, law\.",
    ):
        planted(tmp_path, text)


def test_classes_hand_their_markers_to_their_tests(tmp_path: Path) -> None:
    found = planted(
        tmp_path,
        'pytestmark = pytest.mark.requirement("law.prefix")\n\n\n'
        '@pytest.mark.requirement("law.state")\n'
        "class TestAll:\n"
        "    pytestmark = (pytest.mark.requirement('law.support'),)\n\n"
        '    @pytest.mark.requirement("random.one", "law.prefix")\n'
        "    def test_one(self):\n        pass\n\n"
        "    def test_two(self):\n        pass\n\n"
        "    def not_a_test(self):\n        pass\n\n\n"
        "def test_three():\n    pass\n",
    )
    one, two, three = (
        f"adapters/tests/test_x.py::{name}"
        for name in ("TestAll::test_one", "TestAll::test_two", "test_three")
    )
    assert found == {
        "law.prefix": (one, two, three),
        "law.state": (one, two),
        "law.support": (one, two),
        "random.one": (one,),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "@pytest.mark.requirement()\ndef test_y():\n    pass",
            "must name one requirement or more",
        ),
        ("@pytest.mark.requirement\ndef test_y():\n    pass", "must name one requirement"),
        ("@pytest.mark.requirement(ID)\ndef test_y():\n    pass", r"requirement\(ID\) must name"),
        ("@pytest.mark.requirement('a', *B)\ndef test_y():\n    pass", r"'a', \*B\) must name one"),
        ("@pytest.mark.requirement(1)\ndef test_y():\n    pass", r"requirement\(1\) must name one"),
        ("@pytest.mark.requirement(id='a')\ndef test_y():\n    pass", r"\(id='a'\) must name one"),
        (
            "@pytest.mark.requirement('law.prefix')\ndef y():\n    pass",
            "is named on a test",
        ),
        ("every = pytest.mark.requirement('law.prefix')", "is named on a test"),
        ("X = pytest.param(1, marks=pytest.mark.requirement('law.prefix'))", "is named on a test"),
    ],
)
def test_a_marker_that_says_nothing_or_stands_nowhere_is_told(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UnreadableMarker, match=rf"^adapters/tests/test_x\.py:3: .*{message}"):
        planted(tmp_path, text)


def test_a_mutant_that_names_an_unknown_id_is_told(house: Path) -> None:
    wrong = replace(MUTANTS[0], must_fail=(MUTANTS[0].breaks, "law.loss"))
    assert wrong.id == "accepts-everything"
    with pytest.raises(
        UnknownRequirement, match=r"^mutant 'accepts-everything' names 'law\.loss'; known: "
    ):
        traces(house, mutants=[wrong])


def test_a_mutant_that_was_not_caught_is_told(house: Path) -> None:
    spared = replace(MUTANTS[0], must_fail=("random.one",))
    with pytest.raises(NotCaught) as refusal:
        traces(house, mutants=[spared])
    assert str(refusal.value) == (
        f"mutant {MUTANTS[0].id!r} names 'random.one', but {KILL_MATRIX} has no lane and case that "
        "caught it by that"
    )

    def survives(document: Any) -> None:
        for exhibit in document["exhibits"]:
            if exhibit["id"] == "leaves-no-state":
                exhibit["cells"][0]["verdict"] = "survived"

    edited(house / KILL_MATRIX, survives)
    with pytest.raises(NotCaught, match=r"^mutant 'leaves-no-state' names 'law\.state', but "):
        traces(house)


def test_an_engine_or_a_vector_that_names_an_unknown_id_is_told(house: Path) -> None:
    vectors = house / "spec/vectors/new/planted.json"
    vectors.parent.mkdir(parents=True)
    own = [{"id": "one", "requirements": ["law.prefix"]}, {"id": "two", "requirements": ["law.x"]}]
    vectors.write_text(json.dumps({"vectors": own}), encoding="utf-8")
    with pytest.raises(
        UnknownRequirement,
        match=r"^spec/vectors/new/planted\.json: two names 'law\.x'; known: ",
    ):
        traces(house)
    vectors.write_text(json.dumps({"vectors": own[:1] * 3}), encoding="utf-8")
    traced = {trace.requirement.id: trace for trace in traces(house)}
    counts = {each.file: each.count for each in traced["law.prefix"].vectors}
    assert counts["spec/vectors/new/planted.json"] == 3
    assert all(counts[each.file] == each.count for each in TRACES["law.prefix"].vectors)

    def renamed(document: Any) -> None:
        document["rows"][0]["judged"]["requirements"][0]["id"] = "law.loss"

    edited(house / ENGINES, renamed)
    with pytest.raises(UnknownRequirement, match=r"json: vllm-v0@0\.5\.5 names 'law\.loss'"):
        traces(house)


def test_a_row_that_names_a_withdrawn_id_was_judged_before_and_leads_nowhere(house: Path) -> None:
    (identity, *_) = withdrawn()

    def renamed(document: Any) -> None:
        each = document["rows"][0]["judged"]["requirements"][0]
        each["id"], each["verdict"] = identity, FAIL

    edited(house / ENGINES, renamed)
    assert identity not in {trace.requirement.id for trace in traces(house)}


# --- states --------------------------------------------------------------------------------------


def state(
    text: str = "",
    *,
    tests: tuple[str, ...] = (f"{JUDGING}test_x.py::test_y",),
    implied_by: tuple[str, ...] = (),
    is_proved: bool = False,
) -> tuple[str, str]:
    stated = replace(requirements()["law.prefix"], text=text, implied_by=implied_by)
    return _state(stated, tests, is_proved=is_proved)


def test_a_state_is_the_strongest_that_holds() -> None:
    assert state() == ("tested", "")
    assert state(implied_by=("law.lossless",)) == ("implied", "")
    assert state(implied_by=("law.lossless",), is_proved=True) == ("proved for a shape", "")
    assert state("Text.\n*External:* the hardware decides it.", tests=()) == (
        "external",
        "the hardware decides it.",
    )
    assert state("*Not applicable:* there is none yet.", tests=()) == (
        "not applicable",
        "there is none yet.",
    )
    with pytest.raises(Untested):
        state(tests=("adapters/tests/test_x.py::test_y",), is_proved=True)


# --- the snapshot --------------------------------------------------------------------------------


def test_the_snapshot_follows_its_schema_and_ends_in_a_line() -> None:
    text = snapshot([*TRACES.values()])
    assert text.endswith("}\n")
    document = json.loads(text)
    validate(document, "traceability")
    document["requirements"][0]["state"] = "believed"
    with pytest.raises(MalformedDocument, match="requirements/0/state: 'believed' is not one of"):
        validate(document, "traceability")


def test_a_line_or_another_parameter_changes_nothing(house: Path) -> None:
    for file in (house / "conformance/tests").rglob("test_*.py"):
        text = file.read_text(encoding="utf-8").replace("@pytest.mark.parametrize(", "\n@wrapped(")
        file.write_text(f"# A line more.\n{text}", encoding="utf-8")
    require_fresh(house)


def test_changes_are_told_line_by_line() -> None:
    old = {"id": "a", "state": "proved", "proofs": ["x"], "vectors": []}
    new = {"id": "a", "state": "tested", "proofs": [], "vectors": [{"file": "f", "count": 2}]}
    then, now = {"requirements": [old, {"id": "b"}]}, {"requirements": [new, {"id": "c"}]}
    assert changes(then, now) == [
        "b is no requirement any more",
        "c is a new requirement",
        "a: state was proved, is tested",
        "a: proofs lose x",
        "a: vectors gain f, 2",
    ]


def test_the_command_writes_it_or_says_that_it_is_stale(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traceability, "HOUSE", house)
    (house / SNAPSHOT).unlink()
    with pytest.raises(SystemExit, match=r"^spec/traceability\.json is not what is found now; if "):
        main([])
    main(["--write"])
    assert (house / SNAPSHOT).read_bytes() == (HOUSE / SNAPSHOT).read_bytes()
    main([])
    with pytest.raises(SystemExit, match=r"^unknown arguments --read; known: --write$"):
        main(["--read"])


# --- the page ------------------------------------------------------------------------------------


def leads(text: str) -> set[str]:
    return set(re.findall(r"\]\(([^()\s]+)\)", text))


def test_the_page_has_a_section_for_every_requirement_and_every_link_leads_somewhere() -> None:
    text = page()
    anchors = {each.anchor for each in headings(text) if each.anchor}
    assert anchors == {f"trace.{identity}" for identity in TRACES}
    for target in leads(text):
        if target.startswith("repo:"):
            path, _, name = target.removeprefix("repo:").partition("#")
            assert (HOUSE / path).is_file(), target
            assert name in (HOUSE / path).read_text(encoding="utf-8")
        elif target.startswith("#"):
            assert target[1:] in anchors | set(TRACES), target
        else:
            assert target.startswith("https://"), target


def test_the_table_counts_what_the_sections_list() -> None:
    text = page()
    for identity, trace in TRACES.items():
        row = next(line for line in text.splitlines() if f"<br>`{identity}` |" in line)
        vectors = sum(each.count for each in trace.vectors)
        cells = [cell.strip() for cell in row.split("|")[2:-1]]
        lanes = ", ".join(trace.requirement.lanes)
        assert cells[:3] == [trace.requirement.level, trace.state, lanes]
        assert [*map(int, cells[3:])] == [
            len(trace.tests),
            vectors,
            len(trace.kills),
            len(trace.proofs),
        ]
        section = text.split(f"{{ #trace.{identity} }}")[1].split("\n### ")[0]
        for test in trace.tests:
            assert f"[`{test.partition('::')[2]}`]" in section
        for kill in trace.kills:
            assert f"- `{kill.mutant.id}`: " in section


def test_evidence_tells_the_faults_of_the_field_and_counts_the_rest() -> None:
    told = evidence_of("law.prefix")
    assert "- sequoia-verify 0ff3ff7: The next token is written over a drafted one" in told
    assert "[Report](repo:adapters/matrix/reports/sequoia_verify.md)" in told
    assert "- `searches-off-the-end`: " in told
    assert told.endswith("](#trace.law.prefix).\n")
    assert evidence_of("law.state").startswith("*Faults of the field:* none is on record; ")
    kills = [kill for trace in TRACES.values() for kill in trace.kills]
    ours = next(kill for kill in kills if not kill.is_of_the_field)
    for identity in ours.mutant.must_fail:
        assert f"`{ours.mutant.id}`" not in evidence_of(identity)
        assert f"`{ours.mutant.id}`" in page()


def test_evidence_of_nothing_is_refused() -> None:
    with pytest.raises(UnknownRequirement, match=r"^what is asked for names 'law\.loss'; known: "):
        evidence_of("law.loss")


def test_sources_are_links_where_they_have_an_address() -> None:
    told = page()
    assert re.search(r"\[[\w.-]+/[\w.-]+#\d+\]\(https://github\.com/\S+/(issues|pull)/\d+\)", told)
    assert not re.search(r"(?<!\()https://github\.com", told)


def test_a_trace_is_data() -> None:
    trace: Trace = TRACES["law.lossless"]
    assert trace.state == "proved for a shape"
    with pytest.raises(AttributeError):
        trace.state = "believed"  # type: ignore[misc]  # that it cannot be is what is tested
