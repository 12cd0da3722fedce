"""A campaign on a whole engine: parts are asked in turn, and each is judged by its own tokens.

If an engine can be told not to draft, or a second engine without drafting is available, every part
has a *control*: requests of the same kind, without speculation. Whoever passes a program vouches
that it applies the settings of a request and no others: then tokens that are not drawn from the
known rows are a failure, with or without speculation. The default filters of a server are unknown.
A server fails if it writes tokens to which the target gives no probability, or if its tokens differ
in distribution from its control's, whatever rows both have (`Paired`). If its tokens differ from
the known rows only, the verdict is inconclusive.

The evidence has every token. The requests follow from the seed and the answers before, so the
evidence is enough to go on with, and to judge again.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version as released
from math import ceil
from typing import Any

import numpy

from draftproof.conformance.checkpoint.rows import KnownRows, rows_from_json, rows_to_json
from draftproof.conformance.evidence.identity import specification, suite
from draftproof.conformance.evidence.records import (
    EditedEvidence,
    Evidence,
    Record,
    require_same,
)
from draftproof.conformance.lanes.engine.asking import FILTERS, SamplingParams
from draftproof.conformance.lanes.engine.owed import plain_sampling
from draftproof.conformance.lanes.engine.parts import Asked, Part, Place, asked, parts_of, pooled
from draftproof.conformance.lanes.engine.wealth import Paired
from draftproof.conformance.lanes.statistics import Budget
from draftproof.conformance.requirements.engine import length_finding
from draftproof.conformance.requirements.finding import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    SKIPPED,
    Finding,
    SampleFigures,
    findings_to_json,
)
from draftproof.conformance.run.answers import Answers, Source
from draftproof.reference.rational import exactly

ENGINE = "engine"
"""Name of the lane."""

BIAS = 0.1
"""Bound on the distance below which a part passes."""

CONTROLLED = 0.3
"""Number of a control's tokens, as a share of its part's."""

POWER = 0.9

Progress = Callable[[Iterator[Any], int, str], Iterator[Any]]


@dataclass(frozen=True)
class EngineCampaign:
    """The terms on which an engine is judged, and what is known of it.

    `vouched` says whether the engine is known to apply the settings of a request, and no others;
    `settings` are the settings that it takes.
    """

    rows: KnownRows
    place: str
    name: str
    version: str
    created: str
    seed: int
    kind: str = "program"
    digest: str = ""
    vouched: bool = True
    settings: tuple[str, ...] = ()
    streams: bool = False
    draft_length: int | None = None
    """L of an engine that drafts with the draft of the checkpoint; None for others."""
    control: str | None = None
    """The address of the control, or None without a control."""
    tokens: int = 200_000
    """Maximum number of tokens to ask for, including those of controls."""
    written: tuple[Part, ...] = ()
    """The parts of tokens written elsewhere, empty for an engine that is asked."""
    false_alarm: float = 1e-9
    dtype: str = "float32"
    environment: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts to read, or to ask or skip, in order."""
        return self.written or parts_of(self.rows)

    @cached_property
    def budget(self) -> Budget:
        """The budget of false alarms: of every part and its control, and two for lengths."""
        return Budget(self.false_alarm, 4 * len(self.parts))


def environment() -> dict[str, str]:
    """Return the environment of the judge: the machine, Python and libraries."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": numpy.__version__,
        "scipy": released("scipy"),
    }


def run(
    campaign: EngineCampaign,
    source: Source,
    *,
    known: Sequence[Record],
    keep: Callable[[Record], None],
    progress: Progress = lambda steps, *_: steps,
) -> None:
    """Judge an engine by its answers, and `keep` a record of every step after the `known` ones.

    Raises `EngineFailed`, and `StaleEvidence` for records of a different campaign.
    """
    records = [*known]

    def kept(record: Record) -> None:
        keep(record)
        records.append(record)

    opening = [*_opening(campaign)]
    require_same(known, opening)
    for record in opening[len(known) :]:
        kept(record)
    done = {record["task"] for record in known if record["record"] == "result"}

    def steps() -> Iterator[None]:
        for task, result in enumerate(_results(campaign, known, source, kept)):
            if task not in done:
                kept(result)
            yield

    for _ in progress(steps(), len(campaign.parts), campaign.name):
        pass
    last = {record["record"] for record in records}
    if "counterexample" not in last:
        kept({"record": "counterexample", "counterexample": None})
    if "footer" not in last:
        kept({"record": "footer", "records": len(records) + 1})


def recounted(evidence: Evidence) -> int:
    """Return how many verdicts follow from the tokens in the evidence, which are judged again.

    Raises `EditedEvidence` if a verdict does not follow.
    """
    campaign = campaign_in(evidence.records)
    results = [record for record in evidence.records if record["record"] == "result"]
    if [record["task"] for record in results] != [*range(len(campaign.parts))]:
        raise EditedEvidence("its results are not those of its parts")
    for result, due in zip(results, _results(campaign, evidence.records), strict=True):
        if result["findings"] != due["findings"]:
            raise EditedEvidence(
                f"the verdicts on task {result['task']} do not follow from its tokens"
            )
    return sum(len(result["findings"]) for result in results)


# --- records ----------------------------------------------------------------------------------


def _opening(campaign: EngineCampaign) -> Iterator[Record]:
    """Yield the records before the first answer."""
    yield {
        "record": "header",
        "format": 3,
        "created": campaign.created,
        "subject": {
            "name": campaign.name,
            "version": campaign.version,
            "sha256": campaign.digest,
        },
        "specification": specification(),
        "suite": suite(),
        "environment": dict(campaign.environment),
        "campaign": {
            "mode": "standard",
            "lanes": [ENGINE],
            "blind": {},
            "seed": campaign.seed,
            "false_alarm": campaign.false_alarm,
            "tests": campaign.budget.tests,
            "examples": 0,
            "only": [],
            "tokens": campaign.tokens,
        },
        "adapter": {
            "name": campaign.name,
            "version": campaign.version,
            "place": campaign.place,
            "dtype": campaign.dtype,
            "engine": {
                "kind": campaign.kind,
                "vouched": campaign.vouched,
                "control": campaign.control,
                "settings": list(campaign.settings),
                "streams": campaign.streams,
                "draft_length": campaign.draft_length,
                **(
                    {"parts": [_told_part(each) for each in campaign.written]}
                    if campaign.written
                    else {}
                ),
            },
        },
        "known_failures": [],
    }
    yield {"record": "rows", "rows": rows_to_json(campaign.rows)}
    for task, part in enumerate(campaign.parts):
        requirements = [part.requirement, "engine.support", "engine.length"]
        yield {
            "record": "case",
            "task": task,
            "case": part.case,
            "requirements": requirements,
            "lanes": [ENGINE],
        }


def campaign_in(records: Sequence[Record]) -> EngineCampaign:
    """Return the campaign that left these records."""
    header = records[0]
    said, own = header["adapter"], header["adapter"]["engine"]
    return EngineCampaign(
        rows=rows_from_json(records[1]["rows"]),
        place=said["place"],
        name=said["name"],
        version=said["version"],
        created=header["created"],
        seed=header["campaign"]["seed"],
        kind=own["kind"],
        digest=header["subject"]["sha256"],
        vouched=own["vouched"],
        settings=tuple(own["settings"]),
        streams=own["streams"],
        draft_length=own["draft_length"],
        written=tuple(_part_in(each) for each in own.get("parts", ())),
        control=own["control"],
        tokens=header["campaign"]["tokens"],
        false_alarm=header["campaign"]["false_alarm"],
        dtype=said["dtype"],
        environment=header["environment"],
    )


def _told_part(part: Part) -> dict[str, Any]:
    """Return the evidence on a part that was written elsewhere."""
    (sampling,) = part.samplings
    return {
        "case": part.case,
        "requirement": part.requirement,
        "speculation": part.speculation,
        "control": part.has_control,
        "sampling": {name: getattr(sampling, name) for name in ("temperature", *FILTERS)},
    }


def _part_in(told: Mapping[str, Any]) -> Part:
    return Part(
        *(told["case"], told["requirement"], 1.0),
        samplings=(SamplingParams(**told["sampling"]),),
        speculation=told["speculation"],
        has_control=told["control"],
    )


# --- one part -----------------------------------------------------------------------------------


Pair = tuple[Asked, Asked | None]
"""Tokens of a part and of its control, None without a control."""


def _results(
    campaign: EngineCampaign,
    known: Sequence[Record],
    source: Source | None = None,
    keep: Callable[[Record], None] = lambda _: None,
) -> Iterator[Record]:
    """Yield the result of each part in turn, from known answers and then from a source.

    Raises `EditedEvidence` if a part has more or fewer answers than needed.
    """
    of_task: dict[int, list[Record]] = {}
    for record in known:
        if record["record"] == "answers":
            of_task.setdefault(record["task"], []).append(record)
    plain: list[Pair] = []
    for task, part in enumerate(campaign.parts):
        answers = Answers(task, of_task.get(task, []), bool(campaign.written), source, keep)
        reason = _not_taken(campaign, part)
        if not reason:
            pair = (
                _pooled(campaign, part, plain) if part.is_pooled else _pair(campaign, part, answers)
            )
            if part.samplings == (plain_sampling(campaign.rows),):
                plain.append(pair)
        if answers.batch < len(answers.known):
            raise EditedEvidence(f"task {task} has more answers than were needed")
        yield {
            "record": "result",
            "task": task,
            "findings": findings_to_json(
                _skipped(part, reason) if reason else _findings(campaign, part, *pair)
            ),
            "compared": [],
            "lane": None if reason else ENGINE,
        }


def _skipped(part: Part, reason: str) -> list[Finding]:
    return [
        Finding(each, part.case, SKIPPED, detail=reason)
        for each in (part.requirement, "engine.support", "engine.length")
    ]


def _not_taken(campaign: EngineCampaign, part: Part) -> str:
    """Return why an engine cannot be asked a part, empty if it can."""
    if campaign.written:
        return ""
    missing = sorted(part.settings(plain_sampling(campaign.rows)) - {*campaign.settings})
    if missing:
        return f"the engine does not take {', '.join(missing)}"
    if part.stream and not campaign.streams:
        return "the engine does not stream"
    return ""


def _pair(campaign: EngineCampaign, part: Part, ask: Answers) -> Pair:
    """Return the tokens of a part and of its control, after asking for them."""
    has_control = campaign.control is not None and part.has_control
    tokens = part.share * campaign.tokens
    if has_control and not campaign.written:
        tokens /= 1 + CONTROLLED
    own = _asked(campaign, part, ask, tokens, is_control=False)
    if not has_control:
        return own, None
    most = tokens if campaign.written else CONTROLLED * tokens
    if _has_failed(own, campaign):
        most = float(own.written)
    plain = replace(part, speculation=False)
    return own, _asked(campaign, plain, ask, most, is_control=True)


def _pooled(campaign: EngineCampaign, part: Part, pairs: Sequence[Pair]) -> Pair:
    """Return the tokens of all parts with plain sampling, and of their controls."""
    own, control = (
        pooled([each for each in states if each], part, campaign.rows, dtype=campaign.dtype)
        for states in zip(*pairs, strict=True)
    )
    return own, control if campaign.control is not None else None


def _findings(
    campaign: EngineCampaign, part: Part, own: Asked, control: Asked | None
) -> list[Finding]:
    """Return the findings of a part."""
    compared = None
    if control is not None:
        compared = Paired(own.owed, own.cells, control.cells)
        compared.look()
    return [
        _decided(campaign, part, own, control, compared),
        _support(campaign, part, own, control),
        length_finding(
            *(part.case, own, campaign.rows, campaign.budget), draft_length=campaign.draft_length
        ),
    ]


def _asked(
    campaign: EngineCampaign, part: Part, ask: Answers, tokens: float, *, is_control: bool
) -> Asked:
    """Return a part once it has its tokens, or has certainly failed."""
    purpose = f"{campaign.seed}/{part.case}/{'control' if is_control else 'own'}"
    seed = int.from_bytes(sha256(purpose.encode()).digest()[:7], "big")
    state = asked(part, campaign.rows, dtype=campaign.dtype, seed=seed)
    while (left := ceil(tokens) - state.written) > 0 and (batch := ask(state, left, is_control)):
        state.add(*batch)
        # Where a control has to tell, it needs tokens to compare with.
        if state.outside > state.framed or (campaign.vouched and _has_failed(state, campaign)):
            break
    state.look()
    return state


def _has_failed(state: Asked, campaign: EngineCampaign) -> bool:
    is_sure = bool(state.path) and state.path[-1][1] >= campaign.budget.threshold
    return is_sure or state.outside > 0


def _decided(
    campaign: EngineCampaign,
    part: Part,
    own: Asked,
    control: Asked | None,
    compared: Paired[Place] | None,
) -> Finding:
    """Return the finding on the requirement of a part."""
    counted, threshold = own.counted, campaign.budget.threshold
    failed = _has_failed(own, campaign)
    also = control is not None and _has_failed(control, campaign)
    apart = compared is not None and compared.log_evidence >= threshold
    verdict = INCONCLUSIVE
    detail = f"{counted.tokens:,} tokens bound the distance by {counted.bound:.2f}: ask for more"
    if failed and (campaign.vouched or _is_outside(campaign, own, control)):
        verdict, detail = FAIL, _told(own) + ("; without speculation, too" if also else "")
    elif apart:
        verdict, detail = FAIL, f"{_told(own)}; with and without speculation, its tokens differ"
    elif failed or also:
        detail = f"filters unknown: {_told(own)}, {_why(control, also)}"
    elif counted.bound <= BIAS:
        verdict, detail = PASS, ""
    return Finding(
        part.requirement,
        part.case,
        verdict,
        exactly(counted.distance),
        exactly(max((each.tolerance for each in own.owed.values()), default=0.0)),
        ENGINE,
        counted.tokens,
        detail,
        sampled=SampleFigures(
            campaign.budget.each,
            counted.log_evidence,
            counted.bound,
            counted.detectable(threshold),
            POWER,
            tuple(own.path),
            own.stream,
        ),
    )


def _why(control: Asked | None, also: bool) -> str:  # noqa: FBT001
    """Return why a deviation does not yet prove a failure of speculation."""
    if also:
        return "without speculation, too"
    if control is None:
        return "and no run without speculation tells why"
    return (
        f"and {control.counted.tokens:,} tokens without speculation do not tell why: ask for more"
    )


def _told(own: Asked) -> str:
    counted = own.counted
    if own.outside:
        return f"it wrote {own.outside} tokens that the target gives no probability"
    if counted.excluded:
        return f"it wrote {counted.excluded} tokens that the settings exclude"
    likely = f" (they look like {counted.likely})" if counted.likely else ""
    return f"its tokens are not drawn from the rows that it owes{likely}"


def _is_outside(campaign: EngineCampaign, own: Asked, control: Asked | None) -> bool:
    """Return True if tokens of probability zero are the engine's fault.

    A server may add tokens to a prompt, as with a chat template. Then the first tokens of its
    answers have other contexts, with speculation and without.
    """
    if campaign.vouched or own.outside > own.framed:
        return own.outside > 0
    return own.outside > 0 and control is not None and not control.outside


def _support(campaign: EngineCampaign, part: Part, own: Asked, control: Asked | None) -> Finding:
    tokens = max(own.written, 1)
    is_fault = _is_outside(campaign, own, control)
    verdict = FAIL if is_fault else INCONCLUSIVE if own.outside else PASS
    detail = _told(own) if own.outside else ""
    if verdict == INCONCLUSIVE:
        detail = f"{detail}, right behind prompts, to which it may add tokens"
    return Finding(
        "engine.support",
        part.case,
        verdict,
        exactly(own.outside / tokens),
        exactly(0.0),
        ENGINE,
        own.written,
        detail,
    )
