"""Selection of faces, vertices or instances by a region of the picture of a scene."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.geometry.transforms import moved
from bvh.picking.projected import Surface, box_corners, transformed
from bvh.picking.region import (
    KINDS,
    MODES,
    Leaf,
    Part,
    Region,
    check_choice,
    near_leaves,
    part_of,
    reaching,
    select_part,
    whole_part,
)
from bvh.picking.results import Pick
from bvh.picking.selections import Selection
from bvh.picking.visibility import BATCH, codes_of, pixel_codes, seen_by_own_rays, seen_vertices
from bvh.runtime.arguments import bit_masks, thread_count, whole_number
from bvh.tree.primitives import Boxes, Obbs, Triangles


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
    scene: PickableScene, camera: Camera, region: Region, what: str, mode: str,
    visible_only: bool, samples: int, mask: int, threads: int | None,
) -> Selection:  # fmt: skip
    """Return the selection of a region of the picture, after checking the options."""
    check_choice("what", what, KINDS)
    check_choice("mode", mode, MODES)
    workers, want_inside = thread_count(threads), mode == "inside"
    finder = Finder(scene, camera, mask, whole_number("samples", samples), workers)
    rows, within = finder.near(region)
    parts: dict[int, Part] = {}
    for row, full in zip(rows.tolist(), within.tolist(), strict=True):
        leaf, matrix = finder.leaf(row)
        if full:
            part = whole_part(leaf, what)
        else:
            part = select_part(camera, region, leaf, matrix, what, want_inside, workers)
        if len(part.faces) or len(part.vertices):
            parts[row] = part
    if visible_only:
        parts = finder.visible(region, parts)
    if what == "instances":
        return finder.instances(parts, want_inside)
    return finder.selection(what, parts)


class Finder:
    """The leaves of a scene, visited one by one during a selection."""

    def __init__(
        self, scene: PickableScene, camera: Camera, mask: int, samples: int, threads: int
    ) -> None:
        self.scene, self.camera, self.mask, self.samples = scene, camera, mask, samples
        self.threads = threads
        self.leaves = scene.leaves
        self._looked_at: dict[int, Leaf] = {}
        bits = bit_masks("mask", mask)
        if bits.ndim:
            raise ValueError(f"mask must be one number, got an array of shape {bits.shape}")
        self.shown = (self.leaves.masks & bits) != 0

    def near(self, region: Region) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the leaves that may be visible in a region, and which are certainly inside."""
        leaves = self.leaves
        if len(leaves) == 0:
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        # Their boxes exclude most leaves.
        rows = np.flatnonzero(self.shown & reaching(region, self.scene._current().boxes))
        bounds = np.array([tree.bounds for tree in leaves.trees])[leaves.tree_of[rows]]
        near, within = near_leaves(region, bounds, leaves.matrices[rows])
        return rows[near], within[near]

    def leaf(self, row: int) -> tuple[Leaf, NDArray[np.float64]]:
        """Return a leaf and its map."""
        tree = int(self.leaves.tree_of[row])
        if tree not in self._looked_at:
            self._looked_at[tree] = Leaf(self.leaves.trees[tree])
        return self._looked_at[tree], self.leaves.matrices[row]

    def cast(self, origins: Any, directions: Any, t_min: Any, t_max: Any) -> Any:
        return self.scene.closest_hit(
            origins, directions, t_min, t_max, mask=self.mask, threads=self.threads
        )

    def visible(self, region: Region, parts: dict[int, Part]) -> dict[int, Part]:
        """Return the part of a selection that the camera sees."""
        if any(len(part.vertices) for part in parts.values()):
            return {row: kept for row, part in parts.items()
                    if len((kept := self._seen_vertices(row, part)).vertices)}  # fmt: skip
        if not parts:
            return parts
        seen = pixel_codes(self.cast, self.camera, region, self.samples)
        # Ascending, so that those of a leaf stand together.
        leaves = np.array(list(parts), np.int64)
        begins = seen.searchsorted(codes_of(leaves, 0)).tolist()
        ends = seen.searchsorted(codes_of(leaves + 1, 0)).tolist()
        found, waiting = {}, []
        count = 0
        for (row, part), begin, end in zip(parts.items(), begins, ends, strict=True):
            found[row] = np.isin(codes_of(row, part.faces), seen[begin:end])
            if not found[row].all():
                waiting.append(row)
                count += len(part.faces)
            if count > BATCH:
                self._look_closely(region, parts, found, waiting)
                waiting, count = [], 0
        self._look_closely(region, parts, found, waiting)
        return {row: part._replace(faces=part.faces[found[row]])
                for row, part in parts.items() if found[row].any()}  # fmt: skip

    def _look_closely(
        self,
        region: Region,
        parts: dict[int, Part],
        found: dict[int, NDArray[np.bool_]],
        rows: list[int],
    ) -> None:
        """Mark those faces of some leaves that rays of their own find visible, all cast at once."""
        if not rows:
            return
        surfaces = [self._placed(row, parts[row].faces[~found[row]]) for row in rows]
        sizes = [len(surface.faces) for surface in surfaces]
        shifts = np.cumsum([0, *(len(surface.points) for surface in surfaces)])
        faces = [s.faces + shift for s, shift in zip(surfaces, shifts, strict=False)]
        owners = np.concatenate([surface.owners for surface in surfaces])
        points = np.concatenate([surface.points for surface in surfaces])
        codes = codes_of(np.repeat(rows, sizes), owners)
        own = seen_by_own_rays(
            self.cast, self.camera, region, Surface(points, np.concatenate(faces), owners), codes
        )
        ends = np.cumsum(sizes).tolist()
        for row, surface, size, end in zip(rows, surfaces, sizes, ends, strict=True):
            found[row] |= np.isin(parts[row].faces, surface.owners[own[end - size : end]])

    def _seen_vertices(self, row: int, part: Part) -> Part:
        leaf, matrix = self.leaf(row)
        points = moved(leaf.tree.vertices[part.vertices], matrix)
        seen = seen_vertices(self.cast, self.camera, points, self._corners)
        return part._replace(vertices=part.vertices[seen])

    def _placed(self, row: int, prims: NDArray[Any]) -> Surface:
        """Return the transformed surface of some primitives of a leaf."""
        leaf, matrix = self.leaf(row)
        if isinstance(leaf.tree.arrays.primitives, Triangles):
            some = Surface(leaf.tree.vertices, leaf.tree.faces[prims], np.asarray(prims))
            return transformed(part_of(some)[0], matrix)
        points, faces, owners = leaf.surface
        chosen = np.isin(owners, prims)
        return transformed(part_of(Surface(points, faces[chosen], owners[chosen]))[0], matrix)

    def _corners(self, rows: NDArray[Any], prims: NDArray[Any]) -> NDArray[np.float64]:
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

    def selection(self, what: str, parts: dict[int, Part]) -> Selection:
        """Return the selection of the parts of all leaves."""
        ids_of = [part.faces if what == "faces" else part.vertices for part in parts.values()]
        offsets = np.zeros(len(ids_of) + 1, np.int64)
        np.cumsum([len(ids) for ids in ids_of], out=offsets[1:])
        rows = np.array(list(parts), np.int32)
        ids = np.concatenate([np.empty(0, np.int32), *ids_of])
        return self._of_rows(what, rows, ids, offsets)

    def instances(self, parts: dict[int, Part], want_inside: bool) -> Selection:
        """Return the instances with a selected leaf, or if `want_inside` with no other leaf."""
        owners = self.leaves.instance_id
        rows = np.array(list(parts), np.int64)
        chosen = np.unique(owners[rows])
        if want_inside:
            partly = self.shown.copy()
            partly[[row for row, part in parts.items() if part.all]] = False
            # Empty leaves are inside wherever the rest is.
            trees = self.leaves.trees
            full = np.array([not np.isnan(tree.bounds).any() for tree in trees], np.bool_)
            partly &= full[self.leaves.tree_of]
            chosen = chosen[~np.isin(chosen, owners[partly])]
        first = np.searchsorted(owners, chosen).astype(np.int32)
        none = np.empty(0, np.int32)
        return self._of_rows("instances", first, none, np.zeros(len(first) + 1, np.int64))

    def _of_rows(
        self, what: str, rows: NDArray[np.int32], ids: NDArray[np.int32], offsets: NDArray[np.int64]
    ) -> Selection:
        names = tuple(self.scene.name_of(row) for row in rows.tolist())
        owners = np.asarray(self.leaves.instance_id[rows], np.int32)
        return Selection(what, owners, rows, names, ids, offsets)
