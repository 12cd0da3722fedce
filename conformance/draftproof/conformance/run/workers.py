"""Workers: processes of this machine, or a cluster that Dask or Ray runs."""

from __future__ import annotations

import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError, _ExecutorManagerThread

from draftproof.conformance.protocol.raising import told_of
from draftproof.reference.extras import installation

BACKENDS = ("processes", "dask", "ray")
"""Backend that starts processes here; the others are running clusters."""

Over = Callable[[Iterable[Any]], Generator[Any, None, None]]
"""Function that takes calls, made by `joblib.delayed`, and yields their results, in order."""


class WorkersFailed(RuntimeError):
    """Error of workers that cannot be reached, or that do not survive their work."""


class WorkerLost(WorkersFailed):
    """Error of a process of this machine that ended; a new request starts a new process."""


@dataclass(frozen=True)
class Workers:
    """The workers: `jobs` processes of this machine, or the cluster at an address."""

    jobs: int = 1
    backend: str = "processes"
    address: str | None = None

    @property
    def are_here(self) -> bool:
        """True if this process does the work itself."""
        return self.backend == "processes" and self.jobs == 1


@contextmanager
def working(workers: Workers) -> Iterator[Over]:
    """Connect to the workers, which take calls one by one, not many ahead.

    If a worker is lost, a cluster gives its share to a different worker. Raises `WorkersFailed`,
    and `WorkerLost` for a process of this machine.
    """
    with ExitStack() as stack:
        if workers.backend == "processes":
            # What was drawn ahead, and is not needed when a run ends early, is nobody's concern.
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings(
                "ignore", message=r"\d+ tasks (have been|which were still being)"
            )
            from_calls: Callable[[Iterable[Any]], Generator[Any, None, None]] = partial(
                _locally, workers.jobs
            )
        else:
            from_calls = partial(_ahead, stack.enter_context(_cluster(workers)))

        def over(calls: Iterable[Any]) -> Generator[Any, None, None]:
            results = from_calls(calls)
            stack.callback(results.close)
            return results

        yield over


_take_calls = _ExecutorManagerThread.add_call_item_to_queue


def _take_no_dropped_calls(manager: Any) -> None:
    """Submit calls to loky's workers, unless it kills them.

    When loky kills its workers, it drops the waiting calls, and then takes calls once more. If a
    new call has arrived by then, loky's thread ends with a KeyError on the terminal.
    """
    if not manager.executor_flags.kill_workers:
        _take_calls(manager)


_ExecutorManagerThread.add_call_item_to_queue = _take_no_dropped_calls


def _locally(jobs: int, calls: Iterable[Any]) -> Generator[Any, None, None]:
    try:
        yield from joblib.Parallel(n_jobs=jobs, return_as="generator", batch_size=1)(calls)
    except TerminatedWorkerError as error:
        raise WorkerLost(
            "a worker process ended without a word: the program under test crashed, or the memory "
            "was not enough"
        ) from error


def keep_apart() -> None:
    """Give the threads of a cluster's worker, if this is one, their own random generator.

    Otherwise they draw from Python's generator, which only the watched program may use.
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


# --- clusters -----------------------------------------------------------------------------

# joblib's own way to Dask does not end where every worker dies of its task, and its way to Ray
# yields nothing before all is done. What a campaign needs of either is little.


@dataclass(frozen=True)
class _Cluster:
    """Cluster: how to submit a call, wait for its result, and how many to submit ahead."""

    submit: Callable[..., Any]
    result: Callable[[Any], Any]
    most: int


def _ahead(cluster: _Cluster, calls: Iterable[Any]) -> Generator[Any, None, None]:
    """Yield the results of calls, in order."""
    waiting: deque[Any] = deque()
    for function, arguments, options in calls:
        waiting.append(cluster.submit(function, *arguments, **options))
        if len(waiting) >= cluster.most:
            yield cluster.result(waiting.popleft())
    while waiting:
        yield cluster.result(waiting.popleft())


@contextmanager
def _cluster(workers: Workers) -> Iterator[_Cluster]:
    package = "distributed" if workers.backend == "dask" else "ray"
    try:
        reached = _dask if workers.backend == "dask" else _ray
        with reached(workers.address) as cluster:
            yield cluster
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("dask", package):
            raise
        raise WorkersFailed(
            f"--backend {workers.backend} needs its package: {installation(workers.backend)}"
        ) from None


# So many seconds a cluster may be without a worker: they are started, or started again.
_PATIENCE = 30


@contextmanager
def _dask(address: str | None) -> Iterator[_Cluster]:
    from distributed import Client

    if address is None:
        raise WorkersFailed("--backend dask needs the --address of its scheduler: tcp://HOST:8786")
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise WorkersFailed(f"no Dask scheduler answers at {address!r}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise WorkersFailed(f"the Dask cluster at {address!r} has no workers") from None
        submit = partial(client.submit, pure=False)
        most = 2 * sum(client.ncores().values())
        yield _Cluster(submit, partial(_dask_result, client), most=max(most, 2))


def _dask_result(client: Any, future: Any) -> Any:
    """Wait for a result while there are workers."""
    from distributed.client import FutureCancelledError
    from distributed.scheduler import KilledWorker

    alone = 0
    while alone < _PATIENCE:
        is_done = future.done()
        try:
            return future.result(timeout=_PATIENCE if is_done else 1)
        except TimeoutError as error:
            if is_done:
                raise WorkersFailed(f"a worker's result was not had: {told_of(error)}") from error
        except (KilledWorker, FutureCancelledError, OSError) as error:
            raise WorkersFailed(f"the cluster failed: {told_of(error)}") from error
        is_at_work = client.status == "running" and client.ncores()
        alone = 0 if is_at_work else alone + 1
    raise WorkersFailed(f"the Dask cluster has no workers any more, or no scheduler ({client})")


@contextmanager
def _ray(address: str | None) -> Iterator[_Cluster]:
    import ray
    from ray.exceptions import RayError

    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise WorkersFailed(f"no Ray cluster answers at {address!r}: {error}") from None

    def result(reference: Any) -> Any:
        try:
            return ray.get(reference)
        except (RayError, OSError) as error:
            raise WorkersFailed(f"the cluster failed: {told_of(error)}") from error

    called = ray.remote(_called)
    try:
        most = 2 * int(ray.cluster_resources().get("CPU", 1))
        yield _Cluster(called.remote, result, most=most)
    finally:
        ray.shutdown()


def _called(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return function(*arguments, **options)
