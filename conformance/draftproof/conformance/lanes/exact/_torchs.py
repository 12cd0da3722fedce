"""Errors of torch's own, which the program may see and catch: every other error is the lane's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Torchs(Exception):
    """What the program called raised an error, as it would have unwatched."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error.with_traceback(None)


def ran(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what a function returns that the program called. Raises `Torchs`."""
    try:
        return func(*args, **kwargs)
    except Exception as error:
        raise Torchs(error) from None
