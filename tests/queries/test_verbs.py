"""Declarations of queries against what the queries take and return."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from inspect import signature
from typing import Any

import numpy as np
import pytest

import bvh
from bvh.queries.verbs import COLUMN_TYPES, Merge, Verb, verb_of

POINTS = np.array([[0.2, 0.2, 1.0], [5.0, 5.0, 1.0]])
GIVEN = {
    "origins": POINTS, "directions": np.array([0.0, 0.0, -1.0]), "points": POINTS, "p": POINTS,
    "q": -POINTS, "lower": POINTS - 1.0, "upper": POINTS, "center": POINTS, "radius": 1.0,
    "planes": np.array([[[0.0, 0.0, 1.0, 1.0]]]), "prim_id": [0, -1], "leaf": [0, -1],
}  # fmt: skip


def targets() -> list[Any]:
    tree, scene = (
        bvh.BVH.from_triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]),
        bvh.Scene(),
    )
    scene.add(tree)
    return [tree, scene]


def declared(target: Any) -> list[Verb]:
    """Return the declarations of a target's methods."""
    found = (verb_of(getattr(type(target), name)) for name in dir(type(target)) if name[0] != "_")
    return [each for each in found if each is not None]


@pytest.mark.parametrize("target", targets(), ids=lambda target: type(target).__name__)
@pytest.mark.filterwarnings("ignore::bvh.BVHWarning")
def test_results_are_as_declared(target: Any) -> None:
    in_scene = isinstance(target, bvh.Scene)
    verbs = declared(target)
    assert len(verbs) == 14
    for verb in verbs:
        query = getattr(target, verb.name)
        assert verb_of(query) is verb
        parameters = list(signature(query).parameters)
        assert verb.options == [name for name in parameters if name not in verb.arrays]
        assert set(verb.arrays) <= set(parameters)
        arguments = {name: GIVEN[name] for name in verb.arrays if name in GIVEN}
        for name, value in arguments.items():
            tail = verb.arrays[name]
            shape = np.shape(value)[np.ndim(value) - len(tail) :]
            assert all(k in (-1, size) for k, size in zip(tail, shape, strict=True)), verb.name
        for options in ({}, {"counters": True}) if "counters" in parameters else ({},):
            found = query(**arguments, **options)
            record, columns = verb.record, verb.columns(in_scene, bool(options))
            if record is None:
                assert not is_dataclass(found) and columns == {verb.name: np.asarray(found).dtype}
                continue
            assert type(found) is record
            assert columns == {
                field.name: getattr(found, field.name).dtype
                for field in fields(record)
                if field.name not in ("offsets", "shape") and getattr(found, field.name) is not None
            }
            assert columns.keys() <= COLUMN_TYPES.keys()


def test_lists_are_merged_as_lists() -> None:
    tree, _ = targets()
    for verb in declared(tree):
        record = verb.record
        lists = record is not None and "offsets" in {field.name for field in fields(record)}
        assert lists == (verb.merge is Merge.LISTS), verb.name


def test_others_are_not_declared() -> None:
    tree, scene = targets()
    assert verb_of(tree.overlap_tree) is verb_of(scene.collisions) is verb_of(len) is None
