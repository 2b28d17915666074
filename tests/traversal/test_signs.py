"""Which side of a surface points are on: signed distances, containment, winding numbers."""

from __future__ import annotations

import hashlib
import pickle
import threading

import numpy as np
import pytest

import bvh
from bvh.runtime.calls.entries import entry
from bvh.runtime.simd import load, store
from bvh.traversal.points.boundary_angles import angles
from bvh.tree.winding_moments import LANES
from meshes.cad_part import cad_part
from meshes.organic import organic
from meshes.sphere import geodesic_sphere
from tests.cases.soups import soup
from tests.oracles import rays as oracle

TETRAHEDRON = (
    np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]),
)


def spike() -> tuple[np.ndarray, np.ndarray]:
    """Return a needle of a tetrahedron: normals of its faces mislead at its tip and edges."""
    vertices = np.array([[0.0, 0.0, 0.0], [0.02, 0.0, 0.0], [0.0, 0.02, 0.0], [0.5, 0.5, 1.0]])
    return vertices, TETRAHEDRON[1]


def star(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return a sphere with deep dents and sharp tips."""
    vertices, faces = organic(4)
    return np.asarray(vertices) * rng.uniform(0.3, 1.5, (len(vertices), 1)), np.asarray(faces)


CLOSED = {
    "tetrahedron": lambda rng: TETRAHEDRON,
    "spike": lambda rng: spike(),
    "star": star,
    "part": lambda rng: cad_part(24),
}


def truly_inside(
    vertices: np.ndarray, faces: np.ndarray, points: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Count exactly how often a random ray from each point crosses a closed surface."""
    hits = oracle.all_hits(vertices, faces, points, rng.normal(size=points.shape))
    return np.bincount(hits.ray_id, minlength=len(points)) % 2 == 1


def points_beside(
    vertices: np.ndarray, faces: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Return points next to corners, edges and faces, and anywhere in the box."""
    size = np.ptp(vertices, axis=0).max()
    weights = rng.dirichlet(np.ones(3), 3 * n)
    weights[:n, 1:] = 0.0
    weights[n : 2 * n, 2] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    corners = vertices[faces[rng.integers(0, len(faces), 3 * n)]]
    on = np.einsum("nk,nkx->nx", weights, corners)
    near = on + rng.normal(size=on.shape) * size * rng.choice([1e-9, 1e-4, 1e-2, 0.1], (3 * n, 1))
    return np.concatenate([near, rng.uniform(vertices.min(0), vertices.max(0), (n, 3))])


@pytest.mark.parametrize("name", CLOSED)
def test_signs(name: str, rng: np.random.Generator) -> None:
    """The sign is right wherever the nearest point lies, and the size is the distance."""
    vertices, faces = CLOSED[name](rng)
    points = points_beside(vertices, faces, 60, rng)
    inside = truly_inside(vertices, faces, points, rng)
    for order in (slice(None), slice(None, None, -1)):
        # Turned around, the same surface has the same inside.
        tree = bvh.BVH.from_triangles(vertices, np.asarray(faces)[:, order])
        signed = tree.signed_distance(points)
        assert np.array_equal(np.abs(signed), tree.distance(points))
        assert np.array_equal(signed < 0, inside & (signed != 0))
        assert np.array_equal(tree.contains(points), inside | (signed == 0))


def test_on_the_surface() -> None:
    """Points of the surface have 0.0, without a sign, and are inside."""
    tree = bvh.BVH.from_triangles(*TETRAHEDRON)
    points = np.array([[0, 0, 0], [1, 0, 0], [0.5, 0, 0], [0.25, 0.25, 0], [0.5, 0.25, 0.25]])
    signed = tree.signed_distance(points)
    assert (signed == 0).all()
    assert not np.signbit(signed).any()
    assert tree.contains(points).all()


def test_shapes_and_bad_points() -> None:
    """Scalars for a point; a point that is nowhere is outside, and nobody else minds."""
    tree = bvh.BVH.from_triangles(*TETRAHEDRON)
    assert type(tree.signed_distance([0.1, 0.1, 0.1])) is float
    for method in ("parity", "winding"):
        assert tree.contains([0.1, 0.1, 0.1], method=method) is True
        points = np.array([[[0.1, 0.1, 0.1], [np.nan, 0, 0]], [[2, 2, 2], [np.inf, 0, 0]]])
        found = tree.contains(points, method=method)
        assert found.dtype == bool
        assert found.tolist() == [[True, False], [False, False]]
        assert tree.contains(np.empty((0, 3)), method=method).shape == (0,)
    assert np.isinf(tree.signed_distance(points)[:, 1]).all()
    assert np.isnan(tree.winding_number(points)[:, 1]).all()
    with pytest.raises(ValueError, match="method must be 'parity' or 'winding', got 'odd'"):
        tree.contains([0, 0, 0], method="odd")
    with pytest.raises(ValueError, match="accuracy must be at least 1"):
        tree.winding_number([0, 0, 0], 0.5)
    with pytest.raises(ValueError, match="accuracy must be at least 1"):
        tree.winding_number([0, 0, 0], np.nan)
    with pytest.raises(TypeError, match="accuracy must be a number"):
        tree.winding_number([0, 0, 0], "high")


def solid_angles(vertices: np.ndarray, faces: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return winding numbers as sums over all faces, one arc tangent each."""
    found = []
    for p in points:
        a, b, c = np.moveaxis(vertices[faces] - p, 1, 0)
        x, y, z = (np.linalg.norm(side, axis=1) for side in (a, b, c))
        dots = (a * b).sum(1) * z + (b * c).sum(1) * x + (c * a).sum(1) * y
        angle = np.arctan2(np.einsum("ij,ij->i", a, np.cross(b, c)), x * y * z + dots)
        found.append(angle.sum() / (2 * np.pi))
    return np.array(found)


@pytest.mark.parametrize("quality", ["medium", "high"])
@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e140])
def test_winding_numbers(quality: str, scale: float, rng: np.random.Generator) -> None:
    """As sums over all faces; those of a series are off by as much as they may."""
    for vertices, faces in (organic(8), soup(rng, 500)):
        vertices, faces = np.asarray(vertices), np.asarray(faces)
        open_faces = faces[: 2 * len(faces) // 3]
        size = np.ptp(vertices, axis=0).max()
        points = vertices.mean(0) + rng.uniform(-0.6, 0.6, (150, 3)) * size
        points[:20] += rng.normal(size=(20, 3)) * size * 50
        wanted = solid_angles(vertices, open_faces, points)
        tree = bvh.BVH.from_triangles(vertices * scale, open_faces, quality=quality)
        exact = tree.winding_number(points * scale, np.inf)
        assert np.allclose(exact, wanted, rtol=0, atol=1e-12)
        for accuracy, error in ((2.0, 1e-3), (4.0, 2e-5), (16.0, 1e-6), (1e3, 1e-6)):
            found = tree.winding_number(points * scale, accuracy)
            assert np.abs(found - wanted).max() < error


def test_winding_numbers_of_closed_meshes(rng: np.random.Generator) -> None:
    """Closed surfaces have integers, nested ones count twice, and holes do not matter much."""
    vertices, faces = np.asarray(organic(6)[0]), np.asarray(organic(6)[1])
    points = points_beside(vertices, faces, 100, rng)
    tree = bvh.BVH.from_triangles(vertices, faces)
    clear = points[tree.distance(points) > 0.0]
    assert np.array_equal(tree.winding_number(clear), tree.contains(clear))
    points = points[tree.distance(points) > 1e-3]
    inside = tree.contains(points)
    assert np.array_equal(tree.contains(points, method="winding"), inside)
    double = np.concatenate([vertices, vertices.mean(0) + 0.999 * (vertices - vertices.mean(0))])
    nested = bvh.BVH.from_triangles(double, np.concatenate([faces, faces + len(vertices)]))
    assert nested.winding_number(vertices.mean(0)) == 2.0
    holed = bvh.BVH.from_triangles(vertices, np.delete(faces, slice(None, None, 50), axis=0))
    far = tree.distance(points) > 0.2
    assert np.array_equal(holed.contains(points[far], method="winding"), inside[far])


def test_winding_numbers_next_to_a_centre() -> None:
    """A point that float32 cannot tell from the centre of the tree, or from that of a node."""
    vertices, faces = geodesic_sphere(8)
    # Without some of its faces, as a closed one has no series.
    faces = np.asarray(faces)[200:]
    points = np.zeros((400, 3))
    points[:, 0] = 10.0 ** np.linspace(-320, -1, 400)
    ball = bvh.BVH.from_triangles(vertices, faces)
    exact = ball.winding_number(points, np.inf)
    assert np.abs(ball.winding_number(points, 2.0) - exact).max() < 1e-3
    assert ball.contains(points, method="winding").all()
    # A small part of a large surface: its nodes are no further away than what rounding moves them.
    small, at = 1e-6 * vertices, np.array([0.3, 0.4, 0.5])
    both = np.concatenate([small + at, vertices + 10.0])
    tree = bvh.BVH.from_triangles(both, np.concatenate([faces, faces + len(small)]))
    for size in (1e-7, 3e-7, 9e-7, 1.2e-6, 2e-6, 5e-6):
        points = at + size * vertices
        error = tree.winding_number(points, 2.0) - tree.winding_number(points, np.inf)
        assert np.abs(error).max() < 0.04


def egg(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a ball that is nearly flat."""
    vertices, faces = geodesic_sphere(n)
    return np.asarray(vertices) * [1.0, 0.3, 0.05], np.asarray(faces)


def flat_sheet() -> tuple[np.ndarray, np.ndarray]:
    """Return a square of many faces, whose solid angles all have one sign."""
    x, y = (np.ravel(c) for c in np.meshgrid(np.linspace(-1, 1, 60), np.linspace(-1, 1, 60)))
    i = np.arange(59 * 60).reshape(59, 60)[:, :59].ravel()
    faces = np.concatenate([np.stack([i, i + 1, i + 60], 1), np.stack([i + 1, i + 61, i + 60], 1)])
    return np.stack([x, y, 0 * x], 1), faces


@pytest.mark.parametrize("name", ["ball", "egg", "part", "sheet", "small ball", "soup"])
def test_the_error_of_winding_numbers(name: str, rng: np.random.Generator) -> None:
    """Far and near, next to the surface and in the middle, on surfaces of any shape."""
    make = {
        "ball": lambda: geodesic_sphere(16),
        "egg": lambda: egg(24),
        "part": lambda: cad_part(24),
        "sheet": flat_sheet,
        "soup": lambda: soup(rng, 8000),
        "small ball": lambda: geodesic_sphere(4),
    }  # fmt: skip
    vertices, faces = (np.asarray(part) for part in make[name]())
    # With holes, as a closed surface has no series.
    faces = np.delete(faces, slice(None, None, 9), axis=0)
    size, middle = np.ptp(vertices, axis=0).max(), 0.5 * (vertices.min(0) + vertices.max(0))
    spread = size * 10.0 ** rng.uniform(-6, 0.5, (400, 1))
    points = np.concatenate([
        points_beside(vertices, faces, 100, rng), middle + spread * rng.normal(size=(400, 3))
    ])  # fmt: skip
    tree = bvh.BVH.from_triangles(vertices, faces)
    # On a face, a series may have the number of either side.
    points = points[tree.distance(points) > 0.0]
    wanted = tree.winding_number(points, np.inf)
    assert np.abs(tree.winding_number(points, 2.0) - wanted).max() < 1e-3
    assert np.abs(tree.winding_number(points, 4.0) - wanted).max() < 2e-5


def test_winding_numbers_are_the_same_everywhere() -> None:
    """Bit for bit: on every CPU and width of vectors, in trees of any quality, in any company."""
    rng = np.random.default_rng(13)
    # Nothing here but sums and products of random numbers, which are the same everywhere.
    centres = rng.random((3000, 1, 3))
    corners = centres + 0.05 * (rng.random((3000, 3, 3)) - 0.5)
    vertices, faces = corners.reshape(-1, 3), np.arange(9000).reshape(-1, 3)
    points = 1.5 * rng.random((500, 3)) - 0.25
    found = {}
    for quality in ("medium", "high"):
        tree = bvh.BVH.from_triangles(vertices, faces, quality=quality)
        found[quality] = [tree.winding_number(points, a) for a in (1.0, 2.0, 8.0, np.inf)]
    for numbers in found.values():
        assert all(np.array_equal(a, b) for a, b in zip(numbers, found["medium"], strict=True))
    some = rng.permutation(500)[:77]
    assert np.array_equal(
        tree.winding_number(points[some], np.inf, threads=2), found["high"][3][some]
    )
    moved = bvh.BVH.from_triangles(vertices[::-1].copy(), faces)
    moved.refit(vertices)
    assert np.array_equal(moved.winding_number(points, np.inf), found["medium"][3])
    digests = [hashlib.sha256(numbers.tobytes()).hexdigest()[:16] for numbers in found["medium"]]
    assert digests == [
        "7762c3911451c0ee", "569eee7116576874", "066cf307e7114d14", "f3e55a10b301efa2"
    ]  # fmt: skip


def test_angles(rng: np.random.Generator) -> None:
    """The arc tangent in lanes is good to two units in the last place."""
    x, y = rng.normal(size=(2, 4000)) * 10.0 ** rng.uniform(-3, 3, (2, 4000))
    x[:8] = [1, -1, 0, 0, 1, -1, -1, 1]
    y[:8] = [0, 0, 1, -1, 1, 1, -1, -1]
    found = np.empty(4000)
    _angles(x, y, found)
    assert np.all(np.abs(found - np.arctan2(y, x)) <= 2 * np.spacing(np.abs(found)))


@entry
def _angles(x, y, found):
    for at in range(0, len(x), LANES):
        store(found, at, angles(load(x, at, LANES), load(y, at, LANES)))


def test_terms_are_lazy_and_not_pickled(rng: np.random.Generator) -> None:
    """Terms are summed up when they are asked for, by any thread, and left out of pickles."""
    tree = bvh.BVH.from_triangles(*soup(rng, 2000))
    before = len(pickle.dumps(tree))
    points = rng.random((500, 3))
    found: list[np.ndarray] = []
    workers = [
        threading.Thread(target=lambda: found.append(tree.winding_number(points))) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    assert all(np.array_equal(numbers, found[0]) for numbers in found)
    blob = pickle.dumps(tree)
    assert len(blob) == before
    assert np.array_equal(pickle.loads(blob).winding_number(points, threads=2), found[0])
