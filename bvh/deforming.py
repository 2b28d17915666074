"""Refitting a tree in place: the same tree over vertices that have moved."""

from __future__ import annotations

import os
import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import reals, rows, thread_count
from bvh.arrays import TreeArrays, build, frozen_primitives
from bvh.changes import changes
from bvh.hierarchy import Hierarchy
from bvh.jit import warms
from bvh.obbs import local_frames
from bvh.primitives import Boxes, Custom, Obbs, Triangles
from bvh.progress_bars import ProgressLike, heard
from bvh.refit import Members, cost_of, members_of, refitted
from bvh.traversal.one_ray import addresses_of, way_in

_lock = threading.Lock()


def _renew_lock() -> None:
    """Give a forked child a lock of its own: who held the parent's does not exist there."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class Origin(NamedTuple):
    """What a tree was before it was first refitted.

    Its arrays are kept for their leaves, which hold triangles that come back after having had a
    vertex that was not finite, and for callers that know nothing but their addresses.
    """

    arrays: TreeArrays
    members: Members
    cost: float


class Deforming(Hierarchy):
    """How a tree follows what it holds."""

    __slots__ = ()

    def refit(
        self,
        vertices: ArrayLike,
        upper: ArrayLike | None = None,
        transforms: ArrayLike | None = None,
        *,
        threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> float:
        """Let the vertices move, and bound everything anew without building the tree again.

        For meshes that deform. Several times faster than the fastest build, and every query is as
        exact as on a new tree. But who is next to whom in the tree is still decided by where they
        were when it was built, so rays take longer the more neighbours have parted. What is
        returned tells by how much.

        Queries that are under way in other threads end on the tree as it was, and so do functions
        that `caster` returned before; later ones see it as it is. If anything is raised, nothing
        has changed.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            Where all vertices are now, as many as there were. Faces with a vertex that is not
            finite are ignored until it is again. For boxes and oriented boxes, the lower corners.
        upper : array_like, shape (n, 3), optional
            For boxes and oriented boxes alone: the upper corners. What could be hit must stay so.
        transforms : array_like, shape (n, 4, 4), optional
            For oriented boxes alone: as in `BVH.from_obbs`.
        threads : int, optional
            Threads to use; one for each CPU by default.
        progress : callable, bool or bar of tqdm, optional
            Called as progress(done, total) in nodes.

        Returns
        -------
        float
            The cost of the tree by the surface area heuristic over that before it was first
            refitted (or since it was loaded or unpickled). 1.0 is as good as then. 1.0 for a tree
            in which there is nothing.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape or type; if a primitive can be hit now that could
            not when the tree was built, and so is not in it; if a box cannot be hit any more; for
            users' own primitives.

        Notes
        -----
        When to build a new tree: in trials with 100 000 triangles, rays took up to 1.4 times as
        long as on a new tree where the ratio was below 1.5, 1.5 to 2.6 times where it was about 3,
        15 times at 10. A new tree of quality "low" took the time of 7 refits, one of "medium" that
        of 11. So build one when the rays until then will lose more than that; with as many rays as
        triangles in each frame, when the ratio passes 1.5. Where triangles have grown, as under
        noise, the ratio is large and no tree is better: keep refitting if a new one does not cost
        less by `stats`. (MacDonald and Booth 1990, "Heuristics for ray tracing using space
        subdivision"; Wald, Boulos and Shirley 2007, "Ray tracing deformable scenes using dynamic
        bounding volume hierarchies".)

        The arrays that the tree had before its first refit stay in memory as long as it does.

        Examples
        --------
        >>> import bvh
        >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
        >>> tree.refit([[0, 0, 5], [1, 0, 5], [0, 1, 5]])
        1.0
        >>> tree.closest_hit([0.25, 0.25, 0.0], [0.0, 0.0, 1.0]).t
        5.0
        """
        workers = thread_count(threads)
        points = self._points_of(vertices, upper, transforms)
        with _lock:
            origin, before = self._origin, self._arrays
        origin = origin or Origin(before, members_of(before), cost_of(before))
        with heard(progress) as report:
            arrays, bounds = refitted(origin.arrays, points, workers, origin.members, report)
        cost, cast = cost_of(arrays), _cast_into(arrays)
        with _lock:
            # Of two threads, each may have found the same; nothing here fails half-way.
            self._origin = self._origin or origin
            self._arrays, self._bounds, self._cast = arrays, bounds, cast
        changes.note()
        return cost / origin.cost if cost > 0.0 else 1.0

    def _single_ray(self) -> Any:
        """Return the way in for single rays, once somebody wants it."""
        with _lock:
            # Another thread may have refitted the tree since it was found to have none.
            return super()._single_ray() if self._origin is None else self._cast

    def _points_of(
        self, vertices: ArrayLike, upper: ArrayLike | None, transforms: ArrayLike | None
    ) -> NDArray[np.float64]:
        """Return what a tree's primitives are to be made of, checked."""
        primitives = self._arrays.primitives
        if isinstance(primitives, Custom):
            raise TypeError("a BVH over custom primitives cannot be refitted: build a new one")
        boxes, turned = isinstance(primitives, Boxes | Obbs), isinstance(primitives, Obbs)
        for name, value, wanted in (("upper", upper, boxes), ("transforms", transforms, turned)):
            if (value is not None) != wanted:
                needs = f"{name} to refit" if wanted else f"no {name} to refit"
                raise TypeError(f"a BVH over {self.kind} needs {needs}")
        count = len(primitives.points)
        points = rows("vertices", vertices)
        if len(points) != count:
            raise ValueError(f"vertices must have shape ({count}, 3), got {points.shape}")
        if isinstance(primitives, Triangles):
            return points
        assert upper is not None
        high = rows("upper", upper)
        if high.shape != points.shape:
            raise ValueError(f"upper must have shape ({count}, 3), got {high.shape}")
        if transforms is None:
            return np.hstack([points, high])
        matrices = reals("transforms", transforms)
        if matrices.shape != (count, 4, 4):
            raise ValueError(f"transforms must have shape ({count}, 4, 4), got {matrices.shape}")
        frames = local_frames("transforms", matrices)
        return np.hstack([points, high, frames.reshape(-1, 12)])


def _cast_into(arrays: TreeArrays) -> Any:
    """Return the way in for single rays that keeps its tree alive, whoever asks for which.

    Callers pass the place of the tree that they think of; another thread may have refitted it
    since they looked it up, and its memory may be gone.
    """
    places = addresses_of(arrays)
    kernel, place = way_in(arrays), places.ctypes.data

    def cast(_: int, *ray: Any, _kept: Any = (arrays, places)) -> Any:
        return kernel(place, *ray)

    return cast


@warms("refits")
def _warm() -> None:
    """Compile what refitting needs."""
    points, faces = np.eye(4, 3), np.array([[0, 1, 2], [1, 2, 3]], np.int32)
    lost = np.where(np.arange(4)[:, None] == 0, np.nan, points)
    corners = np.zeros((1, 3)), np.ones((1, 3))
    for primitives, moved in (
        (Triangles(points, faces), (points,)),
        (Triangles(points, faces), (lost,)),
        (Boxes(np.hstack(corners)), corners),
    ):
        tree = object.__new__(Deforming)
        tree._set_arrays(build(frozen_primitives(primitives), "medium", 1, None)[0])
        tree.refit(*moved)
