"""Errors inside the exact lane: unsupported operations, and torch's own errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class NotUnderstood(Exception):
    """Error of a reading of noise whose law is unknown; the message completes 'it ...'."""


class NotTogether(Exception):
    """Obstacle, named by the message, to a walk of several runs, which are then made separately."""


class TorchError(Exception):
    """Error of torch itself, which the program sees and can catch as in an unwatched run."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error.with_traceback(None)


def ran(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a function that the program called. Raises `TorchError`."""
    try:
        return func(*args, **kwargs)
    except Exception as error:
        raise TorchError(error) from None
