"""Staleness: whether a certificate is about the current verifier and the code that would judge it.

A certificate stays true of its subject (`version.stale`). It is *current* if the verifier has the
digest in it, the specification its version, and every requirement its keys: the same cases would be
judged on the same terms, and observed and judged by the same code. It is *stale* if any of them has
changed. If the verifier was not compared, and nothing else has changed, the state is *unknown*.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from draftproof.conformance.evidence.decision import decisive, is_engine
from draftproof.conformance.evidence.identity import specification, subject, suite
from draftproof.conformance.evidence.keys import code_key, tree_root
from draftproof.conformance.evidence.records import Evidence
from draftproof.conformance.protocol.adapter import (
    AdapterFailed,
    Declaration,
    InvalidAdapter,
    Program,
    UnknownAdapter,
)
from draftproof.conformance.protocol.loading import built_in, load_program, source_digest

if TYPE_CHECKING:
    from draftproof.conformance.run.campaign import Campaign

CURRENT, STALE, UNKNOWN = STATES = ("current", "stale", "unknown")

NOT_BUILT_IN = "it is not built in, and no certificate is trusted to name what is imported"
"""Reason for not comparing a verifier that only the certificate names."""


@dataclass(frozen=True)
class Comparison:
    """Identity of one part of a certificate, then and now: name, version and SHA-256."""

    then: Mapping[str, str]
    """Identity in the certificate."""
    now: Mapping[str, str] | None
    """Current identity; None if it was not compared."""
    reason: str | None = None
    """Reason for not comparing it."""

    @property
    def is_changed(self) -> bool:
        """True if the part was compared, and is different."""
        return self.now is not None and self.now != self.then


@dataclass(frozen=True)
class Currency:
    """Parts of a certificate that can change, each compared with its current state."""

    subject: Comparison
    specification: Comparison
    suite: Comparison
    judged: tuple[str, ...]
    """Requirements with different keys now: the code that asks, observes or judges them has
    changed, or the certificate leaves them out."""
    requirements: int
    """Number of requirements that have keys, in the certificate or here."""
    command: str
    """Command that judges the verifier again, with the current suite."""

    @property
    def parts(self) -> Mapping[str, Comparison]:
        """Names of the three comparisons in prose."""
        return {
            "verifier": self.subject,
            "specification": self.specification,
            "suite": self.suite,
        }

    @property
    def changed(self) -> tuple[str, ...]:
        """The differences that make it stale; a digest of the suite alone does not."""
        then, now = self.specification.then, self.specification.now or {}
        is_keyed = self.requirements > 0
        # A MINOR version asks more: keys tell of what, where there are any.
        part = _major if is_keyed else _minor
        is_other = part(now.get("version", "")) != part(then["version"])
        told = {
            "verifier": self.subject.is_changed,
            "specification": is_other or (self.specification.is_changed and not is_keyed),
            "suite": self.suite.is_changed and not is_keyed,
        }
        # Keys have the digest of the verifier: they say more only where that is the same.
        if self.judged and not any(told.values()):
            told[f"judging of {len(self.judged)} of {self.requirements} requirements"] = True
        return tuple(name for name, is_changed in told.items() if is_changed)

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
    """Return the standing of a certificate against the current verifier, specification and suite.

    `adapter` is the name of the verifier, as `load_adapter` takes it. Without it, only a built-in
    adapter is loaded, because a certificate may name any program.
    """
    (of,) = document["subject"]
    by, with_suite, _ = document["predicate"]["configuration"]
    said = document["predicate"]["draftproof"]
    place = said["adapter"]["place"]
    name = adapter or next((name for name, at in built_in().items() if at == place), None)
    # Nor is anybody led to run what a certificate names.
    again = ("draftproof", "certify", name or "ADAPTER", "--mode", said["mode"])
    if is_engine(said["adapter"]):
        option = {"server": ("--url",), "tokens": ("--tokens",)}
        where = option.get(said["adapter"]["engine"]["kind"], ())
        again = ("draftproof", "engine", *where, place, "--rows", "ROWS.json")
    then = {"name": of["name"], **_named(of)}
    loaded, reason = _loaded(name)
    on = said["adapter"].get("device")
    if loaded is not None and on not in (None, loaded.declared.device):
        # The same files are another verifier there.
        reason = f"it runs on {loaded.declared.device} here, and was judged on {on}"
        loaded = None
    now = subject(loaded) if loaded is not None else None
    roots = {each["id"]: each["root"] for each in said.get("requirements", ()) if "root" in each}
    is_same = now == then and roots
    roots_now = _roots(said, loaded) if is_same and loaded is not None else roots
    return Currency(
        Comparison(then, now, reason),
        Comparison(_named(by), specification()),
        Comparison(_named(with_suite), suite()),
        tuple(each for each in roots | roots_now if roots_now.get(each) != roots.get(each)),
        len(roots | roots_now),
        shlex.join(again),
    )


def _roots(said: Mapping[str, Any], program: Program) -> dict[str, str]:
    """Return the roots of the requirements' keys that judging the program now would give."""
    # What it imports needs torch.
    from draftproof.conformance.run.campaign import campaign_in, tasks_of

    campaign = campaign_in(said)
    keys = keys_now(
        campaign,
        program.declared,
        source_digest(program.adapter),
        lanes=[lane for lane, count in said["judged"]["lanes"] for _ in range(count)],
        blind=said["blind"],
        alone=said["judged"]["alone"],
    )
    own: dict[str, list[str]] = {}
    for task, key in zip(tasks_of(campaign, program.declared), keys, strict=False):
        for requirement in task.requirements:
            own.setdefault(requirement, []).append(key)
    # What is asked now and is not there would not be missed without its evidence.
    asked = [each["id"] for each in said["requirements"]]
    return {each: tree_root(own.get(each, [])) for each in (*asked, *own)}


def keys_now(
    campaign: Campaign,
    declared: Declaration,
    subject: str,
    *,
    lanes: Sequence[str | None],
    blind: Collection[str],
    alone: bool,
) -> list[str]:
    """Return the code keys of a campaign's tasks, each decided by the lane that is given for it.

    Returns an empty list if these lanes cannot have decided these tasks.
    """
    from draftproof.conformance.run.campaign import tasks_of, terms_of

    tasks = tasks_of(campaign, declared)
    terms = replace(terms_of(campaign, tasks), alone=alone)
    can = [lane in (None, *task.lanes) for task, lane in zip(tasks, lanes, strict=False)]
    if len(tasks) != len(lanes) or not all(can) or not set(lanes).isdisjoint(blind):
        return []
    return [
        code_key(task, lane=lane, blind=blind, declared=declared, subject=subject, terms=terms)
        for task, lane in zip(tasks, lanes, strict=True)
    ]


def is_of_this_suite(evidence: Evidence) -> bool:
    """Return True if the code that left evidence is unchanged: the suite's, or all that judged.

    For evidence of a different suite, the keys decide.
    """
    return bool(evidence.header["suite"] == suite()) or has_its_keys(evidence)


def has_its_keys(evidence: Evidence) -> bool:
    """Return True if this suite would give all results the same keys."""
    from draftproof.conformance.run.campaign import campaign_of, declared_in

    header, records = decisive(evidence.records)
    results = [record for record in records if record["record"] == "result"]
    keys = keys_now(
        campaign_of(header),
        declared_in(header),
        header["subject"]["sha256"],
        lanes=[record.get("lane") for record in results],
        blind=header["campaign"]["blind"],
        alone=any(record.get("alone", False) for record in evidence.records),
    )
    return keys == [record.get("key") for record in results]


def _major(version: str) -> str:
    """Return the MAJOR number of a version."""
    return version.partition(".")[0]


def _minor(version: str) -> list[str]:
    """Return the MAJOR and MINOR numbers of a version; a PATCH only clarifies."""
    return version.split(".")[:2]


def judged_again(found: Currency) -> Currency:
    """Return the standing after everything was judged again, which needs the same verifier."""
    return replace(found, subject=Comparison(found.subject.then, found.subject.then), judged=())


def standing_to_json(found: Currency) -> dict[str, Any]:
    """Return the standing in the form of `check.schema.json`."""
    return {"state": found.state, "reason": found.reason, **asdict(found)}


def _named(descriptor: Mapping[str, Any]) -> dict[str, str]:
    return {
        "version": descriptor["annotations"]["version"],
        "sha256": descriptor["digest"]["sha256"],
    }


def _loaded(name: str | None) -> tuple[Program | None, str | None]:
    """Return the program of a name, or why there is no program to compare."""
    if name is None:
        return None, NOT_BUILT_IN
    try:
        return load_program(name), None
    except (UnknownAdapter, AdapterFailed, InvalidAdapter, ModuleNotFoundError) as error:
        return None, str(error)
