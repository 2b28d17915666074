"""Rows of figures: times, ratios, means, and growth with the number of triangles."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from bvh.runtime.arguments import grouped

from ..processes import Row
from ..timing import DISTURBED, geometric_mean
from ..workloads import BATCHES

# Below this share of answers that equal ours, a peer is not taken to do the same work.
AGREEMENT = 0.999
# Time may exceed log2(n) by this factor before its growth counts as faster.
MARGIN = 1.05


def times(row: Row) -> dict[str, float]:
    """Return the median seconds of each caster for one of what a row counts."""
    counts = row.get("counts", {})
    return {
        name: statistics.median(seconds) / counts.get(name, row["count"])
        for name, seconds in row["seconds"].items()
    }


def agrees(row: Row, name: str) -> bool:
    """Return whether a caster's answers are ours."""
    return bool(row.get("agreement", {}).get(name, 1.0) >= AGREEMENT)


def ratio(row: Row) -> float | None:
    """Return how many times as fast as the fastest peer bvh is; None if there is no peer."""
    each = times(row)
    peers = [s for name, s in each.items() if not name.startswith("bvh") and agrees(row, name)]
    return min(peers) / each["bvh"] if peers else None


def disturbed(row: Row) -> bool:
    """Return whether other processes used so much of our CPUs that the figures are in doubt."""
    return (row.get("foreign") or 0.0) > DISTURBED


def mean_ratio(rows: list[Row], threads: int) -> float:
    """Return the geometric mean of the ratios over all undisturbed batches; NaN if none is."""
    calm = [r for r in rows if r["what"] in BATCHES and not disturbed(r)]
    ratios = [ratio(r) for r in calm if r["threads"] == threads]
    return geometric_mean(x for x in ratios if x is not None)


def means_of_workloads(rows: list[Row], threads: int) -> dict[str, float]:
    """Return the geometric mean of the ratios of each kind of rays, over undisturbed batches."""
    mean = {what: mean_ratio([r for r in rows if r["what"] == what], threads) for what in BATCHES}
    return {what: value for what, value in mean.items() if value == value}


def beside_peers(rows: list[Row]) -> bool:
    """Return whether a peer was timed."""
    return any(not name.startswith("bvh") for row in rows for name in row.get("seconds", ()))


def lowest_ratio(rows: list[Row], threads: int) -> tuple[float, str]:
    """Return the lowest ratio of all undisturbed batches, and its mesh and kind of rays."""
    calm = [r for r in rows if r["what"] in BATCHES and not disturbed(r)]
    named = [(ratio(r), f"{r['mesh']}, {r['what']}") for r in calm if r["threads"] == threads]
    return min((x, name) for x, name in named if x is not None)


def duration(seconds: float) -> str:
    """Return a time with three figures and a unit."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{1e9 * seconds:.3g} ns"


def rate(row: Row, seconds: float) -> str:
    """Return how many a second there are of what a row counts; nothing for whole calls."""
    if row.get("unit") == "call":
        return ""
    return f"{1e-6 / seconds:.3g} M" if seconds < 1e-6 else f"{1e-3 / seconds:.3g} k"


def lost_line(row: Row) -> str:
    """Return the text of a row of lost rays."""
    lost = ", ".join(f"{name} {grouped(count)}" for name, count in row["lost"].items())
    return f"lost of {grouped(row['count'])} rays aimed at vertices and edges: {lost}"


def curves_of(rows: list[Row]) -> dict[str, list[tuple[float, float]]]:
    """Return (triangles, microseconds a ray) of undisturbed batches, by name and threads."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["what"] in BATCHES and not disturbed(row):
            name = f"{row['what']}, {row['threads']} thread{'s' * (row['threads'] > 1)}"
            curves.setdefault(name, []).append((row["triangles"], 1e6 * times(row)["bvh"]))
    return curves


def growth(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return (growth of time, growth of log2(n)) from the smallest size to the largest."""
    (n0, t0), (n1, t1) = min(points), max(points)
    return t1 / t0, math.log2(n1) / math.log2(n0)


def growth_lines(rows: list[Row]) -> Iterator[tuple[str, bool]]:
    """Yield the growth of each curve as text, and whether it is faster than log2(n)."""
    for name, points in curves_of(rows).items():
        if len(points) > 1:
            time, logarithm = growth(points)
            fast = time > MARGIN * logarithm
            verdict = "FASTER than" if fast else "no faster than"
            text = f"{name}: time grew {time:.2f} times, {verdict} log2(n), {logarithm:.2f} times"
            yield text, fast
