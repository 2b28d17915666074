"""Base class of all peers, and bvh itself behind the same methods."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

import bvh

from ..workloads import Workload

Call = Callable[[], Any]
Points = NDArray[np.float64]


class Answer(NamedTuple):
    """Answers of a caster, one a ray; `ids` and `t` are None where any hit was asked for."""

    hit: NDArray[np.bool_]
    ids: NDArray[np.int64] | None = None
    t: NDArray[np.float64] | None = None

    def of(self, rays: NDArray[np.int64]) -> Answer:
        """Return the answers of some rays."""
        return Answer(*(None if a is None else a[rays] for a in self))


class Query(NamedTuple):
    """Call that is timed, and the function that turns its result into comparable values."""

    call: Call
    values: Callable[[Any], Any]


class Caster:
    """Library that answers queries about one mesh; a peer has methods for those that it answers.

    ``rays(work)`` casts all rays of a workload at once (values: Answer), ``hits(work)`` lists all
    hits and ``counts(work)`` counts them (number of hits of each ray), ``closest_point(points)``
    (distances), ``signed_distance(points)`` (negative inside), ``winding_number(points)`` (far
    faces approximated by a series), ``overlaps(vertices)`` with the mesh of other vertices (pairs
    of faces), ``distances(poses)`` of the mesh from itself in other poses (n, 4, 4), and
    ``boxes(low, high)`` (faces, or candidates, in each box). Each returns a `Query`, None if this
    version has no answer. Inputs are converted before the call that is timed.
    """

    # Heading of its column, module that is imported, package whose version is reported; a remark.
    name: ClassVar[str]
    module: ClassVar[str]
    distribution: ClassVar[str]
    note: ClassVar[str]
    # Types of vertices and faces that the peer takes without conversion.
    floats: ClassVar[type] = np.float32
    ids: ClassVar[type] = np.int32
    # Limits above which the peer is not asked, because it would take minutes.
    max_triangles: ClassVar[int] = 1 << 31
    max_rays: ClassVar[int] = 1 << 31
    # Whether the peer uses one thread, however many CPUs its process has.
    one_thread: ClassVar[bool] = False

    def __init__(self, vertices: NDArray[Any], faces: NDArray[Any]) -> None:
        """Build the peer's tree; this is the call that benchmarks of builds time."""

    @classmethod
    def is_installed(cls) -> bool:
        """Return whether the peer can be measured here."""
        try:
            importlib.import_module(cls.module)
        except ImportError:
            return False
        return True

    @classmethod
    def converted(cls, vertices: NDArray[Any], faces: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return a mesh in the types of the peer."""
        return np.ascontiguousarray(vertices, cls.floats), np.ascontiguousarray(faces, cls.ids)

    @classmethod
    def of_mesh(cls, vertices: NDArray[Any], faces: NDArray[Any]) -> Caster:
        """Return the caster of a mesh of any types."""
        return cls(*cls.converted(vertices, faces))

    def query(self, name: str, *inputs: Any) -> Query | None:
        """Return a query by name, None if the peer has no answer."""
        method = getattr(self, name, None)
        return method(*inputs) if method else None

    def singles(self, work: Workload) -> Call | None:
        """Return the call that casts rays one by one, each converted before."""
        calls = []
        for o, d in zip(*(rows[:, None] for rows in work.rays), strict=True):
            query = self.query("rays", replace(work, origins=o, directions=d))
            if query is None:
                return None
            calls.append(query.call)

        def cast() -> None:
            for call in calls:
                call()

        return cast


class Ours(Caster):
    """bvh, through its public methods."""

    name = "bvh"

    def __init__(self, tree: bvh.BVH | bvh.Scene, threads: int) -> None:
        self.tree: Any = tree
        self.threads = threads

    @classmethod
    def of_mesh(cls, vertices: NDArray[Any], faces: NDArray[Any]) -> Ours:
        return cls(bvh.BVH.from_triangles(vertices, faces), 1)

    def rays(self, work: Workload) -> Query:
        query = getattr(self.tree, work.query)
        rays = *work.rays, 0.0, work.t_max
        any_hit = work.query == "any_hit"
        return Query(
            lambda: query(*rays, threads=self.threads),
            lambda found: Answer(found) if any_hit else Answer(found.mask, found.prim_id, found.t),
        )
