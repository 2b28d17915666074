"""`python -m benchmarks`: build times, rays per second, and the share of exact decisions."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import bvh
from benchmarks.fallback import fallback_share
from benchmarks.timing import interleaved, medians
from benchmarks.workloads import workloads
from bvh.sources import load_mesh

MESHES = Path(__file__).parent.parent / "meshes"


def validate(tree: bvh.BVH, query: str, rays: tuple[np.ndarray, np.ndarray]) -> None:
    """Check a sample of the answers: one ray at a time, and against each single face."""
    rng = np.random.default_rng(0)
    sample = rng.choice(len(rays[0]), min(len(rays[0]), 40), replace=False)
    origins, directions = rays[0][sample], rays[1][sample]
    corners = [tree.vertices[tree.faces[:, i]] for i in range(3)]
    hits = tree.closest_hit(origins, directions)
    for i, (o, d) in enumerate(zip(origins, directions, strict=True)):
        each = bvh.ray_triangle(o, d, *corners)
        nearest = each.t.min(initial=np.inf)
        if hits.t[i] != nearest or hits.mask[i] != np.isfinite(nearest):
            raise SystemExit(f"wrong answer: ray {o} {d} has t {hits.t[i]}, not {nearest}")
        if query == "any_hit" and tree.any_hit(o, d) != np.isfinite(nearest):
            raise SystemExit(f"wrong answer: ray {o} {d}")


def on_threads(call: Callable[[int], object], rounds: int) -> dict[str, float]:
    """Return the median time of a call on one thread and on two."""
    return medians(interleaved({str(n): partial(call, n) for n in (1, 2)}, rounds))


def measure(path: Path, count: int, rounds: int) -> Iterator[dict[str, object]]:
    """Measure one mesh; print a row for each figure and yield it."""
    mesh = load_mesh(path)
    tree = bvh.BVH.from_mesh(mesh)
    seconds = on_threads(lambda n: bvh.BVH.from_mesh(mesh, threads=n), rounds)
    times = "".join(f" {seconds[n] * 1e3:>11.1f} ms" for n in ("1", "2"))
    print(f"{path.stem:<16} {'build':<10}{times}")
    yield {"mesh": path.name, "what": "build", "triangles": len(tree), "seconds": seconds}
    for name, query, rays in workloads(tree, count):
        if len(rays[0]) == 0:
            continue
        validate(tree, query, rays)
        seconds = on_threads(partial(_ask, getattr(tree, query), rays), rounds)
        share = fallback_share(tree, *(a[:20_000] for a in rays))
        rates = "".join(f" {len(rays[0]) / seconds[n] / 1e6:>9.2f} Mray" for n in ("1", "2"))
        print(f"{'':<16} {name:<10}{rates} {share:>11.4%}")
        yield {
            "mesh": path.name,
            "what": name,
            "rays": len(rays[0]),
            "seconds": seconds,
            "fallback": share,
        }


def _ask(query: Callable[..., object], rays: tuple[np.ndarray, np.ndarray], n: int) -> object:
    return query(*rays, threads=n)


def main() -> None:
    """Measure, print a table, and write JSON if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("meshes", nargs="*", type=Path, help="mesh files (default: our own)")
    parser.add_argument("--quick", action="store_true", help="few rays, a smoke test")
    parser.add_argument("--rays", type=int, default=1 << 19, help="rays of each workload")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    count, rounds = (1 << 14, 1) if options.quick else (options.rays, options.rounds)
    paths = options.meshes or sorted(MESHES.glob("*.ply"))
    figures: list[dict[str, object]] = []
    print(
        f"bvh {bvh.__version__}, {platform.processor() or platform.machine()}, median of {rounds}"
    )
    print(f"{'mesh':<16} {'what':<10} {'1 thread':>14} {'2 threads':>14} {'exact share':>12}")
    for path in paths:
        figures.extend(measure(path, count, rounds))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
