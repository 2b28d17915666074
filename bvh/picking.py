"""What a scene is asked by a cursor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arguments import reals
from bvh.camera import Camera
from bvh.instances import ALL_BITS
from bvh.marquee import Finder, Marquee
from bvh.picks import Pick
from bvh.primitives import Triangles
from bvh.projected import placed
from bvh.selecting import Region, not_beside, rectangle
from bvh.snapping import nearest_on_triangles
from bvh.traversal.one_ray import way_in

# What is beside the cursor is hidden by what is nearer than it by more than this share of its
# depth: its pixel is rounded, and faces that meet at a silhouette are steep.
CONTACT = 2.0**-20


class Picking(Marquee):
    """The questions that a cursor asks."""

    __slots__ = ()

    def pick(
        self, camera: Camera, x: float, y: float, radius: float = 0.0, *, mask: int = ALL_BITS
    ) -> Pick | None:
        """Return what is under a cursor: the nearest hit, or None.

        With a radius, thin things can be picked that the cursor misses by a few pixels: wires,
        points, faces without area, which no ray ever hits. Each instance is stood for by the hit
        of the cursor's own ray, or else by the point of its faces nearest to the cursor in the
        picture, of those within the radius that nothing is in front of. The nearest to the camera
        of these wins; of equal depth, the lowest leaf and face.

        Parameters
        ----------
        camera : Camera
        x, y : float
            The cursor, in the camera's pixels.
        radius : float
            In pixels; with 0 the answer is that of `closest_hit` for the ray at (x, y).
        mask : int
            Instances that share no bit with it are not there.

        Returns
        -------
        Pick or None

        Raises
        ------
        ValueError, TypeError
            If the radius is negative or not finite, or the camera is none.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> scene.add(tree, name="a")
        0
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> scene.pick(camera, 55, 40)
        Pick(instance_id=0, name='a', prim_id=0, t=9, position=[0.2, 0.4, 0])
        >>> scene.pick(camera, 49, 51) is None
        True
        >>> pick = scene.pick(camera, 49, 51, radius=3)
        >>> pick.vertex.id, round(pick.screen_distance, 6)
        (0, 1.414214)
        """
        if type(radius) is float and radius == 0.0:
            _check_camera(camera)
            ray = camera.cursor_ray(x, y)
            if mask is ALL_BITS:
                view = self._current()
                hit = way_in(view.arrays)(view.place, ray, camera.near, camera.far, 0, -1)
            else:
                hit = self.caster(mask=mask)(*ray, camera.near, camera.far)
            return Pick((self, camera, x, y, ray, self._expansion), hit) if hit[1] >= 0 else None
        return self._pick_near(camera, x, y, radius, mask)

    def picker(self, camera: Camera, *, mask: int = ALL_BITS) -> Callable[..., Pick | None]:
        """Return a function that picks under a hovering cursor as fast as Python can call it.

        Parameters
        ----------
        camera : Camera
        mask : int
            As in `pick`.

        Returns
        -------
        callable
            ``picker(x, y)`` returns what ``pick(camera, x, y)`` does. It sees the scene as it
            is at every call.

        Examples
        --------
        >>> import bvh
        >>> scene = bvh.Scene()
        >>> scene.add(bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
        0
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> hover = scene.picker(camera)
        >>> [hover(x, 40.0) is not None for x in (45.0, 55.0, 95.0)]
        [False, True, False]
        """
        _check_camera(camera)
        cast, ray_of, near, far = (
            self.caster(mask=mask), camera.cursor_ray, camera.near, camera.far
        )  # fmt: skip

        def pick(x: float, y: float) -> Pick | None:
            ray = ray_of(x, y)
            hit = cast(*ray, near, far)
            return Pick((self, camera, x, y, ray, self._expansion), hit) if hit[1] >= 0 else None

        pick.__qualname__ = f"pick of {camera.width} x {camera.height} pixels"
        return pick

    def pick_all(self, camera: Camera, x: float, y: float, *, mask: int = ALL_BITS) -> list[Pick]:
        """Return all that the ray of a cursor hits, front to back.

        Parameters
        ----------
        camera, x, y, mask
            As in `pick`.

        Returns
        -------
        list of Pick
            By t; of equal t, by leaf and face.
        """
        ray, hits = self._all_under(camera, x, y, mask)
        where = (self, camera, x, y, ray, self._expansion)
        columns = (hits.t, hits.prim_id, hits.u, hits.v, hits.front, hits.leaf)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Pick(where, row) for row in rows]

    def _all_under(self, camera: Camera, x: float, y: float, mask: int) -> tuple[Any, Any]:
        _check_camera(camera)
        ray = camera.cursor_ray(x, y)
        return ray, self.all_hits(ray[:3], ray[3:], camera.near, camera.far, mask=mask)

    def _pick_near(
        self, camera: Camera, x: float, y: float, radius: float, mask: int
    ) -> Pick | None:
        if reals("radius", radius).shape != () or not 0.0 <= radius < math.inf:
            raise ValueError(f"radius must be a finite number of at least 0, got {radius}")
        x, y, reach = float(x), float(y), float(radius)
        if reach == 0.0:
            return self.pick(camera, x, y, mask=mask)
        ray, hits = self._all_under(camera, x, y, mask)
        if not (math.isfinite(x) and math.isfinite(y)):
            return None
        best: tuple[Any, ...] | None = None
        if len(hits.t):
            columns = (hits.t, hits.prim_id, hits.u, hits.v, hits.front, hits.leaf)
            best = tuple(column[0].item() for column in columns)
        finder = Finder(self, camera, mask, 1, 1)
        region = rectangle(camera, x - reach, y - reach, x + reach, y + reach)
        if best is not None:
            # What lies behind the nearest hit is not asked for.
            # Depth grows along its gradient, which slanting parallel rays do not follow.
            along = camera.gradients[2]
            end = best[0] + CONTACT * abs(best[0]) + float(along @ camera.eye)
            plane = np.append(-along, end)
            region = region._replace(planes=np.vstack([region.planes, plane]))
        rows, _ = finder.near(region)
        owners = finder.leaves.instance_id
        rows = rows[~np.isin(owners[rows], hits.instance_id)]
        for beside in _beside(finder, region, rows, x, y, reach):
            if best is None or _order(beside) < _order(best):
                best = beside
        return None if best is None else Pick((self, camera, x, y, ray, self._expansion), best)


def _check_camera(camera: Any) -> None:
    """Refuse what is no camera."""
    if not isinstance(camera, Camera):
        raise TypeError(f"camera must be a Camera, got {type(camera).__name__}")


def _order(hit: tuple[Any, ...]) -> tuple[float, int, int]:
    """Return what hits are ordered by: t, leaf, prim_id."""
    return hit[0], hit[5], hit[1]


def _beside(
    finder: Finder, region: Region, rows: NDArray[np.int64], x: float, y: float, reach: float
) -> list[tuple[Any, ...]]:
    """Return what of each instance, by its leaves, is nearest to a cursor and can be seen."""
    camera = finder.camera
    surfaces = []
    for row in rows.tolist():
        leaf, matrix = finder.leaf(row)
        surfaces.append(placed(leaf.candidates(matrix, region)[0], matrix))
    if not surfaces:
        return []
    triangles = np.concatenate([surface.points[surface.faces] for surface in surfaces])
    prims = np.concatenate([surface.owners for surface in surfaces])
    leaves = np.repeat(rows, [len(surface.faces) for surface in surfaces])
    near_by = not_beside(region, triangles)
    triangles, prims, leaves = triangles[near_by], prims[near_by], leaves[near_by]
    near = nearest_on_triangles(camera, triangles, x, y)
    close = np.flatnonzero(near.distance <= reach)
    pixel, depth = near.pixel[close], near.depth[close]
    hits = finder.cast(*camera.ray(pixel[:, 0], pixel[:, 1]), camera.near, camera.far)
    seen = hits.t >= depth - CONTACT * np.abs(depth)
    seen |= (hits.leaf == leaves[close]) & (hits.prim_id == prims[close])
    close, depth = close[seen], depth[seen]
    instances = finder.leaves.instance_id[leaves[close]]
    order = np.lexsort((prims[close], leaves[close], depth, near.distance[close], instances))
    _, first = np.unique(instances[order], return_index=True)
    found = []
    for k in order[first].tolist():
        at, row = int(close[k]), int(leaves[close[k]])
        weights, distance = near.weights[at], float(near.distance[at])
        flat = isinstance(finder.leaf(row)[0].tree.arrays.primitives, Triangles)
        u, v = weights[1:].tolist() if flat else (math.nan, math.nan)
        place = weights @ triangles[at]
        found.append((float(depth[k]), int(prims[at]), u, v, False, row, distance, place))
    return found
