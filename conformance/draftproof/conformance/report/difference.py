"""Differences between the certificates before a change and those after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from draftproof.conformance.report.markdown import fenced, in_line, row_of
from draftproof.conformance.requirements.finding import FAIL, PASS

Certificates = Sequence[Mapping[str, Any]]

ABSENT = "not judged"


def difference(before: Certificates, after: Certificates) -> dict[str, Any]:
    """Return the differences of adapters by name, in the form of their file.

    An adapter is *worse* if it newly fails a requirement or no longer has a certificate. Failures
    on both sides are reported, and do not make it worse.
    """
    then, now = (
        {_said(each)["adapter"]["name"]: each for each in all_} for all_ in (before, after)
    )
    return {"adapters": [_adapter(name, then.get(name), now.get(name)) for name in then | now]}


def _adapter(
    name: str, then: Mapping[str, Any] | None, now: Mapping[str, Any] | None
) -> dict[str, Any]:
    was, is_now = (_verdicts(each) for each in (then, now))
    changed = [
        {"id": each, "before": was.get(each, ABSENT), "after": is_now.get(each, ABSENT)}
        for each in was | is_now
        if was.get(each, ABSENT) != is_now.get(each, ABSENT)
    ]
    return {
        "name": name,
        "before": _outcome(then),
        "after": _outcome(now),
        "is_worse": now is None
        or any(each["after"] == FAIL and each["before"] != FAIL for each in changed),
        "changed": changed if then and now else [],
        "failed": [each for each, verdict in is_now.items() if verdict == FAIL],
        "counterexample": _said(now)["counterexample"] if now else None,
    }


def _said(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document["predicate"]["draftproof"]
    return found


def _verdicts(document: Mapping[str, Any] | None) -> dict[str, str]:
    requirements = _said(document)["requirements"] if document else ()
    return {each["id"]: each["verdict"] for each in requirements}


def _outcome(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a certificate's version, verdict and digest of files."""
    if document is None:
        return None
    return {
        "version": _said(document)["adapter"]["version"],
        "verdict": _said(document)["verdict"],
        "files": document["subject"][0]["digest"]["sha256"],
    }


def markdown(found: Mapping[str, Any]) -> str:
    """Return a difference, `plain`, as GitHub's Markdown: the verdicts, then what is worse."""
    lines = [row_of(("verifier", "before", "after", "changed")), "|---|---|---|---|"]
    lines += [row_of(_cells(each)) for each in found["adapters"]]
    for each in found["adapters"]:
        if each["is_worse"] and each["counterexample"]:
            lines.append(f"\n### {in_line(each['name'])}: the smallest counterexample found\n")
            lines.append(fenced("\n".join(each["counterexample"]["words"]), "text"))
    return "\n".join((*lines, ""))


def _cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    name = in_line(each["name"])
    return (
        f"**{name}**" if each["is_worse"] else name,
        *(in_line(_short(each[when])) for when in ("before", "after")),
        in_line(_changed(each)),
    )


def text(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a difference, `plain`, in lines for a terminal."""
    for each in found["adapters"]:
        yield f"{each['name']}: {_short(each['before'])}, now {_short(each['after'])}"
        yield f"  {_changed(each)}"
        if each["is_worse"] and each["counterexample"]:
            yield from (f"  {line}" for line in each["counterexample"]["words"])


def _short(outcome: Mapping[str, Any] | None) -> str:
    return f"{outcome['verdict']} ({outcome['version']})" if outcome else ABSENT


def _changed(each: Mapping[str, Any]) -> str:
    """Describe which requirements have a different verdict after the change."""
    if each["before"] is None or each["after"] is None:
        failed = f", fails {', '.join(each['failed'])}" if each["failed"] else ""
        return f"not compared{failed}"
    if each["before"]["files"] == each["after"]["files"]:
        return "nothing: files are identical"
    told = [
        f"{one['id']} {one['before']} → {one['after']}"
        for one in each["changed"]
        if {one["before"], one["after"]} & {PASS, FAIL}
    ]
    return "; ".join(told) or "no verdict"
