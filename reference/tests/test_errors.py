from __future__ import annotations

import pytest

from draftproof.reference import errors

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and kind.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_error_is_invalid_input_and_a_value_error(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.InvalidInput)
    assert issubclass(kind, ValueError)
    assert kind.__doc__
