"""Slots: the layout of the memory of rays that are traced one by one, and its accessors.

A slot contains the end of a ray, its closest hit so far, and its stack. All slots are behind one
pointer, integers as the bits of float32: with a pointer for each kind of number, registers would
not suffice. A slot is identified by the index of its first number; accessors are given the memory
and that index. Before the first slot come the numbers that all of them share: queues of slots,
and the results of the filter.

| numbers | of a slot |
|---|---|
| rows of `ray_numbers` | in a scene, all of them; in a tree, only END and BEST_LOW |
| ray, top, child | lane index of the ray, the top of its stack, its next entry |
| instance, base | in a scene: the instance that the ray is in, or -1; where its stack begins |
| planes, order | for the octant of the ray: near planes, the shift of the order of children |
| best, exact, exact_t | the closest primitive so far; the one whose exact distance is exact_t |
| blas_entry, blas_scale | from distances in the TLAS to those in the BLAS |
| before_low, before_high | interval around the closest hit of the BLASes that the ray has left |
| tlas_... | numbers that all instances share, computed on entering the first one; t_min and t_max |

In a scene the numbers are those of the TLAS or of the BLAS that the ray is in (see
`instanced_rays`); the ray block keeps the former, which intervals and t_min count in. With tau' =
t * tlas_scale - entry in the TLAS, tau = tau' * blas_scale - blas_entry in a BLAS.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.arguments import aligned
from bvh.runtime.jit import inlined
from bvh.runtime.simd import WIDTH, Accessor, field, peek, pointer_to, poke, rows, shifted
from bvh.traversal.rays import blocks
from bvh.traversal.rays import ray_numbers as numbers
from bvh.traversal.rays.blocks import BLOCK
from bvh.tree.instanced import by_scene, code_of, is_mirrored, row_of
from bvh.tree.rows import GROUPS, IDS, NODES
from bvh.tree.triangle_groups import id_place
from bvh.tree.wide_nodes import STACK, all_planes, near_planes, octant_shift

# Rays that are traced in turn, each in a slot.
SLOTS = 16

# Shared by all slots, in multiples of 16: the intervals of a group's candidates; slots whose next
# entry is a node, those where it is a leaf, and those whose ray is done; results of the filter.
_QUEUE = SLOTS + 16
_NODES = 2 * WIDTH + -2 * WIDTH % 16
FOUND = _NODES + 3 * _QUEUE
FOUND_SIZE = 16 + 4 * WIDTH
HEADER = FOUND + 8 * SLOTS * FOUND_SIZE

# After the rows: doubles and integers of 64 bits; then the stack, of a TLAS and a BLAS, if any.
_WORDS = 38
STACKLESS = 80
_STACK_ENTRIES = STACKLESS + 2 * STACK + WIDTH
SLOT_SIZE = _STACK_ENTRIES + 2 * STACK + WIDTH

NO_PRIM, NO_EXACT = -1, -2

F, F4, I4 = np.float32, np.float32(0.0), np.int32(0)


def _word(kind: type, word: int, count: int = 1) -> tuple[Accessor, Accessor]:
    """Return the accessors of `count` numbers of 64 bits of a slot, from a word on."""
    return field(kind, *range(_WORDS + 2 * word, _WORDS + 2 * (word + count), 2))


# Shared by all slots: (low, high) of the k-th candidate, and of all of them as vectors; queues.
interval, intervals, set_intervals = rows(np.float32, 0, WIDTH)
waiting_at_node, queue_at_node = field(np.int32, _NODES)
waiting_at_leaf, queue_at_leaf = field(np.int32, _NODES + _QUEUE)
waiting_for_ray, queue_for_ray = field(np.int32, _NODES + 2 * _QUEUE)

# Numbers of a slot.
end, set_end = field(np.float32, numbers.END)
slack, set_slack = field(np.float32, numbers.SLACK)
best_low, set_best_low = field(np.float32, numbers.BEST_LOW)
ray, set_ray = field(np.int32, 28)
top, set_top = field(np.int32, 29)
child, set_child = field(np.int32, 30)
instance, set_instance = field(np.int32, 32)
base, set_base = field(np.int32, 33)
_planes, _set_planes = field(np.int32, 34, 35, 36)
_order, _set_order = field(np.int32, 37)
blas_entry, set_blas_entry = _word(np.float64, 0)
blas_scale, set_blas_scale = _word(np.float64, 1)
before_low, set_before_low = _word(np.float64, 2)
before_high, set_before_high = _word(np.float64, 3)
exact_t, set_exact_t = _word(np.float64, 4)
best, set_best = _word(np.int64, 5)
exact, set_exact = _word(np.int64, 6)
_arrays, _set_arrays = _word(np.int64, 7, 3)
_, set_nodes = _word(np.int64, 7)
tlas_origin, set_tlas_origin = _word(np.float64, 10, 3)
tlas_direction, set_tlas_direction = _word(np.float64, 13, 3)
# The error of the origin; negative before the first instance.
tlas_error, set_tlas_error = _word(np.float64, 16)
tlas_scale, set_tlas_scale = _word(np.float64, 17)
tlas_range, set_tlas_range = _word(np.float64, 18, 2)

# Entries of a stack, by the slot plus the height: children, and where the ray enters them.
stack_child, _, set_stack_children = rows(np.int32, STACKLESS)
stack_entry, stack_entries, set_stack_entries = rows(np.float32, _STACK_ENTRIES)

# A result of the filter: its slot and group, the fields of `candidates.Filtered`.
_found_ints, _set_found_ints = field(np.int32, FOUND, FOUND + 1, FOUND + 2, FOUND + 3)
_, _found_lanes, _set_found_lanes = rows(
    np.float32, *range(FOUND + 16, FOUND + 16 + 3 * WIDTH, WIDTH)
)


class Slots(NamedTuple):
    """Scratch of rays traced one by one; pointers inside kernels."""

    memory: NDArray[np.float32]
    spare: NDArray[np.int64]  # lane indices of rays that streams leave to be traced singly


def new_slots() -> Slots:
    """Return the scratch of one thread."""
    return Slots(aligned(HEADER + SLOTS * SLOT_SIZE, np.float32), np.empty(BLOCK, np.int64))


@inlined
def set_found(memory, i, slot, group, found):
    """Store the result of the filter for a slot and a group, as the i-th."""
    at = i * FOUND_SIZE
    _set_found_ints(memory, at, (slot, group, found.bits, found.passes))
    _set_found_lanes(memory, at, (found.den, found.numerator, found.margin))


@inlined
def found(memory, i):
    """Return the i-th (slot, group, bits, passes) and (den, numerator, margin) that was stored."""
    at = i * FOUND_SIZE
    return _found_ints(memory, at), _found_lanes(memory, at, WIDTH)


@inlined
def reset_closest(memory, slot, r):
    """Give a slot to ray r, which has no hit so far."""
    set_ray(memory, slot, r)
    set_best(memory, slot, NO_PRIM)
    set_exact(memory, slot, NO_EXACT)


@inlined
def set_octant(memory, slot, octant):
    """Write the near planes, and the shift of the order of children, for a ray of an octant."""
    _set_planes(memory, slot, near_planes(octant))
    _set_order(memory, slot, octant_shift(octant))


@inlined
def child_planes(memory, slot):
    """Return (planes, shift) of a slot's ray: where in a node its near and far planes are."""
    nx, ny, nz = _planes(memory, slot)
    return all_planes(nx, ny, nz), np.int32(_order(memory, slot))


@inlined
def load_planes(memory, slot, block, r):
    """Load into a slot the numbers of ray r of a block for the slab test."""
    for row in range(numbers.ORIGIN):
        poke(memory, slot + row, peek(block.lanes, r + row * WIDTH))


@inlined
def open_tree(instanced, memory, slot, leaf):
    """Make a slot traverse the tree of the instance in row `leaf`."""
    row = row_of(instanced, leaf)
    _set_arrays(memory, slot, (peek(row, NODES), peek(row, GROUPS), peek(row, IDS)))
    set_instance(memory, slot, leaf)


def _ray_in_block(primitives, block, memory, slot):
    """Return (pointer, stride) of a slot's ray's numbers; END and BEST_LOW are read in the slot."""
    return blocks.numbers_of(block.lanes, ray(memory, slot))


def _ray_in_slot(primitives, block, memory, slot):
    return shifted(memory, slot), 1


ray_numbers = by_scene(_ray_in_block, _ray_in_slot)


def _arrays_of_tree(tree, memory, slot):
    """Return (nodes, groups, ids) of the tree that a slot's ray is in."""
    return tree.blocks, tree.groups, tree.ids


def _arrays_in_scene(tree, memory, slot):
    nodes, groups, ids = _arrays(memory, slot)
    return pointer_to(nodes, F4), pointer_to(groups, F4), pointer_to(ids, I4)


current_arrays = by_scene(_arrays_of_tree, _arrays_in_scene)


def _id_in_tree(tree, memory, slot, row):
    """Return the primitive of the query in a row of the ids of the tree that a slot's ray is in."""
    return np.int64(peek(tree.ids, id_place(tree.groups, row)))


def _code_in_scene(tree, memory, slot, row):
    _, _, ids = _arrays(memory, slot)
    return code_of(instance(memory, slot), peek(pointer_to(ids, I4), row))


primitive_at = by_scene(_id_in_tree, _code_in_scene)


def _culled_in_tree(primitives, memory, slot, cull, back):
    """Return the lanes whose hits are culled, as bits; those of `back` show the ray their backs."""
    if cull == 0:
        return np.int64(0)
    return back if cull > 0 else ~back


def _culled_in_scene(primitives, memory, slot, cull, back):
    if cull == 0:
        return np.int64(0)
    # A reflection swaps fronts and backs. `~` sets bits beyond the lanes, which callers mask out.
    return back if (cull > 0) != is_mirrored(primitives, instance(memory, slot)) else ~back


culled_lanes = by_scene(_culled_in_tree, _culled_in_scene)


@inlined
def tlas_distance(block, memory, slot, t):
    """Return t as a distance in the TLAS, from the entry on, where it must not overflow."""
    return blocks.since_entry(block, ray(memory, slot), t * tlas_scale(memory, slot))


def _interval_in_tree(primitives, block, memory, slot, t):
    """Return (low, high) in float32 around the tau of an exact t, in units of the slot's tree."""
    return blocks.tau_around(block, ray(memory, slot), t)


def _interval_in_scene(primitives, block, memory, slot, t):
    """Return (low, high) around the tau of an exact t in the BLAS, as `blocks.tau_around` does."""
    error = np.float64(slack(memory, slot))
    # The float32 tests are disabled.
    if error == INF:
        return F(-INF), F(INF)
    distance = tlas_distance(block, memory, slot, t)
    tau = distance * blas_scale(memory, slot) - blas_entry(memory, slot)
    return F(tau - error), F(tau + error)


tau_interval = by_scene(_interval_in_tree, _interval_in_scene)
