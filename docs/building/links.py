"""Links to files of the checkout, as the pages have them."""

from __future__ import annotations


def source_link(path: str, name: str = "") -> str:
    """Return the target of a link to a file, or to what the file defines under a name."""
    return f"repo:{path}#{name}" if name else f"repo:{path}"
