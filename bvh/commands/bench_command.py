"""`bvh bench`: how fast all of it is here, beside the peers that are installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

# The benchmarks read their own command line, because they also run where typer is not installed.
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def bench_command(context: typer.Context) -> None:
    """Measure how fast everything is on this machine, beside the peers that are installed.

    The options are those of `bvh bench --help`, which are told by the benchmarks themselves.
    """
    raise typer.Exit(_session().run(context.args, "bvh bench"))


def _session() -> Any:
    """Return what runs the benchmarks: a part of what is installed, or beside it in a clone."""
    if find_spec("bvh.benchmarks") is not None:
        return import_module("bvh.benchmarks.session")
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    found = find_spec("benchmarks")
    # Somebody else's package may be called the same.
    if found is None or not found.origin or Path(found.origin).resolve().parent != folder:
        raise ImportError(f"the benchmarks are not installed; there is no importable {folder}")
    return import_module("benchmarks.session")
