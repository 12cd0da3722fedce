from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from draftproof.conformance.lanes.engine.asking import Generation
from draftproof.conformance.lanes.engine.server import EngineFailed
from draftproof.conformance.run.answers import answers_of


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], "chain gave 0 answers to 1 requests"),
        ([[3]], "chain wrote 1 tokens where 2 were asked for, behind a prompt of 1"),
        ([["a", "b"]], r"chain gave \"\['a', 'b'\]\": an answer is a sequence of token ids"),
        ([3], "chain gave '3': an answer is a sequence of token ids"),
        (ValueError("out of blocks"), "chain raised ValueError: out of blocks"),
    ],
)
def test_what_is_no_answer_is_told(found: Any, told: str) -> None:
    class Broken:
        name = "chain"
        version = "1"

        def generate(self, requests: Sequence[Generation]) -> Any:
            if isinstance(found, Exception):
                raise found
            return found

    with pytest.raises(EngineFailed, match=told):
        answers_of(Broken(), [Generation((3,), 2)])
