"""The slow truth about cameras: projections as OpenCV and OpenGL define them, in rational numbers.

And the matrices that programs make, by the formulas in their manuals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

F = Fraction


def times(matrix: Any, column: list[Fraction]) -> list[Fraction]:
    """Return a matrix times a column."""
    return [sum(F(float(a)) * b for a, b in zip(row, column, strict=True)) for row in matrix]


def point(p: Any) -> list[Fraction]:
    """Return a point as rational numbers."""
    return [F(float(x)) for x in p]


def opencv_project(k: Any, pose: Any, p: Any) -> tuple[Fraction, Fraction, Fraction]:
    """Return (u, v, z) as cv2.projectPoints does, in OpenCV's pixels."""
    x, y, z = times(np.asarray(pose)[:3], [*point(p), F(1)])
    a, b = x / z, y / z
    k = [[F(float(e)) for e in row] for row in k]
    return k[0][0] * a + k[0][1] * b + k[0][2], k[1][1] * b + k[1][2], z


def to_clip(view: Any, projection: Any, p: Any) -> list[Fraction]:
    """Return a point in clip space."""
    return times(projection, times(view, [*point(p), F(1)]))


def to_window(clip: list[Fraction], width: int, height: int, up: int) -> tuple[Any, ...]:
    """Return (x, y, normalised depth) in pixels from the upper left corner, as gluProject does."""
    x, y, z, w = clip
    # gluProject counts y from below.
    below = (1 + up * y / w) * height / 2
    return (1 + x / w) * width / 2, height - below, z / w


@dataclass(frozen=True)
class Projection:
    """A projection matrix, the arguments that tell what it is, and its planes."""

    matrix: np.ndarray
    depth: str
    reversed_z: bool
    near: float
    far: float
    perspective: bool

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `Camera.from_matrices`."""
        return {"depth": self.depth, "reversed_z": self.reversed_z}

    @property
    def up(self) -> int:
        """Sign of y in clip space that is up."""
        return -1 if self.depth == "vulkan" else 1


def depth_row(near: float, far: float, first: float, last: float, perspective: bool) -> list[float]:
    """Return (p22, p23) that take -near to `first` and -far to `last`."""
    if not perspective:
        p22 = (first - last) / (far - near)
        return [p22, first + p22 * near]
    if math.isinf(far):
        return [-last, (first - last) * near]
    # p22 z + p23 = -z times the depth wanted, at z = -near and at z = -far.
    p22 = (last * far - first * near) / (near - far)
    return [p22, first * near + p22 * near]


def projections(rng: np.random.Generator) -> list[Projection]:
    """Return a projection of each convention, off centre."""
    found = []
    for depth in ("opengl", "vulkan", "direct3d"):
        low, high = (-1.0, 1.0) if depth == "opengl" else (0.0, 1.0)
        for reversed_z in (False, True):
            first, last = (high, low) if reversed_z else (low, high)
            for kind in ("finite", "infinite", "parallel"):
                near = float(rng.uniform(0.01, 2))
                far = math.inf if kind == "infinite" else near * float(rng.uniform(2, 1000))
                if kind == "parallel":
                    near -= 3.0
                left, below = -rng.uniform(0.1, 2, 2)
                right, above = rng.uniform(0.1, 2, 2)
                if rng.random() < 0.3:  # the axis is outside the picture
                    right, left = right + 3, left + 3
                matrix = np.zeros((4, 4))
                sums = [(right + left) / (right - left), (above + below) / (above - below)]
                matrix[0, 0], matrix[1, 1] = 2 / (right - left), 2 / (above - below)
                if kind == "parallel":
                    matrix[:2, 3] = [-s for s in sums]
                    matrix[3, 3] = 1
                else:
                    matrix[:2, 2] = sums
                    matrix[3, 2] = -1
                matrix[2, 2:] = depth_row(near, far, first, last, kind != "parallel")
                if depth == "vulkan":
                    matrix[1] *= -1
                found.append(Projection(matrix, depth, reversed_z, near, far, kind != "parallel"))
    return found


def rotation(rng: np.random.Generator) -> np.ndarray:
    """Return a rotation."""
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return q * np.sign(np.linalg.det(q))


def pose(rng: np.random.Generator, away: float = 3.0) -> np.ndarray:
    """Return a rigid matrix (4, 4), the eye being within `away` of the origin."""
    matrix = np.eye(4)
    matrix[:3, :3] = rotation(rng)
    matrix[:3, 3] = matrix[:3, :3] @ rng.uniform(-away, away, 3)
    return matrix


def intrinsics(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    """Return a camera matrix with skew and its centre anywhere near the picture."""
    fx = rng.uniform(0.3, 3) * width
    k = np.diag([fx, fx * rng.uniform(0.7, 1.4), 1.0])
    k[0, 1] = rng.uniform(-0.2, 0.2) * fx
    k[:2, 2] = rng.uniform(-0.3, 1.3, 2) * [width, height]
    return k
