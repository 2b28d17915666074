"""Hit details: t, weights and side of the primitive that a ray hits, correctly rounded.

HALF pairs of a ray and a triangle are solved side by side in double-doubles. Where these do not
suffice, and on other primitives, pairs are solved one by one, exactly if need be.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bvh.geometry import triangles
from bvh.geometry.arithmetic.floats import DD_ERROR, high, round_quotient, two_sum
from bvh.geometry.transforms import exact_dot, rounded_dot, rounded_quickly
from bvh.geometry.triangles import details_at_edge, exact_details, scaled_ray
from bvh.runtime import simd
from bvh.runtime.jit import by_type, inlined, kernel, stay_outlined
from bvh.runtime.tuple_references import stack_memory
from bvh.traversal.rays.blocks import BLOCK, HALF, batch_index, closest_primitive
from bvh.traversal.rays.ray_batch import consecutive, read_axes, read_ray, read_rows
from bvh.traversal.rays.ray_numbers import largest_of
from bvh.tree import frame as frames
from bvh.tree.instanced import MAP_SIZE, Instanced, by_scene, kind_of, leaf_of, local_corners
from bvh.tree.primitives import FRONT, Triangles, corners, intersect, weights
from bvh.tree.rows import TRIANGLES

# Double-doubles lose a few times 2**-1074 to underflow, which the next product multiplies by a
# component. If that is below this, the loss is below 2**-860; `round_quotient` allows 2**-800.
LARGEST_COMPONENT = 2.0**200
# A volume whose size is larger, and which is not small compared to it, is far from underflow.
SMALLEST_SIZE = 2.0**-400

# Stack memory for the pairs of a ray block, three rows of integers; then, aligned to 64 bytes, the
# coordinates of three vertices and a map (9 and 12 numbers) for HALF triangles of a scene.
PAIRS = BLOCK + HALF
VERTICES = 3 * 8 * PAIRS + 64
LANES_BYTES = VERTICES + 8 * (9 + 12) * HALF
F8, I8 = 0.0, np.int64(0)  # give pointers and vectors their types
ALL = (1 << HALF) - 1  # the bits of HALF lanes


class Columns(NamedTuple):
    """Hits, column by column, in the order of the fields of results; pointers inside kernels."""

    t: Any  # float64, as u and v
    prim_id: Any  # int32, or int64 for the codes of a scene
    u: Any
    v: Any
    front: Any  # uint8


class HitPairs(NamedTuple):
    """Pairs of a ray and a primitive that it hits, the last repeated to fill a vector; pointers."""

    which: NDArray[np.int64]  # numbers of rays in the batch
    prims: NDArray[np.int64]  # ids, or codes of a scene
    rows: NDArray[np.int64]  # of the columns, where their details are written
    # In a scene, rows of HALF lanes: 9 local coordinates of vertices, then the 12 numbers of maps.
    vertices: NDArray[np.float64]


@inlined
def _difference(a, b):
    """Return the vector a - b, each component an exact double-double."""
    return two_sum(a[0], -b[0]), two_sum(a[1], -b[1]), two_sum(a[2], -b[2])


@inlined
def _is_moderate(a, p, q, r):
    """Return whether components of four vectors are so small that `solve` bounds underflow."""
    ap = simd.greater(largest_of(high(a)), largest_of(high(p)))
    qr = simd.greater(largest_of(high(q)), largest_of(high(r)))
    return simd.greater(ap, qr) < LARGEST_COMPONENT


@inlined
def solve(corners, o, d):
    """Return (known, timed, weighed, t, u, v, volumes) of a hit on a triangle, or one in each lane.

    known : whether double-doubles suffice; only there the other results have a meaning.
    timed : whether t is correctly rounded.
    weighed : whether u and v have errors of at most a few units in the last place.
    volumes : the numerators of u and v and their denominator, for `details_at_edge`, each a
        double-double and its size; the denominator is negative where the ray meets the front.
    """
    v0, v1, v2 = corners
    ray = (d[0],), (d[1],), (d[2],)  # exact: of one part, where double-doubles have two
    a, p, q = _difference(v0, o), _difference(v1, v0), _difference(v2, v0)
    along, along_size, whole, whole_size = triangles.solve_plane(a, p, q, ray)
    timed, t = round_quotient(along, along_size, whole, whole_size)
    of_u, of_v = triangles.solve_volumes(a, p, q, ray)
    weighed, u, v = triangles.solve_weights(of_u, of_v, whole, whole_size)
    known = (
        _is_moderate(a, p, q, ray)
        & (abs(whole[0]) > 2.0**54 * DD_ERROR * whole_size)  # its relative error is below 2**-54
        & (simd.lesser(whole_size, simd.lesser(of_u[1], of_v[1])) > SMALLEST_SIZE)
    )
    return known, timed, weighed, t, u, v, (of_u, of_v, (whole, whole_size))


@inlined
def _solve_exactly(primitives, tree, prim, ray, cull):
    """Return (t, u, v, front) of a ray's hit on a primitive that is not a triangle."""
    o, d, t_min, t_max = ray
    scaled = scaled_ray(o, d, frames.farthest(tree.frame))
    t, side = intersect(primitives, prim, o, d, scaled, t_min, t_max, cull)
    u, v = weights(primitives, prim, o, d, scaled, t_min, t_max)
    return t, u, v, side == FRONT


@kernel
def _solve_triangle(primitives, tree, prim, ray, cull):
    """Return (t, u, v, front) of a ray's hit on a triangle, exact where `solve` does not decide."""
    vertices, (o, d, _, _) = corners(primitives, prim), ray
    known, timed, weighed, t, u, v, (of_u, of_v, (whole, size)) = solve(vertices, o, d)
    if known and not weighed:
        # 0: the volumes are not scaled by a power of two.
        timed, t, u, v = details_at_edge(o, d, vertices, (of_u, of_v), whole, size, 0, timed, t)
    if known and timed:
        return t, u, v, whole[0] < 0.0
    return exact_details(o, d, *vertices)


@kernel
def _solve_instanced(primitives, tree, prim, ray, cull):
    """Return (t, u, v, front) of a ray's hit on a primitive of a scene, by its code `prim`."""
    if kind_of(primitives, leaf_of(prim)) == TRIANGLES:
        return _solve_triangle(primitives, tree, prim, ray, cull)
    return _solve_exactly(primitives, tree, prim, ray, cull)


@by_type()
def details_of(primitives, tree, prim, ray, cull):
    """Return (t, u, v, front) of a ray's hit on `prim`; u and v are NaN for shapes.

    The ray is (o, d, t_min, t_max). The side `cull` is not hit: 1 the back, -1 the front, 0 none.
    """
    solvers = {Triangles: _solve_triangle, Instanced: _solve_instanced}
    return solvers.get(primitives.instance_class, _solve_exactly).py_func


@inlined
def pairs_at(memory):
    """Return `HitPairs` in the LANES_BYTES of memory at an address, `vertices` aligned to 64."""
    return HitPairs(
        simd.pointer_to(memory, I8), simd.pointer_to(memory + 8 * PAIRS, I8),
        simd.pointer_to(memory + 16 * PAIRS, I8), simd.pointer_to((memory + VERTICES) & -64, F8),
    )  # fmt: skip


def _prefetch_face(primitives, prim):
    """Prefetch the row of faces of triangle `prim`."""
    simd.prefetch_address(simd.address(primitives.faces, 3 * prim))


@by_type(inline=True)
def prefetch_primitive(primitives, prim):
    """Prefetch the row of faces that `prefetch_vertices` reads; for -1, a miss, it does no harm."""
    if primitives.instance_class is Triangles:
        return _prefetch_face
    return lambda primitives, prim: None


def _prefetch_corners(primitives, prim):
    """Prefetch the vertices of triangle `prim`, each of which may be in two cache lines."""
    for k in range(3):
        at = 3 * np.int64(simd.peek(primitives.faces, 3 * prim + k))
        simd.prefetch_address(simd.address(primitives.points, at))
        simd.prefetch_address(simd.address(primitives.points, at + 2))


@by_type(inline=True)
def prefetch_vertices(primitives, prim):
    """Prefetch the vertices of a triangle of a tree; for other primitives, do nothing."""
    if primitives.instance_class is Triangles:
        return _prefetch_corners
    return lambda primitives, prim: None


@inlined
def _set_pair(pairs, j, which, prim, row):
    """Write pair j: a ray's number `which`, a primitive, and the row of columns for its details."""
    simd.poke(pairs.which, j, which)
    simd.poke(pairs.prims, j, prim)
    simd.poke(pairs.rows, j, row)


@inlined
def _finish(tree, rays, pairs, count, cull, out):
    """Write the details of the first `count` pairs, at most BLOCK, to the columns `out`."""
    if count == 0:
        return
    last = count - 1  # its copies fill the last vector
    for j in range(count, count + HALF - 1):
        which, prim = simd.peek(pairs.which, last), simd.peek(pairs.prims, last)
        _set_pair(pairs, j, which, prim, simd.peek(pairs.rows, last))
    for j in range(0, count, HALF):
        _write_details(tree.primitives, tree, rays, pairs, j, min(HALF, count - j), cull, out)


@kernel
def finish_block(tree, rays, block, hits, count, cull, out):
    """Write details of closest hits of rays, lane indices hits[:count], to their rows in `out`."""
    pairs = pairs_at(stack_memory(LANES_BYTES))
    for j in range(count):  # all pairs first: numbers just written are slow to read as vectors
        r = simd.peek(hits, j)
        which, prim = batch_index(block, r), closest_primitive(tree.primitives, block, r)
        prefetch_vertices(tree.primitives, prim)
        _set_pair(pairs, j, which, prim, which)
    _finish(tree, rays, pairs, count, cull, out)


@kernel
def finish_pairs(tree, rays, which, prims, count, cull, out):
    """Write the details of the hits of rays which[:count] on prims[:count] to `out`, from row 0."""
    pairs = pairs_at(stack_memory(LANES_BYTES))
    for begin in range(0, count, BLOCK):
        size = min(count - begin, BLOCK)
        for j in range(size):
            prim = np.int64(simd.peek(prims, begin + j))
            _set_pair(pairs, j, simd.peek(which, begin + j), prim, begin + j)
        _finish(tree, rays, pairs, size, cull, out)


def _write_one_by_one(primitives, tree, rays, pairs, j, count, cull, out):
    """Write the details of the pairs j..j + count, one after the other, to `out`."""
    for k in range(j, j + count):
        _write_alone(tree, rays, pairs, k, cull, out)


@inlined
def _lane_of_volume(volume, k):
    """Return lane k of (volume, size), whose volume is a double-double, in the same form."""
    (value, rest), size = volume
    return (simd.lane(value, k), simd.lane(rest, k)), simd.lane(size, k)


def _write_in_lanes(primitives, tree, rays, pairs, j, count, cull, out):
    """Write the details of the pairs j..j + count to `out`: triangles in lanes, others singly."""
    # known: double-doubles suffice; timed, weighed: t, or u and v, are found (see `solve`).
    on_triangles, vertices = vertices_of(primitives, pairs, j)
    o, d = read_axes(rays, simd.load(pairs.which, j, HALF))
    known, timed, weighed, t, u, v, (of_u, of_v, whole) = solve(vertices, o, d)
    front = whole[0][0] < 0.0
    solved, fronts = np.int64(simd.mask_bits(known & timed & weighed)), simd.mask_bits(front)
    solved &= on_triangles
    rows = simd.load(pairs.rows, j, HALF)
    if solved & ALL == ALL and count == HALF and consecutive(rows):
        at = simd.lane(rows, 0)
        simd.store(out.t, at, t)
        simd.store(out.u, at, u)
        simd.store(out.v, at, v)
        one, none = simd.splat(np.int64(1), HALF), simd.splat(np.int64(0), HALF)
        simd.store(out.front, at, simd.convert(simd.select(front, one, none), np.uint8(0)))
        return
    # Lanes beyond the last pair are copies of it, and write the same to its row: a loop of fixed
    # length has no branches. Details that are not solved are overwritten below.
    for k in range(HALF):
        details = simd.lane(t, k), simd.lane(u, k), simd.lane(v, k), fronts >> k & 1
        write_details(out, simd.lane(rows, k), details)
    timed_bits = np.int64(simd.mask_bits(timed))
    at_edges = np.int64(simd.mask_bits(known & ~weighed)) & on_triangles
    for k in range(count):
        done = solved >> k & 1 != 0
        if at_edges >> k & 1:
            o_k, d_k, _, _ = read_ray(rays, simd.peek(pairs.which, j + k))
            done, t_k, u_k, v_k = details_at_edge(
                o_k, d_k, corners(primitives, simd.peek(pairs.prims, j + k)),
                (_lane_of_volume(of_u, k), _lane_of_volume(of_v, k)), *_lane_of_volume(whole, k),
                0, timed_bits >> k & 1 != 0, simd.lane(t, k),
            )  # fmt: skip
            write_details(out, simd.lane(rows, k), (t_k, u_k, v_k, fronts >> k & 1))
        if not done:
            _write_alone(tree, rays, pairs, j + k, cull, out)


@by_type()
def _write_details(primitives, tree, rays, pairs, j, count, cull, out):
    """Write the details of the pairs j..j + count, at most HALF, in lanes where possible."""
    if primitives.instance_class in (Triangles, Instanced):
        return _write_in_lanes
    return _write_one_by_one


@inlined
def write_details(out, j, details):
    """Write `details`, (t, u, v, front), to row j of the columns `out`."""
    t, u, v, front = details
    simd.poke(out.t, j, t)
    simd.poke(out.u, j, u)
    simd.poke(out.v, j, v)
    simd.poke(out.front, j, np.uint8(front))


@kernel
def _write_alone(tree, rays, pairs, k, cull, out):
    """Write the details of pair k, solved alone and as exactly as need be, to its row of `out`."""
    ray = read_ray(rays, simd.peek(pairs.which, k))
    details = details_of(tree.primitives, tree, simd.peek(pairs.prims, k), ray, cull)
    write_details(out, simd.peek(pairs.rows, k), details)


def _vertices_in_tree(primitives, pairs, j):
    """Return (on_triangles, (v0, v1, v2)), triangles of the HALF pairs from j on, one in each lane.

    `on_triangles` has the bits of lanes whose primitives are triangles: all are. A vertex is three
    vectors, one for each axis.
    """
    points, faces, face = primitives.points, primitives.faces, simd.load(pairs.prims, j, HALF)
    v0 = read_rows(points, simd.convert(simd.gather(faces, face, 3, 0), I8))
    v1 = read_rows(points, simd.convert(simd.gather(faces, face, 3, 1), I8))
    v2 = read_rows(points, simd.convert(simd.gather(faces, face, 3, 2), I8))
    return np.int64(-1), (v0, v1, v2)


def _vertices_in_scene(primitives, pairs, j):
    """Return (on_triangles, (v0, v1, v2)), as `_vertices_in_tree`; vertices are in the world."""
    lanes = np.int64(0)
    for k in range(HALF):
        lanes |= _write_lane(primitives, pairs, simd.peek(pairs.prims, j + k), k) << k
    v0, v1 = _world_vertex(pairs.vertices, 0, lanes), _world_vertex(pairs.vertices, 1, lanes)
    return lanes, (v0, v1, _world_vertex(pairs.vertices, 2, lanes))


vertices_of = by_scene(_vertices_in_tree, _vertices_in_scene)


@inlined
def _write_lane(primitives, pairs, code, k):
    """Write local vertices and map of triangle `code` to lane k; return 1, or 0 if it is none."""
    rows, leaf = pairs.vertices, leaf_of(code)
    if kind_of(primitives, leaf) != TRIANGLES:
        return np.int64(0)
    vertices = local_corners(primitives, code)
    for i in range(3):
        for axis in range(3):
            simd.poke(rows, (3 * i + axis) * HALF + k, vertices[i][axis])
    for i in range(MAP_SIZE):
        simd.poke(rows, (9 + i) * HALF + k, simd.peek(primitives.maps, MAP_SIZE * leaf + i))
    return np.int64(1)


_, _load_three, _ = simd.rows(np.float64, 0, HALF, 2 * HALF)
_, _load_four, _ = simd.rows(np.float64, *range(0, 4 * HALF, HALF))


@inlined
def _three_rows(rows, row):
    """Return three rows of `HitPairs.vertices`, from number `row` on, as vectors of HALF lanes."""
    return _load_three(rows, row * HALF, HALF)


@inlined
def _row_of_map(rows, axis):
    """Return the row of the lanes' maps that gives a world coordinate, as four vectors."""
    return _load_four(rows, (9 + 4 * axis) * HALF, HALF)


@inlined
def _world_vertex(rows, vertex, lanes):
    """Return vertex 0, 1 or 2 in the world, by axis, of the triangles in the bits `lanes`."""
    x, y = _coordinate(rows, vertex, 0, lanes), _coordinate(rows, vertex, 1, lanes)
    return x, y, _coordinate(rows, vertex, 2, lanes)


@inlined
def _coordinate(rows, vertex, axis, lanes):
    """Return world coordinate `axis` of vertex 0, 1 or 2, correctly rounded in the bits `lanes`."""
    decided, x = rounded_quickly(_row_of_map(rows, axis), _three_rows(rows, 3 * vertex))
    if lanes & ~np.int64(simd.mask_bits(decided)) != 0:
        x = _coordinate_of_few(rows, vertex, axis, lanes)
    return x


@kernel
def _coordinate_of_few(rows, vertex, axis, lanes):
    """Return world coordinate `axis` of a vertex, by exact sums where double-doubles fail."""
    stay_outlined()
    m, v = _row_of_map(rows, axis), _three_rows(rows, 3 * vertex)
    decided, x = rounded_dot(m, v)
    lanes &= ~np.int64(simd.mask_bits(decided))
    while lanes != 0:
        k = simd.lowest_bit(lanes)
        lanes &= lanes - 1
        row = simd.lane(m[0], k), simd.lane(m[1], k), simd.lane(m[2], k), simd.lane(m[3], k)
        exact = exact_dot(row, (simd.lane(v[0], k), simd.lane(v[1], k), simd.lane(v[2], k)))
        x = simd.select(simd.lane_numbers(HALF) == np.int32(k), exact, x)
    return x
