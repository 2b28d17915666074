"""Selection of faces, vertices or instances by a region of the picture, those visible alone.

A face is visible if one of these rays meets it first: those through the middles of device pixels in
the region, each divided into `samples` x `samples`; those at the middle of the face, and at three
points next to its corners, where these are in the region. So a face that is seen by a whole pixel
is never left out, nor is one that is seen whole, however small; what may be left out shows only a
part of itself, smaller than a pixel. A vertex is visible if nothing is in front of it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.picking.outlines import BORDER
from bvh.picking.projected import Surface, box_corners, transformed
from bvh.picking.region import (
    KINDS,
    MODES,
    Leaf,
    Part,
    Region,
    RegionMode,
    Selected,
    locate_points,
    near_leaves,
    part_of,
    reaching,
    select_part,
)
from bvh.picking.results import Pick, Selection
from bvh.runtime.arguments import bit_masks, check_option, thread_count, whole_number
from bvh.tree.primitives import Boxes, Obbs, Triangles

Floats = NDArray[np.float64]
Ids = NDArray[Any]
Flags = NDArray[np.bool_]

# Rays at a time.
BATCH = 2**19
# Corners are looked at from this far inside, in shares of the distance to the opposite edge.
INSET = 2.0**-10
# A vertex is not hidden by what is as near to it as this, in shares of its depth: the ray at its
# rounded pixel passes by so far.
CONTACT = 2.0**-32


class PickableScene(Protocol):
    """Interface of a scene that picking needs: instances of trees, and rays through them."""

    # The flattened instances that the last query worked on.
    _flattened: Any

    @property
    def leaves(self) -> Any:
        """The trees with their transforms and masks (see `Leaves`)."""

    def _current(self) -> Any:
        """Return the two levels, up to date; `boxes` are the bounds of leaves."""

    def name_of(self, leaf: int) -> str | None: ...
    def closest_hit(self, *rays: Any, **options: Any) -> Any: ...
    def all_hits(self, *rays: Any, **options: Any) -> Any: ...
    def pick(self, *cursor: Any, **options: Any) -> Pick | None: ...


def select(
    scene: PickableScene, camera: Camera, region: Region, what: Selected, mode: RegionMode,
    visible_only: bool, samples: int, mask: int, threads: int | None,
) -> Selection:  # fmt: skip
    """Return the selection of a region of the picture of a `Scene`, after checking the options."""
    check_option("what", what, KINDS)
    check_option("mode", mode, MODES)
    workers, want_inside = thread_count(threads), mode == "inside"
    rays_across = whole_number("samples", samples)
    finder = Finder(scene, camera, mask, workers)
    parts: dict[int, Part] = {}
    for row, full in zip(*(a.tolist() for a in finder.near(region)), strict=True):
        leaf, matrix = finder.leaf(row)
        if not full:
            part = select_part(camera, region, leaf, matrix, what, want_inside, workers)
        elif what == "vertices":
            part = Part(leaf.vertices(), False)
        else:
            part = Part(leaf.owners, True)
        if len(part.ids):
            parts[row] = part
    if visible_only and what == "vertices":
        parts = {row: finder.visible_vertices(row, part) for row, part in parts.items()}
        parts = {row: part for row, part in parts.items() if len(part.ids)}
    elif visible_only and parts:
        parts = finder.visible_faces(region, parts, rays_across)
    if what == "instances":
        rows, ids = finder.instances(parts, want_inside), []
        offsets = np.zeros(len(rows) + 1, np.int64)
    else:
        rows, ids = np.array(list(parts), np.int32), [part.ids for part in parts.values()]
        offsets = np.cumsum([0, *map(len, ids)], dtype=np.int64)
    names = tuple(scene.name_of(row) for row in rows.tolist())
    owners = np.asarray(finder.leaves.instance_id[rows], np.int32)
    every = np.concatenate([np.empty(0, np.int32), *ids])
    return Selection(what, owners, rows, names, every, offsets)


class Finder:
    """The leaves of a scene, visited one by one during a selection."""

    def __init__(self, scene: PickableScene, camera: Camera, mask: int, threads: int) -> None:
        self.scene, self.camera, self.mask, self.threads = scene, camera, mask, threads
        self.leaves = scene.leaves
        self._looked_at: dict[int, Leaf] = {}
        bits = bit_masks("mask", mask)
        if bits.ndim:
            raise ValueError(f"mask must be one number, got an array of shape {bits.shape}")
        self._bits = int(bits)
        self.shown = (self.leaves.masks & bits) != 0

    def near(self, region: Region) -> tuple[NDArray[np.int64], Flags]:
        """Return the leaves that may be visible in a region, and which are certainly inside."""
        leaves = self.leaves
        if len(leaves) == 0:
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        # Their boxes exclude most leaves.
        rows = np.flatnonzero(self.shown & reaching(region, self.scene._current().boxes))
        bounds = np.array([tree.bounds for tree in leaves.trees])[leaves.tree_of[rows]]
        near, within = near_leaves(region, bounds, leaves.matrices[rows])
        return rows[near], within[near]

    def leaf(self, row: int) -> tuple[Leaf, Floats]:
        """Return a leaf and its map."""
        tree = int(self.leaves.tree_of[row])
        if tree not in self._looked_at:
            self._looked_at[tree] = Leaf(self.leaves.trees[tree], self._bits)
        return self._looked_at[tree], self.leaves.matrices[row]

    def cast(self, points: Floats, t_max: Any) -> Any:
        """Return the closest hits of the rays through points (n, 2) of the picture."""
        rays = self.camera.ray(points[:, 0], points[:, 1])
        return self.scene.closest_hit(
            *rays, self.camera.near, t_max, mask=self.mask, threads=self.threads
        )

    def instances(self, parts: dict[int, Part], want_inside: bool) -> NDArray[np.int32]:
        """Return the first leaf of each instance with a selected leaf, or with no other."""
        owners = self.leaves.instance_id
        chosen = np.unique(owners[np.array(list(parts), np.int64)])
        if want_inside:
            partly = self.shown.copy()
            partly[[row for row, part in parts.items() if part.all]] = False
            # Empty leaves are inside wherever the rest is.
            trees = self.leaves.trees
            full = np.array([not np.isnan(tree.bounds).any() for tree in trees], np.bool_)
            partly &= full[self.leaves.tree_of]
            chosen = chosen[~np.isin(chosen, owners[partly])]
        return np.searchsorted(owners, chosen).astype(np.int32)

    def visible_faces(
        self, region: Region, parts: dict[int, Part], samples: int
    ) -> dict[int, Part]:
        """Return the faces of a selection that the camera sees."""
        seen = self._faces_at_pixels(region, samples)
        # Ascending, so that those of a leaf stand together.
        leaves = np.array(list(parts), np.int64)
        begins = seen.searchsorted(_codes(leaves, 0)).tolist()
        ends = seen.searchsorted(_codes(leaves + 1, 0)).tolist()
        found = {
            row: np.isin(_codes(row, part.ids), seen[begin:end])
            for (row, part), begin, end in zip(parts.items(), begins, ends, strict=True)
        }
        waiting = [row for row, flags in found.items() if not flags.all()]
        batch = np.cumsum([len(parts[row].ids) for row in waiting], dtype=np.int64) // BATCH
        for rows in np.split(waiting, np.flatnonzero(np.diff(batch)) + 1) if waiting else ():
            self._look_closely(region, parts, found, rows.tolist())
        return {row: part._replace(ids=part.ids[found[row]])
                for row, part in parts.items() if found[row].any()}  # fmt: skip

    def _faces_at_pixels(self, region: Region, samples: int) -> NDArray[np.int64]:
        """Return the codes of the faces that rays through the pixels of a region meet first."""
        camera, corners = self.camera, region.outline
        bounds = zip(corners.min(axis=0).tolist(), corners.max(axis=0).tolist(), strict=True)
        scale = samples * camera.pixel_ratio
        axes = []
        for (low, high), size in zip(bounds, (camera.width, camera.height), strict=True):
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
                points = points[_held(region, points)]
            found.append(np.unique(self._faces_at(points)))
        return np.unique(np.concatenate(found))

    def _faces_at(self, points: Floats) -> NDArray[np.int64]:
        """Return the codes of what rays through points (n, 2) of the picture meet first."""
        found = np.empty(len(points), np.int64)
        for first in range(0, len(points), BATCH):
            hits = self.cast(points[first : first + BATCH], self.camera.far)
            codes = _codes(hits.leaf, hits.prim_id)
            found[first : first + BATCH] = np.where(hits.prim_id >= 0, codes, -1)
        return found

    def _look_closely(
        self, region: Region, parts: dict[int, Part], found: dict[int, Flags], rows: list[int]
    ) -> None:
        """Mark those faces of some leaves that rays of their own meet first, all cast at once."""
        surfaces = [self._transformed(row, parts[row].ids[~found[row]]) for row in rows]
        triangles, prims, leaves = joined(rows, surfaces)
        codes = _codes(leaves, prims)
        seen = np.zeros(len(codes), np.bool_)
        third = np.full(3, 1.0 / 3.0)
        corners = (1.0 - 2.0 * INSET) * np.eye(3) + INSET * (1.0 - np.eye(3))
        for weights in (third, *corners):
            left = np.flatnonzero(~seen)
            at, depth = self._in_picture(np.einsum("k,nkj->nj", weights, triangles[left]))
            good = (depth >= self.camera.near) & (depth <= self.camera.far)
            good[good] = _held(region, at[good])
            left, at = left[good], at[good]
            seen[left] = self._faces_at(at) == codes[left]
        ends = np.cumsum([len(surface.faces) for surface in surfaces])
        for row, own, mine in zip(
            rows, np.split(prims, ends[:-1]), np.split(seen, ends[:-1]), strict=True
        ):
            found[row] |= np.isin(parts[row].ids, own[mine])

    def _in_picture(self, points: Floats) -> tuple[Floats, Floats]:
        """Return pixels (n, 2) and depths of points; depths outside the picture are NaN."""
        x, y, depth = self.camera.project(points)
        at = np.stack([x, y], axis=1)
        size = np.array([self.camera.width, self.camera.height]) / self.camera.pixel_ratio
        return at, np.where(((at >= 0.0) & (at <= size)).all(axis=1), depth, np.nan)

    def visible_vertices(self, row: int, part: Part) -> Part:
        """Return the vertices of a leaf that nothing is in front of, but for faces at them."""
        leaf, matrix = self.leaf(row)
        points = moved(leaf.tree.vertices[part.ids], matrix)
        at, depth = self._in_picture(points)
        good = np.flatnonzero(~np.isnan(depth))
        seen = np.zeros(len(points), np.bool_)
        for first in range(0, len(good), BATCH):
            some = good[first : first + BATCH]
            reach = np.minimum(depth[some] - CONTACT * np.abs(depth[some]), self.camera.far)
            hits = self.cast(at[some], reach)
            seen[some] = hits.prim_id < 0
            blocked = np.flatnonzero(hits.prim_id >= 0)
            corners = self._corners(hits.leaf[blocked], hits.prim_id[blocked])
            hidden = some[blocked]
            seen[hidden] = (corners == points[hidden][:, None]).all(axis=2).any(axis=1)
        return part._replace(ids=part.ids[seen])

    def _transformed(self, row: int, prims: Ids) -> Surface:
        """Return the transformed surface of some primitives of a leaf."""
        leaf, matrix = self.leaf(row)
        if isinstance(leaf.tree.arrays.primitives, Triangles):
            some = Surface(leaf.tree.vertices, leaf.tree.faces[prims], np.asarray(prims))
        else:
            points, faces, owners = leaf.surface
            chosen = np.isin(owners, prims)
            some = Surface(points, faces[chosen], owners[chosen])
        return transformed(part_of(some)[0], matrix)

    def _corners(self, rows: Ids, prims: Ids) -> Floats:
        """Return the transformed corners of primitives of several leaves, (n, 8, 3)."""
        corners = np.full((len(rows), 8, 3), np.nan)
        for row in np.unique(rows):
            leaf, matrix = self.leaf(int(row))
            of_row = np.flatnonzero(rows == row)
            primitives = leaf.tree.arrays.primitives
            if isinstance(primitives, Boxes | Obbs):
                local = box_corners(primitives, prims[of_row])
            else:
                local = leaf.tree.vertices[leaf.tree.faces[prims[of_row]]]
            world = moved(local.reshape(-1, 3), matrix).reshape(local.shape)
            corners[of_row, : local.shape[1]] = world
        return corners


def joined(rows: list[int], surfaces: list[Surface]) -> tuple[Floats, Ids, Ids]:
    """Return the triangles (n, 3, 3) of surfaces of leaves, and their primitives and leaves."""
    triangles = np.concatenate([surface.points[surface.faces] for surface in surfaces])
    prims = np.concatenate([surface.owners for surface in surfaces])
    return triangles, prims, np.repeat(rows, [len(surface.faces) for surface in surfaces])


def _codes(leaf: Any, prim: Any) -> NDArray[np.int64]:
    """Return one number for each face of a scene; negative for none."""
    return (np.asarray(leaf, np.int64) << 32) | np.asarray(prim, np.int64)


def _held(region: Region, points: Floats) -> Flags:
    """Return which points (n, 2) of the picture are in a region."""
    corners = np.column_stack([points, np.ones(len(points))])
    return np.asarray(locate_points(region, corners) >= BORDER)
