from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftproof.reference.chance import enumerate_law
from draftproof.reference.drafting import draft_law, draft_paths, independent_path
from draftproof.reference.errors import Unsupported
from draftproof.reference.law import Law
from draftproof.reference.model import Instance

exact = settings.get_profile("exact")


@exact
@given(instance=...)
def test_a_path_is_the_text_of_the_draft(instance: Instance) -> None:
    path = enumerate_law(lambda chance: independent_path(instance, chance))
    assert path == instance.draft.text(instance.length)
    assert draft_law(instance) == path.map(lambda path: (path,))


@exact
@given(instance=..., drafts=st.integers(1, 3))
def test_iid_paths_multiply(instance: Instance, drafts: int) -> None:
    instance = replace(instance, length=1, drafts=drafts)
    paths = product(range(instance.vocabulary), repeat=1)
    assert draft_law(instance) == Law(
        {
            drawn: prod(map(instance.draft.joint, drawn), start=instance.draft.joint(()))
            for drawn in product(paths, repeat=drafts)
        }
    )


def test_paths_of_several_tokens_are_independent_too(motivating: Instance) -> None:
    law = draft_law(replace(motivating, drafts=2))
    text = motivating.draft.text(2)
    assert law == text.then(lambda first: text.map(lambda second: (first, second)))


def test_an_unknown_scheme_is_refused(motivating: Instance) -> None:
    instance = replace(motivating, scheme="hub")
    with pytest.raises(Unsupported) as refusal:
        enumerate_law(lambda chance: draft_paths(instance, chance))
    assert str(refusal.value) == "unknown drafting scheme 'hub'; known: iid"
