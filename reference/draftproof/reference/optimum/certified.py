"""What a certificate can fail to be."""

from __future__ import annotations


class NotOptimal(AssertionError):
    """A certificate does not prove its value."""
