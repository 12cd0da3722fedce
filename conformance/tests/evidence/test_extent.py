"""The envelope of a certificate: what follows from its evidence, and what cannot be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from draftproof.conformance.evidence.extent import (
    DIMENSIONS,
    contradiction,
    extent,
    outside,
    place,
    ranges,
)
from draftproof.conformance.evidence.records import Record
from draftproof.conformance.protocol.adapter import LAYOUTS

ADAPTER: dict[str, Any] = {
    "batch": True,
    "max_drafts": 1,
    "ragged": False,
    "logits": False,
    "trees": False,
    "dtypes": ["float32"],
    "layouts": ["contiguous", "transposed", "sliced", "offset", "expanded"],
    "generators": False,
    "device": "cpu",
}

PLAIN: dict[str, Any] = {
    "rows": 1,
    "length": 2,
    "drafts": 1,
    "vocabulary": 3,
    "dtype": "float32",
    "device": "cpu",
    "layout": "contiguous",
    "generator": "given",
    "call": 1,
    "ragged": False,
    "logits": False,
    "trees": False,
    "atoms": 3,
    "smallest_q": 0.25,
    "distance": 0.5,
    "laws": 4,
}


def result(*compared: dict[str, Any], lane: str = "exact", verdict: str = "pass") -> Record:
    findings = [{"verdict": verdict}, {"verdict": "skipped"}]
    told = [{**PLAIN, **each} for each in compared]
    return {"record": "result", "findings": findings, "compared": told, "lane": lane}


def records(*results: Record, **adapter: Any) -> list[Record]:
    return [{"record": "header", "adapter": {**ADAPTER, **adapter}}, *results]


WIDE = records(
    result({}, {"length": 33, "laws": 1}),
    result({"rows": 1024, "vocabulary": 4, "distance": 0.0}, {"layout": "strided"}),
    result({"vocabulary": 262_144, "smallest_q": 1e-7}, lane="sample"),
)


def found(told: list[Record] = WIDE, **changes: Any) -> dict[str, Any]:
    return {"envelope": extent(told), "adapter": told[0]["adapter"], **changes}


def covers(envelope: dict[str, Any], first: tuple[str, Any], second: tuple[str, Any]) -> bool:
    (a, value), (b, other) = first, second
    return bool(
        envelope["together"][f"{a} {b}"].split("/")[place(a, value)][place(b, other)] == "#"
    )


def test_an_envelope_has_every_value_and_how_many_laws_had_it() -> None:
    envelope = extent(WIDE)
    assert envelope["laws"] == 17
    assert envelope["values"]["length"] == {"2": 16, "33": 1}
    assert envelope["values"]["rows"] == {"1": 13, "1024": 4}
    assert envelope["values"]["vocabulary"] == {"3": 9, "4": 4, "262144": 4}
    assert envelope["values"]["layout"] == {"contiguous": 13, "strided": 4}
    assert envelope["values"]["lane"] == {"exact": 13, "sample": 4}
    assert (envelope["smallest_q"], envelope["distance"]) == (1e-7, [0.0, 0.5])


def test_ranges_are_covered_together_where_one_law_has_both() -> None:
    envelope = extent(WIDE)
    assert covers(envelope, ("length", 33), ("rows", 1))
    assert covers(envelope, ("length", 2), ("rows", 1024))
    assert not covers(envelope, ("length", 33), ("rows", 1024))
    assert not covers(envelope, ("rows", 1024), ("layout", "strided"))
    assert not covers(envelope, ("vocabulary", 262_144), ("lane", "exact"))


@pytest.mark.parametrize("verdict", ["inconclusive", "error", "skipped"])
def test_what_decides_nothing_is_not_inside(verdict: str) -> None:
    assert extent([*WIDE, result({"length": 64}, verdict=verdict)]) == extent(WIDE)
    assert extent([*WIDE, result({"length": 64}, verdict="fail")]) != extent(WIDE)


def test_only_what_was_judged_last_counts() -> None:
    """What a lane compared before it was found blind was judged again without it."""
    blind = {"record": "blind", "lane": "exact", "reason": "it is"}
    header, *results = WIDE
    header = {**header, "campaign": {"blind": {}}}
    assert extent([header, result({"length": 64}), blind, *results]) == extent(WIDE)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_a_value_lies_in_one_range(dimension: str) -> None:
    names = ranges(dimension)
    if dimension in ("dtype", "layout", "generator", "lane"):
        assert [place(dimension, each) for each in names] == [*range(len(names))]
        return
    for number in (0, 1, 2, 4, 5, 8, 9, 33, 64, 65, 1024, 2**15, 2**16, 2**18):
        if number or dimension == "length":
            name = names[place(dimension, number)].replace(",", "")
            first, _, last = name.removesuffix("+").partition("-")
            end = 2**20 if name.endswith("+") else int(last or first)
            assert int(first) <= max(number, 1) <= end


def test_what_is_declared_not_to_be_taken_is_outside() -> None:
    assert outside(ADAPTER) == [
        "rows of different lengths",
        "K above 1",
        "logits",
        "float64, float16, bfloat16",
        "layouts stepped, interleaved",
        "a generator for each row",
        "devices other than cpu",
    ]
    every = {"ragged": True, "logits": True, "trees": True, "max_drafts": 4, "device": "cuda"}
    every |= {"generators": True, "layouts": [*LAYOUTS]}
    dtypes = ["float64", "float32", "float16", "bfloat16"]
    assert outside({**ADAPTER, **every, "dtypes": dtypes}) == [
        "K above 4",
        "devices other than cuda",
    ]
    assert outside({**ADAPTER, "batch": False})[0] == "B above 1"


def test_what_follows_contradicts_nothing() -> None:
    assert contradiction(found()) == ""
    assert contradiction(found(records())) == ""
    lanes = {"lanes": [["exact", 2], ["sample", 1]], "alone": False}
    assert contradiction(found(judged=lanes)) == ""


def edited(change: Callable[[dict[str, Any]], Any], **changes: Any) -> str:
    told = found(**changes)
    told["envelope"] = copy.deepcopy(told["envelope"])
    change(told["envelope"])
    return contradiction(told)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda e: e["values"]["length"].update({"64": 1}), "other numbers of laws by length"),
        (lambda e: e.update(laws=18), "has other numbers of laws by length than in all"),
        (
            lambda e: e["values"].update(vocabulary={"3": 9, "300": 4, "262144": 4}),
            "claims other ranges of length and vocabulary together than of each",
        ),
        (
            lambda e: e["together"].update({"length rows": "#####/#####/#####/#####/#####"}),
            "claims other ranges of length and rows together than of each",
        ),
        (
            lambda e: e["together"].update({"length rows": "#"}),
            "claims other ranges of length and rows together than of each",
        ),
        (lambda e: e["outside"].pop(), "names other things as outside than its adapter declares"),
        (lambda e: e.update(ragged=1), "claims ragged, which its adapter does not take"),
        (
            lambda e: e["values"].update(drafts={"1": 16, "4": 1}),
            "claims more than 1 drafts, which its adapter does not take",
        ),
        (
            lambda e: e["values"].update(dtype={"float16": 17}),
            "claims float16, which its adapter does not take",
        ),
    ],
)
def test_an_envelope_that_claims_more_than_can_be_is_told(
    change: Callable[[dict[str, Any]], Any], told: str
) -> None:
    assert told in edited(change)


def test_no_lane_is_claimed_that_decided_nothing() -> None:
    lanes = {"lanes": [["exact", 3]], "alone": False}
    told = contradiction(found(judged=lanes))
    assert told == "claims laws by a lane that decided nothing"


def test_who_takes_one_row_claims_no_more() -> None:
    told = contradiction(found(records(result({"rows": 2}), batch=False)))
    assert told == "claims several rows, which its adapter does not take"
