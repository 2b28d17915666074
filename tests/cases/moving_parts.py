"""Transforms and scenes for tests: plain, exact, squashed, tiny, far, extreme; and hard rays."""

from __future__ import annotations

import numpy as np
import trimesh

import bvh

KINDS = (
    "random", "rigid", "squash", "tiny", "far", "very far", "exact", "grid", "same", "small",
    "large", "scales", "flat",
)  # fmt: skip
MILD = KINDS[:8]
# Of one size, as parts of a machine are: no ray has to be decided exactly throughout.
PLAIN = ("random", "rigid", "exact", "grid")


def _turn(rng: np.random.Generator) -> np.ndarray:
    """Return a rotation, or one with a reflection."""
    return np.asarray(np.linalg.qr(rng.normal(size=(3, 3)))[0])


def transform(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return an affine matrix of a kind."""
    m = np.eye(4)
    if kind == "same":
        return m
    if kind == "grid":
        m[:3, 3] = rng.integers(-2, 3, 3)
        return m
    if kind == "exact":
        signs = rng.choice([-1, 1], 3) * 2.0 ** rng.integers(-2, 3, 3)
        m[:3, :3] = np.eye(3)[rng.permutation(3)] * signs
        m[:3, 3] = rng.integers(-8, 8, 3) / 2
        return m
    m[:3, 3] = rng.normal(size=3) * 5
    linear = {
        "random": lambda: rng.normal(size=(3, 3)),
        "squash": lambda: _turn(rng) @ np.diag(10.0 ** rng.uniform(-6, 1, 3)) @ _turn(rng),
        "tiny": lambda: _turn(rng) * 10.0 ** rng.uniform(-9, 0),
        "small": lambda: rng.normal(size=(3, 3)) * 1e-100,
        "large": lambda: rng.normal(size=(3, 3)) * 1e100,
        "scales": lambda: _turn(rng) * 10.0 ** rng.uniform(-40, 40),
        "flat": lambda: _turn(rng) @ np.diag([1, 1e-6, 1e-12]) @ _turn(rng),
    }
    m[:3, :3] = linear.get(kind, lambda: _turn(rng))()
    m[:3, 3] += {"far": 1e7, "very far": 1e13}.get(kind, 0.0)
    m[:3, 3] *= {"small": 1e-100, "large": 1e100}.get(kind, 1.0)
    return m


def parts() -> list[bvh.BVH]:
    """Return a ball, a box and a flat grid."""
    side = np.linspace(0.0, 1.0, 5)
    x, y = np.meshgrid(side, side)
    corner = (np.arange(4)[:, None] * 5 + np.arange(4)).ravel()
    faces = np.concatenate([
        np.stack([corner, corner + 1, corner + 6], axis=1),
        np.stack([corner, corner + 6, corner + 5], axis=1),
    ])  # fmt: skip
    grid = np.stack([x.ravel(), y.ravel(), np.zeros(25)], axis=1)
    return [
        bvh.BVH.from_mesh(trimesh.creation.icosphere(1)),
        bvh.BVH.from_mesh(trimesh.creation.box()),
        bvh.BVH.from_triangles(grid, faces),
    ]


def scene_of(
    kind: str, count: int, rng: np.random.Generator, others: tuple[str, ...] = ()
) -> bvh.Scene:
    """Return a scene of `count` instances whose transforms are of a kind, or of others, too."""
    scene, trees = bvh.Scene(), parts()
    kinds = (kind, *others)
    for _ in range(count):
        some = kinds[rng.integers(0, len(kinds))]
        scene.add(trees[rng.integers(0, len(trees))], transform(some, rng))
    return scene


def nested(inner: bvh.Scene, rng: np.random.Generator, depth: int = 2) -> bvh.Scene:
    """Return a scene that holds another three times, `depth` times over."""
    for _ in range(depth):
        outer = bvh.Scene()
        for kind in ("same", "exact", "rigid"):
            outer.add(inner, transform(kind, rng))
        inner = outer
    return inner


def hard_rays(
    vertices: np.ndarray, faces: np.ndarray, n: int, rng: np.random.Generator, far: float = 30.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rays at vertices, edges and faces, along axes, from surfaces, and from 10**far."""
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    extent = np.maximum(0.5 * high - 0.5 * low, 1e-300)
    origins = 0.5 * low + 0.5 * high + rng.normal(size=(n, 3)) * extent
    some = faces[rng.integers(0, len(faces), n)]
    a, b, c = (vertices[some[:, i]] for i in range(3))
    weights = rng.dirichlet([1, 1, 1], n)
    within = a * weights[:, :1] + b * weights[:, 1:2] + c * weights[:, 2:]
    part = rng.integers(0, 6, n)[:, None]
    targets = np.select([part == 0, part == 1], [a, 0.5 * a + 0.5 * b], within)
    directions = targets - origins
    axes = np.eye(3)[rng.integers(0, 3, n)] * extent.max() * rng.choice([-1.0, 1.0], (n, 1))
    directions = np.where(part == 3, axes, directions)
    origins = np.where(part == 3, targets - axes * rng.integers(0, 3, (n, 1)), origins)
    origins = np.where(part == 4, within, origins)
    afar = targets - directions * 10.0 ** rng.uniform(0, far, (n, 1))
    origins = np.where((part == 5) & np.isfinite(afar), afar, origins)
    directions[::7] *= 10.0 ** rng.uniform(-50, 50, (len(directions[::7]), 1))
    return origins, directions
