"""How pages are held to what happens."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from telling import Block, OtherThanTold, blocks, commands, edit, happens, shows


def test_blocks_have_a_language_a_title_and_a_text() -> None:
    page = "\n".join(
        [
            "Text",
            "```console",
            "$ true",
            "```",
            '=== "A tab"',
            "",
            '    ```python title="a.py"',
            "    if 1:",
            "        pass",
            "    ```",
            "```",
            "",
            "```",
        ]
    )
    assert list(blocks(page)) == [
        Block("console", "", "$ true\n"),
        Block("python", "a.py", "if 1:\n    pass\n"),
        Block("", "", "\n"),
    ]


def test_commands_have_what_they_print() -> None:
    assert list(commands("$ a\n1\n\n$ b\n$ c\n2\n")) == [("a", "1\n\n"), ("b", ""), ("c", "2\n")]
    assert list(commands("$ a \\\n    b\n1\n")) == [("a \\\n    b", "1\n")]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("a ... d\n", "a   b  d\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\n", False),
        ("a ... d\n", "a b\nc d\n", False),
        ("", "a\n", False),
        ("0.2... should be 0\n", "0.25 should be 0.5\n", False),
        ("pass 1.12e-08 exact\n", "pass   3.45e-09  exact\n", True),
        ("pass 1.12e-08 exact\n", "pass   0         exact\n", False),
        ("pass 0 exact\n", "pass   3.45e-09  exact\n", False),
    ],
)
def test_excerpts_are_compared(shown: str, printed: str, same: bool) -> None:
    assert shows(shown, printed) is same


def test_an_edit_that_fits_nowhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("a = 1\nb = 1\n")
    with pytest.raises(OtherThanTold, match=r"'c = 1\\n' stands 0 times in mine\.py"):
        edit(tmp_path, "--- mine.py\n-c = 1\n+c = 2\n")
    edit(tmp_path, "--- mine.py\n-b = 1\n+b = 2\n")
    assert (tmp_path / "mine.py").read_text() == "a = 1\nb = 2\n"


PAGE = """
```text title="deep/a.txt"
one
```
```console
$ cat deep/a.txt
one
$ exit 3
$ echo $?
3
```
```diff
--- deep/a.txt
-one
+two
```
```console
$ grep one deep/a.txt
```
```sh
rm -rf deep
```
"""


def test_a_page_happens_in_order(tmp_path: Path) -> None:
    assert happens(PAGE, tmp_path, tmp_path) == 1
    assert (tmp_path / "deep" / "a.txt").read_text() == "two\n"


def test_what_happens_otherwise_is_told(tmp_path: Path) -> None:
    with pytest.raises(OtherThanTold, match=r"^\$ cat deep/a\.txt\none\n\nis shown as\nthree\n$"):
        happens(PAGE.replace("a.txt\none", "a.txt\nthree"), tmp_path, tmp_path)


def test_the_programs_are_as_if_they_had_been_started(tmp_path: Path, programs: Path) -> None:
    """Arguments, folder, environment, streams and exit codes are their own."""
    (tmp_path / "show.py").write_text(
        "import os, sys\n"
        "print(sys.argv, os.getcwd(), os.environ['MINE'], sys.stdin.read(), __name__)\n"
        "print('wrong', file=sys.stderr)\n"
        "sys.exit(sys.argv[1:] and int(sys.argv[1]))\n"
    )

    def ran(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(programs / command[0]), *command[1:]],
            cwd=tmp_path,
            env={"MINE": "yes", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            input="read",
            capture_output=True,
            text=True,
            timeout=60,
        )

    done = ran("python", "show.py", "7")
    assert done.returncode == 7
    assert done.stdout == f"['show.py', '7'] {tmp_path} yes read __main__\n"
    assert done.stderr == "wrong\n"
    (tmp_path / "show.py").write_text("1 / 0\n")
    done = ran("python", "show.py")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        1,
        "ZeroDivisionError: division by zero",
    )
    assert ran("draftproof", "nothing").returncode == 2
    (tmp_path / "test_a.py").write_text("def test_a():\n    assert False\n")
    assert ran("pytest", "-p", "no:cacheprovider", "test_a.py").returncode == 1
