"""One ray, by the shortest way from Python: numbers in, a tuple out.

An array costs more at the border of a kernel than a ray inside, so a tree is handed over as the
addresses of its arrays, in one array. Scratch memory is the call's own: any number of threads may
ask at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.arrays import TreeArrays, kernel_arrays
from bvh.jit import entry, inlined, kernel, types
from bvh.numerics import INF, NAN
from bvh.placed import Placed, leaf_of, prim_of
from bvh.primitives import Boxes, Custom, Obbs, Triangles, arrays_of, is_ray
from bvh.references import borrowed, stack_memory
from bvh.simd import WIDTH, peek, peek_int, pointer_to, poke
from bvh.traversal.block import DOUBLE_ROWS, GROUP, OCTANT, Block
from bvh.traversal.entrance import prepare
from bvh.traversal.finish import finish_alone
from bvh.traversal.goals import ClosestGoal
from bvh.traversal.offers import closest_primitive
from bvh.traversal.query import Query, RayPointers, TreePointers
from bvh.traversal.scene_slots import HEADER, SLOT_SIZE
from bvh.traversal.singles import trace

# Where the parts of the scratch memory begin, in bytes.
DOUBLES = 4 * GROUP
RAY = DOUBLES + 8 * DOUBLE_ROWS * WIDTH
WHICH = RAY + 64
SLOT = WHICH + 64
SCRATCH_BYTES = SLOT + 4 * (HEADER + SLOT_SIZE) + 64

# Values whose types pointers take.
F4, F8, I4, I8 = np.float32(0.0), 0.0, np.int32(0), np.int64(0)

EVERY = np.int64(-1)


def addresses_of(arrays: TreeArrays) -> NDArray[np.int64]:
    """Return where a tree's arrays are: whoever keeps the result must keep the tree."""
    nodes, primitives = arrays.nodes, arrays_of(arrays.primitives)
    parts: list[NDArray[Any]] = [nodes.blocks, nodes.ids, arrays.groups, arrays.frame, *primitives]
    places = np.array([*(part.ctypes.data for part in parts), 0], np.int64)
    places[-1] = len(arrays.nodes.blocks)
    return places


@kernel
def trace_alone(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, mask, goal):
    """Take one ray through a tree, to the goal's end; return the primitive it names, or -1.

    `memory` is SCRATCH_BYTES from there on.
    """
    o, d = (ox, oy, oz), (dx, dy, dz)
    if not is_ray(o, d, t_min, t_max):
        return np.int64(-1)
    at = memory + (-memory & 63)
    ray = pointer_to(at + RAY, F8)
    poke(ray, 0, ox)
    poke(ray, 1, oy)
    poke(ray, 2, oz)
    poke(ray, 3, dx)
    poke(ray, 4, dy)
    poke(ray, 5, dz)
    poke(ray, 6, t_min)
    poke(ray, 7, t_max)
    none = np.int64(0)
    rays = RayPointers(
        ray, pointer_to(at + RAY + 24, F8), pointer_to(at + RAY + 48, F8),
        pointer_to(at + RAY + 56, F8), pointer_to(at + WHICH + 8, I4), none, none, none, none, none,
    )  # fmt: skip
    which = pointer_to(at + WHICH, I8)
    poke(which, 0, 0)
    poke(which, 1, mask)
    block = Block(pointer_to(at, F4), pointer_to(at + DOUBLES, F8), which)
    if not prepare(block, tree.frame, none, o, d, t_min, t_max):
        return np.int64(-1)
    octant = np.int64(peek_int(block.lanes, OCTANT * WIDTH)) & 7
    # The only ray of the block is known by 0, which is also what `which` holds.
    parts = Query(tree, rays, block)
    trace(parts, pointer_to(at + SLOT, F4), which, np.int64(1), octant, goal)
    return closest_primitive(tree.primitives, block, np.int64(0))


@inlined
def cast(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, cull):
    """Return (t, prim_id, u, v, front) of the nearest hit."""
    goal = ClosestGoal(False, cull)
    found = trace_alone(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, EVERY, goal)
    if found < 0:
        return INF, -1, NAN, NAN, False
    o, d = (ox, oy, oz), (dx, dy, dz)
    t, u, v, front = finish_alone(tree.primitives, tree, found, o, d, t_min, t_max)
    return t, found, u, v, front


@inlined
def _tree(places, primitives):
    return TreePointers(
        pointer_to(peek(places, 0), F4),
        pointer_to(peek(places, 1), I4),
        pointer_to(peek(places, 2), F4),
        primitives,
        pointer_to(peek(places, 3), F8),
    )


@entry
def cast_at_triangles(place, ox, oy, oz, dx, dy, dz, t_min, t_max, cull):
    """Return (t, prim_id, u, v, front) of one ray in a tree over triangles."""
    places = pointer_to(place, I8)
    if peek(places, 6) == 0:
        return INF, -1, NAN, NAN, False
    memory = stack_memory(SCRATCH_BYTES)
    primitives = Triangles(pointer_to(peek(places, 4), F8), pointer_to(peek(places, 5), I4))
    tree = _tree(places, primitives)
    return cast(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, cull)


@entry
def cast_at_boxes(place, ox, oy, oz, dx, dy, dz, t_min, t_max, cull):
    """Return (t, prim_id, u, v, front) of one ray in a tree over boxes."""
    places = pointer_to(place, I8)
    if peek(places, 5) == 0:
        return INF, -1, NAN, NAN, False
    memory = stack_memory(SCRATCH_BYTES)
    tree = _tree(places, Boxes(pointer_to(peek(places, 4), F8)))
    return cast(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, cull)


@entry
def cast_at_obbs(place, ox, oy, oz, dx, dy, dz, t_min, t_max, cull):
    """Return (t, prim_id, u, v, front) of one ray in a tree over oriented boxes."""
    places = pointer_to(place, I8)
    if peek(places, 5) == 0:
        return INF, -1, NAN, NAN, False
    memory = stack_memory(SCRATCH_BYTES)
    tree = _tree(places, Obbs(pointer_to(peek(places, 4), F8)))
    return cast(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, cull)


@entry
def cast_at_scene(place, ox, oy, oz, dx, dy, dz, t_min, t_max, cull, mask):
    """Return (t, prim_id, u, v, front, leaf) of one ray in a scene."""
    places = pointer_to(place, I8)
    if peek(places, 10) == 0:
        return INF, -1, NAN, NAN, False, -1
    memory = stack_memory(SCRATCH_BYTES)
    placed = Placed(
        pointer_to(peek(places, 4), F8), pointer_to(peek(places, 5), F8),
        pointer_to(peek(places, 6), F8), pointer_to(peek(places, 7), I8),
        pointer_to(peek(places, 8), I4), pointer_to(peek(places, 9), I4),
    )  # fmt: skip
    tree = _tree(places, placed)
    found = trace_alone(
        tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, mask, ClosestGoal(False, cull)
    )
    if found < 0:
        return INF, -1, NAN, NAN, False, -1
    o, d = (ox, oy, oz), (dx, dy, dz)
    t, u, v, front = finish_alone(placed, tree, found, o, d, t_min, t_max)
    return t, prim_of(found), u, v, front, leaf_of(found)


@entry
def cast_at_custom(place, function, data, ox, oy, oz, dx, dy, dz, t_min, t_max, cull):
    """Return (t, prim_id, u, v, front) of one ray in a tree over a user's primitives."""
    places = pointer_to(place, I8)
    if peek(places, 5) == 0:
        return INF, -1, NAN, NAN, False
    memory = stack_memory(SCRATCH_BYTES)
    custom = Custom(pointer_to(peek(places, 4), F8), function, borrowed(data))
    tree = _tree(places, custom)
    return cast(tree, memory, ox, oy, oz, dx, dy, dz, t_min, t_max, cull)


CASTS: dict[type, Any] = {
    Triangles: cast_at_triangles,
    Boxes: cast_at_boxes,
    Obbs: cast_at_obbs,
    Custom: cast_at_custom,
    Placed: cast_at_scene,
}

# What comes before a ray, and after it, where that is more than a place and which side to cull.
FIRST: dict[type, tuple[Any, ...]] = {Custom: (types.int64,) * 2}
LAST: dict[type, tuple[Any, ...]] = {Placed: (types.int64,)}

_ways_in: dict[type, Any] = {}


def way_in(arrays: TreeArrays) -> Any:
    """Return the function that casts a ray into a tree.

    It takes an int, which says where the arrays are, eight floats and an int, and never asks for
    their types as Numba's dispatcher does, which costs a third of the call.
    """
    kind: type = type(arrays.primitives)
    if kind is Custom:
        return _way_with_users_code(arrays)
    return _entry_point(kind)


def _entry_point(kind: type) -> Any:
    """Return the compiled function that casts a ray into trees over primitives of a kind."""
    if kind not in _ways_in:
        dispatcher = CASTS[kind]
        first, last = FIRST.get(kind, ()), LAST.get(kind, ())
        signature = (types.int64, *first, *(types.float64,) * 8, types.int64, *last)
        dispatcher.compile(signature)
        _ways_in[kind] = dispatcher.overloads[signature].entry_point
    return _ways_in[kind]


def _way_with_users_code(arrays: TreeArrays) -> Any:
    """Return the function that casts a ray into a tree over a user's primitives."""
    ready, kept = kernel_arrays(arrays)
    custom: Any = ready.primitives
    function, data = custom.intersect, custom.data
    if not isinstance(function, int):
        # The function itself: the kernel is compiled for it and its data.
        return lambda place, *ray: cast_at_custom(place, function, data, *ray)
    kernel = _entry_point(Custom)
    # What the addresses lead to is kept by the function that is returned.
    return lambda place, *ray, _kept=kept: kernel(place, function, data, *ray)
