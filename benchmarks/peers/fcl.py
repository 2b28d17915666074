"""fcl through trimesh's collision manager."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .caster import Caster, Points, Query


class FCL(Caster):
    """fcl's `BVHModel`, which finds the contacts of two meshes."""

    name = "fcl"
    module = "fcl"
    distribution = "python-fcl"
    floats = np.float64
    ids = np.int64
    one_thread = True
    note = "overlaps only: trimesh.collision, float64, up to 100 000 contacts"

    def __init__(self, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> None:
        self.faces = faces
        self.manager = self._manager("a", vertices)

    def _manager(self, name: str, vertices: NDArray[np.float64]) -> Any:
        mesh = importlib.import_module("trimesh").Trimesh(vertices, self.faces, process=False)
        manager = importlib.import_module("trimesh.collision").CollisionManager()
        manager.add_object(name, mesh)
        return manager

    def overlaps(self, moved: Points) -> Query:
        """Return the query for contacts, of which a pair may have several."""
        other = self._manager("b", moved)

        def pairs(contacts: Any) -> NDArray[np.int64]:
            found = [(contact.index("a"), contact.index("b")) for contact in contacts]
            return np.unique(np.array(found, np.int64).reshape(-1, 2), axis=0)

        return Query(lambda: self.manager.in_collision_other(other, return_data=True)[1], pairs)
