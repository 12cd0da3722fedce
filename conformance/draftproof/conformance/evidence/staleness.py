"""Staleness: whether a certificate is of the verifier, the specification and the suite here.

A certificate stays true of what it names (`version.stale`). It is *current* where all three have
the digests and versions that it names, and *stale* where one has not. Where the verifier was not
compared, and nothing else has changed, the state is *unknown*.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from draftproof.conformance.evidence.identity import specification, subject, suite
from draftproof.conformance.protocol.adapter import (
    AdapterFailed,
    InvalidAdapter,
    UnknownAdapter,
    declaration,
)
from draftproof.conformance.protocol.loading import built_in, load_adapter

CURRENT, STALE, UNKNOWN = STATES = ("current", "stale", "unknown")

NOT_BUILT_IN = "it is not built in, and no certificate is trusted to name what is imported"
"""Reason for not comparing a verifier that nobody but the certificate names."""


@dataclass(frozen=True)
class Comparison:
    """Identity of one part of a certificate, then and now: name, version and SHA-256."""

    then: Mapping[str, str]
    """Identity that the certificate names."""
    now: Mapping[str, str] | None
    """Identity of the part that is here; None where it was not compared."""
    reason: str | None = None
    """Reason for not comparing it."""

    @property
    def is_changed(self) -> bool:
        """True where the part was compared, and is different."""
        return self.now is not None and self.now != self.then


@dataclass(frozen=True)
class Currency:
    """Parts of a certificate that can change, each compared with what is here."""

    subject: Comparison
    specification: Comparison
    suite: Comparison
    command: str
    """Command that judges the verifier again, by the suite that is here."""

    @property
    def parts(self) -> Mapping[str, Comparison]:
        """The three comparisons by their names in prose."""
        return {
            "verifier": self.subject,
            "specification": self.specification,
            "suite": self.suite,
        }

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the parts that are different."""
        return tuple(name for name, part in self.parts.items() if part.is_changed)

    @property
    def state(self) -> str:
        """One of `STATES`."""
        if self.changed:
            return STALE
        return CURRENT if self.subject.now is not None else UNKNOWN

    @property
    def reason(self) -> str | None:
        """Reason for not being current, as a clause; None for what is current."""
        if self.changed:
            *others, last = (f"the {name}" for name in self.changed)
            listed = f"{', '.join(others)} and {last}" if others else last
            return f"{listed} {'have' if others else 'has'} changed"
        if self.subject.now is None:
            return f"the verifier was not compared: {self.subject.reason}"
        return None


def standing(document: Mapping[str, Any], adapter: str | None = None) -> Currency:
    """Return how a certificate stands to what is here.

    `adapter` is the name of the verifier, as `load_adapter` takes it. Without it, only a built-in
    adapter is loaded: what else a certificate names may be anybody's program.
    """
    (of,) = document["subject"]
    by, with_suite, _ = document["predicate"]["configuration"]
    said = document["predicate"]["draftproof"]
    place = said["adapter"]["place"]
    name = adapter or next((name for name, at in built_in().items() if at == place), None)
    # Nor is anybody led to run what a certificate names.
    again = ("draftproof", "certify", name or "ADAPTER", "--mode", said["mode"])
    return Currency(
        _subject({"name": of["name"], **_named(of)}, name),
        Comparison(_named(by), specification()),
        Comparison(_named(with_suite), suite()),
        shlex.join(again),
    )


def judged_again(found: Currency) -> Currency:
    """Return the standing once all was judged again, which only the same verifier can be."""
    return replace(found, subject=Comparison(found.subject.then, found.subject.then))


def standing_to_json(found: Currency) -> dict[str, Any]:
    """Return the standing as `check.schema.json` has it."""
    return {"state": found.state, "reason": found.reason, **asdict(found)}


def _named(descriptor: Mapping[str, Any]) -> dict[str, str]:
    return {
        "version": descriptor["annotations"]["version"],
        "sha256": descriptor["digest"]["sha256"],
    }


def _subject(then: Mapping[str, str], name: str | None) -> Comparison:
    if name is None:
        return Comparison(then, None, NOT_BUILT_IN)
    try:
        adapter = load_adapter(name)
        return Comparison(then, subject(adapter, declaration(adapter)))
    except (UnknownAdapter, AdapterFailed, InvalidAdapter, ModuleNotFoundError) as error:
        return Comparison(then, None, str(error))
