"""The certificates of the fast verifiers as a list: what each says, and whether it is current."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from draftproof.adapters.fast.texts import FORMS, TEXTS, name_of
from draftproof.conformance.evidence.certificate import read_certificate
from draftproof.conformance.evidence.staleness import Currency, standing

FOLDER = Path(__file__).parent
NAMES = tuple(name_of(text, form) for form in FORMS for text in TEXTS.values())

README = FOLDER / "README.md"
"""The list as it is committed, whose states are claims."""

HEAD = ("verifier", "state", "verdict", "mode", "lanes", "date", "suite")

_LANES = ("exact", "probe", "sample", "run")

_TOP = """\
# Certificates of the fast verifiers

Each certificate is beside this file, with its evidence. `fast.py` writes them and this list:

- `make certificates` judges again every verifier whose certificate is not current;
- `python adapters/certificates/fast.py --list` writes the list alone.

*Lanes* are those that decided something, *suite* is the version of the suite that judged and the
first digits of its SHA-256. A certificate is *stale* where its verifier, the specification or the
suite has changed since. `make test` fails where this list calls a certificate current and it is
not. `draftproof check-certificate adapters/certificates/torch-block.json` says what has changed.
"""


@dataclass(frozen=True)
class Listed:
    """A certificate of the list, and how it stands to this checkout."""

    name: str
    verdict: str
    mode: str
    lanes: tuple[str, ...]
    date: str
    suite: str
    standing: Currency

    def row(self, state: str) -> tuple[str, ...]:
        """Return the cells below `HEAD`."""
        lanes = ", ".join(self.lanes)
        return (self.name, state, self.verdict, self.mode, lanes, self.date, self.suite)


def listed(name: str) -> Listed:
    """Return the certificate of a fast verifier. Raises `EvidenceError`."""
    document = read_certificate(FOLDER / f"{name}.json")
    said = document["predicate"]["draftproof"]
    findings = (each for decision in said["requirements"] for each in decision["findings"])
    deciding = {finding["lane"] for finding in findings}
    found = standing(document, name)
    judge = found.suite.then
    return Listed(
        name=name,
        verdict=said["verdict"],
        mode=said["mode"],
        lanes=tuple(lane for lane in _LANES if lane in deciding),
        date=said["created"].partition("T")[0],
        suite=f"{judge['version']} ({judge['sha256'][:12]})",
        standing=found,
    )


def readme(certificates: Iterable[Listed], states: Mapping[str, str]) -> str:
    """Return the list as it is committed, with these states by name."""
    rows = [HEAD, ("---",) * len(HEAD), *(each.row(states[each.name]) for each in certificates)]
    return "\n".join([_TOP, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
