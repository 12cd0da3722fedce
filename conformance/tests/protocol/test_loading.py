from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.protocol.adapter import AdapterFailed, InvalidAdapter, UnknownAdapter
from draftproof.conformance.protocol.loading import built_in, load_adapter, source_digest
from draftproof.reference.extras import installation

MINE = """
class Mine:
    name, version, algorithm = "mine", "1", "token"
    def verify(self, request): ...

mine = Mine()
nothing = object()

class Needy(Mine):
    def __init__(self, weight): ...
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize("name", built_in())
def test_every_built_in_adapter_loads(name: str) -> None:
    assert load_adapter(name).name == name


@pytest.mark.parametrize("attribute", ["Mine", "mine"])
def test_a_class_or_an_instance_in_a_file(file: Path, attribute: str) -> None:
    assert load_adapter(f"{file}:{attribute}").name == "mine"


def test_a_module_beside_the_user(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert load_adapter("mine:mine").name == "mine"
    assert load_adapter("./mine.py:mine").name == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torch-blok", "is called 'torch-blok', did you mean torch-block. Your own is named "),
        ("quite-else", "is called 'quite-else'; `draftproof list` names all. Your own is named "),
        ("./nowhere.py", "there is no file './nowhere.py'"),
        ("nowhere.at.all:x", "there is no module 'nowhere'"),
        ("./nowhere.py:x", "there is no file 'nowhere.py'"),
        ("json:x", "json has no attribute 'x'"),
        (":x", "no built-in adapter is called ':x'"),
        ("json:", "no built-in adapter is called 'json:'"),
    ],
)
def test_a_name_that_leads_nowhere(name: str, message: str) -> None:
    with pytest.raises(UnknownAdapter, match=message):
        load_adapter(name)


@pytest.mark.parametrize("end", ["", ":"])
def test_a_file_without_an_attribute_names_its_verifiers(file: Path, end: str) -> None:
    with pytest.raises(UnknownAdapter) as caught:
        load_adapter(f"{file}{end}")
    assert str(caught.value) == f"{file}{end} names a file, and no adapter in it: {file}:Mine"
    # It is read, not run; what cannot be read has no classes to name.
    file.write_text("1 / 0\nclass Other:\n    verify = None\nclass One:\n    def verify(self): ...")
    with pytest.raises(UnknownAdapter, match=r"no adapter in it: [^ ]*mine.py:One$"):
        load_adapter(str(file))
    file.write_text("def (")
    with pytest.raises(UnknownAdapter, match=r"no adapter in it: [^ ]*mine.py:ATTRIBUTE$"):
        load_adapter(str(file))


def test_the_nearest_attribute_is_named(file: Path) -> None:
    with pytest.raises(UnknownAdapter, match=r"has no attribute 'Mien', did you mean 'Mine'\?$"):
        load_adapter(f"{file}:Mien")


@pytest.mark.parametrize(
    ("module", "extra"), [("transformers.generation", "transformers"), ("mlx.core", "engines")]
)
def test_a_module_of_an_extra_is_told_with_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    (tmp_path / "lazy.py").write_text(
        f"class Lazy:\n    def __init__(self):\n        import {module}\n"
    )
    with pytest.raises(AdapterFailed) as caught:
        load_adapter(f"{tmp_path / 'lazy.py'}:Lazy")
    assert str(caught.value).endswith(f"(lazy.py:3); {installation(extra)}")


@pytest.mark.parametrize(
    ("name", "module"), [("mlx_lm_agreement", "mlx"), ("tpu_inference_token", "jax")]
)
def test_an_engine_whose_package_is_missing_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.core", None)
    with pytest.raises(AdapterFailed, match=f"{module.upper()} is not installed") as caught:
        load_adapter(f"draftproof.adapters.engines:{name}")
    assert str(caught.value).endswith(installation("engines"))


def test_a_class_that_wants_arguments(file: Path) -> None:
    with pytest.raises(AdapterFailed, match=r"Needy\(\) raised TypeError"):
        load_adapter(f"{file}:Needy")


def test_something_that_is_no_adapter(file: Path) -> None:
    with pytest.raises(InvalidAdapter, match="an adapter needs 'name'"):
        load_adapter(f"{file}:nothing")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_engine", "No module named 'no_such_engine' .broken.py:1.$"),
        ("1 / 0", "ZeroDivisionError: division by zero .broken.py:1.$"),
        ("def (", "SyntaxError: invalid syntax"),
    ],
)
def test_a_file_that_cannot_be_imported(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(AdapterFailed, match=message):
        load_adapter(f"{tmp_path / 'broken.py'}:x")


def test_the_digest_of_one_file_is_that_of_its_bytes(file: Path) -> None:
    assert source_digest(load_adapter(f"{file}:Mine")) == sha256(file.read_bytes()).hexdigest()


def test_the_digest_of_several_files_is_of_their_names_and_bytes(file: Path) -> None:
    adapter: Any = load_adapter(f"{file}:mine")

    def digest(**texts: str) -> str:
        for name, text in texts.items():
            (file.parent / name).write_text(text)
        adapter.files = [file.parent / name for name in texts]
        return source_digest(adapter)

    different = {digest(a="1"), digest(a="1", b="2"), digest(a="2", b="1"), digest(a="12", b="")}
    assert len(different) == 4
    assert digest(a="1", b="2") == digest(a="1", b="2")
    assert digest(a="1", b="2") not in {digest(a="1", c="2"), digest(b="2", a="1")}


@pytest.mark.parametrize("files", ["kernel.cu", (), [1], 1])
def test_files_that_are_no_paths(file: Path, files: Any) -> None:
    adapter: Any = load_adapter(f"{file}:mine")
    adapter.files = files
    with pytest.raises(InvalidAdapter, match="'files' must be one or more paths, got "):
        source_digest(adapter)


def test_a_file_that_is_not_there(file: Path) -> None:
    adapter: Any = load_adapter(f"{file}:mine")
    adapter.files = [file, file.parent / "kernel.cu"]
    with pytest.raises(AdapterFailed, match=r"kernel\.cu is part of it, but: No such file or dir"):
        source_digest(adapter)
