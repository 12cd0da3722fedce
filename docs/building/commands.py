"""Pages of the command line and its documents, from the commands and the schemas themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Any

import click

from building.markdown import fenced, table
from draftproof.conformance.cli import COMMANDS, EXIT_CODES, cli
from draftproof.spec import schema_files


def pages() -> Mapping[str, str]:
    """Return the pages of the commands and of the schemas."""
    return {"reference/commands.md": _commands(), "reference/schemas.md": _schemas()}


def files() -> Mapping[str, bytes]:
    """Return the schemas, unchanged."""
    return {f"schemas/{file.name}": file.read_bytes() for file in schema_files()}


def _commands() -> str:
    names = {file.name.removesuffix(".schema.json") for file in schema_files()}
    parts = [
        "# The command line",
        "Every command takes `--json`, and prints JSON that follows a [schema](schemas.md). "
        "`draftproof COMMAND --help` says what stands here.",
        table(
            ["command", "what it does"],
            [
                [f"[`draftproof {name}`](#command.{name})", f"{line}."]
                for name, (_, line) in sorted(COMMANDS.items())
            ],
        ),
        "## Exit codes",
        table(["code", "meaning"], [[str(code), text] for code, text in EXIT_CODES.items()]),
    ]
    for path, command in _walk(cli, ()):
        parts += _command(path, command, names)
    return "\n\n".join(parts) + "\n"


def _walk(
    group: click.Group, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _walk(command, (*path, name))


def _command(path: tuple[str, ...], command: click.Command, schemas: set[str]) -> list[str]:
    context = click.Context(command, info_name=" ".join(("draftproof", *path)))
    parts = [
        f"## draftproof {' '.join(path)} {{ #command.{'.'.join(path)} }}",
        fenced(command.get_usage(context).removeprefix("Usage: "), "text"),
        cleandoc(command.help or "").replace("\b\n", ""),
    ]
    rows = [
        [f"`{record[0]}`", record[1]]
        for parameter in command.get_params(context)
        if (record := parameter.get_help_record(context)) and "--help" not in record[0]
    ]
    if rows:
        parts.append(table(["option", "meaning"], rows))
    named = (f"{path[0]}-outcome", path[0], path[0].partition("-")[0])
    known = [name for name in named if name in schemas]
    if known:
        parts.append(f"With `--json`: [`{known[0]}`](schemas.md#schema.{known[0]}).")
    return parts


def _schemas() -> str:
    parts = [
        "# Schemas",
        "Every JSON document that the project reads or writes follows one of these (JSON Schema, "
        "draft 2020-12).",
    ]
    for file in schema_files():
        name = file.name.removesuffix(".schema.json")
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        parts += [
            f"## {name} {{ #schema.{name} }}",
            document.get("description", document.get("title", "")),
            f"[`{file.name}`](../schemas/{file.name})",
        ]
        required = document.get("required", [])
        rows = [
            [f"`{key}`", _type(each), "yes" if key in required else "", each.get("description", "")]
            for key, each in document.get("properties", {}).items()
        ]
        if rows:
            parts.append(table(["property", "type", "required", "meaning"], rows))
    return "\n\n".join(part for part in parts if part) + "\n"


def _type(described: dict[str, Any]) -> str:
    if "$ref" in described:
        return f"`{described['$ref'].rsplit('/')[-1].removesuffix('.schema.json')}`"
    kinds = described.get("type", "constant" if "const" in described else "one of several")
    return ", ".join(kinds) if isinstance(kinds, list) else str(kinds)
