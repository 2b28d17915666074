"""Runs the searches of scenes for what meets regions: chunks on threads, buffers, sorted results.

Results are sorted as keys: the number of a query within its chunk, the leaf, the primitive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh import rationals
from bvh.affine import moved
from bvh.arguments import MAX_PRIMITIVES, kernel_input
from bvh.jit import warms
from bvh.placed import CODE_BITS, PRIM_MASK
from bvh.primitives import Triangles
from bvh.searches import CHUNK, LARGEST_ROOM, ROOM
from bvh.traversal.overlaps import COUNT, Found, new_found
from bvh.traversal.region_reach import BoxRegions, PlaneRegions, Regions, SphereRegions
from bvh.traversal.scene_regions import (
    LeafTrees,
    new_scene_search,
    search_scene,
)
from bvh.tree import BVH
from bvh.two_level import TwoLevel
from bvh.workers import Progress, share

Codes = NDArray[np.int64]

PRIM_BITS = MAX_PRIMITIVES.bit_length() - 1
LEAF_BITS = 24


def find_in_scene(
    view: TwoLevel, regions: Regions, count: int, threads: int, progress: Progress | None
) -> tuple[NDArray[np.int64], Codes]:
    """Return (offsets, codes): what each region meets, ascending."""
    regions = type(regions)(*(kernel_input(array) for array in regions))
    parts: dict[int, tuple[NDArray[np.int64], Codes]] = {}

    def work(begin: int, end: int) -> None:
        parts[begin] = _search(view, regions, begin, end)

    if count and len(view.arrays.nodes.blocks):
        share(count, min(CHUNK, max(1, -(-count // (8 * threads)))), work, threads, progress)
    elif progress is not None:
        progress(count, count)
    offsets = np.zeros(count + 1, np.int64)
    ordered = [parts[begin] for begin in sorted(parts)]
    if ordered:
        np.cumsum(np.concatenate([sizes for sizes, _ in ordered]), out=offsets[1:])
    return offsets, joined([codes for _, codes in ordered])


def _search(
    view: TwoLevel, regions: Regions, begin: int, end: int
) -> tuple[NDArray[np.int64], Codes]:
    """Return how much each of the queries begin..end finds, and what."""
    arrays, trees = view.arrays, LeafTrees(view.frames, view.tree_of)
    search, room, done = new_scene_search(regions, begin), ROOM, False
    found, parts = new_found(room, np.int64), []
    while not done:
        done = search_scene(arrays, trees, regions, end, search, found)
        query, code = _decided(view, regions, found, int(search.state[COUNT]))
        leaf_and_prim = (code >> CODE_BITS) << PRIM_BITS | code & PRIM_MASK
        parts.append((query - begin) << (LEAF_BITS + PRIM_BITS) | leaf_and_prim)
        if not done and room < LARGEST_ROOM:
            room *= 4
            found = new_found(room, np.int64)
    keys = ascending(joined(parts))
    sizes = np.bincount(keys >> (LEAF_BITS + PRIM_BITS), minlength=end - begin)
    leaf = keys >> PRIM_BITS & ((1 << LEAF_BITS) - 1)
    return sizes, leaf << CODE_BITS | keys & (MAX_PRIMITIVES - 1)


def _decided(
    view: TwoLevel, regions: Regions, found: Found, count: int
) -> tuple[NDArray[np.int64], Codes]:
    """Return queries and codes, those decided that the kernel left open."""
    query, code = found.query[:count], np.asarray(found.prim[:count], np.int64)
    unsure = np.flatnonzero(code < 0)
    if len(unsure):
        code = code.copy()
        code[unsure] = ~code[unsure]
        kept = np.ones(count, np.bool_)
        kept[unsure] = [_meets(view, regions, int(query[i]), int(code[i])) for i in unsure]
        query, code = query[kept], code[kept]
    return query, code


def _meets(view: TwoLevel, regions: Regions, query: int, code: int) -> bool:
    """Tell in rational numbers whether a region meets a placed triangle."""
    leaf, prim = code >> CODE_BITS, code & PRIM_MASK
    primitives = view.trees[view.tree_of[leaf]].primitives
    assert isinstance(primitives, Triangles)
    points = primitives.points[primitives.faces[prim]]
    corners: Any = moved(points, view.maps[leaf]).tolist()
    if isinstance(regions, SphereRegions):
        center, radius = regions.center[query].tolist(), float(regions.radius[query])
        return rationals.triangle_meets_sphere(corners, center, radius)
    assert isinstance(regions, PlaneRegions)
    return rationals.triangle_meets_planes(corners, regions.planes[query].tolist())


def joined(parts: list[Codes]) -> Codes:
    """Return the parts of a result as one."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def ascending(keys: Codes) -> Codes:
    """Return keys in order, each once: a leaf of a tree may not be the only one with a face."""
    if len(keys) > 1:
        keys = np.sort(keys)
        first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        if not first.all():
            keys = keys[first]
    return keys


@warms("overlaps in scenes")
def _warm() -> None:
    """Compile what regions of scenes need; pairs need what those of trees do."""
    tree = BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    one = np.zeros(1, np.int32)
    view = TwoLevel([tree], one, np.eye(3, 4)[None], np.ones(1, np.uint32), one)
    corners, ones = (np.zeros((1, 3)), np.ones((1, 3))), np.ones(1)
    every = np.ones((1, 1, 4)), np.ones(1, np.int64)
    for regions in (BoxRegions(*corners), SphereRegions(corners[0], ones), PlaneRegions(*every)):
        find_in_scene(view, regions, 1, 1, None)
