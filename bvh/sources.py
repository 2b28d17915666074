"""Meshes of other libraries in, triangles out."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

ACCEPTED = "a trimesh.Trimesh, a trimesh.Scene or a pair (vertices, faces)"


def triangles_of(mesh: Any) -> tuple[Any, Any]:
    """Return (vertices, faces) of a mesh as its library holds them."""
    if isinstance(mesh, tuple | list) and len(mesh) == 2:
        return mesh[0], mesh[1]
    if hasattr(mesh, "graph") and hasattr(mesh, "geometry"):
        return triangles_of(_flatten(mesh))
    if hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        return np.asarray(mesh.vertices), np.asarray(mesh.faces)
    raise TypeError(f"mesh must be {ACCEPTED}, got {type(mesh).__name__}")


def read_file(path: str | os.PathLike[str], wanted: str) -> Any:
    """Return whatever trimesh reads from a file; vertices and faces keep their places.

    Raises
    ------
    ValueError
        If the file cannot be read as what is wanted, which the message names.
    FileNotFoundError
        If there is none.
    """
    import trimesh

    name = os.fspath(path)
    if not os.path.isfile(name):
        raise FileNotFoundError(f"no such file: {name}")
    try:
        return trimesh.load(name, process=False)
    except Exception as error:
        # Readers raise whatever their format makes them trip over.
        raise ValueError(f"cannot read {name} as {wanted}: {error}") from error


def load_mesh(path: str | os.PathLike[str]) -> Any:
    """Read a file of any format that trimesh knows, as one trimesh.Trimesh.

    Vertices and faces keep their places; a scene is flattened.

    Raises
    ------
    ValueError
        If the file cannot be read as a mesh.
    FileNotFoundError
        If there is none.
    """
    import trimesh

    loaded = read_file(path, "a mesh")
    if isinstance(loaded, trimesh.Scene):
        loaded = _flatten(loaded)
    if not isinstance(loaded, trimesh.Trimesh):
        raise ValueError(f"{os.fspath(path)} holds no triangles ({type(loaded).__name__})")
    return loaded


def _flatten(scene: Any) -> Any:
    """Return a scene's triangles in world coordinates as one mesh."""
    import trimesh

    parts = [part for part in scene.dump() if isinstance(part, trimesh.Trimesh)]
    if not parts:
        return trimesh.Trimesh()
    return trimesh.util.concatenate(parts)
