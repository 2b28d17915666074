"""Descriptions of cameras in words."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def described(view: Any, most: int | None = None) -> str:
    """Return a description of a `View`, in so many characters if it must be short."""
    parts, name = _parts(view), type(view).__name__
    text = f"{name}({', '.join(parts)})"
    while most is not None and len(text) > most and len(parts) > 1:
        parts.pop()
        text = f"{name}({', '.join(parts)}, ...)"
    return text


def _parts(view: Any) -> list[str]:
    """Return what there is to say, the most important first."""
    parts = [f"{view.width} x {view.height} pixels", f"eye {_text(view.eye)}"]
    parts.append(f"forward {_text(view.forward)}")
    size = np.array([view.width, view.height]) / view.pixel_ratio
    if np.abs(2.0 * view.centre - size).max() > 1e-9 * size.max():
        parts.append(f"off centre, around {_text(view.centre)}")
    if view.perspective:
        parts.append(f"fov_y {math.degrees(2.0 * math.atan(view.half_height)):.6g}")
    else:
        parts.append(f"parallel rays, view_height {2.0 * view.half_height:.6g}")
    if view.near != 0.0 or view.far != math.inf:
        parts.append(f"near {view.near:.6g}, far {view.far:.6g}")
    if view.y != "down":
        parts.append(f"y {view.y}")
    if view.pixel_ratio != 1.0:
        parts.append(f"pixel_ratio {view.pixel_ratio:.6g}")
    return parts


def _text(vector: NDArray[np.float64]) -> str:
    """Return a vector in few digits, zeros without a sign."""
    return "[" + ", ".join(f"{x + 0.0:.6g}" for x in vector.tolist()) + "]"
