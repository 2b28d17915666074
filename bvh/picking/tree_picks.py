"""Picking in a single tree: what of it is under a cursor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.io.trimesh_scenes import Attributes
from bvh.picking.cursor import pick_near
from bvh.picking.region import check_camera
from bvh.picking.results import Pick
from bvh.runtime.arguments import ALL_BITS
from bvh.tree.primitives import Boxes, Obbs, Triangles


class _Held(NamedTuple):
    """A tree as a leaf of no scene."""

    tree: Any
    transform: NDArray[np.float64]
    path: tuple[int, ...] = ()
    name: str | None = None


class _Alone:
    """A tree instead of a scene, of its leaves, of which there is one, and of their boxes."""

    __slots__ = ("tree",)

    # The leaf is in place, and has all bits.
    masks, matrices = np.full(1, ALL_BITS, np.uint32), np.eye(3, 4)[None]
    tree_of = instance_id = np.zeros(1, np.int64)

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def __len__(self) -> int:
        return 1

    def _current(self) -> _Alone:
        return self

    leaves = _flattened = property(_current)

    @property
    def trees(self) -> tuple[Any]:
        """The tree of the leaf."""
        return (self.tree,)

    @property
    def boxes(self) -> NDArray[np.float64]:
        """Lower and upper corner of the leaf, shape (1, 6)."""
        return np.asarray(self.tree.bounds.reshape(1, 6))

    def name_of(self, _: int) -> None:
        """Return None: a tree has no name."""

    def is_current(self) -> bool:
        """Return False: there is nothing newer."""
        return False

    def leaf(self, _: int) -> _Held:
        """Return the tree as a leaf."""
        return _Held(self.tree, np.eye(4))

    def attributes(self, _: Any) -> Attributes:
        """Return the attributes of vertices, which a tree does not keep."""
        return Attributes()

    def closest_hit(self, *rays: Any, **options: Any) -> Any:
        """Return the closest hits of the tree as those of a leaf."""
        return _of_leaf(self.tree.closest_hit(*rays, **options))

    def all_hits(self, *rays: Any, **options: Any) -> Any:
        """Return all hits of the tree as those of a leaf."""
        return _of_leaf(self.tree.all_hits(*rays, **options))

    def pick(self, camera: Camera, x: float, y: float, *, mask: int) -> Pick | None:
        """Return the nearest hit of the cursor's own ray."""
        return pick_in_tree(self.tree, camera, x, y, 0.0, mask)


def _of_leaf(hits: Any) -> Any:
    """Return hits of a tree with the number of the leaf, and of its instance."""
    first = np.zeros(len(hits.prim_id), np.int64)
    return SimpleNamespace(**vars(hits), leaf=first, instance_id=first)


def pick_in_tree(
    tree: Any, camera: Camera, x: float, y: float, radius: float, mask: int | None
) -> Pick | None:
    """Return the nearest hit of a tree within a radius of a cursor, or None."""
    check_camera(camera)
    alone = _Alone(tree)
    if type(radius) is float and radius == 0.0:
        ray = camera.cursor_ray(x, y)
        hit = tree.caster(mask=mask)(*ray, camera.near, camera.far)
        return Pick((alone, camera, x, y, ray, alone), (*hit, -1)) if hit[1] >= 0 else None
    tree._must_hold("a pick with a radius", Triangles, Boxes, Obbs)
    found = pick_near(alone, camera, x, y, radius, ALL_BITS if mask is None else mask)
    return found and Pick(found._where, (*found._hit[:5], -1, *found._hit[6:]))
