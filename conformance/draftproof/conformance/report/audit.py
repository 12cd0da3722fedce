"""An audit on the terminal, and the plan of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_EVENTS = {
    "draft": "the draft's favourite",
    "target": "the target's favourite",
    "tail": "tokens below 1e-4",
    "support": "excluded tokens",
}

_STYLES = {"alarm": "bold red", "no alarm": "green", "inconclusive": "yellow"}


def print_audit(console: Console, document: Mapping[str, Any]) -> None:
    """Print the findings of an audit."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("speculation", overflow="fold")
    for title in ("tokens", "alarm after", "distance at least", "would find"):
        table.add_column(title, justify="right", overflow="fold")
    for group in document["groups"]:
        after = group["alarm_after"]
        table.add_row(
            _side(group),
            f"{group['tokens']:,}",
            "none" if after is None else f"{after:,}",
            f"{group['distance_at_least']:g}",
            "nothing" if group["would_find"] is None else f"{group['would_find']:g}",
        )
    console.print(table)
    for group in document["groups"]:
        if (telling := group["telling"]) is not None:
            event = group["events"][telling["event"]]
            much = "often" if telling["direction"] == "more" else "seldom"
            console.print(
                f"speculation {_side(group)}: {_EVENTS[telling['event']]} too {much}: "
                f"{event['happened']:,} of {event['tokens']:,} tokens, "
                f"{event['expected']:,.1f} expected from the rows"
            )
    verdict = document["verdict"]
    reason = f": {escape(document['reason'])}" if document["reason"] else ""
    console.print(f"[{_STYLES[verdict]}]{verdict}[/]{reason}")
    console.print(
        f"The probability of a false alarm, at any time, is at most {document['alpha']:g} if rows "
        f"are within a distance of {document['tolerance']:g}."
    )


def _side(group: Mapping[str, Any]) -> str:
    return "on" if group["speculation"] else "off"


def print_plan(console: Console, document: Mapping[str, Any]) -> None:
    """Print how many tokens an audit needs."""
    rate = document["rate"]
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("bias", justify="right", overflow="fold")
    for name in ("draft", "target"):
        table.add_column(f"on {_EVENTS[name]}", justify="right", overflow="fold")
        if rate is not None:
            table.add_column("time", justify="right", overflow="fold")
    for row in document["biases"]:
        cells = [f"{row['bias']:g}"]
        for name in ("draft", "target"):
            tokens = row[name]
            cells.append("never" if tokens is None else f"{tokens:,}")
            if rate is not None:
                cells.append("" if tokens is None else _time(tokens / rate))
        table.add_row(*cells)
    console.print(table)
    console.print(
        f"Expected tokens until an alarm at {document['alpha']:g}, if rows are within a distance "
        f"of {document['tolerance']:g}; rows: {escape(document['rows'])}."
    )


def _time(seconds: float) -> str:
    """Return a duration in its largest suitable unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"
