"""Region of a picture, a rectangle or a lasso: its frustum, and selection from one tree."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera, check_camera
from bvh.camera.matrices import sides_of
from bvh.geometry.transforms import moved
from bvh.picking.outlines import BORDER, MEET, UNSURE, encloses, judge_points, judge_triangles
from bvh.picking.placed_trees import Floats, PickOptions, TreeFaces, distinct
from bvh.picking.projected import OwnedTriangles, project_points, project_triangles, transformed
from bvh.runtime.arguments import kernel_input, rows
from bvh.runtime.threads import share
from bvh.tree.primitives import Triangles

# Triangles that a thread tests at a time.
CHUNK = 8192


class Region(NamedTuple):
    """A closed outline in the picture (see `outlines`), and a frustum around what is seen in it."""

    outline: Floats  # (n, 2)
    convex: bool  # True of rectangles, False of lassos
    planes: Floats  # (k, 4), as of `Camera.frustum`


class SelectedPart(NamedTuple):
    """The ids of the vertices or primitives of one leaf that are selected."""

    ids: NDArray[np.int32]
    all: bool  # in selections of instances: whether all primitives are selected; otherwise False


def rectangle(camera: Camera, x0: float, y0: float, x1: float, y1: float) -> Region:
    """Return the region of a rectangle, given by two opposite corners in pixels, after checks."""
    (left, right), (low, high) = sides_of(x0, y0, x1, y1)
    outline = np.array([[left, low], [right, low], [right, high], [left, high]])
    return _region(camera, outline, True)


def lasso(camera: Camera, polygon: ArrayLike) -> Region:
    """Return the region of a closed polygon, (n, 2) in pixels with n >= 3, after checks."""
    outline = rows("polygon", polygon, 2)
    if len(outline) < 3 or not np.isfinite(outline).all():
        what = f"{len(outline)} points" if len(outline) < 3 else "some that are not finite"
        raise ValueError(f"polygon must be at least three points, all of them finite, got {what}")
    return _region(camera, outline, False)


def _region(camera: Camera, outline: Floats, convex: bool) -> Region:
    """Return the region of an outline (n, 2), from which repeated consecutive points are dropped.

    `convex` tells whether the region is convex.
    """
    check_camera(camera)
    corners = outline[(outline != np.roll(outline, 1, axis=0)).any(axis=1)]
    corners = kernel_input(corners if len(corners) else outline[:1].copy())
    # Planes far outside of the picture may overflow; these exclude nothing.
    with np.errstate(over="ignore", invalid="ignore"):
        planes = camera.frustum(*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())
    return Region(corners, convex, planes)


def locate_points(region: Region, points: Floats, threads: int = 1) -> NDArray[np.int8]:
    """Return the location, (n,), of homogeneous points (n, 3) of the picture in a region.

    A location is OUTSIDE, BORDER or INTERIOR.
    """
    locations, points = np.empty(len(points), np.int8), kernel_input(points)

    def work(begin: int, end: int) -> None:
        judge_points(region.outline, points, begin, end, locations)

    share(len(points), CHUNK, work, threads)
    return kernel_input(locations)


def select_faces(
    camera: Camera, region: Region, surface: OwnedTriangles, want_inside: bool, threads: int
) -> NDArray[np.int32]:
    """Return the ids of primitives, ascending, whose surface touches a region.

    If `want_inside`, all of the surface must be inside. `surface` has the triangles of all
    primitives in the world.
    """
    seen = project_triangles(camera, surface.points, surface.faces)
    corners, faces = kernel_input(seen.corners), kernel_input(seen.faces)
    locations = locate_points(region, corners, threads)
    verdicts = np.empty(len(faces), np.int8)
    given = region.outline, region.convex, want_inside, corners, locations, faces

    def work(begin: int, end: int) -> None:
        judge_triangles(*given, begin, end, verdicts)

    share(len(faces), CHUNK, work, threads)
    # Rational numbers decide the rest: True is MEET, False is APART.
    for i in np.flatnonzero(verdicts == UNSURE):
        verdicts[i] = encloses(region.outline.tolist(), corners[faces[i]].tolist())
    selected = seen.owners[(verdicts == MEET) & (seen.complete if want_inside else True)]
    found = surface.owners[selected]
    count = int(surface.owners.max(initial=-1)) + 1
    if not want_inside:
        return distinct(found, count)
    # A primitive is inside if all of its triangles are: one of a face, twelve of a box.
    inside = np.bincount(found, minlength=count)
    full = (inside == np.bincount(surface.owners, minlength=count)) & (inside > 0)
    return np.flatnonzero(full).astype(np.int32)


def select_part(
    camera: Camera, region: Region, leaf: TreeFaces, matrix: Floats, options: PickOptions
) -> SelectedPart:
    """Return the faces or vertices of one leaf that a region selects, as `options.what` tells.

    A leaf is a tree moved by `matrix` (3, 4), and `leaf` has the faces of the tree.
    """
    threads = options.threads or 1
    if options.what == "vertices":
        leaf.tree._must_hold("a selection of vertices", Triangles)
    surface, used = leaf.candidates(matrix, region.planes)
    if options.what == "vertices":
        # All vertices are candidates: leave out those without a face.
        if len(used) == len(leaf.tree.vertices):
            used = leaf.vertices()
        corners, seen = project_points(camera, moved(leaf.tree.vertices[used], matrix))
        return SelectedPart(used[(locate_points(region, corners, threads) >= BORDER) & seen], False)
    placed = transformed(surface, matrix)
    ids = select_faces(camera, region, placed, options.want_inside, threads)
    # Only for instances does it matter whether all primitives are selected.
    return SelectedPart(ids, options.what == "instances" and len(ids) == len(leaf.owners))


def select_parts(
    camera: Camera, region: Region, leaves: list[tuple[TreeFaces, Floats]], options: PickOptions
) -> list[SelectedPart]:
    """Return for each of some leaves what `select_part` returns, by tests of all their faces.

    Leaves are pairs of the faces of a tree and its map (3, 4). It is faster than `select_part` for
    leaves of few faces, as all are tested together.
    """
    threads = options.threads or 1
    if options.what == "vertices":
        used = [leaf.vertices() for leaf, _ in leaves]
        pairs = zip(leaves, used, strict=True)
        placed = [moved(leaf.tree.vertices[ids], matrix) for (leaf, matrix), ids in pairs]
        corners, seen = project_points(camera, np.concatenate(placed))
        chosen = (locate_points(region, corners, threads) >= BORDER) & seen
        flags = np.split(chosen, np.cumsum([len(ids) for ids in used])[:-1])
        return [SelectedPart(ids[some], False) for ids, some in zip(used, flags, strict=True)]
    surfaces = [transformed(leaf.surface, matrix) for leaf, matrix in leaves]
    # Points, and primitives, are numbered through all leaves: the first of each, and their number.
    points = np.cumsum([0, *(len(surface.points) for surface in surfaces)], dtype=np.int32)
    owners = np.cumsum([0, *(len(leaf.tree) for leaf, _ in leaves)], dtype=np.int32)
    together = OwnedTriangles(
        np.concatenate([surface.points for surface in surfaces]),
        np.concatenate([s.faces + first for s, first in zip(surfaces, points[:-1], strict=True)]),
        np.concatenate([s.owners + first for s, first in zip(surfaces, owners[:-1], strict=True)]),
    )
    found = select_faces(camera, region, together, options.want_inside, threads)
    parts = []
    for (leaf, _), first, some in zip(
        leaves, owners[:-1], np.split(found, found.searchsorted(owners[1:-1])), strict=True
    ):
        is_whole = options.what == "instances" and len(some) == len(leaf.owners)
        parts.append(SelectedPart(some - first, is_whole))
    return parts
