"""Charts of trees, by matplotlib, which only this module needs."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from bvh.io.container import replace_file
from bvh.pictures.anatomy import Anatomy, anatomy_of
from bvh.queries.hierarchy import BVH
from bvh.runtime.simd import WIDTH

INK, FAINT, PAPER = "#24303c", "#8593a0", "#ffffff"
NODES, LEAVES, THIRD = "#2f6690", "#e08d3c", "#7a9e7e"


def chart(tree: BVH, title: str | None = None) -> Any:
    """Draw the cost and the fill of a tree as a figure of matplotlib.

    Six panels: expected visits of a random ray by level, by the surface area heuristic (MacDonald
    and Booth 1990); nodes and leaves by level; overlap of the boxes in a node; children of nodes;
    primitives of leaves; and memory. Notebooks show the figure.

    Parameters
    ----------
    tree : BVH
    title : str, optional
        Title of the chart; by default the number of primitives.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    TypeError
        If it is not a tree; those of a scene are ``scene.leaves.trees``.
    """
    if not isinstance(tree, BVH):
        raise TypeError(f"tree must be a BVH, got {type(tree).__name__}")
    figure = _figure((11.5, 6.6))
    anatomy, stats = anatomy_of(tree), tree.stats()
    axes = figure.subplots(
        2, 3, gridspec_kw={"left": 0.06, "right": 0.975, "top": 0.80, "bottom": 0.09,
                           "wspace": 0.26, "hspace": 0.58},
    )  # fmt: skip
    figure.text(
        0.06, 0.945, title or f"{stats.primitives:,} {tree.kind}", size=17, weight="bold",
        color=INK,
        # Names of files may contain a dollar sign.
        parse_math=False,
    )  # fmt: skip
    summary = (
        f"{stats.primitives:,} {tree.kind}  ·  {stats.nodes:,} nodes of {WIDTH}  ·  "
        f"{stats.leaves:,} leaves  ·  depth {stats.depth}  ·  SAH cost {stats.sah_cost:.4g}  ·  "
        f"{stats.bytes_per_primitive:.3g} bytes each"
    )
    figure.text(0.06, 0.90, summary, size=10, color=FAINT)
    _draw_cost(axes[0, 0], anatomy)
    _draw_levels(axes[0, 1], anatomy)
    _draw_overlap(axes[0, 2], anatomy)
    _draw_counts(axes[1, 0], anatomy.fill, NODES, "Children of a node", "share of nodes")
    sizes = anatomy.leaf_sizes
    _draw_counts(axes[1, 1], sizes, LEAVES, "Primitives in a leaf", "share of leaves")
    _draw_memory(axes[1, 2], anatomy)
    return figure


def check_chart_path(path: str | os.PathLike[str]) -> None:
    """Raise if no chart can be written to a path, before any work is done."""
    file = Path(path)
    kinds = _figure((1.0, 1.0)).canvas.get_supported_filetypes()
    if file.suffix[1:].lower() not in kinds:
        raise ValueError(f"cannot write {file}: unknown chart format {file.suffix!r}")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {file.parent}")
    if file.is_dir():
        raise IsADirectoryError(f"cannot write {file}: it is a folder")


def write_chart(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file, which is replaced only by a complete one."""
    stream = io.BytesIO()
    figure.savefig(stream, format=Path(path).suffix[1:].lower())
    replace_file(os.fspath(path), iter([np.frombuffer(stream.getbuffer(), np.uint8)]))


def _figure(size: tuple[float, float]) -> Any:
    """Return an empty figure without a window."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('charts need matplotlib: pip install "raybvh[plot]"') from error
    figure = Figure(figsize=size, dpi=150, facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def _prepare(axis: Any, title: str, below: str, beside: str) -> None:
    """Set the title and labels of a panel, and remove its frame."""
    axis.set_title(title, loc="left", size=11, weight="bold", color=INK, pad=9)
    axis.set_xlabel(below, size=9, color=FAINT)
    axis.set_ylabel(beside, size=9, color=FAINT)
    for side, spine in axis.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(FAINT)
    axis.tick_params(colors=INK, labelsize=8.5, length=0)
    axis.grid(axis="y", color="#e7ebee", linewidth=0.8)
    axis.set_axisbelow(True)


def _positions(axis: Any, count: int) -> Any:
    """Return the position of each bar, and label at most 12 of them."""
    step = max(1, -(-count // 12))
    axis.set_xticks(range(0, count, step))
    axis.set_xlim(-0.6, max(count, 1) - 0.4)
    return np.arange(count)


def _draw_cost(axis: Any, anatomy: Anatomy) -> None:
    _prepare(axis, "SAH cost by level", "level", "visits of a random ray")
    bars = _positions(axis, len(anatomy.nodes))
    axis.bar(bars, anatomy.node_cost, 0.72, color=NODES, label="nodes")
    axis.bar(
        bars,
        anatomy.leaf_cost,
        0.72,
        bottom=anatomy.node_cost,
        color=LEAVES,
        label="leaves",
    )
    _legend(axis)


def _draw_levels(axis: Any, anatomy: Anatomy) -> None:
    _prepare(axis, "Nodes and leaves", "level", "number")
    bars = _positions(axis, len(anatomy.nodes))
    axis.bar(bars - 0.19, anatomy.nodes, 0.36, color=NODES, label="nodes")
    axis.bar(bars + 0.19, anatomy.leaves, 0.36, color=LEAVES, label="leaves")
    axis.set_yscale("symlog", linthresh=1.0)
    axis.set_ylim(0.0, 4.0 * max(anatomy.nodes.max(initial=1), anatomy.leaves.max(initial=1)))
    powers = range(len(str(int(max(anatomy.nodes.max(initial=1), anatomy.leaves.max(initial=1))))))
    axis.set_yticks([10**k for k in powers], [f"{10**k:,}" for k in powers])
    axis.minorticks_off()
    _legend(axis)


def _draw_overlap(axis: Any, anatomy: Anatomy) -> None:
    _prepare(axis, "Overlap of boxes in one node", "level", "share of their surface")
    bars = _positions(axis, len(anatomy.overlap))
    axis.bar(bars, 100.0 * anatomy.overlap, 0.72, color=THIRD)
    axis.yaxis.set_major_formatter("{x:.0f} %")
    for x, share in zip(bars[1:], anatomy.overlap[1:], strict=True):
        axis.annotate(
            f"{100.0 * share:.0f}", (x, 100.0 * share), (0, 3), textcoords="offset points",
            ha="center", size=8, color=INK,
        )  # fmt: skip
    axis.margins(y=0.14)


def _draw_counts(axis: Any, counts: Any, colour: str, title: str, beside: str) -> None:
    """Draw a histogram as shares, its mean marked."""
    _prepare(axis, title, "number", beside)
    total = max(int(counts.sum()), 1)
    bars = _positions(axis, len(counts))
    axis.bar(bars, 100.0 * counts / total, 0.8, color=colour)
    axis.yaxis.set_major_formatter("{x:.0f} %")
    if counts.sum():
        mean = float((bars * counts).sum() / total)
        axis.axvline(mean, color=INK, linewidth=1.0, linestyle=(0, (3, 2)))
        aside = -5 if mean > 0.6 * len(counts) else 5
        axis.annotate(
            f"mean {mean:.3g}", (mean, 0.94), (aside, 0), ha="left" if aside > 0 else "right",
            xycoords=("data", "axes fraction"), textcoords="offset points", size=8.5, color=INK,
        )  # fmt: skip
        axis.margins(y=0.12)


def _draw_memory(axis: Any, anatomy: Anatomy) -> None:
    names = list(anatomy.memory)
    sizes = np.array([anatomy.memory[key] for key in names], np.float64)
    unit, size_of = ("MiB", 2**20) if sizes.sum() >= 2**20 else ("KiB", 2**10)
    sizes /= size_of
    _prepare(axis, "Memory", unit, "")
    axis.grid(axis="y", visible=False)
    bars = np.arange(len(names))[::-1]
    axis.barh(bars, sizes, 0.56, color=[NODES, LEAVES, THIRD])
    labels = {"groups": "leaf groups", "triangles": "mesh"}
    axis.set_yticks(bars, [labels.get(key, key) for key in names])
    for y, size in zip(bars, sizes, strict=True):
        share = size / max(sizes.sum(), 1e-300)
        axis.annotate(
            f"{size:.3g} {unit}, {share:.0%}", (size, y), (5, 0), textcoords="offset points",
            va="center", size=8.5, color=INK,
        )  # fmt: skip
    axis.set_xlim(0.0, 1.6 * max(sizes.max(), 1e-9))
    axis.locator_params(axis="x", nbins=5)
    axis.set_ylim(-0.6, len(names) - 0.4)


def _legend(axis: Any) -> None:
    # Beside the title, above all bars.
    axis.legend(
        frameon=False, fontsize=8.5, labelcolor=INK, handlelength=1.0, loc="lower right", ncols=2,
        bbox_to_anchor=(1.03, 1.02), columnspacing=1.0, borderaxespad=0.0,
    )  # fmt: skip
