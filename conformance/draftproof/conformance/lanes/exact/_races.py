"""Races: the order of random numbers by value, reduced to exponential clocks.

In a race (`argmax(w / e)`, `argmax(logits + g)`) clock i rings first with probability
rate i / sum of rates. Each contender's steps are reduced to a form of one clock, which gives its
rate. If a race is guarded by a tiny constant (`u + 1e-10`, `clamp(min=1e-7)`), the guard is dropped
and its effect on the law, at most the constant itself, is added to `slack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan

from draftproof.conformance.lanes.exact._errors import NotUnderstood
from draftproof.conformance.lanes.exact._noise import RARE, Noise, World
from draftproof.conformance.lanes.exact._steps import (
    AT_MOST,
    LARGEST_GUARD,
    LESS,
    Affine,
    Clamp,
    Exp,
    Log,
    Nearly,
    Reciprocal,
    Step,
)
from draftproof.conformance.lanes.precise import exp, log, softmax
from draftproof.reference.rational import ONE, ZERO, Rational, total


@dataclass(frozen=True, eq=False)
class Ranking:
    """Contenders in the order in which their exponential clocks ring, drawn as far as requested.

    Position 0 is the winner of a race; the first n positions are n draws without replacement.
    `rates` maps a contender to the rate of its clock; `others` are the contenders after all clocks,
    in order. Source: the Plackett-Luce law of exponential clocks.
    """

    rates: dict[int, Rational]
    others: tuple[int, ...] = ()
    noises: tuple[Noise, ...] = ()

    @cached_property
    def within(self) -> range:
        """Range that contains all contenders."""
        return range(1 + max((*self.rates, *self.others), default=0))

    def begin(self, world: World) -> None:
        """Spend the noise of the race; only untouched noise can race."""
        for noise in self.noises:
            noise.uniform.enter_race(world)

    def at(self, position: int, world: World) -> int:
        """Return the contender at `position`."""
        order: tuple[int, ...] = world.of(self, ())
        if not order:
            self.begin(world)
        while len(order) <= position:
            left = [contender for contender in self.rates if contender not in order]
            if left:
                winner = left[world.chance.draw([self.rates[contender] for contender in left])]
            else:
                winner = self.others[len(order) - len(self.rates)]
            order = (*order, winner)
        world.learn(self, order)
        return order[position]


@dataclass(frozen=True)
class Led:
    """Knowledge of a number that was first of a group: its clock has the rates of all together."""

    group: tuple[Noise, ...]
    largest: bool


def is_ahead(one: Noise, other: Noise, relation: str, world: World) -> bool:
    """Decide `one relation other`, as in a pairwise search for the least of many numbers.

    The time of the first of several exponential clocks does not depend on which clock rings first,
    so the first of a group is a clock with the sum of all rates. The other number is spent.
    """
    least = relation in (LESS, AT_MOST)
    try:
        found = _pair(one, other, world, largest=not least)
    except NotUnderstood:
        # Of clocks that ring last nothing is known, but of two the other rings first.
        return not _pair(one, other, world, largest=least)
    return found


def _pair(one: Noise, other: Noise, world: World, *, largest: bool) -> bool:
    """Decide whether one number precedes another, the largest or the smallest being first."""
    own, others = (_group(noise, world, largest=largest) for noise in (one, other))
    if one.uniform is other.uniform:
        raise NotUnderstood("compares noise with itself")
    group = (*own, *others)
    ranked, slack = ranking(group, largest=largest)
    if slack:
        raise NotUnderstood("compares noise with noise, one of them guarded by a constant")
    mass = total(ranked.rates.values())
    ahead = total(rate for place, rate in ranked.rates.items() if place < len(own)) / mass
    is_first = bool(ahead) if ahead in (ZERO, ONE) else world.chance.coin(ahead)
    first, second = (one, other) if is_first else (other, one)
    world.learn(second.uniform, None)
    world.learn(first.uniform, Led((first, *(each for each in group if each != first)), largest))
    return is_first


def _group(noise: Noise, world: World, *, largest: bool) -> tuple[Noise, ...]:
    """Return a number, with the numbers that it is known to precede."""
    known = world.of(noise.uniform, (ZERO, ONE))
    if known == (ZERO, ONE):
        return (noise,)
    if isinstance(known, Led) and known.largest == largest and known.group[0] == noise:
        return known.group
    raise NotUnderstood("compares noise with noise that has been looked at before")


def ranking(contenders: Sequence[Noise | float], *, largest: bool) -> tuple[Ranking, Rational]:
    """Return the ranking of random and known numbers by value, and the slack of its law.

    Known numbers must be outside the range of the random ones. As in torch, NaN counts as the
    largest number.
    """
    noises = {i: c for i, c in enumerate(contenders) if isinstance(c, Noise)}
    known = {i: float(c) for i, c in enumerate(contenders) if not isinstance(c, Noise)}
    low = min(noise.range[0] for noise in noises.values())
    high = max(noise.range[1] for noise in noises.values())
    above = [i for i, value in known.items() if isnan(value) or value >= high]
    below = [i for i, value in known.items() if value <= low and i not in above]
    if len(above) + len(below) < len(known):
        raise NotUnderstood("races noise against a known number that may win or lose")
    ahead, behind = (above, below) if largest else (below, above)
    if ahead:
        raise NotUnderstood("races noise against a known number that always wins")
    behind.sort(key=lambda i: (isnan(known[i]), known[i]), reverse=largest)
    rates, slack = _rates(list(noises.values()), largest=largest)
    if any(noise.is_swamped for noise in noises.values()):
        _require_sure_winner(list(noises.values()), rates)
    ringing = {i: rate for i, rate in zip(noises, rates, strict=True) if rate > 0}
    silent = [i for i in noises if i not in ringing]
    return Ranking(ringing, (*silent, *behind), tuple(noises.values())), slack


def _require_sure_winner(noises: Sequence[Noise], rates: Sequence[Rational]) -> None:
    """Require that a swamped noise does not compete with others that may win a race."""
    likely = RARE * total(rates)
    rivals = [noise for noise, rate in zip(noises, rates, strict=True) if rate > likely]
    if len(rivals) > 1 and any(noise.is_swamped for noise in rivals):
        raise NotUnderstood("races noise that rounding has swamped")


def _rates(noises: Sequence[Noise], *, largest: bool) -> tuple[list[Rational], Rational]:
    """Return the rates of exponential clocks that ring in the order of the noises' values."""
    chains = [list(noise.steps) for noise in noises]
    # A monotone function of all contenders alike does not change who is ahead of whom.
    while chains[0] and all(chain and chain[-1] == chains[0][-1] for chain in chains):
        # The others may make a tie of two numbers, or no number of one.
        if not isinstance(chains[0][-1], (Affine, Exp, Nearly, Reciprocal)):
            break
        largest ^= not chains[0][-1].rising
        for chain in chains:
            chain.pop()
    if not any(chains):
        return [ONE for _ in chains], ZERO
    forms = [_reduced(chain) for chain in chains]
    kinds = {form.kind for form in forms}
    slack = sum((form.slack for form in forms), ZERO)
    if len(kinds) == 1:
        kind = kinds.pop()
        scales = [form.scale if largest else -form.scale for form in forms]
        shifts = [form.shift for form in forms]
        if kind == "clock" and len(set(shifts)) == 1 and all(scale < 0 for scale in scales):
            return [-1 / scale for scale in scales], slack
        if kind == "inverse clock" and all(scale > 0 for scale in scales):
            return scales, slack
        if kind == "log clock" and len(set(scales)) == 1 and scales[0] < 0:
            sign = 1 if largest else -1
            return softmax([sign * shift / -scales[0] for shift in shifts]), slack
    raise NotUnderstood("races noise that is neither exponential nor Gumbel")


@dataclass(frozen=True)
class ClockForm:
    """The random number shift + scale * f(E), with E a standard exponential clock.

    `kind` names f: "clock" for E, "inverse clock" for 1 / E (shift 0), "log clock" for log E;
    "uniform" is shift + scale * U.
    """

    kind: str
    shift: Rational
    scale: Rational
    slack: Rational = ZERO

    def without_shift(self, shift: Rational) -> ClockForm:
        """Return the form without a guard constant, whose effect is added to the slack."""
        effect = abs(shift / self.scale)
        if effect > LARGEST_GUARD:
            raise NotUnderstood("races noise that is neither exponential nor Gumbel")
        return ClockForm(self.kind, ZERO, self.scale, self.slack + effect)


def _reduced(chain: Sequence[Step]) -> ClockForm:
    form = ClockForm("uniform", ZERO, ONE)
    for step in chain:
        form = _after(form, step)
    return form


def _after(form: ClockForm, step: Step) -> ClockForm:
    kind, shift, scale, slack = form.kind, form.shift, form.scale, form.slack
    match step:
        case Nearly():
            return form
        case Affine() if kind != "inverse clock" or step.shift == 0:
            return ClockForm(kind, step.scale * shift + step.shift, step.scale * scale, slack)
        case Log() if kind == "uniform":
            # With scale < 0: 1 - U is as uniform as U.
            form = form.without_shift(shift if scale > 0 else shift + scale)
            return ClockForm("clock", log(abs(scale)), -ONE, form.slack)
        case Log() if kind == "clock" and scale > 0:
            form = form.without_shift(shift)
            return ClockForm("log clock", log(scale), ONE, form.slack)
        case Log() if kind == "inverse clock" and scale > 0:
            return ClockForm("log clock", log(scale), -ONE, slack)
        case Reciprocal() if kind == "clock":
            form = form.without_shift(shift)
            return ClockForm("inverse clock", ZERO, 1 / scale, form.slack)
        case Reciprocal() if kind == "inverse clock":
            return ClockForm("clock", ZERO, 1 / scale, slack)
        case Clamp() if kind in ("uniform", "clock") and scale > 0:
            cut = _mass_cut(form, step)
            if cut <= LARGEST_GUARD:
                return ClockForm(kind, shift, scale, slack + cut)
    raise NotUnderstood("races noise that is neither exponential nor Gumbel")


def _mass_cut(form: ClockForm, clamp: Clamp) -> Rational:
    """Return a bound on the probability that the clamp changes the number."""
    inverse = Affine(1 / form.scale, -form.shift / form.scale)
    low, high = inverse.image(clamp.low, clamp.high)
    # Either law has at most density 1; a clock rings after t with probability exp(-t).
    above = exp(-high) if form.kind == "clock" else max(ONE - high, ZERO)
    return max(low, ZERO) + above  # type: ignore[no-any-return]  # finite, being a mass
