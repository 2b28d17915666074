"""Binary PLY files, written byte for byte the same on every run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from .shapes import Mesh


def write(path: Path, mesh: Mesh, precision: Literal["float", "double"] = "float") -> None:
    """Write a mesh as little-endian binary PLY.

    Parameters
    ----------
    path
        The file to write.
    mesh
        Vertices and faces.
    precision
        ``"float"`` rounds coordinates to float32, ``"double"`` keeps them.
    """
    vertices, faces = mesh
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}"]
    header += [f"property {precision} {axis}" for axis in "xyz"]
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices"]
    header.append("end_header\n")
    rows = np.empty(len(faces), dtype=[("count", "u1"), ("corners", "<i4", (3,))])
    rows["count"] = 3
    rows["corners"] = faces
    points = vertices.astype("<f4" if precision == "float" else "<f8")
    path.write_bytes("\n".join(header).encode("ascii") + points.tobytes() + rows.tobytes())
