"""The house stands as it is drawn: imports run one way, and no room is a package of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

from draftproof.conformance.evidence.identity import BESIDE_JUDGEMENT

HOUSE = Path(__file__).parents[2]
ROOMS = ("spec", "reference", "conformance", "adapters")

# What each room may import of ours; adapters need the protocol types and nothing else.
MAY_IMPORT = {
    "spec": ("draftproof.spec",),
    "reference": ("draftproof.reference",),
    "conformance": ("draftproof.spec", "draftproof.reference", "draftproof.conformance"),
    "adapters": ("draftproof.adapters", "draftproof.conformance.adapter"),
}

# The rooms of conformance, each of which imports what stands before it, and nothing behind.
ORDER = (
    *("protocol", "cases", "checkpoint", "lanes", "requirements", "evidence", "failure", "run"),
    *("museum", "report", "matrix", "cli", "pytest_plugin"),
)


def imported(file: Path) -> Iterator[str]:
    """Yield everything of ours that a file imports, as `package.module.name`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide where a name comes from"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("draftproof"))


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("room", ROOMS)
def test_imports_run_one_way(room: str) -> None:
    places = ("draftproof/**/*.py", "formulas/*.py", "theory/*.py")
    files = [file for place in places for file in (HOUSE / room).glob(place)]
    assert files
    for file in files:
        for name in imported(file):
            allowed = any(within(name, package) for package in MAY_IMPORT[room])
            assert allowed, f"{file.relative_to(HOUSE)} imports {name}"


@pytest.mark.parametrize("room", ORDER)
def test_rooms_of_conformance_know_nothing_of_those_above(room: str) -> None:
    house = HOUSE / "conformance" / "draftproof" / "conformance"
    files = [*(house / room).rglob("*.py")] or [house / f"{room}.py"]
    above = [f"draftproof.conformance.{each}" for each in ORDER[ORDER.index(room) + 1 :]]
    for file in files:
        wrong = [name for name in imported(file) for each in above if within(name, each)]
        assert not wrong, f"{file.relative_to(HOUSE)} imports {wrong[0]}"


def test_nothing_that_judges_asks_a_room_whose_changes_leave_certificates_current() -> None:
    beside = {name.removesuffix(".py") for name in BESIDE_JUDGEMENT}
    assert beside == {*ORDER[ORDER.index("run") + 1 :], "templates", "ledger"}
    for room in ("reference", "conformance"):
        house = HOUSE / room / "draftproof" / room
        for file in house.rglob("*.py"):
            if file.relative_to(house).parts[0] not in (*BESIDE_JUDGEMENT, "__init__.py"):
                asked = {part for name in imported(file) for part in name.split(".")[2:3]}
                assert not asked & beside, f"{file.relative_to(HOUSE)} imports {asked & beside}"


def test_no_imports_go_round() -> None:
    """A module may look where the package lies that it is in, and import no more of it."""
    modules = {
        file.relative_to(HOUSE / room).with_suffix("").as_posix().replace("/", "."): file
        for room in ROOMS
        for file in (HOUSE / room / "draftproof").rglob("*.py")
    }
    arrows: networkx.DiGraph[str] = networkx.DiGraph()
    for name, file in modules.items():
        module = name.removesuffix(".__init__")
        for asked in imported(file):
            parts = asked.split(".")
            ways = [".".join(parts[:count]) for count in range(len(parts), 1, -1)]
            known = next(
                (way for way in ways if way in modules or f"{way}.__init__" in modules), module
            )
            if not within(module, known):
                arrows.add_edge(module, known)
    assert len(arrows) > 200
    assert [c for c in networkx.strongly_connected_components(arrows) if len(c) > 1] == []


def test_a_name_of_a_class_is_that_of_one_class() -> None:
    places: dict[str, list[str]] = {}
    for room in ROOMS:
        for file in sorted((HOUSE / room / "draftproof").rglob("*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, []).append(str(file.relative_to(HOUSE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_every_module_of_conformance_is_in_a_room() -> None:
    house = HOUSE / "conformance" / "draftproof" / "conformance"
    there = {each.stem for each in house.iterdir() if each.suffix == ".py" or each.is_dir()}
    doors = {"adapter", "reference_adapter", "campaign", "templates", "__init__", "__pycache__"}
    assert there - doors == set(ORDER)


def test_the_reference_needs_no_torch() -> None:
    for room in ("spec", "reference"):
        for file in (HOUSE / room / "draftproof").rglob("*.py"):
            assert "import torch" not in file.read_text(encoding="utf-8"), file


def test_commands_print_in_one_place() -> None:
    """Text of others is escaped in `cli.documents.echo`, which nothing may go around."""
    cli = HOUSE / "conformance" / "draftproof" / "conformance" / "cli"
    for file in set(cli.glob("*.py")) - {cli / "documents.py"}:
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        called = {ast.unparse(each.func) for each in nodes if isinstance(each, ast.Call)}
        around = {"click.echo", "click.secho", "print", "traceback.print_exc", "error.show"}
        printed = called & around
        # What `show` writes there goes through `echo`.
        assert printed <= ({"error.show"} if file.name == "__init__.py" else set()), file


def test_draftproof_is_a_namespace_package() -> None:
    for room in ROOMS:
        assert not (HOUSE / room / "draftproof" / "__init__.py").exists()
        assert (HOUSE / room / "draftproof" / room / "py.typed").is_file()


@pytest.mark.parametrize(
    "text", ["from draftproof.conformance import cases", "import draftproof.adapters"]
)
def test_a_wrong_import_would_be_seen(tmp_path: Path, text: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    (name,) = imported(file)
    assert not any(within(name, package) for package in MAY_IMPORT["reference"])
