"""Meshes by name: files, generators at any size, and subdivisions of either."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# The folder beside this one; in an installed package both are inside bvh.
MESHES = f"{__package__.rpartition('.')[0]}.meshes".lstrip(".")


def generator(module: str, name: str) -> Callable[..., Any]:
    """Return a function that generates a mesh."""
    function: Callable[..., Any] = getattr(import_module(f"{MESHES}.{module}"), name)
    return function


# Those of the first line are rounded to float32, as their files are.
SINGLE = ("organic", "interior", "sculpture")
GENERATORS = (*SINGLE, "terrain", "cad_part")

QUICK = ["organic-16"]
DEFAULT = ["organic"]
LARGE = ["interior-16", "organic-224"]

NAMES = (
    "FILE (of any format that trimesh reads), organic, interior, terrain, cad_part, sculpture, "
    "organic-FREQUENCY, interior-DETAIL, and any of these with @COUNT: subdivided until it has "
    "more triangles than that"
)


class Scene(NamedTuple):
    """Mesh, and whether the camera stands in it and looks along its length, or outside."""

    name: str
    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    inside: bool = False


def load(name: str) -> Scene:
    """Return the scene of a name, one of the forms in `NAMES`; raises SystemExit for others."""
    source, _, count = name.partition("@")
    kind, _, size = Path(source).stem.partition("-")
    if kind in GENERATORS and source in (kind, f"{kind}-{size}") and (not size or kind in SINGLE):
        sizes = (float(size) if kind == "interior" else int(size),) if size else ()
        vertices, faces = generator(kind, kind)(*sizes)
        if kind in SINGLE:
            vertices = vertices.astype(np.float32).astype(np.float64)
    elif Path(source).is_file():
        vertices, faces = read(Path(source))
    else:
        raise SystemExit(f"no mesh {name!r}; what can be named: {NAMES}")
    if count:
        while len(faces) <= float(count):
            vertices, faces = subdivided(vertices, faces)
    stem = Path(source).stem + (f"@{count}" if count else "")
    return Scene(stem, vertices, faces.astype(np.int32), kind == "interior")


def read(path: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Read the triangles of a file, a scene's instances as one mesh."""
    import trimesh

    loaded: Any = trimesh.load(path, process=False, force="mesh")
    return np.asarray(loaded.vertices, np.float64), np.asarray(loaded.faces, np.int64)


def subdivided(
    vertices: NDArray[np.float64], faces: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cut each triangle in four at the middles of its edges.

    The two sides of an edge share its new vertex. If float32 holds the vertices, it holds the new
    ones as well: they are rounded.
    """
    index = faces.astype(np.int64)
    edges = np.sort(index[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    _, first, middle = np.unique(
        edges[:, 0] * len(vertices) + edges[:, 1], return_index=True, return_inverse=True
    )
    ends = edges[first]
    points = 0.5 * vertices[ends[:, 0]] + 0.5 * vertices[ends[:, 1]]
    if (vertices == vertices.astype(np.float32)).all():
        points = points.astype(np.float32).astype(np.float64)
    a, b, c = index.T
    ab, bc, ca = len(vertices) + middle.reshape(-1, 3).T
    parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    cut = np.stack([np.stack(part, axis=1) for part in parts], axis=1)
    return np.concatenate([vertices, points]), cut.reshape(-1, 3)
