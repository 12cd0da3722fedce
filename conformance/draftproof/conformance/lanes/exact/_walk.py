"""One walk of a program for many of its runs at once.

Where a choice is decided, runs part; the program goes on, once for all of them. What differs is
kept beside the tensors that it holds (`_split`), and an operator is computed once for every memory
that differs, in the very shapes of a single run, so that all numbers are those of single runs.
Where Python looks at a number, only runs that agree go on; the others are left to a later walk,
with the answers that they had. Runs that have come to the same memory go on as one (`_run`).
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._signature import TORCHS_OWN, reads_no_values, tensors_in
from draftproof.conformance.lanes.exact._choice import Choice
from draftproof.conformance.lanes.exact._errors import NotTogether, NotUnderstood, TorchError, ran
from draftproof.conformance.lanes.exact._identity import Identities, parts
from draftproof.conformance.lanes.exact._interpreter import Interpreter
from draftproof.conformance.lanes.exact._outcome import frozen, left_open
from draftproof.conformance.lanes.exact._races import Ranking
from draftproof.conformance.lanes.exact._run import Run, led
from draftproof.conformance.lanes.exact._split import (
    Classes,
    Partitions,
    Regrouping,
    SplitMemory,
    address,
    alive,
    bits,
    classes,
    seen_as,
    spoil,
    spoilt,
    weak,
    whole,
)
from draftproof.conformance.lanes.exact._watch import EXPOSING, PASSED, STOPS, Dispatch, Doors
from draftproof.conformance.lanes.opaque import OpaqueRandomness, TooManyRuns
from draftproof.conformance.protocol.raising import told_of
from draftproof.reference.rational import Rational

MOST_TOGETHER = 4096
"""The most runs of one walk; the others are left to a later one."""


class _ChoiceNeeded(Exception):
    """A tensor has choices that must be decided before an operator runs."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor = tensor


@dataclass(frozen=True)
class _PendingChoices:
    """What must be decided in the runs of a class: the choices in what is seen of a carrier."""

    key: int
    """The address of the carrier's storage."""
    seen: Tensor


class _ChoicesNeeded(Exception):
    """An operator wants choices decided in the runs of some classes, in each its own."""

    def __init__(self, of: Classes, wanted: Mapping[int, _PendingChoices]) -> None:
        super().__init__()
        self.of = of
        self.wanted = wanted


@dataclass(frozen=True)
class _DecidedRun:
    """What a run becomes where choices are decided."""

    run: Run
    was: int
    """Its number before."""
    key: int | None
    """The address of the carrier in which they were decided."""
    values: Mapping[int, int]
    """By their ids."""


@dataclass(frozen=True)
class _Made:
    """What an operator made of one memory."""

    result: Any
    """With carriers in the place of what it wrote."""
    error: Exception | None
    memory: Mapping[int, Tensor]
    """What it read and wrote, by the address of the carrier."""
    slacks: Mapping[Ranking, Rational]
    kind: Hashable
    """What must be the same where runs go on together."""


class _Views:
    """What an operator is given in the place of carriers: views of one memory."""

    def __init__(
        self, func: OpOverload, keys: Mapping[int, int], memory: Mapping[int, Tensor]
    ) -> None:
        self._func = func
        self._keys = keys
        self._memory = memory
        self._given: dict[int, tuple[Tensor, Tensor]] = {}
        self._views: dict[int, Tensor] = {}

    def own(self, carrier: Tensor) -> Tensor:
        """Return what stands for an argument: the same for the same, by which torch tells."""
        if self._keys[id(carrier)] not in self._memory:
            return carrier
        if id(carrier) not in self._views:
            view = seen_as(self._memory[self._keys[id(carrier)]], carrier)
            self._views[id(carrier)] = view
            self._given[id(view)] = view, carrier
        return self._views[id(carrier)]

    def carrier(self, returned: Tensor) -> Tensor:
        """Return the argument for which a returned tensor stands, or a new tensor itself."""
        if id(returned) in self._given:
            return self._given[id(returned)][1]
        if not _is_dense(returned) or self._is_an_arguments(address(returned)):
            raise NotTogether(f"returns what runs do not have each for itself: {self._func}")
        return returned

    def require_unchanged(self) -> None:
        """Require that all views are still what their carriers are views of."""
        for view, carrier in self._given.values():
            own = self._memory[self._keys[id(carrier)]]
            if _place(view) != _place(carrier) or address(view) != address(own):
                raise NotTogether(f"changes the shape of what runs have: {self._func}")

    def _is_an_arguments(self, where: int) -> bool:
        return where in self._keys.values() or any(
            where == address(own) for own in self._memory.values()
        )


class Walk:
    """One walk of a program, for the runs that it starts with and those that they become."""

    def __init__(self, identities: Identities, runs: Sequence[Run], most_runs: int) -> None:
        self.runs = list(runs)
        self.left: list[list[Run]] = []
        """Runs that are left to later walks; those in one list agree so far."""
        self.refused: Exception | None = None
        """What ended the walk: the program may have caught it."""
        self.interpreter = Interpreter(identities, self._undecided)
        self.dispatch = Dispatch(self._run)
        self.doors = Doors(self.dispatch, self._look)
        self._most_runs = most_runs
        self._identities = identities
        self._partitions = Partitions()
        self._is_within = False
        self._splits: dict[int, SplitMemory] = {}

    @contextmanager
    def warned(self) -> Iterator[None]:
        """Refuse the warnings of an operator that runs for each memory: a run alone has one."""
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

    # --- what the program is given, and what it returns --------------------------------------

    def carrier(self, versions: Sequence[Tensor]) -> Tensor:
        """Return a tensor that is to each run what `versions` has for it, all of one form."""
        kinds = [bits(whole(version)) or number for number, version in enumerate(versions)]
        of, first = classes(kinds)
        if len(first) == 1:
            return seen_as(whole(versions[0]).clone(), versions[0])
        made = spoilt(versions[0])
        memory = [whole(versions[run]).clone() for run in first]
        self._splits[address(made)] = SplitMemory(weak(made), self._partitions.one(of), memory)
        return made

    def outcomes(self, returned: Any) -> list[Hashable]:
        """Return what each run returned, with the choices in it that nobody looked at."""
        self._join(self._all_alike, {})
        known: dict[tuple[int, int], tuple[Tensor, Any]] = {}

        def in_run(number: int) -> Callable[[Tensor], Any]:
            def of_tensor(tensor: Tensor) -> Any:
                split = self._splits.get(address(tensor)) if _is_dense(tensor) else None
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
        """End the walk; return whether memory that differs outlives it: it is the first run's."""
        self.interpreter.streams.close()
        if any(alive(split.storage) for split in self._splits.values()):
            # What goes round in circles is held by nobody else.
            gc.collect()
        outlive = [split.put_back() for split in self._splits.values()]
        for carrier, version in filter(None, outlive):
            ids = self._identities.of(version)
            if ids is not None:
                self._identities.attach(carrier, ids)
        return any(outlive)

    # --- operators ---------------------------------------------------------------------------

    def _run(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        if reads_no_values(func):
            return ran(func, args, kwargs)
        with self._ends():
            self.interpreter.note(func, args, kwargs)
            while True:
                try:
                    return self._computed(func, args, kwargs)
                except _ChoicesNeeded as found:
                    self._decide(found.of, found.wanted)

    @contextmanager
    def _ends(self) -> Iterator[None]:
        """Remember what ends the walk, which a program may catch."""
        try:
            yield
        except (TorchError, NotUnderstood, OpaqueRandomness):
            raise
        except Exception as error:
            ours = error if isinstance(error, STOPS) else NotTogether(told_of(error))
            self.refused = self.refused or ours
            raise ours from error

    def _computed(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        keys = self._keys((args, kwargs)) if self._splits else {}
        held = {key: self._splits[key] for key in keys.values() if key in self._splits}
        if held:
            written = {keys[id(tensor)]: tensor for tensor in _written(func, args, kwargs)}
            self._require_apart(func, [*tensors_in((args, kwargs))], [*written.values()])
            for key, tensor in written.items():
                if key not in held:
                    held[key] = self._part(tensor)
            with self._writes_only(func, args, kwargs, {*written}):
                return self._apart(func, args, kwargs, keys, held, {*written})
        self.interpreter.elements.slacks = {}
        try:
            result = self.interpreter.follow(func, args, kwargs)
        except _ChoiceNeeded as found:
            wanted = {0: self._wanted(func, found.tensor, self._keys((args, kwargs)), {})}
            raise _ChoicesNeeded(self._all_alike, wanted) from None
        self._add_slacks([self.interpreter.elements.slacks], self._all_alike)
        return result

    def _require_apart(
        self, func: OpOverload, tensors: Sequence[Tensor], written: Sequence[Tensor]
    ) -> None:
        """Require that an operator may run for each memory by itself, unseen by the program."""
        if func.namespace not in TORCHS_OWN:
            raise NotTogether(f"runs what is not torch's own: {func}")
        if _returns_views(func):
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
        """Require that an operator writes nothing but what its schema says."""
        if _keeps_its_schema(func):
            yield
            return
        others: list[Tensor] = []
        for tensor in tensors_in((args, kwargs)):
            if not _is_dense(tensor):
                raise NotTogether(f"may write to what is not dense: {func}")
            if address(tensor) not in written:
                split = self._splits.get(address(tensor))
                others += [whole(tensor)] if split is None else split.versions
        before = [bits(memory, most=None) for memory in others]
        yield
        if before != [bits(memory, most=None) for memory in others]:
            raise NotTogether(f"writes to what it should only read: {func}")

    def _apart(
        self,
        func: OpOverload,
        args: Any,
        kwargs: Any,
        keys: Mapping[int, int],
        held: Mapping[int, SplitMemory],
        written: Collection[int],
    ) -> Any:
        """Run an operator on every memory that its arguments have in some run."""
        of, first = self._partitions.product([split.of for split in held.values()])
        made: list[_Made] = []
        wanted: dict[int, _PendingChoices] = {}
        for own, run in enumerate(first):
            memory = {key: split.versions[split.of[run]] for key, split in held.items()}
            memory |= {key: self._copied(memory[key]) for key in written}
            try:
                made.append(self._made(func, args, kwargs, keys, memory))
            except _ChoiceNeeded as found:
                # Others go on to choices of their own: each run decides in its own order.
                wanted[own] = self._wanted(func, found.tensor, keys, memory)
        if wanted:
            raise _ChoicesNeeded(of, wanted)
        of, made = self._agreeing(of, made)
        self._add_slacks([each.slacks for each in made], of)
        for key in written:
            self._set(key, of, [each.memory[key] for each in made])
        if made[0].error is not None:
            raise TorchError(made[0].error)
        return self._carried(of, [each.result for each in made], {*map(id, keys)})

    def _made(
        self,
        func: OpOverload,
        args: Any,
        kwargs: Any,
        keys: Mapping[int, int],
        memory: Mapping[int, Tensor],
    ) -> _Made:
        """Run an operator on one memory, by the address of the carrier."""
        views = _Views(func, keys, memory)
        self.interpreter.elements.slacks = {}
        mine, named = _mapped(args, views.own), _mapped(kwargs, views.own)
        result, failure = None, None
        self._is_within = True
        try:
            result = _mapped(self.interpreter.follow(func, mine, named), views.carrier)
        except TorchError as raised:
            failure = raised.error
        finally:
            self._is_within = False
        views.require_unchanged()
        kind = _form(result, keys) if failure is None else (type(failure), str(failure))
        return _Made(result, failure, memory, self.interpreter.elements.slacks, kind)

    def _agreeing(self, of: Classes, made: list[_Made]) -> tuple[Classes, list[_Made]]:
        """Go on with the runs for which an operator did what it did for the first."""
        kinds = [each.kind for each in made]
        if all(kind == kinds[0] for kind in kinds):
            return of, made
        taken = self._keep([kinds[own] for own in of], of)
        return taken.of, [made[own] for own in taken.were]

    def _carried(self, of: Classes, results: Sequence[Any], given: set[int]) -> Any:
        """Return the result that the program gets, where each run has its own.

        `given` are the ids of arguments.
        """
        each = [list(tensors_in([result])) for result in results]
        carriers = iter([self._carrier(of, own, given) for own in zip(*each, strict=True)])
        return _mapped(results[0], lambda _: next(carriers))

    def _carrier(self, of: Classes, results: Sequence[Tensor], given: set[int]) -> Tensor:
        if id(results[0]) in given:
            return results[0]
        of, versions = self._merged(of, [whole(result) for result in results])
        if len(versions) == 1:
            return results[0]
        made = spoilt(results[0])
        if address(made) in self._splits:
            raise NotTogether("returns several tensors in one memory")
        self._splits[address(made)] = SplitMemory(weak(made), of, versions)
        return made

    # --- choices -----------------------------------------------------------------------------

    def _undecided(self, tensor: Tensor) -> None:
        if any(isinstance(number, Choice) for number in self._identities.numbers(tensor)):
            raise _ChoiceNeeded(tensor)

    def _wanted(
        self,
        func: OpOverload,
        undecided: Tensor,
        keys: Mapping[int, int],
        memory: Mapping[int, Tensor],
    ) -> _PendingChoices:
        """Return what of which carrier an operator wants to be decided."""
        where = address(undecided)
        key = next((key for key, own in memory.items() if address(own) == where), where)
        if key not in keys.values():
            raise NotTogether(f"makes choices on the way: {func}")
        return _PendingChoices(key, undecided)

    def _decide(self, of: Classes, wanted: Mapping[int, _PendingChoices]) -> None:
        """Decide what is wanted in the runs of classes."""
        for each in wanted.values():
            if each.key not in self._splits:
                self._part(each.seen)
        of, wanted = self._join(of, wanted)
        become: list[_DecidedRun] = []
        counts: Counter[int] = Counter()
        for number, run in enumerate(self.runs):
            own = [*self._become(number, run, wanted.get(of[number]))]
            become += own
            counts[run.subject] += sum(each.run.count for each in own)
            if counts[run.subject] > self._most_runs:
                raise TooManyRuns(f"the program has more than {self._most_runs} random outcomes")
        self._leave([each.run for each in become[MOST_TOGETHER:]])
        become = become[:MOST_TOGETHER]
        keys = dict.fromkeys(each.key for each in wanted.values())
        parted = [(key, *self._parted(key, become)) for key in keys]
        self.runs = [each.run for each in become]
        self._take([each.was for each in become], self._all_alike)
        for key, now, versions in parted:
            self._set(key, self._partitions.one(now), versions)

    def _become(
        self, number: int, run: Run, wanted: _PendingChoices | None
    ) -> Iterator[_DecidedRun]:
        """Yield what becomes of a run where choices are decided, or nothing is."""
        if wanted is None:
            yield _DecidedRun(run, number, None, {})
            return
        split = self._splits[wanted.key]
        version = split.versions[split.of[number]]
        choices = self._identities.choices(seen_as(version, wanted.seen))
        for child, decided in run.decided(choices.values()):
            yield _DecidedRun(child, number, wanted.key, dict(zip(choices, decided, strict=True)))

    def _parted(self, key: int, become: Sequence[_DecidedRun]) -> tuple[Classes, list[Tensor]]:
        """Return what runs have of a carrier after what they have become."""
        split = self._splits[key]
        values = [each.values if each.key == key else {} for each in become]
        of, first = classes(
            (split.of[each.was], *own.items()) for each, own in zip(become, values, strict=True)
        )
        versions = []
        for number in first:
            versions.append(self._copied(split.versions[split.of[become[number].was]]))
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
        keys = self._keys((args, kwargs))
        for tensor in tensors:
            self._settle(tensor, keys[id(tensor)])
        held = [self._splits[key] for key in keys.values() if key in self._splits]
        if not held:
            return PASSED
        if func not in _NUMBERS:
            raise NotTogether(f"reads what differs between runs: {func}")
        of, first = self._partitions.product([split.of for split in held])

        def own(run: int) -> Callable[[Tensor], Tensor]:
            def of_run(tensor: Tensor) -> Tensor:
                split = self._splits.get(keys[id(tensor)])
                return tensor if split is None else seen_as(split.versions[split.of[run]], tensor)

            return of_run

        read = [[bits(own(run)(tensor), most=None) for tensor in tensors] for run in first]
        if any(each != read[0] for each in read):
            self._keep([tuple(read[own]) for own in of])
        mine, named = _mapped(args, own(0)), _mapped(kwargs, own(0))
        return ran(func, mine, named)

    def _settle(self, seen: Tensor, key: int) -> None:
        """Decide the choices in what Python is about to see. Raises `NotTogether` for noise."""
        memories = self._memories(key, seen)
        numbers = [number for each in memories for number in self._identities.numbers(each)]
        if any(isinstance(number, Choice) for number in numbers):
            self._decide(self._all_alike, {0: _PendingChoices(key, seen)})
        if not all(isinstance(number, Choice) for number in numbers):
            raise NotTogether("takes noise out of torch")

    # --- runs and their memory ---------------------------------------------------------------

    @property
    def _all_alike(self) -> Classes:
        return (0,) * len(self.runs)

    def _keys(self, values: Any) -> dict[int, int]:
        """Return the addresses of the storages of tensors, by the tensors' ids."""
        return {id(t): address(t) if _is_dense(t) else self._parts(t) for t in tensors_in(values)}

    def _parts(self, tensor: Tensor) -> int:
        """Return no address, of a tensor that is not dense, in which no run may have its own."""
        if any(address(part) in self._splits for part in parts(tensor)):
            raise NotTogether("keeps what differs between runs in a tensor that is not dense")
        return 0

    def _memories(self, key: int, seen: Tensor) -> list[Tensor]:
        """Return what a carrier shows in all runs."""
        split = self._splits.get(key)
        return [seen] if split is None else [seen_as(each, seen) for each in split.versions]

    def _part(self, carrier: Tensor) -> SplitMemory:
        """Keep a carrier's memory beside it, and nothing in it."""
        memory = whole(carrier)
        split = SplitMemory(weak(carrier), self._partitions.one(self._all_alike), [])
        split.versions.append(self._copied(memory))
        self._splits[address(carrier)] = split
        self._identities.attach(memory, torch.zeros((), dtype=torch.int64))
        spoil(memory)
        return split

    def _copied(self, memory: Tensor) -> Tensor:
        """Return a copy of all elements of a storage, the same random numbers among them."""
        with torch.inference_mode(mode=False):
            copy = memory.clone()
        ids = self._identities.of(memory)
        if ids is not None:
            self._identities.attach(copy, ids)
        return copy

    def _set(self, key: int, of: Classes, versions: list[Tensor]) -> None:
        split = self._splits[key]
        split.of, split.versions = self._merged(of, versions)

    def _merged(self, of: Classes, versions: list[Tensor]) -> tuple[Classes, list[Tensor]]:
        """Return the classes of runs that have the same memory, and one version for each."""
        kinds = [self._kind(version) for version in versions]
        if None in kinds or len(set(kinds)) == len(kinds):
            return of, versions
        merged, first = classes(kinds[own] for own in of)
        return self._partitions.one(merged), [versions[of[run]] for run in first]

    def _kind(self, version: Tensor) -> Hashable:
        """Return what versions are told apart by, None for too much."""
        found = bits(version)
        ids = None if found is None else self._identities.of(version)
        return found if ids is None else (found, *ids.tolist())

    def _keep(self, kinds: Sequence[Hashable], more: Classes | None = None) -> Regrouping:
        """Go on with the runs that are of the first one's kind, and leave the others.

        Return what has become of one more partition.
        """
        of, first = classes(kinds)
        for other in range(1, len(first)):
            self._leave([run for run, own in zip(self.runs, of, strict=True) if own == other])
        kept = [number for number, own in enumerate(of) if own == 0]
        self.runs = [self.runs[number] for number in kept]
        return self._take(kept, of if more is None else more)

    def _join(
        self, of: Classes, wanted: Mapping[int, _PendingChoices]
    ) -> tuple[Classes, dict[int, _PendingChoices]]:
        """Let one run lead those that have the same memory; return what is now wanted of which.

        `of` are classes of runs that have the same in some of the memory.
        """
        self._forget()
        memory, _ = self._partitions.product([of, *(each.of for each in self._splits.values())])
        groups: dict[Hashable, list[int]] = {}
        for number, (run, own) in enumerate(zip(self.runs, memory, strict=True)):
            kind = run.subject, own, run.left, frozenset(run.slacks.items())
            groups.setdefault(kind, []).append(number)
        if len(groups) == len(self.runs):
            return of, dict(wanted)
        self.runs = [led([self.runs[number] for number in group]) for group in groups.values()]
        taken = self._take([group[0] for group in groups.values()], of)
        return taken.of, {now: wanted[was] for now, was in enumerate(taken.were) if was in wanted}

    def _forget(self) -> None:
        """Forget what nobody holds any more: it needs no version."""
        self._splits = {key: each for key, each in self._splits.items() if alive(each.storage)}

    def _leave(self, runs: Sequence[Run]) -> None:
        """Leave runs, which agree so far, to later walks."""
        begun = [each for run in runs for each in run.begun()]
        starts = range(0, len(begun), MOST_TOGETHER)
        self.left += [begun[at : at + MOST_TOGETHER] for at in starts]

    def _take(self, were: Sequence[int], more: Classes) -> Regrouping:
        """Let run i have what run `were[i]` had; return what becomes of one more partition."""
        self._forget()
        splits = self._splits.values()
        taken = self._partitions.taken(were, [*(split.of for split in splits), more])
        for split in splits:
            own = taken[id(split.of)]
            split.of, split.versions = own.of, [split.versions[was] for was in own.were]
        return taken[id(more)]

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
"""What makes numbers of its own of the tensors that it reads."""


@cache
def _writes(func: OpOverload) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return which arguments an operator writes to: places, and names."""
    arguments = func._schema.arguments
    are = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
    places = tuple(i for i, a in enumerate(arguments) if are[i] and not a.kwarg_only)
    return places, tuple(a.name for i, a in enumerate(arguments) if are[i])


def _written(func: OpOverload, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """Yield the tensors that an operator writes to."""
    places, names = _writes(func)
    yield from tensors_in(args[place] for place in places if place < len(args))
    yield from tensors_in(kwargs[name] for name in names if name in kwargs)


@cache
def _returns_views(func: OpOverload) -> bool:
    """Return whether what an operator returns is an argument's memory that it does not write."""
    returned = [each.alias_info for each in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def _is_dense(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided


def _mapped(value: Any, image: Callable[[Tensor], Tensor]) -> Any:
    """Return a nest of tuples, lists and dictionaries with other tensors."""
    if isinstance(value, Tensor):
        return image(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(each, image) for each in value)
    if isinstance(value, dict):
        return {name: _mapped(each, image) for name, each in value.items()}
    return value


def _place(tensor: Tensor) -> Hashable:
    return tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype


def _form(result: Any, given: Collection[int]) -> Hashable:
    """Return what Python can tell of a result without reading a tensor; `given` are arguments."""
    if isinstance(result, Tensor):
        own = id(result) if id(result) in given else result.untyped_storage().nbytes()
        return own, _place(result), result.requires_grad, result.is_inference()
    if isinstance(result, (list, tuple)):
        return type(result), *(_form(each, given) for each in result)
    return type(result), result.hex() if isinstance(result, float) else repr(result)


# What has one of these tags, or names, writes to what its schema says.
_KEEP_THEIR_SCHEMA = {torch.Tag.core, torch.Tag.pointwise, torch.Tag.reduction}
_ALSO = {"copy_", "cumprod", "searchsorted", "stack"}


@cache
def _keeps_its_schema(func: OpOverload) -> bool:
    return not _KEEP_THEIR_SCHEMA.isdisjoint(func.tags) or func._schema.name[6:] in _ALSO
