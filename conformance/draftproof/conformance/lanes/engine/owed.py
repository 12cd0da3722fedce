"""Rows that an engine owes: those of the checkpoint, processed by the settings of a request.

The order is that of `SamplingParams`: logit bias and allowed tokens, temperature, one filter. If
rounding can decide which tokens a filter keeps, as for two tokens of equal probability, engines may
differ: no row is owed in such a context, and its tokens are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import atanh

import numpy
from numpy.typing import NDArray

from draftproof.conformance.checkpoint.chain import shift_bound
from draftproof.conformance.checkpoint.rows import Context, KnownRows, Row
from draftproof.conformance.lanes.engine.asking import SamplingParams
from draftproof.conformance.lanes.engine.wealth import Owed
from draftproof.conformance.lanes.statistics import Floats

DRAW = 2.0**-20
"""Largest distance of a token's law from its row for a draw in float32: its number has 24 bits, and
a running sum of a row is rounded 16 times."""

_CLOSE = 1e-4
"""Largest relative difference of probabilities at which rounding decides a filter."""

_BFLOAT16 = 2.0**-8
"""Unit roundoff of logits in bfloat16."""


def plain_sampling(rows: KnownRows) -> SamplingParams:
    """Return the sampling that draws from the rows themselves."""
    return SamplingParams(temperature=float(rows.temperature))


def owed_rows(
    rows: KnownRows,
    sampling: SamplingParams,
    *,
    dtype: str | None = None,
    others: Sequence[SamplingParams] = (),
) -> dict[Context, Owed]:
    """Return the owed rows of all clear contexts, with the rows of known faults.

    `others` are the samplings of requests that run at the same time.
    """
    tolerance = _tolerance(rows, sampling, dtype or rows.dtype)
    target, draft = (_table(rows, of, sampling) for of in (rows.target, rows.draft))
    plain = plain_sampling(rows)
    suspects = {
        "the draft's row": draft,
        "the target's row without the request's settings": _table(rows, rows.target, plain),
        "the draft's row without the request's settings": _table(rows, rows.draft, plain),
        "the row behind other earlier tokens": _behind_others(target),
        "the row of positions that are off by one": {
            context: target[seen]
            for context in target
            if (seen := (*context[1:], context[-1])) in target
        },
    }
    for other in others:
        if other != sampling:
            suspects[f"the row of a request with {_told(other, plain)}"] = _table(
                rows, rows.target, other
            )
    return {
        context: Owed(row, tolerance, _different(suspects, context, row))
        for context, row in target.items()
    }


def _told(sampling: SamplingParams, plain: SamplingParams) -> str:
    return " and ".join(sampling.apart(plain)) or "plain sampling"


Table = Mapping[Context, Floats]


def _table(
    rows: KnownRows, of: Mapping[Context, Row], sampling: SamplingParams
) -> dict[Context, Floats]:
    """Return the processed rows, except in contexts in which rounding decides a filter."""
    found = {context: _processed(_floats(row), rows, sampling) for context, row in of.items()}
    return {context: row for context, row in found.items() if row is not None}


def _behind_others(table: Table) -> dict[Context, Floats]:
    """Return the mean of all rows with the same last token, as from a wrong cache or mask."""
    behind: dict[int, list[Floats]] = {}
    for context, row in table.items():
        behind.setdefault(context[-1], []).append(row)
    means = {last: numpy.mean(rows, axis=0) for last, rows in behind.items()}
    return {context: means[context[-1]] for context in table if len(context) > 1}


def _different(suspects: Mapping[str, Table], context: Context, row: Floats) -> dict[str, Floats]:
    """Return the rows of suspects that differ from the row that is owed."""
    own = {name: table[context] for name, table in suspects.items() if context in table}
    return {name: each for name, each in own.items() if abs(each - row).sum() > _CLOSE}


def _floats(row: Row) -> Floats:
    return numpy.array([float(each) for each in row])


def _processed(row: Floats, rows: KnownRows, sampling: SamplingParams) -> Floats | None:
    """Return the row to draw from, None if rounding decides which tokens a filter keeps."""
    with numpy.errstate(divide="ignore"):
        logits = numpy.log(row) * float(rows.temperature)
    logits += numpy.array([sampling.logit_bias.get(word, 0.0) for word in rows.words])
    if sampling.allowed is not None:
        logits[[word not in sampling.allowed for word in rows.words]] = -numpy.inf
    logits /= sampling.temperature
    if logits.max() == -numpy.inf:
        return None
    weights = numpy.exp(logits - logits.max())
    kept = _kept(weights / weights.sum(), sampling)
    if kept is None:
        return None
    weights = numpy.where(kept, weights, 0.0)
    processed: Floats = weights / weights.sum()
    return processed


def _kept(row: Floats, sampling: SamplingParams) -> NDArray[numpy.bool_] | None:
    """Return a mask of the words that a filter keeps, None if rounding decides."""
    if sampling.top_k is not None:
        return _first(row, sampling.top_k)
    if sampling.top_p is not None:
        sums = numpy.sort(row)[::-1].cumsum()
        if (abs(sums[:-1] - sampling.top_p) < _CLOSE).any():
            return None
        return _first(row, int((sums < sampling.top_p).sum()) + 1)
    if sampling.min_p is not None:
        least = sampling.min_p * row.max()
        return None if (abs(row - least) < _CLOSE * least).any() else row >= least
    return row > 0


def _first(row: Floats, count: int) -> NDArray[numpy.bool_] | None:
    """Return a mask of the most probable words, None if the last of them is not clear."""
    order = numpy.argsort(-row, kind="stable")
    if count < len(row):
        last, following = row[order[count - 1]], row[order[count]]
        # Words without probability are equal, and never kept.
        if following > 0 and following > last * (1 - _CLOSE):
            return None
    kept = numpy.zeros(len(row), dtype=bool)
    kept[order[:count]] = True
    return kept & (row > 0)


def _tolerance(rows: KnownRows, sampling: SamplingParams, dtype: str) -> float:
    """Return the largest distance of a correct engine's row from a processed row.

    An error of logits grows with the factor by which they are divided. In bfloat16 an engine may
    round the quotient, too.
    """
    factor = float(rows.temperature) / sampling.temperature
    error = 2 * atanh(rows.bounds[dtype]) * factor
    if dtype == "bfloat16" and sampling != plain_sampling(rows):
        row = min(float(p) for each in rows.target.values() for p in each if p)
        error += _BFLOAT16 * factor * -numpy.log(row)
    return shift_bound(error) + DRAW
