"""Lines of sight on a device: the same as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import trimesh
import warp as wp

import bvh
from bvh.devices import transfers
from tests.oracles.devices import DEVICE, assert_same

pytestmark = pytest.mark.answers


def targets() -> list[Any]:
    """Return a tree, and a scene with it and a mirrored and sheared copy."""
    tree = bvh.BVH.from_mesh(trimesh.creation.icosphere(2))
    scene, moved = bvh.Scene(), np.diag([1.5, -0.5, 1.0, 1.0])
    moved[:3, 3], moved[0, 1] = [2.0, 0.5, 0.0], 0.3
    scene.add_many(tree, [np.eye(4), moved])
    scene.set_mask(1, 2)
    return [tree, scene]


def hostile_points(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return points near and on a ball of radius 1, of extreme sizes, and that are not finite."""
    rows = rng.normal(size=(n, 3)) * 2.0
    ball = trimesh.creation.icosphere(2)
    rows[: n // 4] = ball.vertices[rng.integers(0, len(ball.vertices), n // 4)]
    rows[n // 2 : n // 2 + 8] *= 10.0 ** rng.uniform(-300, 300, (8, 3))
    rows[-4:, 1] = np.nan, np.inf, -np.inf, 1.7e308
    return rows


@pytest.mark.parametrize("host", targets(), ids=["tree", "scene"])
def test_hostile_lines(
    host: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs of any points, equal ones too, all from one and all to one; in chunks; other arrays."""
    there, (p, q) = host.to(DEVICE), hostile_points(rng, 600).reshape(2, 300, 3)
    q[::9] = p[::9]
    masks = rng.integers(0, 4, 300)
    monkeypatch.setattr(transfers, "CHUNK", 128)
    seen = set()
    for ends in ((p, q), (p[0], q), (p, q[3]), (p[:, None][:20], q[:15]), (p[1], q[1])):
        for options in ({}, {"margin": 0.0}, {"margin": 0.1, "cull": "back"}):
            wanted = host.visible(*ends, **options)
            assert_same(there.visible(*ends, **options), wanted, "visible")
            seen |= set(np.ravel(wanted).tolist())
    assert seen == {False, True}
    assert_same(there.visible(p, q, mask=masks), host.visible(p, q, mask=masks), "visible")
    a, b = (wp.array(rows, dtype=wp.vec3d, device=DEVICE) for rows in (p, q))
    assert_same(there.visible(a, b).numpy(), host.visible(p, q), "visible")
    assert_same(there.visible(a, [0.0, 0.0, 5.0]).numpy(), host.visible(p, [0.0, 0.0, 5.0]), "one")


def test_refused() -> None:
    """Arguments are named as by `BVH.visible`."""
    host = targets()[0]
    there = host.to(DEVICE)
    for p, q, options in (
        ([[0, 0]], [[0, 0, 0]], {}), ([[0, 0, 0]], [0, 0], {}),
        ([0, 0, 0], [0, 0, 1], {"margin": -1}),
        (np.zeros((2, 3)), np.zeros((3, 3)), {}), ([0, 0, 0], [0, 0, 1], {"margin": [0, 1]}),
    ):  # fmt: skip
        with pytest.raises(ValueError) as wanted:
            host.visible(p, q, **options)
        with pytest.raises(ValueError) as found:
            there.visible(p, q, **options)
        assert str(found.value) == str(wanted.value)
