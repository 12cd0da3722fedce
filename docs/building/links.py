"""Links as the pages have them: to files of the checkout, and to where a fault was met."""

from __future__ import annotations

import re

from draftproof.conformance.report.markdown import in_line

OURS = "draftproof"
"""The source of a mutant that was thought of, and not met."""


def source_link(path: str, name: str = "") -> str:
    """Return the target of a link to a file, or to what the file defines under a name."""
    return f"repo:{path}#{name}" if name else f"repo:{path}"


def met_in(source: str) -> str:
    """Return where a fault was met, as a link where it has an address."""
    thread = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)", source)
    if thread:
        return f"[{thread[1]}#{thread[2]}]({source})"
    if paper := re.fullmatch(r"arXiv (\d{4}\.\d{5})", source):
        return f"[{source}](https://arxiv.org/abs/{paper[1]})"
    return in_line(source)
