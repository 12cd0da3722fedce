"""The error of a certificate that does not prove its value."""

from __future__ import annotations


class NotOptimal(AssertionError):
    """A certificate does not prove its value."""
