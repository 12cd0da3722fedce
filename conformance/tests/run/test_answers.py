from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pytest

from draftproof.conformance.lanes.engine.asking import Answer, Generation
from draftproof.conformance.lanes.engine.server import UNKNOWN, EngineFailed
from draftproof.conformance.run.answers import answers_of


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], "chain gave 0 answers to 1 requests"),
        ([[3]], "chain wrote 1 tokens where 2 were asked for, behind a prompt of 1"),
        ([["a", "b"]], r"chain gave \"\['a', 'b'\]\": an answer is a sequence of token ids"),
        ([3], "chain gave '3': an answer is a sequence of token ids"),
        ([[1.5, 2]], r"chain gave '\[1.5, 2\]': an answer is a sequence of token ids"),
        ([Answer((3, 4), -1)], "chain says that it took '-1' passes: steps is a whole number"),
        ([Answer((3, 4), "2")], "chain says that it took '2' passes"),  # type: ignore[arg-type]
        (ValueError("out of blocks"), "chain raised ValueError: out of blocks"),
        (SystemExit(0), "chain raised SystemExit: 0"),
    ],
)
def test_what_is_no_answer_is_told(found: Any, told: str) -> None:
    class Broken:
        name = "chain"
        version = "1"

        def generate(self, requests: Sequence[Generation]) -> Any:
            if isinstance(found, BaseException):
                raise found
            return found

    with pytest.raises(EngineFailed, match=told):
        answers_of(Broken(), [Generation((3,), 2)])


def test_numbers_of_numpy_are_numbers() -> None:
    class Numeric:
        name = "numeric"
        version = "1"

        def generate(self, requests: Sequence[Generation]) -> Any:
            steps: Any = numpy.int64(1)
            return [Answer(tuple(numpy.array([3, -7])), steps) for _ in requests]

    (answer,) = answers_of(Numeric(), [Generation((3,), 2)])
    assert answer == Answer((3, UNKNOWN), 1)
