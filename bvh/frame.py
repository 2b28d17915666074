"""The local frame of a tree: its layout, known in this file alone.

A frame is an array of float64, shape (4, 3), made by `bvh.nodes.local_frame`. It maps the world to
the local coordinates x' = (x - centre) * 2**exponent, in which boxes and triangle groups are stored
as float32:

| row | numbers |
|---|---|
| 0 | the centre |
| 1 | the exponent; the largest absolute coordinate in the world; the largest in local coordinates |
| 2 | lower corner of all primitives, in local coordinates |
| 3 | upper corner of all primitives, in local coordinates |

Kernels read it through a pointer (`bvh.simd.pointer`) and the functions here, Python through
`FrameView`. Builders have the first two rows alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bvh.jit import inlined
from bvh.numerics import power_of_two, vector
from bvh.simd import peek, poke

# Numbers in a frame, for tables of several frames.
FRAME_SIZE = 12

CENTRE, EXPONENT, FARTHEST, BOUND, LOWEST, HIGHEST = 0, 3, 4, 5, 6, 9


@inlined
def centre(frame):
    """Return the centre (x, y, z)."""
    return vector(frame, 0)


@inlined
def exponent(frame):
    """Return the exponent of the scale, as an integer."""
    return int(peek(frame, EXPONENT))


@inlined
def scale(frame):
    """Return 2**exponent: local units in one unit of the world."""
    return power_of_two(int(peek(frame, EXPONENT)))


@inlined
def farthest(frame):
    """Return the largest absolute coordinate of all primitives in the world."""
    return peek(frame, FARTHEST)


@inlined
def bound(frame):
    """Return the largest absolute local coordinate, at least 1."""
    return peek(frame, BOUND)


@inlined
def lowest(frame, axis):
    """Return a coordinate of the lower corner of all primitives, in local coordinates."""
    return peek(frame, LOWEST + axis)


@inlined
def highest(frame, axis):
    """Return a coordinate of the upper corner of all primitives, in local coordinates."""
    return peek(frame, HIGHEST + axis)


@inlined
def set_corners(frame, axis, low, high):
    """Set a coordinate of the lower and the upper corner of all primitives."""
    poke(frame, LOWEST + axis, low)
    poke(frame, HIGHEST + axis, high)


@inlined
def set_bounds(frame, far, local):
    """Set the largest absolute coordinate in the world, and the largest local one."""
    poke(frame, FARTHEST, far)
    poke(frame, BOUND, local)


class FrameView:
    """The numbers of a frame by name, for Python.

    Parameters
    ----------
    frame : ndarray of float64, shape (4, 3) or (2, 3)
        It is not copied. A frame of two rows has no corners.
    """

    __slots__ = ("_rows",)

    def __init__(self, frame: NDArray[np.float64]) -> None:
        self._rows = frame

    @property
    def centre(self) -> NDArray[np.float64]:
        """The centre, shape (3,)."""
        return self._rows[0]

    @property
    def exponent(self) -> int:
        """The exponent of the scale."""
        return int(self._rows[1, 0])

    @property
    def scale(self) -> float:
        """2**exponent: local units in one unit of the world."""
        return float(2.0**self.exponent)

    @property
    def farthest(self) -> float:
        """The largest absolute coordinate of all primitives in the world."""
        return float(self._rows[1, 1])

    @property
    def bound(self) -> float:
        """The largest absolute local coordinate, at least 1."""
        return float(self._rows[1, 2])

    @property
    def box(self) -> NDArray[np.float64]:
        """Lower and upper corner of all primitives in local coordinates, shape (2, 3)."""
        return self._rows[2:4]
