"""Fitting a camera to what it looks at: its outline, and where the eye has to be."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Share of the picture that a framed model fills: of its width or height, the first it reaches.
FILL = 0.8

# The most primitives whose vertices are projected; beyond it, corners of bounds take their place.
MAX_SIZE = 1 << 20

# Rounds of centring in the direction that leaves room; each leaves a small share of the error.
ROUNDS = 4


def outline_of(source: Any) -> Floats | None:
    """Return vertices, or corners of bounds where they are too many, (n, 3); None of all else."""
    if hasattr(source, "leaves"):
        found = _outline_of_leaves(source.leaves)
    elif not (hasattr(source, "kind") or hasattr(source, "corners")):
        return None
    elif len(source) > MAX_SIZE:
        found = corners_of(source.bounds)
    elif hasattr(source, "corners"):
        found = source.corners(np.arange(len(source))).reshape(-1, 3)
    else:
        found = _vertices(source)
    found = found[np.isfinite(found).all(axis=1)]
    return found if len(found) else None


def _outline_of_leaves(leaves: Any) -> Floats:
    shown = np.flatnonzero(leaves.masks != 0)
    sizes = np.array([len(tree) for tree in leaves.trees] or [0], np.int64)
    exact = int(sizes[leaves.tree_of[shown]].sum()) <= MAX_SIZE
    points = [_vertices(tree) if exact else corners_of(tree.bounds) for tree in leaves.trees]
    pairs = zip(leaves.tree_of[shown].tolist(), leaves.matrices[shown], strict=True)
    found = [points[tree] @ one[:, :3].T + one[:, 3] for tree, one in pairs]
    return np.concatenate(found) if found else np.empty((0, 3))


def in_view(points: Floats, right: Floats, up: Floats, forward: Floats) -> Floats:
    """Return points in coordinates right, up and depth, each rounded the same in any array."""
    x, y, z = points.T
    return np.stack([x * a[0] + y * a[1] + z * a[2] for a in (right, up, forward)], axis=1)


def eye_before(points: Floats, slopes: Floats) -> Floats:
    """Return the eye nearest to points that sees all of them, in coordinates right, up and depth.

    `slopes` are those of the view's sides: the largest |right| / depth and |up| / depth. In the
    direction that leaves room, the points are centred.
    """
    sides, depth = points[:, :2], points[:, 2]
    first = (sides - slopes * depth[:, None]).max(axis=0)
    last = (sides + slopes * depth[:, None]).min(axis=0)
    # |right - eye| <= slope * (depth - eye's depth) for all points.
    middle, deepest = 0.5 * first + 0.5 * last, (0.5 * last - 0.5 * first) / slopes
    near = float(deepest.min())
    other = 1 - int(deepest.argmin())
    away = depth - near
    if float(away.min()) > 0.0:
        for _ in range(ROUNDS):
            across = (sides[:, other] - middle[other]) / away
            low, high = int(across.argmin()), int(across.argmax())
            # Both then lie equally far from the centre.
            off = across[low] + across[high]
            middle[other] += off / (1.0 / away[low] + 1.0 / away[high])
    return np.array([middle[0], middle[1], near])


def _vertices(tree: Any) -> Floats:
    """Return the vertices that a tree's faces use, or the corners of its bounds."""
    if tree.kind != "triangles":
        return corners_of(tree.bounds)
    used = np.zeros(len(tree.vertices), np.bool_)
    used[tree.faces] = True
    return np.asarray(tree.vertices if used.all() else tree.vertices[used])


def corners_of(bounds: Floats) -> Floats:
    """Return the eight corners of a box, in the order of x, y and z."""
    return np.stack(np.meshgrid(*bounds.T, indexing="ij"), axis=-1).reshape(-1, 3)
