"""Picking in a single tree: what of it is under a cursor."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.io.trimesh_scenes import Attributes
from bvh.picking.cursor import pick_near
from bvh.picking.region import check_camera
from bvh.picking.results import Pick
from bvh.runtime.arguments import ALL_BITS

# What holds a tree while more than a ray is asked. It stands above, and is imported when needed.
SCENE = "bvh.scene.scene"


class _Held(NamedTuple):
    """A tree as a leaf of no scene."""

    tree: Any
    transform: NDArray[np.float64]
    path: tuple[int, ...] = ()
    name: str | None = None


class _Alone(NamedTuple):
    """A tree instead of a scene, and of its leaves."""

    tree: Any

    def is_current(self) -> bool:
        """Return False: there is nothing newer."""
        return False

    def leaf(self, _: int) -> _Held:
        """Return the tree as a leaf."""
        return _Held(self.tree, np.eye(4))

    def attributes(self, _: Any) -> Attributes:
        """Return the attributes of vertices, which a tree does not keep."""
        return Attributes()


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
    scene = import_module(SCENE).Scene()
    scene.add(tree)
    found = pick_near(scene, camera, x, y, radius, ALL_BITS if mask is None else mask)
    if found is None:
        return None
    where, hit = found._where, found._hit
    return Pick((alone, *where[1:5], alone), (*hit[:5], -1, *hit[6:]))
