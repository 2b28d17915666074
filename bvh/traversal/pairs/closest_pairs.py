"""Search for the closest pair of faces of two trees.

Pairs of subtrees are opened together, nearest boxes first (Larsen, Gottschalk, Lin, Manocha 1999,
"Fast proximity queries with swept sphere volumes"); those farther apart than the best upper bound
of the distance are dropped. Pairs of faces whose lower bounds do not exceed it are candidates,
which are measured at the end, or when their memory is full; if it is still full then, the search
pauses until rational numbers have decided between them. Once two faces touch, only pairs that
come before them are tested.

A subtree is given by code and box (see `pair_walk`), a pair of faces by a code: the first id times
2**32, plus the second.
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
from bvh.traversal.pairs.common_points import common_point
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
    """Test a pair of faces by its code: store it as a contact if they touch, else as a candidate.

    Pairs that are farther apart than the bound are dropped; once there is a contact, all that do
    not touch. Pairs are tested only if they come before the contact, so that a new one replaces it.
    """
    stay_outlined()
    search, tree, tree2, side, side2 = task.search, task.tree, task.tree2, task.side, task.side2
    state, reals = search.state, search.reals
    valid, a = pair_frames.side_corners(tree.primitives, code >> 32, side)
    valid2, b = pair_frames.side_corners(tree2.primitives, code & memory.LOW_BITS, side2)
    if not (valid and valid2):
        return
    low = 0.0
    if peek(state, memory.CONTACT) == memory.NO_PAIR:
        low, high, g, _, _ = distance_bounds(a, b)
        if low > peek(reals, memory.BEST):
            return
    if low <= 0.0:
        # The faces may touch.
        if triangles_touch(a[0], a[1], a[2], b[0], b[1], b[2]):
            poke(state, memory.CONTACT, code)
            poke(reals, memory.BEST, 0.0)
            poke(state, memory.COUNT, np.int64(0))
            return
        if peek(state, memory.CONTACT) != memory.NO_PAIR:
            return
    # Here there is no contact. A nearer pair also gives a better direction.
    if measured_pairs.lower_best(reals, high):
        _direct(task, g)
    measured_pairs.add_candidate(search, code, low, NAN)
    if peek(state, memory.COUNT) == memory.CAPACITY:
        measured_pairs.settle(task)


@inlined
def _direct(task, g):
    """Set the direction of the search, in float64 and float32: that of g, from second to first."""
    pair_frames.set_direction(task.side, task.side2, g)
    pair_frames.set_floats(task.side, task.search.floats)
    pair_frames.set_floats(task.side2, task.search.floats2)


@inlined
def _pair_at(task, i):
    """Return the code, of ids, of the i-th collected pair, whose name has positions of faces."""
    name = peek(task.search.names, i)
    first = np.int64(peek(task.tree.ids, id_at(name >> 32)))
    return first << 32 | peek(task.tree2.ids, id_at(name & memory.LOW_BITS))


@kernel
def _test_collected(task):
    """Test collected pairs of faces, nearest bounds first, while there is room for candidates.

    state[LEFT] is how many are collected, and on return how many are left.
    """
    # Pairs that are surely apart become candidates untested, except the nearest one after lanes
    # have lowered the bound: tests of the others would lower it by no more than the error of
    # lanes. Once faces touch, the lowest pairs come first.
    stay_outlined()
    search = task.search
    state, keys, names = search.state, search.keys, search.names
    count = peek(state, memory.LEFT)
    while count > 0 and peek(state, memory.COUNT) < memory.CAPACITY:
        # Find the nearest pair, or the lowest one after a contact. Pairs that are too far by now,
        # or come after the contact, are dropped: the last one takes their place.
        bound, contact = near_pairs.bound_of(task, memory.FACE_MARGIN), peek(state, memory.CONTACT)
        best, key, lowest, i = np.int64(-1), INF, contact, np.int64(0)
        while i < count:
            near, pair = peek(keys, i), np.int64(0)
            if contact != memory.NO_PAIR:
                pair = _pair_at(task, i)
            if near > bound or pair >= contact:
                count -= 1
                poke(keys, i, peek(keys, count))
                poke(names, i, peek(names, count))
                continue
            if best < 0 or pair < lowest or (pair == lowest and near < key):
                best, key, lowest = i, near, pair
            i += 1
        if best < 0:
            break
        pair = _pair_at(task, best)
        count -= 1
        poke(keys, best, peek(keys, count))
        poke(names, best, peek(names, count))
        low = measured_pairs.lower_bound(search.reals, key)
        if low > 0.0 and peek(state, memory.LOWERED) == 0:
            measured_pairs.add_candidate(search, pair, low, memory.UNTESTED)
            if peek(state, memory.COUNT) == memory.CAPACITY:
                measured_pairs.settle(task)
        else:
            poke(state, memory.LOWERED, np.int64(0))
            _test(task, pair)
    poke(state, memory.LEFT, count)


@inlined
def _leaves(task, code, box, code2, box2):
    """Collect the pairs of faces of two leaves that may be near enough, and test them."""
    poke(task.search.state, memory.LEFT, collect_faces(task, code, box, code2, box2))
    _test_collected(task)


@kernel
def _descend_from(task, name):
    """Descend from a pair of children of the roots, always to the nearest, and test both leaves.

    `name` gives the lanes of both (see `near_pairs.open_pair`).
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
    _leaves(task, code, box, code2, box2)
    # Only the bound or a contact remains: the search will come to these pairs again.
    poke(search.state, memory.COUNT, np.int64(0))
    poke(search.state, memory.LEFT, np.int64(0))


@kernel
def _descend(task):
    """Descend from the nearest pairs of children of the roots, for a bound or a contact."""
    stay_outlined()
    # The stack holds the keys and names of those pairs; the key of one that is done becomes NaN.
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
    """Begin a query: set the frame of the pair and bounds, and test some pairs to lower these.

    `limit` is the largest distance that counts. Tested are the pair of faces with the code `hint`,
    or if it is -1 the leaves that descents from the roots lead to.
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
    # More by what rounding may add to a distance, as in `lower_best`.
    poke(reals, memory.BEST, limit * (1.0 + 2.0**-50) + 1e-322)
    # Begin with the direction between the centres, the shifts of both maps.
    _direct(task, minus(vector(side, SHIFT // 3), vector(side2, SHIFT // 3)))
    for word in (memory.COUNT, memory.DECIDED, memory.LEFT, memory.LOWERED):
        poke(state, word, np.int64(0))
    poke(state, memory.CONTACT, np.int64(memory.NO_PAIR))
    poke(state, memory.KEPT_PAIR, np.int64(-1))
    poke(reals, memory.SHARED, NAN)
    if hint >= 0:
        _test(task, hint)
        # The search will come to it again.
        poke(state, memory.COUNT, np.int64(0))
    else:
        _descend(task)


def _visit(search, task, top, pair):
    """Drop or open a pair of subtrees, or test two leaves; return the stack's height.

    The key's 64 bits are those of a lower bound of the squared distance, or after a contact of a
    number that orders pairs by lowest ids. See `pair_walk.visit`.
    """
    (key, code, box, code2, box2), state = pair, search.state
    contact = peek(state, memory.CONTACT)
    if from_bits(key) > near_pairs.bound_of(task, memory.BOX_MARGIN):
        return top
    if np.int64(peek(task.lowest, box)) > contact >> 32 and code != 0:
        # All pairs of faces come after the one that touches. The root, of code 0, has no lowest id.
        return top
    if code >= 0 or code2 >= 0:
        count = near_pairs.open_pair(task, code, box, code2, box2)
        near_pairs.sort_collected(search, count)
        return near_pairs.push_collected(task, top, code, box, code2, box2, count)
    _leaves(task, code, box, code2, box2)
    if contact == memory.NO_PAIR and peek(state, memory.CONTACT) != memory.NO_PAIR:
        # After the first contact, begin at the roots again, with lowest faces first.
        poke(state, memory.LEFT, np.int64(0))
        return push_roots(task.stack)
    return top


# It pauses while pairs are collected that had no room among the candidates.
SEARCHES[memory.ClosestSearch] = _visit, lambda search: peek(search.state, memory.LEFT) > 0


@kernel
def _continue(task, steps):
    """Continue the search of a query for some steps; return how many of them are left."""
    search = task.search
    if peek(search.state, memory.DECIDED) != 0:
        # Candidates filled their memory; the caller has left the best of them, or none.
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
    """Write row q of the results, if it is decided; return whether it is.

    Without a contact, it is not if several candidates may be the closest, or one has no exact
    distance. Then their corners are written for rational numbers.
    """
    stay_outlined()
    search = task.search
    state, reals = search.state, search.reals
    code, distance = peek(state, memory.CONTACT), 0.0
    if code == memory.NO_PAIR:
        if peek(state, memory.DECIDED) == 0:
            measured_pairs.settle(task)
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
    """Write row q of the results: a pair by its code, -1 for none, its distance and points."""
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
            x = common_point(a, b)
            y = x
    poke(found.distance, q, distance)
    poke(found.prim_id, 2 * q, np.int32(i))
    poke(found.prim_id, 2 * q + 1, np.int32(j))
    for axis in range(3):
        poke(found.position, 6 * q + axis, x[axis])
        poke(found.position, 6 * q + 3 + axis, y[axis])


# Whether a query's search is not at its end.
_has_more = inlined(lambda state: peek(state, memory.HEIGHT) > 0 or peek(state, memory.LEFT) > 0)


@entry
def closest_pairs(row, row2, motions, limits, hints, memory_table, end, steps, found):
    """Continue queries from state[QUERY] to `end`, for `steps` visits of pairs of subtrees.

    `row` and `row2` are the rows of both trees, `memory_table` and `found` tables of the addresses
    of the arrays of `ClosestSearch` and `Closest`. `motions` is a table of
    `pair_frames.set_motions`, with a matrix for each query. `limits` and `hints` have one item for
    all queries, or one each: the largest distance, and the code of a pair that is probably near, -1
    for none.

    Returns DONE; LATER if the steps did not suffice; or UNDECIDED if the candidates left are for
    rational numbers to decide. The caller leaves the best of them as the only candidate, or none,
    sets state[DECIDED], and calls again.
    """
    search, out = memory.search_at(memory_table), memory.found_at(found)
    address, address2 = TriangleRow(simd.address(row, 0)), TriangleRow(simd.address(row2, 0))
    task = task_of(address, address2, search.sides, search.stack, search)
    # Of each tree, `motions` has one map at most: its row `first`, which is 0.
    state, first = search.state, np.int64(0)
    empty = is_empty(pointer(row)) or is_empty(pointer(row2))
    while peek(state, memory.QUERY) < end:
        q = peek(state, memory.QUERY)
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
                # Either the steps are used up, or candidates fill their memory.
                if peek(state, memory.COUNT) < memory.CAPACITY:
                    return LATER
                measured_pairs.put_corners(task, memory.CAPACITY)
                return UNDECIDED
        if not _finish(task, out, q):
            return UNDECIDED
        poke(state, memory.QUERY, q + 1)
        poke(state, memory.HEIGHT, np.int64(-1))
    return DONE
