"""The GitHub action: what its scripts do, run as a runner runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from click.testing import CliRunner

from draftproof.conformance.cli import EXIT_CODES
from draftproof.conformance.cli.starting import init

HOUSE = Path(__file__).parents[2]
TEXT = (HOUSE / "action.yml").read_text(encoding="utf-8")
ACTION: dict[str, Any] = yaml.safe_load(TEXT)
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
INSTALL, CERTIFY, PASS_ON = (step for step in STEPS if "run" in step)

DRAFTPROOF = """
printf '%s\\n' "$@" > called
echo '# a report'
echo 'a word of warning' >&2
mkdir -p "$FAKE_OUTPUT"
sleep 0.05 # a file system's clock may tick as seldom as every 10 ms
mkdir -p "$FAKE_OUTPUT"/badges; touch "$FAKE_OUTPUT"/{mine.jsonl,badges/mine.json}
echo '{"predicate": {"draftproof": {"verdict": "it is fine"}}}' > "$FAKE_OUTPUT"/mine.json
exit "$FAKE_CODE"
"""
PYTHON = f'exec "{sys.executable}" "$@"\n'
PIP = """
printf '%s\\n' "$*" >> called
case $3 in
wheel) touch "${@: -2:1}"/draftproof-1-py3-none-any.whl ;;
hash) printf '%s:\\n--hash=sha256:1234\\n' "$4" ;;
esac
"""
NOTHING: Mapping[str, str] = MappingProxyType({})


def ran(
    step: Mapping[str, Any],
    folder: Path,
    inputs: Mapping[str, str] = NOTHING,
    *,
    outputs: Mapping[str, str] = NOTHING,
    code: int = 0,
) -> tuple[int, dict[str, str], str]:
    """Run a step as a runner does; return its exit code, its outputs and the job's summary.

    `outputs` are those of the step that certifies; `code` is what a fake draftproof exits with. The
    log is left in the folder.
    """
    given = {name: each["default"] for name, each in ACTION["inputs"].items()} | dict(inputs)
    known = {f"inputs.{name}": value for name, value in given.items()}
    known |= {f"steps.certify.outputs.{name}": value for name, value in outputs.items()}
    output, summary = folder / "output.txt", folder / "summary.md"
    for file in (output, summary):
        file.touch()
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(HOUSE),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "FAKE_OUTPUT": given["output"],
            "FAKE_CODE": str(code),
            **{name: evaluated(text, known) for name, text in step["env"].items()},
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    (folder / "log.txt").write_text(done.stdout)
    return done.returncode, parsed(output.read_text()), summary.read_text()


def evaluated(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: known[match[1]], text)


def parsed(text: str) -> dict[str, str]:
    """Read outputs as a runner does: name=value, or name<<end, lines, end."""
    found, lines = {}, iter(text.splitlines())
    for line in lines:
        name, long, end = line.partition("<<")
        if long:
            found[name] = "\n".join(iter(lambda end=end: next(lines), end))  # type: ignore[misc]
        else:
            name, _, found[name] = line.partition("=")
    return found


def put(folder: Path, **programs: str) -> None:
    (folder / "bin").mkdir()
    for name, text in programs.items():
        (folder / "bin" / name).write_text(f"#!/bin/bash\n{text}")
        (folder / "bin" / name).chmod(0o755)


@pytest.fixture
def pip(tmp_path: Path) -> Path:
    put(tmp_path, python=PIP)
    return tmp_path


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    put(tmp_path, draftproof=DRAFTPROOF, python=PYTHON)
    return tmp_path


def called(folder: Path) -> list[str]:
    return (folder / "called").read_text().splitlines()


def test_no_expression_stands_in_a_script() -> None:
    for step in STEPS:
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"


def test_every_input_is_described_and_used_and_no_other() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", TEXT))
    assert used == ACTION["inputs"].keys()
    for each in (*ACTION["inputs"].values(), *ACTION["outputs"].values()):
        assert each["description"].endswith(".")
    assert all(isinstance(each["default"], str) for each in ACTION["inputs"].values())


def test_every_output_is_set(fake: Path) -> None:
    _, found, _ = ran(CERTIFY, fake)
    assert found.keys() == ACTION["outputs"].keys()
    for name, each in ACTION["outputs"].items():
        assert each["value"] == f"${{{{ steps.{CERTIFY['id']}.outputs.{name} }}}}"


def test_other_actions_are_pinned_by_commit() -> None:
    used = re.findall(r"uses: (.*)", TEXT)
    assert len(used) == 2
    for each in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)


def test_the_workflow_of_init_follows_the_action(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(init, ["mine"])
    text = Path(".github/workflows/draftproof.yml").read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    checkout, certify = job["steps"]
    assert checkout["with"] == {"persist-credentials": False}
    assert certify["with"].keys() <= ACTION["inputs"].keys()
    assert certify["with"]["adapter"] == "./mine.py:Mine"
    (python,) = re.findall(r"uses: (actions/setup-python@.*)", text)
    assert f"uses: {python}\n" in TEXT
    assert re.search(r"uses: actions/checkout@[0-9a-f]{40} # v\d+\.\d+\.\d+\n", text)


def installed(folder: Path) -> tuple[str, str]:
    """Return what is asked of pip first, and last but for the path of the wheel."""
    *first, wheel, hashed, last = called(folder)
    built = re.fullmatch(r"-m pip hash (/.*)/draftproof-1-py3-none-any\.whl", hashed)
    assert built
    without = "--no-deps --no-build-isolation"
    assert wheel == f"-m pip wheel {without} --wheel-dir {built[1]} {HOUSE}"
    return "\n".join(first), last.replace(f"file://{built[1]}/", "")


BUILDER = f"-m pip install --require-hashes --no-deps --requirement {HOUSE}/locks/builder.txt"
LAST = f"-m pip install --require-hashes --constraint {HOUSE}/locks/draftproof.txt draftproof"
WHEEL = "draftproof-1-py3-none-any.whl#sha256=1234"


def test_the_action_installs_itself_and_torch_for_the_cpu(pip: Path) -> None:
    assert ran(INSTALL, pip)[0] == 0
    torch = BUILDER.replace("builder", "torch")
    assert installed(pip) == (
        f"{BUILDER}\n{torch} --index-url https://download.pytorch.org/whl/cpu",
        f"{LAST}[torch] @ {WHEEL}",
    )


def test_without_extras_there_is_no_torch(pip: Path) -> None:
    assert ran(INSTALL, pip, {"extras": ""})[0] == 0
    assert installed(pip) == (BUILDER, f"{LAST} @ {WHEEL}")


def test_nothing_is_installed_without_its_hash(pip: Path) -> None:
    ran(INSTALL, pip)
    installs = [each for each in called(pip) if "pip install" in each]
    assert len(installs) == 3
    assert all("--require-hashes" in each for each in installs)


def test_what_the_pages_install_is_what_the_action_installs(pip: Path) -> None:
    """A checkout is installed by the same script, from whatever folder."""
    path = f"{pip / 'bin'}:{os.environ['PATH']}"
    command = ["bash", f"{HOUSE}/locks/install.sh", "torch,dask"]
    subprocess.run(command, cwd=pip, env={**os.environ, "PATH": path}, check=True)
    assert installed(pip)[1] == f"{LAST}[torch,dask] @ {WHEEL}"
    for page in ("first-certificate.md", "how-to/cluster.md", "engines/index.md"):
        text = (HOUSE / "docs/pages" / page).read_text(encoding="utf-8")
        assert "bash locks/install.sh " in text
        assert "--constraint constraints.txt '." not in text


def test_an_installation_that_fails_ends_the_action(tmp_path: Path) -> None:
    put(tmp_path, python=f"{PIP}exit 7\n")
    assert ran(INSTALL, tmp_path)[0] == 7
    assert len(called(tmp_path)) == 1


def test_inputs_become_arguments(fake: Path) -> None:
    code, _, summary = ran(
        CERTIFY,
        fake,
        {
            "adapter": "./mine.py:Mine\n./my other.py:Other\n\n",
            "harness": "python -m engine --fast\n",
            "mode": "certify",
            "args": "--jobs 2\n  --search  200",
            "output": "my certificates",
        },
    )
    assert code == 0
    assert summary == "# a report\n"
    assert called(fake) == [
        *("certify", "--mode", "certify", "--format", "markdown", "--output", "my certificates"),
        *("--jobs", "2", "--search", "200", "--harness", "python -m engine --fast"),
        *("--", "./mine.py:Mine", "./my other.py:Other"),
    ]


HOSTILE = "$(touch hacked) `touch hacked` ; touch hacked # \" ' \\ * ${PATH}"


@pytest.mark.parametrize("name", ["adapter", "harness", "mode", "output"])
def test_no_input_is_a_command(fake: Path, name: str) -> None:
    ran(CERTIFY, fake, {name: HOSTILE})
    assert HOSTILE in called(fake)
    assert not (fake / "hacked").exists()


def test_an_engine_is_judged_in_its_own_mode(fake: Path) -> None:
    ran(CERTIFY, fake, {"adapter": "vllm", "mode": "", "args": "--source ."})
    assert called(fake)[:4] == ["certify", "--format", "markdown", "--output"]
    assert called(fake)[-4:] == ["--source", ".", "--", "vllm"]


def test_no_option_is_a_command(fake: Path) -> None:
    ran(CERTIFY, fake, {"args": HOSTILE})
    assert called(fake)[7:-1] == HOSTILE.split()
    assert not (fake / "hacked").exists()


def test_no_extra_is_a_command(pip: Path) -> None:
    ran(INSTALL, pip, {"extras": HOSTILE})
    assert installed(pip)[1] == f"{LAST}[{HOSTILE}] @ {WHEEL}"
    assert not (pip / "hacked").exists()


@pytest.mark.parametrize("code", EXIT_CODES)
def test_the_exit_code_is_passed_on(fake: Path, code: int) -> None:
    done, found, _ = ran(CERTIFY, fake, code=code)
    assert done == 0
    assert found["exit-code"] == str(code)
    assert ran(PASS_ON, fake, outputs=found)[0] == code


def test_the_verdict_is_the_certificates_own(fake: Path) -> None:
    """Not that of the exit code, which may excuse failures that are known."""
    assert ran(CERTIFY, fake)[1]["verdict"] == "it is fine"


def test_several_verdicts_stand_in_the_order_of_their_certificates(tmp_path: Path) -> None:
    second = DRAFTPROOF.replace("fine", "wrong").replace("mine", "other")
    put(tmp_path, draftproof=f"({DRAFTPROOF}){second}", python=PYTHON)
    found = ran(CERTIFY, tmp_path, {"output": "out"})[1]
    assert found["certificate"] == "out/mine.json\nout/other.json"
    assert found["verdict"] == "it is fine\nit is wrong"


def test_the_certificates_of_this_run_are_named(fake: Path) -> None:
    (fake / "out").mkdir()
    (fake / "out" / "old.json").touch()
    os.utime(fake / "out" / "old.json", (0, 0))
    assert ran(CERTIFY, fake, {"output": "out"})[1]["certificate"] == "out/mine.json"


def test_without_a_certificate_none_is_named(tmp_path: Path) -> None:
    put(tmp_path, draftproof="exit 3\n")
    code, found, summary = ran(CERTIFY, tmp_path)
    assert (code, summary) == (0, "")
    assert found == {"verdict": "", "exit-code": "3", "certificate": ""}


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"adapter": "./mine.py:Mine\n\n"}, "0"),
        ({"harness": "./mine"}, "0"),
        ({"adapter": "./mine.py:Mine\n./other.py:Other"}, "3"),
        ({"adapter": "./mine.py:Mine", "harness": "./other"}, "3"),
    ],
)
def test_every_adapter_needs_a_certificate(fake: Path, inputs: dict[str, str], code: str) -> None:
    done, found, _ = ran(CERTIFY, fake, inputs)
    said = (fake / "log.txt").read_text()
    assert (done, found["exit-code"]) == (0, code)
    told = "::error::the inputs name 2 adapters, but only 1 certificates were written\n"
    assert (told in said) == (code == "3")


def test_a_failure_is_not_covered_by_a_missing_certificate(fake: Path) -> None:
    assert ran(CERTIFY, fake, {"adapter": "one\ntwo"}, code=1)[1]["exit-code"] == "1"


def test_what_init_writes_is_certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(init, ["mine"])
    call = "from draftproof.conformance.cli import main; main()"
    put(tmp_path, draftproof=f'exec python -c "{call}" "$@"\n', python=PYTHON)
    code, found, summary = ran(CERTIFY, tmp_path, {"adapter": "./mine.py:Mine", "mode": "quick"})
    assert code == 0
    assert found == {
        "verdict": "conforms",
        "exit-code": "0",
        "certificate": "certificates/mine.json",
    }
    assert "law.lossless" in summary
