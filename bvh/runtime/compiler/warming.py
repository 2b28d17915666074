"""Parts of the package compiled by several processes."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, wait


class Plan:
    """Schedule of parts: families of parts that share helpers.

    A process stays in one family while parts are left, continues with a family that is not begun,
    and then takes parts of the longest one. Helpers that two parts share are compiled by one
    process; the other waits for the file.
    """

    def __init__(self, parts: list[list[str]]) -> None:
        self._waiting = [list(family) for family in parts if family]
        self._begun: list[list[str]] = []

    def next(self, family: list[str]) -> tuple[str | None, list[str]]:
        """Return the next part for a process, None if none is left, and the family it works on.

        `family` is what the last call for this process returned as its family, at first empty.
        """
        if family:
            return family.pop(0), family
        if self._waiting:
            family = self._waiting.pop(0)
            self._begun.append(family)
            return family.pop(0), family
        # Take a part of the family that has the most left, but stay outside that family.
        longest = max(self._begun, key=len, default=[])
        return (longest.pop() if longest else None), family


def compile_together(
    processes: int, progress: Callable[[int, int], object], parts: list[list[str]],
    work: Callable[[str], None],
) -> None:  # fmt: skip
    """Do the work of all parts, listed by family, in several processes."""
    # `work` must be a function that other processes can import by its name.
    plan, total, done = Plan(parts), sum(map(len, parts)), 0
    # Spawned, because a fork would inherit locks of threads that it does not have.
    context = multiprocessing.get_context("spawn")
    current: dict[Connection, list[str]] = {}
    children = []
    try:
        for _ in range(min(processes, total)):
            ours, theirs = context.Pipe()
            child = context.Process(target=_answer, args=(theirs, work), daemon=True)
            child.start()
            theirs.close()
            children.append(child)
            current[ours] = []
            _send_next(plan, current, ours)
        while current:
            for ours in [pipe for pipe in wait(list(current)) if isinstance(pipe, Connection)]:
                _received(ours)
                done += 1
                progress(done, total)
                _send_next(plan, current, ours)
    finally:
        # After an error or Ctrl-C some are still compiling, perhaps for minutes. Unfinished files
        # count as absent, their locks as free.
        for child in children:
            if done < total:
                child.terminate()
            child.join()


def _send_next(plan: Plan, current: dict[Connection, list[str]], pipe: Connection) -> None:
    """Send a process its next part, or None to end it."""
    name, current[pipe] = plan.next(current[pipe])
    # A process that has died is noticed when its pipe is read.
    with contextlib.suppress(OSError):
        pipe.send(name)
    if name is None:
        del current[pipe]


def _received(pipe: Connection) -> None:
    """Receive the end of a part, or raise the error of its process."""
    try:
        error = pipe.recv()
    except EOFError:
        raise RuntimeError("a process that compiled kernels has ended before it was done") from None
    if error is not None:
        raise error


def _answer(pipe: Connection, work: Callable[[str], None]) -> None:
    """Work on the parts sent through a pipe, until None; in a process of its own."""
    # The parent process handles Ctrl-C, and ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while (name := pipe.recv()) is not None:
            answer: Exception | None = None
            try:
                work(name)
            except Exception as error:
                # An exception that can be pickled, whatever `error` is.
                answer = RuntimeError(f"{type(error).__name__}: {error}")
            pipe.send(answer)
