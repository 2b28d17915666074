"""`bvh.jax`: values of the tree and derivatives, compiled and in batches."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.families import FAMILIES, build, cube, sphere

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import bvh.jax as diff  # noqa: E402

Generator = np.random.Generator


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def flushed(values: Any) -> Any:
    """Return numbers with 0 for what is below the smallest normal one, as JAX may do."""
    array = np.asarray(values)
    if array.dtype != np.float64:
        return array
    return np.where(np.abs(array) < np.finfo(float).tiny, 0.0, array)


# Each is compiled anew by JAX, which takes seconds.
TEN = [name for name in FAMILIES if name[:6] != "beyond"][::10]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if i % 4 else pytest.mark.long)
        for i, n in enumerate(TEN)
    ],
)
def test_values_are_those_of_the_tree(name: str, seed: int) -> None:
    """Bit for bit, but for subnormal numbers, with gradients that are never NaN."""
    family = build(name, seed)
    tree = bvh.BVH.from_triangles(family.vertices, family.faces)
    o, d, points = family.origins, family.directions, family.origins

    def total(o: Any, d: Any, v: Any) -> Any:
        hits, near = diff.closest_hit(tree, o, d, v), diff.closest_point(tree, o, v)
        signed = diff.signed_distance(tree, o, v)
        values = hits.t + hits.u + hits.position.sum(-1) + near.distance + near.u + signed
        return values.sum(), (hits, near, signed)

    function = jax.jit(jax.grad(total, (0, 1, 2), has_aux=True))
    slopes, (hits, near, signed) = function(o, d, tree.vertices)
    for found, want, fields in (
        (hits, tree.closest_hit(o, d), "t prim_id u v front mask"),
        (near, tree.closest_point(points), "distance prim_id u v position mask"),
    ):
        for field in fields.split():
            np.testing.assert_array_equal(
                flushed(getattr(found, field)), flushed(getattr(want, field))
            )
    np.testing.assert_array_equal(flushed(signed), flushed(tree.signed_distance(points)))
    assert not any(np.isnan(slope).any() for slope in slopes)


def test_signs_by_winding_numbers(rng: Generator) -> None:
    """Of a mesh with a hole, as the tree has them; what is refused is refused before JAX calls."""
    vertices, faces = sphere()
    tree, points = bvh.BVH.from_triangles(vertices, faces[5:]), rng.uniform(-1.5, 1.5, (50, 3))
    signed = diff.signed_distance(tree, points, method="winding")
    wanted = tree.signed_distance(points, method="winding")
    np.testing.assert_array_equal(signed, wanted)
    assert (wanted < 0.0).any() and (wanted > 0.0).any()
    with pytest.raises(ValueError, match="method must be 'parity' or 'winding'"):
        diff.signed_distance(tree, points, method="guess")
    with pytest.raises(ValueError, match="max_distance must be a number of at least 0"):
        diff.closest_point(tree, points, max_distance=-1.0)
    for bad in ({"mask": -1}, {"threads": 0}, {"cull": "both"}, {"filter": 3}):
        with pytest.raises((TypeError, ValueError), match=f"{next(iter(bad))} must be "):
            diff.closest_hit(tree, points, points, **bad)
    with pytest.raises(ValueError, match="mask must be one number"):
        diff.distance(tree, points, mask=[1, 2])
    with pytest.raises(ValueError, match="data must be None where there is no filter"):
        diff.closest_hit(tree, points, [0.0, 0.0, 1.0], data=3)


def test_gradients_are_those_of_differences(rng: Generator) -> None:
    """Backward and forward; the tree is refitted between calls."""
    vertices, faces = cube(1.0)
    vertices = vertices + rng.uniform(-0.1, 0.1, vertices.shape)
    tree = bvh.BVH.from_triangles(vertices, faces)
    origins = rng.uniform(2.0, 3.0, (6, 3)) * rng.choice([-1.0, 1.0], (6, 3))
    directions = rng.uniform(-0.3, 0.3, (6, 3)) - origins
    points = rng.choice([0.3, 2.0], (6, 3)) + rng.uniform(-0.05, 0.05, (6, 3))

    def hits(o: Any, d: Any) -> Any:
        found = diff.closest_hit(tree, o, d)
        return found.t, found.u, found.v, found.position

    def near(p: Any) -> Any:
        found = diff.closest_point(tree, p)
        return found.distance, found.position, diff.signed_distance(tree, p)

    check_grads(hits, (origins, directions), order=1, rtol=1e-3)
    check_grads(near, (points,), order=1, rtol=1e-3)
    function = jax.jit(lambda v: diff.distance(tree, points, v).sum())
    slope = jax.grad(function)(vertices)
    way, step = rng.normal(size=vertices.shape), 1e-6
    ends = []
    for sign in (1.0, -1.0):
        moved = vertices + sign * step * way
        tree.refit(moved)
        ends.append(float(function(moved)))
    assert abs((ends[0] - ends[1]) / (2 * step) - float((slope * way).sum())) < 1e-6


def test_a_batch_is_one_call(monkeypatch: pytest.MonkeyPatch, rng: Generator) -> None:
    tree = bvh.BVH.from_triangles(*sphere())
    calls = []
    query = bvh.BVH.closest_hit

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(np.shape(args[0]))
        return query(self, *args, **options)

    monkeypatch.setattr(bvh.BVH, "closest_hit", counted)
    o, d = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))

    def t_of(o: Any, d: Any, v: Any) -> Any:
        return diff.closest_hit(tree, o, d, v).t

    slope = jax.grad(t_of, (0, 1, 2))
    pairs = jax.vmap(jax.vmap(slope, (None, 0, None)), (0, None, None))
    by_o, by_d, by_v = jax.jit(pairs)(o, d, tree.vertices)
    assert len(calls) == 1
    assert by_o.shape == by_d.shape == (4, 5, 3) and by_v.shape == (4, 5, *tree.vertices.shape)
    t = jax.vmap(jax.vmap(t_of, (None, 0, None)), (0, None, None))(o, d, tree.vertices)
    np.testing.assert_array_equal(t, query(tree, o[:, None], d).t)
    one = slope(o[1], d[2], tree.vertices)
    for whole, single in zip((by_o, by_d, by_v), one, strict=True):
        np.testing.assert_allclose(whole[1, 2], single)
    assert jax.hessian(t_of)(o[1], d[2], tree.vertices).shape == (3, 3)


def test_shapes_and_types() -> None:
    tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    one = diff.closest_hit(tree, [1, 1, 2], (0, 0, -1))
    assert one.t.shape == () and one.t.dtype == jnp.float64 and one.prim_id.dtype == jnp.int32
    origins = jnp.ones((2, 1, 3), jnp.float32)
    t_max = jnp.array([9.0, 9.0, 0.5])
    found = diff.closest_hit(tree, origins, [0.0, 0.0, -1.0], t_max=t_max)
    assert found.mask.tolist() == [[True, True, False]] * 2
    slope = jax.grad(lambda o: diff.closest_hit(tree, o, [0.0, 0.0, -1.0]).t.sum())(origins)
    assert slope.dtype == jnp.float32 and slope.shape == (2, 1, 3)
    assert diff.distance(tree, np.zeros((0, 3))).shape == (0,)


def test_shapes_alone() -> None:
    """Nothing is searched."""
    tree = bvh.BVH.from_triangles([[0, 0, 0], [4, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    rays = jax.ShapeDtypeStruct((7, 3), jnp.float32)
    shapes = jax.eval_shape(lambda o, d: diff.closest_hit(tree, o, d), rays, rays)
    assert shapes.position.shape == (7, 3) and shapes.prim_id.dtype == jnp.int32
    slope = jax.eval_shape(jax.grad(lambda p: diff.distance(tree, p).sum()), rays)
    assert (slope.shape, slope.dtype) == ((7, 3), jnp.float32)


def test_refusals() -> None:
    tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    point = np.ones(3)
    with pytest.raises(TypeError, match="tree must be a BVH, got Scene"):
        diff.distance(bvh.Scene(), point)
    with pytest.raises(ValueError, match="points must have shape"):
        diff.distance(tree, [1.0])
    with pytest.raises(ValueError, match="vertices must have the shape"):
        diff.distance(tree, point, np.ones((2, 3)))
    with pytest.raises(Exception, match=r"tree\.refit"):
        jax.block_until_ready(diff.distance(tree, point, np.ones((3, 3))))


def test_float64_must_be_on() -> None:
    program = """
import bvh.jax
tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
try:
    bvh.jax.distance(tree, [1.0, 2.0, 3.0])
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "jax.config.update('jax_enable_x64', True)" in done.stdout, done.stderr


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
