"""The nearest spheres or capsules of points, in float64 throughout."""

from bvh.geometry.arithmetic.floats import INF, finite, vector
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import by_type, inlined
from bvh.runtime.simd import peek, pointer, poke
from bvh.runtime.tuple_references import as_pointers
from bvh.traversal.points.point_bounds import EVEN, local_point, push_near, square_limit
from bvh.tree import frame as frames
from bvh.tree.arrays import is_empty
from bvh.tree.shapes import KINDS
from bvh.tree.wide_nodes import leaf_rows


@by_type(inline=True)
def _distance(primitives, i, p):
    """Return the distance of a point from the surface of a shape."""
    measure = KINDS[primitives.instance_class].distance
    return lambda primitives, i, p: measure(primitives.points, i, p)


@inlined
def _insert(distance, ids, at, count, d, prim):
    """Insert a shape into rows that are sorted by (distance, id); the last drops out."""
    k = at + count - 1
    while k > at and (
        peek(distance, k - 1) > d or (peek(distance, k - 1) == d and peek(ids, k - 1) > prim)
    ):
        poke(distance, k, peek(distance, k - 1))
        poke(ids, k, peek(ids, k - 1))
        k -= 1
    poke(distance, k, d)
    poke(ids, k, prim)


@entry
def nearest_shapes(row, points, limits, scratch, begin, end, count, distances, names):
    """Find the `count` nearest shapes within a limit of the points begin..end; -1 for none."""
    tree, memory = as_pointers(row), as_pointers(scratch)
    where, within, step = pointer(points), pointer(limits), len(limits) > 1
    distance, ids, empty = pointer(distances), pointer(names), is_empty(row)
    for i in range(begin, end):
        at, p, limit = i * count, vector(where, i), peek(within, i * step)
        for k in range(at, at + count):
            poke(distance, k, INF)
            poke(ids, k, -1)
        if empty or not finite(p) or not limit >= 0.0:
            continue
        x, reach = local_point(tree.frame, p)
        scale, lost = frames.scale(tree.frame), 2.0**-49 * reach
        bound = square_limit(limit, scale, lost)
        poke(memory.stack, 0, 0)
        poke(memory.squares, 0, 0.0)
        top = 1
        while top > 0:
            top -= 1
            if peek(memory.squares, top) > bound:
                continue
            code = peek(memory.stack, top)
            if code >= 0:
                top = push_near(tree.blocks, code, x, EVEN, bound, memory, top)
                continue
            first, size = leaf_rows(code)
            for place in range(first, first + size):
                prim = int(peek(tree.ids, place))
                if prim < 0:
                    continue
                d, last = _distance(tree.primitives, prim, p), at + count - 1
                if d <= limit and (
                    d < peek(distance, last)
                    or (d == peek(distance, last) and prim < peek(ids, last))
                ):
                    _insert(distance, ids, at, count, d, prim)
                    bound = square_limit(min(limit, peek(distance, last)), scale, lost)
