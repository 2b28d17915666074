"""Queries of solids: how two are related, what they share, how thick one is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.answers.locations import normals_of
from bvh.queries.answers.solids import OverlapVolumes, Penetrations
from bvh.queries.mesh_trees import MeshTrees
from bvh.queries.methods.distance_queries import has_shapes
from bvh.queries.methods.section_queries import moved_vertices
from bvh.queries.query_arguments import affine_matrices
from bvh.queries.tree_queries import TreeQueries
from bvh.runtime import arguments
from bvh.runtime.arguments import FloatResult
from bvh.runtime.foreign_arrays import foreign_answer, is_other
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.runtime.registry import enrolled
from bvh.tree.primitives import Triangles

if TYPE_CHECKING:
    from bvh.surfaces.cells import Pairs
    from bvh.surfaces.surface import Surface

Method = Literal["ray", "sphere"]
Relation = Literal["disjoint", "touching", "overlapping", "inside", "contains", "equal"]


class SolidQueries(MeshTrees, TreeQueries):
    """Queries of closed meshes."""

    __slots__ = ()

    @overload
    def relation(
        self, other: Any, transform: None = None, *, margin: float = 0.0,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Relation: ...  # fmt: skip

    @overload
    def relation(
        self, other: Any, transform: ArrayLike, *, margin: float = 0.0,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Any: ...  # fmt: skip

    def relation(
        self, other: Any, transform: ArrayLike | None = None, *, margin: float = 0.0,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Any:  # fmt: skip
        """Decide how this solid and another are related.

        The decision is exact, also where faces lie in one plane, edges cross or vertices lie on
        faces. A point is inside a closed mesh if a ray from it crosses an odd number of faces:
        shells in a shell are hollow, whichever way their normals point, and a wall that two parts
        of a mesh share is ignored. The first query of two meshes takes a few times as long as
        `overlap_tree`, far longer if a mesh meets itself; later ones reuse what it prepared.

        Parameters
        ----------
        other : BVH or mesh
            Over triangles, or one sphere or capsule, as this tree; a mesh is anything that
            `from_mesh` takes.
        transform : array_like, shape (..., 4, 4), optional
            Affine matrices that move `other`, one a query, as in `distance_to`.
        margin : float
            Disjoint solids of at most this distance, as `distance_to` computes it, are "touching".
            Other relations do not depend on it.
        threads, progress
            Number of threads, and callback or bar, as in `closest_hit`; progress is in transforms.

        Returns
        -------
        str, or ndarray of str, shape (...)
            "disjoint"; "touching": surfaces meet, interiors do not; "overlapping": each has a part
            inside and a part outside of the other; "inside": this solid is a part of the other, and
            may touch its surface from inside; "contains": the reverse; "equal".

        Raises
        ------
        ValueError
            If a mesh has open edges, so that it bounds no solid; if a tree has several spheres or
            capsules; if it has one, and a mesh crosses itself.

        Examples
        --------
        >>> import bvh, trimesh
        >>> wall = bvh.BVH.from_mesh(trimesh.creation.box(bounds=[[0, 0, 0], [4, 0.2, 3]]))
        >>> moves = [trimesh.transformations.translation_matrix([x, 0, 0]) for x in (3, 4, 5, 0)]
        >>> wall.relation(wall, moves).tolist()
        ['overlapping', 'touching', 'disjoint', 'equal']
        >>> gap = trimesh.transformations.translation_matrix([4.0, 0.2 + 1e-6, 0.0])
        >>> wall.relation(wall, gap), wall.relation(wall, gap, margin=1e-5)
        ('disjoint', 'touching')
        """
        from bvh.surfaces.relations import NAMES, relation_of

        limit, other = arguments.one_length("margin", margin), self._tree_of(other)
        if has_shapes("relation", self, other):
            this, tree = self._snapshot(), other._snapshot()
            names = enrolled("relations of round trees")(this, tree, transform, threads, progress)
        else:
            this, tree = self._two_snapshots("relation", other)
            pairs = this._pairs("relation", tree, transform, threads, progress)
            names = [relation_of(*pair) if pair else NAMES[0] for pair in pairs]
        # NAMES[0] is "disjoint", NAMES[1] "touching"; the longest name has 11 letters.
        answers = np.array(names, "<U11")
        shape, apart = _shape_of(transform), np.flatnonzero(answers == NAMES[0])
        if limit > 0.0 and len(apart):
            moves = None if transform is None else affine_matrices(transform)
            moves = None if moves is None else moves.reshape(-1, 4, 4)[apart]
            near = this.distance_to(tree, moves, max_distance=limit, threads=threads).mask
            answers[apart[np.atleast_1d(near)]] = NAMES[1]
        return answers.reshape(shape) if shape else str(answers[0])

    def penetration(
        self, other: Any, transform: ArrayLike | None = None, *, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> Penetrations:  # fmt: skip
        """Measure how deep this solid and another are in each other.

        The depth is the largest distance from a place that is in both solids to the surface of one
        of them. It does not depend on how surfaces are triangulated, and is the radius of the
        largest ball inside if a solid is compared with itself. It is not the shortest way that
        separates them, which may be longer or shorter.

        The exact depth is larger by at most `error`: 1e-6 of the depth, or more if the search stops
        early, where solids overlap by a rounding error or thousands of places are as deep.

        Parameters
        ----------
        other, transform, threads, progress
            As in `relation`.

        Returns
        -------
        Penetrations
            One entry for each transform; numbers for a single transform.

        Raises
        ------
        ValueError
            If a mesh has open edges.

        Notes
        -----
        The surface of a mesh is all of its faces, also walls in which its parts touch. Small pairs
        take about 0.1 seconds, two meshes of 80 000 faces about 1. If no vertex or middle of a face
        of one solid is inside the other, but parts of edges are, `length` is that of the longest.

        Examples
        --------
        >>> import bvh, trimesh
        >>> beam = bvh.BVH.from_mesh(trimesh.creation.box([9, 1, 1]))
        >>> pipe = bvh.BVH.from_mesh(trimesh.creation.box([0.5, 0.5, 9]))
        >>> found = beam.penetration(pipe)
        >>> round(found.depth, 9), found.pierces, round(found.length, 9)
        (0.5, True, 1.0)
        """
        from bvh.surfaces.penetrations import NOTHING, deepest_of

        workers = arguments.thread_count(threads)
        pairs = self._pairs("penetration", other, transform, threads, progress)
        answers = [deepest_of(*pair, workers) if pair else NOTHING for pair in pairs]
        return Penetrations._of(answers, NOTHING, _shape_of(transform))

    def overlap_volume(
        self, other: Any, transform: ArrayLike | None = None, *, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> OverlapVolumes:  # fmt: skip
        """Measure what this solid and another share: volume, centroid, surface area and box.

        The relative error of the volume is at most 1e-12, also where faces lie in one plane or the
        solids overlap by a rounding error; the volume is 0 exactly where they only touch. The area
        omits faces below 2**-510 of the squared size of the solids. Inside is as in `relation`.

        Parameters
        ----------
        other, transform, threads, progress
            As in `relation`.

        Returns
        -------
        OverlapVolumes
            One entry for each transform; numbers for a single transform.

        Raises
        ------
        ValueError
            If a mesh has open edges, or meets itself beyond common vertices and edges (see
            `self_overlaps`), except in walls that cancel, such as one that two parts share.

        Notes
        -----
        No solid is constructed: the volume is a sum over the edges and faces that cross, with exact
        signs, and the faces inside. Two meshes of 80 000 faces take some 50 milliseconds.

        Examples
        --------
        >>> import bvh, trimesh
        >>> wall = bvh.BVH.from_mesh(trimesh.creation.box(bounds=[[0, 0, 0], [4, 0.25, 3]]))
        >>> moves = [trimesh.transformations.translation_matrix([x, 0, 0]) for x in (3, 4, 0)]
        >>> wall.overlap_volume(wall, moves).volume.tolist()
        [0.75, 0.0, 3.0]
        """
        from bvh.surfaces.overlap_volumes import NOTHING, shared_volume

        workers = arguments.thread_count(threads)
        pairs = self._pairs("overlap_volume", other, transform, threads, progress)
        answers = [shared_volume(*pair, workers) if pair else NOTHING for pair in pairs]
        return OverlapVolumes._of(answers, NOTHING, _shape_of(transform))

    @property
    def volume(self) -> float:
        """Volume of the solid, rounded correctly, whichever way normals point.

        A ValueError is raised if the mesh has open edges or crosses itself, as by `overlap_volume`.
        """
        return self._solid_sums("volume")[0]

    @property
    def centroid(self) -> NDArray[np.float64]:
        """Centre of mass of the solid, shape (3,); NaN if it has no volume.

        A ValueError is raised if the mesh has open edges or crosses itself, as by `overlap_volume`.
        """
        return self._solid_sums("centroid")[1].copy()

    @property
    def area(self) -> float:
        """Area of all triangles, those that lie on each other included."""
        from bvh.surfaces.volumes import area_of

        self._must_hold("area", Triangles)
        now = self._snapshot()
        return area_of(now.vertices[now.faces])

    def _solid_sums(self, query: str) -> tuple[float, NDArray[np.float64]]:
        """Return volume and centroid (3,); raise an error that names `query` if there are none."""
        from bvh.surfaces.overlap_volumes import check_depths
        from bvh.surfaces.surface import Surface
        from bvh.surfaces.volumes import solid_sums

        self._must_hold(query, Triangles)
        now = self._snapshot()
        must_bound_a_solid(query, "this mesh", now)
        surface = Surface.of(now)
        check_depths(surface)  # raises if the mesh crosses itself
        return solid_sums(surface)

    def thickness(
        self, faces: ArrayLike | None = None, *, points_at: ArrayLike | None = None,
        method: Method = "ray", threads: int | None = None,
    ) -> FloatResult:  # fmt: skip
        """Measure how thick a solid is at its surface.

        Parameters
        ----------
        faces : array_like of int, shape (...), optional
            Faces, at whose middles the thickness is measured; by default all faces.
        points_at : array_like, shape (..., 3), optional
            Points in place of faces: thickness is measured at the closest points of the surface.
        method : {"ray", "sphere"}
            "ray": how far a ray goes inward, at right angles to the face, until it leaves the
            solid. "sphere": the diameter of the largest ball inside that touches the surface there.
        threads
            Number of threads, as in `closest_hit`.

        Returns
        -------
        float or ndarray of float64
            Thicknesses in the shape of `faces`, or of the points; inf where a ray leaves an open
            mesh, NaN for faces without area, for faces with the outside on both sides, and for
            points without a closest point.

        Notes
        -----
        The inside of a closed mesh is as in `relation`, whichever way normals point. Walls that two
        parts share are ignored, by balls only if their faces are equal. Normals of open meshes must
        point outward.

        Balls shrink until nothing is inside of them: Ma, Bae, Choi 2012, "3D medial axis point
        approximation using nearest neighbors and the normal field". A ball is at most as large as
        the distance along the ray.

        Examples
        --------
        >>> import bvh, trimesh
        >>> plate = bvh.BVH.from_mesh(trimesh.creation.box([4, 4, 0.5]))
        >>> plate.thickness(points_at=[[0.1, 0.2, 0.25], [2.0, 0.2, 0.1]])
        array([0.5, 4. ])
        >>> round(plate.thickness(points_at=[2.0, 0.2, 0.0], method="sphere"), 9)
        0.5
        """
        from bvh.surfaces.thicknesses import along_normals, by_balls

        if is_other(faces, points_at):
            return foreign_answer(self.thickness, locals())
        self._must_hold("thickness", Triangles, thin=False)
        arguments.check_option("method", method, ("ray", "sphere"))
        now = self._snapshot()
        if points_at is not None:
            if faces is not None:
                raise ValueError("faces and points_at must not be given together")
            near = now.closest_point(arguments.points("points_at", points_at), threads=threads)
            # A miss, of a point that is not finite or a tree without faces, has the face -1.
            face_ids, at = np.asarray(near.prim_id), np.asarray(near.position)
        else:
            face_ids = np.arange(len(self)) if faces is None else arguments.integers("faces", faces)
            if face_ids.size and not 0 <= face_ids.min() <= face_ids.max() < len(self):
                raise ValueError(f"faces must be in 0..{len(self) - 1}, got {faces!r}")
            at = now.vertices[now.faces[face_ids]].mean(axis=-2)
        ids, at = face_ids.reshape(-1).astype(np.int32), at.reshape(-1, 3)
        thicknesses, rows = np.full(len(ids), np.nan), np.flatnonzero(ids >= 0)
        normals = normals_of(now.vertices[now.faces[ids[rows]]])
        measure = along_normals if method == "ray" else by_balls
        found, *_ = measure(now, at[rows], normals, ids[rows], arguments.thread_count(threads))
        thicknesses[rows] = np.where(np.isnan(normals).any(axis=1), np.nan, found)
        return arguments.shaped(face_ids.shape, thicknesses)[0]

    def _pairs(
        self, query: str, other: Any, transform: ArrayLike | None, threads: int | None,
        progress: ProgressLike | None,
    ) -> Iterator[tuple[Surface, Surface, Callable[[], Pairs]] | None]:  # fmt: skip
        """Yield (this solid, the other one as moved, find_pairs) for each matrix of `transform`.

        find_pairs() returns the pairs of faces that meet. None is yielded where boxes are apart.
        """
        from bvh.surfaces.surface import Surface

        workers, (this, tree) = arguments.thread_count(threads), self._two_snapshots(query, other)
        must_bound_a_solid(query, "this mesh", this)
        must_bound_a_solid(query, "other", tree)
        first, search = Surface.of(this), this._pair_search(query, tree)

        def find_pairs(matrix: NDArray[np.float64] | None) -> Pairs:
            """Return the pairs of faces that meet if `matrix`, or None, moves the other solid."""
            itself, report, mask = False, None, None  # shared vertices are contacts
            return this._selected_pairs(search(matrix, itself, workers, report), mask, tree, mask)

        if transform is None:
            (low, high), (low2, high2) = this.bounds, tree.bounds
            near = bool(((low <= high2) & (high >= low2)).all())
            yield (first, Surface.of(tree), partial(find_pairs, None)) if near else None
            return
        matrices, placed = affine_matrices(transform).reshape(-1, 4, 4), list[Any]()

        def tree_over(vertices: NDArray[np.float64]) -> Any:
            """Return a tree over moved vertices: built once, into `placed`, and refitted later."""
            if placed:
                placed[0].refit(vertices)
            else:
                placed.append(self.from_triangles(vertices, tree.faces, warn=False))
            return placed[0]

        with heard(progress) as report:
            for k, matrix in enumerate(matrices):
                vertices = moved_vertices(tree.vertices, matrix)
                if _boxes_meet(this.bounds, vertices):
                    second = Surface(vertices, tree.faces, partial(tree_over, vertices))
                    yield first, second, partial(find_pairs, matrix)
                else:
                    yield None
                if report is not None:
                    report(k + 1, len(matrices))


def _shape_of(transform: ArrayLike | None) -> tuple[int, ...]:
    """Return the leading shape of `transform`, (..., 4, 4); () if it is None."""
    return () if transform is None else np.shape(transform)[:-2]


def must_bound_a_solid(query: str, name: str, tree: TreeQueries) -> None:
    """Raise a ValueError unless the mesh of `tree`, called `name` in the text, is closed."""
    if tree.is_closed:
        return
    if tree.kind != "triangles":
        raise ValueError(f"{query} needs closed meshes, but {name} is over {tree.kind}")
    edges = tree.open_edges().tolist()
    listed = ", ".join(f"{a}-{b}" for a, b in edges[:4]) + (", ..." if edges[4:] else "")
    raise ValueError(
        f"{query} needs closed meshes, but {name} has open edges: {len(edges)}, between the "
        f"vertices {listed}"
    )


def _boxes_meet(box: NDArray[np.float64], points: NDArray[np.float64]) -> bool:
    """Return whether a box (2, 3), NaN if it is empty, may meet the box of `points`, (n, 3)."""
    if not len(points) or np.isnan(box).any():
        return False
    # Faces with points that are not finite are ignored, so the box of the others is not known.
    if not np.isfinite(points).all():
        return True
    return bool(((box[0] <= points.max(axis=0)) & (box[1] >= points.min(axis=0))).all())
