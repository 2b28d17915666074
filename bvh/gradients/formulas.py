"""Derivatives of a hit and of a closest point, for arrays of NumPy, PyTorch and JAX alike.

The face is held fixed, and of a closest point also its interior, edge or vertex. Where there is no
derivative, it is 0: of misses, of faces without area, and where float64 does not give the sign of
n . d, as the ray grazes the face.

With n = e1 x e2 the normal of a face with edges e1 = v1 - v0 and e2 = v2 - v0, a hit moves by
dt d - du e1 - dv e2 = r, where r = w0 dv0 + w1 dv1 + w2 dv2 - do - t dd is how far the face has
moved from the ray. Products with n, d x e2 and e1 x d solve that (Cramer's rule).

At the closest point q, p - q is orthogonal to the edges that q may move along. All formulas are in
terms of the arguments and results, so that they can be differentiated again.

Derivatives are also 0 where they exceed the range of float64, as those of u by a face of size
1e-310. Lengths are divided by lengths first, to keep intermediate results in range.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

# An array of NumPy, PyTorch or JAX.
Array = Any

# Bounds the error of n . d, relative to the sum of the sizes of its terms: under 16 roundings.
SIGN_ERROR = 2.0**-48
# A first weight of a closest point up to this, 1 - u - v rounded, may be 0: on the opposite edge.
NO_WEIGHT = 2.0**-51


class ArrayLibrary(NamedTuple):
    """Functions of an array library."""

    # The module, with the functions of numpy that formulas use.
    xp: Any
    # Returns an array as a constant, which has no gradient.
    fixed: Callable[[Array], Array]
    # `zero_unless_finite` (see below) as a linear function, its own transpose, so that derivatives
    # of derivatives are in range, too.
    zero_unless_finite: Callable[[Array, int], Array]
    # Returns whether there may be derivatives of derivatives.
    recorded: Callable[[], bool]


class Faces(NamedTuple):
    """The faces that were hit, or have the closest points."""

    edges: tuple[Array, Array]  # (..., 3): v1 - v0 and v2 - v0
    e1: Array  # the edges over `length`
    e2: Array
    length: Array  # (..., 1): the largest component of both edges
    weights: tuple[Array, Array, Array]  # (...): of the corners, 1 - u - v, u and v


class HitRates(NamedTuple):
    """Derivatives of t, u and v of hits by r (see above): rows (..., 3), 0 where there is none.

    The position moves along `heading`, the direction over its largest component, by `advance` . r.
    There are derivatives where `usable`.
    """

    t: Array
    u: Array
    v: Array
    heading: Array
    advance: Array
    usable: Array
    faces: Faces


class PointRates(NamedTuple):
    """Derivatives of closest points.

    `away` is the gradient of the distance, (..., 3); `offset` is p - q over the face's length;
    `inverse` is 1 over that length; `xx`, `xy` and `yy` are entries of the inverse of the Gram
    matrix of the edges that q may move along. All are 0 where there is no derivative, or none in
    range: distances have derivatives where `usable`, the other results where `movable`.
    """

    away: Array
    offset: Array
    inverse: Array
    xx: Array
    xy: Array
    yy: Array
    usable: Array
    movable: Array
    faces: Faces


def zero_unless_finite(xp, values, axes):
    """Return values, with 0 in place of all along the last `axes` axes if any is not finite."""
    finite = xp.isfinite(values)
    for _ in range(axes):
        finite = finite.all(-1)
    for _ in range(axes):
        finite = finite[..., None]
    return xp.where(finite, values, 0.0)


def _with_finite_rows(formula):
    """Return `formula` with 0 in place of arguments and results that are not finite, row by row.

    So derivatives of derivatives stay in range. Arguments of a formula are the library; directions
    of rays, or points, (..., 3); corners of faces, (..., 3, 3); (t or distance, u, v), which its
    callers give one by one; `hit`, True where there is one, (...); `slopes`: gradients or tangents.
    """

    @wraps(formula)
    def call(lib, start, corners, value, u, v, hit, slopes, **options):
        def finite(given):
            """Return an array, or each of a tuple, with 0 for rows that are not finite."""
            if isinstance(given, tuple):
                return tuple(map(finite, given))
            return lib.zero_unless_finite(given, len(given.shape) - len(hit.shape))

        # An infinite t or distance has no derivative.
        results, hit = (value, u, v), hit & lib.xp.isfinite(value)
        if lib.recorded():
            start, corners, results = finite((start, corners, results))
        return finite(formula(lib, start, corners, results, hit, finite(slopes), **options))

    return call


@_with_finite_rows
def pull_hit(lib, directions, corners, hits, hit, gradients):
    """Return gradients of origins, directions and corners from `gradients` of t, u, v and position.

    `hits` are t, u and v, and `hit` is True where there is a hit.
    """
    rates = hit_rates(lib, directions, corners, hits, hit)
    by_t, by_u, by_v, by_position = (_only(lib, rates.usable, x) for x in gradients)
    t, along = _only(lib, rates.usable, hits[0]), dot(by_position, rates.heading)
    # The gradient by r, the movement of the face from the ray (see the top of this file).
    by_r = times(by_t, rates.t) + times(by_u, rates.u) + times(by_v, rates.v)
    by_r = by_r + times(along, rates.advance)
    by_origins = by_position - by_r
    by_corners = lib.xp.stack([times(w, by_r) for w in rates.faces.weights], -2)
    return by_origins, times(t, by_origins), by_corners


@_with_finite_rows
def push_hit(lib, directions, corners, hits, hit, tangents):
    """Return tangents of t, u, v and position from `tangents` of origins, directions and corners.

    `hits` are t, u and v, and `hit` is True where there is a hit.
    """
    rates = hit_rates(lib, directions, corners, hits, hit)
    t = _only(lib, rates.usable, hits[0])
    # The move of the ray at t, and r, how far the face moves from it.
    ray = tangents[0] + times(t, tangents[1])
    r = weighted(rates.faces.weights, tangents[2]) - ray
    position = ray + times(dot(r, rates.advance), rates.heading)
    results = dot(r, rates.t), dot(r, rates.u), dot(r, rates.v), position
    return tuple(_only(lib, rates.usable, x) for x in results)


def hit_rates(lib, directions, corners, hits, hit):
    """Return the `HitRates` of t, u and v in `hits`; `hit` is True where there is a hit.

    If the face moves by r from the ray, Cramer's rule gives, with n = e1 x e2,
    dt = n . r / (n . d), du = (d x e2) . r / (n . d), dv = (e1 x d) . r / (n . d).
    Here e1 and e2 are divided by the face's length and d by `speed`, its largest component.
    """
    xp = lib.xp
    _, u, v = hits
    faces = _faces(lib, corners, u, v, hit)
    d = _only(lib, hit, directions)
    speed = lib.fixed(_positive(lib, largest(lib, d)))[..., None]
    e1, e2, d = faces.e1, faces.e2, d / speed
    n = cross(lib, e1, e2)
    slope = dot(n, d)
    # The sum of the absolute values of its terms, to which rounding errors are relative.
    size = dot(_cross_size(lib, e1, e2), xp.abs(d))
    usable = hit & (xp.abs(slope) > SIGN_ERROR * size)
    slope = xp.where(usable, slope, 1.0)[..., None]
    u_row, v_row = (cross(lib, *pair) / slope / faces.length for pair in ((d, e2), (e1, d)))
    rows = n / slope / speed, u_row, v_row, d, n / slope
    rows = (_only(lib, usable & xp.isfinite(row).all(-1), row) for row in rows)
    return HitRates(*rows, usable, faces)


@_with_finite_rows
def pull_point(lib, points, corners, results, hit, gradients, signed):
    """Return gradients of points and corners from `gradients` of distance, u, v and position.

    `results` are distances, `signed` or not, u and v; `hit` is True where there is a closest point.
    """
    # The transpose of `push_point`: (h1, h2) is the gradient by its (x, y), (k1, k2) by (b1, b2).
    rates = point_rates(lib, points, corners, results, hit, signed)
    by_distance = _only(lib, rates.usable, gradients[0])
    by_u, by_v, by_position = (_only(lib, rates.movable, x) for x in gradients[1:])
    faces = rates.faces
    h1 = by_u * rates.inverse + dot(by_position, faces.e1)
    h2 = by_v * rates.inverse + dot(by_position, faces.e2)
    k1, k2 = rates.xx * h1 + rates.xy * h2, rates.xy * h1 + rates.yy * h2
    by_points = times(k1, faces.e1) + times(k2, faces.e2) + times(by_distance, rates.away)
    with_face = by_position - by_points
    c1, c2 = times(k1, rates.offset), times(k2, rates.offset)
    # Gradients of the corners through the edges v1 - v0 and v2 - v0.
    by_edges = -c1 - c2, c1, c2
    by_corners = [times(w, with_face) + c for w, c in zip(faces.weights, by_edges, strict=True)]
    return by_points, lib.xp.stack(by_corners, -2)


@_with_finite_rows
def push_point(lib, points, corners, results, hit, tangents, signed):
    """Return tangents of distance, u, v and position from `tangents` of points and corners."""
    rates = point_rates(lib, points, corners, results, hit, signed)
    faces, by_corners = rates.faces, tangents[1]
    # The move of the face at the closest point, and that of the point relative to it.
    moved = weighted(faces.weights, by_corners)
    rel = tangents[0] - moved
    from_edge1 = dot(by_corners[..., 1, :] - by_corners[..., 0, :], rates.offset)
    from_edge2 = dot(by_corners[..., 2, :] - by_corners[..., 0, :], rates.offset)
    # The closest point moves by x e1 + y e2 in its face, so that p - q stays orthogonal to the
    # edges that q may move along, whose inverse Gram matrix `rates` has.
    b1, b2 = dot(rel, faces.e1) + from_edge1, dot(rel, faces.e2) + from_edge2
    x, y = rates.xx * b1 + rates.xy * b2, rates.xy * b1 + rates.yy * b2
    position = moved + times(x, faces.e1) + times(y, faces.e2)
    rest = x * rates.inverse, y * rates.inverse, position
    distance = _only(lib, rates.usable, dot(rel, rates.away))
    return distance, *(_only(lib, rates.movable, value) for value in rest)


class Rule(NamedTuple):
    """Formulas of derivatives of a search's results: `pull` is backward, `push` is forward."""

    pull: Callable[..., tuple[Array, ...]]
    push: Callable[..., tuple[Array, ...]]
    moving: int  # number of arguments that results depend on
    results: int

    def saved(self, given: Sequence[Array], results: Sequence[Array]) -> Sequence[Array]:
        """Return the arguments of formulas between the library and gradients or tangents.

        `given` has the moving arguments (origins, directions, corners; points, corners; points,
        ends), the `results` (t or distance, u, v, position; winding numbers) and perhaps `hit`.
        """
        # Neither origins nor positions are needed.
        return (
            *given[self.moving - 2 : self.moving],
            *results[:3],
            *given[self.moving + self.results :],
        )


HIT_RULE = Rule(pull_hit, push_hit, 3, 4)
# Index 1 is for signed distances.
POINT_RULES = [
    Rule(partial(pull_point, signed=signed), partial(push_point, signed=signed), 2, 4)
    for signed in (False, True)
]


def point_rates(lib, points, corners, results, hit, signed):
    """Return the `PointRates` of the points of faces, with `corners`, that are closest to `points`.

    `results` are distances, `signed` or not, u and v; `hit` is True where there is a closest point.
    """
    xp = lib.xp
    distance, u, v = results
    faces = _faces(lib, corners, u, v, hit)
    e1, e2 = faces.e1, faces.e2
    w0, w1, w2 = faces.weights
    from_corner = _only(lib, hit, points) - _only(lib, hit, corners[..., 0, :])
    # The edges and this are divided by the larger length, so that subnormal ones lose nothing.
    reach = lib.xp.maximum(faces.length, lib.fixed(largest(lib, from_corner))[..., None])
    across = times(w1, faces.edges[0] / reach) + times(w2, faces.edges[1] / reach)
    # The vector from the closest point to the point, over `reach`.
    offset = from_corner / reach - across
    n = cross(lib, e1, e2)
    area = dot(n, n)
    inside = (w1 > 0.0) & (w2 > 0.0) & (w0 > NO_WEIGHT) & (area > 0.0)
    xx, xy, yy = _inverse_gram(lib, e1, e2, faces.weights, inside, area)
    normal = _unit(lib, n)
    away = _unit(lib, offset)
    # Inside of a face, p - q is along its normal, which is more accurate.
    side = _sign(lib, dot(normal, from_corner))
    away = xp.where(inside[..., None], times(side, normal), away)
    if signed:
        # The sign is that of the distance, not that of the normal, which may point inward.
        away = times(xp.where(distance < 0.0, -1.0, 1.0), away)
        at_surface = (distance == 0.0) | (inside & (side == 0.0))
        away = xp.where(at_surface[..., None], normal, away)
    else:
        away = xp.where((distance == 0.0)[..., None], 0.0, away)
    usable = hit & xp.isfinite(offset).all(-1)
    # From here on `offset` is over the face's length, as e1 and e2 are.
    offset, inverse = offset * (reach / faces.length), 1.0 / faces.length[..., 0]
    # At a vertex the closest point cannot move along edges, however far away the point is.
    at_vertex = (xx == 0.0) & (yy == 0.0)
    movable = usable & (at_vertex | xp.isfinite(offset).all(-1))
    for entry in (xx, xy, yy):
        movable = movable & xp.isfinite(entry)
    inverse = _only(lib, xp.isfinite(inverse), inverse)
    offset = _only(lib, ~at_vertex, offset)
    offset, inverse, xx, xy, yy = (_only(lib, movable, x) for x in (offset, inverse, xx, xy, yy))
    return PointRates(_only(lib, usable, away), offset, inverse, xx, xy, yy, usable, movable, faces)


def _inverse_gram(lib, e1, e2, weights, inside, area):
    """Return (xx, xy, yy) of the inverse Gram matrix of the edges that a closest point moves along.

    These are e1 and e2 where the point is `inside` a face, and one edge where it is on that. At a
    vertex there is none, and all three numbers are 0. `area` is the squared length of e1 x e2.
    """
    xp = lib.xp
    w0, w1, w2 = weights
    a, b, c = dot(e1, e1), dot(e1, e2), dot(e2, e2)
    third = e2 - e1
    # For each edge, whether the point is within it, and the edge's squared length.
    edges = (
        ((w1 > 0.0) & ~(w2 > 0.0) & (w0 > 0.0), a),
        ((w2 > 0.0) & ~(w1 > 0.0) & (w0 > 0.0), c),
        ((w1 > 0.0) & (w2 > 0.0) & ~inside, dot(third, third)),
    )
    along = [xp.where(on, 1.0, 0.0) / xp.where(on, square, 1.0) for on, square in edges]
    # The determinant of the Gram matrix of both edges.
    det = xp.where(inside, area, 1.0)
    return (
        xp.where(inside, c / det, along[0] + along[2]),
        xp.where(inside, -b / det, -along[2]),
        xp.where(inside, a / det, along[1] + along[2]),
    )


def _faces(lib, corners, u, v, hit):
    """Return the `Faces` of hits; of misses, faces whose corners are all at the origin."""
    corners = lib.xp.where(hit[..., None, None], corners, 0.0)
    u, v = _only(lib, hit, u), _only(lib, hit, v)
    first = corners[..., 0, :]
    edges = corners[..., 1, :] - first, corners[..., 2, :] - first
    # The common length is the largest component of both edges; it is treated as a constant.
    length = lib.xp.maximum(largest(lib, edges[0]), largest(lib, edges[1]))
    length = lib.fixed(_positive(lib, length))[..., None]
    weights = 1.0 - u - v, u, v
    return Faces(edges, edges[0] / length, edges[1] / length, length, weights)


def weighted(weights: tuple[Array, ...], corners: Array) -> Array:
    """Return sums of corners (..., 3, 3) times weights: points of faces, or tangents of points."""
    w0, w1, w2 = (w[..., None] for w in weights)
    return w0 * corners[..., 0, :] + w1 * corners[..., 1, :] + w2 * corners[..., 2, :]


def _unit(lib, vectors):
    """Return rows of three scaled to length 1; a row of 0 stays 0."""
    scaled = vectors / lib.fixed(_positive(lib, largest(lib, vectors)))[..., None]
    return scaled / lib.xp.sqrt(_positive(lib, dot(scaled, scaled)))[..., None]


def _positive(lib, values):
    """Return values that are safe to divide by: 1 in place of those not above 0."""
    return lib.xp.where(values > 0.0, values, 1.0)


def _sign(lib, values):
    """Return the signs of values: 1, -1, or 0 for 0 and NaN."""
    return lib.xp.where(values > 0.0, 1.0, lib.xp.where(values < 0.0, -1.0, 0.0))


def _only(lib, which, values):
    """Return `values`, (...) or (..., 3), where the mask `which` (...) is True, and 0 elsewhere."""
    rows = len(values.shape) > len(which.shape)
    return lib.xp.where(which[..., None] if rows else which, values, 0.0)


def times(numbers, rows):
    """Return rows of three, each times its number."""
    return numbers[..., None] * rows


def dot(a, b):
    """Return the dot products of rows of three."""
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]


def cross(lib, a, b):
    """Return the cross products of rows of three."""
    (ax, ay, az), (bx, by, bz) = _components(a), _components(b)
    return lib.xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], -1)


def _cross_size(lib, a, b):
    """Return cross products of rows of three with the absolute values of all terms added up."""
    (ax, ay, az), (bx, by, bz) = _components(lib.xp.abs(a)), _components(lib.xp.abs(b))
    return lib.xp.stack([ay * bz + az * by, az * bx + ax * bz, ax * by + ay * bx], -1)


def largest(lib, rows):
    """Return the largest absolute component of each row of three."""
    x, y, z = _components(lib.xp.abs(rows))
    return lib.xp.maximum(lib.xp.maximum(x, y), z)


def _components(rows):
    """Return the three components of rows of three, each as an array."""
    return rows[..., 0], rows[..., 1], rows[..., 2]
