"""Charts of figures, by matplotlib."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

from .. import peers
from ..processes import Row
from ..workloads import BATCHES
from .rows import agrees, curves_of, disturbed, duration, lost_line, rate, times

OURS, FAINT = "#d9622b", "#6b7280"
COLOURS = {
    "Open3D": "#33495d", "embreex": "#7d94a8", "tinybvh": "#a34d8c", "Warp": "#5b8c2a",
    "libigl": "#2a7f9e", "PyVista": "#c9a227", "r-tree": "#8d6e63", "fcl": "#4d4d4d",
}  # fmt: skip


def matplotlib() -> Any:
    """Return matplotlib, set to write text of SVG as text; raises ImportError without it."""
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise ImportError('charts need matplotlib: pip install "raybvh[plot]"') from error
    matplotlib.rcParams["svg.fonttype"] = "none"
    return matplotlib


def overview(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> Any:
    """Return the chart of one mesh: a line for each task, a dot for each peer.

    The axis is how many times as long as bvh a peer takes. A hollow dot is a peer of whose answers
    fewer than 99.9 % equal ours; a task with ``!`` was disturbed by other processes. By default the
    mesh is the first one, and the threads are the fewest; SystemExit if there are no figures.
    """
    rows, title = _rows(figures, mesh, threads)
    # A gap divides builds, rays and points.
    units = [row.get("unit") for row in rows]
    steps = [0.0, *(1.0 if a == b else 1.5 for a, b in itertools.pairwise(units))]
    heights = list(itertools.accumulate(steps))
    figure, axis = _axes(heights[-1], f"How many times as long as bvh each peer takes: {title}")
    names = [name for name in peers.PEERS if any(name in row["seconds"] for row in rows)]
    labels = []
    for row, y in zip(rows, heights, strict=True):
        each = times(row)
        own = rate(row, each["bvh"])
        own = f"{own}/s" if own else duration(each["bvh"])
        labels.append(f"{row['what']}{' !' * disturbed(row)}   {own}")
        for name in filter(each.__contains__, names):
            face = COLOURS[name] if agrees(row, name) else "white"
            axis.plot(each[name] / each["bvh"], y, "o", mfc=face, mec=COLOURS[name], label=name)
    axis.set_xscale("log")
    axis.axvline(1.0, color=OURS)
    axis.set_yticks(heights, labels)
    _finish(figure, axis, figures, rows)
    return figure


def rates(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> Any:
    """Return the chart of rays per second beside Embree, undisturbed: bars for each workload."""
    rows, title = _rows(figures, mesh, threads)
    rows = [row for row in rows if row["what"] in BATCHES]
    if not rows or any(map(disturbed, rows)):
        raise SystemExit(f"other processes disturbed the rays of {title}: measure them again")
    names = [n for n in ("bvh", *peers.EMBREE) if any(n in row["seconds"] for row in rows)]
    step = len(names) + 1
    figure, axis = _axes(len(rows) * step / 2, f"Million rays per second: {title}")
    for k, name in enumerate(names):
        places = [i * step + k for i in range(len(rows))]
        values = [1e-6 / times(row).get(name, float("inf")) for row in rows]
        label = name if name == "bvh" else f"Embree via {name}"
        bars = axis.barh(places, values, 0.85, color=COLOURS.get(name, OURS), label=label)
        axis.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    middles = [i * step + (len(names) - 1) / 2 for i in range(len(rows))]
    axis.set_yticks(middles, [row["what"] for row in rows])
    _finish(figure, axis, figures, rows)
    return figure


def scaling(figures: dict[str, Any], mesh: str | None = None, threads: int | None = None) -> Any:
    """Return the chart of time per ray against triangles, of all meshes."""
    figure, axis = _axes(16, "Time per ray, microseconds")
    for name, curve in curves_of(figures["rows"]).items():
        axis.plot(*zip(*sorted(curve), strict=True), "o-", label=name)
    axis.set_ylim(bottom=0)
    axis.set_xscale("log")
    axis.set_xlabel("triangles")
    _finish(figure, axis, figures, [])
    return figure


KINDS = {"overview": overview, "rates": rates, "scaling": scaling}


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
    return rows, f"{mesh}, {rows[0]['triangles']:,} triangles, {threads} thread{plural}"


def _axes(lines: float, title: str) -> tuple[Any, Any]:
    """Return a figure of so many lines, and its axes."""
    figure = matplotlib().figure.Figure((8.6, 2.0 + 0.24 * lines), layout="constrained")
    axis = figure.add_subplot()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    axis.grid(axis="x", color="#e3e6ea")
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    return figure, axis


def _finish(figure: Any, axis: Any, figures: dict[str, Any], rows: list[Row]) -> None:
    """Add the legend, and the foot with notes, the machine and versions."""
    if rows:
        axis.invert_yaxis()
    handles = dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    if handles:
        axis.legend(handles.values(), handles, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    foot = [lost_line(row) for row in figures["rows"] if "lost" in row]
    if any(map(disturbed, rows)):
        foot.append("! other processes were busy meanwhile: these figures are in doubt")
    if "processor" in figures:
        versions = [f"{name} {version}" for name, version in figures["versions"].items()]
        about = [f"{figures['processor']} ({figures['cpus']} CPUs)", figures["date"][:10]]
        foot += textwrap.wrap(", ".join([*about, *versions]), 128)
    figure.supxlabel("\n".join(foot), x=0.01, ha="left", fontsize=7, color=FAINT)
