"""What a certificate says, in the words and figures that all its forms share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from draftproof.conformance.requirements.finding import (
    ERROR,
    FAIL,
    INCONCLUSIVE,
    PASS,
    SKIPPED,
    UNREFERENCED,
)

REPEAT = "draftproof check-certificate CERTIFICATE.json --rerun --adapter ADAPTER"
"""The command that judges again what a certificate has judged, and compares."""

INAPPLICABLE = "inapplicable"
"""What a requirement is called that asks nothing of an adapter, by what it declares."""

_GRAVEST_FIRST = (FAIL, ERROR, INCONCLUSIVE, PASS, SKIPPED, INAPPLICABLE)


def duration(seconds: float) -> str:
    """Return a duration in words, to two digits or so.

    >>> duration(0.04), duration(9.6), duration(75), duration(5000)
    ('0.04 s', '9.6 s', '1 min 15 s', '1 h 23 min')
    """
    if seconds < 59.5:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min"


def terms(found: Mapping[str, Any]) -> str:
    """Return as what an adapter was judged, and how, from a certificate's `draftproof` part."""
    adapter = found["adapter"]
    return (
        f"{adapter['algorithm']} verification, {adapter['dtype']}, "
        f"mode {found['mode']}{asked(found)}"
    )


def asked(found: Mapping[str, Any]) -> str:
    """Return which cases were asked alone, in words, empty where all of the mode were."""
    return f", of the cases {' '.join(found['cases'])}" if "cases" in found else ""


def conclusion(found: Mapping[str, Any]) -> str:
    """Return the verdict as it is read first: of how much, and how surely."""
    if found["verdict"] == PASSES_SOME:
        return f"passes {found['asked']} of {found['planned']} cases{_unjudged(found)}"
    if found["verdict"] != CONFORMS:
        return str(found["verdict"])
    return f"{CONFORMS}{_in_mode(found)}{_surely(found)}{_unjudged(found)}"


def grade(found: Mapping[str, Any]) -> str:
    """Return the verdict in a few words, those of a badge: only the mode certify certifies."""
    if found["verdict"] != CONFORMS:
        return conclusion(found)
    bound = sampled_within(found)
    within = "" if bound is None else f" within {figure(bound)}"
    alone = ", no reference" if unreferenced(found) else ""
    word = "certified" if found["mode"] == "certify" else CONFORMS
    return f"{word}{within}{alone}{_in_mode(found)}"


def cases_of(decision: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the findings on a requirement that a certificate has: a slim one has the worst."""
    found: Sequence[Mapping[str, Any]] = decision.get("findings", [decision["worst"]])
    return found


def _in_mode(found: Mapping[str, Any]) -> str:
    return "" if found["mode"] == "certify" else f" ({found['mode']})"


def _surely(found: Mapping[str, Any]) -> str:
    if (bound := sampled_within(found)) is not None:
        return f" within {figure(bound)}: sampled"
    off = computed_within(found)
    return "" if off is None else f": laws computed, off by at most {figure(off)}"


def _unjudged(found: Mapping[str, Any]) -> str:
    names = unreferenced(found)
    return f"; not judged, without a reference: {', '.join(names)}" if names else ""


def unreferenced(found: Mapping[str, Any]) -> list[str]:
    """Return the ids of the requirements that were not judged for want of a reference."""
    skips = (d for d in found["requirements"] if verdict(d) == INAPPLICABLE)
    return [d["id"] for d in skips if d["worst"]["detail"].startswith(UNREFERENCED)]


CONFORMS, PASSES_SOME = "conforms", "passes some cases"


def sampled_within(found: Mapping[str, Any]) -> float | None:
    """Return what samples bound the distance from losslessness by, None where none decided it."""
    return max((f["sampled"]["bound"] for f in _lossless(found) if f["sampled"]), default=None)


def computed_within(found: Mapping[str, Any]) -> float | None:
    """Return the distance from losslessness of the laws that were computed, None if none was."""
    return max((f["distance"] for f in _lossless(found) if f["distance"] is not None), default=None)


def _lossless(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the findings on losslessness: of the verifier, and of the texts around it."""
    for decision in found["requirements"]:
        if decision["id"] in ("law.lossless", "text.lossless"):
            yield from (each for each in cases_of(decision) if each["verdict"] == PASS)


# --- requirements ------------------------------------------------------------------------


def verdict(decision: Mapping[str, Any]) -> str:
    """Return what a requirement came to, without its level."""
    unasked = decision["verdict"] == SKIPPED and not decision["worst"]["applies"]
    return INAPPLICABLE if unasked else str(decision["verdict"])


def missed(decision: Mapping[str, Any]) -> bool:
    """Return whether a requirement was decided, and not for the adapter."""
    return decision["verdict"] in (ERROR, FAIL, INCONCLUSIVE)


def is_owed(decision: Mapping[str, Any], mode: str) -> bool:
    """Return whether a requirement was skipped although the mode allows no skip."""
    binds = decision["level"] == "MUST" and verdict(decision) == SKIPPED
    return binds and mode == "certify"


def warns(decision: Mapping[str, Any]) -> bool:
    """Return whether a requirement is missed that does not bind."""
    return missed(decision) and decision["level"] == "SHOULD"


def leveled(decision: Mapping[str, Any]) -> str:
    """Return what a requirement came to, with its level where that is what spares it."""
    return f"{verdict(decision)} (SHOULD)" if warns(decision) else verdict(decision)


def worst_first(decisions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requirements, those that bind and are missed first, those not asked last."""
    return sorted(decisions, key=lambda d: (not _binds(d), _GRAVEST_FIRST.index(verdict(d))))


def counted(decisions: Sequence[Mapping[str, Any]]) -> str:
    """Return how many requirements came to what: "20 pass, 1 fail (SHOULD), 8 inapplicable"."""
    kinds = [leveled(decision) for decision in worst_first(decisions)]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def reasons(decisions: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the reasons of skips, errors and failures, each with the requirements it is of."""
    found: dict[str, list[str]] = {}
    for decision in decisions:
        if decision["worst"]["detail"]:
            reason = f"{verdict(decision)}: {decision['worst']['detail']}"
            found.setdefault(reason, []).append(decision["id"])
    return found


def _binds(decision: Mapping[str, Any]) -> bool:
    return missed(decision) and decision["level"] == "MUST"


# --- figures -----------------------------------------------------------------------------


def figure(value: float | None) -> str:
    """Return a distance with three digits; nothing for what is not measured."""
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.2e}"


def distances(finding: Mapping[str, Any]) -> tuple[str, str]:
    """Return what was observed and what is allowed, or what the distance is bounded by."""
    if finding["sampled"] is not None and finding["verdict"] != FAIL:
        return f"< {figure(finding['sampled']['bound'])}", ""
    return figure(finding["distance"]), figure(finding["allowed"])


def shares(found: Mapping[str, Any]) -> dict[str, float]:
    """Return E[accepted length] as a share of its certified optimum, by case.

    A case whose optimum is 0 has no share.
    """
    findings = (finding for d in found["requirements"] for finding in d.get("findings", ()))
    return {
        finding["case"]: finding["lengths"]["observed"] / finding["lengths"]["optimum"]
        for finding in findings
        if finding["lengths"] is not None and finding["lengths"]["optimum"] > 0
    }


# --- sentences ---------------------------------------------------------------------------


def speed(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield how near the accepted length comes to the optimum, where that is known."""
    if known := shares(found):
        mean, worst = sum(known.values()) / len(known), min(known, key=lambda case: known[case])
        yield (
            f"E[accepted length] is {mean:.1%} of the optimum on average over {len(known)} "
            f"cases, at worst {known[worst]:.1%} ({worst})"
        )


def chance(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what chance may have done, where anything was sampled."""
    sampled = [d for d in found["requirements"] if d["worst"]["sampled"] is not None]
    if not sampled:
        return
    budget = found["chance"]
    yield (
        f"A right verifier fails by chance with probability at most {budget['false_alarm']:.0e}, "
        f"split over {budget['tests']} tests; seed {found['seed']}."
    )
    for decision in sampled:
        figures = decision["worst"]["sampled"]
        bias = figures["detectable"]
        which = "no bias" if bias is None else f"one of {figure(bias)}"
        yield (
            f"{decision['id']}: the true distance is at most {figure(figures['bound'])}; {which} "
            f"would have failed with probability {figures['power']:.2f}"
        )


def sentences(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield all that is said of a certificate in sentences."""
    for told in (owing, blindness, undeclared, speed, chance):
        yield from told(found)


def owing(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what leaves a verdict open though nothing fails: what mode certify may not skip."""
    if owed := [d["id"] for d in found["requirements"] if is_owed(d, found["mode"])]:
        yield f"mode certify skips nothing that binds and can be asked: {', '.join(owed)} is open"


def blindness(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield why each of the lanes that could not see the adapter could not."""
    for lane, reason in found["blind"].items():
        yield f"the {lane} lane is blind: {reason}"


def undeclared(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield which files ran and have no part in the digest of what was judged."""
    missing = [each for each in found.get("sources", ()) if not each["declared"]]
    if missing:
        listed = ", ".join(_released(each) for each in missing[:_LISTED])
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        yield f"code ran in files that the adapter does not declare as its own: {listed}{more}"


_LISTED = 5
"""So many files are named in a sentence; the certificate has all."""


def _released(source: Mapping[str, Any]) -> str:
    known = f" ({source['distribution']} {source['version']})" if source["distribution"] else ""
    return f"{source['file']}{known}"


def is_link(text: str) -> bool:
    """Return whether a text is an address of the web, and nothing else: what may become a link."""
    try:
        address = urlsplit(text)
    except ValueError:
        return False
    odd = any(c.isspace() or c in "<>\"'`\\" for c in text)
    return address.scheme in ("http", "https") and bool(address.hostname) and not odd


def spoken(emitted: Any) -> str:
    """Return what is emitted, as `reproduction.emitted` has it, in words; a batch side by side."""
    if isinstance(emitted, str):
        return emitted
    if emitted and not isinstance(emitted[0], int):
        return " | ".join(spoken(row) for row in emitted)
    *accepted, token = emitted
    return f"{json.dumps(accepted)} then {token}" if accepted else f"nothing, then {token}"


def trial(document: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return what was tried in a kill matrix, and the ids of what came out as it must not."""
    exhibits = document["exhibits"]
    mutants = sum(each["kind"] == "mutant" for each in exhibits)
    tried = (
        f"{mutants} mutants, {len(exhibits) - mutants} controls, mode {document['mode']}, "
        f"lanes {', '.join(document['lanes'])}"
    )
    return tried, [each["id"] for each in exhibits if not each["as_it_must"]]


def models(instance: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the rows of the target and of the draft, by what they stand after."""
    target, draft = instance["target"], instance["draft"]
    by_context = [model for model in (target, draft) if isinstance(model, Mapping)]
    contexts = dict.fromkeys(key for model in by_context for key in model) or ["anything"]
    return [(each or "nothing", _after(target, each), _after(draft, each)) for each in contexts]


def _after(model: Any, context: str) -> str:
    row = model.get(context, []) if isinstance(model, Mapping) else model
    return ", ".join(row)
