"""Measures one mesh in a process of its own; `__main__` starts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import bvh
from .casters import PEERS, Caster, Ours, RTree, installed
from .leaks import leaks
from .processes import Row, answer_parent
from .scenes import Scene, load
from .timing import undisturbed
from .validation import AGREEMENT, against_brute_force, agreement
from .workloads import BATCHES, Workload, workloads

QUALITIES = ["low", "medium", "high"]
SINGLES = 2_000
FEW = 200

# Above this, building the r-tree takes minutes.
RTREE_TRIANGLES = 100_000


def measure(options: dict[str, Any]) -> Iterator[Row]:
    """Yield a row for each workload: seconds of each caster and round, and what was cast."""
    scene = load(options["mesh"])
    only, threads = options["only"], options["threads"]
    common = {"mesh": scene.name, "triangles": len(scene.faces), "threads": threads}
    vertices, faces = scene.vertices.astype(np.float32), scene.faces.astype(np.uint32)
    makers = {name: make for name, make in PEERS.items() if installed(name)}

    if "build" in only:
        yield from ({**common, **row} for row in builds(scene, options))
    asked = [name for name in only if name in (*BATCHES, "single", "r-tree")]
    if asked:
        quality = {"quality": options["quality"]} if options["quality"] else {}
        tree = bvh.BVH.from_triangles(scene.vertices, scene.faces, **quality)
        peers = [make(vertices, faces) for make in makers.values()]
        for work in workloads(tree, options["side"], inside=scene.inside):
            if work.name in only and len(work):
                yield {**common, **batch(tree, work, peers, scene, options)}
            if work.name == "random" and "single" in only:
                yield {**common, **singles(tree, work, peers, options)}
            if work.name == "random" and "r-tree" in only and threads == 1:
                if installed("rtree") and len(faces) <= RTREE_TRIANGLES:
                    few = work.some("r-tree", FEW)
                    yield {**common, **batch(tree, few, [RTree(vertices, faces)], scene, options)}
    if "leaks" in only and threads == 1:
        yield {**leaks(list(makers.values())), "threads": 1}


def qualities() -> Iterator[str]:
    """Yield the qualities that this version can build."""
    for quality in QUALITIES:
        try:
            bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]], quality=quality)
        except ValueError:
            continue
        yield quality


def builds(scene: Scene, options: dict[str, Any]) -> Iterator[Row]:
    """Yield the time of building with each quality that there is, beside the peers."""
    vertices, faces = scene.vertices.astype(np.float32), scene.faces.astype(np.uint32)
    for quality in qualities():
        ours = partial(
            bvh.BVH.from_triangles,
            scene.vertices,
            scene.faces,
            quality=quality,
            threads=options["threads"],
        )
        ours().validate()
        calls: dict[str, Callable[[], object]] = {"bvh": ours}
        for name, make in PEERS.items():
            if installed(name):
                calls[make.name] = partial(make, vertices, faces)
        yield {"what": f"build {quality}", "count": 1, **timed(calls, options)}


def batch(
    tree: bvh.BVH, work: Workload, peers: list[Caster], scene: Scene, options: dict[str, Any]
) -> Row:
    """Measure one workload, its answers checked before.

    A peer that disagrees is left out where float32 does not hold the mesh; where it does, somebody
    is wrong, and nothing is measured.
    """
    ours = Ours(tree, options["threads"])
    against_brute_force(tree, work)
    expected = ours.answer(work, ours.batch(work)())
    span = float(np.linalg.norm(tree.bounds[1] - tree.bounds[0]))
    calls = {ours.name: ours.batch(work)}
    agreed: dict[str, float] = {}
    for peer in peers:
        call = peer.batch(work)
        agreed[peer.name] = agreement(expected, peer.answer(work, call()), work, span)
        if agreed[peer.name] >= AGREEMENT:
            calls[peer.name] = call
        elif scene.single_precision:
            raise SystemExit(f"{work.name}: {peer.name} agrees on only {agreed[peer.name]:.4%}")
    return {
        "what": work.name,
        "count": len(work),
        "hits": float(expected.hit.mean()),
        "agreement": agreed,
        **timed(calls, options),
    }


def singles(tree: bvh.BVH, work: Workload, peers: list[Caster], options: dict[str, Any]) -> Row:
    """Measure single rays, one call each; many different ones, so that none is in a cache."""
    some = work.some("single", SINGLES)
    ours = Ours(tree, 1)
    against_brute_force(tree, some)
    calls = {ours.name: ours.singles(some), f"{ours.name}, floats": ours.floats(some)}
    calls.update({peer.name: peer.singles(some) for peer in peers})
    return {"what": "single", "count": len(some), **timed(calls, options)}


def timed(calls: dict[str, Callable[[], object]], options: dict[str, Any]) -> Row:
    """Return the seconds of each caster, and how much other processes disturbed them."""
    seconds, foreign = undisturbed(calls, options["rounds"], options["attempts"])
    return {"seconds": seconds, "foreign": foreign}


if __name__ == "__main__":
    answer_parent(measure)
