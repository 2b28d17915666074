"""One ray from Python: numbers in, tuple out, no arrays.

To hand a kernel an array takes longer than a ray in a tree, so a tree is handed over as the address
of its row (see `tree.rows`). Scratch memory is on the stack of the call: any number of
threads may call it at once.
"""

from typing import Any

import numpy as np

from bvh.geometry.arithmetic.floats import INF, NAN
from bvh.runtime.jit import entry, entry_point, entry_points, inlined, kernel, types
from bvh.runtime.simd import WIDTH, pointer_to, poke
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.rays.blocks import DOUBLE_ROWS, GROUP, Block, closest_primitive
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.hit_details import details_of
from bvh.traversal.rays.ray_batch import Context, RayPointers
from bvh.traversal.rays.ray_setup import set_up_ray
from bvh.traversal.rays.single_rays import trace
from bvh.traversal.rays.slots import HEADER, SLOT_SIZE
from bvh.tree.arrays import CustomRow, SceneRow, TreeArrays, TriangleRow, is_empty, kernel_arrays
from bvh.tree.instanced import Instanced, leaf_of, prim_of
from bvh.tree.primitives import Custom, Triangles, is_ray
from bvh.tree.solids import SOLIDS

# Where the parts of the scratch memory begin, in bytes.
DOUBLES = 4 * GROUP
RAY = DOUBLES + 8 * DOUBLE_ROWS * WIDTH
WHICH = RAY + 64
SLOT = WHICH + 64
SCRATCH_BYTES = SLOT + 4 * (HEADER + SLOT_SIZE) + 64

# Values whose types pointers take.
F4, F8, I4, I8 = np.float32(0.0), 0.0, np.int32(0), np.int64(0)

EVERY = np.int64(-1)


@kernel
def trace_alone(tree, memory, ray, mask, goal):
    """Trace one ray through a tree; return the closest primitive, or -1."""
    # `ray` is (o, d, t_min, t_max), `memory` the address of SCRATCH_BYTES.
    o, d, t_min, t_max = ray
    if not is_ray(o, d, t_min, t_max):
        return np.int64(-1)
    at = memory + (-memory & 63)
    numbers = pointer_to(at + RAY, F8)
    for axis in range(3):
        poke(numbers, axis, o[axis])
        poke(numbers, 3 + axis, d[axis])
    poke(numbers, 6, t_min)
    poke(numbers, 7, t_max)
    none = np.int64(0)
    rays = RayPointers(
        numbers, pointer_to(at + RAY + 24, F8), pointer_to(at + RAY + 48, F8),
        pointer_to(at + RAY + 56, F8), pointer_to(at + WHICH + 8, I4), none, none, none, none, none,
    )  # fmt: skip
    which = pointer_to(at + WHICH, I8)
    poke(which, 0, 0)
    poke(which, 1, mask)
    block = Block(pointer_to(at, F4), pointer_to(at + DOUBLES, F8), which)
    if not set_up_ray(block, tree.frame, none, o, d, t_min, t_max):
        return np.int64(-1)
    # The lane index of the only ray is 0, which is also what `which` begins with.
    context = Context(tree, rays, block)
    trace(context, pointer_to(at + SLOT, F4), which, np.int64(1), goal)
    return closest_primitive(tree.primitives, block, none)


@inlined
def cast(tree, memory, ray, mask, cull):
    """Return (t, prim_id, u, v, front) of the closest hit of one ray."""
    prim = trace_alone(tree, memory, ray, mask, ClosestGoal(False, cull))
    if prim < 0:
        return INF, prim, NAN, NAN, False
    t, u, v, front = details_of(tree.primitives, tree, prim, ray)
    return t, prim, u, v, front


@inlined
def _cast_at(row, ray, mask, cull):
    """Return (t, prim_id, u, v, front) of one ray in the tree of a row."""
    if is_empty(row):
        return INF, np.int64(-1), NAN, NAN, False
    return cast(as_pointers(row), stack_memory(SCRATCH_BYTES), ray, mask, cull)


def packed(cull: int, mask: int) -> int:
    """Return the options of a ray in a tree over triangles as one number: 0 for no such."""
    # A mask is an int32.
    return ~mask << 2 | (cull & 3)


# Numba takes apart a tuple of six numbers in the time of a tenth of a ray: they come one by one.


def _cast_in(row: type) -> Any:
    """Return an entry that casts one ray into trees with a class of rows."""

    @entry
    def cast_at(address, ox, oy, oz, dx, dy, dz, t_min, t_max, options):
        """Return (t, prim_id, u, v, front) of one ray; see `packed`."""
        ray = (ox, oy, oz), (dx, dy, dz), t_min, t_max
        # As `packed` has put them together.
        return _cast_at(row(address), ray, ~(options >> 2), ((options & 3) ^ 2) - 2)

    return cast_at


@entry
def cast_at_scene(address, ox, oy, oz, dx, dy, dz, t_min, t_max, options):
    """Return (t, prim_id, u, v, front, leaf) of one ray in a scene; options are (cull, mask)."""
    ray = (ox, oy, oz), (dx, dy, dz), t_min, t_max
    t, code, u, v, front = _cast_at(SceneRow(address), ray, options[1], options[0])
    return t, prim_of(code) if code >= 0 else code, u, v, front, leaf_of(code)


@entry
def cast_at_custom(address, ox, oy, oz, dx, dy, dz, t_min, t_max, options):
    """Return (t, prim_id, u, v, front) of one ray in a tree over a user's primitives."""
    # Options are (cull, function, data).
    ray = (ox, oy, oz), (dx, dy, dz), t_min, t_max
    return _cast_at(CustomRow(address, options[1], options[2]), ray, EVERY, options[0])


# The functions, and how many integers their last argument has where it is a tuple.
CASTS: dict[type, tuple[Any, int]] = {
    Triangles: (_cast_in(TriangleRow), 0),
    Custom: (cast_at_custom, 3),
    Instanced: (cast_at_scene, 2),
    **{solid.arrays: (_cast_in(solid.row), 0) for solid in SOLIDS},
}


def cast_function(arrays: TreeArrays) -> Any:
    """Return the function that casts a ray into a tree."""
    # It takes the address of the tree's row, six floats, t_min, t_max, and the side to cull
    # `packed` with a mask; in a scene a tuple of both, of users' primitives the side. It never asks
    # for their types as Numba's dispatcher does, which costs a third of the call.
    kind: type = type(arrays.primitives)
    if kind is Custom:
        return _cast_with_users_code(arrays)
    return _entry_point(kind)


def _entry_point(kind: type) -> Any:
    """Return the compiled function that casts a ray into trees over primitives of a kind."""
    dispatcher, size = CASTS[kind]
    key = "cast_at", kind
    if key not in entry_points:
        options = types.UniTuple(types.int64, size) if size else types.int64
        signature = (types.int64, *(types.float64,) * 8, options)
        entry_points[key] = entry_point(dispatcher, signature)
    return entry_points[key]


def _cast_with_users_code(arrays: TreeArrays) -> Any:
    """Return the function that casts a ray into a tree over a user's primitives."""
    ready, kept = kernel_arrays(arrays)
    custom: Any = ready.primitives
    function, data = custom.intersect, custom.data
    if not isinstance(function, int):
        # The function itself: the kernel is compiled for it and its data.
        return lambda *ray: cast_at_custom(*ray[:-1], (ray[-1], function, data))
    kernel = _entry_point(Custom)
    # The returned function keeps the arrays behind the addresses alive.
    return lambda *ray, _kept=kept: kernel(*ray[:-1], (ray[-1], function, data))
