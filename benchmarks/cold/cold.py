"""Rows of first calls: each verb in a fresh process, on an empty or a filled kernel cache.

Times are CPU seconds, but for the wait; each answer is checked.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..processes import Row, stream
from .first_calls import COMMANDS, VERBS

# A smaller change is the machine's, even of CPU seconds.
NOISE = 0.1


def rows(verbs: list[str] | None, warm: bool, threads: int) -> Iterator[Row]:
    """Yield the row of each verb, all of them by default."""
    with tempfile.TemporaryDirectory() as bytecode:
        # Python's own compilation is done once, as pip does it.
        _row("import", False, threads, bytecode)
        for verb in verbs or [*VERBS, *COMMANDS]:
            yield _row(verb, warm, threads, bytecode)


def _row(verb: str, warm: bool, threads: int, bytecode: str) -> Row:
    """Measure a verb: its steps, and what is kept on disk."""
    filled = warm or (verb in VERBS and VERBS[verb].filled)
    with tempfile.TemporaryDirectory() as cache, fresh(cache, bytecode):
        if filled:
            list(stream("cold.first_calls", {"verb": verb}, threads))
        (row,) = stream("cold.first_calls", {"verb": verb}, threads)
        files = [path for path in Path(cache).rglob("*") if path.is_file()]
        sizes = [path.stat().st_size for path in files if path.suffix != ".lock"]
    row["parts"] |= {"kernels": len(sizes), "MB kept": sum(sizes) / 1e6}
    return {**row, "mesh": f"{'filled' if warm else 'empty'} cache", "noise": NOISE}


@contextlib.contextmanager
def fresh(cache: str, bytecode: str) -> Iterator[None]:
    """Have processes keep kernels and compiled Python in these folders, whatever the settings."""
    before = dict(os.environ)
    os.environ.update(BVH_CACHE_DIR=cache, PYTHONPYCACHEPREFIX=bytecode)
    # An import is measured as it is of an installed package.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
