"""Slots: the layout of the memory of rays that are traced one by one, and its accessors.

A slot contains the end of a ray, its closest hit so far, and its stack. All slots are in one array
of float32, which also has the bits of integers and doubles: with a pointer for each type,
registers would not suffice. A slot is identified by the index of its first number. Before the first
slot come the numbers that all share: intervals, queues of slots, and results of the filter.

| numbers | of a slot |
|---|---|
| rows of `ray_numbers` | in a scene, all of them; in a tree, only END and BEST_LOW |
| ray, top, child | lane index of the ray, the top of its stack, its next node or leaf |
| instance | in a scene: the row of the instance that the ray is in, or -1 in the TLAS |
| base | in a scene: where the stack of the TLAS or BLAS begins |
| planes, order | for the octant of the ray: near planes, the shift of the order of children |
| best | the closest primitive so far, an id or a scene's code |
| exact, exact_t | the last primitive whose distance t has been computed exactly, and that t |
| blas_entry, blas_scale | from distances in the TLAS to those in the BLAS |
| before_low, before_high | interval around the closest hit of the BLASes that the ray has left |
| tlas_... | numbers that all instances share, computed on entering the first one |
| tlas_range | of these, the tau' of t_min and t_max |

In a scene the rows are those of the TLAS or of the BLAS that the ray is in (see `instanced_rays`);
those of the TLAS stay in the ray block. With tau' = t * tlas_scale - entry in the TLAS,
tau = tau' * blas_scale - blas_entry in a BLAS.

Arguments, here and in traversals: `memory` is the array of all slots, and `slot` the index of one;
r is the lane index of a ray in its `block`; `group` is the number of a triangle group;
`context_ref` is a reference to a `Context` (see `tuple_references`), which passes the tree, the
rays and the block as one argument to functions that are not inlined.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import INF
from bvh.runtime.jit import inlined
from bvh.runtime.memory import aligned
from bvh.runtime.simd import WIDTH, Accessor, Vec, field, peek, pointer_to, poke, rows, shifted
from bvh.traversal.rays import blocks
from bvh.traversal.rays import ray_numbers as numbers
from bvh.traversal.rays.blocks import BLOCK
from bvh.tree.instanced import by_scene, code_of, is_mirrored, row_of
from bvh.tree.rows import GROUPS, IDS, NODES
from bvh.tree.triangle_groups import id_place
from bvh.tree.wide_nodes import MAX_LEAF_ROWS, STACK, all_planes, near_planes, octant_shift

# Rays that are traced in turn, each in a slot.
SLOTS = 16

# Shared by all slots, in multiples of 16 (a cache line): the intervals of a group's candidates;
# queues of slots whose next entry is a node, of those where it is a leaf, and of those whose ray is
# done; results of the filter, for each slot as many as a leaf may have triangle groups. A result
# is four integers and, from number 16 on, three vectors.
_QUEUE = SLOTS + 16
_NODES = 2 * WIDTH + -2 * WIDTH % 16
FILTERED = _NODES + 3 * _QUEUE
FILTERED_SIZE = 16 + 4 * WIDTH
HEADER = FILTERED + MAX_LEAF_ROWS * SLOTS * FILTERED_SIZE

# Where parts of a slot begin, after the rows and integers of 32 bits: words of 64 bits; the stack,
# which TLAS and BLAS share: children, then entries. Stores may write WIDTH numbers beyond a top.
_WORDS = 38
STACKLESS = 80
_STACK_ENTRIES = STACKLESS + 2 * STACK + WIDTH
SLOT_SIZE = _STACK_ENTRIES + 2 * STACK + WIDTH

# Values of `best` and `exact` before the first hit.
NO_PRIM, NO_EXACT = -1, -2

# F4 and I4 give pointers their types.
F, F4, I4 = np.float32, np.float32(0.0), np.int32(0)


def _word(kind: type, word: int, count: int = 1) -> tuple[Accessor, Accessor]:
    """Return (read, write) of `count` 64-bit words of a slot, of type `kind`, from `word` on.

    These accessors are called with the memory, where a word is two float32 numbers, and a slot;
    values of several words are tuples.
    """
    return field(kind, *range(_WORDS + 2 * word, _WORDS + 2 * (word + count), 2))


# Shared by all slots. The index is a lane, for the interval (low, high) of the candidate there; 0,
# for the intervals of all lanes, two vectors; or a place in a queue.
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
# The addresses of the nodes, groups and ids of the current tree; that of the nodes alone.
_arrays, _set_arrays = _word(np.int64, 7, 3)
_, set_nodes = _word(np.int64, 7)
tlas_origin, set_tlas_origin = _word(np.float64, 10, 3)
tlas_direction, set_tlas_direction = _word(np.float64, 13, 3)
# The error of the origin; negative before the first instance.
tlas_error, set_tlas_error = _word(np.float64, 16)
tlas_scale, set_tlas_scale = _word(np.float64, 17)
tlas_range, set_tlas_range = _word(np.float64, 18, 2)

# Entries of a stack, by the index slot + height: children, and where the ray enters them.
stack_child, _, set_stack_children = rows(np.int32, STACKLESS)
stack_entry, stack_entries, set_stack_entries = rows(np.float32, _STACK_ENTRIES)

# A result of the filter: its slot and group, and the integers and vectors of `Filtered`.
_filtered_ints, _set_filtered_ints = field(np.int32, *range(FILTERED, FILTERED + 4))
_, _filtered_lanes, _set_filtered_lanes = rows(
    np.float32, *range(FILTERED + 16, FILTERED + 16 + 3 * WIDTH, WIDTH)
)


class Filtered(NamedTuple):
    """Result of the filter of a triangle group for a ray; inside kernels."""

    bits: int  # lanes that may be hit
    passes: int  # lanes whose edges are surely passed on the inner side, if also in `bits`
    den: Vec  # d . N; positive where the back faces the ray
    numerator: Vec  # distance * abs(den)
    margin: Vec  # the error bound of `numerator`


class Slots(NamedTuple):
    """Scratch of rays traced one by one; pointers inside kernels."""

    memory: NDArray[np.float32]
    spare: NDArray[np.int64]  # lane indices of rays that streams leave to be traced singly


def new_slots() -> Slots:
    """Return `Slots`, the scratch of one thread."""
    return Slots(aligned(HEADER + SLOTS * SLOT_SIZE, np.float32), np.empty(BLOCK, np.int64))


@inlined
def set_filtered(memory, i, slot, group, filtered):
    """Store the `Filtered` of a slot's ray and triangle group number `group` as the i-th result.

    In streams, `slot` is the place of a ray in its group of rays (see `streams`).
    """
    at = i * FILTERED_SIZE
    _set_filtered_ints(memory, at, (slot, group, filtered.bits, filtered.passes))
    _set_filtered_lanes(memory, at, (filtered.den, filtered.numerator, filtered.margin))


@inlined
def filtered_at(memory, i):
    """Return (slot, group, `Filtered`), the i-th stored result of the filter."""
    at = i * FILTERED_SIZE
    slot, group, bits, passes = _filtered_ints(memory, at)
    den, numerator, margin = _filtered_lanes(memory, at, WIDTH)
    return slot, group, Filtered(bits, passes, den, numerator, margin)


@inlined
def assign_ray(memory, slot, r):
    """Give a slot to the ray at lane index r of the block, without a hit so far."""
    set_ray(memory, slot, r)
    set_best(memory, slot, NO_PRIM)
    set_exact(memory, slot, NO_EXACT)


@inlined
def set_octant(memory, slot, octant):
    """Write the near planes and the order of children for the octant, 0 to 7, of a slot's ray."""
    _set_planes(memory, slot, near_planes(octant))
    _set_order(memory, slot, octant_shift(octant))


@inlined
def child_planes(memory, slot):
    """Return (planes, shift) of a slot's ray, which both depend on its octant.

    `planes` are the places of near and far planes in a node, as `enter_children` takes them. A
    node's `child_orders`, shifted by `shift`, begin with the order of its children for the octant.
    """
    nx, ny, nz = _planes(memory, slot)
    return all_planes(nx, ny, nz), np.int32(_order(memory, slot))


@inlined
def load_planes(memory, slot, block, r):
    """Copy the rows NEAR, FAR and INVERSE of the ray at lane index r of a block to a slot."""
    for row in range(numbers.ORIGIN):
        poke(memory, slot + row, peek(block.lanes, r + row * WIDTH))


@inlined
def open_tree(instanced, memory, slot, leaf):
    """Make a slot's ray traverse the tree in row `leaf` of `instanced`, the scene's trees."""
    row = row_of(instanced, leaf)
    _set_arrays(memory, slot, (peek(row, NODES), peek(row, GROUPS), peek(row, IDS)))
    set_instance(memory, slot, leaf)


def _ray_in_block(primitives, block, memory, slot):
    """Return (pointer, stride), the `ray_numbers` of a slot's ray in the block, not in a scene.

    END and BEST_LOW are not valid there: the slot has them.
    """
    return blocks.numbers_of(block.lanes, ray(memory, slot))


def _ray_in_slot(primitives, block, memory, slot):
    """Return (pointer, stride), the `ray_numbers` of a slot's ray in a scene: all in the slot."""
    return shifted(memory, slot), 1


ray_numbers = by_scene(_ray_in_block, _ray_in_slot)


def _arrays_in_scene(tree, memory, slot):
    """Return pointers to (nodes, groups, ids) of a slot's BLAS; in a TLAS only nodes are valid."""
    nodes, groups, ids = _arrays(memory, slot)
    return pointer_to(nodes, F4), pointer_to(groups, F4), pointer_to(ids, I4)


# Pointers to (nodes, groups, ids) of the tree that a slot's ray is in.
current_arrays = by_scene(
    lambda tree, memory, slot: (tree.blocks, tree.groups, tree.ids), _arrays_in_scene
)


def _id_in_tree(tree, memory, slot, row):
    """Return the id at index `row` of the tree's ids.

    For triangles `row` is group_at(group) + lane, which `id_place` converts for compact groups.
    """
    return np.int64(peek(tree.ids, id_place(tree.groups, row)))


def _code_in_scene(tree, memory, slot, row):
    """Return the code of the primitive at index `row` of the ids of the BLAS of a slot's ray."""
    _, _, ids = _arrays(memory, slot)
    return code_of(instance(memory, slot), peek(pointer_to(ids, I4), row))


primitive_at = by_scene(_id_in_tree, _code_in_scene)


def _culled_in_tree(primitives, memory, slot, cull, back):
    """Return the lanes of a group whose hits are culled, as bits; bits beyond the lanes may be set.

    cull : the side whose hits do not count: 1 is the back, -1 the front, 0 neither.
    back : bits of the lanes whose backs the ray meets in the tree's local frame.
    """
    if cull == 0:
        return np.int64(0)
    return back if cull > 0 else ~back


def _culled_in_scene(primitives, memory, slot, cull, back):
    """Return the lanes, as bits, whose hits are culled in the instance that a slot's ray is in.

    `cull` and `back` are as in `_culled_in_tree`.
    """
    if cull == 0:
        return np.int64(0)
    # A reflection swaps fronts and backs.
    return back if (cull > 0) != is_mirrored(primitives, instance(memory, slot)) else ~back


culled_lanes = by_scene(_culled_in_tree, _culled_in_scene)


def _interval_in_tree(primitives, block, memory, slot, t):
    """Return float32 bounds (low, high) of tau, for a hit of a slot's ray at the exact t.

    tau is the distance from where the ray enters the root's box. The bounds are (-inf, inf) where
    the float32 tests of the ray are disabled.
    """
    return blocks.tau_around(block, ray(memory, slot), t)


def _interval_in_scene(primitives, block, memory, slot, t):
    """Return float32 bounds (low, high) of tau, for a hit at the exact t of a slot's ray in a BLAS.

    tau is the distance from where the ray enters the box of the BLAS's root.
    """
    error = np.float64(slack(memory, slot))
    if error == INF:  # the float32 tests are disabled
        return F(-INF), F(INF)
    distance = blocks.since_entry(block, ray(memory, slot), t * tlas_scale(memory, slot))
    tau = distance * blas_scale(memory, slot) - blas_entry(memory, slot)
    return F(tau - error), F(tau + error)


tau_interval = by_scene(_interval_in_tree, _interval_in_scene)
