from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.model import Row
from draftproof.reference.rational import ONE, ZERO, Rational, rational, total
from draftproof.reference.rows import excess, mass, normalised, overlap, without

exact = settings.get_profile("exact")

weights = st.integers(0, 36).map(lambda twelfths: rational(twelfths) / 12)
pairs = st.lists(st.tuples(weights, weights), min_size=1, max_size=4)


def columns(pairs: list[tuple[Rational, Rational]]) -> tuple[Row, Row]:
    p, q = zip(*pairs, strict=True)
    return p, q


@exact
@given(pairs=pairs, scale=weights)
def test_what_is_scaled_is_shared_or_in_excess(
    pairs: list[tuple[Rational, Rational]], scale: Rational
) -> None:
    p, q = columns(pairs)
    over, under = excess(p, q, scale), excess(q, [scale * a for a in p])
    assert all(a * b == 0 for a, b in zip(over, under, strict=True))
    assert total(over) - total(under) == scale * total(p) - total(q)
    assert overlap(q, p, scale) == scale * total(p) - total(over) == total(q) - total(under)
    assert excess(p, q) == excess(p, q, ONE)
    assert overlap(p, q) == overlap(q, p)


@exact
@given(pairs=pairs, data=st.data())
def test_a_row_is_what_is_inside_and_what_is_outside(
    pairs: list[tuple[Rational, Rational]], data: st.DataObject
) -> None:
    row, _ = columns(pairs)
    tokens = data.draw(st.sets(st.sampled_from(range(len(row)))))
    assert mass(row, tokens) + total(without(row, tokens)) == total(row)
    assert all(without(row, tokens)[token] == ZERO for token in tokens)
    if any(row):
        assert total(normalised(row)) == ONE
        assert [x * total(row) for x in normalised(row)] == list(row)
