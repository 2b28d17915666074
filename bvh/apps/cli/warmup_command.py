"""`bvh warmup`: compilation of all kernels, for one level of CPUs or more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bvh.apps.cli.compiling import compile_one, compile_together, python_path
from bvh.apps.cli.console import bar, out
from bvh.runtime.cache.kernel_folders import KernelFolder, Untrusted
from bvh.runtime.compiler.code_generator import target
from bvh.runtime.compiler.cpu_levels import target_of
from bvh.runtime.jit import all_recipes, cache_directory, families, fingerprint, prune_cache

Processes = Annotated[
    int | None,
    typer.Option(min=1, help="Number of processes; one for each CPU by default."),
]
To = Annotated[
    Path | None,
    typer.Option(help="Folder to fill for BVH_KERNELS; your own cache by default."),
]
Cpu = Annotated[
    str | None,
    typer.Option(help="Levels to compile for, with commas between; this CPU's by default."),
]
Parts = Annotated[
    str | None,
    typer.Option(help="Parts to compile, with commas between; all by default."),
]

# Program of the process that compiles for another level or folder.
SCRIPT = """
import sys
from bvh.apps.cli.warmup_command import fill
fill(int(sys.argv[1]), sys.argv[2:])
"""


def warmup_command(
    processes: Processes = None, to: To = None, cpu: Cpu = None, parts: Parts = None
) -> None:
    """Compile all kernels now, so that the first query does not have to."""
    processes = processes or os.cpu_count() or 1
    chosen = _chosen(parts)
    levels = _listed(cpu) or [target().level]
    for level in levels:
        target_of(level, "--cpu")
    if to is not None:
        _must_be_private(to)
    for level in levels:
        began = time.perf_counter()
        if to is None and level == target().level:
            fill(processes, chosen)
            where = str(cache_directory() or "memory only")
        else:
            where = _fill_elsewhere(level, to, processes, chosen)
        seconds = time.perf_counter() - began
        about = f" for {level}" if cpu is not None else ""
        out.print(f"kernels{about} ready after {seconds:.1f} s, kept in {where}")
    if to is None:
        prune_cache()
    else:
        _open_to_readers(to)


def _listed(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _chosen(parts: str | None) -> list[str]:
    """Return the names of parts; raise ValueError if one is unknown."""
    known = list(all_recipes())
    names = _listed(parts)
    for name in names:
        if name not in known:
            raise ValueError(f"--parts must be some of {', '.join(known)}; got {name!r}")
    return names or known


def _must_be_private(folder: Path) -> None:
    """Create a folder if it is missing; raise ValueError if others could write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        KernelFolder(folder / fingerprint()).names()
    except Untrusted as error:
        raise ValueError(f"--to {folder}: {error.filename} {error.strerror}") from None
    except FileNotFoundError:
        pass


def _fill_elsewhere(level: str, to: Path | None, processes: int, parts: Sequence[str]) -> str:
    """Compile for a level in a process of its own; return the folder."""
    settings = {"BVH_CPU": level, "BVH_KERNELS": "off"} | python_path()
    if to is not None:
        settings["BVH_CACHE_DIR"] = str(to.absolute())
    command = [sys.executable, "-P", "-c", SCRIPT, str(processes), *parts]
    status = subprocess.run(command, env=os.environ | settings, check=False).returncode
    if status:
        raise typer.Exit(status)
    directory = cache_directory()
    return str(to or (directory and directory.parent) or "memory only")


def _open_to_readers(folder: Path) -> None:
    """Let everybody read a folder, and only its owner write to it."""
    folder.chmod(0o755)
    for version in folder.iterdir():
        if re.fullmatch("[0-9a-f]{20}", version.name) and version.is_dir():
            version.chmod(0o755)
            for file in version.iterdir():
                file.chmod(0o644)


def fill(processes: int, parts: Sequence[str]) -> None:
    """Compile parts of the package, for the level of this process."""
    with bar(f"compiling for {target().level}") as progress:
        if processes == 1 or cache_directory() is None:
            for done, name in enumerate(parts):
                progress(done, len(parts))
                compile_one(name)
        else:
            chosen = [[name for name in family if name in parts] for family in families()]
            compile_together(processes, progress, chosen)
