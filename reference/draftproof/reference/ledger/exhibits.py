"""Wrong or misnamed verifiers; each docstring names the fault and its source.

They have the signature of all verifiers of the reference, so the same programs judge them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul

from draftproof.reference.chance import Chance
from draftproof.reference.drafting import Drafted, Siblings, single_path
from draftproof.reference.emission import Emission, emission
from draftproof.reference.model import Instance, Path, Row
from draftproof.reference.rational import ONE, ZERO, Rational, ratio_or_one, total
from draftproof.reference.rows import excess, normalised
from draftproof.reference.verifiers.block import block, keep
from draftproof.reference.verifiers.descent import descend
from draftproof.reference.verifiers.greedy_block import greedy_block
from draftproof.reference.verifiers.multipath_block import multipath_block


def block_without_last(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Verify all but the last drafted token as a block.

    Lossless and, in one iteration, never better than block verification. It shows that the best
    verifier in every iteration need not be the best over several (arXiv 2403.10444 on several
    iterations).
    """
    path = single_path(drafts)[:-1]
    rows = [instance.draft(path[:i]) for i in range(len(path))]
    accepted, correction = keep(path, rows, instance, chance)
    return emission(drafts, accepted, chance.draw(correction))


def block_that_waits(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Leave the last drafted token to the next iteration where the target is sure of all others.

    Lossless: the choice of the rule depends on the first L - 2 tokens alone, and both rules keep
    those with the same probability. See `block_without_last`.
    """
    path = single_path(drafts)
    sure = all(max(instance.target(path[:i])) == 1 for i in range(len(path) - 1))
    return (block_without_last if sure else block)(drafts, instance, chance)


def block_then_token_residual(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Keep the tokens of block verification, correct as token verification does.

    Wrong: the correction must come from (weight p - q)+, not from (p - q)+.
    Seen in vllm-project/vllm-ascend, pull request 9772, where the block flag was dropped on the
    way to the residual.
    """
    path = single_path(drafts)
    rows = [instance.draft(path[:i]) for i in range(len(path))]
    accepted, correction = keep(path, rows, instance, chance)
    if len(accepted) < len(path):
        residual = excess(instance.target(accepted), instance.draft(accepted))
        correction = residual if any(residual) else correction
    return emission(drafts, accepted, chance.draw(correction))


def block_with_break(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Test prefixes as block verification does, but stop at the first that fails.

    Wrong: the weights compensate for prefixes that fail now and pass as part of a longer prefix.
    Requested in a review of vllm-project/vllm-ascend, pull request 11985.
    """
    path = single_path(drafts)
    ratios = _ratios(path, instance)
    weight = list(accumulate(ratios, lambda w, ratio: min(ONE, w * ratio), initial=ONE))
    count = 0
    while count < len(path) and chance.coin(_pass(path[: count + 1], weight, instance)):
        count += 1
    return emission(drafts, path[:count], chance.draw(_owed(path, count, weight, instance)))


def greedy_block_without_memory(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Verify greedily, then continue with the unmodified target.

    Wrong for L > 1: after greedy block verification the next tokens need a modified target
    (arXiv 2403.10444, appendix). Seen in the released code of arXiv 2604.25925 at K = 1.
    """
    emitted = greedy_block(drafts, instance, chance)
    return emission(drafts, emitted.accepted, emitted.next_token)


def capped_hierarchical(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Test every prefix on the ratio since the best prefix before it, capped at one.

    Hierarchical speculative decoding with capped prefix ratios, arXiv 2601.05724. Correct, but
    identical to block verification: the capped ratio is block verification's weight.
    """
    path = single_path(drafts)
    ratios = list(accumulate(_ratios(path, instance), mul, initial=ONE))
    best = list(accumulate(ratios, max))
    capped = [ONE] + [min(ONE, r / best[i]) for i, r in enumerate(ratios[1:])]

    def pass_probability(i: int) -> Rational:
        if i == len(path):
            return capped[i]
        p, q = instance.target(path[:i]), instance.draft(path[:i])
        more = total(excess(p, q, capped[i]))
        less = total(excess(q, [capped[i] * a for a in p]))
        return ratio_or_one(more, max(more, less))

    count = next((i for i in range(len(path), 0, -1) if chance.coin(pass_probability(i))), 0)
    return emission(drafts, path[:count], chance.draw(_owed(path, count, capped, instance)))


def released_hierarchical(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Accept the path on its raw ratio, else stop at the last prefix that passes.

    Wrong for L > 1: prefixes are weighed by min(1, p/q) of their joint probabilities, which ignores
    the cap on their own prefixes; and a prefix passes for sure where the *next* ratio is at least
    one. Seen in ZhouYuxuanYX/Hierarchical-Speculative-Decoding, algorithm_clean.py with HSD set;
    arXiv 2601.05724 caps with memory, see `capped_hierarchical`. If there is no law to draw a
    correction from, the program keeps the next drafted token.
    """
    path = single_path(drafts)
    ratios = list(accumulate(_ratios(path, instance), mul, initial=ONE))
    weight = [min(ONE, ratio) for ratio in ratios]

    def pass_probability(i: int) -> Rational:
        if i < len(path) and ratios[i + 1] >= 1:
            return ONE
        return _pass(path[:i], weight, instance)

    count = next((i for i in range(len(path), 0, -1) if chance.coin(pass_probability(i))), 0)
    law = _owed(path, count, weight, instance)
    return emission(drafts, path[:count], chance.draw(law) if any(law) else path[count])


def rejection_skipping_duplicates(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Try the siblings in turn, but skip one whose token was tried before.

    Wrong: with replacement, every sibling is a separate draw, and the verifier must take the
    residual after it whether or not its token came before. Seen in
    MasterGodzilla/Speculative_decoding_OT, the RRS mode of its EAGLE.
    """

    def rule(siblings: Siblings, p: Row, q: Row, chance: Chance) -> tuple[int, bool]:
        for i, token in enumerate(siblings):
            if token in siblings[:i]:
                continue
            if chance.coin(min(ONE, p[token] / q[token])):
                return token, True
            p = normalised(excess(p, q))
        return chance.draw(p), False

    return descend(rule, drafts, instance, chance)


Key = Callable[[Rational], Rational]


def multipath_block_first_of_equals(
    drafts: Drafted, instance: Instance, chance: Chance
) -> Emission:
    """Rank equal ratios by token id in the skewed law, by order of drawing in the selection.

    Wrong where two ratios are equal: the law is not that of the selected path.
    Seen in the released code of arXiv 2602.16961, with raw ratios and with ratios clamped at one.
    """
    return multipath_block(_InDrawingOrder(drafts, lambda r: r, instance), instance, chance)


def multipath_block_clamped(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Rank as `multipath_block_first_of_equals`, with every ratio clamped at one: p >= q is a tie.

    Wrong for nearly every pair of models. Seen in the same code as
    `multipath_block_first_of_equals`.
    """

    def clamped(p: Row, q: Row) -> Sequence[int]:
        drafted = (token for token, x in enumerate(q) if x != 0)
        return sorted(drafted, key=lambda token: (min(ONE, p[token] / q[token]), token))

    tied = _InDrawingOrder(drafts, lambda ratio: min(ONE, ratio), instance)
    return multipath_block(tied, instance, chance, order=clamped)


class _InDrawingOrder:
    """A tree that shows, of the siblings with the largest key, the one that was drawn first."""

    def __init__(self, drafts: Drafted, key: Key, instance: Instance) -> None:
        self._drafts, self._key, self._instance = drafts, key, instance

    def siblings(self, node: Path) -> Siblings:
        p, q = self._instance.target(node), self._instance.draft(node)
        drawn = self._drafts.siblings(node)
        return (max(drawn, key=lambda token: self._key(p[token] / q[token])),) if drawn else ()

    def first(self, node: Path) -> int:
        return self._drafts.first(node)

    def paths(self) -> tuple[Path, ...]:
        return self._drafts.paths()


def spectr_gbv_loop(drafts: Drafted, instance: Instance, chance: Chance) -> Emission:
    """Loop over the drafts: test prefixes longer than the accepted one, then the whole path.

    Wrong for K > 1: the test of a prefix assumes that only longer prefixes were tested before, but
    other drafts were, too; and the residual is p (1 - min(q/p, 1)^K) instead of p
    (1 - min(q/p, 1))^K; and for L > 1 the later target is not modified.
    Seen in the released code of arXiv 2604.25925. Where the code has no law for the correction,
    this function uses the target's row.
    """
    accepted: Path = ()
    seen: set[Path] = set()
    for path in drafts.paths():
        for size in range(1, instance.length):
            prefix = path[:size]
            if size <= len(accepted) or prefix in seen:
                continue
            if chance.coin(_loop_pass(prefix, instance)):
                accepted = prefix
            else:
                seen.add(prefix)
        if chance.coin(_loop_pass(path, instance)):
            return emission(drafts, path, chance.draw(instance.target(path)))
    target, draft = instance.target, instance.draft

    def residual(text: Path) -> Rational:
        p, q = target.joint(text), draft.joint(text)
        return p * (1 - min(q / p, ONE) ** instance.drafts) if p != 0 else ZERO

    law = [residual((*accepted, token)) for token in range(instance.vocabulary)]
    return emission(drafts, accepted, chance.draw(law if any(law) else target(accepted)))


def spectr_gbv_pass(prefix: Path, instance: Instance) -> Rational:
    """Return the loop's probability of accepting a prefix, before clipping to 0..1."""
    target, draft, drafts = instance.target, instance.draft, instance.drafts

    def owed(text: Path) -> Rational:
        p, q = target.joint(text), draft.joint(text)
        return p * (1 - min(q / p, ONE)) ** drafts if p != 0 else ZERO

    def kept(text: Path) -> Rational:
        return target.joint(text) - owed(text)

    passed = 1 - (1 - draft.joint(prefix)) ** drafts
    if len(prefix) == instance.length:
        return kept(prefix) / passed
    children = [(*prefix, token) for token in range(instance.vocabulary)]
    return ratio_or_one(
        total(map(owed, children)) - owed(prefix), passed - total(map(kept, children))
    )


def _loop_pass(prefix: Path, instance: Instance) -> Rational:
    return max(ZERO, min(ONE, spectr_gbv_pass(prefix, instance)))


def _ratios(path: Path, instance: Instance) -> list[Rational]:
    return [
        instance.target(path[:i])[token] / instance.draft(path[:i])[token]
        for i, token in enumerate(path)
    ]


def _pass(prefix: Path, weight: Sequence[Rational], instance: Instance) -> Rational:
    """Return block verification's probability of passing a prefix, from all weights."""
    if len(prefix) == instance.length:
        return weight[len(prefix)]
    more = total(_owed(prefix, len(prefix), weight, instance))
    return ratio_or_one(more, more + 1 - weight[len(prefix)])


def _owed(path: Path, kept: int, weight: Sequence[Rational], instance: Instance) -> Row:
    """Return block verification's correction law, or the target's row after the whole path."""
    z = path[:kept]
    if kept == instance.length:
        return instance.target(z)
    return excess(instance.target(z), instance.draft(z), weight[kept])
