"""Oriented boxes of nodes hold the faces below them."""

from __future__ import annotations

import numpy as np
import pytest

from bvh import BVH
from bvh.runtime.simd import WIDTH
from bvh.tree.frame import FrameView
from bvh.tree.oriented_boxes import BOX_ROWS, oriented_boxes, plain_boxes
from bvh.tree.wide_nodes import lanes_of, rows_of

pytestmark = pytest.mark.answers


def faces_below(tree: BVH, node: int, lane: int) -> list[int]:
    """Return the faces below a child."""
    lanes = lanes_of(tree._arrays.nodes.data)
    code = lanes.codes[node, lane]
    if lanes.leaf[node, lane]:
        first, count = rows_of(np.array([code]))
        ids = tree._arrays.nodes.ids[first[0] : first[0] + count[0]].ravel()
        return [int(i) for i in ids if i >= 0]
    used = np.flatnonzero(lanes.leaf[code] | lanes.inner[code])
    return [i for k in used for i in faces_below(tree, code, k)]


@pytest.mark.parametrize("shape", ["soup", "sheet", "line", "point", "far"])
def test_boxes_hold_faces(shape: str, rng: np.random.Generator) -> None:
    """All vertices are in the box of every child that they are below, with and without area."""
    points = rng.normal(size=(300, 3)) * [4.0, 1.0, 0.25]
    if shape != "soup":
        points *= {"sheet": [1, 1, 0], "line": [1, 0, 0], "point": [0, 0, 0], "far": [1, 1, 1]}[
            shape
        ]
    points = points @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + (1e4 if shape == "far" else 0.5)
    faces = np.arange(300).reshape(-1, 3)
    tree = BVH.from_triangles(points, faces)
    view = FrameView(tree._arrays.frame)
    lanes = lanes_of(tree._arrays.nodes.data)
    local = (points - view.centre) * 2.0**view.exponent
    # Of float32 rows of triangle groups, which boxes are about.
    error = 2.0**-22 * view.bound
    for made in (oriented_boxes(tree._arrays), plain_boxes(tree._arrays)):
        boxes = made.reshape(-1, BOX_ROWS, WIDTH).astype(float)
        for node, lane in np.ndindex(lanes.codes.shape):
            centre, axes = boxes[node, :3, lane], boxes[node, 3:, lane].reshape(3, 3)
            used = lanes.leaf[node, lane] or lanes.inner[node, lane]
            assert np.isfinite(centre).all() == used
            if used:
                corners = local[faces[faces_below(tree, node, lane)]].reshape(-1, 3)
                for direction in rng.normal(size=(8, 3)):
                    reach = np.abs(axes @ direction).sum() + error * np.abs(direction).sum()
                    assert (np.abs((corners - centre) @ direction) <= reach).all()
