"""Child processes that are bound to as many CPUs as they have threads.

Some peers take no number of threads, or take one and do not heed it; all of them heed the CPUs
that their process may use, if it is bound to them before their threads start. And a fresh process
owes nothing to what was measured before.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

# Seconds between two looks at what a child has written.
GLANCE = 0.2


def rows_of(module: str, options: dict[str, Any], threads: int) -> list[Row]:
    """Run a module as a process on `threads` CPUs and return the rows that it yields.

    Parameters
    ----------
    module
        What calls `answer_parent` when it is run, a module of this folder.
    options
        Passed on, with ``threads`` added.
    threads
        CPUs that the process is bound to.
    """
    return list(stream(module, options, threads))


def stream(module: str, options: dict[str, Any], threads: int) -> Iterator[Row]:
    """Yield the rows of `rows_of` as soon as they are there.

    Raises
    ------
    SystemExit
        If the process fails; rows that it had by then have been yielded.
    """
    with tempfile.TemporaryDirectory() as folder, bound(threads):
        path = Path(folder, "rows.jsonl")
        path.touch()
        given = {"threads": threads, "cpus": available(), "rows": str(path)}
        # The child imports what this process does, whatever lies in the working directory.
        room = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
        command = [sys.executable, "-P", "-m", f"{__package__}.{module}"]
        child = subprocess.Popen([*command, json.dumps({**options, **given})], env=room)
        try:
            with path.open() as written:
                while child.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(GLANCE)
                    yield from _lines(written)
                yield from _lines(written)
        finally:
            # Also where nobody wants the rest of the rows, as after Ctrl-C.
            if child.poll() is None:
                child.terminate()
                child.wait()
        if child.returncode:
            raise SystemExit(child.returncode)


def _lines(written: Any) -> Iterator[Row]:
    """Yield the whole lines that have been added to a file."""
    while True:
        place = written.tell()
        line = written.readline()
        if not line.endswith("\n"):
            written.seek(place)
            return
        yield json.loads(line)


def answer_parent(measure: Callable[[dict[str, Any]], Iterable[Row]]) -> None:
    """Read the options, measure, and hand each row to the process that waits for them."""
    options = json.loads(sys.argv[1])
    if available() != options["cpus"]:
        raise SystemExit(f"bound to {available()} CPUs instead of {options['cpus']}")
    try:
        with Path(options["rows"]).open("w") as written:
            for row in measure(options):
                written.write(json.dumps(row) + "\n")
                written.flush()
    except KeyboardInterrupt:
        # The parent is told by the same key, and says so.
        raise SystemExit(130) from None


def available() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def bound(threads: int) -> Iterator[None]:
    """Bind this process, and with it the ones it starts, to some CPUs for a while."""
    if not hasattr(os, "sched_setaffinity"):
        print("this system binds no process to a CPU: peers take all of them", file=sys.stderr)
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-threads:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
