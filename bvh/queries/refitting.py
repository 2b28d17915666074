"""`BVH.refit`: update a tree in place after its primitives have moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bvh.queries.batches.quick_calls import Searched
from bvh.queries.tree_base import TreeBase, state_guard
from bvh.runtime.arguments import rows, thread_count
from bvh.runtime.progress_bars import ProgressLike, heard
from bvh.tree.arrays import TreeArrays, with_bits
from bvh.tree.changes import changes
from bvh.tree.primitives import Custom, Triangles
from bvh.tree.refit import Members, cost_of, members_of, refitted
from bvh.tree.shapes import shape_of


class Origin(NamedTuple):
    """A tree as it was before its first refit, from which every refit begins.

    So triangles that were not finite in one refit return to their leaves in the next.
    """

    arrays: TreeArrays
    members: Members  # the primitives in its leaves, and the vertices that these use
    cost: float  # the SAH cost


class Refitting(TreeBase):
    """Refitting of a tree."""

    __slots__ = ()

    def refit(
        self, vertices: ArrayLike, upper: ArrayLike | None = None,
        transforms: ArrayLike | None = None, *, q: ArrayLike | None = None,
        radii: ArrayLike | None = None, threads: int | None = None,
        progress: ProgressLike | None = None,
    ) -> float:  # fmt: skip
        """Move the primitives and update all boxes without building the tree again.

        Several times as fast as a build, and queries stay exact. The topology of the tree is not
        changed, so rays take longer the farther primitives of a node have moved apart; the returned
        ratio measures this.

        Queries in other threads that have started before finish on the old tree, and so do
        functions that `caster` returned before. If an exception is raised, the tree is unchanged.

        Parameters
        ----------
        vertices : array_like, shape (n, 3)
            The new positions of all vertices; as many as before. A face is ignored while one of its
            vertices is not finite. For boxes and oriented boxes, the lower corners; for spheres,
            centres; for capsules, the first ends of their axes.
        upper : array_like, shape (n, 3), optional
            For boxes and oriented boxes only: the upper corners. Valid boxes must stay valid.
        transforms : array_like, shape (n, 4, 4), optional
            For oriented boxes only: affine maps from local to world coordinates.
        q : array_like, shape (n, 3), optional
            For capsules only: the other ends of their axes.
        radii : float or array_like, shape (n,), optional
            For spheres and capsules only: one radius for all, or one for each.
        threads, progress
            Number of threads, and callback or bar, as in `from_triangles`; progress is in nodes.

        Returns
        -------
        float
            The SAH cost of the tree, divided by its cost before the first refit after it was built,
            loaded or unpickled. 1.0 for an empty tree.

        Raises
        ------
        ValueError, TypeError
            If an argument has the wrong shape or type; if a primitive becomes valid that was not
            when the tree was built, loaded or unpickled; if a box is no longer valid; if primitives
            are custom ones.

        Notes
        -----
        With 100 000 triangles, rays took up to 1.4 times as long as on a new tree for a ratio below
        1.5, 1.5 to 2.6 times for about 3, 15 times for 10; a build took as long as 5 to 8 refits.
        With as many rays as triangles in each frame, build a new tree when the ratio exceeds 1.5.
        If triangles have grown, as under noise, the ratio is large and a new tree is no better: see
        its `stats`. (MacDonald and Booth 1990, "Heuristics for ray tracing using space
        subdivision"; Wald, Boulos and Shirley 2007, "Ray tracing deformable scenes using dynamic
        bounding volume hierarchies".) The arrays before the first refit stay in memory.

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
        points = self._points_of(
            vertices, {"upper": upper, "transforms": transforms, "q": q, "radii": radii}
        )
        with state_guard.lock:
            origin, before = self._origin, self._arrays
        # `_replace` copies the arrays without the data that queries have cached.
        origin = origin or Origin(before._replace(), members_of(before), cost_of(before))
        with heard(progress) as report:
            arrays, bounds = refitted(origin.arrays, points, workers, origin.members, report)
        # Arrays hold the bits of faces only if some face has none, and so is hidden from queries.
        if self._groups is not None and not self._groups.all():
            arrays = with_bits(arrays, self._groups)
        # In a tree of quality "high", a primitive may be in several leaves.
        cost, searched = cost_of(arrays), Searched(arrays, split=self._quality == "high")
        with state_guard.lock:
            # Two threads may have computed the same origin. Nothing here can fail half-way.
            self._origin = self._origin or origin
            self._arrays, self._bounds, self._quick = arrays, bounds, searched
            # The content is no longer that of a file.
            self._source = None
        changes.note()
        return cost / origin.cost if cost > 0.0 else 1.0

    def _points_of(
        self, vertices: ArrayLike, given: dict[str, ArrayLike | None]
    ) -> NDArray[np.float64]:
        """Check the arguments of `refit`; return the array `points` of the moved primitives.

        A row is a vertex of triangles, else all numbers of one primitive. `given` has the optional
        arguments (upper, transforms, q, radii) by name; None if they were not given.
        """
        primitives = self._arrays.primitives
        if isinstance(primitives, Custom):
            raise TypeError("a BVH over custom primitives cannot be refitted: build a new one")
        expected = () if isinstance(primitives, Triangles) else shape_of(primitives).given
        for name, value in given.items():
            if (value is not None) != (name in expected):
                negation = "" if value is None else "no "
                raise TypeError(f"a BVH over {self.kind} needs {negation}{name} to refit")
        count = len(primitives.points)
        points = rows("vertices", vertices)
        if len(points) != count:
            raise ValueError(f"vertices must have shape ({count}, 3), got {points.shape}")
        if isinstance(primitives, Triangles):
            return points
        if "upper" in expected:
            high = rows("upper", np.asarray(given["upper"]))
            if high.shape != points.shape:
                raise ValueError(f"upper must have shape ({count}, 3), got {high.shape}")
            given = given | {"upper": high}
        return shape_of(primitives).points_of(points, *(given[name] for name in expected))
