"""Compilation of kernels by other processes: `bvh warmup`."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Exit, Option

import bvh
from bvh.apps.cli.console import bar, out
from bvh.runtime.arguments import whole_number
from bvh.runtime.compiler.cpu_levels import chosen_target, target_of
from bvh.runtime.compiler.kernel_cache import cache_directory, prune_cache
from bvh.runtime.compiler.warming import compile_together
from bvh.runtime.jit import all_recipes, families, notice


def warmup_command(
    processes: Annotated[int | None, Option(
        help="Number of processes; one for each CPU by default.")] = None,
    cpu: Annotated[str | None, Option(
        help="Levels to compile for, with commas between; this CPU's by default.")] = None,
    parts: Annotated[str | None, Option(help=
        "Parts to compile, with commas between; all by default. A wrong name lists them.")] = None,
) -> None:  # fmt: skip
    """Compile all kernels now, so that the first query does not have to."""
    processes = whole_number("processes", (os.cpu_count() or 1) if processes is None else processes)
    recipes = list(all_recipes())
    chosen = _listed(parts) or recipes
    for name in chosen:
        if name not in recipes:
            raise ValueError(f"--parts must be some of {', '.join(recipes)}; got {name!r}")
    levels = _listed(cpu) or [chosen_target().level]
    for level in levels:
        target_of(level, "--cpu")  # Raises for a level that this CPU cannot run.
    folder = cache_directory()
    where = "memory only" if folder is None else folder.parent
    for level in levels:
        began = time.perf_counter()
        if level == chosen_target().level:
            compile_parts(processes, chosen)
        else:
            _compile_for(level, processes, chosen)
        seconds = time.perf_counter() - began
        about = f" for {level}" if cpu is not None else ""
        out.print(f"kernels{about} ready after {seconds:.1f} s, stored in {where}")
    prune_cache()


def _listed(text: str | None) -> list[str]:
    """Return the names in a text with commas between them; none for None."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _compile_for(level: str, processes: int, parts: Sequence[str]) -> None:
    """Compile `parts` for a level of CPUs in a new process; this one compiles only for its own.

    The new process may start up to `processes` others.
    """
    # The new process can import this package, even where it is not installed.
    folders = filter(None, (str(Path(bvh.__file__).parents[1]), os.environ.get("PYTHONPATH")))
    # Linked kernels are off: where they are used, nothing would be compiled.
    settings = {"BVH_CPU": level, "BVH_KERNELS": "off", "PYTHONPATH": os.pathsep.join(folders)}
    program = f"from {__name__} import compile_parts; compile_parts({processes}, {list(parts)})"
    command = [sys.executable, "-P", "-c", program]
    status = subprocess.run(command, env=os.environ | settings, check=False).returncode
    if status:
        raise Exit(status)


def compile_parts(processes: int, parts: Sequence[str]) -> None:
    """Compile the parts of the package with these names, for the level of CPUs of this process."""
    with bar(f"compiling for {chosen_target().level}") as progress:
        # Processes share kernels only through a folder.
        if processes == 1 or cache_directory() is None:
            for done, name in enumerate(parts):
                progress(done, len(parts))
                compile_one(name)
        else:
            # A family has the parts whose kernels share most of their helpers.
            chosen = [[name for name in family if name in parts] for family in families()]
            compile_together(processes, progress, chosen, compile_one)


def compile_one(name: str) -> None:
    notice.silence()  # The caller has a progress bar.
    all_recipes()[name]()
