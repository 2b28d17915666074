"""`bvh.torch` in functions that are compiled, by backends that need no compiler of C++."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import bvh
from tests.cases.families import sphere

torch = pytest.importorskip("torch")

import bvh.torch as diff  # noqa: E402

Generator = np.random.Generator


@pytest.fixture(autouse=True)
def _forget() -> Any:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def results(function: Any, points: Any, vertices: Any) -> list[Any]:
    """Return the value of a function of points and vertices, and its gradients."""
    given = [torch.tensor(x, requires_grad=True) for x in (points, vertices)]
    value = function(*given)
    return [value.detach(), *torch.autograd.grad(value, given)]


def test_the_same_as_without(rng: Generator) -> None:
    """In two graphs, compiled once, though the tree moves: values and gradients bit for bit."""
    tree = bvh.BVH.from_triangles(*sphere())
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def loss(points: Any, vertices: Any) -> Any:
        return (diff.distance(tree, points * 2.0, vertices) * 3.0).sum()

    compiled = torch.compile(loss, backend=backend)
    for factor in (1.0, 1.25, 1.5):
        vertices, points = tree.vertices * factor, rng.normal(size=(5, 3))
        tree.refit(vertices)
        for got, want in zip(
            *(results(f, points, vertices) for f in (compiled, loss)), strict=True
        ):
            assert torch.equal(got, want)
    assert len(graphs) == 2


@pytest.mark.parametrize("name", ["closest_hit", "closest_point", "signed_distance"])
def test_each_query(name: str, rng: Generator) -> None:
    tree = bvh.BVH.from_triangles(*sphere())

    def loss(points: Any, vertices: Any) -> Any:
        if name == "closest_hit":
            hits = diff.closest_hit(tree, points * 2.0, -points, vertices)
            return torch.where(hits.mask, hits.t, 0.0).sum() + hits.position[hits.mask].sum()
        if name == "closest_point":
            return (diff.closest_point(tree, points * 2.0, vertices).position ** 2).sum()
        return diff.signed_distance(tree, points * 2.0, vertices).sum()

    points = rng.normal(size=(4, 3))
    compiled = torch.compile(loss, backend="eager")
    pairs = zip(*(results(f, points, tree.vertices) for f in (compiled, loss)), strict=True)
    for got, want in pairs:
        assert torch.equal(got, want)


def test_one_graph_is_refused() -> None:
    tree = bvh.BVH.from_triangles(*sphere())
    compiled = torch.compile(lambda p: diff.distance(tree, p), backend="eager", fullgraph=True)
    with pytest.raises(RuntimeError, match="trees are searched between graphs"):
        compiled(torch.ones(2, 3))


def test_tensors_without_data() -> None:
    tree = bvh.BVH.from_triangles(*sphere())
    with pytest.raises(TypeError, match="points must have data"):
        diff.distance(tree, torch.zeros(2, 3, device="meta"))

    class Distance(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, points: Any) -> Any:
            return diff.distance(tree, points)

    with pytest.raises(TypeError, match="needs tensors with data"):
        torch.export.export(Distance(), (torch.ones(2, 3),), strict=False)


def test_the_compiler_is_not_imported() -> None:
    """It takes as long as PyTorch."""
    program = """
import sys, torch, bvh.torch
tree = bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
point = torch.ones(3, requires_grad=True)
bvh.torch.distance(tree, point).backward()
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
