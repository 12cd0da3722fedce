from __future__ import annotations

from draftproof.reference.emission import Emission


def test_an_emission_is_what_was_accepted_and_one_token_more() -> None:
    assert Emission(0, (1, 0), 2).tokens == (1, 0, 2)
    assert Emission(0, (), 2).tokens == (2,)


def test_emissions_on_different_paths_are_different_outcomes() -> None:
    assert Emission(0, (), 1) != Emission(1, (), 1)
    assert len({Emission(0, (), 1), Emission(0, (), 1)}) == 1
