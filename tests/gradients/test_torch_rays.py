"""`bvh.torch.closest_hit`: values of the tree, derivatives by rays and vertices."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.families import FAMILIES, build, sphere
from tests.oracles.derivatives import ExactRates

torch = pytest.importorskip("torch")

import bvh.torch as diff  # noqa: E402

Generator = np.random.Generator
double = torch.float64


def tensor(values: Any, **options: Any) -> Any:
    return torch.tensor(np.asarray(values), dtype=double, **options)


def some_rays(rng: Generator, n: int = 12) -> tuple[bvh.BVH, Any, Any]:
    """Return a tree, and rays that hit its faces away from their borders."""
    vertices, faces = sphere()
    vertices = vertices * rng.uniform(0.8, 1.2, (len(vertices), 1))
    tree = bvh.BVH.from_triangles(vertices, faces)
    weights = rng.dirichlet([4, 4, 4], n)[:, :, None]
    targets = (vertices[faces[rng.integers(0, len(faces), n)]] * weights).sum(axis=1)
    origins = rng.normal(size=(n, 3))
    origins *= 3.0 / np.linalg.norm(origins, axis=1, keepdims=True)
    directions = (targets - origins) * rng.uniform(0.3, 2.0, (n, 1))
    hits = tree.closest_hit(origins, directions)
    inner = hits.mask & (np.minimum(np.minimum(hits.u, hits.v), 1 - hits.u - hits.v) > 0.01)
    assert inner.sum() > 3
    return tree, origins[inner], directions[inner]


def moved_hits(tree: bvh.BVH) -> Any:
    """Return a function of rays and vertices, which refits the tree to these."""

    def function(origins: Any, directions: Any, vertices: Any) -> Any:
        tree.refit(vertices.detach().numpy())
        hits = diff.closest_hit(tree, origins, directions, vertices)
        return hits.t, hits.u, hits.v, hits.position

    return function


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
def test_values_are_those_of_the_tree(name: str, seed: int) -> None:
    """Bit for bit, with gradients that are never NaN."""
    family = build(name, seed)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    bounds = {"t_min": family.t_min, "t_max": family.t_max, "cull": family.cull}
    hits = tree.closest_hit(family.origins, family.directions, **bounds)
    given = [tensor(x, requires_grad=True) for x in (family.origins, family.directions)]
    vertices = tensor(family.vertices, requires_grad=True)
    found = diff.closest_hit(tree, *given, vertices, **bounds)
    for field in ("t", "prim_id", "u", "v", "front", "mask"):
        np.testing.assert_array_equal(getattr(found, field).detach().numpy(), getattr(hits, field))
    assert found.prim_id.dtype == torch.int32 and not found.front.requires_grad
    sum(x.sum() for x in (found.t, found.u, found.v, found.position)).backward()
    by_rays = given[0].grad, given[1].grad
    assert not any(torch.isnan(x).any() for x in (*by_rays, vertices.grad))
    assert not any(x[~found.mask].any() for x in by_rays)


def test_gradients_are_those_of_differences(rng: Generator) -> None:
    tree, origins, directions = some_rays(rng)
    given = [tensor(x, requires_grad=True) for x in (origins, directions, tree.vertices)]
    assert torch.autograd.gradcheck(
        moved_hits(tree), given, check_forward_ad=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(moved_hits(tree), given)


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_on_hostile_meshes(name: str, seed: int) -> None:
    """Of t, u and v, those of rational arithmetic, to what float64 allows."""
    if name.startswith(("beyond", "chaos_bits")):
        pytest.skip("no promise for such numbers")
    family = build(name, seed)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    o, d = (tensor(x, requires_grad=True) for x in (family.origins, family.directions))
    vertices = tensor(family.vertices, requires_grad=True)
    hits = diff.closest_hit(
        tree, o, d, vertices, t_min=family.t_min, t_max=family.t_max, cull=family.cull
    )
    fields = hits.t, hits.u, hits.v
    rows = [torch.autograd.grad(x.sum(), (o, d, vertices), retain_graph=True) for x in fields]
    by_origins = torch.stack([row[0] for row in rows], 1).numpy()
    by_directions = torch.stack([row[1] for row in rows], 1).numpy()
    t, u, v = (x.detach().numpy() for x in fields)
    for i in np.flatnonzero(hits.mask)[:20]:
        if by_origins[i].any():
            truth = ExactRates(d[i].tolist(), tree.vertices[tree.faces[hits.prim_id[i]]])
            assert truth.within(-by_origins[i]), f"ray {i}"
    hit = hits.mask.numpy() & np.isfinite(t)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = by_origins * t[:, None, None]
        # What is beyond the range of doubles is 0.
        wanted[~np.isfinite(wanted).all(axis=-1)] = 0.0
        np.testing.assert_array_equal(by_directions[hit], wanted[hit])
        for k in range(3):
            want = np.zeros_like(tree.vertices)
            weights = np.stack([1.0 - u - v, u, v], 1)[:, :, None]
            shares = np.where(hit[:, None, None], -weights * by_origins[:, None, k], 0.0)
            np.add.at(want, tree.faces[hits.prim_id[hit]], shares[hit])
            scale = np.abs(shares).max(initial=0.0)
            np.testing.assert_allclose(rows[k][2], want, rtol=1e-9, atol=1e-12 * scale)


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
def test_differences_on_hostile_meshes(name: str, seed: int) -> None:
    """Steps of a share of the face, where these are not lost in rounding."""
    family = build(name, seed)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    hits = tree.closest_hit(family.origins, family.directions)
    weights = np.stack([1.0 - hits.u - hits.v, hits.u, hits.v])
    inner = hits.mask & (np.nan_to_num(weights).min(axis=0) > 0.05) & np.isfinite(hits.t)
    checked = 0
    for i in np.flatnonzero(inner):
        corners = tree.vertices[tree.faces[hits.prim_id[i]]]
        o, d, t = family.origins[i], family.directions[i], abs(hits.t[i])
        size, speed = np.ptp(corners, axis=0).max(), np.abs(d).max()
        within = 1e-100 < min(size, speed) < max(size, speed) < 1e100 and t < 1e100
        if checked == 2 or not within or max(np.abs(o).max(), np.abs(corners).max()) > 100 * size:
            continue
        long, turn = max(size / speed, t), size / max(t, size / speed)
        truth = ExactRates(d, corners)
        steep = max(max(abs(x) for x in row) * Fraction(size) for row in truth.rows[1:])
        if truth.certainty < 0.05 or steep > 20:
            continue
        alone = bvh.BVH.from_triangles(corners, [[0, 1, 2]])

        def moved(*steps: Any, tree: Any = alone, at: Any = (o, d, corners), long: Any = long,
                  units: Any = (size, turn, size)) -> Any:  # fmt: skip
            rays = [tensor(x) + s * y for x, s, y in zip(at, units, steps, strict=True)]
            tree.refit(rays[2].detach().numpy())
            hit = diff.closest_hit(tree, *rays, t_min=-np.inf)
            return hit.t / long, hit.u, hit.v

        given = [tensor(np.zeros_like(x), requires_grad=True) for x in (o, d, corners)]
        assert torch.autograd.gradcheck(moved, given, eps=1e-7, atol=1e-4, rtol=1e-4), f"ray {i}"
        checked += 1


def test_what_has_no_derivative() -> None:
    """Misses, rays that graze, and faces without area have a gradient of 0."""
    vertices = tensor([[0, 0, 0], [4, 0, 0], [0, 4, 0], [8, 0, 0]], requires_grad=True)
    tree = bvh.BVH.from_triangles(vertices.detach().numpy(), [[0, 1, 2], [0, 1, 3]])
    origins = tensor([[9, 9, 1], [1, 1, 1], [1, 1, np.nan], [1, -1, 1]], requires_grad=True)
    directions = tensor([[0, 0, -1], [0, 0, 0], [0, 0, -1], [0, 1, -1e-30]], requires_grad=True)
    hits = diff.closest_hit(tree, origins, directions, vertices)
    assert not hits.mask.any() and torch.isinf(hits.t).all() and torch.isnan(hits.position).all()
    # Whatever they are multiplied with.
    (hits.t.square() + hits.u + hits.position.sum(-1)).sum().backward()
    for value in (origins, directions, vertices):
        assert not value.grad.any()


def test_a_ray_that_grazes() -> None:
    """Hit or miss is exact; the sign of n . d is not, in float64."""
    corners = [[0, 0, 0], [1, 1 / 3, 2 / 3], [1 / 3, 1, 2 / 3]]
    tree = bvh.BVH.from_triangles(corners, [[0, 1, 2]])
    direction = np.array(corners[1]) + corners[2]
    direction[2] = np.nextafter(direction[2], 2.0)
    origin = tensor(np.array([1 / 3, 1 / 3, 1 / 3]) - direction, requires_grad=True)
    hits = diff.closest_hit(tree, origin, direction, t_min=-np.inf)
    assert hits.mask
    hits.t.backward()
    assert torch.isfinite(origin.grad).all()


def test_shapes_types_and_devices() -> None:
    tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    one = diff.closest_hit(tree, [1, 1, 2], (0.0, 0.0, -1.0))
    assert one.t.shape == () and one.position.tolist() == [1.0, 1.0, 0.0] and bool(one.mask)
    assert one.t.dtype == double and not one.t.requires_grad
    origins = torch.rand(2, 1, 3, dtype=torch.float32, requires_grad=True)
    direction = torch.tensor([0.0, 0.0, -1.0], dtype=torch.float16, requires_grad=True)
    shifted = origins + torch.tensor([0.0, 0.0, 1.0])
    t_max = torch.tensor([9.0, 9.0, 0.001])
    hits = diff.closest_hit(tree, shifted, direction, t_max=t_max)
    assert hits.t.shape == (2, 3) and hits.position.shape == (2, 3, 3) and hits.t.dtype == double
    assert hits.mask.tolist() == [[True, True, False]] * 2
    hits.t[hits.mask].sum().backward()
    assert origins.grad.dtype == torch.float32 and origins.grad.shape == (2, 1, 3)
    assert direction.grad.dtype == torch.float16 and direction.grad.shape == (3,)
    np.testing.assert_array_equal(origins.grad, np.broadcast_to([0, 0, 2.0], (2, 1, 3)))
    empty = diff.closest_hit(tree, torch.zeros(0, 3), direction)
    assert empty.t.shape == (0,) and empty.position.shape == (0, 3)
    nothing = bvh.BVH.from_triangles(np.zeros((0, 3)), np.zeros((0, 3), int))
    none = torch.zeros(0, 3, requires_grad=True)
    hits = diff.closest_hit(nothing, origins, direction, none)
    assert not hits.mask.any()
    hits.t.sum().backward()
    assert none.grad is None or none.grad.shape == (0, 3)


def test_options_are_those_of_the_tree(rng: Generator) -> None:
    tree, origins, directions = some_rays(rng)
    hits = tree.closest_hit(origins, directions, 0.1, 9.0, cull="front", threads=1)
    found = diff.closest_hit(
        tree, origins, directions, t_min=0.1, t_max=9.0, cull="front", threads=1
    )
    np.testing.assert_array_equal(found.t, hits.t)
    np.testing.assert_array_equal(found.prim_id, hits.prim_id)


def test_transforms_of_functions(rng: Generator) -> None:
    """`torch.func` gives the same derivatives; a batch is searched once."""
    tree, origins, directions = some_rays(rng)
    o, d, vertices = tensor(origins), tensor(directions), tensor(tree.vertices)

    def t_of(o: Any, d: Any, v: Any) -> Any:
        return diff.closest_hit(tree, o, d, v).t

    one_by_one = torch.func.vmap(torch.func.grad(t_of, (0, 1, 2)), (0, 0, None))(o, d, vertices)
    whole = torch.func.jacrev(t_of, (0, 1, 2))(o, d, vertices)
    forward = torch.func.jacfwd(t_of, (0, 1, 2))(o, d, vertices)
    for single, back, ahead in zip(one_by_one, whole, forward, strict=True):
        torch.testing.assert_close(back, ahead)
        rows = (
            back if back.shape == single.shape else torch.stack([x[i] for i, x in enumerate(back)])
        )
        torch.testing.assert_close(single, rows)
    # The derivative of the derivative, both ways.
    twice = torch.func.hessian(t_of)(o[0], d[0], vertices)
    again = torch.func.jacrev(torch.func.jacrev(t_of))(o[0], d[0], vertices)
    torch.testing.assert_close(twice, again)
    # Two batches, of rays of different axes.
    grid = torch.func.vmap(torch.func.vmap(t_of, (None, 0, None)), (0, None, None))(o, d, vertices)
    np.testing.assert_array_equal(grid, tree.closest_hit(o[:, None].numpy(), d.numpy()).t)
    many = vertices.expand(2, *vertices.shape)
    np.testing.assert_array_equal(
        torch.func.vmap(t_of, (None, None, 0))(o, d, many)[1], tree.closest_hit(o, d).t
    )


def test_refusals() -> None:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    tree = bvh.BVH.from_triangles(vertices, [[0, 1, 2]])
    ray = [0.2, 0.2, 1.0], [0.0, 0.0, -1.0]
    boxes = bvh.BVH.from_boxes([[0, 0, 0]], [[1, 1, 1]])
    scene = bvh.Scene()
    scene.add(tree)
    for bad, error, text in (
        (lambda: diff.closest_hit(scene, *ray), TypeError, "tree must be a BVH, got Scene"),
        (lambda: diff.closest_hit(boxes, *ray), TypeError, "over triangles, not over boxes"),
        (lambda: diff.closest_hit(tree, *ray, vertices + 1), ValueError, "tree.refit"),
        (lambda: diff.closest_hit(tree, *ray, vertices[:2]), ValueError, r"tree's, \(3, 3\), got"),
        (lambda: diff.closest_hit(tree, [1, 2], ray[1]), ValueError, "origins must have shape"),
        (lambda: diff.closest_hit(tree, "x", ray[1]), TypeError, "origins must be a tensor"),
        (
            lambda: diff.closest_hit(tree, torch.ones(3, dtype=torch.bool), ray[1]),
            TypeError,
            "real",
        ),
        (lambda: diff.closest_hit(tree, torch.ones(2, 3), torch.ones(4, 3)), ValueError, "directi"),
        (lambda: diff.closest_hit(tree, *ray, cull="up"), ValueError, "cull must be"),
    ):
        with pytest.raises(error, match=text):
            bad()


def test_nothing_is_imported_before_it_is_wanted() -> None:
    program = "import sys, bvh; bvh.BVH, bvh.Scene, dir(bvh); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
    program = "import bvh; print(bvh.torch.closest_hit.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "closest_hit\n", done.stderr


@pytest.mark.parametrize("how", ["backwards", "big-endian", "columns of rows"])
def test_arrays_of_numpy_in_any_order(how: str) -> None:
    """The library has no such arrays, and they were refused."""
    given = np.array([[0.2, 0.1, 5.0], [0.1, 0.3, 2.0]])
    table = np.zeros(2, [("at", "u1"), ("place", float, 3)])
    table["place"] = given
    others = {"backwards": given[::-1].copy()[::-1], "big-endian": given.astype(">f8")}
    origins = others.get(how, table["place"])
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    assert diff.closest_hit(tree, origins, [0.0, 0.0, -1.0]).t.tolist() == [5.0, 2.0]
