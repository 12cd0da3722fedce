"""Extent: the envelope of a certificate, in which laws were compared.

It follows from the comparisons that every decided task reports: for each dimension its values, each
with its number of laws; and for each pair of dimensions the ranges that occurred together. A range
is named by its first value. Input that the adapter declares not to take is outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from draftproof.conformance.evidence.decision import decisive
from draftproof.conformance.evidence.records import Record
from draftproof.conformance.protocol.adapter import GENERATED, LAYOUTS, STORED
from draftproof.conformance.requirements.finding import FAIL, PASS, SKIPPED

_SIZES: Mapping[str, tuple[int, ...]] = {
    "length": (0, 5, 9, 17, 33),
    "rows": (1, 2, 6, 33, 257),
    "drafts": (1, 2, 3, 5),
    "vocabulary": (1, 5, 65, 1025, 2**15 + 1, 2**16 + 1),
    "atoms": (1, 3, 5, 65, 1025),
    "call": (1, 2, 3),
}
"""Numeric dimensions, each with the first values of its ranges.

Ranges begin where a verifier may take a different path: a block of tokens, a warp of rows, 16 bits.
"""

_KINDS: Mapping[str, tuple[str, ...]] = {
    "dtype": ("float64", "float32", "float16", "bfloat16"),
    "layout": STORED,
    "generator": GENERATED,
    "lane": ("exact", "probe", "sample"),
}
"""Categorical dimensions, each with its values."""

DIMENSIONS = (*_SIZES, *_KINDS)
"""Dimensions of an envelope, in the order of reports."""

_FLAGS = ("ragged", "logits", "trees")
"""Forms of a request that only some adapters take."""

COVERED, OPEN = "#", "."


def ranges(dimension: str) -> tuple[str, ...]:
    """Return the names of a dimension's ranges: "5-8", "33+", or its values.

    >>> ranges("rows")
    ('1', '2-5', '6-32', '33-256', '257+')
    """
    if dimension in _KINDS:
        return _KINDS[dimension]
    firsts = _SIZES[dimension]
    told = [f"{max(a, 1):,}-{b - 1:,}" if b - a > 1 else f"{a}" for a, b in pairwise(firsts)]
    return (*told, f"{firsts[-1]:,}+")


def extent(records: Sequence[Record]) -> dict[str, Any]:
    """Return the envelope of a finished campaign, in the form of certificates."""
    header, decided = decisive(records)
    laws: Counter[tuple[Any, ...]] = Counter()
    flags: Counter[str] = Counter()
    hardest: list[Mapping[str, Any]] = []
    for result in filter(_is_decided, decided):
        for each in result["compared"]:
            law = {**each, "lane": result["lane"]}
            laws[tuple(law[dimension] for dimension in DIMENSIONS)] += each["laws"]
            flags.update({flag: each["laws"] for flag in _FLAGS if each[flag]})
            hardest.append(each)
    return {
        "laws": laws.total(),
        "values": {name: _counted(laws, at) for at, name in enumerate(DIMENSIONS)},
        **{flag: flags[flag] for flag in _FLAGS},
        "smallest_q": min((h["smallest_q"] for h in hardest if h["smallest_q"]), default=None),
        "distance": [end((h["distance"] for h in hardest), default=None) for end in (min, max)],
        "together": {
            f"{DIMENSIONS[a]} {DIMENSIONS[b]}": _together(laws, a, b)
            for a, b in combinations(range(len(DIMENSIONS)), 2)
        },
        "outside": outside(header["adapter"]),
    }


def _is_decided(record: Record) -> bool:
    """Return True if a record is a result whose laws led to a verdict."""
    if record["record"] != "result":
        return False
    verdicts = {each["verdict"] for each in record["findings"]}
    return verdicts <= {PASS, FAIL, SKIPPED} and verdicts != {SKIPPED}


def _counted(laws: Mapping[tuple[Any, ...], int], at: int) -> dict[str, int]:
    """Return the values of a dimension, in order, each with its number of laws."""
    found: Counter[Any] = Counter()
    for law, times in laws.items():
        found[law[at]] += times
    kinds = _KINDS.get(DIMENSIONS[at])
    ordered = sorted(found) if kinds is None else [each for each in kinds if each in found]
    return {str(value): found[value] for value in ordered}


def _together(laws: Mapping[tuple[Any, ...], int], a: int, b: int) -> str:
    """Return a line for each range of dimension `a`, with a mark for each range of `b`."""
    met = {(place(DIMENSIONS[a], law[a]), place(DIMENSIONS[b], law[b])) for law in laws}
    first, second = (len(ranges(DIMENSIONS[each])) for each in (a, b))
    lines = (
        "".join(COVERED if (i, j) in met else OPEN for j in range(second)) for i in range(first)
    )
    return "/".join(lines)


def place(dimension: str, value: Any) -> int:
    """Return the index of the range of a dimension that contains a value."""
    if dimension in _KINDS:
        return _KINDS[dimension].index(value)
    return max(i for i, first in enumerate(_SIZES[dimension]) if first <= int(value))


def outside(declared: Mapping[str, Any]) -> list[str]:
    """Return, in words, the input that an adapter declares not to take."""
    return [*_outside(declared)]


def _outside(declared: Mapping[str, Any]) -> Iterator[str]:
    if not declared["batch"]:
        yield "B above 1"
    if not declared["ragged"]:
        yield "rows of different lengths"
    yield f"K above {declared['max_drafts']}"
    if not declared["trees"] and declared["max_drafts"] > 1:
        yield "trees"
    if not declared["logits"]:
        yield "logits"
    if dtypes := [each for each in _KINDS["dtype"] if each not in declared["dtypes"]]:
        yield ", ".join(dtypes)
    if layouts := [each for each in LAYOUTS if each not in declared["layouts"]]:
        yield f"layouts {', '.join(layouts)}"
    if not declared["generators"]:
        yield "a generator for each row"
    yield f"devices other than {declared['device']}"


# --- what contradicts itself --------------------------------------------------------------------


def contradiction(found: Mapping[str, Any]) -> str:
    """Describe a contradiction in an envelope, empty if there is none.

    `found` is the part `draftproof` of a certificate, which may be slim.
    """
    envelope, adapter = found["envelope"], found["adapter"]
    if envelope["outside"] != outside(adapter):
        return "names other things as outside than its adapter declares"
    if told := _undeclared(envelope, adapter):
        return f"claims {told}, which its adapter does not take"
    values = envelope["values"]
    for dimension in DIMENSIONS:
        if sum(values[dimension].values()) != envelope["laws"]:
            return f"has other numbers of laws by {dimension} than in all"
    lanes = {lane for lane, _ in found["judged"]["lanes"]} if "judged" in found else None
    if lanes is not None and not lanes.issuperset(values["lane"]):
        return "claims laws by a lane that decided nothing"
    for pair, told in envelope["together"].items():
        if _marginals(pair, told) != [_places(each, values[each]) for each in pair.split()]:
            return f"claims other ranges of {' and '.join(pair.split())} together than of each"
    return ""


def _undeclared(envelope: Mapping[str, Any], adapter: Mapping[str, Any]) -> str:
    """Return a dimension that exceeds the adapter's declaration, empty if none does."""
    values = envelope["values"]
    if not adapter["batch"] and max(map(int, values["rows"]), default=1) > 1:
        return "several rows"
    if max(map(int, values["drafts"]), default=1) > adapter["max_drafts"]:
        return f"more than {adapter['max_drafts']} drafts"
    if other := {*values["dtype"]} - {*adapter["dtypes"]}:
        return ", ".join(sorted(other))
    return next((flag for flag in _FLAGS if envelope[flag] and not adapter[flag]), "")


def _places(dimension: str, values: Mapping[str, Any]) -> set[int]:
    return {place(dimension, value) for value in values}


def _marginals(pair: str, told: str) -> list[set[int]]:
    """Return, for each dimension of a pair, the ranges that have marks in the pair's matrix."""
    lines = told.split("/")
    shape = [len(ranges(each)) for each in pair.split()]
    if [len(lines), *{len(line) for line in lines}] != shape:
        return []
    marked = [(i, j) for i, line in enumerate(lines) for j, c in enumerate(line) if c == COVERED]
    return [{i for i, _ in marked}, {j for _, j in marked}]
