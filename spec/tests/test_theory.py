"""The theory is proved, of programs that have the laws of the reference."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, product
from pathlib import Path
from struct import pack
from typing import Any

import pytest
from theory import __main__ as command
from theory import checking, correspondence, evaluation, extraction, sentences
from theory.factor import least_factor

from draftproof.reference.ledger import CLAIMS
from draftproof.reference.ledger.instances import example, row
from draftproof.reference.model import Instance, instance_from_json, instance_to_json
from draftproof.reference.optimum import k_seq_factor
from draftproof.reference.verifiers import ALGORITHMS, emission_law

HOUSE = Path(__file__).parents[2]

needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="coqc is not installed: `make theory` says how to"
)

OPEN = {
    "canonical",
    "optimal_transport",
    "recursive_greedy_block",
}
"""The verifiers of which nothing is proved for every V, L and K."""


def theory(folder: Path, text: str) -> Path:
    """A folder with one file of a theory."""
    (folder / "planted.v").write_text(f"From Coq Require Import Classical.\n{text}\n")
    return folder


# --- the theorems -------------------------------------------------------------------------------


@needs_coq
def test_every_theorem_is_proved_without_axioms() -> None:
    found = checking.check()
    assert len(found) > 50
    assert {each.rests_on for each in found} == {"Closed under the global context"}
    assert len({(each.file, each.name) for each in found}) == len(found)


def test_every_theorem_that_the_ledger_names_is_one() -> None:
    stated = {
        f"{file}.{each.name}"
        for file, text in checking.files().items()
        for each in sentences.results(text)
        if each.head == "Theorem"
    }
    named = {theorem for claim in CLAIMS.values() for theorem in claim.theorems}
    assert named
    assert named <= stated, named - stated


def test_nothing_is_assumed_where_coq_does_not_look() -> None:
    assert [each for item in checking.files().items() for each in checking.assumed(*item)] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Theorem a : 1 = 2.\nAdmitted.", "planted.v:3: `Admitted` leaves a proof open"),
        ("Lemma a : 1 = 2.\nProof. admit. Qed.", "`admit` leaves a proof open"),
        ("Lemma a : 1 = 2. Proof. by give_up. Qed.", "`give_up` leaves a proof open"),
        ("Axiom a : 1 = 2.", "`Axiom` assumes what nobody proves"),
        ("Section A.\n#[local] Parameter a : 1 = 2.\nEnd A.", "`Parameter` assumes"),
        ("Local Conjecture a : 1 = 2.", "`Conjecture` assumes"),
        ("Variable a : 1 = 2.", "`Variable` outside a section is an axiom"),
        ("Section A. End A. Hypotheses (a : 1 = 2).", "`Hypotheses` outside a section"),
        ("Module A. Context (a : 1 = 2). End A.", "`Context` outside a section"),
        ("Unset Guard Checking.", "what Coq checks is checked everywhere"),
        ('(* " *) " (* "(*" *) *) Axiom a : 1 = 2.', "`Axiom` assumes"),
    ],
)
def test_what_is_assumed_is_refused_before_coq_is_asked(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(checking.Refused, match=re.escape(told)):
        checking.check(theory(tmp_path, text), tmp_path / "build")


def test_words_in_comments_and_premises_of_a_section_assume_nothing() -> None:
    text = '(* Admitted. Axiom a : b. (* admit *) *)\nDefinition a := "Axiom. Admitted.".\n'
    text += "Section A.\nVariables (x : nat).\nHypothesis one : x = 1.\nEnd A.\n"
    assert not [*checking.assumed("a", text)]


@needs_coq
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "Example a (P : Prop) : P \\/ ~ P.\nProof. exact (classic P). Qed.",
            "planted.a: Axioms:\nClassical_Prop.classic : forall P : Prop, P \\/ ~ P",
        ),
        ("Example a : 1 = 2.\nProof. reflexivity. Qed.", "planted.v does not compile:\nFile"),
        ("From Draftproof Require Import none.", "planted.v needs none.v, which is not there"),
    ],
    ids=("axiom", "unproved", "missing"),
)
def test_a_theorem_that_rests_on_an_axiom_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(checking.Refused, match=re.escape(told)):
        checking.check(theory(tmp_path, text), tmp_path / "build")


# --- the instances of the theorems ----------------------------------------------------------------


def test_every_theorem_has_an_instance() -> None:
    assert [*checking.without_instance(checking.files())] == []


def test_a_theorem_without_an_instance_is_refused(tmp_path: Path) -> None:
    for name, text in checking.files().items():
        (tmp_path / f"{name}.v").write_text(text)
    block = tmp_path / "block.v"
    block.write_text(f"{block.read_text()}\nTheorem planted : 1 = 1.\nProof. by []. Qed.\n")
    with pytest.raises(checking.Refused) as refused:
        checking.check(tmp_path, tmp_path / "build")
    assert re.fullmatch(
        r"block\.v:\d+: `planted` has no instance: apply it to a concrete model in .*",
        str(refused.value),
    )


STATED = "Theorem a : 1 = 1.\nProof. reflexivity. Qed.\nLemma b : 1 = 1.\nProof. exact a. Qed.\n"


@pytest.mark.parametrize(
    ("instances", "others"),
    [
        ("Definition used := a.", {}),
        ("Example one : 1 = 1.\nProof. by rewrite (a). Qed.", {}),
        ("Example one : (a = a).\nProof. reflexivity. Qed.", {}),
        ("Definition used := planted.a.", {"other": STATED.replace("Theorem", "Lemma")}),
    ],
    ids=("definition", "proof", "statement", "with its file"),
)
def test_a_theorem_that_a_term_names_has_an_instance(
    instances: str, others: dict[str, str]
) -> None:
    texts = {"planted": STATED, "instances_of_it": instances, **others}
    assert [*checking.without_instance(texts)] == []


@pytest.mark.parametrize(
    ("instances", "others"),
    [
        ("", {}),
        ("(* a *) Definition used := b.", {}),
        ('Definition used := "a".', {}),
        ("From Draftproof Require Import a.\nCheck a.", {}),
        ("Definition used := (other.a, a').", {}),
        ("Example a : 1 = 1.\nProof. reflexivity. Qed.\nDefinition used := a.", {}),
        ("Definition used := a.", {"other": STATED.replace("Theorem", "Lemma")}),
        ("", {"other": "Definition used := planted.a."}),
    ],
    ids=("none", "comment", "string", "command", "other", "own", "ambiguous", "elsewhere"),
)
def test_a_theorem_that_no_term_names_has_none(instances: str, others: dict[str, str]) -> None:
    texts = {"planted": STATED, "instances": instances, **others}
    (told,) = checking.without_instance(texts)
    assert told.startswith("planted.v:1: `a` has no instance")


THREE = ("1/4 1/4 1/2", "1/2 1/2 0", "0 0 1")
"""The rows q_row, p_row and sure_row of spec/theory/instances.v."""

CONTEXTS = ("", "0", "1", "0,0", "0,1", "1,0", "1,1")
TWO: dict[str, object] = {
    "vocabulary": 2,
    "length": 2,
    "target": {key: ["0", "1"] if key[-1:] == "0" else ["2/3", "1/3"] for key in CONTEXTS},
    "draft": {key: ["1", "0"] if key[-1:] == "0" else ["1/2", "1/2"] for key in CONTEXTS[:3]},
}
"""The models of spec/theory/instances.v: its `true` is 0, and `false` is 1."""

DIVIDED: tuple[tuple[str, str, Instance], ...] = (
    ("half", "token", example(THREE[0], THREE[1])),
    ("same", "token", example(THREE[1], THREE[1])),
    ("half", "block", example(THREE[0], THREE[1])),
    ("same", "block", example(THREE[1], THREE[1])),
    (
        "sure",
        "recursive_rejection",
        example(THREE[0], THREE[2], drafts=2, scheme="without_replacement"),
    ),
    ("same", "k_seq", example(THREE[1], THREE[1], drafts=2)),
    ("sure", "spechub", example(THREE[0], THREE[2], drafts=2, scheme="hub")),
    ("half", "greedy_draft", example(THREE[0], THREE[1], drafts=2, scheme="greedy")),
    ("half", "naive_tree", example(THREE[0], THREE[1], drafts=2)),
    ("half", "multipath_block", example(THREE[0], THREE[1], drafts=2)),
    ("even", "mixed_multipath_block", example("1/2 1/2", "1 0", drafts=2)),
    ("block", "block", instance_from_json(TWO)),
    ("block", "greedy_block", instance_from_json(TWO)),
    ("multipath", "multipath_block", instance_from_json({**TWO, "drafts": 2})),
)
"""The laws that spec/theory/instances_division.v states, in its order, and what they are of."""


def test_the_laws_where_a_division_by_zero_occurs_are_the_reference_s() -> None:
    text = checking.files()["instances_division"]
    stated: dict[str, dict[tuple[tuple[int, ...], int], Fraction]] = {}
    for name, listed in re.findall(r"Definition known_(\w+) :[^=]*:= \[::(.*?)\]\.\n", text, re.S):
        outcomes = re.findall(r"\(\(\[::(.*?)\], (\w+)\), (\d+)(?:%:Q)? / (\d+)%:Q\)", listed)
        assert len(outcomes) == listed.count("%:Q)")
        stated[name] = {
            (tuple(map(_token, path.replace(";", " ").split())), _token(following)): Fraction(
                int(numerator), int(denominator)
            )
            for path, following, numerator, denominator in outcomes
        }
    used = re.findall(r"decides_nothing known_(\w+) ", text)
    assert used == [name for name, _, _ in DIVIDED]
    for name, algorithm, instance in DIVIDED:
        law = emission_law(ALGORITHMS[algorithm], instance).map(
            lambda emission: (emission.accepted, emission.next_token)
        )
        wanted = {outcome: Fraction(str(weight)) for outcome, weight in law.items()}
        assert stated[name] == wanted, (name, algorithm)


def _token(word: str) -> int:
    return {"true": 0, "false": 1}[word] if word in ("true", "false") else int(word[-1])


@needs_coq
def test_every_theorem_says_in_words_what_it_states() -> None:
    silent = [
        f"{name}.{each.name}"
        for name, text in checking.files().items()
        for each in sentences.results(text)
        if each.head == "Theorem" and not each.said.endswith(".")
    ]
    assert silent == []


def test_every_theorem_is_listed_in_a_chapter() -> None:
    chapters = "".join(file.read_text("utf-8") for file in (HOUSE / "spec").glob("*.md"))
    listed = set(" ".join(re.findall(r'"computed: theorems ([^"]+)"', chapters)).split())
    stated = {
        name
        for name, text in checking.files().items()
        if any(each.head == "Theorem" for each in sentences.results(text))
    }
    assert listed == stated


def test_what_a_theorem_supposes_is_what_its_sections_and_its_arrows_say() -> None:
    text = """
Section Outer.
Hypotheses (a : A 1) (b c : forall x, B x -> C).
Section Inner.
Hypothesis d : D.
(* One. *)
Theorem one (x : nat) : (E -> F) -> G x -> H.
Proof. by []. Qed.
End Inner.
Theorem two : let y := 1 in H. Proof. by []. Qed.
End Outer.
Theorem three z : P z <-> Q -> R.
"""
    around = ["A 1", "forall x, B x -> C"]
    assert sentences.premises(text) == {
        "one": [*around, "D", "E -> F", "G x"],
        "two": around,
        "three": ["P z <-> Q"],
    }
    assert [each.said for each in sentences.results(text)] == ["One.", "", ""]


def test_what_changed_is_compiled_again_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "first.v").write_text("Definition one := 1.\n")
    (tmp_path / "second.v").write_text(
        "From Draftproof Require Import first.\nModule Inner.\n"
        "Example same : one = 1.\nProof. reflexivity. Qed.\nEnd Inner.\n"
    )
    build = tmp_path / "build"
    assert list(checking.compiled(tmp_path, build)) == ["first", "second"]
    assert checking.compiled(tmp_path, build) == {}
    (found,) = checking.check(tmp_path, build)
    assert (found.file, found.name) == ("second", "Inner.same")
    (tmp_path / "first.v").write_text("Definition one := 2.\n")
    with pytest.raises(checking.Refused, match=r"second\.v does not compile"):
        checking.check(tmp_path, build)


def test_who_has_no_coq_is_told_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert command.main([]) == 1
    told = capsys.readouterr().err
    assert told.startswith("coqc is not installed.")
    assert "apt-get install coq libcoq-mathcomp-algebra\n" in told
    assert "opam install coq.8.16.1" in told


def test_words_that_are_no_command_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["lwa"]) == 2
    assert "python -m theory law PROGRAM INSTANCE" in capsys.readouterr().err


@pytest.mark.skipif(not (HOUSE / ".git").exists(), reason="no checkout of git")
def test_nothing_that_coq_makes_is_in_git() -> None:
    call = ["git", "ls-files", "--others", "--cached", "--exclude-standard", "spec/theory"]
    listed = subprocess.run(call, cwd=HOUSE, capture_output=True, text=True, check=True).stdout
    assert {Path(file).suffix for file in listed.split()} <= {".v", ".ml", ".py", ".toml", ".md"}


# --- the files as sentences -----------------------------------------------------------------------


@pytest.mark.parametrize("name", checking.files())
def test_a_file_is_its_sentences(name: str) -> None:
    text = checking.files()[name]
    found = sentences.sentences(text)
    whole = "".join(each.source for each in found)
    assert text.startswith(whole)
    assert not text.removeprefix(whole).strip()
    assert len(re.findall(r"^Theorem ", text, re.M)) == sum(e.head == "Theorem" for e in found)
    assert sentences.header(text).endswith(".")
    opened = [each for each in found if each.head == "Section"]
    assert len(opened) == sum(each.head == "End" for each in found)


# --- the programs ---------------------------------------------------------------------------------


@needs_coq
@pytest.mark.parametrize("name", evaluation.PROGRAMS)
def test_a_program_has_the_laws_of_the_vectors(name: str) -> None:
    checking.compiled()
    vectors = evaluation.vectors_of(name)
    assert evaluation.differences(evaluation.PROGRAMS[name], vectors) == []


@pytest.mark.parametrize("name", evaluation.PROGRAMS)
def test_every_vector_of_a_program_is_asked(name: str) -> None:
    files = (HOUSE / "spec/vectors").glob("*/laws.json")
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    there = [v["id"] for each in documents for v in each["vectors"] if v["algorithm"] == name]
    asked = evaluation.vectors_of(name)
    assert sorted(vector.id for vector in asked) == sorted(there)
    assert all(sum(vector.law.values()) == 1 and vector.given for vector in asked)
    if ALGORITHMS[name].stateful:
        assert any(vector.left for vector in asked)


@needs_coq
def test_a_program_with_another_law_is_noticed() -> None:
    checking.compiled()
    token, block = (evaluation.PROGRAMS[name] for name in ("token", "block"))
    vectors = {vector.id: vector for vector in evaluation.vectors_of("block")}
    banked = vectors["law.block.banked"]
    assert evaluation.differences(block, [banked]) == []
    told = evaluation.differences(token, [banked])
    assert told[0].startswith("law.block.banked, drafting included: accepted [")
    assert any(
        each.startswith("law.block.banked on [(1, 0)]: accepted [] and then 0") for each in told
    )


HELD_OUT = {
    "block": example("1/7 2/7 4/7", "3/5 0 2/5", length=2),
    "token": example("0 1/3 2/3", "1/2 1/2 0", length=3),
    "recursive_rejection": example("1/7 2/7 4/7", "3/5 1/5 1/5", drafts=3),
}
"""Instances that no vector has."""


@needs_coq
@pytest.mark.parametrize("name", HELD_OUT)
def test_a_program_has_the_law_of_the_reference_on_what_it_has_not_seen(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checking.compiled()
    instance: Instance = HELD_OUT[name]
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(instance_to_json(instance)))
    assert command.main(["law", name, str(file)]) == 0
    law = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = emission_law(ALGORITHMS[name], instance).map(lambda e: (e.accepted, e.next_token))
    assert {(tuple(accepted), token): Fraction(weight) for accepted, token, weight in law} == {
        outcome: Fraction(str(weight)) for outcome, weight in wanted.items()
    }


@pytest.mark.parametrize(
    ("p", "q", "drafts"),
    [
        ("1/3 2/3", "1/3 2/3", 2),
        ("1 0", "0 1", 3),
        ("1/2 1/2", "1/4 3/4", 2),
        ("2/5 3/5", "1/5 4/5", 3),
        ("0 1/6 5/6", "1/2 1/2 0", 4),
        ("1/3 1/3 1/3", "1/2 1/4 1/4", 2),
    ],
)
def test_the_factor_is_the_one_of_the_reference(p: str, q: str, drafts: int) -> None:
    of_target, of_draft = ([Fraction(each) for each in text.split()] for text in (p, q))
    found = least_factor(of_target, of_draft, drafts)
    assert str(found) == str(k_seq_factor.least_factor(row(p), row(q), drafts))


# --- read beside the reference --------------------------------------------------------------------


def test_no_program_and_no_module_has_changed_since_they_were_read_side_by_side() -> None:
    """When this fails, it says what to read, and how to note that it was read."""
    assert [*correspondence.unread()] == []


def test_every_verifier_was_read_beside_a_program_or_is_known_to_have_none() -> None:
    modules = {f"verifiers/{name}.py": name for name in ALGORITHMS}
    assert {modules[each] for each in correspondence.without_theory(modules)} == OPEN
    assert {name for name in ALGORITHMS if name not in evaluation.PROGRAMS} == OPEN


def test_what_was_read_and_has_changed_is_found_until_it_is_noted(tmp_path: Path) -> None:
    table, file = tmp_path / "table.toml", tmp_path / "block.v"
    (tmp_path / "block.py").write_text("one = 1\n")
    file.write_text("Definition one := 1.\nLemma a : one = 1.\nProof. reflexivity. Qed.\n")
    table.write_text(
        '# Said.\n\n[files.block]\nmodules = ["block.py"]\nprograms = ""\n\n[modules]\n'
    )
    places = (tmp_path, tmp_path, table)

    correspondence.noted(["block"], *places)
    assert table.read_text().startswith("# Said.\n\n[files.block]\n")
    assert [*correspondence.unread(*places)] == []

    # Proofs and comments may change.
    file.write_text("(* Now. *) Definition one :=\n 1.\nLemma a : one = 1.\nProof. easy. Qed.\n")
    assert [*correspondence.unread(*places)] == []

    file.write_text("Definition one := 0.\n")
    (told,) = correspondence.unread(*places)
    assert "side by side: spec/theory/block.v, its programs. Read" in told
    correspondence.noted(["block"], *places)
    (tmp_path / "block.py").write_text("one = 0\n")
    (told,) = correspondence.unread(*places)
    assert "side by side: reference/draftproof/reference/block.py. Read" in told
    assert told.endswith("cd spec && python -m theory read block")

    noted = table.read_text()
    with pytest.raises(LookupError, match="no file of the theory is called 'blok'; known: block"):
        correspondence.noted(["block", "blok"], *places)
    assert table.read_text() == noted


# --- the programs as a harness --------------------------------------------------------------------


@pytest.fixture(scope="module")
def harness() -> Path:
    try:
        return extraction.harness()
    except checking.Missing as missing:
        pytest.skip(str(missing).splitlines()[0])


Case = tuple[evaluation.Instance, tuple[evaluation.Tokens, ...], evaluation.Law]
"""An instance, the paths that were drafted, and the law of the emission on them."""


def cases_of(algorithm: str, scheme: str, drafts: int) -> list[Case]:
    """The vectors' laws on paths that part at the root, where rows are exact in doubles."""
    return [
        (vector.instance, paths, law)
        for vector in evaluation.vectors_of(algorithm)
        for own in [vector.instance]
        if own.scheme == scheme and own.drafts == drafts and set(own.widths[1:]) <= {1}
        for paths, law in vector.given.items()
        if len(paths) == drafts
        and all(
            Fraction(float(weight)) == weight
            for rows in (own.target, own.draft)
            for row in rows.values()
            for weight in row
        )
    ]


def tensor(shape: Sequence[int], data: bytes, dtype: str = "float64") -> dict[str, Any]:
    return {"dtype": dtype, "shape": [*shape], "data": b64encode(data).decode()}


def asked(case: Case, numbers: Sequence[tuple[Fraction, Fraction]], **changes: Any) -> str:
    """A request for a case in as many rows as there are pairs of numbers."""
    instance, paths, _ = case
    count, drafts = len(numbers), len(paths)
    length, vocabulary = instance.length, instance.vocabulary

    def along(rows: evaluation.Rows, is_free: bool, depths: int) -> dict[str, Any]:
        own = [
            float(weight)
            for path in paths
            for depth in range(depths)
            for weight in rows[() if is_free else path[:depth]]
        ]
        return tensor((count, drafts, depths, vocabulary), pack(f"<{len(own)}d", *own) * count)

    def uniform(column: int) -> dict[str, Any]:
        return tensor([count], pack(f"<{count}d", *(float(pair[column]) for pair in numbers)))

    tokens = [token for path in paths for token in path]
    of_target, of_draft = instance.is_context_free
    request = {
        "sequence": 1,
        "rows": count,
        "drafts": drafts,
        "length": length,
        "vocabulary": vocabulary,
        "draft_tokens": tensor(
            [count, drafts, length], pack(f"<{len(tokens)}q", *tokens) * count, "int64"
        ),
        "draft_probs": along(instance.draft, of_draft, length),
        "target_probs": along(instance.target, of_target, length + 1),
        "noise": {"accepted": uniform(0), "token": uniform(1)},
    }
    return json.dumps({"verify": {**request, **changes}}, separators=(",", ":"))


def answers(harness: Path, name: str, requests: Sequence[str]) -> list[dict[str, Any]]:
    lines = "\n".join(['{"start":{"protocol":1}}', *requests, '{"stop":{}}'])
    done = subprocess.run(
        [harness, name], input=lines, capture_output=True, text=True, check=True, timeout=60
    )
    declaration, *found = map(json.loads, done.stdout.splitlines())
    assert declaration["declaration"]["algorithm"] in ALGORITHMS
    return found


def emitted(case: Case, answer: dict[str, Any]) -> list[evaluation.Outcome]:
    result = answer["result"]
    columns = (result[name] for name in ("path", "accepted_length", "next_token"))
    return [(case[1][path][:length], token) for path, length, token in zip(*columns, strict=True)]


def at(law: evaluation.Law, u: Fraction, v: Fraction) -> evaluation.Outcome:
    """The emission where a law of one path is cut into cells: the longest first, then by token."""
    lengths = sorted({len(accepted) for accepted, _ in law}, reverse=True)
    shares = [sum(w for (own, _), w in law.items() if len(own) == length) for length in lengths]
    length = next(n for n, end in zip(lengths, accumulate(shares), strict=True) if u < end)
    some = {outcome: w for outcome, w in sorted(law.items()) if len(outcome[0]) == length}
    mark = v * sum(some.values())
    return next(o for o, end in zip(some, accumulate(some.values()), strict=True) if mark < end)


@pytest.mark.parametrize("name", ["block", "token"])
def test_the_harness_emits_what_the_law_of_a_vector_has_there(harness: Path, name: str) -> None:
    cases = cases_of(name, "iid", 1)
    assert len(cases) > 20
    few = [Fraction(k, 16) for k in (0, 1, 5, 8, 12)] + [1 - Fraction(1, 2**53)]
    numbers = [*product(few, few)]
    found = answers(harness, name, [asked(case, numbers) for case in cases])
    for case, answer in zip(cases, found, strict=True):
        assert emitted(case, answer) == [at(case[2], u, v) for u, v in numbers]


@pytest.mark.parametrize(
    ("name", "algorithm", "scheme"),
    [
        ("rejection-iid", "recursive_rejection", "iid"),
        ("rejection-without-replacement", "recursive_rejection", "without_replacement"),
        ("target-first", "target_first", "iid"),
        ("spechub", "spechub", "hub"),
    ],
)
def test_the_harness_has_the_laws_of_vectors_of_several_paths(
    harness: Path, name: str, algorithm: str, scheme: str
) -> None:
    """On a grid of numbers, which the cells of a law miss by a few rows and columns."""
    cases, side = cases_of(algorithm, scheme, 2)[:4], 64
    assert cases
    grid = [Fraction(2 * k + 1, 2 * side) for k in range(side)]
    numbers = [*product(grid, grid)]
    found = answers(harness, name, [asked(case, numbers) for case in cases])
    for case, answer in zip(cases, found, strict=True):
        counts, law = Counter(emitted(case, answer)), case[2]
        assert set(counts) <= {outcome for outcome, weight in law.items() if weight}
        for outcome, weight in law.items():
            assert abs(Fraction(counts[outcome], len(numbers)) - weight) <= Fraction(8, side)


def test_the_harness_refuses_what_is_invalid_and_goes_on(harness: Path) -> None:
    case = next(
        case
        for case in cases_of("block", "iid", 1)
        if (case[0].vocabulary, case[0].length) == (2, 1)
    )
    numbers = [(Fraction(1, 2), Fraction(1, 2))]
    (token,) = case[1][0]
    wrong = {
        "nan is no probability": [float("nan"), 0.5],
        "-0.5 is no probability": [-0.5, 1.5],
        "sums to 0.75, not to 1": [0.5, 0.25],
        f"token {token} has probability 0": [float(token == 1), float(token == 0)],
    }
    changes: list[dict[str, Any]] = [
        *({"draft_probs": tensor((1, 1, 1, 2), pack("<dd", *row))} for row in wrong.values()),
        {"draft_tokens": tensor((1, 1, 1), pack("<q", 2), "int64")},
        {"draft_tokens": tensor((1, 1, 2), pack("<qq", 0, 0), "int64")},
        {"drafts": 2},
        {},
    ]
    *refused, last = answers(harness, "block", [asked(case, numbers, **each) for each in changes])
    told = [*wrong, "is not in 0..1", "has the wrong shape", "has 2 drafts, not 1"]
    for answer, words in zip(refused, told, strict=True):
        assert words in answer["error"]["message"]
    assert emitted(case, last) == [at(case[2], *numbers[0])]


def test_who_has_no_ocaml_is_told_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert command.main(["harness"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ocamlfind is not installed.")
    assert "apt-get install libzarith-ocaml-dev\n" in told
