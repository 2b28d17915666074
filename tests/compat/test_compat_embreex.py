"""embreex's interface on our tree beside embreex itself, and what embreex's own tests ask."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import trimesh

from bvh.compat.embreex import mesh_construction, rtcore, rtcore_scene

CUBE = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 1], [0, 0, 1]], "f4"
)
KEYS = ["u", "v", "Ng", "tfar", "primID", "geomID"]


def plane(x: float) -> np.ndarray:
    """Return two triangles across the x axis."""
    low, high = [x, -1.0, -1.0], [x, 1.0, 1.0]
    side, up = [x, 1.0, -1.0], [x, -1.0, 1.0]
    return np.array([[low, side, up], [side, high, up]], "f4")


def rays() -> tuple[np.ndarray, np.ndarray]:
    """Return three rays that hit a plane and one that misses."""
    origins, ways = np.zeros((4, 3), "f4"), np.zeros((4, 3), "f4")
    origins[:, 0], origins[:, 1], ways[:, 0] = 0.1, [-0.2, 0.2, 0.3, -8.2], 1.0
    return origins, ways


def test_triangles() -> None:
    """Ids, distances, weights; flat arrays and indices; occlusion; a scene of several meshes."""
    origins, ways = rays()
    points = np.array([[7, -1, -1], [7, 1, -1], [7, -1, 1], [7, 1, 1]], "f4")
    for given in ((plane(7.0),), (points, np.array([[0, 1, 2], [1, 3, 2]], "u4"))):
        scene = rtcore_scene.EmbreeScene(rtcore.EmbreeDevice())
        assert mesh_construction.TriangleMesh(scene, *given).mesh == 0
        assert scene.is_committed == 0
        assert scene.run(origins, ways).tolist() == [0, 1, 1, -1]
        assert scene.is_committed == 1
        assert np.allclose(scene.run(origins, ways, query="DISTANCE"), [6.9, 6.9, 6.9, 1e37])
        found = scene.run(origins, ways, output=1, dists=100)
        assert list(found) == KEYS
        assert found["geomID"].tolist() == [0, 0, 0, -1]
        assert np.allclose(found["tfar"], [6.9, 6.9, 6.9, 100])
        assert np.allclose(found["u"][:3], [0.4, 0.1, 0.15])
        assert np.allclose(found["v"][:3], [0.5, 0.4, 0.35])
        assert scene.run(origins, ways, query="OCCLUDED").tolist() == [0, 0, 0, -1]
    mesh_construction.TriangleMesh(scene, plane(3.0))
    found = scene.run(origins, ways, output=True)
    assert found["geomID"].tolist() == [1, 1, 1, -1]
    assert found["primID"].tolist() == [0, 1, 1, -1]
    with pytest.raises(ValueError, match="query must be"):
        scene.run(origins, ways, query="NEAREST")


def test_elements() -> None:
    """The triangles around tetrahedra and hexahedra, as embreex's tests have them."""
    cases: list[tuple[np.ndarray, list[list[float]], list[int], list[float], list[float]]] = [
        (np.eye(4, 3, -1, "f4"), [[-0.1, 0.1, 0.1], [-0.1, 0.2, 0.2]], [2, 2], [0.1, 0.2],
         [0.1, 0.2]),
        (CUBE, [[-0.1, 0.9, 0.1], [-0.1, 0.8, 0.2]], [10, 10], [0.1, 0.2], [0.8, 0.6]),
    ]  # fmt: skip
    for vertices, origins, prims, u, v in cases:
        scene = rtcore_scene.EmbreeScene()
        mesh_construction.ElementMesh(scene, vertices, np.arange(len(vertices))[None])
        found = scene.run(np.array(origins, "f4"), np.array([[1, 0, 0]], "f4"), output=1)
        assert found["primID"].tolist() == prims
        assert np.allclose(found["tfar"], 0.1)
        assert np.allclose(found["u"], u)
        assert np.allclose(found["v"], v)
    with pytest.raises(NotImplementedError):
        mesh_construction.ElementMesh(scene, CUBE, np.zeros((1, 5), int))


def test_an_empty_scene() -> None:
    """Every ray misses."""
    origins, ways = rays()
    scene = rtcore_scene.EmbreeScene()
    assert scene.run(origins, ways).tolist() == [-1] * 4
    assert scene.run(origins, ways, output=1)["Ng"].tolist() == [[0.0] * 3] * 4


def test_beside_embreex(rng: np.random.Generator) -> None:
    """The same arrays, types and misses; faces differ where float32 is wrong."""
    theirs_scene = pytest.importorskip("embreex.rtcore_scene")
    theirs_mesh = pytest.importorskip("embreex.mesh_construction")
    ball = trimesh.creation.icosphere(4)
    vertices = (ball.vertices + [0.1, 0.2, 0.3]).astype("f4")
    pair: list[Any] = []
    for scene_of, mesh_of in ((theirs_scene, theirs_mesh), (rtcore_scene, mesh_construction)):
        scene = scene_of.EmbreeScene()
        mesh_of.TriangleMesh(scene, vertices, ball.faces.astype("i4"))
        mesh_of.TriangleMesh(scene, (vertices * 2.0)[ball.faces])
        mesh_of.ElementMesh(scene, CUBE, np.arange(8, dtype="i4")[None])
        pair.append(scene)
    origins = rng.normal(size=(5000, 3)).astype("f4") * 2
    ways = rng.normal(size=(5000, 3)).astype("f4")
    limits = rng.random(5000).astype("f4") * 4
    for dists in (None, 2.5, limits):
        for query in ("INTERSECT", "OCCLUDED", "DISTANCE"):
            a, b = (scene.run(origins, ways, None if dists is None else np.copy(dists) if
                              isinstance(dists, np.ndarray) else dists, query=query)
                    for scene in pair)  # fmt: skip
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            differ = ~np.isclose(a, b, rtol=1e-4, atol=1e-5)
            assert differ.sum() <= 4
        a, b = (scene.run(origins, ways, None if dists is None else np.copy(dists) if
                          isinstance(dists, np.ndarray) else dists, output=True)
                for scene in pair)  # fmt: skip
        same = (a["primID"] == b["primID"]) & (a["geomID"] == b["geomID"])
        assert same.mean() > 0.999
        for key in KEYS:
            assert (a[key].dtype, a[key].shape) == (b[key].dtype, b[key].shape), key
            assert np.allclose(a[key][same], b[key][same], rtol=1e-3, atol=1e-3), key


PROGRAM = """
from bvh.compat import embreex as ours
ours.stand_in()
import embreex, numpy as np
from embreex import rtcore_scene as rtcs
from pyembree.mesh_construction import TriangleMesh
assert embreex is ours
scene = rtcs.EmbreeScene()
TriangleMesh(scene, np.eye(3, dtype="f4")[None])
print(scene.run(np.full((1, 3), 5, "f4"), np.full((1, 3), -1, "f4")).tolist())
"""


def test_stand_in() -> None:
    """A program that imports embreex or pyembree finds ours."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0]"
