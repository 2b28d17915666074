"""Charts of trees by matplotlib: cost and fill, level by level, and the figures behind them.

`python -m benchmarks.anatomy part.ply -o tree.png`
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.queries.hierarchy import BVH
from bvh.runtime.arguments import grouped, number_of
from bvh.runtime.registry import extra
from bvh.runtime.simd import WIDTH
from bvh.tree.frame import FrameView
from bvh.tree.primitives import arrays_of
from bvh.tree.stats import wide_levels
from bvh.tree.wide_nodes import half_areas, lanes_of, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

INK, FAINT, PAPER = "#24303c", "#8593a0", "#ffffff"
NODES, LEAVES, THIRD = "#2f6690", "#e08d3c", "#7a9e7e"
# Nodes whose pairs of children are compared at a time.
CHUNK = 1 << 10


class Anatomy(NamedTuple):
    """Figures of a tree by level, where the root is level 0; histograms; and memory.

    Costs are the expected visits, by a random ray through the root's box, of nodes and of groups of
    primitives: their sum is the SAH cost. `overlap` is the surface of the pairwise intersections of
    boxes in the same node, as a share of the surface of these boxes. `fill` counts nodes by number
    of children, `leaf_sizes` leaves by number of primitives; `memory` is in bytes.
    """

    nodes: Counts
    leaves: Counts
    node_cost: Floats
    leaf_cost: Floats
    overlap: Floats
    fill: Counts
    leaf_sizes: Counts
    memory: dict[str, int]


def chart(tree: BVH, title: str | None = None) -> Figure:
    """Draw the cost and the fill of a tree as a figure of matplotlib.

    Six panels: expected visits of a random ray by level, by the surface area heuristic (MacDonald
    and Booth 1990); nodes and leaves by level; overlap of the boxes in a node; children of nodes;
    primitives of leaves; and memory. Notebooks show the figure. Of a scene, the trees are
    ``scene.leaves.trees``.

    Parameters
    ----------
    tree : BVH
    title : str, optional
        Title of the chart; by default the number of primitives.
    """
    if not isinstance(tree, BVH):
        raise TypeError(f"tree must be a BVH, got {type(tree).__name__}")
    figure = _figure((11.5, 6.6))
    anatomy, stats = anatomy_of(tree), tree.stats()
    axes = figure.subplots(
        2, 3, gridspec_kw={"left": 0.06, "right": 0.975, "top": 0.80, "bottom": 0.09,
                           "wspace": 0.26, "hspace": 0.58},
    )  # fmt: skip
    count = number_of(stats.primitives, tree.kind, ",")
    # Names of files may contain a dollar sign.
    figure.text(0.06, 0.945, title or count, size=17, weight="bold", color=INK, parse_math=False)
    summary = (
        f"{count}  ·  {number_of(stats.nodes, 'nodes', ',')} of {WIDTH}  ·  "
        f"{number_of(stats.leaves, 'leaves', ',')}  ·  depth {stats.depth}  ·  "
        f"SAH cost {stats.sah_cost:.4g}  ·  {stats.bytes_per_primitive:.3g} bytes each"
    )
    figure.text(0.06, 0.90, summary, size=10, color=FAINT)
    _draw_cost(axes[0, 0], anatomy)
    _draw_levels(axes[0, 1], anatomy)
    _draw_overlap(axes[0, 2], anatomy)
    _draw_counts(axes[1, 0], anatomy.fill, NODES, "Children of a node", "share of nodes")
    _draw_counts(axes[1, 1], anatomy.leaf_sizes, LEAVES, "Primitives in a leaf", "share of leaves")
    _draw_memory(axes[1, 2], anatomy)
    return figure


def anatomy_of(tree: BVH) -> Anatomy:
    """Return the figures of a tree."""
    arrays = tree.arrays
    stats, view = tree.stats(), lanes_of(arrays.nodes.data)
    level = wide_levels(view)
    depth = len(stats.leaf_depths)
    bounds = np.moveaxis(view.boxes, 1, 2)
    used = view.inner | view.leaf
    # Children are one level below their node.
    below = np.broadcast_to(level[:, None] + 1, used.shape)
    areas = np.zeros(used.shape)
    areas[used] = half_areas(bounds[used])
    whole = float(half_areas(FrameView(arrays.frame).box.reshape(1, 6).astype(np.float32))[0])
    # If the root has no surface, count every visit as certain.
    share = areas / whole if whole > 0.0 else used.astype(np.float64)

    def sums(lanes: NDArray[np.bool_], values: Floats) -> Floats:
        """Return the sum of the values of children on each level."""
        return np.bincount(below[lanes], values[lanes], depth).astype(np.float64)

    node_cost, leaf_cost = sums(view.inner, share), np.zeros(used.shape)
    node_cost[:1] += 1.0
    leaf_cost[view.leaf] = share[view.leaf] * rows_of(view.codes[view.leaf])[1]
    shared = np.zeros(used.shape)
    for start in range(0, len(level), CHUNK):
        part = slice(start, start + CHUNK)
        shared[part, 0] = _shared_areas(bounds[part], used[part])
    surface = sums(used, areas)
    # Groups are the rows of nodes.
    stored = {"nodes": list(arrays.nodes)[: 1 if arrays.groups.size else 2]}
    stored["groups"] = [arrays.groups]
    stored[tree.kind] = arrays_of(arrays.primitives)
    return Anatomy(
        nodes=np.bincount(level, minlength=depth), leaves=np.array(stats.leaf_depths, np.int64),
        node_cost=node_cost, leaf_cost=sums(view.leaf, leaf_cost),
        overlap=np.divide(sums(used, shared), surface, out=np.zeros(depth), where=surface > 0.0),
        fill=np.bincount(used.sum(axis=1), minlength=WIDTH + 1),
        leaf_sizes=np.array(stats.leaf_sizes, np.int64),
        memory={name: sum(array.nbytes for array in each) for name, each in stored.items()},
    )  # fmt: skip


def _shared_areas(bounds: NDArray[np.float32], used: NDArray[np.bool_]) -> Floats:
    """Return for each node half the surface of the pairwise intersections of its children."""
    one, other = np.triu_indices(WIDTH, 1)
    low = np.maximum(bounds[:, one, :3], bounds[:, other, :3])
    high = np.minimum(bounds[:, one, 3:], bounds[:, other, 3:])
    meet = used[:, one] & used[:, other] & (low <= high).all(axis=2)
    areas = half_areas(np.hstack([low[meet], high[meet]]))
    return np.asarray(np.bincount(np.nonzero(meet)[0], areas, len(bounds)), np.float64)


def _figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure without a window."""
    with extra("plot", "charts need matplotlib"):
        from matplotlib.figure import Figure
    return Figure(figsize=size, dpi=150, facecolor=PAPER)


def _prepare(axis: Axes, title: str, below: str, beside: str) -> None:
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


def _positions(axis: Axes, count: int) -> Counts:
    """Return the position of each bar, and label at most 12 of them."""
    axis.set_xticks(range(0, count, max(1, -(-count // 12))))
    axis.set_xlim(-0.6, max(count, 1) - 0.4)
    return np.arange(count)


def _draw_cost(axis: Axes, anatomy: Anatomy) -> None:
    nodes, leaves = anatomy.node_cost, anatomy.leaf_cost
    _prepare(axis, "SAH cost by level", "level", "visits of a random ray")
    bars = _positions(axis, len(nodes))
    axis.bar(bars, nodes, 0.72, color=NODES, label="nodes")
    axis.bar(bars, leaves, 0.72, bottom=nodes, color=LEAVES, label="leaves")
    _legend(axis)


def _draw_levels(axis: Axes, anatomy: Anatomy) -> None:
    _prepare(axis, "Nodes and leaves", "level", "number")
    bars = _positions(axis, len(anatomy.nodes))
    axis.bar(bars - 0.19, anatomy.nodes, 0.36, color=NODES, label="nodes")
    axis.bar(bars + 0.19, anatomy.leaves, 0.36, color=LEAVES, label="leaves")
    axis.set_yscale("symlog", linthresh=1.0)
    largest = int(max(anatomy.nodes.max(initial=1), anatomy.leaves.max(initial=1)))
    axis.set_ylim(0.0, 4.0 * largest)
    powers = [10**k for k in range(len(str(largest)))]
    axis.set_yticks(powers, [grouped(power) for power in powers])
    axis.minorticks_off()
    _legend(axis)


def _draw_overlap(axis: Axes, anatomy: Anatomy) -> None:
    shares = 100.0 * anatomy.overlap
    _prepare(axis, "Overlap of boxes in one node", "level", "share of their surface")
    drawn = axis.bar(_positions(axis, len(shares)), shares, 0.72, color=THIRD)
    axis.yaxis.set_major_formatter("{x:.0f} %")
    labels = ["", *(f"{share:.0f}" for share in shares[1:])]
    axis.bar_label(drawn, labels[: len(shares)], padding=3, size=8, color=INK)
    axis.margins(y=0.14)


def _draw_counts(axis: Axes, counts: Counts, colour: str, title: str, beside: str) -> None:
    """Draw a histogram as shares, its mean marked."""
    _prepare(axis, title, "number", beside)
    bars = _positions(axis, len(counts))
    total = int(counts.sum())
    axis.bar(bars, 100.0 * counts / max(total, 1), 0.8, color=colour)
    axis.yaxis.set_major_formatter("{x:.0f} %")
    if total:
        mean = float((bars * counts).sum() / total)
        axis.axvline(mean, color=INK, linewidth=1.0, linestyle=(0, (3, 2)))
        aside = -5 if mean > 0.6 * len(counts) else 5
        axis.annotate(
            f"mean {mean:.3g}", (mean, 0.94), (aside, 0), ha="left" if aside > 0 else "right",
            xycoords=("data", "axes fraction"), textcoords="offset points", size=8.5, color=INK,
        )  # fmt: skip
        axis.margins(y=0.12)


def _draw_memory(axis: Axes, anatomy: Anatomy) -> None:
    sizes = np.array(list(anatomy.memory.values()), np.float64)
    unit, size_of = ("MiB", 2**20) if sizes.sum() >= 2**20 else ("KiB", 2**10)
    sizes /= size_of
    _prepare(axis, "Memory", unit, "")
    axis.grid(axis="y", visible=False)
    bars = np.arange(len(sizes))[::-1]
    drawn = axis.barh(bars, sizes, 0.56, color=[NODES, LEAVES, THIRD])
    names = {"groups": "leaf groups", "triangles": "mesh"}
    axis.set_yticks(bars, [names.get(key, key) for key in anatomy.memory])
    shares = sizes / max(sizes.sum(), 1e-300)
    labels = [f"{size:.3g} {unit}, {share:.0%}" for size, share in zip(sizes, shares, strict=True)]
    axis.bar_label(drawn, labels, padding=5, size=8.5, color=INK)
    axis.set_xlim(0.0, 1.6 * max(sizes.max(), 1e-9))
    axis.locator_params(axis="x", nbins=5)
    axis.set_ylim(-0.6, len(sizes) - 0.4)


def _legend(axis: Axes) -> None:
    # Beside the title, above all bars.
    axis.legend(
        frameon=False, fontsize=8.5, labelcolor=INK, handlelength=1.0, loc="lower right", ncols=2,
        bbox_to_anchor=(1.03, 1.02), columnspacing=1.0, borderaxespad=0.0,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Draw the chart of the tree over a mesh."""
    parser = argparse.ArgumentParser("python -m benchmarks.anatomy", description=main.__doc__)
    parser.add_argument("mesh", help="file of a mesh")
    parser.add_argument("-o", "--output", required=True, help="chart: .png, .svg or .pdf")
    parser.add_argument("--quality", choices=("medium", "high"), default="medium")
    options = parser.parse_args(arguments)
    tree = BVH.from_file(options.mesh, quality=options.quality)
    chart(tree, options.mesh).savefig(options.output)


if __name__ == "__main__":
    main()
