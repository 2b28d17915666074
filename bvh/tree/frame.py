"""The local frame of a tree: its memory layout and accessors.

A frame is an array of float64, shape (4, 3): two rows by `local_frame`, and a box. It maps world to
the local coordinates x' = (x - centre) * 2**exponent, in which boxes and triangle groups are stored
as float32:

| row | numbers |
|---|---|
| 0 | the centre |
| 1 | the exponent; the largest absolute coordinate in the world; the largest in local coordinates |
| 2 | lower corner of all primitives, in local coordinates |
| 3 | upper corner of all primitives, in local coordinates |

Kernels read it through a pointer (`runtime.simd.pointer`) and the functions here, Python through
`FrameView`. Builders have the first two rows alone.
"""

import numpy as np
from numpy.typing import NDArray

from bvh.geometry.arithmetic.floats import power_of_two, vector
from bvh.runtime.jit import inlined
from bvh.runtime.simd import peek, poke

CENTRE, EXPONENT, FARTHEST, BOUND, LOWEST, HIGHEST = 0, 3, 4, 5, 6, 9


# The exponent of the scale, as an integer; and the scale, local units in one unit of the world.
exponent = inlined(lambda frame: int(peek(frame, EXPONENT)))
scale = inlined(lambda frame: power_of_two(int(peek(frame, EXPONENT))))
# The largest absolute coordinates of all primitives, in the world and local (at least 1).
farthest = inlined(lambda frame: peek(frame, FARTHEST))
bound = inlined(lambda frame: peek(frame, BOUND))
# Coordinates of the lower and the upper corner of all primitives, in local coordinates.
lowest = inlined(lambda frame, axis: peek(frame, LOWEST + axis))
highest = inlined(lambda frame, axis: peek(frame, HIGHEST + axis))
centre = inlined(lambda frame: vector(frame, 0))
lower_corner = inlined(lambda frame: vector(frame, 2))
upper_corner = inlined(lambda frame: vector(frame, 3))


@inlined
def into_frame(frame, p):
    """Return the world point p in the local coordinates of a frame."""
    c, s = centre(frame), scale(frame)
    return (p[0] - c[0]) * s, (p[1] - c[1]) * s, (p[2] - c[2]) * s


@inlined
def set_corners(frame, axis, low, high):
    """Set the range from `low` to `high` of all primitives on an axis, in local coordinates."""
    poke(frame, LOWEST + axis, low)
    poke(frame, HIGHEST + axis, high)


@inlined
def set_bounds(frame, far, local):
    """Set the largest absolute coordinates of primitives: `far` in the world, and `local` ones."""
    poke(frame, FARTHEST, far)
    poke(frame, BOUND, local)


class FrameView:
    """The numbers of a frame by name, for Python; a frame of two rows has no box."""

    __slots__ = ("bound", "box", "centre", "exponent", "farthest")

    def __init__(self, frame: NDArray[np.float64]) -> None:
        """Name the rows: centre; exponent and two largest coordinates; corners of the box."""
        self.centre = frame[0]
        self.exponent = int(frame[1, 0])
        self.farthest, self.bound = float(frame[1, 1]), float(frame[1, 2])
        self.box = frame[2:4]


def local_frame(
    lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (frame, bounds), both (2, 3), of boxes with corners (n, 3).

    The frame has the centre, then the exponent of the scale, and the largest absolute coordinates
    in the world and in local coordinates. The bounds are the corners of the box around all boxes;
    they are NaN if there are none.
    """
    frame = np.zeros((2, 3))
    if len(lower) == 0:
        return frame, np.full((2, 3), np.nan)
    bounds = np.stack([lower.min(axis=0), upper.max(axis=0)])
    # Halve before adding: two coordinates of 1e308 must not overflow.
    frame[0] = 0.5 * bounds[0] + 0.5 * bounds[1]
    half = (0.5 * bounds[1] - 0.5 * bounds[0]).max()
    # Scale the half extent to [0.5, 1): local coordinates are at most 1, also after the centre has
    # been rounded. The exponent is clamped so that 2**k and 2**-k are normal doubles: where it is,
    # local coordinates are below 16, and 2**-20 covers rounding in their bound.
    k = -int(np.frexp(half)[1]) if half > 0.0 else 0
    k = min(max(k, -1020), 1020)
    frame[1] = k, np.abs(bounds).max(), max(1.0, float(np.ldexp(half, k)) * (1.0 + 2.0**-20))
    return frame, bounds
