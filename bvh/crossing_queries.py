"""What rays ask of a tree beyond the nearest hit: all of them, the first few, or how many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.arguments import kernel_input, thread_count, whole_number
from bvh.batches import counted_hits
from bvh.build import build
from bvh.jit import warms
from bvh.many_hits import Request
from bvh.primitives import Triangles
from bvh.progress_bars import ProgressLike, heard
from bvh.ray_queries import RayQueries
from bvh.rays import AllHits, ray_batch
from bvh.user_code import optional_filter

EDGES = {"closed": False, "once": True}


def edge_rule(edges: str) -> bool:
    """Return whether each crossing is to be one hit."""
    if not isinstance(edges, str) or edges not in EDGES:
        raise ValueError(f"edges must be 'closed' or 'once', got {edges!r}")
    return EDGES[edges]


class CrossingQueries(RayQueries):
    """The questions whose answer is many hits a ray."""

    __slots__ = ()

    def all_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        max_hits: int | None = None,
        edges: str = "closed",
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        filter: Any = None,
        data: Any = None,
    ) -> AllHits:
        """Find all hits of each ray, or the first few.

        The list is complete, and sorted by ray, t and prim_id. It takes 29 bytes a hit, 37 for a
        moment, and some 110 for each hit of 256 rays on every thread.

        Parameters
        ----------
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress
            As in `closest_hit`.
        max_hits : int, optional
            Keep the nearest of each ray only, as many as this; what lies behind them is not
            visited. All by default.
        edges : {"closed", "once"}
            Which of the faces are hit that a ray meets at a shared edge or vertex: "closed" all
            that it touches; "once" those that it would cross if it were moved a little, by less
            than any number and the same way for all faces (Edelsbrunner and Mücke 1990,
            "Simulation of simplicity"). Each crossing of a closed mesh is then one hit, however
            the ray is aimed. Boxes are hit alike either way.
        filter, data
            As in `closest_hit`; the filter says which hits are kept, and counted by `max_hits`.

        Returns
        -------
        AllHits
            Flat arrays, and offsets to each ray's hits.

        Raises
        ------
        ValueError, TypeError
            Where an argument has the wrong shape, type or range; the message names it.

        Examples
        --------
        >>> import bvh
        >>> vertices = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
        >>> tree = bvh.BVH.from_triangles(vertices, [[0, 1, 2], [0, 2, 3]])
        >>> diagonal = [0.5, 0.5, 1.0], [0.0, 0.0, -1.0]
        >>> tree.all_hits(*diagonal).prim_id
        array([0, 1], dtype=int32)
        >>> tree.all_hits(*diagonal, edges="once").prim_id
        array([0], dtype=int32)
        """
        most = None if max_hits is None else whole_number("max_hits", max_hits)
        request = self._request(
            origins, directions, t_min, t_max, cull, validate_rays, edges, filter, data
        )
        with heard(progress) as report:
            hits: AllHits = request.all_hits(most, thread_count(threads), report)
        return hits

    def count_hits(
        self,
        origins: ArrayLike,
        directions: ArrayLike,
        t_min: ArrayLike = 0.0,
        t_max: ArrayLike = np.inf,
        *,
        edges: str = "once",
        cull: str | None = None,
        threads: int | None = None,
        validate_rays: bool = False,
        progress: ProgressLike | None = None,
        filter: Any = None,
        data: Any = None,
    ) -> NDArray[np.int64] | int:
        """Count the hits of each ray.

        Parameters
        ----------
        origins, directions, t_min, t_max, cull, threads, validate_rays, progress
            As in `closest_hit`.
        edges : {"once", "closed"}
            As in `all_hits`. By default each crossing of a closed mesh counts once: an even number
            for rays from outside, an odd number from inside.
        filter, data
            As in `all_hits`.

        Returns
        -------
        ndarray of int64 or int, shape (...)

        Examples
        --------
        >>> import bvh, trimesh
        >>> tree = bvh.BVH.from_mesh(trimesh.creation.box())
        >>> tree.count_hits([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
        1
        """
        request = self._request(
            origins, directions, t_min, t_max, cull, validate_rays, edges, filter, data
        )
        workers = thread_count(threads)
        with heard(progress) as report:
            counts: NDArray[np.int64] | int = request.counts(
                self._quality == "high", workers, report
            )
        return counts

    def _request(
        self, origins: ArrayLike, directions: ArrayLike, t_min: ArrayLike, t_max: ArrayLike,
        cull: str | None, validate_rays: bool, edges: str, filter: Any, data: Any,
    ) -> Request:  # fmt: skip
        """Return the checked request."""
        once = edge_rule(edges)
        batch, code = self._batch(origins, directions, t_min, t_max, cull, validate_rays)
        accept = optional_filter(filter, data)
        return Request(self._arrays, batch, code, once, accept)


@warms("all hits")
def _warm() -> None:
    """Compile what lists and counts of hits need."""
    points, faces = kernel_input(np.eye(3)), np.arange(3, dtype=np.int32).reshape(1, 3)
    arrays, _ = build(Triangles(points, kernel_input(faces)), "medium", 1, None)
    rays = ray_batch(np.ones((2, 3)), -np.ones((2, 3)), 0.0, np.inf)
    request = Request(arrays, rays, 0, True, None)
    for most in (None, 1):
        request.all_hits(most, 1, None)
    counted_hits(arrays, rays, 0, 1, None)
