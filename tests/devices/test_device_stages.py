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
from bvh.devices.stages import decide, search
from tests.cases.aims import axis_rays, features, random_rays
from tests.oracles.devices import DEVICE, assert_same

# Limits of each kernel: registers, bytes of the stack, and of spills.
LIMITS = {
    "search": (64, 160, 64), "search, deep": (64, 448, 64), "decide": (128, 64, 64),
    "decide near": (168, 64, 64), "measure": (96, 64, 64), "measure near": (168, 64, 64),
    "decide by sums": (255, 2048, 64), "measure by sums": (255, 2048, 512),
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


@pytest.mark.answers
@pytest.mark.parametrize("n", [20, pytest.param(2500, marks=pytest.mark.long)])
def test_hostile_rays(n: int, rng: np.random.Generator) -> None:
    """Meshes, slivers and lattices of tiny and huge sizes: closest hits and any hits."""
    ball, box = trimesh.creation.icosphere(3), trimesh.creation.box().subdivide()
    undecided = total = 0
    for mesh, stretch in ((ball, 1.0), (ball, [1.0, 1e-6, 1.0]), (box, 1.0), (box, [1, 3e4, 1])):
        for scale in (1.0, 1e-60, 1e60):
            vertices, faces = mesh.vertices * stretch * scale, mesh.faces
            tree = bvh.BVH.from_triangles(vertices, faces)
            there = tree.to(DEVICE)
            o, d = rays_at(vertices, faces, n, rng)
            t_min = np.where(rng.random(len(o)) < 0.5, 0.0, -0.5)
            for options in ({}, {"cull": "back"}, {"t_min": t_min, "t_max": 1.0}):
                hits = there.closest_hit(o, d, **options)
                undecided, total = undecided + there.undecided, total + len(o)
                assert_same(hits, tree.closest_hit(o, d, **options))
                assert_same(there.any_hit(o, d, **options), tree.any_hit(o, d, **options))
    print(f"{undecided} of {total} rays left to the CPU")


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
def test_registers(tmp_path: Path) -> None:
    """No kernel takes more registers, stack and spills of a GPU than its limits say."""
    kernels = [search.search_kernel(size) for size in (32, 98)]
    kernels += [kernel for kernel, _ in (*decide.BY_DOUBLES, *decide.BY_SUMS)]
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
