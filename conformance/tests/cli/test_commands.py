"""The command line as a user meets it: in a process of its own, through pipes, with bad input."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from telling import programs

from draftproof.conformance import cli
from draftproof.conformance.cli import EXIT_CODES
from draftproof.conformance.run import campaign
from draftproof.reference.extras import installation
from draftproof.reference.verifiers import ALGORITHMS
from draftproof.spec import MalformedDocument, validate

MOTIVATING = {
    "vocabulary": 2,
    "length": 2,
    "drafts": 1,
    "scheme": "iid",
    "target": ["1/3", "2/3"],
    "draft": {"": ["2/3", "1/3"], "0": ["2/3", "1/3"], "1": ["2/3", "1/3"]},
}


FEW = ("--mode", "quick", "--case", "generic.v2.l1", "--case", "generic.v2.l2")


def draftproof(*arguments: str, cwd: Path, stdin: str | None = None, **environment: str) -> Any:
    """Run the command in a process of its own, which has imported torch already."""
    program = [str(programs() / "draftproof"), *arguments]
    return _ran(program, cwd, stdin, environment)


def draftproof_anew(*arguments: str, cwd: Path, **environment: str) -> Any:
    """Run the command in a process that has imported nothing."""
    program = [sys.executable, "-c", "from draftproof.conformance.cli import main; main()"]
    return _ran([*program, *arguments], cwd, None, environment)


def _ran(program: list[str], cwd: Path, stdin: str | None, environment: dict[str, str]) -> Any:
    return subprocess.run(
        program,
        capture_output=True,
        text=True,
        input=stdin,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=300,
    )


@pytest.fixture
def two(tmp_path: Path) -> str:
    (tmp_path / "two.json").write_text(json.dumps(MOTIVATING))
    return "two.json"


@pytest.mark.parametrize(("algorithm", "expected"), [("token", "10/9"), ("block", "11/9")])
def test_law_of_the_motivating_example(
    tmp_path: Path, two: str, algorithm: str, expected: str
) -> None:
    ran = draftproof("law", algorithm, two, "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    validate(document, "law")
    assert document["algorithm"] == algorithm
    assert document["lossless"] is True
    assert document["expected_accepted"] == expected
    assert sum(Fraction(entry["probability"]) for entry in document["law"]) == 1


def test_a_law_that_is_not_the_targets_names_the_text_that_differs_most(
    tmp_path: Path, two: str
) -> None:
    (tmp_path / "own.py").write_text(
        "from draftproof.reference.emission import emission\n\n"
        "def draws(drafts, instance, chance):\n"
        "    return emission(drafts, (), chance.draw(instance.draft(())))\n"
    )
    ran = draftproof("law", "./own.py:draws", two, "--json", cwd=tmp_path)
    document = json.loads(ran.stdout)
    validate(document, "law")
    # The first token is the draft's, (2/3, 1/3), and the others are the target's, (1/3, 2/3).
    assert document["wrong"] == {"text": [0, 1, 1], "probability": "8/27", "required": "4/27"}
    shown = draftproof("law", "./own.py:draws", two, cwd=tmp_path).stdout
    assert "the text (0, 1, 1) has probability 8/27, required is 4/27\n" in shown


MANY = {**MOTIVATING, "drafts": 2}


@pytest.mark.parametrize(
    ("scheme", "algorithm"),
    [
        ("iid", "multipath_block"),
        ("without_replacement", "recursive_rejection"),
        ("hub", "spechub"),
        ("greedy", "greedy_draft"),
    ],
)
def test_law_of_several_drafts(tmp_path: Path, scheme: str, algorithm: str) -> None:
    instance = json.dumps({**MANY, "scheme": scheme})
    ran = draftproof("law", algorithm, "-", "--json", cwd=tmp_path, stdin=instance)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    validate(document, "law")
    assert document["lossless"] is True
    assert "process" not in document


def test_law_of_a_tree(tmp_path: Path) -> None:
    del (tree := {**MOTIVATING, "scheme": "tree", "branching": [2, 2]})["drafts"]
    ran = draftproof("law", "traversal", "-", "--json", cwd=tmp_path, stdin=json.dumps(tree))
    assert json.loads(ran.stdout)["lossless"] is True
    assert {entry["path"] for entry in json.loads(ran.stdout)["law"]} <= set(range(4))


def test_a_stateful_law_is_judged_by_its_process(tmp_path: Path, two: str) -> None:
    ran = draftproof("law", "greedy_block", two, "--json", cwd=tmp_path)
    document = json.loads(ran.stdout)
    validate(document, "law")
    assert document["expected_accepted"] == "4/3"
    assert document["process"] == {"tokens": 4, "lossless": True}
    shown = [(entry["path"], *entry["accepted"], entry["next"]) for entry in document["law"]]
    assert len(shown) == len(set(shown))
    printed = draftproof("law", "greedy_block", two, cwd=tmp_path).stdout
    assert "over several iterations, the first 4 tokens: lossless" in printed


def test_k_seq_takes_a_factor(tmp_path: Path) -> None:
    ran = draftproof(
        "law", "k_seq", "-", "--rho", "2", "--json", cwd=tmp_path, stdin=json.dumps(MANY)
    )
    document = json.loads(ran.stdout)
    # One position: b = sum of min(p/2, q) = 1/2, and 1 - (1 - b)^2 = 3/4 is accepted.
    accepted = sum(Fraction(e["probability"]) for e in document["law"] if e["accepted"])
    assert (document["lossless"], accepted) == (True, Fraction(3, 4))


def test_too_many_drafts_for_one_algorithm_are_none_of_the_others_business(tmp_path: Path) -> None:
    instance = json.dumps({**MOTIVATING, "length": 5, "drafts": 4, "draft": ["2/3", "1/3"]})
    ran = draftproof("law", "scored_multipath_block", "-", cwd=tmp_path, stdin=instance)
    reason = "32 to the power of 4 combinations of paths are too many to enumerate"
    assert (ran.returncode, ran.stdout) == (2, "")
    assert reason in ran.stderr
    ran = draftproof("law", "target_first", "-", "--json", cwd=tmp_path, stdin=instance)
    assert json.loads(ran.stdout)["lossless"] is True


def test_compare_tables_every_algorithm_that_fits(tmp_path: Path) -> None:
    instance = json.dumps(MANY)
    ran = draftproof("compare", "-", "--json", cwd=tmp_path, stdin=instance)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    validate(document, "compare")
    rows = {row["algorithm"]: row for row in document["algorithms"]}
    assert rows.keys() | {row["algorithm"] for row in document["unfit"]} == ALGORITHMS.keys()
    assert not rows.keys() & {row["algorithm"] for row in document["unfit"]}
    assert rows["multipath_block"]["expected_accepted"] == "131/81"
    assert rows["multipath_block"]["share"] == "1"
    values = [Fraction(row["expected_accepted"]) for row in document["algorithms"]]
    assert values == sorted(values, reverse=True)
    for row in document["algorithms"]:
        best = document["optimum"]["stateful" if row["stateful"] else "stateless"]
        assert row["lossless"] is True
        assert Fraction(row["share"]) == Fraction(row["expected_accepted"]) / Fraction(best) <= 1
    printed = draftproof("compare", "-", cwd=tmp_path, stdin=instance).stdout
    assert "131/81 = 1.617284" in printed
    assert "does not fit: token, block, greedy_block, spechub, greedy_draft" in printed


OWN = """
from draftproof.reference.emission import emission

def nothing(drafts, instance, chance):
    return emission(drafts, (), chance.draw(instance.target(())))

def broken(drafts, instance, chance):
    return 1 / 0
"""


def test_compare_takes_functions_of_ones_own(tmp_path: Path, two: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    ran = draftproof("compare", two, "./own.py:nothing", "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    document = json.loads(ran.stdout)
    validate(document, "compare")
    last = document["algorithms"][-1]
    assert last == {
        "algorithm": "./own.py:nothing",
        "stateful": False,
        "lossless": True,
        "expected_accepted": "0",
        "share": "0",
    }
    assert "token" in {row["algorithm"] for row in document["algorithms"]}


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("./own.py:broken", 3, "Error: ./own.py:broken raised ZeroDivisionError"),
        ("./own.py:other", 2, "own.py has no attribute 'other'"),
        ("token", 2, "token is compared anyway: name only functions of your own"),
        ("tokn", 2, "unknown algorithm 'tokn', did you mean 'token'?"),
    ],
)
def test_compare_says_what_is_wrong_with_a_function(
    tmp_path: Path, two: str, name: str, code: int, told: str
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    ran = draftproof("compare", two, name, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert told in ran.stderr


def test_optimum_has_a_certificate_that_ten_lines_check(tmp_path: Path, two: str) -> None:
    ran = draftproof("optimum", two, "--json", cwd=tmp_path)
    document = json.loads(ran.stdout)
    validate(document, "optimum")
    found = document["stateless"]
    assert found["value"] == "11/9"

    # The checker, from the schema's description alone: p and q do not depend on the context here.
    A, s, t = (
        {x: Fraction(w) for x, w in found["certificate"][name].items()}
        for name in ("budget", "target_price", "draft_price")
    )
    p, q = [Fraction(1, 3), Fraction(2, 3)], [Fraction(2, 3), Fraction(1, 3)]
    joint = {"": Fraction(1)}
    for x in sorted(A, key=len):
        parent, y = x[:-2] if "," in x else "", int(x[-1])
        joint[x] = joint[parent] * q[y]
        assert 0 <= A[x] <= min(A.get(parent, 1) * p[y], joint[x])
        assert min(s[x], t[x]) >= 0
        assert s[x] + t[x] >= 1 + sum(s.get(f"{x},{z}", 0) * p[z] for z in (0, 1))
    charged = sum(t[x] * joint[x] for x in A) + sum(s[str(z)] * p[z] for z in (0, 1))
    assert sum(A.values()) == charged == Fraction(found["value"])


def test_text_is_plain_where_there_is_no_terminal(tmp_path: Path, two: str) -> None:
    ran = draftproof("law", "block", two, cwd=tmp_path)
    assert ran.returncode == 0
    assert "block verification: E[accepted length] = 11/9, lossless" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert "1/27" in ran.stdout
    ran = draftproof("optimum", two, cwd=tmp_path)
    assert "largest E[accepted length] of a stateless verifier: 11/9, certified" in ran.stdout


def test_an_instance_may_come_through_a_pipe(tmp_path: Path) -> None:
    ran = draftproof("law", "token", "-", "--json", cwd=tmp_path, stdin=json.dumps(MOTIVATING))
    assert json.loads(ran.stdout)["expected_accepted"] == "10/9"


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "bom.json").write_text(json.dumps(MOTIVATING), encoding="utf-8-sig")
    assert draftproof("law", "token", "bom.json", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("redirection", ["law token - <&-", "list > /dev/full"])
def test_a_closed_input_and_a_full_disk_are_named(tmp_path: Path, redirection: str) -> None:
    command = f"{sys.executable} -c 'from draftproof.conformance.cli import main; main()'"
    ran = subprocess.run(
        ["/bin/bash", "-c", f"{command} {redirection}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert ran.returncode == 2
    assert "standard input is closed" in ran.stderr or "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_list(tmp_path: Path) -> None:
    ran = draftproof("list", "--json", cwd=tmp_path)
    document = json.loads(ran.stdout)
    validate(document, "list")
    assert [a["name"] for a in document["algorithms"]] == list(ALGORITHMS)
    hub = next(a for a in document["algorithms"] if a["name"] == "spechub")
    assert (hub["schemes"], hub["stateful"], hub["claims_optimum"]) == (["hub"], False, False)
    assert {"torch-token", "torch-block", "transformers"} <= {
        a["name"] for a in document["adapters"]
    }
    assert "law.lossless" in draftproof("list", "requirements", cwd=tmp_path).stdout


def test_one_kind_is_listed_with_every_case_that_can_be_asked(tmp_path: Path) -> None:
    document = json.loads(draftproof("list", "cases", "--json", cwd=tmp_path).stdout)
    validate(document, "list")
    assert list(document) == ["cases"]
    modes = {each["id"]: each["mode"] for each in document["cases"]}
    assert modes["generic.v2.l1"] == "quick"
    # Batches, long drafts and offsets are cases, too.
    assert {"batch.pair", "long.l8.d4", "mixed.agrees", "tensors"} <= set(modes)


def test_a_reader_that_stops_early_is_no_verdict(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from draftproof.conformance.cli import main; main()' list"
    ran = subprocess.run(
        ["/bin/bash", "-c", f"set -o pipefail; {command} | head -1"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (141, "algorithms\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("law", "blok", "two.json"),
            "unknown algorithm 'blok', did you mean 'block'?",
        ),
        (("law", "block", "none.json"), "cannot read 'none.json': No such file or directory"),
        (("law", "block", "."), "cannot read '.': Is a directory"),
        (("law", "block"), "Missing argument 'INSTANCE.json'"),
        (
            ("law", "block", "two.json", "--rho", "2"),
            "--rho applies only to k_seq, not to block",
        ),
        (("law", "k_seq", "two.json", "--rho", "0.5"), "K-SEQ needs a rho of at least rho* = 1"),
        (("law", "k_seq", "two.json", "--rho", "x"), "expected a rational number"),
        (("disprove",), "No such command 'disprove'"),
        (("certify",), "name an ADAPTER or a --harness"),
        (
            ("certify", "torch-token", "--mode", "certify", "--seed", "1"),
            "with a new seed: it takes no --case",
        ),
        (
            ("certify", "torch-token", "--mode", "certify", "--lane", "probe"),
            "every case on every lane",
        ),
        (("certify", "torch-token", "--address", "tcp://x"), "add --backend dask"),
        (
            ("certify", "torch-token", "--backend", "dask", "--jobs", "2"),
            "a cluster has its own workers",
        ),
        (("certify", "torch-blok"), "is called 'torch-blok', did you mean torch-block?"),
        (
            ("certify", "torch-token", "--case", "!motivatin"),
            "No case in mode standard matches '!motivatin'. Did you mean 'motivating'? "
            "Run `draftproof list cases` to see them.",
        ),
        (
            ("certify", "torch-token", "--case", "zzz"),
            "No case in mode standard matches 'zzz'. Run `draftproof list cases` to see them.",
        ),
        (("list", "engines"), "'engines' is not one of"),
        (("certify", "./none.py:mine"), "there is no file 'none.py'"),
        (("certify", "torch-token", "--mode", "huge"), "'huge' is not one of"),
        (("certify", "torch-token", "--jobs", "0"), "0 is not in the range x>=1"),
        (("certify", "torch-token", "--output", "two.json"), "is a file"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_why(
    tmp_path: Path, two: str, arguments: tuple[str, ...], message: str
) -> None:
    ran = draftproof(*arguments, cwd=tmp_path)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.json: it is not JSON: Expecting value: line 1 column 1"),
        ("{", "it is not JSON: Expecting property name"),
        ("[]", "an instance is a JSON object, got list"),
        ('{"vocabulary": 2}', "the instance has no 'length'"),
        (json.dumps({**MOTIVATING, "target": [0.5, 0.5]}), "the target's row at the empty context"),
        (json.dumps({**MOTIVATING, "target": ["1/2", "1/3"]}), "must sum to 1, it sums to 5/6"),
        (json.dumps({**MOTIVATING, "target": ["-1", "2"]}), "gives token 0 the negative weight -1"),
        (json.dumps({**MOTIVATING, "draft": {"": ["1/2", "1/2"]}}), "the draft has no row"),
        (json.dumps({**MOTIVATING, "length": 0}), "the draft length must be at least 1, got 0"),
        (json.dumps({**MOTIVATING, "drafts": 2}), "token verifies at most 1 path"),
        (json.dumps({**MOTIVATING, "scheme": "magic"}), "magic"),
        (
            json.dumps({**MOTIVATING, "scheme": "tree"}),
            "the scheme 'tree' needs 'branching', one factor for each drafted token",
        ),
        (
            json.dumps({**MOTIVATING, "drafts": 3, "branching": [2, 1]}),
            "branching [2, 1] makes 2 paths, 'drafts' says 3",
        ),
        (
            json.dumps({**MOTIVATING, "drafts": 10**9}),
            "there are too many ways to draw 1000000000 tokens of 2 to enumerate",
        ),
        (
            json.dumps({**MOTIVATING, "length": 60, "draft": ["1/2", "1/2"]}),
            "there are too many texts of 60 tokens of the draft to enumerate",
        ),
        (
            '{"vocabulary": 1, "length": 1000000, "target": ["1"], "draft": ["1"]}',
            "bad.json: 'length' is at most 200 in a file, got 1,000,000",
        ),
        (
            json.dumps({**MOTIVATING, "length": 30, "draft": ["1", "0"], "target": ["1/2", "1/2"]}),
            "there are too many texts of 31 tokens of the target to enumerate",
        ),
        ('{"vocabulary": 2, "vocabulary": 2}', "the key 'vocabulary' appears twice"),
        (
            "[" * 100_000,
            "bad.json: it has more than 64 lists and objects in each other, the most that are read",
        ),
        (
            "[" * 65 + "]" * 65,
            "bad.json: it has more than 64 lists and objects in each other, the most that are read",
        ),
        (
            '{"vocabulary": ' + "9" * 5000 + "}",
            "bad.json: a number of it has 5,000 digits, the most that are read are 100",
        ),
        ('{"vocabulary": NaN}', "bad.json: NaN is no number in JSON"),
        ('{"vocabulary": 1e999}', "bad.json: the number 1e999 is larger than floats are"),
        (
            f"[{'0,' * 600_000}0]",
            "bad.json: it has more than 500,000 values, the most that are read",
        ),
        (
            "[" + "[]," * 600_000 + "0]",
            "bad.json: it has more than 500,000 values, the most that are read",
        ),
        (
            " " * (2**25 + 1),
            "cannot read 'bad.json': it has more than 33,554,432 bytes, the most that are read",
        ),
        (
            "{" + ",".join(f'"{n}": 0' for n in range(50_000)) + ', "0": 1}',
            "bad.json: the key '0' appears twice",
        ),
        (
            json.dumps({**MOTIVATING, "vocabulary": 10**6, "target": ["0"] * 10}),
            "bad.json: 'vocabulary' is at most 10,000 in a file, got 1,000,000",
        ),
        (
            json.dumps({**MOTIVATING, "target": ["9" * 10**6, "1"]}),
            "a rational number has at most 1,000 characters, got 1,000,000",
        ),
        (
            json.dumps(
                {
                    "vocabulary": 200,
                    "length": 1,
                    "target": [f"1/{10**500 + n}" for n in range(200)],
                    "draft": ["1", *["0"] * 199],
                }
            ),
            "the denominators of a row have at most 20,000 digits together, those of a row of the "
            "target have 100,200",
        ),
        (
            json.dumps(
                {
                    **MOTIVATING,
                    "length": 14,
                    "draft": [f"1/{10**400}", f"{10**400 - 1}/1{'0' * 400}"],
                    "target": ["1", "0"],
                }
            ),
            "too many texts of 14 tokens of the draft, with numbers of 401 digits, to enumerate",
        ),
    ],
)
def test_a_bad_instance_exits_with_2_and_says_where(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "bad.json").write_text(text)
    ran = draftproof("law", "token", "bad.json", cwd=tmp_path)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("law", "{}", "motivating.json"),
        ("law", "./{}.py:verify", "motivating.json"),
        ("law", "token", "{}"),
        ("certify", "{}"),
        ("certify", "./{}.py:Mine"),
        ("certify", "harness:{}"),
        ("report", "{}"),
        ("explain", "{}"),
        ("check-certificate", "{}"),
        ("matrix", "{}"),
        ("claims", "{}"),
        ("mutants", "{}"),
        ("vectors", "check", "{}"),
        ("init", "{}"),
        ("{}",),
    ],
)
def test_no_word_of_a_command_line_steers_a_terminal_or_a_log(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "motivating.json").write_text(json.dumps(MOTIVATING))
    odd = "\x1b[2J\u202e\n::error::gone ##[group]"
    ran = draftproof(*(each.format(odd) for each in arguments), cwd=tmp_path)
    assert ran.returncode == 2
    assert not set("\x1b\u202e") & set(ran.stdout + ran.stderr)
    assert not any(line.strip().startswith("::") for line in ran.stderr.splitlines())
    assert "##[" not in ran.stderr
    assert "Traceback" not in ran.stderr


VERIFIERS = """
from types import SimpleNamespace
from draftproof.reference.emission import Emission, emission
from draftproof.reference.verifiers.token import token

class Adapter:
    name = version = "1"
    algorithm = "token"
    def verify(self, request): ...

class Other: ...

adapter = Adapter()
number = 7
class Mute(ValueError):
    def __str__(self): raise self
class Odd(LookupError):
    def __str__(self): return 7
def few(drafts, instance): ...
def mute(drafts, instance, chance): raise Mute
def odd(drafts, instance, chance): raise Odd
def quits(drafts, instance, chance): raise SystemExit(0)
def divides(drafts, instance, chance): return 1 / 0
def deep(drafts, instance, chance): return deep(drafts, instance, chance)
def types(drafts, instance, chance): return drafts + 1
def nothing(drafts, instance, chance): ...
def like(drafts, instance, chance): return SimpleNamespace(path=0, accepted=(), next_token=0)
def lists(drafts, instance, chance): return Emission(0, [], 0)
def far(drafts, instance, chance): return Emission(0, (), 7)
def words(drafts, instance, chance): return Emission(0, (), "0")
class Blank:
    def __repr__(self): raise ZeroDivisionError
def blank(drafts, instance, chance): return Emission(0, (), Blank())
def long(drafts, instance, chance): return Emission(0, (), "x\\n" * 10_000)
def elsewhere(drafts, instance, chance): return Emission(3, (), 0)
def whole(drafts, instance, chance): return Emission(0, (0,) * 9, 0)
def tosses(drafts, instance, chance): return chance.coin(2)
def floats(drafts, instance, chance): return chance.coin(0.5)
def right(drafts, instance, chance): return token(drafts, instance, chance)
"""


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("Adapter", 2, "is the class Adapter: an algorithm is a function verify(drafts, instance"),
        ("Adapter", 2, "`draftproof certify ./mine.py:Adapter` judges an adapter"),
        ("Other", 2, "./mine.py:Other is the class Other: an algorithm is a function"),
        ("adapter", 2, "is Adapter: an algorithm is a function verify(drafts, instance, chance)"),
        ("number", 2, "./mine.py:number is int: an algorithm is a function"),
        ("few", 2, "takes other arguments than verify(drafts, instance, chance): too many"),
        ("quits", 3, "./mine.py:quits raised SystemExit: 0"),
        ("divides", 3, "./mine.py:divides raised ZeroDivisionError: division by zero (line 23)"),
        ("mute", 3, "mine.py:mute raised Mute: its message cannot be had: __str__ raised Mute"),
        ("odd", 3, "mine.py:odd raised Odd: its message cannot be had: __str__ raised TypeError"),
        ("deep", 3, "./mine.py:deep raised RecursionError: maximum recursion depth"),
        ("types", 3, "./mine.py:types raised TypeError: unsupported operand"),
        ("nothing", 3, "returned a NoneType: it must return an Emission, such as draftproof.refer"),
        ("like", 3, "./mine.py:like returned a SimpleNamespace: it must return an Emission"),
        ("lists", 3, "returned the accepted tokens [], not a tuple of at most 2"),
        ("far", 3, "./mine.py:far returned the token 7, not in 0..1"),
        ("words", 3, "./mine.py:words returned the token '0', not in 0..1"),
        ("blank", 3, "the token a Blank whose __repr__ raised ZeroDivisionError, not in 0..1"),
        ("long", 3, "x..., not in 0..1"),
        ("elsewhere", 3, "./mine.py:elsewhere returned the path 3, not in 0..0"),
        ("whole", 3, "not a tuple of at most 2"),
        ("tosses", 3, "mine.py:tosses: a coin's probability must lie in 0..1, got 2 (line 37)"),
        ("floats", 3, "got the float 0.5: write it as a fraction (line 38)"),
        ("right", 0, ""),
    ],
)
def test_a_verifier_of_a_users_own_is_told_what_is_wrong_with_it(
    tmp_path: Path, name: str, code: int, message: str
) -> None:
    (tmp_path / "motivating.json").write_text(json.dumps(MOTIVATING))
    (tmp_path / "mine.py").write_text(VERIFIERS)
    ran = draftproof("law", f"./mine.py:{name}", "motivating.json", cwd=tmp_path)
    assert ran.returncode == code, ran.stderr
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("magic", "unknown algorithm 'magic'; known: block, canonical, "),
        ("spec_hub", "unknown algorithm 'spec_hub', did you mean 'spechub'?"),
        ("./mine.py", "./mine.py names a file, and no function in it: ./mine.py:few or ./mine.py:"),
        ("./mine.py:", "./mine.py: names a file, and no function in it: ./mine.py:few or "),
        ("./none.py", "there is no file './none.py'"),
        ("./mine.py:rigt", "./mine.py has no attribute 'rigt', did you mean 'right'?"),
        (
            ":",
            "':' names no algorithm: `draftproof list` names all, and your own is at ./file.py:f",
        ),
        (":x", "':x' names no algorithm: `draftproof list` names all"),
        ("./garbage:x", "'./garbage' is neither a Python file, such as ./file.py, nor a module"),
        ("..:x", "'..' is neither a Python file, such as ./file.py, nor a module, such as package"),
    ],
)
def test_an_algorithm_that_is_none_is_a_usage_error(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "motivating.json").write_text(json.dumps(MOTIVATING))
    (tmp_path / "mine.py").write_text(VERIFIERS)
    ran = draftproof("law", name, "motivating.json", cwd=tmp_path)
    assert ran.returncode == 2, ran.stderr
    assert message in " ".join(ran.stderr.split())


def test_binary_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b"\xff\xfe\x00")
    ran = draftproof("optimum", "bad.json", cwd=tmp_path)
    assert ran.returncode == 2
    assert "cannot read 'bad.json': it is not UTF-8 text" in ran.stderr


def test_certify_writes_a_certificate_and_exits_with_6_for_some_cases(tmp_path: Path) -> None:
    ran = draftproof("certify", "torch-block", *FEW, "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (6, "")
    document = json.loads(ran.stdout)
    validate(document, "certify")
    written = json.loads((tmp_path / "certificates" / "torch-block.json").read_text())
    assert document["certificates"] == [written]
    assert document["exit_code"] == 6
    assert written["predicate"]["result"] == "WARNED"
    badge = json.loads((tmp_path / "certificates" / "badges" / "torch-block.json").read_text())
    assert (badge["message"], badge["color"]) == ("passes 2 of 110 cases, exact", "lightgrey")
    assert {file.name for file in (tmp_path / "certificates").iterdir()} == {
        "torch-block.json",
        "torch-block.jsonl",
        "badges",
    }


def test_certify_prints_a_table_and_the_counterexample(tmp_path: Path) -> None:
    wrong = "draftproof.conformance.museum.mutants:BonusFromDraft"
    ran = draftproof("certify", wrong, *FEW, "--output", "out", "-v", cwd=tmp_path)
    assert ran.returncode == 1
    for part in ("law.lossless", "fail", "exact", "drafted: ", "should be", "does not conform"):
        assert part in ran.stdout
    assert (tmp_path / "out" / "bonus-from-draft.json").is_file()


def test_two_processes_find_the_same(tmp_path: Path) -> None:
    right = "draftproof.conformance.museum.mutants.verifiers:Checked"
    same = (right, "--mode", "quick", "--seed", "1", "--case", "generic.*")
    one, two = (
        json.loads(draftproof("certify", *same, "--jobs", jobs, "--json", cwd=tmp_path).stdout)[
            "certificates"
        ][0]["predicate"]["draftproof"]["requirements"]
        for jobs in ("1", "2")
    )
    assert one == two


def test_the_gravest_of_several_adapters_decides_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_engine\n")
    adapters = (
        "draftproof.conformance.museum.mutants:OneHotUnderTheNameToken",
        "./broken.py:x",
        "torch-token",
    )
    ran = draftproof("certify", *adapters, *FEW, "--json", cwd=tmp_path)
    assert ran.returncode == 3
    document = json.loads(ran.stdout)
    validate(document, "certify")
    assert len(document["certificates"]) == 2
    assert "No module named 'no_such_engine'" in document["errors"][0]["message"]
    assert "could not run" in ran.stderr


def test_what_cannot_be_seen_through_exits_with_3(tmp_path: Path) -> None:
    (tmp_path / "opaque.py").write_text(
        "import torch\n"
        "class Opaque:\n"
        "    name, version, algorithm = 'opaque', '1', 'token'\n"
        "    def verify(self, request):\n"
        "        return torch.randn(1) > 0\n"
    )
    ran = draftproof("certify", "./opaque.py:Opaque", *FEW, "--lane", "exact", cwd=tmp_path)
    assert ran.returncode == 3
    assert "aten.randn.default" in ran.stdout
    assert "opaque.py:5: return torch.randn(1) > 0" in ran.stdout
    assert "could not be judged" in ran.stdout


def test_a_malformed_certificate_exits_with_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise MalformedDocument("certificate: predicate: it is broken")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("draftproof.conformance.evidence.certificate.sealed", refuse)
    ran = CliRunner().invoke(cli.cli, ["certify", "torch-token", *FEW])
    assert ran.exit_code == 5
    assert "MalformedDocument: certificate: predicate: it is broken" in ran.output


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_a_page_that_cannot_be_made_is_refused_before_anything_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    ran = CliRunner().invoke(cli.cli, ["certify", "torch-token", "--format", "html"])
    assert ran.exit_code == 3
    assert f"{module}: {installation('report')}" in ran.stderr
    assert not (tmp_path / "certificates").exists()


def test_a_half_precision_adapter_can_be_inconclusive(tmp_path: Path) -> None:
    """More than 1/1000 off, less than bfloat16 rounding explains: nothing is decided."""
    (tmp_path / "narrow.py").write_text(
        "import torch\n"
        "from draftproof.conformance.protocol.adapter import Result\n"
        "class Narrow:\n"
        "    name, version, algorithm, dtype = 'narrow', '1', 'token', torch.bfloat16\n"
        "    def verify(self, request):\n"
        "        path, q = request.draft_tokens[:, 0], request.draft_probs[:, 0]\n"
        "        p = request.target_probs[:, 0]\n"
        "        at = lambda rows: rows.gather(-1, path[..., None])[..., 0]\n"
        "        ratio = at(p[:, :-1]) / at(q)\n"
        "        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)\n"
        "        rows = torch.cat([p[:, :-1] - q, p[:, -1:]], 1)[torch.arange(len(p)), accepted]\n"
        "        token = torch.multinomial(rows.clamp(min=0).float(), 1)[:, 0]\n"
        "        return Result(accepted, torch.zeros_like(accepted), token)\n"
    )
    terms = ("--mode", "quick", "--case", "generic.v3.l2")
    ran = draftproof("certify", "./narrow.py:Narrow", *terms, cwd=tmp_path)
    assert ran.returncode == 4
    assert "inconclusive" in ran.stdout


def test_without_torch_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
    )
    ran = draftproof_anew("certify", "torch-token", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert ran.returncode == 3
    assert f"it needs PyTorch: {installation('torch')}" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_without_torch_a_test_that_judges_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "draftproof.conformance.run.campaign")
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("draftproof.conformance.run.campaign")
    assert str(caught.value) == f"judging needs PyTorch: {installation('torch')}"
    assert caught.value.name == "torch"


def test_tracebacks_are_shown_where_asked_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    name, version, algorithm = 'mine', '1', 'token'\n"
        "    def verify(self, request):\n"
        "        raise ValueError('no row')\n"
    )
    (tmp_path / "gone.py").write_text("1 / 0")
    asked = ("certify", "./mine.py:Mine", "./gone.py:Mine", *FEW)
    for options in ((), ("--traceback",), ("--traceback", "--jobs", "2")):
        ran = draftproof(*asked, *options, cwd=tmp_path)
        assert ran.returncode == 3
        assert "it raised ValueError: no row (mine.py:4)" in ran.stderr
        assert "ZeroDivisionError: division by zero (gone.py:1)" in ran.stderr
        assert ('mine.py", line 4, in verify' in ran.stderr) is bool(options)
        assert ('gone.py", line 1, in <module>' in ran.stderr) is bool(options)


def test_what_needs_no_torch_runs_without_it(tmp_path: Path, two: str) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
    for arguments in (("law", "block", two), ("optimum", two), ("list",)):
        ran = draftproof_anew(*arguments, cwd=tmp_path, PYTHONPATH=str(tmp_path))
        assert ran.returncode == 0


def test_every_exit_code_is_documented_in_the_help(tmp_path: Path) -> None:
    shown = " ".join(draftproof("--help", cwd=tmp_path).stdout.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code} {meaning}" in shown


def test_a_defect_of_ours_is_not_taken_for_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise AssertionError("impossible")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign, "run", broken)
    monkeypatch.setattr(sys, "argv", ["draftproof", "certify", "torch-token"])
    assert cli.exit_code() == 70
    assert "a bug in draftproof; please report it" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["__init__", "verify"])
def test_an_adapter_that_goes_to_another_folder_takes_no_certificate_along(
    tmp_path: Path, place: str
) -> None:
    away = {"__init__": "os.chdir('/')", "verify": "pass"}
    (tmp_path / "mine.py").write_text(
        "import os, torch\n"
        "from types import SimpleNamespace\n"
        "class Mine:\n"
        "    name, version, algorithm, batch = 'mine', '1', 'token', False\n"
        "    def __init__(self):\n"
        f"        {away[place]}\n"
        "    def verify(self, request):\n"
        "        os.chdir('/')\n"
        "        nothing = torch.zeros(len(request.draft_tokens), dtype=torch.long)\n"
        "        return SimpleNamespace(\n"
        "            accepted_length=nothing, path=nothing, next_token=nothing\n"
        "        )\n"
    )
    few = ("--mode", "quick", "--case", "zeros.both", "--lane", "sample", "--seed", "1")
    ran = draftproof("certify", "./mine.py:Mine", *few, "--output", "out", cwd=tmp_path)
    assert ran.returncode == 1, ran.stderr
    assert "certificate: out/mine.json" in ran.stdout
    written = {each.name for each in (tmp_path / "out").iterdir()}
    assert written == {"mine.json", "mine.jsonl", "badges"}


def test_an_interruption_exits_with_130_and_promises_nothing_that_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign, "run", interrupted)
    monkeypatch.setattr(sys, "argv", ["draftproof", "certify", "torch-token"])
    assert cli.exit_code() == 130
    told = capsys.readouterr().err
    assert told.strip() == "Interrupted."
    assert list((tmp_path / "certificates").iterdir()) == []


BROKEN = """
import os
import sys
import torch
from types import SimpleNamespace

class Mine:
    name, version, algorithm = "mine", "1", "token"
    def verify(self, request):
        print("a word from the adapter")
        os.write(1, b"a word behind Python's back. ")
        path, q = request.draft_tokens[:, 0], request.draft_probs[:, 0]
        p = request.target_probs[:, 0]
        ratio = (p[:, :-1] / q).gather(-1, path[..., None])[..., 0]
        accepted = (torch.rand_like(ratio) < ratio).long().cumprod(-1).sum(-1)
        rows = torch.cat([(p[:, :-1] - q).clamp(min=0), p[:, -1:]], 1)
        token = torch.multinomial(rows[torch.arange(len(path)), accepted], 1)[:, 0]
        return SimpleNamespace(accepted_length=accepted, path=accepted * 0, next_token=token)

class Quitter(Mine):
    def verify(self, request):
        sys.exit(0)

class Elsewhere(Mine):
    device = "cuda:99"

class Endless(Mine):
    batch = False

    def verify(self, request):
        while torch.rand(()) < 0.999:
            pass

class Unnamed(Mine):
    algorithm = "my-own"
"""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "quits.py").write_text("import sys\nsys.exit(0)\n")
    return tmp_path


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("./broken.py:Quitter", "it fails on every case: it raised SystemExit: 0"),
        ("./broken.py:Elsewhere", "its device 'cuda:99' is not there"),
        ("./quits.py:x", "quits.py could not be imported: SystemExit: 0"),
    ],
)
def test_an_adapter_that_gives_up_is_no_conforming_one(
    broken: Path, adapter: str, message: str
) -> None:
    ran = draftproof("certify", adapter, *FEW, cwd=broken)
    assert ran.returncode == 3
    assert message in ran.stderr


def test_adapters_of_one_name_get_a_certificate_each_and_may_print(broken: Path) -> None:
    ran = draftproof(
        *("certify", "./broken.py:Mine", "./broken.py:Mine", *FEW, "--json"),
        *("--lane", "exact", "--jobs", "2"),
        cwd=broken,
    )
    assert ran.returncode == 6
    assert len(json.loads(ran.stdout)["certificates"]) == 2
    assert "a word from the adapter" in ran.stderr
    assert "a word behind Python's back" in ran.stderr
    names = {file.name for file in (broken / "certificates").iterdir()}
    assert {"mine.json", "mine.jsonl", "mine-2.json", "mine-2.jsonl"} <= names


def test_an_adapter_without_an_end_is_stopped(broken: Path) -> None:
    ran = draftproof("certify", "./broken.py:Endless", *FEW, "--lane", "exact", cwd=broken)
    assert ran.returncode == 3
    assert "made more than 2000 random choices" in ran.stdout


def test_an_algorithm_of_ones_own_is_judged_by_its_text(broken: Path) -> None:
    ran = draftproof("certify", "./broken.py:Unnamed", *FEW, "--json", cwd=broken)
    assert ran.returncode == 6
    found = json.loads(ran.stdout)["certificates"][0]["predicate"]["draftproof"]["requirements"]
    verdicts = {requirement["id"]: requirement["verdict"] for requirement in found}
    assert verdicts["law.lossless"] == "pass"
    assert verdicts["law.reference"] == verdicts["length.expected"] == "skipped"


def test_an_adapter_in_a_file_imports_what_is_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "of_adapter"
    folder.mkdir()
    (folder / "beside.py").write_text("from draftproof.adapters.fast import torch_token as mine\n")
    (folder / "mine.py").write_text("from beside import mine\n")
    ran = draftproof_anew("certify", "./of_adapter/mine.py:mine", *FEW, cwd=tmp_path)
    assert ran.returncode == 6, ran.stderr
    assert "passes 2 of " in ran.stdout
