"""One ray from Python: numbers or points in, a tuple or a hit out.

To hand a kernel an array takes longer than a ray in a tree, so a tree is handed over as the address
of its row (see `tree.rows`), by a method (see `python_calls`). Scratch memory is on the stack of
the call: any number of threads may call it at once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bvh.geometry.arithmetic.floats import INF, NAN
from bvh.runtime import python_calls as calls
from bvh.runtime.jit import entry, entry_point, entry_points, inlined, kernel, method, types
from bvh.runtime.simd import WIDTH, peek, pointer_to, poke
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


# What is asked of a method for a ray: nothing that it can answer, a hit as a tuple, as an object
# of a class, or whether there is one; and what a method finds in memory behind the names.
NOTHING, FAILED, NUMBERS, HIT, BLOCKED = range(5)
ROW, CULL, MASK, FORMS, KIND, SOURCE, FIELDS = range(calls.NAMES + 8, calls.NAMES + 15)


@kernel
def _read_question(words, given, count, names, numbers):
    """Write a ray and its range to memory; return what is asked of it."""
    forms = peek(words, FORMS)
    if forms != NUMBERS and names == 0 and (count == 4 or count == 5):
        good = calls.read_three(words, peek(given, 0), numbers, 0)
        good = good and calls.read_three(words, peek(given, 1), numbers, 3)
        good = good and calls.read_float(words, peek(given, 2), numbers, 6)
        good = good and calls.read_float(words, peek(given, 3), numbers, 7)
        if not good or (count == 4 and forms != HIT):
            return NOTHING
        return HIT if count == 4 else BLOCKED
    poke(numbers, 6, 0.0)
    poke(numbers, 7, INF)
    return NUMBERS if calls.read_numbers(words, given, count, names, numbers, 6, 8) else FAILED


@kernel
def _new_hit(words, t, prim, u, v, front):
    """Return a hit as an object of a class, made as `filler` does; 0 with an exception."""
    made = calls.new_instance(peek(words, KIND), 0)
    fields = calls.fields_of(made, 0) if made != 0 else 0
    good = calls.put_field(fields, peek(words, FIELDS), calls.new_float(t))
    good &= calls.put_field(fields, peek(words, FIELDS + 1), calls.new_int(prim))
    good &= calls.put_field(fields, peek(words, FIELDS + 2), calls.new_float(u))
    good &= calls.put_field(fields, peek(words, FIELDS + 3), calls.new_float(v))
    good &= calls.put_field(fields, peek(words, FIELDS + 4), calls.new_bool(front))
    calls.retain(peek(words, SOURCE))
    good &= calls.put_field(fields, peek(words, FIELDS + 5), peek(words, SOURCE))
    if fields != 0:
        calls.release(fields)
    if made != 0 and not good:
        calls.release(made)
    return made if good else 0


@kernel
def _new_tuple(t, prim, u, v, front, leaf, size):
    """Return a hit as a tuple; 0 with an exception."""
    made = calls.new_tuple(size)
    good = calls.put_item(made, 0, calls.new_float(t))
    good &= calls.put_item(made, 1, calls.new_int(prim))
    good &= calls.put_item(made, 2, calls.new_float(u))
    good &= calls.put_item(made, 3, calls.new_float(v))
    good &= calls.put_item(made, 4, calls.new_bool(front))
    if size == 6:
        good &= calls.put_item(made, 5, calls.new_int(leaf))
    if made != 0 and not good:
        calls.release(made)
    return made if good else 0


def _cast_in(row: type) -> Any:
    """Return a method that casts one ray into trees with a class of rows."""
    in_scene = row is SceneRow

    @method
    def cast_at(held, given, count, names):
        """Cast a ray at a tree."""
        words, numbers = calls.words_of(held), pointer_to(stack_memory(64), F8)
        asked = _read_question(words, pointer_to(given, I8), count, names, numbers)
        if asked == NOTHING:
            calls.retain(peek(words, calls.NONE))
            return peek(words, calls.NONE)
        if asked == FAILED:
            return 0
        o = peek(numbers, 0), peek(numbers, 1), peek(numbers, 2)
        d = peek(numbers, 3), peek(numbers, 4), peek(numbers, 5)
        ray = o, d, peek(numbers, 6), peek(numbers, 7)
        others = calls.let_others_run()
        hit = _cast_at(row(peek(words, ROW)), ray, peek(words, MASK), peek(words, CULL))
        calls.go_on(others)
        t, prim, u, v, front = hit
        if asked == BLOCKED:
            return calls.new_bool(prim >= 0)
        if asked == HIT:
            return _new_hit(words, t, prim, u, v, front)
        if in_scene:
            name = prim_of(prim) if prim >= 0 else prim
            return _new_tuple(t, name, u, v, front, leaf_of(prim), 6)
        return _new_tuple(t, prim, u, v, front, 0, 5)

    return cast_at


@entry
def cast_at_custom(address, ox, oy, oz, dx, dy, dz, t_min, t_max, options):
    """Return (t, prim_id, u, v, front) of one ray in a tree over a user's primitives."""
    # Options are (cull, function, data).
    ray = (ox, oy, oz), (dx, dy, dz), t_min, t_max
    return _cast_at(CustomRow(address, options[1], options[2]), ray, EVERY, options[0])


CASTS: dict[type, Any] = {
    Triangles: _cast_in(TriangleRow),
    Instanced: _cast_in(SceneRow),
    **{solid.arrays: _cast_in(solid.row) for solid in SOLIDS},
}

ARGUMENTS = "ox", "oy", "oz", "dx", "dy", "dz", "t_min", "t_max"
WRONG = f"cast takes {', '.join(ARGUMENTS)}, and the last two need not be given"
# The class of hits, the names of its fields, and the last of these.
Record = tuple[type, Sequence[str], object]


class RayCaster(calls.Held):
    """What a caster of rays finds in memory: the address of a row, options, what hits are."""


def cast_function(
    arrays: TreeArrays, cull: int = 0, mask: int = -1, doc: str = "cast()", forms: int = NUMBERS,
    record: Record = (object, (), None),
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that casts a ray at a tree; the first of a kind compiles it.

    cast(ox, oy, oz, dx, dy, dz, t_min=0.0, t_max=inf) returns (t, prim_id, u, v, front[, leaf]).
    With the forms BLOCKED, cast(origin, direction, t_min, t_max, 0) returns whether there is a hit;
    with HIT, cast(origin, direction, t_min, t_max) also returns a hit as an object. They return
    None for what methods do not read.
    """
    kind: type = type(arrays.primitives)
    if kind is Custom:
        return _cast_with_users_code(arrays, cull)
    of, fields, source = record
    words = arrays.row.address, cull, mask, forms, id(of), id(source), *map(id, fields)
    return calls.new_function(CASTS[kind], doc, RayCaster(ARGUMENTS, WRONG, words, arrays, record))


def _cast_with_users_code(arrays: TreeArrays, cull: int) -> Callable[..., Any]:
    """Return the function that casts a ray, all numbers given, at a user's primitives."""
    ready, kept = kernel_arrays(arrays)
    custom: Any = ready.primitives
    address, options = arrays.row.address, (cull, custom.intersect, custom.data)
    kernel: Callable[..., Any] = cast_at_custom
    # Otherwise the kernel is compiled for the function itself, and its data.
    if isinstance(custom.intersect, int):
        key = "cast_at", Custom
        if key not in entry_points:
            signature = types.int64, *(types.float64,) * 8, types.UniTuple(types.int64, 3)
            entry_points[key] = entry_point(cast_at_custom, signature)
        kernel = entry_points[key]
    # It keeps the arrays behind the addresses alive.
    held = arrays, kept
    return lambda *ray, _held=held: kernel(address, *ray, options) if len(ray) == 8 else None
