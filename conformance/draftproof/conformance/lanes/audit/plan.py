"""Number of tokens that an audit needs to detect a bias, computed before logging begins."""

from __future__ import annotations

from math import inf, log

import numpy

from draftproof.conformance.lanes.audit.log import DRAFT, EVENTS, TARGET
from draftproof.conformance.lanes.audit.wealth import BIASES, Floats, payments
from draftproof.conformance.lanes.statistics import log_mean

_MOST = 1e12
"""Maximum number of tokens to wait for."""

CERTAINTY, DRIFT = 4.0, 1.0
"""Standard deviations of a target's logits, and of a draft's from these, in random rows."""


def tokens_needed(chances: Floats, bias: float, threshold: float, *, epsilon: float = 0.0) -> float:
    """Return the number of tokens until evidence of a bias is expected to reach a threshold.

    `chances` [tokens] are probabilities of the event in typical rows, which happens more often by
    `bias`, as far as that is possible. The evidence of other events is left out. The gain of a
    token is capped at the missing evidence, since a rare token that gains more takes as long to
    occur.
    """
    known = chances[~numpy.isnan(chances)]
    if not len(known):
        return inf
    wanted = threshold + log(len(EVENTS))
    happens, not_so = (
        numpy.minimum(each[:, 0, 0].reshape(len(known), -1), wanted)
        for each in payments(known[:, None], numpy.array([epsilon]))
    )
    true = numpy.minimum(known + bias, 1.0)[:, None]
    growth = (true * happens + (1 - true) * not_so).sum(0) / len(chances)
    low, high = 0.0, _MOST
    if log_mean(growth * high) < wanted:
        return inf
    while high - low > max(high / 1000, 0.5):
        middle = (low + high) / 2
        low, high = (low, middle) if log_mean(growth * middle) >= wanted else (middle, high)
    return float(numpy.ceil(high))


def detectable(chances: Floats, tokens: int, threshold: float, *, epsilon: float = 0.0) -> float:
    """Return the smallest of `BIASES` that this many tokens are expected to detect, or inf."""
    found = (
        bias
        for bias in BIASES
        if tokens_needed(chances, bias, threshold, epsilon=epsilon) <= tokens
    )
    return min(found, default=inf)


def random_rows(vocabulary: int, *, count: int = 500, seed: int = 0) -> Floats:
    """Return the chances [count, 2] of the draft's and the target's favourite in random rows.

    Logits are normal; a draft's logits are the target's with noise.
    """
    random = numpy.random.default_rng(seed)
    found = numpy.empty((count, 2))
    for at in range(count):
        target = CERTAINTY * random.standard_normal(vocabulary)
        draft = target + DRIFT * random.standard_normal(vocabulary)
        p = numpy.exp(target - target.max())
        found[at] = p[[draft.argmax(), target.argmax()]] / p.sum()
    return found


def planned(
    draft: Floats, target: Floats, threshold: float, *, epsilon: float = 0.0
) -> list[tuple[float, dict[str, float]]]:
    """Return for each bias the tokens needed to find it on either favourite."""
    of = {DRAFT: draft, TARGET: target}
    return [
        (
            bias,
            {
                name: tokens_needed(chances, bias, threshold, epsilon=epsilon)
                for name, chances in of.items()
            },
        )
        for bias in BIASES
        if bias > epsilon
    ]
