"""`Scene.interferences`: all pairs of instances that touch or overlap, and how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bvh.queries.answers.interferences import Interferences
from bvh.queries.query_arguments import reported
from bvh.runtime.arguments import one_length, thread_count
from bvh.runtime.progress_bars import ProgressLike
from bvh.scene.scene_content import SceneContent

if TYPE_CHECKING:
    from bvh.scene.instance_pairs import PairsLike


class InterferenceQueries(SceneContent):
    """The query of a scene for interferences."""

    __slots__ = ()

    def interferences(
        self, *, ignore: PairsLike | None = None, margin: float = 0.0,
        threads: int | None = None, progress: ProgressLike | None = None,
    ) -> Interferences:  # fmt: skip
        """Find all pairs of instances that touch or overlap: volume, depth, where they meet.

        `BVH.relation`, `overlap_volume`, `penetration` and `distance_to` of the meshes of each pair
        as `flattened` returns them. Instances that are no solids have rows that say so. ``bvh check
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
            One row a pair that is not disjoint, without instances that are not visible. Of a pair
            with open edges, if the surfaces are within the margin; with an instance that is not
            over triangles, if the boxes are.

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
        # Exact arithmetic, imported here as few programs need it.
        from bvh.scene.instance_pairs import ignored_keys
        from bvh.scene.solids.interferences import find_interferences

        limit, view, workers = one_length("margin", margin), self._current(), thread_count(threads)
        ignored, names = ignored_keys(self._instances, ignore), dict(self._instances.names)
        return reported(find_interferences, progress, view, names, ignored, limit, workers)
