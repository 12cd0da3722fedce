from __future__ import annotations

from itertools import product

import numpy
import pytest

from draftproof.conformance.checkpoint.chain import chain
from draftproof.conformance.checkpoint.rows import KnownRows
from draftproof.conformance.checkpoint.writing import rows_of
from draftproof.conformance.lanes.engine.lengths import kept

pytest.importorskip("torch")


BOTH = ("target", "draft")


def rows(memory: int) -> KnownRows:
    made = chain(memory=memory, vocabulary=7, zeros=1, seed=2)
    return rows_of(made, kind=f"memory-{memory}", dtype="float32")


@pytest.mark.parametrize("memory", [1, 2])
def test_what_can_be_kept_is_the_sum_over_prefixes(memory: int) -> None:
    own = rows(memory)
    words = range(1, len(own.words) + 1)

    def weight(of: str, context: tuple[int, ...], path: tuple[int, ...]) -> float:
        text = context + path
        ends = range(len(context), len(text))
        return float(
            numpy.prod([float(getattr(own, of)[text[e - memory : e]][text[e] - 1]) for e in ends])
        )

    sums = [
        sum(
            min(weight("target", context, path), weight("draft", context, path))
            for length in (1, 2, 3)
            for path in product(words, repeat=length)
        )
        for context in own.target
    ]
    products = [
        sum(
            numpy.prod(
                [
                    min(weight(of, context + path[:end], path[end : end + 1]) for of in BOTH)
                    for end in range(length)
                ]
            )
            for length in (1, 2, 3)
            for path in product(words, repeat=length)
        )
        for context in own.target
    ]
    assert kept(own, 3) == pytest.approx((min(products), max(sums)))


def test_a_draft_like_the_target_can_be_kept_whole() -> None:
    made = rows_of(chain(distance=0, vocabulary=8), kind="memory-1", dtype="float32")
    assert kept(made, 4) == pytest.approx((4, 4))
