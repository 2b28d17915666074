"""Arrays of libraries on a device: read in place, and answers in their library; rays of cameras."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import trimesh
import warp as wp

import bvh
from bvh.devices import exchange, transfers
from bvh.devices.exchange import read
from tests.cases.libraries import NAMES, Arrays, library, plain
from tests.oracles.devices import DEVICE, assert_same

TREE = bvh.BVH.from_mesh(trimesh.creation.icosphere(2))
CAMERA = bvh.Camera.look_at([0.5, 1.0, 4.0], [0, 0, 0], [0, 1, 0], 40, 32, 24)


def check(found: Any, wanted: Any, kind: type, as_numpy: Any) -> None:
    """Compare a result column by column, all of one kind."""
    for name in vars(wanted):
        if not name.startswith("_") and name != "shape":
            column = getattr(found, name)
            assert isinstance(column, kind), name
            assert_same(as_numpy(column), getattr(wanted, name), name)


def make_on_device(arrays: Arrays) -> Callable[[np.ndarray], Any]:
    """Return what makes arrays of a library on the device; skip where the library has it not."""
    if arrays.name == "torch":
        return lambda rows: arrays.make(rows).to(DEVICE)
    on_cpu = wp.get_device(DEVICE).is_cpu
    if not on_cpu and (arrays.name != "jax" or sys.modules["jax"].default_backend() != "gpu"):
        pytest.skip(f"{arrays.name} has no arrays on {DEVICE}")
    return arrays.make


def in_numpy(value: Any) -> np.ndarray:
    """Return an array of a library, on any device, as numpy's."""
    return plain(value.cpu() if hasattr(value, "cpu") else value)


@pytest.mark.parametrize("name", NAMES)
def test_libraries(name: str) -> None:
    """PyTorch, JAX, and a strict library of the array API."""
    there, (o, d) = TREE.to(DEVICE), CAMERA.rays()
    with library(name) as arrays:
        make = make_on_device(arrays)
        given = make(o.copy()), make(d.copy())
        check(there.closest_hit(*given), TREE.closest_hit(o, d), arrays.kind, in_numpy)
        check(there.all_hits(*given), TREE.all_hits(o, d), arrays.kind, in_numpy)
        assert isinstance(there.any_hit(*given), arrays.kind)
        check(there.closest_point(given[0]), TREE.closest_point(o), arrays.kind, in_numpy)
        inside = there.contains(make(0.3 * d))
        assert isinstance(inside, arrays.kind)
        assert_same(in_numpy(inside), TREE.contains(0.3 * d))


def test_libraries_without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of CuPy before version 14: functions are those of the module of their class."""
    module: Any = ModuleType("oldlibrary")
    module.from_dlpack, module.reshape = np.from_dlpack, np.reshape
    monkeypatch.setitem(sys.modules, "oldlibrary", module)
    like = type("ndarray", (), {"__module__": "oldlibrary.core"})()
    answer = wp.array([1.0, 2.0, 3.0, 4.0], dtype=wp.float64, device="cpu")
    assert exchange.to_library(answer, (2, 2), like).tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("camera", [
    CAMERA, bvh.Camera.orthographic([0, 0, 9], [0, 0, 0], [0, 1, 0], 4.0, 20, 10),
])  # fmt: skip
def test_warp_and_cameras(camera: bvh.Camera) -> None:
    """Rays of cameras are made there, by the same operations; answers stay there."""
    there, (o, d) = TREE.to(DEVICE), camera.rays()
    origins, directions = camera.rays(DEVICE)
    assert_same(np.broadcast_to(origins.numpy(), o.shape), o)
    assert_same(np.broadcast_to(directions.numpy(), d.shape), d)
    hits = there.closest_hit(origins, directions, mask=0xFFFFFFFF)
    check(hits, TREE.closest_hit(o, d), wp.array, lambda column: column.numpy())
    places = wp.array(o.reshape(-1, 3), dtype=wp.vec3d, device=DEVICE)
    near = there.closest_point(places)
    assert near.position.dtype is wp.vec3d
    assert_same(near.position.numpy(), TREE.closest_point(o.reshape(-1, 3)).position)
    # One point for several limits.
    one, limits = places[:1], wp.array([0.5, 9.0], dtype=wp.float64, device=DEVICE)
    assert_same(there.distance(one, limits).numpy(), TREE.distance(o.reshape(-1, 3)[0], [0.5, 9.0]))


def test_read_in_place() -> None:
    """What is float64 and contiguous is not copied; other numbers are converted."""
    device, rows = wp.get_device(DEVICE), np.arange(12.0).reshape(2, 2, 3)
    given = wp.array(rows, dtype=wp.float64, device=device)
    array, shape = read("points", given, device, wp.vec3d)
    assert (array.ptr, shape) == (given.ptr, (2, 2))
    for other in (wp.array(rows, dtype=wp.float32, device=device), given[:, :1]):
        array, shape = read("points", other, device, wp.vec3d)
        assert shape == other.shape[:2]
        assert array.numpy().tolist() == other.numpy().reshape(-1, 3).tolist()
    with pytest.raises(ValueError, match=r"points must have shape \(..., 3\), got \(2, 2\)"):
        read("points", np.ones((2, 2)), device, wp.vec3d)
    with pytest.raises(TypeError, match="points must be numbers"):
        read("points", ["a"], device, wp.vec3d)


def test_gradients(rng: np.random.Generator) -> None:
    """Functions of `bvh.torch` search a tree on a device, with the gradients of one on the CPU."""
    torch = pytest.importorskip("torch")
    import bvh.torch

    there, places = TREE.to(DEVICE), rng.normal(size=(2, 40, 3))
    for query in ("closest_hit", "closest_point", "signed_distance"):
        found = []
        for tree in (TREE, there):
            given = [torch.tensor(rows, requires_grad=True) for rows in places]
            given = given if query == "closest_hit" else given[:1]
            corners = torch.tensor(TREE.vertices.copy(), requires_grad=True)
            result = getattr(bvh.torch, query)(tree, *given, corners)
            value = result if query == "signed_distance" else result[0]
            value[value.isfinite()].sum().backward()
            found.append([value.detach(), corners.grad, *(rows.grad for rows in given)])
        for ours, wanted in zip(*found, strict=True):
            assert_same(ours.numpy(), wanted.numpy(), query)


@pytest.mark.parametrize("in_scene", [False, True])
@pytest.mark.parametrize(
    "sizes", [(17, 100), pytest.param((1, 16, 32), marks=pytest.mark.long)], ids=str
)
def test_chunks(
    in_scene: bool, sizes: tuple[int, ...], rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Arrays of numpy larger than a chunk; some rays of each are left to the CPU."""
    host: Any = TREE
    if in_scene:
        host = bvh.Scene()
        host.add_many(TREE, [np.eye(4), np.diag([0.5, 1.0, -2.0, 1.0])])
    there = host.to(DEVICE)
    monkeypatch.setattr(transfers, "CHUNK", 16)
    for n in sizes:
        o, d = rng.normal(size=(2, n, 3))
        o[::5] *= 1e9
        d[::5] = -o[::5]
        limits, masks = rng.random((2, n)), rng.integers(0, 2, n)
        for rays in ((o, d), (o[0], d), (o, d[0], -limits[0], limits[1]), (o, d, -1.0, limits[1])):
            for options in ({}, {"mask": masks}):
                wanted, found = (x.closest_hit(*rays, **options) for x in (host, there))
                assert_same(found, wanted)
                assert_same(found.position, wanted.position)
                assert there.undecided or n == 1 or rays[0].ndim == 1 or "mask" in options
                assert_same(there.any_hit(*rays, **options), host.any_hit(*rays, **options))
                assert_same(there.count_hits(*rays, **options), host.count_hits(*rays, **options))
                for most in (None, 1):
                    found, wanted = (
                        x.all_hits(*rays, max_hits=most, **options) for x in (there, host)
                    )
                    assert_same(found, wanted)
                    assert_same(found.position, wanted.position)
        if not in_scene:
            for near in (limits[0], 0.5):
                assert_same(there.closest_point(o, near), host.closest_point(o, near))
            assert_same(there.signed_distance(o), host.signed_distance(o))
            assert_same(there.contains(0.9 * d), host.contains(0.9 * d))
    grid = np.zeros((5, 7, 3)) + [0.1, 0.2, 5.0]
    assert there.closest_hit(grid, [0.0, 0.0, -1.0]).t.shape == (5, 7)
