"""The certificates of the fast verifiers as a list, each with its verdict and its currency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from draftproof.adapters.fast.texts import FORMS, TEXTS, name_of
from draftproof.conformance.evidence.certificate import read_certificate
from draftproof.conformance.run.staleness import Currency, standing

FOLDER = Path(__file__).parent
NAMES = tuple(
    name_of(text, form) for form in FORMS for text in TEXTS.values() if form in text.forms
)

EVIDENCE = FOLDER / "evidence"
"""Whole certificates and their evidence, which a release has and git does not."""

README = FOLDER / "README.md"

HEAD = ("verifier", "verdict", "mode", "lanes", "date", "suite")

_LANES = ("exact", "probe", "sample", "run")

_TOP = """\
# Certificates of the fast verifiers

This folder has a slim certificate for each verifier, with the verdict, the weakest lane, the worst
case and the root of the keys of every requirement. `fast.py` writes the certificates and this list:

- `make certificates` judges again every verifier whose certificate is not current;
- `python adapters/certificates/fast.py --list` writes the list alone.

*Lanes* lists the lanes that decided a requirement; *suite* is the version of the suite that judged,
with the first digits of its SHA-256. `make test` fails unless all certificates are current. A
certificate is *stale* if its verifier, the version of the specification or the code that judges a
requirement has changed: `draftproof check-certificate adapters/certificates/torch-block.json`
prints the change. The evidence, a line for every step, is attached to each release; `fast.py`
writes it to the folder `evidence`.
"""


@dataclass(frozen=True)
class Listed:
    """A certificate of the list."""

    name: str
    verdict: str
    mode: str
    lanes: tuple[str, ...]
    date: str
    suite: str

    def row(self) -> tuple[str, ...]:
        """Return the cells below `HEAD`."""
        return (self.name, self.verdict, self.mode, ", ".join(self.lanes), self.date, self.suite)


def listed(name: str) -> Listed:
    """Return the certificate of a fast verifier. Raises `EvidenceError`."""
    document = read_certificate(FOLDER / f"{name}.json")
    said = document["predicate"]["draftproof"]
    deciding = {lane for lane, _ in said["judged"]["lanes"]}
    _, judge, _ = document["predicate"]["configuration"]
    return Listed(
        name=name,
        verdict=said["verdict"],
        mode=said["mode"],
        lanes=tuple(lane for lane in _LANES if lane in deciding),
        date=said["created"].partition("T")[0],
        suite=f"{judge['annotations']['version']} ({judge['digest']['sha256'][:12]})",
    )


def currency(name: str) -> Currency:
    """Return how the certificate of a fast verifier stands to this checkout.

    Raises `EvidenceError`.
    """
    return standing(read_certificate(FOLDER / f"{name}.json"), name)


def present() -> Iterator[Listed]:
    """Yield the certificates that are there: before all are made, some are not."""
    return (listed(name) for name in NAMES if (FOLDER / f"{name}.json").exists())


def readme(certificates: Iterable[Listed]) -> str:
    """Return the list as it is committed."""
    rows = [HEAD, ("---",) * len(HEAD), *(each.row() for each in certificates)]
    return "\n".join([_TOP, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
