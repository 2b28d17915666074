"""Inside or outside by parity: whatever the point is near to, and on the surface itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from meshes.hostile import needle_prism
from meshes.sphere import geodesic_sphere
from tests.cases import aims
from tests.cases.family_parts import cube


def test_lattice_of_a_cube() -> None:
    """Points on faces, edges and corners are inside, and so are all within."""
    tree = bvh.BVH.from_triangles(*cube(1.0))
    axis = np.arange(-2.0, 2.25, 0.25)
    points = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1)
    assert np.array_equal(tree.contains(points), (np.abs(points) <= 1.0).all(axis=-1))
    near = np.nextafter(1.0, 2.0), np.nextafter(1.0, 0.0)
    assert tree.contains([[near[0], 0.5, 0.5], [near[1], 0.5, 0.5]]).tolist() == [False, True]


@pytest.mark.parametrize("quality", ["medium", "high"])
@pytest.mark.parametrize("offset", [(0.0, 0.0, 0.0), (1e7, -2e7, 3e7)])
def test_beside_every_feature(
    quality: str, offset: tuple[float, float, float], rng: np.random.Generator
) -> None:
    """A little within and a little without every vertex and edge of a convex mesh."""
    vertices, faces = geodesic_sphere(8, offset=offset)
    tree = bvh.BVH.from_triangles(vertices, faces, quality=quality)
    center = np.asarray(offset)
    arms = aims.features(vertices, faces, rng) - center
    step = 1e-9 if offset[0] == 0.0 else 1e-6
    assert np.all(tree.contains(center + arms * (1.0 - step)))
    assert not np.any(tree.contains(center + arms * (1.0 + step)))
    assert np.all(tree.contains(vertices))


def test_strange_points() -> None:
    """Far, not finite, none; and a mesh of nothing."""
    tree = bvh.BVH.from_triangles(*needle_prism())
    points = np.array([[1e300, 0, 0], [np.nan, 0, 0], [np.inf, 0, 0], [0, -1e-300, 1e200]])
    assert not tree.contains(points).any()
    calls: list[tuple[int, int]] = []
    none = tree.contains(np.zeros((0, 3)), progress=lambda *call: calls.append(call))
    assert (none.shape, calls) == ((0,), [(0, 0)])
    nothing = bvh.BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    assert nothing.contains([0.0, 0.0, 0.0]) is False


def test_a_hole_in_the_middle() -> None:
    """A shell: its inside is outside again, however its faces are turned."""
    outer, faces = geodesic_sphere(6)
    for inner_faces in (faces, faces[:, ::-1]):
        tree = bvh.BVH.from_triangles(
            np.vstack([outer, 0.5 * outer]), np.vstack([faces, inner_faces + len(outer)])
        )
        assert tree.contains([[0.0, 0, 0], [0.7, 0, 0], [1.5, 0, 0]]).tolist() == [
            False, True, False
        ]  # fmt: skip


def solid_angles(vertices: Any, faces: Any, points: Any) -> Any:
    """Return how often a surface winds around points: face by face, by van Oosterom, Strackee."""
    a, b, c = np.moveaxis(vertices[faces][:, :, None] - points, 1, 0)
    x, y, z = (np.linalg.norm(side, axis=-1) for side in (a, b, c))
    volume = (a * np.cross(b, c)).sum(axis=-1)
    dots = (a * b).sum(axis=-1) * z + (b * c).sum(axis=-1) * x + (c * a).sum(axis=-1) * y
    return 2.0 * np.arctan2(volume, x * y * z + dots).sum(axis=0) / (4.0 * np.pi)


@pytest.mark.parametrize("in_scene", [False, True])
def test_signs_by_winding_numbers(in_scene: bool, rng: np.random.Generator) -> None:
    """As the solid angles of all faces decide, of meshes with holes, turned faces and masks."""
    vertices, faces = geodesic_sphere(6)
    points = rng.uniform(-1.3, 1.3, (400, 3))
    holed: Any = faces[rng.random(len(faces)) < 0.9]
    for mask in (None, 2):
        bits = None if mask is None else np.where(rng.random(len(holed)) < 0.1, 1, 3)
        target: Any = bvh.BVH.from_triangles(vertices, holed, groups=bits)
        counted, shown = holed if bits is None else holed[bits == 3], vertices
        if in_scene:
            # Reflected: its faces are turned back.
            tree, target, flip = target, bvh.Scene(), np.diag([-1.0, 1.0, 1.0, 1.0])
            target.add(tree, flip)
            shown, counted = vertices * [-1.0, 1.0, 1.0], counted[:, ::-1]
        wound = solid_angles(shown, counted, points)
        clear = np.abs(wound - 0.5) > 1e-3
        signed = target.signed_distance(points, method="winding", mask=mask)
        assert np.array_equal(signed[clear] < 0.0, wound[clear] > 0.5) and clear.sum() > 380
        assert np.array_equal(np.abs(signed), target.distance(points, mask=mask))
        assert 20 < np.count_nonzero(signed < 0.0) < 380
        parity = target.signed_distance(points, mask=mask)
        assert np.count_nonzero(parity != signed) > 0
        one = target.signed_distance(points[0], method="winding", mask=mask)
        assert type(one) is float and one == signed[0]
        on_it = target.signed_distance(shown[counted[:5, 0]], method="winding", mask=mask)
        assert (on_it == 0.0).all()
    whole = bvh.BVH.from_triangles(vertices, faces)
    strange = [[np.nan, 0, 0], [np.inf, 0, 0], [0, 0, 0], [9, 9, 9]]
    for method in ("parity", "winding"):
        signed = whole.signed_distance(strange, method=method)
        assert signed[:2].tolist() == [np.inf, np.inf] and signed[2] < 0.0 < signed[3]
        assert np.array_equal(
            whole.signed_distance(points, method=method), whole.signed_distance(points)
        )
    for bad in ("guess", None, 1, ["parity"]):
        with pytest.raises(ValueError, match="method must be 'parity' or 'winding'"):
            whole.signed_distance(points, method=bad)  # type: ignore[arg-type]


@pytest.mark.slow
def test_parity_of_three_hundred_thousand_rays(rng: np.random.Generator) -> None:
    """Rays at every feature: an odd number from inside, an even one from outside, 0 wrong."""
    vertices, faces = geodesic_sphere(32)
    for scale in ((1.0, 1.0, 1.0), (1.0, 1e-3, 1e-6)):
        for quality in ("medium", "high"):
            tree = bvh.BVH.from_triangles(vertices * scale, faces, quality=quality)
            targets = aims.features(vertices * scale, faces, rng)
            for origin in np.array([[0.0, 0, 0], [0.3, 0.2, 0.1], [3, -2, 1], [0.5, 4, 9]]):
                counts = tree.count_hits(origin * scale, targets - origin * scale)
                inside = np.linalg.norm(origin) < 1.0
                assert np.count_nonzero(counts % 2 != inside) == 0


@pytest.mark.slow
def test_a_hundred_thousand_points_beside_features(rng: np.random.Generator) -> None:
    """1e-9 of the size within and without every vertex and edge: 0 wrong, signs included."""
    vertices, faces = geodesic_sphere(32)
    tree = bvh.BVH.from_triangles(vertices, faces)
    targets = aims.features(vertices, faces, rng)
    for step, parity in ((-1e-9, True), (1e-9, False)):
        points = targets * (1.0 + step)
        assert np.all(tree.contains(points) == parity)
        assert np.all((tree.signed_distance(points) < 0.0) == parity)
