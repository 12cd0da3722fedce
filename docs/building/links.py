"""Links in pages: to files of the checkout, and to reports of a fault."""

from __future__ import annotations

import re

from draftproof.conformance.report.markdown import in_line

OURS = "draftproof"
"""Source of an invented mutant, which nobody has reported."""


def source_link(path: str, name: str = "") -> str:
    """Return the target of a link to a file, or to the definition of a name in it."""
    return f"repo:{path}#{name}" if name else f"repo:{path}"


def met_in(source: str) -> str:
    """Return the source of a fault, as a link if it has an address."""
    thread = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)", source)
    if thread:
        return f"[{thread[1]}#{thread[2]}]({source})"
    if paper := re.fullmatch(r"arXiv (\d{4}\.\d{5})", source):
        return f"[{source}](https://arxiv.org/abs/{paper[1]})"
    return in_line(source)
