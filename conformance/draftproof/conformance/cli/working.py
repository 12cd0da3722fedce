"""Workers and interruption, for all commands that judge."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from draftproof.conformance.cli import options


def worked_by(command: Callable[..., None]) -> Callable[..., None]:
    """Add --jobs, --backend and --address, which are passed on as `working`."""

    @options.jobs(help="Number of processes.")
    @options.defaulted(
        "--backend",
        type=click.Choice(("processes", "dask", "ray")),
        default="processes",
        help="Use local processes or a cluster.",
    )
    @click.option("--address", help="Cluster scheduler, such as tcp://HOST:8786.")
    @wraps(command)
    def checked(*, jobs: int, backend: str, address: str | None, **others: Any) -> None:
        if backend == "processes" and address is not None:
            raise click.UsageError("--address needs a cluster: add --backend dask or --backend ray")
        if backend != "processes" and jobs != 1:
            raise click.UsageError(
                "--jobs needs --backend processes; a cluster has its own workers"
            )
        command(working={"jobs": jobs, "backend": backend, "address": address}, **others)

    return checked


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Yield a function that raises `KeyboardInterrupt` again if one was raised before.

    Python drops exceptions raised while it finalises objects, including interruptions.
    """
    interrupted = False
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: Any) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    def check() -> None:
        if interrupted:
            raise KeyboardInterrupt

    # Who ignores interruptions, as a job in the background does, is not interrupted here either.
    if before is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
