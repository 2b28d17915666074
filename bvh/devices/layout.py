"""The arrays of trees and scenes on a device, made from those for CPUs.

Nodes are binary (see `tree.binary_nodes`). Boxes are those of the wide nodes, and so are all
margins. Triangles of leaves lie side by side, in float32 for the filter (see
`tree.triangle_groups`), and by ids for exact tests; a flag marks those in several leaves, which a
builder has split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exchange import numpy_type
from bvh.tree.arrays import TreeArrays
from bvh.tree.binary_nodes import binary_nodes, side_by_side
from bvh.tree.build import in_full
from bvh.tree.frame import FrameView
from bvh.tree.primitives import Triangles

if TYPE_CHECKING:
    from bvh.scene.scene_view import SceneView

# Entries of a stack. Deeper trees are answered on the CPU.
STACK = 96


@wp.struct
class Part:
    """A tree among those of a target: its root, its frame, and where its faces begin.

    Local coordinates are (x - centre) * 2**exponent, at most `bound` in size. `lower` and `upper`
    are the corners of its box in them; `farthest` is the largest coordinate in the world.
    """

    centre: wp.vec3d
    lower: wp.vec3d
    upper: wp.vec3d
    exponent: wp.int32
    bound: wp.float64
    farthest: wp.float64
    root: wp.int32  # a node, or the first triangle if it is a leaf
    count: wp.int32  # of triangles if the root is a leaf, else 0
    first_face: wp.int32
    is_empty: wp.int32
    depth: wp.int32  # levels of nodes
    nodes: wp.int32  # their number


@wp.struct
class Target:
    """A tree, or a scene of trees, on a device, as `wp.func` take it.

    All trees lie one after the other in the same arrays. A scene also has leaves, each a tree under
    a map, and a tree over their boxes, the top, whose triangles are leaves.
    """

    # (nodes, 3), by axis: lower and upper of the left child, lower and upper of the right one.
    boxes: wp.array2d(dtype=wp.vec4)
    # (index, count) of the left child, then of the right one: a node and 0, or the first triangle
    # of a leaf and the number of its triangles.
    children: wp.array(dtype=wp.vec4i)
    # (n, 3): (v0, tolerance); (v1 - v0, size); (v2 - v0, mark), with the mark 1, or 2 if the
    # triangle is in several leaves, negative for the last of a leaf.
    triangles: wp.array2d(dtype=wp.vec4)
    ids: wp.array(dtype=wp.int32)  # the face of each triangle, or the leaf in the top
    # Groups of each triangle, all bits without groups; of leaves in the top, 0 for a node's last.
    bits: wp.array(dtype=wp.int32)
    vertices: wp.array(dtype=wp.vec3d)
    faces: wp.array(dtype=wp.vec3i)
    parts: wp.array(dtype=Part)
    top: Part
    depth: wp.int32  # of the top, and of the deepest tree of leaves
    is_scene: wp.int32
    probe: wp.vec2d  # a number whose square is no double, and that rounded (see `is_contracted`)
    part_of: wp.array(dtype=wp.int32)  # of each leaf
    maps: wp.array2d(dtype=wp.vec4d)  # (leaves, 3): rows of maps from a tree to the world
    inverses: wp.array2d(dtype=wp.vec4d)
    reach: wp.array(dtype=wp.vec3d)  # largest absolute coordinates of each leaf's box
    masks: wp.array(dtype=wp.int32)
    owners: wp.array(dtype=wp.int32)  # the instance of each leaf


# Columns of trees in a target: their types, and the shape of a row in numpy.
COLUMNS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "boxes": (wp.vec4, (3, 4)), "children": (wp.vec4i, (4,)), "triangles": (wp.vec4, (3, 4)),
    "ids": (wp.int32, ()), "bits": (wp.int32, ()), "vertices": (wp.vec3d, (3,)),
    "faces": (wp.vec3i, (3,)),
}  # fmt: skip


def columns_of(
    arrays: TreeArrays, before: Mapping[str, int]
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return (part, columns) of a tree over triangles, or of that over the leaves of a scene.

    `columns` has the tree's rows of the arrays of a `Target`, by name; `before` has the number of
    rows in each of these arrays that belong to trees before it.
    """
    rows, primitives = arrays.nodes.ids, arrays.primitives
    bits = arrays.face_bits if len(arrays.face_bits) else np.full(rows.shape, -1, np.int32)
    lost = (rows < 0).all(axis=1)
    if isinstance(primitives, Triangles) and lost.any():
        # A leaf needs a triangle: one without any has face 0, with no bits, so that no ray hits it.
        rows, bits = rows.copy(), np.where(lost[:, None], 0, bits)
        rows[lost, 0] = 0
    used = rows >= 0
    starts, first = np.r_[0, np.cumsum(used.sum(axis=1))], before["ids"]
    boxes, children, root, depth = binary_nodes(arrays.nodes, starts, before["boxes"], first)
    view, part = FrameView(arrays.frame), Part()
    part.is_empty, part.depth, part.nodes = int(not arrays.nodes.size), depth, len(boxes)
    part.root, part.count, part.first_face = int(root[0]), int(root[1]), before["faces"]
    part.centre = wp.vec3d(*view.centre)
    part.lower, part.upper = (wp.vec3d(*row) for row in view.box)
    part.exponent, part.bound, part.farthest = int(view.exponent), view.bound, view.farthest
    columns: dict[str, NDArray[Any]] = {
        "boxes": boxes, "children": children, "ids": rows[used], "bits": bits[used],
    }  # fmt: skip
    # The last primitive of each leaf, from the pairs (first, count) of children and of the root.
    pairs = np.concatenate([children.reshape(-1, 2), root[None]])
    last = pairs[pairs[:, 1] > 0].sum(axis=1) - 1 - first
    if isinstance(primitives, Triangles):
        triangles = side_by_side(in_full(arrays).groups, rows, len(primitives.faces))
        triangles[last, 2, 3] *= -1
        columns["triangles"], columns["vertices"] = triangles, primitives.points
        columns["faces"] = primitives.faces + before["vertices"]
    else:
        # Marks of the top have no column of their own.
        columns["bits"][last] = 0
    return part, columns


def target_on(trees: Sequence[TreeArrays], device: Any) -> Any:
    """Return a `Target` with trees on a device, of which the last is the top, or the only one.

    Arrays of a scene's leaves are still empty (see `place_leaves`).
    """
    rows = {
        name: [np.empty((0, *shape), numpy_type(dtype)[0])]
        for name, (dtype, shape) in COLUMNS.items()
    }
    target, parts = Target(), []
    for arrays in trees:
        part, columns = columns_of(arrays, {name: sum(map(len, rows[name])) for name in rows})
        parts.append(part)
        for name, column in columns.items():
            rows[name].append(column)
    for name, some in rows.items():
        column = np.concatenate(some, dtype=some[0].dtype, casting="unsafe")
        setattr(target, name, wp.array(column, dtype=COLUMNS[name][0], device=device))
    target.probe = wp.vec2d(1.0 + 2.0**-30, (1.0 + 2.0**-30) ** 2)
    target.parts, target.top = wp.array(parts, dtype=Part, device=device), parts[-1]
    target.depth = int(parts[-1].depth) + max((int(part.depth) for part in parts[:-1]), default=0)
    return target


def scene_on(view: SceneView, device: Any) -> Any:
    """Return the `Target` of a scene of trees over triangles on a device."""
    target = target_on([*view.trees, view.tlas.arrays], device)
    target.is_scene = 1
    place_leaves(target, view, device)
    return target


def move_leaves(target: Any, view: SceneView, device: Any) -> bool:
    """Write the top of a scene and its leaves as they are now.

    Return False, with nothing written, if the new top has other numbers of nodes or leaves.
    """
    # The top is the last tree in all arrays. A binary tree over boxes has one node less than boxes,
    # whatever its shape, so usually the new top fits.
    nodes, count = int(target.top.nodes), len(view.tlas.arrays.nodes.ids)
    begin, first = target.boxes.shape[0] - nodes, target.ids.shape[0] - count
    places = {"boxes": begin, "children": begin, "ids": first, "bits": first}
    top, columns = columns_of(view.tlas.arrays, {**places, "faces": int(target.top.first_face)})
    if int(top.nodes) != nodes or columns["ids"].shape != (count,):
        return False
    for name, begin in places.items():
        fresh = wp.array(columns[name], dtype=COLUMNS[name][0], device=device)
        if len(fresh):
            wp.copy(getattr(target, name)[begin : begin + len(fresh)], fresh)
    target.depth += int(top.depth) - int(target.top.depth)
    target.top = top
    place_leaves(target, view, device)
    return True


def place_leaves(target: Any, view: SceneView, device: Any) -> None:
    """Write the arrays of a scene's leaves as they are now, from `part_of` to `owners`."""
    # A leaf without a box has NaN there.
    with np.errstate(invalid="ignore"):
        reach = np.abs(view.tlas.boxes.reshape(-1, 2, 3)).max(axis=1)
    for name, array, dtype in (
        ("part_of", view.tree_of, wp.int32), ("maps", view.maps.reshape(-1, 3, 4), wp.vec4d),
        ("inverses", view.inverses.reshape(-1, 3, 4), wp.vec4d), ("reach", reach, wp.vec3d),
        ("masks", view.masks, wp.int32), ("owners", view.owners, wp.int32),
    ):  # fmt: skip
        setattr(target, name, wp.array(np.ascontiguousarray(array), dtype=dtype, device=device))
