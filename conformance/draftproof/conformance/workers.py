"""Where the work is done: processes of this machine, or a cluster that Dask or Ray runs."""

from __future__ import annotations

import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

BACKENDS = ("processes", "dask", "ray")
"""Processes are started here; the others are clusters that run already."""

Over = Callable[[Iterable[Any]], Iterator[Any]]
"""Takes calls, made by `joblib.delayed`, and yields what they return, in order."""


class WorkersFailed(RuntimeError):
    """The workers cannot be reached, or do not survive what they are given."""


@dataclass(frozen=True)
class Workers:
    """Who does the work: `jobs` processes of this machine, or the cluster at an address."""

    jobs: int = 1
    backend: str = "processes"
    address: str | None = None

    @property
    def are_here(self) -> bool:
        """Whether the work is done in this very process."""
        return self.backend == "processes" and self.jobs == 1


@contextmanager
def working(workers: Workers) -> Iterator[Over]:
    """Reach the workers. They take calls one by one, and not many more than they can do.

    A worker that is lost does not lose its share: a cluster gives it to another; here, what it
    raises is `WorkersFailed`, and who asks again has new ones. Raises `WorkersFailed`.
    """
    with ExitStack() as stack:
        # What was drawn ahead, and is not needed when a run ends early, is nobody's concern.
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", message=r"\d+ tasks have been successfully executed")
        reached: Any = None
        if workers.backend != "processes":
            reached = stack.enter_context(_cluster(workers))

        def over(calls: Iterable[Any]) -> Iterator[Any]:
            if workers.backend == "dask" and reached.status != "running":
                raise WorkersFailed(f"the Dask scheduler at {workers.address!r} is gone")
            results = _results(workers, calls)
            stack.callback(results.close)
            return results

        yield over


def _results(workers: Workers, calls: Iterable[Any]) -> Generator[Any, None, None]:
    jobs = workers.jobs if workers.backend == "processes" else -1
    try:
        if workers.backend == "ray":
            yield from _from_ray(calls)
        else:
            yield from joblib.Parallel(n_jobs=jobs, return_as="generator", batch_size=1)(calls)
    except TerminatedWorkerError as error:
        raise WorkersFailed(
            "a worker process ended without a word: the program under test crashed, or the memory "
            "was not enough"
        ) from error
    except _losses(workers) as error:
        raise WorkersFailed(f"the cluster failed: {error}") from error


def keep_apart() -> None:
    """Give the threads of a cluster's worker, where this is one, a generator of their own.

    They draw from Python's while a program is watched, which must not draw from it.
    """
    own = random.SystemRandom()
    instead: dict[int, Any] = {id(random): own}
    for name in set(random.__all__) & set(dir(own)):
        instead[id(getattr(random, name))] = getattr(own, name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _CLUSTERS:
            for attribute, value in list(vars(module).items()):
                if id(value) in instead:
                    setattr(module, attribute, instead[id(value)])


_CLUSTERS = ("dask", "distributed", "tornado", "ray")


@contextmanager
def _cluster(workers: Workers) -> Iterator[Any]:
    """Reach a cluster, and yield what it is reached by."""
    package = "distributed" if workers.backend == "dask" else "ray"
    try:
        reached = _dask if workers.backend == "dask" else _ray
        with reached(workers.address) as client:
            yield client
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("dask", package):
            raise
        raise WorkersFailed(
            f"--backend {workers.backend} needs it: pip install 'draftproof[{workers.backend}]'"
        ) from None


def _losses(workers: Workers) -> tuple[type[Exception], ...]:
    """Return what a cluster raises that has no workers, or lost them."""
    if workers.backend == "processes":
        return ()
    if workers.backend == "ray":
        from ray.exceptions import RayError

        return (RayError, OSError)
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    return (KilledWorker, FutureCancelledError, OSError)


@contextmanager
def _dask(address: str | None) -> Iterator[Any]:
    from distributed import Client

    if address is None:
        raise WorkersFailed("--backend dask needs the --address of its scheduler: tcp://HOST:8786")
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise WorkersFailed(f"no Dask scheduler answers at {address!r}: {error}") from None
    with client, joblib.parallel_config(backend="dask", client=client):
        yield client


@contextmanager
def _ray(address: str | None) -> Iterator[Any]:
    import ray

    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise WorkersFailed(f"no Ray cluster answers at {address!r}: {error}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _from_ray(calls: Iterable[Any]) -> Iterator[Any]:
    """Yield what the calls return, in order: joblib's own way to Ray waits for all of them."""
    import ray

    called = ray.remote(_called)
    most = 2 * int(ray.cluster_resources().get("CPU", 1))
    waiting: deque[Any] = deque()
    for call in calls:
        waiting.append(called.remote(*call))
        if len(waiting) >= most:
            yield ray.get(waiting.popleft())
    while waiting:
        yield ray.get(waiting.popleft())


def _called(function: Callable[..., Any], arguments: Any, options: Any) -> Any:
    return function(*arguments, **options)
