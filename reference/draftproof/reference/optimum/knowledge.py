"""The largest mean E[accepted length] of verifiers that do not know all rows.

A *family* is some instances, *worlds*, with weights; a verifier does not know which of them it is
in. The optimum of each world (`stateless`) is for verifiers that know it. Here one verifier serves
all worlds, and sees the same rows in the same way. Both programs are those of `stateless` for all
worlds at once, with unknowns that worlds share:

 - `along_the_path`: the verifier selects a path, and Q'(l) is a function of the rows along l.
 - `from_the_drafts`: the verifier stops somewhere on the drafted paths, as a function of the drafts
   and of all rows along them. Its next token may depend on all rows.
 - `emitted_from_the_drafts`: the next token, too, is a function of the drafts and of the rows along
   them, including the target's rows after them.

A rule for all models is a rule for every family. Worlds of weight 0 have no part in the mean, but
the rule has to serve them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain, combinations

from draftproof.reference.drafting import Drafts, draft_law
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.optimum.length import drafted_prefixes, paths
from draftproof.reference.optimum.linear import Bound, LinearProgram, Maximum, Terms, maximum
from draftproof.reference.rational import ONE, ZERO, Rational, total

Family = Sequence[tuple[Rational, Instance]]
Along = tuple[tuple[Row, Row], ...]
Name = tuple[Path, Along]


def along_the_path(family: Family) -> Maximum:
    """Return the certified largest mean of selections whose law is known along each path.

    The worlds' drafts are i.i.d. paths. No law of a selected path gives a set of paths more than
    the probability that one of them is drafted.
    """
    objective: dict[Hashable, Rational] = {}
    limits: dict[Hashable, Bound] = {}
    equations: dict[Hashable, Bound] = {}
    for weight, world in family:
        selected = [(path, _along(world, path)) for path in paths(world)]
        equations[tuple(selected)] = dict.fromkeys(selected, ONE), ONE

        def kept(prefix: Path, selected: Sequence[Name] = selected) -> Terms:
            """Return A(x), which is the same for worlds with the same Q' at the prefixes of x."""
            return {(prefix, tuple(each for each in selected if each[0][0] == prefix[0])): ONE}

        for prefix, bound in following_the_target(world, kept):
            (name,) = kept(prefix)
            objective[name] = objective.get(name, ZERO) + weight
            limits[name, "target"] = bound
            below = [each for each in selected if each[0][: len(prefix)] == prefix]
            limits[name, "draft"] = {name: ONE, **dict.fromkeys(below, -ONE)}, ZERO
        sizes = range(1, len(selected) + 1)
        for chosen in chain.from_iterable(combinations(selected, size) for size in sizes):
            missed = 1 - total(world.draft.joint(path) for path, _ in chosen)
            limits[chosen] = dict.fromkeys(chosen, ONE), 1 - missed**world.drafts
    return maximum(LinearProgram(objective, list(limits.values()), list(equations.values())))


def from_the_drafts(family: Family) -> Maximum:
    """Return the certified largest mean of verifiers that stop by the drafts and their rows."""
    objective: dict[Hashable, Rational] = {}
    limits: dict[Hashable, Bound] = {}
    for index, (weight, world) in enumerate(family):
        stops: dict[Path, dict[Hashable, Rational]] = {x: {} for x in drafted_prefixes(world)}
        for drafts, mass in _unordered(world).items():
            seen = drafts, tuple(_along(world, path) for path in drafts)
            ends = {path[:size] for path in drafts for size in range(1, len(path) + 1)}
            limits[seen] = {(seen, end): ONE for end in ends}, ONE
            for end in ends:
                name = seen, end
                objective[name] = objective.get(name, ZERO) + weight * mass * len(end)
                for size in range(1, len(end) + 1):
                    stops[end[:size]][name] = mass
        for prefix, bound in following_the_target(world, stops.__getitem__):
            limits[index, prefix] = bound
    return maximum(LinearProgram(objective, list(limits.values())))


def emitted_from_the_drafts(family: Family) -> Maximum:
    """Return the certified largest mean of verifiers that see no row but those along the drafts."""
    objective: dict[Hashable, Rational] = {}
    equations: dict[Hashable, Bound] = {}
    for index, (weight, world) in enumerate(family):
        kept: dict[Path, dict[Hashable, Rational]] = {x: {} for x in drafted_prefixes(world)}
        written: dict[Path, dict[Hashable, Rational]] = {}
        for drafts, mass in _unordered(world).items():
            behind = tuple(map(world.target, drafts))
            seen = drafts, tuple(_along(world, path) for path in drafts), behind
            ends = sorted({path[:size] for path in drafts for size in range(len(path) + 1)})
            emissions = [(end, y) for end in ends for y in range(world.vocabulary)]
            equations[seen] = {(seen, *each): ONE for each in emissions}, ONE
            for end, y in emissions:
                name = seen, end, y
                objective[name] = objective.get(name, ZERO) + weight * mass * len(end)
                written.setdefault((*end, y), {})[name] = mass
                for size in range(1, len(end) + 1):
                    kept[end[:size]][name] = mass
        contexts = [(), *kept]
        for text in [(*z, y) for z in contexts for y in range(world.vocabulary)]:
            context, share = text[:-1], world.target(text[:-1])[text[-1]]
            row = dict(kept.get(text, {}))
            for emission, x in written.get(text, {}).items():
                row[emission] = row.get(emission, ZERO) + x
            for emission, x in kept[context].items() if context else ():
                row[emission] = row.get(emission, ZERO) - share * x
            equations[index, text] = row, ZERO if context else share
    return maximum(LinearProgram(objective, [], list(equations.values())))


def following_the_target(
    world: Instance, kept: Callable[[Path], Terms]
) -> Iterator[tuple[Path, Bound]]:
    """Yield each prefix xy with the bound A(xy) <= A(x) p(y|x), `kept` giving A as unknowns."""
    for prefix in drafted_prefixes(world):
        context, share = prefix[:-1], world.target(prefix[:-1])[prefix[-1]]
        row = dict(kept(prefix))
        for name, x in kept(context).items() if context else ():
            row[name] = row.get(name, ZERO) - share * x
        yield prefix, (row, ZERO if context else share)


def _unordered(world: Instance) -> Law[Drafts]:
    """Return the law of the drafted paths, sorted by their tokens instead of in drawing order."""
    return draft_law(world).map(lambda drawn: tuple(sorted(drawn)))


def _along(world: Instance, path: Path) -> Along:
    """Return both models' rows along a path, at the contexts in which its tokens were drawn."""
    contexts = [path[:size] for size in range(len(path))]
    return tuple((world.target(context), world.draft(context)) for context in contexts)
