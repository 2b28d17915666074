"""`python -m benchmarks`: rays per second and build times, beside the peers that are installed."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import compare, report, scenes
from .machine import machine
from .processes import Row, rows_of
from .workloads import BATCHES, TILE

EVERYTHING = ["build", *BATCHES, "single", "r-tree", "leaks"]


def main() -> None:
    """Measure, print tables, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("meshes", nargs="*", help=f"{scenes.NAMES} (default: some of our own)")
    parser.add_argument("--large", action="store_true", help=f"also {', '.join(scenes.LARGE)}")
    parser.add_argument("--quick", action="store_true", help="few rays, one round: a smoke test")
    parser.add_argument("--only", type=_words, default=EVERYTHING, metavar="A,B",
                        help=f"some of: {', '.join(EVERYTHING)}")  # fmt: skip
    parser.add_argument("--threads", type=_numbers, default=[1, 2], metavar="N,M")
    parser.add_argument("--rounds", type=int, default=5, help="of each measurement")
    parser.add_argument("--side", type=int, default=1024, help="of the camera's picture")
    parser.add_argument("--quality", help="of the tree that rays are cast at (default: bvh's)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--compare", type=Path, help="flag changes over 3 %% since this file")
    options = parser.parse_args()
    unknown = set(options.only) - set(EVERYTHING)
    if unknown:
        parser.error(f"--only knows {EVERYTHING}, not {sorted(unknown)}")
    if options.side < TILE or options.side % TILE:
        parser.error(f"--side must be a multiple of {TILE}")
    names = options.meshes + scenes.LARGE * options.large
    if options.quick:
        options.side, options.rounds = min(options.side, 64), 1
    names = names or (scenes.QUICK if options.quick else scenes.USUAL)
    old = compare.read(options.compare) if options.compare else []

    about = machine()
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    print(f"{about['processor']}, {about['cpus']} CPUs; {versions}")
    print(f"median of {options.rounds}; ratio: our speed over the fastest peer's\n", flush=True)
    rows = measure(names, options)
    if options.json:
        settings = {"side": options.side, "rounds": options.rounds, "quality": options.quality}
        options.json.write_text(json.dumps({**about, **settings, "rows": rows}, indent=1) + "\n")
    if old:
        print(*compare.lines(old, rows), sep="\n")


def measure(names: list[str], options: argparse.Namespace) -> list[Row]:
    """Measure all meshes, each in a process for each number of threads; print their tables."""
    rows: list[Row] = []
    for number, name in enumerate(names):
        # Leaks do not depend on the mesh.
        only = [what for what in options.only if what != "leaks" or number == 0]
        task = {"mesh": name, "only": only, "rounds": options.rounds, "side": options.side,
                "quality": options.quality, "attempts": 1 if options.quick else 3}  # fmt: skip
        here: list[Row] = []
        for threads in options.threads:
            if sys.stderr.isatty():
                print(f"{name} on {threads} ...", end="\r", file=sys.stderr)
            here += rows_of("measure", task, threads)
        print(*report.lines(here), sep="\n", flush=True)
        rows += here
    for threads in options.threads:
        mean = report.mean_ratio(rows, threads)
        if mean == mean:
            print(f"geometric mean over all meshes and batches, {threads} threads: {mean:.3f}")
    for row in rows:
        if row["what"] == "leaks":
            lost = ", ".join(f"{name} {count}" for name, count in row["lost"].items())
            print(f"lost of {row['count']:,} rays aimed at vertices and edges: {lost}")
    return rows


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    main()
