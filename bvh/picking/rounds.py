"""Spheres and capsules in a region of the picture: those that it touches, or that are inside.

A point of space is in a region if its exact image by the camera's gradients is, and its depth
between near and far. What rays through a convex region reach is a polytope. A lasso has one for
each edge: a flat wedge, which a convex solid meets if it meets the polytopes on both of its sides.
A solid that meets no wedge lies where any point of it does. A region that meets a solid also meets
its surface, unless the solid contains the region, which then ends at near and far planes.

Planes are exact, in integers. Kernels have them with each coefficient rounded once, which their
error bounds contain; where these do not decide, `rational_surfaces` does.
"""

import itertools
from collections import defaultdict
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bvh.camera.camera import Camera
from bvh.geometry.arithmetic.rational import Row, scaled
from bvh.geometry.arithmetic.rational_surfaces import (
    solid_contains,
    solid_is_within,
    solid_meets_planes,
    solution,
)
from bvh.geometry.pairs.round_regions import surface_and_planes
from bvh.geometry.region_overlap import APART, ERROR, MEET, UNSURE, plane_height
from bvh.picking.outlines import BORDER, INTERIOR, is_odd
from bvh.picking.placed_trees import SLACK
from bvh.picking.region import Region, locate_points
from bvh.runtime.arguments import kernel_input
from bvh.runtime.calls.entries import entry
from bvh.runtime.jit import kernel, stay_outlined, warms
from bvh.runtime.threads import share

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Point = tuple[Fraction, Fraction]

# Shapes that a thread tests at a time.
CHUNK = 1024


@kernel
def _judge(p, q, radius, planes, first, last, flat):
    """Return APART, MEET or UNSURE for a solid and the polytope of planes first..last-1.

    The solid is the points within `radius` of the segment p, q. If `flat`, the first and the last
    plane are opposite: the polytope is a part of a plane.
    """
    # Normals are shorter than 1.75, their components being at most 1.
    stay_outlined()
    for k in range(first, last):
        f, e = plane_height(planes, k, p)
        g, h = plane_height(planes, k, q)
        if max(f, g) + 1.75 * radius < -max(e, h):
            return APART
    if not flat:
        return surface_and_planes(p, q, radius, planes, first, last)
    # A convex solid that meets the polytopes on both sides of the flat piece meets the piece.
    above = surface_and_planes(p, q, radius, planes, first, last - 1)
    if above == APART:
        return APART
    below = surface_and_planes(p, q, radius, planes, first + 1, last)
    if below == APART:
        return APART
    return MEET if above == MEET and below == MEET else UNSURE


@entry
def judge_rounds(rounds, planes, size, flat, deeper, begin, end, first, last, verdicts):
    """Write MEET, APART or UNSURE for solids first..last-1 and the pieces begin..end-1 of a region.

    MEET: a solid meets one of the pieces; with `deeper`, by more than touching it. Rows of `rounds`
    are both ends of an axis and a positive radius. A piece is a polytope of `size` consecutive
    `planes`; if `flat`, its first and last plane are opposite, so that it is a part of a plane.
    """
    for i in range(first, last):
        p = rounds[i, 0], rounds[i, 1], rounds[i, 2]
        q = rounds[i, 3], rounds[i, 4], rounds[i, 5]
        radius = rounds[i, 6]
        verdicts[i] = APART
        for k in range(begin, end):
            verdict = _judge(p, q, radius, planes, k * size, (k + 1) * size, flat)
            # What a slightly smaller solid meets, the solid meets by more than touching it.
            if deeper and verdict == MEET:
                less = radius * (1.0 - 2.0**-30)
                verdict = UNSURE
                if less < radius:
                    verdict = _judge(p, q, less, planes, k * size, (k + 1) * size, flat)
                    verdict = MEET if verdict == MEET else UNSURE
            if verdict != APART:
                verdicts[i] = verdict
            if verdict == MEET:
                break


class RoundRegion:
    """A region of a picture, against which spheres and capsules with a radius are tested.

    If `want_inside`, they must be inside of it; else it is enough that they touch it.
    """

    def __init__(self, camera: Camera, region: Region, want_inside: bool, threads: int) -> None:
        self._camera, self._region, self._threads = camera, region, threads
        self._want_inside = want_inside
        self._gradients = [[Fraction(x) for x in row] for row in camera.gradients.tolist()]
        self._eye = [Fraction(x) for x in camera.eye.tolist()]
        self._centre = [Fraction(x) for x in camera.centre.tolist()]
        self._outline = [(Fraction(x), Fraction(y)) for x, y in region.outline.tolist()]
        # A lasso whose points are all equal has one point and no edges: it is a rectangle.
        self._is_lasso = not region.convex and len(self._outline) > 1

    def select(self, rounds: Floats) -> Flags:
        """Return which solids the region selects, (n,).

        Rows (n, 7) of `rounds` are both ends of an axis and a radius above 0.
        """
        if not self._want_inside:
            touching = self._meeting(rounds)
            if self._is_lasso:
                rest = np.flatnonzero(~touching)
                touching[rest] = self._in_lasso(rounds[rest])
            return touching & ~self._around_region(rounds, touching)
        inside = _within(rounds, self._depths if self._is_lasso else self._pieces[0])
        if self._is_lasso:
            # Of those between near and far: meeting no border, and in the lasso.
            rest = np.flatnonzero(inside)
            rest = rest[~self._meeting(rounds[rest])]
            inside[:] = False
            inside[rest] = self._in_lasso(rounds[rest])
        return inside

    def _plane(self, a: Fraction, b: Fraction, c: Fraction) -> Row:
        """Return the plane (see `_row`) that is seen as the line a x + b y + c = 0.

        Points in front of the eye are on its positive side if a x + b y + c >= 0 where they are
        seen.
        """
        # A point p is seen at x = gx . v + centre with v = p - eye, and alike y. For perspective,
        # gx . v is divided by the depth: times the depth, the constant `level` is a factor of it.
        level = a * self._centre[0] + b * self._centre[1] + c
        depth = level if self._camera.perspective else Fraction(0)
        return self._row((a, b, depth), level - depth)

    def _row(self, factors: tuple[Fraction, ...], level: Fraction) -> Row:
        """Return the plane (nx, ny, nz, offset), in integers, of a half-space of points p.

        n . p + offset >= 0 if sum(factors[k] * gradients[k] . (p - eye)) + level >= 0, by the
        gradients of the camera.
        """
        normal = [sum((f * row[k] for f, row in zip(factors, self._gradients, strict=True)),
                      Fraction(0)) for k in range(3)]  # fmt: skip
        offset = level - sum(n * x for n, x in zip(normal, self._eye, strict=True))
        return scaled([[*normal, offset]])[0][0]  # type: ignore[list-item]

    @cached_property
    def _depths(self) -> list[Row]:
        """The planes of near and far, without those at infinity."""
        along = Fraction(0), Fraction(0), Fraction(1)
        limits = ((1, self._camera.near), (-1, self._camera.far))
        return [
            self._row(tuple([sign * x for x in along]), -sign * Fraction(limit))
            for sign, limit in limits
            if np.isfinite(limit)
        ]

    @cached_property
    def _pieces(self) -> list[list[Row]]:
        """Planes of each piece: one piece for a rectangle, or a wedge for each edge of a lasso."""
        if not self._is_lasso:
            one, none = Fraction(1), Fraction(0)
            xs, ys = zip(*self._outline, strict=True)
            (left, right), (low, high) = (min(xs), max(xs)), (min(ys), max(ys))
            sides = (one, none, -left), (-one, none, right), (none, one, -low), (none, -one, high)
            return [[*(self._plane(*side) for side in sides), *self._depths]]
        edges = list(zip(self._outline, self._outline[1:] + self._outline[:1], strict=True))
        return [self._wedge(p, q) for p, q in (_borders(edges) if self._want_inside else edges)]

    @cached_property
    def _planes(self) -> Floats:
        """The planes of all pieces, rounded, in one flat array: four numbers a plane."""
        return kernel_input(np.concatenate([_rounded(piece).ravel() for piece in self._pieces]))

    def _wedge(self, p: Point, q: Point) -> list[Row]:
        """Return the planes of the wedge that is seen as the edge p, q: a part of a plane.

        The first is that plane, and the last its reverse. Between are the planes that bound the
        wedge at both ends of the edge, and at near and far.
        """
        x, y = q[0] - p[0], q[1] - p[1]
        line = self._plane(-y, x, y * p[0] - x * p[1])
        ends = self._plane(x, y, -x * p[0] - y * p[1]), self._plane(-x, -y, x * q[0] + y * q[1])
        return [line, *ends, *self._depths, tuple([-c for c in line])]

    def _meeting(self, rounds: Floats) -> Flags:
        """Return which solids meet a piece; if solids must be inside, by more than touching it."""
        pieces, verdicts = self._pieces, np.empty(len(rounds), np.int8)
        if not pieces:
            return np.zeros(len(rounds), np.bool_)
        size, deeper = len(pieces[0]), self._want_inside
        given = kernel_input(rounds), self._planes, size, self._is_lasso, deeper

        def work(begin: int, end: int) -> None:
            judge_rounds(*given, 0, len(pieces), begin, end, verdicts)

        share(len(rounds), CHUNK, work, self._threads)
        # Rational numbers decide the pieces of which the kernel is unsure, one by one.
        for i in np.flatnonzero(verdicts == UNSURE).tolist():
            unsure, verdict = [], np.empty(len(rounds), np.int8)
            for k in range(len(pieces)):
                judge_rounds(*given, k, k + 1, i, i + 1, verdict)
                if verdict[i] == UNSURE:
                    unsure.append(k)
            axis, radius = _solid(rounds[i])
            meets = any(solid_meets_planes(axis, radius, pieces[k], deeper=deeper) for k in unsure)
            verdicts[i] = MEET if meets else APART
        return np.asarray(verdicts == MEET)

    def _in_lasso(self, rounds: Floats) -> Flags:
        """Return which solids, rows (n, 7) as in `select`, are in a lasso whose border none meets.

        One point of a solid decides, because all of the solid is on the same side.
        """
        camera, result = self._camera, np.zeros(len(rounds), np.bool_)
        middle = 0.5 * rounds[:, :3] + 0.5 * rounds[:, 3:6]
        with np.errstate(all="ignore"):
            x, y, depth = camera.project(middle)
            scale = depth if camera.perspective else np.ones(len(rounds))
            # The rounded image of the middle of the axis is the exact image of a point at most
            # ERROR * off away: a point of the solid, if that is less than the radius.
            size = np.abs(rounds[:, :3]) + np.abs(rounds[:, 3:6]) + np.abs(camera.eye)
            error = size @ np.abs(camera.gradients).T
            error[:, 0] += scale * (np.abs(x) + 2.0 * abs(self._camera.centre[0]))
            error[:, 1] += scale * (np.abs(y) + 2.0 * abs(self._camera.centre[1]))
            steps = np.abs(np.stack([camera.step_x, camera.step_y, camera.forward]))
            off = np.linalg.norm(error @ steps, axis=1)
            sure = (2.0 * ERROR * off < rounds[:, 6]) & (depth >= camera.near)
            sure &= (depth <= camera.far) & (scale > 0.0)
        rows = np.flatnonzero(sure)
        corners = np.stack([x[rows], y[rows], np.ones(len(rows))], axis=1)
        located = locate_points(self._region, corners, self._threads)
        result[rows] = located == INTERIOR
        sure[rows] = located != BORDER
        # Rational numbers decide the rest.
        for i in np.flatnonzero(~sure).tolist():
            image = self._image(*_solid(rounds[i]))
            result[i] = image is not None and self._is_odd(image)
        return result

    def _is_odd(self, image: Point) -> bool:
        """Return whether a point of the picture, which is not on the lasso's border, is in it."""
        # By a ray in the direction (1, slope), to which no edge is parallel.
        ends = [(*p, Fraction(1)) for p in self._outline]
        edges = list(zip(ends, ends[1:] + ends[:1], strict=True))
        slopes = {(q[1] - p[1]) / (q[0] - p[0]) for p, q in edges if p[0] != q[0]}
        slope = next(k for k in itertools.count() if k not in slopes)
        start: tuple[Fraction, ...] = (*image, Fraction(1))
        return is_odd(edges, start, (1, slope, 0))  # type: ignore[arg-type]

    def _image(self, axis: list[list[float]], radius: float) -> Point | None:
        """Return the image of some point of a solid, between near and far; None if it has none."""
        camera = self._camera
        near = Fraction(camera.near) if np.isfinite(camera.near) else None
        far = Fraction(camera.far) if np.isfinite(camera.far) else None
        # The ends p, q of the axis have the depths a <= b. `depth`, that of the point, is between
        # near and far and as close to a..b as possible; `at` is the end closest to it if outside.
        points = ([Fraction(x) for x in end] for end in axis)
        (a, p), (b, q) = sorted((self._height(2, x), x) for x in points)
        # Depths on the solid differ from those on its axis by up to the root of `reach`.
        along, steepness = self._gradients[2], sum(g * g for g in self._gradients[2])
        reach = Fraction(radius) ** 2 * steepness
        depth = b if far is None else min(b, far)
        at, from_depth = (p, a) if far is not None and a > far else (q, b)
        if near is not None and depth < near:
            depth = near
        if camera.perspective and depth <= 0:
            if b * b >= reach:
                return None
            # In front of the eye, as near to it as the solid requires.
            depth = Fraction(1) if far is None else min(Fraction(1), far)
            while (depth - b) ** 2 > reach:
                depth /= 2
        if a <= depth <= b:
            share = (depth - a) / (b - a) if a < b else Fraction(0)
            x = [u + share * (v - u) for u, v in zip(p, q, strict=True)]
        elif (depth - from_depth) ** 2 > reach:
            return None
        else:
            change = (depth - from_depth) / steepness
            x = [u + change * g for u, g in zip(at, along, strict=True)]
        local = [self._height(k, x) for k in range(2)]
        divisor = depth if camera.perspective else Fraction(1)
        u, v = (c / divisor + m for c, m in zip(local, self._centre, strict=True))
        return u, v

    def _height(self, k: int, x: list[Fraction]) -> Fraction:
        """Return the product of gradient k of the camera with the vector from the eye to x."""
        terms = (g * (u - e) for g, u, e in zip(self._gradients[k], x, self._eye, strict=True))
        return sum(terms, Fraction(0))

    def _around_region(self, rounds: Floats, touching: Flags) -> Flags:
        """Return which solids of those flagged in `touching` contain all of the region in space.

        The surface of such a solid is not in the region between near and far, so it does not touch.
        """
        camera, result = self._camera, np.zeros(len(rounds), np.bool_)
        if not (np.isfinite(camera.near) and np.isfinite(camera.far)) or not touching.any():
            return result
        origins, directions = camera.ray(*self._region.outline.T)
        points = np.concatenate([origins + t * directions for t in (camera.near, camera.far)])
        p, q, radii = rounds[:, :3], rounds[:, 3:6], rounds[:, 6:]
        # Those with a box that contains the box around the region, up to rounding errors.
        slack = SLACK * (np.abs(rounds).max(axis=1, keepdims=True) + np.abs(points).max())
        near = np.minimum(p, q) - radii <= points.min(axis=0) + slack
        near &= np.maximum(p, q) + radii >= points.max(axis=0) - slack
        for i in np.flatnonzero(touching & near.all(axis=1)).tolist():
            result[i] = all(solid_contains(*_solid(rounds[i]), x) for x in self._corners)
        return result

    @cached_property
    def _corners(self) -> list[list[Fraction]]:
        """The corners of the region in space, at near and far: eye + x with gradients x = local."""
        corners = []
        for x, y in self._outline:
            for depth in (Fraction(self._camera.near), Fraction(self._camera.far)):
                scale = depth if self._camera.perspective else Fraction(1)
                local = (x - self._centre[0]) * scale, (y - self._centre[1]) * scale, depth
                lines = [[*row, c] for row, c in zip(self._gradients, local, strict=True)]
                offset = solution(lines)  # type: ignore[arg-type]
                assert offset is not None
                corners.append([e + o for e, o in zip(self._eye, offset, strict=True)])
        return corners


def _solid(row: Floats) -> tuple[list[list[float]], float]:
    """Return both ends of the axis of a solid, as lists, and its radius."""
    return [row[:3].tolist(), row[3:6].tolist()], float(row[6])


def _rounded(planes: list[Row]) -> Floats:
    """Return planes as doubles (n, 4), each coefficient rounded once, with normals of about 1."""
    rows = np.empty((len(planes), 4))
    for row, plane in zip(rows, planes, strict=True):
        scale = 1 << max(abs(n) for n in plane[:3]).bit_length()
        for k, n in enumerate(plane):
            try:
                row[k] = n / scale
            except OverflowError:
                row[k] = np.inf if n > 0 else -np.inf
    return rows


def _within(rounds: Floats, planes: list[Row]) -> Flags:
    """Return which solids, rows (n, 7) of axis ends and radius, lie inside a polytope, (n,)."""
    rows, reach = _rounded(planes), rounds[:, 6:]
    normals, offsets = rows[:, :3], rows[:, 3]
    lengths = np.linalg.norm(normals, axis=1)
    with np.errstate(all="ignore"):
        low = np.minimum(rounds[:, :3] @ normals.T, rounds[:, 3:6] @ normals.T) + offsets
        low -= reach * lengths
        size = (np.abs(rounds[:, :3]) + np.abs(rounds[:, 3:6])) @ np.abs(normals).T
        error = ERROR * (size + np.abs(offsets) + reach * lengths) + 2.0**-1000
        inside = np.asarray((low >= error).all(axis=1))
        unsure = ~inside & ~(low < -error).any(axis=1)
    for i in np.flatnonzero(unsure).tolist():
        inside[i] = solid_is_within(*_solid(rounds[i]), planes)
    return inside


def _borders(edges: list[tuple[Point, Point]]) -> list[tuple[Point, Point]]:
    """Return the parts of edges with a region on one side only: those on an odd number of edges."""
    # The edges on each line, their ends sorted. A line has a slope and y at x = 0, or, if it is
    # vertical, None and x. The part between consecutive ends is on an edge as a whole, or not.
    lines = defaultdict(list)
    for p, q in edges:
        x, y = q[0] - p[0], q[1] - p[1]
        slope = y / x if x else None
        lines[slope, p[1] - slope * p[0] if slope is not None else p[0]].append(sorted((p, q)))
    parts = []
    for some in lines.values():
        marks = sorted({end for edge in some for end in edge})
        for p, q in itertools.pairwise(marks) if len(some) > 1 else [tuple(some[0])]:
            if sum(low <= p and q <= high for low, high in some) % 2:
                parts.append((p, q))
    return parts


@warms("selections of spheres and capsules")
def _warm() -> None:
    """Compile the kernel of spheres and capsules."""
    rounds, planes = kernel_input(np.ones((1, 7))), kernel_input(np.ones(20))
    judge_rounds(rounds, planes, 5, False, False, 0, 1, 0, 1, np.empty(1, np.int8))
