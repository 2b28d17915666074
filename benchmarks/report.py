"""Rows of figures as tables."""

from __future__ import annotations

from collections.abc import Iterator

from .processes import Row
from .timing import DISTURBED, geometric_mean, medians
from .workloads import BATCHES

CASTERS = ["bvh", "Open3D", "embreex"]


def times(row: Row) -> dict[str, float]:
    """Return the median seconds of each caster for one of what a row counts."""
    return {name: s / row["count"] for name, s in medians(row["seconds"]).items()}


def ratio(row: Row) -> float | None:
    """Return how many times as fast as the fastest peer we are; None if there is no peer."""
    each = times(row)
    peers = [seconds for name, seconds in each.items() if not name.startswith("bvh")]
    return min(peers) / each["bvh"] if peers else None


def disturbed(row: Row) -> bool:
    """Tell whether other processes had so much of our CPUs that the figures are in doubt."""
    return (row.get("foreign") or 0.0) > DISTURBED


def mean_ratio(rows: list[Row], threads: int) -> float:
    """Return the geometric mean of the ratios over all undisturbed batches; NaN if none is."""
    calm = [r for r in rows if r["what"] in BATCHES and not disturbed(r)]
    found = [ratio(r) for r in calm if r["threads"] == threads]
    return geometric_mean(x for x in found if x is not None)


def lines(rows: list[Row]) -> Iterator[str]:
    """Yield the table of one mesh."""
    rows = [row for row in rows if "seconds" in row]
    if not rows:
        return
    counts = sorted({row["threads"] for row in rows})
    names = [n for n in CASTERS if any(n in row["seconds"] for row in rows)]
    yield f"{rows[0]['mesh']}, {rows[0]['triangles']:,} triangles"
    heads = [f"{threads} thread{'s' * (threads > 1)}" for threads in counts]
    width = 10 * len(names) + 9
    yield f"{'':<17}" + "".join(f"  {head:^{width}}" for head in heads)
    head = "".join(f"{name:>10}" for name in names) + f"{'ratio':>8} "
    yield f"{'':<17}" + f"  {head}" * len(counts)
    for what in dict.fromkeys(row["what"] for row in rows):
        if what == "r-tree":
            continue
        found = {row["threads"]: row for row in rows if row["what"] == what}
        cells = [_cells(found.get(threads), names) for threads in counts]
        unit = {"build": "ms", "singl": "us"}.get(what[:5], "Mray/s")
        yield f"{what:<17}" + "".join(f"  {cell:<{width}}" for cell in cells) + f"  {unit}"
    for row in rows:
        if "bvh, floats" in row["seconds"] and row["threads"] == counts[0]:
            yield f"{'single, floats':<17}  {1e6 * times(row)['bvh, floats']:>10.2f} us"
        if row["what"] == "r-tree":
            each = times(row)
            rates = ", ".join(f"{name} {1 / each[name]:,.0f}" for name in each)
            yield f"{'few random rays':<17}  rays a second: {rates}"
    means = [(threads, mean_ratio(rows, threads)) for threads in counts]
    if means[0][1] == means[0][1]:
        parts = [f"{mean:.2f} on {threads}" for threads, mean in means]
        yield f"{'geometric mean':<17}  of the ratios of all batches: " + ", ".join(parts)
    worst = max((row["foreign"] or 0.0 for row in rows if disturbed(row)), default=0.0)
    if worst:
        yield f"! in doubt, and in no mean: other processes had up to {worst:.0%} of our CPUs"
    yield ""


def _cells(row: Row | None, names: list[str]) -> str:
    """Return a row's figures: rates, or times of what is called once a build or a ray."""
    if row is None:
        return ""
    each = times(row)
    text = ""
    for name in names:
        text += f"{_figure(row['what'], each[name]):>10}" if name in each else f"{'-':>10}"
    value = ratio(row)
    text += f"{value:>8.2f}" if value is not None else f"{'-':>8}"
    return text + ("!" if disturbed(row) else " ")


def _figure(what: str, seconds: float) -> str:
    if what.startswith("build"):
        return f"{1e3 * seconds:.1f}"
    return f"{1e6 * seconds:.2f}" if what == "single" else f"{1e-6 / seconds:.3f}"
