"""Gradients of meshes of any size: exact where float64 has them, 0 beyond its range, never NaN."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bvh
from bvh.gradients import formulas
from bvh.gradients.formulas import ArrayLibrary
from tests.oracles.derivatives import closest, crossing, slopes

Array = NDArray[np.float64]
Generator = np.random.Generator
SCALES = [1e-320, 1e-310, 1e-300, 1e-162, 1e-155, 1e-154, 1e-77, 1.0, 1e77, 1e155, 1e200, 1e305]
KINDS = ["any", "round", "flat", "in a row", "needles"]


def a_mesh(rng: Generator, scale: float, kind: str = "any") -> tuple[Array, Array]:
    """Return vertices and faces."""
    vertices = rng.uniform(-1.0, 1.0, (5, 3))
    if kind == "round":
        vertices = np.round(2 * vertices) / 2
    elif kind == "flat":
        vertices[:, 2] *= 10.0 ** rng.uniform(-300, 0)
    elif kind == "in a row":
        vertices[1] = (vertices[0] + vertices[2]) / 2
    elif kind == "needles":
        vertices[1] = vertices[2] + 10.0 ** rng.uniform(-300, -10) * vertices[3]
    return vertices * scale, np.array([[0, 1, 2], [1, 2, 3], [0, 2, 4], [3, 1, 4]])


def some_queries(rng: Generator, vertices: Array, scale: float) -> tuple[Array, Array]:
    """Return points, some on vertices and edges or far away, and directions to faces."""
    points = rng.uniform(-2.0, 2.0, (6, 3)) * scale
    points[0], points[1] = vertices[0], vertices[1] / 2 + vertices[2] / 2
    points[2] *= min(10.0 ** rng.uniform(0, 20), 1e305 / scale)
    points[3] = rng.uniform(-2.0, 2.0, 3)
    ways = vertices[:3].mean(axis=0) / 2 - points / 2
    longest = np.abs(ways).max(axis=1, keepdims=True)
    ways = np.divide(ways, longest, where=longest > 0.0, out=np.ones_like(ways))
    return points, ways * 10.0 ** rng.choice([0, rng.uniform(-300, 300)])


def slope_of(gradients: list[Array], way: Array) -> tuple[Fraction, Fraction]:
    """Return a slope, and the largest of the terms it is a sum of."""
    pairs = zip(np.concatenate(gradients).flat, way.flat, strict=True)
    terms = [Fraction(float(x)) * Fraction(float(y)) for x, y in pairs]
    return sum(terms, Fraction()), max(map(abs, terms))


@pytest.mark.parametrize("query", ["closest_point", "closest_hit"])
@pytest.mark.parametrize("scale", SCALES)
def test_gradients_are_exact(query: str, scale: float, rng: Generator) -> None:
    """Of distance, t, u, v and position, by all arguments, against differences of fractions."""
    checked = 0
    library = ArrayLibrary(np, lambda x: x, partial(formulas.zero_unless_finite, np), lambda: False)
    while checked < 4:
        vertices, faces = a_mesh(rng, scale)
        tree = bvh.BVH.from_triangles(vertices, faces)
        points, directions = (x[4:5] for x in some_queries(rng, vertices, scale))
        directions = np.sign(directions) + directions / np.abs(directions).max()
        rays = query == "closest_hit"
        found: Any = tree.closest_hit(points, directions) if rays else tree.closest_point(points)
        corners = vertices[faces[found.prim_id]]
        weights = np.array([1.0 - found.u[0] - found.v[0], found.u[0], found.v[0]])
        free = np.flatnonzero(weights > 2.0**-51).tolist()
        edges = (corners[0, 1:] - corners[0, 0]) / np.ptp(corners)
        normal = np.cross(*edges)
        depth = abs(normal @ directions[0]) if rays else found.distance[0] / np.ptp(corners)
        if not found.mask[0] or np.linalg.norm(normal) < 0.05 or depth < 0.05:
            continue
        if weights[free].min() < 0.01:
            continue
        checked += 1
        value = found.t if rays else found.distance
        given: Any = (library, directions if rays else points, corners)
        given = (*given, value, found.u, found.v, found.mask)
        rows = np.concatenate([points, *([directions] if rays else []), corners[0]])
        way = np.round(rng.uniform(-1.0, 1.0, rows.shape) * 1024) / 1024
        exact = slopes(crossing if rays else partial(closest, free=free), rows, way)
        size = Fraction(float(np.ptp(corners)))
        for field, truth in {"value": exact[0], "u": exact[1], "v": exact[2],
                             "position": sum(exact[3:], Fraction())}.items():  # fmt: skip
            order = "value", "u", "v", "position"
            seeds = [np.full((1, 3) if x == "position" else 1, float(x == field)) for x in order]
            with np.errstate(all="ignore"):
                rule = formulas.HIT_RULE if rays else formulas.POINT_RULES[False]
                *by_queries, by_corners = rule.pull(*given, tuple(seeds))
            gradients = [*by_queries, by_corners[0]]
            assert all(np.isfinite(x).all() for x in gradients)
            slope, largest = slope_of(gradients, way)
            if field in "uv" and size < Fraction(1, 10**305):
                # Whole rows are beyond the range, or nearly.
                continue
            unit = 1 / size if field in "uv" else 1
            assert abs(slope - truth) <= Fraction(1, 10**7) * max(largest, unit), (field, rows)


@pytest.mark.parametrize("kind", KINDS)
def test_never_nan_in_torch(kind: str, rng: Generator) -> None:
    """Neither are derivatives of derivatives, nor infinite, and the distance keeps its own."""
    torch = pytest.importorskip("torch")
    import bvh.torch as diff

    for scale in SCALES:
        vertices, faces = a_mesh(rng, scale, kind)
        tree = bvh.BVH.from_triangles(vertices, faces)
        points, directions = some_queries(rng, vertices, scale)
        p, d, w = (torch.tensor(x, requires_grad=True) for x in (points, directions, vertices))
        near, signed = diff.closest_point(tree, p, w), diff.signed_distance(tree, p, w)
        hits = diff.closest_hit(tree, p, d, w)
        for found in (near.distance, near.u, near.v, near.position, signed, hits.t, hits.u,
                      hits.v, hits.position):  # fmt: skip
            value = found.nan_to_num(0.0, 0.0).sum()
            first = torch.autograd.grad(value, (p, d, w), create_graph=True, allow_unused=True)
            used = [x for x in first if x is not None]
            second = [torch.zeros(1)]
            if any(x.requires_grad for x in used):
                total = sum((x * torch.randn_like(x)).sum() for x in used)
                second = torch.autograd.grad(total, (p, d, w), allow_unused=True, retain_graph=True)
            for x in (*used, *(x for x in second if x is not None)):
                assert torch.isfinite(x).all(), scale
            if found is near.distance:
                off = near.distance.detach() > 1e-6 * scale
                sizes = first[0].norm(dim=1)[off]
                torch.testing.assert_close(sizes, torch.ones_like(sizes))


def test_sums_beyond_the_range() -> None:
    """A gradient that is a sum over rays is no inf - inf, whatever they are multiplied with."""
    torch = pytest.importorskip("torch")
    import bvh.torch as diff

    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]]) * 1e-307
    tree = bvh.BVH.from_triangles(vertices, [[0, 1, 2]])
    origin = torch.tensor([0.2e-307, 0.2e-307, 1e-307], dtype=torch.float64, requires_grad=True)
    w = torch.tensor(vertices, requires_grad=True)
    hits = diff.closest_hit(tree, origin, torch.tensor([[0.0, 0.0, -1.0]] * 4096), w)
    signs = torch.tensor([9.0, -9.0] * 2048)
    for gradient in (torch.full((4096,), 9.0), signs, signs * torch.inf, signs * torch.nan):
        hits.u.backward(gradient.double(), retain_graph=True)
        assert torch.isfinite(origin.grad).all() and torch.isfinite(w.grad).all()


@pytest.mark.long
def test_never_nan_in_jax(rng: Generator) -> None:
    """Backward, forward and of derivatives, compiled once for meshes of any size."""
    jax = pytest.importorskip("jax")
    import bvh.jax as diff

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    tree = bvh.BVH.from_triangles(*a_mesh(rng, 1.0))

    def values(p: Any, d: Any, w: Any) -> Any:
        near, hits = diff.closest_point(tree, p, w), diff.closest_hit(tree, p, d, w)
        found = (near.distance, hits.t, near.position, near.u, hits.v, hits.position)
        masks = (near.mask, hits.mask, near.mask[:, None], near.mask, hits.mask, hits.mask[:, None])
        return [jax.numpy.where(m, x, 0.0).sum() for m, x in zip(masks, found, strict=True)]

    def slope(way: Any, *given: Any) -> Any:
        results, pull = jax.vjp(values, *given)
        pulled = pull([jax.numpy.ones(())] * len(results))
        return sum((x * y).sum() for x, y in zip(pulled, way, strict=True)), pulled

    @jax.jit
    def derivatives(way: Any, *given: Any) -> Any:
        second, first = jax.grad(slope, (1, 2, 3), has_aux=True)(way, *given)
        return first, second, jax.jvp(values, given, way)[1]

    for scale in SCALES:
        for kind in KINDS:
            vertices, _ = a_mesh(rng, scale, kind)
            tree.refit(vertices)
            given = (*some_queries(rng, vertices, scale), vertices)
            way = tuple(rng.normal(size=x.shape) for x in given)
            for x in jax.tree.leaves(derivatives(way, *given)):
                assert np.isfinite(x).all(), (scale, kind)
    jax.config.update("jax_enable_x64", before)
