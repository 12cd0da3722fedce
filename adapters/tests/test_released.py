"""Releases are fetched once, held to their hash, and imported by themselves."""

from __future__ import annotations

import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from draftproof.adapters.engines import released
from draftproof.adapters.engines.released import Commit, Unavailable, Wheel, files, imported

SAMPLER = """\
from __future__ import annotations

from engine.config import LEAST
from engine.logger import init_logger
from engine.heavy import Sampler

logger = init_logger(__name__)


def sample(u: float) -> bool:
    return u < LEAST


def heavy() -> object:
    return Sampler()
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPROOF_CACHE", str(tmp_path / "cache"))


def wheel(folder: Path, version: str, least: str, *, members: tuple[str, ...] = ()) -> Wheel:
    """Return a wheel in a folder where pip, which asks nobody else, finds it."""
    folder.mkdir(exist_ok=True)
    name = f"engine-{version}-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("engine/__init__.py", "raise ImportError('it needs a GPU')\n")
        archive.writestr("engine/config.py", f"LEAST = {least}\n")
        archive.writestr("engine/v1/sampler.py", SAMPLER)
        info = f"engine-{version}.dist-info"
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: engine\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    digest = sha256((folder / name).read_bytes()).hexdigest()
    wanted = members or ("engine/config.py", "engine/v1/sampler.py")
    return Wheel("engine", version, name, digest, wanted)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    return tmp_path / "index"


DOUBLES = {"engine.logger": {"init_logger": str}, "engine.heavy": None}


def test_two_versions_stand_side_by_side(index: Path) -> None:
    old, new = wheel(index, "1.0", "0.25"), wheel(index, "2.0", "0.75")
    (first,) = imported("engine.v1.sampler", releases=[old], doubles=DOUBLES)
    (second,) = imported("engine.v1.sampler", releases=[new], doubles=DOUBLES)
    assert (first.sample(0.5), second.sample(0.5)) == (False, True)
    assert not [name for name in sys.modules if name.partition(".")[0] == "engine"]


def test_what_is_kept_is_what_was_released(index: Path) -> None:
    own = wheel(index, "1.0", "0.25")
    *shared, config, sampler = files(own)
    assert Path(released.__file__) in shared
    assert config.read_text() == "LEAST = 0.25\n"
    assert sampler.read_text() == SAMPLER
    assert not [*own.folder().rglob("*.whl")]


def test_it_is_fetched_once(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = wheel(index, "1.0", "0.25")
    files(own)
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert all(file.exists() for file in files(own))


def test_a_double_that_is_used_says_so(index: Path) -> None:
    (module,) = imported("engine.v1.sampler", releases=[wheel(index, "1.0", "1")], doubles=DOUBLES)
    with pytest.raises(Unavailable, match=r"engine\.heavy\.Sampler is called, but stands here as"):
        module.heavy()


def test_what_is_neither_file_nor_double_is_missing(index: Path) -> None:
    own = wheel(index, "1.0", "1")
    with pytest.raises(ModuleNotFoundError, match=r"engine\.logger"):
        imported("engine.v1.sampler", releases=[own], doubles={"engine.heavy": None})
    assert not [name for name in sys.modules if name.partition(".")[0] == "engine"]


def test_another_file_of_the_same_name_is_refused(index: Path) -> None:
    own = wheel(index, "1.0", "0.25")
    wheel(index, "1.0", "0.5")
    with pytest.raises(Unavailable, match=r"pip could not fetch engine 1\.0: ERROR"):
        files(own)
    assert not [*released.cache().glob("engine*")]


def test_a_file_that_the_wheel_lacks_is_named(index: Path) -> None:
    own = wheel(index, "1.0", "1", members=("engine/v2/sampler.py",))
    with pytest.raises(Unavailable, match=r"engine-1\.0-py3-none-any\.whl has no file engine/v2"):
        files(own)


def test_a_release_that_is_nowhere_is_unavailable(index: Path) -> None:
    index.mkdir()
    own = Wheel("engine", "3.0", "engine-3.0-py3-none-any.whl", "0" * 64, ("engine/config.py",))
    with pytest.raises(Unavailable, match=r"pip could not fetch engine 3\.0: ERROR: .*No matching"):
        files(own)


def commit(content: bytes) -> Commit:
    return Commit("owner/name", "c0ffee", {"code/rule.py": sha256(content).hexdigest()})


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the file of a commit lies, on a host of our own."""
    monkeypatch.setattr(released, "HOST", f"file://{tmp_path}")
    place = tmp_path / "owner/name/c0ffee/code/rule.py"
    place.parent.mkdir(parents=True)
    return place


def test_files_of_a_commit_are_fetched(host: Path) -> None:
    host.write_bytes(b"RULE = 7\n")
    (module,) = imported("code.rule", releases=[commit(b"RULE = 7\n")], doubles={})
    assert module.RULE == 7
    host.unlink()
    (again,) = imported("code.rule", releases=[commit(b"RULE = 7\n")], doubles={})
    assert again.RULE == 7


def test_a_file_that_has_another_hash_is_refused(host: Path) -> None:
    host.write_bytes(b"RULE = 8\n")
    with pytest.raises(Unavailable, match=r"rule\.py has the SHA-256 \w{64}, not \w{64}"):
        files(commit(b"RULE = 7\n"))
    assert not [*released.cache().glob("owner*")]


def test_a_host_that_does_not_answer_is_named(host: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot fetch file://.*/owner/name/c0ffee/code/rule"):
        files(commit(b""))
