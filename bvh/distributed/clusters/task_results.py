"""Tasks on a cluster: how many rays each takes, and their results as they complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from bvh.runtime.progress_bars import Progress

if TYPE_CHECKING:
    from distributed import Client, Future

# A progress bar with a text, as a context.
ShownBar = Callable[[str], AbstractContextManager[Progress]]

# Tasks for each thread of the cluster, and the fewest and most rays of one.
TASKS, FEWEST, MOST = 4, 1 << 14, 1 << 20


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
