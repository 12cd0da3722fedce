"""Engines by their methods: what a source has, how an adapter is called, and what it was."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from draftproof.adapters import engines
from draftproof.adapters.engines import packages as known
from draftproof.adapters.engines import sources
from draftproof.adapters.engines.index import ListedRelease
from draftproof.adapters.engines.packages import PACKAGES, EngineMethod, EnginePackage
from draftproof.adapters.engines.released import MovedOn, Unavailable, Wheel
from draftproof.conformance.cases import Case, cases
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.report.states import BELOW_TOKEN
from draftproof.conformance.requirements.task import is_asked
from draftproof.reference.drafting import draft_law
from draftproof.reference.model import Instance

PIECE = "transformers/generation/utils.py"

RULE = """\
import a_module_that_nobody_has

__version__ = "9.9"


def _speculative_sampling(
    candidate_input_ids, candidate_logits, candidate_length, new_logits{more}
):
    return candidate_input_ids, candidate_length
"""


def checkout(folder: Path, more: str = "") -> Path:
    """Return a checkout of transformers that has its rule alone."""
    file = folder / "src" / PIECE
    file.parent.mkdir(parents=True)
    file.write_text(RULE.format(more=more))
    (folder / "src" / "transformers" / "__init__.py").write_text('__version__ = "9.9"\n')
    return folder


def test_every_method_can_be_asked_for() -> None:
    """Its names fit into the name of an adapter, its cases are cases, its algorithm is one."""
    every = [each.id for each in cases("standard")]
    for name, package in PACKAGES.items():
        assert name == package.name
        for method, own in package.methods.items():
            told = known._NAME.fullmatch(f"{name}/{method}@/a/b c#0123")
            assert told is not None
            assert (told["engine"], told["method"]) == (name, method)
            assert bool(own.cases) == bool(own.why)
            assert not own.cases or any(is_asked(each, own.cases) for each in every)
            assert own.needs
            assert own.versions


def shows_a_residual(instance: Instance) -> bool:
    """Return True if weighing a residual by p instead of (p - q)+ would show on an instance."""
    for path in (path for drafts in draft_law(instance) for path in drafts):
        for place in range(len(path)):
            p, q = instance.target(path[:place]), instance.draft(path[:place])
            left = [(a - b) / a for a, b in zip(p, q, strict=True) if a > b]
            if len({*left}) > 1 and q[path[place]] > p[path[place]]:
                return True
    return False


def asked(mode: str, patterns: Sequence[str]) -> list[Case]:
    return [case for case in cases(mode) if is_asked(case.id, patterns)]


UNSHOWN = {"vllm-mlx/alone", "vllm-mlx/beside"}
"""Methods that draft one token: the one case of that length has two tokens, as their `why` says."""

METHODS = {
    f"{name}/{method}": own
    for name, package in PACKAGES.items()
    for method, own in package.methods.items()
    if own.algorithm not in BELOW_TOKEN and f"{name}/{method}" not in UNSHOWN
}


@pytest.mark.parametrize("own", METHODS.values(), ids=METHODS)
def test_every_method_is_asked_where_a_wrong_residual_shows(own: EngineMethod) -> None:
    """With two tokens no residual has more than one, whatever it is weighed by."""
    if any(pattern.startswith("text.") for pattern in own.cases):
        return  # whole generations are asked over a larger vocabulary
    assert any(shows_a_residual(case.instance) for case in asked(own.mode, own.cases))


def test_two_tokens_show_no_residual() -> None:
    (two,) = asked("quick", ["generic.v2.l2"])
    (three,) = asked("standard", ["zeros.draft"])
    assert (shows_a_residual(two.instance), shows_a_residual(three.instance)) == (False, True)


def test_pinned_rows_are_of_the_same_classes() -> None:
    pinned = {tuple(each[:2]) for each in engines._MAKERS.values()}
    modules = {module for module, _ in pinned}
    made = {own.made[:2] for package in PACKAGES.values() for own in package.methods.values()}
    assert {each for each in made if each[0] in modules} <= pinned


def test_an_adapter_is_of_the_source_that_is_named(tmp_path: Path) -> None:
    here = checkout(tmp_path)
    package = PACKAGES["transformers"]
    assert package.judged(str(here)) == {
        "token": f"draftproof.adapters.engines:transformers/token@{here}"
    }
    adapter = getattr(engines, f"transformers/token@{here}")
    declared = program_of(adapter).declared
    assert (declared.name, declared.version, declared.algorithm) == ("transformers", "9.9", "token")
    assert adapter.files[-1] == here / "src" / PIECE


def test_the_files_in_use_are_those_of_the_method_and_its_imports(tmp_path: Path) -> None:
    here = checkout(tmp_path)
    package = PACKAGES["transformers"]
    assert PIECE in package.used(str(here))
    with pytest.raises(Unavailable, match="names no commit after the #"):
        package.used(f"{here}#")


def test_what_has_moved_on_says_how_and_what_is_judged(tmp_path: Path) -> None:
    here = checkout(tmp_path, ", rng")
    told = (
        r"transformers 9\.9: _speculative_sampling in .*utils\.py takes \(.*new_logits, rng\), and "
        r"this adapter calls it with .*\. transformers:token judges 4\.52 and later"
    )
    with pytest.raises(MovedOn, match=told):
        getattr(engines, f"transformers/token@{here}")


def test_a_method_that_a_source_has_not_is_told(tmp_path: Path) -> None:
    here = checkout(tmp_path)
    (here / "src" / PIECE).write_text("")
    assert PACKAGES["transformers"].judged(str(here)) == {}
    name = f"transformers/token@{here}"
    told = r"transformers 9\.9 has no token: .*utils\.py has no 'def _speculative_sampling\('"
    with pytest.raises(Unavailable, match=told):
        getattr(engines, name)
    (here / "src" / PIECE).unlink()
    told = r"transformers 9\.9 has no token: there is no file transformers/generation/utils\.py"
    with pytest.raises(Unavailable, match=told):
        getattr(engines, name)


def test_a_name_that_a_source_has_lost_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(_: EngineMethod, release: Any) -> Any:
        return release.rules

    monkeypatch.setattr(EngineMethod, "adapter", made)
    here = checkout(tmp_path)
    told = r"transformers 9\.9: .* no attribute 'rules', which this adapter uses\. "
    with pytest.raises(MovedOn, match=told):
        getattr(engines, f"transformers/token@{here}")


@pytest.mark.parametrize("name", ["vllm/v9", "llvm/v1", "vllm/", "vllm/v1=0.1", "/"])
def test_a_name_that_is_none_is_no_attribute(name: str) -> None:
    assert not hasattr(engines, name)


def test_the_past_of_an_index_begins_with_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    releases = [ListedRelease("vllm", f"0.{n}", date(2026, n, 1), "") for n in (1, 2, 3)]
    monkeypatch.setattr(known, "listed", lambda _: releases)
    past = PACKAGES["vllm"].past("v1", since=date(2026, 2, 1))
    assert [(each.version, each.day, each.adapter) for each in past] == [
        (f"0.{n}", f"2026-0{n}-01", f"draftproof.adapters.engines:vllm/v1==0.{n}") for n in (2, 3)
    ]
    monkeypatch.setattr(sources, "listed", lambda _: releases)
    with pytest.raises(Unavailable, match=r"the index has no wheel of vllm 7\.0"):
        getattr(engines, "vllm/v1==7.0")


def commit(here: Path, *messages: str) -> None:
    """Commit everything in a checkout, and then nothing, with a message each."""
    own = ["git", "-C", str(here), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*own, "init", "-q"], check=True)
    subprocess.run([*own, "add", "-A"], check=True)
    for message in messages:
        subprocess.run([*own, "commit", "-q", "--allow-empty", "-m", message], check=True)


def test_the_past_of_a_checkout_is_what_touched_the_method(tmp_path: Path) -> None:
    here = checkout(tmp_path)
    commit(here, "A rule", "Nothing")
    (past,) = PACKAGES["transformers"].past("token", since=date(2026, 1, 1), source=str(here))
    assert past.said == "A rule"
    place, _, whole = past.adapter.rpartition("#")
    assert place == f"draftproof.adapters.engines:transformers/token@{here}"
    assert whole.startswith(past.version)
    assert past.version in getattr(engines, past.adapter.partition(":")[2]).version


def test_a_file_that_the_method_has_left_is_of_its_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(_: EngineMethod, release: sources.Found) -> None:
        release.file_of("transformers.generation.coins")

    monkeypatch.setattr(EngineMethod, "adapter", used)
    here = checkout(tmp_path)
    coins = here / "src" / "transformers" / "generation" / "coins.py"
    for message, text in (("A rule", "1"), ("Other coins", "2"), ("Its own coins", None)):
        coins.unlink() if text is None else coins.write_text(text)
        commit(here, message, "Nothing")
    past = PACKAGES["transformers"].past("token", since=date(2026, 1, 1), source=str(here))
    assert [each.said for each in past] == ["A rule", "Other coins", "Its own coins"]


@pytest.mark.parametrize("package", PACKAGES.values(), ids=lambda package: package.name)
def test_pinned_releases_have_their_methods(package: EnginePackage) -> None:
    """As far as their files were fetched before: this test fetches nothing."""
    pinned = [
        each
        for module in {own.made[0] for own in package.methods.values()}
        for each in vars(__import__(f"{engines.__name__}.{module}", fromlist=["_"])).values()
        if isinstance(each, Wheel) and each.project == package.name
    ]
    needed = {member for own in package.methods.values() for member in own.needs}
    assert not pinned or any(needed & {*each.members} for each in pinned)
