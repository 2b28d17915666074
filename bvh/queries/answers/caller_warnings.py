"""Warnings at the line of the caller, however many of our functions, or trimesh's, are between."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from bvh.runtime.jit import BVHWarning

# Packages whose lines are not the caller's.
OURS = "bvh", "trimesh"


def warn_caller(message: str) -> None:
    """Raise a `BVHWarning` at the first line up the stack that is neither ours nor trimesh's."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, BVHWarning, stacklevel=level)


def warn_if_empty(tree: Any, kind: str = "triangles") -> None:
    """Warn whoever has built a tree, or parts, over nothing that a query could find."""
    if np.isnan(tree.bounds).any():
        why = f"none of its {len(tree)} {kind} is valid" if len(tree) else f"it has no {kind}"
        warn_caller(f"{tree!r} will find nothing: {why}")
