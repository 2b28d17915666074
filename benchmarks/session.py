"""Session of the benchmarks: it measures, prints tables, and writes figures and charts."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bvh

from . import peers
from .figures import chart, compare, report
from .figures.rows import growth_lines
from .options import options_of
from .plan import jobs
from .processes import Row

# Libraries of ours, and of the benchmarks.
LIBRARIES = (
    "numpy", "numba", "llvmlite", "trimesh", "scipy", "vtk",
    *(peer.distribution for peer in peers.PEERS.values()),
)  # fmt: skip
# Of the random numbers that rays and points are made of.
SEED = 0


def main() -> None:
    """Run `python -m benchmarks`."""
    sys.exit(run(sys.argv[1:], f"python -m {__package__}"))


def run(arguments: list[str], program: str) -> int:
    """Measure, print tables, and write the files that the options name; return the exit code.

    It is 130 if the run was interrupted, else not 0 if an answer was wrong.
    """
    options = options_of(arguments, program)
    if options.list_peers:
        report.print_peers()
        return 0
    figures, code = options.figures, 0
    if figures:
        report.print_rows(figures["rows"])
    else:
        figures, code = _measured(options, program, arguments)
    rows = figures["rows"]
    report.print_summary(figures)
    if options.json:
        options.json.write_text(_text(figures))
    if options.chart and rows:
        mesh = options.meshes[0] if options.figures and options.meshes else None
        threads = options.threads[0] if options.threads else None
        chart.write(figures, options.chart, options.chart_kind, mesh, threads, options.dark)
    for line, too_slow in growth_lines(rows) if "scaling" in options.tasks else ():
        print(line)
        code = code or int(too_slow)
    if options.compare:
        print(*compare.lines(options.compare["rows"], rows), sep="\n")
    return code


def _measured(
    options: argparse.Namespace, program: str, arguments: list[str]
) -> tuple[dict[str, Any], int]:
    """Return the figures of a run, complete or not, and its exit code."""
    names = ("side", "rounds", "quality", "points", "instances")
    figures = {
        **machine(), "program": program, "arguments": arguments, "seed": SEED,
        **{name: getattr(options, name) for name in names},
        "peers": {peer.name: peer.note for peer in peers.available(options.peers)},
        "complete": False, "rows": [],
    }  # fmt: skip
    report.print_machine(figures)
    began, code = time.perf_counter(), 0
    try:
        _measure(figures["rows"], options)
        figures["complete"] = True
    except KeyboardInterrupt:
        code = 130
        print("interrupted: the figures are incomplete", file=sys.stderr)
    except SystemExit as ended:
        # The process that measured has printed why. What was measured before it failed is kept.
        code = ended.code if isinstance(ended.code, int) else 1
    figures["duration"] = round(time.perf_counter() - began, 1)
    return figures, code


def machine() -> dict[str, Any]:
    """Return the processor, the versions of libraries and peers, and the date."""
    found = {name: peers.version(name) for name in LIBRARIES}
    versions = {name: version for name, version in found.items() if version}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {"bvh": bvh.__version__, "python": platform.python_version(), **versions},
    }


def processor() -> str:
    """Return the processor's name, as far as the system knows it."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.*)", path.read_text() if path.is_file() else "", re.M)
    return found[1] if found else platform.processor() or platform.machine()


def _measure(rows: list[Row], options: argparse.Namespace) -> None:
    """Run all jobs, and append their rows to a list; their tables are printed even if one fails."""
    for job in jobs(options):
        first = len(rows)
        try:
            title = f"{job.mesh or job.tasks[0]}, {job.threads} thread{'s' * (job.threads > 1)}"
            with report.status(title) as shown:
                for row in job.rows(options):
                    shown.update(f"{title}: {row['what']} done")
                    rows.append(row)
        finally:
            report.print_rows(rows[first:])


def _text(figures: dict[str, Any]) -> str:
    """Return figures as JSON, each row on a line of its own."""
    head = json.dumps({**figures, "rows": []}, indent=1)
    rows = ",\n  ".join(json.dumps(row) for row in figures["rows"])
    return head.replace('"rows": []', f'"rows": [\n  {rows}\n ]') + "\n"
