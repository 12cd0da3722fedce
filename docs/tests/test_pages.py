"""The written pages are what happens: commands run, edits made, words compared."""

from __future__ import annotations

import doctest
import json
import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
from building.pages import HOUSE
from telling import blocks, commands, happens

from draftproof.conformance.cli import cli

PAGES = HOUSE / "docs" / "pages"
WRITTEN = {file.relative_to(PAGES).as_posix(): file for file in sorted(PAGES.rglob("*.md"))}

TOLD = {
    "first-certificate.md",
    "tutorial.md",
    "how-to/bring-an-algorithm.md",
    "how-to/certify-your-engine.md",
    "how-to/cluster.md",
    "how-to/continuous-integration.md",
    "how-to/gpu.md",
    "how-to/known-findings.md",
    "how-to/lossless.md",
    "how-to/other-languages.md",
    "how-to/pytest.md",
    "how-to/reading-a-failure.md",
    "reference/certificates.md",
}
"""The pages that happen in a test, here or in test_how_to."""


def page(name: str) -> str:
    return WRITTEN[name].read_text(encoding="utf-8")


def test_a_real_certificate(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "adapters").symlink_to(HOUSE / "adapters")
    assert happens(page("reference/certificates.md"), tmp_path, programs) == 0


def test_so_many_runs_were_made() -> None:
    text = (HOUSE / "adapters" / "certificates" / "torch-block.json").read_text(encoding="utf-8")
    judged = json.loads(text)["predicate"]["draftproof"]["requirements"]
    (lossless,) = (each for each in judged if each["id"] == "law.lossless")
    said = " ".join(page("reference/certificates.md").split())
    assert f"here it took {lossless['runs']} runs" in said


def test_the_first_certificate_is_had_as_it_is_told(first_certificate: Path) -> None:
    assert (first_certificate / "certificates" / "mine.json").is_file()


def test_the_first_hour_goes_on_from_there(
    first_certificate: Path, programs: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(first_certificate, tmp_path / "new")
    assert happens(page("tutorial.md"), folder, programs) == 0


# --- what no page may be without --------------------------------------------------------------


def test_every_page_with_commands_is_run() -> None:
    assert {name for name in WRITTEN if re.search(r"^ *```console", page(name), re.M)} == TOLD


@pytest.mark.parametrize("name", sorted(TOLD))
def test_all_commands_of_a_page_are_found(name: str) -> None:
    console = [block.text for block in blocks(page(name)) if block.language == "console"]
    found = [command.splitlines()[0] for text in console for command, _ in commands(text)]
    assert found == re.findall(r"^ *\$ (.*)$", page(name), re.M)
    assert page(name).count("```") == 2 * len(list(blocks(page(name))))


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_not_run_could_be(name: str) -> None:
    """Commands that are only shown are commands, and have the options that they are given."""
    for block in blocks(page(name)):
        if block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                require_command(shlex.split(line, comments=True))


def require_command(words: list[str]) -> None:
    """Raise `click.UsageError` for words that call draftproof as it cannot be called."""
    while words and re.fullmatch(r"\w+=.*", words[0]):
        del words[0]
    if words[:1] != ["draftproof"]:
        return
    command: click.Command = cli
    rest = words[1:]
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), rest[0]) if rest else None
        if found is None:
            raise click.UsageError(f"draftproof has no command {rest[:1]}")
        command, rest = found, rest[1:]
    command.make_parser(click.Context(command)).parse_args(rest)


@pytest.mark.parametrize("line", ["draftproof cetrify x", "X=1 draftproof certify x --moed quick"])
def test_what_is_no_command_is_noticed(line: str) -> None:
    with pytest.raises(click.UsageError):
        require_command(line.split())


# --- architecture -----------------------------------------------------------------------------


@pytest.mark.parametrize("room", ["reference", "conformance"])
def test_all_modules_of_a_room_are_in_its_table(room: str) -> None:
    (section,) = re.findall(rf"^### `{room}/`\n(.*?)^##", page("architecture.md"), re.S | re.M)
    listed = [
        name.removesuffix("/")
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([\w/]+)`", line.split("|")[1])
    ]
    there = {
        each.stem
        for each in (HOUSE / room / "draftproof" / room).iterdir()
        if not each.name.startswith("_") and each.name != "py.typed"
    }
    assert sorted(listed) == sorted(there)


def test_examples_of_python_hold(tmp_path: Path) -> None:
    text = page("reference/python.md")
    examples = "".join(re.findall(r"^```pycon\n(.*?)^```$", text, re.S | re.M))
    given = {"folder": tmp_path}
    asked = doctest.DocTestParser().get_doctest(examples, given, "python.md", None, 0)
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(asked)
    assert found.failed == 0
    assert found.attempted > 15
