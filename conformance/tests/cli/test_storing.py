"""The store, as a user of `draftproof certify` meets it: never a verdict that no longer holds."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from telling import programs

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


def certify(
    folder: Path,
    *options: str,
    name: str = "./mine.py:Mine",
    few: tuple[str, ...] = FEW,
    **env: str,
) -> Any:
    """Certify in a process of its own, with the store of a folder."""
    told = {"DRAFTPROOF_STORE": ".draftproof", **env}
    return subprocess.run(
        [str(programs() / "draftproof"), "certify", name, *few, *options],
        cwd=folder,
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=300,
    )


def write(folder: Path, is_broken: str) -> None:
    (folder / "mine.py").write_text(f"{HEAD}\n    def is_broken(self):\n        {is_broken}\n")


def counts(ran: Any) -> tuple[int, int]:
    """How many findings were known and judged, as the command says."""
    found = re.search(r"Mine: (\d+) findings known, made [-\d]+; (\d+) judged now", ran.stderr)
    return (int(found[1]), int(found[2])) if found else (0, -1)


SOME = 6
"""Exit code of what passes some cases."""


def test_what_has_not_changed_is_not_judged_again(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    first = certify(tmp_path)
    assert (first.returncode, "findings known" in first.stderr) == (SOME, False)
    kept = {file: file.read_bytes() for file in (tmp_path / "certificates").rglob("*.json*")}
    assert len(kept) == 3
    for file in kept:
        file.unlink()
    again = certify(tmp_path)
    assert (again.returncode, again.stdout) == (SOME, first.stdout)
    known, judged = counts(again)
    assert known > 0
    assert judged == 0
    assert {file: file.read_bytes() for file in kept} == kept


def test_a_task_that_is_known_is_not_judged_among_others(tmp_path: Path) -> None:
    """The campaign is another one, and its tests share another budget, but for this case."""
    write(tmp_path, "return False")
    wide = ("--mode", "quick", "--case", "generic.v2.*", "--lane", "exact")
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


READS = {
    "a module": ("import own; return own.BROKEN", "own.py", "BROKEN = {}"),
    "a file": ("return pathlib.Path('data.txt').read_text() == 'True'", "data.txt", "{}"),
    "whether there is a file": (
        "import contextlib\n"
        "        with contextlib.suppress(OSError): return open('data.txt').read() == 'True'\n"
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


@pytest.mark.parametrize("read", ["os.environ.get('BROKEN')", "'BROKEN' in dict(os.environ)"])
def test_a_variable_that_a_verifier_reads_is_part_of_it(tmp_path: Path, read: str) -> None:
    write(tmp_path, f"return {read}")
    assert certify(tmp_path).returncode == SOME
    assert counts(certify(tmp_path))[1] == 0
    broken = certify(tmp_path, BROKEN="1")
    assert (broken.returncode, counts(broken)) == (1, (0, -1))
    assert certify(tmp_path, BROKEN="1", OMP_NUM_THREADS="3").returncode == 1


def test_what_reaches_beyond_is_judged_every_time(tmp_path: Path) -> None:
    write(tmp_path, "import subprocess; return subprocess.run(['true']).returncode")
    for _ in range(2):
        ran = certify(tmp_path)
        assert (ran.returncode, counts(ran)) == (SOME, (0, -1))
        told = "./mine.py:Mine: not kept in the store: it starts other programs"
        assert told in ran.stderr


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


def test_a_store_that_is_wrong_is_found_out(tmp_path: Path) -> None:
    """Who can write to a store can write any verdict, with its digest; judging again tells."""
    from hashlib import sha256

    write(tmp_path, "return True")
    assert certify(tmp_path).returncode == 1
    for file in (tmp_path / ".draftproof" / "findings").glob("*/*"):
        _, _, text = file.read_text().partition("\n")
        forged = text.replace('"verdict":"fail"', '"verdict":"pass"')
        file.write_text(f"{sha256(forged.encode()).hexdigest()}\n{forged}")
    audited = certify(tmp_path, "--audit", "100")
    assert audited.returncode == 5
    assert "was judged again: " in audited.stderr
    assert "where the store has 'pass'; the store has forgotten it" in audited.stderr


def test_workers_of_their_own_fill_the_same_store(tmp_path: Path) -> None:
    write(tmp_path, "return False")
    assert certify(tmp_path, "--jobs", "2").returncode == SOME
    assert counts(certify(tmp_path))[1] == 0
    assert counts(certify(tmp_path, "--audit", "1"))[0] > 0


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
