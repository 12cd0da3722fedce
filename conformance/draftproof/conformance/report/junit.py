"""JUnit XML for test runners: a suite per adapter, a case per requirement.

A case fails exactly if the certificate counts the requirement against the adapter. A failed SHOULD
is a passing case whose text reports the failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from draftproof.conformance.report import words
from draftproof.conformance.requirements.finding import ERROR, INCONCLUSIVE, SKIPPED


def junit(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return certificates as JUnit's XML; every string is `plain`, so XML can hold it."""
    suites = Element("testsuites", name="draftproof")
    for document in documents:
        suites.append(_suite(document))
    for count in ("tests", "failures", "errors", "skipped"):
        suites.set(count, str(sum(int(suite.get(count, 0)) for suite in suites)))
    ElementTree.indent(suites)
    # Characters that no XML document may have are gone: `plain` leaves what can be printed.
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _suite(document: Mapping[str, Any]) -> Element:
    found = document["predicate"]["draftproof"]
    adapter = found["adapter"]
    suite = Element("testsuite", name=f"{adapter['name']} {adapter['version']}")
    properties = SubElement(suite, "properties")
    for name, value in _properties(document):
        SubElement(properties, "property", name=name, value=value)
    cases = [_case(d, adapter["name"], found["mode"]) for d in found["requirements"]]
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", "0")
    if when := _timestamp(found["created"]):
        suite.set("timestamp", when)
    return suite


def _timestamp(created: str) -> str:
    """Return a time in JUnit's form, in UTC and without a zone; nothing for an invalid time."""
    try:
        when = datetime.fromisoformat(created).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return when.replace(tzinfo=None).isoformat(timespec="seconds")


def _properties(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = document["predicate"]["draftproof"]
    yield "verdict", found["verdict"]
    yield "grade", words.grade(found)
    yield from (("envelope", told) for told in words.envelope(found))
    for name in ("mode", "created", "seed"):
        yield name, str(found[name])
    (subject,) = document["subject"]
    yield "adapter.version", found["adapter"]["version"]
    yield "adapter.place", found["adapter"]["place"]
    yield "adapter.sha256", subject["digest"]["sha256"]
    for part in document["predicate"]["configuration"]:
        for name, value in part["annotations"].items():
            yield f"{part['name']}.{name}", str(value)
        yield f"{part['name']}.sha256", part["digest"]["sha256"]
    yield "certificate.sha256", found["digest"]
    for name, value in found["environment"].items():
        yield f"environment.{name}", value
    for known in found["known_failures"]:
        yield f"known_failure.{known['id']}", known["issue"]


def _case(decision: Mapping[str, Any], adapter: str, mode: str) -> Element:
    case = Element("testcase", classname=f"draftproof.{adapter}", name=decision["id"], time="0")
    verdict, told = words.verdict(decision), _told(decision)
    if words.is_owed(decision, mode):
        SubElement(case, "failure", type=INCONCLUSIVE, message=told)
    elif decision["verdict"] == SKIPPED:
        SubElement(case, "skipped", message=f"{verdict}: {decision['worst']['detail']}")
    elif words.warns(decision):
        SubElement(case, "system-out").text = f"warning: {told}"
    elif words.missed(decision):
        tag = "error" if decision["verdict"] == ERROR else "failure"
        SubElement(case, tag, type=verdict, message=told).text = _figures(decision["worst"])
    return case


def _told(decision: Mapping[str, Any]) -> str:
    """Return the verdict on a requirement and its reason in one line."""
    detail = decision["worst"]["detail"] or decision["title"]
    return f"{words.leveled(decision)} on {decision['worst']['case']}: {detail}"


def _figures(worst: Mapping[str, Any]) -> str:
    observed, allowed = words.distances(worst)
    figures = {"lane": worst["lane"], "observed": observed, "allowed": allowed}
    return "\n".join(f"{name}: {value}" for name, value in figures.items() if value)
