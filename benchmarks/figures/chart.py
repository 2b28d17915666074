"""Charts of figures, by matplotlib."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path
from typing import Any

from bvh.runtime.arguments import grouped

from .. import peers
from ..processes import Row
from ..workloads import BATCHES
from .rows import agrees, beside_peers, curves_of, disturbed, duration, lost_line, rate, times

OURS = "#d9622b"
COLOURS = {
    "Open3D": "#5b7690", "embreex": "#93a8ba", "Embree": "#3f6fa5",
    "Embree x 16": "#6c63b5", "tinybvh": "#a34d8c", "Warp": "#5b8c2a",
    "libigl": "#2a7f9e", "PyVista": "#c9a227", "r-tree": "#8d6e63", "fcl": "#7d7d7d",
}  # fmt: skip
# Text, small text, and lines, of charts on light and on dark pages.
LIGHT, DARK = ("#1f2933", "#59636e", "#d9dee3"), ("#e6edf3", "#9aa7b4", "#3a444e")
# What the names of batches mean.
MEANINGS = {
    "primary": "camera rays", "primary tiled": "camera rays, in tiles",
    "diffuse": "bounces off the surface", "diffuse shuffled": "bounces, in any order",
    "random": "from and to anywhere", "shadow": "any hit on the way to a lamp",
}  # fmt: skip
# Ticks of the chart of cores, its queries, and their labels.
CORES = (1, 2, 4, 8, 16)
SCALED = {
    "camera": "camera rays", "random": "random rays", "scene, camera": "scene, camera rays",
    "all hits": "all hits", "closest_point": "closest points", "contains": "inside tests",
}  # fmt: skip
TICKS = (1e-3, 1e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1e3, 1e4, 1e5, 1e6)


def matplotlib() -> Any:
    """Return matplotlib, set to write text of SVG as text; raises ImportError without it."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise ImportError('charts need matplotlib: pip install "raybvh[plot]"') from error
    matplotlib.rcParams["svg.fonttype"] = "none"
    return matplotlib


def write(
    figures: dict[str, Any], path: Path, kind: str | None = None, mesh: str | None = None,
    threads: int | None = None, dark: bool = False,
) -> None:  # fmt: skip
    """Write a chart without a background: by default of peers, or of rates if there are none."""
    kind = kind or ("overview" if beside_peers(figures["rows"]) else "rates")
    text, small, line = DARK if dark else LIGHT
    colours = {
        "text.color": text, "axes.labelcolor": text, "axes.edgecolor": line, "grid.color": line,
        "xtick.labelcolor": text, "ytick.labelcolor": text,
        "xtick.color": small, "ytick.color": small,
    }  # fmt: skip
    with matplotlib().rc_context(colours):
        KINDS[kind](figures, mesh, threads).savefig(path, transparent=True)


def overview(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> Any:
    """Return the chart of one mesh: a line for each task, a dot for each peer.

    The axis is how many times as fast as a peer bvh is. A hollow dot is a peer of whose answers
    fewer than 99.9 % equal ours; a task with ``!`` was disturbed by other processes. By default the
    mesh is the first one, and the threads are the fewest; SystemExit if there are no figures.
    """
    rows, title = _rows(figures, mesh, threads)
    # A gap divides builds, rays and points.
    units = [row.get("unit") for row in rows]
    steps = [0.0, *(1.0 if a == b else 1.5 for a, b in itertools.pairwise(units))]
    heights = list(itertools.accumulate(steps))
    figure, axis = _axes(2.0 + 0.24 * heights[-1], f"bvh beside its peers: {title}")
    names = [name for name in peers.PEERS if any(name in row["seconds"] for row in rows)]
    labels, shown = [], [1.0]
    for row, y in zip(rows, heights, strict=True):
        each = times(row)
        own = rate(row, each["bvh"])
        own = f"{own}/s" if own else duration(each["bvh"])
        labels.append(f"{row['what']}{' !' * disturbed(row)}   {own}")
        for name in filter(each.__contains__, names):
            face = COLOURS[name] if agrees(row, name) else "none"
            shown.append(each[name] / each["bvh"])
            axis.plot(shown[-1], y, "o", mfc=face, mec=COLOURS[name], label=name)
    axis.set_xscale("log")
    axis.axvline(1.0, color=OURS)
    low, high = min(0.5, 0.8 * min(shown)), max(2.0, 1.25 * max(shown))
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" if tick < 1 else grouped(int(tick)) for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlim(low, high)
    axis.set_xlabel("bvh is so many times as fast; left of 1 the peer is faster")
    axis.set_yticks(heights, labels)
    _finish(figure, axis, figures, rows)
    return figure


def rates(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> Any:
    """Return the chart of rays per second beside Embree: bars for each workload, and lost rays."""
    rows, title = _rows(figures, mesh, threads)
    rows = [row for row in rows if row["what"] in BATCHES]
    if not rows:
        raise SystemExit(f"no batch of rays was measured at {title}: there is no rate to draw")
    names = [n for n in ("bvh", *peers.EMBREE) if any(n in row["seconds"] for row in rows)]
    step, lost = len(names) + 1, [row for row in figures["rows"] if "lost" in row][:1]
    figure, axis = _axes(2.0 + 0.17 * len(rows) * step + 0.8 * len(lost), "Million rays per second")
    for k, name in enumerate(names):
        places = [i * step + k for i in range(len(rows))]
        values = [1e-6 / times(row).get(name, float("inf")) for row in rows]
        label = name if name == "bvh" else f"Embree via {name}"
        bars = axis.barh(places, values, 0.85, color=COLOURS.get(name, OURS), label=label)
        axis.bar_label(bars, fmt="%.1f", padding=3, fontsize=11)
    middles = [i * step + (len(names) - 1) / 2 for i in range(len(rows))]
    labels = [f"{row['what']}{' !' * disturbed(row)}\n{MEANINGS[row['what']]}" for row in rows]
    axis.set_yticks(middles, labels, fontsize=11, linespacing=1.1)
    axis.margins(x=0.08)
    for row in lost:
        own, each = row["lost"]["bvh"], {n: c for n, c in row["lost"].items() if n in peers.EMBREE}
        claim = f"{grouped(own)} of {grouped(row['count'])} rays lost by bvh"
        if len({*each.values()}) == 1:
            each = {"Embree": min(each.values())}
        claim += "".join(f",\n{grouped(count)} by {name}" for name, count in each.items())
        axis.set_xlabel(claim, fontsize=18, color=OURS, weight="bold", labelpad=10)
    _finish(figure, axis, figures, rows, names, title)
    return figure


def scaling(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> Any:
    """Return the chart of time per ray against triangles, of all meshes."""
    figure, axis = _axes(5.8, "Time per ray, microseconds")
    for name, curve in curves_of(figures["rows"]).items():
        axis.plot(*zip(*sorted(curve), strict=True), "o-", label=name)
    axis.set_ylim(bottom=0)
    axis.set_xscale("log")
    axis.set_xlabel("triangles")
    _finish(figure, axis, figures, [])
    return figure


def cores(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> Any:
    """Return the chart of speed on more cores: lines on virtual cores, dots on real threads."""
    rows = [
        row for row in figures["rows"] if any(" virtual" in key for key in row.get("parts", ()))
    ]
    rows = [row for row in rows if row["what"].split(",")[0] in SCALED or row["what"] in SCALED]
    if not rows:
        raise SystemExit("no cores were measured: run --task cores")
    mesh = mesh or rows[0]["mesh"]
    figure, axis = _axes(4.6, "Times as fast as on one core")
    axis.plot([1, CORES[-1]], [1, CORES[-1]], ":", color="#8a8f98", label="every core used")
    drawn = set()
    for row in rows:
        # Of the batches of a kind of rays, the largest comes first.
        name = SCALED[row["what"] if row["what"] in SCALED else row["what"].split(",")[0]]
        if row["mesh"] != mesh or name in drawn:
            continue
        drawn.add(name)
        virtual, real = _speeds(row, " virtual"), _speeds(row, " threads")
        points = [(1, 1.0), *((n, speed) for n, speed in virtual if n in CORES)]
        (line,) = axis.plot(*zip(*points, strict=True), "-", label=name)
        for n, speed in real:
            axis.plot(n, speed, "o", color=line.get_color())
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    for set_ticks in (axis.set_xticks, axis.set_yticks):
        set_ticks(CORES, list(map(str, CORES)))
        set_ticks([], minor=True)
    axis.grid(axis="y")
    axis.set_xlabel("cores; dots: measured on real threads, lines: virtual cores")
    _finish(figure, axis, figures, [])
    return figure


def _speeds(row: Row, suffix: str) -> list[tuple[int, float]]:
    """Return (cores, times as fast) of the parts of a row whose names end with a suffix."""
    found = (
        (key.removesuffix(suffix), speed) for key, speed in row["parts"].items() if suffix in key
    )
    return sorted((int(cores), speed) for cores, speed in found)


KINDS = {"overview": overview, "rates": rates, "scaling": scaling, "cores": cores}


def _rows(figures: dict[str, Any], mesh: str | None, threads: int | None) -> tuple[list[Row], str]:
    """Return the timed rows of a mesh and of the scene, and the mesh as a title."""
    timed = [row for row in figures["rows"] if "seconds" in row and "parts" not in row]
    mesh = mesh or (timed[0]["mesh"] if timed else None)
    threads = threads or min((row["threads"] for row in timed), default=1)
    same = [row for row in timed if row["threads"] == threads]
    rows = [row for row in same if row["mesh"] == mesh or "instances" in row]
    plural = "s" * (threads > 1)
    if not rows:
        raise SystemExit(f"no figures of {mesh} on {threads} thread{plural}")
    return rows, f"{mesh}, {grouped(rows[0]['triangles'])} triangles, {threads} thread{plural}"


def _axes(height: float, title: str) -> tuple[Any, Any]:
    """Return a figure of a height in inches, and its axes."""
    # Narrow, so that a phone shows its text in a readable size.
    figure = matplotlib().figure.Figure((6.6, height), layout="constrained")
    axis = figure.add_subplot()
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, weight="bold")
    axis.grid(axis="x")
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    return figure, axis


def _finish(
    figure: Any, axis: Any, figures: dict[str, Any], rows: list[Row],
    names: list[str] | None = None, title: str = "",
) -> None:  # fmt: skip
    """Add the legend, and the foot with notes, the machine, and versions of all or of some."""
    if rows:
        axis.invert_yaxis()
    handles = dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    if handles:
        style = {"frameon": False, "fontsize": 11, "handlelength": 1.2, "columnspacing": 1.2}
        columns = 3 if names else 4
        axis.legend(handles.values(), handles, ncols=columns, loc="lower left",
                    bbox_to_anchor=(-0.3 if names else 0, 1), **style)  # fmt: skip
    foot = [title] if title else [lost_line(row) for row in figures["rows"] if "lost" in row]
    if any(map(disturbed, rows)):
        foot.append("! unreliable: other processes used the CPUs meanwhile")
    if "processor" in figures:
        of = {"bvh", *(peers.PEERS[name].distribution for name in (names or [])[1:])}
        found = figures["versions"].items()
        versions = [f"{name} {version}" for name, version in found if names is None or name in of]
        about = [f"{figures['processor']} ({figures['cpus']} CPUs)", figures["date"][:10]]
        foot += textwrap.wrap(", ".join([*about, *versions]), 84)
    figure.supxlabel("\n".join(foot), x=0.01, ha="left", fontsize=9.5)
