"""A vaulted hall with two storeys of arcades, about 30 × 15 × 12 metres, x along it and z up."""

from __future__ import annotations

import numpy as np

from . import masonry
from .organic import organic
from .shapes import Mesh, box, lathe, merged, moved, rectangle

BAYS = 8
BAY = 3.75
LENGTH = BAYS * BAY
WIDTH = 15.0
NAVE = 3.4
SPRING = 3.4
GALLERY = 5.4
UPPER_SPRING = 7.8
ROOF = 9.8
RISE = 2.2
OPEN_BAYS = (1, 4, 6)


def interior(detail: float = 1.0) -> Mesh:
    """Return the hall.

    Parameters
    ----------
    detail
        Number of triangles relative to the committed mesh, roughly: 1 gives about 25 000 of them,
        16 about 300 000. Walls and floors stay two triangles each.

    Returns
    -------
    vertices, faces
        An open mesh: parts touch or cut each other without sharing vertices. Triangles face
        the room, and both sides of a cloth are one triangle.
    """
    if not detail > 0:
        raise ValueError(f"detail is {detail}; it must be above 0")
    steps = max(1, round(2.0 * float(np.sqrt(detail))))
    parts = [_shell(), _ends(steps), _aisles(steps), _nave_vault(steps), _furniture(steps)]
    return merged(parts)


def _shell() -> Mesh:
    """Return floor, outer walls, gallery floors, roofs and the cornices along the hall."""
    half, side = LENGTH / 2.0, WIDTH / 2.0
    parts = [rectangle((-half, -side, 0.0), (LENGTH, 0.0, 0.0), (0.0, WIDTH, 0.0))]
    one_side = [
        rectangle((-half, side, 0.0), (LENGTH, 0.0, 0.0), (0.0, 0.0, ROOF)),
        rectangle((-half, NAVE, ROOF), (0.0, side - NAVE, 0.0), (LENGTH, 0.0, 0.0)),
        box((-half, NAVE + 0.35, GALLERY - 0.2), (half, side, GALLERY)),
        box((-half, side - 0.06, 0.0), (half, side, 0.3)),
        box((-half, side - 0.05, GALLERY), (half, side, GALLERY + 0.25)),
    ]
    for z, reach, thick in [(GALLERY - 0.22, 0.46, 0.1), (GALLERY - 0.12, 0.52, 0.12),
                            (ROOF - 0.3, 0.38, 0.08), (ROOF - 0.22, 0.50, 0.22)]:  # fmt: skip
        one_side.append(box((-half, NAVE - reach, z), (half, NAVE, z + thick)))
    for k in range(BAYS + 1):
        x = k * BAY - half
        one_side.append(box((x - 0.35, side - 0.22, 0.0), (x + 0.35, side, SPRING)))
        one_side.append(box((x - 0.12, NAVE, ROOF - 0.25), (x + 0.12, side, ROOF)))
    parts.append(masonry.both_sides(merged(one_side)))
    # Lay a carpet, and inlay strips of a millimetre between the columns.
    parts.append(box((-half + 1.0, -1.1, 0.0), (half - 5.0, 1.1, 0.02)))
    for y in (-2.4, -2.2, 2.2, 2.4):
        parts.append(box((-half, y - 0.02, 0.0), (half, y + 0.02, 0.001)))
    return merged(parts)


def _ends(steps: int) -> Mesh:
    """Return the two end walls, the steps up to the far one and what stands there."""
    half, top = LENGTH / 2.0, ROOF + RISE + 0.3
    wall = masonry.round_window_wall(WIDTH, top, 8.6, 2.1, 16 * steps)
    parts = [moved(wall, (half, 0.0, 0.0)), moved(wall, (-half, 0.0, 0.0), turn=180.0)]
    count = 7
    for k in range(count):
        low = half - 4.4 + 0.32 * k
        parts.append(box((low, -NAVE + 0.6, 0.16 * k), (half, NAVE - 0.6, 0.16 * (k + 1))))
    floor = 0.16 * count
    parts.append(box((half - 1.9, -0.55, floor), (half - 0.8, 0.55, floor + 1.0)))
    parts.append(box((half - 2.0, -0.65, floor + 1.0), (half - 0.7, 0.65, floor + 1.12)))
    parts.append(moved(organic(2 * steps + 1), (half - 1.35, 0.0, floor + 1.82), 140.0, 0.62))
    return merged(parts)


def _aisles(steps: int) -> Mesh:
    """Return both storeys of arcades with the vaults and rails behind them."""
    side = WIDTH / 2.0
    low = masonry.column(SPRING, 0.34, steps, flutes=16)
    high = masonry.column(UPPER_SPRING - GALLERY, 0.2, max(1, steps - 1))
    lower = masonry.arch_wall(BAY, GALLERY - SPRING, BAY / 2 - 0.5, 0.7, 5 * steps, True)
    upper = masonry.arch_wall(BAY, ROOF - UPPER_SPRING, BAY / 2 - 0.3, 0.5, 5 * steps, False)
    depth = side - NAVE - 0.35
    vault = masonry.groin_vault(BAY, depth, GALLERY - SPRING - 0.25, 3 * steps)
    rail = masonry.balustrade(BAY - 0.5, 5, max(1, steps - 1))
    parts: list[Mesh] = []
    for k in range(BAYS + 1):
        x = k * BAY - LENGTH / 2.0
        parts += [moved(low, (x, NAVE, 0.0)), moved(high, (x, NAVE, GALLERY))]
    for k in range(BAYS):
        x = (k + 0.5) * BAY - LENGTH / 2.0
        parts.append(moved(lower, (x, NAVE, SPRING)))
        parts.append(moved(upper, (x, NAVE, UPPER_SPRING)))
        parts.append(moved(vault, (x, NAVE + 0.35 + depth / 2.0, SPRING)))
        parts.append(moved(rail, (x, NAVE, GALLERY)))
    return masonry.both_sides(merged(parts))


def _nave_vault(steps: int) -> Mesh:
    """Return ribs and coffered barrels over the nave; some bays stay open to the sky."""
    barrel = masonry.barrel_vault(BAY, 2.0 * NAVE, RISE, steps, 3)
    bow = masonry.rib(2.0 * NAVE, RISE, 0.34, 0.16, 7 * steps)
    parts: list[Mesh] = []
    for k in range(BAYS + 1):
        parts.append(moved(bow, (k * BAY - LENGTH / 2.0, 0.0, ROOF)))
    for k in range(BAYS):
        if k not in OPEN_BAYS:
            parts.append(moved(barrel, ((k + 0.5) * BAY - LENGTH / 2.0, 0.0, ROOF)))
    return merged(parts)


def _furniture(steps: int) -> Mesh:
    """Return banners, slung cloths, lamps and urns."""
    half = LENGTH / 2.0
    parts: list[Mesh] = []
    for k in (1, 3, 5):
        cloth = masonry.banner(1.7, 3.1, steps, 0.9 * k)
        parts.append(moved(cloth, (k * BAY - half, NAVE - 0.75, GALLERY + 1.1)))
        cloth = masonry.banner(1.7, 3.1, steps, 0.9 * k + 2.0)
        parts.append(moved(cloth, (k * BAY - half, -NAVE + 0.75, GALLERY + 1.1), 180.0))
    cloth = masonry.swag(2.0 * NAVE - 0.6, 1.9, 1.1, steps)
    for k in (2, 6):
        parts.append(moved(cloth, (k * BAY - half, 0.0, ROOF - 0.6)))
    light = masonry.lamp(5.2, steps)
    for k in (0, 3, 5):
        parts.append(moved(light, ((k + 0.5) * BAY - half, 0.0, ROOF + RISE)))
    profile = [(0.22, 0.0), (0.26, 0.1), (0.1, 0.25), (0.42, 0.75), (0.46, 1.0), (0.3, 1.2),
               (0.42, 1.3), (0.36, 1.28), (0.2, 1.0)]  # fmt: skip
    urn = lathe(profile, 5 * steps + 2)
    for k in (2, 5):
        for y in (-2.0, 2.0):
            parts.append(moved(urn, (k * BAY - half, y, 0.0)))
    return merged(parts)
