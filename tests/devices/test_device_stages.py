"""Rays in stages: the CPU's answers in hostile families, and what the kernels need on a GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
import warp as wp

import bvh
from bvh.devices.stages import chain, decide, marks, search
from tests.cases.aims import axis_rays, features, random_rays
from tests.oracles.devices import DEVICE, assert_same

# Limits of each kernel: registers, bytes of the stack, and of spills.
LIMITS = {
    "search": (64, 160, 64), "search, deep": (64, 832, 64), "search, counting": (64, 160, 64),
    "search, scene": (64, 448, 512), "search, scene, counting": (64, 352, 352),
    "decide": (128, 64, 64), "decide near": (168, 64, 64), "measure": (96, 64, 64),
    "measure near": (168, 64, 64), "decide by sums": (255, 2048, 64),
    "measure by sums": (255, 2048, 64),
    "decide, all": (168, 64, 64), "decide near, all": (168, 64, 64), "measure, all": (96, 64, 64),
    "measure near, all": (168, 64, 64), "decide by sums, all": (255, 2048, 640),
    "measure by sums, all": (255, 2048, 64), "measure, lists": (128, 64, 64),
    "points": (64, 640, 640), "points, deep": (64, 1200, 640), "decide, points": (168, 64, 64),
    "decide by sums, points": (255, 2176, 640),
}  # fmt: skip


def rays_at(vertices: Any, faces: Any, n: int, rng: np.random.Generator) -> Any:
    """Return rays at vertices and edges, along axes, from surfaces, from afar, and at random."""
    lower, upper = vertices.min(axis=0), vertices.max(axis=0)
    size = np.linalg.norm(upper - lower)
    aims = features(vertices, faces, rng)
    aims = aims[rng.integers(0, len(aims), n)]
    around = aims + rng.normal(size=(n, 3)) * size * 10.0 ** rng.uniform(-3, 5, (n, 1))
    on, weights = faces[rng.integers(0, len(faces), n)], rng.dirichlet([1.0] * 3, n)
    surface = np.einsum("nk,nki->ni", weights, vertices[on])
    grazing = vertices[on[:, 0]] - size * (vertices[on[:, 1]] - vertices[on[:, 0]])
    pairs = (
        random_rays(lower, upper, n, rng), axis_rays(vertices, n, rng), (around, aims - around),
        (surface, rng.normal(size=(n, 3))), (aims, rng.normal(size=(n, 3))),
        (grazing, vertices[on[:, 1]] - vertices[on[:, 0]]),
    )  # fmt: skip
    return tuple(np.concatenate(rows) for rows in zip(*pairs, strict=True))


def compare(tree: Any, there: Any, o: Any, d: Any, **options: Any) -> int:
    """Compare the queries in stages; return how many rays of two were left to the CPU."""
    undecided = 0
    for query in ("closest_hit", "any_hit"):
        wanted = getattr(tree, query)(o, d, **options)
        assert_same(getattr(there, query)(o, d, **options), wanted, query)
        undecided += there.undecided
    for edges in ("once", "closed"):
        wanted = tree.count_hits(o, d, edges=edges, **options)
        assert_same(there.count_hits(o, d, edges=edges, **options), wanted, edges)
        wanted = tree.all_hits(o, d, edges=edges, **options)
        assert_same(there.all_hits(o, d, edges=edges, **options), wanted)
    wanted = tree.all_hits(o, d, max_hits=2, **options)
    assert_same(there.all_hits(o, d, max_hits=2, **options), wanted)
    return undecided


@pytest.fixture
def every_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """All stages run, as on a GPU; in other tests sums decide at once what the search leaves."""
    monkeypatch.setattr(chain, "EVERY_STAGE", True)


@pytest.mark.answers
@pytest.mark.usefixtures("every_stage")
@pytest.mark.parametrize("n", [20, pytest.param(2500, marks=pytest.mark.long)])
def test_hostile_rays(n: int, rng: np.random.Generator) -> None:
    """Meshes, slivers and lattices of tiny and huge sizes, of split triangles, too."""
    ball, box = trimesh.creation.icosphere(3), trimesh.creation.box().subdivide()
    undecided = total = 0
    sizes = (1.0, "high"), (1e-60, "medium"), (1e60, "high")
    for k, (mesh, stretch) in enumerate(
        ((ball, 1.0), (ball, [1.0, 1e-6, 1.0]), (box, 1.0), (box, [1, 3e4, 1]))
    ):
        for scale, quality in sizes if n > 20 else sizes[k % 3 :][:1]:
            vertices, faces = mesh.vertices * stretch * scale, mesh.faces
            tree = bvh.BVH.from_triangles(vertices, faces, quality=quality)
            there = tree.to(DEVICE)
            o, d = rays_at(vertices, faces, n, rng)
            t_min = np.where(rng.random(len(o)) < 0.5, 0.0, -0.5)
            for options in ({}, {"cull": "back"}, {"t_min": t_min, "t_max": 1.0}):
                undecided += compare(tree, there, o, d, **options)
                total += 2 * len(o)
    print(f"{undecided} of {total} rays left to the CPU")


@pytest.mark.answers
@pytest.mark.usefixtures("every_stage")
@pytest.mark.parametrize("n", [20, pytest.param(800, marks=pytest.mark.long)])
def test_hostile_scenes(n: int, rng: np.random.Generator) -> None:
    """Rays at vertices and edges of moved, mirrored and flat instances, with masks and sides."""
    meshes = trimesh.creation.icosphere(2), trimesh.creation.box().subdivide()
    trees = [bvh.BVH.from_mesh(mesh, quality="high") for mesh in meshes]
    for _ in range(3 if n > 20 else 1):
        scene, rays = bvh.Scene(), []
        for k in range(8):
            tree, matrix = trees[k % 2], np.eye(4)
            if k % 3:
                matrix[:3, :3] = rng.normal(size=(3, 3)) * [[1.0], [1.0], [0.5 ** (9 * (k % 2))]]
            else:
                matrix[:3, :3] = np.diag(rng.choice([-1.0, 1.0, 2.0], 3))[rng.permutation(3)]
            matrix[:3, 3] = rng.integers(-2, 3, 3)
            scene.set_mask(scene.add(tree, matrix), k + 1)
            corners = tree.vertices @ matrix[:3, :3].T + matrix[:3, 3]
            rays.append(rays_at(corners, tree.faces, n, rng))
        o, d = (np.concatenate(rows) for rows in zip(*rays, strict=True))
        there = scene.to(DEVICE)
        for options in ({}, {"cull": "front"}, {"cull": "back", "mask": 5}, {"t_max": 0.75}):
            compare(scene, there, o, d, **options)


@pytest.mark.answers
@pytest.mark.usefixtures("every_stage")
@pytest.mark.parametrize("n", [60, pytest.param(3000, marks=pytest.mark.long)])
def test_hostile_points(n: int, rng: np.random.Generator) -> None:
    """Points on faces, edges and vertices, next to them, and farther off; sums decide the first."""
    undecided = 0
    for mesh in (trimesh.creation.icosphere(3), trimesh.creation.box().subdivide()):
        for scale in (1.0, 1e-60, 1e60):
            vertices, faces = mesh.vertices * scale, mesh.faces
            tree = bvh.BVH.from_triangles(vertices, faces)
            there, aims = tree.to(DEVICE), features(vertices, faces, rng)
            on = vertices[faces[rng.integers(0, len(faces), n)]]
            surface = np.einsum("nk,nki->ni", rng.dirichlet([1.0] * 3, n), on)
            points = np.concatenate([aims[rng.integers(0, len(aims), n)], surface])
            off = rng.normal(size=points.shape) * scale * 10.0 ** rng.uniform(-18, 1, (2 * n, 1))
            points = np.concatenate([points, points + off])
            assert_same(there.closest_point(points), tree.closest_point(points))
            undecided += there.undecided
    print(f"{undecided} of {24 * n} points left to the CPU")


@pytest.mark.answers
@pytest.mark.parametrize(("sections", "left"), [(60, 0), (400, 0), (2000, 20)])
def test_fans(sections: int, left: int, rng: np.random.Generator) -> None:
    """Rays at an apex may hit more triangles than are kept: then more are, or the CPU decides."""
    tree = bvh.BVH.from_mesh(trimesh.creation.cone(1.0, 1.0, sections=sections))
    o = rng.normal(size=(20, 3)) + [0.0, 0.0, 4.0]
    there, d = tree.to(DEVICE), [0.0, 0.0, 1.0] - o
    assert compare(tree, there, o, d) <= 2 * left
    assert there.undecided == left


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
def test_registers(tmp_path: Path) -> None:
    """No kernel takes more registers, stack and spills of a GPU than its limits say."""
    small, large = chain.SMALL_STACK, chain.LARGE_STACK
    kinds = (small, False, False), (large, False, False), (small, False, True)
    kinds += (small, True, False), (small, True, True)
    kernels = [search.search_kernel(search.search_function(*kind)) for kind in kinds]
    for of_all, of_lists in ((False, False), (True, False), (True, True)):
        sums = decide.by_sums(marks.DECIDE_BY_SUMS, marks.MEASURE_BY_SUMS, of_all)
        kernels += [kernel for kernel, _ in (*decide.by_doubles(of_all, of_lists), *sums)]
    del kernels[-6:-4], kernels[-3:]  # as without lists
    for size in (small, large):
        plan = chain.plan_of(size, False, int(marks.NEAREST), True)
        kernels.append(plan.search)
    kernels += [plan.doubles[0][0], plan.sums[0][0]]
    for (name, limits), kernel in zip(LIMITS.items(), kernels, strict=True):
        folder = tmp_path / name.replace(" ", "_")
        wp.compile_aot_module(kernel.module, arch=90, use_ptx=True, module_dir=str(folder))
        (path,) = folder.rglob("*.ptx")
        # Versions of ptxas differ from that of Warp's compiler; this one is known since CUDA 13.
        text = path.read_bytes().rstrip(b"\0").decode()
        path.write_text(re.sub(r"\.version \d+\.\d+", ".version 9.0", text))
        # Nothing is contracted but what is written so.
        fused = [line for line in text.splitlines() if re.search(r"\bfma\.\S*f(32|64)", line)]
        assert all("// slab" in line or "// rest" in line for line in fused), name
        done = subprocess.run(
            ["ptxas", "-v", "-arch=sm_90", str(path), "-o", str(folder / "cubin")],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = [
            max(int(number) for number in re.findall(pattern, done.stderr))
            for pattern in (r"Used (\d+) registers", r"(\d+) bytes stack", r"(\d+) bytes spill")
        ]
        print(name, found)
        assert all(x <= most for x, most in zip(found, limits, strict=True)), (name, found)
