"""The slow truth of selections in a picture, in rational numbers.

Nothing here knows of signs of determinants of homogeneous points: what reaches behind the eye is
clipped, and what an even-odd region holds is found in vertical slabs between all crossings.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise

from tests.oracles.overlaps import clip_all, exact

Point = tuple[Fraction, ...]


def region_edges(outline: Sequence[Sequence[float]]) -> list[tuple[Point, Point]]:
    points = exact(outline)
    return list(zip(points, points[1:] + points[:1], strict=True))


def on_segment(v: Point, p: Point, q: Point) -> bool:
    # Most are not between the ends, which takes comparisons alone.
    if not all(p[k] <= v[k] <= q[k] or q[k] <= v[k] <= p[k] for k in range(2)):
        return False
    return (q[0] - p[0]) * (v[1] - p[1]) == (q[1] - p[1]) * (v[0] - p[0])


def holds_point(edges: list[tuple[Point, Point]], v: Point) -> bool:
    """Tell whether a point is on the outline, or wound about an odd number of times."""
    if any(on_segment(v, p, q) for p, q in edges):
        return True
    odd = False
    for p, q in edges:
        if (p[0] <= v[0]) != (q[0] <= v[0]):
            y = p[1] + (q[1] - p[1]) * (v[0] - p[0]) / (q[0] - p[0])
            odd ^= y > v[1]
    return odd


def crossings(edge: tuple[Point, Point], other: tuple[Point, Point]) -> list[Point]:
    """Return the points that two segments share, or the ends of what they share."""
    (p, q), (r, s) = edge, other
    if any(max(p[k], q[k]) < min(r[k], s[k]) or max(r[k], s[k]) < min(p[k], q[k]) for k in (0, 1)):
        return []
    d, e = [q[k] - p[k] for k in range(2)], [s[k] - r[k] for k in range(2)]
    den = d[0] * e[1] - d[1] * e[0]
    if den == 0:
        return [v for v in (p, q, r, s) if on_segment(v, p, q) and on_segment(v, r, s)]
    t = ((r[0] - p[0]) * e[1] - (r[1] - p[1]) * e[0]) / den
    u = ((r[0] - p[0]) * d[1] - (r[1] - p[1]) * d[0]) / den
    if 0 <= t <= 1 and 0 <= u <= 1:
        return [(p[0] + t * d[0], p[1] + t * d[1])]
    return []


def image_of(
    corners: Sequence[Sequence[float]], outline: Sequence[Sequence[float]]
) -> list[Point] | None:
    """Return the corners of what is seen of a triangle, as far as it is near the outline.

    Corners are homogeneous; None for what the eye does not see.
    """
    if not any(w > 0 for _, _, w in corners):
        return None
    points = exact(corners)
    if all(v[2] > 0 for v in points):
        return [(x / w, y / w) for x, y, w in points]
    bounds = exact(outline)
    planes = []
    for axis in range(2):
        unit = [Fraction(int(k == axis)) for k in range(2)]
        low = min(p[axis] for p in bounds) - 1
        high = max(p[axis] for p in bounds) + 1
        planes.append((*unit, -low, Fraction(0)))
        planes.append((-unit[0], -unit[1], high, Fraction(0)))
    seen = clip_all(list(dict.fromkeys(points)), planes)
    return [(x / w, y / w) for x, y, w in seen if w > 0]


def touches(outline: Sequence[Sequence[float]], corners: Sequence[Sequence[float]]) -> bool:
    """Tell whether the image of a triangle meets the region."""
    image = image_of(corners, outline)
    if not image:
        return False
    edges = region_edges(outline)
    sides = list(combinations(image, 2))
    if len(image) == 1:
        return holds_point(edges, image[0])
    if any(holds_point(edges, v) for v in image):
        return True
    if any(crossings(edge, side) for edge in edges for side in sides):
        return True
    return any(_in_hull(p, image) for p, _ in edges)


def _in_hull(v: Point, image: list[Point]) -> bool:
    """Tell whether a point is in the hull of others: in a triangle of them."""
    for a, b, c in combinations(image, 3):
        signs = []
        for p, q in ((a, b), (b, c), (c, a)):
            signs.append((q[0] - p[0]) * (v[1] - p[1]) - (q[1] - p[1]) * (v[0] - p[0]))
        if any(signs) and (min(signs) >= 0 or max(signs) <= 0):
            return True
    return False


def is_inside(outline: Sequence[Sequence[float]], corners: Sequence[Sequence[float]]) -> bool:
    """Tell whether all of a triangle is in front of the eye, and in the region."""
    if not all(w > 0 for _, _, w in corners):
        return False
    edges = region_edges(outline)
    triangle = [(x / w, y / w) for x, y, w in exact(corners)]
    sides = list(zip(triangle, triangle[1:] + triangle[:1], strict=True))
    marks = [*triangle, *(p for p, _ in edges)]
    for one, two in combinations([*edges, *sides], 2):
        marks += crossings(one, two)
    if not all(holds_point(edges, v) for v in triangle):
        return False
    if not all(holds_point(edges, m) for m in marks if _in_hull(m, triangle)):
        return False
    # On the triangle's sides: between the marks that lie on them.
    for p, q in sides:
        cuts = sorted({m for m in marks if on_segment(m, p, q)})
        for r, s in pairwise(cuts):
            if not holds_point(edges, ((r[0] + s[0]) / 2, (r[1] + s[1]) / 2)):
                return False
    # In it: in each slab, between the edges in the order in which they cross its middle.
    columns = sorted({m[0] for m in marks})
    for left, right in pairwise(columns):
        x = (left + right) / 2
        within = _heights(sides, x)
        if len(within) < 2:
            continue
        low, high = min(within), max(within)
        levels = sorted({low, high, *(y for y in _heights(edges, x) if low < y < high)})
        for below, above in pairwise(levels):
            if not holds_point(edges, (x, (below + above) / 2)):
                return False
    return True


def _heights(edges: list[tuple[Point, Point]], x: Fraction) -> list[Fraction]:
    """Return where edges cross a vertical line that goes through none of their ends."""
    return [
        p[1] + (q[1] - p[1]) * (x - p[0]) / (q[0] - p[0])
        for p, q in edges
        if min(p[0], q[0]) < x < max(p[0], q[0])
    ]
