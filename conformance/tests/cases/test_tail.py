"""The tail cases: what floats hold of them, and what they are there for."""

from __future__ import annotations

import numpy
import pytest

from draftproof.conformance.cases.tail import SPECIAL, TILE, TailCase, crowds, places, tails
from draftproof.reference.rational import ONE, total

ALL = {case.id: case for case in tails("certify")}
EXACT_FORMS = [case for case in ALL.values() if case.form not in ("buckets", "ranges")]


@pytest.mark.parametrize("case", EXACT_FORMS, ids=lambda case: case.id)
def test_rows_are_exact_in_float32_and_sum_to_one(case: TailCase) -> None:
    rows = case.rows()
    for row in (*rows.target, *rows.draft):
        assert (row.astype(numpy.float32) == row).all()
        assert row.sum() == 1
        assert (row >= 0).all()


@pytest.mark.parametrize("case", ALL.values(), ids=lambda case: case.id)
def test_what_is_drafted_can_be_accepted_and_rejected(case: TailCase) -> None:
    rows = case.rows()
    for p, q, token in zip(rows.target, rows.draft, rows.path, strict=False):
        assert 0 < p[token] < q[token]
        assert (p - q).clip(0).sum() > 0


def test_residuals_have_the_mass_that_their_name_says() -> None:
    for case in ALL.values():
        if case.is_near:
            (mass,) = case.rows().masses
            assert mass == pytest.approx(float(case.form.removeprefix("near.")), rel=1e-3)


def test_a_residual_is_spread_over_many_tokens() -> None:
    rows = ALL["tail.spread.v262144"].rows()
    excess = (rows.target[0] - rows.draft[0]).clip(0)
    assert (excess > 0).sum() == 10**5 - 1
    assert excess.max() == pytest.approx(1e-6, rel=0.1)


def test_a_path_is_in_the_tail_and_at_the_ends_of_tiles() -> None:
    rows = ALL["tail.flat.v50257"].rows()
    for p, token in zip(rows.target, rows.path, strict=False):
        assert token % TILE == TILE - 1
        assert (p > p[token]).sum() >= 1000


def test_modes_grow_and_reach_the_largest_vocabulary() -> None:
    modes = [{case.id for case in tails(mode)} for mode in ("quick", "standard", "certify")]
    assert modes[0] < modes[1] < modes[2]
    assert {case.vocabulary for case in ALL.values()} >= {
        *(8191, 8192, 8193, 32_000, 50_257, 128_256, 151_936, 262_144)
    }


def test_places_have_both_ends_tiles_and_special_ids() -> None:
    found = places(151_936, 1000).tolist()
    assert len(found) == len(set(found)) == 1000
    assert {0, 151_935, 1023, 1024, 151_551, 151_552, *SPECIAL} <= set(found)
    assert max(places(8191, 1000)) < 8191


@pytest.mark.parametrize("form", ["buckets", "ranges"])
def test_every_token_is_of_a_kind(form: str) -> None:
    found = crowds(form, 50_257)
    assert set(found.kinds.tolist()) == set(range(66))
    assert (found.kinds[TILE - 1 :: TILE] == 1).all()
    assert total(found.instance.target(())) == ONE
