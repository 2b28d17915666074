"""A scene of few geometries and many nodes: turned, stretched, mirrored and nested."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import trimesh
from numpy.typing import NDArray

from .masonry import column
from .organic import organic
from .shapes import Mesh, merged

SEED = 7
WORLD = "world"
GROUP = "mirrored_group"


class Node(NamedTuple):
    """One node of the scene: the geometry it shows and where it stands in its parent."""

    name: str
    geometry: str
    matrix: NDArray[np.float64]
    parent: str = WORLD


def geometries() -> dict[str, Mesh]:
    """Return the geometries by name, their coordinates exact in the float32 of a GLB file."""
    shapes = {"column": column(3.0, 0.3, 2, flutes=12), "pebble": organic(8)}
    return {
        name: (vertices.astype(np.float32).astype(np.float64), faces)
        for name, (vertices, faces) in shapes.items()
    }


def group_matrix() -> NDArray[np.float64]:
    """Return where the group node stands: a reflection in x beside the circle."""
    matrix = np.diag([-1.0, 1.0, 1.0, 1.0])
    matrix[:3, 3] = [12.0, 0.0, 0.0]
    return matrix


def nodes() -> list[Node]:
    """Return the nodes that show a geometry.

    Sixteen columns of unequal height stand in a circle. Twelve stretched pebbles lie among them,
    every fourth mirrored. A group node, mirrored itself, holds two columns and two pebbles.
    """
    rng = np.random.default_rng(SEED)
    found: list[Node] = []
    for i in range(16):
        turn = 22.5 * i
        place = (6.0 * np.cos(np.radians(turn)), 6.0 * np.sin(np.radians(turn)), 0.0)
        tall = (1.0, 1.0, 0.6 + 0.05 * (7 * i % 16))
        found.append(Node(f"column_{i:02d}", "column", _matrix(place, (0, 0, 1), turn, tall)))
    for i in range(12):
        x, y = rng.uniform(-4.0, 4.0, 2)
        axis, angle = rng.normal(size=3), rng.uniform(0.0, 360.0)
        scale = rng.uniform(0.3, 1.1, 3) * (-1.0 if i % 4 == 3 else 1.0, 1.0, 1.0)
        found.append(Node(f"pebble_{i:02d}", "pebble", _matrix((x, y, 0.8), axis, angle, scale)))
    for i in range(2):
        tilt = _matrix((0.0, 3.0 * i - 1.5, 0.0), (1, 0, 0), 12.0 * i - 6.0, (0.8, 1.2, 1.0))
        found.append(Node(f"tilted_column_{i}", "column", tilt, GROUP))
        lying = _matrix((2.0, 3.0 * i - 1.5, 0.5), (1, 1, 0), 80.0 * i, (0.5, 0.7, 0.4))
        found.append(Node(f"grouped_pebble_{i}", "pebble", lying, GROUP))
    return found


def scene() -> trimesh.Scene:
    """Return the scene: two geometries, 32 nodes that show one, and a group node; z is up."""
    built = trimesh.Scene(base_frame=WORLD)
    graph: Any = built.graph
    graph.update(frame_from=WORLD, frame_to=GROUP, matrix=group_matrix())
    for name, (vertices, faces) in geometries().items():
        built.geometry[name] = trimesh.Trimesh(vertices, faces, process=False)
    for node in nodes():
        graph.update(
            frame_from=node.parent, frame_to=node.name, matrix=node.matrix, geometry=node.geometry
        )
    return built


def instanced() -> Mesh:
    """Return the scene as one mesh in world space, node after node, mirrored ones rewound."""
    shapes = geometries()
    parts: list[Mesh] = []
    for node in nodes():
        matrix = group_matrix() @ node.matrix if node.parent == GROUP else node.matrix
        vertices, faces = shapes[node.geometry]
        if np.linalg.det(matrix[:3, :3]) < 0:
            faces = faces[:, ::-1]
        parts.append((vertices @ matrix[:3, :3].T + matrix[:3, 3], faces))
    return merged(parts)


def _matrix(
    place: tuple[float, float, float],
    axis: tuple[float, float, float] | NDArray[np.float64],
    degrees: float,
    scale: tuple[float, float, float] | NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the matrix that scales, then turns about ``axis``, then moves to ``place``."""
    x, y, z = np.asarray(axis, dtype=np.float64) / np.sqrt(np.sum(np.square(axis)))
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    angle = np.radians(degrees)
    turn = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)
    matrix = np.eye(4)
    matrix[:3, :3] = np.round(turn * np.asarray(scale, dtype=np.float64), 12)
    matrix[:3, 3] = np.round(place, 12)
    return matrix
