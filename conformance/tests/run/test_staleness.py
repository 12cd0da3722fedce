"""Certificates of what is here, and of what has changed since."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance import certify
from draftproof.conformance.evidence import closure
from draftproof.conformance.evidence.certificate import read_certificate
from draftproof.conformance.evidence.identity import specification, subject, suite
from draftproof.conformance.protocol.adapter import program_of
from draftproof.conformance.protocol.loading import built_in, load_adapter
from draftproof.conformance.run import staleness
from draftproof.conformance.run.staleness import CURRENT, STALE, UNKNOWN, standing

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"
OTHER = {"version": "0.0.1", "sha256": "0" * 64}


def descriptor(identity: Mapping[str, str]) -> dict[str, Any]:
    return {
        "digest": {"sha256": identity["sha256"]},
        "annotations": {"version": identity["version"]},
    }


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A certificate of a few cases, whose requirements have keys."""
    made = certify("torch-token", mode="quick", seed=0, cases=["generic.v2.l1", "inputs", "runs"])
    return read_certificate(made.write(tmp_path_factory.mktemp("keyed")))


def changed(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Let a module of the suite be another one."""
    own = closure._digest_of
    place = f"draftproof.conformance.{module}"
    monkeypatch.setattr(closure, "_digest_of", lambda name: own(name) + "!" * (name == place))


def test_keys_alone_say_whether_judging_has_changed(
    keyed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A digest of the suite, or of the specification, changes with a word that judges nothing."""
    monkeypatch.setattr(staleness, "suite", lambda: OTHER)
    monkeypatch.setattr(staleness, "specification", lambda: {**specification(), "sha256": "0"})
    found = standing(keyed)
    assert (found.state, found.reason, found.judged) == (CURRENT, None, ())
    monkeypatch.setattr(staleness, "specification", lambda: {**specification(), "version": "9"})
    assert standing(keyed).reason == "the specification has changed"


@pytest.mark.parametrize(
    ("module", "judged"),
    [
        ("cli.judging", 0),
        ("report.words", 0),
        ("museum.kill_matrix", 0),
        ("lanes.probe._search", 0),
        ("lanes.sample", 0),
        ("requirements.inputs", 1),
        ("requirements.randomness", 2),
        ("requirements.laws", 10),
        ("lanes.exact._walk", 11),
    ],
)
def test_a_change_makes_stale_what_it_judges(
    keyed: dict[str, Any], monkeypatch: pytest.MonkeyPatch, module: str, judged: int
) -> None:
    changed(monkeypatch, module)
    found = standing(keyed)
    assert len(found.judged) == judged
    assert found.state == (STALE if judged else CURRENT)
    if judged:
        told = f"the judging of {judged} of {found.requirements} requirements has changed"
        assert found.reason == told


def test_a_requirement_that_was_left_out_is_missed(keyed: dict[str, Any]) -> None:
    """Without its evidence, nothing else than the plan knows of it."""
    predicate = keyed["predicate"]
    said = predicate["draftproof"]
    kept = [each for each in said["requirements"] if each["id"] != "law.support"]
    assert len(kept) + 1 == len(said["requirements"])
    less = {**keyed, "predicate": {**predicate, "draftproof": {**said, "requirements": kept}}}
    found = standing(less)
    assert (found.state, found.judged) == (STALE, ("law.support",))
    assert found.requirements == standing(keyed).requirements


def test_a_verifier_on_another_device_is_not_compared(keyed: dict[str, Any]) -> None:
    predicate = keyed["predicate"]
    said = predicate["draftproof"]
    other = {**said, "adapter": {**said["adapter"], "device": "cuda"}}
    found = standing({**keyed, "predicate": {**predicate, "draftproof": other}})
    told = "the verifier was not compared: it runs on cpu here, and was judged on cuda"
    assert (found.state, found.reason) == (UNKNOWN, told)


def certificate(name: str, **others: Mapping[str, str]) -> dict[str, Any]:
    """Those parts of a certificate that can become stale: of what is here, unless it says other."""
    adapter = load_adapter(name)
    of = {
        "subject": subject(program_of(adapter)),
        "specification": specification(),
        "suite": suite(),
    } | others
    return {
        "subject": [{"name": adapter.name, **descriptor(of["subject"])}],
        "predicate": {
            "configuration": [descriptor(of["specification"]), descriptor(of["suite"]), {}],
            "draftproof": {
                "mode": "certify",
                "adapter": {"place": built_in().get(name, name)},
            },
        },
    }


def test_what_is_of_all_that_is_here_is_current() -> None:
    found = standing(certificate("torch-token"))
    assert (found.state, found.reason, found.changed) == (CURRENT, None, ())
    assert found.subject.then == {"name": "torch-token", "version": "0.2.0"} | {
        "sha256": found.subject.then["sha256"]
    }
    assert found.command == "draftproof certify torch-token --mode certify"


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (["subject"], "the verifier has changed"),
        (["specification"], "the specification has changed"),
        (["suite"], "the suite has changed"),
        (["subject", "suite"], "the verifier and the suite have changed"),
        (
            ["subject", "specification", "suite"],
            "the verifier, the specification and the suite have changed",
        ),
    ],
)
@pytest.mark.parametrize("difference", ["version", "sha256"])
def test_what_has_changed_is_named(parts: list[str], reason: str, difference: str) -> None:
    here = standing(certificate("torch-token"))
    others = {part: {**getattr(here, part).then, difference: OTHER[difference]} for part in parts}
    found = standing(certificate("torch-token", **others))
    assert (found.state, found.reason) == (STALE, reason)
    for part in parts:
        assert getattr(found, part).then[difference] == OTHER[difference]
        assert getattr(found, part).now == getattr(here, part).now


def test_nothing_is_imported_because_a_certificate_names_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RIGHT.read_text())
    written = certificate(f"{file}:Batched")
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    found = standing(written)
    assert not (tmp_path / "ran").exists()
    assert (found.state, found.subject.now) == (UNKNOWN, None)
    assert found.reason == (
        "the verifier was not compared: it is not built in, and no certificate is trusted to name "
        "what is imported"
    )
    assert found.command == "draftproof certify ADAPTER --mode certify"


def test_a_stranger_is_stale_by_another_suite_all_the_same() -> None:
    found = standing(certificate(f"{RIGHT}:Batched", suite=OTHER))
    assert (found.state, found.reason) == (STALE, "the suite has changed")
    assert found.subject.now is None


def test_a_stranger_is_compared_where_it_is_named(tmp_path: Path) -> None:
    file, moved = tmp_path / "mine.py", tmp_path / "moved.py"
    file.write_text(RIGHT.read_text())
    written = certificate(f"{file}:Batched")
    file.rename(moved)
    assert standing(written, f"{moved}:Batched").state == CURRENT
    assert standing(written, f"{moved}:GumbelRace").changed == ("verifier",)
    moved.write_text(RIGHT.read_text() + "\n")
    found = standing(written, f"{moved}:Batched")
    assert (found.state, found.changed) == (STALE, ("verifier",))
    assert found.command == f"draftproof certify {moved}:Batched --mode certify"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no file"),
        ("import nowhere", "No module named 'nowhere'"),
        ("raise SystemExit", "could not be imported: SystemExit"),
        ("Batched = 1", "an adapter needs 'name'"),
    ],
)
def test_what_cannot_be_loaded_is_not_current(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "mine.py"
    written = certificate(f"{RIGHT}:Batched")
    if text is not None:
        file.write_text(text)
    found = standing(written, f"{file}:Batched")
    assert found.state == UNKNOWN
    assert reason in (found.subject.reason or "")
    assert reason in (found.reason or "")


def test_a_built_in_one_that_lacks_a_library_is_not_current(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = certificate("transformers")
    monkeypatch.setitem(sys.modules, "transformers.generation.utils", None)
    found = standing(written)
    assert found.state == UNKNOWN
    assert "transformers.generation.utils" in (found.reason or "")
