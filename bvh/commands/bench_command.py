"""`bvh bench`: times of bvh on this machine, beside the peers that are installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

# The benchmarks parse their own options, because they also run where typer is not installed.
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def bench_command(context: typer.Context) -> None:
    """Measure bvh on this machine, beside the peers that are installed.

    `bvh bench --help` lists the tasks and the options.
    """
    raise typer.Exit(_session().run(context.args, "bvh bench"))


def _session() -> Any:
    """Return the module that runs the benchmarks: installed with bvh, or beside it in a clone."""
    if find_spec("bvh.benchmarks") is not None:
        return import_module("bvh.benchmarks.session")
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    found = find_spec("benchmarks")
    # Another package may have the same name.
    if found is None or not found.origin or Path(found.origin).resolve().parent != folder:
        raise ImportError(f"the benchmarks are not installed; there is no importable {folder}")
    return import_module("benchmarks.session")
