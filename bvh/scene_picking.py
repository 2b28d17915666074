"""Queries of a scene by a cursor, a rectangle or a lasso in the picture."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from bvh.arguments import ALL_BITS
from bvh.camera import Camera
from bvh.marquee import SelectionOptions, select
from bvh.picking import all_under, check_camera, pick_near
from bvh.picks import Pick
from bvh.scene_rays import SceneRays
from bvh.selecting import lasso, rectangle
from bvh.selections import Selection
from bvh.traversal.one_ray import way_in


class Picking(SceneRays):
    """The methods of `Scene` for picking and selecting."""

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
            check_camera(camera)
            ray = camera.cursor_ray(x, y)
            if mask is ALL_BITS:
                view = self._current()
                hit = way_in(view.arrays)(view.place, *ray, camera.near, camera.far, 0, -1)
            else:
                hit = self.caster(mask=mask)(*ray, camera.near, camera.far)
            return Pick((self, camera, x, y, ray, self._flattened), hit) if hit[1] >= 0 else None
        return pick_near(self, camera, x, y, radius, mask)

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
        check_camera(camera)
        cast, ray_of, near, far = (
            self.caster(mask=mask), camera.cursor_ray, camera.near, camera.far
        )  # fmt: skip

        def pick(x: float, y: float) -> Pick | None:
            ray = ray_of(x, y)
            hit = cast(*ray, near, far)
            return Pick((self, camera, x, y, ray, self._flattened), hit) if hit[1] >= 0 else None

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
        ray, hits = all_under(self, camera, x, y, mask)
        where = (self, camera, x, y, ray, self._flattened)
        columns = (hits.t, hits.prim_id, hits.u, hits.v, hits.front, hits.leaf)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Pick(where, row) for row in rows]

    def pick_rect(
        self,
        camera: Camera,
        x0: float,
        y0: float,
        x1: float,
        y1: float,
        *,
        what: str = "faces",
        mode: str = "touching",
        visible_only: bool = False,
        samples: int = 1,
        mask: int = ALL_BITS,
        threads: int | None = None,
    ) -> Selection:
        """Select what a rectangle in the picture touches or holds.

        Corners are rounded to doubles as `Camera.project` gives them; from there on the answer is
        exact: the rectangle and the images of faces are closed sets, and touching counts. What
        reaches behind the eye touches by its part in front, and is never inside. Faces without
        area are the segments or points that they are.

        Parameters
        ----------
        camera : Camera
        x0, y0, x1, y1 : float
            Opposite corners, in the camera's pixels; they may lie outside the picture.
        what : {"faces", "vertices", "instances"}
            What to select. An instance touches if one of its faces does, and is inside if all of
            them are. For boxes, faces are whole boxes.
        mode : {"touching", "inside"}
            What of it has to be in the region: something, or all. The same for vertices.
        visible_only : bool
            Leave out what the camera does not see because something else of the scene is in front
            of it, or because it is outside the picture. A face is seen if it is the first that
            some ray meets: through the middle of a device pixel in the region, at the face's
            middle, or next to one of its corners. So at most faces are missed that show less than
            a pixel and not their corners. A vertex is seen if nothing is in front of it; an
            instance, if a face of it is that counts for `mode`.
        samples : int
            Rays to a side of a device pixel, for `visible_only`.
        mask : int
            Instances that share no bit with it are neither selected nor in front of others.
        threads : int, optional
            Threads to use; one for each CPU by default.

        Returns
        -------
        Selection
            Empty if nothing is selected.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong type or range, or a tree that may be selected from is
            over primitives of your own (or has no vertices, where those are asked for).

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> scene.add(tree, name="a")
        0
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> selection = scene.pick_rect(camera, 40, 40, 60, 60, what="vertices")
        >>> selection.names, selection[0]
        (('a',), array([0], dtype=int32))
        >>> scene.pick_rect(camera, 40, 40, 60, 60, mode="inside")
        Selection(0 faces of 0 instances)
        """
        region = rectangle(camera, x0, y0, x1, y1)
        options = SelectionOptions(what, mode, visible_only, samples, mask, threads)
        return select(self, camera, region, options)

    def pick_lasso(
        self,
        camera: Camera,
        polygon: ArrayLike,
        *,
        what: str = "faces",
        mode: str = "touching",
        visible_only: bool = False,
        samples: int = 1,
        mask: int = ALL_BITS,
        threads: int | None = None,
    ) -> Selection:
        """Select what a closed polygon in the picture touches or holds.

        Parameters
        ----------
        camera : Camera
        polygon : array_like, shape (n, 2)
            Corners in the camera's pixels, the last joined to the first. The region is the polygon
            with all points that it winds about an odd number of times; it may cross itself.
        what, mode, visible_only, samples, mask, threads
            As in `pick_rect`.

        Returns
        -------
        Selection

        Raises
        ------
        ValueError, TypeError
            As in `pick_rect`; also if the polygon has no corners, or one that is not finite.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> scene = bvh.Scene()
        >>> scene.add(tree)
        0
        >>> camera = bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 100, 100)
        >>> around = [[49, 51], [80, 51], [49, 20]]
        >>> scene.pick_lasso(camera, around, mode="inside").ids
        array([0], dtype=int32)
        """
        region = lasso(camera, polygon)
        options = SelectionOptions(what, mode, visible_only, samples, mask, threads)
        return select(self, camera, region, options)
