"""One walk of a program for many of its runs at once.

Where a choice is decided, runs differ from there on; the program continues, once for all of them.
Memory that differs is kept outside the program's tensors (`_carriers`). An operator runs once for
every version of its memory (`_operator`), in the shapes of a single run, so that all numbers equal
those of single runs. Where Python looks at a number, only runs that agree with the first continue;
a later walk makes the others, with the answers that they already had. Runs that reach the same
memory continue as one (`_run`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._signature import (
    TORCHS_OWN,
    name_of,
    reads_no_values,
    tensors_in,
)
from draftproof.conformance.lanes.exact._carriers import Carriers
from draftproof.conformance.lanes.exact._choice import Choice
from draftproof.conformance.lanes.exact._draws import DRAWS
from draftproof.conformance.lanes.exact._errors import NotTogether, NotUnderstood, TorchError, ran
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._interpreter import Interpreter
from draftproof.conformance.lanes.exact._operator import (
    Called,
    OperatorResult,
    Views,
    form,
    keeps_its_schema,
    mapped,
    returns_views,
    written_by,
)
from draftproof.conformance.lanes.exact._outcome import frozen, left_open
from draftproof.conformance.lanes.exact._races import Ranking
from draftproof.conformance.lanes.exact._run import Run, led
from draftproof.conformance.lanes.exact._split import (
    Classes,
    Regrouping,
    SplitMemory,
    address,
    bits,
    classes,
    is_dense,
    seen_as,
    spoilt,
    whole,
)
from draftproof.conformance.lanes.exact._watch import EXPOSING, PASSED, STOPS, Dispatch, Doors
from draftproof.conformance.lanes.opaque import OpaqueRandomness, TooManyRuns
from draftproof.conformance.protocol.raising import told_of
from draftproof.reference.rational import Rational

MOST_TOGETHER = 4096
"""Maximum number of runs of one walk; a later walk makes the others."""


class _ChoiceNeeded(Exception):
    """Signal that a tensor has choices that must be decided before an operator runs."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor = tensor


@dataclass(frozen=True)
class _PendingChoices:
    """Choices to decide in the runs of a class: those in the part of a carrier that is read."""

    key: int
    """Address of the carrier's storage."""
    seen: Tensor


class _ChoicesNeeded(Exception):
    """Signal that the runs of some classes have choices to decide before an operator runs."""

    def __init__(self, of: Classes, pending: Mapping[int, _PendingChoices]) -> None:
        super().__init__()
        self.of = of
        self.pending = pending


@dataclass(frozen=True)
class _DecidedRun:
    """Run after its choices are decided."""

    run: Run
    was: int
    """Number of the run from which it continues."""
    key: int | None
    """Address of the carrier in which the choices were decided, None if there were none."""
    values: Mapping[int, int]
    """Decided values, by the ids of the choices."""


class Walk:
    """One walk of a program, for its first runs and for the runs that branch off them."""

    def __init__(self, identities: Identities, runs: Sequence[Run], most_runs: int) -> None:
        self.runs = list(runs)
        self.left: list[list[Run]] = []
        """Runs left to later walks; the runs in one list agree so far."""
        self.refused: Exception | None = None
        """Error that ended the walk, kept because the program may have caught it."""
        self.interpreter = Interpreter(identities, self._require_decided)
        self.dispatch = Dispatch(self._run)
        self.doors = Doors(self.dispatch, self._look)
        self.interpreter.streams.run = self
        self._most_runs = most_runs
        self._identities = identities
        self._carriers = Carriers(identities)
        self._is_within = False

    @contextmanager
    def warned(self) -> Iterator[None]:
        """Refuse warnings of an operator that runs for each memory: a single run warns once."""
        module: Any = warnings
        shown = module._showwarnmsg

        def show(message: Any) -> None:
            if self._is_within:
                self.refused = self.refused or NotTogether("warns")
            shown(message)

        module._showwarnmsg = show
        try:
            yield
        finally:
            module._showwarnmsg = shown

    def alone(self, reason: str) -> NoReturn:
        """End the walk for an operation possible only in single runs. Raises `NotTogether`."""
        with self._ends():
            raise NotTogether(reason)

    # --- what the program is given, and what it returns --------------------------------------

    def carrier(self, versions: Sequence[Tensor]) -> Tensor:
        """Return a carrier of `versions`, one for each run, all of the same form."""
        kinds = [bits(whole(version)) or number for number, version in enumerate(versions)]
        of, first = classes(kinds)
        if len(first) == 1:
            return seen_as(whole(versions[0]).clone(), versions[0])
        made = spoilt(versions[0])
        memory = [whole(versions[run]).clone() for run in first]
        self._carriers.add(made, self._carriers.partitions.one(of), memory)
        return made

    def outcomes(self, returned: Any) -> list[Hashable]:
        """Return the result of each run, with the choices that the program did not look at."""
        self._join(self._all_alike, {})
        known: dict[tuple[int, int], tuple[Tensor, Any]] = {}

        def in_run(number: int) -> Callable[[Tensor], Any]:
            def of_tensor(tensor: Tensor) -> Any:
                split = self._carriers.splits.get(address(tensor)) if is_dense(tensor) else None
                key = id(tensor), -1 if split is None else split.of[number]
                if key not in known:
                    # What is held keeps its id.
                    known[key] = tensor, self._left_open(tensor, split, number)
                return known[key][1]

            return of_tensor

        return [frozen(returned, in_run(number)) for number in range(len(self.runs))]

    def _left_open(self, tensor: Tensor, split: SplitMemory | None, number: int) -> Any:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            if split is not None:
                tensor = seen_as(split.versions[split.of[number]], tensor)
            try:
                return left_open(tensor, self._identities)
            except NotUnderstood as reason:
                raise self.dispatch.blinded("the program's result", reason) from None

    def close(self) -> bool:
        """End the walk; return whether split memory outlives it, set to that of the first run."""
        self.interpreter.streams.close()
        return self._carriers.close()

    # --- operators ---------------------------------------------------------------------------

    def _run(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        if reads_no_values(func):
            return ran(func, args, kwargs)
        with self._ends():
            self.interpreter.note(func, args, kwargs)
            while True:
                try:
                    return self._result(func, args, kwargs)
                except _ChoicesNeeded as found:
                    self._decide(found.of, found.pending)

    @contextmanager
    def _ends(self) -> Iterator[None]:
        """Remember an error that ends the walk, since the program may catch it."""
        try:
            yield
        except (TorchError, NotUnderstood, OpaqueRandomness):
            raise
        except Exception as error:
            ours = error if isinstance(error, STOPS) else NotTogether(told_of(error))
            self.refused = self.refused or ours
            raise ours from error

    def _result(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        keys = self._carriers.addresses((args, kwargs)) if self._carriers.splits else {}
        held = {
            key: self._carriers.splits[key] for key in keys.values() if key in self._carriers.splits
        }
        if held:
            written = {keys[id(tensor)]: tensor for tensor in written_by(func, args, kwargs)}
            self._require_separable(func, [*tensors_in((args, kwargs))], [*written.values()])
            for key, tensor in written.items():
                if key not in held:
                    held[key] = self._carriers.split(tensor, self._all_alike)
            with self._writes_only(func, args, kwargs, {*written}):
                return self._result_for_each_memory(func, args, kwargs, keys, held, {*written})
        self.interpreter.elements.slacks = {}
        try:
            result = self.interpreter.follow(func, args, kwargs)
        except _ChoiceNeeded as found:
            where = self._carriers.addresses((args, kwargs))
            pending = {0: self._pending(func, found.tensor, where, {})}
            raise _ChoicesNeeded(self._all_alike, pending) from None
        self._add_slacks([self.interpreter.elements.slacks], self._all_alike)
        return result

    def _require_separable(
        self, func: OpOverload, tensors: Sequence[Tensor], written: Sequence[Tensor]
    ) -> None:
        """Require that an operator may run separately for each memory, unnoticed by the program."""
        if func.namespace not in TORCHS_OWN:
            raise NotTogether(f"runs what is not torch's own: {func}")
        if returns_views(func):
            raise NotTogether(f"sees numbers of runs that differ in another way: {func}")
        if any(tensor.requires_grad for tensor in tensors):
            raise NotTogether("differentiates")
        if any(map(self._identities.is_exposed, written)):
            raise NotTogether("writes what differs between runs to memory that others read")
        if not torch.is_inference_mode_enabled() and any(t.is_inference() for t in tensors):
            raise NotTogether("uses tensors of inference mode outside of it")

    @contextmanager
    def _writes_only(
        self, func: OpOverload, args: Any, kwargs: Any, written: Collection[int]
    ) -> Iterator[None]:
        """Require that an operator writes only to what its schema declares."""
        if keeps_its_schema(func):
            yield
            return
        others: list[Tensor] = []
        for tensor in tensors_in((args, kwargs)):
            if not is_dense(tensor):
                raise NotTogether(f"may write to what is not dense: {func}")
            if address(tensor) not in written:
                split = self._carriers.splits.get(address(tensor))
                others += [whole(tensor)] if split is None else split.versions
        before = [bits(memory, most=None) for memory in others]
        yield
        if before != [bits(memory, most=None) for memory in others]:
            raise NotTogether(f"writes to what it should only read: {func}")

    def _result_for_each_memory(
        self,
        func: OpOverload,
        args: Any,
        kwargs: Any,
        keys: Mapping[int, int],
        held: Mapping[int, SplitMemory],
        written: Collection[int],
    ) -> Any:
        """Return the result of one operator on every version of memory that its arguments have."""
        of, first = self._carriers.partitions.product([split.of for split in held.values()])
        call = Called(func, args, kwargs, keys)
        given = [seen.carrier for seen in call.seen.values() if seen.key not in held]
        is_drawn = name_of(func) in DRAWS or bool(self._identities.among(given))
        results: list[OperatorResult] = []
        pending: dict[int, _PendingChoices] = {}
        for own, run in enumerate(first):
            memory = {key: split.versions[split.of[run]] for key, split in held.items()}
            memory |= {key: self._carriers.copied(memory[key]) for key in written}
            try:
                is_followed = is_drawn or self._identities.among(memory.values())
                results.append(self._result_on(call, memory, is_followed=bool(is_followed)))
            except _ChoiceNeeded as found:
                # Others go on to choices of their own: each run decides in its own order.
                pending[own] = self._pending(func, found.tensor, keys, memory)
        if pending:
            raise _ChoicesNeeded(of, pending)
        of, results = self._keep_agreeing(of, results)
        self._add_slacks([each.slacks for each in results], of)
        for key in written:
            self._carriers.put(key, of, [each.memory[key] for each in results])
        if results[0].error is not None:
            raise TorchError(results[0].error)
        return self._returned(of, [each.result for each in results], {*keys})

    def _result_on(
        self, call: Called, memory: Mapping[int, Tensor], *, is_followed: bool
    ) -> OperatorResult:
        """Return the result of one operator on one memory, by the address of the carrier.

        If no argument holds a random number, the operator runs without being followed.
        """
        views = Views(call, memory)
        self.interpreter.elements.slacks = {}
        mine, named = mapped(call.args, views.own), mapped(call.kwargs, views.own)
        run = self.interpreter.follow if is_followed else ran
        result, failure = None, None
        self._is_within = True
        try:
            result = mapped(run(call.func, mine, named), views.carrier)
        except TorchError as raised:
            failure = raised.error
        finally:
            self._is_within = False
        views.require_unchanged()
        kind = form(result, call.seen) if failure is None else (type(failure), str(failure))
        return OperatorResult(result, failure, memory, self.interpreter.elements.slacks, kind)

    def _keep_agreeing(
        self, of: Classes, results: list[OperatorResult]
    ) -> tuple[Classes, list[OperatorResult]]:
        """Keep the runs whose result agrees with that of the first run, and leave the others."""
        kinds = [each.kind for each in results]
        if all(kind == kinds[0] for kind in kinds):
            return of, results
        taken = self._keep([kinds[own] for own in of], of)
        return taken.of, [results[own] for own in taken.were]

    def _returned(self, of: Classes, results: Sequence[Any], given: set[int]) -> Any:
        """Return the program's result, with a carrier for each tensor that differs between runs.

        `given` are the ids of arguments.
        """
        each = [list(tensors_in([result])) for result in results]
        carriers = iter([self._returned_tensor(of, own, given) for own in zip(*each, strict=True)])
        return mapped(results[0], lambda _: next(carriers))

    def _returned_tensor(self, of: Classes, results: Sequence[Tensor], given: set[int]) -> Tensor:
        if id(results[0]) in given:
            return results[0]
        of, versions = self._carriers.merged(of, [whole(result) for result in results])
        if len(versions) == 1:
            return results[0]
        made = spoilt(results[0])
        if address(made) in self._carriers.splits:
            raise NotTogether("returns several tensors in one memory")
        self._carriers.add(made, of, versions)
        return made

    # --- choices -----------------------------------------------------------------------------

    def _require_decided(self, tensor: Tensor) -> None:
        if any(isinstance(number, Choice) for number in self._identities.numbers(tensor)):
            raise _ChoiceNeeded(tensor)

    def _pending(
        self,
        func: OpOverload,
        undecided: Tensor,
        keys: Mapping[int, int],
        memory: Mapping[int, Tensor],
    ) -> _PendingChoices:
        """Return the choices in a carrier that must be decided before an operator runs."""
        where = address(undecided)
        key = next((key for key, own in memory.items() if address(own) == where), where)
        if key not in keys.values():
            raise NotTogether(f"makes choices on the way: {func}")
        return _PendingChoices(key, undecided)

    def _decide(self, of: Classes, pending: Mapping[int, _PendingChoices]) -> None:
        """Decide the pending choices in the runs of each class."""
        for each in pending.values():
            if each.key not in self._carriers.splits:
                self._carriers.split(each.seen, self._all_alike)
        of, pending = self._join(of, pending)
        after: list[_DecidedRun] = []
        counts: Counter[int] = Counter()
        for number, run in enumerate(self.runs):
            own = [*self._decided_runs(number, run, pending.get(of[number]))]
            after += own
            counts[run.subject] += sum(each.run.count for each in own)
            if counts[run.subject] > self._most_runs:
                raise TooManyRuns(f"the program has more than {self._most_runs} random outcomes")
        self._leave([each.run for each in after[MOST_TOGETHER:]])
        after = after[:MOST_TOGETHER]
        keys = dict.fromkeys(each.key for each in pending.values())
        versions_of = [(key, *self._versions_after(key, after)) for key in keys]
        self.runs = [each.run for each in after]
        self._carriers.take([each.was for each in after], self._all_alike)
        for key, of, versions in versions_of:
            self._carriers.put(key, self._carriers.partitions.one(of), versions)

    def _decided_runs(
        self, number: int, run: Run, pending: _PendingChoices | None
    ) -> Iterator[_DecidedRun]:
        """Yield the runs that follow from a run, one for each way to decide its pending choices."""
        if pending is None:
            yield _DecidedRun(run, number, None, {})
            return
        split = self._carriers.splits[pending.key]
        version = split.versions[split.of[number]]
        choices = self._identities.choices(seen_as(version, pending.seen))
        for child, decided in run.decided(choices.values(), self._most_runs):
            yield _DecidedRun(child, number, pending.key, dict(zip(choices, decided, strict=True)))

    def _versions_after(
        self, key: int, after: Sequence[_DecidedRun]
    ) -> tuple[Classes, list[Tensor]]:
        """Return the classes and the versions of a carrier after choices are decided."""
        split = self._carriers.splits[key]
        values = [each.values if each.key == key else {} for each in after]
        of, first = classes(
            (split.of[each.was], *own.items()) for each, own in zip(after, values, strict=True)
        )
        versions = []
        for number in first:
            versions.append(self._carriers.copied(split.versions[split.of[after[number].was]]))
            self._identities.write(versions[-1], values[number])
        return of, versions

    # --- what Python sees --------------------------------------------------------------------

    def _look(self, func: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), self._ends():
            answer = self._seen(func, args, kwargs)
        if answer is PASSED and func in EXPOSING:
            self._identities.expose(args[0])
        return answer

    def _seen(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = list(tensors_in((args, kwargs)))
        keys = self._carriers.addresses((args, kwargs))
        for tensor in tensors:
            self._settle(tensor, keys[id(tensor)])
        held = [self._carriers.splits[key] for key in keys.values() if key in self._carriers.splits]
        if not held:
            return PASSED
        if func not in _NUMBERS:
            raise NotTogether(f"reads what differs between runs: {func}")
        of, first = self._carriers.partitions.product([split.of for split in held])

        def own(run: int) -> Callable[[Tensor], Tensor]:
            def of_run(tensor: Tensor) -> Tensor:
                split = self._carriers.splits.get(keys[id(tensor)])
                return tensor if split is None else seen_as(split.versions[split.of[run]], tensor)

            return of_run

        read = [[bits(own(run)(tensor), most=None) for tensor in tensors] for run in first]
        if any(each != read[0] for each in read):
            self._keep([tuple(read[own]) for own in of])
        mine, named = mapped(args, own(0)), mapped(kwargs, own(0))
        return ran(func, mine, named)

    def _settle(self, seen: Tensor, key: int) -> None:
        """Decide the choices that Python is about to read. Raises `NotTogether` for noise."""
        memories = self._carriers.shown(key, seen)
        numbers = [number for each in memories for number in self._identities.numbers(each)]
        if any(isinstance(number, Choice) for number in numbers):
            self._decide(self._all_alike, {0: _PendingChoices(key, seen)})
        if not all(isinstance(number, Choice) for number in numbers):
            raise NotTogether("takes noise out of torch")

    # --- runs and their memory ---------------------------------------------------------------

    @property
    def _all_alike(self) -> Classes:
        return (0,) * len(self.runs)

    def _keep(self, kinds: Sequence[Hashable], more: Classes | None = None) -> Regrouping:
        """Keep the runs that agree with the first, and leave the others to later walks.

        Return one more partition, regrouped.
        """
        of, first = classes(kinds)
        for other in range(1, len(first)):
            self._leave([run for run, own in zip(self.runs, of, strict=True) if own == other])
        kept = [number for number, own in enumerate(of) if own == 0]
        self.runs = [self.runs[number] for number in kept]
        return self._carriers.take(kept, of if more is None else more)

    def _join(
        self, of: Classes, pending: Mapping[int, _PendingChoices]
    ) -> tuple[Classes, dict[int, _PendingChoices]]:
        """Merge the runs that have the same memory; return the classes and the pending choices.

        `of` are the classes of runs for which choices are pending.
        """
        self._carriers.forget()
        memory = self._carriers.partition(of)
        groups: dict[Hashable, list[int]] = {}
        for number, (run, own) in enumerate(zip(self.runs, memory, strict=True)):
            kind = run.subject, own, run.left, frozenset(run.slacks.items())
            groups.setdefault(kind, []).append(number)
        if len(groups) == len(self.runs):
            return of, dict(pending)
        self.runs = [led([self.runs[number] for number in group]) for group in groups.values()]
        taken = self._carriers.take([group[0] for group in groups.values()], of)
        return taken.of, {now: pending[was] for now, was in enumerate(taken.were) if was in pending}

    def _leave(self, runs: Sequence[Run]) -> None:
        """Leave runs, which agree so far, for later walks."""
        begun = [each for run in runs for each in run.begun()]
        starts = range(0, len(begun), MOST_TOGETHER)
        self.left += [begun[at : at + MOST_TOGETHER] for at in starts]

    def _add_slacks(self, slacks: Sequence[Mapping[Ranking, Rational]], of: Sequence[int]) -> None:
        if any(slacks):
            self.runs = [
                replace(run, slacks={**run.slacks, **slacks[own]})
                for run, own in zip(self.runs, of, strict=True)
            ]


_NUMBERS = {
    Tensor.__bool__,
    Tensor.__complex__,
    Tensor.__float__,
    Tensor.__index__,
    Tensor.__int__,
    Tensor.item,
    Tensor.tolist,
    torch.as_tensor,
    torch.asarray,
    torch.tensor,
}
"""Functions that convert the tensors that they read to numbers."""
