"""The colours of hits: which way surfaces face in the world, and what light makes of that."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.camera import Camera
from bvh.primitives import Boxes, Triangles
from bvh.rays import CountedHits, CountedSceneHits, Hits, SceneHits
from bvh.scene import Scene
from bvh.simd import WIDTH
from bvh.tree import BVH

SHADES = ("normals", "clay", "depth", "id", "instance", "cost")

# Colours of a ray's cost, from nothing to as much as HOTTEST visits of nodes and groups of
# primitives: the same in all pictures, so that they can be compared.
HEAT = np.array([[0.0, 0.0, 0.05], [0.1, 0.1, 0.6], [0.7, 0.1, 0.4], [1.0, 0.6, 0.1], [1, 1, 0.9]])
HOTTEST = 60.0

SKY = np.array([[0.93, 0.95, 0.98], [0.78, 0.83, 0.90]])

Floats = NDArray[np.float64]


class Surfaces:
    """The primitives of a tree, or of all leaves of a scene, in the world."""

    def __init__(self, source: BVH | Scene) -> None:
        self.trees: list[Any] = [source]
        self.tree_of = np.zeros(1, np.int32)
        self.matrices = np.eye(3, 4)[None]
        given: list[Floats | None] = [None]
        if isinstance(source, Scene):
            leaves = source.leaves
            self.trees, self.tree_of = leaves.trees, leaves.tree_of
            self.matrices = leaves.matrices
            given = [source.attributes(tree).vertex_normals for tree in self.trees]
        self._vertex_normals = given

    def normals(self, leaf: NDArray[Any], prim: NDArray[Any], points: Floats) -> Floats:
        """Return unit normals in the world: by the moved winding, or outward from boxes."""
        found = np.zeros((len(leaf), 3))
        for tree, rows in self._by_tree(leaf):
            matrices = self.matrices[leaf[rows]]
            primitives = self.trees[tree].arrays.primitives
            if isinstance(primitives, Triangles):
                corners = primitives.points[primitives.faces[prim[rows]]]
                with np.errstate(all="ignore"):
                    edges = corners[:, 1:] - corners[:, :1]
                    edges = np.einsum("nij,nkj->nki", matrices[:, :, :3], edges)
                    found[rows] = np.cross(_unit(edges[:, 0]), _unit(edges[:, 1]))
            else:
                found[rows] = _box_normals(primitives, prim[rows], matrices, points[rows])
        return _unit(found)

    def smooth_normals(
        self, leaf: NDArray[Any], prim: NDArray[Any], u: Floats, v: Floats, flat: Floats
    ) -> Floats:
        """Return what vertex normals make of hits, on the same side as the flat normals."""
        found = flat.copy()
        for tree, rows in self._by_tree(leaf):
            normals, primitives = self._normals_of(tree), self.trees[tree].arrays.primitives
            if normals is None:
                continue
            weights = np.stack([1.0 - u[rows] - v[rows], u[rows], v[rows]], axis=1)
            local = np.einsum("ni,nij->nj", weights, normals[primitives.faces[prim[rows]]])
            # By the transform's cofactors: its inverse, transposed, but for a factor.
            a, b, c = np.moveaxis(self.matrices[leaf[rows], :, :3], 1, 0)
            cofactors = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
            found[rows] = _unit(np.einsum("nij,nj->ni", cofactors, local))
        lost = ~(np.abs(found).max(axis=1, initial=0.0) > 0.0)
        found[lost] = flat[lost]
        return found * np.where((found * flat).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]

    def _by_tree(self, leaf: NDArray[Any]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return each tree that has hits, and which those are."""
        trees = self.tree_of[leaf]
        order = np.argsort(trees, kind="stable")
        numbers, first = np.unique(trees[order], return_index=True)
        return list(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))

    def _normals_of(self, tree: int) -> Floats | None:
        """Return a tree's vertex normals: its mesh's, or means of faces; None for boxes."""
        primitives = self.trees[tree].arrays.primitives
        if not isinstance(primitives, Triangles):
            return None
        known = self._vertex_normals[tree]
        if known is None:
            points, faces = primitives.points, primitives.faces
            with np.errstate(all="ignore"):
                a, b, c = (points[faces[:, k]] for k in range(3))
                flat = np.nan_to_num(_unit(np.cross(b - a, c - a)))
            ids, weights = faces.ravel(), np.repeat(flat, 3, axis=0)
            sums = [np.bincount(ids, weights[:, k], len(points)) for k in range(3)]
            known = self._vertex_normals[tree] = _unit(np.stack(sums, axis=1))
        return known


class Shader:
    """Turns hits into colours between 0 and 1."""

    def __init__(self, source: BVH | Scene, camera: Camera, threads: int | None) -> None:
        self.source, self.camera, self.threads = source, camera, threads
        self.surfaces = Surfaces(source)
        self.bounds = source.bounds
        corners = np.stack(np.meshgrid(*self.bounds.T, indexing="ij"), axis=-1).reshape(-1, 3)
        depth = (corners - camera.eye) @ camera.forward
        self.near, self.far = float(depth.min()), float(depth.max())

    def sky(self, rows: Floats) -> Floats:
        """Return a colour for each row of the picture."""
        share = (rows / self.camera.height)[:, None]
        return np.asarray(SKY[0] * (1.0 - share) + SKY[1] * share)

    def colours(
        self, shade: str, hits: Hits, origins: Floats, directions: Floats, rows: Floats
    ) -> Floats:
        """Return the colours of hits, shape (height, width, 3), and of the sky in these rows."""
        if isinstance(hits, CountedHits | CountedSceneHits):
            return _heat(hits)
        colours = np.repeat(self.sky(rows)[:, None], hits.t.shape[1], axis=1)
        seen = hits.mask
        if seen.any():
            origins = np.broadcast_to(origins, (*seen.shape, 3))[seen]
            directions = np.broadcast_to(directions, (*seen.shape, 3))[seen]
            colours[seen] = self._lit(shade, hits[seen], origins, directions)
        return colours

    def _lit(self, shade: str, hits: Hits, origins: Floats, directions: Floats) -> Floats:
        """Return the colours of hits, shape (n, 3)."""
        if shade == "depth":
            share = (hits.t - self.near) / max(self.far - self.near, np.finfo(np.float64).tiny)
            return np.repeat((1.0 - 0.85 * np.clip(share, 0.0, 1.0))[:, None], 3, axis=1)
        nowhere = np.zeros(len(hits), np.int32)
        leaf = hits.leaf if isinstance(hits, SceneHits) else nowhere
        if shade == "id":
            return _hashed_colours(hits.prim_id, leaf)
        points = origins + hits.t[:, None] * directions
        flat = self.surfaces.normals(leaf, hits.prim_id, points)
        flat *= np.where(hits.front, 1.0, -1.0)[:, None]
        if shade == "normals":
            return np.asarray(flat * 0.5 + 0.5)
        if shade == "instance":
            instance = hits.instance_id if isinstance(hits, SceneHits) else nowhere
            slant = np.abs((flat * _unit(directions)).sum(axis=1))
            return np.asarray(instance_colours(instance) * (0.4 + 0.6 * slant)[:, None])
        smooth = self.surfaces.smooth_normals(leaf, hits.prim_id, hits.u, hits.v, flat)
        return self._clay(points, flat, smooth)

    def _clay(self, points: Floats, flat: Floats, smooth: Floats) -> Floats:
        camera = self.camera
        lamp = _unit(0.9 * camera.up - 0.75 * camera.right - 0.8 * camera.forward)
        # Start shadow rays a little above the face, so that it does not shadow itself.
        lift = 1e-4 * np.abs(self.bounds[1] - self.bounds[0]).max()
        start = points + lift * (flat + lamp)
        lit = ~np.asarray(self.source.any_hit(start, lamp, threads=self.threads))
        key = np.clip(smooth @ lamp, 0.0, 1.0) * np.where(lit, 1.0, 0.25)
        sky = 0.5 + 0.5 * (smooth @ camera.up)
        warm, cool = np.array([1.0, 0.93, 0.84]), np.array([0.62, 0.72, 0.88])
        albedo = np.array([0.88, 0.70, 0.58])
        light = 0.95 * key[..., None] * warm + 0.36 * sky[..., None] * cool
        return np.asarray((albedo * light) ** (1 / 1.6))


def instance_colours(ids: NDArray[Any]) -> Floats:
    """Return the colour of each instance: the same in all pictures, hues a golden angle apart."""
    hue = (0.08 + 0.6180339887498949 * ids) % 1.0
    # Three shades of each hue, so that those which come close again differ.
    vivid = np.array([0.62, 0.85, 0.45])[ids % 3]
    value = np.array([0.98, 0.80, 0.90])[ids % 3]
    # From hue, saturation and value (Smith 1978, "Color gamut transform pairs").
    place = (np.array([5.0, 3.0, 1.0]) + 6.0 * hue[..., None]) % 6.0
    ramp = np.clip(np.minimum(place, 4.0 - place), 0.0, 1.0)
    return np.asarray(value[..., None] * (1.0 - vivid[..., None] * ramp))


def _box_normals(boxes: Any, prim: NDArray[Any], matrices: Floats, points: Floats) -> Floats:
    """Return outward normals of the sides of boxes that are nearest to points, by their sizes."""
    rows = boxes.points[prim]
    world = np.zeros((len(rows), 4, 4))
    world[:, :3], world[:, 3, 3] = matrices, 1.0
    to_box = np.linalg.inv(world)[:, :3]
    if not isinstance(boxes, Boxes):
        frame = rows[:, 6:18].reshape(-1, 3, 4)
        to_box = np.einsum("nij,njk->nik", frame[:, :, :3], to_box)
        to_box[:, :, 3] += frame[:, :, 3]
    inside = np.einsum("nij,nj->ni", to_box[:, :, :3], points) + to_box[:, :, 3]
    half = 0.5 * (rows[:, 3:6] - rows[:, 0:3])
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(half > 0.0, (inside - 0.5 * (rows[:, 0:3] + rows[:, 3:6])) / half, 1.0)
    k, axis = np.arange(len(rows)), np.abs(off).argmax(axis=1)
    return np.asarray(np.copysign(1.0, off[k, axis])[:, None] * to_box[k, axis, :3])


def _unit(vectors: Floats) -> Floats:
    """Return vectors of length 1; zero where there is no direction."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True, initial=0.0)
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0.0)
    length = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.asarray(np.divide(scaled, length, out=np.zeros_like(scaled), where=length > 0.0))


def _heat(hits: CountedHits | CountedSceneHits) -> Floats:
    """Return the colours of what rays cost."""
    cost = hits.nodes + hits.tests / WIDTH
    place = np.clip(cost / HOTTEST, 0.0, 1.0) * (len(HEAT) - 1)
    return np.stack(
        [np.interp(place, np.arange(len(HEAT)), HEAT[:, channel]) for channel in range(3)], axis=-1
    )


def _hashed_colours(ids: NDArray[np.int32], leaf: NDArray[np.int32]) -> Floats:
    """Give each face of each leaf a colour of its own, as unlike its neighbours' as can be."""
    # Multiply by the golden ratio's odd 32-bit fraction and take three bytes (Knuth).
    numbers = ids.astype(np.uint32) + leaf.astype(np.uint32) * np.uint32(2246822519)
    mixed = (numbers + np.uint32(1)) * np.uint32(2654435769)
    shifts = np.array([24, 16, 8], np.uint32)
    return np.asarray(0.2 + 0.75 * ((mixed[..., None] >> shifts) & np.uint32(255)) / 255.0)
