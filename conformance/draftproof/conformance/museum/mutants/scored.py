"""Mutants of scored selection, of the law that it is verified against, and of its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.texts import Scored, ScoredGreedy
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted
from draftproof.reference.emission import Emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, positive_part
from draftproof.reference.scores import Contender, contender


def draft_rows(path: Path, selected: Contender, instance: Instance) -> list[Row]:
    return [instance.draft(path[:depth]) for depth in range(len(path))]


def lowest_first(contenders: Sequence[Contender]) -> list[Rational]:
    lows = [min(cell.low for cell in each.scores) for each in contenders]
    return [ONE if place == lows.index(min(lows)) else ZERO for place in range(len(lows))]


def any_of_them(contenders: Sequence[Contender]) -> list[Rational]:
    return [ONE for _ in contenders]


def owing_what_is_accepted(path: Path, instance: Instance) -> Contender:
    return contender(path, instance, min)


def as_a_block(
    drafts: Drafted, path: Path, rows: Sequence[Row], instance: Instance, chance: Chance
) -> Emission:
    return Scored().verified(drafts, path, rows, instance, chance)


def owed_by_one_path(instance: Instance, text: Path) -> Rational:
    return positive_part(instance.target.joint(text) - instance.draft.joint(text))


def nothing_left(modified: Mapping[Path, Row]) -> Mapping[Path, Row]:
    return {}


scored = partial(mutant, of=Scored)
greedy = partial(mutant, of=ScoredGreedy)

MUTANTS = (
    scored(
        "selected-against-the-draft",
        what="Selects the path with the smallest score, and verifies it against the draft's rows.",
        why="the path that was selected has not the draft's law",
        check="the rows that the selected path is verified against: the law of the selection",
        rows=draft_rows,
    ),
    scored(
        "first-of-scores-in-one-cell",
        what="Takes the path whose scores begin lowest, and of equals the first.",
        why="scores that are spread over the same interval are unlike, and the later can be less",
        check="how scores in the same interval are compared: at random, not by order",
        chances=lowest_first,
    ),
    scored(
        "any-path-for-the-smallest",
        what="Takes any of the paths, and verifies it against the law of the smallest score.",
        why="a score is compared, or its law is that of nothing",
        check="which path is selected: the one with the smallest score",
        chances=any_of_them,
    ),
    scored(
        "scores-that-owe-all",
        what="Shares out the scores by what the target has of a prefix, accepted or not.",
        why="what was not accepted is never repaid by a stateless verifier: it accepts less",
        check="how the scores are shared out: by what was accepted of a prefix",
        breaks="law.reference",
        contender=lambda path, instance: ScoredGreedy().contender(path, instance),
    ),
    greedy(
        "scored-greedy-leaves-nothing",
        what="Keeps the selected path greedily, and leaves nothing behind.",
        why="what was accepted in excess is never repaid",
        check="whether the modified target is handed to the next iteration",
        breaks="law.state",
        left=nothing_left,
    ),
    greedy(
        "scored-greedy-owes-as-for-one-path",
        what="Owes what the draft does not cover, and not what the selected path does not.",
        why="the selected path has another law than the draft, and covers other texts",
        check="what is owed: compare the target with the selected path's law, not the draft's",
        breaks="law.lossless",
        also=("law.state",),
        owed=owed_by_one_path,
    ),
    greedy(
        "scored-greedy-by-accepted-mass",
        what="Shares out the scores by what was accepted of a prefix, as for block verification.",
        why="a prefix is owed all that the target has of it, and the rest later: it accepts less",
        check="how the scores are shared out: by the whole target mass of a prefix",
        breaks="law.reference",
        contender=owing_what_is_accepted,
    ),
    greedy(
        "scored-greedy-as-a-block",
        what="Verifies the selected path as a block, under the greedy verifier's name.",
        why="it accepts less, and owes nothing",
        check="whether the greedy rule runs, or block verification in its place",
        breaks="law.reference",
        verified=as_a_block,
    ),
)
