"""The warmup command: all kernels compiled, by several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Annotated, Any

import typer

import bvh
from bvh.commands.console import bar, out
from bvh.jit import all_recipes, cache_directory, prune_cache

Processes = Annotated[
    int | None,
    typer.Option(min=1, help="Processes that compile; one for each CPU by default."),
]

# The process that has started the others hears Ctrl-C, and ends them.
IGNORE_INTERRUPTS = signal.SIGINT, signal.SIG_IGN


def warmup_command(processes: Processes = None) -> None:
    """Compile all kernels now, so that the first query does not have to."""
    processes = processes or os.cpu_count() or 1
    with bar("compiling") as progress:
        began = time.perf_counter()
        if processes == 1 or cache_directory() is None:
            bvh.warmup(lambda part, done, total: progress(done, total))
        else:
            _compile_together(processes, progress)
        seconds = time.perf_counter() - began
    where = cache_directory()
    out.print(f"kernels ready after {seconds:.1f} s, kept in {where or 'memory only'}")


def _compile_together(processes: int, progress: Any) -> None:
    """Compile in processes of their own, each part in whichever is free.

    What two parts share is compiled by one process; the other waits for the file.
    """
    # Spawned: a fork would take over locks of threads that it does not have.
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    recipes = all_recipes()
    count = min(processes, len(recipes))
    with ProcessPoolExecutor(count, context, signal.signal, IGNORE_INTERRUPTS) as pool:
        parts = [pool.submit(_compile, name) for name in recipes]
        try:
            for done, part in enumerate(as_completed(parts), 1):
                part.result()
                progress(done, len(parts))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # LLVM hears nothing for minutes. What is half done counts as absent, locks as free.
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
                child.join()
            raise
    prune_cache()


def _compile(name: str) -> None:
    all_recipes()[name]()
