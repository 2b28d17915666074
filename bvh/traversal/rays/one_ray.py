"""One ray from Python: numbers or points in, a tuple or a hit out.

Passing an array to a kernel takes longer than tracing a ray, so a tree is passed as the address of
its row (see `tree.rows`), to a *method*, which reads and makes Python's objects (see
`python_calls`). Scratch memory is on the stack of the call: any number of threads may call it at
the same time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bvh.geometry.arithmetic.floats import INF, NAN
from bvh.runtime.calls import python_calls as calls
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, method
from bvh.runtime.simd import WIDTH, peek, pointer_to, poke
from bvh.runtime.tuple_references import as_pointers, stack_memory
from bvh.traversal.rays.blocks import DOUBLE_ROWS, GROUP, Block, closest_primitive
from bvh.traversal.rays.candidates import ClosestGoal
from bvh.traversal.rays.hit_details import details_of
from bvh.traversal.rays.ray_batch import Context, RayPointers
from bvh.traversal.rays.ray_setup import set_up_ray
from bvh.traversal.rays.single_rays import trace
from bvh.traversal.rays.slots import HEADER, SLOT_SIZE
from bvh.tree import arrays as tree_arrays
from bvh.tree.arrays import CompactRow, SceneRow, TreeArrays, TriangleRow, is_empty
from bvh.tree.instanced import leaf_of, prim_of
from bvh.tree.primitives import Custom, is_ray
from bvh.tree.shapes import SHAPES

# Where the parts of the scratch memory begin, in bytes: the lanes of a block, at 0; its doubles;
# the ray, eight doubles; its number and mask, eight bytes each; what slots share, and a slot. 64
# bytes more allow for alignment.
DOUBLES = 4 * GROUP
RAY = DOUBLES + 8 * DOUBLE_ROWS * WIDTH
WHICH = RAY + 64
SLOT = WHICH + 64
SCRATCH_BYTES = SLOT + 4 * (HEADER + SLOT_SIZE) + 64

# Numbers that give pointers their types.
F4, F8, I4, I8 = np.float32(0.0), 0.0, np.int32(0), np.int64(0)

# The mask with all bits.
EVERY = np.int64(-1)


@kernel
def trace_alone(tree, memory, ray, mask, goal):
    """Trace one ray, (o, d, t_min, t_max), through a tree; return the closest primitive, or -1.

    memory : the address of SCRATCH_BYTES of scratch.
    mask : bits, an int64; faces or instances that share none of them are left out.
    goal : as in `single_rays.trace`; for any hit, the primitive is any one that is hit.
    """
    o, d, t_min, t_max = ray
    if not is_ray(o, d, t_min, t_max):
        return np.int64(-1)
    start = memory + (-memory & 63)  # aligned to a cache line
    numbers = pointer_to(start + RAY, F8)
    for axis in range(3):
        poke(numbers, axis, o[axis])
        poke(numbers, 3 + axis, d[axis])
    poke(numbers, 6, t_min)
    poke(numbers, 7, t_max)
    # A batch of one ray: steps from ray to ray are 0. o, d, t_min and t_max are at the bytes 0, 24,
    # 48 and 56 from RAY on; the ray's number and, 8 bytes behind, its mask are at WHICH.
    zero = np.int64(0)
    rays = RayPointers(
        numbers, pointer_to(start + RAY + 24, F8), pointer_to(start + RAY + 48, F8),
        pointer_to(start + RAY + 56, F8), pointer_to(start + WHICH + 8, I4),
        zero, zero, zero, zero, zero,
    )  # fmt: skip
    which = pointer_to(start + WHICH, I8)
    poke(which, 0, 0)
    poke(which, 1, mask)
    block = Block(pointer_to(start, F4), pointer_to(start + DOUBLES, F8), which)
    if not set_up_ray(block, tree.frame, zero, o, d, t_min, t_max):
        return np.int64(-1)
    # The list of active rays is `which`: the lane index of the only ray is 0, as is its number.
    context = Context(tree, rays, block)
    trace(context, pointer_to(start + SLOT, F4), which, np.int64(1), goal)
    return closest_primitive(tree.primitives, block, zero)


@inlined
def cast(tree, memory, ray, mask, cull):
    """Return (t, prim_id, u, v, front) of the closest hit of one ray, (o, d, t_min, t_max).

    In a scene, prim_id is a code; a miss is (inf, -1, nan, nan, False). `memory` and `mask` are as
    in `trace_alone`; the side `cull` is not hit: 1 is the back, -1 the front, 0 neither.
    """
    prim = trace_alone(tree, memory, ray, mask, ClosestGoal(False, cull))
    if prim < 0:
        return INF, prim, NAN, NAN, False
    t, u, v, front = details_of(tree.primitives, tree, prim, ray, cull)
    return t, prim, u, v, front


@inlined
def _cast_at(row, ray, mask, cull):
    """Return (t, prim_id, u, v, front) of a ray's closest hit in the tree of `row`, by `cast`.

    If the tree is empty, the result is a miss. `mask` and `cull` are as in `cast`.
    """
    if is_empty(row):
        return INF, np.int64(-1), NAN, NAN, False
    return cast(as_pointers(row), stack_memory(SCRATCH_BYTES), ray, mask, cull)


# Forms of results: an exception; None; for eight numbers, a tuple; for points, whether there is a
# hit, or a hit as an object.
FAILED, NOTHING, NUMBERS, BLOCKED, HIT = range(-1, 4)
# Words of a method: the address of the tree's row, options, the last form that it may return, the
# class of hits, the last field of hits, names of arguments, then of fields.
ROW, CULL, MASK, FORMS, HIT_CLASS, LAST_FIELD, NAMES = range(calls.OWN, calls.OWN + 7)
ARGUMENTS = "ox", "oy", "oz", "dx", "dy", "dz", "t_min", "t_max"
FIELDS = "t", "prim_id", "u", "v", "front", "_source"


@kernel
def _read_arguments(words, given, count, names, numbers):
    """Write the ray of a call, o, d, t_min and t_max, to eight `numbers`; return the result's form.

    words : the method's memory (ROW to NAMES); its word FORMS is the last form that is allowed.
    given : addresses of arguments: the first `count` have no names.
    names : the address of a tuple of the names of the other arguments; 0 if there are none.
    The form is HIT for (origin, direction, t_min, t_max), BLOCKED for the same and any fifth
    argument, NUMBERS for numbers; NOTHING if points cannot be read or the form is not allowed,
    FAILED with an exception.
    """
    # Forms are in the order FAILED, NOTHING, NUMBERS, BLOCKED, HIT.
    form, forms = HIT if count == 4 else BLOCKED, peek(words, FORMS)
    if forms != NUMBERS and names == 0 and (count == 4 or count == 5):
        good = form <= forms and calls.read_three(words, peek(given, 0), numbers, 0)
        good = good and calls.read_three(words, peek(given, 1), numbers, 3)
        good = good and calls.read_float(words, peek(given, 2), numbers, 6)
        return form if good and calls.read_float(words, peek(given, 3), numbers, 7) else NOTHING
    # Defaults of t_min and t_max.
    poke(numbers, 6, 0.0)
    poke(numbers, 7, INF)
    # Eight parameters, of which the first six are required.
    good = calls.read_numbers(words, NAMES, given, count, names, numbers, 6, 8)
    return NUMBERS if good else FAILED


@kernel
def _new_hit(words, form, hit, last, size, parts):
    """Return the address of a new object with a hit if `form` is HIT, else of a new tuple.

    It is 0 if that fails. `words` is the method's memory. `hit` is (t, prim_id, u, v, front).
    `parts` is memory for the addresses of the `size` fields, 5 or 6; the sixth is `last`, the
    address of an object whose reference is taken over.
    """
    # The object is made without a call of its class, as by `result_bases.factory_of`.
    t, prim, u, v, front = hit
    poke(parts, 0, calls.new_float(words, t))
    poke(parts, 1, calls.new_int(words, prim))
    poke(parts, 2, calls.new_float(words, u))
    poke(parts, 3, calls.new_float(words, v))
    poke(parts, 4, calls.new_bool(words, front))
    poke(parts, 5, last)
    hit_class, is_object = peek(words, HIT_CLASS), form == HIT
    made = calls.new_instance(words, hit_class, 0) if is_object else calls.new_tuple(words, size)
    # The dict of the object's fields; for a tuple, itself.
    fields = calls.fields_of(words, made, 0) if is_object and made != 0 else made
    good = fields != 0
    for i in range(size):
        part = peek(parts, i)
        if not good or part == 0:
            good = False
        elif is_object:
            name = peek(words, NAMES + len(ARGUMENTS) + i)
            good = calls.set_field(words, fields, name, part) == 0
            calls.decref(words, part)
        else:
            calls.set_item(words, made, i, part)
    if is_object and fields != 0:
        calls.decref(words, fields)
    if made != 0 and not good:
        calls.decref(words, made)
    return made if good else 0


def _cast_in(row: type) -> Any:
    """Return a method that casts one ray into trees whose rows are of the class `row`."""
    in_scene = row is SceneRow

    @method
    def cast_at(held, given, count, names):
        """Cast a ray at a tree, as `cast_function` describes; return the address of the result.

        It is 0 with an exception. `held` is the address of a `RayCaster`; other arguments are as in
        `_read_arguments`.
        """
        words, numbers = calls.memory_of(held), pointer_to(stack_memory(64), F8)
        form = _read_arguments(words, pointer_to(given, I8), count, names, numbers)
        if form == NOTHING:
            return calls.new_reference(words, calls.NONE)
        if form == FAILED:
            return 0
        o = peek(numbers, 0), peek(numbers, 1), peek(numbers, 2)
        d = peek(numbers, 3), peek(numbers, 4), peek(numbers, 5)
        ray = o, d, peek(numbers, 6), peek(numbers, 7)
        thread_state = calls.release_gil(words)
        t, prim, u, v, front = _cast_at(
            row(peek(words, ROW)), ray, peek(words, MASK), peek(words, CULL)
        )
        calls.restore_gil(words, thread_state)
        if form == BLOCKED:
            return calls.new_bool(words, prim >= 0)
        parts, last, size = pointer_to(stack_memory(48), I8), peek(words, LAST_FIELD), 5
        if form == HIT:
            calls.incref(words, last)
            size = 6
        elif in_scene:
            last, size = calls.new_int(words, leaf_of(prim)), 6
            prim = prim_of(prim) if prim >= 0 else prim
        return _new_hit(words, form, (t, prim, u, v, front), last, size, parts)

    return cast_at


@entry
def cast_at_custom(address, ox, oy, oz, dx, dy, dz, t_min, t_max, options):
    """Return `cast` of one ray and a tree over a user's primitives, whose row is at an address.

    `options` are (cull, function, data), the latter two of `Custom`.
    """
    ray = (ox, oy, oz), (dx, dy, dz), t_min, t_max
    return _cast_at(tree_arrays.CustomRow(address, options[1], options[2]), ray, EVERY, options[0])


# Methods that cast one ray, by the class of the tree's row.
CASTS: dict[type, Any] = {
    row: _cast_in(row)
    for row in (TriangleRow, CompactRow, SceneRow, *(shape.row for shape in SHAPES))
}


class RayCaster(calls.MethodMemory):
    """The memory, words of int64, of a function that casts rays."""


def cast_function(
    arrays: TreeArrays, cull: int = 0, mask: int = -1, doc: str = "cast()",
    last_form: int = NUMBERS, hits: type = object, source: object = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that casts a ray at the tree `arrays`.

    The first for each kind of tree compiles it.

    cast(ox, oy, oz, dx, dy, dz, t_min=0.0, t_max=inf) returns (t, prim_id, u, v, front), in a scene
    also the leaf. `cull` is the side whose hits do not count: 1 is the back, -1 the front, 0
    neither; faces or instances that share no bit with `mask` are left out.
    `last_form` allows further forms of calls, and all forms before it. BLOCKED: cast(origin,
    direction, t_min, t_max, 0) returns whether there is a hit. HIT: cast(origin, direction, t_min,
    t_max) returns the hit, as an object of the class `hits` with the field _source = `source`. Both
    return None for points and floats of types that `python_calls` does not read. `doc` begins with
    the signature.
    """
    if type(arrays.primitives) is Custom:
        return _cast_at_users_primitives(arrays, cull, doc, last_form)
    # In the order of the words ROW to NAMES; `arrays` is only kept alive.
    words = arrays.row.address, cull, mask, last_form, hits, source, *ARGUMENTS, *FIELDS, arrays
    return calls.new_function(CASTS[type(arrays.row)], doc, words, RayCaster)


def _cast_at_users_primitives(
    arrays: TreeArrays, cull: int, doc: str, last_form: int
) -> Callable[..., Any]:
    """Return the function of `cast_function` for a tree over a user's primitives.

    It takes only numbers: if `last_form` is not NUMBERS, it returns None for calls without eight.
    """
    ready, owner = tree_arrays.kernel_arrays(arrays)
    custom: Any = ready.primitives
    address, options = arrays.row.address, (cull, custom.intersect, custom.data)
    kernel: Callable[..., Any] = cast_at_custom

    def cast(
        ox: float, oy: float, oz: float, dx: float, dy: float, dz: float, t_min: float = 0.0,
        t_max: float = np.inf,
    ) -> Any:  # fmt: skip
        # Referenced to keep alive what the kernel reads by address.
        assert arrays, owner
        return kernel(address, *map(float, (ox, oy, oz, dx, dy, dz, t_min, t_max)), options)

    # Without the signature, which a built-in function has in its docstring, up to "--".
    cast.__doc__ = doc.partition("--")[2].lstrip()
    return cast if last_form == NUMBERS else lambda *ray: cast(*ray) if len(ray) == 8 else None
