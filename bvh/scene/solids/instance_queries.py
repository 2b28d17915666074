"""Queries of the pairs of a scene's instances: contacts, distances, relations, interferences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bvh.queries import results
from bvh.queries.answers.clearances import Clearances
from bvh.queries.answers.interferences import Interferences
from bvh.queries.query_arguments import SHAPE_QUERIES, with_progress
from bvh.runtime.arguments import one_length, thread_count
from bvh.runtime.progress_bars import ProgressLike
from bvh.scene.scene_content import SceneContent
from bvh.scene.scene_view import SceneView

# Modules with many kernels, or with exact arithmetic, are imported by the queries that need them.
if TYPE_CHECKING:
    from bvh.scene.instance_pairs import PairsLike


class InstanceQueries(SceneContent):
    """The methods of `Scene` that compare its instances with each other."""

    __slots__ = ()

    def collisions(
        self, *, ignore: PairsLike | None = None, margin: float = 0.0,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> NDArray[np.int32]:  # fmt: skip
        """Find all pairs of instances whose surfaces touch.

        The decision is exact for the vertices of the mesh that `flattened` returns, though nothing
        is flattened: one common point is enough, also of vertices, edges or coplanar faces.
        An instance inside another does not touch it. A nested scene is one instance, whose parts
        are not compared. Moves need no rebuild. `self_overlaps` finds the faces that meet.

        Parameters
        ----------
        ignore : iterable of pairs, or array_like of int, shape (k, 2), optional
            Pairs of instances that may touch, in either order, by ids or names. A name stands for
            all instances of this scene with it.
        margin : float
            Surfaces of at most this distance, as `clearances` computes it, touch.
        threads, progress
            As in `closest_hit`; progress counts parts of the work.

        Returns
        -------
        ndarray of int32, shape (m, 2)
            Ids of the two instances, the lower one first; rows ascending. Leaves that are not
            visible, or with mask 0, are ignored.

        Examples
        --------
        The second bead touches both others, which also collide when they are moved together.

        >>> import bvh, numpy as np, trimesh
        >>> chain, bead = bvh.Scene(), bvh.BVH.from_mesh(trimesh.creation.box([1.2, 0.2, 0.2]))
        >>> maps = np.tile(np.eye(4), (3, 1, 1))
        >>> maps[:, 0, 3] = [0.0, 1.0, 2.0]
        >>> ids = chain.add_many(bead, maps, names=["first", "second", "third"])
        >>> joints = [("first", "second"), ("second", "third")]
        >>> chain.collisions().tolist(), chain.collisions(ignore=joints).tolist()
        ([[0, 1], [1, 2]], [])
        >>> chain.set_transform("third", np.eye(4))
        >>> chain.collisions(ignore=joints).tolist()
        [[0, 2]]
        """
        from bvh.scene.instance_pairs import ignored_keys
        from bvh.scene.solids.instance_contacts import find_clearances, find_touching

        view, workers = self._over_triangles("collisions"), thread_count(threads)
        ignored, limit = ignored_keys(self._instances, ignore), one_length("margin", margin)
        if limit > 0.0:
            near = with_progress(find_clearances, progress, view, view, ignored, limit, workers)
            return np.asarray(near.instance_id)
        return with_progress(find_touching, progress, view, view, ignored, workers)

    def clearances(
        self, max_distance: float = np.inf, *, ignore: PairsLike | None = None,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Clearances:  # fmt: skip
        """Compute the distances between the surfaces of instances, and their closest points.

        The distance is 0 exactly where `collisions` finds a pair, and elsewhere within 2 units in
        the last place of that between the meshes as `flattened` returns them. Boxes and nodes rule
        out instances further apart than `max_distance`; by default all pairs are measured. Moving
        instances rebuilds nothing.

        Parameters
        ----------
        max_distance : float
            At least 0; pairs further apart are left out.
        ignore
            As in `collisions`.
        threads, progress
            As in `closest_hit`; progress counts pairs of instances.

        Returns
        -------
        Clearances
            One row a pair of instances, ascending; without instances that have no faces, are not
            visible, or have mask 0.

        Examples
        --------
        >>> import bvh, numpy as np, trimesh
        >>> scene, box = bvh.Scene(), bvh.BVH.from_mesh(trimesh.creation.box())
        >>> at = np.tile(np.eye(4), (3, 1, 1))
        >>> at[:, 0, 3] = [0.0, 1.0, 4.0]
        >>> ids = scene.add_many(box, at, ["first", "second", "third"])
        >>> scene.clearances()
        Clearances(3 pairs of instances, 1 touching, distance 0 to 3)
        >>> near = scene.clearances(2.5, ignore=[("first", "second")])
        >>> near.instance_id.tolist(), near.distance.tolist(), near.position[0, :, 0].tolist()
        ([[1, 2]], [2.0], [1.5, 3.5])
        """
        from bvh.scene.instance_pairs import ignored_keys
        from bvh.scene.solids.instance_contacts import find_clearances

        limit = one_length("max_distance", max_distance)
        view, workers = self._over_triangles("clearances"), thread_count(threads)
        ignored = ignored_keys(self._instances, ignore)
        return with_progress(find_clearances, progress, view, view, ignored, limit, workers)

    def relations(
        self, *, ignore: PairsLike | None = None, margin: float = 0.0,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> results.ScenePairs:  # fmt: skip
        """Return the relations of solid instances: touching, overlapping, inside another, equal.

        They are those of `BVH.relation` for the meshes of the instances as `flattened` returns
        them; an instance may also be one sphere or capsule.

        Parameters
        ----------
        ignore
            As in `collisions`.
        margin
            As in `BVH.relation`.
        threads, progress
            As in `closest_hit`; progress counts pairs of instances.

        Returns
        -------
        ScenePairs
            A row for each pair that is not disjoint, without instances that are not visible.

        Raises
        ------
        ValueError
            If the boxes of two instances meet, within the margin, and one of them has open edges,
            or several spheres or capsules.

        Examples
        --------
        >>> import bvh, numpy as np, trimesh
        >>> scene, box = bvh.Scene(), bvh.BVH.from_mesh(trimesh.creation.box())
        >>> maps = np.tile(np.eye(4), (3, 1, 1))
        >>> maps[:, 0, 3] = [0.0, 1.0, 1.5]
        >>> ids = scene.add_many(box, maps)
        >>> found = scene.relations()
        >>> found.instance_id.tolist(), found.relation.tolist()
        ([[0, 1], [1, 2]], ['touching', 'overlapping'])
        """
        from bvh.scene.instance_pairs import ignored_keys
        from bvh.scene.solids.instance_solids import find_relations

        view, workers = self._over_triangles("relations"), thread_count(threads)
        ignored, limit = ignored_keys(self._instances, ignore), one_length("margin", margin)
        return with_progress(find_relations, progress, view, ignored, limit, workers)

    def interferences(
        self, *, ignore: PairsLike | None = None, margin: float = 0.0,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Interferences:  # fmt: skip
        """Find all pairs of instances that touch or overlap: volume, depth, where they meet.

        Pairs are measured by `BVH.relation`, `overlap_volume`, `penetration` and `distance_to` for
        the meshes that `flattened` returns; only relation and distance are measured if an instance
        is one sphere or capsule. Rows of instances that are no solids say so. ``bvh check
        scene.glb`` prints the table.

        Parameters
        ----------
        ignore
            As in `collisions`.
        margin
            As in `BVH.relation`.
        threads, progress
            As in `closest_hit`; progress counts pairs of instances.

        Returns
        -------
        Interferences
            One row for each pair that is not disjoint, without instances that are not visible. A
            pair with open edges has a row if its surfaces are within the margin. A pair with an
            instance that is neither over triangles nor one sphere or capsule has a row if its boxes
            are within the margin.

        Examples
        --------
        >>> import bvh, numpy as np, trimesh
        >>> scene, turn = bvh.Scene(), np.eye(4)
        >>> turn[:3, 3] = 0.5, 0.25, 0.0
        >>> plate = scene.add(trimesh.creation.box([4, 2, 0.25]), name="plate")
        >>> bolt = scene.add(trimesh.creation.box([0.5, 0.5, 2]), turn, name="bolt")
        >>> found = scene.interferences()
        >>> found.relation.tolist(), found.volume.tolist()
        (['overlapping'], [0.0625])
        >>> scene.interferences(ignore=[("bolt", "plate")])
        Interferences(0 pairs of instances)
        """
        from bvh.scene.instance_pairs import ignored_keys
        from bvh.scene.solids.instance_solids import find_interferences

        limit, view, workers = one_length("margin", margin), self._current(), thread_count(threads)
        ignored, names = ignored_keys(self._instances, ignore), dict(self._instances.names)
        return with_progress(find_interferences, progress, view, names, ignored, limit, workers)

    def _over_triangles(self, query: str) -> SceneView:
        """Return the current view; TypeError if `query` does not take primitives of a visible leaf.

        `query` is the name of a method. All take triangles, and those in SHAPE_QUERIES also
        spheres and capsules.
        """
        view = self._current()
        if (other := view.first_other(-1, query in SHAPE_QUERIES)) is not None:
            what = f"instance {self.path(other[0])} leads to {other[1]}"
            raise TypeError(f"{query} needs triangles; {what}")
        return view
