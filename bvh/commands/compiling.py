"""All kernels compiled by several processes, each of which does what it has the helpers for."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from bvh.jit import all_recipes, families, notice


class Plan:
    """Which part a process compiles next.

    It stays in one family as long as there is something left, goes on with one that nobody has
    begun, and then helps where most is left. What two parts share is compiled by one process; the
    other waits for the file.
    """

    def __init__(self, parts: list[list[str]]) -> None:
        self._fresh = [list(family) for family in parts if family]
        self._begun: list[list[str]] = []

    def next(self, family: list[str]) -> tuple[str | None, list[str]]:
        """Return the next part for who is at a family, and the family it is of."""
        if family:
            return family.pop(0), family
        if self._fresh:
            family = self._fresh.pop(0)
            self._begun.append(family)
            return family.pop(0), family
        longest = max(self._begun, key=len, default=[])
        return (longest.pop() if longest else None), family


def compile_one(name: str) -> None:
    """Compile a part, or load it."""
    notice.silence()
    all_recipes()[name]()


def compile_together(
    processes: int,
    progress: Callable[[int, int], object],
    parts: list[list[str]] | None = None,
    work: Callable[[str], None] = compile_one,
) -> None:
    """Have processes do the work of all parts.

    Parameters
    ----------
    processes : int
        How many; no more are started than there are parts.
    progress : callable
        Called as progress(done, total) after each part.
    parts : list of list of str, optional
        Families of parts; by default, all that there are.
    work : callable
        What a process does with the name of a part.
    """
    parts = families() if parts is None else parts
    plan, total, done = Plan(parts), sum(map(len, parts)), 0
    # Spawned: a fork would take over locks of threads that it does not have.
    context = multiprocessing.get_context("spawn")
    at: dict[Connection, list[str]] = {}
    children = []
    try:
        for _ in range(min(processes, total)):
            ours, theirs = context.Pipe()
            child = context.Process(target=_answer, args=(theirs, work), daemon=True)
            child.start()
            theirs.close()
            children.append(child)
            at[ours] = []
            _send_next(plan, at, ours)
        while at:
            for ours in [pipe for pipe in wait(list(at)) if isinstance(pipe, Connection)]:
                _received(ours)
                done += 1
                progress(done, total)
                _send_next(plan, at, ours)
    finally:
        # After an error or Ctrl-C some are at work: LLVM hears nothing for minutes. What is half
        # done counts as absent, locks as free.
        for child in children:
            if done < total:
                child.terminate()
            child.join()


def _send_next(plan: Plan, at: dict[Connection, list[str]], pipe: Connection) -> None:
    """Give a process its next part, or let it end."""
    name, at[pipe] = plan.next(at[pipe])
    # Whoever has died is told by the next look at the pipe.
    with contextlib.suppress(OSError):
        pipe.send(name)
    if name is None:
        del at[pipe]


def _received(pipe: Connection) -> None:
    """Hear that a part is done, or raise what has gone wrong."""
    try:
        error = pipe.recv()
    except EOFError:
        raise RuntimeError("a process that compiled kernels has ended before it was done") from None
    if error is not None:
        raise error


def _answer(pipe: Connection, work: Callable[[str], None]) -> None:
    """Work on the parts that a pipe names, in a process of its own."""
    # The process that has started it hears Ctrl-C, and ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while (name := pipe.recv()) is not None:
            answer: Any = None
            try:
                work(name)
            except Exception as error:
                answer = _plain(error)
            pipe.send(answer)


def _plain(error: Exception) -> RuntimeError:
    """Return an error that any process can read."""
    return RuntimeError(f"{type(error).__name__}: {error}")
