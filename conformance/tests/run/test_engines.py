from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pytest

from draftproof.conformance.checkpoint.chain import chain
from draftproof.conformance.checkpoint.rows import Context
from draftproof.conformance.checkpoint.writing import rows_of
from draftproof.conformance.evidence.certificate import statement
from draftproof.conformance.evidence.decision import report
from draftproof.conformance.evidence.records import (
    EditedEvidence,
    Evidence,
    Record,
    StaleEvidence,
    parsed,
    sealed,
)
from draftproof.conformance.lanes.engine.asking import SETTINGS, Answer, Generation, SamplingParams
from draftproof.conformance.lanes.engine.lines import Written, read_tokens
from draftproof.conformance.lanes.engine.owed import owed_rows
from draftproof.conformance.lanes.engine.wealth import Owed
from draftproof.conformance.report import rendered
from draftproof.conformance.run.answers import asked_of, read_from
from draftproof.conformance.run.engines import (
    EngineCampaign,
    campaign_in,
    recounted,
    run,
)

pytest.importorskip("torch")

ROWS = rows_of(chain(vocabulary=8, zeros=1), kind="memory-1", dtype="float32")


@cache
def owed(sampling: SamplingParams) -> Mapping[Context, Owed]:
    return owed_rows(ROWS, sampling)


class MarkovChain:
    """An engine that needs no model: it draws from the rows that are owed, or from others."""

    name = "chain"
    version = "1"

    def __init__(
        self,
        seed: int = 0,
        *,
        speculating: Callable[[SamplingParams], SamplingParams] = lambda sampling: sampling,
        always: Callable[[SamplingParams], SamplingParams] = lambda sampling: sampling,
        drafted: float = 0.0,
    ) -> None:
        self.random = numpy.random.default_rng(seed)
        self.speculating, self.always, self.drafted = speculating, always, drafted
        self.calls = 0

    def generate(self, requests: Sequence[Generation]) -> list[Answer]:
        self.calls += 1
        return [self.answer(each) for each in requests]

    def answer(self, asked: Generation) -> Answer:
        sampling = self.always(asked.sampling)
        if asked.speculation:
            sampling = self.speculating(sampling)
        table, plain = owed(sampling), owed(SamplingParams())
        text = [*asked.prompt]
        for _ in range(asked.max_tokens):
            context = (ROWS.state_of[text[-1]],)
            row = (table.get(context) or plain[context]).row
            if asked.speculation and self.random.random() < self.drafted:
                row = numpy.array([float(each) for each in ROWS.draft[context]])
            text.append(ROWS.words[int(self.random.choice(len(row), p=row))])
        return Answer(tuple(text[len(asked.prompt) :]))


def campaign(**changes: Any) -> EngineCampaign:
    made = EngineCampaign(
        *(ROWS, "./chain.py:MarkovChain", "chain", "1", "2026-01-01T00:00:00+00:00", 3),
        digest="0" * 64,
        settings=SETTINGS,
        control="./chain.py:MarkovChain",
        tokens=30_000,
    )
    return replace(made, **changes)


def records_of(own: EngineCampaign, engine: Any, control: Any) -> list[Record]:
    records: list[Record] = []
    run(own, asked_of(engine, control), known=(), keep=records.append)
    return records


def verdicts(records: Sequence[Record]) -> dict[str, str]:
    return {each.requirement.id: each.verdict for each in report(records).decisions}


def evidence(records: Sequence[Record]) -> Evidence:
    lines, _ = sealed(records)
    return parsed(lines, "evidence")


# --- verdicts -----------------------------------------------------------------------------------


def test_an_engine_that_draws_from_its_rows_conforms() -> None:
    engine = MarkovChain()
    records = records_of(campaign(tokens=100_000), engine, engine)
    found = verdicts(records)
    assert {*found} == {
        "engine.lossless",
        "engine.support",
        "engine.concurrent",
        "engine.parameters",
        "engine.length",
    }
    assert {found.pop("engine.length"), *found.values()} == {"skipped", "pass"}
    assert report(records).verdict == "pass"


def test_few_tokens_leave_it_undecided() -> None:
    engine = MarkovChain()
    records = records_of(campaign(tokens=2_000), engine, engine)
    assert report(records).verdict == "inconclusive"


def test_a_program_that_is_wrong_without_speculation_too_fails() -> None:
    engine = MarkovChain(always=lambda sampling: replace(sampling, temperature=1.5))
    records = records_of(campaign(), engine, engine)
    details = [
        each.detail
        for decision in report(records).decisions
        for each in decision.findings
        if each.verdict == "fail"
    ]
    assert any(each.endswith("; without speculation, too") for each in details)


def test_a_server_with_filters_of_its_own_is_not_accused() -> None:
    """With speculation and without, it writes rows that nobody asked for: nobody knows why."""
    filtered = MarkovChain(always=lambda sampling: replace(sampling, temperature=0.8))
    for control in (filtered, None):
        own = campaign(vouched=False, kind="server", control=control and "url")
        records = records_of(own, filtered, control)
        found = report(records)
        assert found.verdict == "inconclusive"
        told = [each.worst.detail for each in found.decisions if each.verdict == "inconclusive"]
        assert any(each.startswith("filters unknown") for each in told)


def test_a_server_that_adds_tokens_to_prompts_is_not_accused() -> None:
    """A chat template changes the context of first tokens, with speculation and without."""

    class Framed(MarkovChain):
        def answer(self, asked: Generation) -> Answer:
            return super().answer(replace(asked, prompt=(*asked.prompt, ROWS.words[0])))

    for control in ("url", None):
        engine = Framed()
        own = campaign(vouched=False, kind="server", control=control)
        assert report(records_of(own, engine, engine)).verdict == "inconclusive"
    own = campaign(vouched=False, kind="server")
    assert report(records_of(own, Framed(), MarkovChain())).verdict == "fail"


def test_a_server_with_filters_fails_where_speculation_changes_its_text() -> None:
    """Whatever its filters, its text with speculation is not the one without."""
    filtered: dict[str, Any] = {"always": lambda sampling: replace(sampling, temperature=0.8)}
    records = records_of(
        campaign(vouched=False, kind="server"),
        MarkovChain(drafted=0.5, **filtered),
        MarkovChain(1, **filtered),
    )
    assert verdicts(records)["engine.lossless"] == "fail"


@pytest.mark.requirement("engine.parameters")
def test_a_setting_that_only_the_draft_obeys_is_found() -> None:
    engine = MarkovChain(speculating=lambda sampling: replace(sampling, top_k=None))
    found = verdicts(records_of(campaign(), engine, engine))
    assert found["engine.parameters"] == "fail"
    assert found["engine.lossless"] != "fail"


@pytest.mark.requirement("engine.support", "engine.lossless")
def test_a_token_without_probability_is_an_alarm_at_once() -> None:
    class Outside(MarkovChain):
        def answer(self, asked: Generation) -> Answer:
            return Answer((*super().answer(asked).tokens[:-1], 0))

    for own in (campaign(), campaign(vouched=False, kind="server", control=None)):
        engine = Outside()
        records = records_of(own, engine, engine if own.control else None)
        assert verdicts(records)["engine.support"] == "fail"
        assert verdicts(records)["engine.lossless"] == "fail"
        tasks = [r["task"] for r in records if r["record"] == "answers" and not r["control"]]
        # One batch of every part that is asked, but of streams.
        assert tasks == sorted({*tasks})
        assert len(tasks) == len(own.parts) - 2


def test_what_an_engine_does_not_take_is_skipped_and_named() -> None:
    engine = MarkovChain()
    own = campaign(settings=("top_k",), streams=False)
    details = {
        (finding["case"], finding["detail"])
        for record in records_of(own, engine, engine)
        for finding in record.get("findings", ())
        if finding["verdict"] == "skipped" and finding["requirement"] != "engine.length"
    }
    assert ("top-p", "the engine does not take temperature, top_p") in details
    assert ("temperature-low", "the engine does not take temperature") in details
    assert ("streamed", "the engine does not stream") in details
    assert "top-k" not in {case for case, _ in details}


# --- evidence -----------------------------------------------------------------------------------


def test_the_certificate_follows_from_the_tokens() -> None:
    engine = MarkovChain()
    found = evidence(records_of(campaign(tokens=3_000), engine, engine))
    assert campaign_in(found.records) == campaign(tokens=3_000)
    assert recounted(found) == 3 * len(campaign().parts)
    document = statement(found.records, evidence="chain.jsonl", digest="0" * 64)
    said = document["predicate"]["draftproof"]
    assert said["rows"]["kind"] == "memory-1"
    assert said["tokens"] > 3_000 / 2
    assert "envelope" not in said
    for form in ("markdown", "junit", "json"):
        assert "chain" in rendered([document], form)


def test_tokens_that_were_edited_are_found() -> None:
    engine = MarkovChain()
    records = records_of(campaign(tokens=3_000), engine, engine)
    at = next(i for i, each in enumerate(records) if each["record"] == "answers")
    tokens = [[*each] for each in records[at]["tokens"]]
    tokens[0][3] = ROWS.words[0] if tokens[0][3] != ROWS.words[0] else ROWS.words[1]
    edited = [*records[:at], {**records[at], "tokens": tokens}, *records[at + 1 :]]
    with pytest.raises(EditedEvidence, match="task 0"):
        recounted(evidence(edited))
    fewer = [each for each in records if each is not records[at]]
    with pytest.raises((EditedEvidence, ValueError)):
        recounted(evidence(fewer))


def test_a_killed_run_goes_on_behind_its_last_token() -> None:
    whole = records_of(campaign(tokens=3_000), MarkovChain(5), MarkovChain(6))
    for cut in (1, 5, len(whole) // 2, len(whole) - 1):
        known, engine = whole[:cut], MarkovChain(7)
        rest: list[Record] = []
        run(campaign(tokens=3_000), asked_of(engine), known=known, keep=rest.append)
        again = evidence([*known, *rest])
        assert again.is_finished
        assert recounted(again) > 0
        asked = sum(each["record"] == "answers" for each in rest)
        assert engine.calls == asked


def test_evidence_of_another_campaign_is_refused() -> None:
    engine = MarkovChain()
    known = records_of(campaign(tokens=3_000), engine, engine)
    with pytest.raises(StaleEvidence, match="campaign/tokens was 3000, and is 4000 now"):
        run(campaign(tokens=4_000), asked_of(engine), known=known, keep=lambda _: None)


# --- what was written somewhere else ------------------------------------------------------------


def written(folder: Path, engine: MarkovChain, *, controls: int = 200, **settings: Any) -> Written:
    """Return what an engine writes to a file, with speculation and without."""
    sampling = SamplingParams(**settings)
    lines = []
    for speculation, number in ((True, 600), (False, controls)):
        for start in range(number):
            prompt = (ROWS.words[start % len(ROWS.words)],)
            asked = Generation(prompt, 48, sampling, speculation=speculation)
            line = {"prompt_ids": prompt, "token_ids": engine.answer(asked).tokens, **settings}
            lines.append(json.dumps(line | {"speculation": speculation}))
    file = folder / "tokens.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return read_tokens(file, ROWS)


def of_file(found: Written) -> list[Record]:
    records: list[Record] = []
    own = campaign(
        kind="tokens",
        vouched=False,
        settings=(),
        written=found.parts,
        tokens=found.tokens,
        control="tokens.jsonl" if found.parts[0].has_control else None,
    )
    run(own, read_from(found), known=(), keep=records.append)
    return records


def test_what_was_written_from_the_rows_conforms(tmp_path: Path) -> None:
    records = of_file(written(tmp_path, MarkovChain(1)))
    assert verdicts(records)["engine.lossless"] == "pass"
    assert campaign_in(records).parts == campaign_in(records).written
    assert recounted(evidence(records)) == 3


def test_written_settings_are_a_part_of_their_own(tmp_path: Path) -> None:
    records = of_file(written(tmp_path, MarkovChain(2), temperature=0.5, top_k=3))
    assert [each["case"] for each in records if each["record"] == "case"] == [
        "drafted:temperature=0.5:top_k=3"
    ]
    assert verdicts(records)["engine.parameters"] == "pass"


def test_a_written_draft_is_told_from_its_control(tmp_path: Path) -> None:
    records = of_file(written(tmp_path, MarkovChain(3, drafted=0.5)))
    document = statement(records, evidence="chain.jsonl", digest="0" * 64)
    assert report(records).verdict == "fail"
    assert "they look like the draft's row" in rendered([document], "markdown")


def test_without_a_control_a_file_is_not_accused_of_its_filters(tmp_path: Path) -> None:
    records = of_file(written(tmp_path, MarkovChain(4, drafted=0.5), controls=0))
    assert verdicts(records)["engine.lossless"] == "inconclusive"


def test_the_prompts_in_evidence_cannot_be_edited(tmp_path: Path) -> None:
    records = of_file(written(tmp_path, MarkovChain(5), controls=0))
    at = next(i for i, each in enumerate(records) if each["record"] == "answers")
    fewer = {**records[at], "prompts": records[at]["prompts"][1:]}
    edited = [*records[:at], fewer, *records[at + 1 :]]
    with pytest.raises(EditedEvidence, match="its prompts are not those of answers"):
        recounted(evidence(edited))
