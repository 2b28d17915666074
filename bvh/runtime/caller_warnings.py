"""Warnings at the line of the caller, outside of this package and of libraries between."""

import sys
import warnings
from typing import Any

import numpy as np

from bvh.runtime.arguments import number_of

# Packages whose lines are not the caller's.
OURS = "bvh", "trimesh", "torch", "jax", "numba"


class BVHWarning(UserWarning):
    """Warning of this package.

    Examples
    --------
    >>> import bvh, warnings
    >>> tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", bvh.BVHWarning)
    ...     tree.contains([0.2, 0.2, 0.2])
    False
    """


def warn_caller(message: str) -> None:
    """Issue a `BVHWarning` for the first line up the stack that is outside the packages `OURS`."""
    # Level 1 of `warnings.warn` is the line below, 2 the caller of this function.
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, BVHWarning, stacklevel=level)


def warn_if_empty(tree: Any, kind: str = "triangles") -> None:
    """Warn the caller if a new tree, or parts, has no valid primitives; `kind` is their noun."""
    # Without valid primitives, bounds are NaN.
    if np.isnan(tree.bounds).any():
        why = f"of {number_of(len(tree), kind)} none is valid" if len(tree) else f"it has no {kind}"
        warn_caller(f"{tree!r} will find nothing: {why}")
