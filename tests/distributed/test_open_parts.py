"""Rays meet open parts together, and the others one by one: the answers are those of one tree."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.distributed.out_of_core import part_visits
from bvh.distributed.out_of_core.part_scenes import PartScene
from bvh.distributed.out_of_core.parts import Parts
from tests.cases.families import sphere
from tests.cases.part_checks import HITS, check_rays, same
from tests.cases.partitions import parts_of, random_parts

# A unit cube: bits of the corners of its triangles, wound outward.
CUBE = [
    [0, 6, 4], [0, 2, 6], [1, 5, 7], [1, 7, 3], [0, 4, 5], [0, 5, 1], [2, 7, 6], [2, 3, 7],
    [0, 3, 2], [0, 1, 3], [4, 6, 7], [4, 7, 5],
]  # fmt: skip
CELLS = 3, 2, 2


def lattice(rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Return (vertices, faces, cell of each face): cubes side by side, in shuffled order.

    The faces between two cubes are there twice.
    """
    cells = np.array(list(product(*map(range, CELLS))))
    corners = np.array([[k & 1, k >> 1 & 1, k >> 2 & 1] for k in range(8)])
    points = (cells[:, None] + corners).reshape(-1, 3)
    vertices, index = np.unique(points, axis=0, return_inverse=True)
    faces = index.reshape(len(cells), 8)[:, CUBE].reshape(-1, 3)
    order = rng.permutation(len(faces))
    return vertices.astype(np.float64), faces[order], np.repeat(np.arange(len(cells)), 12)[order]


def hard_rays(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return rays in the planes, edges and corners of the lattice, with ranges that end there."""
    origins = rng.integers(-1, 9, (n, 3)) / 2.0
    directions = rng.integers(-1, 2, (n, 3)) * rng.choice([0.5, 1.0, 2.0], (n, 1))
    origins[::31, 1], directions[7::41, 2], directions[5::37, 0] = np.nan, np.nan, -np.inf
    t_min = rng.choice([0.0, 0.5, 1.0, -1.0, -np.inf, np.nan], n, p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    t_max = rng.choice([np.inf, 0.5, 1.0, 2.0, 3.0, np.nan], n, p=[0.4, 0.1, 0.15, 0.15, 0.1, 0.1])
    return {"origins": origins, "directions": directions, "t_min": t_min, "t_max": t_max}


def brute(vertices: Any, faces: Any, rays: dict[str, Any]) -> tuple[Any, Any]:
    """Return (t, prim_id) of the closest hits, by products of small numbers, which are exact."""
    o, d, t_min, t_max = (rays[k] for k in ("origins", "directions", "t_min", "t_max"))
    a, b, c = (vertices[faces[:, k]] - o[:, None] for k in range(3))
    n = np.cross(b - a, c - a)
    with np.errstate(all="ignore"):
        sides = [(d[:, None] * np.cross(p, q)).sum(axis=2) for p, q in ((b, c), (c, a), (a, b))]
        inside = np.all([s >= 0.0 for s in sides], axis=0) | np.all(
            [s <= 0.0 for s in sides], axis=0
        )
        slope = (n * d[:, None]).sum(axis=2)
        t = (n * a).sum(axis=2) / slope
        hit = inside & (slope != 0.0) & (t >= t_min[:, None]) & (t <= t_max[:, None])
    hit[~np.isfinite(np.hstack([o, d])).all(axis=1)] = False
    t = np.where(hit, t, np.inf)
    first = t.argmin(axis=1)  # of equal t the lowest id
    return t.min(axis=1), np.where(hit.any(axis=1), first, -1)


def opened(folder: Path, numbers: Any, memory: int = 1 << 30) -> Parts:
    """Return the parts of a folder with those of the given numbers open."""
    # Parts with equal `memory` share what is open.
    parts = Parts(folder, memory=memory + hash(tuple(numbers)) % 1000003)
    assert not parts.opened._open
    for number in numbers:
        parts.opened.part(number)
    return parts


@pytest.mark.answers
@pytest.mark.parametrize("way", ["cells", "slabs", "ids"])
def test_lattice(way: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Cubes whose sides coincide, so that parts have equal hits, whichever of them are open."""
    vertices, faces, cell = lattice(rng)
    ids = np.arange(len(faces))
    part = {"cells": cell, "slabs": cell // 4, "ids": ids % 5}[way]
    groups = rng.integers(0, 8, len(faces)).astype(np.uint32)
    tree = bvh.BVH.from_triangles(vertices, faces)
    grouped = bvh.BVH.from_triangles(vertices, faces, groups=groups)
    rays = hard_rays(rng, 800)
    t, prim_id = brute(vertices, faces, rays)
    found = tree.closest_hit(**rays)
    np.testing.assert_array_equal(found.t, t)
    np.testing.assert_array_equal(found.prim_id, prim_id)
    assert 100 < np.count_nonzero(prim_id >= 0) < 700
    parts_of(tmp_path / "parts", vertices, faces, part)
    parts_of(tmp_path / "grouped", vertices, faces, part, groups=groups)
    numbers = np.unique(part)
    for chosen in ([], numbers[:1], rng.permutation(numbers)[:2], numbers[::-1]):
        for cull in (None, "back", "front"):
            check_rays(opened(tmp_path / "parts", chosen), tree, rays, cull=cull)
        for mask in (None, 0, 5, rng.integers(0, 8, 800)):
            given = rays if mask is None else rays | {"mask": mask}
            check_rays(opened(tmp_path / "parts", chosen), tree, given)
            check_rays(opened(tmp_path / "grouped", chosen), grouped, given)
        for shape in ((0,), (2, 0), ()):
            one = {k: rays[k][3] for k in rays} | {"origins": np.zeros((*shape, 3))}
            check_rays(opened(tmp_path / "parts", chosen), tree, one)


def test_what_is_searched_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open parts, if all parts may stay open; those that are opened join them."""
    vertices, faces = sphere(3)
    part = np.argsort(np.argsort(vertices[faces].mean(axis=1)[:, 0])) * 5 // len(faces)
    parts = parts_of(tmp_path / "parts", vertices, faces, part)

    def searched(parts: Parts) -> tuple[list[int], int]:
        """Return the numbers of the parts that are searched together, and how many others."""
        parts_open, together, others, _ = parts._visits._divided()
        assert isinstance(together, PartScene) == (len(parts_open) > 1)
        return [part.number for part in parts_open], others

    assert searched(parts) == ([], 5)
    parts.closest_hit([-3.0, 0.1, 0.2], [1.0, 0.0, 0.0])
    assert searched(parts) == ([0], 4)
    parts.closest_hit([3.0, 0.1, 0.2], [-1.0, 0.0, 0.0])
    assert searched(parts) == ([0, 4], 3)
    known = parts._visits._divided()
    parts.count_hits([0.0, 9.0, 0.0], [0.0, 1.0, 0.0])
    assert parts._visits._divided() is known
    # The first 99 rays open all parts.
    monkeypatch.setattr(part_visits, "TOGETHER", 99)
    parts.all_hits(np.zeros((200, 3)), np.random.default_rng(1).normal(size=(200, 3)))
    assert searched(parts) == ([0, 1, 2, 3, 4], 0)
    some = Parts(parts.folder, memory=sum(r.tree_bytes for r in parts.records) - 1)
    some.corners(range(len(faces)))
    assert len(some.opened._open) > 1 and searched(some) == ([], 5)


def test_queries_that_are_interrupted(tmp_path: Path, rng: np.random.Generator) -> None:
    vertices, faces = sphere(3)
    tree = bvh.BVH.from_triangles(vertices, faces)
    parts = random_parts(tmp_path / "parts", vertices, faces, rng)
    rays = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            parts.closest_hit(*rays, progress=interrupt)
        same(parts.closest_hit(*rays), tree.closest_hit(*rays), (*HITS, "position", "normal"))
