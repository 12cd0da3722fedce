"""Sources of a part's answers: its evidence first, then an engine, or lines of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

from draftproof.conformance.evidence.records import EditedEvidence, Record
from draftproof.conformance.lanes.engine.asking import Answer, Engine, Generation
from draftproof.conformance.lanes.engine.lines import Batch, Written
from draftproof.conformance.lanes.engine.parts import Asked
from draftproof.conformance.lanes.engine.server import UNKNOWN, EngineFailed

Source = Callable[[Asked, int, bool, int], Batch | None]
"""Function of a part, the number of tokens left to ask for, a flag for the part's control, and the
number of a batch. It returns the batch, None after the last."""


def asked_of(engine: Engine, control: Engine | None = None) -> Source:
    """Return a source that asks an engine; `control` is asked without speculation."""

    def batch(state: Asked, left: int, is_control: bool, _: int) -> Batch:  # noqa: FBT001
        requests = state.batch(left)
        return requests, answers_of(control or engine if is_control else engine, requests)

    return batch


def read_from(written: Written) -> Source:
    """Return a source that reads tokens written elsewhere."""

    def batch(state: Asked, _: int, is_control: bool, number: int) -> Batch | None:  # noqa: FBT001
        batches = written.answers.get((state.part.case, is_control), ())
        return batches[number] if number < len(batches) else None

    return batch


@dataclass
class Answers:
    """Answers to one task in their order, known answers first."""

    task: int
    known: Sequence[Record]
    """Records of answers."""
    are_read: bool
    """True for tokens written elsewhere: the records hold all of their requests."""
    source: Source | None = None
    """Source of further answers; None if the evidence must suffice."""
    keep: Callable[[Record], None] = lambda _: None
    batch: int = 0
    taken: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})

    def __call__(self, state: Asked, left: int, is_control: bool) -> Batch | None:  # noqa: FBT001
        """Return the next batch of a part, None after the last. Raises `EngineFailed`."""
        found = self._known(state, left, is_control=is_control)
        if found is None and self.source is not None:
            found = self.source(state, left, is_control, self.taken[is_control])
            if found is not None:
                self.keep(self._record(*found, is_control=is_control))
        if found is None and not self.are_read:
            raise EditedEvidence(f"task {self.task} has fewer answers than were needed")
        if found is not None:
            self.batch += 1
            self.taken[is_control] += 1
        return found

    def _known(self, state: Asked, left: int, *, is_control: bool) -> Batch | None:
        if self.batch >= len(self.known):
            return None
        record = self.known[self.batch]
        if not self.are_read:
            requests = state.batch(left)
        elif record["control"] == is_control:
            requests = _requests_in(record, state)
        else:
            return None
        return requests, answers_in(record, requests, is_control=is_control)

    def _record(
        self, requests: Sequence[Generation], answers: Sequence[Answer], *, is_control: bool
    ) -> Record:
        prompts = {"prompts": [list(each.prompt) for each in requests]} if self.are_read else {}
        return {
            "record": "answers",
            "task": self.task,
            "batch": self.batch,
            "control": is_control,
            **prompts,
            "tokens": [list(each.tokens) for each in answers],
            "steps": [each.steps for each in answers],
        }


def _requests_in(record: Record, state: Asked) -> list[Generation]:
    """Return the requests of answers that were read. Raises `EditedEvidence`."""
    prompts = record.get("prompts", [])
    if len(prompts) != len(record["tokens"]) or any(
        len(each) < state.rows.memory for each in prompts
    ):
        raise EditedEvidence(
            f"task {record['task']}, batch {record['batch']}: its prompts are not those of answers"
        )
    (sampling,) = state.part.samplings
    return [
        Generation(tuple(prompt), len(tokens), sampling)
        for prompt, tokens in zip(prompts, record["tokens"], strict=True)
    ]


def answers_in(record: Record, requests: Sequence[Generation], *, is_control: bool) -> list[Answer]:
    """Return the answers in a record. Raises `EditedEvidence` if they answer other requests."""
    due = [each.max_tokens for each in requests]
    lengths = [len(tokens) for tokens in record["tokens"]]
    if lengths != due or record["control"] != is_control or len(record["steps"]) != len(due):
        raise EditedEvidence(
            f"task {record['task']}, batch {record['batch']}: its answers are not to what was asked"
        )
    pairs = zip(record["tokens"], record["steps"], strict=True)
    return [Answer(tuple(tokens), steps) for tokens, steps in pairs]


def answers_of(engine: Engine, requests: Sequence[Generation]) -> list[Answer]:
    """Return the answers of an engine, with the requested lengths. Raises `EngineFailed`."""
    try:
        found = [*engine.generate(requests)]
    except EngineFailed:
        raise
    except (Exception, SystemExit) as error:
        raise EngineFailed(f"{engine.name} raised {type(error).__name__}: {error}") from error
    if len(found) != len(requests):
        raise EngineFailed(f"{engine.name} gave {len(found)} answers to {len(requests)} requests")
    answers = [_answer(engine, each) for each in found]
    for request, answer in zip(requests, answers, strict=True):
        if len(answer.tokens) != request.max_tokens:
            raise EngineFailed(
                f"{engine.name} wrote {len(answer.tokens)} tokens where {request.max_tokens} were "
                f"asked for, behind a prompt of {len(request.prompt)}: a checkpoint never ends a "
                f"text, so let the engine ignore the end of text and take longer texts"
            )
    return answers


def _answer(engine: Engine, found: Any) -> Answer:
    """Return an answer with whole numbers for its tokens. Raises `EngineFailed`."""
    answer = found if isinstance(found, Answer) else Answer(found)
    try:
        tokens = tuple(index(each) for each in answer.tokens)
    except TypeError:
        raise EngineFailed(
            f"{engine.name} gave {str(found)[:80]!r}: an answer is a sequence of token ids"
        ) from None
    try:
        steps = None if answer.steps is None else index(answer.steps)
    except TypeError:
        steps = -1
    if steps is not None and steps < 0:
        raise EngineFailed(
            f"{engine.name} says that it took {str(answer.steps)[:80]!r} passes: steps is a whole "
            f"number, or None"
        )
    return Answer(tuple(each if each >= 0 else UNKNOWN for each in tokens), steps)
