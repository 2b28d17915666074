"""`margin`: disjoint solids of at most this distance touch; against all pairs of faces."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import trimesh

import bvh
from bvh import BVH, Scene
from tests.oracles.scene_clearances import triangle_distances
from tests.surfaces.test_relations import box

SHAPES = [
    trimesh.creation.box(),
    trimesh.creation.icosphere(1),
    trimesh.creation.torus(1.0, 0.3, major_sections=8, minor_sections=5),
]


def placed(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return motions into a small room."""
    turns = [trimesh.transformations.random_rotation_matrix(rng.random(3)) for _ in range(count)]
    motions = np.array(turns)
    motions[:, :3, 3] = rng.uniform(-2.0, 2.0, (count, 3))
    return motions


def brute(first: np.ndarray, second: np.ndarray) -> float:
    """Return the distance of two sets of faces (m, 3, 3)."""
    return float(triangle_distances(first, second)[0].min())


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.long)])
def test_margins_of_pairs(count: int, rng: np.random.Generator) -> None:
    """Of disjoint solids alone; in a batch, and one by one; other relations stay."""
    seen = set()
    for motion in placed(rng, count):
        a, b = rng.choice(3, 2)
        first, second = BVH.from_mesh(SHAPES[a]), BVH.from_mesh(SHAPES[b])
        moved = second.vertices @ motion[:3, :3].T + motion[:3, 3]
        gap = brute(first.vertices[first.faces], moved[second.faces])
        steps = np.stack([motion, motion])
        steps[1, 2, 3] += 40.0
        how = first.relation(second, motion)
        for margin in (0.0, 0.5 * gap, 0.999 * gap, 1.001 * gap, 10.0):
            touching = how == "disjoint" and margin >= gap
            wanted = "touching" if touching else how
            assert first.relation(second, motion, margin=margin) == wanted
            assert first.relation(second, steps, margin=margin).tolist() == [wanted, "disjoint"]
            other = BVH.from_triangles(moved, second.faces)
            assert first.relation(other, margin=margin) == wanted
            seen.add((how, touching))
    assert {("disjoint", True), ("disjoint", False), ("overlapping", False)} <= seen


@pytest.mark.parametrize("count", [10, pytest.param(60, marks=pytest.mark.long)])
def test_margins_in_scenes(count: int, rng: np.random.Generator) -> None:
    """Relations and collisions, of which those without a margin are as they were."""
    scene, faces = Scene(), []
    for motion in placed(rng, count) * np.array([[1, 1, 1, 2]] * 3 + [[1, 1, 1, 1]]):
        mesh = SHAPES[rng.integers(3)]
        scene.add(mesh, motion)
    vertices, triangles, leaf, _ = scene.flattened()
    faces = [vertices[triangles[leaf == k]] for k in range(count)]
    gaps = {(a, b): brute(faces[a], faces[b]) for a, b in combinations(range(count), 2)}
    # The distances of faces that cross are 0, which `brute` does not compute.
    gaps |= dict.fromkeys(map(tuple, scene.collisions().tolist()), 0.0)
    exact = scene.relations()
    before = dict(zip(map(tuple, exact.instance_id.tolist()), exact.relation.tolist(), strict=True))
    for margin in (0.0, 0.1, 0.7):
        near = [list(pair) for pair, gap in gaps.items() if gap <= margin]
        assert scene.collisions(margin=margin).tolist() == near
        found = scene.relations(margin=margin)
        wanted = {p: before.get(p, "touching") for p in gaps if p in before or gaps[p] <= margin}
        pairs = map(tuple, found.instance_id.tolist())
        assert dict(zip(pairs, found.relation.tolist(), strict=True)) == wanted
        assert sorted(wanted) == list(map(tuple, found.instance_id.tolist()))
    assert 0 < len(before) < len(wanted) < len(gaps)
    ignored = scene.collisions(margin=0.7)[:2]
    assert len(scene.collisions(margin=0.7, ignore=ignored)) == len(near) - 2
    assert len(scene.relations(margin=0.7, ignore=ignored)) == len(wanted) - 2


def test_a_margin_is_inclusive_and_none_is_exact() -> None:
    """A gap of one unit in the last place is a gap, unless the margin is that much."""
    unit = 2.0**-52
    first, second = box([0, 0, 0], [1, 1, 1]), box([1.0 + unit, 0, 0], [2, 1, 1])
    assert first.relation(second) == first.relation(second, margin=unit / 2) == "disjoint"
    assert first.relation(second, margin=unit) == "touching"
    assert first.relation(box([0.25] * 3, [0.5] * 3), margin=0.5) == "contains"
    assert first.relation(first, margin=9.0) == "equal"
    assert first.relation(second, margin=np.inf) == "touching"
    scene = Scene()
    scene.add(first)
    scene.add(second)
    assert len(scene.collisions(margin=unit / 2)) == len(scene.relations(margin=unit / 2)) == 0
    assert scene.collisions(margin=unit).tolist() == [[0, 1]]
    assert scene.relations(margin=unit).relation.tolist() == ["touching"]


def test_what_is_no_margin() -> None:
    """Is refused by name."""
    one = box([0, 0, 0], [1, 1, 1])
    scene = Scene()
    scene.add(one)
    for ask in (lambda m: one.relation(one, margin=m), lambda m: scene.relations(margin=m),
                lambda m: scene.collisions(margin=m)):  # fmt: skip
        for bad in (-1.0, np.nan, [0.1, 0.2]):
            with pytest.raises(ValueError, match="margin must be a number of at least 0"):
                ask(bad)
        for wrong in (None, "0.1", True):
            with pytest.raises(TypeError, match="margin must be"):
                ask(wrong)


def test_inside_of_an_instance_of_several_leaves() -> None:
    """Also where no box of a leaf meets that of what is inside: six sides of a cube."""
    cube, sides, scene = trimesh.creation.box([4.0] * 3), Scene(), Scene()
    for axis in range(3):
        for sign in (-1, 1):
            faces = cube.faces[cube.face_normals[:, axis] * sign > 0.5]
            sides.add(BVH.from_triangles(cube.vertices, faces, warn=False))
    scene.add(sides)
    scene.add(box([0.5] * 3, [1] * 3))
    assert scene.relations().relation.tolist() == ["contains"]
    assert len(scene.relations(ignore=[(1, 0)])) == 0
    assert bvh.Scene().relations(margin=1.0).instance_id.shape == (0, 2)
