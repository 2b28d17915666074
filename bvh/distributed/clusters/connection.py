"""Connection to a scheduler that has workers, and the results of tasks as they complete."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from bvh.runtime.progress_bars import Progress
from bvh.runtime.registry import extra

if TYPE_CHECKING:
    from distributed import Client, Future

# A progress bar with a text, as a context.
ShownBar = Callable[[str], AbstractContextManager[Progress]]

# Tasks for each thread of the cluster, and the fewest and most rays of one.
TASKS, FEWEST, MOST = 4, 1 << 14, 1 << 20

# How long a scheduler, and the first worker, are waited for.
PATIENCE_SECONDS = 10.0


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Client | None]:
    """Connect to the scheduler, which has workers, of a command; yield None without an address.

    Errors say what is missing, or wrong with the option, or that the scheduler failed meanwhile.
    """
    if address is None:
        yield None
        return
    with extra("dask", "--scheduler needs distributed"):
        from distributed import Client, KilledWorker
    with _quiet():
        try:
            # As the default it would stay one if it fails.
            client = Client(address, timeout=PATIENCE_SECONDS, set_as_default=False)
        except OSError as error:
            raise ConnectionError(f"--scheduler: nothing answers at {address}: {error}") from None
        except ValueError as error:
            raise ValueError(f"--scheduler: {error}") from None
        with client, client.as_current(), warnings.catch_warnings():
            # What is cast at must reach the workers, however large it is.
            warnings.filterwarnings("ignore", "Sending large graph")
            try:
                client.wait_for_workers(1, timeout=PATIENCE_SECONDS)
            except TimeoutError:
                raise TimeoutError(f"--scheduler: {address} has no workers") from None
            try:
                yield client
            # The last is what distributed raises where the packages of the cluster are others.
            except (KilledWorker, CancelledError, RuntimeError) as error:
                cause = f" ({error.__cause__})" if error.__cause__ else ""
                raise ConnectionError(f"scheduler: {address} failed: {error}{cause}") from None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence distributed's log."""
    with contextlib.ExitStack() as before:
        for logger in map(logging.getLogger, ("distributed", "distributed.client")):
            before.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        yield


def task_size(client: Client, count: int) -> int:
    """Return how many of so many rays a task takes."""
    threads = max(int(sum(client.nthreads().values())), 1)
    return min(max(-(-count // (TASKS * threads)), FEWEST), MOST)


def completed(tasks: list[Future], text: str, shown: ShownBar) -> Iterator[tuple[str, Any]]:
    """Yield the keys and results of tasks as they are completed, and forget them."""
    from distributed import as_completed

    with shown(text) as progress:
        total, ready = len(tasks), as_completed(tasks, with_results=True)
        tasks.clear()
        for done, (task, found) in enumerate(ready, 1):
            # Raised for other errors, but not for this one.
            if isinstance(found, CancelledError):
                raise found
            yield task.key, found
            progress(done, total)
