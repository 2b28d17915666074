"""Options of the command line, checked before anything is measured."""

from __future__ import annotations

import argparse
import importlib
import json
from functools import partial
from pathlib import Path
from typing import Any

from . import peers, scenes
from .cold import COMMANDS, VERBS
from .figures import chart
from .plan import FEW, GROUPS, TASKS, USUAL
from .tasks.instances import MESH as INSTANCE
from .workloads import TILE, dashed

ABOUT = """\
Time of bvh beside the peers that are installed.

Every answer is checked before a time is printed: ours against brute force, a peer's against ours.
"""


EXAMPLES = (
    "--quick", "scan.ply --task rays,points --chart scan.svg",
    "--from benchmarks/rates.json --chart rates.svg --chart-kind rates",
)  # fmt: skip


def options_of(arguments: list[str], program: str) -> argparse.Namespace:
    """Return the options of a command line, or end the program as argparse does."""
    parser = _parser(program)
    options = parser.parse_args(arguments)
    for name, values, known in (
        ("--task", options.tasks or [], TASKS), ("--peers", options.peers, list(peers.PEERS)),
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
    if options.device:
        options.tasks = options.tasks or ["device"]
        try:
            importlib.import_module("bvh.devices.trees").device_of(options.device)
        except (ImportError, ValueError) as error:
            parser.error(f"--device: {error}")
    options.device = options.device or "cpu"
    options.tasks = options.tasks or (FEW if options.quick else USUAL)
    if options.quick:
        options.threads = options.threads or [1]
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


class _Boxed(argparse.ArgumentParser):
    """Parser whose help looks like that of the other commands."""

    def print_help(self, file: Any = None) -> None:
        """Print boxes of arguments, options and tasks, and examples."""
        try:
            from rich.console import Console
            from rich.markup import escape
        except ImportError:
            super().print_help(file)
            return
        console = Console(file=file, highlight=False)
        usage = escape(f"Usage: {self.prog} [OPTIONS] [MESHES]...")
        console.print(f"\n [bold]{usage}[/bold]\n")
        console.print(*(f" {escape(line)}" for line in ABOUT.strip().split("\n")), sep="\n")
        console.print()
        options, meshes = [], []
        for action in self._actions:
            names = ", ".join(action.option_strings) or "MESHES"
            value = action.metavar or (action.dest.upper() if action.nargs is None else "")
            text = (action.help or "").replace("%%", "%")
            row = (names, str(value), text) if action.option_strings else (names, "", text)
            (options if action.option_strings else meshes).append(row)
        console.print(_box("Arguments", meshes), _box("Options", options))
        tasks = []
        for name, group in GROUPS.items():
            members = ", ".join(task for task in group.tasks if task != name)
            text = group.about + (f" ({members})" if members else "")
            tasks.append((name, "*" if group.usual else "", text))
        console.print(_box("Tasks, and groups of tasks (* measured by default)", tasks))
        lines = [f"  • {self.prog} {line}" for line in EXAMPLES]
        console.print("\n Examples:\n", *lines, "", sep="\n", soft_wrap=True)


def _box(title: str, rows: list[tuple[str, str, str]]) -> Any:
    """Return rows in a box."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2), expand=True)
    for ratio in (None, None, 1):
        table.add_column(ratio=ratio)
    for name, value, text in rows:
        table.add_row(Text(name, style="cyan"), Text(value, style="yellow"), Text(text))
    return Panel(table, title=title, title_align="left", border_style="dim")


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Boxed(prog=program, description=ABOUT)
    add, flag = parser.add_argument, partial(parser.add_argument, action="store_true")
    add("meshes", nargs="*", help=f"{scenes.NAMES}; default: {', '.join(scenes.DEFAULT)}")
    add("--task", "--only", dest="tasks", type=_tasks, metavar="A,B",
        help="some of the tasks below")  # fmt: skip
    flag("--large", help=f"also {', '.join(scenes.LARGE)}")
    flag("--full", help="all kinds of rays and points in the tasks all-hits and points")
    flag("--quick", help="few rays, one thread, one round: some seconds once kernels are compiled")
    add("--peers", type=_words, metavar="A,B", help="some of: " + ", ".join(peers.PEERS))
    flag("--list-peers", help="print which peers are installed, and exit")
    add("--threads", type=_numbers, metavar="N,M",
        help="each number of CPUs in a process of its own (usually 1,2)")  # fmt: skip
    add("--rounds", type=int, metavar="N", default=5, help="of each measurement (default: 5)")
    add("--side", type=int, metavar="N", default=384, help="of the camera's picture (default: 384)")
    add("--points", "--count", type=int, metavar="N", default=50_000, help="default: 50 000")
    add("--instances", "--counts", type=int, metavar="N",
        help=f"of {INSTANCE}, or moving (default: 100, or 10 000)")  # fmt: skip
    add("--rays", type=_count, metavar="N",
        help="of the tasks cluster and parts (default: 20 million, or a million)")  # fmt: skip
    add("--triangles", type=_count, metavar="N", help="of the task parts (default: a million)")
    add("--device", metavar="NAME",
        help="measure on it, such as cuda, or Warp's cpu, beside Warp's meshes there")  # fmt: skip
    add("--quality", metavar="NAME", help="of the tree that rays are cast at (default: bvh's)")
    add("--verbs", type=_words, metavar="A,B", help="of the task cold: " + ", ".join(VERBS))
    flag("--warm", help="cold: first calls with a filled kernel cache")
    add("--patience", type=float, default=60.0, metavar="SECONDS",
        help="limit, for each mesh and number of threads, on waiting for other processes to end "
        "and measuring again what they disturbed (default: 60)")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write all figures to this file")
    add("--chart", type=Path, metavar="FILE", help="draw the first mesh's figures")
    add("--chart-kind", choices=chart.KINDS, metavar="NAME",
        help="overview: peers beside bvh, the default where one was measured; rates: rays per "
        "second; scaling: time per ray against triangles")  # fmt: skip
    flag("--dark", help="draw the chart for a dark page")
    add("--compare", type=Path, metavar="OLD.json", help="flag changes over 3 %% since then")
    add("--from", dest="figures", type=Path, metavar="FILE",
        help="print, draw and compare the figures of a file, such as those of the README's "
        "chart, benchmarks/rates.json; measure nothing")  # fmt: skip
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
