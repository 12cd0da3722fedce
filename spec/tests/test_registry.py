from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from draftproof.conformance.cases import cases
from draftproof.conformance.checkpoint.chain import chain
from draftproof.conformance.checkpoint.writing import rows_of
from draftproof.conformance.cli import EXIT_CODES
from draftproof.conformance.lanes.engine.parts import parts_of
from draftproof.conformance.lanes.observe import SAMPLE
from draftproof.conformance.protocol.adapter import DTYPES, declaration
from draftproof.conformance.protocol.loading import load_program
from draftproof.conformance.protocol.modes import MODES
from draftproof.conformance.requirements.finding import SKIPPED
from draftproof.conformance.requirements.laws import judge_case
from draftproof.conformance.requirements.plan import plan
from draftproof.conformance.requirements.sampled import EFFORTS
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.conformance.run.engines import ENGINE
from draftproof.reference.ledger import CLAIMS, VERDICTS, Verdict
from draftproof.reference.model import instance_from_json
from draftproof.reference.verifiers import ALGORITHMS, Algorithm
from draftproof.spec import chapters, registry, requirements, schema, validate, withdrawn

TEXTS = {chapter.stem: chapter.read_text(encoding="utf-8") for chapter in chapters()}
TEXT = "\n".join(TEXTS.values())
CHECKOUT = Path(__file__).parents[2]


def planned(mode: str = "certify") -> Iterator[Task]:
    """The tasks for verifiers that declare all there is, a state, and few layouts."""
    anything = SimpleNamespace(
        name="anything",
        version="1",
        algorithm="block",
        verify=print,
        draft=print,
        generate=print,
        same_as="torch-block",
        ragged=True,
        logits=True,
        dtypes=DTYPES,
        max_drafts=2,
    )
    stateful = SimpleNamespace(name="stateful", version="1", algorithm="greedy_block", verify=print)
    plain = SimpleNamespace(
        name="plain", version="1", algorithm="token", verify=print, layouts=["contiguous"]
    )
    for each in (anything, stateful, plain):
        yield from plan(declaration(each), mode)


def of_engines() -> set[str]:
    """The requirements that a campaign on a whole engine decides."""
    rows = rows_of(chain(), kind="memory-1", dtype="float32")
    return {"engine.support", "engine.length", *(part.requirement for part in parts_of(rows))}


def test_every_requirement_is_judged_and_every_judgement_is_required() -> None:
    of_verifiers = {each for task in planned() for each in task.requirements}
    assert not of_verifiers & of_engines()
    assert of_verifiers | of_engines() == set(requirements())


def test_ids_are_dotted_lowercase_and_every_link_to_one_resolves() -> None:
    for identity in requirements():
        assert re.fullmatch(r"[a-z]+(\.[a-z]+)+", identity)
    informative = set(re.findall(r"^### [^·\n]* \{ #([a-z._]+) \}$", TEXT, flags=re.M))
    claims = {f"claim.{identity}" for identity in CLAIMS}
    linked = set(re.findall(r"\]\(#([^)]+)\)", TEXT))
    assert linked <= {*requirements(), *informative, *claims}
    assert not informative & set(requirements())


def test_no_heading_with_an_anchor_is_overlooked() -> None:
    assert len(re.findall(r"· (?!withdrawn).*\{ #", TEXT)) == len(requirements())


def test_what_is_withdrawn_is_required_no_more_and_named_in_its_chapter() -> None:
    assert not {*withdrawn()} & {*requirements()}
    sentence = r"One requirement has been withdrawn: (.+)\.$"
    said = re.search(sentence, TEXTS["14-versioning"], flags=re.M)
    assert said is not None
    assert said[1] == ", ".join(f"`{identity}`" for identity in withdrawn())


def test_no_anchor_is_there_twice() -> None:
    anchors = re.findall(r"\{ #(\S+) \}$", TEXT, flags=re.M)
    assert len(anchors) == len(set(anchors))


def test_every_requirement_uses_its_own_level() -> None:
    for requirement in requirements().values():
        used = re.search(rf"\b{requirement.level}( NOT)?\b", requirement.text)
        assert used, requirement.id


def test_every_chapter_says_whether_it_is_normative() -> None:
    for name, text in TEXTS.items():
        number, title, said = re.match(r"# (\d+)\. (\w+)\n\n\*(\w+)\.\*", text).groups()  # type: ignore[union-attr]
        assert name.startswith(f"{int(number):02d}-")
        assert name[3:].startswith(title.lower()[:7])
        # What is required stands in normative text.
        assert said == "Normative" or not re.search(r"\b(MUST|SHOULD)\b.* \{ #", text)


def test_every_chapter_is_in_the_wheel() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for chapter in chapters():
        assert included[f"spec/{chapter.name}"] == f"draftproof/spec/{chapter.name}"


def test_links_to_files_lead_to_files() -> None:
    for target in re.findall(r"\]\(([^#)\s]+)", TEXT):
        if "://" not in target:
            assert (CHECKOUT / "spec" / target).exists(), target


# --- what is said of a requirement ----------------------------------------------------------


def test_the_text_of_a_requirement_ends_at_the_next_heading() -> None:
    text = requirements()["law.prefix"].text
    assert text.startswith("What is accepted MUST be a prefix")
    assert text.endswith("*Implied by:* [](#law.reference).")


def test_requirements_are_decided_by_the_lanes_that_the_suite_uses() -> None:
    used: dict[str, set[str]] = {}
    for task in planned():
        for requirement in task.requirements:
            used.setdefault(requirement, set()).update(task.lanes)
    for requirement in not_sampled():
        used[requirement].remove(SAMPLE)
    used |= {requirement: {ENGINE} for requirement in of_engines()}
    stated = {each.id: set(each.lanes) for each in requirements().values()}
    assert stated == used


def not_sampled() -> Iterator[str]:
    """What samples of one row leave open, of a verifier of which they are asked everything."""
    smallest = cases("quick")[0]
    terms = Terms(SAMPLE, "quick", seed=1)
    for found in judge_case(smallest, (smallest,), load_program("torch-block"), terms):
        if found.verdict == SKIPPED:
            assert "follows from" in found.detail
            yield found.requirement


def test_what_a_requirement_is_implied_by() -> None:
    assert requirements()["law.reference"].implied_by == ()
    assert requirements()["length.optimal"].implied_by == ("length.expected",)
    assert requirements()["batch.mixed"].implied_by == ("batch.invariant", "law.support")


LANES = "\n\n*Lanes:* exact.\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"### A · MUST {{ #law.a }}{LANES}\n### B · SHOULD {{ #law.a }}{LANES}",
            r"requirement 'law\.a' has two headings",
        ),
        (
            f"### A · withdrawn {{ #law.a }}\n\n### B · SHOULD {{ #law.a }}{LANES}",
            r"requirement 'law\.a' has two headings",
        ),
        (
            "### A · MUST { #law.a }\n\nIt MUST.\n\n### B\n\n*Lanes:* exact.",
            r"requirement 'law\.a' says by nothing how it is decided: it needs a line '\*Lanes:\*",
        ),
        (
            "### A · MUST { #law.a }\n\n*Lanes:* exact, guess (now and then).",
            r"requirement 'law\.a' names the lane 'guess'; known: exact, probe, sample, run",
        ),
        (
            "### A · MUST { #law.a }\n\n*Decided by:* a look at it.",
            r"requirement 'law\.a' is decided by what is not 'single runs'",
        ),
        (
            "### A · MUST { #law.a }\n\n*Lanes:* exact.\n*Implied by:* common sense.",
            r"requirement 'law\.a' is implied by nothing: it needs \[\]\(#an\.id\)",
        ),
        (
            "### A · MUST { #law.a }\n\n*Lanes:* exact.\n*Implied by:* [](#law.b).",
            r"requirement 'law\.a' is implied by 'law\.b', which is none",
        ),
        (
            "### A · MUST { #law.a }\n\n*Lanes:* exact.\n*Implied by:* [](#law.b).\n\n"
            "### B · MUST { #law.b }\n\n*Lanes:* exact.\n*Implied by:* [](#law.a).",
            r"requirements imply each other in a circle: 'law\.[ab]', 'law\.[ab]', 'law\.[ab]'",
        ),
    ],
    ids=("twice", "again", "undecided", "lane", "decided", "implied", "unknown", "circle"),
)
def test_a_chapter_that_is_wrong_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "01-a.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(registry, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=message):
        requirements.__wrapped__()  # past the cache


def test_what_is_said_of_lanes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "01-a.md").write_text(
        "# 1. A\n\n### Old · withdrawn { #law.old }\n\nWithdrawn.\n\n"
        "### A · SHOULD { #law.a }\n\nIt SHOULD.\n\n*Lanes:* sample (of\npairs), exact.\n"
        "*Decided by:* single runs.\n*Implied by:* [](#law.b), [](#law.c).\n\n"
        f"### B · MUST {{ #law.b }}{LANES}\n## C\n\n### C · MUST {{ #law.c }}{LANES}",
        encoding="utf-8",
    )
    monkeypatch.setattr(registry, "FOLDER", tmp_path)
    found = requirements.__wrapped__()
    assert list(found) == ["law.a", "law.b", "law.c"]
    assert registry.withdrawn.__wrapped__() == ("law.old",)
    assert found["law.a"].lanes == ("exact", "sample", "run")
    assert found["law.a"].implied_by == ("law.b", "law.c")
    assert (found["law.b"].text, found["law.a"].level) == ("*Lanes:* exact.", "SHOULD")


# --- what the chapters say of the code ------------------------------------------------------


def taken_by(algorithm: Algorithm) -> str:
    """What the chapter says that an algorithm takes and leaves."""
    takes = "one path."
    if algorithm.most_drafts != 1:
        *first, last = algorithm.schemes
        named = " or ".join([", ".join(first), last]) if first else last
        schemes = "any scheme" if len(algorithm.schemes) == 4 else named
        takes = f"paths of {schemes}, {'in trees' if algorithm.trees else 'that part at the root'}."
    leaves = "a modified target" if algorithm.stateful else "nothing"
    source = "ours" if algorithm.source == "draftproof" else algorithm.source
    return f"*Takes:* {takes} *Leaves:* {leaves}.\n*Source:* {source}"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_chapter_has_every_algorithm_as_it_is(name: str) -> None:
    algorithm = ALGORITHMS[name]
    heading = f"### {algorithm.title} {{ #algorithm.{name} }}\n"
    section = TEXTS["05-algorithms"].split(heading)[1].split("\n### ")[0]
    assert " ".join(section.split()).startswith(f"An implementation that names `{name}` MUST have,")
    assert taken_by(algorithm) in section
    for form in ("definition", "values", "law"):
        assert f'verifiers/{name}.py "computed: {form} {name}")' in section


def test_the_chapter_has_no_other_algorithm() -> None:
    named = re.findall(r"\{ #algorithm\.(\w+) \}", TEXT)
    assert named == [name for name in dict.fromkeys(named) if name in ALGORITHMS]
    assert set(named) == set(ALGORITHMS)


KINDS = "|".join(verdict.replace(" ", r"\s+") for verdict in Verdict)


def test_claims_are_told_with_their_verdicts() -> None:
    told = re.findall(rf"\[`([a-z_.]+)`\]\(#claim\.([a-z_.]+)\),\s+({KINDS})\b", TEXT)
    assert len(told) == TEXT.count("](#claim.")
    for shown, identity, verdict in told:
        assert (shown, " ".join(verdict.split())) == (identity, VERDICTS[identity].value)


def test_the_chapter_tells_every_kind_of_truth() -> None:
    told = re.findall(rf"\*({KINDS})\*", TEXT)
    assert {" ".join(verdict.split()) for verdict in told} == set(Verdict)


def test_the_exit_codes_are_those_of_the_commands() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", TEXTS["12-certificates"], flags=re.M)
    assert {int(code): meaning for code, meaning in rows} == EXIT_CODES


def test_the_biases_of_interest_are_those_of_the_modes() -> None:
    told = {mode: EFFORTS[mode].bias for mode in MODES}
    said = " ".join(TEXTS["11-evidence"].split())
    biases = re.search(
        r"bias of interest: ([\d.]+) in mode quick, ([\d.]+) in standard and ([\d.]+)", said
    )
    assert biases is not None
    assert dict(zip(told, map(float, biases.groups()), strict=True)) == told


def test_the_requests_of_a_harness_are_those_of_the_schema() -> None:
    tables = TEXTS["13-harness"].split("\n### A request\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", tables, flags=re.M)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    defined = schema("harness")["$defs"]
    for kind in ("verify", "result"):
        assert set(defined[kind]["properties"]) <= {*named}
    assert {*named} <= {*defined["verify"]["properties"], *defined["result"]["properties"]}


def test_the_declaration_of_a_harness_is_that_of_the_schema() -> None:
    table = TEXTS["13-harness"].split("\n### The declaration\n")[1].split("\n### ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (?:`(\S+)`)? ?\|", table, flags=re.M)
    declared = schema("harness")["$defs"]["declaration"]
    optional = {
        name: json.dumps(each["default"]) if "default" in each else ""
        for name, each in declared["properties"].items()
        if name not in declared["required"]
    }
    assert dict(rows) == optional


def test_the_instance_shown_is_one() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", TEXTS["01-notation"], flags=re.S)
    document = json.loads(shown)
    validate(document, "instance")
    instance = instance_from_json(document)
    assert not instance.target.context_free
    assert not instance.draft.context_free


def test_the_version_is_stated_once() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", registry.version())


@pytest.mark.parametrize("times", [0, 2])
def test_a_version_that_is_stated_never_or_twice_is_refused(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "01-a.md").write_text("This is version 1.0.0 of the specification.\n" * times)
    monkeypatch.setattr(registry, "FOLDER", tmp_path)
    told = r"one chapter states the version of the specification, found \[.*\]"
    with pytest.raises(ValueError, match=told):
        registry.version.__wrapped__()
