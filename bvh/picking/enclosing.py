"""Exact test of whether a region contains a triangle, in rational numbers, for unsure cases.

`outlines` is unsure where a triangle has all its corners in the region, and the outline runs
through it, or along it: in lassos that are narrow, touch themselves or run back along themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

Point = tuple[Fraction, Fraction]
Edge = tuple[Point, Point]


def encloses(outline: Sequence[Sequence[float]], triangle: Sequence[Sequence[float]]) -> bool:
    """Return whether all of a triangle is in the region of an outline (see `outlines`)."""
    around = [_exact(p) for p in outline]
    edges = [(p, q) for p, q in zip(around, around[1:] + around[:1], strict=True) if p != q]
    a, b, c = (_exact(p) for p in triangle)
    if not all(_holds(edges, v) or v in around for v in (a, b, c)):
        return False
    area = _area(a, b, c)
    if area == 0:
        p, q = min(a, b, c), max(a, b, c)
        return p == q or all(_holds(edges, m) for m in _middles((p, q), edges))
    sides = ((a, b), (b, c), (c, a))
    near = [edge for edge in edges if not _apart(edge, (a, b, c))]
    cut = False
    for edge in near:
        for middle in _middles(edge, [*near, *sides]):
            if all(_area(*side, middle) * area > 0 for side in sides):
                cut = True
                across = (edge[0][1] - edge[1][1], edge[1][0] - edge[0][0])
                back = (-across[0], -across[1])
                if not (_odd(edges, middle, across) and _odd(edges, middle, back)):
                    return False
    # Where no outline runs through it, all of it lies where one of its points does.
    centre = ((a[0] + b[0] + c[0]) / 3, (a[1] + b[1] + c[1]) / 3)
    return cut or _holds(edges, centre)


def _apart(edge: Edge, triangle: Sequence[Point]) -> bool:
    """Return whether an edge is beside the box of a triangle."""
    spans = zip(zip(*edge, strict=True), zip(*triangle, strict=True), strict=True)
    return any(max(ends) < min(corners) or min(ends) > max(corners) for ends, corners in spans)


def _exact(point: Sequence[float]) -> Point:
    return Fraction(float(point[0])), Fraction(float(point[1]))


def _area(a: Point, b: Point, c: Point) -> Fraction:
    """Return twice the area of a triangle that turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _middles(edge: Edge, others: Sequence[Edge]) -> list[Point]:
    """Return a point of each of the parts into which other edges, and their lines, cut an edge."""
    p, q = edge
    cuts = {Fraction(0), Fraction(1)}
    for r, s in others:
        before, after = _area(r, s, p), _area(r, s, q)
        if before != after:
            cuts.add(before / (before - after))
        elif before == 0:
            axis = 0 if p[0] != q[0] else 1
            cuts |= {(v[axis] - p[axis]) / (q[axis] - p[axis]) for v in (r, s)}
    inner = sorted(t for t in cuts if 0 <= t <= 1)
    half = [(t + u) / 2 for t, u in itertools.pairwise(inner)]
    return [(p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])) for t in half]


def _odd(edges: list[Edge], start: Point, along: Point) -> bool:
    """Return whether the region lies right beyond a point, where no edge leads."""
    odd = False
    ahead = (start[0] + along[0], start[1] + along[1])
    for p, q in edges:
        before, after = _area(start, ahead, p), _area(start, ahead, q)
        if (before > 0) != (after > 0):
            # How far along the ray the edge is: the quotient of the two, whose sign is enough.
            slope = along[0] * (q[1] - p[1]) - along[1] * (q[0] - p[0])
            odd ^= _area(p, q, start) * slope > 0
    return odd


def _holds(edges: list[Edge], v: Point) -> bool:
    """Return whether a point is on the outline, or wound about an odd number of times."""
    on = any(min(p, q) <= v <= max(p, q) and _area(p, q, v) == 0 for p, q in edges)
    return on or _odd(edges, v, (Fraction(1), Fraction(0)))
