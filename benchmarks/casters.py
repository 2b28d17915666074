"""What answers: `Ours`, and what every peer can be asked."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

import bvh

from .workloads import Workload

Call = Callable[[], Any]
Points = NDArray[np.float64]


class Answer(NamedTuple):
    """What a caster said of each ray; `ids` and `t` are None where it was asked for any hit."""

    hit: NDArray[np.bool_]
    ids: NDArray[np.int64] | None = None
    t: NDArray[np.float64] | None = None

    def of(self, rays: NDArray[np.int64]) -> Answer:
        """Return what was said of some of the rays."""
        return Answer(*(None if a is None else a[rays] for a in self))


class Asked(NamedTuple):
    """A question put to a caster: what is timed, and what its result says in plain numbers."""

    call: Call
    said: Callable[[Any], Any]


class Caster:
    """Something that is asked about a mesh; a peer overrides what it has an answer to.

    Whatever the questions are converted to is made before the clock starts.

    Attributes
    ----------
    name : str
        As tables have it.
    module, distribution : str
        What is imported, and the package whose version is told.
    floats, ids : type
        Of the vertices and faces that it takes as they are.
    most_triangles, most_rays : int
        Above these it is not asked, because it would take minutes.
    one_thread : bool
        It uses one, however many CPUs its process has.
    note : str
        What a reader of its figures has to know.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    distribution: ClassVar[str]
    floats: ClassVar[type] = np.float32
    ids: ClassVar[type] = np.int32
    most_triangles: ClassVar[int] = 1 << 31
    most_rays: ClassVar[int] = 1 << 31
    one_thread: ClassVar[bool] = False
    note: ClassVar[str] = ""

    def __init__(self, vertices: NDArray[Any], faces: NDArray[Any]) -> None:
        """Build whatever the caster searches; this is what a build is timed by."""

    @classmethod
    def given(cls, vertices: NDArray[Any], faces: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """Return a mesh as the caster takes it, with nothing left to convert."""
        return (
            np.ascontiguousarray(vertices, cls.floats),
            np.ascontiguousarray(faces, cls.ids),
        )

    @classmethod
    def made(cls, vertices: NDArray[Any], faces: NDArray[Any]) -> Caster:
        """Return the caster of a mesh."""
        return cls(*cls.given(vertices, faces))

    def batch(self, work: Workload) -> Call | None:
        """Return the call that casts all rays of a workload at once."""
        return None

    def singles(self, work: Workload) -> Call | None:
        """Return the call that casts the rays one by one."""
        return None

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        raise NotImplementedError

    def hits(self, work: Workload) -> Asked | None:
        """Return what lists all hits of the rays; it says how many each ray has."""
        return None

    def counts(self, work: Workload) -> Asked | None:
        """Return what counts all hits of the rays; it says how many each ray has."""
        return None

    def closest_point(self, points: Points) -> Asked | None:
        """Return what finds the nearest points; it says their distances."""
        return None

    def signed_distance(self, points: Points) -> Asked | None:
        """Return what finds signed distances; it says them, negative inside."""
        return None

    def winding_number(self, points: Points) -> Asked | None:
        """Return what finds winding numbers, by a series where faces are far."""
        return None


class Ours(Caster):
    """bvh, through its public methods."""

    name = "bvh"
    module = "bvh"
    distribution = "raybvh"

    def __init__(self, tree: bvh.BVH | bvh.Scene, threads: int) -> None:
        self.tree: Any = tree
        self.threads = threads

    def batch(self, work: Workload) -> Call:
        """Return the call that casts all rays of a workload at once."""
        query = getattr(self.tree, work.query)
        rays = work.origins, work.directions, 0.0, work.t_max
        return lambda: query(*rays, threads=self.threads)

    def singles(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as arrays of shape (3,)."""
        return self._each(list(zip(work.origins, work.directions, strict=True)), work.query)

    def floats_one_by_one(self, work: Workload) -> Call:
        """Return the call that casts the rays one by one, given as lists of Python floats."""
        rays = zip(work.origins.tolist(), work.directions.tolist(), strict=True)
        return self._each(list(rays), work.query)

    def through_caster(self, work: Workload) -> Call:
        """Return the call that hands the rays to `caster`, number by number."""
        cast, rays = self.tree.caster(), np.hstack([work.origins, work.directions]).tolist()

        def call() -> None:
            for ray in rays:
                cast(*ray)

        return call

    def _each(self, rays: list[Any], query: str) -> Call:
        ask = getattr(self.tree, query)

        def cast() -> None:
            for o, d in rays:
                ask(o, d)

        return cast

    def answer(self, work: Workload, result: Any) -> Answer:
        """Return what a batch's result says."""
        if work.query == "any_hit":
            return Answer(result)
        return Answer(result.mask, result.prim_id, result.t)

    def hits(self, work: Workload) -> Asked:
        """Return what lists all hits."""
        rays = work.origins, work.directions
        return Asked(
            lambda: self.tree.all_hits(*rays, threads=self.threads),
            lambda found: np.diff(found.offsets),
        )

    def counts(self, work: Workload) -> Asked:
        """Return what counts all hits, every edge as one face's."""
        rays = work.origins, work.directions
        return Asked(lambda: self.tree.count_hits(*rays, threads=self.threads), np.asarray)

    def closest_point(self, points: Points) -> Asked:
        """Return what finds the nearest points."""
        return Asked(
            lambda: self.tree.closest_point(points, threads=self.threads),
            lambda found: found.distance,
        )

    def signed_distance(self, points: Points) -> Asked:
        """Return what finds signed distances."""
        return Asked(lambda: self.tree.signed_distance(points, threads=self.threads), np.asarray)

    def winding_number(self, points: Points) -> Asked:
        """Return what finds winding numbers."""
        return Asked(lambda: self.tree.winding_number(points, threads=self.threads), np.asarray)


def one_by_one(calls: list[Call]) -> Call:
    """Return the call that makes all calls in turn."""

    def cast() -> None:
        for call in calls:
            call()

    return cast


def installed(module: str) -> bool:
    """Tell whether a module can be imported."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True
