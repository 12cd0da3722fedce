from __future__ import annotations

from itertools import product

import pytest
import torch

from draftproof.adapters import engines
from draftproof.adapters.engines.assisted import CANDIDATES, AssistedGeneration
from draftproof.conformance.protocol.adapter import TextRequest, declaration, program_of
from draftproof.conformance.protocol.tolerance import allowed_of_text
from draftproof.conformance.requirements.finding import FAIL, PASS, Finding
from draftproof.conformance.requirements.texts import judge, observe_text, settings

SETTINGS = {setting.id: setting for setting in settings()}
ASSISTED, EARLY_EXIT, LOOKUP, UNIVERSAL, SINGLE = CANDIDATES


def judged(candidates: str, setting: str) -> Finding:
    return judge(observe_text(program_of(AssistedGeneration(candidates)), SETTINGS[setting]))


def test_every_generator_is_an_engine() -> None:
    assert {
        getattr(engines, f"transformers_{name}").name
        for name in ("assisted", "early_exit", "prompt_lookup", "universal", "single_position")
    } == {f"transformers generate ({candidates})" for candidates in CANDIDATES}
    assert declaration(engines.transformers_assisted).generates


@pytest.mark.requirement("text.lossless")
@pytest.mark.parametrize("candidates", [ASSISTED, EARLY_EXIT, LOOKUP])
@pytest.mark.parametrize("setting", ["text.v3.h2.plain", "text.v3.h3.top-k"])
def test_what_is_written_is_the_targets_own_text(candidates: str, setting: str) -> None:
    found = judged(candidates, setting)
    assert (found.verdict, found.lane) == (PASS, "exact")
    # A pass is within what rounding explains, of which no less is derived.
    assert found.distance is not None


@pytest.mark.requirement("text.lossless")
def test_logits_of_another_order_than_the_tokens_are_found() -> None:
    found = judged(UNIVERSAL, "text.v3.h2.plain")
    assert found.verdict == FAIL
    assert found.detail.startswith("writes [2, 1] with probability 0.17")


@pytest.mark.requirement("text.lossless")
def test_the_most_probable_token_under_the_law_of_a_softmax_is_found() -> None:
    """It drafts in the second iteration: a text of two tokens is over by then."""
    assert judged(SINGLE, "text.v3.h2.top-k").verdict == PASS
    found = judged(SINGLE, "text.v3.h3.top-k")
    assert found.verdict == FAIL
    assert found.detail.startswith("writes [2, 2, 0] with probability 0.21")


@pytest.mark.parametrize("candidates", CANDIDATES)
def test_logits_are_small_and_do_not_depend_on_how_a_text_is_cut(candidates: str) -> None:
    target, _ = CANDIDATES[candidates](3)
    texts = torch.tensor([(0, 1, 0, *text) for text in product(range(3), repeat=2)])
    with torch.no_grad():
        whole = target(texts).logits
        start = target(texts[:, :3], use_cache=True)
        rest = target(texts[:, 3:], past_key_values=start.past_key_values).logits
    # Norms and the angles of positions are float32. Logits that are off by d move a row by d / 2 in
    # total variation, and a text of three tokens by three times that: no more than may be rounded.
    declared = declaration(AssistedGeneration(candidates))
    allowed = float(allowed_of_text(declared, 3, 3)) / 1.5
    assert whole.abs().max() <= 2 + allowed
    torch.testing.assert_close(whole[:, 3:], rest, rtol=0, atol=allowed)


def test_models_are_made_without_moving_the_global_generator() -> None:
    before = torch.get_rng_state()
    CANDIDATES[ASSISTED](5)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("candidates", CANDIDATES)
def test_a_text_has_as_many_tokens_as_are_asked_for(candidates: str) -> None:
    text = AssistedGeneration(candidates).generate(TextRequest(vocabulary=3, horizon=5))
    assert text.shape == (5,)
    assert set(text.tolist()) <= {0, 1, 2}
