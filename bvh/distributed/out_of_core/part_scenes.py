"""Open parts as one scene, in which rays meet all of them at once, by a TLAS over their boxes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.distributed.merging import Columns, grouped
from bvh.distributed.out_of_core.open_parts import OpenPart
from bvh.queries.batches.ray_batches import RaySearch
from bvh.runtime.arguments import kernel_input
from bvh.scene.scene_view import SceneView
from bvh.tree.rows import WHOLE_IDS


class PartScene:
    """Open parts that are searched together, with the methods of one `OpenPart`."""

    def __init__(self, parts: list[OpenPart], bits: NDArray[np.uint32]) -> None:
        """Make a scene of `parts`; `bits`, (n,), has the group bits of the faces of each."""
        numbers, leaves = [part.number for part in parts], np.arange(len(parts), dtype=np.int32)
        maps = np.tile(np.eye(3, 4), (len(parts), 1, 1))
        view = SceneView([p.tree for p in parts], leaves, maps, bits, np.array(numbers, np.int32))
        # Ties are decided by ids in the mesh.
        rows = [tree.words() for tree in view.trees]
        for row, part in zip(rows, parts, strict=True):
            row[WHOLE_IDS] = part.ids.ctypes.data
        addresses = kernel_input(np.array([row.ctypes.data for row in rows], np.int64))
        instanced: Any = view.arrays.primitives
        arrays = view.arrays._replace(primitives=instanced._replace(trees=addresses))
        self._parts, self._rows = parts, rows
        self._search = RaySearch(arrays, view.split, owner=view)

    def ray_search(self) -> RaySearch:
        """Return the target of rays in all of these parts; it lives as long as this object."""
        return self._search

    def columns_of(self, answer: Any) -> Columns:
        """Return the columns of hits: with ids in the mesh, and the number of the part of each."""
        leaf, ids = answer.leaf, np.full(answer.leaf.shape, -1, np.int64)
        hit = np.flatnonzero(leaf >= 0)
        for k, rows, prim_id in grouped(leaf[hit], hit, answer.prim_id[hit]):
            ids[rows] = self._parts[k].ids[prim_id]
        return {**vars(answer), "prim_id": ids, "part": answer.instance_id}
