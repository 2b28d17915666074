"""Surfaces that rays hit: points, normals, texture coordinates, and starts of light rays."""

import math
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.io.materials import Images, base_colours
from bvh.io.trimesh_scenes import Attributes
from bvh.queries.hierarchy import BVH
from bvh.queries.results import Hits
from bvh.scene.scene import Scene
from bvh.surfaces.numbering import row_ranks
from bvh.tree.primitives import Triangles

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

# A point computed from a face's corners is off its plane by less than 12 roundings of the largest
# intermediate number; this is far more, and too small to be visible.
ROUNDINGS = 64.0 * np.finfo(np.float64).eps
# Largest angle between faces, in degrees, across which normals are smooth.
CREASE = 42.0
# Largest number of faces around a vertex whose pairs are compared: the tip of a fan of thousands
# of faces needs no smooth shading.
MAX_FACES = 64


class Spots(NamedTuple):
    """Points that were hit, in rows, in world coordinates."""

    points: Floats
    flat: Floats  # unit normals of faces, on the side that was hit
    smooth: Floats  # unit normals interpolated between corners, on that side
    starts: Floats  # of light rays, surely on that side of the face and of the smooth surface


class Surfaces:
    """The primitives of a tree, or of all leaves of a scene, in world coordinates."""

    def __init__(self, source: BVH | Scene) -> None:
        """Take the trees, matrices and mesh attributes of the source; a tree is a single leaf."""
        # For each leaf, the index of its tree and the matrix (3, 4) to world coordinates.
        self.trees: Sequence[BVH] = () if isinstance(source, Scene) else (source,)
        self.tree_of, self.matrices = np.zeros(1, np.int32), np.eye(3, 4)[None]
        self._attributes, self._images = [Attributes()], Images()
        if isinstance(source, Scene):
            leaves = source.leaves
            self.trees, self.tree_of, self.matrices = leaves.trees, leaves.tree_of, leaves.matrices
            self._attributes = [source.attributes(tree) for tree in self.trees]
        # For each tree whether its mesh has texture coordinates.
        self.with_uv = np.array([mesh.uv is not None for mesh in self._attributes], np.bool_)
        # By tree, the results of `_normals_of`.
        self._corner_normals: dict[int, tuple[Floats, Ints] | None] = {}
        self._lock = threading.Lock()

    def spots(self, hits: Hits, origins: Floats, *, smoothed: bool = True) -> Spots:
        """Return the spots of n hits, none a miss, of rays with given origins (n, 3).

        If `smoothed` is False, smooth normals are the flat ones, which is faster.
        """
        leaf, prim, points = leaf_of(hits), hits.prim_id, np.asarray(hits.position)
        flat = hits.normal * np.where(hits.front, 1.0, -1.0)[:, None]
        # A bound of the intermediate numbers from which each point was computed. Its error is below
        # ROUNDINGS times this bound, by which light rays start off the surface.
        largest_term = np.empty(len(leaf))
        for tree, rows in self._by_tree(leaf):
            primitives = self.trees[tree].arrays.primitives
            matrices = np.abs(self._matrices_of(leaf[rows]))
            largest_term[rows] = matrices[:, :, 3].max(axis=1)
            if isinstance(primitives, Triangles):
                size = largest_of(largest_of(primitives.points[primitives.faces[prim[rows]]]))
                largest_term[rows] += 3.0 * matrices[:, :, :3].max(axis=(1, 2)) * size
            else:
                # These points are computed from the ray, so its origin matters.
                largest_term[rows] += 2.0 * largest_of(origins[rows]) + largest_of(points[rows])
        smooth, raised = flat, points
        if smoothed:
            smooth, raised = self._smooth_surface(leaf, prim, hits.u, hits.v, flat, points)
        return Spots(points, flat, smooth, raised + ROUNDINGS * largest_term[:, None] * flat)

    def uv(self, hits: Hits) -> Floats:
        """Return texture coordinates of n hits, (n, 2); u and v of hits of meshes without any."""
        leaf, coordinates = leaf_of(hits), np.stack([hits.u, hits.v], axis=1)
        for tree, rows in self._by_tree(leaf):
            uv = self._attributes[tree].uv
            if uv is not None:
                weights = _weights(hits.u[rows], hits.v[rows])
                corners = uv[self.trees[tree].faces[hits.prim_id[rows]]]
                coordinates[rows] = np.einsum("nkj,nk->nj", corners, weights)
        return coordinates

    def base_colours(self, hits: Hits, plain: Floats) -> Floats:
        """Return the linear base colours of n hits, (n, 3).

        `plain`, (3,), is the colour of meshes without a material.
        """
        leaf, colours = leaf_of(hits), np.tile(plain, (len(hits), 1))
        for tree, rows in self._by_tree(leaf):
            (_, uv, material), prim = self._attributes[tree], hits.prim_id[rows]
            if material is not None:
                corners = self.trees[tree].faces[prim]
                weights = _weights(hits.u[rows], hits.v[rows])
                colours[rows] = base_colours(material, uv, corners, prim, weights, self._images)
        return colours

    def _smooth_surface(
        self, leaf: Ints, prim: Ints, u: Floats, v: Floats, flat: Floats, points: Floats
    ) -> tuple[Floats, Floats]:
        """Return smooth normals (n, 3), and points (n, 3) lifted from faces to a curved surface.

        Without lifting, flat faces of a round surface shadow each other at grazing light (Hanika
        2021, "Hacking the shadow terminator"). The arguments are the fields of n hits, and `flat`,
        the unit normals of the faces on the side that was hit.
        """
        smooth, raised = flat.copy(), points.copy()
        for tree, rows in self._by_tree(leaf):
            found, source = self._normals_of(tree), self.trees[tree]
            if found is None:
                continue
            normals, index = found
            matrices = self._matrices_of(leaf[rows])
            weights, mesh_normals = _weights(u[rows], v[rows]), normals[index[prim[rows]]]
            blended = np.einsum("nkj,nk->nj", mesh_normals, weights)
            smooth[rows] = _facing(_mapped_normals(blended[:, None], matrices), flat[rows])[:, 0]
            # Through each corner of the face goes a plane perpendicular to the corner's normal. A
            # point is lifted by its distance below each plane, times the weight of the corner.
            corners = _facing(_mapped_normals(mesh_normals, matrices), flat[rows])
            vertices = _mapped_points(source.vertices[source.faces[prim[rows]]], matrices)
            above = np.einsum("nkj,nkj->nk", points[rows][:, None] - vertices, corners)
            heights = weights * np.maximum(-above, 0.0)
            raised[rows] += np.einsum("nkj,nk->nj", corners, heights)
        # Keep the point and the flat normal where the smooth normal is zero or not on the side of
        # the flat one; not `<= 0.0`, so that NaN counts, too.
        bad = ~(np.einsum("nj,nj->n", smooth, flat) > 0.0)
        smooth[bad], raised[bad] = flat[bad], points[bad]
        return smooth, raised

    def _matrices_of(self, leaf: Ints) -> Floats:
        """Return the matrices of leaves, (n, 3, 4); (1, 3, 4) if the source has a single leaf."""
        return self.matrices if len(self.matrices) == 1 else self.matrices[leaf]

    def _by_tree(self, leaf: Ints) -> list[tuple[int, slice | Ints]]:
        """Return (index of the tree, rows of its hits) for each tree that was hit.

        `leaf` has the leaf of each hit.
        """
        if len(leaf) == 0:
            return []
        if len(self.trees) == 1:
            return [(0, slice(None))]
        trees = self.tree_of[leaf]
        order = np.argsort(trees, kind="stable")
        numbers, first = np.unique(trees[order], return_index=True)
        return list(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))

    def _normals_of(self, tree: int) -> tuple[Floats, Ints] | None:
        """Return (normals, (k, 3); for each corner of a face the index of its normal, (m, 3)).

        `tree` is an index of `trees`. The normals are the mesh's own, or else from the function
        `corner_normals`. None for trees that are not over triangles.
        """
        with self._lock:
            if tree not in self._corner_normals:
                primitives, attributes = self.trees[tree].arrays.primitives, self._attributes[tree]
                if not isinstance(primitives, Triangles):
                    self._corner_normals[tree] = None
                elif attributes.vertex_normals is not None:
                    self._corner_normals[tree] = attributes.vertex_normals, primitives.faces
                else:
                    self._corner_normals[tree] = corner_normals(*primitives)
            return self._corner_normals[tree]


def leaf_of(hits: Hits) -> Ints:
    """Return the leaf indices of hits; 0 for hits of a tree, which is a single leaf."""
    return np.zeros(len(hits), np.int32) if hits.leaf is None else hits.leaf


def _weights(u: Floats, v: Floats) -> Floats:
    """Return the barycentric weights of the corners of faces, (n, 3), for u and v of hits."""
    return np.stack([1.0 - u - v, u, v], axis=1)


def _mapped_points(points: Floats, matrices: Floats) -> Floats:
    """Return rows of points (n, k, 3), each row transformed by its own matrix, (n or 1, 3, 4)."""
    if len(points) and (matrices == np.eye(3, 4)).all():
        return points
    transformed = np.einsum("nij,nkj->nki", matrices[:, :, :3], points)
    return np.asarray(transformed + matrices[:, None, :, 3])


def _mapped_normals(normals: Floats, matrices: Floats) -> Floats:
    """Return unit normals (n, k, 3), each row transformed by its own matrix, (n or 1, 3, 4)."""
    if len(normals) and (matrices[:, :, :3] == np.eye(3)).all():
        return unit(normals)
    # Normals are transformed by the cofactors: the transposed inverse, up to a factor.
    a, b, c = np.moveaxis(matrices[:, :, :3], 1, 0)
    cofactors = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)], axis=1)
    return unit(np.einsum("nij,nkj->nki", cofactors, normals))


def _facing(normals: Floats, flat: Floats) -> Floats:
    """Return normals (n, k, 3), turned to the side of the flat normal of their row, (n, 3)."""
    sides = np.einsum("nkj,nj->nk", normals, flat)[:, :, None]
    return np.asarray(normals * np.where(sides < 0.0, -1.0, 1.0))


def corner_normals(points: Floats, faces: NDArray[np.int32]) -> tuple[Floats, NDArray[np.int64]]:
    """Return smooth unit normals (k, 3), and for each corner of a face the index of its normal.

    The indices have the shape of the faces, (m, 3). A corner's normal is the mean of the normals of
    faces around its vertex, but for those across a crease (at more than CREASE to its own face). It
    is weighted by the angles of faces at the vertex (Thürmer and Wüthrich 1998, "Computing vertex
    normals from polygonal facets"). Coincident vertices count as one. Zero for faces without area.
    """
    vertices = row_ranks(points + 0.0)  # numbers of distinct points; + 0.0 makes 0.0 of -0.0
    # The vertex of each corner, faces one after another.
    owners = vertices[faces].reshape(-1)
    flat, angles = _normals_and_angles(points, faces)
    weighted = flat.repeat(3, axis=0) * angles.reshape(-1)[:, None]
    count = int(vertices.max(initial=-1)) + 1
    sums = [np.bincount(owners, weighted[:, k], count) for k in range(3)]
    # For empty arrays, bincount returns integers.
    means = unit(np.stack(sums, axis=1).astype(np.float64))
    # Where all faces are within CREASE / 2 of their mean, no two of them form a crease: all corners
    # at such a vertex share the mean. Corners at other vertices get normals of their own.
    bound = math.cos(math.radians(CREASE / 2))
    close = (flat.repeat(3, axis=0) * means[owners]).sum(axis=1) >= bound
    creased = np.zeros(count, np.bool_)
    creased[owners[~close & (np.abs(flat).max(axis=1, initial=0.0) > 0.0).repeat(3)]] = True
    index = owners.copy()
    corners = np.flatnonzero(creased[owners])
    index[corners] = count + np.arange(len(corners))
    creased_normals = unit(_sums_around(owners[corners], flat[corners // 3], weighted[corners]))
    return np.concatenate([means, creased_normals]), index.reshape(-1, 3)


def _sums_around(owners: Ints, normals: Floats, weighted: Floats) -> Floats:
    """Return for each of n corners the sum of `weighted` over the corners without a crease to it.

    Those are at its vertex, in faces at an angle of at most CREASE to its face. `owners`, (n,), has
    the vertex of each corner, `normals`, (n, 3), the unit normals of faces, and `weighted` these
    times the angles of corners. At vertices of over MAX_FACES faces, the sum is the corner's row.
    """
    order = np.argsort(owners, kind="stable")
    (x, y, z), weighted = np.ascontiguousarray(normals[order].T), weighted[order]
    _, first, size = np.unique(owners[order], return_index=True, return_counts=True)
    first, size = first.repeat(size), size.repeat(size)
    rows = np.flatnonzero(size <= MAX_FACES)
    sums, bound = weighted.copy(), math.cos(math.radians(CREASE))
    sums[rows] = 0.0
    # Each corner with the first at its vertex, then with the second, and so on.
    for k in range(int(size[rows].max(initial=0))):
        rows = rows[size[rows] > k]
        other = first[rows] + k
        smooth = x[rows] * x[other] + y[rows] * y[other] + z[rows] * z[other] >= bound
        smooth |= rows == other
        sums[rows[smooth]] += weighted[other[smooth]]
    result = np.empty_like(sums)
    result[order] = sums
    return result


def _normals_and_angles(points: Floats, faces: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Return the unit normals of faces, (m, 3), and the angles at their corners, (m, 3).

    The normal of a face without area is zero. Angles are in radians.
    """
    with np.errstate(all="ignore"):
        corners = points[faces]
        edges = unit(np.nan_to_num(np.roll(corners, -1, axis=1) - corners))
        normals = np.cross(edges[:, 0], edges[:, 1])
        # Of two pairs of edges, the one farther from parallel is more accurate.
        others = np.cross(edges[:, 1], edges[:, 2])
        swap = (others * others).sum(axis=1) > (normals * normals).sum(axis=1)
        normals[swap] = others[swap]
        # From one edge to the next, the direction turns by pi minus the angle between them.
        cosines = (edges * np.roll(edges, 1, axis=1)).sum(axis=2)
        angles = math.pi - np.arccos(np.clip(cosines, -1.0, 1.0))
    return unit(normals), angles


def unit(vectors: Floats) -> Floats:
    """Return vectors (..., 3) scaled to length 1; zero for zero."""
    # First by the largest coordinate, so that no square overflows, and not all of them underflow.
    largest = largest_of(vectors)[..., None]
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0.0)
    length = np.sqrt(np.einsum("...i,...i->...", scaled, scaled))[..., None]
    return np.asarray(np.divide(scaled, length, out=scaled, where=length > 0.0))


def largest_of(vectors: Floats) -> Floats:
    """Return the largest absolute coordinate of each vector: of shape (...) for (..., 3)."""
    # Faster than numpy's max over an axis of three.
    x, y, z = np.moveaxis(np.abs(vectors), -1, 0)
    return np.asarray(np.maximum(np.maximum(x, y), z))
