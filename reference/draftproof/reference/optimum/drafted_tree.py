"""The largest E[accepted length] of a stateless verifier, if N tokens are drafted as a tree.

A *tree* is a set of texts of 1..L tokens that has every prefix of each. It is drawn token by token,
after the root or after a text of the tree, without replacement of the siblings drawn before.

 - `grown`: the drafter knows both models, and chooses the text after which to draw from all that is
   drawn so far.
 - `shaped`: the shape is fixed in advance.

With D(T) the probability that the tree becomes T, w(T, z) the probability that it becomes T and the
next token is drawn after z, and S(T, x) the probability that T is whole and x is accepted:

    maximise    sum of |x| S(T, x)
    subject to  sum of w(T, z) over z  = D(T)   if T is not whole, D() = 1
                sum of S(T, x) over x <= D(T)   if it is
                A(xy) <= A(x) p(y|x), A(x) being the sum of S(T, z) over z that start with x
                w, S >= 0.

**No verifier has more.** A verifier accepts a text of the tree; the last bound is that of
`stateless`.

**Some verifier has this value.** Stop at x of T with the probability S(T, x)/D(T), and draw the
next token from A(x) p(y|x) - A(xy), as in `stateless`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from draftproof.reference.chance import Chance, enumerate_law
from draftproof.reference.drafting import draw_without_replacement
from draftproof.reference.law import Law
from draftproof.reference.model import Instance, Path
from draftproof.reference.optimum.knowledge import following_the_target
from draftproof.reference.optimum.linear import Bound, LinearProgram, Maximum, Terms, maximum
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.rows import without

Tree = frozenset[Path]
Shape = tuple["Shape", ...]

ROOT: Tree = frozenset()


def grown(instance: Instance, tokens: int) -> Maximum:
    """Return the certified maximum for a tree that grows by choice, to at most L levels.

    The unknowns ("after", T, z) are w(T, z), and ("accepted", T, x) are S(T, x). Raises
    `NotOptimal` if the proof does not hold.
    """
    equations: list[Bound] = []
    drawn: Mapping[Tree, Terms] = {ROOT: {}}
    whole: dict[Tree, Terms] = {}
    for size in range(tokens + 1):
        larger: defaultdict[Tree, dict[Hashable, Rational]] = defaultdict(dict)
        for tree, reached in drawn.items():
            after = list(_growth(instance, tree)) if size < tokens else []
            if after:
                chosen = {("after", tree, z): ONE for z, _ in after}
                missed = {name: -mass for name, mass in reached.items()}
                equations.append(({**chosen, **missed}, ONE if tree == ROOT else ZERO))
            else:
                whole[tree] = reached
            for z, next_trees in after:
                for next_tree, mass in next_trees.items():
                    larger[next_tree]["after", tree, z] = mass
        drawn = larger
    limits = [
        ({**_accepted(tree), **{name: -mass for name, mass in reached.items()}}, ZERO)
        for tree, reached in whole.items()
    ]
    return _most(instance, whole, limits, equations)


def shaped(instance: Instance, shape: Shape) -> Maximum:
    """Return the certified maximum for a shape: the shapes below the tokens drawn after the root.

    Raises `NotOptimal` if the proof does not hold.
    """
    law = tree_law(instance, shape)
    return _most(instance, law, [(_accepted(tree), mass) for tree, mass in law.items()])


def tree_law(instance: Instance, shape: Shape) -> Law[Tree]:
    """Return the law of the tree of a shape, without texts below depth L or missing siblings."""

    def drawn(node: Path, below: Shape, chance: Chance) -> Tree:
        if len(node) == instance.length:
            return ROOT
        siblings = draw_without_replacement(instance.draft(node), len(below), chance)
        texts = [(*node, token) for token in siblings]
        lower = [drawn(text, each, chance) for text, each in zip(texts, below, strict=False)]
        return ROOT.union(texts, *lower)

    return enumerate_law(lambda chance: drawn((), shape, chance))


def shapes(tokens: int) -> list[Shape]:
    """Return all shapes with this number of tokens: 1, 2, 5, 14 and so on (Catalan numbers)."""
    return [
        (first, *others)
        for below in range(tokens)
        for first in shapes(below)
        for others in shapes(tokens - 1 - below)
    ] or [()]


def _growth(instance: Instance, tree: Tree) -> Iterator[tuple[Path, Mapping[Tree, Rational]]]:
    """Yield each context after which a token can be drawn, with the law of the larger tree."""
    for z in [(), *sorted(tree)]:
        siblings = [text[-1] for text in tree if text[:-1] == z]
        rest = without(instance.draft(z), siblings) if len(z) < instance.length else ()
        if mass := total(rest):
            yield z, {tree | {(*z, token)}: q / mass for token, q in enumerate(rest) if q != 0}


def _accepted(tree: Tree) -> dict[Hashable, Rational]:
    """Return the sum of S(T, x) over x, as a row of unknowns."""
    return {("accepted", tree, x): ONE for x in tree}


def _most(
    instance: Instance,
    whole: Iterable[Tree],
    limits: Sequence[Bound],
    equations: Sequence[Bound] = (),
) -> Maximum:
    """Return the certified maximum over S, given the bounds that w and D set on S."""
    objective = {("accepted", tree, x): rational(len(x)) for tree in whole for x in tree}
    kept: defaultdict[Path, dict[Hashable, Rational]] = defaultdict(dict)
    for name in objective:
        _, _, accepted = name
        for size in range(1, len(accepted) + 1):
            kept[accepted[:size]][name] = ONE
    followed = [bound for _, bound in following_the_target(instance, lambda text: kept[text])]
    return maximum(LinearProgram(objective, [*limits, *followed], equations))
