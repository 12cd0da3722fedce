"""Command that writes an adapter, its test and a workflow: `init`."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from importlib.metadata import distribution, version
from importlib.resources import files
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import as_json, echo, print_json

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")

# What adapters import, and what pytest and pip take files of these names for.
_TAKEN = frozenset({"conftest", "setup", "torch"})

_GITHUB = re.compile(r"(?:https://|ssh://git@)github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")

_PLACEHOLDER = "OWNER/draftproof@COMMIT"


@click.command()
@click.argument("name", required=False)
@click.option(
    "--engine",
    metavar="ENGINE",
    help="Write a workflow for an ENGINE such as vllm.",
)
@options.defaulted(
    "--folder",
    type=options.FOLDER,
    default=Path(),
    help="Root of your repository.",
)
@as_json
def init(name: str | None, engine: str | None, folder: Path, as_json: bool) -> None:
    """Write an adapter called NAME, its test, and a workflow that certifies it on every push.

    The adapter is a working example; replace the marked block with your verifier. With --engine,
    write a workflow for the engine's repository that certifies the engine before and after each
    pull request that touches its verifiers. Existing files are never overwritten.
    """
    if (name is None) == (engine is None):
        raise click.UsageError("give a NAME for an adapter, or an --engine")
    action = _action()
    if engine is not None:
        _of_engine(engine, folder, action, as_json=as_json)
        return
    name = str(name)
    module, adapter = _named(name)
    words = {
        "name": name,
        "module": module,
        "adapter": adapter,
        "action": action or _PLACEHOLDER,
        "version": version("draftproof"),
    }
    own, test = folder / f"{module}.py", folder / f"test_{module}.py"
    workflow = folder / ".github" / "workflows" / "draftproof.yml"
    _write(
        {
            own: _filled("adapter.py.template", words),
            test: _filled("test_adapter.py.template", words),
            workflow: _filled("workflow.yml.template", words),
        }
    )
    place = f"{own if own.is_absolute() else f'./{own.as_posix()}'}:{adapter}"
    commands = [
        shlex.join(command) for command in (["draftproof", "certify", place], ["pytest", str(test)])
    ]
    if as_json:
        written = [str(path) for path in (own, test, workflow)]
        document = {"adapter": place, "files": written, "commands": commands, "action": action}
        print_json(document, "init")
        return
    echo(f"{own}: a working example; replace the marked block with your verifier")
    echo(f"{test}: judges the adapter with pytest")
    echo(f"{workflow}: certifies the adapter on every push")
    _tell_action(action)
    echo("\nNow run")
    for command in commands:
        echo(f"  {command}")


def _of_engine(name: str, folder: Path, action: str | None, *, as_json: bool) -> None:
    """Write the workflow of an engine, and print what it does."""
    from draftproof.conformance.protocol.packages import packages

    package = packages().get(name)
    if package is None:
        raise click.UsageError(f"no engine {name!r}; the engines are {', '.join(packages())}")
    # Whoever writes it elsewhere than in a checkout gets the paths of all versions.
    members: Iterable[str] = ()
    with suppress(Exception):
        members = package.used(str(folder.resolve()))
    members = members or [own for each in package.methods.values() for own in each.needs]
    touched = dict.fromkeys(f"**/{Path(member).parent.as_posix()}/**" for member in members)
    words = {
        "engine": name,
        "title": package.title,
        "paths": "\n".join(f'      - "{each}"' for each in touched),
        "extras": package.extras,
        "action": action or _PLACEHOLDER,
        "version": version("draftproof"),
    }
    workflow = folder / ".github" / "workflows" / "draftproof.yml"
    _write({workflow: _filled("engine.yml.template", words)})
    command = shlex.join(["draftproof", "certify", name, "--source", str(folder)])
    if as_json:
        document = {
            "adapter": name,
            "files": [str(workflow)],
            "commands": [command],
            "action": action,
        }
        print_json(document, "init")
        return
    echo(f"{workflow}: certifies {package.title} before and after a pull request that touches")
    for each in touched:
        echo(f"  {each}")
    _tell_action(action)
    echo(f"\nNow run\n  {command}")


def _tell_action(action: str | None) -> None:
    if action is None:
        echo(f"  replace {_PLACEHOLDER} with your copy of draftproof on GitHub, or do without:")
        echo("  the page 'Certify in continuous integration' of the documentation has both ways")


def _named(name: str) -> tuple[str, str]:
    """Return the names of an adapter's module and class. An invalid name is a usage error."""
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            f"an adapter's name must begin with a letter and have only letters, digits and single "
            f"- or _, such as 'my-verifier'; got {name!r}"
        )
    module = name.replace("-", "_").lower()
    adapter = "".join(part[0].upper() + part[1:] for part in re.split("[-_]", name))
    right = f"call it '{name}-verifier', for example"
    if iskeyword(module) or iskeyword(adapter):
        raise click.UsageError(f"{name!r} is a Python keyword; {right}")
    if module.startswith("test_") or module.endswith("_test"):
        raise click.UsageError(
            f"pytest would collect {module}.py as tests; choose a name without 'test' at either end"
        )
    if module in sys.stdlib_module_names or module in _TAKEN or find_spec(module):
        raise click.UsageError(f"{module}.py would hide the existing module {module!r}; {right}")
    return module, adapter


def _action() -> str | None:
    """Return Draftproof's GitHub action at the installed commit, or None if it is unknown."""
    # What pip was given, where it was not the name of a package: PEP 610.
    origin = json.loads(distribution("draftproof").read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id")
    place = _GITHUB.fullmatch(origin.get("url", ""))
    return f"{place[1]}@{commit}" if place and commit else None


def _filled(template: str, words: Mapping[str, str]) -> str:
    text = files("draftproof.conformance").joinpath("templates", template).read_text("utf-8")
    return Template(text).substitute(words)


def _write(texts: Mapping[Path, str]) -> None:
    """Write all of the files or none, without overwriting. Any failure is a usage error."""
    there = [str(path) for path in texts if os.path.lexists(path)]
    if there:
        raise click.UsageError(
            f"already exists: {', '.join(there)}. Nothing was written; choose a different name or "
            f"--folder, or move the existing files"
        )
    with ExitStack() as undo:
        for path, text in texts.items():
            try:
                _write_new(path, text, undo)
            except OSError as error:
                raise click.UsageError(
                    f"cannot write {str(path)!r}: {error.strerror}. Nothing was written"
                ) from None
        undo.pop_all()


def _write_new(path: Path, text: str, undo: ExitStack) -> None:
    """Write a new file, making its folders as needed; `undo` removes them again."""
    for folder in reversed([each for each in path.parents if not os.path.lexists(each)]):
        folder.mkdir()
        undo.callback(folder.rmdir)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        undo.callback(path.unlink)
        file.write(text)
