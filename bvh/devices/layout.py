"""The arrays of trees and scenes on a device, made from those for CPUs.

Nodes are binary (see `tree.binary_nodes`). Boxes are those of the wide nodes, and so are all
margins. Triangles of leaves lie one after the other, in float32 for the filter (see
`tree.triangle_groups`), and by ids for exact tests. Their marks tell which of them are in several
leaves, as a builder has split them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import warp as wp
from numpy.typing import NDArray

from bvh.devices.exchange import numpy_type
from bvh.tree.arrays import TreeArrays
from bvh.tree.binary_nodes import binary_nodes, unpacked_triangles
from bvh.tree.build import in_full
from bvh.tree.frame import FrameView
from bvh.tree.primitives import Triangles

# Entries of a stack. Deeper trees are answered on the CPU.
STACK = 96


@wp.struct
class Part:
    """A tree among those of a target: its root, its frame, and where its faces begin.

    Local coordinates are (x - centre) * 2**exponent; their absolute values are at most `bound`.
    `lower` and `upper` are the local corners of its box; `farthest` is the largest absolute value
    of x.
    """

    centre: wp.vec3d
    lower: wp.vec3d
    upper: wp.vec3d
    exponent: wp.int32
    bound: wp.float64
    farthest: wp.float64
    root: wp.int32  # a node, or the first triangle if it is a leaf
    count: wp.int32  # of triangles if the root is a leaf, else 0
    first_face: wp.int32  # the row of its face 0 in `Target.faces`
    is_empty: wp.int32  # 1 if it has no valid triangle
    depth: wp.int32  # levels of nodes
    nodes: wp.int32  # number of nodes


@wp.struct
class Target:
    """A tree, or a scene of trees, on a device, as `wp.func` take it.

    All trees lie one after the other in the same arrays. A scene also has leaves, each a tree under
    a map, and before all trees the top, a tree over the boxes of leaves (see `instances`).
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
    # The bits by which masks select a triangle, all bits without groups; not used in the top.
    bits: wp.array(dtype=wp.int32)
    vertices: wp.array(dtype=wp.vec3d)
    faces: wp.array(dtype=wp.vec3i)
    parts: wp.array(dtype=Part)
    top: Part
    depth: wp.int32  # levels of the top, and of the deepest tree of leaves below it
    is_scene: wp.int32
    probe: wp.vec2d  # a number whose square is no double, and that rounded (see `is_contracted`)
    part_of: wp.array(dtype=wp.int32)  # of each leaf: the index of its tree in `parts`
    maps: wp.array2d(dtype=wp.vec4d)  # (leaves, 3): rows of maps from a tree to the world
    inverses: wp.array2d(dtype=wp.vec4d)  # rows of the inverse maps, each number within an ulp
    leaf_boxes: wp.array2d(dtype=wp.vec3d)  # (leaves, 2): corners in the world, lower and upper
    reach: wp.array(dtype=wp.vec3d)  # the largest absolute coordinates of each leaf's box
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
    """Return (part, columns) of a tree over triangles, a `Part` and arrays by name.

    `columns` are the tree's rows in the arrays of a `Target`; `before` has the number of rows that
    lie before them in each array.
    """
    rows, primitives = arrays.nodes.ids, cast(Triangles, arrays.primitives)
    bits = arrays.face_bits if len(arrays.face_bits) else np.full(rows.shape, -1, np.int32)
    is_empty = (rows < 0).all(axis=1)
    if is_empty.any():
        # A leaf needs a triangle: one without any has face 0, with no bits, so that no ray hits it.
        rows, bits = rows.copy(), np.where(is_empty[:, None], 0, bits)
        rows[is_empty, 0] = 0
    used = rows >= 0
    starts, first = np.r_[0, np.cumsum(used.sum(axis=1))], before["ids"]
    boxes, children, root, depth = binary_nodes(arrays.nodes, starts, before["boxes"], first)
    view, part = FrameView(arrays.frame), Part()
    part.is_empty, part.depth, part.nodes = int(not arrays.nodes.size), depth, len(boxes)
    part.root, part.count, part.first_face = int(root[0]), int(root[1]), before["faces"]
    part.centre = wp.vec3d(*view.centre)
    part.lower, part.upper = (wp.vec3d(*row) for row in view.box)
    part.exponent, part.bound, part.farthest = int(view.exponent), view.bound, view.farthest
    triangles = unpacked_triangles(in_full(arrays).groups, rows, len(primitives.faces))
    # The last triangle of each leaf, from the pairs (first, count) of children and of the root.
    pairs = np.concatenate([children.reshape(-1, 2), root[None]])
    triangles[pairs[pairs[:, 1] > 0].sum(axis=1) - 1 - first, 2, 3] *= -1
    return part, {
        "boxes": boxes, "children": children, "triangles": triangles, "ids": rows[used],
        "bits": bits[used], "vertices": primitives.points,
        "faces": primitives.faces + before["vertices"],
    }  # fmt: skip


def target_on(trees: Sequence[TreeArrays], device: Any, leaves: int | None = None) -> Any:
    """Return a `Target` with trees over triangles on a device: a tree, or a scene of `leaves`.

    Without `leaves` there is one tree, which is the top. Otherwise the target begins with room for
    a top over that many leaves, and arrays of the leaves are still empty (see `instances`).
    """
    # The top has no triangles, but `triangles` and `ids` share their indices.
    n = leaves or 0
    nodes = max(n - 1, 0)
    room = {"boxes": nodes, "children": nodes, "triangles": n, "ids": n, "bits": n}
    rows = {
        name: [np.zeros((room.get(name, 0), *shape), numpy_type(dtype)[0])]
        for name, (dtype, shape) in COLUMNS.items()
    }
    target, parts = Target(), []
    for arrays in trees:
        part, columns = columns_of(arrays, {name: sum(map(len, rows[name])) for name in rows})
        parts.append(part)
        for name, column in columns.items():
            rows[name].append(column)
    for name, some in rows.items():
        column = np.concatenate(some, dtype=some[0].dtype)
        setattr(target, name, wp.array(column, dtype=COLUMNS[name][0], device=device))
    target.probe = wp.vec2d(1.0 + 2.0**-30, (1.0 + 2.0**-30) ** 2)
    target.is_scene = int(leaves is not None)
    if leaves is None:
        target.top = parts[0]
    target.parts = wp.array(parts, dtype=Part, device=device)
    # Later, `instances.build_top` adds the levels of a scene's top.
    target.depth = max((int(part.depth) for part in parts), default=0)
    return target
