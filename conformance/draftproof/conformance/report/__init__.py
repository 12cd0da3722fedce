"""Reports of certificates for people, in every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from draftproof.conformance.report.plain import json_text, plain

FORMATS = ("terminal", "markdown", "html", "junit", "json")
"""Formats of a report: for a terminal, a pull request, a browser, a test runner, a program."""


def rendered(
    documents: Sequence[Mapping[str, Any]],
    form: str,
    *,
    kill_matrix: Mapping[str, Any] | None = None,
) -> str:
    """Return certificates in one of the `FORMATS`, "terminal" excepted, which needs a console.

    The documents follow the schema "certificate". The `kill_matrix` follows the schema "mutants"
    and is shown in html alone; None is the shipped kill matrix. Raises `ReportUnavailable`, and
    `ValueError` for an unknown form.
    """
    from draftproof.conformance.report import html, junit, markdown

    if form == "json":
        # Programs get what there is, to the last character.
        from draftproof.conformance.evidence.certificate import exit_code, gravest

        code = gravest({exit_code(document) for document in documents})
        outcome = {"certificates": list(documents), "errors": [], "exit_code": code}
        return json_text(outcome) + "\n"
    shown = plain(documents)
    if form == "markdown":
        return markdown.markdown(shown)
    if form == "junit":
        return junit.junit(shown)
    if form == "html":
        return html.page(shown, kill_matrix=plain(kill_matrix))
    raise ValueError(f"the form is one of {', '.join(FORMATS[1:])}, got {form!r}")
