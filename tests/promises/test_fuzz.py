"""Long fuzzing in two worlds: families of hostile shapes with fresh seeds, and pure noise.

BVH_FUZZ_SEED starts it, BVH_FUZZ_SECONDS bounds it (60 by default); a failure prints its seed.
"""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

import bvh
from tests.cases.families import FAMILIES, build
from tests.oracles import brute
from tests.promises.test_exactness import assert_exact

SECONDS = float(os.environ.get("BVH_FUZZ_SECONDS", "60"))

pytestmark = pytest.mark.slow


def test_families_with_fresh_seeds(rng: np.random.Generator) -> None:
    """Every family again and again, each time with other numbers."""
    end = time.monotonic() + SECONDS / 2
    names = list(FAMILIES)
    runs = 0
    while time.monotonic() < end:
        name, seed = names[runs % len(names)], int(rng.integers(2**31))
        try:
            assert_exact(build(name, seed))
        except AssertionError as error:
            raise AssertionError(f"family {name}, seed {seed}: {error}") from error
        runs += 1
    print(f"{runs} families")


def test_lattice_world(rng: np.random.Generator) -> None:
    """Integer triangles and integer rays, where every second hit is on an edge."""
    end = time.monotonic() + SECONDS / 4
    while time.monotonic() < end:
        size = int(rng.integers(1, 9))
        vertices = rng.integers(-size, size + 1, (int(rng.integers(3, 200)), 3)).astype(float)
        faces = rng.integers(0, len(vertices), (int(rng.integers(1, 300)), 3))
        o = rng.integers(-2 * size, 2 * size + 1, (2_000, 3)).astype(float)
        d = rng.integers(-2, 3, (2_000, 3)).astype(float)
        assert_brute(vertices, faces, o, d)


def test_chaos_world(rng: np.random.Generator) -> None:
    """Coordinates of all sizes, NaN and inf among them: nothing crashes, brute force agrees."""
    end = time.monotonic() + SECONDS / 4
    while time.monotonic() < end:
        span = int(rng.choice([3, 30, 150, 307]))

        def noise(*shape: int, span: int = span) -> np.ndarray:
            x = rng.normal(size=shape) * 10.0 ** rng.integers(-span, span + 1, shape)
            odd = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.0], shape)
            return np.where(rng.random(shape) < 0.02, odd, x)

        vertices = noise(int(rng.integers(3, 100)), 3)
        faces = rng.integers(0, len(vertices), (int(rng.integers(1, 100)), 3))
        with np.errstate(all="ignore"):
            assert_brute(vertices, faces, noise(500, 3), noise(500, 3))


def assert_brute(vertices: np.ndarray, faces: np.ndarray, o: np.ndarray, d: np.ndarray) -> None:
    """Compare a tree with brute force over the same leaf test."""
    tree = bvh.BVH.from_triangles(vertices, faces)
    tree.validate()
    for low, high in ((0.0, np.inf), (-np.inf, np.inf), (0.5, 2.0)):
        hits = tree.closest_hit(o, d, low, high)
        t, prim = brute.closest_hit(tree, o, d, low, high)
        assert np.array_equal(hits.prim_id, prim)
        assert np.array_equal(hits.t, t)
        assert np.array_equal(tree.any_hit(o, d, low, high), hits.mask)
