"""The options that say who does the work: what all commands that judge share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click


def worked_by(command: Callable[..., None]) -> Callable[..., None]:
    """Add --jobs, --backend and --address, which are passed on under these names."""

    @click.option(
        "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes."
    )
    @click.option(
        "--backend",
        type=click.Choice(("processes", "dask", "ray")),
        default="processes",
        show_default=True,
        help="Processes of this machine, or a cluster.",
    )
    @click.option("--address", help="Of the cluster's scheduler, such as tcp://HOST:8786.")
    @wraps(command)
    def checked(**options: Any) -> None:
        if options["backend"] == "processes" and options["address"] is not None:
            raise click.UsageError("--address is that of a cluster: name its --backend")
        if options["backend"] != "processes" and options["jobs"] != 1:
            raise click.UsageError("--jobs is for processes of this machine; a cluster has its own")
        command(**options)

    return checked
