"""The nearest hit of each ray, or whether there is one: ordered traversal with early out."""

from __future__ import annotations

import numpy as np

from bvh.jit import entry, inlined, kernel
from bvh.nodes import STACK_SIZE, enter, is_leaf, local_lower, local_ray, local_upper
from bvh.numerics import INF, NAN, vector
from bvh.primitives import FRONT, MISS, is_ray, test, weights
from bvh.triangles import scaled_ray


@inlined
def _closer(t, prim, best_t, best_prim):
    """Order hits by t, then by id: the answer cannot depend on the order of the search."""
    return best_prim < 0 or t < best_t or (t == best_t and prim < best_prim)


@kernel
def closest(tree, o, d, scaled, t_min, t_max, cull, any_hit, stack, entries):
    """Return (t, prim_id, side) of the nearest hit of a valid ray; prim_id -1 for a miss.

    With `any_hit`, stop at the first hit that is found.
    """
    best_t, best_prim, best_side = t_max, np.int64(-1), np.int64(MISS)
    bounds, links, order = tree.nodes.bounds, tree.nodes.links, tree.nodes.order
    if len(links) == 0:
        return INF, -1, MISS
    ray = local_ray(vector(tree.frame, 0), int(tree.frame[1, 0]), o, d)
    start, end = local_lower(t_min, ray.shift), local_upper(t_max, ray.shift)
    root = np.int64(0)
    first, last = enter(bounds, root, ray, start, end)
    if first > last:
        return INF, -1, MISS
    stack[0], entries[0] = root, first
    waiting = 1
    while waiting > 0:
        waiting -= 1
        # An entry equal to the best distance stays: a tie goes to the lower id.
        if entries[waiting] > end:
            continue
        node = stack[waiting]
        # Walk down to a leaf, nearer child first.
        while not is_leaf(links, node):
            left = np.int64(links[node, 0])
            l_first, l_last = enter(bounds, left, ray, start, end)
            r_first, r_last = enter(bounds, left + 1, ray, start, end)
            l_hit, r_hit = l_first <= l_last, r_first <= r_last
            if l_hit and r_hit:
                swap = r_first < l_first
                stack[waiting] = left if swap else left + 1
                entries[waiting] = l_first if swap else r_first
                waiting += 1
                node = left + 1 if swap else left
            elif l_hit:
                node = left
            elif r_hit:
                node = left + 1
            else:
                node = -1
                break
        if node < 0:
            continue
        # Test the leaf's primitives.
        at = np.int64(links[node, 0])
        for i in range(at, at + links[node, 1]):
            prim = np.int64(order[i])
            t, side = test(tree.primitives, prim, o, d, scaled, t_min, best_t, cull)
            if side != MISS and _closer(t, prim, best_t, best_prim):
                best_t, best_prim, best_side = t, prim, side
                if any_hit:
                    return best_t, best_prim, best_side
                end = local_upper(best_t, ray.shift)
    return (best_t if best_prim >= 0 else INF), best_prim, best_side


@inlined
def _shared(array, i):
    """Return the row of ray i in an array that may hold one row for all rays."""
    return i if len(array) > 1 else 0


@inlined
def _read_ray(origins, directions, t_min, t_max, i):
    """Return (o, d, t_min, t_max) of ray i."""
    return (
        vector(origins, _shared(origins, i)),
        vector(directions, _shared(directions, i)),
        t_min[_shared(t_min, i)],
        t_max[_shared(t_max, i)],
    )


@entry
def closest_hits(tree, origins, directions, t_min, t_max, cull, begin, end, t, prim, u, v, front):
    """Find the nearest hits of rays begin..end."""
    stack, entries = np.empty(STACK_SIZE, np.int64), np.empty(STACK_SIZE)
    reach = tree.frame[1, 1]
    for i in range(begin, end):
        o, d, low, high = _read_ray(origins, directions, t_min, t_max, i)
        t[i], prim[i], u[i], v[i], front[i] = INF, -1, NAN, NAN, False
        if not is_ray(o, d, low, high):
            continue
        scaled = scaled_ray(o, d, reach)
        t[i], found, side = closest(tree, o, d, scaled, low, high, cull, False, stack, entries)
        if found >= 0:
            prim[i], front[i] = found, side == FRONT
            u[i], v[i] = weights(tree.primitives, found, o, d, scaled)


@entry
def any_hits(tree, origins, directions, t_min, t_max, cull, begin, end, hit):
    """Tell for rays begin..end whether they hit anything."""
    stack, entries = np.empty(STACK_SIZE, np.int64), np.empty(STACK_SIZE)
    reach = tree.frame[1, 1]
    for i in range(begin, end):
        o, d, low, high = _read_ray(origins, directions, t_min, t_max, i)
        hit[i] = False
        if is_ray(o, d, low, high):
            scaled = scaled_ray(o, d, reach)
            _, found, _ = closest(tree, o, d, scaled, low, high, cull, True, stack, entries)
            hit[i] = found >= 0
