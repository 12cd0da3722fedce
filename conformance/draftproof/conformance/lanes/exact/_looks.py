"""Looks: operators that turn noise into choices, by comparisons, races and bins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import inf, isnan, prod
from typing import Any

import numpy
import torch
from torch import Tensor
from torch._ops import OpOverload

from draftproof.conformance.lanes._signature import bound, name_of
from draftproof.conformance.lanes.exact._arithmetic import paired
from draftproof.conformance.lanes.exact._choice import Bins, Choice, Image, passed_by_all
from draftproof.conformance.lanes.exact._elements import Elements, imaged, write
from draftproof.conformance.lanes.exact._errors import NotUnderstood, ran
from draftproof.conformance.lanes.exact._noise import SPENT, Noise, World
from draftproof.conformance.lanes.exact._races import Ranking, ranking
from draftproof.conformance.lanes.exact._steps import AT_LEAST, AT_MOST, LESS, MORE
from draftproof.conformance.lanes.precise import extended, is_infinite

_RELATIONS = {"lt": LESS, "le": AT_MOST, "gt": MORE, "ge": AT_LEAST}

_REVERSED = {LESS: MORE, AT_MOST: AT_LEAST, MORE: LESS, AT_LEAST: AT_MOST}


def _compare(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    foregone = _foregone(elements, func, args, kwargs)
    if foregone is not None:
        return foregone
    elements.settle_all(args)
    if not elements.any_noise(args):
        return ran(func, args, kwargs)  # type: ignore[no-any-return]  # operators are untyped
    return _compare_noise(elements, func, args, kwargs)


def _foregone(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor | None:
    """Return a comparison of choices that comes out the same whatever they are, None if it may not.

    Programs mark the places that have no token by a number that none has, and count the others.
    """
    operands = [each for each in args[:2] if isinstance(each, Tensor)]
    if elements.any_noise(operands):
        return None
    ranges = {
        identity: choice.within
        for each in operands
        for identity, choice in elements.identities.choices(each).items()
    }
    if not ranges:
        return None
    random = [elements.ids(each) for each in operands]
    if len(random) == 2:
        try:
            one, other = torch.broadcast_tensors(*random)  # type: ignore[no-untyped-call]  # torch is
        except RuntimeError:
            # Torch says in its own words what does not go together.
            return None
        if ((one != 0) & (other != 0)).any():
            return None
    # A comparison is monotone in a number, but for equality, which an order on either side decides.
    least, most = (
        [
            _with(each, ids, {identity: within[end] for identity, within in ranges.items()})
            for each, ids in zip(operands, random, strict=True)
        ]
        for end in (0, -1)
    )
    name = name_of(func)
    for each in [name] if name in _RELATIONS else ["lt", "gt"]:
        asked = getattr(torch.ops.aten, each)
        low, high = (ran(asked, _in_place_of(args, ends), {}) for ends in (least, most))
        if not torch.equal(low, high):
            return None
    return ran(func, _in_place_of(args, least), kwargs)  # type: ignore[no-any-return]  # operators are untyped


def _with(tensor: Tensor, ids: Tensor, values: Mapping[int, int]) -> Tensor:
    """Return a tensor with values in the place of its random elements, by their ids."""
    own = [values[identity] for identity in ids[ids != 0].tolist()]
    return tensor.detach().masked_scatter(ids != 0, torch.tensor(own).to(tensor.dtype))


def _in_place_of(args: Sequence[Any], tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return the arguments with other tensors among the first two."""
    others = iter(tensors)
    first = (next(others) if isinstance(each, Tensor) else each for each in args[:2])
    return (*first, *args[2:])


def _compare_noise(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    ids, others = paired(elements, func, args, kwargs, args[:2])
    out: Tensor = ran(func, args, kwargs)
    name, identities = name_of(func), elements.identities
    constants: dict[int, float] = {}

    def image(place: int, identity: int) -> int:
        if isnan(others[place]):
            constants[place] = name == "ne"
            return 0
        found = compared(identity, others[place])
        if isinstance(found, Choice):
            return identities.id_of(found)
        constants[place] = found
        return 0

    # Thousands of tokens may have no weight, and one running sum.
    @cache
    def compared(identity: int, other: float) -> Choice | bool:
        noise = identities.number(abs(identity))
        assert isinstance(noise, Noise)
        edge = extended(other)
        if name in _RELATIONS:
            relation = _RELATIONS[name]
            if identity < 0:
                relation = _REVERSED[relation]
            sure = noise.always(relation, edge)
            if sure is not None:
                return sure
            return Choice(lambda world: int(noise.compare(relation, edge, world)))

        def equals(world: World) -> bool:
            at_most = noise.compare(AT_MOST, edge, world)
            return at_most and noise.compare(AT_LEAST, edge, world)

        return Choice(lambda world: int(equals(world) == (name == "eq")))

    images = imaged(ids, image)
    write(out, constants)
    elements.attach(out, images)
    return out


def _classify(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    """Answer isnan, isinf and isfinite: noise is finite and a number."""
    elements.settle_all(args)
    out: Tensor = ran(func, args, kwargs)
    ids = elements.identities.of(args[0])
    if ids is not None:
        noises = [*elements.identities.noises(args[0])]
        if any(x.uniform is SPENT or x.can_be(inf) or x.can_be(-inf) for x in noises):
            raise NotUnderstood("classifies noise that may be infinite")
        if any(x.can_be_nan for x in noises):
            raise NotUnderstood("classifies noise that may be no number")
        out[ids != 0] = name_of(func) == "isfinite"
    return out


def _rank(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Any:
    """Answer argmax, argmin, max, min, topk and sort along a dimension."""
    values: Tensor = args[0]
    elements.settle_all(args)
    if not elements.any_noise(args):
        return ran(func, args, kwargs)
    name, given = name_of(func), bound(func, args, kwargs)
    largest = name in ("argmax", "max") or bool(given.get("largest") or given.get("descending"))
    keep = given.get("keepdim", True)
    dim = given.get("dim")
    if "other" in given or values.dim() == 0:
        raise NotUnderstood("takes the larger or smaller of noise and something else")
    if given.get("sorted") is False and given["k"] > 1:
        raise NotUnderstood("takes the largest of noise in an order that torch leaves open")
    ids, known = elements.ids(values), values.detach().double()
    if name in ("argmin", "min") and known[ids == 0].isnan().any():
        raise NotUnderstood("races noise against NaN, which is the smallest here")
    out = ran(func, args, kwargs)
    if name in ("max", "min") and dim is None:
        elements.attach(out, torch.tensor(elements.spent()))
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
    ranked = [_ranked(elements, name, row, plain, count, largest=largest) for row, plain in rows]
    shape = [size for axis, size in enumerate(ids.shape) if axis != dim % ids.dim()]
    placed = torch.tensor(ranked, dtype=torch.int64).reshape(*shape, count)
    placed = placed.movedim(-1, dim).reshape(indices.shape)
    elements.attach(indices, placed)
    if not isinstance(out, Tensor):
        elements.attach(out[0], imaged(placed, lambda _, __: elements.spent()))
    return out


def _ranked(
    elements: Elements, name: str, ids: list[int], known: list[float], count: int, *, largest: bool
) -> list[int]:
    """Return the ids of the first `count` places in a row, all 0 if it holds no noise."""
    if not any(ids):
        return [0] * count
    contenders = tuple(
        elements.identities.number(identity) if identity else value
        for identity, value in zip(ids, known, strict=True)
    )
    key = (contenders, largest)
    if key not in elements.rankings:
        noises = [c for c in contenders if not isinstance(c, Choice)]
        elements.rankings[key] = ranking(noises, largest=largest)
    found, slack = elements.rankings[key]
    swamped = [c for c in contenders if isinstance(c, Noise) and c.is_swamped]
    if swamped and 1 < count > len(contenders) - len(swamped):
        raise NotUnderstood("orders noise that rounding has swamped")
    if name == "topk":
        _require_no_tie(found, known, count)
    if slack:
        elements.slacks[found] = slack
    return [elements.identities.id_of(elements.place(found, place)) for place in range(count)]


def _require_no_tie(found: Ranking, known: list[float], count: int) -> None:
    """Require that the first `count` places do not depend on which of equals comes first."""
    taken = max(count - len(found.rates), 0)
    last = [known[contender] for contender in found.others[: taken + 1]]
    if taken and any(left == right or isnan(left) for left, right in pairwise(last)):
        raise NotUnderstood("takes one of equals, in an order that torch leaves open")


def _bin(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    """Answer searchsorted and bucketize: how many of the sorted edges lie below noise."""
    given = bound(func, args, kwargs)
    is_search = name_of(func) == "searchsorted"
    edges, values = (args[0], args[1]) if is_search else (args[1], args[0])
    elements.require_ordinary([edges, given.get("sorter")])
    elements.settle_all([values])
    if not isinstance(values, Tensor) or not elements.identities.has_noise(values):
        return ran(func, args, kwargs)  # type: ignore[no-any-return]  # operators are untyped
    if given.get("sorter") is not None:
        raise NotUnderstood("searches noise through a sorter")
    right = given.get("side") == "right" or bool(given.get("right"))
    out: Tensor = ran(func, args, kwargs)
    ids = elements.ids(values)
    row_length = values.shape[-1] if edges.dim() > 1 else max(values.numel(), 1)
    # The program may write to its edges before anybody looks at what was drawn.
    rows = edges.detach().to(torch.float64, copy=True)
    rows = rows.reshape(prod(edges.shape[:-1]), edges.shape[-1])
    if not (rows[:, 1:] >= rows[:, :-1]).all() or rows.isnan().any():
        raise NotUnderstood("searches noise among edges that are not sorted")
    relation = AT_LEAST if right else MORE
    constants: dict[int, float] = {}

    def image(place: int, identity: int) -> int:
        noise = elements.identities.number(identity)
        assert isinstance(noise, Noise)
        if noise.is_swamped:
            raise NotUnderstood("searches noise that rounding has swamped")
        row = rows[place // row_length].numpy()
        sure = passed_by_all(noise, row, relation)
        if sure is not None:
            constants[place] = sure
            return 0
        return elements.identities.id_of(Choice.of(Bins(noise, row, relation)))

    images = imaged(ids, image)
    write(out, constants)
    elements.attach(out, images)
    return out


# The widest range of whole numbers to which noise is rounded.
_MOST_INTEGERS = 100_000


def rounded_down(elements: Elements, identity: int) -> int:
    """Return the id of the whole number below noise. Raises `NotUnderstood`."""
    noise = elements.identities.number(identity)
    assert isinstance(noise, Noise)
    if noise.uniform is SPENT or any(map(is_infinite, noise.range)):
        raise NotUnderstood("makes a whole number of noise that has no ends")
    low, high = (int(end // 1) for end in noise.range)
    if high - low > _MOST_INTEGERS:
        raise NotUnderstood("makes a whole number of noise, one of very many")
    passed = Choice.of(Bins(noise, numpy.arange(low + 1.0, high + 1.0), AT_LEAST))
    return elements.identities.id_of(
        Choice.of(Image(passed, lambda found: found + low)) if low else passed
    )


def _round(elements: Elements, func: OpOverload, args: Any, kwargs: Any) -> Tensor:
    """Answer floor and trunc."""
    elements.settle_all(args)
    if not elements.any_noise(args):
        return ran(func, args, kwargs)  # type: ignore[no-any-return]  # operators are untyped
    if name_of(func) == "trunc" and any(
        n.range[0] < 0 for n in elements.identities.noises(args[0])
    ):
        raise NotUnderstood("cuts noise off towards zero that can be negative")
    ids = imaged(elements.ids(args[0]), lambda _, identity: rounded_down(elements, identity))
    out: Tensor = ran(func, args, kwargs)
    elements.attach(out, ids)
    return out


LOOKS: dict[str, Callable[..., Any]] = {
    "argmax": _rank,
    "argmin": _rank,
    "bucketize": _bin,
    "eq": _compare,
    "floor": _round,
    "ge": _compare,
    "gt": _compare,
    "isfinite": _classify,
    "isinf": _classify,
    "isnan": _classify,
    "le": _compare,
    "lt": _compare,
    "max": _rank,
    "min": _rank,
    "ne": _compare,
    "searchsorted": _bin,
    "sort": _rank,
    "topk": _rank,
    "trunc": _round,
}
