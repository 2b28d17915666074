"""Selection of faces, vertices or instances by a region of the picture: all, or the visible ones.

A face is visible if one of these rays meets it first: those through the middles of device pixels in
the region, each divided into `samples` x `samples`; those at the middle of the face, and at three
points next to its corners, where these are in the region. So a face that is seen by a whole pixel
is never left out, nor is one that is seen whole, however small; what may be left out shows only a
part of itself, smaller than a pixel. A vertex is visible if nothing is in front of it; so is a
point of a tree over points, and a segment if that holds for an end or its middle.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.picking import region as regions
from bvh.picking.outlines import BORDER
from bvh.picking.placed_trees import (
    Flags,
    Floats,
    Ints,
    PickOptions,
    PlacedTrees,
    TreeFaces,
    VisitedTrees,
    compacted,
    joined,
)
from bvh.picking.projected import OwnedTriangles, outlines_of, transformed
from bvh.picking.region import Region, SelectedPart
from bvh.picking.results import Selection
from bvh.picking.rounds import RoundRegion
from bvh.queries.hierarchy import BVH
from bvh.queries.tree_queries import RegionMode, Selected
from bvh.tree.primitives import THIN, Triangles
from bvh.tree.shapes import HOLLOW

# Rays that are cast at a time.
BATCH = 2**19
# Rays at corners of a face meet it this far inside, relative to the distance of the opposite edge.
INSET = 2.0**-10
# A vertex is hidden by what is nearer by more than this share of its depth: its pixel is rounded.
CONTACT = 2.0**-32


def select(placed: PlacedTrees, camera: Camera, region: Region, options: PickOptions) -> Selection:
    """Return what a region of the picture selects of placed trees, after checking the options."""
    options = options.for_selection()
    visited, what = SelectedTrees(placed, camera, options), options.what
    parts: dict[int, SelectedPart] = {}  # by the rows of their leaves
    few: list[int] = []  # the rows of leaves of few faces, which are tested together
    near, within = visited.near(region.planes)
    # The planes enclose the box around the outline: what is within the planes is inside a
    # rectangle, but not always inside a lasso.
    for row, is_inside in zip(near.tolist(), (within & region.convex).tolist(), strict=True):
        leaf, matrix = visited.leaf(row)
        is_round = isinstance(leaf.tree.arrays.primitives, HOLLOW) and what != "vertices"
        if not is_inside and is_round:
            part = visited.round_part(region, leaf, matrix)
        elif not is_inside and leaf.is_small:
            few.append(row)
            continue
        elif not is_inside:
            part = regions.select_part(camera, region, leaf, matrix, options)
        elif what == "vertices":
            part = SelectedPart(leaf.vertices(), False)
        else:
            part = SelectedPart(leaf.owners, True)
        parts[row] = part
    for some in _batches(few, [len(visited.leaf(row)[0].surface.points) for row in few]):
        leaves = [visited.leaf(row) for row in some]
        parts |= zip(some, regions.select_parts(camera, region, leaves, options), strict=True)
    parts = {row: parts[row] for row in sorted(parts) if len(parts[row].ids)}
    if options.visible_only and what == "vertices":
        parts = visited.visible_items(parts)
    elif options.visible_only and parts:
        # Rays never hit points and segments, so these are visible unless a face hides them.
        thin = {row for row in parts if visited.leaf(row)[0].tree.kind in THIN}
        solid = {row: part for row, part in parts.items() if row not in thin}
        seen = visited.visible_faces(region, solid) if solid else {}
        seen |= visited.visible_items({row: parts[row] for row in parts if row in thin})
        parts = {row: seen[row] for row in parts if row in seen}
    if what == "instances":
        rows, ids = visited.instances(parts), []
        offsets = np.zeros(len(rows) + 1, np.int64)
    else:
        rows, ids = np.array(list(parts), np.int32), [part.ids for part in parts.values()]
        offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
    names = tuple(placed.name_of(row) for row in rows.tolist())
    owners = np.asarray(placed.instance_id[rows], np.int32)
    every = np.concatenate([np.empty(0, np.int32), *ids])
    return Selection(what, owners, rows, names, every, offsets)


def select_in_tree(
    tree: BVH, camera: Camera, corners: Any, closed: bool = False, *,
    what: Selected = "faces", mode: RegionMode = "touching", visible_only: bool = False,
    samples: int = 1, mask: int | None = None, threads: int | None = None,
) -> Selection:  # fmt: skip
    """Return what a rectangle selects of a tree, or a lasso if `closed`; see `BVH.pick_rect`.

    `corners` are two opposite corners, (2, 2), or those of the lasso, (n, 2), in pixels.
    """
    if closed:
        region = regions.lasso(camera, corners)
    else:
        (x0, y0), (x1, y1) = corners
        region = regions.rectangle(camera, x0, y0, x1, y1)
    options = PickOptions(mask, threads, what, mode, visible_only, samples)
    return select(PlacedTrees.of(tree), camera, region, options)


class SelectedTrees(VisitedTrees):
    """Placed trees, with the parts of them that a region selects and those that a camera sees."""

    _round_region: RoundRegion | None = None  # of the only region that is used, created once

    def round_part(self, region: Region, leaf: TreeFaces, matrix: Floats) -> SelectedPart:
        """Return the spheres or capsules of a leaf that a region selects.

        `matrix` (3, 4) moves the tree of the leaf. All calls must have the same region.
        """
        options, threads = self.options, self.options.threads or 1
        if self._round_region is None:
            self._round_region = RoundRegion(self.camera, region, options.want_inside, threads)
        # Rows of `rounds` are both ends of an axis, three numbers each, and a radius.
        rounds, ids = leaf.rounds_in(matrix, region.planes)
        finite = np.isfinite(rounds).all(axis=1)
        rounds, ids = rounds[finite], ids[finite]
        solid = rounds[:, 6] > 0.0
        found = np.zeros(len(ids), np.bool_)
        found[solid] = self._round_region.select(rounds[solid])
        # Those of radius 0 are points and segments, tested as triangles with two equal corners.
        thin = np.flatnonzero(~solid)
        if len(thin):
            faces = np.arange(2 * len(thin), dtype=np.int32).reshape(-1, 2)[:, [0, 1, 1]]
            axes = OwnedTriangles(rounds[thin, :6].reshape(-1, 3), faces, thin.astype(np.int32))
            given = self.camera, region, axes, options.want_inside, threads
            found[regions.select_faces(*given)] = True
        ids = ids[found]
        # Only selections of instances need to know whether the whole leaf is selected.
        return SelectedPart(ids, options.what == "instances" and len(ids) == len(leaf.owners))

    def instances(self, parts: dict[int, SelectedPart]) -> NDArray[np.int32]:
        """Return the first leaf of each selected instance; `parts` are selected parts by leaf.

        A part of any leaf selects its instance. But where instances must be inside, all leaves of
        an instance, except empty and hidden ones, must be selected as a whole.
        """
        owners = self.placed.instance_id
        selected = np.unique(owners[np.array(list(parts), np.int64)])
        if self.options.want_inside:
            # Leaves that are shown, but not selected as a whole.
            outside = self.shown.copy()
            outside[[row for row, part in parts.items() if part.all]] = False
            is_empty = np.array([np.isnan(tree.bounds).any() for tree in self.placed.trees], bool)
            outside &= ~is_empty[self.placed.tree_of]
            selected = selected[~np.isin(selected, owners[outside])]
        # Rows are in the order of instances.
        return np.searchsorted(owners, selected).astype(np.int32)

    def visible_faces(
        self, region: Region, parts: dict[int, SelectedPart]
    ) -> dict[int, SelectedPart]:
        """Return the parts of a selection, by leaf, with only the faces that the camera sees.

        Leaves of which no face is seen are left out.
        """
        ids = [part.ids for part in parts.values()]
        counts = np.array([len(some) for some in ids])
        ends, rows = np.cumsum(counts), np.array(list(parts), np.int64)
        # Codes ascend, so those of a leaf are consecutive.
        codes = _codes(np.repeat(rows, counts), np.concatenate(ids))
        found = np.isin(codes, self._faces_at_pixels(region))
        # Faces that no ray through a pixel meets first get rays of their own, leaves together.
        for some in _batches(list(range(len(rows))), counts.tolist()):
            batch = slice(ends[some[0]] - counts[some[0]], ends[some[-1]])
            left = codes[batch][~found[batch]]
            if len(left):
                found[batch] |= np.isin(codes[batch], self._faces_at_own_rays(region, left))
        flags = zip(parts.items(), np.split(found, ends[:-1]), strict=True)
        return {row: part._replace(ids=part.ids[some]) for (row, part), some in flags if some.any()}

    def _faces_at_pixels(self, region: Region) -> NDArray[np.int64]:
        """Return the codes, ascending, of faces that rays through the region's pixels meet first.

        Each device pixel has `samples` x `samples` rays. A code is ``leaf << 32 | prim_id``.
        """
        camera, corners, samples = self.camera, region.outline, self.options.samples
        bounds = zip(corners.min(axis=0).tolist(), corners.max(axis=0).tolist(), strict=True)
        scale = samples * camera.pixel_ratio
        axes = []
        for (low, high), size in zip(bounds, (camera.width, camera.height), strict=True):
            # Sample k is at (k + 0.5) / scale; begin..end-1 are those in the box of the
            # region and in the picture. Limits avoid integers that are too large.
            last = size * samples
            begin = max(0, int(np.ceil(max(low * scale, -1.0) - 0.5)))
            end = min(last, int(np.floor(min(high * scale, last + 1.0) - 0.5)) + 1)
            axes.append((np.arange(begin, max(begin, end)) + 0.5) / scale)
        across, down = axes
        found = [np.empty(0, np.int64)]
        step = max(1, BATCH // max(1, len(across)))
        for first in range(0, len(down), step):
            x, y = np.meshgrid(across, down[first : first + step])
            points = np.stack([x.ravel(), y.ravel()], axis=1)
            if not region.convex:
                points = points[_is_in(region, points)]
            found.append(np.unique(self._faces_at(points)))
        return np.unique(np.concatenate(found))

    def _faces_at(self, points: Floats) -> NDArray[np.int64]:
        """Return the code ``leaf << 32 | prim_id`` of the first hit at each pixel (n, 2), or -1."""
        found = np.empty(len(points), np.int64)
        for first in range(0, len(points), BATCH):
            _, leaves, prims = self.cast(points[first : first + BATCH], self.camera.far)
            found[first : first + BATCH] = np.where(prims >= 0, _codes(leaves, prims), -1)
        return found

    def _faces_at_own_rays(self, region: Region, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the faces `codes` that rays at their middle or a corner meet first.

        `codes`, (n,), ascend; the result does not, and may have a code several times.
        """
        rows, begins = np.unique(codes >> 32, return_index=True)
        ids = np.split((codes & 0xFFFFFFFF).astype(np.int32), begins[1:])
        pairs = zip(rows.tolist(), ids, strict=True)
        surfaces = [self._world_triangles(row, some) for row, some in pairs]
        triangles, prims, leaves = joined(rows.tolist(), surfaces)
        # Of boxes and shapes, several triangles have the same code.
        codes = _codes(leaves, prims)
        seen = np.zeros(len(codes), np.bool_)
        # Weights of the corners at the middle of a face, and at a point next to each corner.
        third = np.full(3, 1.0 / 3.0)
        corners = (1.0 - 2.0 * INSET) * np.eye(3) + INSET * (1.0 - np.eye(3))
        for weights in (third, *corners):
            left = np.flatnonzero(~seen)
            pixels, depth = self._in_picture(np.einsum("k,nkj->nj", weights, triangles[left]))
            visible = (depth >= self.camera.near) & (depth <= self.camera.far)
            visible[visible] = _is_in(region, pixels[visible])
            left, pixels = left[visible], pixels[visible]
            seen[left] = self._faces_at(pixels) == codes[left]
        return codes[seen]

    def _in_picture(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the pixels (n, 2) and depths (n,) of points (n, 3); depth NaN outside the picture.

        A pixel is `pixel_ratio` device pixels wide.
        """
        x, y, depth = self.camera.project(points)
        pixels = np.stack([x, y], axis=1)
        size = np.array([self.camera.width, self.camera.height]) / self.camera.pixel_ratio
        return pixels, np.where(((pixels >= 0.0) & (pixels <= size)).all(axis=1), depth, np.nan)

    def visible_items(self, parts: dict[int, SelectedPart]) -> dict[int, SelectedPart]:
        """Return `parts`, by leaf, with only the vertices, points or segments that no face hides.

        A segment is visible if an end or its middle is. Leaves without visible items are left out.
        """
        visible: dict[int, SelectedPart] = {}
        for rows in _batches(list(parts), [len(part.ids) for part in parts.values()]):
            places = [self._places_of(row, parts[row].ids) for row in rows]
            points = np.concatenate(places, axis=1)
            seen = self._is_seen(points.reshape(-1, 3)).reshape(points.shape[:2]).any(axis=0)
            flags = np.split(seen, np.cumsum([place.shape[1] for place in places])[:-1])
            for row, some in zip(rows, flags, strict=True):
                if some.any():
                    visible[row] = parts[row]._replace(ids=parts[row].ids[some])
        return visible

    def _places_of(self, row: int, ids: Ints) -> Floats:
        """Return points in the world, (k, n, 3): an item is visible if one of its k points is.

        The items are the n vertices `ids` of leaf `row`, or its points or segments of these ids.
        """
        leaf, matrix = self.leaf(row)
        vertices = leaf.tree.vertices
        if self.options.what == "vertices":
            return moved(vertices[ids], matrix)[None]
        start, end = (moved(vertices[leaf.tree.faces[ids, k]], matrix) for k in (0, 1))
        return np.stack([start, end, 0.5 * start + 0.5 * end])

    def _is_seen(self, points: Floats) -> NDArray[np.bool_]:
        """Return which points (n, 3) are in the picture and hidden by no face.

        A face with a corner at the point does not hide it.
        """
        pixels, depth = self._in_picture(points)
        in_picture = np.flatnonzero(~np.isnan(depth))
        seen = np.zeros(len(points), np.bool_)
        for first in range(0, len(in_picture), BATCH):
            some = in_picture[first : first + BATCH]
            # Rays end a little before the points, as the pixels of these are rounded.
            t_max = np.minimum(depth[some] - CONTACT * np.abs(depth[some]), self.camera.far)
            _, leaves, prims = self.cast(pixels[some], t_max)
            seen[some] = prims < 0
            blocked = np.flatnonzero(prims >= 0)
            corners = self._corners(leaves[blocked], prims[blocked])
            hidden = some[blocked]
            seen[hidden] = (corners == points[hidden][:, None]).all(axis=2).any(axis=1)
        return seen

    def _world_triangles(self, row: int, prims: Ints) -> OwnedTriangles:
        """Return the triangles of the primitives `prims` of leaf `row`, in world coordinates."""
        leaf, matrix = self.leaf(row)
        if isinstance(leaf.tree.arrays.primitives, HOLLOW):
            return _inscribed(self.camera, leaf.moved_rounds(matrix, prims), np.asarray(prims))
        if isinstance(leaf.tree.arrays.primitives, Triangles):
            some = OwnedTriangles(leaf.tree.vertices, leaf.tree.faces[prims], np.asarray(prims))
        else:
            points, faces, owners = leaf.surface
            chosen = np.isin(owners, prims)
            some = OwnedTriangles(points, faces[chosen], owners[chosen])
        # Unused points are dropped where they are most of them.
        is_dense = 3 * len(some.faces) >= len(some.points)
        return transformed(some if is_dense else compacted(some)[0], matrix)

    def _corners(self, rows: Ints, prims: Ints) -> Floats:
        """Return the world corners of n primitives, (n, 8, 3); NaN after the three of a triangle.

        `rows` and `prims` are the leaf and the id of each. Spheres and capsules have no corners.
        """
        corners = np.full((len(rows), 8, 3), np.nan)
        for row in np.unique(rows):
            leaf, matrix = self.leaf(int(row))
            of_row = np.flatnonzero(rows == row)
            primitives = leaf.tree.arrays.primitives
            if isinstance(primitives, HOLLOW):
                continue
            if not isinstance(primitives, Triangles):
                local = outlines_of(primitives, prims[of_row])
            else:
                local = leaf.tree.vertices[leaf.tree.faces[prims[of_row]]]
            world = moved(local.reshape(-1, 3), matrix).reshape(local.shape)
            corners[of_row, : local.shape[1]] = world
        return corners


def _inscribed(camera: Camera, rounds: Floats, prims: Ints) -> OwnedTriangles:
    """Return two triangles inside each sphere or capsule, with corners near the edge of its image.

    Rays at the middle and corners of these triangles test whether a shape is visible. Rows (n, 7)
    of `rounds` have both ends of an axis and a radius; `prims`, (n,), are the ids of the shapes.
    """
    # For each end, two diameters of its ball, at right angles to the view and to each other.
    ends, extremes = (rounds[:, :3], rounds[:, 3:6]), []
    for end in ends:
        # The direction of view at this end.
        view = end - camera.eye if camera.perspective else np.tile(camera.forward, (len(end), 1))
        across = np.cross(view, camera.step_y)
        with np.errstate(invalid="ignore"):
            for axis in (across, np.cross(view, across)):
                shift = rounds[:, 6:] * (axis / np.linalg.norm(axis, axis=1)[:, None])
                extremes.append((end - shift, end + shift))
    # One triangle has a diameter of the first ball and a point of the second; the other, reversed.
    # `extremes` has two diameters of the first ball, then two of the second one.
    (a, b), (_, c), (d, e), (f, _) = extremes
    corners = [np.stack(three, axis=1) for three in ((a, b, f), (d, e, c))]
    points = np.concatenate(corners).reshape(-1, 3)
    faces = np.arange(len(points), dtype=np.int32).reshape(-1, 3)
    return OwnedTriangles(points, faces, np.tile(prims, len(corners)).astype(np.int32))


def _batches(rows: list[int], sizes: list[int]) -> list[list[int]]:
    """Return `rows`, in order, in lists whose `sizes`, one for each row, sum up to about BATCH."""
    batches: list[list[int]] = []
    total = BATCH
    for row, size in zip(rows, sizes, strict=True):
        if total >= BATCH:
            batches.append([])
            total = 0
        batches[-1].append(row)
        total += size
    return batches


def _codes(leaf: ArrayLike, prim: ArrayLike) -> NDArray[np.int64]:
    """Return the code ``leaf << 32 | prim`` of each face, which is -1 if `prim` is -1."""
    return (np.asarray(leaf, np.int64) << 32) | np.asarray(prim, np.int64)


def _is_in(region: Region, points: Floats) -> Flags:
    """Return which points (n, 2) of the picture are in a region or on its border."""
    corners = np.column_stack([points, np.ones(len(points))])
    return np.asarray(regions.locate_points(region, corners) >= BORDER)
