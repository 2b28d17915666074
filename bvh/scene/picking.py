"""Queries of a scene by a cursor, a rectangle or a lasso in the picture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from numpy.typing import ArrayLike

from bvh.camera.camera import Camera, check_camera
from bvh.picking import cursor
from bvh.picking.marquee import select
from bvh.picking.placed_trees import PickOptions, PlacedTrees
from bvh.picking.region import lasso, rectangle
from bvh.picking.results import Pick, Selection
from bvh.queries.batches.quick_calls import cast_ray
from bvh.queries.tree_queries import RegionMode, Selected
from bvh.scene.scene_queries import SceneQueries


class Picking(SceneQueries):
    """The methods of `Scene` for picking and selecting."""

    __slots__ = ()

    def pick(
        self, camera: Camera, x: float, y: float, radius: float = 0.0, *, mask: int | None = None
    ) -> Pick | None:
        """Return the nearest hit under a cursor, or None.

        With a radius, thin objects that the cursor misses by a few pixels can be picked: wires,
        points, and faces without area, which no ray ever hits. The candidate of each instance is
        its hit by the cursor's own ray, or else the visible point of its faces that is nearest to
        the cursor in the picture, within the radius. The candidate nearest to the camera is
        returned; of equal depth, the one with the lowest leaf and face.

        Parameters
        ----------
        camera : Camera
        x, y : float
            The cursor, in the camera's pixels.
        radius : float
            In pixels, finite; with 0 the answer is that of `closest_hit` for the ray at (x, y).
        mask : int, optional
            Instances whose mask, and faces whose groups, share no bit with it are ignored.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh, name="a")
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> scene.pick(camera, 55, 40)
        Pick(instance_id=0, name='a', prim_id=0, t=9, position=[0.2, 0.4, 0])
        >>> scene.pick(camera, 49, 51) is None
        True
        >>> pick = scene.pick(camera, 49, 51, radius=3)
        >>> pick.vertex.id, round(pick.screen_distance, 6)
        (0, 1.414214)
        """
        if mask is None and type(camera) is Camera and type(radius) is float and radius == 0.0:
            # The fast path, for cursors that move: usual arguments need no checks. hit[1] is the
            # prim_id, -1 for a miss.
            ray = camera.cursor_ray(x, y)
            hit = cast_ray(self._current(), ray, camera.near, camera.far)
            return Pick(hit, self, self._flattened, camera, x, y, ray) if hit[1] >= 0 else None
        return cursor.pick(self, camera, x, y, radius, PickOptions(mask))

    def picker(
        self, camera: Camera, *, radius: float = 0.0, mask: int | None = None
    ) -> Callable[..., Pick | None]:
        """Return a function that picks under a hovering cursor with little overhead.

        Parameters
        ----------
        camera : Camera
        radius, mask
            As in `pick`.

        Returns
        -------
        callable
            ``picker(x, y)`` returns what ``pick(camera, x, y)`` would at the time of the call.

        Examples
        --------
        >>> import bvh
        >>> scene = bvh.Scene()
        >>> number = scene.add(bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]]))
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> hover = scene.picker(camera)
        >>> [hover(x, 40.0) is not None for x in (45.0, 55.0, 95.0)]
        [False, True, False]
        """
        check_camera(camera)
        if cursor.checked_radius(radius) > 0.0:
            return partial(self.pick, camera, radius=radius, mask=mask)
        cast, ray_of = self.caster(mask=mask), camera.cursor_ray
        near, far = camera.near, camera.far

        def pick(x: float, y: float) -> Pick | None:
            """Return the nearest hit under the cursor (x, y), or None."""
            ray = ray_of(x, y)
            hit = cast(*ray, near, far)
            return Pick(hit, self, self._flattened, camera, x, y, ray) if hit[1] >= 0 else None

        pick.__qualname__ = f"pick of {camera.width} x {camera.height} pixels"
        return pick

    def pick_all(
        self, camera: Camera, x: float, y: float, *, mask: int | None = None
    ) -> list[Pick]:
        """Return all hits of a cursor's ray, sorted by t, leaf and face.

        Arguments are as in `pick`.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> ids = scene.add(mesh), scene.add(mesh)
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> [pick.instance_id for pick in scene.pick_all(camera, 55, 40)]
        [0, 1]
        >>> scene.pick_all(camera, 1, 1)
        []
        """
        check_camera(camera)
        ray = camera.cursor_ray(x, y)
        hits = self.all_hits(ray[:3], ray[3:], camera.near, camera.far, mask=mask)
        leaves = self._flattened
        return [Pick(hit, self, leaves, camera, x, y, ray) for hit in cursor.hit_tuples(hits)]

    def pick_rect(
        self, camera: Camera, x0: float, y0: float, x1: float, y1: float, *,
        what: Selected = "faces", mode: RegionMode = "touching", visible_only: bool = False,
        samples: int = 1, mask: int | None = None, threads: int | None = None,
    ) -> Selection:  # fmt: skip
        """Select what a rectangle in the picture touches or contains.

        Corners are rounded to doubles by `Camera.project`; from there on the result is exact: the
        rectangle and the images of faces are closed sets, and touching counts. Of a face that
        reaches behind the eye, the part in front can touch; the face is never inside. Faces without
        area count as segments or points. A sphere or capsule touches if a ray through the region
        meets its surface between near and far. It is inside if all of it is between near and far
        and all rays that meet it go through the region. Both are exact for the camera's
        `gradients`. Spheres and capsules without a radius are points and segments.

        Parameters
        ----------
        camera : Camera
        x0, y0, x1, y1 : float
            Opposite corners, in the camera's pixels, inside or outside the picture.
        what : {"faces", "vertices", "instances"}
            Kind of items. An instance touches if one of its faces does, and is inside if all of
            them are. For boxes, spheres and capsules, faces are whole ones.
        mode : {"touching", "inside"}
            Whether a part or all of an item must be in the region; equivalent for vertices.
        visible_only : bool
            Leave out what the camera does not see because other parts of the scene are in front of
            it, or because it is outside the picture. A face is visible if it is the first hit of a
            ray: through the centre of a device pixel in the region, at the face's centre, or next
            to one of its corners. So only faces of which less than a pixel and no corner shows can
            be missed. A sphere or capsule has rays close to the edge of its image, at both ends,
            instead of rays at corners. A vertex is visible if nothing is in front of it; an
            instance, if a face of it is visible that counts for `mode`.
        samples : int
            Rays along each side of a device pixel, for `visible_only`.
        mask : int, optional
            Instances whose mask, and faces whose groups, share no bit with it are neither selected
            nor hide others.
        threads : int, optional
            Threads to use; one for each CPU by default, and -1 for all CPUs of the affinity.

        Examples
        --------
        >>> import bvh
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh, name="a")
        >>> selection = scene.pick_rect(camera, 40, 40, 60, 60, what="vertices")
        >>> selection.names, selection[0]
        (('a',), array([0], dtype=int32))
        >>> scene.pick_rect(camera, 40, 40, 60, 60, mode="inside")
        Selection(0 faces of 0 instances)
        """
        region = rectangle(camera, x0, y0, x1, y1)
        options = PickOptions(mask, threads, what, mode, visible_only, samples)
        return select(self._placed(), camera, region, options)

    def pick_lasso(
        self, camera: Camera, polygon: ArrayLike, *, what: Selected = "faces",
        mode: RegionMode = "touching", visible_only: bool = False, samples: int = 1,
        mask: int | None = None, threads: int | None = None,
    ) -> Selection:  # fmt: skip
        """Select what a closed polygon in the picture touches or contains.

        Parameters
        ----------
        camera : Camera
        polygon : array_like, shape (n, 2)
            Three corners or more in the camera's pixels, the last joined to the first. It may cross
            itself: the region is the polygon with all points of odd winding number.
        what, mode, visible_only, samples, mask, threads
            As in `pick_rect`.

        Examples
        --------
        >>> import bvh
        >>> scene, mesh = bvh.Scene(), ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> number = scene.add(mesh)
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> around = [[49, 51], [80, 51], [49, 20]]
        >>> scene.pick_lasso(camera, around, mode="inside").ids
        array([0], dtype=int32)
        """
        options = PickOptions(mask, threads, what, mode, visible_only, samples)
        return select(self._placed(), camera, lasso(camera, polygon), options)

    def _placed(self) -> PlacedTrees:
        """Return the current leaves of the scene, with their boxes, in columns for picking."""
        boxes, leaves = self._current().tlas.boxes, self._current_leaves()
        columns = leaves.tree_of, leaves.maps, leaves.masks, leaves.instance_id
        return PlacedTrees(self, leaves, leaves.trees, *columns, boxes)
