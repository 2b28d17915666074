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


def rows_of(module: str, options: dict[str, Any], threads: int) -> list[Row]:
    """Run a module as a process on `threads` CPUs and return the rows that it yields.

    Parameters
    ----------
    module
        What calls `answer_parent` when it is run.
    options
        Passed on, with ``threads`` added.
    threads
        CPUs that the process is bound to.
    """
    with tempfile.TemporaryDirectory() as folder, bound(threads):
        path = Path(folder, "rows.json")
        given = {"threads": threads, "cpus": available(), "rows": str(path)}
        task = json.dumps({**options, **given})
        ended = subprocess.run([sys.executable, "-m", module, task], check=False)
        if ended.returncode:
            raise SystemExit(ended.returncode)
        rows: list[Row] = json.loads(path.read_text())
        return rows


def answer_parent(measure: Callable[[dict[str, Any]], Iterable[Row]]) -> None:
    """Read the options, measure, and hand the rows to the process that waits for them."""
    options = json.loads(sys.argv[1])
    if available() != options["cpus"]:
        raise SystemExit(f"bound to {available()} CPUs instead of {options['cpus']}")
    Path(options["rows"]).write_text(json.dumps(list(measure(options))))


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
