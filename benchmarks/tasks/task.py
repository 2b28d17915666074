"""Task: one query, as bvh and every peer are asked it, and how all are timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import bvh

from ..peers.caster import Call, Caster, Query
from ..processes import Row
from ..scenes import Scene, load
from ..timing import Patience, undisturbed
from ..workloads import Workload, workloads

Picked = NDArray[np.int64]

# Rays or points that a peer is asked about first, to learn how slow it is.
PROBES = (64, 512)
# A peer whose turn would take longer (in seconds) is asked about fewer, so that it takes `TURN`.
LONGEST, TURN = 0.4, 0.1
# A call that cannot be made smaller is timed once if it takes longer, and so many times our time.
ONCE, MUCH_SLOWER = 0.5, 10.0


class Setting:
    """Options of a measuring process, with the mesh and its tree made when needed."""

    def __init__(self, options: dict[str, Any], peers: list[type[Caster]]) -> None:
        self.options, self.peers = options, peers
        self.tasks: list[str] = options["tasks"]
        self.threads: int = options["threads"]

    @cached_property
    def scene(self) -> Scene:
        """The mesh."""
        return load(self.options["mesh"])

    @cached_property
    def tree(self) -> bvh.BVH:
        """Tree of the mesh."""
        quality = {"quality": self.options["quality"]} if self.options["quality"] else {}
        return bvh.BVH.from_triangles(self.scene.vertices, self.scene.faces, **quality)

    def workloads(self, *names: str, max_side: int = 1 << 31) -> Iterator[Workload]:
        """Yield the batches of rays of some names that are not empty."""
        side = min(self.options["side"], max_side)
        for work in workloads(self.tree, side, inside=self.scene.inside):
            if work.name in names and len(work):
                yield work


class Task(NamedTuple):
    """Query that is measured."""

    # Name of its row.
    name: str
    # What is counted: "ray", "point", "box"; "call" if a call has no parts.
    unit: str
    # Number of them in one call of ours.
    count: int
    # Mesh that peers are built of.
    mesh: Scene
    # Calls of ours by name; "bvh" is the one that peers are compared with.
    ours: dict[str, Call]
    # Compares a sample of our answers with brute force; raises SystemExit where they differ.
    check: Callable[[], None]
    # Given a peer and indices of rays or points, returns its query, None if it has no answer.
    query: Callable[[Caster, Picked], Query | None]
    # Given the values of a peer and the indices, returns the share that equals ours.
    agreement: Callable[[Any, Picked], float] = lambda values, picked: 1.0
    # Other entries of the row.
    facts: Mapping[str, Any] = MappingProxyType({})

    def pick(self, count: int) -> Picked:
        """Return the indices of `count` of its rays or points, at random; or all, in order."""
        if count >= self.count:
            return np.arange(self.count)
        return np.random.default_rng(0).choice(self.count, count, replace=False)


def measured(task: Task, peers: Iterable[Caster], rounds: int, patience: Patience) -> Row:
    """Check all answers, then time all in turn; return the row of figures.

    Peers are not refused for answers that differ from ours: the row has the share that agrees.
    """
    task.check()
    calls = dict(task.ours)
    own = _seconds(calls["bvh"])
    row: Row = {"what": task.name, "unit": task.unit, "count": task.count}
    once: dict[str, list[float]] = {}
    counts, agreement, failed = dict.fromkeys(calls, task.count), {}, {}
    for peer in peers:
        try:
            count = affordable(task, peer)
            picked = task.pick(count)
            query = task.query(peer, picked) if count else None
            if query is None:
                continue
            began = time.perf_counter()
            result = query.call()
            seconds = time.perf_counter() - began
            agreement[peer.name] = task.agreement(query.values(result), picked)
        # Whatever a peer raises, the others are measured.
        except Exception as error:
            failed[peer.name] = f"{type(error).__name__}: {error}"
            continue
        counts[peer.name] = count
        if seconds > max(ONCE, MUCH_SLOWER * own):
            once[peer.name] = [seconds]
        else:
            calls[peer.name] = query.call
    timed, row["foreign"] = undisturbed(calls, rounds, patience=patience)
    # No clock has more digits than that.
    row["seconds"] = {n: [round(each, 9) for each in turns] for n, turns in (timed | once).items()}
    # How many each caster was asked about in these seconds: of slow peers fewer than of us.
    row |= {"counts": counts, "agreement": agreement, **task.facts}
    return row | ({"failed": failed} if failed else {})


def affordable(task: Task, peer: Caster) -> int:
    """Return how many a peer can be asked about in a short time; 0 if it has no answer.

    The time of a call is taken to grow linearly between the probes and beyond. The fixed cost of a
    call must not be spread over too few.
    """
    limit = min(task.count, peer.max_rays)
    if limit <= PROBES[0]:
        return limit
    seconds: list[float] = []
    first, second = PROBES[0], min(PROBES[1], limit)
    for count in (first, second):
        query = task.query(peer, task.pick(count))
        if query is None:
            return 0
        if not seconds:
            # The first call may compile, or fill caches.
            query.call()
        seconds.append(min(_seconds(query.call) for _ in range(2 - len(seconds))))
    rate = max(seconds[1] - seconds[0], 1e-9) / (second - first)
    if rate * limit <= LONGEST:
        return limit
    fixed = max(0.0, seconds[0] - rate * first)
    return max(first, min(limit, int(max(TURN, 4.0 * fixed) / rate)))


def _seconds(call: Call) -> float:
    """Return the seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
