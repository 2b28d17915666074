"""Functions of `bvh.torch` and `bvh.jax` are declared once, and are functions of their modules."""

from __future__ import annotations

import inspect
import pickle
from importlib import import_module
from typing import get_type_hints

import pytest

import bvh

QUERIES = ("closest_hit", "closest_point", "distance", "signed_distance", "winding_number")


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_functions_of_their_module(library: str) -> None:
    """With explicit parameters, and an example of their own library."""
    pytest.importorskip(library)
    module = import_module(f"bvh.{library}")
    for name in QUERIES:
        query = getattr(module, name)
        assert (query.__module__, query.__qualname__) == (module.__name__, name)
        assert pickle.loads(pickle.dumps(query)) is query
        assert get_type_hints(query)["tree"] is bvh.BVH
        parameters = list(inspect.signature(query).parameters.values())
        assert [p.name for p in parameters[:2]] == ["tree", parameters[1].name]
        kinds = {p.kind for p in parameters}
        assert kinds == {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        doc = inspect.getdoc(query) or ""
        assert f">>> import bvh.{library}" in doc and "$" not in doc
        assert module.__test__[name] is query
    assert set(QUERIES) < set(module.__all__)


def test_the_same_parameters() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    for name in QUERIES:
        one, other = (getattr(import_module(f"bvh.{x}"), name) for x in ("torch", "jax"))
        assert inspect.signature(one) == inspect.signature(other)


@pytest.mark.parametrize("name", ["HitTuple", "PointTuple"])
def test_results_are_plain_named_tuples(name: str) -> None:
    """PyTorch looks for the one base `tuple`; type checkers know of what arrays they are."""
    kind = getattr(import_module("bvh.gradients.queries"), name)
    assert kind.__bases__ == (tuple,)
    found = kind(*range(len(kind._fields)))
    assert pickle.loads(pickle.dumps(found)) == found and type(found._replace(u=3)) is kind
