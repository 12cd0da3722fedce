"""Store of findings for commands that judge: its options and its known campaigns."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from draftproof.conformance.cli import options
from draftproof.conformance.cli.documents import echo
from draftproof.conformance.evidence.store import FOLDER, KnownFindings, Store

if TYPE_CHECKING:
    from draftproof.conformance.protocol.adapter import Declaration

OFF = "off"
"""Value of --store that turns the store off."""

AUDITED_IN_CI = 2.0
"""Percentage of stored findings to judge again if the environment variable CI is set."""


@dataclass(frozen=True)
class Stored:
    """Use of stored findings by a command; `store` is None for no store.

    The command ignores them if `is_fresh`, and judges the share `audited` again.
    """

    store: Store | None
    is_fresh: bool
    audited: float


def takes_store(command: Callable[..., None]) -> Callable[..., None]:
    """Add --store, --fresh and --audit, which are passed on as `stored`."""

    @options.defaulted(
        "--store",
        "folder",
        type=options.FOLDER,
        default=FOLDER,
        envvar="DRAFTPROOF_STORE",
        help=f"Folder of stored findings, or {OFF!r}.",
    )
    @click.option("--fresh", is_flag=True, help="Ignore stored findings; draw a new seed.")
    @click.option(
        "--audit",
        type=click.FloatRange(0, 100),
        metavar="PERCENT",
        help=f"Share of stored findings to judge again. [default: {AUDITED_IN_CI:g} in CI]",
    )
    @wraps(command)
    def taken(*, folder: Path, fresh: bool, audit: float | None, **others: Any) -> None:
        in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
        percent = audit if audit is not None else AUDITED_IN_CI if in_ci else 0.0
        # Made before anything is imported that sets variables of the environment.
        store = None if str(folder) == OFF else Store(folder)
        command(stored=Stored(store, fresh, percent / 100), **others)

    return taken


def asked(name: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the key of a campaign: its terms, and the place of its adapter instead of a name."""
    return {"name": place_of(name), **{key: _plain(value) for key, value in terms.items()}}


def place_of(name: str) -> str:
    """Return the current place of a name: that of its entry point, or the path of its file."""
    from draftproof.conformance.protocol.loading import HARNESS, built_in

    place, _, attribute = built_in().get(name, name).rpartition(":")
    is_file = place.endswith(".py") and not name.startswith(HARNESS)
    return f"{_file(Path(place)) if is_file else place}:{attribute}"


def _file(path: Path) -> Path:
    """Return the path from which a file is loaded: resolved, unless it contains links."""
    resolved = path.resolve()
    # A program that is linked to finds what is beside the link.
    written = path.absolute()
    return resolved if str(resolved) == os.path.normpath(written) else written


def _plain(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, Mapping) else value


def campaign(name: str, terms: Mapping[str, Any], stored: Stored) -> KnownFindings | None:
    """Return the stored evidence of a campaign if it is still valid, otherwise None."""
    from draftproof.conformance.evidence.identity import specification, suite

    if stored.store is None or stored.is_fresh or stored.audited:
        return None
    known = stored.store.campaign(asked(name, terms))
    if known is None:
        return None
    header = known.records[0]
    by = header["suite"], header["specification"]
    return known if by == (suite(), specification()) else None


def refused(name: str, declared: Declaration, *, backend: str) -> str:
    """Return why no stored findings of an adapter may be used; empty if they may."""
    from draftproof.conformance.protocol.loading import HARNESS

    if name.startswith(HARNESS):
        return "a harness is a separate program, whose files are unknown"
    if declared.device != "cpu":
        return f"the adapter runs on device {declared.device}, not on the CPU"
    return f"a cluster judges it, {backend}" if backend != "processes" else ""


def tell(name: str, known: Mapping[str, int], judged: int) -> None:
    """Print how many findings of an adapter came from the store, with their dates."""
    total = sum(known.values())
    if total:
        dates = sorted({made.partition("T")[0] for made in known})
        since = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        echo(f"{name}: {total} stored findings from {since}; {judged} judged now", err=True)


def tell_reason(name: str, told: str, reason: str) -> None:
    """Print why the store is not used, if there is a reason."""
    if reason:
        echo(f"{name}: {told}: {reason}", err=True)
