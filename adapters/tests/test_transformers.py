from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest
import torch
from transformers.generation import utils

from draftproof.adapters.engines.transformers import SpeculativeSampling
from draftproof.conformance.cases import cases
from draftproof.conformance.lanes.observe import observe
from draftproof.conformance.protocol.adapter import Request, program_of
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED
from draftproof.conformance.requirements.laws import judge

GENERIC = next(case for case in cases("quick") if case.id == "generic.v2.l2")


def test_it_is_the_installed_function_under_its_version() -> None:
    adapter = SpeculativeSampling()
    assert (adapter.name, adapter.version) == ("transformers", version("transformers"))
    assert adapter.algorithm == "token"


def test_it_conforms() -> None:
    findings = judge(observe(program_of(SpeculativeSampling()), GENERIC))
    assert {finding.verdict for finding in findings} <= {PASS, SKIPPED}


@pytest.mark.requirement("law.lossless", "law.reference")
def test_its_ensemble_option_is_found_lossy() -> None:
    findings = judge(
        observe(program_of(SpeculativeSampling(assistant_ensemble_weight=0.9)), GENERIC)
    )
    verdicts = {finding.requirement: finding.verdict for finding in findings}
    assert verdicts["law.lossless"] == verdicts["law.reference"] == FAIL


def test_tokens_that_are_not_the_drafted_ones_are_no_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swapped(
        candidate_input_ids: Any,
        candidate_logits: Any,
        candidate_length: int,
        new_logits: Any,
    ) -> Any:
        return torch.tensor([[1 - int(candidate_input_ids[0, 0]), 0]]), torch.tensor(1)

    monkeypatch.setattr(utils, "_speculative_sampling", swapped)
    one = Request(
        torch.zeros(1, 1, 1, dtype=torch.int64),
        torch.ones(1, 1, 1, 2) / 2,
        torch.ones(1, 1, 2, 2) / 2,
    )
    assert SpeculativeSampling().verify(one).accepted_length.tolist() == [-1]
