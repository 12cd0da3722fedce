"""The code of an engine: installed, in a checkout or a commit of it, in a wheel or an index."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from draftproof.adapters.engines import sources
from draftproof.adapters.engines.index import archive, listed
from draftproof.adapters.engines.released import (
    MovedOn,
    Unavailable,
    UnfetchedRelease,
    function_of,
    imported,
    require_call,
    require_names,
)
from draftproof.adapters.engines.sources import (
    Found,
    at,
    at_commit,
    commits,
    installed,
    of_index,
)
from draftproof.conformance.evidence.traces import recording, trace, traced

SAMPLER = """\
from engine.heavy import Heavy
from engine.rules import LEAST


def sample(drafted, *, seed=None):
    return drafted < LEAST
"""
FILES = {
    "engine/__init__.py": "__version__ = '1.5'\nraise ImportError('it needs a GPU')\n",
    "engine/rules.py": "LEAST = 3\n",
    "engine/sampler.py": SAMPLER,
    "engine/unused.py": "raise ImportError('nobody asked')\n",
}
DOUBLES = {"engine.heavy": None}
NAMES = {
    f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTPROOF_CACHE", str(tmp_path / "cache"))


def written(folder: Path, below: str = "", **files: str) -> Path:
    for name, text in {**FILES, **files}.items():
        path = folder / below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def git(folder: Path, *command: str, day: str = "2026-03-01") -> str:
    own = {**os.environ, **NAMES, "GIT_COMMITTER_DATE": f"{day}T12:00:00Z"}
    ran = subprocess.run(
        ["git", "-C", str(folder), *command], check=True, capture_output=True, text=True, env=own
    )
    return ran.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with two commits that touch the sampler, and one that does not."""
    folder = written(tmp_path / "checkout", "python")
    git(folder, "init", "-q", "-b", "main")
    for number, text in enumerate(("LEAST = 3\n", "LEAST = 4\n", "LEAST = 5\n")):
        (folder / "python" / "engine" / "rules.py").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"At {text.strip()}", day=f"2026-0{number + 1}-01")
    (folder / "notes.md").write_text("nothing\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "Notes", day="2026-05-01")
    return folder


def ran(release: Found) -> tuple[str, ...]:
    """Import the sampler of a release, and return the files that it was made of."""
    (module,) = imported("engine.sampler", releases=[release], doubles=DOUBLES)
    assert module.sample(1) is True
    return release.members


@pytest.mark.parametrize("below", ["", "src", "python"])
def test_a_folder_is_read_without_its_init(tmp_path: Path, below: str) -> None:
    found = at(written(tmp_path / "here", below), "engine")
    assert found.version == "1.5"
    assert ran(found) == ("engine/rules.py", "engine/sampler.py")
    assert [found.has(f"engine/{each}.py") for each in ("unused", "other")] == [True, False]


def test_the_folder_of_the_package_itself_will_do(tmp_path: Path) -> None:
    assert at(written(tmp_path) / "engine", "engine").root == tmp_path


def test_a_checkout_has_its_commit_and_says_if_it_was_changed(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "--short=12", "HEAD")
    assert at(checkout, "engine").version == f"1.5 (commit {head})"
    (checkout / "python" / "engine" / "rules.py").write_text("LEAST = 9\n")
    assert at(checkout, "engine").version == f"1.5 (commit {head}, with changes)"


def test_a_folder_that_a_repository_does_not_keep_has_no_commit_of_it(checkout: Path) -> None:
    """Such as an environment inside a checkout."""
    other = written(checkout / ".venv")
    assert at(other, "engine").version == "1.5"


def test_a_commit_is_read_and_the_checkout_left_alone(checkout: Path) -> None:
    first = git(checkout, "rev-list", "--max-parents=0", "HEAD")
    (checkout / "python" / "engine" / "rules.py").write_text("LEAST = 0\n")
    found = at_commit(checkout, "engine", first[:9])
    assert found.version == f"1.5 (commit {first[:12]})"
    (module,) = imported("engine.sampler", releases=[found], doubles=DOUBLES)
    assert [module.sample(each) for each in (2, 3)] == [True, False]
    assert (checkout / "python" / "engine" / "rules.py").read_text() == "LEAST = 0\n"


def test_the_commits_that_touched_a_file(checkout: Path) -> None:
    found = commits(checkout, ["engine/rules.py"], since="2026-01-15")
    assert [(day, said) for _, day, said in found] == [
        ("2026-02-01", "At LEAST = 4"),
        ("2026-03-01", "At LEAST = 5"),
    ]


def test_a_wheel_is_read_without_installing_it(tmp_path: Path) -> None:
    wheel = tmp_path / "engine-2.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in FILES.items():
            file.writestr(name, text)
    found = at(wheel, "engine")
    assert (found.version, ran(found)) == ("2.5", ("engine/rules.py", "engine/sampler.py"))


def test_an_unpacked_wheel_has_the_version_of_its_metadata(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    assert at(tmp_path, "engine").version == "unknown version"
    (tmp_path / "engine-2.5.dist-info").mkdir()
    assert at(tmp_path, "engine").version == "2.5"


def test_an_installed_package_is_found_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(written(tmp_path / "site")))
    importlib.invalidate_caches()
    found = installed("no-such-engine", "engine")
    assert (found.root, found.version) == (tmp_path / "site", "1.5")
    assert "engine" not in sys.modules


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("nowhere", "there is no folder and no wheel '.*nowhere'"),
        ("empty", "'.*empty' has no package 'engine': neither engine, src/engine, python/engine"),
        ("text.whl", "'.*text.whl' is neither a folder nor a wheel"),
        ("cut.whl", "the end of the wheel '.*cut.whl' is missing: fetch it again"),
        ("other.whl", "'.*other.whl' has no package 'engine'"),
    ],
)
def test_a_source_that_is_none_is_told(tmp_path: Path, place: str, told: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.whl").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as file:
        file.writestr("other/__init__.py", "")
    (tmp_path / "cut.whl").write_bytes((tmp_path / "other.whl").read_bytes()[:40])
    with pytest.raises(Unavailable, match=told):
        at(tmp_path / place, "engine")


def test_what_git_does_not_know_is_told(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"git ls-tree in '.*checkout': "):
        at_commit(checkout, "engine", "no-such-commit")
    with pytest.raises(Unavailable, match=r"'--help' names no commit"):
        at_commit(checkout, "engine", "--help")
    with pytest.raises(Unavailable, match=r"the commit HEAD of '.*' has no package 'another'"):
        at_commit(checkout, "another", "HEAD")
    with pytest.raises(Unavailable, match=r"git log in '.*nothing': "):
        commits(tmp_path / "nothing", ["a.py"], since="2026-01-01")


def test_what_is_not_installed_is_told() -> None:
    with pytest.raises(Unavailable, match=r"no-such is not installed here: install it, or give"):
        installed("no-such", "no_such_engine")


class Index(BaseHTTPRequestHandler):
    """An index with wheels, one of which was yanked; whether it answers to ranges is a switch."""

    wheel = b""
    takes_ranges = True
    asked: list[str]

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.wheel)))
        self.end_headers()

    def do_GET(self) -> None:
        own = self.headers.get("Range")
        content = self.wheel
        if self.path == "/simple/engine/":
            files = [("0.9", "2026-01-01", True), ("1.5", "2026-02-01", False)]
            files += [("1.6.dev1", "2026-02-02", False), ("1.4", "2025-12-01", False)]
            content = json.dumps(
                {
                    "files": [
                        {
                            "filename": f"engine-{version}-py3-none-any.whl",
                            "url": f"/wheels/{version}.whl",
                            "upload-time": f"{day}T10:00:00Z",
                            "yanked": is_yanked,
                        }
                        for version, day, is_yanked in files
                    ]
                }
            ).encode()
        elif own and self.takes_ranges:
            first, _, last = own.removeprefix("bytes=").partition("-")
            content = content[int(first) : int(last) + 1]
            self.asked.append(own)
        self.send_response(206 if own and self.takes_ranges else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Index]]:
    place = tmp_path / "engine.whl"
    with zipfile.ZipFile(place, "w") as file:
        file.writestr("engine/kernel.so", os.urandom(2**21))
        for name, text in FILES.items():
            file.writestr(name, text)
    handler = type("Handler", (Index,), {"wheel": place.read_bytes(), "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    yield handler
    server.shutdown()
    server.server_close()
    archive.cache_clear()


def test_releases_are_listed_by_day_without_what_was_yanked_or_is_of_one_night(
    index: type[Index],
) -> None:
    assert [(each.version, each.day) for each in listed("engine")] == [
        ("1.4", date(2025, 12, 1)),
        ("1.5", date(2026, 2, 1)),
    ]
    assert not index.asked


def test_files_of_a_wheel_are_fetched_without_the_wheel(index: type[Index]) -> None:
    found = of_index("engine", "1.5", "engine")
    assert (found.version, ran(found)) == ("1.5", ("engine/rules.py", "engine/sampler.py"))
    assert not any(found.has(f"{each}/nothing.py") for each in ("engine", "other"))
    parts = [each.removeprefix("bytes=").split("-") for each in index.asked]
    assert sum(int(last) - int(first) + 1 for first, last in parts) < len(index.wheel) / 2


def test_a_release_of_an_index_is_asked_for_once(
    index: type[Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    members = ran(of_index("engine", "1.5", "engine"))
    index.takes_ranges = False
    archive.cache_clear()
    monkeypatch.setattr(sources, "listed", None)
    again = of_index("engine", "1.5", "engine")
    assert ran(again) == members
    assert not again.has("engine/nothing.py")


@pytest.mark.usefixtures("index")
def test_what_was_fetched_is_traced_and_not_how() -> None:
    with recording(), traced():
        ran(of_index("engine", "1.5", "engine"))
        found = trace()
    assert not found.closed
    assert {Path(file).name for file in found.files} >= {"rules.py", "sampler.py"}


def test_an_index_that_cannot_be_read_is_told(
    index: type[Index], monkeypatch: pytest.MonkeyPatch
) -> None:
    index.takes_ranges = False
    with pytest.raises(UnfetchedRelease, match=r"cannot read .*1.5.whl by ranges: "):
        of_index("engine", "1.5", "engine")
    with pytest.raises(Unavailable, match=r"the index has no wheel of engine 1\.9"):
        of_index("engine", "1.9", "engine")
    with pytest.raises(UnfetchedRelease, match=r"cannot read http://127.0.0.1:9/engine.whl by"):
        archive("http://127.0.0.1:9/engine.whl")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(UnfetchedRelease, match=r"http://127.0.0.1:9/simple/engine/ lists no"):
        listed("engine")


def test_a_function_that_has_moved_on_says_how() -> None:
    def verify(rows: object, drafts: object, *, seed: int, fast: bool = False) -> None:
        """Verify."""

    assert require_call(verify, ("rows", "logits"), ("drafts",), keywords=("seed",)) == (
        "rows",
        "drafts",
    )
    told = (
        r"verify in .*test_sources\.py takes \(rows, drafts, seed, fast\), and this adapter calls"
    )
    for positions, keywords in (
        ((("logits",), ("drafts",)), ("seed",)),
        ((("rows",), ("drafts",)), ()),
        ((("rows",), ("drafts",)), ("seed", "noise")),
        ((("rows",),), ("seed",)),
    ):
        with pytest.raises(MovedOn, match=told):
            require_call(verify, *positions, keywords=keywords)
    with pytest.raises(MovedOn, match=r"calls it with \(logits\|p, seed=\)"):
        require_call(verify, ("logits", "p"), keywords=("seed",))
    with pytest.raises(MovedOn, match=r"json has no coin and no noise, which this adapter needs"):
        require_names(json, "loads", "coin", "noise")


def test_one_function_is_taken_out_of_its_module(tmp_path: Path) -> None:
    text = "import nothing_like_it\n\n\ndef double(x: Odd | None) -> Odd:\n    return two * x\n"
    found = at(written(tmp_path, **{"engine/big.py": text}), "engine")
    double = function_of(found, "engine.big", "double", {"two": 2})
    assert double(4) == 8
    assert double.__code__.co_filename == str(tmp_path / "engine" / "big.py")
    assert found.members == ("engine/big.py",)
    with pytest.raises(MovedOn, match=r"engine\.big has no function triple, which this adapter"):
        function_of(found, "engine.big", "triple", {})
    with pytest.raises(Unavailable, match=r"1\.5 has no module engine\.bigger"):
        function_of(found, "engine.bigger", "double", {})
    (tmp_path / "engine" / "big.py").write_text("def double(x:\n")
    with pytest.raises(SyntaxError, match=r"\(big\.py, line 1\)"):
        function_of(found, "engine.big", "double", {})
