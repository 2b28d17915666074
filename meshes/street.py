"""A street of houses, trees, cars, lamps and people: few geometries, hundreds of instances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .organic import organic
from .shapes import Mesh, box, grid, lathe, merged, moved
from .sphere import geodesic_sphere

SEED = 11
LENGTH, HALF_ROAD, HALF_WIDTH = 400.0, 4.0, 24.0
# Of each kind: its share of the instances, how far from the middle of the street, and how tall.
KINDS = {
    "house": (60, 16.0, 10.0), "tree": (120, 8.5, 7.0), "car": (100, 3.0, 1.5),
    "lamp": (80, 6.0, 6.0), "person": (60, 7.0, 1.75), "bollard": (40, 5.0, 0.9),
}  # fmt: skip


def geometries() -> dict[str, Mesh]:
    """Return the geometries by name, each about one unit tall on the ground at the origin."""
    return {
        "ground": _ground(),
        **{f"house {k}": _house(k + 3, k + 2) for k in range(3)},
        **{f"tree {k}": _tree(k) for k in range(3)},
        **{f"car {k}": _car(k) for k in range(3)},
        "lamp": merged(
            [lathe([[0.03, 0.0], [0.012, 0.1], [0.008, 0.95]], 12),
             moved(geodesic_sphere(4, (1.0, 1.0, 0.5)), (0.0, 0.0, 0.97), scale=0.04)]
        ),
        **{f"person {k}": _on_ground(organic(6 + k), 0.35) for k in range(2)},
        "bollard": lathe([[0.12, 0.0], [0.1, 0.8], [0.13, 0.85], [0.1, 1.0], [0.0, 1.0]], 24),
    }  # fmt: skip


def placements(count: int = 461) -> list[tuple[str, str, NDArray[np.float64]]]:
    """Return (name, geometry, matrix) of `count` instances; the ground is the first of them."""
    rng = np.random.default_rng(SEED)
    known = list(geometries())
    found = [("ground", "ground", np.eye(4))]
    shares = np.cumsum([share for share, _, _ in KINDS.values()])
    numbers = np.diff(np.round(shares * (count - 1) / shares[-1]).astype(int), prepend=0)
    for (kind, (_, beside, tall)), number in zip(KINDS.items(), numbers.tolist(), strict=True):
        shapes = [name for name in known if name.startswith(kind)]
        along = np.linspace(-0.48 * LENGTH, 0.48 * LENGTH, -(-number // 2))
        for i in range(number):
            side = 1.0 if i % 2 else -1.0
            matrix, turn = np.eye(4), 0.0 if side > 0 else np.pi
            if kind in ("tree", "person"):
                turn = rng.uniform(0.0, 2.0 * np.pi)
            elif kind == "car":
                turn += rng.normal(0.0, 0.02)
            scale = tall * rng.uniform(0.85, 1.15, 3 if kind == "house" else 1)
            c, s = np.cos(turn), np.sin(turn)
            matrix[:3, :3] = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) * scale
            place = along[i // 2] + rng.normal(0.0, 0.6), side * (beside + rng.uniform(0.0, 0.5))
            matrix[:2, 3] = place
            found.append((f"{kind} {i}", shapes[int(rng.integers(len(shapes)))], matrix))
    return found


def _on_ground(mesh: Mesh, width: float = 1.0) -> Mesh:
    """Return a mesh one unit tall, `width` times as wide, that stands on the ground."""
    vertices, faces = mesh
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    size = (high - low) / np.array([width, width, 1.0])
    return (vertices - [*(0.5 * (low + high))[:2], low[2]]) / size, faces


def _ground() -> Mesh:
    """Return a road with kerbs between strips of rough ground."""
    x = np.linspace(-0.5 * LENGTH, 0.5 * LENGTH, 201)
    kerb = np.array([HALF_ROAD, HALF_ROAD + 0.1, 12.0])
    y = np.concatenate([-kerb[::-1], np.linspace(-3.0, 3.0, 5), kerb])
    y = np.concatenate([np.linspace(-HALF_WIDTH, -13.0, 8), y, np.linspace(13.0, HALF_WIDTH, 8)])
    points = np.empty((len(x), len(y), 3))
    points[..., 0], points[..., 1] = x[:, None], y
    rough = 0.15 * np.sin(0.9 * x[:, None]) * np.cos(1.1 * y) * (abs(y) > 12.5)
    points[..., 2] = rough + np.where(abs(y) > HALF_ROAD, 0.0, -0.12 - 0.004 * y * y)
    return grid(points)


def _house(floors: int, windows: int) -> Mesh:
    """Return a house with a front of recessed windows towards -y, and a pitched roof."""
    x, z = np.linspace(-0.6, 0.6, 8 * windows + 1), np.linspace(0.0, 1.0, 8 * floors + 1)
    inside = [(np.arange(len(axis)) % 8 > 1) & (np.arange(len(axis)) % 8 < 7) for axis in (x, z)]
    depth = np.where(inside[1][:, None] & inside[0], -0.38, -0.4)
    front = np.stack([np.broadcast_to(x, depth.shape), depth,
                      np.broadcast_to(z[:, None], depth.shape)], axis=-1)  # fmt: skip
    eaves, ridge = np.array([-0.42, 0.0, 0.42]), np.array([0.98, 1.25, 0.98])
    roof = np.stack(np.broadcast_arrays(np.linspace(-0.62, 0.62, 25)[:, None], eaves, ridge), -1)
    return merged([grid(front[:, ::-1]), box((-0.6, -0.37, 0.0), (0.6, 0.4, 1.0)), grid(roof)])


def _tree(kind: int) -> Mesh:
    """Return a trunk and three crowns."""
    trunk = lathe([[0.05, 0.0], [0.035, 0.2], [0.03, 0.6]], 16)
    crown = _on_ground(organic(7 + kind), 0.9)
    crowns = [((0.0, 0.0, 0.45), 0.55), ((0.12, 0.05, 0.35), 0.4), ((-0.1, 0.1, 0.38), 0.42)]
    return merged([trunk] + [moved(crown, at, 70.0 * k, s) for k, (at, s) in enumerate(crowns)])


def _car(kind: int) -> Mesh:
    """Return a body, a cabin and four wheels."""
    long = 1.3 + 0.2 * kind
    body, cabin = ((0.0, 0.0, 0.45), (long, 0.6, 0.3)), ((-0.1, 0.0, 0.72), (0.6 * long, 0.5, 0.28))
    parts: list[Mesh] = []
    for at, size in (body, cabin):
        vertices, faces = geodesic_sphere(6)
        # Between a ball and a box.
        vertices = np.sign(vertices) * np.abs(vertices) ** 0.5
        parts.append((vertices * size + np.array(at), faces))
    points, faces = lathe([[0.0, 0.0], [0.22, 0.0], [0.22, 0.15], [0.0, 0.15]], 20)
    x, z, y = points.T
    for sx in (-0.6 * long, 0.6 * long):
        for sy in (-0.62, 0.47):
            parts.append((np.stack([x + sx, y + sy, z + 0.22], axis=-1), faces[:, ::-1]))
    return merged(parts)
