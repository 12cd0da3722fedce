"""Runs of a program on several subjects, in as few walks as possible."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from math import floor, sqrt
from typing import Any

import numpy
import torch
from torch import Tensor

from draftproof.conformance.lanes._conditions import is_made_again
from draftproof.conformance.lanes.exact._errors import NotTogether, NotUnderstood
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._noise import World
from draftproof.conformance.lanes.exact._replay import (
    CompletedRun,
    OutcomeReader,
    Reading,
    Replays,
    every_placeholder,
    readings,
    require_lasting,
    require_same,
    thorough,
)
from draftproof.conformance.lanes.exact._run import Run
from draftproof.conformance.lanes.exact._split import address
from draftproof.conformance.lanes.exact._walk import MOST_TOGETHER, Walk
from draftproof.conformance.lanes.opaque import TooManyRuns
from draftproof.reference.chance import (
    Answer,
    NondeterministicProgram,
    Replay,
)
from draftproof.reference.rational import total


class Walks:
    """Walks a program on subjects: nests of tensors, which are alike but for what is in them."""

    def __init__(
        self,
        program: Callable[[Any], Any],
        subjects: Sequence[Any],
        most_runs: int,
        *,
        read: OutcomeReader = readings,
    ) -> None:
        self._program = program
        self._read = read
        self._subjects = subjects
        self._most_runs = most_runs
        self._outcomes = [0] * len(subjects)
        self._found: list[list[CompletedRun]] = [[] for _ in subjects]
        self._samples: list[tuple[int, CompletedRun]] = []
        """Runs that are repeated by themselves, and their subjects."""
        self._alone = Counter[int]()
        """Number of runs on each subject that went alone."""
        self._waiting: list[list[Run]] = []
        self._left = Counter[int]()
        """Number of runs on each subject that are left to later walks."""
        self._walk: Walk | None = None
        self._identities = Identities()
        self._placeholders = every_placeholder()

    def runs(self) -> list[list[CompletedRun]]:
        """Return the runs on each subject, in the order of their answers.

        Raises `NotTogether`, or whatever a lane or the program raises, where runs cannot be made
        together; and `TooManyRuns` or `NondeterministicProgram`.
        """
        every = [Run(subject, World(Replay())) for subject in range(len(self._subjects))]
        self._waiting = [
            every[at : at + MOST_TOGETHER] for at in range(0, len(every), MOST_TOGETHER)
        ]
        self._left.update(range(len(every)))
        while self._waiting:
            starts = self._waiting.pop(0)
            self._left.subtract(_counted(starts))
            self._walk_through(starts)
        for subject, made in thorough(self._samples):
            self._require_again(subject, made)
        return [sorted(own, key=_order) for own in self._found]

    def begun(self, subject: int) -> tuple[Answer, ...]:
        """Return the first answers of the first run on a subject, as far as it was walked."""
        groups = [
            *self._waiting,
            *([] if self._walk is None else [self._walk.runs, *self._walk.left]),
        ]
        known = [run.answers for group in groups for run in group if run.subject == subject]
        known += [made.answers for made in self._found[subject]]
        return min(known, key=_indices, default=())

    def replays(self, subject: int) -> Replays:
        """Return the replays of a subject, which make each run by itself."""

        def program() -> Any:
            return self._program(cloned(self._subjects[subject]))

        return Replays(
            program,
            self._most_runs,
            self._identities,
            placeholders=self._placeholders,
            read=self._read,
        )

    def _walk_through(self, starts: Sequence[Run]) -> None:
        """Walk the program for some runs, as far as they go together."""
        self._identities.begin_run()
        self._walk = walk = Walk(self._identities, starts, self._most_runs)
        try:
            given = self._given(walk)
            with walk.warned(), walk.dispatch:
                with walk.doors:
                    outcome = self._program(given)
                kept = walk.outcomes(outcome)
            del given, outcome
        finally:
            outlives = walk.close()
            ended = walk.dispatch.opaque or walk.refused
            if ended is not None:
                raise ended
        if outlives:
            raise NotTogether("keeps what differs between runs")
        runs = [
            (run, made)
            for lead, own in zip(walk.runs, kept, strict=True)
            for run, made in self._completed(walk, lead, own)
        ]
        for run, made in runs:
            self._found[run.subject].append(made)
        again = _made_again(len(runs), len({run.subject for run, _ in runs}))
        if len(runs) == 1 and runs[0][0].count == 1:
            self._alone[runs[0][0].subject] += 1
            again = {0} if is_made_again(self._alone[runs[0][0].subject]) else set()
        for run, made in (runs[number] for number in again):
            self._samples.append((run.subject, replace(made, answers=run.last_answers)))
        self._leave(walk.left)
        self._walk = None

    def _leave(self, groups: Sequence[list[Run]]) -> None:
        """Leave runs to later walks, where each has an outcome at least."""
        self._waiting += groups
        for group in groups:
            self._left.update(_counted(group))
        for subject, left in self._left.items():
            self._require_few(subject, left)

    def _require_few(self, subject: int, more: int) -> None:
        if self._outcomes[subject] + more > self._most_runs:
            raise TooManyRuns(f"the program has more than {self._most_runs} random outcomes")

    def _given(self, walk: Walk) -> Any:
        """Return the subject that the program gets, which has what each run has."""
        nests = [self._subjects[run.subject] for run in walk.runs]
        if all(nest is nests[0] for nest in nests):
            return cloned(nests[0])
        memory = zip(*map(_tensors, nests), strict=True)
        carriers = iter([walk.carrier(versions) for versions in memory])
        return _with_tensors(nests[0], lambda _: next(carriers))

    def _completed(
        self, walk: Walk, lead: Run, kept: Hashable
    ) -> Iterator[tuple[Run, CompletedRun]]:
        """Yield the completed runs for which one stands, those together that do the same."""
        if lead.left:
            raise NondeterministicProgram(
                f"a run made {len(lead.given)} random choices where another with the same choices "
                f"made at least {len(lead.told)}"
            )

        def require_few(more: int) -> None:
            self._require_few(lead.subject, more)

        def reading(world: World) -> Reading:
            met = count(1)
            try:
                return self._read(kept, world, lambda: require_few(next(met)))
            except NotUnderstood as reason:
                raise walk.dispatch.blinded("the program's result", reason) from None

        foreign = walk.interpreter.streams.foreign
        for run, read in lead.asking(reading):
            require_few(len(read) * run.count)
            self._outcomes[run.subject] += len(read) * run.count
            slack = total(run.slacks.values())
            yield run, CompletedRun(run.given, read, foreign, slack, run.probability, run.count)

    def _require_again(self, subject: int, made: CompletedRun) -> None:
        """Require that a run, made alone, has the same result."""
        again = self.replays(subject).made(made.answers)
        if again.answers != made.answers:
            raise NondeterministicProgram(
                f"a run made {len(again.answers)} random choices where another with the same "
                f"choices made {len(made.answers)}"
            )
        require_same(made.reading, again.reading)
        require_lasting(made.foreign, again.foreign)


def _made_again(runs: int, subjects: int) -> set[int]:
    """Return the places of the runs of a walk that are made again, of one subject in 16 at least.

    The first leads the walk: the last, and others between, have gone another way.
    """
    between = (floor(runs * (-number * _GOLDEN % 1)) for number in range(1, 2 + subjects // 16))
    return {runs - 1, *between}


_GOLDEN = (sqrt(5) - 1) / 2
"""Inverse of the golden ratio: its multiples lie far apart, modulo 1, however many there are."""


def _counted(runs: Sequence[Run]) -> Counter[int]:
    """Return the number of runs on each subject."""
    return Counter(run.subject for run in runs)


def _order(made: CompletedRun) -> list[int]:
    return _indices(made.answers)


def _indices(answers: Sequence[Answer]) -> list[int]:
    return [answer for _, answer in answers]


# --- subjects: nests of tensors and whatever stands beside them --------------------------------


def alike(subjects: Sequence[Any]) -> list[list[int]]:
    """Return groups of subjects that differ only in the values of their tensors."""
    groups: dict[Hashable, list[int]] = {}
    for number, subject in enumerate(subjects):
        form = id(subject) if _shares_memory(subject) else _form(subject)
        groups.setdefault(form, []).append(number)
    return list(groups.values())


def cloned(subject: Any) -> Any:
    """Return a subject with tensors of its own, which share memory as the given ones do."""
    memory: dict[int, torch.UntypedStorage] = {}

    def clone(tensor: Tensor) -> Tensor:
        if not _is_plain(tensor):
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        if address(tensor) not in memory:
            held: Any = tensor.untyped_storage()
            memory[address(tensor)] = held.clone()
        own = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        place = tensor.storage_offset(), tensor.size(), tensor.stride()
        return own.set_(memory[address(tensor)], *place)

    return _with_tensors(subject, clone)


def _shares_memory(subject: Any) -> bool:
    """Return whether several tensors of a subject lie in one memory."""
    held = [address(tensor) for tensor in _tensors(subject) if _is_plain(tensor)]
    return len(set(held)) < len(held)


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is nothing but numbers in dense memory."""
    is_special = tensor.is_neg() or tensor.is_conj() or tensor.is_inference()
    is_dense = type(tensor) is Tensor and tensor.layout is torch.strided
    return is_dense and not (is_special or tensor.requires_grad)


def _form(subject: Any) -> Hashable:
    """Return a key that subjects share if they differ only in the values of their tensors."""
    if isinstance(subject, Tensor):
        if not _is_plain(subject):
            return id(subject)
        storage = subject.untyped_storage().nbytes()
        return subject.dtype, subject.shape, subject.stride(), subject.storage_offset(), storage
    if type(subject) is float:
        return float, subject.hex()
    if subject is None or type(subject) in (bool, bytes, int, str):
        return type(subject), subject
    parts = _parts(subject)
    if parts is None or not _is_parts_only(subject, parts):
        return id(subject)
    return type(subject), tuple((_form(name), _form(part)) for name, part in parts.items())


def _is_parts_only(subject: Any, parts: dict[Any, Any]) -> bool:
    """Return whether a subject has no state beside its parts, and no tensor in their names."""
    kind: Any = type(subject)
    if dataclasses.is_dataclass(subject):
        # What makes its objects in another way may keep anything in them.
        has_slots = any(vars(base).get("__slots__") for base in kind.__mro__)
        is_plain = kind.__new__ is object.__new__ and not has_slots
        return is_plain and vars(subject).keys() == parts.keys()
    if hasattr(kind, "_fields"):
        return isinstance(subject, tuple) and not hasattr(subject, "__dict__")
    return kind in (dict, list, tuple) and not any(True for name in parts for _ in _tensors(name))


def _parts(subject: Any) -> dict[Any, Any] | None:
    if dataclasses.is_dataclass(subject) and not isinstance(subject, type):
        return {field.name: getattr(subject, field.name) for field in dataclasses.fields(subject)}
    if isinstance(subject, dict):
        return subject
    return dict(enumerate(subject)) if isinstance(subject, (list, tuple)) else None


def _tensors(subject: Any) -> Iterator[Tensor]:
    if isinstance(subject, Tensor):
        yield subject
    for part in (_parts(subject) or {}).values():
        yield from _tensors(part)


def _with_tensors(subject: Any, image: Callable[[Tensor], Tensor]) -> Any:
    """Return a subject with the images of its tensors, which shares nothing that can be changed."""
    if isinstance(subject, Tensor):
        return image(subject)
    if isinstance(subject, (bytearray, numpy.ndarray, set)):
        return copy.deepcopy(subject)
    parts = _parts(subject)
    if parts is None:
        return subject
    made = {name: _with_tensors(part, image) for name, part in parts.items()}
    if isinstance(subject, tuple):
        kind: Any = type(subject)
        again = kind(*made.values()) if hasattr(kind, "_fields") else kind(made.values())
        if hasattr(subject, "__dict__"):
            vars(again).update(vars(subject))
        return again
    own = copy.copy(subject)
    if dataclasses.is_dataclass(subject):
        for name, part in made.items():
            object.__setattr__(own, name, part)
    elif isinstance(subject, list):
        own[:] = made.values()
    else:
        own.update(made)
    return own
