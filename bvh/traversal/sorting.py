"""The order of rays that lie about: sorted by where they enter the tree and where they look.

Rays that are neighbours then go through the same nodes, which the caches still hold. The key is the
octant of the direction and the cell, of 16 x 16 x 16 in the root's box, in which the ray enters; a
pass of counting sorts it (Aila and Karras 2010, "Architecture considerations for tracing
incoherent rays", on why; Knuth, TAOCP 3, 5.2, on how).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bvh.jit import entry, inlined
from bvh.numerics import power_of_two
from bvh.traversal.query import Rays, pointed_rays, read_ray

CELL_BITS = 4
CELLS = 1 << CELL_BITS
KEYS = 8 * CELLS**3


@inlined
def _spread_bits(x):
    """Return x with two zeros between its bits."""
    return (x & 1) | (x & 2) << 2 | (x & 4) << 4 | (x & 8) << 6


@inlined
def _cell(p, low, high):
    """Return the cell of a coordinate; 0 for what is no number."""
    x = (p - low) * (CELLS / max(high - low, 2.0**-60))
    return np.int64(min(x, CELLS - 1.0)) if x > 0.0 else np.int64(0)


@inlined
def _key(frame, o, d, t_min):
    """Return a ray's key; any number in range will do for a ray that is out of the ordinary."""
    s = power_of_two(int(frame[1, 0]))
    px, py, pz = (o[0] - frame[0, 0]) * s, (o[1] - frame[0, 1]) * s, (o[2] - frame[0, 2]) * s
    start = t_min * s if t_min > 0.0 else 0.0
    octant = np.int64(0)
    for axis in range(3):
        p = px if axis == 0 else (py if axis == 1 else pz)
        if d[axis] < 0.0:
            octant |= 1 << axis
            near = (frame[3, axis] - p) / d[axis]
        else:
            near = (frame[2, axis] - p) / d[axis]
        # Not through a plane that the ray runs along.
        if near > start and near < 2.0**60:
            start = near
    x = _cell(px + start * d[0], frame[2, 0], frame[3, 0])
    y = _cell(py + start * d[1], frame[2, 1], frame[3, 1])
    z = _cell(pz + start * d[2], frame[2, 2], frame[3, 2])
    return octant << 3 * CELL_BITS | _spread_bits(x) | _spread_bits(y) << 1 | _spread_bits(z) << 2


@entry
def _sort(rays, frame, begin, keys, counts, places):
    """Write the rays from `begin` on to `places`, by key; those of one key in their order."""
    pointed = pointed_rays(rays)
    for i in range(len(keys)):
        o, d, t_min, _ = read_ray(pointed, begin + i)
        key = _key(frame, o, d, t_min)
        keys[i] = key
        counts[key + 1] += 1
    for k in range(KEYS):
        counts[k + 1] += counts[k]
    for i in range(len(keys)):
        key = np.int64(keys[i])
        places[counts[key]] = begin + i
        counts[key] += 1


def sorted_places(arrays: Any, rays: Rays, begin: int, end: int) -> NDArray[np.int64]:
    """Return the numbers of the rays begin..end in the order in which they are best taken."""
    keys, places = np.empty(end - begin, np.uint16), np.empty(end - begin, np.int64)
    _sort(rays, arrays.frame, begin, keys, np.zeros(KEYS + 1, np.int64), places)
    return places
