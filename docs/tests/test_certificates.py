"""The table of certificates says of each whether it is current, and what has changed if not."""

from __future__ import annotations

from building.certificates import told
from building.forms import FORMS
from certificates.listing import NAMES, Listed

from draftproof.conformance.run.staleness import Comparison, Currency

HERE = {"version": "0.1.0", "sha256": "1" * 64}
OTHER = {"version": "0.0.1", "sha256": "0" * 64}


def certificate(name: str, subject: Comparison, suite: Comparison) -> tuple[Listed, Currency]:
    lanes = ("exact", "run")
    found = Listed(name, "conforms", "certify", lanes, "2026-11-22", "0.1.0 (1111)")
    return found, Currency(subject, Comparison(HERE, HERE), suite, (), 0, "draftproof certify")


def test_every_state_is_told() -> None:
    same, other = Comparison(HERE, HERE), Comparison(OTHER, HERE)
    absent = Comparison(HERE, None, "there is no Triton")
    text = told(
        dict(
            (
                certificate("one", same, same),
                certificate("two", other, other),
                certificate("three", same, other),
                certificate("four", absent, same),
                certificate("five", absent, other),
            )
        )
    )
    head, _, table = text.partition("\n\n")
    assert head.startswith("**5 certificates: 1 current, 3 stale, 1 unknown.** ")
    rest = " | conforms | certify | exact, run | 2026-11-22 | 0.1.0 (1111) |"
    assert [line.removesuffix(rest) for line in table.splitlines()[2:]] == [
        "| one | current",
        "| two | **stale**: verifier, suite",
        "| three | **stale**: suite",
        "| four | unknown: the verifier was not compared: there is no Triton",
        "| five | **stale**: suite",
    ]


def test_nothing_unknown_is_not_told() -> None:
    same = Comparison(HERE, HERE)
    assert told(dict([certificate("one", same, same)])).startswith(
        "**1 certificates: 1 current, 0 stale.** Compared with suite "
    )


def test_the_page_has_all_of_them() -> None:
    text = FORMS["table"]("certificates")
    assert text.startswith(f"**{len(NAMES)} certificates: ")
    rows = [line.split(" | ")[0] for line in text.splitlines()]
    assert rows[-len(NAMES) :] == [f"| {name}" for name in NAMES]
