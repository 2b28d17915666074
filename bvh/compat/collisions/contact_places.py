"""Where parts of meshes, spheres and capsules touch: points, normals and depths."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bvh.compat.collisions.contact_data import Reals, common_points, crossed
from bvh.geometry.transforms import moved
from bvh.queries.answers.locations import normals_of
from bvh.queries.hierarchy import BVH
from bvh.queries.results import ScenePairs
from bvh.queries.solid_queries import must_bound_a_solid
from bvh.scene.scene import Scene
from bvh.scene.scene_view import SceneView
from bvh.scene.solids.round_instances import RoundInstances, unit_along
from bvh.tree.shapes import shape_of

# A segment is first cut into this many parts, and no more than so many are cut again.
PARTS, MOST, HALVINGS = 64, 4096, 40


def contact_places(
    view: SceneView, content: SceneView, pairs: ScenePairs
) -> tuple[Reals, Reals, Reals, NDArray[np.bool_]]:
    """Return points and normals (m, 3) of pairs of parts that touch, and depths of round ones.

    Depths are NaN where one part is a face. The last array has pairs that are not both faces.
    """
    first, second = pairs.leaf.T
    rounds = view.round_trees[view.tree_of[first]] | content.round_trees[content.tree_of[second]]
    points, normals = np.empty((2, len(pairs), 3))
    depths, flat = np.full(len(pairs), np.nan), _some_pairs(pairs, ~rounds)
    corners = [_corners(side, flat, k) for k, side in enumerate((view, content))]
    points[~rounds], normals[~rounds] = common_points(*corners), normals_of(corners[0])
    places = _round_places(view, content, _some_pairs(pairs, rounds))
    points[rounds], normals[rounds], depths[rounds] = places
    return points, normals, depths, np.asarray(rounds)


def _some_pairs(pairs: ScenePairs, rows: NDArray[np.bool_]) -> ScenePairs:
    """Return some of the pairs."""
    return ScenePairs(pairs.instance_id[rows], pairs.leaf[rows], pairs.prim_id[rows])


def _corners(view: SceneView, pairs: ScenePairs, side: int) -> Reals:
    """Return the corners of the faces on one side of pairs in the world, (m, 3, 3)."""
    leaf, prim = pairs.leaf[:, side], pairs.prim_id[:, side]
    corners = np.empty((len(leaf), 3, 3))
    for k in np.unique(leaf).tolist():
        rows = leaf == k
        triangles = view.trees[view.tree_of[k]].primitives
        local = triangles.points[triangles.faces[prim[rows]]]
        corners[rows] = moved(local.reshape(-1, 3), view.maps[k]).reshape(-1, 3, 3)
    return corners


def _round_places(
    view: SceneView, content: SceneView, pairs: ScenePairs
) -> tuple[Reals, Reals, Reals]:
    """Return points (m, 3), normals (m, 3) and depths (m,) of pairs that touch.

    The normal of a shape points to the other part. Depths are the sum of the radii less the
    distance of the axes; NaN beside a face.
    """
    rounds = RoundInstances(view, content)
    points, normals = np.empty((2, len(pairs), 3))
    depths = np.full(len(pairs), np.nan)
    for one, other in np.unique(pairs.leaf, axis=0).tolist():
        rows = np.flatnonzero((pairs.leaf == (one, other)).all(axis=1))
        found = rounds.pairs_of(one, other, pairs.prim_id[rows].astype(np.int64))
        both, gaps = (found.first, found.second), found.gaps()
        x, y, radii = gaps[:, 2:5], gaps[:, 5:8], np.stack([some.radii for some in both])
        faces = [not rounds.is_round(side, leaf) for side, leaf in enumerate((one, other))]
        axes = both[1].corners if faces[0] else both[0].corners
        ways = np.array([unit_along(*each) for each in zip(x - y, axes, strict=True)])
        r, s = radii[:, :, None]
        points[rows] = 0.5 * (x - r * ways) + 0.5 * (y + s * ways)
        if any(faces):
            # Where an axis crosses a face; these are no nearest points of `gaps`.
            crossings, off = crossed(both[0].corners, both[1].corners)
            points[rows[off]] = crossings[off]
        else:
            depths[rows] = radii.sum(axis=0) - np.linalg.norm(x - y, axis=1)
        normals[rows] = normals_of(both[0].corners) if faces[0] else -ways
    return points, normals, depths


def depth_in_mesh(
    tree: BVH, transform: Reals, shapes: BVH, placed: Reals, prims: Iterable[int]
) -> float:
    """Return how deep the deepest of some shapes is in a closed mesh, both moved.

    This is its radius less the least signed distance of its axis from the mesh, negative if the
    shape is outside. Of a capsule, the result may be too small by 2**-13 of the axis's length.
    """
    must_bound_a_solid("depth", "the mesh", tree)
    solid = Scene()
    solid.add(tree, transform)
    primitives = shapes.arrays.primitives
    rows = primitives.points[list(prims)]
    rows = shape_of(primitives).instances(rows, np.ascontiguousarray(placed[:3]))
    return float(max(row[-1] - _least(solid, row[6:9], row[-4:-1]) for row in rows))


def depth_of_meshes(placed: Iterable[tuple[BVH, Reals]]) -> float:
    """Return how deep two meshes, each moved, are in each other: see `BVH.penetration`."""
    one, two = (
        BVH.from_triangles(moved(tree.vertices, matrix[:3]), tree.faces, warn=False)
        for tree, matrix in placed
    )
    return float(one.penetration(two).depth)


def _least(solid: Scene, p: Reals, q: Reals) -> float:
    """Return the least signed distance of points of a segment from a solid."""
    # Distances change no faster than positions, so the least of a part is at least half of the sum
    # at its ends less its length.
    length, step = float(np.linalg.norm(q - p)), 1.0 / PARTS

    def distances(at: Reals) -> Reals:
        return np.asarray(solid.signed_distance(p + at[:, None] * (q - p)))

    if length == 0.0:
        return float(distances(np.zeros(1))[0])
    begin = np.linspace(0.0, 1.0, PARTS + 1)
    found = distances(begin)
    best, begin, first, last = float(found.min()), begin[:-1], found[:-1], found[1:]
    for _ in range(HALVINGS):
        left = 0.5 * (first + last) - 0.5 * step * length < best
        if not 0 < left.sum() <= MOST:
            break
        step, begin, first, last = 0.5 * step, begin[left], first[left], last[left]
        middle = distances(begin + step)
        best = min(best, float(middle.min()))
        first, last = np.append(first, middle), np.append(middle, last)
        begin = np.append(begin, begin + step)
    return best
