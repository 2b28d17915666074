"""`bvh.torch`: closest points and distances, their values and derivatives; the examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.families import FAMILIES, build, cube, sphere

torch = pytest.importorskip("torch")

import bvh.torch as diff  # noqa: E402

Generator = np.random.Generator


def tensor(values: Any, **options: Any) -> Any:
    return torch.tensor(np.asarray(values), dtype=torch.float64, **options)


@pytest.mark.long
@pytest.mark.parametrize("name", list(FAMILIES)[::3])
def test_values_are_those_of_the_tree(name: str, seed: int) -> None:
    """Bit for bit, with gradients that are never NaN."""
    family = build(name, seed)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    points = tensor(family.origins, requires_grad=True)
    vertices = tensor(family.vertices, requires_grad=True)
    near = tree.closest_point(family.origins)
    found = diff.closest_point(tree, points, vertices)
    for field in ("distance", "prim_id", "u", "v", "position", "mask"):
        np.testing.assert_array_equal(getattr(found, field).detach().numpy(), getattr(near, field))
    np.testing.assert_array_equal(diff.distance(tree, points).detach(), near.distance)
    signed = diff.signed_distance(tree, points, vertices)
    np.testing.assert_array_equal(signed.detach(), tree.signed_distance(family.origins))
    (found.distance + found.position.sum(-1) + found.u + found.v + signed).sum().backward()
    assert not torch.isnan(points.grad).any() and not torch.isnan(vertices.grad).any()
    assert not points.grad[~found.mask].any()


@pytest.mark.parametrize("signed", [False, True])
def test_gradients_are_those_of_differences(signed: bool, rng: Generator) -> None:
    """Near faces, edges and vertices; also of gradients."""
    vertices, faces = cube(1.0)
    vertices = vertices + rng.uniform(-0.1, 0.1, vertices.shape)
    tree = bvh.BVH.from_triangles(vertices, faces)
    points = rng.choice([0.3, 2.0], (8, 3)) * rng.choice([-1.0, 1.0], (8, 3))
    points += rng.uniform(-0.05, 0.05, points.shape)

    def moved(p: Any, v: Any) -> Any:
        tree.refit(v.detach().numpy())
        if signed:
            return diff.signed_distance(tree, p, v)
        near = diff.closest_point(tree, p, v)
        return near.distance, near.position, near.u, near.v

    given = [tensor(x, requires_grad=True) for x in (points, vertices)]
    assert torch.autograd.gradcheck(moved, given, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(moved, given)


def test_on_the_surface() -> None:
    """A distance has no derivative there, a signed one has: the normal."""
    vertices, faces = cube(1.0)
    tree = bvh.BVH.from_triangles(vertices, faces)
    points = tensor([[1.0, 0.25, 0.125], [0.25, -1.0, 0.5], [1.0, 1.0, 1.0]], requires_grad=True)
    diff.distance(tree, points).sum().backward()
    assert not points.grad.any()
    values = diff.signed_distance(tree, points)
    assert not values.any()
    (slopes,) = torch.autograd.grad(values.sum(), points)
    np.testing.assert_array_equal(slopes[:2], [[1, 0, 0], [0, -1, 0]])
    assert float(slopes[2].norm()) == 1.0
    # As it is beside the surface, on both sides.
    beside = points.detach()[:2].repeat(2, 1) * tensor([[1.001], [1.001], [0.999], [0.999]])
    beside.requires_grad_()
    (again,) = torch.autograd.grad(diff.signed_distance(tree, beside).sum(), beside)
    np.testing.assert_allclose(again, np.tile(slopes[:2], (2, 1)), atol=1e-12)


def test_signs_by_winding_numbers(rng: Generator) -> None:
    """Of a mesh with a hole, as the tree has them, with the slopes of the distance."""
    vertices, faces = sphere()
    tree = bvh.BVH.from_triangles(vertices, faces[5:])
    points = tensor(rng.uniform(-1.5, 1.5, (50, 3)), requires_grad=True)
    signed = diff.signed_distance(tree, points, method="winding")
    wanted = tree.signed_distance(points.detach().numpy(), method="winding")
    np.testing.assert_array_equal(signed.detach(), wanted)
    assert (wanted < 0.0).any() and (wanted > 0.0).any()
    (slope,) = torch.autograd.grad(signed.sum(), points)
    (plain,) = torch.autograd.grad(diff.distance(tree, points).sum(), points)
    np.testing.assert_array_equal(slope, torch.where(signed < 0.0, -1.0, 1.0)[:, None] * plain)
    with pytest.raises(ValueError, match="method must be 'parity' or 'winding'"):
        diff.signed_distance(tree, points, method="guess")
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match="max_distance must be a number of at least 0"):
            diff.distance(tree, points, max_distance=bad)
    with pytest.raises(ValueError, match="max_distance must be a number of at least 0"):
        diff.distance(tree, points, max_distance=np.array(-1.0))
    with pytest.raises(ValueError, match="data must be None where there is no filter"):
        diff.closest_hit(tree, points, [0.0, 0.0, 1.0], data=3)


def test_told_at_the_line_of_the_caller() -> None:
    """Not at one of PyTorch's, which calls ours."""
    tree = bvh.BVH.from_triangles(np.eye(3), [[0, 1, 2]])
    with pytest.warns(bvh.BVHWarning, match="has open edges") as told:
        diff.signed_distance(tree, torch.ones(3, requires_grad=True))
    assert [x.filename for x in told] == [__file__]


def test_misses_and_limits() -> None:
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    points = tensor([[0, 0, 9.0], [np.nan, 0, 0], [0.25, 0.25, 1.0]], requires_grad=True)
    near = diff.closest_point(tree, points, max_distance=tensor([2.0, 2.0, 2.0]))
    assert near.mask.tolist() == [False, False, True] and near.prim_id.dtype == torch.int32
    (near.distance.square() + near.position.sum(-1)).sum().backward()
    assert points.grad.tolist() == [[0, 0, 0], [0, 0, 0], [1.0, 1.0, 2.0]]
    one = diff.closest_point(tree, torch.ones(3), max_distance=5)
    assert one.distance.shape == () and one.prim_id.dtype == torch.int32
    with pytest.raises(ValueError, match="points must have shape"):
        diff.distance(tree, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"tree\.refit"):
        diff.signed_distance(tree, [1.0, 2.0, 3.0], torch.ones(3, 3))


def test_transforms_of_functions(rng: Generator) -> None:
    tree = bvh.BVH.from_triangles(*sphere())
    points = tensor(rng.normal(size=(5, 3)))
    whole = torch.func.jacrev(lambda p: diff.distance(tree, p))(points)
    slopes = torch.func.vmap(torch.func.grad(lambda p: diff.distance(tree, p)))(points)
    np.testing.assert_array_equal(slopes, torch.einsum("iij->ij", whole))


@pytest.mark.parametrize("name", ["find_pose", "fit_surface"])
def test_examples(name: str) -> None:
    """What they look for, they find."""
    from importlib import import_module

    before, after = getattr(import_module(f"bvh.docs.programs.{name}"), name)()
    assert after < 0.05 * before
