"""The warmup command: all kernels compiled, by several processes at once."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

import bvh
from bvh.commands.compiling import compile_together
from bvh.commands.console import bar, out
from bvh.jit import cache_directory, prune_cache

Processes = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that compile; one for each CPU by default."),
]


def warmup_command(processes: Processes = None) -> None:
    """Compile all kernels now, so that the first query does not have to."""
    processes = processes or os.cpu_count() or 1
    with bar("compiling") as progress:
        began = time.perf_counter()
        if processes == 1 or cache_directory() is None:
            bvh.warmup(lambda part, done, total: progress(done, total))
        else:
            compile_together(processes, progress)
            prune_cache()
        seconds = time.perf_counter() - began
    where = cache_directory()
    out.print(f"kernels ready after {seconds:.1f} s, kept in {where or 'memory only'}")
