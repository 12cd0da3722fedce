"""One walk of a program for many of its runs at once.

Where a choice is decided, runs part; the program goes on, once for all of them. What differs is
kept beside the tensors that it holds (`_split`), and an operator is computed once for every memory
that differs, in the very shapes of a single run, so that all numbers are those of single runs.
Where Python looks at a number, only runs that agree go on; the others are left to a later walk,
with the answers that they had.

No verdict rests on walks yet: programs are known whose law they get wrong.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._identity import Identities, parts
from draftproof.conformance.lanes._noise import Choice, NotUnderstood, Ranking, World
from draftproof.conformance.lanes._operators import Interpreter, reads_no_values, tensors_in
from draftproof.conformance.lanes._outcome import frozen, left_open
from draftproof.conformance.lanes._replay import MOST_CHOICES, TooManyRuns
from draftproof.conformance.lanes._split import (
    Classes,
    NotTogether,
    Partitions,
    Split,
    Taken,
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
from draftproof.conformance.lanes._watch import EXPOSING, NEVER_TORCHS, PASSED, Dispatch, Doors
from draftproof.conformance.lanes.opaque import OpaqueRandomness
from draftproof.reference.chance import Answer, NondeterministicProgram, Replay
from draftproof.reference.rational import Rational

MOST_TOGETHER = 4096
"""The most runs of one walk; the others are left to a later one."""


@dataclass(frozen=True)
class Run:
    """A run of a program on one subject: what it was told to answer, and what it has answered."""

    subject: int
    world: World
    told: tuple[Answer, ...] = ()
    given: tuple[Answer, ...] = ()
    slacks: Mapping[Ranking, Rational] = field(default_factory=dict)

    def begun(self) -> Run:
        """Return the run as a later walk begins it."""
        return Run(self.subject, World(Replay()), self.answers)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers that lead to where it stands, or was sent."""
        return self.told if len(self.told) > len(self.given) else self.given

    def asked(self, choices: Collection[Choice]) -> Iterator[tuple[Run, tuple[int, ...]]]:
        """Yield what becomes of the run for each way to decide choices, and the decisions."""
        replay: Replay | None = Replay()
        while replay is not None:
            chance = _Continued(self.told[len(self.given) :], replay)
            world = self.world.under(chance)
            decided = tuple(choice.value(world) for choice in choices)
            given = (*self.given, *chance.given)
            if len(given) > MOST_CHOICES:
                raise NotTogether("make very many choices")
            yield Run(self.subject, world, self.told, given, self.slacks), decided
            replay = replay.next()


class _Continued:
    """Gives the answers that it was told to give, then those of another chance."""

    def __init__(self, told: Sequence[Answer], then: Replay) -> None:
        self._told = Replay(told)
        self._left = len(told)
        self._then = then

    @property
    def given(self) -> list[Answer]:
        return [*self._told.given, *self._then.given]

    def draw(self, weights: Sequence[Rational]) -> int:
        is_told = len(self._told.given) < self._left
        return (self._told if is_told else self._then).draw(weights)

    def coin(self, probability: Rational) -> bool:
        return self.draw((probability, 1 - probability)) == 0


class _Undecided(Exception):
    """A tensor has choices that must be decided before an operator runs."""

    def __init__(self, tensor: Tensor, carrier: int | None = None) -> None:
        super().__init__()
        self.tensor = tensor
        self.carrier = address(tensor) if carrier is None else carrier
        """The address of the storage of its carrier."""


@dataclass(frozen=True)
class _Made:
    """What an operator made of one memory."""

    result: Any
    """With carriers in the place of what it wrote."""
    error: Exception | None
    memory: Mapping[int, Tensor]
    """What it read and wrote, by the address of the carrier."""
    slacks: Mapping[Ranking, Rational]

    @property
    def kind(self) -> Hashable:
        """What must be the same where runs go on together."""
        if self.error is not None:
            return type(self.error), str(self.error)
        return _form(self.result)


class _Views:
    """What an operator is given in the place of carriers: views of one memory."""

    def __init__(
        self, func: OpOverload, keys: Mapping[int, int], memory: Mapping[int, Tensor]
    ) -> None:
        self._func = func
        self._keys = keys
        self._memory = memory
        self._given: dict[int, tuple[Tensor, Tensor]] = {}

    def own(self, carrier: Tensor) -> Tensor:
        """Return what stands for an argument."""
        if self._keys[id(carrier)] not in self._memory:
            return carrier
        view = seen_as(self._memory[self._keys[id(carrier)]], carrier)
        self._given[id(view)] = view, carrier
        return view

    def carrier(self, returned: Tensor) -> Tensor:
        """Return the argument for which a returned tensor stands, or a new tensor itself."""
        if id(returned) in self._given:
            return self._given[id(returned)][1]
        if not _is_dense(returned) or self._is_an_arguments(address(returned)):
            raise NotTogether(f"returns what runs do not have each for itself: {self._func}")
        return returned

    def key(self, tensor: Tensor) -> int:
        """Return the address of the storage of a tensor's carrier."""
        where = address(tensor)
        return next((key for key, own in self._memory.items() if address(own) == where), where)

    def require_unchanged(self) -> None:
        """Require that all views are still what their carriers are views of."""
        for view, carrier in self._given.values():
            if (view.shape, view.stride()) != (carrier.shape, carrier.stride()):
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
        self._splits: dict[int, Split] = {}

    # --- what the program is given, and what it returns --------------------------------------

    def carrier(self, versions: Sequence[Tensor]) -> Tensor:
        """Return a tensor that is to each run what `versions` has for it, all of one form."""
        kinds = [bits(whole(version)) or number for number, version in enumerate(versions)]
        of, first = classes(kinds)
        if len(first) == 1:
            return seen_as(whole(versions[0]).clone(), versions[0])
        made = spoilt(versions[0])
        memory = [whole(versions[run]).clone() for run in first]
        self._splits[address(made)] = Split(weak(made), self._partitions.one(of), memory)
        return made

    def outcomes(self, returned: Any) -> list[Hashable]:
        """Return what each run returned, with the choices in it that nobody looked at."""
        known: dict[tuple[int, int], Any] = {}

        def in_run(number: int) -> Callable[[Tensor], Any]:
            def of_tensor(tensor: Tensor) -> Any:
                split = self._splits.get(address(tensor)) if _is_dense(tensor) else None
                key = id(tensor), -1 if split is None else split.of[number]
                if key not in known:
                    known[key] = self._left_open(tensor, split, number)
                return known[key]

            return of_tensor

        return [frozen(returned, in_run(number)) for number in range(len(self.runs))]

    def _left_open(self, tensor: Tensor, split: Split | None, number: int) -> Any:
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
            return func(*args, **kwargs)
        self.interpreter.note(func, args, kwargs)
        try:
            while True:
                try:
                    return self._computed(func, args, kwargs)
                except _Undecided as found:
                    self._decide(found.carrier, found.tensor)
        except _STOPS as reason:
            self.refused = self.refused or reason
            raise

    def _computed(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        keys = self._keys((args, kwargs)) if self._splits else {}
        held = {key: self._splits[key] for key in keys.values() if key in self._splits}
        if held:
            written = {keys[id(tensor)]: tensor for tensor in _written(func, args, kwargs)}
            for key, tensor in written.items():
                if self._identities.is_exposed(tensor):
                    raise NotTogether("writes what differs between runs to memory that others read")
                if key not in held:
                    held[key] = self._part(tensor)
            return self._apart(func, args, kwargs, keys, held, {*written})
        self.interpreter.slacks = {}
        result = self.interpreter.follow(func, args, kwargs)
        self._add_slacks([self.interpreter.slacks], [0] * len(self.runs))
        return result

    def _apart(
        self,
        func: OpOverload,
        args: Any,
        kwargs: Any,
        keys: Mapping[int, int],
        held: Mapping[int, Split],
        written: Collection[int],
    ) -> Any:
        """Run an operator on every memory that its arguments have in some run."""
        if _returns_views(func):
            raise NotTogether(f"sees numbers of runs that differ in another way: {func}")
        of, first = self._partitions.product([split.of for split in held.values()])
        made: list[_Made] = []
        for run in first:
            memory = {key: split.versions[split.of[run]] for key, split in held.items()}
            memory |= {key: self._copied(memory[key]) for key in written}
            made.append(self._made(func, args, kwargs, keys, memory))
        of, made = self._agreeing(of, made)
        self._add_slacks([each.slacks for each in made], of)
        if made[0].error is not None:
            raise made[0].error
        for key in written:
            self._set(key, of, [each.memory[key] for each in made])
        return self._carried(of, [each.result for each in made], {*keys})

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
        self.interpreter.slacks = {}
        result, failure = None, None
        try:
            mine, named = _mapped(args, views.own), _mapped(kwargs, views.own)
            result = _mapped(self.interpreter.follow(func, mine, named), views.carrier)
        except _Undecided as found:
            raise _Undecided(found.tensor, views.key(found.tensor)) from None
        except (NotUnderstood, NotTogether, OpaqueRandomness, *NEVER_TORCHS):
            raise
        except Exception as error:
            failure = error.with_traceback(None)
        views.require_unchanged()
        return _Made(result, failure, memory, self.interpreter.slacks)

    def _agreeing(self, of: Classes, made: list[_Made]) -> tuple[Classes, list[_Made]]:
        """Go on with the runs for which an operator did what it did for the first."""
        kinds = [each.kind for each in made]
        if all(kind == kinds[0] for kind in kinds):
            return of, made
        taken = self._keep([kinds[own] for own in of], of)
        return taken.of, [made[own] for own in taken.were]

    def _carried(self, of: Classes, results: Sequence[Any], given: set[int]) -> Any:
        """Return the result that the program gets, where each run has its own."""
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
        self._splits[address(made)] = Split(weak(made), of, versions)
        return made

    # --- choices -----------------------------------------------------------------------------

    def _undecided(self, tensor: Tensor) -> None:
        if any(isinstance(number, Choice) for number in self._identities.numbers(tensor)):
            raise _Undecided(tensor)

    def _decide(self, key: int, seen: Tensor) -> None:
        """Decide the choices in what is seen of a carrier, or of its versions, in every run."""
        split = self._splits[key] if key in self._splits else self._part(seen)
        choices = [self._choices(version, seen) for version in split.versions]
        runs: list[Run] = []
        were: list[int] = []
        values: list[tuple[int, ...]] = []
        for number, run in enumerate(self.runs):
            for child, decided in run.asked(choices[split.of[number]].values()):
                runs.append(child)
                were.append(number)
                values.append(decided)
            self._require_few(runs)
        if len(runs) > MOST_TOGETHER:
            self.left.append([run.begun() for run in runs[MOST_TOGETHER:]])
            runs, were = runs[:MOST_TOGETHER], were[:MOST_TOGETHER]
            values = values[:MOST_TOGETHER]
        of, first = classes((split.of[was], value) for was, value in zip(were, values, strict=True))
        versions = []
        for number in first:
            was = split.of[were[number]]
            versions.append(self._copied(split.versions[was]))
            self._write(versions[-1], dict(zip(choices[was], values[number], strict=True)))
        trivial = (0,) * len(self.runs)
        self.runs = runs
        self._take(were, trivial)
        self._set(key, self._partitions.one(of), versions)

    def _choices(self, version: Tensor, seen: Tensor) -> dict[int, Choice]:
        """Return the choices in what is seen of a version, by their places in it, in order."""
        ids = self._identities.of(version)
        if ids is None:
            return {}
        places = torch.arange(len(version))
        order = seen_as(places, seen, is_of_one_type=False).flatten().tolist()
        held = ids.tolist()
        numbers = {
            place: self._identities.number(held[place])
            for place in dict.fromkeys(order)
            if held[place]
        }
        return {place: each for place, each in numbers.items() if isinstance(each, Choice)}

    def _write(self, version: Tensor, values: Mapping[int, int]) -> None:
        ids = self._identities.of(version)
        if ids is not None:
            with torch.inference_mode():
                for place, value in values.items():
                    version[place] = value
                    ids[place] = 0

    # --- what Python sees --------------------------------------------------------------------

    def _look(self, func: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            try:
                answer = self._seen(func, args, kwargs)
            except _STOPS as reason:
                self.refused = self.refused or reason
                raise
        if answer is PASSED and func in EXPOSING:
            self._identities.expose(args[0])
        return answer

    def _seen(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = list(tensors_in((args, kwargs)))
        keys = self._keys((args, kwargs))
        for tensor in tensors:
            for memory in self._memories(keys[id(tensor)], tensor):
                if any(isinstance(each, Choice) for each in self._identities.numbers(memory)):
                    self._decide(keys[id(tensor)], tensor)
                    break
        seen = [memory for t in tensors for memory in self._memories(keys[id(t)], t)]
        if any(map(self._identities.has_noise, seen)):
            raise NotTogether("takes noise out of torch")
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
        return func(*_mapped(args, own(0)), **_mapped(kwargs, own(0)))

    # --- runs and their memory ---------------------------------------------------------------

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

    def _part(self, carrier: Tensor) -> Split:
        """Keep a carrier's memory beside it, and nothing in it."""
        memory = whole(carrier)
        split = Split(weak(carrier), self._partitions.one((0,) * len(self.runs)), [])
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

    def _keep(self, kinds: Sequence[Hashable], more: Classes | None = None) -> Taken:
        """Go on with the runs that are of the first one's kind, and leave the others.

        Return what has become of one more partition.
        """
        of, first = classes(kinds)
        for other in range(1, len(first)):
            self.left.append(
                [run.begun() for run, own in zip(self.runs, of, strict=True) if own == other]
            )
        kept = [number for number, own in enumerate(of) if own == 0]
        self.runs = [self.runs[number] for number in kept]
        return self._take(kept, of if more is None else more)

    def _take(self, were: Sequence[int], more: Classes) -> Taken:
        """Let run i have what run `were[i]` had; return what becomes of one more partition."""
        # What nobody holds any more needs no version.
        self._splits = {key: each for key, each in self._splits.items() if alive(each.storage)}
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

    def _require_few(self, runs: Sequence[Run]) -> None:
        """Raise `TooManyRuns` where a subject has more than are allowed."""
        if len(runs) > self._most_runs:
            most = max(Counter(run.subject for run in runs).values())
            if most > self._most_runs:
                raise TooManyRuns(f"the program has more than {self._most_runs} random outcomes")


_STOPS = (NotTogether, TooManyRuns, NondeterministicProgram)

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


def _form(result: Any) -> Hashable:
    """Return what Python can tell of a result without reading a tensor."""
    if isinstance(result, Tensor):
        return result.shape, result.stride(), result.storage_offset(), result.dtype
    if isinstance(result, (list, tuple)):
        return tuple(map(_form, result))
    return result.hex() if isinstance(result, float) else repr(result)
