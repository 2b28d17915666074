"""`python -m benchmarks.scaling`: time per ray on one surface, cut ever finer."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bvh

from .casters import Ours
from .chart import draw_curves
from .machine import machine
from .processes import Row, answer_parent, rows_of
from .report import disturbed, times
from .scenes import load
from .timing import undisturbed
from .validation import against_brute_force
from .workloads import workloads

# 20 triangles each, squared: 10 thousand, 32 thousand, ... a million; then up to ten.
FREQUENCIES = [23, 40, 71, 126, 224]
LARGEST = [400, 708]
WORKLOADS = ["primary", "random"]

# Time may exceed log2(n) by this much before we call its growth faster: noise, not caches.
SLACK = 1.05


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield the seconds of each workload on one mesh."""
    scene = load(options["mesh"])
    tree = bvh.BVH.from_triangles(scene.vertices, scene.faces)
    ours = Ours(tree, options["threads"])
    for work in workloads(tree, options["side"]):
        if work.name in WORKLOADS:
            against_brute_force(tree, work)
            seconds, foreign = undisturbed({ours.name: ours.batch(work)}, options["rounds"])
            yield {"what": work.name, "mesh": scene.name, "triangles": len(scene.faces),
                   "threads": options["threads"], "count": len(work), "seconds": seconds,
                   "foreign": foreign}  # fmt: skip


def growth(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return (how much time grew, how much log2(n) grew) from the smallest size to the largest."""
    (n0, t0), (n1, t1) = min(points), max(points)
    return t1 / t0, math.log2(n1) / math.log2(n0)


def curves_of(rows: list[Row]) -> dict[str, list[tuple[float, float]]]:
    """Return (triangles, microseconds a ray) for each workload and number of threads."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        plural = "s" if row["threads"] > 1 else ""
        name = f"{row['what']}, {row['threads']} thread{plural}"
        curves.setdefault(name, []).append((row["triangles"], 1e6 * times(row)["bvh"]))
    return curves


def main() -> None:
    """Measure, print, draw; fail if time grows faster than log2(n)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--largest", action="store_true", help="to ten million triangles")
    parser.add_argument("--side", type=int, default=512, help="of the camera's picture")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    for frequency in FREQUENCIES + LARGEST * options.largest:
        task = {"mesh": f"organic-{frequency}", "side": options.side, "rounds": options.rounds}
        for threads in (1, 2):
            for row in rows_of("scaling", task, threads):
                rows.append(row)
                doubt = "  ! disturbed" if disturbed(row) else ""
                print(f"{row['triangles']:>12,} triangles {row['what']:<8} {threads} "
                      f"{1e6 * times(row)['bvh']:>8.3f} us a ray{doubt}", flush=True)  # fmt: skip
    about = {**machine(), "side": options.side, "rounds": options.rounds}
    if options.json:
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    calm = curves_of([row for row in rows if not disturbed(row)])
    if options.svg and calm:
        picture = draw_curves(calm, "Time per ray", "triangles", "microseconds")
        options.svg.write_text(picture, encoding="utf-8")
    failed = False
    for name, points in calm.items():
        if len(points) > 1:
            time, logarithm = growth(points)
            failed |= (slow := time > SLACK * logarithm)
            verdict = "FASTER than" if slow else "no faster than"
            print(f"{name}: time grew {time:.2f} times, {verdict} log2(n), {logarithm:.2f} times")
    raise SystemExit(failed)


if __name__ == "__main__":
    import sys

    # A child gets its task as JSON.
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        answer_parent(measure)
    else:
        main()
