"""The store, as a user of `draftproof certify` meets it: never a verdict that no longer holds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from telling import programs

from draftproof.conformance.cli import cli, judging
from draftproof.conformance.cli.storing import place_of

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"

HEAD = f"""from __future__ import annotations
import os, pathlib, sys
{RIGHT.read_text(encoding="utf-8").replace("from __future__ import annotations", "")}

class Mine(Batched):
    name, version = "mine", "1.0"
    files = (__file__,)

    def __init__(self):
        pass

    def draw(self, rows):
        tokens = super().draw(rows)
        return tokens * 0 if self.is_broken() else tokens
"""

FEW = ("--mode", "quick", "--case", "generic.v2.l1", "--case", "runs", "--lane", "exact")


@dataclass(frozen=True)
class Ran:
    """Outcome of a command."""

    returncode: int
    stdout: str
    stderr: str


def certify(
    folder: Path,
    *options: str,
    name: str = "./mine.py:Mine",
    few: tuple[str, ...] = FEW,
    **env: str,
) -> Ran:
    """Certify in a folder, with its store, as a process that has loaded nothing of it yet."""
    before, path = {*sys.modules}, [*sys.path]
    try:
        with chdir(folder):
            ran = CliRunner().invoke(
                cli,
                ["certify", name, *few, *options],
                env={"DRAFTPROOF_STORE": ".draftproof", **env},
                catch_exceptions=False,
            )
    finally:
        sys.path[:] = path
        for each in {*sys.modules} - before:
            if str(folder.parent) in str(getattr(sys.modules[each], "__file__", "")):
                del sys.modules[each]
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


def in_a_process(folder: Path, *options: str) -> Any:
    """Certify in a process of its own, with the store of a folder."""
    return subprocess.run(
        [str(programs() / "draftproof"), "certify", "./mine.py:Mine", *FEW, *options],
        cwd=folder,
        env={**os.environ, "DRAFTPROOF_STORE": ".draftproof"},
        capture_output=True,
        text=True,
        timeout=300,
    )


def write(folder: Path, is_broken: str) -> None:
    (folder / "mine.py").write_text(f"{HEAD}\n    def is_broken(self):\n        {is_broken}\n")


def counts(ran: Any) -> tuple[int, int]:
    """How many findings were known and judged, as the command says."""
    found = re.search(r"Mine: (\d+) stored findings from [-\d]+; (\d+) judged now", ran.stderr)
    return (int(found[1]), int(found[2])) if found else (0, -1)


SOME = 6
"""Exit code of what passes some cases."""


def test_what_has_not_changed_is_not_judged_again(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    first = in_a_process(tmp_path)
    assert (first.returncode, "stored findings" in first.stderr) == (SOME, False)
    kept = {file: file.read_bytes() for file in (tmp_path / "certificates").rglob("*.json*")}
    assert len(kept) == 3
    for file in kept:
        file.unlink()
    again = in_a_process(tmp_path)
    assert (again.returncode, again.stdout) == (SOME, first.stdout)
    known, judged = counts(again)
    assert known > 0
    assert judged == 0
    assert {file: file.read_bytes() for file in kept} == kept


def test_a_task_that_is_known_is_not_judged_among_others(tmp_path: Path) -> None:
    """The campaign is another one, and its tests share another budget, but for this case."""
    write(tmp_path, "return False")
    wide = (*FEW[:2], "--case", "generic.v2.l1", "--case", "generic.v2.l2", *FEW[-2:])
    assert certify(tmp_path, few=wide).returncode == SOME
    (tmp_path / ".draftproof" / "campaigns").rename(tmp_path / "gone")
    again = certify(tmp_path, "--seed", "1", few=wide)
    assert counts(again) == (0, -1), "another seed is another question"
    (tmp_path / ".draftproof" / "campaigns").rename(tmp_path / "gone too")
    known, judged = counts(certify(tmp_path, "--seed", "1", few=wide))
    assert known > 0
    assert judged == 0


def test_an_edited_verifier_is_judged_again(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    assert certify(tmp_path).returncode == SOME
    write(tmp_path, "return True")
    broken = certify(tmp_path)
    assert (broken.returncode, counts(broken)) == (1, (0, -1))
    write(tmp_path, "return False")
    assert certify(tmp_path).returncode == SOME


ONCE = "if 'read' not in vars(Mine): Mine.read = {}\n        return Mine.read"
"""Program that asks the first time, and keeps the answer."""

READS = {
    "a file, once": (
        ONCE.format("pathlib.Path('data.txt').read_text() == 'True'"),
        "data.txt",
        "{}",
    ),
    "a module": ("import own; return own.BROKEN", "own.py", "BROKEN = {}"),
    "a file": ("return pathlib.Path('data.txt').read_text() == 'True'", "data.txt", "{}"),
    "whether there is a file": (
        "import contextlib\n"
        "        with contextlib.suppress(OSError):\n"
        "            return pathlib.Path('data.txt').read_text() == 'True'\n"
        "        return False",
        "data.txt",
        "{}",
    ),
}


@pytest.mark.parametrize("what", READS)
def test_what_a_verifier_reads_is_part_of_it(tmp_path: Path, what: str) -> None:
    program, file, text = READS[what]
    write(tmp_path, f"sys.path.insert(0, {str(tmp_path)!r})\n        {program}")
    if what != "whether there is a file":
        (tmp_path / file).write_text(text.format(False))
    assert certify(tmp_path).returncode == SOME
    assert counts(certify(tmp_path))[1] == 0
    (tmp_path / file).write_text(text.format(True))
    broken = certify(tmp_path)
    assert (broken.returncode, counts(broken)) == (1, (0, -1))


@pytest.mark.parametrize(
    "read", ["os.environ.get('BROKEN')", "'BROKEN' in dict(os.environ)", "once"]
)
def test_a_variable_that_a_verifier_reads_is_part_of_it(tmp_path: Path, read: str) -> None:
    once = ONCE.format("os.environ.get('BROKEN')")
    write(tmp_path, once if read == "once" else f"return {read}")
    assert certify(tmp_path).returncode == SOME
    assert counts(certify(tmp_path))[1] == 0
    broken = certify(tmp_path, BROKEN="1")
    assert (broken.returncode, counts(broken)) == (1, (0, -1))
    assert certify(tmp_path, BROKEN="1", OMP_NUM_THREADS="3").returncode == 1


@pytest.mark.parametrize(
    "program",
    [
        "import subprocess; return subprocess.run(['true']).returncode",
        ONCE.format("__import__('subprocess').run(['true']).returncode"),
    ],
)
def test_what_reaches_beyond_is_judged_every_time(tmp_path: Path, program: str) -> None:
    write(tmp_path, program)
    for _ in range(2):
        ran = certify(tmp_path)
        assert (ran.returncode, counts(ran)) == (SOME, (0, -1))
        assert "./mine.py:Mine: not kept in the store: it starts other programs" in ran.stderr


def damage(folder: Path) -> None:
    """Damage all files of a folder."""
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-2] + b"?}")


def judge_without_campaigns(folder: Path) -> Ran:
    damage(folder / ".draftproof" / "campaigns")
    return certify(folder, "--seed", "5")


ROUTES: dict[str, Callable[[Path], Ran]] = {
    "resumed": lambda folder: certify(folder, "--seed", "5", "--resume"),
    "the campaign was damaged": judge_without_campaigns,
    "audited": lambda folder: certify(folder, "--seed", "5", CI="true"),
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_campaign_of_known_findings_holds_as_long_as_they_do(tmp_path: Path, route: str) -> None:
    write(tmp_path, "return pathlib.Path('data.txt').read_text() == 'True'")
    (tmp_path / "data.txt").write_text("False")
    assert certify(tmp_path, "--seed", "5").returncode == SOME
    ROUTES[route](tmp_path)
    assert counts(certify(tmp_path, "--seed", "5"))[1] == 0
    (tmp_path / "data.txt").write_text("True")
    broken = certify(tmp_path, "--seed", "5")
    assert (broken.returncode, counts(broken)) == (1, (0, -1))


def test_a_resumed_campaign_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    certify(tmp_path, "--store", "off", "--seed", "5")
    ran = certify(tmp_path, "--seed", "5", "--resume")
    assert "not kept in the store: another run judged a part of it (--resume)" in ran.stderr
    assert not [*(tmp_path / ".draftproof").glob("campaigns/*")]


def test_a_name_is_what_it_leads_to_now(tmp_path: Path) -> None:
    """Two folders have a module of one name, and share a store."""
    store = str(tmp_path / "store")
    for folder, is_broken in ((tmp_path / "a", False), (tmp_path / "b", True)):
        folder.mkdir()
        write(folder, f"return {is_broken}")
        (folder / "mine.py").rename(folder / "mymine.py")
        ran = certify(folder, name="mymine:Mine", DRAFTPROOF_STORE=store)
        assert (ran.returncode, counts(ran)) == (1 if is_broken else SOME, (0, -1))


def test_a_copy_of_an_adapter_may_import_another_module(tmp_path: Path) -> None:
    for each, is_broken in (("a", False), ("b", True)):
        folder = tmp_path / each
        folder.mkdir()
        write(folder, "sys.path.insert(0, HERE)\n        import helping; return helping.F")
        with (folder / "mine.py").open("a") as file:
            file.write("\nHERE = str(pathlib.Path(__file__).parent)\n")
        (folder / "helping.py").write_text(f"F = {is_broken}")
        ran = certify(tmp_path, name=f"{each}/mine.py:Mine")
        sys.modules.pop("helping", None)
        assert (ran.returncode, counts(ran)) == (1 if is_broken else SOME, (0, -1))


def test_a_module_that_changes_meanwhile_is_not_believed(tmp_path: Path) -> None:
    write(
        tmp_path,
        f"sys.path.insert(0, {str(tmp_path)!r})\n        import own\n"
        f"        pathlib.Path({str(tmp_path)!r}, 'own.py').write_text('BROKEN = True')\n"
        f"        return own.BROKEN",
    )
    (tmp_path / "own.py").write_text("BROKEN = False")
    first = certify(tmp_path)
    assert first.returncode == SOME
    assert "own.py was changed while it was judged" in first.stderr
    again = certify(tmp_path)
    assert (again.returncode, counts(again)) == (1, (0, -1))


def test_a_place_is_one_however_it_is_named(tmp_path: Path) -> None:
    with chdir(tmp_path):
        (tmp_path / "sub").mkdir()
        assert place_of("sub/../mine.py:Mine") == place_of("./mine.py:Mine")
    assert place_of("torch-block") == "draftproof.adapters.fast:torch_block"


def test_a_link_to_a_verifier_finds_what_is_beside_the_link(tmp_path: Path) -> None:
    write(tmp_path, "return (pathlib.Path(__file__).parent / 'broken').exists()")
    for each, is_broken in (("a", False), ("b", True)):
        folder = tmp_path / each
        folder.mkdir()
        (folder / "mine.py").symlink_to(tmp_path / "mine.py")
        if is_broken:
            (folder / "broken").touch()
        ran = certify(tmp_path, name=f"{each}/mine.py:Mine")
        assert (ran.returncode, counts(ran)) == (1 if is_broken else SOME, (0, -1))


def test_a_fresh_run_ignores_the_store(tmp_path: Path) -> None:
    write(tmp_path, "return False")

    def seed() -> int:
        document = json.loads((tmp_path / "certificates" / "mine.json").read_text())
        return int(document["predicate"]["draftproof"]["seed"])

    certify(tmp_path)
    first = seed()
    fresh = certify(tmp_path, "--fresh")
    assert counts(fresh) == (0, -1)
    second = seed()
    assert first != second
    assert counts(certify(tmp_path))[1] == 0
    assert seed() == second
    off = certify(tmp_path, "--store", "off")
    assert counts(off) == (0, -1)
    assert "store" not in off.stderr


def test_a_damaged_store_is_as_good_as_none(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    certify(tmp_path)
    files = [each for each in (tmp_path / ".draftproof").rglob("*") if each.is_file()]
    for number, file in enumerate(files):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if number % 2 else content[:-2] + b"?}")
    again = certify(tmp_path)
    assert (again.returncode, counts(again)) == (SOME, (0, -1))
    assert counts(certify(tmp_path))[1] == 0


def test_in_ci_some_of_what_is_known_is_judged_again(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    certify(tmp_path)
    audited = certify(tmp_path, CI="true")
    known, judged = counts(audited)
    assert (audited.returncode, known > 0, judged > 0) == (SOME, True, True)
    assert counts(certify(tmp_path, "--audit", "0", CI="true"))[1] == 0


def forge(folder: Path) -> None:
    """Let what has failed pass, in all that a folder has."""
    for file in (each for each in folder.rglob("*") if each.is_file()):
        _, _, text = file.read_text().partition("\n")
        forged = text.replace('"verdict":"fail"', '"verdict":"pass"')
        seal = sha256(f"{file.name}\n{forged}".encode()).hexdigest()
        file.write_text(f"{seal}\n{forged}")


def test_a_store_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    """Who can write to a store can write any verdict, with its digest; judging again tells."""
    write(tmp_path, "return True")
    assert certify(tmp_path).returncode == 1
    forge(tmp_path / ".draftproof" / "findings")
    audited = certify(tmp_path, "--audit", "100")
    assert audited.returncode == 5
    assert "was judged again: " in audited.stderr
    assert "where the store has 'pass'; the store has forgotten it" in audited.stderr


def test_a_campaign_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    write(tmp_path, "return True")
    assert certify(tmp_path).returncode == 1
    forge(tmp_path / ".draftproof" / "campaigns")
    audited = certify(tmp_path, "--audit", "1")
    assert audited.returncode == 5
    assert "the campaign was judged again: " in audited.stderr
    assert "where the store has 'pass'; the store has forgotten it" in audited.stderr


def test_what_was_found_wrong_is_forgotten(tmp_path: Path) -> None:
    write(tmp_path, "return True")
    assert certify(tmp_path, "--seed", "5").returncode == 1
    forge(tmp_path / ".draftproof")
    while (ran := certify(tmp_path, "--seed", "5", "--audit", "100")).returncode == 5:
        pass
    assert ran.returncode == 1
    assert certify(tmp_path, "--seed", "5").returncode == 1


def test_workers_of_their_own_fill_the_same_store(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    assert in_a_process(tmp_path, "--jobs", "2").returncode == SOME
    assert counts(in_a_process(tmp_path))[1] == 0
    assert counts(in_a_process(tmp_path, "--audit", "1"))[0] > 0


def test_an_envelope_is_the_same_wherever_its_laws_were_compared(tmp_path: Path) -> None:
    """By one process or two, or known before: the laws of a case and of what is known of it."""
    write(tmp_path, "return False")
    certificate = tmp_path / "certificates" / "mine.json"
    envelopes = []
    for options in (("--seed", "3"), ("--seed", "3", "--jobs", "2", "--fresh"), ("--seed", "3")):
        ran = in_a_process(tmp_path, *options)
        assert ran.returncode == SOME
        envelopes.append(json.loads(certificate.read_text())["predicate"]["draftproof"]["envelope"])
    assert counts(ran)[1] == 0
    first, *others = envelopes
    assert others == [first, first]
    assert first["values"]["length"] == {"1": first["laws"]}
    assert first["laws"] > 0
    (tmp_path / ".draftproof" / "campaigns").rename(tmp_path / "gone")
    assert counts(in_a_process(tmp_path, "--seed", "3"))[1] == 0
    found = json.loads(certificate.read_text())["predicate"]["draftproof"]["envelope"]
    assert found == first


def test_a_sample_that_failed_is_not_replaced_by_one_with_another_seed(tmp_path: Path) -> None:
    write(tmp_path, "return True")
    sampled = ("--mode", "quick", "--case", "generic.v2.l1", "--lane", "sample")
    assert certify(tmp_path, few=sampled).returncode == 1
    first = (tmp_path / "certificates" / "mine.json").read_bytes()
    assert certify(tmp_path, "--fresh", few=sampled).returncode == 1
    assert (tmp_path / "certificates" / "mine.json").read_bytes() != first
    again = certify(tmp_path, few=sampled)
    assert (again.returncode, counts(again)[1]) == (1, 0)
    assert (tmp_path / "certificates" / "mine.json").read_bytes() == first


def test_the_seed_of_a_sample_that_failed_outlives_another_adapter(tmp_path: Path) -> None:
    sampled = ("--mode", "quick", "--case", "generic.v2.l1", "--lane", "sample")
    write(tmp_path, "return True")
    assert certify(tmp_path, few=sampled).returncode == 1
    first, source = (tmp_path / file for file in ("certificates/mine.json", "mine.py"))
    failed, text = first.read_bytes(), source.read_text()
    source.write_text(f"{text}# edited\n")
    assert certify(tmp_path, "--fresh", few=sampled).returncode == 1
    source.write_text(text)
    again = certify(tmp_path, few=sampled)
    assert (again.returncode, counts(again)[1]) == (1, 0)
    assert said(first)["seed"] == json.loads(failed)["predicate"]["draftproof"]["seed"]
    damage(tmp_path / ".draftproof" / "seeds")
    damage(tmp_path / ".draftproof" / "campaigns")
    assert "is damaged; using a new seed" in certify(tmp_path, few=sampled).stderr


def said(certificate: Path) -> Any:
    return json.loads(certificate.read_text())["predicate"]["draftproof"]


def test_what_is_never_kept_has_a_seed_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "refused", lambda *_, **__: "it is a program of its own")
    write(tmp_path, "return False")
    first = certify(tmp_path)
    told = "./mine.py:Mine: no stored findings used: it is a program of its own"
    assert told in first.stderr
    seed = said(tmp_path / "certificates" / "mine.json")["seed"]
    again = certify(tmp_path)
    assert (again.returncode, counts(again)) == (SOME, (0, -1))
    assert f"using the recorded seed {seed}" in again.stderr


def test_a_store_that_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    (tmp_path / ".draftproof").mkdir()
    (tmp_path / ".draftproof" / "writing").touch()
    for _ in range(2):
        ran = certify(tmp_path)
        assert (ran.returncode, counts(ran)) == (SOME, (0, -1))
        assert ran.stderr.count("the store cannot be written: ") == 1


def test_a_harness_is_never_taken_from_a_store(tmp_path: Path) -> None:
    program = tmp_path / "nothing.sh"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    ran = certify(tmp_path, name=f"harness:{program}")
    assert ran.returncode == 3
    assert not (tmp_path / ".draftproof").exists()


def test_a_store_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    (tmp_path / ".draftproof").write_text("a file")
    ran = certify(tmp_path)
    assert ran.returncode == 2
    assert "Directory '.draftproof' is a file" in ran.stderr
