"""The largest acceptance rate of K drafts of one token, at the vocabularies of real models.

`optimum.acceptance_rate` proves its values in rationals; here V may be 128,256, so the values are
floats, with bounds on their errors. Let p be the target's row, q the draft's, and Q(H) the
probability that all drafts are in the set H of tokens. The rate is

    alpha* = 1 + min over H of p(H) - Q(H)                          (arXiv 2502.18779)

A best H needs no tokens of q = 0. Write s for q(H) and u for 1 - q(H).

**Prefixes suffice** where Q is convex along q (`acceptance_rate.convexity_gap`): some best H is a
prefix of the tokens in order of p/q. Ties may be in any order, and so may ratios that rounding
swaps: change each p by a factor within 1 +- 2^-53 and the computed order is a true one, and no p(H)
has changed by more than 2^-53. For independent drafts Q = s^K is a convex function of s.

Without replacement Q is convex along q for every K. The claim `optimum.convex.without_replacement`
of the ledger has the proof: token i arrives at a random time, exponential with rate q(i). There x
and others of H are drafted if and only if x arrives at a t < b and nothing outside H+x comes before
max(t, a); and the right side is the left side with H+x for H and y for x, less a factor
exp(q(y) (max(t, a') - t)) >= 1.

**Without replacement, all prefixes at once.** Let N_H(T) count the arrivals in H before T. The
first arrival outside H comes at a time of density u exp(-u T), so

    1 - Q(H) = integral over T of u exp(-u T) P(N_H(T) < K).

The trapezoidal rule in log T, of step h, takes it at the same nodes for all H. At one node
P(N_H <= m) of all prefixes H comes from running sums of positive terms: up to a common factor,
token i adds (exp(q(i) T) - 1) times the P(N_H <= m-1) before it.

Call the K-1 most probable tokens *heavy*, all others *light*, and let t be the mass of these.
While t T is small, the light tokens arrive like raindrops: taken for a Poisson variable, their
number makes exp(-u T) P(N_H < K) a polynomial in their mass, as long as H gets no heavy token.
So all small T together cost as little as one, and the large ones are about 70 at most.

**Error**, without replacement, with e = 1e-10:

 - Step: at most e. For T of argument within +-d, |1 - exp(-q T)| <= (1 - exp(-q Re T)) / cos d,
   so |P(N_H(T) = m)| is at most its value at Re T over cos^m d. Hence in the strip |Im log T| < d
   the integrand is analytic and its absolute value integrates to at most M = cos^-K d along every
   line. The rule errs by at most 2 M / (exp(2 pi d / h) - 1) (Trefethen and Weideman, SIAM Review
   56, 2014, Theorem 5.1); h makes that at most e, with the best d.
 - Nodes left out, T < e: at most e. Their terms, at most h T, sum to less than the integral of T.
 - Poisson instead of N_H, T < T_0: at most e. Two laws of the light arrivals that agree on there
   being none differ by at most the larger probability of two, (t T)^2 / 2, and u T exp(-u T) <=
   1/2: bounds that grow with T, and sum to at most (t T_0)^2 / 8. Nor do the two P(N_H >= K)
   exceed T^K / K!, of K arrivals at a rate of 1 at most: T_0^(K+1) / (K+1)! bounds the sum too.
   T_0 is the largest for which either is e.
 - Nodes left out, T > T_1: at most 1.3 e. Whatever H is, exp(-u T) P(N_H(T) < K) <=
   P(N_V(T) < K) <= P(Poisson(t T) < K), since before the K-th arrival the rate of arrivals is at
   least t. At T_1 that is at most e; so is the integral beyond T_1, and the terms, of a falling
   function of T, sum to at most h / (1 - exp(-h)) <= 1.3 times the integral.
 - Tokens left out: at most e. The draft is taken without the tokens of q <= e t / (K V). Its draws
   change only if one of these tokens is drawn, which happens in each draw with probability at most
   e / K.
 - Rounding: at most e + (K + 2) V 2^-53. A running sum of V positive terms has relative error
   (V - 1) 2^-53; there are K - 1 of them, one upon the other, and those for u and p(H). The e is
   for all else, above all the exponents, whose masses are summed blockwise.

These stay below 1e-9 while (K + 2) V <= 3,000,000. For the other schemes all terms are positive:
the relative error is at most (V + 100) 2^-53.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil, lgamma, log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from draftproof.reference.errors import NotADistribution, Unsupported, WrongShape

Floats = NDArray[np.float64]
Row = NDArray[np.floating[Any]]

SCHEMES = ("iid", "without_replacement", "hub", "greedy")

# A softmax in float32 misses 1 by up to V 2^-24 if it sums in the worst order, and by far less in
# any order that is in use. What misses it by more is no softmax, or one of half precision.
MASS_TOLERANCE = 1e-3

# The e of the error bound.
SHARE_OF_ERROR = 1e-10

# Without replacement, the one keeps the times finite and the other the products of odds.
LEAST_WEIGHT = 1e-290
MOST_DRAFTS = 64

# What is left of a float's bits: the exponent and five more, which tell 33/32 from 1.
KEY_SHIFT = np.uint64(47)

# Floats in each of the tables that are worked on at once: they fit a processor's cache.
TABLE_SIZE = 40_000


def acceptance_rate(target: Row, draft: Row, *, scheme: str, drafts: int) -> float:
    """Return alpha*, the acceptance rate that no lossless verifier of K drafted tokens exceeds.

    `target` and `draft` are rows of V weights, floats of any width, that sum to 1 within 1e-3; the
    laws are proportional to these weights. `drafts` is K. By `scheme`, the drafts are

    - "iid": independent draws from the draft.
    - "without_replacement": drawn one after another, each from the draft without those drawn
      before; fewer than K where its support runs out (arXiv 2402.14160). Otherwise K is at most
      64. Weights below 1e-290 count as zero.
    - "greedy": the K-1 most probable tokens of the draft's support, the smallest ids among equals,
      and one token drawn from the others if they have any mass (arXiv 2502.18779).
    - "hub": SpecHub's pairs, K = 2 (arXiv 2411.05289). As sets they have the law of "greedy".

    The error is at most 1e-9 without replacement while (K + 2) V <= 3,000,000, and at most
    (V + 100) 2^-53 of the value otherwise; the module's docstring has the proof. Without
    replacement the main cost is up to K V multiplications and additions at each of 20 to 70 times,
    the more the greater the mass of the K-1 most probable tokens; otherwise it is a few passes over
    the rows and a sort, usually of few tokens.

    Raises `WrongShape`, `NotADistribution`, or `Unsupported` for any other type, scheme or K.
    """
    p, q = _checked("target", target), _checked("draft", draft)
    if p.size != q.size:
        raise WrongShape(
            f"target and draft must share a vocabulary, the target has "
            f"{p.size} tokens and the draft {q.size}"
        )
    if drafts < 1:
        raise WrongShape(f"the number of drafts must be at least 1, got {drafts}")
    p /= p.sum()
    if scheme == "iid":
        rate = _with_replacement(p, q, drafts)
    elif scheme == "without_replacement":
        rate = _without_replacement(p, q, drafts)
    elif scheme == "greedy" or (scheme == "hub" and drafts == 2):
        rate = _greedy(p, q, drafts)
    elif scheme == "hub":
        raise Unsupported(f"the scheme 'hub' has 2 drafts, got {drafts}")
    else:
        raise Unsupported(f"unknown drafting scheme {scheme!r}; known: {', '.join(SCHEMES)}")
    return min(rate, 1.0)


def _checked(name: str, row: Row) -> Floats:
    """Return a float64 copy of the row. Its weights must be in 0..1, and sum to 1 within 1e-3."""
    if row.ndim != 1 or row.size == 0:
        raise WrongShape(f"the {name} must be one row of weights, its shape is {row.shape}")
    if row.dtype.kind != "f":
        raise Unsupported(f"the {name}'s weights must be floats, they are {row.dtype}")
    weights = row.astype(np.float64)
    sound = (weights >= 0) & (weights <= 1 + MASS_TOLERANCE)  # which nan is not
    if not sound.all():
        token = int(np.argmin(sound))
        raise NotADistribution(f"the {name} gives token {token} the weight {weights[token]}")
    mass = float(weights.sum())
    if abs(mass - 1) > MASS_TOLERANCE:
        raise NotADistribution(f"the {name} must sum to 1, it sums to {mass}")
    return weights


def _with_replacement(p: Floats, q: Floats, drafts: int) -> float:
    drawn = q > 0
    p, q = _bundled(p[drawn], q[drawn] / q.sum(), drafts)
    order = np.argsort(_ratios(p, q))
    escape = _independent_escape(_outside(q[order]), drafts)
    return float((np.cumsum(p[order]) + escape).min())


def _bundled(p: Floats, q: Floats, drafts: int) -> tuple[Floats, Floats]:
    """Return p and q with tokens of similar p/q bundled where no best H can end among them.

    This leaves little to sort. From one end of a bundle to the other p(H) grows at least by the
    least p/q times the growth of q(H), and 1 - q(H)^K is concave in q(H). So the least value inside
    is that of the start or `least`.
    """
    keys = (_ratios(p, q).view(np.uint64) >> KEY_SHIFT).astype(np.intp)
    bundles = np.flatnonzero(np.bincount(keys))
    bundle_p, bundle_q = (np.bincount(keys, x)[bundles].astype(np.float64) for x in (p, q))
    least_ratio = (bundles.astype(np.uint64) << KEY_SHIFT).view(np.float64)
    escape = _independent_escape(_outside(bundle_q), drafts)
    ends = np.cumsum(bundle_p)
    least = np.append(0.0, ends[:-1]) + least_ratio * bundle_q + escape
    loose = least < min((ends + escape).min(), 1.0)
    tokens = np.isin(keys, bundles[loose])
    return np.append(p[tokens], bundle_p[~loose]), np.append(q[tokens], bundle_q[~loose])


def _greedy(p: Floats, q: Floats, drafts: int) -> float:
    """Return p(A) + sum of min(p, q / (1 - q(A))) over the tokens that are not in A.

    If A is all of q's support, drafting stops there, and the result is p(A). The weights of q are
    unnormalised: dividing them by their sum could make new ties.
    """
    sure = _most_probable(q, drafts - 1)
    mass = q[~sure].sum()
    if mass == 0:
        return float(p[q > 0].sum())
    return float(p[sure].sum() + np.minimum(p[~sure], q[~sure] / mass).sum())


def _without_replacement(p: Floats, q: Floats, drafts: int) -> float:
    q = np.where(q < LEAST_WEIGHT, 0.0, q / q.sum())
    drawn = q > 0
    if np.count_nonzero(drawn) <= drafts:
        return float(p[drawn].sum())  # every one of them is drafted
    if drafts == 1:
        return _with_replacement(p, q, drafts)
    if drafts > MOST_DRAFTS:
        raise Unsupported(
            f"without replacement there can be at most {MOST_DRAFTS} drafts, got {drafts}"
        )
    heavy = _most_probable(q, drafts - 1)
    kept = q > SHARE_OF_ERROR * q[~heavy].sum() / (drafts * q.size)
    order = np.flatnonzero(kept)
    order = order[np.argsort(_ratios(p[order], q[order]))]
    return float((np.cumsum(p[order]) + _escape(q[order], heavy[order], drafts)).min())


def _ratios(p: Floats, q: Floats) -> Floats:
    """Return p/q for positive q, with no ratio equal to -0."""
    with np.errstate(over="ignore"):  # infinite ratios tie: V 1e-308 is all their q
        return p / q + 0.0


def _most_probable(q: Floats, count: int) -> NDArray[np.bool_]:
    """Return a mask of the `count` most probable tokens, the smaller token first among equals."""
    if count == 0:
        return np.zeros(q.size, dtype=np.bool_)
    if count >= q.size:
        return np.ones(q.size, dtype=np.bool_)
    least = np.partition(q, q.size - count)[q.size - count]
    marked: NDArray[np.bool_] = q > least
    marked[np.flatnonzero(q == least)[: count - np.count_nonzero(marked)]] = True
    return marked


def _outside(q: Floats) -> Floats:
    """Return 1 - q(H_r) for r = 1..n, summed from the far end to keep small ones exact."""
    return np.cumsum(np.append(q[1:], 0.0)[::-1])[::-1]


def _independent_escape(outside: Floats, drafts: int) -> Floats:
    """Return 1 - q(H)^K."""
    with np.errstate(divide="ignore"):  # log 0, if nothing is inside
        escape: Floats = -np.expm1(drafts * np.log1p(-np.minimum(outside, 1.0)))
    return escape


def _escape(q: Floats, heavy: NDArray[np.bool_], drafts: int) -> Floats:
    """Return 1 - Q(H_r) without replacement for r = 1..n, H_r being the first r tokens.

    The nodes end where t T is so small that products of light odds do not overflow. Products with a
    heavy token's odds do overflow, so that token is treated separately.
    """
    light_mass = float(q[~heavy].sum())
    nodes, step, small = _nodes(drafts, light_mass)
    times, late = np.exp(nodes), np.exp(nodes[small:])
    alone = np.flatnonzero(heavy)
    edges = np.arange(0, q.size, max(16, TABLE_SIZE // late.size))
    edges = np.unique(np.concatenate((edges, alone, alone + 1, [q.size])))
    masses = np.add.reduceat(q, edges[:-1])
    outside_at = _outside(np.append(0.0, masses))
    heavy_at = _outside(np.append(0.0, np.where(heavy[edges[:-1]], masses, 0.0)))
    light_share = np.cumsum(np.where(heavy, 0.0, q)) / light_mass

    counts = np.ones((drafts, times.size))  # P(N_H(T) <= m), at small T of heavy tokens alone
    sums = np.empty(q.size)  # over T exp(-u T) P(N_H(T) < K)
    for i, (start, stop) in enumerate(pairwise(edges)):
        if heavy[start]:
            stay, leave = np.exp(-q[start] * times), -np.expm1(-q[start] * times)
            counts[1:] = stay * counts[1:] + leave * counts[:-1]
            counts[0] *= stay
            sums[start] = (late * np.exp(-outside_at[i + 1] * late)) @ counts[-1, small:]
        else:
            odds = np.expm1(np.multiply.outer(late, q[start:stop]))
            grown, ends = _grown(counts[:, small:], odds)
            # exp(-u T) P(N_H(T) < K) is exp(-u T) at the block's start times what has grown.
            sums[start:stop] = np.einsum("t,tr->r", late * np.exp(-outside_at[i] * late), grown)
            counts[:, small:] = ends * np.exp(-masses[i] * late)
        raindrops = _raindrops(counts[:, :small], nodes[:small], heavy_at[i + 1], light_mass)
        sums[start:stop] += np.polyval(raindrops, light_share[start:stop])
    outside = _outside(q)
    # Drafts without replacement escape more often than independent ones.
    return np.maximum(outside * step * sums, _independent_escape(outside, drafts))


def _raindrops(counts: Floats, nodes: Floats, heavy_outside: float, light_mass: float) -> Floats:
    """Return the sum of T exp(-u T) P(N_H(T) < K) over small T, the light arrivals being Poisson.

    `counts` are those of the heavy tokens in H; `heavy_outside` is the mass of the other heavy
    tokens. The sum is a polynomial in H's share of the light mass, given by its coefficients,
    highest degree first.
    """
    degrees = np.arange(len(counts))[::-1, np.newaxis]
    factorials = np.array([[lgamma(m + 1)] for m in degrees[:, 0]])
    poisson = degrees * (nodes + log(light_mass)) - factorials
    untouched = (heavy_outside + light_mass) * np.exp(nodes)
    sums: Floats = (np.exp(nodes - untouched + poisson) * counts).sum(axis=1)
    return sums


def _grown(counts: Floats, odds: Floats) -> tuple[Floats, Floats]:
    """Return `counts` with the block's tokens added one by one, given their odds by T and token.

    A token of odds x turns the K rows c_m into c_m + x c_(m-1). The first result is the last row
    after each token, by T and token; the second is all rows after the last token.
    """
    times, tokens = odds.shape
    tables = np.empty((2, times, tokens + 1))
    ends = counts.copy()
    before, after = counts[0][:, np.newaxis], tables[0]
    for m in range(1, len(counts)):
        after = tables[m % 2]
        after[:, 0] = counts[m]
        np.multiply(odds, before, out=after[:, 1:])
        np.cumsum(after, axis=1, out=after)
        ends[m] = after[:, -1]
        before = after[:, :-1]
    return after[:, 1:], ends


def _nodes(drafts: int, light_mass: float) -> tuple[Floats, float, int]:
    """Return the nodes log T, their step, and how many T are small, by the module's bounds."""
    angles = np.linspace(0.5, 1.57, 200)  # 2 M / (exp(z) - 1) <= 4 M / exp(z)
    exponents = log(4 / SHARE_OF_ERROR) - drafts * np.log(np.cos(angles))
    step = float((2 * pi * angles / exponents).max())
    first = log(SHARE_OF_ERROR)
    small = max(
        log(8 * SHARE_OF_ERROR) / 2 - log(light_mass),
        (log(SHARE_OF_ERROR) + lgamma(drafts + 2)) / (drafts + 1),
    )
    arrivals = float(drafts)  # P(Poisson(y) < K) <= exp(K - y) (y/K)^K for y >= K, by Chernoff
    while drafts - arrivals + drafts * log(arrivals / drafts) > log(SHARE_OF_ERROR):
        arrivals += 1
    last = log(arrivals) - log(light_mass)
    nodes: Floats = first + step * np.arange(ceil((last - first) / step) + 1, dtype=np.float64)
    return nodes, step, int((small - first) / step)
