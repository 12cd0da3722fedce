"""The formulas of laws, algorithms and optima, held against the reference."""

from __future__ import annotations

from functools import partial

from formulas import places
from formulas.formula import Formula
from formulas.places import ONE_PATH, SEVERAL_PATHS, one_token

from draftproof.reference.optimum import stateful, stateless

_CORRECTION = {"following": r"\Pr(#1 \mid \tau = #2,\, x)"}
_AFTER = {"following": r"\Pr(#1 \mid \tau = 0,\, x)"}
_ACCEPTED = {"accepted": r"\Pr(#1 \text{ is accepted})"}
_PRICED = {"root": "", "d": "D", "l": r"\ell"}

LAWS: dict[str, Formula] = {
    "law.total_variation": Formula(
        lines=(
            "TV == max(abs(P(A) - R(A)) for A in events)"
            " == sum(abs(P(x) - R(x)) for x in outcomes) / 2",
        ),
        notation={"R": "P'"},
        places=places.distances,
    ),
    "law.lossless": Formula(
        lines=("sum(emitted(x[:n]) * p(x[n:], x[:n]) for n in to(1, L + 1)) == p(x)",),
        notation={"emitted": r"\Pr(#1 \text{ is emitted})"},
        places=places.texts,
    ),
    "scheme.iid": Formula(
        lines=("Q(x) == prod(q(x[k]) for k in to(1, K))",),
        places=partial(places.drawn_by, "iid"),
    ),
    "scheme.without_replacement": Formula(
        lines=(
            "Q(x) == prod(q(x[k]) / (1 - sum(q(x[j]) for j in to(1, k - 1))) for k in to(1, K))",
        ),
        places=partial(places.drawn_by, "without_replacement"),
    ),
    "scheme.hub": Formula(
        lines=("pair(i, a) == q(i)", "pair(a, i) == q(a) * q(i) / (1 - q(a))"),
        notation={"pair": "Q(#1, #2)"},
        aside=r"i \ne a",
        places=partial(places.drawn_by, "hub"),
    ),
    "scheme.greedy": Formula(
        lines=("Q(x) == q(x[K]) / (1 - sum(q(a) for a in A))",),
        aside=r"A = \{x_1, \dots, x_{K-1}\}",
        places=partial(places.drawn_by, "greedy"),
    ),
    "token.kept": Formula(
        lines=("kept(i) == prod(min(1, p(x[j], x[:j-1]) / q(x[j], x[:j-1])) for j in to(1, i))",),
        notation={"kept": r"\Pr(\tau \ge #1 \mid x)"},
        places=places.kept,
    ),
    "token.correction": Formula(
        lines=(
            "following(y, i) == pos(p(y, x[:i]) - q(y, x[:i]))"
            " / sum(pos(p(v, x[:i]) - q(v, x[:i])) for v in V)",
        ),
        notation=_CORRECTION,
        aside="i < L",
        places=partial(places.corrections, "token"),
    ),
    "token.value": Formula(
        lines=(
            "E == sum(prod(min(p(x[j], x[:j-1]), q(x[j], x[:j-1])) for j in to(1, i))"
            " for i in to(1, L) for x in texts(i))",
        ),
        places=partial(places.expected, "token", ONE_PATH),
    ),
    "block.weight": Formula(
        lines=("w[i] == min(1, w[i - 1] * p(x[i], x[:i-1]) / q(x[i], x[:i-1]))",),
        aside="w_0 = 1",
        places=places.weights,
    ),
    "block.pass": Formula(
        lines=("h[i] == (S[i] / (S[i] + 1 - w[i]) if i < L else w[L])",),
        given=("S[i] == sum(pos(w[i] * p(y, x[:i]) - q(y, x[:i])) for y in V)",),
        places=places.block_passes,
    ),
    "block.correction": Formula(
        lines=(
            "following(y, i) == pos(w[i] * p(y, x[:i]) - q(y, x[:i]))"
            " / sum(pos(w[i] * p(v, x[:i]) - q(v, x[:i])) for v in V)",
        ),
        notation=_CORRECTION,
        aside="i < L",
        places=partial(places.corrections, "block"),
    ),
    "block.value": Formula(
        lines=(
            "A(z @ y) == min(A(z) * p(y, z), q(z @ y))",
            "E == sum(A(x) for x in prefixes)",
        ),
        places=partial(places.by_token, "block", ONE_PATH),
    ),
    "greedy_block.pass": Formula(
        lines=("h[i] == (D[i] / max(D[i], D[i] + 1 - r[i]) if i < L else min(1, r[L]))",),
        given=(
            "r[i] == p(x[:i]) / q(x[:i])",
            "D[i] == sum(pos(r[i] * p(y, x[:i]) - q(y, x[:i])) for y in V)",
        ),
        places=places.greedy_passes,
    ),
    "greedy_block.value": Formula(
        lines=("A(x) == min(p(x), q(x))", "E == sum(A(x) for x in prefixes)"),
        places=partial(places.by_prefix, "greedy_block", ONE_PATH),
    ),
    "greedy_block.modified": Formula(
        lines=(
            "modified(y, z) == pos(p(z @ y) - q(z @ y)) / sum(pos(p(z @ v) - q(z @ v)) for v in V)",
        ),
        notation={"modified": r"\tilde p(#1 \mid #2)"},
        places=places.modified_rows,
    ),
    "recursive_rejection.step": Formula(
        lines=("c[j] == min(1, r[j](x[j]) / q[j](x[j]))",),
        aside="r_1 = p",
        places=places.rejections,
    ),
    "recursive_rejection.residual": Formula(
        lines=(
            "r[j + 1](y) == pos(r[j](y) - q[j](y)) / sum(pos(r[j](v) - q[j](v)) for v in V)",
            "following(y) == r[K + 1](y)",
        ),
        notation=_AFTER,
        places=places.residuals,
    ),
    "recursive_rejection.value": Formula(
        lines=(
            "accepted(y) == min(p(y), g[K] * q(y))",
            "g[j + 1] == g[j] + 1 - sum(min(p(y), g[j] * q(y)) for y in V)",
        ),
        notation=_ACCEPTED,
        aside="g_0 = 0",
        places=places.recursion,
    ),
    "k_seq.step": Formula(
        lines=("c[j] == min(1, p(x[j]) / (rho * q(x[j])))",),
        places=places.k_seq_tries,
    ),
    "k_seq.correction": Formula(
        lines=(
            "following(y) == (p(y) - (1 - (1 - b)**K) / b * min(p(y) / rho, q(y))) / (1 - b)**K",
        ),
        given=("b == sum(min(p(y) / rho, q(y)) for y in V)",),
        notation=_AFTER,
        places=places.k_seq_corrections,
    ),
    "k_seq.value": Formula(
        lines=(
            "1 - (1 - b)**K == rho * b",
            "accepted(y) == min(p(y), rho * q(y))",
            "alpha == 1 - (1 - b)**K",
        ),
        given=("b == sum(min(p(y) / rho, q(y)) for y in V)",),
        notation=_ACCEPTED,
        places=places.factors,
    ),
    "naive_tree.value": Formula(
        lines=("accepted(y) == min(p(y), q(y)) + pos(p(y) - q(y)) * (1 - (1 - q(y))**(K - 1))",),
        notation=_ACCEPTED,
        places=partial(places.tokens_of, "naive_tree", one_token("iid", 2, 3)),
    ),
    "target_first.value": Formula(
        lines=("E == sum(p(x) * (1 - (1 - q(x))**K) for x in prefixes)",),
        places=partial(places.expected, "target_first", SEVERAL_PATHS),
    ),
    "spechub.value": Formula(
        lines=("accepted(y) == (p(a) if y == a else min(p(y), q(y) / (1 - q(a))))",),
        notation=_ACCEPTED,
        places=partial(places.tokens_of, "spechub", one_token("hub", 2), more=places.hub),
    ),
    "greedy_draft.value": Formula(
        lines=(
            "accepted(y) == (p(y) if y in A else min(p(y), q(y) / (1 - sum(q(a) for a in A))))",
        ),
        notation=_ACCEPTED,
        places=partial(
            places.tokens_of, "greedy_draft", one_token("greedy", 2, 3), more=places.top
        ),
    ),
    "optimal_transport.value": Formula(
        lines=(
            "accepted(y) == sum(S(y, x) for x in drafts)",
            "following(y) == (p(y) - sum(S(y, x) for x in drafts)) / (1 - alpha)",
        ),
        notation={**_ACCEPTED, "following": r"\Pr(#1 \mid \tau = 0)", "S": "S(#1, #2)"},
        places=places.transports,
    ),
    "canonical.value": Formula(
        lines=("accepted(y) == min(p(y), I(y))",),
        given=("I(y) == sum(Q(x) * b(y, x) for x in drafts)",),
        notation={**_ACCEPTED, "I": "I"},
        places=places.selections,
    ),
    "multipath_block.row": Formula(
        lines=("Q1(z @ y) == (B + m * (F(y) + q(y, z)))**K - (B + m * F(y))**K",),
        aside="m = q(z)",
        places=places.skewed,
    ),
    "traversal.step": Formula(
        checks=("stopped == found",),
        given=(
            "child == min(1, w * p(y) / q(y))",
            "S == sum(pos(w * p(v) - q(v)) for v in V)",
            "after == pos(w * p(y) - q(y)) / S",
            "weight == S / (S + 1 - w)",
        ),
        notation={
            "child": "w(zy)",
            "after": "p_z'(y)",
            "weight": "w'(z)",
            "p": "p_z",
            "q": "q_z",
            "w": "w(z)",
        },
        places=places.traversals,
    ),
    "spectr_gbv.value": Formula(
        lines=("A(x) == p(x) * (1 - (1 - min(q(x) / p(x), 1))**K)",),
        places=partial(places.by_prefix, "spectr_gbv", SEVERAL_PATHS[:4]),
    ),
    "mixed_multipath_block.row": Formula(
        lines=(
            "Q1(z @ y) == sum(c[n] * (lam * ((F + q(y, z))**n - F**n) + (1 - lam) * q(y, z))"
            " for n in to(1, K))",
            "C[j] == sum(c[n] * (lam * comb(n, j) * q(y, z)**j * F**(n - j)"
            " + (1 - lam) * comb(n - 1, j - 1) * q(y, z)**j * (1 - q(y, z))**(n - j))"
            " for n in to(j, K))",
        ),
        notation={"C": "c'"},
        places=places.mixtures,
    ),
    "scored_multipath_block.row": Formula(
        lines=("Q1(x) == sum(m * ((1 - l)**K - (1 - h)**K) / (h - l) for l, h, m in cells)",),
        places=places.scores,
    ),
    "scored_greedy_block.value": Formula(
        lines=("A(x) == min(p(x), Q1(x))", "E == sum(A(x) for x in prefixes)"),
        places=places.kept_greedily,
    ),
    "selection.value": Formula(
        lines=(
            "A(z @ y) == min(A(z) * p(y, z), Q1(z @ y))",
            "E == sum(A(x) for x in prefixes)",
        ),
        places=places.of_selected,
    ),
    "rate.subsets": Formula(
        lines=("alpha == 1 + min(p(H) - Q(H) for H in subsets)",),
        places=places.rates,
    ),
    "rate.flow": Formula(
        lines=(
            "alpha == sum(S(y, x) for y in V for x in drafts)",
            "sum(S(y, x) for x in drafts) <= p(y)",
            "sum(S(y, x) for y in V) <= Q(x)",
        ),
        notation={"S": "S(#1, #2)"},
        places=places.flows,
    ),
    "optimum.stateless": Formula(
        lines=(
            "E == sum(A(x) for x in prefixes)",
            "A(z @ y) <= A(z) * p(y, z)",
            "A(x) <= Q1(x)",
        ),
        checks=("A(z @ y) == min(A(z) * p(y, z), Q1(z @ y))",),
        places=partial(places.budgets, stateless),
    ),
    "optimum.stateful": Formula(
        lines=(
            "E == sum(A(x) for x in prefixes)",
            "A(x) <= p(x)",
            "A(x) <= Q1(x)",
        ),
        checks=("A(x) == min(p(x), Q1(x))",),
        places=partial(places.budgets, stateful),
    ),
    "optimum.stateless.prices": Formula(
        lines=(
            "s(x) + t(x) >= 1 + sum(s(x @ y) * p(y, x) for y in V)",
            "E == sum(s(root @ y) * p(y) for y in V)"
            " + sum(Q(d) * max(sum(t(x) for x in starts(l)) for l in d) for d in drafts)",
        ),
        checks=("(s(x) + t(x) - 1 - sum(s(x @ y) * p(y, x) for y in V)) * A(x) == 0",),
        notation=_PRICED,
        places=partial(places.prices, stateless),
    ),
    "optimum.stateful.prices": Formula(
        lines=(
            "s(x) + t(x) >= 1",
            "E == sum(s(x) * p(x) for x in prefixes)"
            " + sum(Q(d) * max(sum(t(x) for x in starts(l)) for l in d) for d in drafts)",
        ),
        checks=("(s(x) + t(x) - 1) * A(x) == 0",),
        notation=_PRICED,
        places=partial(places.prices, stateful),
    ),
    "optimum.order": Formula(
        lines=("highest(i) == below(i) - below(i - 1)",),
        notation={"highest": "Q'(x_{#1})", "below": "Q(H_{#1})"},
        places=places.orders,
    ),
}
"""The formulas by name."""
