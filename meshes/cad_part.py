"""A machined flange, closed, tessellated as CAD kernels do it: with slivers everywhere.

Faces are bounded by finely divided circles and filled without a point inside, so triangles are
as long as the part and as thin as one step of a circle; an edge break of micrometres is thinner.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .polygon import Indices, triangulated
from .shapes import Mesh

LENGTH, DEPTH, HEIGHT = 120.0, 80.0, 12.0
CORNER = 15.0
FILLET = 2.0
EDGE_BREAK = 0.002
BOSS_HEIGHT = 52.0


def cad_part(segments: int = 192) -> Mesh:
    """Return the flange: a plate with bolt holes, slots, a bored boss and two tapered pins.

    Parameters
    ----------
    segments
        Steps of a full circle, a multiple of 8. The bore has a quarter as many.

    Returns
    -------
    vertices, faces
        A closed surface in millimetres, about 120 × 80 × 52, wound outward.
    """
    if segments < 16 or segments % 8:
        raise ValueError(f"segments is {segments}; it must be a multiple of 8, at least 16")
    part = _Part()
    foot = part.loft(
        [_outline(EDGE_BREAK, 0.0, segments), _outline(0.0, EDGE_BREAK, segments)]
        + [
            _outline(FILLET * (1 - np.cos(t)), HEIGHT - FILLET * (1 - np.sin(t)), segments)
            for t in np.radians(np.linspace(0.0, 90.0, 5))
        ]
    )
    below, above = [foot[0]], [foot[1]]

    bolts = [(45.0, 27.0), (-45.0, 27.0), (-45.0, -27.0), (45.0, -27.0)]
    for i, (x, y) in enumerate(bolts):
        sink = [(7.0, HEIGHT), (4.5, HEIGHT - 2.5), (4.5, 0.0)]
        first, last = part.loft([_circle(x, y, r, z, segments, 0.1 + 0.7 * i) for r, z in sink])
        above.append(first)
        below.append(last)
    for x in (45.3, -44.8):
        first, last = part.loft([_slot(x, 0.4, 4.0, 7.0, z, segments) for z in (HEIGHT, 0.0)])
        above.append(first)
        below.append(last)

    curve = np.radians(np.linspace(0.0, 90.0, 5))
    boss = [(28.0 - 4.0 * np.sin(t), HEIGHT + 4.0 * (1.0 - np.cos(t))) for t in curve]
    boss += [(19.0 + np.cos(t), BOSS_HEIGHT - 1.0 + np.sin(t)) for t in curve]
    first, rim = part.loft([_circle(0.0, 0.0, r, z, segments, 0.05) for r, z in boss])
    above.append(first)
    bore = [(12.6, BOSS_HEIGHT), (12.0, BOSS_HEIGHT - 0.6), (12.0, 0.0)]
    mouth, last = part.loft([_circle(0.0, 0.0, r, z, segments // 4, 0.05) for r, z in bore])
    part.annulus(rim, mouth)
    below.append(last)

    for i, y in enumerate((33.0, -33.3)):
        pin = [(3.0, HEIGHT), (2.6, HEIGHT + 10.0), (2.3, HEIGHT + 10.3)]
        first, last = part.loft([_circle(0.7, y, r, z, segments, 0.3 + i) for r, z in pin])
        above.append(first)
        part.fan(last)

    part.cap(above, up=True)
    part.cap(below, up=False)
    return part.mesh()


class _Part:
    """Surfaces between rings of points; rings run anticlockwise as seen from above."""

    def __init__(self) -> None:
        self.points: list[NDArray[np.float64]] = []
        self.faces: list[Indices] = []
        self.count = 0

    def loft(self, rings: list[NDArray[np.float64]]) -> tuple[Indices, Indices]:
        """Join rings of equal length in the order of the path over the surface.

        Up an outer wall, inward over a top and down a hole all face out. Return the first ring
        and the last as indices.
        """
        numbers = [self._ring(ring) for ring in rings]
        for a, b in pairwise(numbers):
            a1, b1 = np.roll(a, -1), np.roll(b, -1)
            self.faces.append(np.stack([a, a1, b1, a, b1, b], axis=-1).reshape(-1, 3))
        return numbers[0], numbers[-1]

    def annulus(self, outside: Indices, inside: Indices) -> None:
        """Fill between two circles whose steps differ, facing up: fans on the coarser one."""
        m, n = len(outside), len(inside)
        i = j = 0
        while i < m or j < n:
            if (i + 0.5) * n <= (j + 0.5) * m:
                face = [outside[i % m], outside[(i + 1) % m], inside[j % n]]
                i += 1
            else:
                face = [outside[i % m], inside[(j + 1) % n], inside[j % n]]
                j += 1
            self.faces.append(np.array([face], dtype=np.int64))

    def fan(self, ring: Indices) -> None:
        """Fill a convex ring, facing up, with triangles that all meet in its first point."""
        first = np.full(len(ring) - 2, ring[0])
        self.faces.append(np.column_stack([first, ring[1:-1], ring[2:]]))

    def cap(self, rings: list[Indices], up: bool) -> None:
        """Fill a level face inside the first ring and outside the others."""
        plane = np.concatenate(self.points)[:, :2]
        faces = triangulated(plane, rings[0], rings[1:])
        self.faces.append(faces if up else faces[:, ::-1])

    def mesh(self) -> Mesh:
        """Return everything added so far."""
        return np.concatenate(self.points), np.concatenate(self.faces)

    def _ring(self, points: NDArray[np.float64]) -> Indices:
        """Keep the points and return their indices."""
        self.points.append(np.round(points, 9))
        self.count += len(points)
        return np.arange(self.count - len(points), self.count)


def _circle(
    x: float, y: float, radius: float, z: float, segments: int, phase: float
) -> NDArray[np.float64]:
    """Return the points of a level circle; ``phase`` is the angle of the first one."""
    angle = phase + 2.0 * np.pi * np.arange(segments) / segments
    return np.column_stack(
        [x + radius * np.cos(angle), y + radius * np.sin(angle), np.full(segments, z)]
    )


def _arcs(
    centres: list[tuple[float, float]], radius: float, z: float, segments: int
) -> NDArray[np.float64]:
    """Return equal arcs round the centres in turn, straight lines between them."""
    sweep = 2.0 * np.pi / len(centres)
    step = np.linspace(0.0, sweep, segments // len(centres) + 1)
    points = []
    for i, (x, y) in enumerate(centres):
        angle = step + i * sweep
        level = np.full(len(angle), z)
        points.append(
            np.column_stack([x + radius * np.cos(angle), y + radius * np.sin(angle), level])
        )
    return np.concatenate(points)


def _outline(inset: float, z: float, segments: int) -> NDArray[np.float64]:
    """Return the rounded rectangle of the plate, moved inward by ``inset``."""
    x, y = LENGTH / 2.0 - CORNER, DEPTH / 2.0 - CORNER
    return _arcs([(x, y), (-x, y), (-x, -y), (x, -y)], CORNER - inset, z, segments)


def _slot(
    x: float, y: float, radius: float, reach: float, z: float, segments: int
) -> NDArray[np.float64]:
    """Return a slot along y: half circles round two centres ``2 * reach`` apart."""
    return _arcs([(x, y + reach), (x, y - reach)], radius, z, segments)
