"""What each PyTorch operator does to random numbers.

Four kinds are understood: operators that *draw*, that *move* elements about, that compute a
monotone function of one random number (*arithmetic*), and that look at random numbers
(*comparisons*, *races*, *bins*). Views, and operators that read shapes only, need nothing.
Before any other operator runs, the choices among its arguments are decided, which makes
them ordinary numbers; continuous noise cannot be decided, and raises `NotUnderstood`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import copysign, inf, isinf, isnan, nan, prod
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._streams import Rewound, Streams
from draftproof.conformance.lanes.exact._choice import Bins, Choice, Image, Listed, Winner, coin
from draftproof.conformance.lanes.exact._drawn import drawn, has_generator
from draftproof.conformance.lanes.exact._identity import Identities
from draftproof.conformance.lanes.exact._noise import (
    AT_LEAST,
    AT_MOST,
    LESS,
    MORE,
    SPENT,
    Affine,
    Clamp,
    Exp,
    Log,
    Nearly,
    Noise,
    NotUnderstood,
    Ranking,
    Reciprocal,
    Rounded,
    World,
    ranking,
)
from draftproof.conformance.lanes.exact._torchs import Torchs, ran
from draftproof.conformance.lanes.precise import extended, is_infinite, log
from draftproof.reference.chance import distribution
from draftproof.reference.rational import ONE, ZERO, Rational, exactly, rational

# How the narrow floats round. Noise of wider ones is taken as ideal: its grid of 2**-24 is below
# every tolerance.
_NARROW = {
    torch.float16: Rounded(11, -24, exactly(torch.finfo(torch.float16).max)),
    torch.bfloat16: Rounded(8, -133, exactly(torch.finfo(torch.bfloat16).max)),
}

_NEARLY = {torch.float32: Nearly(24, -126), torch.float64: Nearly(53, -1022)}

# While a program runs, torch's own is a generator that must not be seeded.
_Generator = torch.Generator

# Operators that move elements without changing them: the arguments whose elements move.
# A number among them is an ordinary element; all other arguments say where things go.
_MOVED = {
    "cat": (0,),
    "clone": (0,),
    "constant_pad_nd": (0, 2),
    "diag_embed": (0,),
    "diagonal_scatter": (0, 1),
    "fill": (0, 1),
    "flip": (0,),
    "gather": (0,),
    "index": (0,),
    "index_copy": (0, 3),
    "index_fill": (0, 3),
    "index_put": (0, 2),
    "index_select": (0,),
    "masked_fill": (0, 2),
    "masked_scatter": (0, 2),
    "masked_select": (0,),
    "repeat": (0,),
    "roll": (0,),
    "scatter": (0, 3),
    "select_scatter": (0, 1),
    "slice_scatter": (0, 1),
    "stack": (0,),
    "take": (0,),
    "tril": (0,),
    "triu": (0,),
    "where": (1, 2),
    "zero": (0,),
}

# Operators whose result is the same memory seen in another shape.
_VIEWS = {
    "_reshape_alias",
    "_unsafe_view",
    "alias",
    "as_strided",
    "detach",
    "diagonal",
    "expand",
    "lift_fresh",
    "permute",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unfold",
    "unsqueeze",
    "view",
}

# Operators that look at the shape and type of a tensor, never at an element.
_SHAPES = {
    "empty_like",
    "full_like",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "zeros_like",
}

_RELATIONS = {"lt": LESS, "le": AT_MOST, "gt": MORE, "ge": AT_LEAST}
_REVERSED = {LESS: MORE, AT_MOST: AT_LEAST, MORE: LESS, AT_LEAST: AT_MOST}

TORCHS_OWN = {"aten", "prims"}
"""The namespaces of operators that do what their schema says, and nothing else."""

# The widest range of integers whose draws are enumerated.
_MOST_INTEGERS = 100_000

_MOST_NUMBERS = 2**15
"""Each is an object of ours: a race among all tokens of a large vocabulary takes minutes."""

# Integers and floats among which a choice moves as it is, if they hold whatever it can be.
_WIDE = (torch.int32, torch.int64, torch.float32, torch.float64)


class Interpreter:
    """Runs operators of a program, following its random numbers.

    `settle` makes the choices in a tensor ordinary numbers. `slacks` has the rankings whose law is
    off, and by how much. Where nobody has looked yet, memory has the placeholder, if one is given,
    and 1 for choices, or else whatever it is that operators leave there: no run may depend on it.
    """

    def __init__(
        self,
        identities: Identities,
        settle: Callable[[Tensor], None],
        *,
        placeholder: int | None = None,
    ) -> None:
        self.identities = identities
        self.settle = settle
        self._placeholder = placeholder
        self.streams = Streams()
        self.slacks: dict[Ranking, Rational] = {}
        self._rankings: dict[object, tuple[Ranking, Rational]] = {}
        self._places: dict[tuple[Ranking, int], Choice] = {}

    def run(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what `func` returns. Raises `NotUnderstood`."""
        self.note(func, args, kwargs)
        return self.follow(func, args, kwargs)

    def note(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the generator of an operator that draws. Raises `NotUnderstood`."""
        if func.namespace not in TORCHS_OWN:
            raise NotUnderstood("is none of torch's own operators: it may draw, or read, unseen")
        name, is_random, _ = _traits(func)
        if name in _DRAWS:
            if not has_generator(args, kwargs):
                raise NotUnderstood("draws on a device that has no generator")
            try:
                self.streams.draw(_bound(func, args, kwargs).get("generator"))
            except Rewound as reason:
                raise NotUnderstood(str(reason)) from None
        elif is_random:
            raise NotUnderstood("draws random numbers of a kind that is not known")

    def follow(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what `func`, which was noted, returns. Raises `NotUnderstood`."""
        name, _, reads_no_values = _traits(func)
        if name in _DRAWS:
            return _DRAWS[name](self, func, args, kwargs)
        if reads_no_values:
            return ran(func, args, kwargs)
        touched = self.identities.among(tensors_in((*args, *kwargs.values())))
        if not touched:
            return ran(func, args, kwargs)
        if _written(func, kwargs):
            return self._run_into(func, args, kwargs)
        return self._follow(func, args, kwargs, touched)

    def _run_into(self, func: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run an operator that has `out=` arguments on fresh ones, then copy into the given."""
        given = {name: kwargs[name] for name in _written(func, kwargs)}
        for name, out in given.items():
            others = [other for also, other in given.items() if also != name]
            _require_written_apart(func, out, [*tensors_in(args), *others])
        fresh = {name: out.new_empty(0) for name, out in given.items()}
        rerouted = {**kwargs, **fresh}
        touched = self.identities.among(tensors_in((*args, *rerouted.values())))
        self._follow(func, args, rerouted, touched)
        for name, out in given.items():
            if out.numel() and out.shape != fresh[name].shape:
                raise NotUnderstood("writes to an `out=` of another shape, of which torch warns")
            out.resize_(fresh[name].shape).copy_(fresh[name])
            self._attach(out, self._ids(fresh[name]))
        return tuple(given.values()) if len(given) > 1 else next(iter(given.values()))

    def _follow(
        self, func: OpOverload, args: Any, kwargs: dict[str, Any], touched: list[Tensor]
    ) -> Any:
        """Run an operator, the tensors among whose arguments are `touched` by randomness."""
        name = _name(func)
        if name in _MOVED:
            return self._move(func, args, kwargs, _MOVED[name])
        if name in _LOOKS:
            return _LOOKS[name](self, func, args, kwargs)
        for tensor in touched:
            if name in _WHOLE and self._is_whole(args, kwargs, touched):
                return self._follow_whole(func, args, kwargs)
            self.settle(tensor)
        if name in _ARITHMETIC and any(map(self.identities.has_noise, touched)):
            return self._compute(func, args, kwargs, _ARITHMETIC[name])
        for tensor in touched:
            self.refuse_noise(tensor)
        return ran(func, args, kwargs)

    def refuse_noise(self, tensor: Tensor) -> None:
        """Raise `NotUnderstood` if an element is continuous noise."""
        if self.identities.has_noise(tensor):
            raise NotUnderstood("looks at continuous noise in a way that is not understood")

    # --- drawing -----------------------------------------------------------------------

    def _draw_uniform(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        out = ran(drawn, (func, args, kwargs), {})
        given = _bound(func, args, kwargs)
        low, high = exactly(float(given.get("from", 0.0))), exactly(float(given.get("to", 1.0)))
        if not out.dtype.is_floating_point:
            raise NotUnderstood("draws noise that is not real")
        if low >= high:
            raise NotUnderstood("draws noise from an empty interval")
        steps: list[Affine | Clamp] = [Affine(high - low, low)]
        if out.dtype in _NARROW:
            steps = _narrow_uniform(out.dtype)
            if (low, high) != (ZERO, ONE):
                raise NotUnderstood("draws narrow noise from an interval that is not 0..1")
        return self._fresh(out, _held(Noise(SPENT).then(*steps), out.dtype).afresh)

    def _draw_exponential(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        out = ran(drawn, (func, args, kwargs), {})
        rate = exactly(float(_bound(func, args, kwargs)["lambd"]))
        number = Noise(SPENT).then(Log(), Affine(-1 / rate, ZERO))
        return self._fresh(out, _held(number, out.dtype).afresh)

    def _draw_bernoulli(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        given = _bound(func, args, kwargs)
        chances = given.get("p", args[0])
        self._ordinary([chances])
        out = ran(drawn, (func, args, kwargs), {})
        table = torch.as_tensor(chances, dtype=torch.float64).expand(out.shape)
        weights = iter(table.flatten().tolist())
        if not ((table >= 0) & (table <= 1)).all():
            raise NotUnderstood("tosses coins whose chances are no probabilities")

        return self._fresh(out, lambda: Choice.of(coin(exactly(next(weights)))))

    def _draw_multinomial(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        given = _bound(func, args, kwargs)
        weights: Tensor = given["self"]
        self._ordinary([weights])
        out = ran(drawn, (func, args, kwargs), {})
        rows = weights.detach().double().reshape(-1, weights.shape[-1])
        count, replaced = given["num_samples"], given["replacement"]
        draws = iter(draw for row in rows for draw in self._picks(row, count, replaced=replaced))
        return self._fresh(out, lambda: next(draws))

    def _picks(self, row: Tensor, count: int, *, replaced: bool) -> Iterator[Choice]:
        able = row.nonzero()[:, 0]
        weights = dict(zip(able.tolist(), map(exactly, row[able].tolist()), strict=True))
        if replaced:
            listed = [*weights], distribution([*weights.values()])
            return (Choice.of(Listed(*listed)) for _ in range(count))
        ranked = Ranking(weights)
        if count > len(ranked.rates):
            raise NotUnderstood("draws more outcomes without replacement than have a weight")
        return (self._place(ranked, position) for position in range(count))

    def _draw_integers(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        given = _bound(func, args, kwargs)
        self._ordinary([given["high"]])
        out = ran(drawn, (func, args, kwargs), {})
        low, high = given.get("low", 0), int(given["high"])
        if high - low > _MOST_INTEGERS:
            raise NotUnderstood("draws an integer from a range too wide to be enumerated")
        listed = range(low, high), distribution([ONE] * (high - low))
        return self._fresh(out, lambda: Choice.of(Listed(*listed)))

    def _draw_permutation(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        count = args[0]
        ranked = Ranking(dict.fromkeys(range(count), ONE))
        out = ran(drawn, (func, args, kwargs), {})
        places = iter(range(count))
        return self._fresh(out, lambda: self._place(ranked, next(places)))

    def _fresh(self, out: Tensor, number: Callable[[], Noise | Choice]) -> Tensor:
        """Make every element of `out` a new random number."""
        if out.numel() > _MOST_NUMBERS:
            raise NotUnderstood(
                f"draws {out.numel()} numbers at once; {_MOST_NUMBERS} are followed one by one"
            )
        # Whoever reads noise in spite of everything shall at least read NaN.
        numbers = [number() for _ in range(out.numel())]
        if not all(_is_held(each, out.dtype) for each in numbers if isinstance(each, Choice)):
            raise NotUnderstood("draws whole numbers that its type rounds")
        out.fill_(nan if numbers and isinstance(numbers[0], Noise) else 0)
        ids = [self.identities.id_of(each) for each in numbers]
        self._attach(out, torch.tensor(ids, dtype=torch.int64).view(out.shape))
        return out

    # --- moving ------------------------------------------------------------------------

    def _move(self, func: OpOverload, args: Any, kwargs: Any, moved: Sequence[int]) -> Any:
        if _bound(func, args, kwargs).get("accumulate") or "reduce" in kwargs:
            raise NotUnderstood("accumulates noise")
        for position, argument in enumerate(args):
            if position not in moved:
                self._ordinary([argument])
        self._ordinary(kwargs.values())
        id_args = [self._ids(a) if i in moved else a for i, a in enumerate(args)]
        id_outs = {name: torch.empty(0, dtype=torch.int64) for name in _written(func, kwargs)}
        try:
            ids = func(*id_args, **{**kwargs, **id_outs})
        except Exception as failure:
            self._fail(func, args, kwargs, id_args[0], failure)
            raise
        out = ran(func, args, kwargs)
        sources = self.identities.among(tensors_in(args[i] for i in moved if i < len(args)))
        for source in sources:
            if source.dtype is not out.dtype:
                ids = self._moved_into(out.dtype, source, ids)
        self._attach(out, ids)
        return out

    def _fail(self, func: OpOverload, args: Any, kwargs: Any, ids: Any, failure: Exception) -> None:
        """Raise what torch raises where an operator fails on `ids` that stand for its first tensor.

        What was written in place before it failed is written, if it failed for the same reason.
        """
        try:
            ran(func, args, kwargs)
        except Torchs as torchs:
            is_same = (type(torchs.error), str(torchs.error)) == (type(failure), str(failure))
            if func._schema.name.endswith("_"):
                if not is_same:
                    raise NotUnderstood("fails, and may have moved noise before") from None
                self._attach(args[0], ids)
            raise

    def _moved_into(self, dtype: torch.dtype, source: Tensor, ids: Tensor) -> Tensor:
        """Return ids of elements some of which were moved from a tensor into another type."""
        if not self._fits(source, dtype):
            raise NotUnderstood("moves random numbers into a narrower type")
        held = {
            self._id(each): self._id(_held(each, dtype))
            for each in self.identities.numbers(source)
            if isinstance(each, Noise)
        }
        return _each(ids, lambda _, identity: held.get(identity, identity))

    def _fits(self, source: Tensor, dtype: torch.dtype) -> bool:
        """Return whether random numbers are in `dtype` what they are in the tensor."""
        numbers = [*self.identities.numbers(source)]
        has_noise = any(isinstance(each, Noise) for each in numbers)
        return self._holds(numbers, dtype) and (dtype.is_floating_point or not has_noise)

    def _holds(self, numbers: Iterable[Noise | Choice], dtype: torch.dtype) -> bool:
        """Return whether choices are followed in `dtype`, in which each is what it was."""
        choices = (each for each in numbers if isinstance(each, Choice))
        return dtype in _WIDE and all(_is_held(each, dtype) for each in choices)

    def _ids(self, moved: Any) -> Any:
        """Return what stands for a moved argument when ids are moved in its place."""
        if isinstance(moved, Tensor):
            ids = self.identities.of(moved)
            if ids is None:
                return torch.zeros(moved.shape, dtype=torch.int64, device=moved.device)
            return ids.clone()
        if isinstance(moved, (list, tuple)):
            return [self._ids(each) for each in moved]
        return 0

    def _cast(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        source: Tensor = args[0]
        ids = self._recast(source, kwargs.get("dtype") or source.dtype)
        out: Tensor = ran(func, args, kwargs)
        self._attach(out, ids)
        return out

    def _copy(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        destination, source = args[0], args[1]
        ids = self._recast(source, destination.dtype)
        out: Tensor = ran(func, args, kwargs)
        self._attach(out, ids)
        return out

    def _recast(self, source: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the ids of the tensor's elements after a cast to `dtype`."""
        if dtype is not source.dtype and not self._holds(self.identities.numbers(source), dtype):
            self.settle(source)

        def cast(number: Noise | Choice) -> Noise | Choice:
            if isinstance(number, Choice) or dtype is source.dtype:
                return number
            if not dtype.is_floating_point:
                raise NotUnderstood("makes noise an integer")
            return _held(number, dtype)

        ids = self._ids(source)
        return _each(ids, lambda _, identity: self._id(cast(self.identities.number(identity))))

    # --- arithmetic --------------------------------------------------------------------

    def _compute(self, func: OpOverload, args: Any, kwargs: Any, function: _Function) -> Tensor:
        """Apply a function of one random number, and of one ordinary number if it has two."""
        given = _bound(func, args, kwargs)
        if given.get("rounding_mode") is not None:
            raise NotUnderstood("rounds noise")
        operands: list[Any] = [a for a in args if isinstance(a, (Tensor, int, float))][:2]
        if _name(func) in ("clamp", "clamp_min", "clamp_max"):
            operands = operands[:1]
            if any(isinstance(given.get(end), Tensor) for end in ("min", "max")):
                raise NotUnderstood("clamps noise by tensors")
        ids, others = self._operands(func, args, kwargs, operands)
        out: Tensor = ran(func, args, kwargs)
        if out.dtype.is_complex:
            raise NotUnderstood("combines noise with a number that is not real")
        if out.dtype in _NARROW:
            _require_rounded_once(out.dtype, operands, given)
        constants: dict[int, float] = {}

        def image(place: int, identity: int) -> int:
            first = identity > 0
            noise = self.identities.number(abs(identity))
            assert isinstance(noise, Noise)
            if noise.uniform is SPENT:
                return self._spent()
            result = function(_Operation(noise, others[place], given, first=first))
            if isinstance(result, Noise):
                return self._id(_held(result, out.dtype))
            if noise.can_be_nan:
                raise NotUnderstood("makes a number of noise that may be none")
            constants[place] = result
            return 0

        new_ids = _each(ids, image)
        _write(out, constants)
        self._attach(out, new_ids)
        return out

    def _operands(
        self, func: OpOverload, args: Any, kwargs: Any, operands: Sequence[Any]
    ) -> tuple[Tensor, list[float]]:
        """Broadcast one or two operands; return ids and the ordinary numbers opposite to them.

        An id is negative where the random number is the second operand.
        """
        if len(operands) == 1:
            ids = self._ids(operands[0])
            return ids, [nan] * ids.numel()
        dtype = torch.result_type(*operands)
        if dtype.is_complex:
            raise NotUnderstood("combines noise with a number that is not real")
        tensors = [
            operand if isinstance(operand, Tensor) else torch.tensor(operand, dtype=torch.float64)
            for operand in operands
        ]
        try:
            first, second = torch.broadcast_tensors(*map(self._ids, tensors))  # type: ignore[no-untyped-call]  # torch is
        except RuntimeError:
            # Torch says in its own words what does not go together.
            ran(func, args, kwargs)
            raise
        if ((first != 0) & (second != 0)).any():
            raise NotUnderstood("combines two random numbers")
        if ((first == -1) | (second == -1)).any():
            self.identities.number(-1)
        if dtype in _NARROW:
            self._require_narrow(_name(func), tensors, dtype)
        left, right = (tensor.to(dtype).double().expand(first.shape) for tensor in tensors)
        others = torch.where(first != 0, right, left)
        return first - second, others.flatten().tolist()

    def _require_narrow(self, name: str, operands: Iterable[Tensor], dtype: torch.dtype) -> None:
        """Require that torch rounds no operand where it is rounded here, nor the other way."""
        for operand in operands:
            if self.identities.has_noise(operand):
                if operand.dtype is not dtype:
                    raise NotUnderstood("combines wide noise with narrow numbers")
            elif name in _UNROUNDED and (operand.to(dtype).double() != operand.double()).any():
                raise NotUnderstood("combines narrow noise with a number that its type rounds")

    def _is_whole(self, args: Any, kwargs: Any, touched: list[Tensor]) -> bool:
        """Return whether an operator computes whole numbers, each of one choice at most."""
        given = [*tensors_in(args)]
        kinds = {tensor.dtype for tensor in given}
        if len(kinds) != 1 or kinds.isdisjoint(_INTEGERS) or not all(map(_is_whole, args)):
            return False
        if any(type(each) is not int for each in kwargs.values()):
            return False
        if not all(map(self._is_of_draws, touched)):
            return False
        try:
            return int(self._drawn_in(given).sum(0).max()) == 1
        except RuntimeError:
            # Shapes that do not go together: torch says so in its own words.
            return False

    def _is_of_draws(self, tensor: Tensor) -> bool:
        numbers = self.identities.numbers(tensor)
        return all(isinstance(each, Choice) and each.draw is not None for each in numbers)

    def _follow_whole(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Run an operator on whole numbers, and follow the choices among them."""
        given = [*tensors_in(args)]
        # No tensor of the program's is held by what outlives the operator.
        form = [Tensor if isinstance(each, Tensor) else each for each in args]
        random = self._drawn_in(given)
        shown = [tensor.expand(random[0].shape).flatten().clone() for tensor in given]
        drawn = random.reshape(len(given), -1)
        ids = sum(self._ids(tensor) for tensor in given).expand(random[0].shape)

        def image(place: int, identity: int) -> int:
            one = self.identities.number(identity)
            assert isinstance(one, Choice)

            def images(values: Tensor) -> Tensor:
                mine = iter(
                    values.to(own.dtype) if is_it else own[place].expand(len(values))
                    for own, is_it in zip(shown, drawn[:, place].tolist(), strict=True)
                )
                # What is written in place is a memory of its own.
                one_by_one = [next(mine).clone() if each is Tensor else each for each in form]
                found: Tensor = func(*one_by_one, **kwargs)
                return found

            return self._id(Choice.of(Image(one, images)))

        images = _each(ids, image)
        out = ran(func, args, kwargs)
        self._attach(out, images)
        return out

    def _drawn_in(self, given: Sequence[Tensor]) -> Tensor:
        """Return which elements [n, ...] of n tensors are random, in the shape that all share."""
        return torch.stack(torch.broadcast_tensors(*(self._ids(each) != 0 for each in given)))  # type: ignore[no-untyped-call]  # torch is

    # --- looking -----------------------------------------------------------------------

    def _compare(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        self._settle_all(args)
        if not self._any_noise(args):
            return ran(func, args, kwargs)  # type: ignore[no-any-return]  # operators are untyped
        ids, others = self._operands(func, args, kwargs, args[:2])
        out: Tensor = ran(func, args, kwargs)
        name = _name(func)
        constants: dict[int, float] = {}

        def image(place: int, identity: int) -> int:
            if isnan(others[place]):
                constants[place] = name == "ne"
                return 0
            return compared(identity, others[place])

        # Thousands of tokens may have no weight, and one running sum.
        @cache
        def compared(identity: int, other: float) -> int:
            noise = self.identities.number(abs(identity))
            assert isinstance(noise, Noise)
            edge = extended(other)
            if name in _RELATIONS:
                relation = _RELATIONS[name]
                if identity < 0:
                    relation = _REVERSED[relation]
                return self._id(Choice(lambda world: int(noise.compare(relation, edge, world))))

            def equals(world: World) -> bool:
                at_most = noise.compare(AT_MOST, edge, world)
                return at_most and noise.compare(AT_LEAST, edge, world)

            return self._id(Choice(lambda world: int(equals(world) == (name == "eq"))))

        images = _each(ids, image)
        _write(out, constants)
        self._attach(out, images)
        return out

    def _classify(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        """Answer isnan, isinf and isfinite: noise is finite and a number."""
        self._settle_all(args)
        out: Tensor = ran(func, args, kwargs)
        ids = self.identities.of(args[0])
        if ids is not None:
            noises = [*self.identities.noises(args[0])]
            if any(x.uniform is SPENT or x.can_be(inf) or x.can_be(-inf) for x in noises):
                raise NotUnderstood("classifies noise that may be infinite")
            if any(x.can_be_nan for x in noises):
                raise NotUnderstood("classifies noise that may be no number")
            out[ids != 0] = _name(func) == "isfinite"
        return out

    def _rank(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Answer argmax, argmin, max, min, topk and sort along a dimension."""
        values: Tensor = args[0]
        self._settle_all(args)
        if not self._any_noise(args):
            return ran(func, args, kwargs)
        name, given = _name(func), _bound(func, args, kwargs)
        largest = name in ("argmax", "max") or bool(given.get("largest") or given.get("descending"))
        keep = given.get("keepdim", True)
        dim = given.get("dim")
        if "other" in given or values.dim() == 0:
            raise NotUnderstood("takes the larger or smaller of noise and something else")
        if given.get("sorted") is False and given["k"] > 1:
            raise NotUnderstood("takes the largest of noise in an order that torch leaves open")
        ids, known = self._ids(values), values.detach().double()
        if name in ("argmin", "min") and known[ids == 0].isnan().any():
            raise NotUnderstood("races noise against NaN, which is the smallest here")
        out = ran(func, args, kwargs)
        if name in ("max", "min") and dim is None:
            self._attach(out, torch.tensor(self._spent()))
            return out
        if dim is None:
            ids, known, dim = ids.flatten(), known.flatten(), 0
        indices = out if isinstance(out, Tensor) else out[1]
        rows = zip(
            ids.movedim(dim, -1).reshape(-1, ids.shape[dim]).tolist(),
            known.movedim(dim, -1).reshape(-1, ids.shape[dim]).tolist(),
            strict=True,
        )
        count = indices.shape[dim] if keep and indices.dim() else 1
        ranked = [self._ranked(name, row, plain, count, largest=largest) for row, plain in rows]
        shape = [size for axis, size in enumerate(ids.shape) if axis != dim % ids.dim()]
        placed = torch.tensor(ranked, dtype=torch.int64).reshape(*shape, count)
        placed = placed.movedim(-1, dim).reshape(indices.shape)
        self._attach(indices, placed)
        if not isinstance(out, Tensor):
            self._attach(out[0], _each(placed, lambda _, __: self._spent()))
        return out

    def _ranked(
        self, name: str, ids: list[int], known: list[float], count: int, *, largest: bool
    ) -> list[int]:
        """Return the ids of the first `count` places in a row, all 0 if it holds no noise."""
        if not any(ids):
            return [0] * count
        contenders = tuple(
            self.identities.number(identity) if identity else value
            for identity, value in zip(ids, known, strict=True)
        )
        key = (contenders, largest)
        if key not in self._rankings:
            noises = [c for c in contenders if not isinstance(c, Choice)]
            self._rankings[key] = ranking(noises, largest=largest)
        found, slack = self._rankings[key]
        swamped = [c for c in contenders if isinstance(c, Noise) and c.is_swamped]
        if swamped and 1 < count > len(contenders) - len(swamped):
            raise NotUnderstood("orders noise that rounding has swamped")
        if name == "topk":
            self._require_no_tie(found, known, count)
        if slack:
            self.slacks[found] = slack
        return [self._id(self._place(found, place)) for place in range(count)]

    def _require_no_tie(self, found: Ranking, known: list[float], count: int) -> None:
        """Require that the first `count` places do not depend on which of equals comes first."""
        taken = max(count - len(found.rates), 0)
        last = [known[contender] for contender in found.others[: taken + 1]]
        if taken and any(left == right or isnan(left) for left, right in pairwise(last)):
            raise NotUnderstood("takes one of equals, in an order that torch leaves open")

    def _bin(self, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
        """Answer searchsorted and bucketize: how many of the sorted edges lie below noise."""
        given = _bound(func, args, kwargs)
        is_search = _name(func) == "searchsorted"
        edges, values = (args[0], args[1]) if is_search else (args[1], args[0])
        self._ordinary([edges, given.get("sorter")])
        self._settle_all([values])
        if not isinstance(values, Tensor) or not self.identities.has_noise(values):
            return ran(func, args, kwargs)  # type: ignore[no-any-return]  # operators are untyped
        if given.get("sorter") is not None:
            raise NotUnderstood("searches noise through a sorter")
        right = given.get("side") == "right" or bool(given.get("right"))
        out: Tensor = ran(func, args, kwargs)
        ids = self._ids(values)
        row_length = values.shape[-1] if edges.dim() > 1 else max(values.numel(), 1)
        rows = edges.detach().double().reshape(prod(edges.shape[:-1]), edges.shape[-1])
        if not (rows[:, 1:] >= rows[:, :-1]).all() or rows.isnan().any():
            raise NotUnderstood("searches noise among edges that are not sorted")
        relation = AT_LEAST if right else MORE

        def image(place: int, identity: int) -> int:
            noise = self.identities.number(identity)
            assert isinstance(noise, Noise)
            if noise.is_swamped:
                raise NotUnderstood("searches noise that rounding has swamped")
            return self._id(Choice.of(Bins(noise, rows[place // row_length].numpy(), relation)))

        self._attach(out, _each(ids, image))
        return out

    # --- small things ------------------------------------------------------------------

    def _attach(self, tensor: Tensor, ids: Tensor) -> None:
        """Declare what the tensor's elements are; at once, where others see its memory."""
        self.identities.attach(tensor, ids)
        if self._placeholder is not None and ids.any():
            # Choices are 0 in other runs.
            shown = self._placeholder if self.identities.has_noise(tensor) else 1
            with torch.inference_mode():
                tensor.detach().masked_fill_(ids != 0, shown)
        if self.identities.is_exposed(tensor):
            self._ordinary([tensor])

    def _id(self, number: Noise | Choice) -> int:
        return self.identities.id_of(number)

    def _place(self, ranked: Ranking, place: int) -> Choice:
        if (ranked, place) not in self._places:
            self._places[ranked, place] = (
                Choice(lambda world: ranked.at(place, world), among=ranked.within)
                if place
                else Choice.of(Winner(ranked))
            )
        return self._places[ranked, place]

    def _spent(self) -> int:
        """Return the id of noise that nobody may look at: the value of a race's winner."""
        return self._id(Noise(SPENT))

    def _settle_all(self, values: Iterable[Any]) -> None:
        for tensor in tensors_in(values):
            self.settle(tensor)

    def _ordinary(self, values: Iterable[Any]) -> None:
        """Settle all tensors among the values, and refuse noise in them."""
        for tensor in tensors_in(values):
            self.settle(tensor)
            self.refuse_noise(tensor)

    def _any_noise(self, values: Iterable[Any]) -> bool:
        return any(self.identities.has_noise(tensor) for tensor in tensors_in(values))


class _Operation:
    """A random number, the ordinary number that it meets, and the operator's arguments."""

    def __init__(self, noise: Noise, other: float, given: dict[str, Any], *, first: bool) -> None:
        self.noise = noise
        self.other = other
        self.first = first
        self.given = given

    def scaled(self, noise: Noise, factor: float) -> Noise | float:
        if factor == 0 and (noise.can_be(inf) or noise.can_be(-inf)):
            raise NotUnderstood("multiplies noise that may be infinite by zero")
        if isnan(factor):
            return nan
        if factor == 0 or isinf(factor):
            return factor * self.sign(noise)
        return noise.then(Affine(exactly(factor), ZERO))

    def shifted(self, noise: Noise | float, shift: float) -> Noise | float:
        if isinstance(noise, Noise) and isinf(shift) and -shift in noise.likely:
            raise NotUnderstood("adds infinity to noise that may be infinite")
        if isinstance(noise, float) or isinf(shift) or isnan(shift):
            return shift + noise if isinstance(noise, float) else shift
        return noise.then(Affine(ONE, exactly(shift)))

    def sign(self, noise: Noise) -> int:
        low, high = noise.range
        if low < 0 < high or noise.can_be(ZERO):
            raise NotUnderstood("combines noise of either sign with zero or infinity")
        return 1 if low >= 0 else -1

    def add(self, sign: int = 1) -> Noise | float:
        """Return first + sign * alpha * second."""
        weight = self.weight(sign)
        if self.first:
            return self.shifted(self.noise, weight * self.other)
        return self.shifted(self.scaled(self.noise, weight), self.other)

    def weight(self, sign: int) -> float:
        """Return sign * alpha, of which an integer 0 is positive."""
        alpha = self.given.get("alpha", 1)
        if self.noise.has_atoms and abs(alpha) != 1:
            raise NotUnderstood("computes noise that has atoms of what is rounded on the way")
        return float(sign * alpha)

    def subtract_reversed(self) -> Noise | float:
        """Return other - alpha * self, as rsub does."""
        weight = self.weight(-1)
        if self.first:
            return self.shifted(self.scaled(self.noise, weight), self.other)
        return self.shifted(self.noise, weight * self.other)

    def multiply(self) -> Noise | float:
        return self.scaled(self.noise, self.other)

    def divide(self) -> Noise | float:
        if not self.first and self.other == 0:
            return self.other * self.sign(self.noise)
        if not self.first:
            return self.scaled(self.inverse(), self.other)
        if self.other == 0:
            # The zero's own sign counts: x / -0.0 is negative for positive x.
            return copysign(inf, self.other) * self.sign(self.noise)
        if isinf(self.other) and any(map(is_infinite, self.noise.likely)):
            raise NotUnderstood("divides noise that may be infinite by infinity")
        if isinf(self.other) or isnan(self.other):
            return copysign(0.0, self.other) * self.sign(self.noise) if isinf(self.other) else nan
        return self.noise.then(Affine(1 / exactly(self.other), ZERO))

    def inverse(self) -> Noise:
        if self.noise.can_be(ZERO):
            raise NotUnderstood("divides by noise that may be zero")
        return self.noise.then(Reciprocal())

    def power(self) -> Noise | float:
        low, high = self.noise.range
        if not self.first or low < 0:
            raise NotUnderstood("raises to a power what is not positive noise")
        if self.other == 0:
            return 1.0
        if isinf(self.other) and high <= 1 and not self.noise.can_be(ONE):
            return 0.0 if self.other > 0 else inf
        if isinf(self.other) or isnan(self.other):
            raise NotUnderstood("raises noise to a power that is no number")
        return self.noise.then(Log(), Affine(exactly(self.other), ZERO), Exp())

    def clamp(self) -> Noise | float:
        low, high = (self.bound(end) for end in ("min", "max"))
        return self.noise.then(
            Clamp(
                -inf if low is None else extended(low),
                inf if high is None else extended(high),
            )
        )

    def bound(self, end: str) -> float | None:
        """Return the end of a clamp, rounded to the tensor's type as the operator does."""
        value = self.given.get(end)
        dtype = self.given["self"].dtype
        return None if value is None else float(torch.tensor(value, dtype=dtype))

    def limit(self, *, above: bool) -> Noise | float:
        if isnan(self.other):
            return nan
        edge = extended(self.other)
        return self.noise.then(Clamp(edge, inf) if above else Clamp(-inf, edge))

    def log(self, base: int | None = None) -> Noise | float:
        noise = self.noise.then(Log())
        return noise if base is None else noise.then(Affine(1 / log(rational(base)), ZERO))

    def absolute(self) -> Noise | float:
        return self.noise.then(Affine(rational(self.sign(self.noise)), ZERO))


_Function = Callable[[_Operation], Noise | float]

_ARITHMETIC: dict[str, _Function] = {
    "abs": _Operation.absolute,
    "add": _Operation.add,
    "clamp": _Operation.clamp,
    "clamp_max": _Operation.clamp,
    "clamp_min": _Operation.clamp,
    "div": _Operation.divide,
    "exp": lambda x: x.noise.then(Exp()),
    "expm1": lambda x: x.noise.then(Exp(), Affine(ONE, -ONE)),
    "log": _Operation.log,
    "log10": lambda x: x.log(10),
    "log1p": lambda x: x.noise.then(Affine(ONE, ONE), Log()),
    "log2": lambda x: x.log(2),
    "maximum": lambda x: x.limit(above=True),
    "minimum": lambda x: x.limit(above=False),
    "mul": _Operation.multiply,
    "neg": lambda x: x.noise.then(Affine(-ONE, ZERO)),
    "pow": _Operation.power,
    "reciprocal": _Operation.inverse,
    "rsub": _Operation.subtract_reversed,
    "sqrt": lambda x: x.noise.then(Log(), Affine(rational("1/2"), ZERO), Exp()),
    "sub": lambda x: x.add(-1),
}

# Of these a whole number is followed that comes of a choice, whoever else stands beside it.
_WHOLE = {
    *("add", "clamp", "clamp_max", "clamp_min", "maximum", "minimum", "mul", "neg", "rsub", "sub"),
}

# Of these torch does not round an operand that is a number to the type of the result first.
_UNROUNDED = {"div", "mul", "pow"}

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)

_DRAWS: dict[str, Callable[..., Tensor]] = {
    "bernoulli": Interpreter._draw_bernoulli,
    "exponential": Interpreter._draw_exponential,
    "multinomial": Interpreter._draw_multinomial,
    "rand": Interpreter._draw_uniform,
    "rand_like": Interpreter._draw_uniform,
    "randint": Interpreter._draw_integers,
    "randint_like": Interpreter._draw_integers,
    "randperm": Interpreter._draw_permutation,
    "uniform": Interpreter._draw_uniform,
}

_LOOKS: dict[str, Callable[..., Any]] = {
    "_to_copy": Interpreter._cast,
    "argmax": Interpreter._rank,
    "argmin": Interpreter._rank,
    "bucketize": Interpreter._bin,
    "copy": Interpreter._copy,
    "eq": Interpreter._compare,
    "ge": Interpreter._compare,
    "gt": Interpreter._compare,
    "isfinite": Interpreter._classify,
    "isinf": Interpreter._classify,
    "isnan": Interpreter._classify,
    "le": Interpreter._compare,
    "lt": Interpreter._compare,
    "max": Interpreter._rank,
    "min": Interpreter._rank,
    "ne": Interpreter._compare,
    "searchsorted": Interpreter._bin,
    "sort": Interpreter._rank,
    "topk": Interpreter._rank,
}


@cache
def _name(func: OpOverload) -> str:
    """Return the operator's name, the same for its in-place form."""
    name = func._schema.name.removeprefix("aten::")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


@cache
def _traits(func: OpOverload) -> tuple[str, bool, bool]:
    """Return the name, whether the operator draws, and whether it reads no element.

    Views, and results that depend on shapes and types alone, read no element.
    """
    name, overload = _name(func), func._overloadname
    # `view(dtype)` reads bits, and `out=` arguments are written to.
    harmless = name in _VIEWS | _SHAPES and overload not in ("dtype", "out")
    return name, torch.Tag.nondeterministic_seeded in func.tags, harmless


def reads_no_values(func: OpOverload) -> bool:
    """Return whether an operator reads no element of a tensor, nor draws."""
    _, is_random, is_harmless = _traits(func)
    return is_harmless and not is_random


@cache
def _may_write(func: OpOverload) -> tuple[str, ...]:
    """Return the names of the operator's `out=` arguments."""
    arguments = func._schema.arguments
    return tuple(a.name for a in arguments if a.kwarg_only and a.alias_info is not None)


def _written(func: OpOverload, kwargs: dict[str, Any]) -> list[str]:
    """Return the names of the `out=` arguments that are given."""
    return [name for name in _may_write(func) if kwargs.get(name) is not None]


def _narrow_uniform(dtype: torch.dtype) -> list[Affine | Clamp]:
    """Return the steps from an ideal uniform number to torch's in a narrow type, but the rounding.

    Torch rounds a wide one, and what that makes 1 becomes 0. As laws go, the last half step
    below 1 may as well lie below 0.
    """
    if not _rounds_uniforms(dtype):
        raise NotUnderstood("draws narrow noise, whose law in this release of torch is not known")
    half_step = ONE / 2 ** (_NARROW[dtype].digits + 1)
    return [Affine(ONE, -half_step), Clamp(ZERO, inf)]


@cache
def _rounds_uniforms(dtype: torch.dtype) -> bool:
    """Return whether this torch makes narrow uniform numbers as said; older ones did not."""
    streams = [_Generator().manual_seed(1) for _ in range(2)]
    narrow = torch.rand(10_000, dtype=dtype, generator=streams[0])
    rounded = torch.rand(10_000, generator=streams[1]).to(dtype)
    return torch.equal(narrow, rounded.masked_fill(rounded == 1, 0))


def _require_written_apart(func: OpOverload, out: Tensor, read: Iterable[Tensor]) -> None:
    """Require that an operator can write its result anywhere else, and have it copied then.

    What overlaps torch refuses, or not: so no tensor may lie in another's memory, but for an
    operator that goes element by element over one and the same.
    """
    is_repeated = any(
        size > 1 and stride == 0 for size, stride in zip(out.shape, out.stride(), strict=True)
    )
    shared = [t for t in read if t.untyped_storage()._cdata == out.untyped_storage()._cdata]
    goes_along = torch.Tag.pointwise in func.tags
    if is_repeated or not all(goes_along and _is_same(tensor, out) for tensor in shared):
        raise NotUnderstood("writes to an `out=` that overlaps with what it reads, or itself")


def _is_same(one: Tensor, other: Tensor) -> bool:
    return (one.dtype, one.shape, one.stride(), one.storage_offset()) == (
        other.dtype,
        other.shape,
        other.stride(),
        other.storage_offset(),
    )


def _bound(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments by name, defaults included."""
    names = [argument.name for argument in func._schema.arguments]
    defaults = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors in a nest of tuples, lists and dictionaries."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def _held(noise: Noise, dtype: torch.dtype) -> Noise:
    """Return noise as a type holds it: rounded, or as it is, where that is taken as ideal."""
    if dtype in _NARROW:
        return noise.then(_NARROW[dtype])
    if dtype not in _NEARLY:
        raise NotUnderstood("makes noise a number of a type whose rounding is not known")
    least, most = _extent(dtype)
    for end in noise.likely:
        # A guarded logarithm may race, which counts what it is below the guard, and nothing else.
        is_infinity = is_infinite(end) and (noise.can_be(end) or noise.can_be_nan)
        if end != 0 and not is_infinity and not least <= abs(end) <= most:
            raise NotUnderstood(f"makes noise too large, or too small, for {dtype}")
    return noise.held(_NEARLY[dtype])


@cache
def _extent(dtype: torch.dtype) -> tuple[Rational, Rational]:
    """Return the smallest and the largest positive number of a type."""
    info = torch.finfo(dtype)
    return exactly(info.smallest_normal) * exactly(info.eps), exactly(info.max)


def _require_rounded_once(
    dtype: torch.dtype, operands: Sequence[Any], given: dict[str, Any]
) -> None:
    """Require that a narrow result is rounded once, after all that an operator computes."""
    is_wider = len(operands) == 2 and torch.result_type(*operands) is not dtype
    if is_wider or abs(given.get("alpha", 1)) != 1:
        raise NotUnderstood("computes narrow noise of what is rounded on the way")


def _is_held(choice: Choice, dtype: torch.dtype) -> bool:
    """Return whether a type holds whatever a choice can be, exactly."""
    if dtype is torch.int64:
        return True
    held, within = _whole_numbers(dtype), choice.within
    return held.start <= within.start and within.stop <= held.stop


@cache
def _whole_numbers(dtype: torch.dtype) -> range:
    """Return the whole numbers around 0 that a type holds, without a gap."""
    if dtype is torch.bool:
        return range(2)
    if dtype.is_floating_point or dtype.is_complex:
        most = round(2 / torch.finfo(dtype).eps)
        return range(-most, most + 1)
    info = torch.iinfo(dtype)
    return range(info.min, info.max + 1)


def _each(ids: Tensor, image: Callable[[int, int], int]) -> Tensor:
    """Return the ids after `image(place, id)` at every random element."""
    flat = ids.flatten().tolist()
    new = [image(place, identity) if identity else 0 for place, identity in enumerate(flat)]
    return torch.tensor(new, dtype=torch.int64).view(ids.shape)


def _is_whole(argument: Any) -> bool:
    """Return whether an argument is a whole number, or none, or tensors."""
    if isinstance(argument, Tensor):
        return not argument.requires_grad
    return argument is None or type(argument) is int


def _write(out: Tensor, constants: dict[int, float]) -> None:
    """Write numbers into elements of a tensor, counted in row-major order, from first to last."""
    if constants:
        where = torch.zeros(out.numel(), dtype=torch.bool)
        where[[*constants]] = True
        numbers = torch.tensor([*constants.values()], dtype=torch.float64)
        out.masked_scatter_(where.view(out.shape), numbers.to(out))
