"""Arrays of other libraries that queries refuse; the message says what to do with them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.families import sphere
from tests.cases.libraries import Arrays, aimed


@pytest.fixture(scope="module")
def tree() -> bvh.BVH:
    return bvh.BVH.from_triangles(*sphere(2))


def test_two_libraries(torch: Any, tree: bvh.BVH) -> None:
    strict = pytest.importorskip("array_api_strict")
    origins, directions = aimed(4)
    with pytest.raises(TypeError, match=r"origins and t_max must be .* torch.Tensor and array_api"):
        tree.any_hit(torch.from_numpy(origins), directions, 0.0, strict.asarray(np.ones(4)))
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match=r"directions and origins must be .* Dask's and torch"):
        tree.any_hit(torch.from_numpy(origins), da.from_array(directions))


class Elsewhere:
    """An array on a GPU, as far as it is asked."""

    device = "cuda:1"
    dtype = "float64"
    shape = (4, 3)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("the memory of a GPU was asked for")


def test_arrays_elsewhere(tree: bvh.BVH) -> None:
    origins = aimed(4)[0]
    with pytest.raises(TypeError, match=r"directions must be on the CPU, .*Elsewhere on cuda:1"):
        tree.closest_hit(origins, Elsewhere())
    with pytest.raises(TypeError, match=r"vertices must be on the CPU, .*Elsewhere on cuda:1"):
        bvh.BVH.from_triangles(Elsewhere(), [[0, 1, 2]])


def test_tensors_without_memory(torch: Any, tree: bvh.BVH) -> None:
    for bad in (torch.zeros(4, 3, device="meta"), torch.zeros(4, 3).to_sparse()):
        with pytest.raises(TypeError, match="points must be"):
            tree.distance(bad)
    with pytest.raises(TypeError, match=r"points must be .*bfloat16"):
        tree.distance(torch.zeros(4, 3, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match=r"points must be real numbers.*complex"):
        tree.distance(torch.zeros(4, 3, dtype=torch.complex128))


def test_gradients(torch: Any, tree: bvh.BVH) -> None:
    points = torch.from_numpy(aimed(4)[0])
    bound = points.clone().requires_grad_()
    for call in (lambda: tree.distance(bound), lambda: bvh.BVH.from_triangles(bound, [[0, 1, 2]])):
        with pytest.raises(TypeError, match=r"requires grad.*\.detach\(\).*bvh\.torch"):
            call()
    wanted = tree.distance(points)
    assert torch.equal(tree.distance(bound.detach()), wanted)
    with torch.no_grad():
        assert torch.equal(tree.distance(bound), wanted)


def test_jax_without_64_bits(tree: bvh.BVH) -> None:
    pytest.importorskip("array_api_compat")
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        origins, directions = map(jax.numpy.asarray, aimed(4))
        with pytest.raises(TypeError, match=r"float64 would be rounded .*jax_enable_x64"):
            tree.closest_hit(origins, directions)
        # Answers without numbers have nothing to lose.
        found = tree.any_hit(origins, directions)
        assert isinstance(found, jax.Array)
        assert found.tolist() == tree.any_hit(np.asarray(origins), np.asarray(directions)).tolist()


def test_jax_that_traces(tree: bvh.BVH) -> None:
    pytest.importorskip("array_api_compat")
    jax = pytest.importorskip("jax")
    origins, directions = aimed(4)
    with pytest.raises(TypeError, match=r"origins must be .* JAX traces.*bvh\.jax"):
        jax.jit(lambda rays: tree.any_hit(rays, directions))(origins)


def test_without_array_api_compat(
    arrays: Arrays, tree: bvh.BVH, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries name what to install; trees, which are no arrays, need nothing."""
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    points = arrays.make(aimed(4)[0])
    with pytest.raises(ImportError, match=r'points is .*pip install "raybvh\[arrays\]"'):
        tree.distance(points)
    assert len(bvh.BVH.from_boxes(points, points)) == 4
