"""Words and figures of a certificate, shared by all formats of a report."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from draftproof.conformance.evidence import grade as grades
from draftproof.conformance.evidence.decision import is_engine
from draftproof.conformance.evidence.extent import COVERED, DIMENSIONS, ranges
from draftproof.conformance.evidence.grade import SAMPLED
from draftproof.conformance.requirements.finding import (
    ERROR,
    FAIL,
    INCONCLUSIVE,
    PASS,
    SKIPPED,
    UNREFERENCED,
)

REPEAT = "draftproof check-certificate CERTIFICATE.json --rerun --adapter ADAPTER"
"""The command that judges a certificate's adapter again, and compares the results."""

INAPPLICABLE = "inapplicable"
"""Verdict on a requirement that does not apply to an adapter, by the adapter's declaration."""

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
    """Return the algorithm, dtype, mode and cases, from a certificate's `draftproof` part."""
    adapter = found["adapter"]
    if is_engine(adapter):
        told = f"{found['tokens']:,} tokens of an engine, {found['rows']['kind']}"
        return f"{told}, {adapter['dtype']}"
    return (
        f"{adapter['algorithm']} verification, {adapter['dtype']}, "
        f"mode {found['mode']}{asked(found)}"
    )


def asked(found: Mapping[str, Any]) -> str:
    """Return the selection of cases in words; empty if all cases of the mode were judged."""
    return f", of the cases {' '.join(found['cases'])}" if "cases" in found else ""


def conclusion(found: Mapping[str, Any]) -> str:
    """Return the verdict in a sentence, with its extent and its certainty."""
    if found["verdict"] == PASSES_SOME:
        return f"{_share(found)}{_surely(found)}{_unjudged(found)}"
    if found["verdict"] != CONFORMS:
        return str(found["verdict"])
    return f"{CONFORMS}{_in_mode(found)}{_surely(found)}{_unjudged(found)}"


def grade(found: Mapping[str, Any]) -> str:
    """Return the verdict in the few words of a badge: only the mode certify certifies."""
    if found["verdict"] not in (CONFORMS, PASSES_SOME):
        return conclusion(found)
    known = graded(found)
    surely = "" if known is None else f", {known['grade']}"
    if known is not None and known["grade"] == SAMPLED:
        surely += f" within {figure(known['bound'])}"
    alone = ", no reference" if unreferenced(found) else ""
    if found["verdict"] == PASSES_SOME:
        return f"{_share(found)}{surely}{alone}"
    word = "certified" if found["mode"] == "certify" else CONFORMS
    return f"{word}{surely}{alone}{_in_mode(found)}"


def cases_of(decision: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a certificate's findings on a requirement: a slim certificate has only the worst."""
    found: Sequence[Mapping[str, Any]] = decision.get("findings", [decision["worst"]])
    return found


def _share(found: Mapping[str, Any]) -> str:
    return f"passes {found['asked']} of {found['planned']} cases"


def _in_mode(found: Mapping[str, Any]) -> str:
    return "" if found["mode"] == "certify" else f" ({found['mode']})"


def _surely(found: Mapping[str, Any]) -> str:
    known = graded(found)
    return "" if known is None else f": {certainty(known)}"


def graded(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the grade of losslessness with its figures, None where no lane decided it."""
    # Certificates of earlier versions leave it to the reader.
    known: Mapping[str, Any] | None
    known = found["grade"] if "grade" in found else grades.graded(found["requirements"])
    return known


def certainty(known: Mapping[str, Any]) -> str:
    """Return a grade in words: exact, probed or sampled, each with the figures that it has."""
    if known["grade"] == SAMPLED:
        least = known["detectable"]
        found = "no bias" if least is None else figure(least)
        power = f"{found} would be caught {known['power']:.0%} of the time"
        return f"{SAMPLED}, off by at most {figure(known['bound'])} ({power})"
    within = ""
    if (resolution := known.get("resolution")) is not None:
        # Edges of uniform noise are found exactly.
        within = f" to within {figure(resolution)}" if resolution else " to the last bit"
    off, allowed = figure(known["distance"]), figure(known["allowed"])
    return f"{known['grade']}{within}, off by at most {off} where {allowed} is allowed"


def _unjudged(found: Mapping[str, Any]) -> str:
    names = unreferenced(found)
    return f"; not judged, without a reference: {', '.join(names)}" if names else ""


def unreferenced(found: Mapping[str, Any]) -> list[str]:
    """Return the ids of the requirements that were not judged because there is no reference."""
    skips = (d for d in found["requirements"] if verdict(d) == INAPPLICABLE)
    return [d["id"] for d in skips if d["worst"]["detail"].startswith(UNREFERENCED)]


CONFORMS, PASSES_SOME = "conforms", "passes some cases"


# --- requirements ------------------------------------------------------------------------


def verdict(decision: Mapping[str, Any]) -> str:
    """Return the verdict on a requirement, without its level."""
    unasked = decision["verdict"] == SKIPPED and not decision["worst"]["applies"]
    return INAPPLICABLE if unasked else str(decision["verdict"])


def missed(decision: Mapping[str, Any]) -> bool:
    """Return True if the verdict on a requirement is an error, a failure, or inconclusive."""
    return decision["verdict"] in (ERROR, FAIL, INCONCLUSIVE)


def is_owed(decision: Mapping[str, Any], mode: str) -> bool:
    """Return True if a requirement was skipped in a mode that allows no skips."""
    binds = decision["level"] == "MUST" and verdict(decision) == SKIPPED
    return binds and mode == "certify"


def warns(decision: Mapping[str, Any]) -> bool:
    """Return True if a SHOULD requirement failed."""
    return missed(decision) and decision["level"] == "SHOULD"


def leveled(decision: Mapping[str, Any]) -> str:
    """Return the verdict on a requirement, with its level if that level excuses a failure."""
    return f"{verdict(decision)} (SHOULD)" if warns(decision) else verdict(decision)


def worst_first(decisions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the requirements, failed MUSTs first, inapplicable requirements last."""
    return sorted(decisions, key=lambda d: (not _binds(d), _GRAVEST_FIRST.index(verdict(d))))


def counted(decisions: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of requirements by verdict: "20 pass, 1 fail (SHOULD), 8 inapplicable"."""
    kinds = [leveled(decision) for decision in worst_first(decisions)]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def reasons(decisions: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the reasons of skips, errors and failures, each with its requirements."""
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
    """Return a distance with three digits; nothing for an unmeasured one."""
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.2e}"


def distances(finding: Mapping[str, Any]) -> tuple[str, str]:
    """Return the observed and the allowed distance, or the bound on it."""
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
    """Yield the ratio of the accepted length to the optimum, where it is known."""
    if is_engine(found["adapter"]):
        yield from kept(found)
    elif known := shares(found):
        mean, worst = sum(known.values()) / len(known), min(known, key=lambda case: known[case])
        yield (
            f"E[accepted length] is {mean:.1%} of the optimum on average over {len(known)} "
            f"cases, at worst {known[worst]:.1%} on case {worst}"
        )


def kept(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the accepted tokens per target pass of an engine, on the case with the most passes."""
    findings = (finding for d in found["requirements"] for finding in d.get("findings", ()))
    known = [finding for finding in findings if finding["lengths"] is not None]
    if known:
        most = max(known, key=lambda finding: finding["runs"])
        observed, optimum = (most["lengths"][name] for name in ("observed", "optimum"))
        yield (
            f"the verifier accepts {observed:.2f} drafted tokens per target pass "
            f"({most['case']}); no lossless verifier accepts more than {optimum:.2f}"
        )


def chance(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the possible effect of chance, where anything was sampled."""
    sampled = [d for d in found["requirements"] if d["worst"]["sampled"] is not None]
    if not sampled:
        return
    budget = found["chance"]
    judged = "engine" if is_engine(found["adapter"]) else "verifier"
    yield (
        f"A correct {judged} would fail this run with probability at most "
        f"{budget['false_alarm']:.0e} ({budget['tests']} tests, seed {found['seed']})."
    )
    for decision in sampled:
        if decision["verdict"] == FAIL:
            continue
        figures = decision["worst"]["sampled"]
        bias = figures["detectable"]
        which = "none" if bias is None else f"one of {figure(bias)}"
        yield (
            f"{decision['id']}, sampled: any deviation is below {figure(figures['bound'])}; "
            f"{which} would be caught {figures['power']:.0%} of the time"
        )


def sentences(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sentences on the extent of a certificate and on its certainty."""
    for told in (unjudged, envelope, owing, blindness, undeclared, speed, chance):
        yield from told(found)


def unjudged(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the requirements of a whole engine on which nothing was judged."""
    if is_engine(found["adapter"]):
        ids = [each["id"] for each in found["requirements"] if each["verdict"] == SKIPPED]
        if ids:
            yield f"not judged: {', '.join(ids)}"


def envelope(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the envelope in which distributions were compared, and what is outside it."""
    if "envelope" not in found:
        return
    told = found["envelope"]
    if told["laws"]:
        values = told["values"]
        sizes = "; ".join(f"{_LETTERS[name]} {_span(values[name])}" for name in _LETTERS)
        kinds = (", ".join(values[name]) for name in ("dtype", "layout"))
        generator = " and ".join(_GENERATORS[each] for each in values["generator"])
        calls = f"{_plural('call', values['call'])} {_span(values['call'])}"
        far = " to ".join(dict.fromkeys(f"{each:.3g}" for each in told["distance"]))
        hard = f"rows of {_span(values['atoms'])} {_plural('token', values['atoms'])} with mass"
        hard += f", TV(p, q) {far}"
        if told["smallest_q"] is not None:
            hard += f", q from {told['smallest_q']:.2g} on"
        yield f"distributions compared at {sizes}; {'; '.join((*kinds, generator, calls, hard))}"
    else:
        yield "no distribution was compared"
    if told["outside"]:
        yield f"outside: {'; '.join(told['outside'])}"
    if told["laws"]:
        yield "a fault at other sizes, or at token ids that no case drafts, stays hidden"


_LETTERS = {"length": "L", "rows": "B", "drafts": "K", "vocabulary": "V"}

_GENERATORS = {
    "given": "with a generator",
    "own": "with a generator per row",
    "none": "without a generator",
}


def _plural(word: str, numbers: Collection[str]) -> str:
    return word if [*numbers] == ["1"] else f"{word}s"


def _span(values: Iterable[str]) -> str:
    """Return whole numbers: "1 to 4 and 8", or "1 to 1,024 (18 values)" if they are many."""
    numbers = sorted(map(int, values))
    placed = groupby(enumerate(numbers), key=lambda each: each[1] - each[0])
    runs = [[each for _, each in run] for _, run in placed]
    if len(numbers) > _MOST_LISTED and len(runs) > 1:
        return f"{numbers[0]:,} to {numbers[-1]:,} ({len(numbers)} values)"
    told = [
        each
        for run in runs
        for each in ([f"{run[0]:,} to {run[-1]:,}"] if len(run) > 2 else map("{:,}".format, run))
    ]
    *before, last = told
    return f"{', '.join(before)} and {last}" if before else last


_MOST_LISTED = 10
"""Maximum number of sizes to list one by one."""


def covered(found: Mapping[str, Any]) -> tuple[list[str], list[tuple[str, list[bool | None]]]]:
    """Return a triangle of all pairs of ranges: the column names, and the rows by name.

    An entry is True where laws were compared in both ranges together, None above the diagonal.
    """
    together = found["envelope"]["together"]
    places = [(name, at) for name in DIMENSIONS for at in range(len(ranges(name)))]
    columns = [each for each in places if each[0] != DIMENSIONS[-1]]
    lines = []
    for name, at in places:
        if name == DIMENSIONS[0]:
            continue
        before = DIMENSIONS[: DIMENSIONS.index(name)]
        cells = (
            together[f"{other} {name}"].split("/")[i][at] == COVERED if other in before else None
            for other, i in columns
        )
        lines.append((_named(name, at), [*cells]))
    return [_named(*each) for each in columns], lines


def _named(dimension: str, at: int) -> str:
    """Return the name of a range: "L 5-8"."""
    return f"{_LETTERS.get(dimension, dimension)} {ranges(dimension)[at]}"


def likely_cause(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the known faults that behave like a failed adapter, with a check to make for each.

    Nothing is yielded for an adapter that does not fail. For an engine, of which only tokens are
    known, the next step is.
    """
    told = found.get("likeness")
    decided = found.get("failures", found.get("requirements", ()))
    if told is None:
        if found["verdict"] == "does not conform":
            is_whole = any(each["id"].startswith("engine.") for each in decided)
            shared = _of_shared_noise(decided)
            yield shared or (_NEXT_FOR_ENGINES if is_whole else _NOTHING_TO_COMPARE)
        return
    count, matches = len(told["cases"]), told["matches"]
    cases = f"{count} case{'s' if count != 1 else ''}"
    first = [each for each in matches if each["identical"] == matches[0]["identical"]]
    if count == 1 and len(first) > 1:
        yield (
            f"Unknown: only one case shows the fault clearly, and {len(first)} known faults behave "
            f"the same there: {_listed([each['fault'] for each in first])}."
        )
    else:
        yield from _alike(first, cases)
    if not matches:
        faults = f"{told['compared']} known fault{'s' if told['compared'] != 1 else ''}"
        yield f"Matches no known fault: differs from {faults} on {cases}."
        if shared := _of_shared_noise(decided):
            yield shared
    if left := told["left_out"]:
        were = f"{len(left)} known fault{'s were' if len(left) > 1 else ' was'}"
        yield f"{were} not compared: {_listed(left)}."


def _alike(first: Sequence[Mapping[str, Any]], cases: str) -> Iterator[str]:
    """Yield the known faults that are identical on most cases, with what to check for each."""
    for number, each in enumerate(first[:_MATCHES]):
        check = f": check {each['check']}" if each.get("check") else ""
        like = "Looks like" if number == 0 else "or like"
        yield f"{like} `{each['fault']}` (identical on {each['identical']} of {cases}){check}."
        if seen := each.get("seen_in"):
            yield f"Seen in {', '.join(map(_thread, seen[:_MATCHES]))}."
    if (more := len(first) - _MATCHES) > 0:
        yield f"{more} more known fault{'s are' if more > 1 else ' is'} identical on as many cases."


def _listed(faults: Sequence[str]) -> str:
    """Return the first names of faults: "`a`, `b`, `c` and 2 more"."""
    names = ", ".join(f"`{each}`" for each in faults[:_MATCHES])
    return f"{names} and {more} more" if (more := len(faults) - _MATCHES) > 0 else names


def _of_shared_noise(decided: Iterable[Mapping[str, Any]]) -> str:
    """Return the cause of a failure beside which the exact lane saw noise that two draws share."""
    for each in decided:
        worst = each.get("worst", each)
        if _RACES_TWICE in worst.get("detail", ""):
            return (
                f"Two draws race the same noise, as the exact lane saw on {worst['case']}: check "
                f"the shape of the noise: one number for each row, position and token."
            )
    return ""


_RACES_TWICE = "races noise that has already decided another race"
"""Words of the exact lane about an exponential race."""

_NOTHING_TO_COMPARE = "Unknown: no failing case has a computed distribution that could be compared."
_NEXT_FOR_ENGINES = (
    "Its tokens do not show which step is wrong. Judge its verifier alone, whose distribution can "
    "be computed: `draftproof certify ENGINE`, or an adapter."
)

_MATCHES = 3
"""Maximum number of faults and threads to name."""


def _thread(source: str) -> str:
    """Return the short name of a GitHub thread: "vllm-project/vllm#8320"."""
    found = _THREAD.fullmatch(source)
    return f"{found[1]}#{found[2]}" if found else source.partition(",")[0]


_THREAD = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)")


@dataclass(frozen=True)
class Group:
    """Requirements that fail for the same reason, the worst of them first."""

    reason: str
    decisions: tuple[Mapping[str, Any], ...]


def groups(decisions: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Return the failed requirements, MUSTs first, grouped by reason.

    If the distribution of single calls is wrong, every other measured MUST compares the same wrong
    distribution with a correct one, and fails for the same reason. If it is correct, and rows of a
    batch depend on each other, every measured MUST on a batch fails for that reason.
    """
    missing = [each for each in worst_first(decisions) if missed(each)]
    wrong, reason = [each for each in missing if _is_of_the_law(each)], "wrong distribution"
    if not any(each["id"] in _SINGLE for each in wrong):
        reason = "dependence between rows of a batch"
        wrong = [each for each in wrong if _is_of_a_batch(each)]
        if not any(each["id"] == _INDEPENDENT for each in wrong):
            wrong = []
    found = [Group(reason, tuple(wrong))] if len(wrong) > 1 else []
    together = {each["id"] for group in found for each in group.decisions}
    return found + [Group(_reason(each), (each,)) for each in missing if each["id"] not in together]


def groups_title(decisions: Iterable[Mapping[str, Any]]) -> str:
    """Return the heading of `groups`: failed requirements, or what is less than that.

    >>> groups_title([{"verdict": "fail", "level": "SHOULD"}])
    'Failed recommendations'
    """
    binding = [each for each in decisions if missed(each) and not warns(each)]
    if not binding:
        return "Failed recommendations"
    if all(each["verdict"] != FAIL for each in binding):
        return "Requirements without a verdict"
    return "Failed requirements"


_SINGLE = ("law.lossless", "law.reference")
_INDEPENDENT = "batch.invariant"


def _is_of_a_batch(decision: Mapping[str, Any]) -> bool:
    """Return True if a decision is on a batch: the cases of pairs are batches of two."""
    is_pair = str(decision["worst"]["case"]).endswith(".pair")
    return is_pair or str(decision["id"]).startswith("batch.")


def _is_of_the_law(decision: Mapping[str, Any]) -> bool:
    measured = decision["worst"]["distance"] is not None
    return decision["verdict"] == FAIL and decision["level"] == "MUST" and measured


def _reason(decision: Mapping[str, Any]) -> str:
    worst = decision["worst"]
    if worst["detail"] or worst["distance"] is None:
        return str(worst["detail"]) or f"case {worst['case']}"
    return f"case {worst['case']}, distance {worst['distance']:.2g}"


def folded(decisions: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of requirements that did not fail, by verdict; empty if there are none.

    >>> folded([])
    ''
    """
    kinds = [verdict(each) for each in worst_first(decisions) if not missed(each)]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def failing(decisions: Iterable[Mapping[str, Any]]) -> str:
    """Return how many requirements fail: "9 requirements fail", empty if none does."""
    count = sum(each["verdict"] == FAIL and each["level"] == "MUST" for each in decisions)
    return f"{count} requirement{'s fail' if count != 1 else ' fails'}" if count else ""


def lane(name: str | None) -> str:
    """Return the printed name of a lane: "calls" for a decision by single calls."""
    return "calls" if name == "run" else name or ""


def owing(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons that leave a verdict open without a failure: skips in mode certify."""
    if owed := [d["id"] for d in found["requirements"] if is_owed(d, found["mode"])]:
        yield f"mode certify needs a verdict on every MUST; skipped: {', '.join(owed)}"


def blindness(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reason of each lane that could not see the adapter."""
    for lane, reason in found["blind"].items():
        yield f"the {lane} lane cannot see this adapter: {reason}"


def undeclared(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that ran without being covered by the adapter's digest."""
    missing = [each for each in found.get("sources", ()) if not each["declared"]]
    if missing:
        listed = ", ".join(_released(each) for each in missing[:_LISTED])
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        yield f"code ran in files that the adapter does not declare in `files`: {listed}{more}"


_LISTED = 5
"""Maximum number of files named in a sentence; the certificate has all files."""


def _released(source: Mapping[str, Any]) -> str:
    known = f" ({source['distribution']} {source['version']})" if source["distribution"] else ""
    return f"{source['file']}{known}"


def is_link(text: str) -> bool:
    """Return True if a text is exactly a web address, which may become a link."""
    try:
        address = urlsplit(text)
    except ValueError:
        return False
    odd = any(c.isspace() or c in "<>\"'`\\" for c in text)
    return address.scheme in ("http", "https") and bool(address.hostname) and not odd


def spoken(emitted: Any) -> str:
    """Return an emission, in the form of `reproduction.emitted`, in words; a batch side by side."""
    if isinstance(emitted, str):
        return emitted
    if emitted and not isinstance(emitted[0], int):
        return " | ".join(spoken(row) for row in emitted)
    *accepted, token = emitted
    return f"{json.dumps(accepted)} then {token}" if accepted else f"nothing, then {token}"


def recorded_kill_matrix() -> dict[str, Any]:
    """Return the kill matrix that ships with this version, a document of the schema `mutants`."""
    found: dict[str, Any] = json.loads(
        Path(__file__).with_name("kill_matrix.json").read_text(encoding="utf-8")
    )
    return found


def trial(document: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return a summary of a kill matrix, and the ids of exhibits with a wrong result."""
    exhibits = document["exhibits"]
    mutants = sum(each["kind"] == "mutant" for each in exhibits)
    tried = (
        f"{mutants} mutants, {len(exhibits) - mutants} controls, mode {document['mode']}, "
        f"lanes {', '.join(document['lanes'])}"
    )
    return tried, [each["id"] for each in exhibits if not each["as_it_must"]]


def models(instance: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the rows of the target and of the draft, by their context."""
    target, draft = instance["target"], instance["draft"]
    by_context = [model for model in (target, draft) if isinstance(model, Mapping)]
    contexts = dict.fromkeys(key for model in by_context for key in model) or ["anything"]
    return [(each or "nothing", _after(target, each), _after(draft, each)) for each in contexts]


def _after(model: Any, context: str) -> str:
    row = model.get(context, []) if isinstance(model, Mapping) else model
    return ", ".join(row)
