"""Mutants of the verification of several drafts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from draftproof.conformance.museum.mutants.mutant import mutant
from draftproof.conformance.museum.mutants.texts import Recursive, ReferenceStyle
from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings
from draftproof.reference.emission import Emission
from draftproof.reference.ledger import exhibits
from draftproof.reference.model import Instance, Row
from draftproof.reference.rational import ONE
from draftproof.reference.rows import excess, normalised, without

# --- rules for the siblings of one position ---------------------------------------------------


def each_against_p(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
    for token in siblings:
        if chance.coin(min(ONE, p[token] / q[token])):
            return token, True
    return chance.draw(excess(p, q)), False


def each_with_its_own_target(
    siblings: Siblings, p: Row, q: Row, chance: Chance
) -> tuple[int, bool]:
    drawn = [chance.draw(p) for _ in siblings]
    agreed = [token for token, own in zip(siblings, drawn, strict=True) if token == own]
    return (agreed[0], True) if agreed else (drawn[0], False)


def by_target_mass(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
    left = ONE
    for token in siblings:
        if chance.coin(min(ONE, p[token] / left) if left > 0 else ONE):
            return token, True
        left -= p[token]
    return chance.draw(without(p, siblings)), False


def among_siblings(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
    among = tuple(b if token in siblings else b * 0 for token, b in enumerate(q))
    for token in siblings:
        if chance.coin(min(ONE, p[token] / q[token])):
            return token, True
        p = normalised(excess(p, among))
    return chance.draw(p), False


def along_the_first_path(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    along, *_ = drafts.paths()
    first = {
        path[:depth]: instance.target(along[:depth])
        for path in drafts.paths()
        for depth in range(len(path) + 1)
    }
    target = instance.target.overridden(first)
    return Recursive().text(drafts, replace(instance, target=target), chance)


verifier = partial(mutant, of=ReferenceStyle)
recursive = partial(mutant, of=Recursive)

MUTANTS = (
    verifier(
        "skips-duplicate-siblings",
        "MasterGodzilla/Speculative_decoding_OT, found by reading it",
        what="Skips a sibling whose token was tried before, "
        "though siblings are drawn with replacement.",
        why="every sibling is a draw of its own, whether or not its token came before",
        check="whether siblings that repeat a token are skipped: each draw is tried",
        algorithm="recursive_rejection",
        text=exhibits.rejection_skipping_duplicates,
    ),
    recursive(
        "forgets-the-residual",
        "https://github.com/NJUNLP/MCSD/issues/5",
        what="Tries every sibling against p, and never writes the residual back.",
        why="what a rejected sibling was offered is offered again",
        check="whether the residual replaces p after each rejected sibling",
        rule=each_against_p,
    ),
    recursive(
        "siblings-draw-their-own-targets",
        "https://github.com/foundation-model-stack/fms-extras/issues/12",
        "https://github.com/foundation-model-stack/fms-extras/pull/17",
        what="Draws a token from p for every sibling, and goes on where one of them agrees.",
        why="to draw the same token twice and keep what fits best is to favour what was drafted",
        check="how many target tokens are drawn at a position: one for all siblings",
        algorithm="target_first",
        rule=each_with_its_own_target,
    ),
    recursive(
        "counts-a-token-for-every-copy",
        "sgl-project/sglang, found by reading it",
        "flashinfer-ai/flashinfer, found by reading it",
        what="Lets one coin choose among the siblings by their target mass, "
        "a token drafted twice twice.",
        why="one coin against the siblings' summed mass is right for siblings that all differ",
        check="whether a token that was drafted twice is counted twice",
        algorithm="target_first",
        rule=by_target_mass,
    ),
    recursive(
        "rows-of-the-first-path",
        "https://github.com/NVIDIA/TensorRT-LLM/pull/15098",
        what="Reads the target's rows along the first path, whichever path is kept.",
        why="the row at a depth is another one on every path",
        check="which path's target rows are read: those of the path that is kept",
        text=along_the_first_path,
    ),
    recursive(
        "residual-among-siblings",
        what="Subtracts from what is owed only what the drafted siblings took.",
        why="a correction may be any token, drafted or not",
        check="whether the residual is taken over the whole vocabulary",
        rule=among_siblings,
    ),
    verifier(
        "equal-ratios-in-drawing-order",
        "the released code of arXiv 2602.16961, found by reading it",
        what="Ranks equal ratios by token id in the skewed law, "
        "by order of drawing in the selection.",
        why="selection and skewed law must break ties alike",
        check="how ties of ratios are broken: the same way in selection and skewed law",
        algorithm="multipath_block",
        text=exhibits.multipath_block_first_of_equals,
    ),
    verifier(
        "ratios-clamped-at-one",
        "the released code of arXiv 2602.16961, found by reading it",
        what="Ranks siblings by ratios clamped at one, "
        "equals by token id here and by drawing there.",
        why="all tokens with p >= q are equal then, and selection and skewed law rank them apart",
        check="whether ratios are clamped before they are ranked",
        algorithm="multipath_block",
        text=exhibits.multipath_block_clamped,
    ),
    verifier(
        "tests-prefixes-path-by-path",
        "the released code of arXiv 2604.25925, found by reading it",
        what="Goes over the paths and tests every prefix as if there were this path alone.",
        why="other drafts have been tried before a prefix, and its test takes them for longer ones",
        check="whether prefixes that paths share are tested once or for each path",
        text=exhibits.spectr_gbv_loop,
    ),
)
