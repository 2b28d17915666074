"""Contacts and distances of two meshes, as `trimesh.collision` returns them."""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Names = tuple[Hashable, Hashable]
Faces = tuple[int, int]


class FacePair:
    """Base of what is known of two meshes: their names, and a face of each."""

    def __init__(self, names: Names, faces: Faces) -> None:
        self.names = set(names)
        self._faces = dict(zip(names, faces, strict=True))

    def index(self, name: Hashable) -> int:
        """Return the face of the mesh with a name, as in trimesh; -1 inside a mesh.

        Examples
        --------
        >>> import numpy as np
        >>> from bvh.compat.trimesh import ContactData
        >>> ContactData(("a", "b"), (4, 7), np.ones(3), np.zeros(3)).index("b")
        7
        """
        return self._faces[name]


class ContactData(FacePair):
    """Two faces that touch, or a mesh that is inside a convex one.

    `names` is the set of the two meshes' names, "__external" for one that is in no manager;
    `normal`, shape (3,), the unit normal of the first mesh's face, NaN where it has no area, and
    inside; `point`, shape (3,), the middle of what the faces share, and inside a mesh a vertex of
    the other.

    Examples
    --------
    >>> import trimesh, bvh.compat.trimesh
    >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
    >>> _ = manager.add_object("box", box)
    >>> _, [contact, *_] = manager.in_collision_single(box, return_data=True)
    >>> sorted(contact.names), contact.point.shape, contact.index("box")
    (['__external', 'box'], (3,), 0)
    """

    def __init__(self, names: Names, faces: Faces, normal: Reals, point: Reals) -> None:
        super().__init__(names, faces)
        self.normal, self.point = normal, point

    @property
    def depth(self) -> float:
        """How deep the meshes penetrate, which is not defined for surfaces: an error."""
        raise NotImplementedError(
            "depth of a contact is not defined here: contacts are faces with common points, and "
            "meshes are surfaces, which have no depth; trimesh.collision has an estimate"
        )

    def __repr__(self) -> str:
        return f"ContactData({self._faces}, at {self.point.tolist()})"


class DistanceData(FacePair):
    """The nearest points of two meshes, and their faces there; `names` as in `ContactData`.

    `distance` is 0 where the meshes touch, or one is inside a convex one.

    Examples
    --------
    >>> import trimesh, bvh.compat.trimesh
    >>> manager, box = bvh.compat.trimesh.CollisionManager(), trimesh.creation.box()
    >>> _ = manager.add_object("box", box)
    >>> away = trimesh.transformations.translation_matrix([3.0, 0.0, 0.0])
    >>> _, data = manager.min_distance_single(box, away, return_data=True)
    >>> data.distance, sorted(data.names), float(data.point("box")[0])
    (2.0, ['__external', 'box'], 0.5)
    """

    def __init__(self, names: Names, faces: Faces, points: Reals, distance: float) -> None:
        super().__init__(names, faces)
        self._points: dict[Hashable, Reals] = dict(zip(names, points, strict=True))
        self.distance = distance

    def point(self, name: Hashable) -> Reals:
        """Return the nearest point of the mesh with a name, (3,), as in trimesh.

        Examples
        --------
        >>> import numpy as np
        >>> from bvh.compat.trimesh import DistanceData
        >>> DistanceData(("a", "b"), (4, 7), np.eye(2, 3), 1.5).point("b")
        array([0., 1., 0.])
        """
        return self._points[name]

    def __repr__(self) -> str:
        return f"DistanceData({self._faces}, distance {self.distance:.6g})"
