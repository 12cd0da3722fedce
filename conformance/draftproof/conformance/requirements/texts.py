"""Requirement on the text of the pipeline around a verifier.

Its id, level and wording are those of the specification's chapter 4. The pipeline has its own
models, so its law is compared with another law of the same program: the target's own sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from draftproof.conformance.lanes._streams import seeded
from draftproof.conformance.lanes.exchange import Failure, as_loaded, raised
from draftproof.conformance.lanes.observe import EXACT, PROBE, Observed, observed
from draftproof.conformance.lanes.unwatched import fresh_generator
from draftproof.conformance.protocol.adapter import Adapter, Declaration, Program, TextRequest
from draftproof.conformance.protocol.modes import modes_up_to
from draftproof.conformance.protocol.tolerance import allowed_of_text
from draftproof.conformance.requirements.drafting import OPTIONS
from draftproof.conformance.requirements.finding import FAIL, Finding, verdict_of
from draftproof.conformance.requirements.task import Task, Terms
from draftproof.reference.law import Law
from draftproof.reference.model import Path
from draftproof.reference.rational import Rational

Text = Path | Failure
"""The written tokens, or the failure that replaced them."""


@dataclass(frozen=True)
class TextSetting:
    """Request to a pipeline: the vocabulary, the number of tokens, and the options."""

    id: str
    mode: str
    vocabulary: int
    horizon: int
    options: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class TextObservation:
    """Law of a pipeline's text, and of the text that its target writes alone.

    Together they are known up to `slack` in total variation.
    """

    case: str
    assisted: Law[Text]
    own: Law[Text]
    runs: int
    slack: Rational
    allowed: Rational
    lane: str = EXACT


# --- what is required ----------------------------------------------------------------------


def text_lossless(seen: TextObservation) -> Rational:
    """`text.lossless`: TV between the pipeline's text and its target's own."""
    return seen.assisted.total_variation(_expected(seen))


def _expected(seen: TextObservation) -> Law[Text]:
    """Return the law of the target's own text, with a unique failure for missing text."""
    return seen.own.map(lambda text: _NO_TEXT if isinstance(text, Failure) else text)


_NO_TEXT = Failure("has a target that writes no text by itself")


# --- how it is judged ----------------------------------------------------------------------


def tasks(declared: Declaration, mode: str) -> Iterator[Task]:
    """Yield the tasks on a pipeline's text, one per setting; none without a pipeline."""
    for setting in settings() if declared.generates else ():
        if setting.mode in modes_up_to(mode):
            judged = partial(judge_setting, setting)
            yield Task(setting.id, ("text.lossless",), (EXACT, PROBE), judged)


def settings() -> Iterator[TextSetting]:
    """Yield the settings; a sampler needs no temperature of 0."""
    for vocabulary, horizon, mode in _SHAPES:
        for name, _, options in OPTIONS:
            if options.get("temperature") != 0:
                shape = f"text.v{vocabulary}.h{horizon}"
                yield TextSetting(f"{shape}.{name}", mode, vocabulary, horizon, options)


# Two drafted tokens and a bonus fit in three tokens, and a second iteration after a rejection.
_SHAPES = ((3, 2, "quick"), (3, 3, "standard"), (4, 3, "certify"))
"""V, the horizon, and the mode of each setting."""


def judge_setting(setting: TextSetting, program: Program, terms: Terms) -> list[Finding]:
    """Return the finding of `text.lossless` on one setting."""
    return [judge(observe_text(program, setting, lane=terms.lane))]


def judge(seen: TextObservation) -> Finding:
    """Return the finding of `text.lossless` on one observed setting."""
    distance = text_lossless(seen)
    verdict = verdict_of(distance, seen.allowed, seen.slack)
    detail = _told(seen) if verdict == FAIL else ""
    return Finding(
        "text.lossless", seen.case, verdict, distance, seen.allowed, seen.lane, seen.runs, detail
    )


def _told(seen: TextObservation) -> str:
    """Describe the text with the largest error of its probability."""
    expected = _expected(seen)
    failures = [text for text in seen.assisted if isinstance(text, Failure)]
    if failures:
        return max(failures, key=lambda failure: seen.assisted[failure]).what
    worst = max((*seen.assisted, *expected), key=lambda t: abs(seen.assisted[t] - expected[t]))
    if isinstance(worst, Failure):
        return worst.what
    return (
        f"writes {list(worst)} with probability {float(seen.assisted[worst]):.6g}, its target by "
        f"itself {float(expected[worst]):.6g}"
    )


# --- what is observed ----------------------------------------------------------------------


def observe_text(program: Program, setting: TextSetting, *, lane: str = EXACT) -> TextObservation:
    """Observe the laws of a pipeline's text and of its target's own.

    Raises `OpaqueRandomness`, `TooManyRuns` or `NondeterministicProgram` where the lane is blind.
    """
    declared = program.declared
    # Texts are written one at a time.
    one_by_one = replace(program, declared=replace(declared, batch=False))
    write = partial(written, setting=setting, device=declared.device)

    with seeded(0):
        # Models are made of random numbers, too, which no lane should see.
        write(program.adapter, assisted=True)

    def seen(*, assisted: bool) -> Observed:
        return observed(
            one_by_one,
            lambda asked, rows: [write(asked, assisted=assisted) for _ in range(rows)],
            lambda raw, _: [_read(each, setting) for each in raw],
            vocabulary=setting.vocabulary,
            lane=lane,
        )

    pipeline, target = seen(assisted=True), seen(assisted=False)
    return TextObservation(
        case=setting.id,
        assisted=pipeline.law,
        own=target.law,
        runs=pipeline.runs + target.runs,
        slack=pipeline.slack + target.slack,
        allowed=allowed_of_text(declared, setting.vocabulary, setting.horizon),
        lane=lane,
    )


def written(adapter: Adapter, setting: TextSetting, device: str, *, assisted: bool) -> Any:
    """Return the written tokens, or the message of an error."""
    request = TextRequest(
        vocabulary=setting.vocabulary,
        horizon=setting.horizon,
        assisted=assisted,
        generator=fresh_generator(device),
        **setting.options,
    )
    try:
        tokens = as_loaded(adapter).generate(request)  # type: ignore[attr-defined]  # it is declared
        if list(tokens.shape) != [setting.horizon]:
            raise TypeError(
                f"generate must return a tensor [{setting.horizon}], got {list(tokens.shape)}"
            )
        return tokens
    except BaseException as error:
        return raised(error)


def _read(raw: Any, setting: TextSetting) -> Text:
    """Return the text, from a tensor, its numbers, or the message of an error."""
    if isinstance(raw, str):
        return Failure(raw)
    tokens: Sequence[Any] = raw.tolist() if isinstance(raw, torch.Tensor) else raw
    for token in tokens:
        if token not in range(setting.vocabulary):
            return Failure(f"writes token {token}, not in 0..{setting.vocabulary - 1}")
    return tuple(tokens)
