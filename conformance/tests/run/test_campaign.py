from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from draftproof.conformance.evidence.certificate import exit_code, statement
from draftproof.conformance.evidence.decision import report
from draftproof.conformance.evidence.records import (
    Evidence,
    Record,
    StaleEvidence,
    canonical,
    parsed,
)
from draftproof.conformance.protocol.adapter import AdapterFailed
from draftproof.conformance.requirements.task import is_asked
from draftproof.conformance.run.campaign import Campaign, UnknownCase, campaign_of, run

RIGHT = Path(__file__).parents[1] / "meta" / "right.py"

SOURCE = f"""{RIGHT.read_text(encoding="utf-8")}

class Mine(Batched):
    name, version = "mine", "1.0"

    def __init__(self):
        pass


class Crashing(Mine):
    def verify(self, request):
        raise RuntimeError("no luck")


class Elsewhere(Mine):
    device = "nowhere:7"


class Unseen(Mine):
    def verify(self, request):
        if numpy.random.normal() < 99:
            return super().verify(request)


class BonusFromDraft(Mine):
    def verify(self, request):
        request.target_probs[:, :, -1] = request.draft_probs[:, :, -1]
        return super().verify(request)
"""

QUICK: dict[str, Any] = {"mode": "quick", "seed": 7, "only": ("random.calls", "input.unchanged")}


def left(campaign: Campaign, known: Sequence[Record] = ()) -> list[Record]:
    """The records that a campaign leaves behind those that are known."""
    records = list(known)
    run(campaign, keep=records.append, known=evidence(known))
    return records


def evidence(records: Sequence[Record]) -> Evidence:
    """The records as they are read from a file, all digests computed anew."""
    lines, digest = [], ""
    for record in records:
        body = canonical(record)
        digest = sha256(f"{digest}\n{body}".encode()).hexdigest()
        lines.append(f'{body[:-1]},"digest":"{digest}"}}\n'.encode())
    content = b"".join(lines)
    return parsed(content, "evidence") if content else Evidence((), 0, "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("adapters")
    (made / "mine.py").write_text(SOURCE)
    return made


@pytest.fixture(scope="module")
def campaign(folder: Path) -> Campaign:
    return Campaign(f"{folder / 'mine.py'}:Mine", **QUICK)


@pytest.fixture(scope="module")
def whole(campaign: Campaign) -> list[Record]:
    return left(campaign)


def test_a_campaign_leaves_what_is_evidence(whole: list[Record], campaign: Campaign) -> None:
    assert evidence(whole).is_finished
    assert evidence(whole).records == tuple(whole)
    header, *_, counterexample, footer = whole
    assert header["campaign"]["seed"] == 7
    assert header["adapter"]["place"] == campaign.name
    assert (counterexample["counterexample"], footer["records"]) == (None, len(whole))


def test_a_header_leads_to_its_campaign(whole: list[Record], campaign: Campaign) -> None:
    again = campaign_of(whole[0])
    assert left(again) == whole
    assert (again.name, again.seed, again.created) == (
        campaign.name,
        campaign.seed,
        campaign.created,
    )


def test_it_goes_on_behind_a_record_of_any_kind(campaign: Campaign, whole: list[Record]) -> None:
    for known in (1, 3, len(whole) - 4, len(whole) - 2, len(whole) - 1, len(whole)):
        assert left(campaign, whole[:known]) == whole, f"behind {known} records"


def test_samples_go_on_behind_the_last_share_and_the_one_before(folder: Path) -> None:
    sampled = Campaign(
        f"{folder / 'mine.py'}:Mine", **{**QUICK, "lanes": ["sample"], "only": ["law.support"]}
    )
    whole = left(sampled)
    kinds = [record["record"] for record in whole]
    (last_case,) = (r["task"] for r in whole[-4:] if r["record"] == "result")
    ends = [n for n, r in enumerate(whole, 1) if r.get("task") == last_case and "looks" in r]
    assert len(ends) > 1
    assert kinds.count("share") > kinds.count("case")
    for known in ends[-2:]:
        assert left(sampled, whole[:known]) == whole, f"behind {known} records"


def test_a_counterexample_is_found_again(folder: Path) -> None:
    wrong = Campaign(f"{folder / 'mine.py'}:BonusFromDraft", **{**QUICK, "only": ["law.support"]})
    whole = left(wrong)
    assert whole[-2]["counterexample"]["requirement"] == "law.support"
    assert left(wrong, whole[:-2]) == whole


def test_cases_are_asked_by_patterns(folder: Path) -> None:
    patterns = ("generic.v2.*", "input*", "tensors")
    mine = f"{folder / 'mine.py'}:Mine"
    header, *records = left(Campaign(mine, mode="quick", seed=7, cases=patterns))
    asked = [record["case"] for record in records if record["record"] == "case"]
    assert {each for each in asked if each.startswith("generic")} >= {"generic.v2.l2"}
    assert all(each.startswith(("generic.v2.", "input", "tensors")) for each in asked)
    assert header["campaign"]["cases"] == sorted(patterns)
    assert campaign_of(header).cases == header["campaign"]["cases"]


@pytest.mark.parametrize(
    ("patterns", "asked"),
    [
        ((), {"generic.v2", "generic.v3", "wide.v2"}),
        (("generic.*",), {"generic.v2", "generic.v3"}),
        (("!wide.*",), {"generic.v2", "generic.v3"}),
        (("generic.*", "!*.v2"), {"generic.v3"}),
    ],
)
def test_patterns_name_cases_or_leave_them_out(patterns: tuple[str, ...], asked: set[str]) -> None:
    cases = ("generic.v2", "generic.v3", "wide.v2")
    assert {case for case in cases if is_asked(case, patterns)} == asked


def test_a_pattern_that_names_no_case_is_refused(folder: Path) -> None:
    named = Campaign(f"{folder / 'mine.py'}:Mine", mode="quick", cases=("generic.*", "nothing.*"))
    with pytest.raises(UnknownCase, match=r"No case in mode quick matches 'nothing\.\*'\."):
        left(named)


def test_another_seed_is_another_campaign(campaign: Campaign, whole: list[Record]) -> None:
    fresh = {Campaign(campaign.name).seed for _ in range(3)}
    assert len(fresh) == 3
    other = left(Campaign(campaign.name, **{**QUICK, "seed": 8}))
    assert other[0]["campaign"]["seed"] == 8
    assert [r["record"] for r in other] == [r["record"] for r in whole]


def test_the_environment_says_what_time_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767268800")
    assert Campaign("torch-token").created == "2026-01-01T12:00:00+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "noon")
    assert Campaign("torch-token").created > "2026-01-01T12:00:00+00:00"


# --- evidence of something else -----------------------------------------------------------


def put(*place: str, value: Any) -> Callable[[Record], None]:
    def edit(header: Record) -> None:
        for key in place[:-1]:
            header = header[key]
        header[place[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("subject", "sha256", value="0" * 64), "subject/sha256 was 0000"),
        (put("suite", "sha256", value="0" * 64), "suite/sha256 was 0000"),
        (put("suite", "version", value="0.0"), "suite/version was 0.0, and is "),
        (put("specification", "sha256", value="0" * 64), "specification/sha256 was 0000"),
        (put("campaign", "seed", value=8), "campaign/seed was 8, and is 7 now"),
        (put("campaign", "mode", value="certify"), "campaign/mode was certify, and is quick"),
        (put("campaign", "lanes", value=["exact"]), "campaign/lanes was ['exact'], and is ["),
        (put("campaign", "false_alarm", value=0.5), "campaign/false_alarm was 0.5"),
        (put("campaign", "examples", value=9), "campaign/examples was 9, and is 0 now"),
        (put("campaign", "only", value=[]), "campaign/only was [], and is ['input.unch"),
        (put("campaign", "blind", value={"exact": "fog"}), "campaign/blind/exact was fog"),
        (put("environment", "torch", value="0.4"), "environment/torch was 0.4, and is "),
        (put("environment", "gpu", value="big"), "environment/gpu was big, and is None now"),
        (put("adapter", "place", value="./old.py:Mine"), "adapter/place was ./old.py:Mine"),
        (put("created", value="1999-01-01T00:00:00+00:00"), "created was 1999-01-01"),
        (
            put("known_failures", value=[{"id": "law.support", "issue": "https://x"}]),
            "known_failures was [{'id': 'law.support'",
        ),
    ],
)
def test_evidence_of_something_else_is_stale(
    campaign: Campaign, whole: list[Record], edit: Callable[[Record], None], message: str
) -> None:
    other = copy.deepcopy(whole)
    edit(other[0])
    with pytest.raises(StaleEvidence, match=re.escape(message)) as caught:
        left(campaign, other[:1])
    assert "start anew without --resume" in str(caught.value)


def test_other_cases_are_stale(campaign: Campaign, whole: list[Record]) -> None:
    other = copy.deepcopy(whole)
    other[1]["case"] = "another"
    with pytest.raises(StaleEvidence, match="case was another, and is "):
        left(campaign, other)


def test_an_adapter_that_was_edited_is_another_one(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(SOURCE)
    known = left(Campaign(f"{tmp_path / 'first.py'}:Mine", **QUICK))
    (tmp_path / "second.py").write_text(SOURCE + "\n# a word more\n")
    known[0]["adapter"]["place"] = f"{tmp_path / 'second.py'}:Mine"
    edited = Campaign(f"{tmp_path / 'second.py'}:Mine", created=known[0]["created"], **QUICK)
    with pytest.raises(StaleEvidence, match="subject/sha256 was"):
        left(edited, known)


# --- what cannot be judged ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "error", "message"),
    [
        ("Crashing", AdapterFailed, "it fails on every case: it raised RuntimeError: no luck"),
        ("Elsewhere", AdapterFailed, "its device 'nowhere:7' is not there"),
    ],
)
def test_what_cannot_be_judged_says_why(
    folder: Path, attribute: str, error: type[Exception], message: str
) -> None:
    terms = {**QUICK, "only": ["law.prefix"]}
    with pytest.raises(error, match=message):
        left(Campaign(f"{folder / 'mine.py'}:{attribute}", **terms))


@pytest.mark.parametrize(
    ("mode", "verdict", "code"), [("standard", "pass", 0), ("certify", "inconclusive", 4)]
)
def test_certify_leaves_open_what_nothing_that_sees_it_can_decide(
    folder: Path, mode: str, verdict: str, code: int
) -> None:
    terms = {**QUICK, "mode": mode, "only": ["number.dtypes", "number.masked"]}
    records = left(Campaign(f"{folder / 'mine.py'}:Unseen", **terms))
    assert sorted(records[0]["campaign"]["blind"]) == ["exact", "probe"]
    said = report(records)
    assert {each.verdict for each in said.decisions} == {"skipped"}
    assert all("samples cannot decide it" in each.worst.detail for each in said.decisions)
    assert said.verdict == verdict
    assert exit_code(statement(records, evidence="mine.jsonl", digest="0" * 64)) == code
