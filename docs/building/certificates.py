"""The certificates of the fast verifiers, and whether each is current when the site is built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from certificates.listing import HEAD, Listed, currency, present

from building.markdown import table
from draftproof.conformance.evidence.identity import specification, suite
from draftproof.conformance.run.staleness import STATES, UNKNOWN, Currency


def certified() -> str:
    """Return the certificates of the fast verifiers as a table, and how many are current."""
    return told({each: currency(each.name) for each in present()})


def told(certificates: Mapping[Listed, Currency]) -> str:
    """Return certificates as a table, and how many are current."""
    states = Counter(each.state for each in certificates.values())
    shown = [state for state in STATES if states[state] or state != UNKNOWN]
    counted = ", ".join(f"{states[state]} {state}" for state in shown)
    by = {"suite": suite(), "specification": specification()}
    here = " and ".join(
        f"{name} {part['version']} (`{part['sha256'][:12]}`)" for name, part in by.items()
    )
    said = f"**{len(certificates)} certificates: {counted}.** Compared with {here}."
    name, *others = HEAD
    rows = [[each.name, _state(found), *each.row()[1:]] for each, found in certificates.items()]
    return f"{said}\n\n{table([name, 'state', *others], rows)}"


def _state(found: Currency) -> str:
    """Return the state, with the changed parts or the reason why it is unknown."""
    if found.changed:
        return f"**{found.state}**: {', '.join(found.changed)}"
    return f"{found.state}: {found.reason}" if found.reason else found.state
