"""Search for the closest pair of faces of two trees.

Pairs of subtrees are opened together, nearest boxes first (Larsen, Gottschalk, Lin, Manocha 1999,
"Fast proximity queries with swept sphere volumes"); those farther apart than the best upper bound
of the distance are dropped. Pairs of faces whose lower bounds do not exceed it are candidates,
which are measured at the end, or when their memory is full; if it is still full then, the search
pauses until rational numbers have decided between them. Once two faces touch, only pairs that
come before them are tested. A subtree is given by its code and the position of its box.
"""

import numpy as np

from bvh.geometry.arithmetic.floats import INF, NAN, bits, from_bits, vector
from bvh.geometry.arithmetic.vectors import minus
from bvh.geometry.pairs.triangle_distance import distance_bounds
from bvh.geometry.pairs.triangle_overlap import triangles_touch
from bvh.runtime import simd
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import inlined, kernel, stay_outlined
from bvh.runtime.simd import WIDTH, peek, pointer, poke
from bvh.traversal.pairs import closest_memory as memory
from bvh.traversal.pairs import measured_pairs, near_pairs, pair_frames
from bvh.traversal.pairs.near_faces import collect_faces
from bvh.traversal.pairs.near_pairs import BOX_ERROR, FACE_ERROR
from bvh.traversal.pairs.pair_frames import MARGIN, SHIFT
from bvh.traversal.pairs.pair_walk import SEARCHES, child_of, push_roots, task_of, walk
from bvh.tree.arrays import TriangleRow
from bvh.tree.rows import is_empty
from bvh.tree.triangle_groups import id_at

# Results of `closest_pairs`: why it returns.
DONE, LATER, UNDECIDED = 0, 1, 2
# Descents to leaves that lower the bound before the search.
DESCENTS = 2


@kernel
def _test(task, code):
    """Test a pair of faces: store it as the contact if they touch, else as a candidate.

    `code` is the first face's id times 2**32, plus the second's. A pair farther apart than BEST,
    the upper bound of the distance, is dropped, as is one with a vertex that is not finite. After a
    contact, pairs that do not touch are dropped, too, and callers test only pairs of lower codes,
    so that a new contact replaces the former.
    """
    stay_outlined()
    search, tree, tree2, side, side2 = task.search, task.tree, task.tree2, task.side, task.side2
    state, reals = search.state, search.reals
    valid, a = pair_frames.side_corners(tree.primitives, code >> 32, side)
    valid2, b = pair_frames.side_corners(tree2.primitives, code & memory.LOW_BITS, side2)
    if not (valid and valid2):
        return
    low = 0.0
    # After a contact, no distance above 0 is of interest.
    if peek(state, memory.CONTACT) == memory.NO_PAIR:
        low, high, direction, _, _ = distance_bounds(a, b)
        if low > peek(reals, memory.BEST):
            return
    if low <= 0.0:
        if triangles_touch(a[0], a[1], a[2], b[0], b[1], b[2]):
            poke(state, memory.CONTACT, code)
            poke(reals, memory.BEST, 0.0)
            poke(state, memory.COUNT, np.int64(0))
            return
        if peek(state, memory.CONTACT) != memory.NO_PAIR:
            return
    # Here there is no contact. A nearer pair also gives a better direction for bounds.
    if measured_pairs.lower_best(reals, high):
        _set_direction(task, direction)
    # NaN: tested, but yet to be measured.
    measured_pairs.add_candidate(search, code, low, NAN)
    if peek(state, memory.COUNT) == memory.CAPACITY:
        measured_pairs.measure_candidates(task)


@inlined
def _set_direction(task, direction):
    """Set the direction on which both sides are projected, in float64 and in float32.

    `direction` is a vector from the second side to the first, of any length.
    """
    pair_frames.set_direction(task.side, task.side2, direction)
    pair_frames.set_floats(task.side, task.search.floats)
    pair_frames.set_floats(task.side2, task.search.floats2)


@inlined
def _code_at(task, i):
    """Return the code of the i-th collected pair: the first id times 2**32, plus the second.

    The pair's name has positions of faces, group * WIDTH + lane, in place of their ids.
    """
    name = peek(task.search.names, i)
    first = np.int64(peek(task.tree.ids, id_at(name >> 32)))
    return first << 32 | peek(task.tree2.ids, id_at(name & memory.LOW_BITS))


@kernel
def _test_collected(task):
    """Test the collected pairs of faces, nearest bounds first, while there is room for candidates.

    They are the first state[LEFT] items of search.keys and search.names; on return, the items of
    the pairs that are left.
    """
    # A pair that is surely apart becomes a candidate without a test, except the first one after
    # float32 lanes have lowered the bound (LOWERED): tests of further ones would lower the bound by
    # no more than the error of float32.
    stay_outlined()
    search = task.search
    state, keys, names = search.state, search.keys, search.names
    count = peek(state, memory.LEFT)
    while count > 0 and peek(state, memory.COUNT) < memory.CAPACITY:
        # Choose the pair with the least key or, after a contact, the lowest code (before, `code` is
        # 0 for all). A pair that is too far by now, or comes after the contact, is dropped: the
        # last pair takes its place.
        bound, contact = near_pairs.bound_of(task, memory.FACE_MARGIN), peek(state, memory.CONTACT)
        chosen, least, lowest, i = np.int64(-1), INF, contact, np.int64(0)
        while i < count:
            key, code = peek(keys, i), np.int64(0)
            if contact != memory.NO_PAIR:
                code = _code_at(task, i)
            if key > bound or code >= contact:
                count -= 1
                poke(keys, i, peek(keys, count))
                poke(names, i, peek(names, count))
                continue
            if chosen < 0 or code < lowest or (code == lowest and key < least):
                chosen, least, lowest = i, key, code
            i += 1
        if chosen < 0:
            break
        code = _code_at(task, chosen)
        count -= 1
        poke(keys, chosen, peek(keys, count))
        poke(names, chosen, peek(names, count))
        low = measured_pairs.lower_bound(search.reals, least)
        if low > 0.0 and peek(state, memory.LOWERED) == 0:
            measured_pairs.add_candidate(search, code, low, memory.UNTESTED)
            if peek(state, memory.COUNT) == memory.CAPACITY:
                measured_pairs.measure_candidates(task)
        else:
            poke(state, memory.LOWERED, np.int64(0))
            _test(task, code)
    poke(state, memory.LEFT, count)


@inlined
def _test_leaves(task, code, box, code2, box2):
    """Test the pairs of faces of two leaves (codes, box positions) that may be near enough."""
    poke(task.search.state, memory.LEFT, collect_faces(task, code, box, code2, box2))
    _test_collected(task)


@kernel
def _descend_from(task, name):
    """Descend from a pair of the roots' children, always to the nearest pair; test the last leaves.

    `name` is the lane of the second child in its root times WIDTH, plus the lane of the first.
    """
    stay_outlined()
    tree, tree2, search = task.tree, task.tree2, task.search
    root = np.int64(0)
    code, box = child_of(tree.blocks, root, root, name % WIDTH)
    code2, box2 = child_of(tree2.blocks, root, root, name // WIDTH)
    while code >= 0 or code2 >= 0:
        count, best = near_pairs.open_pair(task, code, box, code2, box2), np.int64(0)
        if count == 0:
            return
        for i in range(1, count):
            if peek(search.keys, i) < peek(search.keys, best):
                best = i
        name = peek(search.names, best)
        code, box = child_of(tree.blocks, code, box, name % WIDTH)
        code2, box2 = child_of(tree2.blocks, code2, box2, name // WIDTH)
    _test_leaves(task, code, box, code2, box2)
    # Keep only the bound or a contact: the search will come to these pairs of faces again.
    poke(search.state, memory.COUNT, np.int64(0))
    poke(search.state, memory.LEFT, np.int64(0))


@kernel
def _descend(task):
    """Lower the bound, or find a contact, by DESCENTS from the nearest pairs of roots' children."""
    stay_outlined()
    # The stack, not yet in use, holds the keys and names of pairs of children: descents overwrite
    # the collected ones. The key of a pair that is done becomes NaN, which no comparison chooses.
    search, root = task.search, np.int64(0)
    stack, count = search.stack, near_pairs.open_pair(task, root, root, root, root)
    for i in range(count):
        poke(stack, 2 * i, bits(peek(search.keys, i)))
        poke(stack, 2 * i + 1, peek(search.names, i))
    for _ in range(DESCENTS):
        key, best = near_pairs.bound_of(task, memory.BOX_MARGIN), np.int64(-1)
        for i in range(count):
            if from_bits(peek(stack, 2 * i)) <= key:
                key, best = from_bits(peek(stack, 2 * i)), np.int64(i)
        if best < 0 or peek(search.state, memory.CONTACT) != memory.NO_PAIR:
            return
        poke(stack, 2 * best, bits(NAN))
        _descend_from(task, peek(stack, 2 * best + 1))


@kernel
def _begin(task, limit, hint):
    """Begin a query: set the frame of the pair and the bound BEST; test a few pairs to lower it.

    `limit` is the largest distance that counts. The pair tested is the one with the code `hint`; if
    that is -1, descents from the roots choose pairs of leaves.
    """
    stay_outlined()
    search, tree, tree2, side, side2 = task.search, task.tree, task.tree2, task.side, task.side2
    state, reals = search.state, search.reals
    scale, extent = pair_frames.set_common_frame(tree, tree2, side, side2)
    poke(reals, memory.SCALE, scale)
    margin = 0.0
    for axis in range(3):
        margin += peek(side, MARGIN + axis) + peek(side2, MARGIN + axis)
    # At least 1, but an extent that is NaN, after an overflow, stays NaN.
    extent = 1.0 if extent <= 1.0 else extent
    poke(reals, memory.BOX_MARGIN, margin + BOX_ERROR * extent)
    poke(reals, memory.FACE_MARGIN, margin + FACE_ERROR * extent)
    poke(reals, memory.LIMIT, limit)
    # The limit, and what the rounding of a distance may add: 2 units in the last place, or 1e-322.
    poke(reals, memory.BEST, limit * (1.0 + 2.0**-50) + 1e-322)
    # Begin with the direction between the centres, which are the shifts T of both maps.
    _set_direction(task, minus(vector(side, SHIFT // 3), vector(side2, SHIFT // 3)))
    for word in (memory.COUNT, memory.DECIDED, memory.LEFT, memory.LOWERED):
        poke(state, word, np.int64(0))
    poke(state, memory.CONTACT, np.int64(memory.NO_PAIR))
    poke(state, memory.KEPT_PAIR, np.int64(-1))
    poke(reals, memory.SHARED, NAN)
    if hint >= 0:
        _test(task, hint)
        # Keep only the bound or a contact: the search will come to this pair again.
        poke(state, memory.COUNT, np.int64(0))
    else:
        _descend(task)


def _visit(search, task, top, pair):
    """Drop or open a pair of subtrees, or test its two leaves; return the stack's new height.

    `pair` is the entry (key, code, box, code2, box2), already popped; `top` is the height then. The
    key has the bits of a float64: a lower bound of the squared distance or, after a contact, a
    number that orders pairs by the lowest id of the first side.
    """
    (key, code, box, code2, box2), state = pair, search.state
    contact = peek(state, memory.CONTACT)
    if from_bits(key) > near_pairs.bound_of(task, memory.BOX_MARGIN):
        return top
    if np.int64(peek(task.lowest, box)) > contact >> 32 and code != 0:
        # All pairs below come after the contact, as their first ids exceed that of the contact. The
        # table of lowest ids does not have the root, of code 0.
        return top
    if code >= 0 or code2 >= 0:
        count = near_pairs.open_pair(task, code, box, code2, box2)
        near_pairs.sort_collected(search, count)
        return near_pairs.push_collected(task, top, code, box, code2, box2, count)
    _test_leaves(task, code, box, code2, box2)
    if contact == memory.NO_PAIR and peek(state, memory.CONTACT) != memory.NO_PAIR:
        # After the first contact, begin at the roots again, with lowest faces first.
        poke(state, memory.LEFT, np.int64(0))
        return push_roots(task.stack)
    return top


# The search pauses while there are collected pairs that had no room among the candidates.
SEARCHES[memory.ClosestSearch] = _visit, lambda search: peek(search.state, memory.LEFT) > 0


@kernel
def _continue(task, steps):
    """Continue a query's search for `steps` visits of pairs; return how many steps are left."""
    search = task.search
    if peek(search.state, memory.DECIDED) != 0:
        # Candidates had filled their memory. The caller has compared them by rational numbers, and
        # left none, or the best one, with its exact distance, rounded, as the lower bound.
        poke(search.state, memory.DECIDED, np.int64(0))
        if peek(search.state, memory.COUNT) > 0:
            measured_pairs.lower_best(search.reals, peek(search.lows, 0))
    if peek(search.state, memory.LEFT) > 0:
        _test_collected(task)
    top, steps = walk(task, peek(search.state, memory.HEIGHT), steps)
    poke(search.state, memory.HEIGHT, top)
    return steps


@kernel
def _finish(task, found, q):
    """Write row q of the results, `found`, if float64 can decide it; return whether it can.

    Without a contact, it cannot if several candidates may be the closest, or if the bounds of the
    only one differ. Then the candidates' corners are written, for rational numbers to decide.
    """
    stay_outlined()
    search = task.search
    state, reals = search.state, search.reals
    code, distance = peek(state, memory.CONTACT), 0.0
    if code == memory.NO_PAIR:
        if peek(state, memory.DECIDED) == 0:
            measured_pairs.measure_candidates(task)
        count = peek(state, memory.COUNT)
        if count > 1 or (count == 1 and peek(search.lows, 0) != peek(search.highs, 0)):
            measured_pairs.put_corners(task, count)
            return False
        code = np.int64(-1)
        if count == 1 and peek(search.lows, 0) <= peek(reals, memory.LIMIT):
            code, distance = peek(search.codes, 0), peek(search.lows, 0)
    _write(task, found, q, code, distance)
    return True


@kernel
def _write(task, found, q, code, distance):
    """Write row q of `found`: the ids of the pair `code`, its `distance` and nearest points.

    For the code -1, no pair, the ids are -1, the distance is inf, and the points are NaN.
    """
    stay_outlined()
    search, tree, tree2, side, side2 = task.search, task.tree, task.tree2, task.side, task.side2
    i, j, x, y = np.int64(-1), np.int64(-1), (NAN, NAN, NAN), (NAN, NAN, NAN)
    if code < 0:
        distance = INF
    else:
        i, j = code >> 32, code & memory.LOW_BITS
        _, a = pair_frames.side_corners(tree.primitives, i, side)
        _, b = pair_frames.side_corners(tree2.primitives, j, side2)
        if distance > 0.0 and code == peek(search.state, memory.KEPT_PAIR):
            x, y = measured_pairs.points_at(search.reals, memory.POINTS)
        elif distance > 0.0:
            _, _, x, y = measured_pairs.measure(search.reals, a, b)
        else:
            x = measured_pairs.common_point(a, b)
            y = x
    poke(found.distance, q, distance)
    poke(found.prim_id, 2 * q, np.int32(i))
    poke(found.prim_id, 2 * q + 1, np.int32(j))
    for axis in range(3):
        poke(found.position, 6 * q + axis, x[axis])
        poke(found.position, 6 * q + 3 + axis, y[axis])


# Whether a query's search has pairs left to visit or to test.
_has_more = inlined(lambda state: peek(state, memory.HEIGHT) > 0 or peek(state, memory.LEFT) > 0)


@entry
def closest_pairs(row, row2, motions, limits, hints, memory_table, end, steps, found):
    """Continue queries from state[QUERY] to `end`, for `steps` visits of pairs of subtrees.

    `row` and `row2` are the rows of both trees, `memory_table` and `found` tables of the addresses
    of the arrays of `ClosestSearch` and `Closest`. `motions` is a table of
    `pair_frames.set_motions`, with a matrix for each query. `limits` and `hints` have one item for
    all queries, or one each: the largest distance, and the code of a pair that is probably near, -1
    for none.

    Returns DONE; LATER if the steps did not suffice; or UNDECIDED if rational numbers must choose
    among the candidates. The caller then leaves the best one as the only candidate, or none beyond
    the limit, sets state[DECIDED], and calls again.
    """
    search, out = memory.search_at(memory_table), memory.found_at(found)
    address, address2 = TriangleRow(simd.address(row, 0)), TriangleRow(simd.address(row2, 0))
    task = task_of(address, address2, search.sides, search.stack, search)
    # `motions` has at most one map for each tree: row 0, `first`.
    state, first = search.state, np.int64(0)
    empty = is_empty(pointer(row)) or is_empty(pointer(row2))
    while peek(state, memory.QUERY) < end:
        q = peek(state, memory.QUERY)
        # A height of -1: the query has not begun.
        if peek(state, memory.HEIGHT) < 0:
            limit = limits[q if len(limits) > 1 else 0]
            poke(state, memory.HEIGHT, np.int64(0))
            if empty or not limit >= 0.0:
                _write(task, out, q, np.int64(-1), INF)
                poke(state, memory.QUERY, q + 1)
                poke(state, memory.HEIGHT, np.int64(-1))
                continue
            pair_frames.set_motions(task.side, task.side2, motions, first, first, q)
            _begin(task, limit, hints[q if len(hints) > 1 else 0])
            poke(state, memory.HEIGHT, push_roots(task.stack))
        if peek(state, memory.DECIDED) == 0 or _has_more(state):
            steps = _continue(task, steps)
            if _has_more(state):
                # The search has stopped for want of steps, or of memory for candidates.
                if peek(state, memory.COUNT) < memory.CAPACITY:
                    return LATER
                measured_pairs.put_corners(task, memory.CAPACITY)
                return UNDECIDED
        if not _finish(task, out, q):
            return UNDECIDED
        poke(state, memory.QUERY, q + 1)
        poke(state, memory.HEIGHT, np.int64(-1))
    return DONE
