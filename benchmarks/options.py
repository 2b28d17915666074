"""Options of the command line, checked before anything is measured."""

from __future__ import annotations

import argparse
import json
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

from . import peers, scenes
from .cold import COMMANDS, VERBS
from .figures import chart
from .plan import GROUPS, TASKS, USUAL
from .tasks.instances import MESH as INSTANCE
from .workloads import TILE, dashed

ABOUT = f"""\
Time of bvh beside the peers that are installed. Every answer is checked before a time is printed:
ours against brute force, a peer's against ours.

A mesh is one of: {scenes.NAMES}.
"""


def options_of(arguments: list[str], program: str) -> argparse.Namespace:
    """Return the options of a command line, or end the program as argparse does."""
    parser = _parser(program)
    options = parser.parse_args(arguments)
    for name, values, known in (
        ("--task", options.tasks, TASKS), ("--peers", options.peers, list(peers.PEERS)),
        ("--verbs", options.verbs, [*VERBS, *COMMANDS]),
    ):  # fmt: skip
        unknown = [word for word in values or () if word not in known]
        if unknown:
            parser.error(f"{name} knows {', '.join(known)}; not {', '.join(unknown)}")
    if options.side < TILE or options.side % TILE:
        parser.error(f"--side must be a multiple of {TILE}, got {options.side}")
    for name in ("rounds", "points", "instances", "rays", "triangles"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name} must be at least 1, got {value}")
    for path in (options.json, options.chart):
        if path is not None and not path.parent.is_dir():
            parser.error(f"no such folder: {path.parent}")
    if options.chart:
        try:
            chart.matplotlib()
        except ImportError as error:
            parser.error(f"--chart: {error}")
    for name in ("compare", "figures"):
        path = getattr(options, name)
        try:
            setattr(options, name, path and read(path))
        except (OSError, ValueError) as error:
            parser.error(str(error))
    if options.quick:
        options.side, options.rounds, options.patience = min(options.side, 64), 1, 0.0
        options.points = min(options.points, 500)
        options.instances = min(options.instances or 10, 10)
        options.rays, options.triangles = (
            min(n or 20_000, 20_000) for n in (options.rays, options.triangles)
        )
    # A mesh that is named for the scene alone is that of its instances.
    options.scene_only = options.tasks == ["scene"] and bool(options.meshes)
    options.meshes = options.meshes + scenes.LARGE * options.large
    if options.quick and not options.meshes:
        options.meshes = scenes.QUICK
    return options


def read(path: Path) -> dict[str, Any]:
    """Return the figures that a run with ``--json`` wrote; raises ValueError for other files."""
    try:
        figures: dict[str, Any] = json.loads(path.read_text())
        figures["rows"][:0]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} holds no figures of benchmarks: {error!r}") from error
    return figures


def _parser(program: str) -> argparse.ArgumentParser:
    about = "\n\n".join(textwrap.fill(part, 96) for part in ABOUT.strip().split("\n\n"))
    tasks = ["tasks, and groups of tasks (* measured by default):"]
    for name, group in GROUPS.items():
        names = [task for task in group.tasks if task != name]
        members = f" ({', '.join(names)})" if names else ""
        tasks.append(f"  {'*' if group.usual else ' '} {name}: {group.about}{members}")
    parser = argparse.ArgumentParser(
        prog=program, description=about, epilog="\n".join(tasks),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add, flag = parser.add_argument, partial(parser.add_argument, action="store_true")
    add("meshes", nargs="*", help=f"default: {', '.join(scenes.DEFAULT)}")
    add("--task", "--only", dest="tasks", type=_tasks, default=USUAL, metavar="A,B",
        help="some of the tasks below")  # fmt: skip
    flag("--large", help=f"also {', '.join(scenes.LARGE)}")
    flag("--full", help="all kinds of rays and points in the tasks all-hits and points")
    flag("--quick", help="few rays, one round: a smoke test of some seconds")
    add("--peers", type=_words, metavar="A,B", help="some of: " + ", ".join(peers.PEERS))
    flag("--list-peers", help="print which peers are installed, and exit")
    add("--threads", type=_numbers, metavar="N,M",
        help="each number of CPUs in a process of its own (usually 1,2)")  # fmt: skip
    add("--rounds", type=int, default=5, help="of each measurement (default: 5)")
    add("--side", type=int, default=384, help="of the camera's picture (default: 384)")
    add("--points", "--count", type=int, default=50_000, help="default: 50 000")
    add("--instances", "--counts", type=int, metavar="N",
        help=f"of {INSTANCE}, or moving (default: 100, or 10 000)")  # fmt: skip
    add("--rays", type=_count, metavar="N",
        help="of the tasks cluster and parts (default: 20 million, or a million)")  # fmt: skip
    add("--triangles", type=_count, metavar="N", help="of the task parts (default: a million)")
    add("--quality", help="of the tree that rays are cast at (default: bvh's)")
    add("--verbs", type=_words, metavar="A,B", help="of the task cold: " + ", ".join(VERBS))
    flag("--warm", help="cold: first calls with a filled kernel cache")
    add("--patience", type=float, default=60.0, metavar="SECONDS",
        help="limit, for each mesh and number of threads, on waiting for other processes to end "
        "and measuring again what they disturbed (default: 60)")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write all figures to this file")
    add("--chart", type=Path, metavar="FILE", help="draw the first mesh's figures")
    add("--chart-kind", choices=chart.KINDS, default="overview",
        help="peers beside bvh, rays per second, or time per ray against triangles")  # fmt: skip
    add("--compare", type=Path, metavar="OLD.json", help="flag changes over 3 %% since then")
    add("--from", dest="figures", type=Path, metavar="FILE",
        help="print, draw and compare the figures of a file; measure nothing")  # fmt: skip
    return parser


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _tasks(text: str) -> list[str]:
    """Return tasks, groups replaced by theirs."""
    names = map(dashed, _words(text))
    return [task for name in names for task in (GROUPS[name].tasks if name in GROUPS else (name,))]


def _count(text: str) -> int:
    """Return a whole number, which may be written as 1e9."""
    return int(float(text))


def _numbers(text: str) -> list[int]:
    """Return numbers of threads."""
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if min(numbers, default=0) < 1:
        raise argparse.ArgumentTypeError(f"must be numbers such as 1,2, got {text!r}")
    return numbers
