"""Parts of the package compiled by several processes."""

import signal
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any


class WarmingPlan:
    """Schedule of parts, in families that share helpers.

    A process stays in a family while parts are left, continues with a family that is not begun, and
    then takes parts of the one that has the most left.
    """

    def __init__(self, parts: list[list[str]]) -> None:
        self._waiting = [list(family) for family in parts if family]
        self._begun: list[list[str]] = []

    def next(self, family: list[str]) -> tuple[str | None, list[str]]:
        """Return the next part for a process, None if none is left, and the family it works on.

        `family` is what the last call for this process returned as its family, at first empty: the
        list of the parts left in it, from which other processes may take some.
        """
        if not family and self._waiting:
            family = self._waiting.pop(0)
            self._begun.append(family)
        if family:
            return family.pop(0), family
        # Take a part of the family that has the most left, but stay outside that family: the next
        # call then looks again for the one with the most left.
        longest = max(self._begun, key=len, default=[])
        return (longest.pop() if longest else None), family


def compile_together(
    processes: int, progress: Callable[[int, int], object], parts: list[list[str]],
    work: Callable[[str], None],
) -> None:  # fmt: skip
    """Call work(name) for all parts, a list for each family, in several processes.

    Other processes must be able to import `work`. progress(done, total) counts parts.
    """
    plan, total, done = WarmingPlan(parts), sum(map(len, parts)), 0
    # Spawned, because a fork would inherit locks of threads that it does not have. Ctrl-C is for
    # this process, which ends the others.
    settings: Any = get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    children: list[Any] = [ProcessPoolExecutor(1, *settings) for _ in range(min(processes, total))]
    running: dict[Future[None], tuple[Any, list[str]]] = {}

    # Give a process its next part; `family` is as for `WarmingPlan.next`.
    def send_next(child: Any, family: list[str]) -> None:
        name, family = plan.next(family)
        if name is not None:
            running[child.submit(_do, work, name)] = child, family

    try:
        for child in children:
            send_next(child, [])
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                done += 1
                progress(done, total)
                send_next(*running.pop(future))
    except BrokenProcessPool:
        raise RuntimeError("a process that compiled kernels has ended before it was done") from None
    finally:
        # After an error or Ctrl-C some are still compiling, perhaps for minutes. Unfinished files
        # count as absent.
        for child in children:
            for process in [*child._processes.values()] if done < total else ():
                process.terminate()
            child.shutdown()


def _do(work: Callable[[str], None], name: str) -> None:
    """Call work(name); raise a RuntimeError for an exception, as some cannot be pickled."""
    try:
        work(name)
    except Exception as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from None
