"""Columns, arches, vaults, cloth and furniture for an interior; metres, z up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .shapes import Mesh, arc, box, grid, lathe, merged, mirrored, moved


def torus_profile(radius: float, low: float, high: float, steps: int) -> NDArray[np.float64]:
    """Return the half round of a moulding that swells from ``radius`` between two heights."""
    half = (high - low) / 2.0
    curve = arc(steps, -90.0, 90.0)
    return np.column_stack([radius + half * curve[:, 0], (low + high) / 2.0 + half * curve[:, 1]])


def column(height: float, radius: float, steps: int, flutes: int = 0) -> Mesh:
    """Return a column on a square plinth, with a moulded base, a swelling shaft and a capital.

    Parameters
    ----------
    height, radius
        Height from the floor to the top of the slab above the capital, and radius of the shaft.
    steps
        Fineness: the sides of every flute, the rings of every moulding.
    flutes
        Number of grooves of the shaft; a plain column is many-sided instead.
    """
    wide = 1.45 * radius
    foot, neck = 0.9 * radius, height - 1.5 * radius
    slab = 0.3 * radius
    base = np.vstack(
        [
            torus_profile(1.15 * radius, slab, slab + 0.35 * radius, steps + 1),
            torus_profile(1.02 * radius, slab + 0.4 * radius, foot, steps),
        ]
    )
    rise = np.linspace(0.0, 1.0, steps + 1)
    swell = radius * (1.0 - 0.16 * rise**2)
    shaft = np.column_stack([swell, foot + (neck - foot) * rise])
    top = height - slab
    flare = np.linspace(0.0, 1.0, steps + 2)
    bell = np.column_stack(
        [
            radius * (0.86 + 0.55 * flare**3),
            neck + 0.2 * radius + (top - neck - 0.2 * radius) * flare,
        ]
    )
    capital = np.vstack([torus_profile(0.84 * radius, neck, neck + 0.2 * radius, steps), bell])
    sides = 3 * steps + 4
    around = 2 * flutes * max(1, steps // 2) if flutes else sides
    return merged(
        [
            box((-wide, -wide, 0.0), (wide, wide, slab)),
            lathe(base, sides),
            lathe(shaft, around, flutes, 0.11 if flutes else 0.0),
            lathe(capital, sides),
            box((-wide, -wide, top), (wide, wide, height)),
        ]
    )


def arch_wall(
    width: float, height: float, radius: float, thickness: float, steps: int, moulded: bool
) -> Mesh:
    """Return one bay of wall over a round arch, its springing line on z = 0, facing along y.

    Thin triangles fan from the arch to the edge of the wall. A moulding may follow the arch on
    the side of negative y.
    """
    corner = np.degrees(np.arctan2(height, width / 2.0))
    degrees = np.unique(np.append(np.linspace(0.0, 180.0, steps + 1), [corner, 180.0 - corner]))
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    reach = 1.0 / np.maximum(np.abs(c) / (width / 2.0), np.abs(s) / height)

    def curve(distance: float | NDArray[np.float64], y: float) -> NDArray[np.float64]:
        return np.column_stack([distance * c, np.full_like(c, y), distance * s])

    near, far = -thickness / 2.0, thickness / 2.0
    wall = [curve(reach, near), curve(radius, near), curve(radius, far), curve(reach, far)]
    if moulded:
        out = near - 0.06
        wall[1:1] = [curve(radius + 0.24, near), curve(radius + 0.20, out), curve(radius, out)]
    return grid(np.stack(wall[::-1]))


def groin_vault(width: float, depth: float, rise: float, steps: int) -> Mesh:
    """Return the ceiling where two barrels cross, over a rectangle centred on the origin."""
    across = arc(steps, 180.0, 0.0)
    x, y = np.meshgrid(across[:, 0], across[:, 0], indexing="ij")
    z = np.maximum(across[:, None, 1], across[None, :, 1])
    points = np.stack([x * width / 2.0, y * depth / 2.0, np.maximum(z, 0.0) * rise], axis=-1)
    return grid(points[::-1])


def barrel_vault(length: float, span: float, rise: float, steps: int, coffers: int) -> Mesh:
    """Return a coffered barrel along x, seen from below, its springing line on z = 0."""
    u = np.linspace(0.0, 1.0, 3 * coffers * steps + 1)
    v = np.linspace(0.0, 1.0, coffers * steps + 1)
    sunk = _coffer(2.0 * coffers * u)[:, None] * _coffer(coffers * v)[None, :]
    angle = np.pi * (1.0 - u)[:, None]
    out = 1.0 + 0.09 * sunk
    points = np.empty((len(u), len(v), 3))
    points[..., 0] = (v[None, :] - 0.5) * length
    points[..., 1] = np.cos(angle) * out * span / 2.0
    points[..., 2] = np.sin(angle) * out * rise
    return grid(points)


def _coffer(phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 inside the panels that repeat with every whole phase, 0 on the frames between."""
    return np.clip(3.0 * np.abs(np.sin(np.pi * phase)) - 1.0, 0.0, 1.0)


def rib(span: float, rise: float, width: float, depth: float, steps: int) -> Mesh:
    """Return an arched rib over the y axis: three strips, open towards the vault."""
    curve = arc(steps)
    points = np.zeros((4, len(curve), 3))
    for row, (x, inward) in enumerate([(-1.0, 0.0), (-1.0, 1.0), (1.0, 1.0), (1.0, 0.0)]):
        points[row, :, 0] = x * width / 2.0
        points[row, :, 1] = curve[:, 0] * (span / 2.0 - inward * depth)
        points[row, :, 2] = curve[:, 1] * (rise - inward * depth)
    return grid(points)


def balustrade(length: float, count: int, steps: int) -> Mesh:
    """Return a rail on turned balusters along x, one metre high, standing on z = 0."""
    profile = [(0.07, 0.08), (0.04, 0.2), (0.085, 0.38), (0.035, 0.7), (0.075, 0.86)]
    if steps > 2:
        heights = np.linspace(0.08, 0.86, 4 * steps)
        profile = list(zip(_smooth(heights, np.array(profile)), heights, strict=True))
    baluster = lathe(profile, 2 * steps + 3)
    places = (np.arange(count) + 0.5) / count * length - length / 2.0
    parts = [moved(baluster, (x, 0.0, 0.0)) for x in places]
    parts.append(box((-length / 2.0, -0.11, 0.0), (length / 2.0, 0.11, 0.08)))
    parts.append(box((-length / 2.0, -0.13, 0.86), (length / 2.0, 0.13, 1.0)))
    return merged(parts)


def _smooth(heights: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return radii that ease between the knots ``(radius, height)``."""
    place = np.interp(heights, knots[:, 1], np.arange(len(knots)))
    left = np.minimum(place.astype(np.int64), len(knots) - 2)
    t = place - left
    ease = t * t * (3.0 - 2.0 * t)
    radii: NDArray[np.float64] = knots[left, 0] * (1.0 - ease) + knots[left + 1, 0] * ease
    return radii


def banner(width: float, drop: float, steps: int, phase: float) -> Mesh:
    """Return a cloth hanging down from z = 0 in the plane y = 0, its folds deeper lower down."""
    u, v = np.meshgrid(np.linspace(-1, 1, 6 * steps), np.linspace(0, 1, 8 * steps), indexing="xy")
    fold = 0.03 + 0.10 * v
    x = u * width / 2.0 * (1.0 - 0.10 * np.sin(np.pi * v) - 0.03 * v)
    y = fold * np.sin(9.0 * u + phase + 0.7 * np.sin(3.0 * v + phase)) + 0.02 * np.sin(14.0 * v * u)
    z = -drop * v * (1.0 - 0.09 * u * u * v) + 0.02 * np.cos(9.0 * u + phase) * v
    return grid(np.stack([x, y, z], axis=-1))


def swag(span: float, width: float, sag: float, steps: int) -> Mesh:
    """Return a cloth slung along y between two heights z = 0, sagging, gathered at its ends."""
    u, v = np.meshgrid(np.linspace(-1, 1, 5 * steps), np.linspace(-1, 1, 9 * steps), indexing="xy")
    gather = 0.45 + 0.55 * np.cos(np.pi * v / 2.0) ** 0.7
    x = u * width / 2.0 * gather
    z = -sag * (1.0 - v * v) * (1.0 - 0.25 * np.abs(u)) + 0.07 * np.cos(12.0 * u) * (1.2 - gather)
    return grid(np.stack([x, v * span / 2.0, z + 0.03 * np.sin(7.0 * v + 4.0 * u)], axis=-1))


def lamp(chain: float, steps: int) -> Mesh:
    """Return a bowl lamp hung from z = 0 on a rod of millimetres, as long as ``chain``."""
    bowl = [(0.02, -0.42), (0.30, -0.34), (0.48, -0.12), (0.52, 0.0), (0.46, 0.0), (0.2, -0.2)]
    rod = lathe([(0.008, -chain), (0.008, 0.0)], 5)
    return merged([rod, moved(lathe(bowl, 5 * steps + 4), (0.0, 0.0, -chain))])


def round_window_wall(width: float, height: float, centre: float, radius: float, n: int) -> Mesh:
    """Return a wall in the plane x = 0 around a round window, with a ring and spokes in it.

    ``centre`` is the height of the window, ``n`` the number of sides of its circle.
    """
    corners = np.arctan2([-centre, -centre, height - centre, height - centre],
                         [-width / 2, width / 2, -width / 2, width / 2])  # fmt: skip
    angles = np.unique(np.append(np.linspace(-np.pi, np.pi, n, endpoint=False), corners))
    c, s = np.cos(angles), np.sin(angles)
    upper = np.where(s > 0, height - centre, centre)
    reach = 1.0 / np.maximum(np.abs(c) / (width / 2.0), np.abs(s) / upper)

    def ring(distance: float | NDArray[np.float64], x: float) -> NDArray[np.float64]:
        return np.column_stack([np.full_like(c, x), distance * c, centre + distance * s])

    sections = [(reach, 0.0), (radius + 0.4, 0.0), (radius + 0.3, -0.15), (radius, 0.0)]
    wall = [ring(distance, x) for distance, x in sections] + [ring(radius, 0.5)]
    hub = [ring(0.55, 0.06), ring(0.7, 0.06), ring(0.7, -0.06), ring(0.55, -0.06)]
    spoke = lathe([(0.05, 0.62), (0.05, radius + 0.02)], 6)
    parts = [grid(np.stack(wall), closed=True), grid(np.stack(hub + hub[:1]), closed=True)]
    for angle in np.arange(12) * np.pi / 6.0:
        x, y, z = spoke[0].T
        c1, s1 = np.cos(angle), np.sin(angle)
        turned = np.column_stack([x, y * c1 - z * s1, centre + y * s1 + z * c1])
        parts.append((turned, spoke[1]))
    return merged(parts)


def both_sides(mesh: Mesh) -> Mesh:
    """Return the mesh and its mirror image across the plane y = 0."""
    return merged([mesh, mirrored(mesh, 1)])
