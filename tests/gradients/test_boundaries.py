"""Gradients of winding numbers: against differences of decimal numbers, and in both libraries."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.gradients import boundaries, formulas
from bvh.queries.batches.winding import boundary_for
from bvh.tree.boundary import edges_of
from tests.cases.families import cube, sphere
from tests.oracles.solid_angles import winding_number

Array = np.ndarray
NUMPY = formulas.ArrayLibrary(
    np, lambda x: x, lambda x, axes: formulas.zero_unless_finite(np, x, axes), lambda: False
)


def opened(rng: np.random.Generator) -> tuple[Array, Array]:
    """Return a cube without three of its faces, bent."""
    vertices, faces = cube(1.0)
    return vertices + rng.uniform(-0.2, 0.2, vertices.shape), np.delete(faces, [1, 4, 5], axis=0)


def slopes_of(tree: bvh.BVH, points: Array, numbers: Array) -> Array:
    """Return the gradients by points, by the boundary as `bvh.torch` has it."""
    with np.errstate(all="ignore"):
        return boundaries.pull_winding(
            NUMPY, points, boundary_edges(tree), numbers, (np.ones(len(points)),)
        )[0]


def boundary_edges(tree: bvh.BVH) -> Array:
    """Return the ends of the directed open edges, (n, 2, 3)."""
    return edges_of(boundary_for(tree, -1))


def difference(vertices: Array, faces: Array, point: Array, axis: int) -> float:
    """Return the derivative by a coordinate, of decimal numbers one 1e-15 apart."""
    # The oracle takes doubles: steps are powers of two that change nothing else.
    with localcontext() as context:
        context.prec = 60
        step = 2.0**-24
        far, near = (
            [winding_number(vertices, faces, point + k * step * np.eye(3)[axis]) for k in (h, -h)]
            for h in (2, 1)
        )
        slopes = [
            (Decimal(a) - Decimal(b)) / (Decimal(2 * h) * Decimal(step))
            for h, (a, b) in ((2, far), (1, near))
        ]
        # Richardson: without the error of second order.
        return float((4 * slopes[1] - slopes[0]) / 3)


def test_slopes_against_decimals(rng: np.random.Generator) -> None:
    """Of points anywhere, near an open edge, and far away."""
    vertices, faces = opened(rng)
    tree = bvh.BVH.from_triangles(vertices, faces)
    points = np.round(rng.uniform(-2.0, 2.0, (8, 3)) * 1024.0) / 1024.0
    edge = tree.open_edges()[0]
    points[0] = np.round(vertices[edge].mean(axis=0) * 64.0) / 64.0
    points[1] *= 64.0
    found = slopes_of(tree, points, np.zeros(len(points)))
    for k, point in enumerate(points):
        wanted = [difference(vertices, faces, point, axis) for axis in range(3)]
        size = np.linalg.norm(wanted)
        assert size > 0.0
        np.testing.assert_allclose(found[k], wanted, rtol=1e-9, atol=1e-9 * size)


def test_soups_and_closed_meshes(rng: np.random.Generator) -> None:
    """0 of closed meshes; of faces with vertices of their own as of one mesh; 0 on edges."""
    vertices, faces = sphere()
    points = rng.uniform(-2.0, 2.0, (20, 3))
    tree = bvh.BVH.from_triangles(vertices, faces)
    assert not slopes_of(tree, points, np.zeros(20)).any()
    whole = bvh.BVH.from_triangles(vertices, faces[7:])
    corners = vertices[faces[7:]].reshape(-1, 3)
    soup = bvh.BVH.from_triangles(corners, np.arange(len(corners)).reshape(-1, 3))
    one, other = (slopes_of(each, points, np.zeros(20)) for each in (whole, soup))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    assert one.any(axis=1).all()
    edge = whole.open_edges()[0]
    special = np.array([vertices[edge[0]], [np.nan, 0, 0], [1e150] * 3, [1e-150] * 3])
    numbers = np.array([0.0, np.nan, 0.0, 0.0])
    found = slopes_of(whole, special, numbers)
    assert np.isfinite(found).all() and not found[1].any()


@pytest.mark.parametrize("scale", [1e-100, 1e-40, 1.0, 1e40, 1e100])
def test_scales(scale: float, rng: np.random.Generator) -> None:
    """Gradients are inverse to lengths."""
    vertices, faces = opened(rng)
    points = rng.uniform(-2.0, 2.0, (8, 3))
    plain = slopes_of(bvh.BVH.from_triangles(vertices, faces), points, np.zeros(8))
    large = bvh.BVH.from_triangles(vertices * scale, faces)
    found = slopes_of(large, points * scale, np.zeros(8)) * scale
    np.testing.assert_allclose(found, plain, rtol=1e-12)


def test_forward_is_the_transpose(rng: np.random.Generator) -> None:
    """Pushed and pulled, the same linear map."""
    vertices, faces = opened(rng)
    tree = bvh.BVH.from_triangles(vertices, faces)
    ends, points = boundary_edges(tree), rng.uniform(-2.0, 2.0, (5, 3))
    moves, moved, slopes = rng.normal(size=points.shape), rng.normal(size=ends.shape), np.ones(5)
    (pushed,) = boundaries.push_winding(NUMPY, points, ends, slopes, (moves, moved))
    by_points, by_ends = boundaries.pull_winding(NUMPY, points, ends, slopes, (slopes,))
    total = (by_points * moves).sum() + (by_ends * moved).sum()
    np.testing.assert_allclose(pushed.sum(), total, rtol=1e-12)


def test_torch(rng: np.random.Generator) -> None:
    """Values bit for bit; gradients of gradients; vertices; `vmap`; masks and errors."""
    torch = pytest.importorskip("torch")
    import bvh.torch as diff

    vertices, faces = opened(rng)
    tree = bvh.BVH.from_triangles(vertices, faces, groups=np.arange(len(faces)) % 2 + 1)
    points = rng.uniform(-1.5, 1.5, (2, 4, 3))
    given: Any = [torch.tensor(x, requires_grad=True) for x in (points, vertices)]

    def numbers(p: Any, v: Any = None) -> Any:
        if v is not None:
            tree.refit(v.detach().numpy())
        return diff.winding_number(tree, p, v)

    found = numbers(*given)
    np.testing.assert_array_equal(found.detach(), tree.winding_number(points))
    assert torch.autograd.gradcheck(numbers, given, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(numbers, given)
    assert torch.autograd.gradcheck(numbers, given[:1])
    (one,) = torch.autograd.grad(numbers(given[0]).sum(), given[0])
    (two,) = torch.autograd.grad(numbers(*given).sum(), given[0])
    np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-13)
    rows = torch.func.vmap(torch.func.grad(numbers))(given[0].detach().reshape(-1, 3))
    np.testing.assert_allclose(rows, one.reshape(-1, 3), rtol=1e-12, atol=1e-14)
    masked = diff.winding_number(tree, given[0], mask=1)
    np.testing.assert_array_equal(masked.detach(), tree.winding_number(points, mask=1))
    for query in (given[0], [0.1, 0.2, 0.3]):
        assert diff.winding_number(tree, query).shape == np.shape(query)[:-1]
    with pytest.raises(ValueError, match="the shape of the tree's"):
        diff.winding_number(tree, given[0], vertices[1:])
    with pytest.raises(ValueError, match=r"call tree\.refit with them first"):
        diff.winding_number(tree, given[0], vertices + 1.0)
    with pytest.raises(TypeError, match="winding_number needs a BVH over triangles"):
        diff.winding_number(bvh.BVH.from_spheres([[0, 0, 0]], 1.0), given[0])
    closed = bvh.BVH.from_triangles(*cube(1.0))
    inside = torch.zeros(3, requires_grad=True)
    number = diff.winding_number(closed, inside)
    assert number == 1.0
    number.backward()
    assert not inside.grad.any()


def test_jax(rng: np.random.Generator) -> None:
    """The same derivatives as by numpy, compiled and in batches; of a refitted tree."""
    jax = pytest.importorskip("jax")
    import bvh.jax as diff

    jax.config.update("jax_enable_x64", True)
    vertices, faces = opened(rng)
    tree = bvh.BVH.from_triangles(vertices, faces)
    points = rng.uniform(-1.5, 1.5, (6, 3))

    def number(p: Any, v: Any = None) -> Any:
        return diff.winding_number(tree, p, v)

    values = diff.winding_number(tree, points)
    np.testing.assert_array_equal(values, tree.winding_number(points))
    slope = jax.jit(jax.vmap(jax.grad(number)))
    np.testing.assert_allclose(slope(points), slopes_of(tree, points, np.zeros(6)), rtol=1e-12)
    forward = jax.vmap(jax.jacfwd(number))(points)
    np.testing.assert_allclose(forward, slope(points), rtol=1e-12)
    bent = np.asarray(jax.hessian(number)(points[0]))
    assert abs(np.trace(bent)) < 1e-12 * np.abs(bent).max()  # harmonic
    by_point, by_vertices = jax.grad(number, (0, 1))(points[0], vertices)
    # Nothing changes where all is moved.
    np.testing.assert_allclose(by_vertices.sum(axis=0), -by_point, rtol=1e-10, atol=1e-13)
    tree.refit(vertices + 0.1)
    np.testing.assert_allclose(slope(points), slopes_of(tree, points, np.zeros(6)), rtol=1e-12)
