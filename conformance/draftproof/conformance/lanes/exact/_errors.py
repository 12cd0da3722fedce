"""Errors inside of the exact lane: what it does not follow, and what torch itself raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class NotUnderstood(Exception):
    """Look at noise whose law is not known; the message completes 'it ...'."""


class NotTogether(Exception):
    """Obstacle to one walk of several runs: each is made by itself then. The message names it."""


class TorchError(Exception):
    """Error of torch's own, which the program may see and catch as it would have unwatched."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error.with_traceback(None)


def ran(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a function that the program called. Raises `TorchError`."""
    try:
        return func(*args, **kwargs)
    except Exception as error:
        raise TorchError(error) from None
