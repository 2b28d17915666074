"""A closed, flowing sculpture: a geodesic sphere raised into lobes, then sheared smoothly.

The distance from the centre is one positive function of the direction, and every shear afterwards
moves one coordinate by a function of another. Both keep the smooth surface free of
self-intersections, whatever their amplitudes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .shapes import Mesh
from .sphere import geodesic_sphere, sphere

__all__ = ["geodesic_sphere", "organic", "sphere"]

LOBES = 5
WINDING = 7.0
RIDGES = 7
TALLNESS = 1.5
SHEAR = 0.2
CENTRE = np.array([0.04, 0.16, 0.15])


def organic(frequency: int = 51) -> Mesh:
    """Return the sculpture of ``20 * frequency**2`` triangles.

    Parameters
    ----------
    frequency
        Number of parts every edge of the icosahedron below is cut into. The shape stays the same.

    Returns
    -------
    vertices, faces
        A closed surface about 2.3 units across, wound outward, centred near the origin.
    """
    directions, faces = sphere(frequency)
    points = directions * _radius(directions)[:, None]
    points[:, 2] *= TALLNESS
    for axis, phase in enumerate((0.3, 1.1, 2.0)):
        points[:, axis] += SHEAR * np.sin(1.6 * points[:, (axis + 1) % 3] + phase)
    return points - CENTRE, faces


def _radius(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of the surface from the centre, before the shears."""
    z = directions[:, 2]
    azimuth = np.arctan2(directions[:, 1], directions[:, 0])
    waist = np.sqrt(np.maximum(0.0, 1.0 - z * z))
    phase = LOBES * azimuth + WINDING * z + 1.2 * np.sin(2.0 * azimuth - 3.0 * z)
    crest = np.cos(phase / 2.0) ** 2
    lobes = 0.5 * waist**1.5 * np.sqrt(crest + 0.01)
    ridges = 0.022 * waist**3 * np.cos(RIDGES * phase) * crest**0.7
    radius: NDArray[np.float64] = 0.6 + 0.14 * z**4 + lobes + ridges
    return radius
