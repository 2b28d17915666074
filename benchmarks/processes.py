"""Child processes, each bound to as many CPUs as it has threads.

Some peers take no number of threads, or ignore it; all of them use the CPUs that their process is
bound to before their threads start. And a fresh process is not affected by earlier measurements.
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
POLL = 0.2


def stream(module: str, options: dict[str, Any], threads: int, **settings: str) -> Iterator[Row]:
    """Yield the rows of a module that runs as a process on some CPUs, each as soon as it is there.

    The module, of this package, calls `answer_parent`, which passes on the options; settings are
    variables of its environment. If it fails, SystemExit is raised after the rows until then.
    """
    with tempfile.TemporaryDirectory() as folder, bound(threads):
        path = Path(folder, "rows.jsonl")
        path.touch()
        task = {**options, "threads": threads, "cpus": available(), "rows": str(path)}
        # The child imports what this process does, from any working directory.
        folders = os.pathsep.join(p or os.getcwd() for p in sys.path)
        command = [sys.executable, "-P", "-m", f"{__package__}.{module}", json.dumps(task)]
        child = subprocess.Popen(command, env={**os.environ, **settings, "PYTHONPATH": folders})
        try:
            with path.open() as written:
                while child.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(POLL)
                    yield from _lines(written)
                yield from _lines(written)
        finally:
            # Also where the rest of the rows is not wanted, as after Ctrl-C.
            if child.poll() is None:
                child.terminate()
                child.wait()
        if child.returncode:
            raise SystemExit(child.returncode)


def _lines(written: Any) -> Iterator[Row]:
    """Yield the complete lines that have been added to a file."""
    while True:
        position = written.tell()
        line = written.readline()
        if not line.endswith("\n"):
            written.seek(position)
            return
        yield json.loads(line)


def answer_parent(measure: Callable[[dict[str, Any]], Iterable[Row]]) -> None:
    """Read the options, measure, and pass each row to the parent process."""
    options = json.loads(sys.argv[1])
    if available() != options["cpus"]:
        raise SystemExit(f"bound to {available()} CPUs instead of {options['cpus']}")
    try:
        with Path(options["rows"]).open("w") as written:
            for row in measure(options):
                written.write(json.dumps(row) + "\n")
                written.flush()
    except KeyboardInterrupt:
        # The parent gets the same signal, and reports it.
        raise SystemExit(130) from None


def available() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def bound(threads: int) -> Iterator[None]:
    """Bind this process, and the processes that it starts, to some CPUs for a while."""
    if not hasattr(os, "sched_setaffinity"):
        print("this system binds no process to a CPU: peers use all of them", file=sys.stderr)
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-threads:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
