"""Where the formulas of laws, algorithms and optima are asked: what their names stand for.

One side of an equation is what the reference came to: a law that it enumerated, an optimum that it
certified, all drafts that there can be. The other is computed by the equation from p and q.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product
from operator import itemgetter
from typing import Any

from formulas.formula import Define, Names, Text, to

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.drafting import (
    SCHEMES,
    Drafts,
    draft_law,
    draft_paths,
    most_probable,
    sibling_law,
    subsets,
)
from draftproof.reference.emission import Emission
from draftproof.reference.law import Law
from draftproof.reference.ledger.instances import example, row, seeded
from draftproof.reference.mixture import most_kept_next, ranked_below
from draftproof.reference.model import Instance, Model, Path, Row
from draftproof.reference.optimum import acceptance_rate
from draftproof.reference.optimum.acceptance_rate import best_rate
from draftproof.reference.optimum.k_seq_factor import least_factor
from draftproof.reference.optimum.length import LengthOptimum, paths
from draftproof.reference.process import expected_accepted
from draftproof.reference.rational import ONE, ZERO, Rational, total
from draftproof.reference.rows import normalised, without
from draftproof.reference.scores import UNIFORM, Scores, split
from draftproof.reference.verifiers import ALGORITHMS, emission_law, verification_law
from draftproof.reference.verifiers.multipath_block import by_ratio

Of = Callable[[int], Rational]

ONE_PATH = (
    example("1/3 2/3", "2/3 1/3", length=2),
    example("1/2 1/4 1/4", "0 3/4 1/4", length=2),
    *seeded(4, 2, length=2),
    *seeded(3, 3, length=2),
    *seeded(2, 2, length=3),
)
"""Instances of one path, most of them with a row for every context; with zeros and ties."""

SEVERAL_PATHS = (
    example("1/3 2/3", "2/3 1/3", length=2, drafts=2),
    *seeded(3, 2, length=2, drafts=2),
    *seeded(2, 3, length=1, drafts=3),
)
"""Instances of several i.i.d. paths."""


def one_token(scheme: str, *drafts: int) -> list[Instance]:
    """Return instances of one position, whose draft does not run out of tokens."""
    rows = (
        ("1/2 1/3 1/6", "1/6 1/3 1/2"),
        ("0 1/3 2/3", "2/3 1/6 1/6"),
        ("5/8 1/8 1/8 1/8", "1/4 1/4 3/8 1/8"),
        ("1/5 2/5 2/5", "1/5 3/5 1/5"),
    )
    return [example(p, q, drafts=k, scheme=scheme) for k in drafts for p, q in rows]


PAIRS = [instance for scheme in SCHEMES for instance in one_token(scheme, 2)]
"""Instances of two drafts of one token."""


def models(instance: Instance) -> Names:
    """Return the names that every formula on an instance has."""
    length, vocabulary = instance.length, range(instance.vocabulary)
    return {
        "p": _probability(instance.target),
        "q": _probability(instance.draft),
        "L": length,
        "K": instance.drafts,
        "V": vocabulary,
        "contexts": [Text(z) for z in instance.draft.reachable(length - 1)],
        "prefixes": [Text(x) for x in instance.draft.reachable(length) if x],
        "texts": lambda size: [Text(x) for x in product(vocabulary, repeat=size)],
    }


def _probability(model: Model) -> Callable[..., Rational]:
    """Return p of the formulas: of a token, a text or a set of tokens, after a text or none."""

    def probability(what: Any, context: Text | None = None) -> Rational:
        before = context.tokens if context else ()
        if isinstance(what, Text):
            return model.after(before).joint(what.tokens)
        if isinstance(what, frozenset):
            return total(model(before)[token] for token in what)
        chance: Rational = model(before)[what]
        return chance

    return probability


def at_each(names: Names, **choices: Iterable[Any]) -> Iterator[Names]:
    """Yield the names with every choice of what more names stand for."""
    for chosen in product(*choices.values()):
        yield {**names, **dict(zip(choices, chosen, strict=True))}


# --- laws and schemes -----------------------------------------------------------------------


def distances(_: Define) -> Iterator[Names]:
    """Pairs of laws, with all events."""
    rows = [row(each) for each in ("1/3 2/3 0", "1/2 1/4 1/4", "0 0 1", "1/7 3/7 3/7")]
    for p, q in product(rows, repeat=2):
        first, second = Law(dict(enumerate(p))), Law(dict(enumerate(q)))
        yield {
            "TV": first.total_variation(second),
            "P": _measure(first),
            "R": _measure(second),
            "events": list(map(frozenset, subsets(range(len(p))))),
            "outcomes": range(len(p)),
        }


def _measure(law: Law[int]) -> Callable[[int | Collection[int]], Rational]:
    return lambda what: law[what] if isinstance(what, int) else total(law[each] for each in what)


def texts(_: Define) -> Iterator[Names]:
    """All texts of L + 1 tokens, beside what token and block verification emit."""
    for name, instance in product(("token", "block"), ONE_PATH[:6]):
        emitted = emission_law(ALGORITHMS[name], instance)
        said = emitted.map(lambda emission: emission.tokens)
        names = {**models(instance), "emitted": lambda z, said=said: said[z.tokens]}
        for x in instance.target.text(instance.length + 1):
            yield {**names, "x": Text(x)}


def drawn_by(scheme: str, _: Define) -> Iterator[Names]:
    """All siblings x that a scheme can draw, with their probability."""
    for instance in one_token(scheme, 2, *(() if scheme == "hub" else (3,))):
        drawn = sibling_law(scheme, instance.draft(()), instance.drafts)
        names = {**models(instance), **hub(instance), **top(instance)}
        names["pair"] = lambda i, j, drawn=drawn: drawn[(i, j)]
        for siblings, weight in drawn.items():
            others = [token for token in siblings if token != names["a"]]
            here = {**names, "x": Text(siblings), "K": len(siblings)}
            yield {**here, "Q": lambda _, weight=weight: weight, "i": (others or siblings)[0]}


def hub(instance: Instance) -> Names:
    """Return the hub a: the most probable token, of equals the smallest."""
    return {"a": most_probable(instance.draft(()), 1)[0]}


def top(instance: Instance) -> Names:
    """Return the set A of the K - 1 most probable tokens."""
    return {"A": frozenset(most_probable(instance.draft(()), instance.drafts - 1))}


# --- verification of one path ---------------------------------------------------------------


def _starting(emitted: Law[Emission]) -> Callable[[Text], Rational]:
    """Return A: the probability that what is accepted starts with a text."""
    return lambda x: emitted.probability(lambda e: e.accepted[: len(x)] == x.tokens)


def _stopped(law: Law[Emission], size: int) -> Rational:
    return law.probability(lambda emission: len(emission.accepted) == size)


def _passing(law: Law[Emission], i: int) -> Rational | None:
    """Return h: the probability of keeping i tokens given that no more are, None if they are."""
    at_most = total(_stopped(law, size) for size in to(0, i))
    return _stopped(law, i) / at_most if at_most else None


def _corrected(law: Law[Emission], i: int) -> Of | None:
    """Return the law of the next token after i accepted ones, None if that never happens."""
    stopped = _stopped(law, i)

    def following(y: int) -> Rational:
        return law.probability(lambda e: len(e.accepted) == i and e.next_token == y) / stopped

    return following if stopped else None


def _on_paths(name: str) -> Iterator[tuple[Names, Law[Emission]]]:
    """Yield the names on every single path, and the law of what is emitted on it.

    w is block verification's weight, as the law has it: how probably each prefix is kept.
    """
    for instance in ONE_PATH:
        starting = _starting(emission_law(ALGORITHMS["block"], instance))
        for path in paths(instance):
            given = verification_law(ALGORITHMS[name], instance, (path,))
            prefixes = [Text(path[:i]) for i in range(len(path) + 1)]
            w = {len(x): starting(x) / instance.draft.joint(x.tokens) for x in prefixes}
            yield {**models(instance), "x": Text(path), "w": w}, given


def kept(_: Define) -> Iterator[Names]:
    """How much token verification keeps of every path."""
    for names, law in _on_paths("token"):
        lengths = law.map(lambda emission: len(emission.accepted))
        more = {i: lengths.probability(i.__le__) for i in to(1, names["L"])}
        yield from at_each({**names, "kept": more.__getitem__}, i=more)


def corrections(name: str, _: Define) -> Iterator[Names]:
    """Every next token y after a rejection, on every path."""
    for names, law in _on_paths(name):
        for i in range(names["L"]):
            if found := _corrected(law, i):
                names["following"] = lambda y, _i, found=found: found(y)
                yield from at_each({**names, "i": i}, y=names["V"])


def weights(_: Define) -> Iterator[Names]:
    """Block verification's weights w along every path."""
    for names, _law in _on_paths("block"):
        yield from at_each(names, i=to(1, names["L"]))


def block_passes(define: Define) -> Iterator[Names]:
    """Block verification's pass probabilities h along every path, where they are not 0 / 0."""
    for names, law in _on_paths("block"):
        for i in to(1, names["L"]):
            here = {**names, "i": i, "h": {i: _passing(law, i)}, "S": {}}
            if i < names["L"]:
                here["S"][i] = define(1, here)
            if here["h"][i] is not None and here["S"].get(i, ZERO) + 1 - names["w"][i]:
                yield here


def greedy_passes(define: Define) -> Iterator[Names]:
    """Greedy block verification's pass probabilities h, where they are not 0 / 0."""
    for names, law in _on_paths("greedy_block"):
        for i in to(1, names["L"]):
            here = {**names, "i": i, "h": {i: _passing(law, i)}, "r": {}, "D": {}}
            here["r"][i] = define(1, here)
            if i < names["L"]:
                here["D"][i] = define(2, here)
            is_void = i < names["L"] and here["D"][i] == 0 and here["r"][i] == 1
            if here["h"][i] is not None and not is_void:
                yield here


def modified_rows(_: Define) -> Iterator[Names]:
    """The rows that greedy block verification leaves behind."""
    for instance in ONE_PATH:
        for emission in emission_law(ALGORITHMS["greedy_block"], instance):
            for context, left in emission.modified:
                names = {**models(instance), "z": Text((*emission.tokens, *context))}
                names["modified"] = lambda y, _z, left=left: left[y]
                yield from at_each(names, y=names["V"])


def expected(name: str, instances: Iterable[Instance], _: Define) -> Iterator[Names]:
    """The expected accepted length E, beside the probability A of every prefix."""
    for instance in instances:
        emitted = emission_law(ALGORITHMS[name], instance)
        value = expected_accepted(emitted)
        yield {**models(instance), "A": _starting(emitted), "E": value}


def by_prefix(name: str, instances: Iterable[Instance], define: Define) -> Iterator[Names]:
    """As `expected`, at every prefix x that the target can write."""
    for names in expected(name, instances, define):
        yield from ({**names, "x": x} for x in names["prefixes"] if names["p"](x))


def by_token(name: str, instances: Iterable[Instance], define: Define) -> Iterator[Names]:
    """As `expected`, at every context z that can be drafted and every next token y."""
    for names in expected(name, instances, define):
        yield from at_each(names, z=names["contexts"], y=names["V"])


# --- several drafts of one token ------------------------------------------------------------


def single(name: str, instance: Instance) -> Names:
    """Return the names of one position: how probably each token is accepted, and any (alpha)."""
    emitted = emission_law(ALGORITHMS[name], instance)
    shares = emitted.map(lambda emission: emission.accepted)
    names = {"accepted": lambda y: shares[(y,)], "alpha": expected_accepted(emitted)}
    return {**models(instance), **names}


def tokens_of(
    name: str,
    instances: Iterable[Instance],
    _: Define,
    *,
    more: Callable[[Instance], Names] = models,
) -> Iterator[Names]:
    """One position, token by token."""
    for instance in instances:
        names = {**single(name, instance), **more(instance)}
        yield from at_each(names, y=names["V"])


def _tries(name: str, scheme: str) -> Iterator[Names]:
    """Yield the siblings x that can be drawn at one position, all different, with what is tried.

    c[j] is the probability of accepting the j-th, none before it being accepted.
    """
    for instance in one_token(scheme, 2, 3):
        for siblings in sibling_law(scheme, instance.draft(()), instance.drafts):
            if len(set(siblings)) < len(siblings):
                continue
            drafts = tuple((token,) for token in siblings)
            law = verification_law(ALGORITHMS[name], instance, drafts)
            accepted = law.map(lambda emission: emission.accepted)
            tried: dict[int, Rational] = {}
            left = ONE
            for j, path in enumerate(drafts, 1):
                if left:
                    tried[j] = accepted[path] / left
                left -= accepted[path]
            names = {**models(instance), "x": Text(siblings), "c": tried}
            yield {**names, "following": _corrected(law, 0)}


def _rejected() -> Iterator[Names]:
    """Yield the tries of recursive rejection; the j-th sibling was drawn from q[j]."""
    for scheme in ("iid", "without_replacement"):
        for names in _tries("recursive_rejection", scheme):
            own, x = [names["q"](y) for y in names["V"]], names["x"].tokens
            before = {j: () if scheme == "iid" else x[: j - 1] for j in to(1, names["K"])}
            drawn = {j: normalised(without(own, those)) for j, those in before.items()}
            yield {**names, "q": {j: law.__getitem__ for j, law in drawn.items()}}


def rejections(_: Define) -> Iterator[Names]:
    """Recursive rejection, try by try: r[j] is what is owed before the j-th."""
    for names in _rejected():
        owed: dict[int, Row] = {1: tuple(names["p"](y) for y in names["V"])}
        for j in names["c"]:
            if j in owed:
                yield {**names, "r": {i: law.__getitem__ for i, law in owed.items()}, "j": j}
                left = [max(a - names["q"][j](y), ZERO) for y, a in enumerate(owed[j])]
                if any(left):
                    owed[j + 1] = normalised(left)


def residuals(define: Define) -> Iterator[Names]:
    """Recursive rejection where all tries can fail: what is owed by the printed recursion alone."""
    for names in filter(itemgetter("following"), _rejected()):
        owed: dict[int, Of] = {1: names["p"]}
        here = {**names, "r": owed}
        for j in to(1, names["K"]):
            after = [define(0, {**here, "j": j, "y": y}) for y in names["V"]]
            owed[j + 1] = after.__getitem__
        yield from at_each(here, j=to(1, names["K"]), y=names["V"])


def recursion(define: Define) -> Iterator[Names]:
    """Recursive rejection of i.i.d. siblings: the factors g by the printed recursion."""
    for instance in one_token("iid", 2, 3):
        names = {**single("recursive_rejection", instance), "g": {0: ZERO}}
        for j in range(instance.drafts):
            names["g"][j + 1] = define(1, {**names, "j": j})
        yield from at_each(names, y=names["V"], j=range(names["K"]))


def factors(define: Define) -> Iterator[Names]:
    """K-SEQ where its least factor rho is rational."""
    for p, q in (("0 1", "1/2 1/2"), ("5/16 11/16", "1/2 1/2"), ("0 1", "2/3 1/3")):
        instance = example(p, q, drafts=2)
        rho = least_factor(instance.target(()), instance.draft(()), 2)
        names = {**single("k_seq", instance), "rho": rho}
        names["b"] = define(3, names)
        yield from at_each(names, y=names["V"])


def k_seq_tries(_: Define) -> Iterator[Names]:
    """K-SEQ, try by try."""
    for names in _tries("k_seq", "iid"):
        p, q = (tuple(names[model](y) for y in names["V"]) for model in "pq")
        names["rho"] = least_factor(p, q, names["K"])
        yield from at_each(names, j=names["c"])


def k_seq_corrections(define: Define) -> Iterator[Names]:
    """K-SEQ where all tries can fail."""
    for names in k_seq_tries(define):
        if names["following"] and names["j"] == 1:
            names["b"] = define(1, names)
            yield from at_each(names, y=names["V"])


def _coupled(instance: Instance) -> Names:
    """Return an optimal coupling S of the target with the siblings x."""
    drawn = sibling_law(instance.scheme, instance.draft(()), instance.drafts)
    coupling = best_rate(instance.target(()), drawn).coupling
    return {
        "drafts": [Text(x) for x in drawn],
        "Q": lambda x: drawn[x.tokens],
        "S": lambda y, x: coupling.get((y, x.tokens), ZERO),
    }


def transports(_: Define) -> Iterator[Names]:
    """Optimal transport, token by token."""
    for instance in PAIRS:
        emitted = emission_law(ALGORITHMS["optimal_transport"], instance)
        if found := _corrected(emitted, 0):
            names = {**single("optimal_transport", instance), **_coupled(instance)}
            yield from at_each({**names, "following": found}, y=names["V"])


def selections(define: Define) -> Iterator[Names]:
    """The canonical decomposition: b selects a sibling, I is the law of the selected one."""
    for instance in PAIRS:
        names = {**single("canonical", instance), **_coupled(instance)}
        names["b"] = partial(_share, names)
        selected = [define(1, {**names, "y": y}) for y in names["V"]]
        yield from at_each({**names, "I": selected.__getitem__}, y=names["V"])


def _share(names: Names, y: int, x: Text) -> Rational:
    drawn: Rational = names["Q"](x)
    unused = drawn - total(names["S"](v, x) for v in names["V"])
    chosen: Rational = names["S"](y, x)
    return (chosen + (unused if y == x[1] else ZERO)) / drawn


# --- several paths --------------------------------------------------------------------------


def _selected(instance: Instance, share: Callable[[Path], Rational]) -> Law[tuple[Any, ...]]:
    """Return the law of the way to the selected path: each prefix, and how many paths share it.

    At a prefix the way goes on to the highest-ranked token with probability `share`, else to any.
    """

    def program(chance: Chance) -> tuple[Any, ...]:
        alive = list(draft_paths(instance, chance))
        node: Path = ()
        way = [(node, len(alive))]
        for depth in range(instance.length):
            siblings = [path[depth] for path in alive]
            ranked = list(by_ratio(instance.target(node), instance.draft(node)))
            if chance.coin(share(node)):
                token = max(siblings, key=ranked.index)
            else:
                token = siblings[chance.draw([ONE] * len(siblings))]
            alive = [path for path in alive if path[depth] == token]
            node = (*node, token)
            way.append((node, len(alive)))
        return tuple(way)

    return enumerate_law(program)


def _passes(ways: Law[tuple[Any, ...]]) -> Callable[[Text], Rational]:
    """Return Q': the probability that the selected path starts with a text."""
    return lambda z: ways.probability(lambda way: way[len(z)][0] == z.tokens)


def _shared(ways: Law[tuple[Any, ...]], z: Text, drafts: int) -> dict[int, Rational]:
    """Return c: the probability that the selected path starts with z, which n paths share."""
    ends = ways.map(lambda way: way[len(z)])
    return {n: ends[(z.tokens, n)] for n in to(1, drafts)}


def _below(instance: Instance, z: Text) -> Of:
    """Return F: the mass of the tokens that rank below one."""
    p, q = instance.target(z.tokens), instance.draft(z.tokens)
    return ranked_below(by_ratio(p, q), q).__getitem__


def skewed(_: Define) -> Iterator[Names]:
    """Greedy multi-path block verification: m is q(z), B the mass of the paths ranked below z."""
    for instance in SEVERAL_PATHS:
        names = {**models(instance), "Q1": _passes(_selected(instance, lambda _: ONE))}
        masses: dict[Path, Rational] = {(): ZERO}
        for z in names["contexts"]:
            m, ranked = instance.draft.joint(z.tokens), _below(instance, z)
            here = {**names, "z": z, "m": m, "B": masses[z.tokens], "F": ranked}
            for y in names["V"]:
                if instance.draft(z.tokens)[y]:
                    masses[(*z.tokens, y)] = masses[z.tokens] + m * ranked(y)
                    yield {**here, "y": y}


def _local_share(instance: Instance) -> Callable[[Path], Rational]:
    """Return the share that mixed verification gives to the highest-ranked path at a prefix."""

    @cache
    def share(node: Path) -> Rational:
        # What the rule is asked follows from the selected paths up to here.
        counts, accepted = {instance.drafts: ONE}, ONE
        if node:
            ways = _selected(replace(instance, length=len(node)), share)
            counts = _shared(ways, Text(node), instance.drafts)
            for i, token in enumerate(node):
                owed = accepted * instance.target(node[:i])[token]
                accepted = min(owed, _passes(ways)(Text(node[: i + 1])))
        q, ranked = instance.draft(node), _below(instance, Text(node))
        highest = [
            total(c * ((ranked(y) + x) ** n - ranked(y) ** n) for n, c in counts.items())
            if x
            else ZERO
            for y, x in enumerate(q)
        ]
        owed_next = [accepted * x for x in instance.target(node)]
        uniform = [total(counts.values()) * x for x in q]
        return most_kept_next(owed_next, tuple(highest), tuple(uniform))

    return share


def mixtures(_: Define) -> Iterator[Names]:
    """Mixed verification: c[n] and C[n] are those of z and of zy, lam the share at z."""
    three = example("1/2 1/3 1/6", "1/6 1/3 1/2", drafts=3), example("1/3 2/3", "4/9 5/9", drafts=3)
    for instance in (*SEVERAL_PATHS[:3], *three):
        share, drafts = _local_share(instance), instance.drafts
        ways = _selected(instance, share)
        names = {**models(instance), "Q1": _passes(ways)}
        for z, y in product(names["contexts"], names["V"]):
            if names["q"](y, z) and names["Q1"](z):
                here = {**names, "z": z, "y": y, "lam": share(z.tokens)}
                here |= {"F": _below(instance, z)(y), "c": _shared(ways, z, drafts)}
                here["C"] = _shared(ways, z @ y, drafts)
                yield from at_each(here, j=to(1, drafts))


def _scored(
    instance: Instance, passed_on: Callable[[Rational, Rational], Rational] = min
) -> tuple[dict[Path, Rational], dict[Path, Scores]]:
    """Return Q' of the path with the smallest score, and the scores, at every prefix."""
    scores: dict[Path, Scores] = {(): UNIFORM}
    law: dict[Path, Rational] = {(): ONE}
    owed: dict[Path, Rational] = {(): ONE}
    for z in instance.draft.reachable(instance.length - 1):
        p, q = instance.target(z), instance.draft(z)
        here = split(scores[z], p, q, owed=owed[z], drafts=instance.drafts)
        for y in (token for token, mass in enumerate(q) if mass):
            x = (*z, y)
            scores[x], law[x] = here.after(y), here.law[y]
            owed[x] = passed_on(owed[z] * p[y], law[x])
    return law, scores


def scores(_: Define) -> Iterator[Names]:
    """Scored verification: the cells of the scores at every prefix x."""
    for instance in SEVERAL_PATHS:
        law, cells = _scored(instance)
        for x, own in cells.items():
            edges = [(cell.low, cell.high, cell.mass) for cell in own]
            names = {"x": Text(x), "cells": edges, "Q1": lambda x, law=law: law[x.tokens]}
            yield {**models(instance), **names}


def kept_greedily(define: Define) -> Iterator[Names]:
    """Scored greedy verification, at every prefix x that the target can write."""
    for instance in SEVERAL_PATHS[:4]:
        law, _ = _scored(instance, lambda owed, _: owed)
        names = {"Q1": lambda x, law=law: law.get(x.tokens, ZERO)}
        found = by_prefix("scored_greedy_block", [instance], define)
        yield from ({**each, **names} for each in found)


def of_selected(define: Define) -> Iterator[Names]:
    """Verifiers that select a path by Q' and verify it as a block."""
    for instance in SEVERAL_PATHS[:4]:
        scored = _scored(instance)[0]
        for name, law in (
            ("multipath_block", _passes(_selected(instance, lambda _: ONE))),
            ("mixed_multipath_block", _passes(_selected(instance, _local_share(instance)))),
            ("scored_multipath_block", lambda x, law=scored: law.get(x.tokens, ZERO)),
        ):
            yield from ({**n, "Q1": law} for n in by_token(name, [instance], define))


def traversals(define: Define) -> Iterator[Names]:
    """Traversal: how probably each node is kept, by the printed recursion and by the reference."""
    apart = "without_replacement"
    trees = (
        *seeded(2, 3, length=2, drafts=2, branching=(2, 1), scheme=apart),
        *seeded(2, 3, length=2, drafts=4, branching=(2, 2), scheme=apart),
        *seeded(2, 3, length=2, drafts=2),
    )
    for instance in trees:
        for drafts in list(draft_law(instance))[:12]:
            law = verification_law(ALGORITHMS["traversal"], instance, drafts)
            stopped = law.map(lambda emission: emission.accepted)
            found = _traversed(instance, drafts, define)
            for node in dict.fromkeys((*found, *stopped)):
                yield {"stopped": stopped[node], "found": found.get(node, ZERO)}


def _traversed(instance: Instance, drafts: Drafts, define: Define) -> dict[Path, Rational]:
    """Return how probably each node is kept, by the printed recursion alone."""
    found: dict[Path, Rational] = {}

    def refused(node: Path, weight: Rational, reached: Rational) -> Rational:
        """Return how probably none of the nodes from one on is kept, of which one is reached."""
        p: Sequence[Rational] = instance.target(node)
        depth = len(node)
        below = [d for d in drafts if d[:depth] == node] if depth < instance.length else []
        children = list(dict.fromkeys(path[depth] for path in below))
        for i, y in enumerate(children):
            q = normalised(without(instance.draft(node), children[:i]))
            here: Names = {"w": weight, "p": p.__getitem__, "q": q.__getitem__, "y": y}
            here["V"] = range(len(q))
            reached = refused((*node, y), define(0, here), reached)
            here["S"] = define(1, here)
            if here["S"] == 0:
                return reached
            p = [define(2, {**here, "y": v}) for v in here["V"]]
            weight = define(3, here)
        found[node] = found.get(node, ZERO) + reached * weight
        return reached * (1 - weight)

    refused((), ONE, ONE)
    return found


# --- optima ---------------------------------------------------------------------------------


def rates(_: Define) -> Iterator[Names]:
    """The certified acceptance rate, beside Q(H) = P(all drafts lie in H) for all H."""
    for instance in PAIRS:
        drawn = sibling_law(instance.scheme, instance.draft(()), instance.drafts)
        inside = {
            tokens: drawn.probability(tokens.issuperset)
            for tokens in map(frozenset, subsets(range(instance.vocabulary)))
        }
        names = {**models(instance), "alpha": acceptance_rate(instance).value}
        yield {**names, "subsets": list(inside), "Q": inside.__getitem__}


def flows(_: Define) -> Iterator[Names]:
    """The coupling that certifies the acceptance rate."""
    for instance in PAIRS:
        names = {**models(instance), **_coupled(instance)}
        names["alpha"] = acceptance_rate(instance).value
        yield from at_each(names, y=names["V"], x=names["drafts"])


Optimum = Callable[[Instance], LengthOptimum]


def _certified(optimum: Optimum) -> Iterator[Names]:
    """Yield certified optima: budget A, law Q' of selection, prices s and t, and the drafts D."""
    instances = (
        *SEVERAL_PATHS[:4],
        *seeded(2, 3, length=1, drafts=2, scheme="without_replacement"),
        *ONE_PATH[2:4],
    )
    for instance in instances:
        best, drawn = optimum(instance), draft_law(instance)
        yield {
            **models(instance),
            "E": best.value,
            "A": _looked_up({(): ONE, **best.budget}),
            "Q1": _by_orders(best, drawn),
            "s": _looked_up(best.target_price),
            "t": _looked_up(best.draft_price),
            "drafts": [tuple(map(Text, d)) for d in drawn],
            "Q": lambda d, drawn=drawn: drawn[tuple(x.tokens for x in d)],
            "starts": lambda x: [x[:i] for i in to(1, len(x))],
        }


def _looked_up(table: Any) -> Callable[[Text], Rational]:
    return lambda x: table.get(x.tokens, ZERO)


def _by_orders(best: LengthOptimum, drawn: Law[Drafts]) -> Callable[[Text], Rational]:
    """Return Q' of selecting the highest-ranked of all drafts, in an order of the mixture."""

    @cache
    def selected(x: Text) -> Rational:
        return total(
            weight * share
            for weight, order in best.selection
            for drafts, share in drawn.items()
            if max(drafts, key=order.index)[: len(x)] == x.tokens
        )

    return selected


def budgets(optimum: Optimum, _: Define) -> Iterator[Names]:
    """The budget of an optimum, at every context z and next token y, x being both."""
    for names in _certified(optimum):
        for here in at_each(names, z=names["contexts"], y=names["V"]):
            yield {**here, "x": here["z"] @ here["y"]}


def prices(optimum: Optimum, _: Define) -> Iterator[Names]:
    """The prices of an optimum, at every prefix x."""
    for names in _certified(optimum):
        yield from at_each({**names, "root": Text(())}, x=names["prefixes"])


def orders(_: Define) -> Iterator[Names]:
    """The law of the highest-ranked path, beside the probability that all lie in H[i]."""
    for instance in SEVERAL_PATHS[:3]:
        ranked = sorted(paths(instance), reverse=True)
        places: dict[int, Rational] = dict.fromkeys(to(1, len(ranked)), ZERO)
        for drafts, weight in draft_law(instance).items():
            places[1 + max(map(ranked.index, drafts))] += weight
        sums = {i: total(places[j] for j in to(1, i)) for i in to(0, len(ranked))}
        names = {"highest": places.__getitem__, "below": sums.__getitem__}
        yield from at_each(names, i=places)
