from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from draftproof.conformance.adapter import DTYPES, declaration
from draftproof.conformance.requirements import plan
from draftproof.spec import chapters, registry, requirements

TEXT = "\n".join(chapter.read_text(encoding="utf-8") for chapter in chapters())


def test_every_requirement_is_judged_and_every_judgement_is_required() -> None:
    anything = SimpleNamespace(
        name="anything",
        version="1",
        algorithm="block",
        verify=print,
        draft=print,
        generate=print,
        same_as="torch-block",
        ragged=True,
        logits=True,
        dtypes=DTYPES,
        max_drafts=2,
    )
    stateful = SimpleNamespace(name="stateful", version="1", algorithm="greedy_block", verify=print)
    plans = (plan(declaration(each), "full") for each in (anything, stateful))
    judged = {r for tasks in plans for task in tasks for r in task.requirements}
    assert judged == set(requirements())


def test_ids_are_dotted_lowercase_and_every_link_to_one_resolves() -> None:
    for identity in requirements():
        assert re.fullmatch(r"[a-z]+(\.[a-z]+)+", identity)
    informative = set(re.findall(r"^### [^·\n]* \{ #([a-z.]+) \}$", TEXT, flags=re.M))
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= {*requirements(), *informative}
    assert not informative & set(requirements())


def test_no_heading_with_an_anchor_is_overlooked() -> None:
    assert len(re.findall(r"·.*\{ #", TEXT)) == len(requirements())


def test_every_requirement_uses_its_own_level() -> None:
    sections = re.split(r"^### ", TEXT, flags=re.M)[1:]
    for requirement in requirements().values():
        section = next(s for s in sections if f"#{requirement.id} }}" in s.splitlines()[0])
        body = section.split("\n", 1)[1].split("\n## ")[0]
        assert re.search(rf"\b{requirement.level}( NOT)?\b", body), requirement.id


def test_an_id_with_two_headings_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "01-a.md").write_text("### A · MUST { #law.a }\n\n### B · SHOULD { #law.a }\n")
    monkeypatch.setattr(registry, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"requirement 'law\.a' has two headings"):
        requirements.__wrapped__()  # past the cache
