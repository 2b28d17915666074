"""One run of the benchmarks: what is asked for, its tables, its file of figures, its chart."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

from . import compare, overview, peers, report, scenes
from .instances import COUNT as INSTANCES
from .instances import MESH as INSTANCE
from .machine import machine
from .points import COUNT as POINTS
from .processes import Row, stream
from .workloads import BATCHES, TILE

EVERYTHING = [
    "build", *BATCHES, "single", "all-hits", "closest-point", "signed-distance",
    "winding-number", "scene", "leaks",
]  # fmt: skip
# Of the random numbers that rays and points are made of.
SEED = 0

ABOUT = """\
How fast bvh answers, beside the peers that are installed. Every answer is checked before a time is
printed: ours by brute force, a peer's beside ours.

A mesh is one of: {names}.
"""


def main(
    command: str = "", about: str | None = None, only: list[str] | None = None, every: bool = False
) -> None:
    """Run `python -m benchmarks`, or one part of it as a module of its own."""
    program = f"python -m {__package__}" + f".{command}" * bool(command)
    sys.exit(run(sys.argv[1:], program, about, only, every))


def run(
    arguments: list[str],
    program: str,
    about: str | None = None,
    only: list[str] | None = None,
    every: bool = False,
) -> int:
    """Measure, print tables, and write what is asked for.

    Parameters
    ----------
    arguments : list of str
        Of the command line.
    program : str
        What the command is called.
    about : str, optional
        What it is said to do.
    only : list of str, optional
        The groups of tasks that are measured unless the arguments name others.
    every : bool
        Measure each of them on all kinds of rays and points that there are.

    Returns
    -------
    int
        The exit code; 130 if the run was interrupted, else not 0 if an answer was wrong.
    """
    options = _options(arguments, program, about, only or EVERYTHING)
    if options.list_peers:
        report.print_peers()
        return 0
    old = compare.read(options.compare) if options.compare else []
    figures = {
        **machine(),
        "program": program, "arguments": arguments, "seed": SEED,
        "side": options.side, "rounds": options.rounds, "quality": options.quality,
        "points": options.points, "instances": options.instances,
        "peers": {peer.name: peer.note for peer in peers.found(options.peers)},
        "complete": False, "rows": [],
    }  # fmt: skip
    report.print_machine(figures)
    began, code = time.perf_counter(), 0
    try:
        _measure(figures["rows"], options, every)
        figures["complete"] = True
    except KeyboardInterrupt:
        code = 130
        print("interrupted: what follows is a part of it", file=sys.stderr)
    except SystemExit as ended:
        # The process that measures has said why. What was measured before it failed is kept.
        code = ended.code if isinstance(ended.code, int) else 1
    figures["duration"] = round(time.perf_counter() - began, 1)
    rows = figures["rows"]
    report.print_summary(figures)
    if options.json:
        options.json.write_text(_text(figures))
    if options.chart and rows:
        options.chart.write_text(overview.draw(figures), encoding="utf-8")
    if old:
        print(*compare.lines(old, rows), sep="\n")
    return code


def _options(
    arguments: list[str], program: str, about: str | None, only: list[str]
) -> argparse.Namespace:
    """Return the options of a command line, or end the program as argparse does."""
    parser = argparse.ArgumentParser(
        prog=program,
        description=_wrapped(about or ABOUT.format(names=scenes.NAMES)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("meshes", nargs="*", help=f"default: {', '.join(scenes.DEFAULT)}")
    add("--large", action="store_true", help=f"also {', '.join(scenes.LARGE)}")
    add("--quick", action="store_true", help="few rays, one round: a smoke test of some seconds")
    add(
        "--only",
        type=_groups,
        default=only,
        metavar="A,B",
        help="some of: " + ", ".join(name.replace(" ", "-") for name in only),
    )
    add("--peers", type=_words, metavar="A,B", help="some of: " + ", ".join(peers.PEERS))
    add("--list-peers", action="store_true", help="tell which peers are installed, and end")
    add("--threads", type=_numbers, default=[1, 2], metavar="N,M",
        help="each number of CPUs in a process of its own (default: 1,2)")  # fmt: skip
    add("--rounds", type=int, default=5, help="of each measurement (default: 5)")
    add("--side", type=int, default=384, help="of the camera's picture (default: 384)")
    add("--points", "--count", type=int, default=POINTS, help=f"(default: {POINTS})")
    add("--instances", "--counts", type=int, default=INSTANCES, metavar="N",
        help=f"of {INSTANCE}, in the scene (default: {INSTANCES})")  # fmt: skip
    add("--quality", help="of the tree that rays are cast at (default: bvh's)")
    add("--patience", type=float, default=60.0, metavar="SECONDS",
        help="spent at most, for each mesh and number of threads, on waiting for other processes "
        "to end and measuring again what they disturbed (default: 60)")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write all figures to it")
    add("--chart", type=Path, metavar="FILE.svg", help="draw the first mesh's figures")
    add("--compare", type=Path, metavar="OLD.json", help="flag changes over 3 %% since then")
    options = parser.parse_args(arguments)
    # A mesh is named for nothing else.
    options.instance_is_mesh = options.only == ["scene"] and bool(options.meshes)
    for name, given, known in (
        ("--only", options.only, only), ("--peers", options.peers or [], list(peers.PEERS))
    ):  # fmt: skip
        unknown = [word for word in given if word not in known]
        if unknown:
            parser.error(f"{name} knows {', '.join(known)}; not {', '.join(unknown)}")
    if options.side < TILE or options.side % TILE:
        parser.error(f"--side must be a multiple of {TILE}, got {options.side}")
    for name in ("rounds", "points", "instances"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    for path in (options.json, options.chart):
        if path is not None and not path.parent.is_dir():
            parser.error(f"no such folder: {path.parent}")
    if options.compare is not None and not options.compare.is_file():
        parser.error(f"--compare: no such file: {options.compare}")
    if options.quick:
        options.side, options.rounds = min(options.side, 64), 1
        options.points, options.instances = min(options.points, 500), min(options.instances, 10)
        options.patience = 0.0
    if not options.meshes and not options.large:
        options.meshes = scenes.QUICK if options.quick else scenes.DEFAULT
    options.meshes = options.meshes + scenes.LARGE * options.large
    return options


def _measure(rows: list[Row], options: argparse.Namespace, every: bool) -> None:
    """Measure all meshes, each in a process for each number of threads, into a growing list.

    The tables of what has been measured are printed even where the rest never is.
    """
    for number, name in enumerate(options.meshes):
        # What does not depend on the mesh is measured beside the first one.
        once = ("leaks", "scene") if number and not options.instance_is_mesh else ()
        task: dict[str, Any] = {
            "mesh": name, "only": [what for what in options.only if what not in once],
            "rounds": options.rounds, "side": options.side, "quality": options.quality,
            "points": options.points, "instances": options.instances, "peers": options.peers,
            "instance": name if options.instance_is_mesh else INSTANCE,
            "patience": options.patience, "every": every,
        }  # fmt: skip
        for threads in options.threads:
            here: list[Row] = []
            try:
                with report.status(f"{name} on {threads}") as tell:
                    for row in stream("measure", task, threads):
                        tell(row["what"])
                        here.append(row)
                        rows.append(row)
            finally:
                report.print_rows(here)


def _text(figures: dict[str, Any]) -> str:
    """Return figures as JSON, each row on a line of its own."""
    head = json.dumps({**figures, "rows": []}, indent=1)
    rows = ",\n  ".join(json.dumps(row) for row in figures["rows"])
    return head.replace('"rows": []', f'"rows": [\n  {rows}\n ]') + "\n"


def _wrapped(text: str) -> str:
    """Return paragraphs in lines that fit a terminal."""
    return "\n\n".join(textwrap.fill(part, 96) for part in text.strip().split("\n\n"))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _groups(text: str) -> list[str]:
    """Return groups of tasks; a dash stands for the space in the names of batches."""
    dashed = {name.replace(" ", "-"): name for name in EVERYTHING}
    return [dashed.get(word, word) for word in _words(text)]


def _numbers(text: str) -> list[int]:
    """Return numbers of threads."""
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if min(found, default=0) < 1:
        raise argparse.ArgumentTypeError(f"must be numbers such as 1,2, got {text!r}")
    return found
