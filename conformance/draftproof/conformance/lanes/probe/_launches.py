"""Programs of Triton's interpreter, replayed from a recording of the first ones of their kind.

A launch runs a program for each place of its grid. Interpreting one is mostly Python: numpy takes a
tenth of an operator's time. A program's calls of the interpreter's builder depend on the constants
of its launch and the types of its arguments, on what the kernel reads in Python (`_read`), and on
the numbers that Python looks at, in an `if` or as the end of a `range`. So these calls are recorded
in a tree whose branches are the answers to such looks, and replayed with other places, grids,
pointers and integers. If a program reaches a new answer, its writes are undone and it is
interpreted. The replayed programs 1, 4, 16, 64, ..., and one in 512 at random, are also
interpreted, and the memory of their arguments must be the same afterwards. If it differs, or if a
step cannot be recorded, all programs of the kind are interpreted. So are launches on so many
numbers that numpy takes longer than Python, and all launches while Triton is changed (`_language`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partialmethod
from inspect import getcallargs, signature
from itertools import product
from secrets import randbits
from types import FunctionType
from typing import Any

import numpy
import torch

from draftproof.conformance.lanes._conditions import is_made_again
from draftproof.conformance.lanes.probe._direct import Direct, Inner, direct
from draftproof.conformance.lanes.probe._language import Language
from draftproof.conformance.lanes.probe._read import NotFrozen, frozen, read

_MOST_KINDS, _MOST_BRANCHES = 1024, 4096

_AXES = 3
"""Maximum number of axes of a grid."""

# Rows of so many numbers take numpy longer than Python: recordings are no faster, and are checked.
_MOST_NUMBERS = 2**20

# Ways that programs of a kind took first, beyond those that come again, are not recorded: to watch
# a program takes as long as to interpret it.
_MOST_MISSED = 32

_CHECKED = 512
"""One program in this many is checked at random; interpreting takes as long as replaying ten or
more."""

# No kernel knows it, and none is drawn while one is watched.
_SEED = randbits(60)


class NotRecorded(Exception):
    """Error of a program that cannot be recorded; the message gives the reason."""


@dataclass(slots=True, eq=False)
class Step:
    """Call of the builder; arguments marked in `are_values` are numbers of values."""

    name: str
    call: Callable[..., Any] | None
    """The called function, None for a value present from the beginning, which `arguments` has."""
    arguments: tuple[Any, ...]
    are_values: tuple[bool, ...] = ()
    places: tuple[int, ...] = ()
    """The numbers of the values among the arguments."""
    made: int = 1
    """The number of values that the step makes."""
    direct: Direct | None = None
    """The step in numpy, None if unknown; the value that it makes has this `kind`."""
    kind: Any = None


@dataclass
class Branch:
    """Steps up to Python's next look, if there is one, and a branch for each answer."""

    steps: list[Step] = field(default_factory=list)
    look: tuple[Callable[[Any], Any], int] | None = None
    answers: dict[Any, Branch] = field(default_factory=dict)


@dataclass
class Kind:
    """Knowledge about programs that differ only in their places, pointers and integers."""

    root: Branch = field(default_factory=Branch)
    is_begun: bool = False
    made: int = 0
    """The number of programs that were replayed to their end."""
    missed: int = 0
    """The number of programs that reached an answer for the first time."""
    branches: int = 1
    refused: str | None = None
    """The reason why programs are always interpreted, None if they are not."""

    @property
    def is_next_checked(self) -> bool:
        """Return whether the next replayed program (1, 4, 16, ..., or by chance) is checked."""
        count = self.made + 1
        is_due = is_made_again(count) and count.bit_length() % 2 == 1
        return is_due or hash((_SEED, self.made)) % _CHECKED == 0

    @property
    def is_watched(self) -> bool:
        """Return whether the way of another program is recorded."""
        is_worth = self.missed <= _MOST_MISSED + self.made and self.branches < _MOST_BRANCHES
        return self.refused is None and is_worth


_KINDS: dict[Hashable, Kind] = {}


_LANGUAGES: list[tuple[Any, Language]] = []
"""Each interpreter with its language, as of the first use of recordings."""


@contextmanager
def recorded(interpreter: Any) -> Iterator[set[int]]:
    """Replay launches of Triton's `interpreter` from recordings, where possible, within a block.

    Yields the set of ids of the patches, to which the caller may add others.
    """
    if not all(hasattr(interpreter, name) for name in (*_PATCHED, *_USED)):
        # Of another release of Triton.
        yield set()
        return
    if not any(each is interpreter for each, _ in _LANGUAGES):
        _LANGUAGES.append((interpreter, Language(interpreter)))
    language = next(known for each, known in _LANGUAGES if each is interpreter)
    if not (language.is_unchanged(()) and language.has_code()):
        # A program has changed Triton, and may go on.
        yield set()
        return
    own: set[int] = set()
    executor, operation = interpreter.GridExecutor, interpreter.ReduceScanOpInterface
    interpret, apply = executor.__call__, operation.apply
    before = {name: vars(interpreter)[name] for name in _PATCHED}
    executor.__call__ = _launching(interpreter, interpret, language, own)
    operation.apply = _applying(apply)
    vars(interpreter).update(
        _patch_lang_tensor=_patching(before["_patch_lang_tensor"]),
        _get_np_dtype=_tabled(interpreter.tl, before["_get_np_dtype"]),
    )
    own |= {id(executor.__call__), id(operation.apply)}
    own |= {id(vars(interpreter)[name]) for name in _PATCHED}
    try:
        yield own
    finally:
        executor.__call__, operation.apply = interpret, apply
        vars(interpreter).update(before)


@contextmanager
def interpreted() -> Iterator[None]:
    """Interpret every launch within a block, even if it is recorded."""
    _INTERPRETING.append(None)
    try:
        yield
    finally:
        _INTERPRETING.pop()


_INTERPRETING: list[None] = []
"""One element for each active context in which launches are interpreted."""

_PATCHED = ("_patch_lang_tensor", "_get_np_dtype")
_USED = (
    *("tl", "_implicit_cvt"),
    *("GridExecutor", "ReduceScanOpInterface", "ScanOps", "TensorHandle"),
    *("InterpretedFunction", "interpreter_builder", "interpreter_semantic", "_interpreter"),
)


def _launching(
    interpreter: Any, interpret: Callable[..., None], language: Language, own: set[int]
) -> Callable[..., None]:
    def launched(self: Any, *arguments: Any, **named: Any) -> None:
        given = None
        if _RECORDER:
            _RECORDER[-1].refuse("a kernel launches another")
        elif not _INTERPRETING and language.is_unchanged(own):
            given = _given(self, interpreter._implicit_cvt, arguments, named, language)
        if given is None:
            interpret(self, *arguments, **named)
            return
        key, inputs, tensors = given
        if key not in _KINDS and len(_KINDS) >= _MOST_KINDS:
            _KINDS.clear()
        launch = Launch(interpreter, _KINDS.setdefault(key, Kind()), inputs, tensors)
        done = launch.replayed(self.grid)
        if done is not None:
            # `copy` would change the class, which is Triton's.
            rest = object.__new__(type(self))
            vars(rest).update(vars(self), fn=launch.after(done, self.fn))
            interpret(rest, *arguments, **named)

    return launched


def _patching(patch: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        for name, look in _LOOKS.items():
            scope.set_attr(tensor, name, partialmethod(_looked, look))

    return patched


def _tabled(language: Any, type_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that keeps the table of types, which Triton makes anew at each call."""
    of_scalar = cache(type_of)

    def tabled(kind: Any) -> Any:
        element = kind.element_ty if isinstance(kind, language.block_type) else kind
        return of_scalar(element) if type(element) is language.dtype else type_of(kind)

    return tabled


def _applying(apply: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def applied(self: Any, tensors: Any) -> Any:
        if not _RECORDER:
            return apply(self, tensors)
        if not isinstance(tensors, tuple):
            return applied(self, (tensors,))[0]
        return _RECORDER[-1].applied(self, apply, tensors)

    return applied


def _given(
    executor: Any,
    convert: Callable[[Any], Any],
    arguments: Sequence[Any],
    named: Any,
    language: Language,
) -> tuple[Hashable, list[Any], list[torch.Tensor]] | None:
    """Return the kind of a launch's programs, the values of its arguments, the tensors among them.

    Return None for a launch whose programs cannot be replayed.
    """
    grid = executor.grid
    is_plain = isinstance(grid, tuple) and len(grid) <= _AXES and {*map(type, grid)} <= {int}
    if not is_plain or executor.pre_run_hooks:
        return None
    known = _parameters(executor.fn)
    given = getcallargs(executor.fn, *arguments, **{k: v for k, v in named.items() if k in known})
    values: list[Any] = []
    tensors: list[torch.Tensor] = []

    def form(argument: Any) -> Hashable:
        if isinstance(argument, tuple):
            return read(type(argument), language), tuple(map(form, argument))
        if isinstance(argument, torch.Tensor) and argument.device.type != "cpu":
            raise NotRecorded("a tensor is on another device")
        if isinstance(argument, torch.Tensor) and argument.numel() > _MOST_NUMBERS:
            raise NotRecorded("what numpy does takes longer than what Python does")
        if isinstance(argument, torch.Tensor):
            tensors.append(argument)
        if isinstance(argument, (torch.Tensor, int)):
            tensor = convert(argument)
            values.append(tensor.handle)
            return str(tensor.type)
        return frozen(argument, language)

    try:
        kinds = tuple(
            (name, read(each, language) if name in executor.constexprs else form(each))
            for name, each in given.items()
        )
        return (read(executor.fn, language), kinds), values, tensors
    except (NotFrozen, NotRecorded):
        return None


@cache
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(signature(function).parameters)


@dataclass(frozen=True)
class Launch:
    """A launch: the kind of its programs, the values of its arguments, and the tensors there."""

    interpreter: Any
    kind: Kind
    inputs: Sequence[Any]
    tensors: Sequence[torch.Tensor]

    def replayed(self, grid: tuple[int, ...]) -> int | None:
        """Replay programs up to one that has to be interpreted, and return the number of them.

        Return None if all are replayed.
        """
        builder, whole = self.interpreter.interpreter_builder, (*grid, 1, 1, 1)[:_AXES]
        builder.set_grid_dim(*whole)
        for done, place in enumerate(product(*map(range, whole))):
            builder.set_grid_idx(*place)
            if not self._is_replayed():
                return done
        return None

    def after(self, done: int, kernel: FunctionType) -> FunctionType:
        """Return a function that Triton takes for the kernel, and calls for each program.

        It leaves out the first `done` programs, and interprets no other that can be replayed.
        """
        left = [None] * done

        def program(**arguments: Any) -> None:
            if left:
                left.pop()
            elif not self._is_replayed():
                self._interpret(kernel, arguments)

        # Triton patches the modules that the kernel sees, and reads its parameters.
        found = FunctionType(program.__code__, kernel.__globals__, closure=program.__closure__)
        vars(found)["__signature__"] = signature(kernel)
        return found

    def _is_replayed(self) -> bool:
        """Replay a program, if it can be and need not be interpreted; return whether it was."""
        kind = self.kind
        if kind.refused is not None or not kind.is_begun or kind.is_next_checked:
            return False
        if _played(self.interpreter, kind.root, self.inputs, _nothing, is_kept=True) is None:
            return False
        kind.made += 1
        return True

    def _interpret(self, kernel: FunctionType, arguments: Mapping[str, Any]) -> None:
        """Interpret a program, and check whether it would have been replayed rightly."""
        kind, interpreter, seen = self.kind, self.interpreter, list[bytes]()
        writes = None
        if kind.refused is None and kind.is_begun and kind.is_next_checked:
            writes = _played(
                interpreter,
                kind.root,
                self.inputs,
                lambda: seen.extend(_memory(self.tensors)),
                is_kept=False,
            )
        if writes is None:
            kind.missed += kind.is_begun
            inputs = [*_handles(interpreter, tuple(arguments.values()))]
            recorder = _Recorder(interpreter, kind, inputs)
            with recorder.recording() if kind.is_watched else nullcontext():
                kernel(**arguments)
            return
        kind.made += 1
        kernel(**arguments)
        # What the arguments do not have, a kernel may reach from them.
        is_same = not any(write.now(interpreter) != write.after for write in writes)
        if not is_same or seen != _memory(self.tensors):
            kind.refused = "a program that was replayed wrote something else"


def _nothing() -> None:
    pass


def _handles(interpreter: Any, value: Any) -> Iterator[Any]:
    """Yield the values of arguments, in order."""
    if isinstance(value, interpreter.tl.tensor):
        yield value.handle
    elif isinstance(value, (tuple, interpreter.tl.tuple)):
        for each in value:
            yield from _handles(interpreter, each)


def _memory(tensors: Sequence[torch.Tensor]) -> list[bytes]:
    """Return the whole memory of tensors, as bytes."""
    found: dict[int, bytes] = {}
    for each in tensors:
        storage = each.untyped_storage()
        if storage.nbytes():
            whole = torch.empty(0, dtype=torch.uint8).set_(storage)
            found[storage.data_ptr()] = whole.numpy().tobytes()
    return [*found.values()]


# --- what Python sees of a value -------------------------------------------------------------


def _as_bool(value: Any) -> bool:
    # As Triton has it: of several numbers nothing is seen.
    return bool(value.data) if value.data.size == 1 else True


def _as_int(value: Any) -> int:
    return int(value.data.squeeze())


def _as_text(value: Any) -> str:
    return str(value.data)


def _as_code(value: Any) -> str:
    return repr(value.data)


_LOOKS = {"__bool__": _as_bool, "__index__": _as_int, "__repr__": _as_code, "__str__": _as_text}
"""Function by which Triton answers each of Python's looks at a value."""


def _looked(tensor: Any, look: Callable[[Any], Any]) -> Any:
    if not _RECORDER:
        return look(tensor.handle)
    return _RECORDER[-1].look(tensor.handle, look)


# --- replaying a program ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Write:
    """Memory that a step is about to overwrite, with its content before and after."""

    pointers: Any
    mask: Any
    before: Any
    after: bytes = b""

    def undo(self, interpreter: Any) -> None:
        interpreter._interpreter.store(self.pointers, self.before, self.mask)

    def now(self, interpreter: Any) -> bytes:
        """Return the current content of the memory."""
        empty = numpy.zeros_like(self.before)
        found = interpreter._interpreter.load(self.pointers, self.mask, empty, empty.dtype)
        return bytes(found.tobytes())


def _played(
    interpreter: Any,
    root: Branch,
    inputs: Sequence[Any],
    look: Callable[[], None],
    *,
    is_kept: bool,
) -> list[_Write] | None:
    """Replay a program; return its writes, None if Python saw an answer that is not recorded.

    Unless the writes are kept and the program ends, they are undone after a call of `look`.
    """
    writes: list[_Write] = []
    try:
        has_ended = _replayed(interpreter, root, list(inputs), writes)
    except Exception:
        # An interpreted program says what is wrong.
        has_ended = False
    if has_ended and is_kept:
        return writes
    look()
    found = [
        _Write(each.pointers, each.mask, each.before, each.now(interpreter)) for each in writes
    ]
    for write in reversed(writes):
        write.undo(interpreter)
    return found if has_ended else None


def _replayed(interpreter: Any, root: Branch, values: list[Any], writes: list[_Write]) -> bool:
    """Make the steps of a program; return whether it reaches its end."""
    handle = interpreter.TensorHandle
    branch: Branch | None = root
    while branch is not None:
        for step in branch.steps:
            if step.call is None:
                values.append(step.arguments[0])
                continue
            if step.name in _STORES:
                stored = [values[each] for each in step.places]
                writes.append(_about_to_write(interpreter, step.name, stored))
            if step.direct is not None:
                data = step.direct(*[values[each].data for each in step.places])
                if step.made:
                    made = object.__new__(handle)
                    made.data, made.dtype, made.attr = data, step.kind, {}
                    values.append(made)
                continue
            made = step.call(
                *(
                    values[each] if is_value else each
                    for each, is_value in zip(step.arguments, step.are_values, strict=True)
                )
            )
            if step.made == 1:
                values.append(made)
            elif step.made:
                values.extend(made)
        if branch.look is None:
            return True
        look, place = branch.look
        branch = branch.answers.get(look(values[place]))
    return False


def _about_to_write(interpreter: Any, name: str, arguments: Sequence[Any]) -> _Write:
    pointers, value = arguments[0].data, arguments[1].data
    mask = numpy.ones_like(pointers, dtype=bool) if name == _STORES[0] else arguments[2].data
    empty = numpy.zeros(pointers.shape, dtype=value.dtype)
    before = interpreter._interpreter.load(pointers, mask, empty, value.dtype)
    return _Write(pointers, mask, before)


_STORES = ("create_store", "create_masked_store")

# --- recording a program -----------------------------------------------------------------------

_RECORDER: list[_Recorder] = []
"""Recorder of the program that is being interpreted, if there is one."""


class _Recorder:
    """Recorder of a program, along the branches of earlier programs."""

    def __init__(self, interpreter: Any, kind: Kind, inputs: Sequence[Any]) -> None:
        self._interpreter = interpreter
        self._kind = kind
        self._branch = kind.root
        self._place = 0
        self._is_new = not kind.is_begun
        # Held, so that no other value gets the id of one.
        self._values: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._constants: set[int] = set()
        """The numbers of values that are the same in every program."""
        self._depth = 0
        self._inner: list[Inner] = []
        self._most = kind.branches + _MOST_BRANCHES
        for each in inputs:
            self.add(each)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the calls of the builder within a block."""
        builder = self._interpreter.interpreter_builder
        before, collects = dict(vars(builder)), gc.isenabled()
        for name in dir(builder):
            if name.startswith(("create_", "get_")):
                vars(builder)[name] = self._watched(name, getattr(builder, name))
        for name in _INNER:
            vars(builder)[name] = self._watched_within(getattr(builder, name))
        _RECORDER.append(self)
        # All that is made stays until the end: to look for garbage takes a fifth of the time.
        gc.disable()
        try:
            yield
            self._end()
            self._kind.is_begun = True
        except BaseException:
            self.refuse("a program raised an error")
            raise
        finally:
            _RECORDER.pop()
            for name in set(vars(builder)) - set(before):
                del vars(builder)[name]
            if collects:
                gc.enable()

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Refuse to record a program in which an error is raised, even if it is caught."""
        try:
            yield
        except BaseException:
            self.refuse("a program raised an error")
            raise

    def _watched_within(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            with self._refusing():
                made = call(*arguments)
            self._inner.append(Inner(arguments[-1], arguments[:-1], made))
            return made

        return watched

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **named: Any) -> Any:
            if self._depth == 0:
                self._inner.clear()
            self._depth += 1
            try:
                with self._refusing():
                    made = call(*arguments, **named)
            finally:
                self._depth -= 1
            if self._depth == 0 and self._kind.refused is None:
                try:
                    self._note(name, call, arguments, named, made)
                except NotRecorded as reason:
                    self.refuse(str(reason))
            return made

        return watched

    def _note(
        self, name: str, call: Callable[..., Any], arguments: Any, named: Any, made: Any
    ) -> None:
        is_value = isinstance(made, self._interpreter.TensorHandle)
        if name.startswith("get_"):
            if is_value:
                self._add_constant(name, made)
            return
        if named:
            raise NotRecorded(f"{name} has arguments by name")
        if name.startswith("create_atomic"):
            raise NotRecorded(f"{name} reads and writes at once")
        if name not in _STORES and not is_value and not _are_values(self._interpreter, made):
            raise NotRecorded(f"{name} returns no value")
        results = [] if made is None else [made] if is_value else list(made)
        step = self._step(name, call, arguments, len(results))
        if is_value and self._is_constant(step, made):
            self._add_constant(name, made)
            return
        if self._is_new and len(results) < 2:
            step.direct = direct(self._interpreter, name, arguments, made, self._inner)
            step.kind = made.dtype if is_value else None
        self._add(step, results)

    def _is_constant(self, step: Step, made: Any) -> bool:
        """Return whether a value is the same in every program, and small enough to be kept."""
        is_read = step.name in (*_LOADS, *_OF_THE_GRID)
        is_small = made.data.nbytes <= _MOST_KEPT
        return is_small and not is_read and self._constants.issuperset(step.places)

    def _add_constant(self, name: str, made: Any) -> None:
        self._constants.add(len(self._values))
        self._add(Step(name, None, (made,)), [made])

    def _step(
        self, name: str, call: Callable[..., Any], arguments: Sequence[Any], made: int
    ) -> Step:
        handle = self._interpreter.TensorHandle
        own: list[Any] = []
        are_values, places = [], list[int]()
        for each in arguments:
            is_value = isinstance(each, handle)
            if is_value:
                places.append(self._number(each))
            elif isinstance(each, (list, tuple)) and any(isinstance(x, handle) for x in each):
                raise NotRecorded(f"{name} takes several values in one argument")
            own.append(places[-1] if is_value else each)
            are_values.append(is_value)
        return Step(name, call, tuple(own), tuple(are_values), tuple(places), made)

    def _number(self, value: Any) -> int:
        """Return the number of a value. Raises `NotRecorded` for a value from elsewhere."""
        number = self._numbers.get(id(value))
        if number is None:
            raise NotRecorded("a value comes from elsewhere")
        return number

    def add(self, value: Any) -> None:
        """Give a value the next number."""
        self._numbers[id(value)] = len(self._values)
        self._values.append(value)

    def _add(self, step: Step, results: Sequence[Any]) -> None:
        if self._is_new:
            self._branch.steps.append(step)
        elif self._place >= len(self._branch.steps) or not _alike(
            self._branch.steps[self._place], step
        ):
            raise NotRecorded("a program took another way than one before, and nothing said why")
        self._place += 1
        for each in results:
            self.add(each)

    def look(self, value: Any, look: Callable[[Any], Any]) -> Any:
        """Return the answer to Python's look at a value, and record it."""
        with self._refusing():
            answer = look(value)
        if self._depth > 0:
            self.refuse("Python looks at a number within a step")
        elif self._kind.refused is None:
            try:
                self._answer(look, self._number(value), answer)
            except NotRecorded as reason:
                self.refuse(str(reason))
        return answer

    def _answer(self, look: Callable[[Any], Any], place: int, answer: Any) -> None:
        branch = self._branch
        if self._is_new:
            branch.look = look, place
        elif branch.look != (look, place) or self._place != len(branch.steps):
            raise NotRecorded("Python looked at something else than before")
        self._is_new = answer not in branch.answers
        if self._is_new:
            self._kind.branches += 1
            if self._kind.branches > self._most:
                raise NotRecorded("Python looks at too many numbers")
            branch.answers[answer] = Branch()
        self._branch, self._place = branch.answers[answer], 0

    def applied(self, operation: Any, apply: Callable[..., Any], tensors: Sequence[Any]) -> Any:
        """Return the result of a reduction or scan of tensors, and record it."""
        self._depth += 1
        try:
            with self._refusing():
                made = apply(operation, tuple(tensors))
        finally:
            self._depth -= 1
        if self._depth == 0 and self._kind.refused is None:
            try:
                self._note_applied(operation, apply, tensors, made)
            except NotRecorded as reason:
                self.refuse(str(reason))
        return made

    def _note_applied(
        self, operation: Any, apply: Callable[..., Any], tensors: Sequence[Any], made: Any
    ) -> None:
        if not _is_simple(self._interpreter, operation):
            raise NotRecorded("a reduction has a function of its own")
        tensor, types = self._interpreter.tl.tensor, [each.type for each in tensors]
        form = type(operation).__name__, operation.axis, operation.combine_fn, str(types)

        def again(_: Any, *handles: Any) -> Any:
            own = tuple(tensor(h, ty) for h, ty in zip(handles, types, strict=True))
            found = [each.handle for each in apply(operation, own)]
            return found if len(found) != 1 else found[0]

        results = [each.handle for each in made]
        handles = [each.handle for each in tensors]
        own = tuple(self._number(each) for each in handles)
        step = Step("apply", again, (form, *own), (False, *[True] * len(own)), own, len(results))
        self._add(step, results)

    def _end(self) -> None:
        if self._kind.refused is None and self._place != len(self._branch.steps):
            self.refuse("a program ended sooner than one before")

    def refuse(self, reason: str) -> None:
        """Interpret all programs of the kind from now on."""
        self._kind.refused = self._kind.refused or reason
        self._kind.root = Branch()


_MOST_KEPT = 2**16
"""Maximum size in bytes of a value that is kept; larger values are computed again."""

_LOADS = ("create_load", "create_masked_load")
_INNER = ("binary_op", "unary_op", "ternary_op")
_OF_THE_GRID = ("create_get_program_id", "create_get_num_programs")


def _is_simple(interpreter: Any, operation: Any) -> bool:
    """Return whether numpy computes the reduction or scan, without calls of the builder."""
    known: Any = interpreter.tl.standard
    of_scans = (known._sum_combine, known._prod_combine)
    of_reductions = (
        known._sum_combine,
        known._elementwise_max,
        known._elementwise_min,
        known._argmax_combine_tie_break_left,
        known._argmax_combine_tie_break_fast,
        known._argmin_combine_tie_break_left,
        known._argmin_combine_tie_break_fast,
    )
    is_scan = isinstance(operation, interpreter.ScanOps)
    combine: object = operation.combine_fn
    return any(combine is each for each in (of_scans if is_scan else of_reductions))


def _are_values(interpreter: Any, made: Any) -> bool:
    return isinstance(made, tuple) and all(isinstance(x, interpreter.TensorHandle) for x in made)


def _alike(one: Step, other: Step) -> bool:
    """Return whether two steps are the same."""
    if one.call is None and other.call is None:
        (mine,), (theirs,) = one.arguments, other.arguments
        is_same: bool = mine.data.tobytes() == theirs.data.tobytes()
        return is_same and mine.data.dtype is theirs.data.dtype and mine.dtype is theirs.dtype
    return (one.name, one.arguments, one.are_values, one.made) == (
        other.name,
        other.arguments,
        other.are_values,
        other.made,
    )
