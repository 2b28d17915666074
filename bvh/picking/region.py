"""Region of a picture, a rectangle or a lasso: its frustum, and selection from one tree."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.picking.outlines import BORDER, MEET, UNSURE, encloses, judge_points, judge_triangles
from bvh.picking.projected import (
    Surface,
    project_points,
    project_triangles,
    surface_of,
    transformed,
)
from bvh.queries.tree_base import TreeBase
from bvh.runtime.arguments import ALL_BITS, kernel_input, reals, rows
from bvh.runtime.threads import share
from bvh.tree.face_bits import counted
from bvh.tree.primitives import Triangles

# What is selected, and whether a part of it has to be in the region, or all of it.
Selected = Literal["faces", "vertices", "instances"]
RegionMode = Literal["touching", "inside"]
KINDS, MODES = get_args(Selected), get_args(RegionMode)

# In trees of fewer faces all are tested, in larger ones those near the region.
FEW_FACES = 2048
# Triangles that a thread tests at a time.
CHUNK = 8192
# How much wider than the region the frustum of candidates is, in sizes of the coordinates: far
# more than projecting and moving vertices round.
SLACK = 2.0**-30


class Region(NamedTuple):
    """A closed outline in the picture (see `outlines`), and a frustum around all behind it."""

    outline: NDArray[np.float64]
    convex: bool
    planes: NDArray[np.float64]


class Part(NamedTuple):
    """The selected ids of one leaf: vertices if these are wanted, else primitives.

    `all` if instances are wanted and all primitives are selected.
    """

    ids: NDArray[np.int32]
    all: bool


def check_camera(camera: Any) -> None:
    """Check that an argument is a camera."""
    if not isinstance(camera, Camera):
        raise TypeError(f"camera must be a Camera, got {type(camera).__name__}")


def rectangle(camera: Camera, x0: float, y0: float, x1: float, y1: float) -> Region:
    """Return the region of a rectangle between two opposite corners."""
    numbers = []
    for name, value in {"x0": x0, "y0": y0, "x1": x1, "y1": y1}.items():
        number = reals(name, value)
        if number.shape != () or not np.isfinite(number):
            raise ValueError(f"{name} must be a finite number, got {value}")
        numbers.append(float(number))
    (left, right), (low, high) = sorted(numbers[0::2]), sorted(numbers[1::2])
    outline = np.array([[left, low], [right, low], [right, high], [left, high]])
    return _region(camera, outline, True)


def lasso(camera: Camera, polygon: ArrayLike) -> Region:
    """Return the region of a closed polygon."""
    outline = rows("polygon", polygon, 2)
    if len(outline) < 3 or not np.isfinite(outline).all():
        what = f"{len(outline)} points" if len(outline) < 3 else "some that are not finite"
        raise ValueError(f"polygon must be at least three points, all of them finite, got {what}")
    return _region(camera, outline, False)


def _region(camera: Camera, outline: NDArray[np.float64], convex: bool) -> Region:
    """Return the region of an outline without the points that repeat the one before them."""
    check_camera(camera)
    kept = outline[(outline != np.roll(outline, 1, axis=0)).any(axis=1)]
    kept = kernel_input(kept if len(kept) else outline[:1].copy())
    # What overflows far outside of the picture parts nothing from anything.
    with np.errstate(over="ignore", invalid="ignore"):
        planes = camera.frustum(*kept.min(axis=0).tolist(), *kept.max(axis=0).tolist())
    return Region(kept, convex, planes)


def near_leaves(
    region: Region, bounds: NDArray[np.float64], matrices: NDArray[np.float64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which boxes (n, 2, 3) under maps (n, 3, 4) may be in a region, which surely are."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = 0.5 * bounds[:, 0] + 0.5 * bounds[:, 1]
        half = 0.5 * bounds[:, 1] - 0.5 * bounds[:, 0]
        linear = np.abs(matrices[:, :, :3])
        centre = np.einsum("nij,nj->ni", matrices[:, :, :3], middle) + matrices[:, :, 3]
        reach = np.einsum("nij,nj->ni", linear, half)
        size = np.abs(centre) + reach + np.einsum("nij,nj->ni", linear, np.abs(middle))
        normals, offsets = region.planes[:, :3], region.planes[:, 3]
        level = centre @ normals.T + offsets
        span = reach @ np.abs(normals).T
        margin = SLACK * (size @ np.abs(normals).T + np.abs(offsets))
        # What overflows is neither; a tree of nothing has bounds that are NaN.
        outside = (level + span < -margin).any(axis=1) | np.isnan(bounds).any(axis=(1, 2))
        within = (level - span > margin).all(axis=1) & region.convex
    return np.asarray(~outside), np.asarray(within & ~outside)


def reaching(region: Region, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which boxes in the world (n, 6) are not surely outside of a region.

    The corner that is farthest along a plane's normal decides; empty boxes are outside.
    """
    found = boxes[:, 0] <= boxes[:, 3]
    with np.errstate(invalid="ignore", over="ignore"):
        for *normal, offset in region.planes.tolist():
            # A column after the other, which is faster than rows of three.
            level, size = np.full(len(boxes), offset), np.full(len(boxes), abs(offset))
            for axis, n in enumerate(normal):
                term = n * boxes[:, axis + 3 if n > 0.0 else axis]
                level += term
                size += np.abs(term)
            found &= ~(level < -SLACK * size)
    return np.asarray(found)


def not_beside(region: Region, triangles: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which triangles (n, 3, 3) are not surely outside of a region."""
    normals, offsets = region.planes[:, :3], region.planes[:, 3]
    with np.errstate(invalid="ignore", over="ignore"):
        level = triangles @ normals.T + offsets
        margin = SLACK * (np.abs(triangles) @ np.abs(normals).T + np.abs(offsets))
        return np.asarray(~np.any(np.all(level < -margin, axis=1), axis=1))


class Leaf:
    """A tree under a selection: its triangles, and those that may be visible in a region.

    Faces that share no bit with the mask do not count.
    """

    def __init__(self, tree: TreeBase, mask: int = ALL_BITS) -> None:
        self.tree, self._mask = tree, mask

    @cached_property
    def surface(self) -> Surface:
        """All its triangles, computed on first access."""
        found, groups = surface_of(self.tree), self.tree.groups
        if groups is None:
            return found
        kept = counted(groups, self._mask)[found.owners]
        return Surface(found.points, found.faces[kept], found.owners[kept])

    @cached_property
    def owners(self) -> NDArray[np.int32]:
        """The primitives that have triangles."""
        return _marked(self.surface.owners, len(self.tree))

    def vertices(self) -> NDArray[np.int32]:
        """Return the vertices that have a face."""
        self.tree._must_hold("a selection of vertices", Triangles)
        return _marked(self.surface.faces, len(self.surface.points))

    def candidates(
        self, matrix: NDArray[np.float64], region: Region
    ) -> tuple[Surface, NDArray[np.int32]]:
        """Return the triangles, unplaced, that may be seen in a region, and their vertices."""
        tree = self.tree
        if len(tree) <= FEW_FACES or not isinstance(tree.arrays.primitives, Triangles):
            return self._everything()
        normals, offsets = region.planes[:, :3], region.planes[:, 3]
        largest = np.abs(tree.bounds).max(axis=0)
        size = np.abs(matrix[:, :3]) @ largest + np.abs(matrix[:, 3])
        margin = 2.0 * SLACK * (np.abs(normals) @ size + np.abs(offsets))
        shifts = normals @ matrix[:, 3] + offsets + margin
        local = np.column_stack([normals @ matrix[:, :3], shifts])
        if not np.isfinite(local).all():
            return self._everything()
        # Every tree of a scene is a `BVH`.
        ids = tree.overlap_frustum(local, mask=self._mask).prim_id  # type: ignore[attr-defined]
        if len(ids) == len(tree):
            return self._everything()
        return part_of(Surface(tree.vertices, tree.faces[ids], ids))

    def _everything(self) -> tuple[Surface, NDArray[np.int32]]:
        return self.surface, np.arange(len(self.surface.points), dtype=np.int32)


def part_of(surface: Surface) -> tuple[Surface, NDArray[np.int32]]:
    """Return a surface without the points that it does not use, and which those are that stay."""
    used = _marked(surface.faces, len(surface.points))
    numbers = np.empty(len(surface.points), np.int32)
    numbers[used] = np.arange(len(used), dtype=np.int32)
    return Surface(surface.points[used], numbers[surface.faces], surface.owners), used


def _marked(ids: NDArray[Any], count: int) -> NDArray[np.int32]:
    """Return the numbers below `count` that occur, ascending."""
    marks = np.zeros(count, np.bool_)
    marks[ids.ravel()] = True
    return np.flatnonzero(marks).astype(np.int32)


def locate_points(
    region: Region, corners: NDArray[np.float64], threads: int = 1
) -> NDArray[np.int8]:
    """Return where homogeneous points of the picture lie (see `outlines`)."""
    locations, corners = np.empty(len(corners), np.int8), kernel_input(corners)

    def work(begin: int, end: int) -> None:
        judge_points(region.outline, corners, begin, end, locations)

    share(len(corners), CHUNK, work, threads)
    return kernel_input(locations)


def select_faces(
    camera: Camera, region: Region, surface: Surface, want_inside: bool, threads: int
) -> NDArray[np.int32]:
    """Return the primitives whose transformed surface touches a region, or is all inside."""
    seen = project_triangles(camera, surface.points, surface.faces)
    corners, faces = kernel_input(seen.corners), kernel_input(seen.faces)
    locations = locate_points(region, corners, threads)
    verdicts = np.empty(len(faces), np.int8)

    def work(begin: int, end: int) -> None:
        judge_triangles(
            region.outline, region.convex, want_inside, corners, locations, faces, begin, end,
            verdicts,
        )  # fmt: skip

    share(len(faces), CHUNK, work, threads)
    for i in np.flatnonzero(verdicts == UNSURE):
        verdicts[i] = encloses(region.outline.tolist(), corners[faces[i]].tolist())
    selected = seen.owners[(verdicts == MEET) & (seen.whole if want_inside else True)]
    found = surface.owners[selected]
    count = int(surface.owners.max(initial=-1)) + 1
    if not want_inside:
        return _marked(found, count)
    # A box is inside if all its triangles are.
    inside = np.bincount(found, minlength=count)
    full = (inside == np.bincount(surface.owners, minlength=count)) & (inside > 0)
    return np.flatnonzero(full).astype(np.int32)


def select_part(
    camera: Camera,
    region: Region,
    leaf: Leaf,
    matrix: NDArray[np.float64],
    what: Selected,
    want_inside: bool,
    threads: int,
) -> Part:
    """Return the part of one leaf, a tree under an affine map (3, 4), that a region selects."""
    if what == "vertices":
        leaf.tree._must_hold("a selection of vertices", Triangles)
        _, used = leaf.candidates(matrix, region)
        if len(used) == len(leaf.tree.vertices):
            used = leaf.vertices()
        corners, seen = project_points(camera, moved(leaf.tree.vertices[used], matrix))
        return Part(used[(locate_points(region, corners, threads) >= BORDER) & seen], False)
    surface, _ = leaf.candidates(matrix, region)
    found = select_faces(camera, region, transformed(surface, matrix), want_inside, threads)
    # Only whole instances need the count of all triangles.
    return Part(found, what == "instances" and len(found) == len(leaf.owners))
